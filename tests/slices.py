"""The part of many alike cases that ``make test`` runs."""

from __future__ import annotations

import pytest


def one_in(every, values):
    """One value in so many as it is, the others marked as long; parameters of pytest keep their names."""
    return [value if number % every == 0 else _long(value) for number, value in enumerate(values)]


def _long(value):
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=(*value.marks, pytest.mark.long))
    return pytest.param(value, marks=pytest.mark.long)
