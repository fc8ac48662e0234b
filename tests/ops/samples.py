"""The cases on which a check runs for the built-in operators, as parameters of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

import hybridc as mx
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import operators
from hybridc.tools.check_op.case import short
from hybridc.tools.check_op.checks import Check
from tests.slices import each_in, one_in

assert mx.nd  # importing it registers the operators

MORE = " more"

OURS = {name: cls for name, cls in sorted(operators().items()) if name.startswith("hybrid.")}


def each(
    of: Check | Callable[[type[Operator]], Iterable[tuple[str, Any]]],
    keep: Callable[[type[Operator]], Any] = lambda cls: True,
    every: int = 1,
    apart: bool = False,
    first: int = 1,
    long: Sequence[str] = (),
) -> Any:
    """A decorator: one test for each file of operators, which takes the cases of the check one after the other.

    With ``apart`` there is one for each operator, for checks that take long. With ``every`` the first case of an
    operator (with ``first``, of one operator in so many), and of its others one in so many, which differ from operator
    to operator, are run by ``make test``; the rest is long, as are the tests of the names in ``long``.
    """
    groups: dict[str, dict[str, Any]] = {}
    for more, cases in enumerate(divided(of, keep, every, first)):
        for cls, label, case in cases:
            name = short(cls) if apart else cls.__module__.rpartition(".")[2]
            groups.setdefault(name + MORE * more, {})[label] = case
    return each_in("case", groups, [name for name in groups if name.endswith(MORE) or name in long])


def divided(
    of: Check | Callable[[type[Operator]], Iterable[tuple[str, Any]]],
    keep: Callable[[type[Operator]], Any] = lambda cls: True,
    every: int = 1,
    first: int = 1,
) -> tuple[list[Any], list[Any]]:
    """Operators, labels and cases: those that ``make test`` runs, and the long ones; the numbers as above."""
    parts: tuple[list[Any], list[Any]] = [], []
    for number, cls in enumerate(cls for cls in OURS.values() if keep(cls)):
        for i, (label, case) in enumerate((of.cases if isinstance(of, Check) else of)(cls)):
            parts[(number % first if i == 0 else (i + number) % every) > 0].append((cls, label, case))
    return parts


def operators(
    parts_of: Callable[[type[Operator]], list[Any]],
    chosen: Callable[[int, Any], bool] = lambda number, part: True,
    every: int = 1,
    long: Sequence[str] = (),
) -> Any:
    """A decorator: the test runs once for each operator that has such parts, with them (``together.py``).

    Of an operator ``make test`` runs the parts that are ``chosen``, given the operator's number; with ``every`` it runs
    one operator in so many, but those of the names in ``long``. The rest is long.
    """
    rows, more = [], []
    for number, cls in enumerate(OURS.values()):
        parts = parts_of(cls)
        some = [part for part in parts if chosen(number, part)]
        rest = [part for part in parts if not chosen(number, part)]
        marks = pytest.mark.long if short(cls) in long else ()
        rows += [pytest.param(some, id=short(cls), marks=marks)] if some else []
        more += [pytest.param(rest, id=short(cls) + MORE, marks=pytest.mark.long)] if rest else []
    return pytest.mark.parametrize("parts", [*one_in(every, rows), *more])
