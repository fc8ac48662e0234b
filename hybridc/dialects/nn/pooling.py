"""Pooling: maxima, means, sums and norms of windows of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hybridc.dialects.array.creation_ops import Creation
from hybridc.dialects.array.windows import windows_in
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Axes, DType, Shape
from hybridc.dtypes import FLOAT32, TYPES, is_float, is_half, wide
from hybridc.errors import AttributeValueError, DTypeError, ShapeError

LAYOUTS = ("NCDHW", "NCHW", "NCW", "NDHWC", "NHWC", "NWC")


class PoolingWindows(NamedTuple):
    """The windows of an image: see :mod:`hybridc.dialects.array.windows`. ``whole``: one window, which is the image."""

    axes: Shape
    sizes: Shape
    kernel: Shape
    stride: Shape
    pad: Shape
    windows: Shape
    whole: bool

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes of operators on windows."""
        names = ("axes", "kernel", "stride", "pad")
        return {**{name: getattr(self, name) for name in names}, "count": self.windows}


@register("hybrid.window_count")
class WindowCount(Creation):
    """How many elements each window along an axis has; at least 1."""

    gradient = no_gradient

    size: int = attribute(doc="size of the axis")
    kernel_: int = attribute(doc="elements of a window")
    count: int = attribute(doc="number of windows")
    stride: int = attribute(1, "distance of windows")
    pad: int = attribute(0, "by how much the first window begins before the axis")
    padded: bool = attribute(False, "count elements of the padding on both sides, too")
    dtype: DType = attribute(FLOAT32, "the element type")

    def out_shape(self) -> Shape:
        return (self.count,)

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        border = self.pad if self.padded else 0

        def element(b: Any, i: Any) -> Any:
            first = i * self.stride - self.pad
            end = b.min(first + self.kernel_, self.size + border)
            return b.cast(b.max(end - b.max(first, -border), 1), self.dtype)

        return m.generate((self.count,), self.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        first = np.arange(int(self.count)) * self.stride - self.pad
        border = self.pad if self.padded else 0
        end = np.minimum(first + int(self.kernel_), int(self.size) + border)
        return np.maximum(end - np.maximum(first, -border), 1).astype(self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        given: dict[str, Any] = {"size": 6, "kernel": 3, "count": 4, "stride": 2, "pad": 1}
        padded: dict[str, Any] = {"padded": True, "dtype": "float64"}
        return [
            Sample([], lambda: np.array([2, 3, 3, 1]), grad=False, **given),
            Sample([], lambda: np.array([3, 3, 3, 2]), grad=False, **given, **padded),
        ]


@register("hybrid.pooling", "Pooling")
class Pooling(Composite):
    """The maximum, mean, sum or norm of the elements of each window of an image

    The number of windows along an axis is ``floor((size + 2 * pad - kernel) / stride) + 1`` by convention 'valid', with
    ceil by 'full', and ``ceil(size / stride)`` by 'same'.
    """

    INFERS_PARTLY = True

    # COMPAT(mxnet): images of no examples are images; a window with nan has the maximum nan, one of -inf alone -inf.
    kernel_: Axes = attribute((), "size of a window: (w,), (h, w) or (d, h, w)")
    pool_type: str = attribute("max", "what is computed of each window", enum=("avg", "lp", "max", "sum"))
    global_pool: bool = attribute(False, "one window: the image; kernel, stride and pad are not used")
    cudnn_off: bool = attribute(False, "accepted; it changes nothing")
    pooling_convention: str = attribute("valid", "how windows are counted", enum=("full", "same", "valid"))
    stride: Axes = attribute((), "distance of windows along each axis; 1 by default")
    pad: Axes = attribute((), "elements that are added before and after each axis; 0 by default")
    p_value: int | None = attribute(None, "exponent of the norm 'lp': 1, 2 or 3")
    count_include_pad: bool | None = attribute(
        None, "whether a mean counts elements of the padding; by default, it does"
    )
    layout: str | None = attribute(None, "order of the axes; NCW, NCHW or NCDHW by default", enum=LAYOUTS)

    def check(self) -> None:
        n = len(self.kernel_)
        if not self.global_pool and not 1 <= n <= 3:
            raise AttributeValueError(f"{self.title()}: kernel={self.kernel_} must have 1, 2 or 3 numbers")
        for name, low in (("kernel", 1), ("stride", 1), ("pad", 0)):
            values = self.attrs[name]
            if any(v < low for v in values) or (not self.global_pool and len(values) not in (0, n)):
                raise AttributeValueError(
                    f"{self.title()}: {name}={values} must have {n} numbers of at least {low}, one for each axis"
                )
        if not self.global_pool and any(p >= k for p, k in zip(self.pad, self.kernel_, strict=False)):
            raise AttributeValueError(
                f"{self.title()}: pad={self.pad} must be smaller than kernel={self.kernel_} along each axis"
            )
        if self.pooling_convention == "same" and any(self.pad) and not self.global_pool:
            raise AttributeValueError(f"{self.title()}: pooling_convention='same' takes no pad, got pad={self.pad}")
        if self.pool_type == "lp" and self.p_value not in (1, 2, 3):
            raise AttributeValueError(f"{self.title()}: pool_type='lp' needs p_value=1, 2 or 3, got {self.p_value}")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"{self.title()}: data must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, list(dtypes)

    def spatial(self, shape: Shape) -> Shape:
        """The axes of the image."""
        n = len(shape) - 2
        wanted = n if self.global_pool else len(self.kernel_)
        layout = self.layout or "NCDHW"[:2] + "DHW"[3 - wanted :]
        if n != wanted or n not in (1, 2, 3):
            axes = f"{wanted + 2} axes for kernel={self.kernel_}" if not self.global_pool else "3, 4 or 5 axes"
            raise ShapeError(f"{self.title()}: data of shape {shape} must have {axes}")
        if len(layout) != len(shape):
            raise ShapeError(f"{self.title()}: layout={layout!r} does not fit data of shape {shape}")
        return tuple(i for i, axis in enumerate(layout) if axis in "DHW")

    def geometry(self, shape: Shape) -> PoolingWindows:
        """The windows of an image of this shape."""
        axes = self.spatial(shape)
        n = len(axes)
        sizes = tuple(shape[a] for a in axes)
        ones, zeros = (1,) * n, (0,) * n
        if 0 in sizes:
            raise ShapeError(f"{self.title()}: data of shape {shape} has images without elements")
        if self.global_pool:
            return PoolingWindows(axes, sizes, sizes, sizes, zeros, ones, True)
        kernel, stride, pad = self.kernel_, self.stride or ones, self.pad or zeros
        if any(k > size + 2 * p for k, size, p in zip(kernel, sizes, pad, strict=True) if size != -1):
            raise ShapeError(
                f"{self.title()}: kernel={kernel} is larger than the image of {sizes} elements with pad={pad}, "
                f"of data of shape {shape}"
            )
        count = tuple(self.windows_along(*each) for each in zip(sizes, kernel, stride, pad, strict=True))
        # The distance to a window that does not exist does not matter; so large, no two could overlap.
        stride = tuple(max(s, k) if c == 1 else s for s, k, c in zip(stride, kernel, count, strict=True))
        whole = count == ones and pad == zeros and kernel == sizes
        return PoolingWindows(axes, sizes, kernel, stride, pad, count, whole)

    def windows_along(self, size: int, kernel: int, stride: int, pad: int) -> int:
        """The number of windows along an axis."""
        if self.pooling_convention == "same":
            return -(-size // stride)
        if self.pooling_convention == "full":
            return -(-(size + 2 * pad - kernel) // stride) + 1
        return windows_in(size, kernel, stride, pad)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        found, made = self.geometry(shape), list(shape)
        for axis, size, count in zip(found.axes, found.sizes, found.windows, strict=True):
            made[axis] = -1 if size == -1 and not self.global_pool else count
        return shapes, [tuple(made)]

    def averaged(self, F: Any, y: Any, found: PoolingWindows) -> Any:
        """The sums of windows divided by their numbers of elements."""
        counts: list[Any] = []
        number = 1
        padded = self.count_include_pad is not False
        for axis, size, k, s, p, count in zip(*found[:6], strict=True):
            geometry: dict[str, Any] = {"size": size, "kernel": k, "stride": s, "pad": p, "count": count}
            last = (count - 1) * s - p + k
            if last <= size + (p if padded else 0) and (padded or not p):
                number = number * k
                continue
            counted = F.window_count(**geometry, padded=padded, dtype=y.dtype)
            counts.append(F.reshape_to(counted, shape=tuple(count if a == axis else 1 for a in range(len(y.shape)))))
        for counted in counts:
            y = F.broadcast_div(y, counted)
        return y / number if number != 1 else y

    def of_nothing(self, dtype: DType) -> float:
        """The maximum of a window without elements."""
        return -TYPES[dtype].largest

    def maxima(self, F: Any, x: Any, found: PoolingWindows) -> Any:
        """The maxima of windows; those that have no element are at the ends of axes."""
        pairs = zip(found.sizes, found.pad, found.stride, found.windows, strict=True)
        some = tuple(min(count, -(-(size + pad) // stride)) for size, pad, stride, count in pairs)
        y = F.window_max(x, **found._replace(windows=some).attrs)
        for axis, full, count in zip(found.axes, found.windows, some, strict=True):
            if count < full:
                shape = (*y.shape[:axis], full - count, *y.shape[axis + 1 :])
                y = F.concat(y, F.full(shape=shape, val=self.of_nothing(np.dtype(x.dtype)), dtype=x.dtype), dim=axis)
        return y

    def total(self, F: Any, x: Any, found: PoolingWindows, power: int = 1) -> Any:
        """The sums of powers of the elements of windows, in the dtype in which sums are computed."""
        dtype = wide(np.dtype(x.dtype))
        if not found.whole:
            return F.window_sum(x, power=power, dtype=dtype, **found.attrs)
        x = F.cast(x, dtype) if x.dtype != dtype else x
        return F.sum(x if power == 1 else x**power, axis=found.axes, keepdims=True)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        self.infer_type([np.dtype(x.dtype)])
        found = self.geometry(x.shape)
        if self.pool_type == "max":
            return F.max(x, axis=found.axes, keepdims=True) if found.whole else self.maxima(F, x, found)
        y = self.total(F, x, found, (self.p_value or 1) if self.pool_type == "lp" else 1)
        if self.pool_type == "avg":
            y = self.averaged(F, y, found)
        if self.pool_type == "lp" and self.p_value != 1:
            y = F.sqrt(y) if self.p_value == 2 else F.cbrt(y)
        return F.cast(y, x.dtype) if is_half(x.dtype) else y

    def spread(self, F: Any, dy: Any, x: Any, found: PoolingWindows) -> Any:
        """What windows have, added to all their elements."""
        if found.whole:
            return F.broadcast_to(dy, shape=x.shape)
        return F.window_spread(dy, size=found.sizes, **found.attrs)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        found = self.geometry(x.shape)
        if self.pool_type == "max":
            if not found.whole:
                return F.window_spread_at(dy, F.window_place(x, **found.attrs), size=found.sizes, **found.attrs)
            axis = found.axes[0]
            flat = (*x.shape[:axis], math.prod(found.sizes), *x.shape[found.axes[-1] + 1 :])
            place = F.argmax(F.reshape_to(x, shape=flat), axis=axis, keepdims=True)
            short = tuple(1 if a == axis else n for a, n in enumerate(flat))
            numbers = F.arange(flat[axis], dtype=place.dtype)
            own = F.reshape_to(numbers, shape=tuple(n if a == axis else 1 for a, n in enumerate(flat)))
            hit = F.cast(F.broadcast_equal(own, place), x.dtype)
            return F.reshape_to(F.broadcast_mul(hit, F.reshape_to(dy, shape=short)), shape=x.shape)
        half = is_half(x.dtype)
        if half:
            dy, x, y = (F.cast(v, "float32") for v in (dy, x, y))
        if self.pool_type == "avg":
            dy = self.averaged(F, dy, found)
        if self.pool_type == "lp" and self.p_value != 1:
            power = y if self.p_value == 2 else y * y
            empty = F.equal(power, 0)  # of a window of zeros
            slope = F.where(empty, F.zeros_like(dy), dy / F.where(empty, F.ones_like(power), power))
            dx = self.spread(F, slope, x, found) * (x if self.p_value == 2 else x * x)
        else:
            dx = self.spread(F, dy, x, found)
        return F.cast(dx, values[1].dtype) if half else dx

    def nnvm_outputs(self) -> int:
        """The places of maxima are a hidden output there, of images whose channels come first."""
        return 2 if self.pool_type == "max" and self.kernel_ and (self.layout or "NC")[1] == "C" else 1

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return pooling_samples()

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        image = ((1, 2, 4, 5),)
        return [
            (image, {"kernel": (7, 2), "pad": (1, 0)},
             "Pooling: kernel=(7, 2) is larger than the image of (4, 5) elements with pad=(1, 0), of data of shape "
             "(1, 2, 4, 5)"),
            (image, {"kernel": (2, 2), "stride": (0, 1)},
             "Pooling: stride=(0, 1) must have 2 numbers of at least 1, one for each axis"),
            (image, {"kernel": (2, 2), "stride": (-1, 1)},
             "Pooling: stride=(-1, 1) must have 2 numbers of at least 1, one for each axis"),
            (image, {"kernel": (2, 2), "stride": 2},
             "Pooling: stride=(2,) must have 2 numbers of at least 1, one for each axis"),
            (image, {"kernel": 2}, "Pooling: data of shape (1, 2, 4, 5) must have 3 axes for kernel=(2,)"),
            (((2, 4),), {"kernel": (), "global_pool": True},
             "Pooling: data of shape (2, 4) must have 3, 4 or 5 axes"),
            (image, {"kernel": (2, 2), "layout": "NWC"},
             "Pooling: layout='NWC' does not fit data of shape (1, 2, 4, 5)"),
            (image, {"kernel": (2, 2), "layout": "CHWN"},
             "Pooling: attribute layout takes one of 'NCDHW', 'NCHW', 'NCW', 'NDHWC', 'NHWC', 'NWC', got 'CHWN'"),
            (image, {"kernel": (2, 2), "pooling_convention": "ceil"},
             "Pooling: attribute pooling_convention takes one of 'full', 'same', 'valid', got 'ceil'"),
            (image, {"kernel": (2, 2), "pad": (2, 0)},
             "Pooling: pad=(2, 0) must be smaller than kernel=(2, 2) along each axis"),
            (image, {"kernel": (2, 2), "pad": (1, 0), "pooling_convention": "same"},
             "Pooling: pooling_convention='same' takes no pad, got pad=(1, 0)"),
            (image, {}, "Pooling: kernel=() must have 1, 2 or 3 numbers"),
            (image, {"kernel": (2, 2), "pool_type": "lp"},
             "Pooling: pool_type='lp' needs p_value=1, 2 or 3, got None"),
        ]  # fmt: skip


@register("hybrid.pooling_v1", "Pooling_v1")
class PoolingV1(Pooling):
    """As Pooling, an older version: a mean is always the sum divided by the number of elements of a whole window"""

    ORDER = ("kernel", "pool_type", "global_pool", "pooling_convention", "stride", "pad")

    # COMPAT(mxnet): a maximum leaves padding out, and the first of equal maxima has the gradient, as in Pooling; there
    # padding is 0, and all equal maxima have the gradient.
    def averaged(self, F: Any, y: Any, found: PoolingWindows) -> Any:
        return y / math.prod(found.kernel)

    def of_nothing(self, dtype: DType) -> float:
        return -math.inf

    def nnvm_outputs(self) -> int:
        """It has no hidden output."""
        return 1

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def mean(x: Any) -> Any:
            x = np.pad(x, ((0, 0), (0, 0), (1, 2), (1, 2)))
            return np.stack(
                [x[..., i : i + 2, j : j + 2].sum((2, 3)) / 4 for i in (0, 2, 4) for j in (0, 2)], 2
            ).reshape(1, 2, 3, 2)

        full: dict[str, Any] = {"kernel": (2, 2), "stride": (2, 2), "pad": (1, 1), "pooling_convention": "full"}
        return [Sample([(1, 2, 3, 2)], mean, pool_type="avg", **full)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return []


def pooled(x: Any, *, channels_last: bool = False, **attrs: Any) -> Any:
    """The reference: windows one after the other."""
    x = np.moveaxis(x, -1, 1) if channels_last else x
    sizes = x.shape[2:]
    n, kind = len(sizes), attrs["pool_type"]
    kernel, stride, pad = attrs["kernel"], attrs.get("stride", (1,) * n), attrs.get("pad", (0,) * n)
    convention, include = attrs.get("pooling_convention", "valid"), attrs.get("count_include_pad", True)
    if attrs.get("global_pool"):
        kernel, stride, pad, convention = sizes, (1,) * n, (0,) * n, "valid"
    count: list[int] = []
    for size, k, s, p in zip(sizes, kernel, stride, pad, strict=True):
        steps = (size + 2 * p - k) / s
        by = {"valid": math.floor(steps) + 1, "full": math.ceil(steps) + 1, "same": math.ceil(size / s)}
        count.append(by[convention])
    y = np.zeros((*x.shape[:2], *count))
    for place in np.ndindex(*count):
        begin = [o * s - p for o, s, p in zip(place, stride, pad, strict=True)]
        part: Any = x[(..., *(slice(max(b, 0), max(b + k, 0)) for b, k in zip(begin, kernel, strict=True)))]
        ends = [min(b + k, m + p) - b for b, k, m, p in zip(begin, kernel, sizes, pad, strict=True)]
        elements = math.prod(ends) if include else math.prod(part.shape[2:])
        over = tuple(range(2, 2 + n))
        if kind == "max":
            y[(..., *place)] = part.max(over, initial=-np.inf)
        elif kind == "lp":
            p = attrs["p_value"]
            powers = (part**p).sum(over)
            y[(..., *place)] = np.sign(powers) * np.abs(powers) ** (1 / p)
        else:
            y[(..., *place)] = part.sum(over) / (max(elements, 1) if kind == "avg" else 1)
    return np.moveaxis(y, 1, -1) if channels_last else y


def pooling_samples() -> list[Sample]:
    """Samples of all kinds, conventions, ranks and layouts."""

    def sample(shape: Shape, kind: str, kernel: Shape, layout: str | None = None, **attrs: Any) -> Sample:
        def reference(x: Any) -> Any:
            return pooled(
                x, channels_last=layout is not None and layout[1] != "C", pool_type=kind, kernel=kernel, **attrs
            )

        given = {"layout": layout} if layout else {}
        return Sample([shape], reference, pool_type=kind, kernel=kernel, **given, **attrs)

    wide_: dict[str, Any] = {"stride": (2, 2), "pad": (1, 1)}
    made = [
        sample((2, 2, 7), kind, (3,), stride=(2,), pad=(1,), p_value=p) if kind == "lp" else
        sample((2, 2, 7), kind, (3,), stride=(2,), pad=(1,))
        for kind, p in (("max", None), ("avg", None), ("sum", None), ("lp", 2))
    ]  # fmt: skip
    return [
        *made,
        sample((1, 2, 5, 4), "max", (3, 2), **wide_),
        sample((1, 2, 5, 4), "avg", (3, 2), **wide_),
        sample((1, 2, 6, 6), "avg", (3, 3), pooling_convention="full", count_include_pad=False, **wide_),
        sample((1, 1, 6, 5), "avg", (3, 3), pooling_convention="full", **wide_),
        sample((1, 1, 7, 5), "max", (2, 3), pooling_convention="full", stride=(3, 2)),
        sample((1, 2, 7), "max", (3,), pooling_convention="same", stride=(2,)),
        sample((1, 1, 3, 4), "avg", (2, 2), pooling_convention="same", stride=(2, 3)),
        sample((2, 4, 5, 3), "max", (2, 2), "NHWC", stride=(2, 2)),
        sample((1, 4, 5, 3), "avg", (3, 3), "NHWC", count_include_pad=False, **wide_),
        sample((2, 5, 3), "sum", (2,), "NWC"),
        sample((1, 2, 3, 4, 3), "max", (2, 3, 2), stride=(1, 2, 1), pad=(0, 1, 1)),
        sample((1, 2, 3, 2, 2), "avg", (2, 2, 1), "NDHWC"),
        sample((2, 3, 4, 5), "avg", (), global_pool=True),
        sample((2, 3, 4, 5), "max", (3, 3), "NHWC", global_pool=True),
        sample((2, 3, 4), "lp", (), global_pool=True, p_value=2),
        sample((2, 2, 3, 3), "avg", (3, 3)),
        sample((1, 2, 3), "lp", (2,), p_value=1),
        sample((1, 2, 4), "lp", (2,), p_value=3),
        sample((0, 2, 4), "max", (2,)),
        sample((1, 1, 1, 1), "avg", (3, 3), pad=(2, 2)),
        sample((1, 1, 3, 10), "max", (9, 9), pad=(4, 4)),
        sample((1, 1, 3, 3), "avg", (10, 9), pad=(5, 4)),
    ]
