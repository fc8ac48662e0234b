"""``mx.nd.sparse``: csr and row_sparse arrays, how they are made, and the operators that compute on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from hybridc.array.dispatch import placed
from hybridc.array.functions import function as _function
from hybridc.array.ndarray import NDArray
from hybridc.array.sparse import BaseSparseNDArray, CSRNDArray, RowSparseNDArray, wrap_sparse
from hybridc.context import Context, check_device
from hybridc.errors import UnsupportedError
from hybridc.ground.absent import absent as _absent
from hybridc.sparse_storage import INT64, CsrStorage, RowSparseStorage, is_scipy
from hybridc.sparse_storage import zeros as _no_values

#: The operators that MXNet has here, too; those of ``mx.nd`` take sparse arrays just as well.
_NAMES = """
    ElementWiseSum Embedding FullyConnected LinearRegressionOutput LogisticRegressionOutput MAERegressionOutput abs
    adam_update add add_n arccos arccosh arcsin arcsinh arctan arctanh broadcast_add broadcast_div broadcast_minus
    broadcast_mul broadcast_plus broadcast_sub cast_storage cbrt ceil clip concat cos cosh degrees divide dot
    elemwise_add elemwise_div elemwise_mul elemwise_sub exp expm1 fix floor ftrl_update gamma gammaln log log10 log1p
    log2 make_loss mean multiply negative norm radians relu rint round rsqrt sgd_mom_update sgd_update sigmoid sign
    sin sinh slice sqrt square stop_gradient subtract sum tan tanh trunc where zeros_like
"""
OPERATORS = frozenset(_NAMES.split())
#: Operators whose names are others in ``mx.nd``.
RENAMED = {"retain": "sparse_retain", "adagrad_update": "sparse_adagrad_update"}

__all__ = [
    "BaseSparseNDArray",
    "CSRNDArray",
    "RowSparseNDArray",
    "array",
    "csr_matrix",
    "empty",
    "row_sparse_array",
    "zeros",
]

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []


def csr_matrix(
    arg1: Any, shape: Sequence[int] | None = None, ctx: Context | None = None, dtype: Any = None
) -> CSRNDArray:
    """A matrix in compressed rows.

    Parameters
    ----------
    arg1:
        A dense matrix; ``(rows, columns)`` for no values; ``(data, indices, indptr)``; ``(data, (rows, columns))``,
        where values at one place are added; a matrix of SciPy; or another csr array.
    shape:
        The sizes; None for those that follow. A ValueError is raised where they are others than the source's, or
        none follow.
    ctx:
        The device, which must be a CPU; None for ``mx.cpu()``.
    dtype:
        The element type; None for that of the source, or float32.

    Examples
    --------
    >>> x = mx.nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 2], [0, 1, 3]), shape=(2, 3))
    >>> print(x.asnumpy())
    [[0. 1. 0.]
     [2. 0. 3.]]
    >>> x.data.tolist(), x.indices.tolist(), x.indptr.tolist()
    ([1.0, 2.0, 3.0], [1, 0, 2], [0, 1, 3])
    """
    _require_cpu(ctx)
    if not isinstance(arg1, tuple):
        if isinstance(arg1, RowSparseNDArray):
            raise ValueError("csr_matrix: a row_sparse array does not become csr; use .tostype('default') first")
        if isinstance(arg1, CSRNDArray) or is_scipy(arg1):
            made = _checked(array(arg1, dtype=dtype), shape)
        else:
            made = _checked(NDArray(_values(arg1, dtype)).tostype("csr"), shape)
        assert isinstance(made, CSRNDArray)
        return made
    given: tuple[Any, ...] = arg1  # pyright: ignore[reportUnknownVariableType]
    if len(given) == 2 and isinstance(given[1], tuple):
        values, (rows, columns) = _values(given[0], dtype), map(_indices, cast("Any", given[1]))
        sizes = None if shape is None else (int(shape[0]), int(shape[1]))
        return CSRNDArray(CsrStorage.of_coordinates(values, rows, columns, sizes))
    if len(given) == 2:
        return _checked(zeros("csr", given, dtype=dtype), shape)
    if len(given) != 3:
        raise ValueError(f"csr_matrix: a tuple has 2 or 3 elements, got {len(given)}")
    data, indices, indptr = _values(given[0], dtype), _indices(given[1]), _indices(given[2])
    if shape is None:
        if not len(indices):
            raise ValueError("csr_matrix: without values the shape does not follow; give shape=")
        shape = len(indptr) - 1, int(indices.max()) + 1
    if data.ndim != 1 or indices.ndim != 1 or indptr.ndim != 1 or len(shape) != 2 or 0 in shape:
        raise ValueError(f"csr_matrix: data, indices and indptr must be vectors and shape two sizes, got {shape}")
    made = CSRNDArray(CsrStorage(tuple(map(int, shape)), data, indices, indptr))
    made.check_format(False)
    return made


def row_sparse_array(
    arg1: Any, shape: Sequence[int] | None = None, ctx: Context | None = None, dtype: Any = None
) -> RowSparseNDArray:
    """An array of which few rows are not zero.

    Parameters
    ----------
    arg1:
        A dense array; ``(rows, columns, …)`` for no values; ``(data, indices)``, rows and their numbers; or another
        row_sparse array.
    shape:
        The sizes; None for those that follow. A ValueError is raised where they are others than the source's, or
        none follow.
    ctx:
        The device, which must be a CPU; None for ``mx.cpu()``.
    dtype:
        The element type; None for that of the source, or float32.

    Examples
    --------
    >>> x = mx.nd.sparse.row_sparse_array(([[1, 2]], [3]), shape=(4, 2))
    >>> print(x.asnumpy())
    [[0. 0.]
     [0. 0.]
     [0. 0.]
     [1. 2.]]
    """
    _require_cpu(ctx)
    if not isinstance(arg1, tuple):
        if isinstance(arg1, CSRNDArray) or is_scipy(arg1):
            raise ValueError("row_sparse_array: a csr matrix does not become a row_sparse array")
        is_sparse = isinstance(arg1, RowSparseNDArray)
        made = array(arg1, dtype=dtype) if is_sparse else NDArray(_values(arg1, dtype)).tostype("row_sparse")
        assert isinstance(made, RowSparseNDArray)
        return _checked(made, shape)
    given: tuple[Any, ...] = arg1  # pyright: ignore[reportUnknownVariableType]
    if len(given) < 2:
        raise ValueError(f"row_sparse_array: a tuple has at least 2 elements, got {len(given)}")
    if all(isinstance(x, int | np.integer) for x in given):
        return _checked(zeros("row_sparse", given, dtype=dtype), shape)
    if len(given) != 2:
        raise ValueError(f"row_sparse_array: expected (data, indices) or sizes, got a tuple of {len(given)}")
    data, indices = _values(given[0], dtype), _indices(given[1])
    if shape is None:
        if not len(indices):
            raise ValueError("row_sparse_array: without values the shape does not follow; give shape=")
        shape = int(indices.max()) + 1, *data.shape[1:]
    if data.ndim != len(shape) or indices.ndim != 1 or 0 in tuple(shape)[1:]:
        raise ValueError(f"row_sparse_array: values of shape {data.shape} do not fit shape {tuple(shape)}")
    made = RowSparseNDArray(RowSparseStorage(tuple(map(int, shape)), data, indices))
    made.check_format(False)
    return made


def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> BaseSparseNDArray:
    """A sparse array with the values of another one, or of a matrix of SciPy.

    Parameters
    ----------
    source_array:
        The array; a ValueError is raised for a dense one.
    ctx:
        The device, which must be a CPU; None for ``mx.cpu()``.
    dtype:
        The element type; None for that of the source.
    """
    _require_cpu(ctx)
    if isinstance(source_array, BaseSparseNDArray):
        storage = source_array._data
        return wrap_sparse(storage.copy() if dtype is None else storage.astype(dtype))
    if is_scipy(source_array):
        made = _of_scipy(source_array)
        return made if dtype is None else wrap_sparse(made._data.astype(dtype))
    way = ".tostype(…)" if isinstance(source_array, NDArray) else "mx.nd.array"
    raise ValueError(f"sparse.array: the source must be sparse, got {type(source_array).__name__}; use {way}")


def zeros(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None, **_: Any) -> Any:
    """An array without values of a storage type; for ``'default'`` a dense one of zeros.

    Parameters
    ----------
    stype:
        ``'csr'``, ``'row_sparse'`` or ``'default'``.
    shape:
        The sizes.
    ctx:
        The device, which must be a CPU; None for ``mx.cpu()``.
    dtype:
        The element type; None for float32.

    Examples
    --------
    >>> x = mx.nd.sparse.zeros("csr", (1000, 1000))
    >>> x.shape, x.data.size
    ((1000, 1000), 0)
    """
    if stype == "default":
        return placed(NDArray(cast("Any", np.zeros(shape, dtype or "float32"))), ctx)
    _require_cpu(ctx)
    if stype not in ("csr", "row_sparse"):
        raise ValueError(f"unknown storage type {stype!r}; there are 'default', 'csr' and 'row_sparse'")
    sizes: tuple[int, ...] = (shape,) if isinstance(shape, int) else tuple(shape)
    return wrap_sparse(_no_values(stype, sizes, np.dtype(dtype or "float32")))


def empty(stype: str, shape: Any, ctx: Context | None = None, dtype: Any = None) -> Any:
    """As :func:`zeros`.

    Parameters
    ----------
    stype, shape, ctx, dtype:
        As of :func:`zeros`.
    """
    return zeros(stype, shape, ctx, dtype)


def _require_cpu(ctx: Context | None) -> None:
    if ctx is not None and check_device(ctx).device_type == "gpu":
        raise UnsupportedError("sparse arrays are on the CPU alone; use ctx=mx.cpu()")


def _plain(x: Any) -> Any:
    return x.asnumpy() if isinstance(x, NDArray) else x


def _indices(x: Any) -> Any:
    return np.asarray(_plain(x), INT64)


def _values(source: Any, dtype: Any) -> Any:
    """Values as a NumPy array of their own: in the source's dtype if it has one, else in float32."""
    plain: Any = _plain(source)
    own = cast("Any", plain).dtype if isinstance(plain, np.ndarray) else "float32"
    return np.array(plain, own if dtype is None else dtype)


def _of_scipy(matrix: Any) -> CSRNDArray:
    """A copy of a matrix of SciPy: indices rise, values at one place are added."""
    rows = matrix.tocsr(copy=True)
    rows.sum_duplicates()
    return CSRNDArray(CsrStorage.of_matrix(rows))


def _checked(made: Any, shape: Sequence[int] | None) -> Any:
    if shape is not None and tuple(shape) != made.shape:
        raise ValueError(f"the source has shape {made.shape}, and shape={tuple(shape)} is asked for")
    return made


def __getattr__(name: str) -> Any:
    if name in OPERATORS or name in RENAMED:
        return _function(RENAMED.get(name, name))
    raise _absent("mx.nd.sparse", name, "attribute", [*__all__, *OPERATORS, *RENAMED])


def __dir__() -> list[str]:
    return sorted([*__all__, *OPERATORS, *RENAMED])
