"""Examples of docstrings run and print what they show; every layer, cell, loss, optimizer and metric has one."""

from __future__ import annotations

import doctest
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import hybridc as mx
from hybridc.array.fluent import Fluent
from hybridc.array.functions import function

SITE = str(Path(__file__).resolve().parents[2] / "docs" / "site")
sys.path.insert(0, SITE)
import reference  # noqa: E402

sys.path.remove(SITE)

FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Classes of a reference's page that need no example, and why.
BASES = {
    "Block": "has the examples of its methods",
    "HybridBlock": "has the examples of its methods",
    "Loss": "computes nothing",
    "RecurrentCell": "computes nothing",
    "HybridRecurrentCell": "computes nothing",
    "ModifierCell": "computes nothing",
    "Optimizer": "updates nothing",
    "EvalMetric": "measures nothing",
    "Test": "of MXNet's own tests",
    "ccSGD": "an old name of SGD",
    "Caffe": "an old name of Loss",
    "Torch": "an old name of Loss",
}
# The base of the classes that need one, by the page.
PAGES: dict[str, type] = {
    "hybridc.gluon.nn": mx.gluon.Block,
    "hybridc.gluon.contrib.nn": mx.gluon.Block,
    "hybridc.gluon.contrib.cnn": mx.gluon.Block,
    "hybridc.gluon.rnn": mx.gluon.Block,
    "hybridc.gluon.contrib.rnn": mx.gluon.Block,
    "hybridc.gluon.loss": mx.gluon.Block,
    "hybridc.optimizer": mx.optimizer.Optimizer,
    "hybridc.metric": mx.metric.EvalMetric,
}
# Those that have none yet. Sets only shrink: whoever adds a class gives it an example.
WITHOUT_EXAMPLE: dict[str, set[str]] = {}


def _named() -> Iterator[tuple[str, Any]]:
    """Every class and function of the reference once, by its path."""
    seen: set[int] = set()
    for _, path in reference.NAMESPACES:
        for name, value in reference.namespace_entries(importlib.import_module(path)):
            if (inspect.isclass(value) or inspect.isroutine(value)) and id(value) not in seen:
                seen.add(id(value))
                yield f"{path.replace('hybridc', 'mx', 1)}.{name}", value


def _sessions() -> Iterator[Any]:
    """Each docstring with an example, of a class, of its methods, of a function."""
    finder = doctest.DocTestFinder()
    operators = ((f"mx.nd.{name}", function(name)) for name, _ in reference.named_operators())
    for name, value in (*_named(), ("mx.nd.NDArray", Fluent), *operators):
        for found in finder.find(value, name, module=False, globs={}):
            if found.examples:
                yield pytest.param(found, id=found.name)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    """Examples write files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("session", list(_sessions()))
def test_examples_print_what_they_show(session):
    globs: dict[str, Any] = {}
    exec(reference.IMPORTS, globs)
    session.globs = globs
    mx.random.seed(0)
    printed: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(session, out=printed.append)
    assert not printed, "".join(printed)


@pytest.mark.parametrize("path", PAGES)
def test_has_an_example(path):
    entries = reference.namespace_entries(importlib.import_module(path))
    needed = {
        value.__name__: value for _, value in entries if inspect.isclass(value) and issubclass(value, PAGES[path])
    }
    without = {name for name, value in needed.items() if name not in BASES and ">>>" not in (value.__doc__ or "")}
    known = WITHOUT_EXAMPLE.get(path, set())
    assert not without - known, "give it an example: a section Examples of the docstring"
    assert not known - without, "it has an example now: strike it from WITHOUT_EXAMPLE"


def test_a_wrong_example_is_found():
    def wrong():
        """An example.

        Examples
        --------
        >>> 1 + 1
        3
        """

    (found,) = doctest.DocTestFinder().find(wrong, "wrong", module=False, globs={})
    with pytest.raises(AssertionError, match=r"Expected:\s+3\s+Got:\s+2"):
        test_examples_print_what_they_show(found)


def test_examples_become_a_session():
    text = reference.examples(
        """Two of them.

        Parameters
        ----------
        a:
            a number

        Examples
        --------
        >>> for i in range(2):
        ...     print(i)
        0
        1

        >>> nn.Dense(2)
        Dense(None -> 2, linear)

        ``a`` is another:

        >>> 3
        3
        """
    )
    first = ">>> for i in range(2):\n...     print(i)\n0\n1\n\n>>> nn.Dense(2)\nDense(None -> 2, linear)\n"
    assert text == f"```pycon\n{first}```\n\n`a` is another:\n\n```pycon\n>>> 3\n3\n```"
