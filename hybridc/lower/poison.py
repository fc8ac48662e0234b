"""The poison mode of programs: bytes of the arena that hold nothing of use are all ones, NaN in every float.

They are before any launch has written them, right before a launch writes them, and from the last launch on that reads
them. So what a plan or a kernel reads though it should not shows in the results.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.mlir.hybrid import hybrid_element_dtype
from hybridc.dialects.mlir.hybrid_rt import AliasOp, ArenaOp, LaunchOp, ViewOp, aliased
from hybridc.ir.kernels.kernel_notes import INPLACE
from hybridc.ir.values import volume

Bytes = tuple[int, int]


class Poison:
    """Undefined memory of one planned function: ranges of bytes of the arena."""

    def __init__(self, function: func.FuncOp, kernels: Mapping[str, func.FuncOp]) -> None:
        self.kernels = kernels
        self.dying: dict[Operation, list[SSAValue]] = {}
        last: dict[SSAValue, Operation] = {}
        for op in function.body.block.ops:
            for value in op.operands:
                if not isinstance(op, AliasOp):
                    last[aliased(value)] = op
        for value, op in last.items():
            if isinstance(value.owner, ViewOp) and isinstance(op, LaunchOp):
                self.dying.setdefault(op, []).append(value)

    def before(self, launch: LaunchOp) -> list[Bytes]:
        """Bytes that a launch writes, which held nothing, but for those that it overwrites in place."""
        pairs = INPLACE.of(self.kernels[launch.kernel.string_value()])
        kept = {(out, _place(launch.ins[i])) for i, out in pairs}
        written = [(index, _place(v)) for index, v in enumerate(launch.outs)]
        if launch.scratch is not None:
            written.append((-1, _place(launch.scratch)))
        return [place for index, place in written if place is not None and (index, place) not in kept]

    def after(self, launch: LaunchOp) -> list[Bytes]:
        """Bytes that have no reader after a launch, but for those that it overwrote in place."""
        dying = self.dying.get(launch, [])
        written = [_place(v) for v in launch.outs if v not in dying]
        places = [place for v in dying if (place := _place(v)) is not None and place not in written]
        return list(dict.fromkeys(places))


def _place(value: SSAValue) -> Bytes | None:
    """The bytes of the arena that an array fills; None if it lies elsewhere."""
    if not isinstance(value.owner, ViewOp) or not isinstance(value.owner.memory.owner, ArenaOp):
        return None
    kind: Any = value.type
    assert isinstance(value.type, MemRefType)
    begin = value.owner.offset.value.data
    return begin, begin + volume(kind.get_shape()) * hybrid_element_dtype(kind.element_type).itemsize
