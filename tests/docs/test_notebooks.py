"""Notebooks are made from the examples: they have all of their code and text, run, and show what was printed."""

from __future__ import annotations

import ast
import importlib
import re
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def notebooks():
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        yield importlib.import_module("notebooks")
    finally:
        sys.path.remove(str(ROOT / "docs" / "site"))


def statements(source: str) -> list[str]:
    """The statements of a program without its docstring; those under the guard of a script as if it were not there."""
    found: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'":
            found += [ast.unparse(each).replace("sys.exit(main())", "main([])") for each in node.body]
        else:
            found.append(ast.unparse(node))
    return found[1:] if ast.get_docstring(ast.parse(source)) else found


def example(name: str) -> str:
    return (ROOT / "examples" / f"{name}.py").read_text()


def code(made: dict[str, Any]) -> list[str]:
    return [cell["source"] for cell in made["cells"] if cell["cell_type"] == "code"]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "examples").glob("*.py")))
def test_a_notebook_has_all_of_an_example(notebooks, name):
    source = example(name)
    made = notebooks.notebook(notebooks.cells_of_example(source))
    assert statements("\n".join(code(made))) == statements(source)
    text = "\n".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    for part in re.findall(r"^# %% \[markdown\]\n((?:#.*\n)+)", source, re.MULTILINE):
        assert part.replace("# ", "", 1).replace("\n# ", "\n").replace("\n#\n", "\n\n").strip() in text
    assert text.startswith(f"# {source[3:].splitlines()[0].rstrip('.')}".replace("``", "`"))


def test_every_short_example_is_listed_and_has_parts(notebooks):
    listed = (ROOT / "examples" / "README.md").read_text()
    for name in notebooks.SHORT + notebooks.LONG:
        assert f"| `{name}.py` |" in listed, "to which the site adds a link"
    for name in notebooks.SHORT:
        assert len(code(notebooks.notebook(notebooks.cells_of_example(example(name))))) >= 3


def test_the_notebook_of_the_tour_has_its_blocks(notebooks):
    page = notebooks.TOUR.read_text()
    made = notebooks.notebook(notebooks.cells_of_page(page))
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert code(made) == [block.strip() for block in blocks]
    text = "".join(cell["source"] for cell in made["cells"] if cell["cell_type"] == "markdown")
    assert "## Where to read on" in text
    assert "```" not in text
    assert ".md)" not in text


def printed(made: dict[str, Any]) -> list[str]:
    """What each cell printed."""
    cells = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    return ["".join("".join(each.get("text", "")) for each in cell["outputs"]) for cell in cells]


@pytest.mark.site
def test_a_notebook_has_outputs(notebooks, tmp_path):
    made = notebooks.notebook(notebooks.cells_of_example(example("custom_numpy_operators")))
    first, sigmoid, dense, fork = printed(notebooks.executed(made, tmp_path))
    assert first == ""
    assert "sigmoid of [0. 1. 2. 3.] is [0.5        0.7310586" in sigmoid
    line = next(n for n, text in enumerate(code(made)[2].splitlines(), 1) if "F.Custom(" in text)
    assert f"host call hybrid.custom dense(bias='0.1') at cell 3:{line} (in denseblock0)" in dense
    assert "the parent sees" in fork


@pytest.mark.site
def test_a_cell_that_fails_fails_the_build(notebooks, tmp_path):
    made = notebooks.notebook([("code", "x = 1"), ("code", "x / 0")])
    with pytest.raises(Exception, match="ZeroDivisionError"):
        notebooks.executed(made, tmp_path)


@pytest.mark.demo
@pytest.mark.long  # `make site` runs it, too
@pytest.mark.site
def test_the_notebook_of_the_digits_has_its_curves(notebooks, tmp_path):
    done = notebooks.executed(notebooks.notebook(notebooks.cells_of_example(example("digits"))), tmp_path)
    assert "FAILED" not in printed(done)[-1]
    pictures = [
        each for cell in done["cells"] for each in cell.get("outputs", []) if "image/png" in each.get("data", {})
    ]
    assert len(pictures) == 1
