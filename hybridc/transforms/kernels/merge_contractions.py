"""Merge contractions of all row blocks of an array with the same matrix into one contraction of the array.

An unrolled recurrent network has these: each step multiplies its slice of the input by the same weight. One matmul of
all rows uses the processor better than many with few rows, and is one launch. The results become slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, cast

from xdsl.context import Context
from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import are_same
from hybridc.ir.costs import WORTH_PACKING
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.kernels.kernel import Kernel, KernelOp, assembled
from hybridc.ir.kernels.kernel_module import KernelModule, insert_before
from hybridc.ir.structured import VIEWS, dtype_of, groups_of, shape_of
from hybridc.ir.structured_builder import Builder
from hybridc.ir.values import volume

# The most elements of a merged result, which lives until its last slice is read: 64 MiB in single precision.
LARGEST = 2**24


@dataclass(frozen=True)
class MergeContractions(ModulePass):
    """See the module's docstring; contractions are kernels of their own already."""

    name = "merge-contractions"
    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        module = KernelModule(op)
        contractions = {
            kernel.name: contraction
            for kernel in module.kernels
            if (contraction := _row_contraction(kernel)) is not None
        }
        for function in module.callers:
            for calls in _groups(module, function, contractions):
                _merge(module, contractions[calls[0].op.callee.string_value()], calls)
        module.remove_uncalled([contraction.kernel for contraction in contractions.values()])


@dataclass(frozen=True)
class _RowContraction:
    """A kernel that is a contraction whose rows are the first axis of the argument ``rows``, and of the result."""

    kernel: Kernel
    kernel_op: KernelOp
    rows: int

    @property
    def other(self) -> int:
        """The index of the other argument."""
        return 1 - self.rows


@dataclass(frozen=True)
class _RowsCall:
    """A call on the rows from ``first`` on of ``whole``, an array whose leading axes are all rows."""

    op: func.CallOp
    whole: SSAValue
    first: int


def _row_contraction(kernel: Kernel) -> _RowContraction | None:
    if len(kernel.ops) != 1 or kernel.nests[0].contraction is None or len(kernel.arguments) != 2:
        return None
    (kernel_op,) = kernel.ops
    for read, other in (kernel_op.reads, kernel_op.reads[::-1]):
        leads = (
            bool(kernel_op.axes and read.axes) and read.axes[0] == kernel_op.axes[0] and read.axes[0] not in other.axes
        )
        if leads:
            return _RowContraction(kernel, kernel_op, kernel.arguments.index(read.value))
    return None


def _groups(
    module: KernelModule, function: func.FuncOp, contractions: dict[str, _RowContraction]
) -> list[list[_RowsCall]]:
    """Calls of the same contraction with the same matrix and all row blocks of an array, in their order."""
    calls_of: dict[tuple[str, SSAValue, SSAValue], list[_RowsCall]] = {}
    for op, kernel in module.calls(function):
        contraction = contractions.get(kernel.name)
        part = None if contraction is None else _part(op.arguments[contraction.rows])
        if contraction is not None and part is not None and not _returned(op.results[0]):
            key = (kernel.name, op.arguments[contraction.other], part[0])
            calls_of.setdefault(key, []).append(_RowsCall(op, *part))
    groups: list[list[_RowsCall]] = []
    for (name, _, whole), calls in calls_of.items():
        contraction = contractions[name]
        shape, result = contraction.kernel.arguments[contraction.rows].shape, contraction.kernel_op.result.shape
        count = volume(shape_of(whole)) // volume(shape)
        ordered = sorted(calls, key=lambda c: c.first)
        if count < 2 or [c.first for c in ordered] != [i * shape[0] for i in range(count)]:
            continue
        large = shape[0] > WORTH_PACKING or count * volume(result) > LARGEST
        if not large:
            groups.append(ordered)
    return groups


def _part(value: SSAValue) -> tuple[SSAValue, int] | None:
    """The array of which a value is a block of rows, and the first row; a single row may lack its leading axis."""
    rows = shape_of(value)[0]
    squeezed = isinstance(value.owner, tensor.CollapseShapeOp)
    if squeezed:
        op = cast(tensor.CollapseShapeOp, value.owner)
        if groups_of(op) != [[0, 1], *([i] for i in range(2, len(shape_of(op.src))))] or shape_of(op.src)[0] != 1:
            return None
        value = op.src
    cut = value.owner
    if not isinstance(cut, tensor.ExtractSliceOp) or len(shape_of(cut.source)) != len(shape_of(value)):
        return None
    first, *rest = integers_of(cut.static_offsets)
    cuts = any(rest) or any(s != 1 for s in _steps(cut)) or not are_same(shape_of(cut.source)[1:], shape_of(value)[1:])
    return None if cuts else (cut.source, first * rows if squeezed else first)


def _steps(op: tensor.ExtractSliceOp) -> Shape:
    return tuple(integers_of(op.static_strides))


def _returned(value: SSAValue) -> bool:
    """Whether a function returns the value, perhaps as a view: then it must be an array of its own."""
    users = [use.operation for use in value.uses]
    return any(isinstance(op, func.ReturnOp) or (isinstance(op, VIEWS) and _returned(op.results[0])) for op in users)


def _merge(module: KernelModule, contraction: _RowContraction, calls: Sequence[_RowsCall]) -> None:
    """Call the contraction of the whole array at the first call, and replace the results by slices."""
    whole, parts = calls[0].whole, [c.op for c in calls]
    shape, result = contraction.kernel.arguments[contraction.rows].shape, contraction.kernel_op.result.shape
    rows = len(calls) * shape[0]
    kernel = module.add(_of_rows(contraction, rows))
    block = Block()
    builder = Builder(block)
    builder.location, builder.operator = fused_location(parts), contraction.kernel_op.operator
    flat = builder.reshape(builder.tensor(whole, shape_of(whole), dtype_of(whole)), (rows, *shape[1:]))
    arguments = list(parts[0].arguments)
    arguments[contraction.rows] = flat.value
    call = module.call(kernel, arguments, builder.location)
    block.add_op(call)
    product = builder.tensor(call.results[0], (rows, *result[1:]), contraction.kernel_op.result.dtype)
    for rows_call in calls:
        begin = (rows_call.first, *[0] * (len(result) - 1))
        part = builder.slice(product, begin, [1] * len(result), result).value
        part.name_hint = rows_call.op.results[0].name_hint
        rows_call.op.results[0].replace_all_uses_with(part)
    insert_before(block, _first(parts))
    for op in parts:
        view = op.arguments[contraction.rows].owner
        erase_op(op)
        while isinstance(view, VIEWS) and not view.results[0].uses:
            above = view.operands[0].owner
            erase_op(view)
            view = above


def _first(ops: Sequence[Operation]) -> Operation:
    """The operation that comes before the others in its block."""
    block = ops[0].parent
    assert block is not None
    wanted = set(ops)
    return next(op for op in block.ops if op in wanted)


def _of_rows(contraction: _RowContraction, rows: int) -> Kernel:
    """The same kernel with so many rows."""
    kernel, kernel_op = contraction.kernel, contraction.kernel_op
    tall = {kernel.arguments[contraction.rows], kernel_op.result}
    of = {v: v.of_shape((rows, *v.shape[1:])) if v in tall else v for v in kernel.values}
    domain = tuple([rows if a == kernel_op.axes[0] else n for a, n in enumerate(kernel.nests[0].domain)])
    arguments, results = [[of[v] for v in values] for values in (kernel.arguments, kernel.results)]
    return assembled(f"{kernel.name}_2", [(domain, [kernel_op.with_values(of)])], arguments, results)
