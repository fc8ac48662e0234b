"""``mx.np.linalg``: linear algebra by LAPACK, with gradients. Matrices are the last two axes, others are a batch.

Integers are computed in float32.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import functools
import math
import warnings
from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol
from hybridc.array.functions import function
from hybridc.dialects.numpy_rules import INT64
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.ground.absent import absent as _absent
from hybridc.np.apply import cast, dtype_of, into, reshaped
from hybridc.np.by_element import absolute, greater, not_equal, power, sqrt
from hybridc.np.making import eye
from hybridc.np.reducing import axes_of, given
from hybridc.np.reducing import max as max_of
from hybridc.np.reducing import min as min_of
from hybridc.np.reducing import sum as sum_of
from hybridc.np.shaping import broadcast_to, concatenate, promoted, squeeze, swapaxes, transpose
from hybridc.np.shaping import reshape as reshape_to
from hybridc.np.sums_of_products import dot, matmul

__all__ = [
    "cholesky",
    "cond",
    "det",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "tensorinv",
    "tensorsolve",
]


def _floats(first: Any, *others: Any) -> list[Any]:
    """Arrays in a common dtype, of floats."""
    found = promoted([first, *others]) if others else [given(first)]
    return [x if is_float(dtype_of(x)) else cast(x, "float32") for x in found]


def _single(y: Any, a: Any) -> Any:
    """A number for each matrix of a; of the one matrix with the shape ()."""
    return reshaped(y, a.shape[:-2])


# --- factors, inverses, determinants -----------------------------------------------------------------------------


def cholesky(a: Any) -> Any:
    """The lower triangular L with A = L Lᵀ, of symmetric positive definite matrices; their lower triangle is read."""
    return function("linalg.potrf")(*_floats(a))


def qr(a: Any, mode: str = "reduced") -> Any:
    """Q with orthonormal columns and the upper triangular R, where A = Q R; R alone with ``mode="r"``."""
    if mode not in ("reduced", "r"):
        raise NotImplementedError(f"mx.np.linalg.qr: mode={mode!r} is not supported; use 'reduced' or 'r'")
    (a,) = _floats(a)
    _require_matrices("qr", a)
    rows, columns = a.shape[-2:]
    left = a[..., :rows] if columns > rows else a
    q, r = (swapaxes(x, -1, -2) for x in function("linalg.gelqf")(swapaxes(left, -1, -2)))
    if columns > rows:
        r = concatenate([r, matmul(swapaxes(q, -1, -2), a[..., rows:])], -1)
    return r if mode == "r" else (q, r)


def svd(a: Any) -> Any:
    """U, L and V, where A = U diag(L) V: singular vectors as columns and rows, values in descending order."""
    # COMPAT(mxnet): there a matrix must not have more rows than columns.
    return tuple(function("_svd")(*_floats(a)))


def eigh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, in ascending order, and the eigenvectors as columns."""
    vectors, values = function("linalg.syevd")(_triangle_of("eigh", a, UPLO))
    return values, swapaxes(vectors, -1, -2)


def eigvalsh(a: Any, UPLO: str = "L") -> Any:
    """The eigenvalues of symmetric matrices, in ascending order."""
    # COMPAT(mxnet): there the gradient is 0.
    return function("linalg.syevd")(_triangle_of("eigvalsh", a, UPLO))[1]


def _triangle_of(name: str, a: Any, UPLO: str) -> Any:
    """Matrices whose lower triangle is the one to be read."""
    if UPLO not in ("L", "U"):
        raise ValueError(f"mx.np.linalg.{name}: UPLO argument must be 'L' or 'U', got {UPLO!r}")
    (a,) = _floats(a)
    return a if UPLO == "L" else swapaxes(a, -1, -2)


def eig(a: Any) -> Any:
    """The eigenvalues of square matrices, which must be real, and the eigenvectors as columns."""
    return tuple(function("_eig")(*_floats(a)))


def eigvals(a: Any) -> Any:
    """The eigenvalues of square matrices, which must be real."""
    return eig(a)[0]


def det(a: Any) -> Any:
    """The determinants of square matrices."""
    (a,) = _floats(a)
    return _single(function("linalg.det")(a), a)


def slogdet(a: Any) -> Any:
    """The signs of the determinants, and the logarithms of their absolute values."""
    (a,) = _floats(a)
    sign, logarithm = function("linalg.slogdet")(a)
    return _single(sign, a), _single(logarithm, a)


def inv(a: Any) -> Any:
    """The inverses of square matrices."""
    return function("linalg.inverse")(*_floats(a))


def pinv(a: Any, rcond: Any = 1e-15, hermitian: bool = False) -> Any:
    """The pseudo-inverses; singular values that are at most ``rcond`` times the largest count as 0."""
    (a,) = _floats(a)
    if hermitian:
        a = function("_triangle")(a) + swapaxes(function("_triangle")(a, k=-1), -1, -2)
    if hasattr(rcond, "shape"):
        if rcond.size != 1 or is_symbol(rcond):
            raise NotImplementedError("mx.np.linalg.pinv: rcond is a number, the same for all matrices")
        rcond = float(rcond)
    return function("_pinv")(a, rcond=rcond)


def _require_matrices(name: str, a: Any) -> None:
    if a.ndim < 2:
        raise MXNetError(f"mx.np.linalg.{name}: the array has {a.ndim} axes; it must have two at least")


# --- equations -----------------------------------------------------------------------------------------------------


def solve(a: Any, b: Any) -> Any:
    """The x of a x = b, where b is a vector, or a matrix of as many rows, for each matrix of a."""
    a, b = _floats(a, b)
    _require_matrices("solve", a)
    is_vector = b.ndim == a.ndim - 1
    if is_vector:
        b = reshape_to(b, (*b.shape, 1))
    lead = onp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (broadcast_to(x, (*lead, *x.shape[-2:])) if x.shape[:-2] != lead else x for x in (a, b))
    x = function("_solve")(a, b)
    return reshaped(x, x.shape[:-1]) if is_vector else x


def lstsq(a: Any, b: Any, rcond: Any = "warn") -> Any:
    """The x of least norm for which ‖a x - b‖ is least; ‖a x - b‖², the rank of a, and its singular values.

    ``rcond`` is the share of the largest singular value up to which others count as 0: by default the precision of the
    dtype, and with None that times the larger size of a. Only x has a gradient.
    """
    a, b = _floats(a, b)
    _require_matrices("lstsq", a)
    if b.ndim not in (1, 2):
        raise MXNetError(f"mx.np.linalg.lstsq: b has {b.ndim} axes; it must be a vector or a matrix")
    if rcond == "warn":
        warnings.warn(
            "`rcond` parameter will change to the default of machine precision times ``max(M, N)`` where M and N are "
            "the input matrix dimensions. Pass rcond=None to use it, or rcond=-1 for the precision alone.",
            FutureWarning,
            stacklevel=2,
        )
        rcond = float(onp.finfo(dtype_of(a)).eps)
    elif rcond is not None and rcond < 0:
        rcond = float(onp.finfo(dtype_of(a)).eps)
    columns = b if b.ndim == 2 else reshape_to(b, (b.shape[0], 1))
    x, residuals, rank, values = function("_lstsq")(a, columns, rcond=-1.0 if rcond is None else float(rcond))
    if not is_symbol(rank) and residuals.size and rank.item() < a.shape[1]:
        residuals = residuals[:0]
    return (x if b.ndim == 2 else reshaped(x, (x.shape[0],))), residuals, rank, values


def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of a for tensordot over its first ``ind`` axes."""
    if ind <= 0:
        raise ValueError("Invalid ind argument: it must be positive")
    (a,) = _floats(a)
    before, after = a.shape[:ind], a.shape[ind:]
    matrix = reshape_to(a, (math.prod(before), math.prod(after)))
    return reshape_to(inv(matrix), (*after, *before))


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The x for which tensordot(a, x, x.ndim) is b; ``axes`` of a are moved to its end before."""
    a, b = _floats(a, b)
    if axes is not None:
        behind = axes_of("linalg.tensorsolve", axes, a.ndim)
        a = transpose(a, [*(i for i in range(a.ndim) if i not in behind), *behind])
    shape = a.shape[b.ndim :]
    size = math.prod(shape)
    return reshape_to(solve(reshape_to(a, (b.size, size)), reshape_to(b, (b.size,))), shape)


# --- products ------------------------------------------------------------------------------------------------------


def matrix_power(a: Any, n: int) -> Any:
    """Square matrices to a whole power; of the inverses, if it is negative."""
    a = given(a)
    _require_matrices("matrix_power", a)
    if not isinstance(n, int | onp.integer):
        raise TypeError("exponent must be an integer")
    if n == 0:
        return broadcast_to(eye(a.shape[-1], dtype=dtype_of(a)), a.shape)
    square, result = inv(a) if n < 0 else a, None
    left = abs(int(n))
    while left:
        if left % 2:
            result = square if result is None else matmul(result, square)
        left //= 2
        square = matmul(square, square) if left else square
    return result


def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """The product of several matrices in the order that takes the fewest multiplications; the ends may be vectors."""
    factors = [given(a) for a in arrays]
    if len(factors) < 2:
        raise ValueError("Expecting at least two arrays.")
    is_row, is_column = factors[0].ndim == 1, factors[-1].ndim == 1
    if is_row:
        factors[0] = reshape_to(factors[0], (1, factors[0].size))
    if is_column:
        factors[-1] = reshape_to(factors[-1], (factors[-1].size, 1))
    for x in factors:
        if x.ndim != 2:
            raise MXNetError(f"mx.np.linalg.multi_dot: {x.ndim}-dimensional array given. Array must be two-dimensional")
    sizes = [factors[0].shape[0], *(x.shape[1] for x in factors)]

    @functools.cache
    def cheapest(i: int, j: int) -> tuple[int, int]:
        """The multiplications of the product of the factors i to j, and before which factor to divide it."""
        if i == j:
            return 0, i
        costs = ((cheapest(i, k - 1)[0] + cheapest(k, j)[0] + sizes[i] * sizes[k] * sizes[j + 1], k)
                 for k in range(i + 1, j + 1))  # fmt: skip
        return min(costs)

    def product(i: int, j: int) -> Any:
        k = cheapest(i, j)[1]
        return factors[i] if i == j else dot(product(i, k - 1), product(k, j))

    y = product(0, len(factors) - 1)
    shape = (*(() if is_row else y.shape[:1]), *(() if is_column else y.shape[1:]))
    return into(reshaped(y, shape), out)


# --- norms -----------------------------------------------------------------------------------------------------------


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """The norm of vectors (along one axis) or matrices (along two); by default the root of the sum of squares.

    ``ord`` of vectors is inf, -inf, 0 (how many are not 0) or a power; of matrices 'fro', 'nuc', inf, -inf, 1, -1, 2
    or -2.
    """
    (x,) = _floats(x)
    if ord in ("inf", "-inf"):
        ord = float(ord)
    if axis is None and ord is None:
        return _root_of_squares(x, tuple(range(x.ndim)), keepdims)
    axes = axes_of("linalg.norm", axis, x.ndim)
    if len(axes) == 1:
        return _of_vectors(x, ord, axes[0], keepdims)
    if len(axes) == 2:
        return _of_matrices(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _root_of_squares(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The square root of the sum of squares."""
    if not axes:
        return absolute(x)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    if 0 in x.shape:
        return sqrt(sum_of(x * x, axes, keepdims=keepdims))
    y = function("norm")(x, ord=2, axis=axes, keepdims=True)
    return reshaped(y, shape if keepdims else tuple(n for i, n in enumerate(x.shape) if i not in axes))


def _of_vectors(x: Any, ord: Any, axis: int, keepdims: bool) -> Any:
    if ord is None or ord == 2:
        return _root_of_squares(x, (axis,), keepdims)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    if ord == math.inf:
        return max_of(absolute(x), axis, keepdims)
    if ord == -math.inf:
        return min_of(absolute(x), axis, keepdims)
    if ord == 0:
        return sum_of(cast(not_equal(x, 0), x.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return sum_of(absolute(x), axis, keepdims=keepdims)
    return power(sum_of(power(absolute(x), float(ord)), axis, keepdims=keepdims), 1.0 / ord)


def _of_matrices(x: Any, ord: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    row, column = axes
    if row == column:
        raise ValueError("Duplicate axes given.")
    if ord in (None, "fro", "f"):
        return _root_of_squares(x, axes, keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = (row, column) if abs(ord) == 1 else (column, row)
        sums = sum_of(absolute(x), inner, keepdims=True)
        y = (max_of if ord > 0 else min_of)(sums, outer, keepdims=True)
    elif ord in ("nuc", 2, -2):
        values = svd(transpose(x, [*(i for i in range(x.ndim) if i not in axes), row, column]))[1]
        y = sum_of(values, -1) if ord == "nuc" else max_of(values, -1) if ord == 2 else min_of(values, -1)
        y = reshaped(y, tuple(1 if i in axes else n for i, n in enumerate(x.shape)))
    else:
        raise ValueError("Invalid norm order for matrices.")
    return y if keepdims else squeeze(y, axes)


def cond(x: Any, p: Any = None) -> Any:
    """The condition numbers: ‖x‖ ‖x⁻¹‖ by a norm of matrices, by default the ratio of extreme singular values."""
    (x,) = _floats(x)
    _require_matrices("cond", x)
    if p in (None, 2, -2):
        values = svd(x)[1]
        first, last = values[..., 0], values[..., -1]
        return last / first if p == -2 else first / last
    return norm(x, p, (-2, -1)) * norm(inv(x), p, (-2, -1))


def matrix_rank(A: Any, tol: Any = None, hermitian: bool = False) -> Any:
    """How many singular values are greater than ``tol``, by default the precision of the largest; int64."""
    (x,) = _floats(A)
    if x.ndim < 2:
        return cast(max_of(not_equal(x, 0)) if x.size else sum_of(x), INT64)
    values = absolute(eigvalsh(x)) if hermitian else svd(x)[1]
    if not values.shape[-1]:
        return sum_of(cast(values, INT64), -1)
    if tol is None:
        tol = max_of(values, -1, keepdims=True) * (max(x.shape[-2:]) * float(onp.finfo(dtype_of(x)).eps))
    elif hasattr(tol, "shape") and tol.ndim:
        tol = reshape_to(given(tol), (*tol.shape, 1))
    return sum_of(greater(values, tol), -1)


def __getattr__(name: str) -> Any:
    raise _absent("mx.np.linalg", name, "function", __all__)


def __dir__() -> list[str]:
    return list(__all__)
