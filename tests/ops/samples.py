"""The cases on which a check runs for the built-in operators, as parameters of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import hybridc as mx
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import OPERATORS
from hybridc.tools.check_op.checks import Check
from tests.slices import one_in

assert mx.nd  # importing it registers the operators

LONG = pytest.mark.long

OURS = {name: cls for name, cls in sorted(OPERATORS.items()) if name.startswith("hybrid.")}


def each(check: Check, keep: Callable[[type[Operator]], Any] = lambda cls: True, every: int = 1) -> Any:
    """A decorator: the test runs once for each case of the check.

    With ``every`` the first case of an operator, and of its others one in so many, which differ from operator to
    operator, are run by ``make test``; the rest is long.
    """
    return pytest.mark.parametrize("case", samples(check.cases, keep, every))


def samples(
    of: Callable[[type[Operator]], Iterable[tuple[str, Any]]],
    keep: Callable[[type[Operator]], Any] = lambda cls: True,
    every: int = 1,
) -> list[Any]:
    """The cases of each operator, as parameters; ``every`` as above."""
    return [
        pytest.param(case, id=label, marks=() if i == 0 or (i + number) % every == 0 else LONG)
        for number, cls in enumerate(cls for cls in OURS.values() if keep(cls))
        for i, (label, case) in enumerate(of(cls))
    ]


def operators(parts_of: Callable[[type[Operator]], list[Any]], every: int = 1) -> Any:
    """A decorator: the test runs once for each operator that has such parts, with them (``together.py``).

    With ``every``, one operator in so many is run by ``make test``; the rest is long.
    """
    found = {cls.NAME.removeprefix("hybrid."): parts_of(cls) for cls in OURS.values()}
    rows = [pytest.param(parts, id=name) for name, parts in found.items() if parts]
    return pytest.mark.parametrize("parts", one_in(every, rows))
