"""Sliding windows: their elements, sums, extremes and places, and what adds to the places that windows were taken from.

Window ``o`` along an axis has the elements ``o * stride - pad + k * dilate`` for ``k`` in ``range(kernel)``; those
outside of the axis are absent. Each operator computes every element of its result from the elements that it reads, by
affine indices where no window leaves the array, so that loops around it fuse and nothing is copied. What adds to the
array visits, for an element, the windows that hold it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Movement, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Axes, DType, Shape
from hybridc.dtypes import WIDE, wide
from hybridc.errors import AttributeValueError, ShapeError
from hybridc.ground.sizes import may_exceed

# So many elements of a window are read in one loop body; more are read axis by axis, or by a loop of their own.
UNROLLED = 64
# The numbers of elements of an image.
PLACES = np.dtype("int32")
# Along an axis: the index of the window, the index in the window, and what must hold of both (None: nothing).
Term = tuple[Any, Any, Any]


def both(x: Any, y: Any) -> Any:
    """The conjunction of x and y, each a condition or None, which always holds."""
    return y if x is None else x if y is None else x & y


def scaled(i: Any, factor: int, offset: Any) -> Any:
    """i * factor + offset, without steps that change nothing."""
    i = i * factor if factor != 1 else i
    return i if isinstance(offset, int) and offset == 0 else i + offset


def windows_in(size: int, kernel: int, stride: int, pad: int, dilate: int = 1) -> int:
    """The number of windows along an axis that is padded on both sides."""
    return (size + 2 * pad - dilate * (kernel - 1) - 1) // stride + 1


class _Windowed(Movement):
    """Windows along ``axes``. ``count`` is the number of windows along each."""

    axes: Axes = attribute(doc="the axes along which windows slide")
    kernel_: Axes = attribute(doc="elements of a window along each axis")
    count: Shape = attribute(doc="number of windows along each axis")
    stride: Axes = attribute((), "distance of windows along each axis; 1 by default")
    pad: Axes = attribute((), "by how much the first window begins before the array; 0 by default")
    dilate: Axes = attribute((), "distance of the elements of a window; 1 by default")

    def check(self) -> None:
        n = len(self.axes)
        given = {"kernel": self.kernel_, "count": self.count, "stride": self.stride, "pad": self.pad}
        sizes = {"size": self.attrs["size"]} if "size" in self.ATTRIBUTES else {}
        for name, values in {**given, "dilate": self.dilate, **sizes}.items():
            low = 0 if name in ("pad", "count", "size") else 1
            if (values or name in ("kernel", "count", "size")) and len(values) != n:
                raise AttributeValueError(f"{self.title()}: {name}={values} must have {n} numbers, one for each axis")
            if any(v < low for v in values):
                raise AttributeValueError(f"{self.title()}: {name}={values} must be at least {low}")
        self.strides, self.pads, self.dilates = self.stride or (1,) * n, self.pad or (0,) * n, self.dilate or (1,) * n

    # --- shapes --------------------------------------------------------------------------------------------

    def replaced(self, shape: Shape, sizes: Sequence[int]) -> Shape:
        """A shape with other sizes of the axes."""
        if any(not 0 <= a < len(shape) for a in self.axes):
            raise ShapeError(f"{self.title()}: axes={self.axes} do not fit an input of shape {shape}")
        found = list(shape)
        for a, n in zip(self.axes, sizes, strict=True):
            found[a] = n
        return tuple(found)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """One element for each window."""
        return shapes, [self.replaced(shapes[0], self.count)]

    # --- from windows to elements: the array is read ---------------------------------------------------------

    def lasts(self) -> list[int]:
        """The index after the last element of the last window along each axis."""
        given = zip(self.count, self.strides, self.kernel_, self.dilates, self.pads, strict=True)
        return [(c - 1) * s + (k - 1) * d + 1 - p for c, s, k, d, p in given]

    def place(self, b: Any, shape: Shape, window: Sequence[Any], taps: Sequence[Any]) -> tuple[list[Any], Any]:
        """The index of an element of a window, moved into the array, and whether it is there (None: always)."""
        index: list[Any] = list(window)
        inside: Any = None
        given = zip(self.axes, self.strides, self.dilates, self.pads, self.lasts(), strict=True)
        for k, (a, s, d, p, last) in zip(taps, given, strict=True):
            at = scaled(window[a], s, k * d - p if isinstance(k, int) else scaled(k, d, -p))
            low, high = p > 0, may_exceed(last, shape[a]) if p > 0 else bool(last > shape[a])
            if low:
                inside = both(inside, at >= 0)
            if high:
                inside = both(inside, at < shape[a])
            at = b.max(at, 0) if low else at
            index[a] = b.min(at, shape[a] - 1) if high else at
        return index, inside

    def meets(self, shape: Shape) -> bool:
        """Whether every index in the padding, clamped to the array, is an element of the same window."""
        given = zip(self.axes, self.lasts(), self.kernel_, self.dilates, self.pads, strict=True)
        return all(d == 1 and p < k and last - k < shape[a] for a, last, k, d, p in given)

    def taps(self) -> Iterator[tuple[int, ...]]:
        """The indices in a window, in row-major order."""
        return itertools.product(*map(range, self.kernel_))

    def inner(self, shape: Shape) -> Shape:
        """The sizes of the axes."""
        return tuple(shape[a] for a in self.axes)

    def flat(self, shape: Shape, index: Sequence[Any]) -> Any:
        """The number of an element among those of the axes, in row-major order."""
        found: Any = None
        for a in self.axes:
            found = index[a] if found is None else found * shape[a] + index[a]
        return found

    def view(self, x: Any, outside: float) -> Any:
        """NumPy: a view (…, *kernel) of the elements of each window, of the padded array."""
        after = [max(last - n, 0) for last, n in zip(self.lasts(), self.inner(x.shape), strict=True)]
        if any(self.pads) or any(after):
            border = dict(zip(self.axes, zip(self.pads, after, strict=True), strict=True))
            widths = [border.get(a, (0, 0)) for a in range(x.ndim)]
            x = np.pad(x, widths, constant_values=x.dtype.type(outside))
        steps = [x.strides[a] for a in self.axes]
        outer = list(x.strides)
        for a, s, step in zip(self.axes, self.strides, steps, strict=True):
            outer[a] = s * step
        shape = (*self.replaced(x.shape, self.count), *self.kernel_)
        strides = (*outer, *(d * step for d, step in zip(self.dilates, steps, strict=True)))
        if 0 in shape:
            return np.zeros(shape, x.dtype)
        return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)

    # --- from elements to windows: the array is added to -----------------------------------------------------

    def terms(self, b: Any, i: Any, axis: int, size: int) -> Iterator[Term]:
        """The windows that may hold element ``i`` of an axis."""
        k, s, d = self.kernel_[axis], self.strides[axis], self.dilates[axis]
        p, count = self.pads[axis], self.count[axis]
        at = scaled(i, 1, p)
        if d > 1:
            for tap in range(k):
                off = at - tap * d
                window = b.quotient(b.max(off, 0), s) if s > 1 else b.max(off, 0)
                holds = (off >= 0) & (window < count)
                if s > 1:
                    holds = holds & (window * s == off)
                yield b.min(window, count - 1), tap, holds
            return
        last = b.quotient(at, s) if s > 1 else at
        rest = at - last * s if s > 1 else 0
        for j in range(-(-k // s)):
            window, tap = (last - j, scaled(rest, 1, j * s) if s > 1 else j) if j else (last, rest)
            holds = tap < k if s > 1 and (j + 1) * s > k else None
            if j:
                holds = both(holds, window >= 0)
                window = b.max(window, 0)
            if (size - 1 + p) // s - j >= count:
                holds = both(holds, window < count)
                window = b.min(window, count - 1)
            yield window, tap, holds

    def covering(self, b: Any, shape: Shape, index: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any], Any]]:
        """The windows that may hold an element: their indices, that of the element in them, and whether they do."""
        lists = [list(self.terms(b, index[a], n, shape[a])) for n, a in enumerate(self.axes)]
        for each in itertools.product(*lists):
            window, taps, holds = list(index), list[Any](), None
            for a, (o, tap, valid) in zip(self.axes, each, strict=True):
                window[a] = o
                taps.append(tap)
                holds = both(holds, valid)
            yield window, taps, holds

    def visited(self) -> int:
        """The number of windows that :meth:`covering` returns."""
        given = zip(self.kernel_, self.strides, self.dilates, strict=True)
        return math.prod(k if d > 1 else -(-k // s) for k, s, d in given)

    def added(self, x: Any, sizes: Sequence[int], dtype: Any, part: Any) -> Any:
        """NumPy: for each index in windows, ``part(tap)`` added to the elements that have it."""
        long = [max(last, n) + p for last, n, p in zip(self.lasts(), sizes, self.pads, strict=True)]
        shape = self.replaced(x.shape[: x.ndim - getattr(self, "INNER", 0) * len(self.axes)], long)
        made = np.zeros(shape, wide(dtype))
        for tap in self.taps() if x.size else ():
            key = [slice(None)] * len(shape)
            for a, k, s, d, c in zip(self.axes, tap, self.strides, self.dilates, self.count, strict=True):
                key[a] = slice(k * d, k * d + (c - 1) * s + 1, s)
            made[tuple(key)] += part(tap)
        key = [slice(None)] * len(shape)
        for a, p, n in zip(self.axes, self.pads, sizes, strict=True):
            key[a] = slice(p, p + n)
        return made[tuple(key)].astype(dtype)

    def spread_shape(self, shape: Shape, sizes: Shape) -> Shape:
        """The shape of the array whose windows have numbers of this shape."""
        made = self.replaced(shape, sizes)
        if self.inner(shape) != self.count:
            raise ShapeError(
                f"{self.title()}: an input of shape {shape} must have {self.count} windows along axes={self.axes}"
            )
        return made

    def spread(self, m: MovementBuilder[Any], x: Any, *given: Any) -> Any:
        """The numbers of windows added to the elements that they hold; to one each, if there are places."""
        *places, sizes = given
        shape = self.spread_shape(x.shape, sizes)
        if 0 in x.shape:
            return m.full(shape, x.dtype, 0)

        def element(b: Any, *index: Any) -> Any:
            found: Any = None
            own = b.cast(self.flat(shape, index), PLACES) if places else None
            for window, _, holds in self.covering(b, shape, index):
                value = b.cast(b.load(x, *window), wide(x.dtype))
                if places:
                    holds = both(holds, b.load(places[0], *window) == own)
                value = value if holds is None else b.select(holds, value, 0)
                found = value if found is None else found + value
            return found

        return m.generate(shape, x.dtype, element)

    def along(self, axis: int, **others: Any) -> Any:
        """The operator along one axis only."""
        names = ("axes", "kernel", "count", "stride", "pad", "dilate", "size")
        of = {n: self.attrs[n] for n in names if n in self.attrs}
        return self.bind(**{**self.attrs, **{n: v[axis : axis + 1] for n, v in of.items()}, **others})


@register("hybrid.windows")
class Windows(_Windowed):
    """The elements of each window: axes for the index in a window are added; 0 outside of the array."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(*self.replaced(shapes[0], self.count), *self.kernel_)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        if 0 in x.shape:
            return m.full(shape, x.dtype, 0)

        def element(b: Any, *index: Any) -> Any:
            rank = len(x.shape)
            at, inside = self.place(b, x.shape, index[:rank], index[rank:])
            value = b.load(x, *at)
            return value if inside is None else b.select(inside, value, 0)

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        return np.ascontiguousarray(self.view(arrays[0], 0))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return F.windows_add(dy, size=self.inner(x.shape), **self.attrs)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return windowed_samples(_all)

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [
            (((4,),), {"axes": 0, "kernel": 2, "count": (2, 2)},
             "windows: count=(2, 2) must have 1 numbers, one for each axis"),
            (((4,),), {"axes": 1, "kernel": 2, "count": 2}, "windows: axes=(1,) do not fit an input of shape (4,)"),
            (((4,),), {"axes": 0, "kernel": 2, "count": 2, "stride": 0}, "windows: stride=(0,) must be at least 1"),
        ]  # fmt: skip


@register("hybrid.windows_add")
class WindowsAdd(_Windowed):
    """The overlapping windows added up, each element where it came from: the adjoint of ``windows``."""

    INNER = 1
    size: Shape = attribute(doc="size of the array along each axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        outer, n = shape[: max(len(shape) - len(self.axes), 0)], len(self.axes)
        made = self.replaced(outer, self.size)
        if tuple(shape[-n:]) != self.kernel_ or self.inner(outer) != self.count:
            raise ShapeError(f"windows_add: data of shape {shape} must have {self.count} windows of {self.kernel_}")
        return shapes, [made]

    def decomposes(self) -> bool:
        return self.visited() > UNROLLED and len(self.axes) > 1

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (y,) = inputs
        for axis in reversed(range(len(self.axes))):  # the last of the axes of the index in a window is that of this
            y = F.windows_add(y, **self.along(axis).attrs)
        return y

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        if 0 in x.shape:
            return m.full(shape, x.dtype, 0)

        def element(b: Any, *index: Any) -> Any:
            found: Any = None
            for window, taps, holds in self.covering(b, shape, index):
                at = [b.min(t, k - 1) if not isinstance(t, int) else t for t, k in zip(taps, self.kernel_, strict=True)]
                value = b.cast(b.load(x, *window, *at), wide(x.dtype))
                value = value if holds is None else b.select(holds, value, 0)
                found = value if found is None else found + value
            return found

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])

        def part(tap: tuple[int, ...]) -> Any:
            return x[(..., *tap)]

        return self.added(x, self.size, x.dtype, part)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.windows(values[0], **{k: v for k, v in self.attrs.items() if k != "size"})

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def added(x: Any) -> Any:
            y = np.zeros((2, 5))
            for o, k in itertools.product(range(3), range(3)):
                if 0 <= 2 * o + k - 1 < 5:
                    y[:, 2 * o + k - 1] += x[:, o, k]
            return y

        def dilated(x: Any) -> Any:
            y = np.zeros((6, 1))
            for o, k in itertools.product(range(2), range(2)):
                y[2 * o + 3 * k, 0] += x[o, 0, k]
            return y

        def far(x: Any) -> Any:
            y = np.zeros((2, 7, 6))
            for o, i, j in itertools.product(range(2), range(9), range(9)):
                if 0 <= i + o - 2 < 7 and 0 <= j + o - 2 < 6:
                    y[0, i + o - 2, j + o - 2] += x[0, o, o, i, j]
                if 0 <= i + o - 2 < 7 and 0 <= j - o - 1 < 6:
                    y[0, i + o - 2, j - o - 1] += x[0, o, 1 - o, i, j]
            return y[:1]

        return [
            Sample([(2, 3, 3)], added, axes=1, kernel=3, count=3, stride=2, pad=1, size=5),
            Sample([(2, 1, 2)], dilated, axes=0, kernel=2, count=2, stride=2, dilate=3, size=6),
            Sample([(1, 2, 2, 9, 9)], far, axes=(1, 2), kernel=(9, 9), count=(2, 2), pad=(2, 2), size=(7, 6)),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "windows_add: data of shape (3, 2) must have (3,) windows of (3,)"
        size = "windows_add: size=(5, 2) must have 1 numbers, one for each axis"
        return [
            (((3, 2),), {"axes": 0, "kernel": 3, "count": 3, "size": 5}, text),
            (((3, 3),), {"axes": 0, "kernel": 3, "count": 3, "size": (5, 2)}, size),
        ]


def windowed_samples(reduced: Any, outside: float = 0, grad: bool = True) -> list[Sample]:
    """Samples of ``reduced(windows, n)``, of windows (…, *kernel), a kernel of n axes; the absent are ``outside``."""

    def of(axes: Shape, kernel: Shape, count: Shape, stride: Shape, pad: Shape, dilate: Shape) -> Any:
        def reference(x: Any) -> Any:
            shape = list(x.shape)
            for a, c in zip(axes, count, strict=True):
                shape[a] = c
            y = np.full((*shape, *kernel), outside, np.float64)
            for window, tap in itertools.product(np.ndindex(*count), np.ndindex(*kernel)):
                at = [o * s - p + k * d for o, s, p, k, d in zip(window, stride, pad, tap, dilate, strict=True)]
                if all(0 <= i < x.shape[a] for a, i in zip(axes, at, strict=True)):
                    out, into = [slice(None)] * x.ndim, [slice(None)] * x.ndim
                    for a, o, i in zip(axes, window, at, strict=True):
                        out[a], into[a] = slice(o, o + 1), slice(i, i + 1)
                    y[(*out, *tap)] = x[tuple(into)]
            return reduced(y, len(axes))

        return reference

    def sample(shape: Shape, axes: Shape, kernel: Shape, count: Shape, **more: Shape) -> Sample:
        n = len(axes)
        attrs: dict[str, Any] = {
            "kernel": kernel,
            "count": count,
            "stride": (1,) * n,
            "pad": (0,) * n,
            "dilate": (1,) * n,
        } | more
        return Sample([shape], of(axes, **attrs), grad=grad, axes=axes, **attrs)

    return [
        sample((2, 7), (1,), (3,), (3,), stride=(2,)),
        sample((1, 2, 4, 5), (2, 3), (2, 3), (3, 3), stride=(2, 2), pad=(1, 1)),
        sample((2, 4, 3, 2), (1, 2), (2, 2), (2, 2), stride=(2, 1)),
        sample((5, 2), (0,), (2,), (3,), pad=(1,), dilate=(3,)),
        sample((3,), (0,), (2,), (3,), stride=(2,)),
        sample((0, 3), (1,), (2,), (2,)),
        sample((1, 2, 3, 2, 2), (2, 3, 4), (2, 2, 1), (2, 1, 2)),
        sample((1, 3, 4), (1, 2), (9, 9), (3, 2), pad=(4, 4)),
    ]


def _all(y: Any, _: int) -> Any:
    return y


def _total(y: Any, n: int) -> Any:
    return y.sum(tuple(range(-n, 0)))


def _largest(y: Any, n: int) -> Any:
    return y.max(tuple(range(-n, 0)))


class _Reducing(_Windowed):
    """One number of each window."""

    def decomposes(self) -> bool:
        return math.prod(self.kernel_) > UNROLLED


@register("hybrid.window_sum")
class WindowSum(_Reducing):
    """The sum of each window's elements, or of a power of them."""

    COMPUTES_IN = WIDE

    power: int = attribute(1, "the exponent of each element", low=1)
    dtype: DType | None = attribute(None, "dtype of the result; that of the data by default")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0] if self.dtype is None else self.dtype]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        y = self.separate(F, x)
        return y if self.dtype in (None, y.dtype) else F.cast(y, self.dtype)

    def separate(self, F: Any, x: Any) -> Any:
        """The sums along one axis after the other, or in loops of their own."""
        if len(self.axes) > 1:  # the sum of sums along each axis
            for axis in reversed(range(len(self.axes))):
                last = axis == len(self.axes) - 1
                x = F.window_sum(x, **self.along(axis, power=self.power if last else 1, dtype=None).attrs)
            return x
        rank, attrs = len(x.shape), {k: v for k, v in self.attrs.items() if k not in ("power", "dtype")}
        y = F.windows(x, **attrs)
        return F.sum(y if self.power == 1 else y**self.power, axis=tuple(range(rank, rank + len(self.axes))))

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        (dtype,) = self.infer_type([np.dtype(x.dtype)])[1]
        if 0 in x.shape:
            return m.full(shape, dtype, 0)

        def element(b: Any, *index: Any) -> Any:
            found: Any = None
            for tap in self.taps():
                at, inside = self.place(b, x.shape, index, tap)
                value = own = b.cast(b.load(x, *at), wide(x.dtype))
                for _ in range(self.power - 1):
                    value = value * own
                value = value if inside is None else b.select(inside, value, 0)
                found = value if found is None else found + value
            return found

        return m.generate(shape, dtype, element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        y = self.view(x, 0)
        found = np.zeros(y.shape[: x.ndim], wide(x.dtype))
        for tap in self.taps():
            part = own = y[(..., *tap)].astype(found.dtype, copy=False)
            for _ in range(self.power - 1):
                part = part * own
            np.add(found, part, out=found)
        return found.astype(self.infer_type([x.dtype])[1][0], copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        attrs = {k: v for k, v in self.attrs.items() if k not in ("power", "dtype")}
        dx = F.window_spread(dy, size=self.inner(x.shape), **attrs)
        if self.power == 1:
            return dx
        x = x if x.dtype == dy.dtype else F.cast(x, dy.dtype)
        return dx * (x * 2 if self.power == 2 else x ** (self.power - 1) * self.power)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        cubes = Sample([(2, 4)], lambda x: x[:, :3] ** 3 + x[:, 1:] ** 3, axes=1, kernel=2, count=3, power=3)
        given: dict[str, Any] = {"axes": 1, "kernel": 2, "count": 3, "dtype": "float32"}
        halves = Sample([(2, 4)], lambda x: x[:, :3] + x[:, 1:], grad=False, dtypes=("float16",), **given)
        return [*windowed_samples(_total), cubes, halves]


@register("hybrid.window_spread")
class WindowSpread(_Windowed):
    """Each window's value added to all elements of that window: the adjoint of ``window_sum``."""

    COMPUTES_IN = WIDE

    size: Shape = attribute(doc="size of the array along each axis")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.spread_shape(shapes[0], self.size)]

    def decomposes(self) -> bool:
        return self.visited() > UNROLLED and len(self.axes) > 1

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (y,) = inputs
        for axis in range(len(self.axes)):
            y = F.window_spread(y, **self.along(axis).attrs)
        return y

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return self.spread(m, *xs, self.size)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])

        def part(_: tuple[int, ...]) -> Any:
            return x

        return self.added(x, self.size, x.dtype, part)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.window_sum(values[0], **{k: v for k, v in self.attrs.items() if k != "size"})

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def spread(x: Any) -> Any:
            return np.stack([x[:, 0], x[:, 0] + x[:, 1], x[:, 1], x[:, 1] + x[:, 2], x[:, 2]], 1)

        def apart(x: Any) -> Any:
            return np.array([x[0], 0, 0, x[1], 0])

        def all_of(x: Any) -> Any:
            return np.broadcast_to(x.sum((1, 2), keepdims=True), (2, 3, 2))

        many: dict[str, Any] = {"axes": (1, 2), "kernel": (9, 9), "count": (2, 2), "pad": (2, 2), "size": (3, 2)}
        return [
            Sample([(2, 3)], spread, axes=1, kernel=3, count=3, stride=2, pad=1, size=5),
            Sample([(2,)], apart, axes=0, kernel=1, count=2, stride=3, size=5),
            Sample([(2, 2, 2)], all_of, **many),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "window_spread: an input of shape (2,) must have (3,) windows along axes=(0,)"
        return [(((2,),), {"axes": 0, "kernel": 3, "count": 3, "size": 5}, text)]


@register("hybrid.window_max")
class WindowMax(_Reducing):
    """The largest element of each window; nan if there is one, -inf if no element is there."""

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        if len(self.axes) > 1:
            for axis in range(len(self.axes)):
                x = F.window_max(x, **self.along(axis).attrs)
            return x
        rank = len(x.shape)
        (size,), (pad,), (last,) = self.inner(x.shape), self.pads, self.lasts()
        if pad or last > size:
            border = [(pad, max(last - size, 0)) if a in self.axes else (0, 0) for a in range(rank)]
            widths = tuple(n for pair in border for n in pair)
            x = F.pad(x, mode="constant", pad_width=widths, constant_value=-math.inf)
        return F.max(F.windows(x, **{**self.attrs, "pad": (0,)}), axis=rank)

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        if 0 in x.shape:
            return m.full(shape, x.dtype, -math.inf)
        meets = self.meets(x.shape)

        def element(b: Any, *index: Any) -> Any:
            found: Any = None
            for tap in self.taps():
                at, inside = self.place(b, x.shape, index, tap)
                value = b.load(x, *at)
                value = value if inside is None or meets else b.select(inside, value, -math.inf)
                found = value if found is None else b.max(found, value)
            return found

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        y = self.view(x, -math.inf)
        found = np.full(y.shape[: x.ndim], x.dtype.type(-math.inf))
        for tap in self.taps():
            np.maximum(found, y[(..., *tap)], out=found)
        return found

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return F.window_spread_at(dy, F.window_place(x, **self.attrs), size=self.inner(x.shape), **self.attrs)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        made = windowed_samples(_largest, -math.inf)
        for sample in made:  # where nothing is there, differences are none
            sample.grad = sample.attrs["stride"] != (2,) or sample.attrs["kernel"] != (2,)
        return made


@register("hybrid.window_place")
class WindowPlace(_Windowed):
    """The number of each window's first largest element among all of the axes in row-major order

    It is -1 where no element is there; the first nan is the largest.
    """

    gradient = no_gradient

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [PLACES]

    def decomposes(self) -> bool:
        return math.prod(self.kernel_) > UNROLLED and len(self.axes) > 1

    def decompose(self, F: Any, *inputs: Any) -> Any:
        """The place in each row of a window, and among the rows that of the first with the largest element."""
        (x,) = inputs
        n, sizes = len(self.axes), self.inner(x.shape)
        rows = [{k: v[n - 1 :] if cut else v[: n - 1] for k, v in self.attrs.items()} for cut in (True, False)]
        row = F.window_place(x, **rows[0])
        first = F.window_place(F.window_max(x, **rows[0]), **rows[1])
        column = F.window_pick(row, first, size=sizes[: n - 1], **rows[1])
        there = F.cast(F.greater_equal(first, 0), PLACES) * F.cast(F.greater_equal(column, 0), PLACES)
        return (first * sizes[-1] + column + 1) * there - 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        found = super().infer_shape(shapes)
        if math.prod(self.inner(shapes[0])) >= 2**31:
            raise ShapeError(f"window_place: an image of an input of shape {shapes[0]} is too large for int32")
        return found

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        (shape,) = self.infer_shape([x.shape])[1]
        if 0 in x.shape:
            return m.full(shape, PLACES, -1)
        meets = self.meets(x.shape)
        given = zip(self.lasts(), self.inner(x.shape), strict=True)
        within = not any(self.pads) and all(last <= n for last, n in given)

        def element(b: Any, *index: Any) -> Any:
            taps: list[tuple[Any, Any, Any]] = []
            best: Any = None
            for tap in self.taps():
                at, inside = self.place(b, x.shape, index, tap)
                inside = None if meets else inside
                value = b.load(x, *at)
                value = value if inside is None else b.select(inside, value, -math.inf)
                best = value if best is None else b.max(best, value)
                # Numbers that are constants count from that of the window's first element.
                number = b.cast(self.from_first(x.shape, tap) if within else self.flat(x.shape, at), PLACES)
                taps.append((value, number, inside))
            found: Any = None
            for value, number, inside in reversed(taps):
                if found is None and inside is None:
                    found = number
                    continue
                hit = both(inside, (value == best) | (value != value))
                found = b.select(hit, number, b.cast(-1, PLACES) if found is None else found)
            if within:
                first, _ = self.place(b, x.shape, index, (0,) * len(self.axes))
                found = b.cast(self.flat(x.shape, first), PLACES) + found
            return found

        return m.generate(shape, PLACES, element)

    def from_first(self, shape: Shape, tap: Sequence[int]) -> int:
        """By how much the number of an element of a window is larger than that of the window's first."""
        found = 0
        for a, k, d in zip(self.axes, tap, self.dilates, strict=True):
            found = found * shape[a] + k * d
        return found

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        (shape,) = self.infer_shape([x.shape])[1]
        y = self.view(x, -math.inf)
        inner = self.inner(x.shape)
        own = np.arange(math.prod(inner), dtype=PLACES).reshape(inner)
        alone: Any = type(self).bind(**{**self.attrs, "axes": tuple(range(len(inner)))})
        numbers = alone.view(own, 0) if own.size else np.zeros((*self.count, *self.kernel_), PLACES)
        there = alone.view(np.ones(inner, bool), 0)
        rest = tuple(n if a in self.axes else 1 for a, n in enumerate(shape))
        order = sorted(range(len(inner)), key=lambda n: self.axes[n])
        best = np.full(shape, x.dtype.type(-math.inf))
        found = np.full(shape, -1, PLACES)
        for tap in self.taps():
            value = y[(..., *tap)]
            number, inside = (np.transpose(v[(..., *tap)], order).reshape(rest) for v in (numbers, there))
            larger = inside & ((~(value <= best) & (best == best)) | (found < 0))
            best, found = np.where(larger, value, best), np.where(larger, number, found)
        return found

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def first(x: Any) -> Any:
            return np.stack(
                [np.argmax(x[:, max(2 * o - 1, 0) : 2 * o + 2], 1) + max(2 * o - 1, 0) for o in range(3)], 1
            )

        def block(x: Any) -> Any:
            found = np.zeros((2, 2, 2, 1))
            for n, i, j in np.ndindex(2, 2, 2):
                k = int(np.argmax(x[n, i : i + 2, j : j + 2, 0]))
                found[n, i, j] = (i + k // 2) * 3 + j + k % 2
            return found

        def none(_: Any) -> Any:
            return np.array([0, 2, -1])

        def large(x: Any) -> Any:
            y = np.pad(x, ((4, 5), (4, 4)), constant_values=-np.inf)
            number = np.pad(np.arange(12).reshape(3, 4), ((4, 5), (4, 4)))
            parts = [(slice(i, i + 10), slice(j, j + 9)) for i in range(3) for j in range(4)]
            return np.array([number[p].reshape(-1)[np.argmax(y[p].reshape(-1))] for p in parts]).reshape(3, 4)

        two: dict[str, Any] = {"axes": (1, 2), "kernel": (2, 2), "count": (2, 2)}
        many: dict[str, Any] = {"axes": (0, 1), "kernel": (10, 9), "count": (3, 4), "pad": (4, 4)}
        ties, nans = np.array([1.0, 1, 1, 0]), np.array([1.0, np.nan, np.nan, 0, 2])
        return [
            Sample([(2, 5)], first, grad=False, axes=1, kernel=3, count=3, stride=2, pad=1),
            Sample([(2, 3, 3, 1)], block, grad=False, **two),
            Sample([(3, 4)], large, grad=False, **many),
            Sample([np.array([[2, 1, 1, 2.0], [2, 0, 2, 1], [1, 2, 2, 2]])], large, grad=False, **many),
            Sample([(3,)], none, grad=False, axes=0, kernel=1, count=3, stride=2),
            Sample([ties], lambda _: np.array([0, 1, 2]), grad=False, axes=0, kernel=2, count=3),
            Sample([nans], lambda _: np.array([1, 1, 2, 4]), grad=False, axes=0, kernel=2, count=4),
        ]


class _Placed(_Windowed):
    """Windows with the number of one element of each, as ``window_place`` gives it."""

    SAME_DTYPE = False
    INPUTS = ("data", "place")
    INPUT_DOCS: ClassVar = {
        "place": "an integer for each window: the number of an element among those along axes, in row-major order, or "
        "-1 for none",
    }
    size: Shape = attribute(doc="size of the array along each axis")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]


@register("hybrid.window_spread_at")
class WindowSpreadAt(_Placed):
    """Each window's value added to the one element whose index is given: a scatter-add."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if shapes[1] != shapes[0]:
            raise ShapeError(f"window_spread_at: place has shape {shapes[1]}, expected {shapes[0]} as data")
        return shapes, [self.spread_shape(shapes[0], self.size)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        return self.spread(m, *xs, self.size)

    def eager(self, *arrays: Any) -> Any:
        x, place = arrays
        (shape,) = self.infer_shape([x.shape, place.shape])[1]
        order = [a for a in range(x.ndim) if a not in self.axes]
        others = math.prod(shape[a] for a in order)
        inside = math.prod(self.size)
        made = np.zeros((others, inside), wide(x.dtype))
        rows = (*order, *self.axes)
        numbers, values = (v.transpose(rows).reshape(others, math.prod(self.count)) for v in (place, x))
        row, column = np.nonzero(numbers >= 0)
        np.add.at(made, (row, numbers[row, column]), values[row, column].astype(made.dtype))
        back = made.reshape(*(shape[a] for a in order), *self.size)
        return back.transpose(np.argsort(rows)).astype(x.dtype)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.window_pick(values[0], values[2], **self.attrs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def spread(x: Any, _: Any) -> Any:
            return np.stack([np.zeros(2), x[:, 0] + x[:, 1], np.zeros(2), x[:, 2], np.zeros(2)], 1)

        def pair(x: Any, _: Any) -> Any:
            return np.array([[0, x[0, 0, 0] + x[0, 1, 0], x[0, 0, 1]], [x[0, 1, 1], 0, 0]]).reshape(1, 2, 3)

        given: dict[str, Any] = {"axes": (1, 2), "kernel": (2, 2), "count": (2, 2), "pad": (1, 0), "size": (2, 3)}
        return [
            Sample([(2, 3), np.array([[1, 1, 3]] * 2)], spread, axes=1, kernel=3, count=3, stride=2, pad=1, size=5),
            Sample([(1, 2, 2), np.array([[[1, 2], [1, -1]]])], lambda x, p: pair(x * (p >= 0), p), **given),
        ]


@register("hybrid.window_pick")
class WindowPick(_Placed):
    """Of each window the element whose number is given; 0 for -1."""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape, place = shapes
        made = self.replaced(shape, self.count)
        if place != made or self.inner(shape) != self.size:
            raise ShapeError(
                f"window_pick: data {shape} and place {place} must have sizes {self.size} and {self.count}"
            )
        return shapes, [made]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        x, place = xs
        (shape,) = self.infer_shape([x.shape, place.shape])[1]
        if 0 in x.shape:
            return m.full(shape, x.dtype, 0)

        def element(b: Any, *index: Any) -> Any:
            given = b.cast(b.load(place, *index), np.dtype("int64"))
            number, at = b.max(given, 0), list(index)
            for a in reversed(self.axes):
                rest = b.quotient(number, x.shape[a])
                at[a], number = number - rest * x.shape[a], rest
            return b.select(given >= 0, b.load(x, *at), 0)

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        x, place = arrays
        self.infer_shape([x.shape, place.shape])
        order = [a for a in range(x.ndim) if a not in self.axes]
        rows = (*order, *self.axes)
        if not x.size:
            return np.zeros(place.shape, x.dtype)
        numbers = place.transpose(rows).reshape(*(x.shape[a] for a in order), math.prod(self.count))
        values = x.transpose(rows).reshape(*(x.shape[a] for a in order), math.prod(self.size))
        picked = np.take_along_axis(values, np.maximum(numbers, 0).astype(np.int64), -1)
        picked = np.where(numbers >= 0, picked, np.zeros(1, x.dtype))
        return picked.reshape([*(x.shape[a] for a in order), *self.count]).transpose(np.argsort(rows))

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.window_spread_at(values[0], values[2], **self.attrs), None

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        given: dict[str, Any] = {"axes": (1, 2), "kernel": (2, 2), "count": (1, 2), "size": (2, 3)}
        place = np.array([[[4, -1]], [[0, 5]]])
        return [
            Sample([(2, 2, 3), place], lambda x, _: np.array([[[x[0, 1, 1], 0]], [[x[1, 0, 0], x[1, 1, 2]]]]), **given)
        ]
