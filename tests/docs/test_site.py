"""The site: every page has a place in it, and the reference has what it says. ``make site`` builds it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Parameters of which nothing is said. It only falls: whoever adds a parameter describes it.
UNDESCRIBED = 767


@pytest.fixture(scope="module")
def reference():
    sys.path.insert(0, str(ROOT / "docs" / "site"))
    try:
        yield importlib.import_module("reference")
    finally:
        sys.path.remove(str(ROOT / "docs" / "site"))


@pytest.fixture(scope="module")
def pages(reference):
    return reference.pages()


def test_every_page_has_a_place(reference):
    build = importlib.import_module("build")
    named = {name for names in build.CONTENTS.values() for name in names}
    moved = {page.removesuffix(".md") for page in build.MOVED.values()} - {"index"}
    assert named == {path.stem for path in (ROOT / "docs").glob("*.md")} | moved | {"reference/index"}


def test_parameters_are_described():
    """In a process of its own: what other tests register or import is no part of the reference."""
    command = [sys.executable, "docs/site/reference.py", "--list"]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = [line for line in lines if line.startswith("mx.")]
    assert len(found) <= UNDESCRIBED, "describe it in the docstring, or name it there in ``quotes``"
    assert len(found) == UNDESCRIBED, f"UNDESCRIBED is {len(found)} now: write it down"


def test_operators_have_examples(pages):
    text = "\n".join(text for name, text in pages.items() if name.startswith("operators_"))
    assert text.count("\nprint(mx.nd.") + text.count("\nfor y in mx.nd.") >= 150


def test_an_entry(pages):
    layers = pages["gluon_nn.md"]
    assert "## Dense\n\n```py\nmx.gluon.nn.Dense(" in layers
    softmax = pages["operators_nn.md"].partition("\n## softmax\n")[2].partition("\n## ")[0]
    assert "mx.nd.softmax(" in softmax
    assert "| `axis` | an integer, default -1 | the axis along which the results sum to 1 |" in softmax
    assert "print(mx.nd.softmax(x" in softmax


def test_docstrings_become_markdown(reference):
    text, parameters = reference.parsed(
        """Look at :class:`~hybridc.x.Y` with ``z``.

        Parameters
        ----------
        a, b:
            two of
            them
        *c : int
            others
        """
    )
    assert text == "Look at `Y` with `z`."
    assert [(p.name, p.kind, p.text) for p in parameters] == [
        ("a", "", "two of them"),
        ("b", "", "two of them"),
        ("c", "int", "others"),
    ]


def test_overrides_inherit_descriptions(reference):
    class Base:
        def run(self, x, y):
            """What the base says.

            Parameters
            ----------
            x:
                the first
            y:
                the second
            """

        def stop(self):
            """Stop."""

    class Derived(Base):
        def run(self, x, y):
            """What the derived class says.

            Parameters
            ----------
            y:
                another
            """

        def stop(self):
            pass

    [run] = reference.members(Derived)  # stop stands at the base alone
    assert run.text == "What the derived class says."
    assert [(p.name, p.text) for p in run.parameters] == [("x", "the first"), ("y", "another")]

    Base.__name__ = "_Base"  # one that no page has
    assert [m.text for m in reference.members(Derived)] == ["What the derived class says.", "Stop."]
