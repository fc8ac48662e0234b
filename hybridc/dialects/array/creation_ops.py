"""Operators without inputs: arrays that follow from attributes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Opaque, Operator, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.errors import AttributeValueError, ShapeError
from hybridc.ground.sizes import is_size

FLOAT32 = np.dtype("float32")


def cast_number(value: Any, dtype: DType) -> Any:
    """A Python number as a scalar of ``dtype``; integers wrap and floats truncate, as in C."""
    return np.asarray(value).astype(dtype)[()]


class Creation(Opaque):
    """An array that its attributes describe."""

    gradient = no_gradient

    NNVM_ONLY = ("ctx",)
    INPUTS = ()
    dtype: DType = FLOAT32
    ctx: object = None

    def out_shape(self) -> Shape:
        """The shape of the result."""
        raise ShapeError(f"{self.title()} has no shape")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.out_shape()]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype]


class _Filled(Creation):
    """One number everywhere."""

    shape: Shape = attribute((), "the shape")
    dtype: DType = attribute(FLOAT32, "the element type")

    def check(self) -> None:
        if any(n < 0 for n in self.shape):
            raise AttributeValueError(f"{self.title()}: shape={self.shape} must not have negative sizes")

    def out_shape(self) -> Shape:
        return self.shape


@register("hybrid.zeros", "_zeros")
class Zeros(_Filled):
    """0 everywhere."""

    NNVM = "_zeros"
    NNVM_ALIASES = ("_zeros_without_dtype",)

    @classmethod
    def upgrade_nnvm(cls, attrs: Mapping[str, str], version: int) -> Mapping[str, str]:
        """A dtype of -1 is none."""
        return {k: v for k, v in attrs.items() if (k, v) != ("dtype", "-1")}

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.full(self.shape, self.dtype, 0)

    def eager(self, *arrays: Any) -> Any:
        return np.zeros(self.shape, self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([], lambda: np.zeros((2, 3)), grad=False, shape=(2, 3))]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [((), {"shape": (2, -1)}, "zeros: shape=(2, -1) must not have negative sizes")]


def is_zeros(x: Any) -> bool:
    """Whether a value of a trace was made by ``F.zeros``."""
    node = getattr(x, "node", None)
    return node is not None and isinstance(node.op, Zeros)


@register("hybrid.ones", "_ones")
class Ones(_Filled):
    """1 everywhere."""

    NNVM = "_ones"

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.full(self.shape, self.dtype, 1)

    def eager(self, *arrays: Any) -> Any:
        return np.ones(self.shape, self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([], lambda: np.ones((0, 3)), grad=False, shape=(0, 3), dtype="int32")]


@register("hybrid.full", "_full")
class Full(_Filled):
    """One number everywhere."""

    NNVM = "_full"
    NNVM_ALWAYS = ("val",)
    NNVM_ATTRIBUTES: ClassVar[dict[str, str]] = {"val": "value"}
    val: float = attribute(0.0, "the number")
    dtype: DType = attribute(FLOAT32, "the element type")

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return m.full(self.shape, self.dtype, self.val)

    def eager(self, *arrays: Any) -> Any:
        return np.full(self.shape, cast_number(self.val, self.dtype), self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([], lambda: np.full((2, 3), 2.5), grad=False, shape=(2, 3), val=2.5),
            Sample([], lambda: np.full(4, -2), grad=False, shape=4, val=-2.5, dtype="int8"),
        ]


@register("hybrid.constant")
class Constant(Creation):
    """A number in the graph: an array of shape ()."""

    value: object = attribute(doc="the number")
    dtype: DType | None = attribute(  # pyright: ignore[reportIncompatibleVariableOverride]
        FLOAT32, "the element type; None inside a graph without dtypes"
    )

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        # Equal constants share one operator, but -0.0 == 0.0 and 1 == True: these are distinguished by their text.
        value, dtype = values
        if is_size(value):  # it belongs to one compilation
            return cls._parse(values)
        known = cls._BOUND.get((repr(value), dtype))
        if known is None:
            known = cls._parse(values)
            cls._BOUND[repr(value), dtype] = known
        return known

    def as_number(self) -> Any:
        return self.value

    def out_shape(self) -> Shape:
        return ()

    def eager(self, *arrays: Any) -> Any:
        return np.asarray(cast_number(self.value, FLOAT32 if self.dtype is None else self.dtype))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([], lambda: np.float64(-2.5), grad=False, value=-2.5)]


@register("hybrid.arange", "_arange")
class Arange(Creation):
    """start, start + step, … up to but without stop, each ``repeat`` times; with one number, it is stop.

    The range says how many numbers there are. Those of integers are then counted with start and step cut to integers.
    """

    NNVM_ONLY = ("ctx", "infer_range=False", "infer_range=None")
    NNVM_PARAMETERS = ("start", "stop", "step", "repeat", "infer_range", "ctx", "dtype")
    NNVM = "_arange"
    NNVM_ALWAYS = ("start",)
    start: float = attribute(0.0, "the first number")
    stop: float | None = attribute(None, "the end, which is not reached")
    step: float = attribute(1.0, "the difference between neighbours")
    repeat: int = attribute(1, "how often each number comes", low=1)
    dtype: DType = attribute(FLOAT32, "the element type")

    def check(self) -> None:
        if self.step == 0:
            raise AttributeValueError("arange: step must not be 0")
        given = [n for n in (self.start, self.stop, self.step) if n is not None]
        if not all(map(math.isfinite, given)):
            raise AttributeValueError(f"arange: start, stop and step must be finite, got {', '.join(map(str, given))}")

    def numbers(self) -> tuple[float, int]:
        """The first number and how many different ones there are."""
        begin, end = (0.0, self.start) if self.stop is None else (self.start, self.stop)
        # COMPAT(mxnet): an empty range gives an empty array, as in NumPy; MXNet raises.
        return begin, max(math.ceil((end - begin) / self.step), 0)

    def out_shape(self) -> Shape:
        return (self.numbers()[1] * self.repeat,)

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        begin, count = self.numbers()

        def element(b: Any, i: Any, _: Any) -> Any:
            return _term(b, i, self.dtype, begin, self.step)

        apart = m.generate((count, self.repeat), self.dtype, element)
        return m.reshape(apart, self.out_shape())

    def eager(self, *arrays: Any) -> Any:
        begin, count = self.numbers()
        values = _term(NUMPY, np.arange(count), self.dtype, begin, self.step).astype(self.dtype)
        return np.repeat(values, self.repeat) if self.repeat > 1 else values

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([], lambda: np.arange(5), grad=False, start=5),
            Sample([], lambda: np.arange(2, 5, 0.5), grad=False, start=2, stop=5, step=0.5),
            Sample(
                [],
                lambda: np.array([5, 5, 3, 3]),
                grad=False,
                start=5,
                stop=1,
                step=-2,
                repeat=2,
                dtype="int32",
            ),
            Sample([], lambda: np.zeros(0), grad=False, start=0),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [((), {"start": 1, "step": 0}, "arange: step must not be 0")]


@register("hybrid.linspace", "_linspace")
class Linspace(Creation):
    """``num`` numbers at equal distances from start to stop."""

    NNVM = "_linspace"
    start: float = attribute(doc="the first number")
    stop: float = attribute(doc="the last number, or the one after it without endpoint")
    num: int = attribute(doc="how many", low=0)
    endpoint: bool = attribute(True, "whether stop is the last number")
    dtype: DType = attribute(FLOAT32, "the element type")

    def out_shape(self) -> Shape:
        return (self.num,)

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        step = (self.stop - self.start) / max(self.num - self.endpoint, 1)

        def element(b: Any, i: Any) -> Any:
            value = b.cast(i, np.dtype("float64")) * step + self.start
            return b.select(i == self.num - 1, self.stop, value) if self.endpoint and self.num > 1 else value

        return m.generate((self.num,), self.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        return np.linspace(self.start, self.stop, self.num, self.endpoint).astype(self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([], lambda: np.array([0, 0.25, 0.5, 0.75, 1]), grad=False, start=0, stop=1, num=5),
            Sample([], lambda: np.array([1, 1.5]), grad=False, start=1, stop=2, num=2, endpoint=False),
        ]


@register("hybrid.eye", "_eye")
class Eye(Creation):
    """1 on the k-th diagonal of an N by M matrix, 0 elsewhere."""

    NNVM = "_eye"
    N: int = attribute(doc="number of rows", low=0)
    M: int = attribute(0, "number of columns; 0 means as many as rows", low=0)
    k: int = attribute(0, "the diagonal: 0 is the main one, positive above it")
    dtype: DType = attribute(FLOAT32, "the element type")

    def out_shape(self) -> Shape:
        return (self.N, self.M or self.N)

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        def element(_: Any, i: Any, j: Any) -> Any:
            return j - i == self.k

        return m.generate(self.out_shape(), self.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        return np.eye(self.N, self.M or None, self.k, self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference() -> Any:
            return np.array([[0, 1, 0], [0, 0, 1]])

        return [
            Sample([], lambda: np.diag([1, 1, 1]), grad=False, N=3),
            Sample([], reference, grad=False, N=2, M=3, k=1),
        ]


def _term(b: Any, i: Any, dtype: DType, start: float, step: float) -> Any:
    """The i-th number of a range: in float64, or for integers with start and step cut to integers, as in MXNet."""
    if dtype.kind in "iu":
        return i * int(step) + int(start)
    return b.cast(i, np.dtype("float64")) * step + start


@register("hybrid.arange_like", "contrib.arange_like")
class ArangeLike(Opaque):
    """start, start + step, … in the shape of the input, or as long as one of its axes."""

    gradient = no_gradient

    NNVM_ONLY = ("ctx",)
    start: float = attribute(0.0, "the first number")
    step: float = attribute(1.0, "the difference between neighbours")
    repeat: int = attribute(1, "how often each number comes", low=1)
    axis: int | None = attribute(None, "the axis that gives the length; all elements if None")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if self.axis is None:
            return shapes, [shape]
        return shapes, [(shape[normalize_axis("arange_like", self.axis, len(shape))],)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]

        def element(b: Any, i: Any) -> Any:
            return _term(b, b.quotient(i, self.repeat), x.dtype, self.start, self.step)

        return m.reshape(m.generate((math.prod(shape),), x.dtype, element), shape)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        shape = self.infer_shape([x.shape])[1][0]
        turns = np.arange(math.prod(shape)) // self.repeat
        return _term(NUMPY, turns, x.dtype, self.start, self.step).astype(x.dtype).reshape(shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([(2, 3)], lambda _: np.arange(6.0).reshape(2, 3), grad=False),
            Sample([(2, 4)], lambda _: np.array([1, 1, 3, 3]), grad=False, start=1, step=2, repeat=2, axis=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "arange_like: axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3),), {"axis": 2}, text)]
