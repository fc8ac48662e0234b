"""Notebooks of the examples: made from their sources, run, and put into the site as pages and as files.

A notebook has the docstring of the example as its head, and a cell for each part that ``# %%`` begins; a part that
``# %% [markdown]`` begins is text, in comments. Code under ``if __name__ == "__main__":`` stands without the condition.
The notebook of the tour has the text and the blocks of ``docs/tour.md``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import textwrap
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TOUR = ROOT / "docs" / "tour.md"
# Where a reader's files are, in the folder of pages.
FILES = "notebooks/files"
# These run at each build, within seconds and without data of others; the long ones with `--all`.
SHORT = ("digits", "custom_layers", "custom_numpy_operators", "custom_softmax", "symbol_softmax", "kernels_by_hand")
LONG = ("images", "language_model", "forecasting", "sentences")
# What an example imports from another.
BESIDE = {"symbol_softmax": ("custom_softmax.py",)}
# Plans do not depend on the machine, small products not on waiting for threads, and no bar of progress is printed.
_ENVIRONMENT = {"HYBRIDC_MACHINE": "nominal", "OPENBLAS_NUM_THREADS": "1", "TQDM_DISABLE": "1"}

_MARK = re.compile(r"^# %%(?P<kind> \[markdown\])?\n", re.MULTILINE)
_DOCSTRING = re.compile(r'\A"""(?P<text>.*?)"""\n', re.DOTALL)
_GUARD = re.compile(r'^if __name__ == "__main__":\n(?P<body>(?:(?:    .*)?\n)+)', re.MULTILINE)
# A notebook has no command line, its end is not that of a process, and `;` keeps it from showing the exit status.
_MAIN = re.compile(r"^sys\.exit\(main\(\)\)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]+)\]\((?!https?://)[^)\s]+\)")
_BLOCK = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n.*?^```$)?", re.MULTILINE | re.DOTALL)

Cell = tuple[str, str]  # "markdown" or "code", and the text


def cells_of_example(source: str) -> list[Cell]:
    """The cells of a script."""
    head = _DOCSTRING.match(source)
    assert head is not None, "an example begins with its docstring"
    cells: list[Cell] = [("markdown", _heading(head["text"]))]
    parts = _MARK.split(source[head.end() :])
    kinds = ["code", *("markdown" if kind else "code" for kind in parts[1::2])]
    for kind, text in zip(kinds, parts[::2], strict=True):
        if kind == "markdown":
            text = re.sub(r"^# ?", "", text, flags=re.MULTILINE)
        else:
            text = _MAIN.sub("main([]);", _GUARD.sub(lambda guard: textwrap.dedent(guard["body"]), text))
        if text.strip():
            cells.append((kind, text.strip("\n")))
    return cells


def cells_of_page(text: str) -> list[Cell]:
    """The cells of a page of the documentation, without its outputs, and without links, which lead to other pages."""
    text = _LINK.sub(r"\1", text)
    cells: list[Cell] = []
    end = 0
    for block in _BLOCK.finditer(text):
        cells += [("markdown", text[end : block.start()].strip("\n")), ("code", block["code"].strip("\n"))]
        end = block.end()
    cells.append(("markdown", text[end:].strip("\n")))
    return [cell for cell in cells if cell[1]]


def _heading(docstring: str) -> str:
    """A docstring as Markdown: its first line is the heading."""
    first, _, rest = docstring.replace("``", "`").partition("\n")
    rest = re.sub(r"::\n\n((?:    .*\n)+)", lambda code: f":\n\n```sh\n{textwrap.dedent(code[1])}```\n", rest + "\n")
    return f"# {first.rstrip('.')}\n{rest}".strip()


def notebook(cells: Sequence[Cell]) -> dict[str, Any]:
    """A notebook in the format 4.5."""
    found: list[dict[str, Any]] = []
    for number, (kind, text) in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text}
        found.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": found, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def executed(made: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The notebook with the outputs of its cells, run in a process of its own in ``folder``; an error is raised."""
    import nbclient
    import nbformat

    environment = os.environ | _ENVIRONMENT | {"PYTHONPATH": str(ROOT)}
    run: Any = nbformat.from_dict(made)
    client = nbclient.NotebookClient(
        run,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        timeout=3600,
    )
    client.execute(env=environment, stdout=subprocess.DEVNULL)
    text = _names_of_cells(nbformat.writes(run), [c.source for c in run.cells if c.cell_type == "code"])
    return json.loads(text.replace(f"{folder}/", ""))  # paths of the machine that builds say nothing to a reader


def _names_of_cells(text: str, sources: Sequence[str]) -> str:
    """A notebook whose outputs name cells by their numbers, where the kernel has files with the hashes of the code."""
    from ipykernel.compiler import get_file_name

    numbers = {Path(get_file_name(source)).name: number for number, source in enumerate(sources, 1)}
    path = re.escape(tempfile.gettempdir()) + r"/ipykernel_\d+/(\d+\.py)"
    return re.sub(path, lambda found: f"cell {numbers[found[1]]}", text)


def write(pages: Path, names: Sequence[str]) -> None:
    """Run the notebooks of these examples, and that of the tour; write them into the folder of pages.

    ``notebooks/NAME.ipynb`` is the page, which has a link to the file; ``notebooks/files/NAME.ipynb`` is the file.
    """
    folder, files = pages / "notebooks", pages / FILES
    files.mkdir(parents=True)
    made = {name: notebook(cells_of_example((EXAMPLES / f"{name}.py").read_text())) for name in names}
    for name in names:
        for other in BESIDE.get(name, ()):
            (files / other).write_text((EXAMPLES / other).read_text())
    made["tour"] = notebook(cells_of_page(TOUR.read_text()))
    with ThreadPoolExecutor(2) as threads:
        ran = dict(zip(made, threads.map(lambda each: executed(each, files), made.values()), strict=True))
    for name, done in ran.items():
        (files / f"{name}.ipynb").write_text(json.dumps(done, indent=1))
        if name != "tour":
            text = f"Download {{download}}`{name}.ipynb <files/{name}.ipynb>`"
            for other in BESIDE.get(name, ()):
                text += f", which needs {{download}}`{other} <files/{other}>` beside it"
            text += ". It was run when this site was built."
            done["cells"].insert(1, {"cell_type": "markdown", "id": "download", "metadata": {}, "source": text})
            (folder / f"{name}.ipynb").write_text(json.dumps(done, indent=1))
