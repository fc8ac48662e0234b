"""Images in other sizes: repeated and interpolated elements, means of parts."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.creation_ops import Creation
from hybridc.dialects.movement import MovementBuilder
from hybridc.dialects.operator import Bad, Composite, Movement, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, DType, Shape
from hybridc.dtypes import FLOAT32, WIDE, is_float, wide
from hybridc.errors import AttributeValueError, DTypeError, ShapeError

KINDS = ("centers", "corners", "means")
PLACE = np.dtype("int32")
# Of so many elements at most sums are made along several axes at once; of more along one axis after the other.
JOINT = 4


@functools.lru_cache(256)
def bands(kind: str, size: int, count: int, transposed: bool) -> tuple[Any, Any]:
    """The matrix that takes an axis from ``size`` to ``count`` elements, or its transpose, by the bands of its rows.

    Each row has the column of its first number, and its numbers from there on, as many as the longest row has.
    """
    matrix, o = np.zeros((count, size)), np.arange(count)
    if kind == "means":
        for row in range(count):
            first, end = row * size // count, -(-(row + 1) * size // count)
            matrix[row, first:end] = 1 / (end - first)
    else:
        at = o * ((size - 1) / (count - 1) if count > 1 else 0)
        if kind == "centers":
            at = np.maximum((o + 0.5) * (size / count if count > 1 else 0) - 0.5, 0)
        low = np.minimum(at.astype(int), size - 1)
        np.add.at(matrix, (o, low), 1 - (at - low))
        np.add.at(matrix, (o, np.minimum(low + 1, size - 1)), at - low)
    matrix = matrix.T if transposed else matrix
    used = matrix != 0
    first = used.argmax(1)
    taps = max(1, int((used.shape[1] - used[:, ::-1].argmax(1) - first)[used.any(1)].max(initial=0)))
    columns = np.minimum(first[:, None] + np.arange(taps), matrix.shape[1] - 1)
    weight = np.take_along_axis(matrix, columns, 1)
    weight[first[:, None] + np.arange(taps) >= matrix.shape[1]] = 0
    return first.astype(PLACE), weight


class _Band(Creation):
    """Numbers of :func:`bands`."""

    kind: str = attribute(doc="which elements are combined", enum=KINDS)
    size: int = attribute(doc="size of the axis", low=1)
    count: int = attribute(doc="size of the axis of the result", low=1)
    transposed: bool = attribute(False, "the transpose of the matrix")

    def table(self, which: int) -> Any:
        """The first columns, or the numbers."""
        return bands(self.kind, int(self.size), int(self.count), self.transposed)[which]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        """One number after the other: in a graph they are a constant."""
        numbers = self.eager()
        made = m.concat([m.full((1,), numbers.dtype, v) for v in numbers.reshape(-1).tolist()], 0)
        return m.reshape(made, numbers.shape)


@register("hybrid.band_first")
class BandFirst(_Band):
    """The index of the first element of which each element of a resized axis is made"""

    dtype: DType = attribute(PLACE, "the element type")

    def out_shape(self) -> Shape:
        return (self.size if self.transposed else self.count,)

    def eager(self, *arrays: Any) -> Any:
        return self.table(0).astype(self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [
            Sample([], lambda: np.array([0, 1, 3]), grad=False, dtypes=("int32",), kind="means", size=5, count=3),
            Sample([], lambda: np.array([0, 0, 1, 1, 2]), grad=False, dtypes=("int32",), kind="means", size=5, count=3,
                   transposed=True),
        ]  # fmt: skip


@register("hybrid.band_weight")
class BandWeight(_Band):
    """The factors of the elements of which each element of a resized axis is made"""

    dtype: DType = attribute(FLOAT32, "the element type")

    def out_shape(self) -> Shape:
        return tuple(self.table(1).shape)

    def eager(self, *arrays: Any) -> Any:
        return self.table(1).astype(self.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def halves() -> Any:
            return np.array([[1, 0], [0.5, 0.5], [1, 0]])

        return [Sample([], halves, grad=False, kind="corners", size=2, count=3)]


@register("hybrid.band_sum")
class BandSum(Movement):
    """Along each of the ``axes``: weighted sums of ``taps`` elements; further inputs give first indices and weights"""

    SAME_DTYPE = False
    VARIADIC = True  # data, and first and weight for each axis

    axes: Axes = attribute(doc="the axes")
    taps: Axes = attribute(doc="how many elements are combined along each axis")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        made = list(shapes[0])
        if len(shapes) != 1 + 2 * len(self.axes) or any(a >= len(made) for a in self.axes):
            raise ShapeError(f"band_sum: axes={self.axes} of data and two tables for each, got inputs of {shapes}")
        for n, axis in enumerate(self.axes):
            first, weight = shapes[1 + 2 * n : 3 + 2 * n]
            if len(first) != 1 or weight != (*first, self.taps[n]):
                raise ShapeError(f"band_sum: tables of {first} and {weight}, expected (n,) and (n, {self.taps[n]})")
            made[axis] = first[0]
        return shapes, [tuple(made)]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        x, *tables = xs
        (shape,) = self.infer_shape([v.shape for v in xs])[1]
        if 0 in x.shape:
            return m.full(shape, x.dtype, 0)

        def element(b: Any, *index: Any) -> Any:
            found: Any = None
            for taps in itertools.product(*map(range, self.taps)):
                at, factor = list(index), None
                for n, (axis, tap) in enumerate(zip(self.axes, taps, strict=True)):
                    first = b.cast(tables[2 * n][index[axis]], np.dtype("int64"))
                    at[axis] = b.min(first + tap if tap else first, x.shape[axis] - 1)
                    weight = tables[2 * n + 1][index[axis], index[axis] * 0 if tap == 0 else tap]
                    factor = weight if factor is None else factor * weight
                value = b.cast(b.load(x, *at), wide(x.dtype)) * factor
                found = value if found is None else found + value
            return found

        return m.generate(shape, x.dtype, element)

    def eager(self, *arrays: Any) -> Any:
        x, *tables = arrays
        self.infer_shape([v.shape for v in arrays])
        y = x.astype(wide(x.dtype), copy=False)
        for n, axis in enumerate(self.axes):
            first, weight = tables[2 * n : 2 * n + 2]
            total: Any = None
            for tap in range(self.taps[n]):
                part = np.take(y, np.minimum(first + tap, y.shape[axis] - 1), axis)
                part = part * weight[:, tap].reshape([-1 if a == axis else 1 for a in range(y.ndim)])
                total = part if total is None else total + part
            y = total
        return y.astype(x.dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, *tables, _ = values
        for n, axis in reversed(list(enumerate(self.axes))):
            first, weight = tables[2 * n : 2 * n + 2]
            shape = (*dy.shape[:axis], x.shape[axis], *dy.shape[axis + 1 :])
            along = tuple(dy.shape[axis] if a == axis else 1 for a in range(len(shape)))
            parts: list[Any] = []
            for tap in range(self.taps[n]):
                factor = F.reshape_to(F.slice_axis(weight, axis=1, begin=tap, end=tap + 1), shape=along)
                parts.append(F.take_scatter(dy * factor, first + tap, shape=shape, axis=axis, mode="clip"))
            dy = F.add_n(*parts)
        return (dy, *[None] * len(tables))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def sums(x: Any, first: Any, weight: Any) -> Any:
            return np.stack([x[:, int(f)] * w[0] + x[:, min(int(f) + 1, 3)] * w[1] for f, w in zip(first, weight)], 1)

        weight = np.array([[1, 2], [0.5, 0], [-1, 1.5]])
        return [Sample([(2, 4), np.array([0, 3, 2]), weight], sums, grad=False, axes=1, taps=2)]


@register("hybrid.resample")
class Resample(Composite):
    """The axes in other sizes: by interpolation between centers or corners of pixels, or by means of parts

    ``transposed`` is the adjoint: what the result's elements have, added to the elements of which they were made.
    """

    COMPUTES_IN = WIDE
    axes: Axes = attribute(doc="the axes")
    size: Shape = attribute(doc="sizes of these axes of the data, or of the result if transposed")
    count: Shape = attribute(doc="sizes of these axes of the result, or of the data if transposed")
    kind: str = attribute(doc="which elements are combined", enum=KINDS)
    transposed: bool = attribute(False, "the adjoint")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        given, made = (self.count, self.size) if self.transposed else (self.size, self.count)
        shape = list(shapes[0])
        if any(a >= len(shape) for a in self.axes) or tuple(shape[a] for a in self.axes) != given:
            raise ShapeError(f"resample: data of shape {shapes[0]} must have sizes {given} along axes={self.axes}")
        for axis, n in zip(self.axes, made, strict=True):
            shape[axis] = n
        return shapes, [tuple(shape)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        self.infer_shape([x.shape])
        given = [(a, n, c) for a, n, c in zip(self.axes, self.size, self.count, strict=True) if n != c]
        of: list[dict[str, Any]] = [
            {"kind": self.kind, "size": n, "count": c, "transposed": self.transposed} for _, n, c in given
        ]
        tables = [(F.band_first(**each), F.band_weight(**each, dtype=x.dtype)) for each in of]
        taps = [weight.shape[1] for _, weight in tables]
        groups = [range(len(given))] if math.prod(taps) <= JOINT else [[n] for n in range(len(given))]
        for group in groups if given else ():
            band = {"axes": tuple(given[n][0] for n in group), "taps": tuple(taps[n] for n in group)}
            x = F.band_sum(x, *(table for n in group for table in tables[n]), **band)
        return x if given else F.identity(x)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.resample(values[0], **{**self.attrs, "transposed": not self.transposed})

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def line(x: Any) -> Any:
            return np.stack([x[:, 0], x[:, :2].mean(1), x[:, 1], x[:, 1:].mean(1), x[:, 2]], 1)

        def back(x: Any) -> Any:
            return np.stack([x[:, 0] + x[:, 1] / 2, x[:, 1] / 2 + x[:, 2] + x[:, 3] / 2, x[:, 3] / 2 + x[:, 4]], 1)

        def means(x: Any) -> Any:
            return np.stack([x[:9].mean(0), x[8:].mean(0)])

        corners: dict[str, Any] = {"axes": 1, "size": 3, "count": 5, "kind": "corners"}
        return [
            Sample([(2, 3)], line, **corners),
            Sample([(2, 5)], back, transposed=True, **corners),
            Sample([(17, 1)], means, axes=(0, 1), size=(17, 1), count=(2, 1), kind="means"),
            Sample([(0, 3)], lambda _: np.zeros((0, 5)), **corners),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "resample: data of shape (2, 4) must have sizes (3,) along axes=(1,)"
        return [(((2, 4),), {"axes": 1, "size": 3, "count": 5, "kind": "means"}, text)]


# --- operators of images ----------------------------------------------------------------------------------------------


class _OfImages(Composite):
    """An operator of images (N, C, height, width) of floating-point numbers."""

    SAME_DTYPE = False

    def image(self, shape: Shape, what: str = "data") -> tuple[int, int]:
        """Height and width."""
        if len(shape) != 4:
            raise ShapeError(f"{self.title()}: {what} must be of shape (N, C, height, width), got {shape}")
        if 0 in shape[2:]:
            raise ShapeError(f"{self.title()}: {what} of shape {shape} has images without elements")
        return shape[2], shape[3]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"{self.title()}: data must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, [dtypes[0]]


@register("hybrid.adaptive_avg_pooling2d", "contrib.AdaptiveAvgPooling2D")
class AdaptiveAvgPooling2D(_OfImages):
    """The means of parts of images, as many as ``output_size`` says: (height, width), or one number for both

    Part i of n of an axis is from ``floor(i * size / n)`` to ``ceil((i + 1) * size / n)``.
    """

    output_size: Shape | None = attribute((), "height and width of the result; one number for both, 1 by default")

    def check(self) -> None:
        size = self.output_size or ()
        if len(size) > 2 or any(n < 1 for n in size):
            raise AttributeValueError(
                f"AdaptiveAvgPooling2D: output_size={size} must be one or two numbers of at least 1"
            )
        self.output = (size * 2)[:2] or (1, 1)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (shape,) = shapes
        self.image(shape)
        return shapes, [(*shape[:2], *self.output)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        self.infer_type([np.dtype(x.dtype)])
        size, count = self.image(x.shape), self.output
        if all(n % c == 0 for n, c in zip(size, count, strict=True)):
            kernel = tuple(n // c for n, c in zip(size, count, strict=True))
            return F.Pooling(x, kernel=kernel, stride=kernel, pool_type="avg")
        return F.resample(x, axes=(2, 3), size=size, count=count, kind="means")

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def parts(height: int, width: int) -> Any:
            def reference(x: Any) -> Any:
                y = np.zeros((*x.shape[:2], height, width))
                for i, j in np.ndindex(height, width):
                    rows, columns = x.shape[2:]
                    top, bottom = math.floor(i * rows / height), math.ceil((i + 1) * rows / height)
                    left, right = math.floor(j * columns / width), math.ceil((j + 1) * columns / width)
                    y[:, :, i, j] = x[:, :, top:bottom, left:right].mean((2, 3))
                return y

            return reference

        return [
            Sample([(2, 2, 4, 5)], parts(3, 3), output_size=3),
            Sample([(1, 2, 4, 6)], parts(2, 3), output_size=(2, 3)),
            Sample([(1, 2, 3, 2)], parts(5, 3), output_size=(5, 3)),
            Sample([(2, 3, 4, 5)], parts(1, 1)),
            Sample([(2, 3, 2, 3)], parts(1, 1), output_size=None),
            Sample([(1, 1, 19, 19)], parts(2, 2), output_size=(2,)),
            Sample([(0, 1, 4, 5)], parts(2, 2), output_size=2),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "AdaptiveAvgPooling2D: output_size=(0,) must be one or two numbers of at least 1"
        image = "AdaptiveAvgPooling2D: data must be of shape (N, C, height, width), got (1, 4, 5)"
        return [(((1, 1, 4, 5),), {"output_size": 0}, text), (((1, 4, 5),), {"output_size": 2}, image)]


MODES = ("like", "odd_scale", "size", "to_even_down", "to_even_up", "to_odd_down", "to_odd_up")


@register("hybrid.bilinear_resize2d", "contrib.BilinearResize2D")
class BilinearResize2D(_OfImages):
    """Images in another size, interpolated linearly along both axes

    ``mode`` says in which: 'size': height and width, or the image's times scale_height and scale_width; 'odd_scale':
    times these, but one more than that of one less for odd sizes; 'like': that of the second input; 'to_even_down', …:
    the nearest even or odd one.
    """

    INPUTS = ("data", "like")
    INPUT_DOCS: ClassVar = {
        "data": "the images (N, C, height, width)",
        "like": "an array whose last two axes have the wanted size (mode 'like' alone)",
    }

    height: int = attribute(1, "height of the result (mode 'size')", low=1)
    width: int = attribute(1, "width of the result (mode 'size')", low=1)
    scale_height: float | None = attribute(None, "factor of the height (modes 'size' and 'odd_scale')")
    scale_width: float | None = attribute(None, "factor of the width (modes 'size' and 'odd_scale')")
    mode: str = attribute("size", "how the size of the result is found", enum=MODES)
    align_corners: bool = attribute(True, "the corner pixels of both images lie at the same places, not the corners")

    def check(self) -> None:
        scales = [self.scale_height, self.scale_width]
        known = sum(s is not None for s in scales)
        if self.mode in ("size", "odd_scale") and known != 2 and (known or self.mode == "odd_scale"):
            raise AttributeValueError(
                f"BilinearResize2D: mode={self.mode!r} takes both scale_height and scale_width, got {scales[0]} and "
                f"{scales[1]}"
            )

    def input_names(self) -> tuple[str, ...]:
        return ("data", "like") if self.mode == "like" else ("data",)

    def along(self, size: int, wanted: int, scale: float | None) -> int:
        """The size of the result along an axis."""
        if self.mode == "odd_scale" and scale is not None:
            return int((size - 1) * scale) + 1 if size % 2 else int(size * scale)
        if self.mode == "size":
            return wanted if scale is None else int(size * scale)
        to, _, way = self.mode.removeprefix("to_").partition("_")
        if (size % 2 == 0) == (to == "even"):
            return size
        return size + 1 if way == "up" else size - 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        height, width = self.image(shapes[0])
        if self.mode == "like":
            if len(shapes) != 2:
                raise ShapeError("BilinearResize2D: mode='like' takes a second input, like")
            made = self.image(shapes[1], "like")
        else:
            made = (
                self.along(height, self.height, self.scale_height), self.along(width, self.width, self.scale_width)
            )  # fmt: skip
        if min(made) < 1:
            raise ShapeError(f"BilinearResize2D: data of shape {shapes[0]} would get images of {made} elements")
        return shapes, [(*shapes[0][:2], *made)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x = inputs[0]
        self.infer_type([np.dtype(v.dtype) for v in inputs])
        count = self.infer_shape([v.shape for v in inputs])[1][0][2:]
        kind = "corners" if self.align_corners else "centers"
        return F.resample(x, axes=(2, 3), size=x.shape[2:], count=count, kind=kind)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x = values[:2]
        kind = "corners" if self.align_corners else "centers"
        dx = F.resample(dy, axes=(2, 3), size=x.shape[2:], count=dy.shape[2:], kind=kind, transposed=True)
        return (dx, None) if self.mode == "like" else dx

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def resized(height: int, width: int, corners: bool = True) -> Any:
            def places(size: int, count: int) -> Any:
                o = np.arange(count)
                if count == 1:
                    return np.zeros(1)
                return o * (size - 1) / (count - 1) if corners else np.clip((o + 0.5) * size / count - 0.5, 0, size - 1)

            def reference(x: Any, *_: Any) -> Any:
                rows, columns = range(x.shape[2]), range(x.shape[3])
                between: Any = np.interp
                y = np.zeros((*x.shape[:2], height, width))
                down, across = places(x.shape[2], height), places(x.shape[3], width)
                for n, c in np.ndindex(*x.shape[:2]):
                    wide_: Any = np.stack([between(across, columns, row) for row in x[n, c]])
                    y[n, c] = np.stack([between(down, rows, column) for column in wide_.T], 1)
                return y

            return reference

        image = [(2, 2, 4, 5)]
        scale: dict[str, Any] = {"scale_height": 2, "scale_width": 0.5}
        return [
            Sample(image, resized(7, 3), height=7, width=3),
            Sample(image, resized(7, 3, False), height=7, width=3, align_corners=False),
            Sample(image, resized(2, 2, False), height=2, width=2, align_corners=False),
            Sample(image, resized(1, 1)),
            Sample([(1, 1, 1, 1)], resized(3, 2), height=3, width=2),
            Sample(image, resized(8, 2), **scale),
            Sample(image, resized(8, 3), mode="odd_scale", **scale),
            Sample([*image, np.zeros((1, 1, 2, 3))], resized(2, 3), grad=False, mode="like"),
            Sample(image, resized(4, 4), mode="to_even_down"),
            Sample(image, resized(4, 6), mode="to_even_up"),
            Sample(image, resized(3, 5), mode="to_odd_down"),
            Sample(image, resized(5, 5), mode="to_odd_up"),
            Sample([(0, 1, 4, 5)], resized(2, 3), height=2, width=3),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        image = ((1, 1, 4, 5),)
        return [
            (image, {"height": 0}, "BilinearResize2D: attribute height takes an integer of at least 1, got 0"),
            (image, {"scale_height": 2},
             "BilinearResize2D: mode='size' takes both scale_height and scale_width, got 2.0 and None"),
            (image, {"mode": "odd_scale"},
             "BilinearResize2D: mode='odd_scale' takes both scale_height and scale_width, got None and None"),
            (image, {"scale_height": 0.1, "scale_width": 1},
             "BilinearResize2D: data of shape (1, 1, 4, 5) would get images of (0, 5) elements"),
            (((4, 5),), {"height": 2}, "BilinearResize2D: data must be of shape (N, C, height, width), got (4, 5)"),
        ]  # fmt: skip


@register("hybrid.up_sampling", "UpSampling")
class UpSampling(_OfImages):
    """Images ``scale`` times as large

    Each element is repeated ('nearest'), or they are interpolated with a weight, the second input ('bilinear'). Of
    several images all become as large as the first; they are joined along the channels, or added.
    """

    NNVM_COUNT = "num_args"
    NNVM_INITIALIZERS: ClassVar[dict[str, str]] = {"weight": '["bilinear", {}]'}
    VARIADIC = True
    num_args: int = attribute(1, "number of inputs; it is counted", low=1)
    scale: int = attribute(doc="how many times as large", low=1)
    num_filter: int = attribute(0, "number of channels ('bilinear')")
    sample_type: str = attribute(doc="how elements are found", enum=("bilinear", "nearest"))
    multi_input_mode: str = attribute("concat", "what is made of several images", enum=("concat", "sum"))
    workspace: int = attribute(512, "accepted for MXNet's API, without effect")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if any(d != dtypes[0] for d in dtypes):
            raise DTypeError(f"UpSampling: all inputs must have one dtype, got {', '.join(map(str, dtypes))}")
        return super().infer_type(dtypes)

    def check(self) -> None:
        if self.sample_type == "bilinear" and self.multi_input_mode == "sum":
            raise AttributeValueError(
                "UpSampling: sample_type='bilinear' has one image, multi_input_mode='sum' does not fit"
            )
        vars(self)["VARIADIC"] = self.sample_type == "nearest"  # the weight is an input with a name

    def input_names(self) -> tuple[str, ...]:
        return self.INPUTS if self.sample_type == "nearest" else ("data", "weight")

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """An unknown weight has four axes."""
        return [shapes[0], *[(-1,) * 4 if s is None else s for s in shapes[1:]]]

    def weight_shape(self, channels: int) -> Shape:
        """The shape of the weight of bilinear interpolation."""
        kernel = 2 * self.scale - self.scale % 2
        return (channels, 1, kernel, kernel)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        first = shapes[0]
        height, width = self.image(first)
        out = (height * self.scale, width * self.scale)
        if self.sample_type == "bilinear":
            wanted = self.weight_shape(first[1])
            fits = len(shapes) == 2 and len(shapes[1]) == 4
            if not fits or any(n not in (m, -1) for n, m in zip(shapes[1], wanted, strict=True)):
                raise ShapeError(
                    f"UpSampling: sample_type='bilinear' takes an image and a weight of shape {wanted}, got {shapes}"
                )
            return [first, wanted], [(*first[:2], *out)]
        for shape in shapes:
            sizes = self.image(shape)
            factor = out[0] // sizes[0]
            if shape[0] != first[0] or (sizes[0] * factor, sizes[1] * factor) != out:
                raise ShapeError(f"UpSampling: data of shape {shape} cannot become as large as {(*first[:2], *out)}")
        channels = [shape[1] for shape in shapes]
        if self.multi_input_mode == "sum" and any(c != channels[0] for c in channels):
            raise ShapeError(f"UpSampling: multi_input_mode='sum' takes images of as many channels, got {shapes}")
        return shapes, [(first[0], channels[0] if self.multi_input_mode == "sum" else sum(channels), *out)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (shape,) = self.infer_shape([x.shape for x in inputs])[1]
        self.infer_type([np.dtype(x.dtype) for x in inputs])
        out = shape[2:]
        if self.sample_type == "bilinear":
            image, weight = inputs
            kernel, pad = weight.shape[2:], (self.scale // 2,) * 2
            channels: dict[str, Any] = {"num_filter": shape[1], "num_group": shape[1]}
            return F.Deconvolution(image, weight, kernel=kernel, stride=(self.scale,) * 2, pad=pad, **channels)
        made: list[Any] = []
        for x in inputs:
            factor, sizes = out[0] // x.shape[2], x.shape[2:]
            windows: dict[str, Any] = {"axes": (2, 3), "kernel": (factor,) * 2, "stride": (factor,) * 2, "count": sizes}
            made.append(F.window_spread(x, size=out, **windows))
        if len(made) == 1:
            return made[0]
        return F.add_n(*made) if self.multi_input_mode == "sum" else F.concat(*made, dim=1)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def larger(x: Any, n: int = 2) -> Any:
            kron: Any = np.kron
            return kron(x, np.ones((1, 1, n, n)))

        def twice(x: Any) -> Any:
            return larger(x)

        def joined(x: Any, y: Any) -> Any:
            return np.concatenate([larger(x), larger(y, 4)], 1)

        def bilinear(x: Any, weight: Any) -> Any:
            y = np.zeros((1, 2, 8, 10))
            for i, j in np.ndindex(3, 4):
                y[:, :, 2 * i : 2 * i + 4, 2 * j : 2 * j + 4] += x[:, :, i, j][:, :, None, None] * weight[:, 0]
            return y[:, :, 1:7, 1:9]

        def odd(x: Any, weight: Any) -> Any:
            y = np.zeros((1, 1, 8, 8))
            for i, j in np.ndindex(2, 2):
                y[:, :, 3 * i : 3 * i + 5, 3 * j : 3 * j + 5] += x[:, :, i, j][:, :, None, None] * weight[:, 0]
            return y[:, :, 1:7, 1:7]

        nearest: dict[str, Any] = {"scale": 2, "sample_type": "nearest"}
        return [
            Sample([(2, 2, 2, 3)], twice, **nearest),
            Sample([(1, 1, 1, 2)], lambda x: larger(x, 3), scale=3, sample_type="nearest"),
            Sample([(1, 2, 2, 2), (1, 1, 1, 1)], joined, **nearest),
            Sample([(1, 2, 2, 2), (1, 2, 4, 4)], lambda x, y: larger(x) + y, multi_input_mode="sum", **nearest),
            Sample([(1, 2, 3, 4), (2, 1, 4, 4)], bilinear, scale=2, sample_type="bilinear", num_filter=2),
            Sample([(1, 1, 2, 2), (1, 1, 5, 5)], odd, scale=3, sample_type="bilinear", num_filter=1),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        nearest: dict[str, Any] = {"scale": 2, "sample_type": "nearest"}
        image = (1, 1, 2, 2)
        return [
            (((1, 1, 4),), nearest, "UpSampling: data must be of shape (N, C, height, width), got (1, 1, 4)"),
            ((image, (1, 1, 3, 3)), nearest,
             "UpSampling: data of shape (1, 1, 3, 3) cannot become as large as (1, 1, 4, 4)"),
            ((image, (1, 2, 2, 2)), {**nearest, "multi_input_mode": "sum"},
             "UpSampling: multi_input_mode='sum' takes images of as many channels, got [(1, 1, 2, 2), (1, 2, 2, 2)]"),
            ((image, (1, 1, 3, 3)), {"scale": 2, "sample_type": "bilinear"},
             "UpSampling: sample_type='bilinear' takes an image and a weight of shape (1, 1, 4, 4), got [(1, 1, 2, 2), "
             "(1, 1, 3, 3)]"),
            ((image,), {"scale": 0, "sample_type": "nearest"},
             "UpSampling: attribute scale takes an integer of at least 1, got 0"),
        ]  # fmt: skip
