"""Arrays that are put together: which value is only made to be a part of one, and where in it that is.

Who makes such a value writes it straight into the memory of the whole; ``tensor.concat`` itself then does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.dialects import tensor
from xdsl.ir import Operation, SSAValue

from hybridc.ir.strides import row_major
from hybridc.ir.structured import Shape, shape_of

# Views that show the same elements in another shape.
RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)


@dataclass(frozen=True, eq=False)
class PartOf:
    """Where a value goes: it is an operand of ``whole``, after ``views`` that give it the shape that this needs.

    The operand has ``shape`` and begins at ``begin`` of the whole.
    """

    whole: tensor.ConcatOp
    begin: Shape
    shape: Shape
    views: tuple[Operation, ...]


def part_of(value: SSAValue) -> PartOf | None:
    """What a value is a part of, if nobody else needs it."""
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
    """The strides of a value, in elements, in what it is a part of in the end; None if it cannot lie there."""
    seen = _seen(value)
    return None if seen is None else tuple(seen.strides)


def _seen(value: SSAValue) -> Any:
    part = part_of(value)
    if part is None:
        return as_strided(np.empty(1, np.uint8), shape_of(value), row_major(shape_of(value)))
    seen = _seen(part.whole.result)
    if seen is None:
        return None
    seen = seen[tuple(slice(b, b + n) for b, n in zip(part.begin, part.shape, strict=True))]
    for view in reversed(part.views):
        try:
            seen = np.reshape(seen, shape_of(view.operands[0]), copy=False)
        except ValueError:
            return None
    return seen
