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

OURS = {name: cls for name, cls in sorted(OPERATORS.items()) if name.startswith("hybrid.")}


def each(check: Check, keep: Callable[[type[Operator]], Any] = lambda cls: True) -> Any:
    """A decorator: the test runs once for each case of the check."""
    classes = [cls for cls in OURS.values() if keep(cls)]
    cases = [pytest.param(case, id=label) for cls in classes for label, case in check.cases(cls)]
    return pytest.mark.parametrize("case", cases)
