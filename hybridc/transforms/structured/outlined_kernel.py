"""Kernels of several loop nests over one grid: copies of a function's operations, replaced by calls."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.grid_kernel import grid_axes
from hybridc.ir.kernels.kernel import Axes, Kernel
from hybridc.ir.kernels.kernel_text import kernel_of_ops
from hybridc.ir.structured import VIEWS, dtype_of, indirect_operands, is_scaffold, number_of, shape_of
from hybridc.ir.structured_builder import Builder, Tensor
from hybridc.transforms.structured.axis_labels import AxisLabels, Labels
from hybridc.transforms.structured.fuse_kernels import KernelOutliner, depends_on


@dataclass(frozen=True, eq=False)
class OutlinedKernel:
    """A kernel, the inputs of its call, and the values that its first results replace."""

    kernel: Kernel
    inputs: Sequence[SSAValue]
    replaced: Sequence[SSAValue]

    def call(self, outliner: KernelOutliner, function: func.FuncOp) -> None:
        """Call it in a function."""
        outliner.call(self.kernel, self.inputs, self.replaced, function.body.block)

    def over_grid(self) -> OutlinedKernel:
        """The kernel with its loop nests over the grid that they have in common."""
        return replace(self, kernel=replace(self.kernel, grid=grid_axes(self.kernel)))

    def of_attention(self, sides: tuple[Axes, ...]) -> OutlinedKernel:
        """The kernel as an attention: its axes that are rows, and those that are keys."""
        return replace(self, kernel=replace(self.kernel, attention=sides))

    @classmethod
    def of(
        cls,
        name: str,
        axes: AxisLabels,
        nests: Sequence[tuple[list[Operation], Operation]],
        results: Sequence[SSAValue],
        replaced: Sequence[SSAValue],
        inside: set[Operation],
        own: Collection[SSAValue] = (),
    ) -> OutlinedKernel | None:
        """A kernel of loop nests, each over the axes of what an operation makes, with these results.

        It has its ``own`` copies of these constants. None if a nest has more axes, or an input needs a result of the
        operations ``inside``.
        """
        for ops, _ in reversed(nests):
            for op in reversed(list(ops)):
                if not op.results[0].uses and op.results[0] not in results:
                    ops.remove(op)
                    erase_op(op)
        groups = [axes.nest(ops, whole) for ops, whole in nests]
        loop_groups = [group for group in groups if group is not None]
        if len(loop_groups) < len(groups):
            return None
        copies = {op for ops, _ in nests for op in ops}
        read = (v for ops, _ in nests for op in ops for v in (*op.operands[:-1], *indirect_operands(op)))
        inputs = [v for v in dict.fromkeys(read) if v.owner not in copies and number_of(v) is None and v not in own]
        if depends_on(inputs, inside):
            return None
        parts = [(group.domain or (), {op: group.axes[op] for op in group.ops}) for group in loop_groups]
        kernel = kernel_of_ops(name, parts, inputs, results)
        for op in reversed([op for ops, _ in nests for op in ops]):
            erase_op(op, safe_erase=False)
        outlined = cls(kernel, inputs, replaced)
        return outlined if len(nests) == 1 else outlined.over_grid()


def erase_unused(function: func.FuncOp) -> None:
    """Erase operations of a function that nobody needs."""
    for op in reversed(list(function.body.block.ops)):
        unused = bool(op.results) and not any(r.uses for r in op.results)
        if unused and (is_scaffold(op) or isinstance(op, (linalg.GenericOp, linalg.MatmulOp, *VIEWS))):
            erase_op(op)


def row_sum(block: Block, factors: Sequence[tuple[SSAValue, Labels]], kept: Labels, like: Operation) -> Operation:
    """The sums of the products of two arrays' elements along all axes but ``kept``, of the dtype of another sum."""
    labels = list(dict.fromkeys([*kept, *(a for _, axes in factors for a in axes)]))
    dtype = dtype_of(like.results[0])
    builder = Builder(block)
    builder.location = like.location
    builder.operator = OPERATOR.of(like) or ""
    reads = [(v, tuple(labels.index(a) for a in axes), dtype_of(v)) for v, axes in factors]
    shape = shape_of(like.results[0])

    def body(b: Any, x: Any, y: Any, sofar: Any) -> Any:
        return sofar + b.convert(x, dtype) * b.convert(y, dtype)

    out = Tensor(shape, dtype, builder)
    start = builder.start(shape, dtype, 0.0)
    total = builder.generic(reads, out, body, len(labels), tuple(range(len(kept))), start)
    return cast(Operation, total.value.owner)
