"""A contraction as one call of ``np.matmul``: which loops are its rows, columns and batches, and how arrays are read.

Loops of both operands and the result are batches; of the left and the result, rows; of the right and the result,
columns; of both operands alone, summed. Neighbouring loops that are neighbours wherever they occur are one: so
``(b, t, k) x (n, k)`` is a product of two matrices. What cannot be merged is left to ``np.matmul`` as batches along
which one operand is repeated; only summed loops that cannot be merged cost a copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hybridc.dialects.operator_attribute import Shape
from hybridc.ir.kernels.kernel import Axes
from hybridc.transforms.schedules.arrays.array_steps import StepOperand

Group = Axes  # neighbouring loops, taken as one


def matmul(lhs: tuple[str, StepOperand], rhs: tuple[str, StepOperand], out: tuple[str, StepOperand]) -> str:
    """The call, for three arrays and their names."""
    a, b, c = lhs[1].axes, rhs[1].axes, out[1].axes
    sizes = {axis: n for _, x in (lhs, rhs, out) for axis, n in zip(x.axes, x.value.shape, strict=True)}
    rows = _runs([i for i in c if i in a and i not in b], a, c)
    columns = _runs([i for i in c if i in b and i not in a], b, c)
    summed = _runs([i for i in a if i in b and i not in c], a, b)
    row, column = _largest(rows, sizes), _largest(columns, sizes)
    batches = [(i,) for i in c if i in a and i in b]
    outer = sorted([*batches, *(g for g in (*rows, *columns) if g not in (row, column))], key=lambda g: c.index(g[0]))
    left = _view(lhs, [*[[g] for g in outer], [row], summed], sizes)
    right = _view(rhs, [*[[g] for g in outer], summed, [column]], sizes)
    result = _view(out, [*[[g] for g in outer], [row], [column]], sizes)
    return f"np.matmul({left}, {right}, out={result})"


def _runs(loops: Sequence[int], first: Axes, second: Axes) -> list[Group]:
    """Loops in groups of those that follow each other in both arrays."""
    groups: list[Group] = []
    for loop in loops:
        if groups and all(x.index(loop) == x.index(groups[-1][-1]) + 1 for x in (first, second)):
            groups[-1] = (*groups[-1], loop)
        else:
            groups.append((loop,))
    return groups


def _largest(groups: list[Group], sizes: dict[int, int]) -> Group:
    """The group with the most iterations; () if there is none."""
    return max(groups, key=lambda g: math.prod(sizes[i] for i in g), default=())


def _view(array: tuple[str, StepOperand], wanted: list[list[Group]], sizes: dict[int, int]) -> str:
    """An array with its loops in the wanted order: each entry is an axis, of groups in one; absent ones have size 1."""
    text, operand = array
    present = [[g for g in groups if g and g[0] in operand.axes] for groups in wanted]
    own = sorted((g for groups in present for g in groups), key=lambda g: operand.axes.index(g[0]))
    if len(own) < len(operand.axes):
        text += f".reshape({_sizes(own, sizes)})"
    order = [own.index(g) for groups in present for g in groups]
    if order != sorted(order):
        text += ".T" if order == [1, 0] else f".transpose({tuple(order)})"
    if any(len(groups) > 1 for groups in present):
        text += f".reshape({tuple(math.prod(_sizes(groups, sizes)) for groups in present if groups)})"
    while present and len(present) > 2 and not present[0]:
        present.pop(0)  # np.matmul repeats along these by itself
    if all(present):
        return text
    return f"{text}[{', '.join(':' if groups else 'None' for groups in present)}]"


def _sizes(groups: Sequence[Group], sizes: dict[int, int]) -> Shape:
    return tuple(math.prod(sizes[i] for i in g) for g in groups)
