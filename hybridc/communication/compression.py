"""Compressed all-reduce with error feedback: each rank sends its gradients in 2 or 16 bits per element.

What rounding leaves out of a gradient stays on the rank and is added to the next one, so that nothing is lost but time.
Each rank sums one part: the compressed parts come by an all-to-all, are summed in single precision, and the sums go
around by an all-gather: as they are after 2-bit compression, in half precision again (with error feedback of their own)
after ``fp16`` and ``bf16``. With one rank the gradients are rounded all the same.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hybridc.communication.communicator import Array, Communicator
from hybridc.dtypes import ABSENT, BFLOAT16, FLOAT16, TYPES, is_float, wide
from hybridc.errors import AttributeValueError, UnsupportedError
from hybridc.ground.records import dataclass

Owner = TypeVar("Owner", bound="ErrorFeedback | CompressedSum")

_DEFAULT_THRESHOLD = 0.5  # MXNet's
_PER_WORD = 16  # values of 2 bits in a word of 32
_WORD = np.dtype(np.uint32)
# The codes of 2 bits, MXNet's but for the last: a value that is not finite.
_ZERO, _NEGATIVE, _POSITIVE, _NOT_FINITE = 0b00, 0b10, 0b11, 0b01
_SHIFTS = (6, 4, 2, 0)  # of the four values in a byte, the first in the highest bits


class Rounding(ABC):
    """A lossy encoding of gradients for communication; ``units`` values are one element of dtype ``wire``."""

    units: int = 1
    wire: np.dtype[Any]
    #: Whether sums go back in the same form as the gradients came.
    both_ways: bool

    @abstractmethod
    def encode(self, left: Array, into: Array) -> None:
        """Write the code of ``left``, and subtract what it stands for; values that are not finite become 0."""

    @abstractmethod
    def decode(self, code: Array, into: Array) -> None:
        """Write the values that a code stands for."""

    def takes(self, dtype: Any) -> bool:
        """Whether arrays of a dtype are compressed; others are summed as they are."""
        return is_float(np.dtype(dtype))


@dataclass(frozen=True)
class TwoBit(Rounding):
    """-threshold, 0 or threshold: MXNet's arithmetic, packed as there, 16 values in a word of 32 bits."""

    threshold: float = _DEFAULT_THRESHOLD
    units = _PER_WORD
    wire = _WORD
    both_ways = False

    def encode(self, left: Array, into: Array) -> None:
        with np.errstate(invalid="ignore"):
            up, down = left >= self.threshold, left <= -self.threshold
        codes = up * np.uint8(_POSITIVE) + down * np.uint8(_NEGATIVE)
        left -= np.where(up, left.dtype.type(self.threshold), 0)
        left += np.where(down, left.dtype.type(self.threshold), 0)
        # COMPAT(mxnet): there NaN becomes 0 and stays in the residual for ever, as an infinity does.
        wrong = ~np.isfinite(left)
        if wrong.any():
            codes[wrong] = _NOT_FINITE
            left[wrong] = 0
        packed = into.view(np.uint8)
        packed[...] = 0
        for place, shift in enumerate(_SHIFTS):
            packed |= codes[place::4] << np.uint8(shift)

    def decode(self, code: Array, into: Array) -> None:
        values = np.zeros(4, into.dtype)
        values[_POSITIVE], values[_NEGATIVE], values[_NOT_FINITE] = self.threshold, -self.threshold, np.nan
        packed = code.view(np.uint8)
        for place, shift in enumerate(_SHIFTS):
            into[place::4] = values[packed >> np.uint8(shift) & np.uint8(3)]


@dataclass(frozen=True)
class Half(Rounding):
    """16-bit floats, rounded to nearest; finite values beyond the largest are cut to it."""

    wire: np.dtype[Any] = FLOAT16
    both_ways = True

    def encode(self, left: Array, into: Array) -> None:
        most = TYPES[self.wire].largest
        finite = np.isfinite(left)
        with np.errstate(over="ignore", invalid="ignore"):
            np.copyto(into, np.where(finite, np.clip(left, -most, most), left), casting="unsafe")
            left -= into.astype(left.dtype)
        if not finite.all():
            left[~finite] = 0

    def decode(self, code: Array, into: Array) -> None:
        np.copyto(into, code, casting="unsafe")


def compression_of(params: Mapping[str, Any] | Rounding | None) -> Rounding | None:
    """The compression of ``{"type": "2bit", "threshold": 0.5}``, ``{"type": "fp16"}`` or ``{"type": "bf16"}``."""
    if params is None or isinstance(params, Rounding):
        return params
    if not isinstance(params, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise AttributeValueError(f"compression_params must be a dict such as {{'type': '2bit'}}, got {params!r}")
    options = dict(params)
    kind = options.pop("type", None)
    if kind == "2bit":
        threshold: Any = options.pop("threshold", _DEFAULT_THRESHOLD)
        try:
            threshold = float(threshold)
        except (TypeError, ValueError):
            threshold = -1.0
        if not options and 0 < threshold < float("inf"):
            return TwoBit(threshold)
    elif kind in ("fp16", "bf16") and not options:
        if kind == "bf16" and "bfloat16" in ABSENT:
            raise UnsupportedError("compression 'bf16' needs the package ml_dtypes, which is not installed")
        return Half(FLOAT16 if kind == "fp16" else BFLOAT16)
    elif kind in (None, "none") and not options:
        return None
    raise AttributeValueError(
        "compression_params: expected {'type': '2bit', 'threshold': a positive number}, {'type': 'fp16'} or "
        f"{{'type': 'bf16'}}, got {dict(params)}"
    )


class Residuals:
    """What rounding left out so far in several places, by name: a training that goes on needs it."""

    def __init__(self) -> None:
        self._owners: weakref.WeakValueDictionary[str, ErrorFeedback | CompressedSum] = weakref.WeakValueDictionary()
        self._waiting: dict[str, list[Array]] = {}  # loaded for owners that do not exist yet

    def add(self, name: str, owner: Owner) -> Owner:
        """Keep account of what is left in a place from now on; it begins with what was loaded for the name."""
        self._owners[name] = owner
        if name in self._waiting:
            _replace(owner.residuals(), self._waiting.pop(name))
        return owner

    def clear(self) -> None:
        """Forget all of them."""
        self._owners.clear()
        self._waiting.clear()

    def state(self) -> dict[str, list[Array]]:
        """Copies of what is left, by name."""
        found = {name: [array.copy() for array in owner.residuals()] for name, owner in self._owners.items()}
        return {**self._waiting, **found}

    def load_state(self, state: Mapping[str, list[Array]]) -> None:
        """Take over what :meth:`state` gave; nothing is left where that is of another size, as of other ranks."""
        self._waiting = dict(state)
        for name, owner in self._owners.items():
            _replace(owner.residuals(), self._waiting.pop(name, []))


def _replace(arrays: Sequence[Array], values: Sequence[Array]) -> None:
    """Write values into arrays, or zeros if they do not fit."""
    fits = [(x.shape, x.dtype) for x in arrays] == [(x.shape, x.dtype) for x in values]
    for i, array in enumerate(arrays):
        array[...] = values[i] if fits else 0


class ErrorFeedback:
    """Rounds arrays of one size, and adds what was left out of each to the next."""

    def __init__(self, size: int, dtype: Any, compression: Rounding) -> None:
        self._compression, self._size = compression, size
        count = -(-size // compression.units)
        self._left = np.zeros(count * compression.units, wide(np.dtype(dtype)))
        self._code = np.zeros(count, compression.wire)
        self._rounded = np.zeros_like(self._left)

    def residuals(self) -> list[Array]:
        """The arrays of what was left out."""
        return [self._left]

    def rounded(self, array: Array) -> Array:
        """The rounded values in a new array of the same shape and dtype."""
        with np.errstate(over="ignore", invalid="ignore"):
            self._left[: self._size] += array.reshape(-1)
        self._compression.encode(self._left, self._code)
        self._compression.decode(self._code, self._rounded)
        return self._rounded[: self._size].reshape(array.shape).astype(array.dtype)


class CompressedSum:
    """The sum of one-dimensional arrays of the ranks, always of the same size, with what rounding left out so far."""

    def __init__(self, size: int, dtype: Any, compression: Rounding, ranks: Communicator) -> None:
        self._ranks, self._compression = ranks, compression
        self._size = size
        compute = wide(np.dtype(dtype))
        per_part = compression.units * -(-size // (compression.units * ranks.size))
        self._part = per_part
        #: What is left of this rank's gradients; the places beyond ``size`` stay 0.
        self._left = np.zeros(per_part * ranks.size, compute)
        self._codes = np.zeros((ranks.size, per_part // compression.units), compression.wire)
        self._total = np.zeros(per_part, compute)
        self._one = np.zeros(per_part, compute)
        wire = compression.wire if compression.both_ways else compute
        self._sums = np.zeros(per_part * ranks.size, wire)
        self._left_of_sum = np.zeros(per_part, compute) if compression.both_ways else None

    def residuals(self) -> list[Array]:
        """The arrays of what was left out, of this rank's gradients and of the sums that it made."""
        return [self._left] if self._left_of_sum is None else [self._left, self._left_of_sum]

    @property
    def residual(self) -> npt.NDArray[Any]:
        """What rounding left out of this rank's gradients so far."""
        return self._left[: self._size]

    def allreduce(self, array: Array) -> None:
        """Put the sum over ranks of the rounded arrays into the array."""
        compression, ranks, part = self._compression, self._ranks, self._part
        with np.errstate(over="ignore", invalid="ignore"):
            self._left[: self._size] += array
        compression.encode(self._left, self._codes.reshape(-1))
        came = ranks.alltoall(self._codes)
        compression.decode(came[0], self._total)
        for row in came[1:]:
            compression.decode(row, self._one)
            with np.errstate(over="ignore", invalid="ignore"):
                self._total += self._one
        mine = self._sums[part * ranks.rank : part * (ranks.rank + 1)]
        if self._left_of_sum is None:
            mine[...] = self._total
        else:
            self._left_of_sum += self._total
            compression.encode(self._left_of_sum, mine)
        ranks.allgather(self._sums, [part] * ranks.size)
        with np.errstate(over="ignore"):
            np.copyto(array, self._sums[: self._size], casting="unsafe")
