"""One operator of each kind, as a user would write it, with what no built-in combines: each passes ``check_op``."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import op


class Largest(op.Reduction):
    """The largest element along an axis; axis, keepdims and exclude come with the kind"""

    COMBINE = "max"

    def gradient(self, F, dy, x, y):
        kept = F.max(x, axis=self.axis, keepdims=True, exclude=self.exclude)
        return F.broadcast_equal(x, kept) * F.reshape_like(dy, kept)

    @classmethod
    def samples(cls):
        return [
            op.Sample([(3, 4)], lambda x: x.max(1), axis=1),
            op.Sample([(3, 4)], lambda x: x.max(1, keepdims=True), axis=1, keepdims=True),
            op.Sample([(3, 4)], lambda x: x.max(1), axis=0, exclude=True),
            op.Sample([(3, 4)], lambda x: np.array([x.max()])),
        ]


class Moments(op.Composite):
    """Mean and deviation along the last axis: two results"""

    def num_outputs(self):
        return 2

    def infer_shape(self, shapes):
        return shapes, [shapes[0][:-1]] * 2

    def eager(self, x):
        return x.mean(-1), x.std(-1)

    def decompose(self, F, x):
        mean = F.mean(x, axis=-1, keepdims=True)
        return F.mean(x, axis=-1), F.sqrt(F.mean(F.square(x - mean), axis=-1))

    def gradient(self, F, dmean, dstd, x, mean, std):
        n = x.shape[-1]
        dmean, mean, slope = (F.expand_dims(v, axis=-1) for v in (dmean, mean, dstd / std))
        return F.zeros_like(x) + dmean / n + (x - mean) * slope / n

    @classmethod
    def samples(cls):
        return [op.Sample([(3, 4)], lambda x: (x.mean(-1), x.std(-1)))]


class SortedRows(op.Opaque):
    """Sorted rows; their order is a hidden result of another dtype, for the gradient"""

    def num_outputs(self):
        return 2

    def num_visible_outputs(self):
        return 1

    def infer_shape(self, shapes):
        return shapes, [shapes[0]] * 2

    def infer_type(self, dtypes):
        return dtypes, [dtypes[0], np.dtype("int64")]

    def eager(self, x):
        order = np.argsort(x, axis=-1)
        return np.take_along_axis(x, order, -1), order

    def gradient(self, F, dy, x, y, order):
        place = F.argsort(order, axis=-1)
        rows, columns = x.shape
        return F.pick(F.broadcast_to(F.expand_dims(dy, axis=1), shape=(rows, columns, columns)), place, axis=2)

    @classmethod
    def samples(cls):
        return [op.Sample([(3, 4)], lambda x: np.sort(x, -1))]


class Total(op.Composite):
    """The sum of any number of inputs"""

    VARIADIC = True

    def infer_shape(self, shapes):
        return shapes, [shapes[0]]

    def eager(self, *xs):
        return sum(xs[1:], xs[0].copy())

    def decompose(self, F, *xs):
        return sum(xs[1:], xs[0])

    def gradient(self, F, dy, *values):
        return tuple(dy for _ in values[:-1])

    @classmethod
    def samples(cls):
        return [op.Sample([(3, 4)] * 3, lambda a, b, c: a + b + c)]


class Scale(op.Composite):
    """data * weight, and + bias unless no_bias: an input that may be missing"""

    INPUTS = ("data", "weight", "bias")
    OPTIONAL = 1
    no_bias: bool = op.attribute(False, "leave bias out")

    def input_names(self):
        return self.INPUTS[:2] if self.no_bias else self.INPUTS

    def infer_shape(self, shapes):
        data = shapes[0]
        return [data, *[data[-1:]] * (len(shapes) - 1)], [data]

    def eager(self, x, weight, *bias):
        return sum(bias, x * weight)

    def decompose(self, F, x, weight, *bias):
        return sum(bias, F.broadcast_mul(x, weight))

    def gradient(self, F, dy, x, weight, *others):
        return (F.broadcast_mul(dy, weight), dy * x, *[dy for _ in others[:-1]])

    @classmethod
    def samples(cls):
        return [
            op.Sample([(3, 4), (4,), (4,)], lambda x, w, b: x * w + b),
            op.Sample([(3, 4), (4,)], lambda x, w: x * w, no_bias=True),
        ]


class Rolled(op.Movement):
    """Every row where the one before was"""

    def infer_shape(self, shapes):
        return shapes, [shapes[0]]

    def eager(self, x):
        return np.roll(x, 1, axis=0)

    def gradient(self, F, dy, x, y):
        first = F.slice_axis(dy, axis=0, begin=0, end=1)
        return F.concat(F.slice_axis(dy, axis=0, begin=1, end=None), first, dim=0)

    @classmethod
    def samples(cls):
        return [op.Sample([(3, 4)], lambda x: x[[2, 0, 1]])]


class EverySecond(op.Movement):
    """Every second row, as a view"""

    def infer_shape(self, shapes):
        rows, *others = shapes[0]
        return shapes, [((rows + 1) // 2 if rows >= 0 else -1, *others)]

    def is_view(self):
        return True

    def eager(self, x):
        return x[::2]

    @classmethod
    def samples(cls):
        return [op.Sample([(5, 4)], lambda x: x[[0, 2, 4]], grad=False)]


class Doubled(op.Composite):
    """2 * x in training, else x"""

    TRAIN_MODE = True
    train: bool | None = op.attribute(None, "internal: whether this is for training")

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return x * (2 if self.train else 1)

    def decompose(self, F, x):
        return x * (2 if self.train else 1)

    def gradient(self, F, dy, x, y):
        return dy * (2 if self.train else 1)

    @classmethod
    def samples(cls):
        return [op.Sample([(5, 4)], lambda x: x)]


class Remembered(op.Stateful):
    """2 * x and the sums of its columns, where the second input counts calls: a state, two results and an update"""

    INPUTS = ("data", "count")
    MUTATES = (1,)

    def num_visible_outputs(self):
        return 2

    def result_shapes(self, shapes):
        return shapes, [shapes[0], shapes[0][1:]]

    def create_state(self, shapes, dtypes):
        return {}

    def forward(self, state, x, count):
        state["rows"] = len(x)
        return x * 2, x.sum(0), count + 1

    def backward(self, state, needed, ograds, inputs, outputs):
        return [ograds[0] * 2 + np.repeat(ograds[1][None], state["rows"], 0), None]

    @classmethod
    def samples(cls):
        return [op.Sample([(5, 4), np.zeros(1)], lambda x, count: (x * 2, x.sum(0)))]


KINDS = {
    f"own_{cls.__name__.lower()}": cls
    for cls in (Largest, Moments, SortedRows, Total, Scale, Rolled, EverySecond, Doubled, Remembered)
}
for each, made in KINDS.items():
    op.register(f"kinds.{each}")(made)


@pytest.mark.parametrize("name", KINDS)
def test_kind(name):
    mx.test_utils.check_op(f"kinds.{name}")
