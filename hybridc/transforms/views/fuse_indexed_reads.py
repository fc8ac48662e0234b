"""Compute what is read at computed indices where it is read, instead of all of it before.

The probability of the right class needs one element of a row of logarithms, not the row. An elementwise result that
``tensor.extract`` reads is replaced by its body on the elements of its operands, as long as no more elements are read
than it has. So the loss of a classifier is one kernel: the row's reductions, and one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import tensor
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured_builder import indexing_map, segments
from hybridc.ir.values import functions, volume
from hybridc.transforms.structured.loop_groups import OperationLoops, elementwise_loops, operation_loops


@dataclass(frozen=True)
class FuseIndexedReads(ModulePass):
    """See the module's docstring."""

    name = "fuse-indexed-reads"
    needs: ClassVar[Needs] = frozenset((Fact.INDIRECT,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            for inner in list(function.body.block.ops) if function.body.blocks else ():
                loops = operation_loops(inner)
                if isinstance(inner, linalg.GenericOp) and loops is not None:
                    _compute_here(inner, loops)


def _compute_here(op: linalg.GenericOp, loops: OperationLoops) -> None:
    """Replace each read of an elementwise result in a body, and those that this makes, by what computes the element."""
    work = [inner for inner in op.body.block.ops if isinstance(inner, tensor.ExtractOp)]
    while work:
        read = work.pop()
        source = read.tensor.owner
        known = elementwise_loops(source) if isinstance(source, Operation) else None
        if known is None or volume(loops.sizes) > volume(known.sizes):
            continue
        assert isinstance(source, linalg.GenericOp)
        work += _compute_element(op, loops, read, source, known)
        if source.results[0].first_use is None:
            begin = source.operands[-1]
            erase_op(source)
            if isinstance(begin.owner, tensor.EmptyOp) and begin.first_use is None:
                erase_op(begin.owner)


def _compute_element(
    op: linalg.GenericOp, loops: OperationLoops, read: tensor.ExtractOp, source: linalg.GenericOp, known: OperationLoops
) -> list[tensor.ExtractOp]:
    """Replace a read by the body of the operation it reads; returns the reads at computed indices that this adds."""
    body = source.body.block
    elements: dict[SSAValue, SSAValue] = {}
    extracts: list[tensor.ExtractOp] = []
    for argument, (value, place) in zip(body.args, known.reads, strict=False):
        indices = [read.indices[axis] for axis in place]
        at = [owner.dim.value.data for i in indices if isinstance(owner := i.owner, linalg.IndexOp)]
        if len(at) == len(indices):
            elements[argument] = _read_at_loops(op, len(loops.sizes), value, at)
            continue
        extract = tensor.ExtractOp(value, indices, argument.type)
        extract.location = read.location
        Rewriter.insert_op(extract, InsertPoint.before(read))
        elements[argument] = extract.result
        extracts.append(extract)
    for inner in body.ops:
        if isinstance(inner, linalg.YieldOp):
            read.result.replace_all_uses_with(elements.get(inner.operands[0], inner.operands[0]))
            break
        copy = inner.clone(elements)
        copy.location = inner.location
        Rewriter.insert_op(copy, InsertPoint.before(read))
        elements.update(zip(inner.results, copy.results, strict=True))
    erase_op(read)
    return extracts


def _read_at_loops(op: linalg.GenericOp, loops: int, value: SSAValue, at: Sequence[int]) -> SSAValue:
    """An input of an operation that is read at these loops, and what the body sees of it."""
    count = len(op.inputs)
    maps = op.indexing_maps.data
    place = indexing_map(loops, tuple(at))
    for position, (operand, operand_map) in enumerate(zip(op.inputs, maps, strict=False)):
        if operand is value and operand_map == place:
            return op.body.block.args[position]
    op.operands = [*op.inputs, value, *op.outputs]
    op.properties["indexing_maps"] = ArrayAttr([*maps[:count], place, *maps[count:]])
    op.properties["operandSegmentSizes"] = segments(count + 1, len(op.outputs))
    element: Any = value.type
    return op.body.block.insert_arg(element.get_element_type(), count)
