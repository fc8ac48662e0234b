"""Hoist slices and concatenations through elementwise operations, so that loops read and write parts of arrays.

The slices of an elementwise result become the operation on slices of its operands, if that computes no element twice:
the halves of a gated layer, the gates of a recurrent cell. An elementwise operation on a concatenation becomes the
concatenation of the operation on its parts: a rotation of halves, the gradient of such slices. Then each part belongs
to the loops around it, and no kernel is needed for the whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.dialects.mlir.erase import erase_op, replace_op
from hybridc.dialects.mlir.graph_notes import DTYPE, OPERATOR
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.mlir.new_op import new_op
from hybridc.ground.records import dataclass
from hybridc.ir.concatenated import RESHAPES, unshaped
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured import shape_of
from hybridc.ir.structured_builder import slice_properties
from hybridc.ir.values import functions, volume
from hybridc.transforms.structured.loop_groups import OperationLoops, elementwise_loops, operation_loops

Read = tuple[SSAValue, tuple[int, ...]]  # an operand, and the loops along its axes

MOST = 4  # parts that an operation is divided into: each is another loop nest


@dataclass(frozen=True)
class HoistSlices(ModulePass):
    """See the module's docstring."""

    name = "hoist-slices"
    needs: ClassVar[Needs] = frozenset((Fact.SLICE,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            if function.body.blocks:
                for inner in list(function.body.block.ops):
                    if isinstance(inner, tensor.ConcatOp):
                        _join_slices(inner)
                    else:
                        _hoist_concatenation(inner)
                for inner in reversed(list(function.body.block.ops)):
                    _hoist_slices(inner)


@dataclass(frozen=True)
class _Extent:
    """A part of an array: first index, size and step along each axis."""

    begin: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @classmethod
    def of(cls, op: tensor.ExtractSliceOp) -> _Extent:
        """The part that a slice shows."""
        return cls(integers_of(op.static_offsets), shape_of(op.result), integers_of(op.static_strides))

    def then(self, other: _Extent, axis: int) -> _Extent | None:
        """Both parts as one, if the other one follows along an axis; else None."""
        ends = [b + (n if i == axis else 0) for i, (b, n) in enumerate(zip(self.begin, self.sizes, strict=True))]
        apart = [i for i, n in enumerate(self.sizes) if i != axis and n != other.sizes[i]]
        if list(other.begin) != ends or apart or self.steps[axis] != 1 or self.steps != other.steps:
            return None
        sizes = [n + (other.sizes[axis] if i == axis else 0) for i, n in enumerate(self.sizes)]
        return _Extent(self.begin, tuple(sizes), self.steps)


# --- concatenations of slices -----------------------------------------------------------------------------------------


def _join_slices(op: tensor.ConcatOp) -> None:
    """Replace operands that are slices of one array, one after the other, by one slice; or all by the array."""
    axis = op.dim.value.data
    parts: list[SSAValue] = []
    last: tuple[SSAValue, _Extent] | None = None  # the array and the part of it that the last operand is
    for value in op.inputs:
        sliced = _slice_of(value)
        joined = None if last is None or sliced is None or sliced[0] is not last[0] else last[1].then(sliced[1], axis)
        if sliced is None or joined is None:
            parts.append(value)
            last = sliced
            continue
        last = (sliced[0], joined)
        parts[-1] = _slice(op, sliced[0], range(len(joined.sizes)), joined)
    if len(parts) == len(op.inputs):
        return
    if len(parts) > 1:
        op.operands = parts
    else:
        replace_op(op, [], parts)


def _slice_of(value: SSAValue) -> tuple[SSAValue, _Extent] | None:
    """The array that a value is a slice of, and the part; None if the value is no slice or is reshaped."""
    base = unshaped(value)
    if not isinstance(op := base.owner, tensor.ExtractSliceOp) or shape_of(base) != shape_of(value):
        return None
    return op.source, _Extent.of(op)


# --- slices of results ------------------------------------------------------------------------------------------------


def _hoist_slices(op: Operation) -> None:
    """Replace an elementwise operation whose slices are read by operations that compute the slices."""
    loops = elementwise_loops(op)
    if loops is None:
        return
    value = op.results[0]
    boxes: dict[_Extent, list[tensor.ExtractSliceOp]] = {}
    whole = False  # whether it is returned
    for user in [use.operation for use in value.uses]:
        if isinstance(user, tensor.ExtractSliceOp) and user.result.type.get_num_dims() == len(loops.sizes):
            boxes.setdefault(_Extent.of(user), []).append(user)
        elif isinstance(user, func.ReturnOp):
            whole = True
        else:
            return
    slices = list(itertools.chain.from_iterable(boxes.values()))
    if not 0 < len(boxes) <= MOST or not all(_is_read_by_loops(part.result) for part in slices):
        return
    if _follows_contraction(op):
        return
    if sum(volume(box.sizes) for box in boxes) > volume(loops.sizes):
        return
    axis = _divided(list(boxes), loops.sizes) if whole else -1
    if axis is None:
        return
    parts = {box: _part(op, loops, box) for box in sorted(boxes, key=lambda box: box.begin)}
    for box, views in boxes.items():
        for view in views:
            replace_op(view, [], [parts[box]])
    if whole:
        _join(op, list(parts.values()), axis)
    else:
        erase_op(op)


def _is_read_by_loops(value: SSAValue) -> bool:
    """Whether all readers of a value are loops other than contractions, or concatenations."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, RESHAPES):
            if not _is_read_by_loops(user.results[0]):
                return False
        elif not isinstance(user, tensor.ConcatOp):
            loops = operation_loops(user)
            if loops is None or loops.is_contraction:
                return False
    return True


def _follows_contraction(op: Operation) -> bool:
    """Whether elementwise operations up to this one can be done with the sums of a contraction, in registers.

    Not if the contraction is done for several slices of an array at once: then they come after all of it.
    """
    for value in op.operands[:-1]:
        owner = value.owner
        if not isinstance(owner, Operation) or not value.has_one_use():
            continue
        loops = operation_loops(owner)
        if loops is None:
            continue
        if (loops.is_contraction and not _is_of_slices(owner)) or (not loops.reduced and _follows_contraction(owner)):
            return True
    return False


def _is_of_slices(contraction: Operation) -> bool:
    """Whether there is another contraction of the same array with another slice of the other one's array."""
    for i, value in enumerate(contraction.operands[:2]):
        if not isinstance(mine := unshaped(contraction.operands[1 - i]).owner, tensor.ExtractSliceOp):
            continue
        for use in value.uses:
            if use.operation is not contraction and use.index == i and len(use.operation.operands) > 2:
                other = unshaped(use.operation.operands[1 - i]).owner
                if isinstance(other, tensor.ExtractSliceOp) and other.source is mine.source:
                    return True
    return False


def _divided(boxes: Sequence[_Extent], shape: Sequence[int]) -> int | None:
    """The axis along which boxes divide an array; None if they leave out some of it."""
    for axis, size in enumerate(shape):
        end = 0
        for box in sorted(boxes, key=lambda box: box.begin[axis]):
            others = [i for i in range(len(shape)) if i != axis]
            if box.begin[axis] != end or box.steps[axis] != 1 or any(box.sizes[i] != shape[i] for i in others):
                break
            end += box.sizes[axis]
        else:
            if end == size:
                return axis
    return None


# --- operations on concatenations -------------------------------------------------------------------------------------


def _hoist_concatenation(op: Operation) -> None:
    """Replace an elementwise operation on a concatenation by the concatenation of operations on its parts."""
    loops = elementwise_loops(op)
    if loops is None:
        return
    loop = -1
    wholes: dict[Read, tensor.ConcatOp] = {}  # read along the divided loop; one may be read along another, too
    sizes: list[int] = []
    for value, place in loops.reads:
        whole = value.owner
        if not isinstance(whole, tensor.ConcatOp) or not _is_of_loops(whole):
            continue
        axis = whole.dim.value.data
        lengths = [shape_of(part)[axis] for part in whole.inputs]
        if not wholes or (place[axis] == loop and sizes == lengths):
            loop, sizes = place[axis], lengths
            wholes[value, place] = whole
    if not wholes:
        return
    parts: list[SSAValue] = []
    begin = 0
    for index, size in enumerate(sizes):
        box = _Extent(
            tuple(begin if i == loop else 0 for i in range(len(loops.sizes))),
            tuple(size if i == loop else n for i, n in enumerate(loops.sizes)),
            (1,) * len(loops.sizes),
        )
        parts.append(_part(op, loops, box, {read: whole.inputs[index] for read, whole in wholes.items()}))
        begin += size
    _join(op, parts, loop)
    for whole in wholes.values():
        if whole.result.first_use is None:
            erase_op(whole)


def _is_of_loops(whole: tensor.ConcatOp) -> bool:
    """Whether a concatenation has few parts, of which loops can compute each again or read it where it is."""
    if not 1 < len(whole.inputs) <= MOST:
        return False
    for part in whole.inputs:
        owner = unshaped(part).owner
        if not isinstance(owner, tensor.ExtractSliceOp) and (
            not isinstance(owner, Operation) or not elementwise_loops(owner)
        ):
            return False
    return True


# --- both -------------------------------------------------------------------------------------------------------------


def _part(
    op: Operation, loops: OperationLoops, box: _Extent, parts: Mapping[Read, SSAValue] = MappingProxyType({})
) -> SSAValue:
    """An elementwise operation for a part of its result alone; ``parts`` are known parts of what it reads."""
    operands = [parts[read] if read in parts else _slice(op, *read, box) for read in loops.reads]
    kind = _typed(op.results[0].type, box.sizes)
    empty = new_op(tensor.EmptyOp, (), [kind])
    copy = op.clone()
    copy.operands = [*operands, empty.results[0]]
    Rewriter.replace_value_with_new_type(copy.results[0], kind)
    empty.location = copy.location = op.location
    _insert(op, empty, copy)
    return copy.results[0]


def _slice(op: Operation, value: SSAValue, places: Sequence[int], box: _Extent) -> SSAValue:
    """The part of an operand that loops read for a part of the result."""
    begin, sizes, steps = (tuple(numbers[loop] for loop in places) for numbers in (box.begin, box.sizes, box.steps))
    if sizes == shape_of(value):
        return value
    part = new_op(tensor.ExtractSliceOp, [value], [_typed(value.type, sizes)], slice_properties(1, begin, sizes, steps))
    part.location = op.location
    OPERATOR.copy(op, part)
    _insert(op, part)
    return part.results[0]


def _join(op: Operation, parts: Sequence[SSAValue], axis: int) -> None:
    """Replace an operation by the concatenation of its parts."""
    properties: dict[str, Attribute] = {"dim": IntegerAttr(axis, i64)}
    whole = new_op(tensor.ConcatOp, parts, [op.results[0].type], properties)
    whole.location = op.location
    OPERATOR.copy(op, whole)
    DTYPE.copy(op, whole)
    _insert(op, whole)
    replace_op(op, [], [whole.result])


def _insert(before: Operation, *ops: Operation) -> None:
    block = before.parent
    assert block is not None
    block.insert_ops_before(ops, before)


def _typed(kind: Any, shape: Sequence[int]) -> TensorType[Any]:
    """A tensor type with another shape."""
    return TensorType(kind.get_element_type(), shape)
