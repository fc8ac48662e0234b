"""Helpers of all gemm functions: the parallel region around their loops, batch loops, vectors in registers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, DenseIntOrFPElementsAttr, VectorType, i64
from xdsl.ir import Attribute, Operation

from hybridc.lower.llvm.codegen import processor
from hybridc.lower.llvm.codegen.function_text import LLVMValue, ModuleText, length
from hybridc.lower.llvm.codegen.instructions import shuffle_lanes, splat
from hybridc.lower.llvm.loops.loop_builder import BYTES, INDEX, LoopBuilder, array_type
from hybridc.transforms.schedules.loop_machine import Registers


@dataclass(frozen=True, eq=False)
class Index:
    """An index value with operators; arithmetic on it emits operations."""

    b: LoopBuilder
    value: LLVMValue

    def of(self, other: Index | int) -> Index:
        """An index in the same builder."""
        return Index(self.b, self.b.index(other)) if isinstance(other, int) else other

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int) and other == 0:
            return self
        return Index(self.b, self.b.plus(self.value, self.of(other).value))

    def __sub__(self, other: Index | int) -> Index:
        return self._pure(arith.SubiOp, other)

    def __mul__(self, other: Index | int) -> Index:
        if isinstance(other, int) and other in (0, 1):
            return self if other else self.of(0)
        return Index(self.b, self.b.times(self.value, self.of(other).value))

    def __floordiv__(self, other: Index | int) -> Index:
        return self._pure(arith.DivUIOp, other)

    def __mod__(self, other: Index | int) -> Index:
        return self._pure(arith.RemUIOp, other)

    def ceildiv(self, other: Index | int) -> Index:
        """Division rounded up."""
        return (self + other - 1) // other

    def least(self, other: Index | int) -> Index:
        """The minimum."""
        return self._pure(arith.MinSIOp, other)

    def most(self, other: Index | int) -> Index:
        """The maximum."""
        return self._pure(arith.MaxSIOp, other)

    def integer(self, kind: Attribute) -> LLVMValue:
        """The index as an integer of another type."""
        return self.b.pure(arith.IndexCastOp, [self.value], kind)

    def _pure(self, cls: type[Operation], other: Index | int) -> Index:
        return Index(self.b, self.b.pure(cls, [self.value, self.of(other).value], INDEX))


@dataclass(frozen=True)
class Arguments:
    """The arguments of a parallel region, and the builder of its body."""

    b: LoopBuilder
    arrays: list[LLVMValue]
    numbers: list[Index]
    lo: Index
    hi: Index
    scratch: LLVMValue

    def loop(
        self,
        low: Index | int,
        high: Index | int,
        body: Callable[[Index, list[LLVMValue]], Sequence[LLVMValue] | None],
        step: int = 1,
        starts: Sequence[LLVMValue] = (),
    ) -> list[LLVMValue]:
        """A loop; ``body`` gets the index and the carried values, and returns the next ones."""
        low, high = self.lo.of(low), self.lo.of(high)
        return self.b.loop(
            low.value,
            high.value,
            self.b.index(step),
            lambda i, carried: body(Index(self.b, i), carried) or (),
            starts,
        )


RegionBuilder = Callable[[ModuleText, str], None]  # writes a parallel region into a module, under a symbol


def region(elements: Sequence[Attribute], numbers: int, write: Callable[[Arguments], None]) -> RegionBuilder:
    """The builder of a parallel region over arrays of these elements and so many scalars."""

    def build(module: ModuleText, symbol: str) -> None:
        b = LoopBuilder(module, [*(array_type(e) for e in elements), *[INDEX] * numbers, INDEX, INDEX, BYTES])
        *indices, lo, hi = [Index(b, v) for v in b.arguments[len(elements) : -1]]
        write(Arguments(b, b.arguments[: len(elements)], indices, lo, hi, b.arguments[-1]))
        b.write_region(symbol)

    return build


# --- vector registers -------------------------------------------------------------------------------------------------


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


@functools.cache
def _kind(element: AnyFloat, lanes: int) -> VectorType[AnyFloat]:
    return VectorType(element, [lanes])


@functools.lru_cache(256)
def _mask(lanes: tuple[int, ...]) -> DenseArrayBase[Any]:
    return DenseArrayBase.from_list(i64, lanes)


class Vectors:
    """Emits operations on vectors of one type."""

    def __init__(self, b: LoopBuilder, element: AnyFloat, lanes: int) -> None:
        self.b, self.lanes, self.element = b, lanes, element
        self.kind = _kind(element, lanes)
        self.zero = self.number(0.0)

    def load(self, array: LLVMValue, at: Index) -> LLVMValue:
        """Load contiguous elements."""
        return self.b.load_vector(array, at.value, self.kind)

    def store(self, value: LLVMValue, array: LLVMValue, at: Index) -> None:
        """Store to contiguous elements."""
        self.b.store_vector(value, array, at.value)

    def everywhere(self, scalar: LLVMValue) -> LLVMValue:
        """Splat a scalar."""
        return self.b.pure(splat, [scalar], self.kind)

    def fma(self, x: LLVMValue, y: LLVMValue, z: LLVMValue) -> LLVMValue:
        """x * y + z"""
        return self.b.pure(math.FmaOp, [x, y, z], self.kind)

    def plus(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """x + y"""
        return self.b.pure(arith.AddfOp, [x, y], self.kind)

    def minus(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """x - y"""
        return self.b.pure(arith.SubfOp, [x, y], self.kind)

    def product(self, x: LLVMValue, y: LLVMValue) -> LLVMValue:
        """x * y"""
        return self.b.pure(arith.MulfOp, [x, y], self.kind)

    def number(self, value: float) -> LLVMValue:
        """A number in all lanes."""
        return self.b.constant(DenseIntOrFPElementsAttr.from_list(self.kind, [value] * self.lanes), self.kind)

    def shuffle(self, x: LLVMValue, y: LLVMValue, lanes: Sequence[int]) -> LLVMValue:
        """Elements of two vectors by index; those of the second are counted after the first's."""
        return self.b.pure(shuffle_lanes, [x, y], _kind(self.element, len(lanes)), {"mask": _mask(tuple(lanes))})

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
        return self.b.pure(arith.AddfOp, [low, high], _kind(self.element, len(first)))
