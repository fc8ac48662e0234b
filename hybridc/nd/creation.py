"""Making arrays: from data, filled with numbers, or from other libraries without a copy."""

# pyright: reportPrivateUsage=false
# An array's buffer belongs to all of hybridc.nd.

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.array.dispatch import placed
from hybridc.array.functions import function, require_hidden
from hybridc.array.ndarray import NDArray, recorded_copy
from hybridc.context import Context, check_device
from hybridc.errors import ArgumentTypeError, CheckError, MXNetError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.hooks import HOOKS
from hybridc.ground.watches import shared
from hybridc.nd import sparse
from hybridc.sparse_storage import is_scipy

ShapeLike = int | Sequence[int]
_CUDA = 2  # as DLPack numbers devices


def _element_type(ctx: Any, dtype: Any) -> Any:
    """The dtype, float32 by default, once the device is known to exist.

    ``F.zeros(shape, dtype)`` and ``nd.zeros(shape, ctx, dtype)`` are both understood.
    """
    given: object = ctx
    if isinstance(given, str) and given.startswith(("cpu", "gpu", "cuda")):
        check_device(ctx)  # else it would be taken for a dtype
    if isinstance(given, int | np.integer):
        raise ArgumentTypeError(
            f"the second argument is a device or a dtype, got {given}; the sizes of a shape are one argument, a tuple: "
            f"(…, {given})"
        )
    if ctx is not None and not isinstance(ctx, Context) and dtype is None:
        ctx, dtype = None, ctx
    if ctx is not None:
        check_device(ctx)
    return "float32" if dtype is None else dtype


def _finish(made: Any, out: NDArray | None) -> Any:
    """The array, or copied into one of the caller's."""
    return made if out is None else made.copyto(out)


def _dimensions(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


@hides_frames
def array(source_array: Any, ctx: Context | None = None, dtype: Any = None) -> NDArray:
    """An array with the values of a list, a number, a NumPy array or an NDArray; always a copy.

    Of a sparse array, or a matrix of SciPy, it is sparse.

    Parameters
    ----------
    source_array:
        A number, a list, nested lists of one length each, a NumPy array or an NDArray.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name. None is that of an NDArray, and float32 for all else, for NumPy
        arrays of float64, too. Integers beyond its range wrap.

    Raises
    ------
    ArgumentTypeError
        The source is no array of numbers, as lists of several lengths are none.

    Examples
    --------
    >>> x = mx.nd.array([[1, 2], [3, 4]])
    >>> x.shape, x.dtype
    ((2, 2), <class 'numpy.float32'>)
    >>> (x + 1).tolist()
    [[2.0, 3.0], [4.0, 5.0]]
    >>> mx.nd.array(np.arange(3), dtype="int32").tolist()
    [0, 1, 2]
    """
    check_device(ctx)
    if (isinstance(source_array, NDArray) and source_array.stype != "default") or is_scipy(source_array):
        return sparse.array(source_array, ctx, dtype)
    if isinstance(source_array, NDArray):
        data = source_array._data if type(source_array) is NDArray else source_array.asnumpy()
        made = placed(NDArray(data.astype(data.dtype if dtype is None else dtype, order="C")), ctx)
        return recorded_copy(source_array, made)
    try:
        made = _wrapped(source_array, "float32" if dtype is None else dtype)
    except (ValueError, TypeError, OverflowError) as error:
        raise ArgumentTypeError(
            f"source_array must be array like, of numbers of {dtype or 'float32'}: {error}"
        ) from error
    return placed(NDArray(made), ctx)


def _wrapped(source: Any, dtype: Any) -> npt.NDArray[Any]:
    """A new array of numbers in a dtype; integers beyond its range wrap, as in MXNet, which NumPy 2 refuses."""
    try:
        return np.array(source, dtype=dtype, order="C")
    except OverflowError:
        return np.array(source, dtype=np.int64, order="C").astype(dtype)


@hides_frames
def from_numpy(ndarray: npt.NDArray[Any], zero_copy: bool = True) -> NDArray:
    """An array on the memory of a NumPy array, or on a copy of it.

    Parameters
    ----------
    ndarray:
        The NumPy array. Its dtype stays.
    zero_copy:
        Whether both share memory: then what is written to one is seen in the other, and a ValueError is raised for
        an array that is not C-contiguous.

    Examples
    --------
    >>> a = np.zeros(2)
    >>> x = mx.nd.from_numpy(a)
    >>> a[0] = 5
    >>> x.tolist()
    [5.0, 0.0]
    """
    if not zero_copy:
        return NDArray(ndarray.copy())
    if not ndarray.flags.c_contiguous:
        raise ValueError("from_numpy with zero_copy=True needs a C-contiguous array; use zero_copy=False")
    shared(ndarray)
    return NDArray(ndarray)


class _Capsule:
    """A DLPack capsule on the CPU, as an object of the protocol."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class _Writable:
    """The memory of an array that NumPy takes for read-only."""

    def __init__(self, data: npt.NDArray[Any]) -> None:
        self._owner = data
        interface = data.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


@hides_frames
def from_dlpack(dlpack: Any) -> NDArray:
    """An array that shares the memory of another library's tensor.

    Memory that the other library declares read-only is copied.

    Parameters
    ----------
    dlpack:
        The tensor itself, if it has ``__dlpack__`` as those of NumPy, PyTorch, JAX and CuPy, or its DLPack capsule.
        It lies on the CPU or on an NVIDIA GPU; others, and dtypes that NumPy has not, are an MXNetError.

    Examples
    --------
    >>> a = np.arange(3.0)
    >>> x = mx.nd.from_dlpack(a)
    >>> x[0] = 7
    >>> a
    array([7., 1., 2.])
    """
    capsule = dlpack
    if type(dlpack).__name__ != "PyCapsule":
        kind, number = dlpack.__dlpack_device__()
        if kind == _CUDA:
            return HOOKS.on_device().from_dlpack(dlpack, number)
        if kind not in (1, 3):  # CPU, and pinned host memory
            raise MXNetError("from_dlpack: the tensor is neither on the CPU nor on an NVIDIA GPU; copy it first")
        try:
            capsule = dlpack.__dlpack__(max_version=(1, 0))
        except TypeError:
            capsule = dlpack.__dlpack__()
    # Before version 1 of the protocol nothing was said about writing, and MXNet wrote; NumPy forbids it then.
    silent = '"dltensor"' in repr(capsule)
    try:
        data: Any = np.from_dlpack(_Capsule(capsule))
    except (BufferError, RuntimeError) as error:
        there = HOOKS.on_device().from_capsule(capsule)
        if there is not None:
            return there
        raise MXNetError(f"from_dlpack: NumPy cannot hold this tensor ({error}); give one of float32") from error
    if data.flags.writeable:
        return NDArray(data)
    return NDArray(np.asarray(_Writable(data)) if silent else data.copy())


def to_dlpack_for_read(data: NDArray) -> Any:
    """A DLPack capsule that shares the array's memory, for a library that reads it.

    Parameters
    ----------
    data:
        The array, on the CPU or a GPU. bfloat16 and floats of 8 bits on the CPU are an MXNetError.
    """
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> Any:
    """A DLPack capsule that shares the array's memory, for a library that writes to it.

    Parameters
    ----------
    data:
        As of ``to_dlpack_for_read``.
    """
    return data.to_dlpack_for_write()


@hides_frames
def empty(shape: ShapeLike, ctx: Context | None = None, dtype: Any = None, stype: str | None = None) -> NDArray:
    """An array whose values are whatever was in its memory.

    Parameters
    ----------
    shape:
        The sizes, or one size.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    stype:
        The storage type; None is ``'default'``. One of ``'csr'`` or ``'row_sparse'`` gives zeros.

    Examples
    --------
    >>> mx.nd.empty((2, 3)).shape
    (2, 3)
    """
    if stype not in (None, "default"):
        return sparse.zeros(stype, shape, ctx, dtype)
    return placed(NDArray(np.empty(_dimensions(shape), _element_type(ctx, dtype))), ctx)


@hides_frames
def zeros(
    shape: ShapeLike,
    ctx: Context | None = None,
    dtype: Any = None,
    stype: str | None = None,
    out: NDArray | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> NDArray:
    """0 everywhere.

    Parameters
    ----------
    shape:
        The sizes, or one size.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    stype:
        The storage type: ``'default'`` (None, too), ``'csr'`` or ``'row_sparse'``.
    out:
        An array of that shape into which the values are written, and which is then the result.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> print(mx.nd.zeros((2, 3)).asnumpy())
    [[0. 0. 0.]
     [0. 0. 0.]]
    >>> mx.nd.zeros(2, dtype="int64").tolist()
    [0, 0]
    >>> mx.nd.zeros((1000, 10), stype="row_sparse").indices.tolist()
    []
    """
    require_hidden("zeros", kwargs)
    if stype not in (None, "default"):
        return _finish(sparse.zeros(stype, shape, ctx, dtype), out)
    return _finish(function("_zeros")(_dimensions(shape), _element_type(ctx, dtype), name=name, ctx=ctx), out)


@hides_frames
def ones(
    shape: ShapeLike,
    ctx: Context | None = None,
    dtype: Any = None,
    out: NDArray | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> NDArray:
    """1 everywhere.

    Parameters
    ----------
    shape:
        The sizes, or one size.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    out:
        An array of that shape into which the values are written, and which is then the result.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> mx.nd.ones((2, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    require_hidden("ones", kwargs)
    return _finish(function("_ones")(_dimensions(shape), _element_type(ctx, dtype), name=name, ctx=ctx), out)


@hides_frames
def full(
    shape: ShapeLike,
    val: float,
    ctx: Context | None = None,
    dtype: Any = np.float32,
    out: NDArray | None = None,
    name: str | None = None,
) -> NDArray:
    """One number everywhere.

    Parameters
    ----------
    shape:
        The sizes, or one size.
    val:
        The number.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    out:
        An array of that shape into which the values are written, and which is then the result.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> mx.nd.full((2, 2), 7).tolist()
    [[7.0, 7.0], [7.0, 7.0]]
    """
    if not isinstance(val, int | float | np.generic | NDArray):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentTypeError(f"full: val must be a number, got {val!r}")
    return _finish(function("_full")(_dimensions(shape), _element_type(ctx, dtype), val, name=name, ctx=ctx), out)


@hides_frames
def arange(
    start: float,
    stop: float | None = None,
    step: float = 1.0,
    repeat: int = 1,
    infer_range: bool | None = None,  # noqa: ARG001  (in MXNet's signature; ranges are always known here)
    ctx: Context | None = None,
    dtype: Any = np.float32,
    name: str | None = None,
) -> NDArray:
    """start, start + step, … up to but without stop, each ``repeat`` times.

    Parameters
    ----------
    start:
        The first number; if ``stop`` is None, it is stop, and the first number is 0.
    stop:
        Where the numbers end; it is not among them.
    step:
        The distance of numbers, which may be negative.
    repeat:
        How often each number stands in the result.
    infer_range:
        Accepted for MXNet's API, without effect.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> mx.nd.arange(3).tolist()
    [0.0, 1.0, 2.0]
    >>> mx.nd.arange(2, 6, 2, repeat=2, dtype="int32").tolist()
    [2, 2, 4, 4]
    """
    return function("_arange")(start, stop, step, repeat, _element_type(ctx, dtype), name=name, ctx=ctx)


@hides_frames
def linspace(
    start: float,
    stop: float,
    num: int,
    endpoint: bool = True,
    ctx: Context | None = None,
    dtype: Any = np.float32,
    name: str | None = None,
) -> NDArray:
    """``num`` numbers at equal distances from start to stop.

    Parameters
    ----------
    start:
        The first number.
    stop:
        The last one, if ``endpoint``; else the one that would follow it.
    num:
        How many numbers there are.
    endpoint:
        Whether ``stop`` is among them.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> mx.nd.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    >>> mx.nd.linspace(0, 1, 4, endpoint=False).tolist()
    [0.0, 0.25, 0.5, 0.75]
    """
    return function("_linspace")(start, stop, num, endpoint, _element_type(ctx, dtype), name=name, ctx=ctx)


@hides_frames
def eye(
    N: int,
    M: int = 0,
    k: int = 0,
    ctx: Context | None = None,
    dtype: Any = None,
    out: NDArray | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> NDArray:
    """1 on the k-th diagonal of an N by M matrix, 0 elsewhere.

    Parameters
    ----------
    N:
        The number of rows.
    M:
        The number of columns; 0 for as many as rows.
    k:
        Which diagonal: 0 is the main one, positive ones lie above it, negative ones below.
    ctx:
        The device, such as ``mx.gpu(0)``; None for the current one, ``mx.cpu()`` unless a ``with`` block names another.
    dtype:
        The element type, as NumPy's or by its name; None for float32.
    out:
        An array of that shape into which the values are written, and which is then the result.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> print(mx.nd.eye(2, 3, k=1).asnumpy())
    [[0. 1. 0.]
     [0. 0. 1.]]
    """
    require_hidden("eye", kwargs)
    return _finish(function("_eye")(N, M, k, _element_type(ctx, dtype), name=name, ctx=ctx), out)


@hides_frames
def concatenate(arrays: Sequence[NDArray], axis: int = 0, always_copy: bool = True) -> NDArray:
    """The arrays one after the other along an axis.

    Parameters
    ----------
    arrays:
        A list of arrays of one dtype, whose shapes are equal but along the axis; an empty list is a CheckError.
    axis:
        The axis; negative ones count from the last.
    always_copy:
        Whether a single array is copied; if not, it is the result itself.

    Examples
    --------
    >>> x = mx.nd.array([[1, 2]])
    >>> mx.nd.concatenate([x, x + 2]).tolist()
    [[1.0, 2.0], [3.0, 4.0]]
    """
    if not arrays:
        raise CheckError("concatenate: there must be at least one array")
    if len(arrays) == 1 and not always_copy:
        return arrays[0]
    # COMPAT(mxnet): there it raises while autograd records.
    return function("concat")(*arrays, dim=axis)


@hides_frames
def moveaxis(tensor: Any, source: Any, destination: Any) -> NDArray:
    """The array with axes moved to other positions; the rest keeps its order.

    Parameters
    ----------
    tensor:
        The array.
    source:
        The axis that is moved, or several; negative ones count from the last.
    destination:
        Where each of them is in the result, as many as ``source`` has. A ValueError of NumPy is raised if axes do not
        fit.

    Examples
    --------
    >>> mx.nd.moveaxis(mx.nd.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    rank = len(tensor.shape)
    np.moveaxis(np.empty((0,) * rank), source, destination)  # raises if the axes do not fit
    froms, tos = ((a,) if isinstance(a, int) else tuple(a) for a in (source, destination))
    axes = [a for a in range(rank) if a not in {f % rank for f in froms}]
    for to, origin in sorted((t % rank, f % rank) for t, f in zip(tos, froms, strict=True)):
        axes.insert(to, origin)
    return function("transpose")(tensor, axes=tuple(axes))


@hides_frames
def power(base: Any, exp: Any, out: Any = None, name: str | None = None) -> NDArray:
    """base ** exp; both broadcast, and either may be a number.

    Parameters
    ----------
    base, exp:
        An array or a number each, not both numbers.
    out:
        An array of the result's shape into which it is written.
    name:
        Accepted, as of symbols; arrays have no name.

    Examples
    --------
    >>> mx.nd.power(mx.nd.array([1, 2, 3]), 2).tolist()
    [1.0, 4.0, 9.0]
    """
    return function("broadcast_power")(base, exp, out=out, name=name)


@hides_frames
def onehot_encode(indices: NDArray, out: NDArray) -> NDArray:
    """Write the one-hot rows of ``indices`` into ``out`` of shape (number of indices, depth).

    Parameters
    ----------
    indices:
        The column of the 1 in each row, from 0 on. A row whose index is no column is 0.
    out:
        The array that is written, and returned.

    Examples
    --------
    >>> mx.nd.onehot_encode(mx.nd.array([2, 0]), mx.nd.zeros((2, 3))).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """
    return function("one_hot")(indices, out.shape[1], dtype=out.dtype, out=out)


@hides_frames
def split_v2(ary: Any, indices_or_sections: Any, axis: int = 0, squeeze_axis: bool = False) -> list[NDArray]:
    """Pieces along an axis: so many equal ones, or cut before each of the given indices.

    Parameters
    ----------
    ary:
        The array.
    indices_or_sections:
        The number of pieces, which divides the size of the axis, or a tuple of the indices where pieces begin.
    axis:
        The axis.
    squeeze_axis:
        Drop the axis, along which each piece must have size 1.

    Returns
    -------
    A list of arrays; the array itself if there is one piece.

    Examples
    --------
    >>> x = mx.nd.array([0, 1, 2, 3])
    >>> [y.tolist() for y in mx.nd.split_v2(x, 2)]
    [[0.0, 1.0], [2.0, 3.0]]
    >>> [y.tolist() for y in mx.nd.split_v2(x, (1, 3))]
    [[0.0], [1.0, 2.0], [3.0]]
    """
    return function("_split_v2")(ary, indices_or_sections, axis, squeeze_axis)


@hides_frames
def histogram(a: Any, bins: Any = 10, range: tuple[float, float] | None = None) -> list[NDArray]:
    """How many elements fall into each bin, and the edges of the bins.

    Each bin has its lower edge, and the last one its upper edge, too.

    Parameters
    ----------
    a:
        The numbers, of any shape.
    bins:
        The number of bins of equal width, or an array of their edges in ascending order.
    range:
        The lowest and the highest edge; required for a number of bins, else a ValueError is raised.

    Returns
    -------
    Two arrays: the counts, of int64, and the edges, one more.

    Examples
    --------
    >>> counts, edges = mx.nd.histogram(mx.nd.array([0, 1, 1, 3]), bins=3, range=(0, 3))
    >>> counts.tolist(), edges.tolist()
    ([1, 2, 1], [0.0, 1.0, 2.0, 3.0])
    """
    if isinstance(bins, int):
        if range is None:
            raise ValueError("null range is not supported: give range=(low, high), or bins as an array of edges")
        return function("_histogram")(a, bin_cnt=bins, range=range)
    return function("_histogram")(a, bins)


def waitall() -> None:
    """Return when all results are there; on the CPU they always are."""
    devices = sys.modules.get("hybridc.runtime.devices.choose")  # nobody has used one, unless it is there
    if devices is not None:
        devices.synchronise()
