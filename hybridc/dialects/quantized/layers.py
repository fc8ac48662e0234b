"""Layers on integers: products are exact, in integers of 32 bits; what only moves or compares keeps its range."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects.array.shape_rules import broadcast_shapes
from hybridc.dialects.math.contraction import FullyConnected
from hybridc.dialects.nn.convolution import Convolution
from hybridc.dialects.nn.pooling import Pooling
from hybridc.dialects.operator import Bad, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.quantized.quantize import Calibrated
from hybridc.dialects.quantized.ranges import (
    LEVELS,
    Quantized,
    ends,
    magnitude,
    quantized,
    ranged,
    real,
    times,
    unit,
)
from hybridc.dtypes import is_float
from hybridc.errors import AttributeValueError, DTypeError, ShapeError, UnsupportedError

_OUTPUTS = ("output", "min_output", "max_output")
_LARGEST = LEVELS["int32"]


def product_ends(F: Any, one: Any) -> tuple[Any, Any]:
    """The range of integers of 32 bits of which 1 stands for ``one``."""
    reach = one * _LARGEST
    return -reach, F.identity(reach)


class Layer(Quantized):
    """Base of products with weights: inputs are data, weight, bias, and the ends of their ranges, in this order."""

    INPUTS = (
        *("data", "weight", "bias"),
        *("min_data", "max_data", "min_weight", "max_weight", "min_bias", "max_bias"),
    )
    OUTPUTS = _OUTPUTS
    OPTIONAL = 3

    no_bias: Any = False

    def input_names(self) -> tuple[str, ...]:
        if not self.no_bias:
            return self.INPUTS
        return tuple(name for name in self.INPUTS if "bias" not in name)

    def layer(self) -> Any:
        """The operator on real numbers, bound with its attributes."""
        raise NotImplementedError

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        count = 2 if self.no_bias else 3
        inside, outs = self.layer().infer_shape(shapes[:count])
        self.require_scalars(shapes[count:], self.input_names()[count:])
        return [*inside, *shapes[count:]], [outs[0], (1,), (1,)]

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        count = 2 if self.no_bias else 3
        inside = self.layer().complete_shapes(shapes[:count], outputs[:1])
        return [*inside, *[(1,) if s is None else s for s in shapes[count:]]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_integers("data", dtypes[0])
        for name, dtype in zip(self.INPUTS[1:3], dtypes[1 : 2 if self.no_bias else 3], strict=False):
            self.require_integers(name, dtype, ("int8",))
        return dtypes, ranged("int32")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        given = dict(zip(self.input_names(), inputs, strict=True))
        one = unit(F, given["min_data"], given["max_data"], given["data"].dtype)
        one = one * unit(F, given["min_weight"], given["max_weight"], "int8")
        # Products and their sums are whole numbers, which float64 holds exactly.
        terms = [F.cast(given[name], "float64") for name in ("data", "weight")]
        if not self.no_bias:
            bias = real(F, given["bias"], given["min_bias"], given["max_bias"])
            terms.append(F.round(F.cast(times(F, bias, 1 / F.maximum(one, 1e-30)), "float64")))
        y = F.clip(F.round(self.apply(F, *terms)), -_LARGEST, _LARGEST)
        return (F.cast(y, "int32"), *product_ends(F, one))

    def apply(self, F: Any, *terms: Any) -> Any:
        """The layer on real numbers."""
        raise NotImplementedError


def _scalars(*values: float) -> list[Any]:
    return [np.array([v], np.float32) for v in values]


_RNG = np.random.default_rng(19)
_DATA, _UNSIGNED = (_RNG.integers(-127, 128, (2, 5), np.int8), _RNG.integers(0, 256, (2, 5), np.uint8))
_WEIGHT, _BIAS = _RNG.integers(-127, 128, (3, 5), np.int8), np.array([100, -50, 7], np.int8)
_IMAGES, _KERNEL = _RNG.integers(-127, 128, (2, 4, 5, 5), np.int8), _RNG.integers(-127, 128, (3, 4, 3, 3), np.int8)
_RANGES = _scalars(-1, 2, -0.5, 0.25, -0.1, 0.31)


def _product_range(levels: float) -> Any:
    reach = 2 / levels * 0.5 / 127 * _LARGEST
    return np.array([-reach]), np.array([reach])


@register("hybrid.quantized_fully_connected", "contrib.quantized_fully_connected", "_contrib_quantized_fully_connected")
class QuantizedFullyConnected(Layer):
    """data @ weight.T + bias on integers of 8 bits, as integers of 32 and their range"""

    num_hidden: int = attribute(doc="the number of outputs", low=1)
    no_bias: bool = attribute(False, "leave the bias out")
    flatten: bool = attribute(True, "all axes but the first are one row; else the last axis alone is")

    def layer(self) -> Any:
        return FullyConnected.bind(**self.attrs)

    def apply(self, F: Any, *terms: Any) -> Any:
        return F.FullyConnected(*terms, **self.attrs)

    @classmethod
    def samples(cls) -> list[Sample]:
        def plain(x: Any, w: Any, *_: Any) -> Any:
            return x.astype(float) @ w.T.astype(float), *_product_range(127 if x.dtype == np.int8 else 255)

        def biased(x: Any, w: Any, b: Any, *_: Any) -> Any:
            y, *ends = plain(x, w)
            unit = 2 / (127 if x.dtype == np.int8 else 255) * 0.5 / 127
            return y + np.rint(b * (0.31 / 127) / unit), *ends

        return [
            Sample([_DATA, _WEIGHT, _BIAS, *_RANGES], biased, grad=False, num_hidden=3),
            Sample([_UNSIGNED, _WEIGHT, _BIAS, *_RANGES], biased, grad=False, num_hidden=3),
            Sample([_DATA, _WEIGHT, *_RANGES[:4]], plain, grad=False, num_hidden=3, no_bias=True),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "quantized_fully_connected: data must be of int8 or uint8, got float32"
        return [(((2, 5), _WEIGHT, *_RANGES[:4]), {"num_hidden": 3, "no_bias": True}, text)]


@register("hybrid.quantized_conv", "contrib.quantized_conv", "_contrib_quantized_conv")
class QuantizedConv(Layer):
    """The convolution of integers of 8 bits, as integers of 32 and their range

    Examples
    --------
    >>> low, high = mx.nd.array([-1]), mx.nd.array([1])
    >>> x = mx.nd.array([[[[1, 2], [3, 4]]]], dtype="int8")
    >>> weight = mx.nd.ones((1, 1, 2, 2), dtype="int8")
    >>> y, least, most = mx.nd.contrib.quantized_conv(
    ...     x, weight, None, low, high, low, high, kernel=(2, 2), num_filter=1, no_bias=True
    ... )
    >>> y.tolist(), y.dtype
    ([[[[10]]]], <class 'numpy.int32'>)
    >>> print(mx.nd.contrib.dequantize(y, least, most).asnumpy(), 10 / 127**2)
    [[[[0.00062]]]] 0.00062000124000248
    """

    kernel_: Shape = attribute(doc="size of the kernel along each axis")
    stride: Shape = attribute((), "step along each axis")
    dilate: Shape = attribute((), "distance of the kernel's elements along each axis")
    pad: Shape = attribute((), "zeros added at both ends of each axis")
    num_filter: int = attribute(doc="the number of filters", low=1)
    num_group: int = attribute(1, "groups of channels, each with its own filters", low=1)
    workspace: int = attribute(1024, "accepted for MXNet's API, without effect")
    no_bias: bool = attribute(False, "leave the bias out")
    cudnn_tune: str | None = attribute(None, "accepted for MXNet's API, without effect")
    cudnn_off: bool = attribute(False, "accepted for MXNet's API, without effect")
    layout: str | None = attribute(None, "the order of the axes")

    def layer(self) -> Any:
        return Convolution.bind(**self.attrs)

    def apply(self, F: Any, *terms: Any) -> Any:
        return F.Convolution(*terms, **self.attrs)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, w: Any, *_: Any) -> Any:
            padded = np.pad(x.astype(float), [(0, 0), (0, 0), (1, 1), (1, 1)])
            seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, ::2]
            return np.einsum("nchwij,ocij->nohw", seen, w.astype(float)), *_product_range(127)

        attrs: dict[str, Any] = {"kernel": (3, 3), "num_filter": 3, "stride": (2, 2), "pad": (1, 1), "no_bias": True}
        return [Sample([_IMAGES, _KERNEL, *_RANGES[:4]], reference, grad=False, **attrs)]


class SameRange(Quantized):
    """Base of operators whose integers stand for what they stood for."""

    INPUTS = ("data", "min_data", "max_data")
    OUTPUTS = _OUTPUTS

    def plain(self, F: Any, x: Any) -> Any:
        """The operator on integers."""
        raise NotImplementedError

    def shape(self, data: Shape) -> Shape:
        """The shape of the result."""
        return data

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return self.with_range(shapes, self.shape(shapes[0]), 2)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_integers("data", dtypes[0])
        return dtypes, ranged(dtypes[0])

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, low, high = inputs
        return (self.plain(F, x), *ends(F, low, high))


@register("hybrid.quantized_pooling", "contrib.quantized_pooling", "_contrib_quantized_pooling")
class QuantizedPooling(SameRange):
    """The greatest, or the mean, of integers in windows; means are rounded

    Examples
    --------
    >>> low, high = mx.nd.array([-1]), mx.nd.array([1])
    >>> x = mx.nd.array([[[[1, 2], [3, 5]]]], dtype="int8")
    >>> y, least, most = mx.nd.contrib.quantized_pooling(x, low, high, kernel=(2, 2), pool_type="avg")
    >>> y.tolist(), y.dtype, least.tolist(), most.tolist()
    ([[[[3]]]], <class 'numpy.int8'>, [-1.0], [1.0])
    """

    kernel_: Shape = attribute((), "size of the window along each axis")
    pool_type: str = attribute("max", "what of a window is taken", enum=("avg", "lp", "max", "sum"))
    global_pool: bool = attribute(False, "one window: all of the image")
    cudnn_off: bool = attribute(False, "accepted for MXNet's API, without effect")
    pooling_convention: str = attribute("valid", "how many windows there are", enum=("full", "same", "valid"))
    stride: Shape = attribute((), "step along each axis")
    pad: Shape = attribute((), "padding at both ends of each axis")
    p_value: int | None = attribute(None, "accepted for MXNet's API, without effect")
    count_include_pad: bool | None = attribute(None, "whether padding counts in means")
    layout: str | None = attribute(None, "the order of the axes")

    def check(self) -> None:
        if self.pool_type not in ("avg", "max"):
            raise AttributeValueError(f"quantized_pooling: pool_type must be 'avg' or 'max', got {self.pool_type!r}")

    def shape(self, data: Shape) -> Shape:
        return Pooling.bind(**self.attrs).infer_shape([data])[1][0]

    def plain(self, F: Any, x: Any) -> Any:
        y = F.Pooling(F.cast(x, "float32"), **self.attrs)
        return F.cast(F.round(y) if self.pool_type == "avg" else y, x.dtype)

    @classmethod
    def samples(cls) -> list[Sample]:
        def windows(x: Any) -> Any:
            return x[:, :, :4, :4].astype(float).reshape(2, 4, 2, 2, 2, 2)

        attrs: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2)}
        return [
            Sample([_IMAGES, *_RANGES[:2]], lambda x, a, b: (windows(x).max((3, 5)), a, b), grad=False, **attrs),
            Sample(
                [np.abs(_IMAGES), *_RANGES[:2]],
                lambda x, a, b: (np.floor(windows(x).mean((3, 5)) + 0.5), a, b),
                grad=False,
                pool_type="avg",
                **attrs,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "quantized_pooling: pool_type must be 'avg' or 'max', got 'sum'"
        return [((_IMAGES, *_RANGES[:2]), {"kernel": (2, 2), "pool_type": "sum"}, text)]


@register("hybrid.quantized_act", "contrib.quantized_act", "_contrib_quantized_act")
class QuantizedAct(SameRange):
    """max(q, 0) of integers"""

    act_type: str = attribute(doc="the function; relu alone", enum=("relu", "sigmoid", "softrelu", "softsign", "tanh"))

    def check(self) -> None:
        if self.act_type != "relu":
            raise UnsupportedError(
                f"quantized_act: act_type must be 'relu', got {self.act_type!r}; use Activation on dequantized data"
            )

    def plain(self, F: Any, x: Any) -> Any:
        # COMPAT(mxnet): unsigned integers stay what they are; there they are read as signed ones.
        return F.maximum(x, 0)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([_DATA, *_RANGES[:2]], lambda x, a, b: (np.maximum(x, 0), a, b), grad=False, act_type="relu"),
            Sample([_UNSIGNED, *_RANGES[:2]], lambda x, a, b: (x, a, b), grad=False, act_type="relu"),
        ]


@register("hybrid.quantized_flatten", "contrib.quantized_flatten", "_contrib_quantized_flatten")
class QuantizedFlatten(SameRange):
    """All axes but the first as one

    Examples
    --------
    >>> low, high = mx.nd.array([-1]), mx.nd.array([1])
    >>> x = mx.nd.array([[[1, 2], [3, 4]]], dtype="int8")
    >>> y, least, most = mx.nd.contrib.quantized_flatten(x, low, high)
    >>> y.tolist(), least.tolist(), most.tolist()
    ([[1, 2, 3, 4]], [-1.0], [1.0])
    """

    def shape(self, data: Shape) -> Shape:
        return data[0], int(np.prod(data[1:], dtype=int))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if not shapes[0]:
            raise ShapeError("quantized_flatten: data needs at least one axis")
        return super().infer_shape(shapes)

    def plain(self, F: Any, x: Any) -> Any:
        return F.identity(F.reshape_to(x, shape=self.shape(x.shape)))

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([_IMAGES, *_RANGES[:2]], lambda x, a, b: (x.reshape(2, -1), a, b), grad=False)]


@register("hybrid.quantized_embedding", "contrib.quantized_embedding", "_contrib_quantized_embedding")
class QuantizedEmbedding(Quantized):
    """Rows of a matrix of integers, by their indices"""

    INPUTS = ("data", "weight", "min_weight", "max_weight")
    OUTPUTS = _OUTPUTS

    input_dim: int = attribute(doc="the number of rows", low=1)
    output_dim: int = attribute(doc="the length of a row", low=1)
    dtype: DType = attribute("float32", "accepted for MXNet's API, without effect")
    sparse_grad: bool = attribute(False, "accepted for MXNet's API, without effect: it has no gradient")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if shapes[1] != (self.input_dim, self.output_dim):
            raise ShapeError(
                f"quantized_embedding: weight must have shape {(self.input_dim, self.output_dim)}, got {shapes[1]}"
            )
        return self.with_range(shapes, (*shapes[0], self.output_dim), 2)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_integers("weight", dtypes[1], ("int8",))
        return dtypes, ranged("int8")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, weight, low, high = inputs
        return (F.take(weight, data, axis=0, mode="clip"), *ends(F, low, high))

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(i: Any, w: Any, *ends: Any) -> Any:
            return w[i.astype(int)], *ends

        index = np.array([[0, 2], [1, 1]], np.float32)
        return [Sample([index, _WEIGHT, *_RANGES[2:4]], reference, grad=False, input_dim=3, output_dim=5)]


@register(
    "hybrid.quantized_concat", "contrib.quantized_concat", "_contrib_quantized_concat", "_contrib_quantized_Concat"
)
class QuantizedConcat(Quantized):
    """Integers one after the other along an axis, in the widest range; signed if some are

    The inputs are the arrays, then the ends of each one's range: data0, data1, min0, max0, min1, max1.
    """

    NNVM = "_contrib_quantized_concat"
    OUTPUTS = _OUTPUTS
    INPUTS = ("data",)
    VARIADIC = True

    num_args: int = attribute(0, "the number of arrays, a third of the number of inputs; 0 to count them")
    dim: int = attribute(1, "the axis")

    def count(self, inputs: int) -> int:
        """The number of arrays among so many inputs."""
        if inputs % 3 or (self.num_args not in (0, inputs // 3, inputs)) or not inputs:
            raise ShapeError(
                f"quantized_concat: for {self.num_args or 'n'} arrays three times as many inputs are expected, the "
                f"arrays and then both ends of each range; got {inputs}"
            )
        return inputs // 3

    def axis(self, rank: int) -> int:
        """The axis, counted from 0."""
        if not -rank <= self.dim < rank:
            raise ShapeError(f"quantized_concat: dim={self.dim} is no axis of an array of {rank} axes")
        return self.dim % rank

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        count = self.count(len(shapes))
        first, axis = shapes[0], self.axis(len(shapes[0]))
        rest = [s[:axis] + s[axis + 1 :] for s in shapes[:count]]
        if any(len(s) != len(first) for s in shapes[:count]) or any(r != rest[0] for r in rest):
            raise ShapeError(
                f"quantized_concat: arrays must have equal sizes but along axis {axis}, got {shapes[:count]}"
            )
        self.require_scalars(shapes[count:], [f"end {i}" for i in range(2 * count)])
        return shapes, [(*first[:axis], sum(s[axis] for s in shapes[:count]), *first[axis + 1 :]), (1,), (1,)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        count = self.count(len(dtypes))
        for i, dtype in enumerate(dtypes[:count]):
            self.require_integers(f"array {i}", dtype)
        return dtypes, ranged(self.joined(dtypes[:count]))

    def joined(self, dtypes: list[Any]) -> str:
        """The dtype of the result."""
        return "int8" if any(np.dtype(d) == np.int8 for d in dtypes) else "uint8"

    def decompose(self, F: Any, *inputs: Any) -> Any:
        count = self.count(len(inputs))
        arrays, low, high = inputs[:count], inputs[count::2], inputs[count + 1 :: 2]
        dtype = self.joined([x.dtype for x in arrays])
        least, most = ends(F, low[0], high[0])
        for a, b in zip(low[1:], high[1:], strict=True):
            a, b = ends(F, a, b)
            least, most = F.minimum(least, a), F.maximum(most, b)
        reach = magnitude(F, least, most)
        parts = [quantized(F, real(F, x, a, b), reach, dtype) for x, a, b in zip(arrays, low, high, strict=True)]
        return F.concat(*parts, dim=self.axis(len(parts[0].shape))), F.identity(least), F.identity(most)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, y: Any, *_: Any) -> Any:
            parts = [x.astype(float) / 3, y.astype(float)]
            return np.rint(np.concatenate(parts, 1)), np.array([-2.0]), np.array([3.0])

        return [Sample([_DATA, _DATA, *_scalars(-1, 1, -2, 3)], reference, grad=False, num_args=2)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "quantized_concat: for 2 arrays three times as many inputs are expected, the arrays and then both ends "
        return [((_DATA, _DATA, *_scalars(-1, 1)), {"num_args": 2}, text + "of each range; got 4")]


class TwoRanges(Calibrated):
    """Base of operators on two arrays, which broadcast, with the ends of both ranges."""

    INPUTS = ("lhs", "rhs", "lhs_min", "lhs_max", "rhs_min", "rhs_max")
    OUTPUTS = _OUTPUTS

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return self.with_range(shapes, broadcast_shapes(self.title(), self.INPUTS[:2], shapes[:2]), 4)

    def result(self, dtypes: list[Any]) -> str:
        """The dtype of the results."""
        if self.calibrated() is None:
            return "int32"
        return "uint8" if all(np.dtype(d) == np.uint8 for d in dtypes[:2]) else "int8"

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        for name, dtype in zip(self.INPUTS, dtypes[:2], strict=False):
            self.require_integers(name, dtype)
        return dtypes, ranged(self.result(dtypes))


@register("hybrid.quantized_elemwise_add", "contrib.quantized_elemwise_add", "_contrib_quantized_elemwise_add")
class QuantizedElemwiseAdd(TwoRanges):
    """lhs + rhs of integers: of 8 bits for a range that is known, else of 32"""

    min_calib_range: float | None = attribute(None, "least number of the range, if it is known")
    max_calib_range: float | None = attribute(None, "greatest number of the range, if it is known")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, y, *given = inputs
        dtype = self.result([x.dtype, y.dtype])
        if dtype != "int32":
            return self.calibrate(F, real(F, x, *given[:2]) + real(F, y, *given[2:]), dtype)
        reach = magnitude(F, *given[:2]) + magnitude(F, *given[2:])
        # In float64, which holds all integers of 32 bits; as a part of the reach a sum is at most 1.
        total = F.cast(real(F, x, *given[:2]), "float64") + F.cast(real(F, y, *given[2:]), "float64")
        part = times(F, total, _LARGEST / F.cast(F.maximum(reach, 1e-30), "float64"))
        return F.cast(F.clip(F.round(part), -_LARGEST, _LARGEST), "int32"), -reach, F.identity(reach)

    @classmethod
    def samples(cls) -> list[Sample]:
        def known(x: Any, y: Any, *_: Any) -> Any:
            total = x.astype(float) / 127 + y.astype(float) * 3 / 127
            return np.clip(np.rint(total * 127 / 2.5), -128, 127), np.array([-2.0]), np.array([2.5])

        ranges = _scalars(-1, 1, -2, 3)
        return [
            Sample([_DATA, _DATA[::-1].copy(), *ranges], known, grad=False, min_calib_range=-2, max_calib_range=2.5)
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "quantized_elemwise_add: shapes do not broadcast: lhs (2, 5), rhs (3, 5); axis 0 has sizes [2, 3], "
        return [((_DATA, _WEIGHT, *_RANGES[:4]), {}, text + "which must be equal or 1")]


@register("hybrid.quantized_elemwise_mul", "contrib.quantized_elemwise_mul", "_contrib_quantized_elemwise_mul")
class QuantizedElemwiseMul(TwoRanges):
    """lhs * rhs of integers: of 8 bits for a range that is known, else of 32; or the real numbers"""

    min_calib_range: float | None = attribute(None, "least number of the range, if it is known")
    max_calib_range: float | None = attribute(None, "greatest number of the range, if it is known")
    enable_float_output: bool = attribute(False, "return real numbers, and no range")

    def num_outputs(self) -> int:
        return 1 if self.enable_float_output else 3

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shapes, outs = super().infer_shape(shapes)
        return shapes, outs[: self.num_outputs()]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        dtypes, outs = super().infer_type(dtypes)
        return dtypes, [np.dtype("float32")] if self.enable_float_output else outs

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, y, low, high, other_low, other_high = inputs
        product = F.cast(x, "int32") * F.cast(y, "int32")
        one = unit(F, low, high, x.dtype) * unit(F, other_low, other_high, y.dtype)
        if self.enable_float_output:
            return times(F, F.cast(product, "float32"), one)
        dtype = self.result([x.dtype, y.dtype])
        if dtype != "int32":
            return self.calibrate(F, times(F, F.cast(product, "float32"), one), dtype)
        return (product, *product_ends(F, one))

    @classmethod
    def samples(cls) -> list[Sample]:
        ranges = _scalars(-1, 1, -2, 3)
        reach = 3 / 127 / 127 * _LARGEST

        def plain(x: Any, y: Any, *_: Any) -> Any:
            return x.astype(float) * y.astype(float), np.array([-reach]), np.array([reach])

        def floats(x: Any, y: Any, *_: Any) -> Any:
            return x.astype(float) * y.astype(float) * (3 / 127 / 127)

        return [
            Sample([_DATA, _DATA, *ranges], plain, grad=False),
            Sample(
                [_DATA, _DATA, *ranges],
                floats,
                grad=False,
                enable_float_output=True,
            ),
        ]


@register("hybrid.quantized_batch_norm", "contrib.quantized_batch_norm", "_contrib_quantized_batch_norm")
class QuantizedBatchNorm(Calibrated):
    """Batch normalization of integers with running statistics, as signed integers in the range of calibration

    Examples
    --------
    >>> low, high = mx.nd.array([-1]), mx.nd.array([1])
    >>> x = mx.nd.array([[127, -127]], dtype="int8")
    >>> gamma, beta, mean, variance = mx.nd.ones(2), mx.nd.array([0, 1]), mx.nd.zeros(2), mx.nd.ones(2)
    >>> y, least, most = mx.nd.contrib.quantized_batch_norm(
    ...     x, gamma, beta, mean, variance, low, high, eps=0, min_calib_range=-2, max_calib_range=2
    ... )
    >>> y.tolist(), least.tolist(), most.tolist()
    ([[64, 0]], [-2.0], [2.0])
    """

    INPUTS = ("data", "gamma", "beta", "moving_mean", "moving_var", "min_data", "max_data")
    OUTPUTS = _OUTPUTS

    eps: float = attribute(0.001, "added to the variance")
    momentum: float = attribute(0.9, "accepted for MXNet's API, without effect")
    fix_gamma: bool = attribute(True, "take gamma to be 1")
    use_global_stats: bool = attribute(False, "accepted for MXNet's API, without effect: they are always used")
    output_mean_var: bool = attribute(False, "accepted for MXNet's API, without effect")
    axis: int = attribute(1, "the axis of the channels")
    cudnn_off: bool = attribute(False, "accepted for MXNet's API, without effect")
    min_calib_range: float | None = attribute(None, "least number of the result")
    max_calib_range: float | None = attribute(None, "greatest number of the result")

    def check(self) -> None:
        super().check()
        if self.calibrated() is None:
            raise AttributeValueError(
                "quantized_batch_norm: min_calib_range and max_calib_range are required; calibrate the network"
            )

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, *statistics = shapes[:5]
        rank = len(data)
        if not -rank <= self.axis < rank:
            raise ShapeError(f"quantized_batch_norm: axis={self.axis} is no axis of data {data}")
        wanted = (data[self.axis],)
        for name, shape in zip(self.INPUTS[1:5], statistics, strict=True):
            if shape != wanted:
                raise ShapeError(f"quantized_batch_norm: {name} must have shape {wanted}, got {shape}")
        return self.with_range(shapes, data, 2)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_integers("data", dtypes[0])
        if not all(is_float(d) for d in dtypes[1:]):
            raise DTypeError("quantized_batch_norm: all inputs but data must be of float32")
        return dtypes, ranged("int8")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, low, high = inputs[0], *inputs[5:]
        gamma, beta, mean, variance = (F.cast(v, "float32") for v in inputs[1:5])
        x = real(F, data, low, high)
        shape = tuple(n if i == self.axis % len(x.shape) else 1 for i, n in enumerate(x.shape))
        factor = F.rsqrt(variance + self.eps)
        factor = factor if self.fix_gamma else factor * gamma
        factor, offset = (F.reshape_to(v, shape=shape) for v in (factor, beta - mean * factor))
        y = F.broadcast_add(F.broadcast_mul(x, factor), offset)
        return self.calibrate(F, y, "int8")

    @classmethod
    def samples(cls) -> list[Sample]:
        statistics = [np.array(v, np.float32) for v in ([1, 2, 0.5, 1], [0.1, 0, -0.2, 0.3], [0.1, 0.2, 0.3, 0.4])]
        inputs = [_IMAGES, *statistics, np.array([1, 2, 3, 0.5], np.float32), *_scalars(-1, 2)]

        def reference(x: Any, gamma: Any, beta: Any, mean: Any, variance: Any, *_: Any) -> Any:
            g, b, m, v = (a.reshape(-1, 1, 1) for a in (gamma, beta, mean, variance))
            y = (x * (2 / 127) - m) / np.sqrt(v + 0.001) * g + b
            return np.clip(np.rint(y * 127 / 3), -128, 127), np.array([-2.0]), np.array([3.0])

        attrs: dict[str, Any] = {"fix_gamma": False, "min_calib_range": -2.0, "max_calib_range": 3.0}
        return [Sample(inputs, reference, grad=False, **attrs)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "quantized_batch_norm: min_calib_range and max_calib_range are required; calibrate the network"
        return [((_IMAGES, *[np.ones(4, np.float32)] * 4, *_scalars(-1, 2)), {}, text)]
