"""Linear maps of rows: the discrete Fourier transform, and count sketches."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import is_float
from hybridc.errors import DTypeError, ShapeError


class Fourier(Opaque):
    """Base: rows of real numbers, and rows of complex ones as pairs [real0, imag0, real1, imag1, …]."""

    def infer_type(self, dtypes: list[Any]) -> tuple[list[Any], list[Any]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"{self.title()}: data must have a float dtype, got {dtypes[0]}; use .astype('float32')")
        return dtypes, [dtypes[0]]


def pairs(z: Any) -> Any:
    """Complex numbers as pairs along the last axis."""
    return np.stack([z.real, z.imag], axis=-1).reshape(*z.shape[:-1], 2 * z.shape[-1])


def as_complex(x: Any) -> Any:
    """The complex numbers of pairs along the last axis."""
    return x[..., ::2] + 1j * x[..., 1::2]


@register("hybrid.fft", "contrib.fft", "_contrib_fft")
class Fft(Fourier):
    """The discrete Fourier transform of each row, as pairs [real0, imag0, real1, imag1, …]"""

    compute_size: int = attribute(128, "accepted for MXNet's API, without effect")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if not shapes[0]:
            raise ShapeError("fft: data needs at least one axis")
        return shapes, [(*shapes[0][:-1], 2 * shapes[0][-1])]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        (shape,) = self.infer_shape([x.shape])[1]
        return pairs(np.fft.fft(x)).astype(x.dtype, copy=False) if x.size else np.zeros(shape, x.dtype)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.ifft(values[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], _pairs_of_rows),
            Sample([(2, 1, 2, 4)], _pairs_of_rows),
            Sample([(0, 3)], _pairs_of_rows),
        ]


@register("hybrid.ifft", "contrib.ifft", "_contrib_ifft")
class Ifft(Fourier):
    """The real part of the sum over the frequencies in each row, given as pairs: the inverse of fft times the length"""

    compute_size: int = attribute(128, "accepted for MXNet's API, without effect")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if not shapes[0] or shapes[0][-1] % 2:
            raise ShapeError(f"ifft: the last axis of data must hold pairs, an even number, got shape {shapes[0]}")
        return shapes, [(*shapes[0][:-1], shapes[0][-1] // 2)]

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        (shape,) = self.infer_shape([x.shape])[1]
        if not x.size:
            return np.zeros(shape, x.dtype)
        return np.fft.ifft(as_complex(x), norm="forward").real.astype(x.dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        return F.fft(values[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 10)], _sum_of_waves), Sample([(2, 2, 1, 8)], _sum_of_waves)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "ifft: the last axis of data must hold pairs, an even number, got shape (2, 3)"
        return [(((2, 3),), {}, text)]


def _waves(count: int) -> Any:
    steps = np.arange(count)
    return 2 * np.pi * np.outer(steps, steps) / max(count, 1)


def _pairs_of_rows(x: Any) -> Any:
    angle = _waves(x.shape[-1])
    return np.stack([x @ np.cos(angle), -(x @ np.sin(angle))], axis=-1).reshape(*x.shape[:-1], -1 if x.size else 6)


def _sum_of_waves(x: Any) -> Any:
    angle = _waves(x.shape[-1] // 2)
    return x[..., ::2] @ np.cos(angle) - x[..., 1::2] @ np.sin(angle)


@register("hybrid.count_sketch", "contrib.count_sketch", "_contrib_count_sketch")
class CountSketch(Composite):
    """``out[…, h[i]] += data[…, i] * s[i]``: each feature, with its sign, is added to one of ``out_dim`` buckets

    ``h`` holds whole numbers from 0 to out_dim - 1, ``s`` signs; both have shape (1, features) or (features,), and no
    gradient.
    """

    INPUTS = ("data", "h", "s")
    SAME_DTYPE = False

    out_dim: int = attribute(doc="the number of buckets", low=1)
    processing_batch_size: int = attribute(32, "accepted for MXNet's API, without effect")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, *tables = shapes
        if not data:
            raise ShapeError("count_sketch: data needs at least one axis")
        for name, table in zip(("h", "s"), tables, strict=True):
            if table not in ((1, data[-1]), (data[-1],)):
                raise ShapeError(
                    f"count_sketch: {name} must have shape (1, {data[-1]}), one entry for each feature of data {data}, "
                    f"got {table}"
                )
        return shapes, [(*data[:-1], self.out_dim)]

    def infer_type(self, dtypes: list[Any]) -> tuple[list[Any], list[Any]]:
        return dtypes, [dtypes[0]]

    def tables(self, F: Any, data: Any, h: Any, s: Any) -> tuple[Any, Any]:
        """Buckets and signs, one each for a feature; the signs in data's dtype."""
        self.infer_shape([x.shape for x in (data, h, s)])
        h, s = (F.reshape_to(x, shape=(data.shape[-1],)) for x in (h, s))
        return h, s if s.dtype == data.dtype else F.cast(s, data.dtype)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data = inputs[0]
        h, s = self.tables(F, *inputs)
        shape = (*data.shape[:-1], self.out_dim)
        return F.take_scatter(F.broadcast_mul(data, s), h, shape=shape, axis=len(shape) - 1, mode="clip")

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *inputs, _ = values
        h, s = self.tables(F, *inputs)
        return F.broadcast_mul(F.take(dy, h, axis=len(dy.shape) - 1), s), None, None

    @classmethod
    def samples(cls) -> list[Sample]:
        h, s = np.array([[0, 3, 4, 3]], np.float32), np.array([[1, -1, 1, 1]], np.float32)

        def reference(data: Any, h: Any, s: Any) -> Any:
            out = np.zeros((*data.shape[:-1], 5))
            for i, (bucket, sign) in enumerate(zip(h.ravel().astype(int), s.ravel(), strict=True)):
                out[..., bucket] += data[..., i] * sign
            return out

        return [
            Sample([(2, 4), h, s], reference, out_dim=5),
            Sample([(2, 3, 4), h[0], s[0]], reference, out_dim=5),
            Sample([(0, 4), h, s], reference, out_dim=5),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "count_sketch: h must have shape (1, 4), one entry for each feature of data (2, 4), got (1, 3)"
        return [(((2, 4), (1, 3), (1, 4)), {"out_dim": 5}, text)]
