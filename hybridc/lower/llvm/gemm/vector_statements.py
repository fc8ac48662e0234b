"""Write the statements of an epilogue for vectors that are in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hybridc.errors import UnsupportedError
from hybridc.ir.structured_builder import operation_class
from hybridc.ir.tiles.tile_program import Address, Statement, TileConstant, TileLoad, TileMap, TileStore
from hybridc.lower.llvm.codegen.function_text import LLVMValue
from hybridc.lower.llvm.codegen.instructions import splat
from hybridc.lower.llvm.gemm.gemm_region import Index
from hybridc.lower.llvm.loops.loop_builder import LoopBuilder
from hybridc.lower.llvm.loops.tiles_to_loops import emit_constant, properties_of, vector_type
from hybridc.transforms.schedules.schedule_contractions import TOTAL

# Where the elements of a vector are: the array, the first one's offset, and whether they are one after the other there.
Where = tuple[LLVMValue, Index, bool]


class VectorStatements:
    """Writes statements for vectors of so many lanes; what was loaded from a place is not loaded again."""

    def __init__(self, b: LoopBuilder, lanes: int) -> None:
        self.b, self.lanes = b, lanes
        self._loaded: dict[tuple[LLVMValue, LLVMValue], LLVMValue] = {}

    def write(
        self, statements: Sequence[Statement], total: LLVMValue, where: Callable[[Address], Where], name: str = TOTAL
    ) -> None:
        """The statements about a vector of sums, which they call ``name``."""
        b, known = self.b, {name: total}
        for s in statements:
            match s:
                case TileMap():
                    operands = [known[v] for v in s.operands]
                    kind = vector_type(s.kind, self.lanes)
                    known[s.name] = b.pure(operation_class(s.op), operands, kind, properties_of(s.op))
                case TileConstant():
                    known[s.name] = self.everywhere(emit_constant(b, s.constant, s.kind), s.kind)
                case TileLoad():
                    known[s.name] = self._load(s.kind, *where(s.address))
                case TileStore():
                    array, at, _ = where(s.address)
                    b.store_vector(known[s.value], array, at.value)
                case _:
                    raise UnsupportedError(f"an epilogue in registers: {type(s).__name__} is about no vector")

    def everywhere(self, scalar: LLVMValue, kind: str) -> LLVMValue:
        """A vector with a scalar in all lanes."""
        return self.b.pure(splat, [scalar], vector_type(kind, self.lanes))

    def _load(self, kind: str, array: LLVMValue, at: Index, follows: bool) -> LLVMValue:
        key = (array, at.value)
        if key not in self._loaded:
            if follows:
                vector = self.b.load_vector(*key, vector_type(kind, self.lanes))
            else:
                vector = self.everywhere(self.b.load_element(*key), kind)
            self._loaded[key] = vector
        return self._loaded[key]
