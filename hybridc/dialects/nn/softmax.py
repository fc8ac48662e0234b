"""Softmax and its relatives."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.math.contraction import reshaped
from hybridc.dialects.math.reduction import max_reduce, sum_over
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, invoke_bound, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.dtypes import HALVES, is_float, is_half, wide
from hybridc.errors import AttributeValueError, DTypeError, MXNetError, ShapeError

_WIDE = (np.dtype("float32"), np.dtype("float64"))


# COMPAT(mxnet): a row with nan or inf - inf gives nan throughout; there some of its elements are numbers.


def exponentials(x: Any, axis: int, temperature: float | None) -> Any:
    """exp((x - max) / temperature) along an axis, in a new array."""
    y = np.subtract(x, max_reduce(x, axis, None, None, True))
    if temperature is not None:
        np.divide(y, temperature, y)
    return np.exp(y, y)


def softmax(x: Any, axis: int, temperature: float | None = None) -> Any:
    """exp(x / temperature), divided by its sum along an axis."""
    y = exponentials(x, axis, temperature)
    share = sum_over(y, axis)
    return np.multiply(y, np.reciprocal(share, share), y)


def log_softmax(x: Any, axis: int, temperature: float | None = None) -> Any:
    """The logarithm of :func:`softmax`."""
    y = np.subtract(x, max_reduce(x, axis, None, None, True))
    if temperature is not None:
        np.divide(y, temperature, out=y)
    return np.subtract(y, np.log(sum_over(np.exp(y), axis)), out=y)


class AlongAxis(Composite):
    """Base of softmax, softmin and log_softmax: attributes, and inference of shape and dtype."""

    SAME_DTYPE = False

    axis: Any = -1
    temperature: Any = None
    dtype: Any = None
    use_length: Any = False

    def check(self) -> None:
        if self.temperature == 1:
            self.temperature = None
        if self.dtype is not None and not is_float(self.dtype):
            raise AttributeValueError(f"{self.title()}: attribute dtype must be floating-point, got {self.dtype}")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The data has the shape of the result, and there is one length for each vector along axis."""
        data = shapes[0] if shapes[0] is not None else outputs[0]
        if data is None or not -len(data) <= self.axis < len(data):
            return shapes
        axis = self.axis % len(data)
        return [data, *[data[:axis] + data[axis + 1 :] if s is None else s for s in shapes[1:]]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        rank = len(data)
        if not -rank <= self.axis < rank:
            raise ShapeError(
                f"{self.title()}: axis {self.axis} is out of range for an input of {rank} dimensions; "
                f"it must be from {-rank} to {rank - 1}"
            )
        axis = self.axis % rank
        want = data[:axis] + data[axis + 1 :]
        if len(shapes) > 1 and shapes[1] != want:
            raise ShapeError(
                f"{self.title()}: length has shape {shapes[1]}, expected {want}: that of data {data} without "
                f"axis {axis}"
            )
        return shapes, [data]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(
                f"{self.title()}: data must be floating-point, got {dtypes[0]}; use .astype('float32') on it"
            )
        return dtypes, [self.dtype or dtypes[0]]

    def compute(self, x: Any) -> Any:
        """The result on a NumPy array of at least single precision."""
        raise MXNetError(f"{self.title()} must override this")

    def eager(self, *arrays: Any) -> Any:
        x = arrays[0]
        if self.dtype is None and len(arrays) == 1 and x.dtype in _WIDE and x.size:
            return self.compute(x)
        wanted = self.dtype or x.dtype
        if not is_float(x.dtype):
            self.infer_type([x.dtype])
        if x.dtype in HALVES:
            x = x.astype(wide(wanted))
        if not x.size:
            return x.astype(wanted)
        y = self.compute(x) if len(arrays) == 1 else self.compute_masked(x, arrays[1])
        return y if y.dtype is wanted else y.astype(wanted)

    def compute_masked(self, x: Any, length: Any) -> Any:
        """The result where the positions from ``length`` on do not take part and give 0."""
        self.infer_shape([x.shape, length.shape])
        axis = self.axis % x.ndim
        position: Any = np.arange(x.shape[axis], dtype=np.int64)
        position = position.reshape((-1,) + (1,) * (x.ndim - 1 - axis))
        inside = np.less(position, np.expand_dims(length, axis))
        return NUMPY.select(inside, self.compute(NUMPY.select(inside, x, x.dtype.type(-np.inf))), x.dtype.type(0))

    def wide(self, F: Any, x: Any) -> Any:
        """The input in the precision to compute in."""
        if not is_half(x.dtype):
            return x
        return F.cast(x, "float32" if self.dtype is None else wide(self.dtype))

    def narrow(self, F: Any, y: Any, x: Any) -> Any:
        """The result in the dtype it must have."""
        wanted = np.dtype(x.dtype) if self.dtype is None else self.dtype
        return y if y.dtype == wanted else F.cast(y, wanted)

    def scaled(self, F: Any, x: Any) -> Any:
        """(x - max) / temperature."""
        z = x if 0 in x.shape else x - F.max(x, self.axis, True)
        return z if self.temperature is None else z / self.temperature

    REFERENCE: ClassVar[Any] = None

    @classmethod
    def samples(cls) -> list[Sample]:
        if cls.REFERENCE is None:
            return []
        f: Any = cls.REFERENCE
        return [
            Sample([(3, 5)], lambda x: f(x, -1)),
            Sample([(2, 3, 4)], lambda x: f(x, 1), axis=1),
            Sample([(7,)], lambda x: f(x / 0.4, 0), temperature=0.4),
            Sample([(0, 3)], lambda x: x),
            Sample([(2, 3)], lambda x: f(x, 0), grad=False, axis=-2, dtype="float64"),
            Sample([(3, 4)], lambda x: f(x, -1), dtypes=("float16",)),
            Sample([np.array([[100.0, 200.0, -200.0]])], lambda x: f(x, -1), grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        if cls.REFERENCE is None:
            return []
        text = "axis 2 is out of range for an input of 2 dimensions; it must be from -2 to 1"
        integers = "data must be floating-point, got int32; use .astype('float32') on it"
        return [
            (((2, 3),), {"axis": 2}, f"{cls.title()}: {text}"),
            ((np.zeros((2, 3), dtype=np.int32),), {}, f"{cls.title()}: {integers}"),
        ]


def _softmax_reference(x: Any, axis: Any) -> Any:
    y = np.exp(x)
    return y / y.sum(axis, keepdims=True)


def _softmin_reference(x: Any, axis: int) -> Any:
    return _softmax_reference(-x, axis)


def _log_softmax_reference(x: Any, axis: int) -> Any:
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def softmax_gradient(F: Any, dy: Any, y: Any, axis: int) -> Any:
    """The gradient of softmax from its result."""
    t = dy * y
    return t - y * F.sum(t, axis, True)


def shares(F: Any, e: Any, axis: int) -> Any:
    """Each number as a part of their sum along an axis; one division a row, products are cheaper."""
    return e * F.reciprocal(F.sum(e, axis, True))


@register("hybrid.softmax")
class Softmax(AlongAxis):
    """exp(data / temperature), divided by its sum along axis

    With ``use_length`` the second input says how many positions take part; the others give 0.
    """

    INPUTS = ("data", "length")
    OPTIONAL = 1
    REFERENCE = staticmethod(_softmax_reference)

    axis: int = attribute(-1, "the axis along which the results sum to 1")
    temperature: float | None = attribute(None, "what the data is divided by; 1 by default")
    dtype: DType | None = attribute(None, "the dtype of the result, the input's by default")
    use_length: bool = attribute(False, "whether there is an input length")

    def input_names(self) -> tuple[str, ...]:
        return ("data", "length") if self.use_length else ("data",)

    def compute(self, x: Any) -> Any:
        return softmax(x, self.axis, self.temperature)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x = self.wide(F, inputs[0])
        if not self.use_length:
            e = F.exp(self.scaled(F, x))
            return self.narrow(F, shares(F, e, self.axis), inputs[0])
        axis = self.axis % len(x.shape)
        position = reshaped(
            F, F.arange(x.shape[axis], dtype=x.dtype), (x.shape[axis],) + (1,) * (len(x.shape) - 1 - axis)
        )
        inside = F.lesser(position, F.expand_dims(F.cast(inputs[1], x.dtype), axis))
        e = F.exp(self.scaled(F, F.where(F.broadcast_to(inside, shape=x.shape), x, F.full_like(x, -math.inf))))
        y = F.where(F.broadcast_to(inside, shape=x.shape), shares(F, e, self.axis), F.zeros_like(x))
        return self.narrow(F, y, inputs[0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, y = values[0], values[-1]
        dx = softmax_gradient(F, dy, y, self.axis)
        dx = dx if self.temperature is None else dx / self.temperature
        return (dx, None) if self.use_length else dx

    @classmethod
    def samples(cls) -> list[Sample]:
        def masked(x: Any, length: Any) -> Any:
            e = np.exp(x) * np.less(np.cumsum(np.ones(x.shape[1])) - 1, length[:, None])
            return e / np.maximum(e.sum(1, keepdims=True), 1e-300)

        return [
            *super().samples(),
            Sample([(4, 5), np.array([1, 3, 5, 0], dtype=np.int32)], masked, grad=False, use_length=True),
            Sample([(2, 5), np.array([1, 3], dtype=np.int32)], masked, use_length=True, axis=1),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "softmax: length has shape (3,), expected (2,): that of data (2, 3) without axis 1"
        return [*super().bad_samples(), (((2, 3), (3,)), {"use_length": True}, text)]


@register("hybrid.softmin")
class Softmin(AlongAxis):
    """exp(-data / temperature), divided by its sum along axis"""

    REFERENCE = staticmethod(_softmin_reference)

    axis: int = attribute(-1, "the axis along which the results sum to 1")
    temperature: float | None = attribute(None, "what the data is divided by; 1 by default")
    dtype: DType | None = attribute(None, "the dtype of the result, the input's by default")
    use_length: bool = attribute(False, "accepted for MXNet's API; it must be False")

    def check(self) -> None:
        super().check()
        _refuse_length(self)

    def compute(self, x: Any) -> Any:
        return softmax(np.negative(x), self.axis, self.temperature)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        e = F.exp(self.scaled(F, -self.wide(F, inputs[0])))
        return self.narrow(F, shares(F, e, self.axis), inputs[0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return softmax_gradient(F, dy, y, self.axis) / -(self.temperature or 1)


@register("hybrid.log_softmax")
class LogSoftmax(AlongAxis):
    """The logarithm of softmax, exact where softmax is almost 0"""

    REFERENCE = staticmethod(_log_softmax_reference)

    axis: int = attribute(-1, "the axis along which the results are the logarithms of shares")
    temperature: float | None = attribute(None, "what the data is divided by; 1 by default")
    dtype: DType | None = attribute(None, "the dtype of the result, the input's by default")
    use_length: bool = attribute(False, "accepted for MXNet's API; it must be False")

    def check(self) -> None:
        super().check()
        _refuse_length(self)

    def compute(self, x: Any) -> Any:
        return log_softmax(x, self.axis, self.temperature)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        z = self.scaled(F, self.wide(F, inputs[0]))
        return self.narrow(F, z - F.log(F.sum(F.exp(z), self.axis, True)), inputs[0])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        dx = dy - F.exp(y) * F.sum(dy, self.axis, True)
        return dx if self.temperature is None else dx / self.temperature


def _refuse_length(op: AlongAxis) -> None:
    """MXNet has the attribute use_length where there is no input for the length."""
    if op.use_length:
        raise AttributeValueError(
            f"{op.title()}: use_length is not supported, as in MXNet; mask the data with F.SequenceMask"
        )


@register("hybrid.softmax_activation", "SoftmaxActivation")
class SoftmaxActivation(Composite):
    """softmax over all but the first axis (mode='instance'), or over axis 1 (mode='channel')"""

    KEEPS_SHAPE = True
    # COMPAT(mxnet): over all of an example, as documented; there over the last axis alone, with the former's gradient.
    mode: str = attribute("instance", "over which axes", enum=("channel", "instance"))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        if len(shape) < (3 if self.mode == "channel" else 2):
            raise ShapeError(f"SoftmaxActivation: mode={self.mode!r} cannot be used on an input of shape {shape}")
        return shapes, shapes

    def rows(self, shape: Shape) -> Shape:
        """The shape in which softmax runs along axis 1."""
        return shape if self.mode == "channel" else (shape[0], math.prod(shape[1:]))

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        y = invoke_bound(Softmax.bind(axis=1), reshaped(F, x, self.rows(x.shape)))
        return reshaped(F, y, x.shape)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        return Softmax.bind(axis=1).eager(x.reshape(self.rows(x.shape))).reshape(x.shape)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        rows = self.rows(x.shape)
        return reshaped(F, softmax_gradient(F, reshaped(F, dy, rows), reshaped(F, y, rows), 1), x.shape)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: _softmax_reference(x, 1)),
            Sample([(2, 3, 4)], lambda x: _softmax_reference(x, (1, 2))),
            Sample([(2, 3, 4)], lambda x: _softmax_reference(x, 1), mode="channel"),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "SoftmaxActivation: mode='channel' cannot be used on an input of shape (2, 3)"
        return [(((2, 3),), {"mode": "channel"}, text)]
