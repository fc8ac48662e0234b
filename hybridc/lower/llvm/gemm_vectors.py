"""Vectors in registers: how many elements they have on this processor, and the operations of products on them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, vector
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, DenseIntOrFPElementsAttr, VectorType, i64
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.ir.structured import shape_of
from hybridc.lower.llvm import processor
from hybridc.lower.llvm.gemm_phase import Index
from hybridc.lower.llvm.loop_builder import LoopBuilder


@dataclass(frozen=True)
class Registers:
    """The vector registers of a processor that multiplies and adds in one step: bytes of each, how many there are."""

    bytes: int
    count: int

    def lanes(self, dtype: DType) -> int:
        """Elements of a vector."""
        return self.bytes // dtype.itemsize


def registers() -> Registers | None:
    """Those of this processor; None if it has none that are worth code of our own."""
    features = processor.features()
    if features.get("avx512f") and features.get("avx512vl"):
        return Registers(64, 32)
    if features.get("avx2") and features.get("fma"):
        return Registers(32, 16)
    if features.get("neon"):
        return Registers(16, 32)
    return None


@functools.cache
def _kind(element: AnyFloat, lanes: int) -> VectorType[AnyFloat]:
    return VectorType(element, [lanes])


@functools.lru_cache(256)
def _mask(lanes: tuple[int, ...]) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(i64, lanes)


class Vectors:
    """Writes operations on vectors of one type."""

    def __init__(self, b: LoopBuilder, element: AnyFloat, lanes: int) -> None:
        self.b, self.lanes, self.element = b, lanes, element
        self.kind = _kind(element, lanes)
        zeros = DenseIntOrFPElementsAttr.from_list(self.kind, [0.0] * lanes)
        self.zero = b.constant(zeros, self.kind)

    def load(self, array: SSAValue, at: Index) -> SSAValue:
        """Elements that follow each other."""
        return self.b.add(vector.LoadOp, [array, at.value], [self.kind]).results[0]

    def store(self, value: SSAValue, array: SSAValue, at: Index) -> None:
        """Put elements after each other."""
        self.b.add(vector.StoreOp, [value, array, at.value], level=self.b.depth)

    def everywhere(self, scalar: SSAValue) -> SSAValue:
        """A vector of one number."""
        return self.b.pure(vector.BroadcastOp, [scalar], self.kind)

    def fma(self, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """x * y + z"""
        return self.b.pure(vector.FMAOp, [x, y, z], self.kind)

    def shuffle(self, x: SSAValue, y: SSAValue, lanes: Sequence[int]) -> SSAValue:
        """The elements with these numbers of two vectors, those of the second counted after the first's."""
        return self.b.pure(vector.ShuffleOp, [x, y], _kind(self.element, len(lanes)), {"mask": _mask(tuple(lanes))})

    def transposed(self, rows: Sequence[SSAValue]) -> list[SSAValue]:
        """The columns of a square: at each step, squares twice as large swap the halves beside the diagonal."""
        found, size = list(rows), self.lanes
        half = 1
        while half < size:
            for i in range(size):
                if i & half:
                    continue
                x, y = found[i], found[i + half]
                found[i] = self.shuffle(x, y, [lane + size - half if lane & half else lane for lane in range(size)])
                found[i + half] = self.shuffle(
                    x, y, [lane + size if lane & half else lane + half for lane in range(size)]
                )
            half *= 2
        return found

    def sums(self, values: Sequence[SSAValue]) -> SSAValue:
        """The sum of the elements of each vector, as one vector.

        A vector holds segments, one for each sum. At each step the halves of segments are added; as long as there are
        two vectors, the halves of both fill one.
        """
        found, segment = list(values), self.lanes
        while segment > 1:
            half = segment // 2
            if len(found) > 1:
                found = [self._halves(x, y, half) for x, y in zip(found[::2], found[1::2], strict=True)]
            else:
                found = [self._halves(found[0], None, half)]
            segment = half
        return found[0]

    def _halves(self, x: SSAValue, y: SSAValue | None, half: int) -> SSAValue:
        """The first halves of all segments plus the second ones."""
        count = shape_of(x)[0] * (1 if y is None else 2)
        first = [i for i in range(count) if i // half % 2 == 0]
        other = y or x
        low = self.shuffle(x, other, first)
        high = self.shuffle(x, other, [i + half for i in first])
        return self.b.pure(arith.AddfOp, [low, high], low.type)
