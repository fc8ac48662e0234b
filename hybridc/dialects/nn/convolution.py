"""Convolution and its transpose, in one, two and three dimensions.

Three operators are closed under differentiation: :class:`Convolution`, ``convolution_data`` (from the result's gradient
to the data's, which is also what :class:`Deconvolution` computes) and ``convolution_weight`` (to the weight's). Each
decomposes into a contraction of channels-last data at affine indices (``hybrid.contract``) with transposes around it,
which the compiler folds into the loops. Strided data gradients are one contraction for each phase of the stride.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.math.contraction import Product, reshaped
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, invoke_bound, register
from hybridc.dialects.operator_attribute import Axes, Shape
from hybridc.dtypes import HALVES
from hybridc.errors import AttributeValueError, ShapeError
from hybridc.ground.records import dataclass

LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
Names = tuple[str, ...]


@dataclass(frozen=True)
class Geometry:
    """What a convolution does along the spatial axes, and how many groups of channels there are."""

    kernel: Shape
    stride: Shape
    dilate: Shape
    pad: Shape
    groups: int

    @property
    def rank(self) -> int:
        """How many spatial axes there are."""
        return len(self.kernel)

    @property
    def extents(self) -> Shape:
        """How many elements of the data lie from the first to the last one under the kernel, along each axis."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilate, strict=True))

    def results(self, sizes: Shape) -> Shape:
        """The spatial sizes of the result, by those of the data; below 1 where the kernel does not fit."""
        given = zip(sizes, self.extents, self.stride, self.pad, strict=True)
        return tuple((n + 2 * p - extent) // s + 1 for n, extent, s, p in given)

    def originals(self, sizes: Shape, adjusted: Shape) -> Shape:
        """The spatial sizes of a transposed convolution's result, by those of its data."""
        given = zip(sizes, self.extents, self.stride, self.pad, adjusted, strict=True)
        return tuple(s * (n - 1) + extent - 2 * p + a for n, extent, s, p, a in given)


# --- channels-last contractions ---------------------------------------------------------------------------------------


def convolve(F: Any, x: Any, w: Any, geometry: Geometry) -> Any:
    """The convolution of data (N, spatial…, C) with a weight (O, kernel…, C of a group)."""
    sizes = geometry.results(x.shape[1:-1])
    x = _grouped(F, _padded(F, x, [(p, p) for p in geometry.pad]), -1, geometry.groups)
    w = _grouped(F, w, 0, geometry.groups)
    inside = [_sum((s, f"i{a}"), (d, f"k{a}")) for a, (s, d) in enumerate(zip(geometry.stride, geometry.dilate))]
    group, outs, taps = _loops(geometry)
    index = f"{_list('n', inside, group, 'c')}; {_list(group, 'o', taps, 'c')} -> {_list('n', outs, group, 'o')}"
    return _ungrouped(F, F.contract(x, w, index=index, shape=(x.shape[0], *sizes, *_lead(w, geometry))), -1, geometry)


# Bytes of a gradient to which all of the kernel's elements add, while it is in the caches.
_NEAR = 1 << 22
# Channels that do not fill the widest vectors of floats. Of a single one, vectors are of filters in either order.
_FEW = range(2, 16)


def weight_gradient(F: Any, x: Any, dy: Any, geometry: Geometry) -> Any:
    """The gradient (O, kernel…, C of a group) of a convolution's weight, both arrays channels-last."""
    x = _grouped(F, _padded(F, x, [(p, p) for p in geometry.pad]), -1, geometry.groups)
    dy = _grouped(F, dy, -1, geometry.groups)
    inside = [_sum((s, f"i{a}"), (d, f"k{a}")) for a, (s, d) in enumerate(zip(geometry.stride, geometry.dilate))]
    group, outs, taps = _loops(geometry)
    there, here = _list("n", outs, group, "o"), _list("n", inside, group, "c")
    lead, channels = dy.shape[1 + geometry.rank :], x.shape[-1]
    if channels in _FEW and channels < lead[-1]:  # vectors are of filters
        index = f"{here}; {there} -> {_list(group, taps, 'c', 'o')}"
        made = F.contract(x, dy, index=index, shape=(*lead[:-1], *geometry.kernel, channels, lead[-1]))
        rank, first = len(made.shape), len(lead) - 1
        made = F.transpose(made, axes=(*range(first), rank - 1, *range(first, rank - 1)))
    else:
        index = f"{there}; {here} -> {_list(group, 'o', taps, 'c')}"
        made = F.contract(dy, x, index=index, shape=(*lead, *geometry.kernel, channels))
    return _ungrouped(F, made, 0, geometry)


@dataclass(frozen=True)
class _Phase:
    """Along one axis the elements ``first``, ``first`` + stride, … of the data, and the taps that reach them.

    These are ``count`` from ``tap`` on by ``step``, in the order of a reversed kernel. The element ``q`` of the phase
    is reached from the result's ``q`` + ``begin`` on, by ``apart``.
    """

    first: int
    tap: int
    step: int
    count: int
    begin: int
    apart: int


def _phases(kernel: int, stride: int, dilate: int, pad: int) -> list[_Phase]:
    """The phases along an axis; those that no tap reaches have none."""
    common = math.gcd(stride, dilate)
    step, apart = stride // common, dilate // common
    found: list[_Phase] = []
    for first in range(stride):
        lowest = next((k for k in range(min(kernel, step)) if (first + pad - dilate * k) % stride == 0), kernel)
        count = -(-(kernel - lowest) // step)
        last = lowest + step * (count - 1)
        begin = (first + pad - dilate * last) // stride if count else 0
        found.append(_Phase(first, kernel - 1 - last, step, count, begin, apart))
    return found


def data_gradient(F: Any, dy: Any, w: Any, geometry: Geometry, sizes: Shape) -> Any:
    """The gradient (N, spatial…, C) of a convolution's data, of these spatial sizes; ``dy`` is channels-last."""
    rank, axes = geometry.rank, range(geometry.rank)
    given = zip(geometry.kernel, geometry.stride, geometry.dilate, geometry.pad, strict=True)
    phases = [_phases(*each) for each in given]
    counts = [-(-n // s) for n, s in zip(sizes, geometry.stride, strict=True)]
    # One border serves the reads of all phases.
    border: list[tuple[int, int]] = []
    for own, count, n in zip(phases, counts, dy.shape[1:-1], strict=True):
        reached = [p for p in own if p.count]
        low = min((p.begin for p in reached), default=0)
        high = max((p.begin + count - 1 + p.apart * (p.count - 1) for p in reached), default=0)
        border.append((max(0, -low), max(0, high - n + 1)))
    dy = _grouped(F, _padded(F, dy, border), -1, geometry.groups)
    if any(k > 1 for k in geometry.kernel):
        w = F.flip(w, axis=tuple(1 + a for a in axes))
    w = _grouped(F, w, 0, geometry.groups)
    group, outs, taps = _loops(geometry)
    right, result = _list(group, "o", taps, "c"), _list("n", outs, group, "c")
    lead = len(w.shape) - rank - 1
    made: dict[tuple[int, ...], Any] = {}
    for each in itertools.product(*phases):
        if not all(p.count for p in each):
            continue
        cut = [(p.tap, p.tap + p.step * (p.count - 1) + 1, p.step) for p in each]
        part = _cut(F, w, [(0, n, 1) for n in w.shape[:lead]] + cut + [(0, w.shape[-1], 1)])
        inside = [_sum((1, f"i{a}"), (p.apart, f"k{a}"), p.begin + border[a][0]) for a, p in enumerate(each)]
        shape = (dy.shape[0], *counts, *w.shape[: lead - 1], w.shape[-1])
        index = f"{_list('n', inside, group, 'o')}; {right} -> {result}"
        made[tuple(p.first for p in each)] = _ungrouped(F, F.contract(dy, part, index=index, shape=shape), -1, geometry)
    return _interleaved(F, made, geometry.stride, (dy.shape[0], *sizes, w.shape[-1] * geometry.groups))


def _interleaved(F: Any, made: dict[tuple[int, ...], Any], stride: Shape, shape: Shape) -> Any:
    """The array of this shape whose phases these are, by their first elements; what is in none is zero.

    There is one at least: that which the first tap reaches.
    """
    if math.prod(stride) == 1:
        return made[(0,) * len(stride)]
    zeros = None if len(made) == math.prod(stride) else F.zeros_like(next(iter(made.values())))
    made = {first: made.get(first, zeros) for first in np.ndindex(*stride)}
    for axis in reversed(range(len(stride))):
        heads = sorted({first[:axis] for first in made})
        made = {head: F.stack(*[made[(*head, a)] for a in range(stride[axis])], axis=2 + axis) for head in heads}
    whole = made[()]
    counts = whole.shape[1:-1:2]
    whole = reshaped(F, whole, (shape[0], *(n * s for n, s in zip(counts, stride, strict=True)), shape[-1]))
    return _cut(F, whole, [(0, n, 1) for n in shape])


def scattered(dy: Any, w: Any, geometry: Geometry, sizes: Shape) -> Any:
    """:func:`data_gradient` of NumPy's arrays: each element of ``dy`` adds its multiple of the kernel.

    A matmul for each of the kernel's elements, or of the result's if these are fewer; so nothing that is made on the
    way is larger than the gradient, and no zero is multiplied.
    """
    dtype = dy.dtype
    if dtype in HALVES:
        dy, w = dy.astype(np.float32), w.astype(np.float32)
    (n, *outs, _), channels, groups = dy.shape, w.shape[-1], geometry.groups
    full = geometry.originals(tuple(outs), tuple(2 * p for p in geometry.pad))
    full = tuple(max(f, p + m) for f, p, m in zip(full, geometry.pad, sizes, strict=True))
    made = np.zeros((n, *full, groups * channels), dy.dtype)
    filters = w.shape[0] // groups
    dy = np.ascontiguousarray(dy).reshape(n, *outs, groups, filters)
    w = w.reshape(groups, filters, *geometry.kernel, channels)
    by_tap = math.prod(geometry.kernel) <= math.prod(outs)
    w = np.ascontiguousarray(np.moveaxis(w, (0, 1), (-3, -2)) if by_tap else w)
    walks = (geometry.dilate, geometry.stride, outs) if by_tap else (geometry.stride, geometry.dilate, geometry.kernel)
    chunk = max(1, _NEAR * n // max(1, made.nbytes))
    for first in range(0, n, chunk):
        for at in np.ndindex(*(geometry.kernel if by_tap else outs)):
            own = dy[first : first + chunk] if by_tap else dy[(slice(first, first + chunk), *at)]
            places = [slice(i * b, i * b + s * (m - 1) + 1, s) for i, b, s, m in zip(at, *walks, strict=True)]
            part = made[(slice(first, first + chunk), *places)]
            part += _multiples(own, w[at] if by_tap else w).reshape(part.shape)
    inside = tuple(slice(p, p + m) for p, m in zip(geometry.pad, sizes, strict=True))
    return made[(slice(None), *inside)].astype(dtype, copy=False)


def _multiples(dy: Any, w: Any) -> Any:
    """dy (rows…, groups, filters) · w (groups, filters, taps…, channels): (rows…, taps…, groups, channels)."""
    (groups, filters, *taps, channels), rows = w.shape, dy.shape[:-2]
    if groups == 1:
        return dy.reshape(math.prod(rows), filters) @ w.reshape(filters, -1)
    if filters == 1:  # no matmul: a product for each channel
        return dy.reshape(*rows, *(1,) * len(taps), groups, 1) * np.moveaxis(w[:, 0], 0, -2)
    each = dy.reshape(math.prod(rows), groups, filters).swapaxes(0, 1) @ w.reshape(groups, filters, -1)
    return np.moveaxis(each.reshape(groups, math.prod(rows), *taps, channels), 0, -2)


def _loops(geometry: Geometry) -> tuple[str, list[str], list[str]]:
    """The names of the loops: of the group, if there are several, of the result's axes, of the kernel's."""
    axes = range(geometry.rank)
    return "g" if geometry.groups > 1 else "", [f"i{a}" for a in axes], [f"k{a}" for a in axes]


def _sum(*terms: tuple[int, str] | int) -> str:
    """An affine sum, as text."""
    parts = [str(t) if isinstance(t, int) else t[1] if t[0] == 1 else f"{t[0]}*{t[1]}" for t in terms if t != 0]
    return "+".join(parts)


def _list(*parts: str | Sequence[str]) -> str:
    """The indices of an array, as text; empty ones are left out."""
    return ",".join(each for part in parts for each in ([part] if isinstance(part, str) else part) if each)


def _lead(w: Any, geometry: Geometry) -> Shape:
    """The sizes of the groups, if there are several, and of a group's filters."""
    return tuple(w.shape[: len(w.shape) - geometry.rank - 1])


def _padded(F: Any, x: Any, border: Sequence[tuple[int, int]]) -> Any:
    """Channels-last data with a border of zeros along the spatial axes."""
    if not any(before or after for before, after in border):
        return x
    width = (0, 0, *(n for pair in border for n in pair), 0, 0)
    return F.pad(x, mode="constant", pad_width=width)


def _cut(F: Any, x: Any, parts: Sequence[tuple[int, int, int]]) -> Any:
    """A slice; the array itself if that is all of it."""
    if all(part == (0, n, 1) for part, n in zip(parts, x.shape, strict=True)):
        return x
    begin, end, step = zip(*parts, strict=True)
    return F.slice(x, begin=begin, end=end, step=step)


def _grouped(F: Any, x: Any, axis: int, groups: int) -> Any:
    """An array whose first or last axis is split into groups and what each has."""
    if groups == 1:
        return x
    split = (groups, x.shape[axis] // groups)
    return reshaped(F, x, (*split, *x.shape[1:]) if axis == 0 else (*x.shape[:-1], *split))


def _ungrouped(F: Any, x: Any, axis: int, geometry: Geometry) -> Any:
    """The inverse of :func:`_grouped`."""
    if geometry.groups == 1:
        return x
    both = x.shape[0] * x.shape[1] if axis == 0 else x.shape[-2] * x.shape[-1]
    return reshaped(F, x, (both, *x.shape[2:]) if axis == 0 else (*x.shape[:-2], both))


# --- operators --------------------------------------------------------------------------------------------------------


class Convolutional(Product, Composite):
    """The attributes and layouts that convolutions share; those without a value are declared by each."""

    INFERS_PARTLY = True

    num_filter: int
    num_group: int
    layout: str | None
    kernel_: Axes = attribute(doc="the kernel's sizes: one, two or three")
    stride: Axes = attribute((), "the step along each axis; 1 by default")
    dilate: Axes = attribute((), "the distance of the kernel's elements; 1 by default")
    pad: Axes = attribute((), "the border of zeros on both sides; none by default")

    def check(self) -> None:
        rank = len(self.kernel_)
        if rank not in LAYOUTS:
            raise AttributeValueError(f"{self.title()}: kernel={self.kernel_} must have one, two or three numbers")
        for name, least in (("kernel", 1), ("stride", 1), ("dilate", 1), ("pad", 0)):
            self._require_numbers(name, rank, least)
        if self.num_filter % self.num_group:
            raise AttributeValueError(
                f"{self.title()}: num_filter={self.num_filter} must be a multiple of num_group={self.num_group}"
            )
        ones = (1,) * rank
        self.geometry = Geometry(
            self.kernel_, self.stride or ones, self.dilate or ones, self.pad or (0,) * rank, self.num_group
        )
        first, last = LAYOUTS[rank]
        # COMPAT(mxnet): channels-last layouts work everywhere; MXNet has them on GPUs only.
        if self.layout not in (None, "None", first, last):
            raise AttributeValueError(
                f"{self.title()}: layout={self.layout!r} does not fit kernel={self.kernel_}; it takes {first!r} or "
                f"{last!r}"
            )
        self.last: bool = self.layout == last

    def _require_numbers(self, name: str, rank: int, least: int) -> None:
        numbers: Shape = self.attrs[name]
        if (numbers and len(numbers) != rank) or any(n < least for n in numbers):
            count = "one number" if rank == 1 else f"{rank} numbers"
            raise AttributeValueError(
                f"{self.title()}: {name}={numbers} must have {count} of at least {least}, as kernel={self.kernel_}"
            )

    def eager(self, *arrays: Any) -> Any:
        self.require_valid(arrays)
        return super().eager(*arrays)

    def require_valid(self, arrays: Sequence[Any]) -> None:
        """Raise unless shapes fit each other, and are of floating-point numbers."""
        self.infer_shape([x.shape for x in arrays])
        self.require_float(arrays[0].dtype)

    def numpy_last(self, x: Any) -> Any:
        """NumPy's view of an array with its channels last."""
        return x if self.last else np.moveaxis(x, 1, -1)

    def numpy_original(self, x: Any) -> Any:
        """A channels-last array of NumPy in the operator's layout, with memory of its own."""
        return np.ascontiguousarray(x if self.last else np.moveaxis(x, -1, 1))

    def channels_last(self, F: Any, x: Any) -> Any:
        """The array with its channels last."""
        return x if self.last else F.transpose(x, axes=(0, *range(2, len(x.shape)), 1))

    def original(self, F: Any, x: Any) -> Any:
        """A channels-last array in the operator's layout."""
        return x if self.last else F.transpose(x, axes=(0, len(x.shape) - 1, *range(1, len(x.shape) - 1)))

    def split(self, shape: Shape) -> tuple[int, Shape]:
        """The channels and the spatial sizes of an array in the operator's layout."""
        return (shape[-1], shape[1:-1]) if self.last else (shape[1], shape[2:])

    def joined(self, lead: int, channels: int, sizes: Shape) -> Shape:
        """A shape in the operator's layout."""
        return (lead, *sizes, channels) if self.last else (lead, channels, *sizes)

    def require_rank(self, name: str, shape: Shape) -> None:
        """Raise unless an array has a batch axis, channels and the kernel's spatial axes."""
        rank = len(self.kernel_)
        if len(shape) != rank + 2:
            layout = LAYOUTS[rank][self.last]
            way = "; a single sample gets a batch axis by x.expand_dims(0)" if len(shape) == rank + 1 else ""
            raise ShapeError(
                f"{self.title()}: {name} must have {rank + 2} axes ({layout}) for kernel={self.kernel_}, got shape "
                f"{shape}{way if name == 'data' else ''}"
            )

    def other_layout(self, data: Shape) -> str:
        """What to do with data that may have its channels first where the operator has them last, or the reverse."""
        here, there = LAYOUTS[len(self.kernel_)][self.last], LAYOUTS[len(self.kernel_)][not self.last]
        return f"for data in {there} use layout={there!r}, or transpose it to {here}"


def _require(op: Convolutional, names: Sequence[str], shapes: Sequence[Shape], wanted: Sequence[Shape]) -> None:
    """Raise unless weight and bias have the wanted shapes, as far as these are known."""
    for name, shape, want in zip(names[1:], shapes[1:], wanted[1:], strict=True):
        if len(shape) != len(want) or any(-1 not in (n, m) and n != m for n, m in zip(shape, want, strict=True)):
            raise ShapeError(
                f"{op.title()}: {_misfit(op, shapes[0], shape, want)}{name} has shape {shape}, expected {want} for "
                f"data of shape {shapes[0]} with kernel={op.kernel_}, num_filter={op.num_filter}, "
                f"num_group={op.num_group}"
            )


def _misfit(op: Convolutional, data: Shape, weight: Shape, want: Shape) -> str:
    """That the data has other channels than the weight is for, if the weight is right but for that."""
    differing = [i for i, (n, m) in enumerate(zip(weight, want, strict=False)) if n != m]
    if len(weight) != len(want) or len(want) != len(data) or len(differing) != 1 or want[differing[0]] == -1:
        return ""
    channels, (axis,) = op.split(data)[0], differing
    if want[axis] not in (channels, channels // op.num_group):  # filters, or the kernel
        return ""
    meant = weight[axis] * channels // want[axis] if want[axis] else weight[axis]
    way = f"change the data, or make the layer anew for {channels} channels"
    if meant == data[1 if op.last else -1]:
        way = op.other_layout(data)
    return f"the data has {channels} channels, the weight is for {meant}; {way}: "


class WithBias(Convolutional):
    """Data, weight and, unless ``no_bias``, a bias for each filter."""

    INPUTS = ("data", "weight", "bias")
    OPTIONAL = 1

    no_bias: bool

    def input_names(self) -> tuple[str, ...]:
        return self.INPUTS[:2] if self.no_bias else self.INPUTS

    def weight_shape(self, channels: int) -> Shape:
        """The shape of the weight for data with so many channels."""
        raise NotImplementedError

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Beside data, the weight has the channels that the data needs; data and result have the same batch size."""
        data, result = shapes[0], outputs[0]
        if data is None:
            return shapes
        self.require_rank("data", data)
        if result and data[0] == -1:
            data = (result[0], *data[1:])
        wanted: list[Shape] = [self.weight_shape(self.split(data)[0]), (self.num_filter,)]
        return [data, *[w if s is None else s for s, w in zip(shapes[1:], wanted, strict=False)]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        self.require_rank("data", data)
        channels, sizes = self.split(data)
        if channels != -1 and (channels % self.num_group or channels == 0):
            raise ShapeError(
                f"{self.title()}: data of shape {data} has {channels} channels, which must be a multiple of "
                f"num_group={self.num_group}"
            )
        wanted = [data, self.weight_shape(channels), (self.num_filter,)][: len(shapes)]
        _require(self, self.input_names(), shapes, wanted)
        return wanted, [self.joined(data[0], self.num_filter, self.result_sizes(data, sizes))]

    def result_sizes(self, data: Shape, sizes: Shape) -> Shape:
        """The spatial sizes of the result; an error if there are none."""
        raise NotImplementedError

    def biased(self, F: Any, y: Any, inputs: Sequence[Any]) -> Any:
        """A channels-last result with the bias, in the operator's layout."""
        return self.original(F, y if self.no_bias else F.broadcast_add(y, inputs[2]))

    def bias_gradient(self, F: Any, dy: Any) -> Any:
        """The sum over all axes but the channels."""
        axis = len(dy.shape) - 1 if self.last else 1
        return F.sum(dy, axis=tuple(a for a in range(len(dy.shape)) if a != axis))


_PROBES = (5040, 10080)  # two sizes, substituted for unknown ones


def _attributes(op: Convolutional) -> dict[str, Any]:
    """The attributes that the gradients' operators share with a convolution."""
    names = ("stride", "dilate", "num_filter", "num_group", "layout")
    return {"kernel": op.kernel_, **{name: getattr(op, name) for name in names}}


@register("hybrid.convolution", "Convolution", "Convolution_v1")
class Convolution(WithBias):
    """The sums of products of a kernel's elements with those of the data under it, at each place, for each filter

    ``data`` is (N, C, spatial…) and ``weight`` (num_filter, C / num_group, kernel…); in a channels-last layout
    (N, spatial…, C) and (num_filter, kernel…, C / num_group).

    Examples
    --------
    >>> x = mx.nd.arange(9).reshape((1, 1, 3, 3))
    >>> weight, bias = mx.nd.ones((2, 1, 2, 2)), mx.nd.array([0, 100])
    >>> y = mx.nd.Convolution(x, weight, bias, kernel=(2, 2), num_filter=2)
    >>> print(y.asnumpy())
    [[[[  8.  12.]
       [ 20.  24.]]
    <BLANKLINE>
      [[108. 112.]
       [120. 124.]]]]
    """

    num_filter: int = attribute(doc="the number of filters: channels of the result", low=1)
    num_group: int = attribute(1, "channels and filters are parted into so many groups", low=1)
    workspace: int = attribute(1024, "accepted for MXNet's API, without effect")
    no_bias: bool = attribute(False, "leave the bias out")
    cudnn_tune: str | None = attribute(None, "accepted for MXNet's API, without effect")
    cudnn_off: bool = attribute(False, "accepted for MXNet's API, without effect")
    layout: str | None = attribute(None, "NCW, NCHW or NCDHW by the kernel's axes; or NWC, NHWC, NDHWC")

    def weight_shape(self, channels: int) -> Shape:
        return self.joined(self.num_filter, -1 if channels == -1 else channels // self.num_group, self.kernel_)

    def result_sizes(self, data: Shape, sizes: Shape) -> Shape:
        made = self.geometry.results(sizes)
        found = tuple([-1 if n == -1 else m for n, m in zip(sizes, made, strict=True)]) if -1 in sizes else made
        if any(m < 1 and n != -1 for n, m in zip(sizes, made, strict=True)):
            padded = tuple(n if n == -1 else n + 2 * p for n, p in zip(sizes, self.geometry.pad, strict=True))
            few = data[1 if self.last else -1] <= 4 < data[-1 if self.last else 1]  # channels of an image
            way = self.other_layout(data) if few else "use a smaller kernel or a larger pad"
            raise ShapeError(
                f"{self.title()}: the kernel covers {self.geometry.extents} elements, more than the padded data has: "
                f"{padded} of shape {data} with pad={self.geometry.pad}; {way}"
            )
        return found

    def decompose(self, F: Any, *inputs: Any) -> Any:
        y = convolve(F, self.channels_last(F, inputs[0]), self.channels_last(F, inputs[1]), self.geometry)
        return self.biased(F, y, inputs)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, weight = values[:3]
        shared = {**_attributes(self), "pad": self.pad}

        def ddata() -> Any:
            return invoke_bound(ConvolutionData.bind(**shared, size=self.split(data.shape)[1]), dy, weight)

        def dweight() -> Any:
            return invoke_bound(ConvolutionWeight.bind(**shared), data, dy)

        if self.no_bias:
            return ddata, dweight
        return ddata, dweight, lambda: self.bias_gradient(F, dy)

    @classmethod
    def samples(cls) -> list[Sample]:
        return _samples(
            [
                ((2, 3, 7), (4, 3, 3), {"kernel": (3,)}),
                ((2, 4, 9), (4, 2, 2), {"kernel": (2,), "stride": (2,), "dilate": (3,), "pad": (2,), "num_group": 2}),
                ((2, 3, 5, 6), (4, 3, 3, 3), {"kernel": (3, 3), "pad": (1, 1)}),
                ((1, 3, 7, 6), (5, 3, 3, 2), {"kernel": (3, 2), "stride": (2, 3), "pad": (1, 0), "dilate": (1, 2)}),
                ((2, 4, 5, 5), (4, 1, 3, 3), {"kernel": (3, 3), "num_group": 4, "stride": (2, 2), "pad": (1, 1)}),
                ((2, 3, 4, 4), (6, 3, 1, 1), {"kernel": (1, 1), "stride": (2, 2)}),
                ((2, 1, 1, 1), (2, 1, 3, 3), {"kernel": (3, 3), "pad": (4, 4)}),
                ((0, 2, 4, 4), (3, 2, 3, 3), {"kernel": (3, 3)}),
                ((2, 2, 3, 4, 3), (3, 2, 2, 3, 2), {"kernel": (2, 3, 2), "pad": (0, 1, 0), "stride": (1, 2, 1)}),
                ((2, 5, 6, 3), (4, 3, 3, 3), {"kernel": (3, 3), "pad": (1, 1), "layout": "NHWC"}),
            ],
            _convolution,
        )

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        two = {"kernel": (3, 3), "num_filter": 4}
        return [
            (
                ((2, 3, 5), (4, 3, 3, 3), (4,)),
                two,
                "Convolution: data must have 4 axes (NCHW) for kernel=(3, 3), got shape (2, 3, 5); a single sample "
                "gets a batch axis by x.expand_dims(0)",
            ),
            (
                ((2, 3, 5, 5), (4, 2, 3, 3), (4,)),
                two,
                "Convolution: the data has 3 channels, the weight is for 2; change the data, or make the layer anew "
                "for 3 channels: weight has shape (4, 2, 3, 3), expected (4, 3, 3, 3) for data of shape (2, 3, 5, 5) "
                "with kernel=(3, 3), num_filter=4, num_group=1",
            ),
            (
                ((2, 8, 8, 3), (4, 3, 3, 3), (4,)),
                two,
                "Convolution: the data has 8 channels, the weight is for 3; for data in NHWC use layout='NHWC', or "
                "transpose it to NCHW: weight has shape (4, 3, 3, 3), expected (4, 8, 3, 3) for data of shape "
                "(2, 8, 8, 3) with kernel=(3, 3), num_filter=4, num_group=1",
            ),
            (
                ((2, 3, 2, 5), (4, 3, 3, 3), (4,)),
                two,
                "Convolution: the kernel covers (3, 3) elements, more than the padded data has: (2, 5) of shape "
                "(2, 3, 2, 5) with pad=(0, 0); use a smaller kernel or a larger pad",
            ),
            (
                ((2, 3, 5, 5), (4, 3, 3, 3), (4,)),
                {**two, "stride": (0, 1)},
                "Convolution: stride=(0, 1) must have 2 numbers of at least 1, as kernel=(3, 3)",
            ),
            (
                ((2, 3, 5, 5), (4, 3, 3, 3), (4,)),
                {**two, "num_group": 3},
                "Convolution: num_filter=4 must be a multiple of num_group=3",
            ),
            (
                ((2, 3, 5, 5), (4, 3, 3, 3), (4,)),
                {**two, "num_group": 2},
                "Convolution: data of shape (2, 3, 5, 5) has 3 channels, which must be a multiple of num_group=2",
            ),
            (
                ((2, 3, 5, 5), (4, 3, 3, 3), (4,)),
                {**two, "layout": "NWC"},
                "Convolution: layout='NWC' does not fit kernel=(3, 3); it takes 'NCHW' or 'NHWC'",
            ),
        ]


@register("hybrid.deconvolution", "Deconvolution")
class Deconvolution(WithBias):
    """The transpose of a convolution: each element of the data adds its multiple of the kernel to the result

    ``data`` is (N, C, spatial…) and ``weight`` (C, num_filter / num_group, kernel…); in a channels-last layout
    (N, spatial…, C) and (C, kernel…, num_filter / num_group).
    """

    adj: Axes = attribute((), "how many elements the result has more along each axis, at its end; less than stride")
    target_shape: Axes = attribute((), "the spatial sizes of the result, instead of pad and adj")
    num_filter: int = attribute(doc="the number of filters: channels of the result", low=1)
    num_group: int = attribute(1, "channels and filters are parted into so many groups", low=1)
    workspace: int = attribute(512, "accepted for MXNet's API, without effect")
    no_bias: bool = attribute(True, "leave the bias out")
    cudnn_tune: str | None = attribute(None, "accepted for MXNet's API, without effect")
    cudnn_off: bool = attribute(False, "accepted for MXNet's API, without effect")
    layout: str | None = attribute(None, "NCW, NCHW or NCDHW by the kernel's axes; or NWC, NHWC, NDHWC")

    def check(self) -> None:
        super().check()
        rank = len(self.kernel_)
        self._require_numbers("adj", rank, 0)
        self._require_numbers("target_shape", rank, 0)
        if any(a >= s for a, s in zip(self.adj, self.geometry.stride, strict=False)) and not any(self.target_shape):
            raise AttributeValueError(
                f"Deconvolution: adj={self.adj} must be less than stride={self.geometry.stride} along each axis"
            )

    def weight_shape(self, channels: int) -> Shape:
        return self.joined(channels, self.num_filter // self.num_group, self.kernel_)

    def fitted(self, sizes: Shape) -> tuple[Geometry, Shape]:
        """The geometry of the convolution whose transpose it is, and the result's spatial sizes."""
        geometry = self.geometry
        if not any(self.target_shape):
            return geometry, geometry.originals(sizes, self.adj or (0,) * geometry.rank)
        most = geometry.originals(sizes, tuple(2 * p for p in geometry.pad))
        over = [m - t for m, t in zip(most, self.target_shape, strict=True)]
        if any(n < 0 for n in over):
            raise ShapeError(
                f"Deconvolution: target_shape={self.target_shape} is larger than {most}, what data of spatial sizes "
                f"{sizes} can reach with kernel={self.kernel_}, stride={geometry.stride}"
            )
        pad = tuple((n + 1) // 2 for n in over)
        return Geometry(self.kernel_, geometry.stride, geometry.dilate, pad, geometry.groups), self.target_shape

    def result_sizes(self, data: Shape, sizes: Shape) -> Shape:
        if -1 in sizes:
            made = [self.fitted(tuple(p if n == -1 else n for n in sizes))[1] for p in _PROBES]
            return tuple(n if n == m else -1 for n, m in zip(*made, strict=True))
        found = self.fitted(sizes)[1]
        if any(n < 1 for n in found):
            raise ShapeError(
                f"Deconvolution: the result would have the spatial sizes {found}, for data of shape {data} with "
                f"pad={self.geometry.pad}; use a smaller pad"
            )
        return found

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, weight = self.channels_last(F, inputs[0]), self.channels_last(F, inputs[1])
        geometry, sizes = self.fitted(data.shape[1:-1])
        return self.biased(F, data_gradient(F, data, weight, geometry, sizes), inputs)

    def eager(self, *arrays: Any) -> Any:
        self.require_valid(arrays)
        data, weight, *bias = arrays
        data = self.numpy_last(data)
        made = scattered(data, self.numpy_last(weight), *self.fitted(data.shape[1:-1]))
        return self.numpy_original(made + bias[0] if bias else made)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, weight = values[:3]
        geometry, _ = self.fitted(self.split(data.shape)[1])
        shared = {**_attributes(self), "pad": geometry.pad}

        def ddata() -> Any:
            filters = self.split(data.shape)[0]
            return invoke_bound(Convolution.bind(**{**shared, "num_filter": filters}, no_bias=True), dy, weight)

        def dweight() -> Any:
            return invoke_bound(ConvolutionWeight.bind(**{**shared, "num_filter": self.split(data.shape)[0]}), dy, data)

        if self.no_bias:
            return ddata, dweight
        return ddata, dweight, lambda: self.bias_gradient(F, dy)

    @classmethod
    def samples(cls) -> list[Sample]:
        return _samples(
            [
                ((2, 4, 5), (4, 3, 3), {"kernel": (3,), "stride": (2,), "num_filter": 3}),
                ((2, 3, 4, 5), (3, 2, 4, 4), {"kernel": (4, 4), "stride": (2, 2), "pad": (1, 1), "num_filter": 2}),
                (
                    (2, 4, 3, 4),
                    (4, 1, 3, 2),
                    {"kernel": (3, 2), "stride": (3, 2), "adj": (2, 1), "num_group": 2, "num_filter": 2},
                ),
                ((1, 2, 4, 3), (2, 3, 3, 3), {"kernel": (3, 3), "dilate": (2, 1), "pad": (2, 0), "num_filter": 3}),
                ((1, 2, 4, 3), (2, 3, 3, 3), {"kernel": (3, 3), "stride": (2, 2), "dilate": (2, 3), "num_filter": 3}),
                ((1, 2, 3, 3), (2, 3, 2, 2), {"kernel": (2, 2), "stride": (3, 4), "num_filter": 3}),
                (
                    (1, 2, 4, 4),
                    (2, 1, 4, 4),
                    {"kernel": (4, 4), "stride": (2, 2), "target_shape": (8, 7), "num_filter": 1},
                ),
                ((1, 2, 2, 3, 2), (2, 2, 2, 2, 3), {"kernel": (2, 2, 3), "stride": (2, 1, 1), "num_filter": 2}),
            ],
            _transposed,
        )

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [
            (
                ((2, 3, 4, 4), (3, 2, 3, 3)),
                {"kernel": (3, 3), "num_filter": 2, "adj": (1, 1)},
                "Deconvolution: adj=(1, 1) must be less than stride=(1, 1) along each axis",
            ),
            (
                ((2, 3, 4, 4), (2, 2, 3, 3)),
                {"kernel": (3, 3), "num_filter": 2},
                "Deconvolution: the data has 3 channels, the weight is for 2; change the data, or make the layer anew "
                "for 3 channels: weight has shape (2, 2, 3, 3), expected (3, 2, 3, 3) for data of shape (2, 3, 4, 4) "
                "with kernel=(3, 3), num_filter=2, num_group=1",
            ),
        ]


@register("hybrid.convolution_data")
class ConvolutionData(Convolutional):
    """The gradient of a convolution's data, given that of its result and the weight

    Examples
    --------
    >>> weight = mx.nd.array([[[1, 2]]])
    >>> dy = mx.nd.array([[[1, 10, 100]]])
    >>> mx.nd.convolution_data(dy, weight, kernel=2, num_filter=1, size=4).tolist()
    [[[1.0, 12.0, 120.0, 200.0]]]
    """

    INPUTS = ("dy", "weight")
    INPUT_DOCS: ClassVar = {
        "dy": "the gradient of the convolution's result, in its shape",
        "weight": "the convolution's weight",
    }

    num_filter: int = attribute(doc="the convolution's attribute", low=1)
    num_group: int = attribute(1, "the convolution's attribute", low=1)
    layout: str | None = attribute(None, "the convolution's attribute")
    size: Shape = attribute(doc="the spatial sizes of the data")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        dy, weight = shapes
        self.require_rank("dy", dy)
        self.require_rank("weight", weight)
        if len(self.size) != len(self.kernel_):
            raise ShapeError(
                f"{self.title()}: attribute size has one number for each of {self.kernel_}, got {self.size}"
            )
        channels = self.split(weight)[0]
        wanted = self.joined(dy[0], self.num_filter, self.geometry.results(self.size))
        _require(self, ("weight", "dy"), [weight, dy], [weight, wanted])
        _require(self, ("dy", "weight"), shapes, [dy, self.joined(self.num_filter, channels, self.kernel_)])
        return shapes, [self.joined(dy[0], channels * self.num_group, self.size)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        dy, weight = (self.channels_last(F, x) for x in inputs)
        return self.original(F, data_gradient(F, dy, weight, self.geometry, self.size))

    def eager(self, *arrays: Any) -> Any:
        self.require_valid(arrays)
        dy, weight = map(self.numpy_last, arrays)
        return self.numpy_original(scattered(dy, weight, self.geometry, self.size))

    def gradient(self, F: Any, *values: Any) -> Any:
        ddata, dy, weight = values[:3]
        shared = {**_attributes(self), "pad": self.pad}
        return (
            lambda: invoke_bound(Convolution.bind(**shared, no_bias=True), ddata, weight),
            lambda: invoke_bound(ConvolutionWeight.bind(**shared), ddata, dy),
        )

    @classmethod
    def samples(cls) -> list[Sample]:
        given: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "num_filter": 3, "size": (6, 4)}
        return [
            Sample(
                [(2, 3, 3, 3), (3, 2, 3, 2)],
                lambda y, w: _transposed(y, w, kernel=(3, 2), stride=(2, 1), pad=(1, 0), size=(6, 4)),
                **given,
            )
        ]


@register("hybrid.convolution_weight")
class ConvolutionWeight(Convolutional):
    """The gradient of a convolution's weight, given its data and the gradient of its result

    Examples
    --------
    >>> x = mx.nd.array([[[1, 2, 3, 4]]])
    >>> dy = mx.nd.array([[[1, 10, 100]]])
    >>> mx.nd.convolution_weight(x, dy, kernel=2, num_filter=1).tolist()
    [[[321.0, 432.0]]]
    """

    INPUTS = ("data", "dy")
    INPUT_DOCS: ClassVar = {
        "data": "the convolution's data",
        "dy": "the gradient of the convolution's result, in its shape",
    }

    num_filter: int = attribute(doc="the convolution's attribute", low=1)
    num_group: int = attribute(1, "the convolution's attribute", low=1)
    layout: str | None = attribute(None, "the convolution's attribute")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        self.require_rank("data", shapes[0])
        channels, sizes = self.split(shapes[0])
        wanted = self.joined(shapes[0][0], self.num_filter, self.geometry.results(sizes))
        if channels % self.num_group:
            raise ShapeError(f"{self.title()}: {channels} channels cannot be parted into {self.num_group} groups")
        _require(self, self.INPUTS, shapes, [shapes[0], wanted])
        return shapes, [self.joined(self.num_filter, channels // self.num_group, self.kernel_)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, dy = (self.channels_last(F, x) for x in inputs)
        return self.original(F, weight_gradient(F, data, dy, self.geometry))

    def gradient(self, F: Any, *values: Any) -> Any:
        dw, data, dy = values[:3]
        shared = {**_attributes(self), "pad": self.pad}
        return (
            lambda: invoke_bound(ConvolutionData.bind(**shared, size=self.split(data.shape)[1]), dy, dw),
            lambda: invoke_bound(Convolution.bind(**shared, no_bias=True), data, dw),
        )

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, dy: Any) -> Any:
            padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 0)))
            return np.stack(
                [
                    np.stack([np.einsum("noij,ncij->oc", dy, padded[:, :, k : k + 5 : 2, m : m + 3]) for m in range(2)])
                    for k in range(3)
                ]
            ).transpose(2, 3, 0, 1)

        given: dict[str, Any] = {"kernel": (3, 2), "stride": (2, 1), "pad": (1, 0), "num_filter": 3}
        return [Sample([(2, 2, 6, 4), (2, 3, 3, 3)], reference, **given)]


# --- references -------------------------------------------------------------------------------------------------------


def _samples(cases: Sequence[tuple[Shape, Shape, dict[str, Any]]], reference: Any) -> list[Sample]:
    """Samples with a bias and, of the first one, without."""
    found: list[Sample] = []
    for i, (data, weight, given) in enumerate(cases):
        attrs: dict[str, Any] = {"num_filter": weight[0], **given}
        count = attrs["num_filter"]
        last = given.get("layout", "")[-1:] == "C"

        def value(*arrays: Any, attrs: dict[str, Any] = attrs, last: bool = last) -> Any:
            x, w, *bias = arrays
            x, w = (np.moveaxis(x, -1, 1), np.moveaxis(w, -1, 1)) if last else (x, w)
            y = reference(x, w, **attrs)
            y = y + bias[0].reshape(-1, *[1] * (y.ndim - 2)) if bias else y
            return np.moveaxis(y, 1, -1) if last else y

        inputs = [data, weight] if i == 0 else [data, weight, (count,)]
        found.append(Sample(inputs, value, no_bias=i == 0, **attrs))
    return found


def _convolution(
    x: Any,
    w: Any,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    num_group: int = 1,
    **_: Any,
) -> Any:
    """A convolution of channels-first data, tap by tap."""
    rank = len(kernel)
    stride, dilate, pad = stride or (1,) * rank, dilate or (1,) * rank, pad or (0,) * rank
    x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in pad)])
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], kernel, stride, dilate, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    per, filters = x.shape[1] // num_group, w.shape[0] // num_group
    for tap in np.ndindex(*kernel):
        box = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in zip(tap, dilate, stride, sizes, strict=True)]
        for g in range(num_group):
            part = x[(slice(None), slice(g * per, (g + 1) * per), *box)]
            own = slice(g * filters, (g + 1) * filters)
            out[:, own] += np.einsum("nc...,oc->no...", part, w[(own, slice(None), *tap)])
    return out


def _transposed(
    y: Any,
    w: Any,
    kernel: Shape,
    stride: Shape = (),
    dilate: Shape = (),
    pad: Shape = (),
    adj: Shape = (),
    target_shape: Shape = (),
    size: Shape = (),
    num_group: int = 1,
    **_: Any,
) -> Any:
    """A transposed convolution of channels-first data, tap by tap."""
    rank = len(kernel)
    stride, dilate, pad, adj = stride or (1,) * rank, dilate or (1,) * rank, pad or (0,) * rank, adj or (0,) * rank
    full = [s * (n - 1) + d * (k - 1) + 1 for n, k, s, d in zip(y.shape[2:], kernel, stride, dilate, strict=True)]
    if target_shape:
        pad = tuple((n - t + 1) // 2 for n, t in zip(full, target_shape, strict=True))
        size = target_shape
    size = size or tuple(n - 2 * p + a for n, p, a in zip(full, pad, adj, strict=True))
    out = np.zeros((y.shape[0], w.shape[1] * num_group, *(max(n, p + m) for n, p, m in zip(full, pad, size))))
    per, filters = y.shape[1] // num_group, w.shape[1]
    for tap in np.ndindex(*kernel):
        given = zip(tap, dilate, stride, y.shape[2:], strict=True)
        box = [slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in given]
        for g in range(num_group):
            own = slice(g * per, (g + 1) * per)
            out[(slice(None), slice(g * filters, (g + 1) * filters), *box)] += np.einsum(
                "no...,oc->nc...", y[:, own], w[(own, slice(None), *tap)]
            )
    return out[(slice(None), slice(None), *(slice(p, p + n) for p, n in zip(pad, size, strict=True)))]
