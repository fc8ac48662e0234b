"""The settings of Sphinx for the site; docs/site/build.py prepares the pages."""

from pathlib import Path

project = "hybridc"
html_title = "hybridc"
extensions = ["myst_nb", "sphinx_copybutton"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # build.py has run the notebooks
myst_heading_anchors = 4
myst_enable_extensions = ["tasklist"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
exclude_patterns = ["notebooks/files"]
pygments_style = "friendly"
pygments_dark_style = "monokai"
smartquotes = False  # quotation marks are code
html_theme = "furo"
html_static_path = ["site.css", "site.js"]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = "icon.svg"
html_search_scorer = str(Path(__file__).with_name("search.js"))
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_show_sphinx = False
html_domain_indices = False
html_use_index = False
# Prompts and outputs are no part of what a reader wants to paste.
copybutton_selector = ", ".join(f"div.highlight-{name} pre" for name in ("python", "py", "pycon", "ipython3", "sh"))
copybutton_prompt_text = r">>> |\.\.\. ?"
copybutton_prompt_is_regexp = True
