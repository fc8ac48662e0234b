"""Normalizations that need no running statistics: layer, instance and group norm, and L2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.math.contraction import reshaped
from hybridc.dialects.math.reduction import sum_over
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import WIDE, is_float
from hybridc.errors import DTypeError, MXNetError, ShapeError
from hybridc.ground.state import STATE


def standardize(x: Any, axes: tuple[int, ...], n: int, eps: float) -> tuple[Any, Any, Any]:
    """(x - mean) / std in a new array, the mean and std = sqrt(variance + eps) over n numbers each."""
    mean = sum_over(x, axes)
    np.divide(mean, n, out=mean)
    y = np.subtract(x, mean)
    std = sum_over(np.square(y), axes)
    np.divide(std, n, out=std)
    np.add(std, eps, out=std)
    np.sqrt(std, out=std)
    return np.multiply(y, np.reciprocal(std), out=y), mean, std


def checked_axis(title: str, axis: int, data: Shape) -> int:
    """An axis of the data, counted from 0; an error if there is none of this number."""
    rank = len(data)
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{title}: axis {axis} is out of range for data of {rank} dimensions; it must be from {-rank} to {rank - 1}"
        )
    return axis % rank


def known_size(size: int, others: Sequence[Shape]) -> Shape:
    """The shape of one axis of this size; if it is unknown, -1, that of the first other that is known."""
    return next((s for s in others if len(s) == 1 and s != (-1,)), (-1,)) if size == -1 else (size,)


def misfit(parameter: Shape, want: Shape) -> str:
    """That the data has another size than a parameter of one axis is for."""
    if len(parameter) != 1:
        return ""
    return f"the data has size {want[0]} along the axis, the layer is for {parameter[0]}; change either: "


class Normalization(Composite):
    """(data - mean) / std * gamma + beta: which axes are averaged over, and how gamma and beta broadcast.

    Outputs are the result, the mean and std = sqrt(variance + eps), the latter two hidden unless asked for.
    """

    INFERS_PARTLY = True
    COMPUTES_IN = WIDE
    INPUTS = ("data", "gamma", "beta")
    OUTPUTS = ("output", "mean", "std")
    eps: Any = 1e-5
    output_mean_var: Any = False

    def num_outputs(self) -> int:
        return 3

    def num_visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def work(self, data: Shape) -> Shape:
        """The shape in which the data is normalized."""
        return data

    def reduced(self, data: Shape) -> tuple[int, ...]:
        """The axes of the work shape that are averaged over."""
        raise MXNetError(f"{self.title()} must override this")

    def parameters(self, data: Shape) -> int:
        """Number of elements of gamma and of beta."""
        raise MXNetError(f"{self.title()} must override this")

    def aligned(self, data: Shape) -> Shape:
        """The shape with which gamma and beta broadcast to the data."""
        raise MXNetError(f"{self.title()} must override this")

    def statistics(self, data: Shape) -> Shape:
        """The shape of mean and std."""
        return tuple(1 if i in self.reduced(data) else n for i, n in enumerate(self.work(data)))

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The data has the shape of the result, gamma and beta have one axis, whose size follows from the data."""
        data = shapes[0] if shapes[0] is not None else outputs[0]
        others: list[Shape] = [(-1,) if s is None else s for s in shapes[1:]]
        return [data, *others] if data is None or -1 in data else [*self.infer_shape([data, *others])[0]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, *others = shapes
        want = known_size(self.parameters(data), others)
        for name, shape in zip(self.INPUTS[1:], others, strict=True):
            if shape not in (want, (-1,)):
                raise ShapeError(
                    f"{self.title()}: {misfit(shape, want)}{name} has shape {shape}, expected {want} for data of shape "
                    f"{data}"
                )
        return [data, want, want], [data, self.statistics(data), self.statistics(data)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        if not is_float(dtypes[0]):
            raise DTypeError(f"{self.title()}: inputs must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, [dtypes[0]] * 3

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, gamma, beta = inputs
        x = reshaped(F, data, self.work(data.shape))
        axes = self.reduced(data.shape)
        n = max(math.prod(x.shape[a] for a in axes), 1)
        mean = F.sum(x, axes, True) / n
        off = x - mean
        std = F.sqrt(F.sum(off * off, axes, True) / n + self.eps)
        shape = self.aligned(data.shape)
        y = reshaped(F, off * F.reciprocal(std), data.shape)  # one division a row: products are cheaper
        return y * reshaped(F, gamma, shape) + reshaped(F, beta, shape), mean, std

    def check(self) -> None:
        # Constants of ``eager`` by shape of the data, cached.
        self.known: dict[Shape, tuple[Any, ...]] = {}

    def know(self, data: Shape) -> tuple[Any, ...]:
        """The shape to work in, axes, how many numbers, the shape of gamma and beta, as they broadcast."""
        work, axes = self.work(data), self.reduced(data)
        n = max(math.prod(work[a] for a in axes), 1)
        if len(self.known) > 64:
            self.known.clear()
        found = self.known[data] = (work, axes, n, (self.parameters(data),), self.aligned(data))
        return found

    def eager(self, *arrays: Any) -> Any:
        data, gamma, beta = arrays
        shape = data.shape
        work, axes, n, want, aligned = self.known.get(shape) or self.know(shape)
        if gamma.shape != want or beta.shape != want or not is_float(data.dtype):
            self.infer_shape([x.shape for x in arrays])
            self.infer_type([x.dtype for x in arrays])
        y, mean, std = standardize(data if work == shape else data.reshape(work), axes, n, self.eps)
        if work != shape:
            y = y.reshape(shape)
        if want != aligned:
            gamma, beta = gamma.reshape(aligned), beta.reshape(aligned)
        np.multiply(y, gamma, out=y)
        return np.add(y, beta, out=y), mean, std

    # COMPAT(mxnet): there the mean and std that output_mean_var asks for pass no gradient on to the data.
    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, gamma, beta, _, mean, std = values[0], *values[-6:]
        work, axes, shape = self.work(data.shape), self.reduced(data.shape), self.aligned(data.shape)
        x = reshaped(F, data, work)
        n = max(math.prod(x.shape[a] for a in axes), 1)
        if STATE.recording:  # to be differentiated again: hidden outputs pass no gradient on to the data
            mean = F.mean(x, axes, True)
            std = F.sqrt(F.mean(F.square(x - mean), axes, True) + self.eps)
        scale = F.reciprocal(std)
        normal = (x - mean) * scale

        def ddata() -> Any:
            dn = reshaped(F, dy * reshaped(F, gamma, shape), work)
            slope = F.sum(dn * normal, axes, True) / n
            dx = (dn - F.sum(dn, axes, True) / n - normal * slope) * scale
            if self.output_mean_var:
                dmean, dstd = values[1:3]
                dx = dx + (dmean + dstd * normal) / n
            return reshaped(F, dx, data.shape)

        def dgamma() -> Any:
            return reshaped(F, F.sum_to(dy * reshaped(F, normal, data.shape), shape=shape), gamma.shape)

        def dbeta() -> Any:
            return reshaped(F, F.sum_to(dy, shape=shape), beta.shape)

        return ddata, dgamma, dbeta


def _reference(x: Any, axes: Any, eps: float = 1e-5) -> tuple[Any, Any, Any]:
    mean = x.mean(axes, keepdims=True)
    std = np.sqrt(x.var(axes, keepdims=True) + eps)
    return (x - mean) / std, mean, std


@register("hybrid.layer_norm", "LayerNorm")
class LayerNorm(Normalization):
    """(data - mean) / sqrt(variance + eps) * gamma + beta, with mean and variance along one axis"""

    axis: int = attribute(-1, "the axis that is normalized; gamma and beta run along it")
    eps: float = attribute(1e-5, "added to the variance")
    output_mean_var: bool = attribute(False, "also return the mean and sqrt(variance + eps)")

    def normalized(self, data: Shape) -> int:
        """The axis, counted from 0."""
        return checked_axis("LayerNorm", self.axis, data)

    def reduced(self, data: Shape) -> tuple[int, ...]:
        return (self.normalized(data),)

    def parameters(self, data: Shape) -> int:
        return data[self.normalized(data)]

    def aligned(self, data: Shape) -> Shape:
        axis = self.normalized(data)
        return (data[axis],) + (1,) * (len(data) - 1 - axis)

    @classmethod
    def samples(cls) -> list[Sample]:
        def all_three(x: Any, g: Any, b: Any) -> Any:
            y, mean, std = _reference(x, 1)
            return y * g + b, mean, std

        return [
            Sample([(3, 5), (5,), (5,)], lambda x, g, b: _reference(x, -1)[0] * g + b),
            Sample(
                [(2, 3, 4), (3,), (3,)],
                lambda x, g, b: _reference(x, 1, 0.1)[0] * g[:, None] + b[:, None],
                axis=1,
                eps=0.1,
            ),
            Sample([(3, 5), (5,), (5,)], all_three, output_mean_var=True),
            Sample([(0, 5), (5,), (5,)], lambda x, g, b: x + g + b),
            Sample([(3, 6), (6,), (6,)], lambda x, g, b: _reference(x, -1)[0] * g + b, dtypes=("float16",)),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = (
            "LayerNorm: the data has size 3 along the axis, the layer is for 2; change either: gamma has shape (2,), "
            "expected (3,) for data of shape (2, 3)"
        )
        axis = "LayerNorm: axis 2 is out of range for data of 2 dimensions; it must be from -2 to 1"
        return [(((2, 3), (2,), (3,)), {}, text), (((2, 3), (3,), (3,)), {"axis": 2}, axis)]


@register("hybrid.instance_norm", "InstanceNorm")
class InstanceNorm(Normalization):
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each example and channel alone

    Axis 0 are the examples, axis 1 the channels.
    """

    eps: float = attribute(1e-3, "added to the variance")

    def reduced(self, data: Shape) -> tuple[int, ...]:
        return tuple(range(2, len(data)))

    def parameters(self, data: Shape) -> int:
        if len(data) < 3:
            raise ShapeError(f"InstanceNorm: data needs at least 3 axes (example, channel, …), got shape {data}")
        return data[1]

    def aligned(self, data: Shape) -> Shape:
        return (data[1],) + (1,) * (len(data) - 2)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(2, 3, 5), (3,), (3,)], lambda x, g, b: _reference(x, 2, 1e-3)[0] * g[:, None] + b[:, None]),
            Sample(
                [(2, 2, 3, 4), (2,), (2,)],
                lambda x, g, b: _reference(x, (2, 3), 0.1)[0] * g[:, None, None] + b[:, None, None],
                eps=0.1,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "InstanceNorm: data needs at least 3 axes (example, channel, …), got shape (2, 3)"
        return [(((2, 3), (3,), (3,)), {}, text)]


@register("hybrid.group_norm", "GroupNorm")
class GroupNorm(Normalization):
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each example and group of channels alone

    Axis 0 are the examples, axis 1 the channels.
    """

    num_groups: int = attribute(1, "how many groups the channels form", low=1)
    eps: float = attribute(1e-5, "added to the variance")
    output_mean_var: bool = attribute(False, "also return the mean and sqrt(variance + eps)")

    def work(self, data: Shape) -> Shape:
        if len(data) < 3 or (data[1] != -1 and data[1] % self.num_groups):
            raise ShapeError(
                f"GroupNorm: data of shape {data} must have at least 3 axes, and the size of axis 1 "
                f"must be a multiple of num_groups={self.num_groups}"
            )
        return (data[0], self.num_groups, data[1] // self.num_groups * math.prod(data[2:]))

    def reduced(self, data: Shape) -> tuple[int, ...]:
        return (2,)

    def parameters(self, data: Shape) -> int:
        self.work(data)
        return data[1]

    # COMPAT(mxnet): gamma and beta may also belong to the channels, as in the paper and in MXNet 2.
    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """gamma and beta have one number for each group, or each channel if one of them has."""
        data, *others = shapes
        self.work(data)
        groups, channels = (self.num_groups,), (data[1],)
        want = channels if channels in others and data[1] != -1 else groups
        want = known_size(-1, [*others, groups]) if data[1] == -1 else want
        for name, shape in zip(self.INPUTS[1:], others, strict=True):
            if shape not in (want, (-1,)):
                either = f"{groups}, or {channels} as well," if want == groups != channels else f"{want}"
                raise ShapeError(f"GroupNorm: {name} has shape {shape}, expected {either} for data of shape {data}")
        return [data, want, want], [data, self.statistics(data), self.statistics(data)]

    def each(self, data: Any) -> int:
        """The number of channels of a group."""
        self.work(data.shape)
        return data.shape[1] // self.num_groups

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, gamma, beta = inputs
        if gamma.shape != (data.shape[1],):
            gamma, beta = (F.repeat(x, repeats=self.each(data), axis=0) for x in (gamma, beta))
        y, *statistics = super().decompose(F, data, gamma, beta)
        return (y, *(F.reshape_to(v, shape=self.statistics(data.shape)) for v in statistics))

    def eager(self, *arrays: Any) -> Any:
        data, gamma, beta = arrays
        if gamma.shape == (self.num_groups,) == beta.shape:
            gamma, beta = (np.repeat(x, self.each(data)) for x in (gamma, beta))
        y, *statistics = super().eager(data, gamma, beta)
        return (y, *(v.reshape(self.statistics(data.shape)) for v in statistics))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *more, data, gamma, beta, y, mean, std = values
        kept = (*self.work(data.shape)[:2], 1)
        *more, mean, std = (F.reshape_to(v, shape=kept) for v in (*more, mean, std))
        if gamma.shape == (data.shape[1],):
            return super().gradient(F, dy, *more, data, gamma, beta, y, mean, std)
        channels = [F.repeat(x, repeats=self.each(data), axis=0) for x in (gamma, beta)]
        dx, dgamma, dbeta = super().gradient(F, dy, *more, data, *channels, y, mean, std)

        def of_groups(d: Any) -> Any:
            return F.sum(F.reshape_to(d(), shape=(self.num_groups, self.each(data))), axis=1)

        return dx, lambda: of_groups(dgamma), lambda: of_groups(dbeta)

    def aligned(self, data: Shape) -> Shape:
        return (data[1],) + (1,) * (len(data) - 2)

    def statistics(self, data: Shape) -> Shape:
        return self.work(data)[:2]

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, g: Any, b: Any) -> Any:
            y = _reference(x.reshape(2, 2, -1), 2)[0].reshape(x.shape)
            return y * g[:, None] + b[:, None]

        def of_groups(x: Any, g: Any, b: Any) -> Any:
            y, mean, std = _reference(x.reshape(2, 2, -1), 2)
            return (y * g[:, None] + b[:, None]).reshape(x.shape), mean[..., 0], std[..., 0]

        def result(*xs: Any) -> Any:
            return of_groups(*xs)[0]

        def nothing(x: Any, *_: Any) -> Any:
            return x

        return [
            Sample([(2, 4, 3), (4,), (4,)], reference, num_groups=2),
            Sample([(2, 4, 3), (2,), (2,)], result, num_groups=2),
            Sample([(2, 4, 3), (2,), (2,)], of_groups, num_groups=2, output_mean_var=True),
            Sample([(2, 4, 1, 2), (1,), (1,)], lambda x, g, b: _reference(x, (1, 2, 3))[0] * g + b),
            Sample([(0, 4, 3), (2,), (2,)], nothing, num_groups=2),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "GroupNorm: gamma has shape (3,), expected (2,), or (4,) as well, for data of shape (2, 4, 3)"
        parts = (
            "GroupNorm: data of shape (2, 4, 3) must have at least 3 axes, and the size of axis 1 must be a multiple "
            "of num_groups=3"
        )
        return [
            (((2, 4, 3), (3,), (2,)), {"num_groups": 2}, text),
            (((2, 4, 3), (3,), (3,)), {"num_groups": 3}, parts),
        ]


@register("hybrid.lrn", "LRN")
class LRN(Composite):
    """data / (knorm + alpha / nsize * sum of squares of nsize neighbouring channels) ** beta, along axis 1

    For an even ``nsize`` one channel less is summed.
    """

    COMPUTES_IN = WIDE
    GRADIENT_TOO = True
    # COMPAT(mxnet): data of two axes or more, of any float dtype; there four of float32.
    alpha: float = attribute(1e-4, "factor of the mean square")
    beta: float = attribute(0.75, "the exponent")
    knorm: float = attribute(2.0, "added to the mean square")
    nsize: int = attribute(doc="number of channels", low=1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if len(shapes[0]) < 2:
            raise ShapeError(f"LRN: data needs at least 2 axes (example, channel, …), got shape {shapes[0]}")
        return shapes, list(shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"LRN: data must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, list(dtypes)

    def around(self, data: Shape) -> dict[str, Any]:
        """The windows of neighbouring channels."""
        side = min((self.nsize - 1) // 2, max(data[1] - 1, 0))
        return {"axes": 1, "kernel": 2 * side + 1, "pad": side, "count": data[1]}

    def size(self, F: Any, x: Any) -> Any:
        """What is raised to the exponent."""
        squares = F.window_sum(x, power=2, **self.around(x.shape))
        return squares * (self.alpha / self.nsize) + self.knorm

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (data,) = inputs
        self.infer_shape([data.shape])
        self.infer_type([np.dtype(data.dtype)])
        return data * self.size(F, data) ** -self.beta

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        size = self.size(F, x)
        slope = size**-self.beta
        shared = F.window_spread(dy * x * slope / size, size=x.shape[1], **self.around(x.shape))
        return dy * slope - x * shared * (2 * self.alpha * self.beta / self.nsize)

    def nnvm_outputs(self) -> int:
        """What is raised to the exponent is a hidden output there."""
        return 2

    @classmethod
    def samples(cls) -> list[Sample]:
        def normal(n: int, alpha: float = 1e-4, beta: float = 0.75, knorm: float = 2) -> Any:
            def reference(x: Any) -> Any:
                side, channels = (n - 1) // 2, x.shape[1]
                sums = [np.square(x[:, max(c - side, 0) : c + side + 1]).sum(1) for c in range(channels)]
                return x / (knorm + alpha / n * np.stack(sums, 1)) ** beta

            return reference

        given: dict[str, Any] = {"alpha": 1.5, "beta": 0.5, "knorm": 1}
        return [
            Sample([(2, 5, 2, 3)], normal(3), nsize=3),
            Sample([(2, 5, 2)], normal(5, 1.5, 0.5, 1), nsize=5, **given),
            Sample([(1, 3, 2, 2)], normal(9, 1.5, 0.5, 1), nsize=9, **given),
            Sample([(1, 3, 2, 2)], normal(4, 1.5, 0.5, 1), nsize=4, **given),
            Sample([(2, 3)], normal(1, 1.5, 0.5, 1), nsize=1, **given),
            Sample([(0, 3, 2)], normal(3), nsize=3),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [
            (((3,),), {"nsize": 3}, "LRN: data needs at least 2 axes (example, channel, …), got shape (3,)"),
            (((1, 3, 2),), {"nsize": 0}, "LRN: attribute nsize takes an integer of at least 1, got 0"),
        ]


@register("hybrid.l2_normalization", "L2Normalization")
class L2Normalization(Composite):
    """data / sqrt(sum of squares + eps)

    The sum is over each example (mode='instance'), along axis 1 ('channel') or over the axes behind it
    ('spatial').
    """

    COMPUTES_IN = WIDE
    GRADIENT_TOO = True
    eps: float = attribute(1e-10, "added to the sum of squares")
    mode: str = attribute("instance", "over which axes", enum=("channel", "instance", "spatial"))

    def axes(self, shape: Shape) -> tuple[int, ...]:
        """The axes that are summed over."""
        if len(shape) < (2 if self.mode == "instance" else 3):
            raise ShapeError(f"L2Normalization: mode={self.mode!r} cannot be used on data of shape {shape}")
        if self.mode == "channel":
            return (1,)
        return tuple(range(1 if self.mode == "instance" else 2, len(shape)))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        self.axes(shapes[0])
        return shapes, list(shapes)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return x / F.sqrt(F.sum(x * x, self.axes(x.shape), True) + self.eps)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        size = sum_over(np.square(x), self.axes(x.shape))
        size += self.eps
        return np.divide(x, np.sqrt(size, out=size))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        axes = self.axes(x.shape)
        size = F.sqrt(F.sum(x * x, axes, True) + self.eps)
        return (dy - y * F.sum(dy * y, axes, True)) / size

    def nnvm_outputs(self) -> int:
        """The norm is a hidden output there."""
        return 2

    @classmethod
    def samples(cls) -> list[Sample]:
        def over(axes: Any) -> Any:
            def reference(x: Any) -> Any:
                return x / np.sqrt((x * x).sum(axes, keepdims=True) + 1e-10)

            return reference

        return [
            Sample([(3, 5)], over(1)),
            Sample([(2, 3, 4)], over((1, 2))),
            Sample([(2, 3, 4)], over(1), mode="channel"),
            Sample([(2, 3, 4)], over(2), mode="spatial"),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "L2Normalization: mode='channel' cannot be used on data of shape (2, 3)"
        return [(((2, 3),), {"mode": "channel"}, text)]
