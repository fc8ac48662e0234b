"""Sums of products of ``mx.np`` arrays."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.
# pyright: reportPrivateUsage=false
# An array's buffer belongs to all classes of arrays.

from __future__ import annotations

import math
from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.numpy_rules import BOOL
from hybridc.dtypes import is_float
from hybridc.np.apply import cast, check_ufunc, dtype_of, into, is_number, operand, reshaped
from hybridc.np.by_element import multiply
from hybridc.np.reducing import given
from hybridc.np.reducing import sum as sum_of
from hybridc.np.selection import diagonal
from hybridc.np.shaping import broadcast_to, is_plain, moveaxis, promoted, reshape, stack, transpose

__all__ = [
    "cross",
    "dot",
    "inner",
    "kron",
    "matmul",
    "outer",
    "tensordot",
    "trace",
    "vdot",
]


def _operands(a: Any, b: Any) -> tuple[Any, Any]:
    """Two arrays of a common dtype, in which sums of products are computed."""
    first, second = promoted([a, b])
    if first.dtype == BOOL.type:  # a sum of ones may round, but never to 0
        first, second = cast(first, "float32"), cast(second, "float32")
    return first, second


def _result(y: Any, a: Any, b: Any) -> Any:
    return cast(y, BOOL) if given(a).dtype == given(b).dtype == BOOL.type else y


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The sum of products over the last axis of a and the last but one of b; of vectors and matrices as usual."""
    if is_number(a) or is_number(b):
        return multiply(a, b, out=out)
    x, y = operand(a), operand(b)
    if not x.ndim or not y.ndim:
        return multiply(x, y, out=out)
    along = max(y.ndim - 2, 0)
    if x.shape[-1] != y.shape[along]:
        raise ValueError(
            f"dot: shapes {x.shape} and {y.shape} do not fit: a has {x.shape[-1]} elements along its last axis, b has "
            f"{y.shape[along]} along axis {along}"
        )
    return into(tensordot(x, y, ([x.ndim - 1], [along])), out)


def matmul(a: Any, b: Any, out: Any = None, **kwargs: Any) -> Any:
    """The matrix product of the last two axes of ``a`` and ``b``; others broadcast.

    A vector is a row on the left, and a column on the right; numbers are a ValueError.
    """
    if kwargs:
        check_ufunc("matmul", kwargs)
    if is_number(a) or is_number(b) or not operand(a).ndim or not operand(b).ndim:
        raise ValueError("matmul: Input operand does not have enough dimensions; use * for numbers")
    x, y = _operands(a, b)
    row, column = x.ndim == 1, y.ndim == 1
    if row:
        x = reshape(x, (1, x.shape[0]))
    if column:
        y = reshape(y, (y.shape[0], 1))
    if x.shape[-1] != y.shape[-2]:
        raise ValueError(
            f"matmul: shapes {operand(a).shape} and {operand(b).shape} do not fit: {x.shape[-1]} columns, "
            f"{y.shape[-2]} rows"
        )
    product = product_of_matrices(x, y)
    shape = list(product.shape)
    if column:
        del shape[-1]
    if row:
        del shape[-1 if column else -2]
    return into(_result(reshaped(product, tuple(shape)), a, b), out)


def product_of_matrices(x: Any, y: Any) -> Any:
    """The products of the matrices of the last two axes."""
    if 0 in (*x.shape, *y.shape):
        lead = _together(x.shape[:-2], y.shape[:-2])
        shape = (*lead, x.shape[-2], y.shape[-1])
        return function("_zeros")(shape, x.dtype).as_np_ndarray()
    if not is_float(dtype_of(x)):
        return _integer_matrices(x, y)
    if y.ndim == 2:  # one matrix for all
        flat = function("dot")(reshape(x, (math.prod(x.shape[:-1]), x.shape[-1])), y)
        return reshaped(flat, (*x.shape[:-1], y.shape[-1]))
    lead = _together(x.shape[:-2], y.shape[:-2])
    x, y = (reshape(broadcast_to(v, (*lead, *v.shape[-2:])), (math.prod(lead), *v.shape[-2:])) for v in (x, y))
    return reshape(function("batch_dot")(x, y), (*lead, x.shape[-2], y.shape[-1]))


def _integer_matrices(x: Any, y: Any) -> Any:
    """As :func:`product_of_matrices`, of integers, which have no gradient: NumPy's, or products that are summed."""
    # COMPAT(mxnet): MXNet has them in einsum alone.
    if is_plain(x) and is_plain(y):
        return x._like(onp.matmul(x._data, y._data))
    rows, columns = reshape(x, (*x.shape, 1)), reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    return sum_of(multiply(rows, columns), -2, dtype=x.dtype)


def _together(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    return onp.broadcast_shapes(first, second)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """The sum of products over axes of a and of b: so many at the end and at the start, or two lists of them."""
    x, y = _operands(a, b)
    if isinstance(axes, int):
        of_x, of_y = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        of_x, of_y = ([v] if isinstance(v, int) else list(v) for v in axes)
    of_x = [normalize_axis("tensordot", i, x.ndim, "axes has") for i in of_x]
    of_y = [normalize_axis("tensordot", i, y.ndim, "axes has") for i in of_y]
    if [x.shape[i] for i in of_x] != [y.shape[i] for i in of_y]:
        raise ValueError(f"tensordot: shapes {x.shape} and {y.shape} do not fit along axes={axes}")
    rest_x = [i for i in range(x.ndim) if i not in of_x]
    rest_y = [i for i in range(y.ndim) if i not in of_y]
    shape = (*(x.shape[i] for i in rest_x), *(y.shape[i] for i in rest_y))
    inner = math.prod(x.shape[i] for i in of_x)
    left = reshape(transpose(x, [*rest_x, *of_x]), (math.prod(x.shape[i] for i in rest_x), inner))
    right = reshape(transpose(y, [*of_y, *rest_y]), (inner, math.prod(y.shape[i] for i in rest_y)))
    return _result(reshaped(product_of_matrices(left, right), shape), a, b)


def inner(a: Any, b: Any) -> Any:
    """The sum of products over the last axes."""
    if is_number(a) or is_number(b) or not operand(a).ndim or not operand(b).ndim:
        return multiply(a, b)
    return tensordot(a, b, ([-1], [-1]))


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """The products of all elements of a, by rows, with all of b, by columns."""
    x, y = given(a), given(b)
    return into(multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size))), out)


def vdot(a: Any, b: Any) -> Any:
    """The sum of products of two arrays, flattened."""
    x, y = given(a), given(b)
    return tensordot(reshape(x, (x.size,)), reshape(y, (y.size,)), 1)


def kron(a: Any, b: Any) -> Any:
    """The Kronecker product: b times each element of a."""
    x, y = given(a), given(b)
    rank = max(x.ndim, y.ndim)
    x, y = (reshaped(v, (1,) * (rank - v.ndim) + v.shape) for v in (x, y))
    left = reshape(x, tuple(m for n in x.shape for m in (n, 1)))
    right = reshape(y, tuple(m for n in y.shape for m in (1, n)))
    return reshaped(multiply(left, right), tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, out: Any = None) -> Any:
    """The sum of the elements of a diagonal."""
    a = given(a)
    if a.ndim < 2:
        raise ValueError("mx.np.trace: diag requires an array of at least two dimensions")
    return into(sum_of(diagonal(a, offset, axis1, axis2), -1), out)


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The vector products of vectors of three elements, or of two, of which only the third element is returned."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promoted([a, b])
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError("incompatible dimensions for cross product\n(dimension must be 2 or 3)")

    def product(i: int, j: int) -> Any:
        """x[i] * y[j]; None if a vector has no third element, which is then 0."""
        return x[..., i] * y[..., j] if i < x.shape[-1] and j < y.shape[-1] else None

    def minor(i: int, j: int) -> Any:
        first, second = product(i, j), product(j, i)
        if second is None:
            return first
        return -second if first is None else first - second

    last = minor(0, 1)
    if x.shape[-1] == y.shape[-1] == 2:
        return last
    return moveaxis(stack([minor(1, 2), minor(2, 0), last], -1), -1, axisc)
