"""Many alike cases: the part of them that ``make test`` runs, and groups that are compiled together."""

from __future__ import annotations

import functools
import itertools
import os

import pytest

# How many random programs of a hundred a test tries; HYBRIDC_TEST_EXAMPLES=1000 for a thorough run.
EXAMPLES = int(os.environ.get("HYBRIDC_TEST_EXAMPLES", "50"))


def tries(count):
    """How many examples a test tries that has so many in ``make test-all``."""
    return max(1, count * EXAMPLES // 100)


def one_in(every, values):
    """One value in so many as it is, the others marked as long; a tuple is a row of several arguments."""
    return [value if number % every == 0 else _long(value) for number, value in enumerate(values)]


def crossed(every, *axes):
    """The product of some axes: one row in so many, with every value of every axis among them; the others are long."""
    rows = [list(zip(*row, strict=True)) for row in itertools.product(*map(enumerate, axes))]
    return [values if sum(places) % every == 0 else _long(values) for places, values in rows]


def _long(value):
    if isinstance(value, type(pytest.param())):
        return pytest.param(*value.values, id=value.id, marks=(*value.marks, pytest.mark.long))
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)


def in_groups(values, size):
    """Lists of so many values."""
    return [values[i : i + size] for i in range(0, len(values), size)]


def named_groups(named, size):
    """Parts of so many entries of a dictionary, each under the name of its first."""
    return {f"from {part[0][0]}": dict(part) for part in in_groups(list(named.items()), size)}


def each_in(argument, groups, long=()):
    """A decorator: one test for each group, {name: {label: value}}, which takes the group's values one after the other.

    All are taken, whichever fail, and errors say for which. The groups of the names in ``long`` are long.
    """

    def decorated(test):
        @functools.wraps(test)
        def taking_each(**given):
            values, errors = given.pop(argument), []
            for label, value in values.items():
                try:
                    test(**{argument: value}, **given)
                except (Exception, pytest.fail.Exception) as error:
                    error.add_note(f"for {label}")
                    errors.append(error)
            if len(errors) > 1:
                raise BaseExceptionGroup(f"for {len(errors)} of {len(values)}", errors)
            if errors:
                raise errors[0]

        rows = [
            pytest.param(values, id=name, marks=pytest.mark.long if name in long else ())
            for name, values in groups.items()
        ]
        return pytest.mark.parametrize(argument, rows)(taking_each)

    return decorated


def alone_if_wrong(group, check, name):
    """The check of a group; where that fails, of each member alone, so that the error names the member."""
    try:
        check(group)
    except Exception as error:
        for member in group:
            try:
                check([member])
            except Exception as own:
                raise AssertionError(f"{name(member)}: {type(own).__name__}: {own}") from own
        raise AssertionError(f"wrong only together: {[name(m) for m in group]}: {error}") from error


def but(long, values):
    """All values, those of these names marked as long."""
    return [_long(value) if value in long else value for value in values]
