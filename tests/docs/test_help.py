"""``help`` of a layer, cell or loss describes every parameter, those of bases too."""

from __future__ import annotations

import importlib
import inspect

import pytest

import hybridc as mx
from hybridc.gluon.children import describe_parameters

PAGES = ("nn", "contrib.nn", "contrib.cnn", "rnn", "contrib.rnn", "loss")
OF_BLOCKS = {"prefix", "params", "kwargs", "unknown"}  # which help(Block) describes


@pytest.mark.parametrize("page", PAGES)
def test_describes_every_parameter(page):
    module = importlib.import_module(f"hybridc.gluon.{page}")
    classes = [value for value in map(vars(module).get, module.__all__) if inspect.isclass(value)]
    assert len(classes) >= 2
    missing = {
        f"{cls.__name__}: {name}"
        for cls in classes
        for name in inspect.signature(cls).parameters.keys()
        - (OF_BLOCKS if cls is not mx.gluon.Block else {"kwargs", "unknown"})
        if f"\n{name}:\n    " not in (inspect.getdoc(cls) or "")
    }
    assert not missing


class Base:
    """A base.

    Parameters
    ----------
    size:
        How many there are,
        as a number.
    left, right:
        The ends.
    name:
        What it is called.
    """

    def __init__(self, size: int, left: int, name: str) -> None: ...


class Derived(Base):
    """A class
    of two lines.

    Parameters
    ----------
    left : an integer
        The first.
    *more:
        The rest.

    Examples
    --------
    >>> 1
    1
    """

    def __init__(self, left: int, size: int, *more: int, name: str = "") -> None: ...


def test_a_docstring_has_what_those_of_bases_say():
    describe_parameters(Derived, without=("name",))
    assert (
        inspect.getdoc(Derived)
        == """A class
of two lines.

Parameters
----------
left : an integer
    The first.
size:
    How many there are,
    as a number.
*more:
    The rest.

Examples
--------
>>> 1
1"""
    )


def test_a_user_s_class_keeps_its_docstring():
    class Mine(mx.gluon.nn.Dense):
        """My layer."""

    assert Mine.__doc__ == "My layer."
