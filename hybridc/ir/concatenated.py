"""Concatenation without copies: which values are operands of a concatenation, and where they lie in it.

The producer of such a value writes it into the memory of the result; ``tensor.concat`` itself is then a no-op. So such
results of kernels are strided, for their other readers, too, as views are that kernels are given
(:func:`strided_arrays`).
"""

from __future__ import annotations

import math
from collections.abc import MutableMapping, Sequence
from itertools import accumulate, pairwise

from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue, Use

from hybridc.dialects.mlir.kinds import of_kinds
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.structured import VIEWS, groups_of, shape_of
from hybridc.ir.values import functions

# Views that reshape their operand.
RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)
is_reshape = of_kinds(*RESHAPES)


def unshaped(value: SSAValue) -> SSAValue:
    """The value under reshapes."""
    while is_reshape(owner := value.owner):
        value = owner.operands[0]
    return value


@dataclass(frozen=True, eq=False)
class PartOf:
    """The slice of ``whole`` that a value becomes, as operand ``position`` of it after the reshapes ``views``."""

    whole: tensor.ConcatOp
    position: int
    views: tuple[Operation, ...]

    @property
    def shape(self) -> Shape:
        """The shape of the operand."""
        return shape_of(self.whole.operands[self.position])


def begins_of(whole: tensor.ConcatOp) -> list[Shape]:
    """The index of a concatenation at which each of its operands begins."""
    axis, rank = whole.dim.value.data, len(shape_of(whole.result))
    places = accumulate([shape_of(v)[axis] for v in whole.inputs], initial=0)
    return [(0,) * axis + (place,) + (0,) * (rank - axis - 1) for place in places][:-1]


def part_of(value: SSAValue) -> PartOf | None:
    """The slice that a value becomes, if it is an operand of a concatenation; it may have other readers, too.

    A value is an operand of one concatenation at most (``fuse-kernels`` copies it for others).
    """
    joined = _joined_at(value)
    if joined is None:
        return None
    use, views = joined
    whole = use.operation
    assert isinstance(whole, tensor.ConcatOp)
    return PartOf(whole, use.index, views)


def _joined_at(value: SSAValue) -> tuple[Use, tuple[Operation, ...]] | None:
    """The use of a value by a concatenation, after some reshapes."""
    for use in value.uses:
        if isinstance(op := use.operation, tensor.ConcatOp):
            return use, ()
        if is_reshape(op) and (joined := _joined_at(op.results[0])) is not None:
            return joined[0], (op, *joined[1])
    return None


def whole_of(value: SSAValue) -> SSAValue:
    """The outermost concatenation that a value is a part of, or itself."""
    while (joined := _joined_at(value)) is not None:
        value = joined[0].operation.results[0]
    return value


def strides_in_whole(value: SSAValue) -> Shape | None:
    """The strides, in elements, of a value inside the outermost concatenation; None if no strides fit."""
    parts: list[PartOf] = []
    while (part := part_of(value)) is not None:
        parts.append(part)
        value = part.whole.result
    strides: Shape | None = row_major(shape_of(value))
    for part in reversed(parts):
        shape = part.shape
        for view in reversed(part.views):
            if strides is None:
                return None
            before = shape_of(view.operands[0])
            strides, shape = reshaped_strides(shape, strides, before), before
    return strides


def reshaped_strides(shape: Shape, strides: Shape, wanted: Shape) -> Shape | None:
    """The strides of an array as a view of another shape, as NumPy finds them; None if it has none.

    Sizes may be symbolic, which NumPy does not take.
    """
    longer = [(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]
    if 0 in shape or all(s == e for (_, s), e in zip(longer, row_major(tuple([n for n, _ in longer])), strict=True)):
        return row_major(wanted)
    view_strides = [1] * len(wanted)
    i = j = 0
    while i < len(longer) and j < len(wanted):
        first, begin = i, j
        old, new = longer[i][0], wanted[j]
        i, j = i + 1, j + 1
        while old != new:
            if new < old:
                new *= wanted[j]
                j += 1
            else:
                old *= longer[i][0]
                i += 1
        if any(s != n * inner for (_, s), (n, inner) in pairwise(longer[first:i])):
            return None
        view_strides[j - 1] = longer[i - 1][1]
        for axis in range(j - 1, begin, -1):
            view_strides[axis - 1] = view_strides[axis] * wanted[axis]
    view_strides[j:] = [view_strides[j - 1] if j else 1] * (len(wanted) - j)
    return tuple(view_strides)


# --- views and parts in calls -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MovedArrays:
    """The calls in a function, with the views that they are given and the results that are parts of greater arrays.

    Of each call the kernel; of each array the number among the call's arguments and then its results, and the value.
    """

    calls: Sequence[tuple[str, Sequence[tuple[int, SSAValue]], Sequence[tuple[int, SSAValue]]]]

    @classmethod
    def of(cls, function: func.FuncOp) -> MovedArrays:
        """Those of a function."""
        calls = [op for op in function.body.block.ops if isinstance(op, func.CallOp)]
        moved = [
            (
                op.callee.string_value(),
                [(i, v) for i, v in enumerate(op.arguments) if _is_moved(v)],
                [(i, v) for i, v in enumerate(op.results, len(op.arguments)) if part_of(v) is not None],
            )
            for op in calls
        ]
        return cls(moved)


def strided_arrays(
    module: ModuleOp, known: MutableMapping[func.FuncOp, MovedArrays] | None = None
) -> dict[str, list[dict[int, Shape]]]:
    """For each call of a kernel the strides of arguments, by number, then of results, that are not contiguous.

    Kernels whose calls have none are left out. ``known`` are the moved arrays of functions; their sizes may have
    changed since.
    """
    known = {} if known is None else known
    strided: dict[str, list[dict[int, Shape]]] = {}
    roots: dict[SSAValue, Shape] = {}
    for function in functions(module):
        if function.sym_visibility is not None:
            continue
        if function not in known:
            known[function] = MovedArrays.of(function)
        for name, views, parts in known[function].calls:
            placed = [(i, value, _strides(value, roots)) for i, value in (*views, *parts)]
            strides = {i: own for i, value, own in placed if own != row_major(shape_of(value)) or _shows_all(value)}
            strided.setdefault(name, []).append(strides)
    return {name: calls for name, calls in strided.items() if any(calls)}


def _is_moved(value: SSAValue) -> bool:
    """Whether a value may be strided: a part of a concatenation, or a transposed or sliced view."""
    while isinstance(value.owner, VIEWS):
        if not isinstance(value.owner, RESHAPES):
            return True
        value = value.owner.operands[0]
    return part_of(value) is not None


def _shows_all(value: SSAValue) -> bool:
    """Whether a value is a slice of all elements: at other sizes it is one of some, so code is given its strides."""
    while isinstance(op := value.owner, VIEWS):
        if isinstance(op, tensor.ExtractSliceOp) and shape_of(op.source) == shape_of(value):
            return True
        value = op.operands[0]
    return False


def _strides(value: SSAValue, roots: MutableMapping[SSAValue, Shape]) -> Shape:
    """The strides of a value, in elements: of a view, those of its root array under the view's operations.

    ``roots`` are the strides of arrays that are no views, as far as they are known.
    """
    views: list[Operation] = []
    while isinstance(value.owner, VIEWS):
        views.append(value.owner)
        value = value.owner.operands[0]
    strides = roots.get(value)
    if strides is None:
        strides = strides_in_whole(value)
        assert strides is not None, "a part is made where it is"
        roots[value] = strides
    for view in reversed(views):
        strides = _viewed(view, strides)
    return strides


def _viewed(op: Operation, inner: Shape) -> Shape:
    """The strides of a view of an array with these."""
    match op:
        case linalg.TransposeOp():
            return tuple(inner[i] for i in op.permutation.get_values())
        case tensor.ExtractSliceOp():
            return tuple(s * step for s, step in zip(inner, op.static_strides.get_values(), strict=True))
        case tensor.CollapseShapeOp():
            sizes = shape_of(op.operands[0])
            return tuple(inner[max((i for i in group if sizes[i] != 1), default=group[-1])] for group in groups_of(op))
        case tensor.ExpandShapeOp():
            shape = shape_of(op.results[0])
            if not inner:  # all axes have size 1
                return row_major(shape)
            return tuple(
                s * math.prod(shape[i + 1 : group[-1] + 1])
                for s, group in zip(inner, groups_of(op), strict=True)
                for i in group
            )
        case _:
            raise TypeError(f"{op.name} is not a view; expected a reshape, a transpose or a slice")
