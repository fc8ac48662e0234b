"""Concatenation without copies: which values are operands of a concatenation alone, and where they lie in it.

The producer of such a value writes it into the memory of the result; ``tensor.concat`` itself is then a no-op.
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

# Views that reshape their operand.
RESHAPES = (tensor.CollapseShapeOp, tensor.ExpandShapeOp)


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
