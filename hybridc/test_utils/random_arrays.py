"""Random arrays, shapes and matrices; like MXNet's they are drawn from ``np.random``, so ``np.random.seed`` counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import CheckError
from hybridc.sparse_storage import scipy_sparse
from hybridc.test_utils.tolerances import default_context, default_dtype

Array = npt.NDArray[Any]

# --- shapes ----------------------------------------------------------------------------------------------------


def rand_shape_nd(num_dim: int, dim: int = 10, allow_zero_size: bool = False) -> Shape:
    """A random shape of ``num_dim`` sizes from 1 (or 0) to ``dim``.

    Parameters
    ----------
    num_dim:
        How many sizes.
    dim:
        The largest size.
    allow_zero_size:
        Whether sizes may be 0, too.
    """
    sizes = np.random.randint(0 if allow_zero_size else 1, dim + 1, size=num_dim)
    return tuple(int(n) for n in sizes)


def rand_shape_2d(dim0: int = 10, dim1: int = 10, allow_zero_size: bool = False) -> Shape:
    """A random shape of two sizes, up to ``dim0`` and ``dim1``.

    Parameters
    ----------
    allow_zero_size:
        Whether sizes may be 0, too.
    """
    return tuple(rand_shape_nd(1, d, allow_zero_size)[0] for d in (dim0, dim1))


def rand_shape_3d(dim0: int = 10, dim1: int = 10, dim2: int = 10, allow_zero_size: bool = False) -> Shape:
    """A random shape of three sizes, up to ``dim0``, ``dim1`` and ``dim2``.

    Parameters
    ----------
    allow_zero_size:
        Whether sizes may be 0, too.
    """
    return tuple(rand_shape_nd(1, d, allow_zero_size)[0] for d in (dim0, dim1, dim2))


def rand_coord_2d(x_low: int, x_high: int, y_low: int, y_high: int) -> tuple[np.int64, np.int64]:
    """A random place: x from ``x_low`` up to but without ``x_high``, and y from ``y_low`` to ``y_high`` likewise."""
    x: Any = np.random.randint(x_low, x_high, dtype=np.int64)
    y: Any = np.random.randint(y_low, y_high, dtype=np.int64)
    return x, y


# --- arrays ----------------------------------------------------------------------------------------------------


def random_arrays(*shapes: Shape) -> Any:
    """Arrays of NumPy of these shapes, of the normal distribution; one shape gives one array, several a list."""
    dtype = default_dtype()
    arrays = [np.asarray(np.random.randn(*s)).astype(dtype) for s in shapes]
    return arrays[0] if len(arrays) == 1 else arrays


def random_uniform_arrays(*shapes: Shape, **kwargs: Any) -> list[Array]:
    """Arrays of NumPy of these shapes, uniform from ``low=0.0`` to ``high=1.0``, of ``dtype=float32``."""
    low, high = kwargs.pop("low", 0.0), kwargs.pop("high", 1.0)
    dtype = kwargs.pop("dtype", default_dtype())
    if kwargs:
        raise TypeError(f"Got unexpected argument/s : {', '.join(kwargs)}; there are low, high and dtype")
    return [np.asarray(np.random.uniform(low, high, size=s)).astype(dtype) for s in shapes]


def random_sample(population: Sequence[Any], k: int) -> Any:
    """``k`` different elements of the sequence ``population``, in random order."""
    if not 0 <= k <= len(population):
        raise AssertionError(f"random_sample: k must be from 0 to {len(population)}, got {k}")
    shuffled: Any = population[:]
    np.random.shuffle(shuffled)
    return shuffled[:k]


def rand_ndarray(
    shape: Shape,
    stype: str = "default",
    density: float | None = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    distribution: str | None = None,
    ctx: Context | None = None,
) -> NDArray:
    """An array of random numbers: of the normal distribution, or as :func:`rand_sparse_ndarray` makes it.

    Parameters
    ----------
    shape:
        The shape.
    stype:
        The storage type: ``"default"`` (dense), ``"csr"`` or ``"row_sparse"``.
    density, modifier_func, shuffle_csr_indices, distribution:
        As for :func:`rand_sparse_ndarray`, of sparse arrays.
    dtype:
        The dtype; None is float32.
    ctx:
        The device; None is the default one.
    """
    if stype == "default":
        values = random_arrays(shape)
        return nd.array(values, ctx=ctx or default_context(), dtype=values.dtype if dtype is None else dtype)
    made, _ = rand_sparse_ndarray(
        shape,
        stype,
        density,
        dtype,
        distribution,
        modifier_func=modifier_func,
        shuffle_csr_indices=shuffle_csr_indices,
        ctx=ctx,
    )
    return made


def create_vector(size: int, dtype: Any = np.int64) -> NDArray:
    """The numbers from 0 to ``size - 1``, in ``dtype``."""
    return nd.arange(0, size, dtype=dtype)


def create_2d_tensor(rows: int, columns: int, dtype: Any = np.int64) -> NDArray:
    """A matrix of ``rows`` and ``columns`` in ``dtype``, whose elements are the numbers of their rows."""
    return nd.broadcast_to(nd.arange(0, rows, dtype=dtype).reshape((rows, 1)), shape=(rows, columns))


def get_identity_mat(size: int) -> NDArray:
    """The identity matrix of ``size`` rows."""
    return nd.eye(size)


def get_identity_mat_batch(size: int) -> NDArray:
    """Two identity matrices of ``size`` rows: an array (2, size, size)."""
    return nd.stack(nd.eye(size), nd.eye(size))


# --- sparse arrays ---------------------------------------------------------------------------------------------


def rand_sparse_ndarray(
    shape: Shape,
    stype: str,
    density: float | None = None,
    dtype: Any = None,
    distribution: str | None = None,
    data_init: float | None = None,
    rsp_indices: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
    ctx: Context | None = None,  # noqa: ARG001  (sparse arrays are on the CPU)
) -> tuple[Any, tuple[Any, ...]]:
    """A sparse array of random numbers from 0 to 1, and its parts.

    Of a csr matrix the parts are indptr, indices and data, of a row_sparse array NumPy's data and indices.

    Parameters
    ----------
    shape:
        The shape; of a csr matrix two sizes.
    stype:
        The storage type, ``"csr"`` or ``"row_sparse"``; others are a CheckError.
    density:
        The share of elements, or of rows, that are stored, 0 to 1; None draws it.
    dtype:
        The dtype; None is float32.
    distribution:
        ``"uniform"``, or None for that; or ``"powerlaw"``, for csr: a row has twice as many elements as the one
        before.
    data_init:
        The value of all stored elements; None for random ones.
    rsp_indices:
        The rows that a row_sparse array stores; None draws them.
    modifier_func:
        A function of a number, which changes each value; None changes nothing.
    shuffle_csr_indices:
        Whether the columns of each row are in random order.
    ctx:
        Accepted for MXNet's API: sparse arrays are on the CPU.
    """
    density = np.random.rand() if density is None else density
    dtype = default_dtype() if dtype is None else dtype
    distribution = distribution or "uniform"
    if stype == "row_sparse":
        if distribution != "uniform":
            raise CheckError(f"rand_sparse_ndarray: distribution {distribution!r} is for csr matrices")
        rows = np.flatnonzero(np.random.rand(shape[0]) < density) if rsp_indices is None else np.asarray(rsp_indices)
        values = _values((len(rows), *shape[1:]), data_init, modifier_func).astype(dtype)
        return nd.sparse.row_sparse_array((values, rows), shape=tuple(shape)), (values, rows)
    if stype != "csr":
        raise CheckError(f"rand_sparse_ndarray: unknown storage type {stype!r}; there are 'csr' and 'row_sparse'")
    if distribution not in ("uniform", "powerlaw"):
        raise CheckError(f"rand_sparse_ndarray: unknown distribution {distribution!r}; there are 'uniform', 'powerlaw'")
    stored = _powerlaw(shape, density) if distribution == "powerlaw" else np.random.rand(*shape) < density
    matrix: Any = scipy_sparse().csr_matrix(stored.astype(dtype))
    matrix.data = _values(matrix.data.shape, data_init, modifier_func).astype(dtype)
    if shuffle_csr_indices:
        shuffle_csr_column_indices(matrix)
    made = nd.sparse.csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=tuple(shape), dtype=dtype)
    return made, (made.indptr, made.indices, made.data)


def _values(shape: Shape, data_init: float | None, modifier_func: Callable[[Any], Any] | None) -> Array:
    values = np.random.rand(*shape)
    if data_init is not None:
        values[...] = data_init
    return values if modifier_func is None else np.vectorize(modifier_func, otypes=[values.dtype])(values)


def _powerlaw(shape: Shape, density: float) -> Array:
    """Which elements of a matrix are stored: one in the first row, in each other twice as many, while some are left."""
    rows, columns = shape
    left = int(rows * columns * density)
    if left < rows:
        raise ValueError(f"a matrix of {rows} rows with density {density} has no element for each row")
    counts = np.ones(rows, int)
    left -= rows
    for row in range(1, rows):
        more = min(left, min(2**row, columns) - 1)
        counts[row] += more
        left -= more
    for row in range(rows):
        more = min(left, columns - counts[row])
        counts[row] += more
        left -= more
    return np.arange(columns) < counts[:, None]


def create_sparse_array(
    shape: Shape,
    stype: str,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    density: float = 0.5,
    shuffle_csr_indices: bool = False,
) -> Any:
    """As :func:`rand_sparse_ndarray`, the array alone.

    Parameters
    ----------
    shape:
        The shape; of a csr matrix two sizes.
    stype:
        The storage type, ``"csr"`` or ``"row_sparse"``; others are a CheckError.
    data_init:
        The value of all stored elements; None for random ones.
    rsp_indices:
        The rows that a row_sparse array stores; None draws them.
    dtype:
        The dtype; None is float32.
    modifier_func:
        A function of a number, which changes each value; None changes nothing.
    density:
        The share of elements, or of rows, that are stored, 0 to 1; None draws it.
    shuffle_csr_indices:
        Whether the columns of each row are in random order.
    """
    rows = None if rsp_indices is None or stype != "row_sparse" else np.unique(np.asarray(rsp_indices, np.int64))
    given: dict[str, Any] = {"data_init": data_init, "rsp_indices": rows, "modifier_func": modifier_func}
    return rand_sparse_ndarray(shape, stype, density, dtype, shuffle_csr_indices=shuffle_csr_indices, **given)[0]


def create_sparse_array_zd(
    shape: Shape,
    stype: str,
    density: float,
    data_init: float | None = None,
    rsp_indices: Any = None,
    dtype: Any = None,
    modifier_func: Callable[[Any], Any] | None = None,
    shuffle_csr_indices: bool = False,
) -> Any:
    """As :func:`create_sparse_array`; with a density of 0 nothing is stored.

    Parameters
    ----------
    shape:
        The shape; of a csr matrix two sizes.
    stype:
        The storage type, ``"csr"`` or ``"row_sparse"``; others are a CheckError.
    density:
        The share of elements, or of rows, that are stored, 0 to 1; None draws it.
    data_init:
        The value of all stored elements; None for random ones.
    rsp_indices:
        The rows that a row_sparse array stores; None draws them.
    dtype:
        The dtype; None is float32.
    modifier_func:
        A function of a number, which changes each value; None changes nothing.
    shuffle_csr_indices:
        Whether the columns of each row are in random order.
    """
    rows = () if stype == "row_sparse" and density == 0 else rsp_indices
    return create_sparse_array(shape, stype, data_init, rows, dtype, modifier_func, density, shuffle_csr_indices)


def shuffle_csr_column_indices(csr: Any) -> None:
    """Put the columns of each row of ``csr``, a matrix such as one of SciPy, in random order."""
    for start, end in zip(csr.indptr[:-1], csr.indptr[1:], strict=True):
        columns = np.array(csr.indices[start:end])
        np.random.shuffle(columns)
        csr.indices[start:end] = columns


# --- matrices --------------------------------------------------------------------------------------------------

# The most that a random similarity may stretch one direction over another.
_CONDITION = 3.0


def new_matrix_with_real_eigvals_2d(n: int) -> Array:
    """A matrix of ``n`` rows with real eigenvalues from -10 to 10, and well-conditioned eigenvectors."""
    while True:
        diagonal = np.random.uniform(-1.0, 1.0, n)
        v = np.random.uniform(-1.0, 1.0, (n, 1))
        v = v / np.linalg.norm(v)
        q = (np.eye(n) - 2 * v @ v.T) * diagonal
        if np.linalg.cond(q, 2) < _CONDITION:
            break
    values = np.random.uniform(-10.0, 10.0, n)
    return np.linalg.inv(q) @ (values[:, None] * q)


def new_matrix_with_real_eigvals_nd(shape: Shape) -> Array:
    """A stack of matrices with real eigenvalues, of ``shape`` in all."""
    return _stack(shape, new_matrix_with_real_eigvals_2d)


def new_orthonormal_matrix_2d(n: int) -> Array:
    """A matrix of ``n`` orthonormal columns."""
    x = np.random.randn(n, n)
    return np.linalg.qr(x.T @ x)[0]


def new_sym_matrix_with_real_eigvals_2d(n: int) -> Array:
    """A symmetric matrix of ``n`` rows with eigenvalues from -10 to 10."""
    q = new_orthonormal_matrix_2d(n)
    return (q.T * np.random.uniform(-10.0, 10.0, n)) @ q


def new_sym_matrix_with_real_eigvals_nd(shape: Shape) -> Array:
    """A stack of symmetric matrices, of ``shape`` in all."""
    return _stack(shape, new_sym_matrix_with_real_eigvals_2d)


def _stack(shape: Shape, matrix: Callable[[int], Array]) -> Array:
    return np.array([matrix(shape[-1]) for _ in range(int(np.prod(shape[:-2])))]).reshape(shape)
