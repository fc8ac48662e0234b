"""Concatenation without copies: which values are operands of a concatenation alone, and where they lie in it.

The producer of such a value writes it into the memory of the result; ``tensor.concat`` itself is then a no-op.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import tensor
from xdsl.ir import Operation, SSAValue

from hybridc.ir.strides import row_major
from hybridc.ir.structured import Shape, shape_of

# Views that reshape their operand.
RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)


def unshaped(value: SSAValue) -> SSAValue:
    """The value under reshapes."""
    while isinstance(value.owner, RESHAPES):
        value = value.owner.operands[0]
    return value


@dataclass(frozen=True, eq=False)
class PartOf:
    """The slice of ``whole`` that a value becomes, as an operand of it after the reshapes ``views``.

    The operand has ``shape`` and begins at index ``begin`` of the whole.
    """

    whole: tensor.ConcatOp
    begin: Shape
    shape: Shape
    views: tuple[Operation, ...]


def part_of(value: SSAValue) -> PartOf | None:
    """The slice that a value becomes, if that is its only use."""
    views: list[Operation] = []
    while (use := value.get_user_of_unique_use()) is not None:
        if isinstance(use, tensor.ConcatOp):
            axis = use.dim.value.data
            before = use.inputs[: list(use.inputs).index(value)]
            begin = [0] * len(shape_of(value))
            begin[axis] = sum(shape_of(v)[axis] for v in before)
            return PartOf(use, tuple(begin), shape_of(value), tuple(views))
        if not isinstance(use, RESHAPES):
            return None
        views.append(use)
        value = use.results[0]
    return None


def strides_in_whole(value: SSAValue) -> Shape | None:
    """The strides, in elements, of a value inside the outermost concatenation; None if no strides fit."""
    part = part_of(value)
    if part is None:
        return row_major(shape_of(value))
    strides, shape = strides_in_whole(part.whole.result), part.shape
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
    found = [1] * len(wanted)
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
        found[j - 1] = longer[i - 1][1]
        for axis in range(j - 1, begin, -1):
            found[axis - 1] = found[axis] * wanted[axis]
    found[j:] = [found[j - 1] if j else 1] * (len(wanted) - j)
    return tuple(found)
