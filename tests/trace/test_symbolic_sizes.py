"""Symbolic sizes: they are what plain integers are, at every size at which their guards hold."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hybridc.dialects.array.slicing import part_of
from hybridc.dialects.mlir.integer_array import integer_array, integers_of
from hybridc.ground.serialize import without_integers
from hybridc.ground.sizes import Size, Sizes, are_same, is_same, keep_loop, may_exceed, value_of
from hybridc.ir.concatenated import reshaped_strides

NAMES = ("+", "-", "*", "//", "%", "-//", "max", "min", "if <", "if ==", "if", "slice", "index")
BINARY = {"+": operator.add, "-": operator.sub, "*": operator.mul, "max": max, "min": min}


def computed(steps, free):
    """What a program of steps gives for integers, and what it decided on its way."""
    values, decided = [*free, 1, 2, 3], []
    for name, i, j in steps:
        a, b = values[i % len(values)], values[j % len(values)]
        match name:
            case "//" | "%":
                made = {"//": operator.floordiv, "%": operator.mod}[name](a, b) if b != 0 else 0
            case "-//":
                made = -(-a // 2)
            case "if <" | "if ==" | "if":
                told = a < b if name == "if <" else a == b if name == "if ==" else bool(a)
                decided.append(told)
                made = a if told else b
            case "slice":
                made = part_of(abs(a), slice(b, None, 2))[2]
            case "index":
                made = (10, 20, 30)[a] if 0 <= a < 3 else b
            case _:
                made = BINARY[name](a, b)
        values.append(made)
    return values, decided


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 20), st.integers(0, 20)), max_size=12),
    st.tuples(*[st.integers(0, 12)] * 2),
    st.lists(st.tuples(*[st.integers(0, 12)] * 2), min_size=1, max_size=30),
)
def test_programs(steps, first, others):
    sizes = Sizes()
    values, decided = computed(steps, [sizes.free(n) for n in first])
    assert sizes.hold(sizes.at(first))
    for free in (first, *others):
        atoms = sizes.at(free)
        if atoms is not None and sizes.hold(atoms):
            got = [n.at(atoms) if type(n) is Size else n for n in values]
            assert (got, decided) == computed(steps, free), free


def test_what_needs_a_plain_integer_fixes_it():
    for use in (
        range,
        np.zeros,
        float,
        str,
        "{}".format,
        lambda n: [1, 2, 3, 4, 5][n],
        lambda n: n / 2,
        lambda n: n * 0.5,
    ):
        sizes = Sizes()
        n = sizes.free(4)
        use(n)
        assert sizes.hold(sizes.at([4]))
        assert not sizes.hold(sizes.at([5])), use
        assert n + 1 == 5
        assert type(n + 1) is int


def test_equal_sizes_are_one():
    sizes = Sizes()
    n, m = sizes.free(6), sizes.free(6)
    assert len({n, m}) == 2
    assert n == m
    assert len({n + 0, m + 0}) == 1
    assert m - n == 0
    assert not sizes.hold(sizes.at([6, 7]))


def test_sizes_of_two_compilations_are_different():
    one, other = (sizes.free(6) for sizes in (Sizes(), Sizes()))
    assert one != other


def test_exact_divisions():
    sizes = Sizes()
    n, m = sizes.free(6), sizes.free(5)
    assert (n * m * 4) // (2 * m) is n * 2
    assert (n * m + 3) // m is n + 3 // m
    assert (n * 6) % 3 == 0
    assert math.prod((n, 4)) // n == 4
    assert set(sizes.guards.values()) == {False}  # that what was divided by is not zero


def test_as_integers():
    n = Sizes().free(7)
    assert isinstance(n, int)
    assert divmod(n, 2) == (3, 1)
    assert sum([n, n, 1]) == 15
    assert [*sorted([n, 3, 9])] == [3, 7, 9]
    assert (np.int64(3) * n, n == 7.0, n < 7.5) == (21, True, True)


def test_integers_are_set_apart_by_their_type():
    """Whatever digits are in texts and numbers beside them; about sizes nothing is asked."""
    sizes = Sizes()
    n = sizes.free(7)
    data = ["7 of 7", {"tuple": [n, 3]}, True, None, {"float": "7"}, (10**30, np.int64(7)), n + 1]
    kind, integers = without_integers(data)
    assert kind == (
        "7 of 7",
        (dict, ("tuple",), ((..., ...),)),
        True,
        None,
        (dict, ("float",), ("7",)),
        (..., ...),
        ...,
    )
    assert [type(i) for i in integers] == [Size, int, int, int, Size]
    assert list(map(value_of, integers)) == [7, 3, 10**30, 7, 8]
    assert not sizes.guards


@pytest.mark.parametrize("other", [["#"], ["..."], [True], [1.0], [[7]], {"7": 7}, [None], [7, 7]], ids=repr)
def test_what_stands_for_an_integer_is_nothing_else(other):
    assert without_integers([7])[0] == without_integers([8])[0] != without_integers(other)[0]


def test_attributes():
    sizes = Sizes()
    n = sizes.free(7)
    assert integers_of(integer_array((n, 3))) == (n, 3)
    assert integer_array((n, 3)) == integer_array((n, 3))
    assert integer_array((n, 3)) != integer_array((n, 4))
    assert integer_array((n, 3)).get_values() == (-(2**63), 3)  # what does not know of sizes finds none
    assert integer_array((7, 3)).get_values() == (7, 3)


@pytest.mark.parametrize("size", range(6))
def test_slices_are_as_pythons(size):
    ends = (None, *range(-8, 9))
    for begin in ends:
        for end in ends:
            for step in (None, -3, -1, 1, 2):
                key = slice(begin, end, step)
                found = range(*key.indices(size))
                assert part_of(size, key) == (found.start, found.step, len(found)), key


def test_reshaped_strides_are_as_numpys():
    rng = np.random.default_rng(0)
    shapes = [(24,), (4, 6), (2, 3, 4), (4, 1, 6), (2, 2, 6), (8, 3), (3, 1, 2, 4), (1, 24), (12, 2)]
    views = 0
    for shape in shapes:
        for wanted in shapes:
            whole = np.empty([n + int(rng.integers(2)) for n in shape], np.uint8)
            part = whole[tuple(map(slice, shape))]
            try:
                expected = np.reshape(part, wanted, copy=False).strides
            except ValueError:
                expected = None
            got = reshaped_strides(shape, part.strides, wanted)
            assert (got is None) == (expected is None), (shape, wanted)
            if got is not None and expected is not None:
                views += 1
                assert [s for s, n in zip(got, wanted, strict=True) if n > 1] == [
                    s for s, n in zip(expected, wanted, strict=True) if n > 1
                ]
    assert 20 < views < len(shapes) ** 2


def test_what_is_the_same_is_not_asked():
    """Two sizes that happen to be equal are not the same, until something has asked."""
    sizes = Sizes()
    n, m = sizes.free(6), sizes.free(6)
    assert is_same(n, n)
    assert is_same(n + m, m + n)
    assert is_same(4, 4)
    assert not is_same(n, m)
    assert not is_same(n, 6)
    assert not is_same(6, n)
    assert not is_same(4, 6)
    assert not sizes.guards
    assert n == m
    assert is_same(n, m)
    assert not is_same(n, 6)
    assert m == 6
    assert is_same(n, 6)


def test_a_size_that_keeps_its_loop_is_more_than_one():
    """Whatever is asked about it is answered as for greater ones, where one would be told from them."""
    sizes = Sizes()
    n, m = keep_loop(sizes.free(1)), sizes.free(5)
    assert [n == 1, n != 1, n < 2, n <= 1, n > 1, n >= 2] == [False, True, False, False, True, True]
    assert [n * m == m, m < n * m, n * (m + 1) <= m + 1, 2 * n == 2] == [False, True, False, False]
    assert all(sizes.hold(sizes.at([k, j])) for k in (1, 2, 9) for j in (5, 7))
    assert n < 3
    assert n * m < 8
    assert [sizes.hold(sizes.at([k, 5])) for k in (1, 2, 3)] == [True, False, False]
    assert (10, 20)[n] == 20
    assert [sizes.hold(sizes.at([k, 3])) for k in (1, 2)] == [True, False]


def test_a_sum_that_keeps_its_loop():
    """As an axis of one more than what is missing in the last of the tiles of four."""
    sizes = Sizes()
    n = sizes.free(8)
    border = keep_loop(-(-n // 4) * 4 - n + 1)
    assert [border != 1, border * n > n, border > 0] == [True, True, True]
    assert all(sizes.hold(sizes.at([k])) for k in range(2, 40))


@given(st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 20), st.integers(0, 20)), max_size=12))
def test_programs_of_batches(steps):
    """Where the guards that a batch of one leaves hold for a greater one, this is decided alike, and computed."""
    sizes = Sizes()
    batch, other = keep_loop(sizes.free(1)), sizes.free(5)
    try:
        values, decided = computed(steps, [batch, other])
    except ZeroDivisionError:  # by its excess over one
        assume(False)
    for free in ((2, 5), (3, 5), (2, 6), (7, 4)):
        atoms = sizes.at(free)
        if atoms is not None and sizes.hold(atoms):
            assert computed(steps, list(free)) == ([n.at(atoms) if type(n) is Size else n for n in values], decided)


def test_sizes_are_compared_without_a_question():
    sizes = Sizes()
    n = sizes.free(8)
    assert [are_same((n, 3), other) for other in ((n + 0, 3), (8, 3), (n,))] == [True, False, False]
    assert [may_exceed(a, b) for a, b in ((n, 9), (9, n), (n + 1, n), (n, n))] == [True, True, True, False]
    assert not sizes.guards
