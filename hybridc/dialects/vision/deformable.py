"""Deformable convolutions: each tap of the kernel reads where an offset moves it, by bilinear interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, Shape
from hybridc.dialects.vision.bilinear import axis_of, interpolate, pixel_rows
from hybridc.dialects.vision.rules import CheckedComposite, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, ShapeError


class Deformable(CheckedComposite):
    """A convolution of ``(N, C, H, W)`` whose taps have offsets, and perhaps factors."""

    OPTIONAL = 1
    MASKED: ClassVar[bool] = False

    kernel_: Axes = attribute(doc="rows and columns of the kernel")
    stride: Axes = attribute((), "steps of the kernel; 1 by default")
    dilate: Axes = attribute((), "distances between the taps of the kernel; 1 by default")
    pad: Axes = attribute((), "rows and columns of zeros on each side; 0 by default")
    num_filter: int = attribute(doc="number of channels of the result", low=1)
    num_group: int = attribute(1, "groups of channels that are convolved on their own", low=1)
    num_deformable_group: int = attribute(1, "groups of channels that have offsets of their own", low=1)
    workspace: int = attribute(1024, "accepted for MXNet's API, without effect")
    no_bias: bool = attribute(False, "leave bias out")
    layout: str | None = attribute(None, "the order of axes", enum=("NCHW", "NCW", "NCDHW"))

    def check(self) -> None:
        stride, dilate, pad = self.steps()
        for name, value in (("kernel", self.kernel_), ("stride", stride), ("dilate", dilate), ("pad", pad)):
            least = 0 if name == "pad" else 1
            if len(value) != 2 or min(value) < least:
                raise AttributeValueError(
                    f"{self.title()}: {name} must be two numbers of at least {least}, got {value}"
                )
        if self.layout not in (None, "NCHW"):
            raise AttributeValueError(f"{self.title()}: layout must be NCHW, got {self.layout!r}")
        if self.num_filter % self.num_group:
            raise AttributeValueError(
                f"{self.title()}: num_group={self.num_group} must divide num_filter={self.num_filter}"
            )

    def input_names(self) -> tuple[str, ...]:
        return self.INPUTS[:-1] if self.no_bias else self.INPUTS

    def steps(self) -> tuple[Axes, Axes, Axes]:
        """Stride, dilation and padding along both axes."""
        return self.stride or (1, 1), self.dilate or (1, 1), self.pad or (0, 0)

    def out_size(self, size: Shape) -> Shape:
        """Rows and columns of the result."""
        axes = zip(size, self.kernel_, *self.steps(), strict=True)
        return tuple(-1 if n == -1 else (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, d, p in axes)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        require_shape(self.title(), "data", data, ("N", "C", "height", "width"))
        images, channels, *size = data
        made = self.out_size(tuple(size))
        if any(n != -1 and n < 1 for n in made):
            raise ShapeError(
                f"{self.title()}: the kernel {self.kernel_} is larger than the padded data of shape {data}"
            )
        for name in ("num_group", "num_deformable_group"):
            if channels % getattr(self, name) and channels != -1:
                raise ShapeError(
                    f"{self.title()}: {name}={getattr(self, name)} must divide the channels of data {data}"
                )
        taps = math.prod(self.kernel_) * self.num_deformable_group
        per_group = channels // self.num_group if channels != -1 else -1
        wanted = [data, (images, 2 * taps, *made)]
        if self.MASKED:
            wanted.append((images, taps, *made))
        wanted += [(self.num_filter, per_group, *self.kernel_), (self.num_filter,)]
        filled: list[Shape] = []
        for name, got, want in zip(self.input_names(), shapes, wanted, strict=False):
            require_shape(self.title(), name, got, want)
            filled.append(tuple(w if g == -1 else g for g, w in zip(got, want, strict=True)))
        return filled, [(images, self.num_filter, *made)]

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All follow from the data."""
        data = shapes[0]
        if data is None or len(data) != 4:
            return shapes
        ranks = [4] * (len(self.INPUTS) - 1) + [1]
        given = [(-1,) * rank if s is None else s for s, rank in zip(shapes, ranks, strict=False)]
        return list(self.infer_shape(given)[0])

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, offset, *others = inputs
        mask = others.pop(0) if self.MASKED else None
        weight, *bias = others
        images, channels, height, width = data.shape
        dtype = np.dtype(data.dtype)
        rows, columns = self.out_size((height, width))
        taps, groups = math.prod(self.kernel_), self.num_deformable_group
        shape = (images, groups, taps, rows, columns)
        moved = F.reshape_to(F.cast(offset, wide(dtype)), shape=(images, groups, taps, 2, rows, columns))
        y, x = (
            F.reshape_to(F.slice_axis(moved, axis=3, begin=i, end=i + 1), shape=shape) + self._places(F, i, size, moved)
            for i, size in enumerate((rows, columns))
        )
        y, x, factor = self.bounded(F, y, x, height, width)
        if mask is not None:
            own = F.reshape_to(F.cast(mask, wide(dtype)), shape=shape)
            factor = own if factor is None else own * factor
        # The pixels of each group of channels are rows of their own.
        split = F.reshape_to(data, shape=(images * groups, channels // groups, height, width))
        first = axis_of(F, images, (images, 1, 1, 1, 1), "int64") * groups + axis_of(
            F, groups, (1, groups, 1, 1, 1), "int64"
        )

        def place(row: Any, column: Any) -> Any:
            return (first * height + row) * width + column

        found = interpolate(F, pixel_rows(F, split), place, y, x, (height, width))
        if factor is not None:
            found = found * F.reshape_to(factor, shape=(*shape, 1))
        found = F.transpose(F.cast(found, dtype), axes=(1, 5, 2, 0, 3, 4))
        return self._contracted(F, found, weight, bias, (images, rows, columns))

    def _places(self, F: Any, axis: int, size: int, like: Any) -> Any:
        """Where the taps of the kernel are without offsets, in a shape that broadcasts."""
        (stride, dilate, pad), dtype = (v[axis] for v in self.steps()), np.dtype(like.dtype)
        tap = axis_of(F, math.prod(self.kernel_), (1, 1, math.prod(self.kernel_), 1, 1), dtype)
        row = F.floor((tap + 0.5) / self.kernel_[1])
        tap = row if axis == 0 else tap - row * self.kernel_[1]
        at = axis_of(F, size, (1, 1, 1, size, 1) if axis == 0 else (1, 1, 1, 1, size), dtype)
        return at * stride - pad + tap * dilate

    def bounded(self, F: Any, y: Any, x: Any, height: int, width: int) -> tuple[Any, Any, Any]:
        """The positions that are read, and a factor of what is read there, or None."""
        return y, x, None

    def _contracted(self, F: Any, found: Any, weight: Any, bias: Sequence[Any], size: Shape) -> Any:
        """The sums over channels and taps, of ``found (groups, C / groups, taps, N, rows, columns)``."""
        images, rows, columns = size
        groups, filters = self.num_group, self.num_filter // self.num_group
        terms = math.prod(weight.shape[1:])
        found = F.reshape_to(found, shape=(groups, terms, images * rows * columns))
        made = F.batch_dot(F.reshape_to(weight, shape=(groups, filters, terms)), found)
        made = F.reshape_to(made, shape=(self.num_filter, images, rows, columns))
        if bias:
            made = made + F.reshape_to(bias[0], shape=(self.num_filter, 1, 1, 1))
        return F.transpose(made, axes=(1, 0, 2, 3))

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        title = cls.title()
        masks = [(1, 9, 3, 3)] * cls.MASKED
        shapes = [(1, 2, 5, 5), (1, 18, 3, 3), *masks, (4, 2, 3, 3), (4,)]
        attrs: Any = {"kernel": (3, 3), "num_filter": 4}
        large = f"{title}: the kernel (9, 9) is larger than the padded data of shape (1, 2, 5, 5)"
        offset = f"{title}: offset must have shape (1, 18, 5, 5), got (1, 18, 3, 3)"
        return [
            (tuple(shapes), {**attrs, "kernel": (9, 9)}, large),
            (tuple(shapes), {**attrs, "pad": (1, 1)}, offset),
            (tuple(shapes), {**attrs, "kernel": 3}, f"{title}: kernel must be two numbers of at least 1, got (3,)"),
            (tuple(shapes), {**attrs, "num_group": 3}, f"{title}: num_group=3 must divide num_filter=4"),
        ]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        rng = np.random.default_rng(7)

        def inputs(data: Shape, offset: Shape, weight: Shape, bias: bool = True) -> list[Any]:
            # Offsets whose positions are not at pixels, where the slope jumps.
            offsets = rng.integers(-2, 2, offset) + rng.uniform(0.1, 0.9, offset)
            masks = [(offset[0], offset[1] // 2, *offset[2:])] * cls.MASKED
            return [data, offsets, *masks, weight, *[weight[:1]] * bias]

        plain: Any = {"kernel": (3, 3), "pad": (1, 1), "num_filter": 2}
        grouped: Any = {"kernel": (2, 1), "stride": (2, 1), "dilate": (1, 2), "num_filter": 4, "num_group": 2}
        grouped |= {"num_deformable_group": 2, "no_bias": True}
        one: Any = {"kernel": (1, 1), "num_filter": 2}
        return [
            Sample(given, deformed(cls.MASKED, attrs), grad=grad, **attrs)
            for given, attrs, grad in (
                (inputs((1, 2, 3, 4), (1, 18, 3, 4), (2, 2, 3, 3)), plain, True),
                (inputs((2, 4, 5, 3), (2, 8, 2, 3), (4, 2, 2, 1), False), grouped, True),
                (inputs((1, 1, 1, 1), (1, 2, 1, 1), (2, 1, 1, 1)), one, True),
                (inputs((0, 2, 3, 4), (0, 18, 3, 4), (2, 2, 3, 3)), plain, False),
            )
        ]


@register("hybrid.deformable_convolution", "contrib.DeformableConvolution", "_contrib_DeformableConvolution")
class DeformableConvolution(Deformable):
    """A convolution whose taps are moved by offsets, which the data may decide; 0 outside of the image"""

    INPUTS = ("data", "offset", "weight", "bias")
    INPUT_DOCS: ClassVar = {
        "data": "(N, C, height, width)",
        "offset": "(N, groups * taps * 2, rows, columns): vertical and horizontal, in pixels",
        "weight": "(num_filter, C / num_group, *kernel)",
    }

    def bounded(self, F: Any, y: Any, x: Any, height: int, width: int) -> tuple[Any, Any, Any]:
        """Positions before the first pixel, or a whole one beyond the last, count 0; near the last they are it."""
        inside = (y >= 0) * (y < height) * (x >= 0) * (x < width)
        return F.clip(y, 0, height - 1), F.clip(x, 0, width - 1), inside


@register(
    "hybrid.modulated_deformable_convolution",
    "contrib.ModulatedDeformableConvolution",
    "_contrib_ModulatedDeformableConvolution",
)
class ModulatedDeformableConvolution(Deformable):
    """A convolution whose taps are moved by offsets and multiplied by a mask, which the data may decide"""

    INPUTS = ("data", "offset", "mask", "weight", "bias")
    INPUT_DOCS: ClassVar = {
        **DeformableConvolution.INPUT_DOCS,
        "mask": "(N, groups * taps, rows, columns): the factor of each tap",
    }
    MASKED = True
    ORDER = (
        *("kernel", "stride", "dilate", "pad", "num_filter", "num_group", "num_deformable_group", "workspace"),
        *("no_bias", "im2col_step", "layout"),
    )

    im2col_step: int = attribute(64, "accepted for MXNet's API, without effect")


def deformed(masked: bool, attrs: Any) -> Any:
    """The reference of samples: tap by tap."""
    (kh, kw), groups = attrs["kernel"], attrs.get("num_group", 1)
    stride, dilate, pad = (attrs.get(n, d) for n, d in (("stride", (1, 1)), ("dilate", (1, 1)), ("pad", (0, 0))))
    deformable = attrs.get("num_deformable_group", 1)

    def pixel(plane: Any, y: float, x: float) -> float:
        h, w = plane.shape
        if not masked and not (0 <= y < h and 0 <= x < w):
            return 0.0
        if not masked:
            y, x = min(y, h - 1), min(x, w - 1)
        near = [(i, j) for i in range(h) for j in range(w) if abs(i - y) < 1 and abs(j - x) < 1]
        return sum(plane[i, j] * (1 - abs(y - i)) * (1 - abs(x - j)) for i, j in near)

    def reference(data: Any, offset: Any, *others: Any) -> Any:
        mask, weight, *bias = others if masked else (None, *others)
        rows, columns = offset.shape[2:]
        out = np.zeros((len(data), len(weight), rows, columns))
        per_group, channels = weight.shape[1], data.shape[1]
        for n, f, i, j in np.ndindex(*out.shape):
            out[n, f, i, j] = bias[0][f] if bias else 0
            for c, a, b in np.ndindex(per_group, kh, kw):
                channel = f // (len(weight) // groups) * per_group + c
                tap = channel // (channels // deformable) * kh * kw + a * kw + b
                y = i * stride[0] - pad[0] + a * dilate[0] + offset[n, 2 * tap, i, j]
                x = j * stride[1] - pad[1] + b * dilate[1] + offset[n, 2 * tap + 1, i, j]
                value = pixel(data[n, channel], y, x) * (mask[n, tap, i, j] if mask is not None else 1)
                out[n, f, i, j] += weight[f, c, a, b] * value
        return out

    return reference
