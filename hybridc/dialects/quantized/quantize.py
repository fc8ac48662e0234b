"""Real numbers as integers, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.quantized.ranges import (
    Quantized,
    constant_ends,
    ends,
    magnitude,
    quantized,
    ranged,
    real,
    times,
)
from hybridc.dtypes import FLOAT32, is_float
from hybridc.errors import AttributeValueError, DTypeError, ShapeError


@register("hybrid.quantize", "contrib.quantize", "_contrib_quantize")
class Quantize(Quantized):
    """Real numbers as integers, for a range that is given; the range of the integers follows"""

    INPUTS = ("data", "min_range", "max_range")

    out_type: str = attribute("uint8", "dtype of the integers", enum=("int8", "uint8"))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return self.with_range(shapes, shapes[0], 2)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"quantize: data must be of float32, got {dtypes[0]}")
        return dtypes, ranged(self.out_type)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, low, high = inputs
        reach = magnitude(F, low, high)
        q = quantized(F, F.cast(x, "float32"), reach, self.out_type)
        return (q, *(ends(F, low, high) if self.out_type == "uint8" else (-reach, F.identity(reach))))

    @classmethod
    def samples(cls) -> list[Sample]:
        x, low, high = np.array([[-3, -1.5, -0.5, 0], [0.52, 1.26, 2.03, 5]]), np.array([-2.0]), np.array([4.0])
        return [
            Sample(
                [x, low, high],
                lambda x, a, b: (np.clip(np.rint(x * 255 / 4), 0, 255), a, b),
                grad=False,
                dtypes=("float32",),
            ),
            Sample(
                [x, low, high],
                lambda x, _, b: (np.clip(np.rint(x * 127 / 4), -128, 127), -b, b),
                grad=False,
                dtypes=("float32",),
                out_type="int8",
            ),
            Sample([(0, 3), low, high], lambda x, a, b: (x, a, b), grad=False, dtypes=("float32",)),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2,), (2,), (1,)), {}, "quantize: min_range must be a number, of shape (1,), got shape (2,)")]


class Calibrated(Quantized):
    """Base: the range may be known, from calibration."""

    min_calib_range: Any = None
    max_calib_range: Any = None

    def check(self) -> None:
        if (self.min_calib_range is None) != (self.max_calib_range is None):
            raise AttributeValueError(
                f"{self.title()}: min_calib_range and max_calib_range must be given both or not at all, got "
                f"{self.min_calib_range} and {self.max_calib_range}"
            )

    def calibrated(self) -> tuple[float, float] | None:
        """The range that is known, or None."""
        return None if self.min_calib_range is None else (self.min_calib_range, self.max_calib_range)

    def chosen(self, out_type: str) -> str:
        """The dtype of the integers: if it is 'auto', unsigned for ranges that are known to have no negative number."""
        if out_type != "auto":
            return out_type
        return "uint8" if self.min_calib_range is not None and self.min_calib_range >= 0 else "int8"

    def calibrate(self, F: Any, x: Any, dtype: str) -> Any:
        """Real numbers as integers with the range of calibration, as it was given."""
        low, high = self.calibrated() or (0.0, 0.0)
        reach = F.full(shape=(1,), val=max(abs(low), abs(high)), dtype="float32")
        return (quantized(F, x, reach, dtype), *constant_ends(F, low, high))

    def to_integers(self, F: Any, x: Any, out_type: str) -> Any:
        """Real numbers as integers with their range: that of calibration, or of the numbers."""
        dtype, known = self.chosen(out_type), self.calibrated()
        if known is not None:
            low, high = known
            reach = max(abs(low), abs(high))
            q = quantized(F, x, F.full(shape=(1,), val=reach, dtype="float32"), dtype)
            return (q, *constant_ends(F, *((low, high) if dtype == "uint8" else (-reach, reach))))
        low, high = (F.reshape_to(extreme(x), shape=(1,)) for extreme in (F.min, F.max))
        reach = magnitude(F, low, high)
        return (quantized(F, x, reach, dtype), *((low, high) if dtype == "uint8" else (-reach, F.identity(reach))))


def _extremes(x: Any) -> tuple[Any, Any]:
    return np.array([x.min()]), np.array([x.max()])


@register("hybrid.quantize_v2", "contrib.quantize_v2", "_contrib_quantize_v2")
class QuantizeV2(Calibrated):
    """Real numbers as integers, for the range of calibration, or else that of the numbers; integers stay as they are"""

    out_type: str = attribute("int8", "dtype of the integers", enum=("auto", "int8", "uint8"))
    min_calib_range: float | None = attribute(None, "least number of the range, if it is known")
    max_calib_range: float | None = attribute(None, "greatest number of the range, if it is known")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if self.calibrated() is None and 0 in shapes[0]:
            raise ShapeError(f"quantize_v2: data of shape {shapes[0]} has no range; give the range of calibration")
        return self.with_range(shapes, shapes[0], 0)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if is_float(dtypes[0]):
            return dtypes, ranged(self.chosen(self.out_type))
        self.require_integers("data", dtypes[0])
        return dtypes, ranged(dtypes[0])

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        if is_float(np.dtype(x.dtype)):
            return self.to_integers(F, F.cast(x, "float32"), self.out_type)
        low, high = self.calibrated() or (-1.0, 1.0)
        return (F.identity(x), *constant_ends(F, low, high))

    @classmethod
    def samples(cls) -> list[Sample]:
        x = np.array([[-3, -1.5, -0.5, 0], [0.52, 1.26, 2.03, 5]])
        known = {"min_calib_range": 0.0, "max_calib_range": 2.0}
        signed = {"min_calib_range": -1.0, "max_calib_range": 2.0}

        def unsigned(x: Any) -> Any:
            return np.clip(np.rint(x * 255 / 2), 0, 255), np.array([0.0]), np.array([2.0])

        return [
            Sample(
                [x],
                lambda x: (np.rint(x * 127 / 5), np.array([-5.0]), np.array([5.0])),
                grad=False,
                dtypes=("float32",),
            ),
            Sample(
                [x],
                lambda x: (np.clip(np.rint(x * 51), 0, 255), *_extremes(x)),
                grad=False,
                dtypes=("float32",),
                out_type="uint8",
            ),
            Sample([x], unsigned, grad=False, dtypes=("float32",), out_type="auto", **known),
            Sample(
                [x],
                lambda x: (np.clip(np.rint(x * 127 / 2), -128, 127), np.array([-2.0]), np.array([2.0])),
                grad=False,
                dtypes=("float32",),
                **signed,
            ),
            Sample(
                [np.array([1, 2], np.int8)],
                lambda x: (x, np.array([-1.0]), np.array([2.0])),
                grad=False,
                dtypes=("int8",),
                **signed,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [
            (((0,),), {}, "quantize_v2: data of shape (0,) has no range; give the range of calibration"),
            (
                (np.array([1], np.int32),),
                {},
                "quantize_v2: data must be of int8 or uint8, got int32",
            ),
        ]


@register("hybrid.dequantize", "contrib.dequantize", "_contrib_dequantize")
class Dequantize(Quantized):
    """The real numbers for which integers stand, ``data * max(|min_range|, |max_range|) / n``

    n is the largest integer of the dtype: 127, 255 or 2147483647.
    """

    INPUTS = ("data", "min_range", "max_range")

    out_type: str = attribute("float32", "dtype of the numbers", enum=("float32",))

    def num_outputs(self) -> int:
        return 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        self.require_scalars(shapes[1:], self.INPUTS[1:])
        return shapes, [shapes[0]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_integers("data", dtypes[0], ("int8", "uint8", "int32"))
        return dtypes, [FLOAT32]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return real(F, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        low, high = np.array([-4.0], np.float32), np.array([2.0], np.float32)
        return [
            Sample([np.array([[-127, -5, 0, 100]], np.int8), low, high], lambda q, _, __: q * (4 / 127), grad=False),
            Sample([np.array([0, 5, 255], np.uint8), low, high], lambda q, _, __: q * (4 / 255), grad=False),
            Sample([np.array([2**30, -5], np.int32), low, high], lambda q, _, __: q * (4 / (2**31 - 1)), grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2,), (1,), (1,)), {}, "dequantize: data must be of int8 or uint8 or int32, got float32")]


@register("hybrid.requantize", "contrib.requantize", "_contrib_requantize")
class Requantize(Calibrated):
    """Integers of 32 bits as integers of 8, for the range of calibration, or else that of the numbers"""

    INPUTS = ("data", "min_range", "max_range")

    out_type: str = attribute("int8", "dtype of the results", enum=("auto", "int8", "uint8"))
    min_calib_range: float | None = attribute(None, "least number of the range, if it is known")
    max_calib_range: float | None = attribute(None, "greatest number of the range, if it is known")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if self.calibrated() is None and 0 in shapes[0]:
            raise ShapeError(f"requantize: data of shape {shapes[0]} has no range; give the range of calibration")
        return self.with_range(shapes, shapes[0], 2)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_integers("data", dtypes[0], ("int32",))
        return dtypes, ranged(self.chosen(self.out_type))

    def decompose(self, F: Any, *inputs: Any) -> Any:
        # COMPAT(mxnet): without calibration numbers keep their signs; there, on CPUs, they are turned round.
        return self.to_integers(F, real(F, *inputs), self.out_type)

    @classmethod
    def samples(cls) -> list[Sample]:
        q = np.array([-(2**31) + 1, -(2**28), 0, 2**20, 2**29 + 54321], np.int32)
        low, high = np.array([-2.0], np.float32), np.array([4.0], np.float32)
        one = (2**31 - 1) / 4
        return [
            Sample(
                [q, low, high],
                lambda q, _, __: (np.rint(q / one * 127 / 4), np.array([-4.0]), np.array([4.0])),
                grad=False,
            ),
            Sample(
                [q, low, high],
                lambda q, _, __: (np.clip(np.rint(q / one * 127 / 1.5), -128, 127), np.array([-1.5]), np.array([1.5])),
                grad=False,
                min_calib_range=-1.0,
                max_calib_range=1.5,
            ),
            Sample(
                [q, low, high],
                lambda q, _, __: (np.clip(np.rint(q / one * 255 / 3), 0, 255), np.array([0.0]), np.array([3.0])),
                grad=False,
                out_type="auto",
                min_calib_range=0.0,
                max_calib_range=3.0,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2,), (1,), (1,)), {}, "requantize: data must be of int32, got float32")]


@register("hybrid.quantize_asym", "contrib.quantize_asym", "_contrib_quantize_asym")
class QuantizeAsym(Calibrated):
    """Real numbers as integers from 0 to 255 that span the range, ``data * scale + shift``, and scale and shift"""

    min_calib_range: float | None = attribute(None, "least number of the range, if it is known")
    max_calib_range: float | None = attribute(None, "greatest number of the range, if it is known")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if self.calibrated() is None and 0 in shapes[0]:
            raise ShapeError(f"quantize_asym: data of shape {shapes[0]} has no range; give the range of calibration")
        return self.with_range(shapes, shapes[0], 0)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"quantize_asym: data must be of float32, got {dtypes[0]}")
        return dtypes, ranged("uint8")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, known = F.cast(inputs[0], "float32"), self.calibrated()
        if known is None:
            low, high = (F.reshape_to(extreme(x), shape=(1,)) for extreme in (F.min, F.max))
        else:
            low, high = constant_ends(F, *known)
        scale = 255 / F.maximum(high - low, 1e-30)  # numbers that are all equal
        shift = 255 - high * scale
        spread = F.broadcast_add(times(F, x, scale), F.reshape_to(shift, shape=(1,) * len(x.shape)))
        return F.cast(F.clip(F.floor(spread + 0.5), 0, 255), "uint8"), scale, shift

    @classmethod
    def samples(cls) -> list[Sample]:
        x = np.array([[-3, -1.5, -0.5, 0], [0.52, 1.26, 2.03, 5]])

        def reference(x: Any, low: float = -3.0, high: float = 5.0) -> Any:
            scale = 255 / (high - low)
            shift = 255 - high * scale
            return np.clip(np.floor(x * scale + shift + 0.5), 0, 255), np.array([scale]), np.array([shift])

        return [
            Sample([x], lambda x: reference(x), grad=False, dtypes=("float32",)),
            Sample(
                [x],
                lambda x: reference(x, -1.0, 2.0),
                grad=False,
                dtypes=("float32",),
                min_calib_range=-1.0,
                max_calib_range=2.0,
            ),
        ]


@register("hybrid.calibrate_entropy", "contrib.calibrate_entropy", "_contrib_calibrate_entropy")
class CalibrateEntropy(Opaque):
    """The reach for which the integers differ least from a histogram of numbers, and their divergence

    ``hist`` has an odd number of bins around 0, ``hist_edges`` their bounds. What lies beyond the reach is
    cut off; the divergence is that of Kullback and Leibler.
    """

    INPUTS = ("hist", "hist_edges")
    OUTPUTS = ("threshold", "divergence")
    SAME_DTYPE = False
    gradient = no_gradient

    num_quantized_bins: int = attribute(255, "how many integers there are", low=3)

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        hist, edges = shapes
        if len(hist) != 1 or edges != (hist[0] + 1,) or hist[0] < self.num_quantized_bins:
            raise ShapeError(
                f"calibrate_entropy: hist must be a vector of at least {self.num_quantized_bins} bins, and hist_edges "
                f"have one element more, got {hist} and {edges}"
            )
        return shapes, [(1,), (1,)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [FLOAT32, FLOAT32]

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        hist, edges = (x.astype(np.float64) for x in arrays)
        middle, bins = hist.size // 2, self.num_quantized_bins
        best, reach = np.inf, edges[-1]
        for half in range(bins // 2, middle + 1):
            begin, end = middle - half, middle + half + 1
            found = _divergence(hist, begin, end, bins)
            if found < best:
                best, reach = found, edges[end]
        return np.array([reach], np.float32), np.array([best], np.float32)

    @classmethod
    def samples(cls) -> list[Sample]:
        hist = np.array([0, 0, 1, 4, 9, 4, 1, 0, 0], np.float32)
        edges = np.array([-4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5], np.float32)
        return [
            Sample([hist, edges], lambda _, __: (np.array([2.5]), np.array([0.0])), grad=False, num_quantized_bins=5)
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "calibrate_entropy: hist must be a vector of at least 255 bins, and hist_edges have one element more, "
        return [(((9,), (10,)), {}, text + "got (9,) and (10,)")]


def _divergence(hist: Any, begin: int, end: int, bins: int) -> float:
    """How far a histogram that is cut off, and of which bins are merged, is from the one that is only cut off."""
    inside = hist[begin:end]
    p = inside.copy()
    p[0] += hist[:begin].sum()
    p[-1] += hist[end:].sum()
    merged = inside.size // bins
    filled = p != 0
    each = _grouped(inside, bins, merged) / np.maximum(_grouped(filled, bins, merged), 1)
    q = np.empty(inside.size)
    q[: merged * bins] = np.repeat(each, merged)
    q[merged * bins :] = each[-1]
    p, q = _smooth(p), _smooth(q * filled)
    if p is None or q is None:
        return float("inf")
    p, q = p / p.sum(), q / q.sum()
    return float(np.sum(p * np.log(p / q)))


def _grouped(x: Any, bins: int, merged: int) -> Any:
    """The sums of so many bins at a time; what remains is the last one's."""
    sums = x[: merged * bins].reshape(bins, merged).sum(1, dtype=np.float64)
    sums[-1] += x[merged * bins :].sum()
    return sums


def _smooth(x: Any, least: float = 1e-4) -> Any:
    """A histogram without zeros: some of what is elsewhere is moved there; None if there is nothing to move."""
    zero = x == 0
    empty, full = int(zero.sum()), int(x.size - zero.sum())
    if not full:
        return None
    taken = least * empty / full
    return None if taken >= 1 else np.where(zero, least, x - taken)
