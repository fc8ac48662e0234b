"""The cases on which a check runs for the built-in operators, as parameters of a test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hybridc as mx
from hybridc.dialects.operator import Operator
from hybridc.dialects.registry import OPERATORS
from hybridc.tools.check_op.check import Check

assert mx.nd  # importing it registers the operators

LONG = pytest.mark.long

OURS = {name: cls for name, cls in sorted(OPERATORS.items()) if name.startswith("hybrid.")}


def each(check: Check, keep: Callable[[type[Operator]], Any] = lambda cls: True, every: int = 1) -> Any:
    """A decorator: the test runs once for each case of the check.

    With ``every`` the first case of an operator, and of its others one in so many, which differ from operator to
    operator, are run by ``make test``; the rest is long.
    """
    cases: list[Any] = []
    for number, cls in enumerate(cls for cls in OURS.values() if keep(cls)):
        for i, (label, case) in enumerate(check.cases(cls)):
            cases.append(pytest.param(case, id=label, marks=() if i == 0 or (i + number) % every == 0 else LONG))
    return pytest.mark.parametrize("case", cases)


def operators(parts_of: Callable[[type[Operator]], list[Any]]) -> Any:
    """A decorator: the test runs once for each operator that has such parts, with them (``together.py``)."""
    found = {cls.NAME.removeprefix("hybrid."): parts_of(cls) for cls in OURS.values()}
    return pytest.mark.parametrize("parts", [pytest.param(parts, id=name) for name, parts in found.items() if parts])
