"""Operators with one mistake each, and one without; every class says which check must find its mistake, and how."""

from __future__ import annotations

import numpy as np

import hybridc as mx
from hybridc import op
from hybridc.dialects.operator import Sample
from hybridc.dialects.stateful import Stateful

X = np.array([[0.5, -1.5, 2.5], [1.25, -0.75, 0.25]])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class Right(op.Elementwise):
    """x * sigmoid(beta * x)"""

    beta: float = op.attribute(1.0, "slope inside the sigmoid")

    def scalar(self, b, x):
        return b.div(x, b.add(b.exp(b.mul(x, -self.beta)), 1.0))

    def gradient(self, F, dy, x, y):
        s = F.sigmoid(self.beta * x)
        return dy * (s + self.beta * y * (1 - s))

    @classmethod
    def samples(cls):
        return [Sample([(3, 5)], lambda x: x * sigmoid(x)), Sample([X], lambda x: x * sigmoid(2 * x), beta=2)]

    @classmethod
    def bad_samples(cls):
        return [(((2, 3),), {"beta": "steep"}, f"{cls.title()}: attribute beta takes a number, got 'steep'")]


class WrongGradient(Right):
    """x * sigmoid(beta * x), with a gradient that forgets beta"""

    FINDS = "gradient", "gradient of input 'data', against differences: 6 of 6 elements differ"

    def gradient(self, F, dy, x, y):
        s = F.sigmoid(self.beta * x)
        return dy * (s + y * (1 - s))


class WrongReference(Right):
    """x * sigmoid(beta * x), with samples of something else"""

    FINDS = "values", "result: 6 of 6 elements differ; the first at [0, 0]: got 0.3112"

    @classmethod
    def samples(cls):
        return [Sample([X], sigmoid)]


class WrongFastPath(Right):
    """x * sigmoid(beta * x), with an eager that differs on infinity"""

    FINDS = "special values", "result of eager, against the scalar body"

    def eager(self, *arrays):
        (x,) = arrays
        return np.where(np.isinf(x), x.dtype.type(0), x * sigmoid(self.beta * x))


class WrongEager(Right):
    """x * sigmoid(beta * x), with an eager that gives twice that"""

    FINDS = "values", "result: 15 of 15 elements differ"
    ALSO = (
        "special values",
        "compiled forward",
        "compiled inputs that are not contiguous",
        "compiled special values",
        "other dtypes",
        "every stage on every target",
    )

    def eager(self, *arrays):
        return 2 * super().eager(*arrays)


class NotEmpty(Right):
    """x * sigmoid(beta * x), with an eager that looks at the largest element"""

    FINDS = "empty arrays and broadcasting", "ValueError: zero-size array to reduction operation maximum"

    def eager(self, *arrays):
        return super().eager(*arrays) + arrays[0].max() * 0


class WrongCompiledGradient(Right):
    """x * sigmoid(beta * x), with another gradient in graphs than eagerly"""

    FINDS = "compiled backward", "gradient of input 'data', against eager: 15 of 15 elements differ"
    ALSO = ("every stage on every target",)

    def gradient(self, F, dy, x, y):
        factor = 1 if isinstance(x, mx.nd.NDArray) else 2
        return super().gradient(F, dy * factor, x, y)


class CallsTheHost(Right):
    """x * sigmoid(beta * x), with a detour over the host"""

    FINDS = "one kernel without host calls", "expected one kernel and no host call"

    def decomposes(self):
        return True

    def decompose(self, F, x):
        return F.sort(x * F.sigmoid(self.beta * x)) * 0 + x * F.sigmoid(self.beta * x)


class WrongTraining(op.Composite):
    """2 * x in training, else x; but always x in graphs"""

    FINDS = "compiled training", "result: 6 of 6 elements differ"
    TRAIN_MODE = True
    train: bool | None = op.attribute(None, "internal: whether this is for training")

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, *arrays):
        return arrays[0] * (2 if self.train else 1)

    def decompose(self, F, x):
        return x * 1

    def gradient(self, F, dy, x, y):
        return dy * (2 if self.train else 1)

    @classmethod
    def samples(cls):
        return [Sample([X], lambda x: x)]


class WrongError(Right):
    """x * sigmoid(beta * x), with another error text than it has"""

    FINDS = "error text", "expected\n              beta must be a number"

    @classmethod
    def bad_samples(cls):
        return [(((2, 3),), {"beta": "steep"}, "beta must be a number")]


class NoError(Right):
    """x * sigmoid(beta * x), with a bad sample that is none"""

    FINDS = "error text", "no error was raised; expected"

    @classmethod
    def bad_samples(cls):
        return [(((2, 3),), {"beta": "2"}, "beta must be a number")]


class NoDocstring(Right):
    __doc__ = None
    FINDS = "docstring", "the class has no docstring"


class NoAttributeDoc(Right):
    """x * sigmoid(beta * x), with an attribute that nobody explains"""

    FINDS = "attributes are documented", "attribute gamma has no doc; give it: attribute(…, doc='…')"
    gamma: int = op.attribute(1)


class NoSamples(Right):
    """x * sigmoid(beta * x), with no samples"""

    FINDS = "samples", "samples() gives no good call"

    @classmethod
    def samples(cls):
        return []


class RaisesInGradient(Right):
    """x * sigmoid(beta * x), with a slip in its gradient"""

    FINDS = "gradient", "wrong_ops.py"

    def gradient(self, F, dy, x, y):
        return dy * F.sigmoid(x) / self.gamma


class Scan(op.Opaque):
    """Sums of the elements up to each, along the first axis"""

    def infer_shape(self, shapes):
        return shapes, [shapes[0]]

    def eager(self, *arrays):
        return arrays[0].cumsum(0)

    def gradient(self, F, dy, x, y):
        return F.reverse(F.cumsum(F.reverse(dy, axis=0), axis=0), axis=0)

    @classmethod
    def samples(cls):
        return [Sample([(4, 3)], lambda x: np.tril(np.ones((4, 4))) @ x)]


class WrongShape(Scan):
    """Sums along the first axis, with an inference that says otherwise"""

    FINDS = "inferred shapes and types", "shapes of results, by infer_shape: got [(4, 3, 1)], expected [(4, 3)]"

    def infer_shape(self, shapes):
        return shapes, [(*shapes[0], 1)]


class WrongType(Scan):
    """Sums along the first axis, with an inference that says another dtype"""

    FINDS = "inferred shapes and types", "dtypes of results, by infer_type"

    def infer_type(self, dtypes):
        return dtypes, [np.dtype("int32")]


class WrongFill(Scan):
    """Sums along the first axis, filling in sizes that are not"""

    FINDS = "unknown sizes", "shapes of the inputs, inferred again: got [(2, 2)], expected [(1, 1)]"

    def infer_shape(self, shapes):
        (shape,) = shapes
        filled = {(-1, -1): (1, 1), (1, 1): (2, 2)}.get(shape, shape)
        return [filled], [filled]


class WrongCompletion(Scan):
    """Sums along the first axis, with a second input whose dtype is not that of the first"""

    FINDS = "unknown inputs", "complete_types with input 'data' unknown: got int32, expected float32"

    def complete_types(self, dtypes):
        return [np.dtype("int32") if d is None else d for d in dtypes]


class WrongInPlace(Scan):
    """Sums along the first axis, written where they are still to be read"""

    FINDS = "in place", "result with output 0 in the memory of input 'data'"
    INPLACE = ((0, 0),)

    def eager_out(self, outs, *arrays):
        (out,), (x,) = outs, arrays
        for i in range(len(x)):
            out[i] = x[: i + 1].sum(0)


class NoSuchPair(Scan):
    """Sums along the first axis, with an in-place pair of an output that is not there"""

    FINDS = "in place", "INPLACE names the pair (0, 1), which does not exist"
    INPLACE = ((0, 1),)


class WrongEagerOut(Scan):
    """Sums along the first axis, but not in eager_out"""

    FINDS = "eager into given arrays", "result of eager_out: 9 of 12 elements differ"

    def eager_out(self, outs, *arrays):
        np.copyto(outs[0], arrays[0])


class WrongKernel(Scan):
    """Sums along the first axis, with native loops that are wrong in double precision"""

    FINDS = "kernels by hand", "result of target llvm: 9 of 12 elements differ"

    def kernel(self, target, inputs, outputs):
        (x,) = inputs
        return op.LoopKernel(self.loops, x.shape[1]) if target == "llvm" else None

    def loops(self, b, low, high, x, y):
        def column(j):
            def element(i, total):
                total = b.add(total, b.load(x, i, j)) if x.dtype == np.float32 else b.load(x, i, j)
                b.store(total, y, i, j)
                return total

            b.loop(0, x.shape[0], element, b.constant(0, x.dtype))

        b.loop(low, high, column)


class ChangesItsInput(Scan):
    """Sums along the first axis, written into the input"""

    FINDS = "inputs stay as they are", "eager changed its input 'data', which it must not"

    def eager(self, *arrays):
        return arrays[0].cumsum(0, out=arrays[0]).copy()


class SharesMemory(Scan):
    """The input itself, by an operator that is no movement"""

    FINDS = "inputs stay as they are", "a result of eager shares memory with an input; copy it"

    def eager(self, *arrays):
        return arrays[0]

    @classmethod
    def samples(cls):
        return [Sample([(4, 3)], lambda x: x, grad=False)]


class NeedsContiguous(Scan):
    """Sums along the first axis, of the memory as it lies"""

    FINDS = "inputs that are not contiguous", "result for transposed inputs"

    def eager(self, *arrays):
        x = arrays[0]
        return np.frombuffer(x.tobytes("A"), x.dtype).reshape(x.shape).cumsum(0)


class ReturnsList(Scan):
    """Sums along the first axis, in a list"""

    FINDS = "values", "eager returned a list; return an array, as num_outputs() says"

    def eager(self, *arrays):
        return [arrays[0].cumsum(0)]


class WrongSecondGradient(op.Composite):
    """x ** 3, whose gradient is right once"""

    FINDS = "second gradient", "second derivative in one direction, against the difference of gradients"

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, *arrays):
        return arrays[0] ** 3

    def decompose(self, F, x):
        return x * x * x

    def gradient(self, F, dy, x, y):
        return dy * F.BlockGrad(3 * x * x)

    @classmethod
    def samples(cls):
        return [Sample([X], lambda x: x**3)]


class WrongDecomposition(WrongSecondGradient):
    """x ** 3, decomposed into x ** 2"""

    FINDS = "decomposition", "result of decompose: 6 of 6 elements differ"

    def decompose(self, F, x):
        return x * x


class NoView(op.Movement):
    """x, said to be a view, but copied"""

    FINDS = "views", "is_view() is True, but eager copies its input"

    def infer_shape(self, shapes):
        return shapes, shapes

    def is_view(self):
        return True

    def eager(self, *arrays):
        return arrays[0].copy()

    def gradient(self, F, dy, x, y):
        return dy

    @classmethod
    def samples(cls):
        return [Sample([X], lambda x: x)]


class WrongMove(op.Movement):
    """x with its columns in reverse order; where they move to is said wrong"""

    FINDS = "movement", "result of move: 6 of 6 elements differ; the first at [0, 0]: got 1.25, expected 2.5"

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, *arrays):
        return arrays[0][:, ::-1].copy()

    def move(self, m, *xs):
        return m.slice(xs[0], (1, 0), (-1, 1), xs[0].shape)

    def gradient(self, F, dy, x, y):
        return F.flip(dy, axis=1)

    @classmethod
    def samples(cls):
        return [Sample([X], lambda x: x[:, ::-1])]


class WrongStrings(Scan):
    """Sums along the first axis, with a flag that it reads in its own way"""

    FINDS = "attributes as strings", "attribute flag: 'False' is read as True, expected False"
    flag: bool = op.attribute(False, "whether")

    @classmethod
    def bind_values(cls, values):
        return super().bind_values((bool(values[0]),))


class WrongHandle(Right):
    """x * sigmoid(beta * x), with a Python object among its attributes"""

    FINDS = "print and parse", "an attribute is a Python object; only host calls may refer to such"
    thing: object = op.attribute(None, "any")

    @classmethod
    def samples(cls):
        return [Sample([X], lambda x: x * sigmoid(x), thing=open)]


class RightState(Stateful):
    """x times the number of calls of its state; its second input counts elements"""

    INPUTS = ("data", "seen")
    MUTATES = (1,)

    def create_state(self, shapes, dtypes):
        return [0]

    def forward(self, state, *arrays):
        x, seen = arrays
        state[0] += 1
        return x * state[0], seen + x.size

    def backward(self, state, needed, ograds, inputs, outputs):
        return [ograds[0] * state[0], None]

    @classmethod
    def samples(cls):
        return [Sample([(2, 3), np.zeros(1)], lambda x, seen: x)]


class WrongUpdate(RightState):
    """x, with a backward that is not its own"""

    FINDS = "gradient", "gradient of input 'data', against differences: 6 of 6 elements differ"

    def backward(self, state, needed, ograds, inputs, outputs):
        return [ograds[0] * 2, None]


WRONG = {name: cls for name, cls in list(globals().items()) if hasattr(cls, "FINDS")}
NAMES: dict[str, str] = {}
for number, (title, cls) in enumerate([("Right", Right), ("RightState", RightState), *WRONG.items()]):
    NAMES[title] = f"wrong.op{number}_{title.lower()}"
    op.register(NAMES[title])(cls)
