"""Vector registers: those of the target processor, and operations on them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute

from hybridc.lower.llvm.codegen import processor
from hybridc.lower.llvm.codegen.function_text import LLVMValue, length
from hybridc.lower.llvm.codegen.instructions import shuffle_lanes
from hybridc.lower.llvm.loops.loop_builder import Index, LoopBuilder, vector_type
from hybridc.transforms.schedules.loop_machine import Registers


def registers() -> Registers | None:
    """Those of the target processor; None if register tiles do not pay on it."""
    features = processor.features()
    if features.get("avx512f") and features.get("avx512vl"):
        return Registers(64, 32)
    if features.get("avx2") and features.get("fma"):
        return Registers(32, 16)
    if features.get("neon"):
        return Registers(16, 32)
    return None


@functools.lru_cache(256)
def _mask(lanes: tuple[int, ...]) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(i64, lanes)


class Vectors:
    """Emits operations on vectors of one type."""

    def __init__(self, b: LoopBuilder, element: Attribute, lanes: int) -> None:
        self.b, self.lanes, self.element = b, lanes, element
        self.kind = vector_type(element, lanes)
        self.zero = b.number(0.0, self.kind)

    def load(self, array: LLVMValue, at: Index) -> LLVMValue:
        """Load contiguous elements."""
        return self.b.load_at(array, at, self.kind)

    def everywhere(self, scalar: LLVMValue) -> LLVMValue:
        """Splat a scalar."""
        return self.b.everywhere(scalar, self.kind)

    def fma(self, x: LLVMValue, y: LLVMValue, z: LLVMValue) -> LLVMValue:
        """x * y + z"""
        return self.b.pure(math.FmaOp, [x, y, z], self.kind)

    def shuffle(self, x: LLVMValue, y: LLVMValue, lanes: Sequence[int]) -> LLVMValue:
        """Elements of two vectors by index; those of the second are counted after the first's."""
        return self.b.pure(shuffle_lanes, [x, y], vector_type(self.element, len(lanes)), {"mask": _mask(tuple(lanes))})

    def transposed(self, rows: Sequence[LLVMValue]) -> list[LLVMValue]:
        """Transpose a square in registers: at each step, blocks twice as large swap the halves off the diagonal."""
        vectors, size = list(rows), self.lanes
        half = 1
        while half < size:
            for i in range(size):
                if i & half:
                    continue
                x, y = vectors[i], vectors[i + half]
                vectors[i] = self.shuffle(x, y, [lane + size - half if lane & half else lane for lane in range(size)])
                vectors[i + half] = self.shuffle(
                    x, y, [lane + size if lane & half else lane + half for lane in range(size)]
                )
            half *= 2
        return vectors

    def sums(self, values: Sequence[LLVMValue]) -> LLVMValue:
        """The horizontal sum of each vector, as one vector.

        A vector holds segments, one for each sum. At each step the halves of segments are added; while there are
        two vectors, the halves of both fill one.
        """
        vectors, segment = list(values), self.lanes
        while segment > 1:
            half = segment // 2
            if len(vectors) > 1:
                vectors = [self._halves(x, y, half) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
            else:
                vectors = [self._halves(vectors[0], None, half)]
            segment = half
        return vectors[0]

    def _halves(self, x: LLVMValue, y: LLVMValue | None, half: int) -> LLVMValue:
        """The first halves of all segments plus the second ones."""
        count = length(x.type) * (1 if y is None else 2)
        first = [i for i in range(count) if i // half % 2 == 0]
        other = y or x
        low = self.shuffle(x, other, first)
        high = self.shuffle(x, other, [i + half for i in first])
        return self.b.pure(arith.AddfOp, [low, high], vector_type(self.element, len(first)))
