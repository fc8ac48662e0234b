"""Linear maps: contractions of an array with small constant matrices, which are known when code is made.

    out[a, b, …] = sum over i, j of A[a, i] * B[b, j] * x[…, i, j, …]

So are the transforms of Winograd's convolution. Their code is straight-line: factors of 0 and 1 cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue

from hybridc.ir.kernel import Kernel, KernelOp, Read
from hybridc.ir.structured import dtype_of, numbers_in, shape_of

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class MatrixRead:
    """A constant matrix: its rows follow an axis of the result, its columns an axis that is summed."""

    numbers: Matrix
    row: int
    column: int


@dataclass(frozen=True, eq=False)
class LinearMap:
    """A kernel's only operation as a linear map of the elements that ``read`` reads."""

    kernel_op: KernelOp
    read: Read
    matrices: tuple[MatrixRead, ...]


def linear_map_of(kernel: Kernel) -> LinearMap | None:
    """The linear map that a kernel is; None if it is anything else."""
    kernel_op = kernel.ops[0] if len(kernel.ops) == 1 else None
    if kernel_op is None or kernel_op.kind != "contraction" or len(kernel.arguments) != 1:
        return None
    constant = {r: numbers for r in kernel_op.reads if (numbers := matrix_of(r.value)) is not None}
    given = [r for r in kernel_op.reads if r not in constant]
    matrices = tuple(MatrixRead(numbers, *r.axes) for r, numbers in constant.items())
    if len(given) != 1 or {m.column for m in matrices} != {*kernel_op.reduced}:
        return None
    return LinearMap(kernel_op, given[0], matrices)


def matrix_of(value: SSAValue) -> Matrix | None:
    """The numbers of a constant matrix."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or len(shape_of(value)) != 2:
        return None
    assert isinstance(owner.value, DenseIntOrFPElementsAttr)
    return numbers_in(owner.value, shape_of(value), dtype_of(value))
