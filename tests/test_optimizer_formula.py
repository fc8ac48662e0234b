"""Recorded formulas against direct evaluation: reused buffers must never lose a value still needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridc.optimizer.formula import TILE, Program, Scratch, Step

UNARY = ["sqrt_abs", "abs", "sign", "square", "negative"]
BINARY = ["+", "-", "*", "/", "maximum", "greater"]


class Direct:
    """The ``F`` of a formula that is evaluated on NumPy arrays."""

    sqrt, square, abs, sign = np.sqrt, np.square, np.abs, np.sign
    maximum = np.maximum

    @staticmethod
    def greater(x, y):
        return np.greater(x, y).astype("float64")

    @staticmethod
    def clip(x, bound):
        return x if bound is None else np.clip(x, -bound, bound)


def apply(F, op, x, y):
    if op == "sqrt_abs":
        return F.sqrt(F.abs(x))
    if op == "negative":
        return -x
    if op in UNARY:
        return getattr(F, op)(x)
    if op == "+":
        return x + y
    if op == "-":
        return x - y
    if op == "*":
        return x * y
    if op == "/":
        return x / (F.abs(y) + 1.5)
    return getattr(F, op)(x, y)


@st.composite
def formulas(draw):
    """A random formula over the weight, the gradient, some states and three numbers."""
    states = draw(st.integers(0, 3))
    steps = draw(
        st.lists(st.tuples(st.sampled_from(UNARY + BINARY), st.integers(0, 99), st.integers(0, 99)), max_size=12)
    )
    outputs = draw(st.lists(st.integers(0, 99), min_size=states + 1, max_size=states + 1))
    bound = draw(st.sampled_from([None, 0.5]))

    def formula(F, w, g, state, h):
        arrays = [w, F.clip(g, h.bound), *state]
        numbers = [h.a, h.b, h.c]
        for op, i, j in steps:
            everything = arrays + numbers
            arrays.append(apply(F, op, arrays[i % len(arrays)], everything[j % len(everything)]))
        return tuple(arrays[-1 - i % len(arrays)] for i in outputs)

    return formula, states, bound


@settings(max_examples=150, deadline=None)
@given(formulas(), st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([0.0, 1.0, -0.7]))
def test_random_formulas(case, a, b):
    formula, states, bound = case
    numbers = {"a": a, "b": b, "c": 1.25, "bound": bound}
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=7) for _ in range(states + 2)]
    w, *state, g = arrays
    direct = type("Numbers", (), numbers)
    want = [np.broadcast_to(x, 7) for x in formula(Direct, w, g, tuple(state), direct)]
    made = [x.copy() for x in arrays]
    program = Program(formula, numbers, states, "Random")
    Step(program, made, Scratch(np.dtype("float64"))).run(numbers)
    for got, expected in zip(made, want):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(made[-1], g)


def test_the_source_is_one_call_a_line_and_needs_few_buffers():
    def formula(F, w, g, state, h):
        (mom,) = state
        mom = h.momentum * mom - h.lr * (h.rescale * g)
        return w + mom, mom

    program = Program(formula, {"lr": 0.1, "rescale": 0.5, "momentum": 0.9}, 1, "Sgd")
    assert program.source.splitlines() == [
        "# generated from Sgd.formula",
        "def numbers(lr, rescale, momentum):",
        "    n0 = lr * rescale",
        "    return (momentum, n0, )",
        "def tile(momentum, n0, w, s0, g, t0, t1):",
        "    multiply(momentum, s0, out=t0)",
        "    multiply(n0, g, out=t1)",
        "    subtract(t0, t1, out=s0)",
        "    add(w, s0, out=w)",
    ]


def test_trivial_numbers_leave_no_trace():
    def formula(F, w, g, state, h):
        return (w - h.one * (F.clip(h.one * g, h.absent) + h.zero * w),)

    program = Program(formula, {"one": 1.0, "zero": 0.0, "absent": None}, 0, "Plain")
    assert program.source.splitlines()[-1] == "    subtract(w, g, out=w)"
    assert program.scratch == []


def test_a_wrong_number_of_results_is_an_error():
    with pytest.raises(RuntimeError, match=r"Odd.formula returned 1 values; expected .* 2 new states"):
        Program(lambda F, w, g, state, h: (w,), {}, 2, "Odd")


def test_threads_and_tiles_agree_with_one_pass():
    def formula(F, w, g, state, h):
        return w * h.a + F.sqrt(F.abs(g)), state[0] - w

    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=9 * TILE + 11) for _ in range(3)]
    w, s, g = (x.copy() for x in arrays)
    program = Program(formula, {"a": 0.5}, 1, "Big")
    step = Step(program, arrays, Scratch(np.dtype("float64")))
    for _ in range(2):
        step.run({"a": 0.5})
        w, s = w * 0.5 + np.sqrt(np.abs(g)), s - w
    np.testing.assert_allclose(arrays[0], w, rtol=1e-12)
    np.testing.assert_allclose(arrays[1], s, rtol=1e-12)
