"""Bodies of operators that are arithmetic: the steps that they record, and their values on each target."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hybridc as mx
from hybridc import op
from hybridc.dialects.scalar import Scalar, record
from hybridc.errors import TraceError

TARGETS = ["numpy", "llvm"]
NUMBER = itertools.count()

BODIES = {
    # name: body, reference
    "mixed": (lambda b, x: (1 - x) * x / (3 - -x) + 2 * abs(x), lambda x: (1 - x) * x / (3 + x) + 2 * np.abs(x)),
    "powers": (lambda b, x: x**2 + 2**x - x**3.0, lambda x: x**2 + 2**x - x**3),
    "two": (lambda b, x, y: x - y * (2 / (y * y + 1)) - 1, lambda x, y: x - y * (2 / (y * y + 1)) - 1),
    "conditions": (
        lambda b, x, y: b.select(((x > 0.5) & (y <= 1)) | ~(x >= -0.5), x * y, 3 - y),
        lambda x, y: np.where(((x > 0.5) & (y <= 1)) | (x < -0.5), x * y, 3 - y),
    ),
    "comparisons": (
        lambda b, x, y: b.select(x == y, x, b.select(x > 0, y * 2, y)) + b.select(x != x, 1.0, 0.0),
        lambda x, y: np.where(x == y, x, np.where(x > 0, y * 2, y)),
    ),
    "numbers of NumPy": (lambda b, x: np.float32(2) * x + np.float64(1), lambda x: 2 * x + 1),
}


def elementwise(body, **fields):
    """The name of an elementwise operator of a body."""
    count = body.__code__.co_argcount - 1
    names = ("a", "b", "c")[:count]
    cls = type("Body", (op.Elementwise,), {"__doc__": "one", "INPUTS": names, **fields})
    cls.scalar = lambda self, b, *xs: body(b, *xs)
    name = f"arithmetic_{next(NUMBER)}"
    op.register(f"bodies.{name}")(cls)
    return name


@pytest.mark.parametrize("body", list(BODIES))
def test_values_and_derived_gradients(body):
    function, reference = BODIES[body]
    count = function.__code__.co_argcount - 1
    samples = classmethod(lambda cls: [op.Sample([(3, 5)] * count, reference)])
    mx.test_utils.check_op(f"bodies.{elementwise(function, samples=samples)}")


def recorded(body):
    """The steps of a body of two values: names, and operands by their numbers."""
    cls = type("Body", (), {"NAME": "body", "scalar": lambda self, b, x, y: body(b, x, y)})
    _, steps, _ = record(cls(), 2)
    name = {True: "xy".__getitem__, False: int}
    return [
        (s.step, *(name[x.step is None](x.index) if isinstance(x, Scalar) else x for x in s.operands)) for s in steps
    ]


def test_steps_are_those_of_the_calls_in_their_order():
    assert recorded(lambda b, x, y: (1 - x) * -y / 2) == [("sub", 1, "x"), ("neg", "y"), ("mul", 0, 1), ("div", 2, 2)]
    assert recorded(lambda b, x, y: 2**x % y + x**3) == [
        ("pow", 2, "x"),
        ("rem", 0, "y"),
        ("pow", "x", 3),
        ("add", 1, 2),
    ]
    conditions = [("lt", "x", "y"), ("ne", "x", 0), ("logical_and", 0, 1), ("ge", "x", 2), ("logical_or", 2, 3)]
    assert recorded(lambda b, x, y: ~((x < y) & (x != 0) | (x >= 2))) == [*conditions, ("logical_not", 4)]
    # Python exchanges the sides of a comparison with a number on the left.
    assert recorded(lambda b, x, y: (x > 0) | (x == y)) == [("gt", "x", 0), ("eq", "x", "y"), ("logical_or", 0, 1)]


def in_each_mode(name, *arrays):
    """The results of an operator: eager, hybridized and on each target."""
    xs = [mx.nd.array(a, dtype=a.dtype) for a in arrays]
    net = mx.gluon.nn.HybridLambda(lambda F, *values: getattr(F, name)(*values))
    optimized = net.trace(*xs).optimize()
    net.hybridize()
    results = [getattr(mx.nd, name)(*xs), net(*xs), *(optimized.lower(t).compile()(*xs) for t in TARGETS)]
    return [y.asnumpy() for y in results]


@pytest.mark.parametrize("exponent", [-3, -1, 0, 2, 5])
def test_powers_of_integers_are_cut_in_each_mode(exponent):
    x = np.array([-2, -1, 1, 2, 7], np.int32)
    wanted = [int(float(v) ** exponent) for v in x]
    name = elementwise(lambda b, x: x**exponent)
    for result in in_each_mode(name, x):
        assert result.tolist() == wanted


def test_roots_as_powers_have_the_results_of_c_in_each_mode():
    name = elementwise(lambda b, x: x**0.5)
    for result in in_each_mode(name, np.array([-np.inf, -0.0, 4.0], np.float32)):
        np.testing.assert_array_equal(result, [np.inf, 0.0, 2.0])
        assert not np.signbit(result[1])


def test_elements_of_movements():
    @op.register("bodies.turned_rows")
    class TurnedRows(op.Movement):
        """Row (i + 1) % n of x, where its first element is positive; else 0."""

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, x):
            return np.where(x[:, :1] > 0, np.roll(x, -1, 0), 0)

        def move(self, m, x):
            def element(b, i, j):
                return b.select(x[i, 0] > 0, x[(i + 1) % x.shape[0], j], 0)

            return m.generate(x.shape, x.dtype, element)

    x = np.arange(-4, 8, dtype=np.float32).reshape(4, 3)
    wanted = np.where(x[:, :1] > 0, x[[1, 2, 3, 0]], 0)
    for result in in_each_mode("turned_rows", x):
        np.testing.assert_array_equal(result, wanted)


def loops(body):
    """The name of an operator with a native loop ``body(b, i, x, y)`` for each row; without, it is x."""

    class Rows(op.Opaque):
        """x"""

        gradient = op.no_gradient

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, x):
            return x.copy()

        def kernel(self, target, inputs, outputs):
            return op.LoopKernel(self.rows, inputs[0].shape[0]) if target == "llvm" else None

        def rows(self, b, low, high, x, y):
            b.loop(low, high, lambda i: body(b, i, x, y))

    name = f"arithmetic_{next(NUMBER)}"
    op.register(f"bodies.{name}")(Rows)
    return name


def on_native(name, x):
    """The result of an operator's native kernel."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: getattr(F, name)(x))
    return net.trace(x).optimize().lower("llvm").compile()(x).asnumpy()


def test_elements_of_native_loops():
    def body(b, i, x, y):
        def column(j):
            y[i, j] = b.select((j % 2 == 0) & (x[i, j] > 0), 1 - x[i, j] ** 2, x[i * 3 + j] / 2)

        b.loop(0, 3, column)

    x = np.arange(-2, 4, dtype=np.float32).reshape(2, 3)
    wanted = np.where((np.arange(3) % 2 == 0) & (x > 0), 1 - x**2, x / 2)
    np.testing.assert_array_equal(on_native(loops(body), mx.nd.array(x)), wanted)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda b, i, x, y: x[i, 0] & 1, "& of a scalar body takes conditions"),
        (lambda b, i, x, y: b.store(x[i, 0] if i > 0 else 0, y, i, 0), "Python's if, and, or, not cannot be used"),
        (lambda b, i, x, y: list(x), "'KernelArray' object is not iterable"),
    ],
)
def test_errors_in_native_loops(body, text):
    with pytest.raises((TraceError, mx.MXNetError, TypeError), match=text):
        on_native(loops(body), mx.nd.ones((2, 3)))


def test_constant_indices_alone():
    @op.register("bodies.first_of_all")
    class FirstOfAll(op.Movement):
        """x[0]"""

        def infer_shape(self, shapes):
            return shapes, shapes

        def eager(self, x):
            return np.full_like(x, x[0])

        def move(self, m, x):
            return m.generate(x.shape, x.dtype, lambda b, i: x[0])

    with pytest.raises(TraceError, match=r"x\[0\] has constant indices alone; write b.load\(x, 0\)"):
        in_each_mode("first_of_all", np.ones(3, np.float32))
