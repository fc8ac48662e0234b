"""Build the site of the documentation into ``build/site``, a folder for any web server: ``python docs/site/build.py``.

Pages are those of ``docs/``, with the README as the first one, the reference, and each source file to which a page
links. Sphinx makes them, with the theme Furo; a warning of it, as of a link that leads nowhere, fails the build.
Notebooks are made from the examples and run: the short ones at each build, all of them with ``--all``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES, SITE = ROOT / "build" / "site-pages", ROOT / "build" / "site"
# Pages of the repository that are others in the site.
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "examples/README.md": "examples.md",
}
# The pages of the site in their order; the README comes first.
CONTENTS = {
    "Start": ("install", "tour", "from_mxnet", "from_pytorch", "from_keras", "examples"),
    "Reference": ("reference/index",),
    "Guides": (
        *("training", "mixed_precision", "save_and_load", "serving", "wrong_shape", "find_nan", "slow_network"),
        *("files", "debugging", "profiling", "numpy", "sparse", "symbol", "loops", "onnx"),
        *("onnx_in", "operators", "custom_operators", "extensions", "subgraphs", "distributed", "gpu"),
    ),
    "Inside": (
        *("walkthrough", "architecture", "kernels", "native", "triton", "targets", "reading", "glossary"),
        "xdsl_upstream",
    ),
    "Project": (
        "performance",
        "compatibility",
        "mxnet_differences",
        "testing",
        "contributing",
        "changes",
        "security",
        "conduct",
    ),
}
_LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)(#[^)\s]*)?\)")

sys.path[:0] = [str(Path(__file__).parent)]


def stage(examples: Sequence[str]) -> None:
    """Write all pages into the folder that Sphinx reads, with notebooks of these examples."""
    import notebooks
    import reference

    shutil.rmtree(PAGES, ignore_errors=True)
    (PAGES / "reference").mkdir(parents=True)
    sources: set[Path] = set()
    for path in [*(ROOT / "docs").glob("*.md"), *(ROOT / old for old in MOVED)]:
        target = page_of(path)
        assert target is not None, "each of these is a page"
        text = _LINK.sub(lambda link, path=path: _moved(link, path, sources), path.read_text())
        if target == "index.md":
            text += _contents(CONTENTS)
        if target == "examples.md":
            text = _with_notebooks(text, examples)
        if target == "tour.md":
            text = text.replace(
                "\n\n", f"\n\n{{download}}`A notebook of this page <{notebooks.FILES}/tour.ipynb>`.\n\n", 1
            )
        (PAGES / target).write_text(text)
    for path in sources:
        target = PAGES / _source_page(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_of_source(path))
    pages = reference.pages()
    for name, text in pages.items():
        if name == "index.md":
            text += _contents({"": tuple(other.removesuffix(".md") for other in pages if other != name)})
        (PAGES / "reference" / name).write_text(text)
    notebooks.write(PAGES, examples)


def _contents(parts: Mapping[str, Sequence[str]]) -> str:
    """The tables of contents that Sphinx reads, which the page does not show."""
    lines: list[str] = []
    for title, pages in parts.items():
        lines += ["", "```{toctree}", ":hidden:", *([f":caption: {title}"] if title else []), "", *pages, "```"]
    return "\n".join(lines) + "\n"


def _with_notebooks(text: str, examples: Sequence[str]) -> str:
    """The list of examples with links to their notebooks."""
    for name in examples:
        text = text.replace(f"| `{name}.py` |", f"| `{name}.py`, [notebook](notebooks/{name}.ipynb) |")
    return text + _contents({"": [f"{name}.py <notebooks/{name}>" for name in examples]})


def page_of(path: Path) -> str | None:
    """The page of a file, if it has one."""
    known = MOVED.get(str(path.relative_to(ROOT)))
    return known or (path.name if path.parent == ROOT / "docs" and path.suffix == ".md" else None)


def _source_page(path: Path) -> str:
    relative = path.relative_to(ROOT)
    return f"source/{relative}/index.md" if path.is_dir() else f"source/{relative}.md"


def _moved(link: re.Match[str], page: Path, sources: set[Path]) -> str:
    """A link from a page of the repository as one from the page of the site."""
    target = (page.parent / link[1]).resolve()
    here = page_of(page)
    assert here is not None, "a page of the site"
    there = page_of(target)
    if there is None:
        sources.add(target)
        there = _source_page(target)
    return f"]({os.path.relpath(there, Path(here).parent)}{link[2] or ''})"


def _of_source(path: Path) -> str:
    """The page of a source file, or of a folder of them."""
    title = f"---\norphan: true\n---\n\n# {path.relative_to(ROOT)}\n\n"
    if path.is_dir():
        return title + "\n".join(f"* `{each.name}`" for each in sorted(path.glob("*.py"))) + "\n"
    language = {".py": "python", ".cc": "cpp"}.get(path.suffix, "text")
    return f"{title}````{language}\n{path.read_text()}````\n"


def main() -> int:
    """Build the site; the exit status is that of Sphinx."""
    import notebooks

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--all", action="store_true", help="run the long examples, too, which need their extras")
    stage(notebooks.SHORT + notebooks.LONG if parser.parse_args().all else notebooks.SHORT)
    settings = ["-c", str(Path(__file__).parent), "-d", str(ROOT / "build" / "site-cache")]
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html", *settings]
    done = subprocess.run([*command, str(PAGES), str(SITE)], check=False)
    if done.returncode == 0:
        files = [path for path in SITE.rglob("*") if path.is_file()]
        print(
            f"{SITE.relative_to(ROOT)}: {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.1f} MB"
        )
    return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
