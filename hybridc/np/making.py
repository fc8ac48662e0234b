"""Making arrays of ``mx.np``; float32 unless a dtype is given."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.
# pyright: reportPrivateUsage=false
# An array's buffer belongs to all classes of arrays.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol, placed
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_numpy, ndarray
from hybridc.context import Context, check_device
from hybridc.dtypes import FLOAT32
from hybridc.errors import ArgumentTypeError
from hybridc.ground.state import STATE
from hybridc.nd import creation
from hybridc.np.apply import cast, is_number, operand

__all__ = [
    "arange",
    "array",
    "asarray",
    "copy",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "full_like",
    "identity",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
]

ShapeLike = int | Sequence[int]


def _shape(shape: Any) -> tuple[int, ...]:
    return (int(shape),) if isinstance(shape, int | onp.integer) else tuple(shape)


def _dtype(dtype: Any) -> Any:
    return FLOAT32 if dtype is None else onp.dtype(dtype)


def _made(name: str, ctx: Any, *args: Any, **attrs: Any) -> Any:
    """What an operator without inputs makes."""
    return as_numpy(function(name)(*args, **attrs, ctx=ctx))


def array(object: Any, dtype: Any = None, ctx: Context | None = None) -> Any:
    """A copy of an array, or of numbers in lists: of arrays in their dtype, of numbers in float32."""
    check_device(ctx)
    if is_symbol(object):
        return object.as_np_ndarray() if dtype is None else cast(object.as_np_ndarray(), dtype)
    if isinstance(object, NDArray):
        made = as_numpy(object).astype(object.dtype if dtype is None else dtype)
        return made if ctx is None else made.as_in_ctx(ctx)
    if dtype is None:
        dtype = object.dtype if isinstance(object, onp.ndarray | onp.generic) else FLOAT32
    try:
        made = onp.array(_numbers_of(object), dtype=dtype, order="C")
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError(f"mx.np.array: {error}; give it numbers, nested in lists of one length") from error
    return as_numpy(placed(NDArray(made), ctx))


def beside(x: Any, values: Any, dtype: Any) -> Any:
    """Values that are known now, on the device of an array, or as constants of a symbol's trace."""
    return array(values, dtype, device_of(x))


def device_of(x: Any) -> Context | None:
    """The device of an array; None of a symbol."""
    return x.context if isinstance(x, NDArray) else None


def _numbers_of(object: Any) -> Any:
    """Lists with the values of the arrays among their elements."""
    if isinstance(object, NDArray):
        return object.asnumpy()
    if isinstance(object, list | tuple):
        return [_numbers_of(part) for part in object]
    return object


def asarray(a: Any, dtype: Any = None, ctx: Context | None = None) -> Any:
    """The array itself if it is one of this dtype, else a copy."""
    if isinstance(a, NDArray) and (dtype is None or onp.dtype(a.dtype) == onp.dtype(dtype)):
        return as_numpy(a) if ctx is None else as_numpy(a).as_in_ctx(ctx)
    return array(a, dtype, ctx)


def zeros(shape: ShapeLike, dtype: Any = None, order: str = "C", ctx: Context | None = None) -> Any:
    """0 everywhere."""
    _check_order("zeros", order)
    return _made("_zeros", ctx, _shape(shape), _dtype(dtype))


def ones(shape: ShapeLike, dtype: Any = onp.float32, order: str = "C", ctx: Context | None = None) -> Any:
    """1 everywhere."""
    _check_order("ones", order)
    return _made("_ones", ctx, _shape(shape), _dtype(dtype))


def empty(shape: ShapeLike, dtype: Any = onp.float32, order: str = "C", ctx: Context | None = None) -> Any:
    """An array whose values are whatever was in its memory."""
    _check_order("empty", order)
    if STATE.trace is not None:
        return zeros(shape, dtype, order, ctx)
    check_device(ctx)
    return as_numpy(placed(NDArray(onp.empty(_shape(shape), _dtype(dtype))), ctx))


def _check_order(name: str, order: str) -> None:
    if order not in ("C", "K", "A"):
        raise NotImplementedError(f"mx.np.{name}: arrays are in row-major order, order={order!r} is not supported")


def full(
    shape: ShapeLike,
    fill_value: Any,
    dtype: Any = None,
    order: str = "C",
    ctx: Context | None = None,
    out: Any = None,
) -> Any:
    """One number everywhere, or an array broadcast to the shape."""
    _check_order("full", order)
    if not is_number(fill_value):
        value = operand(fill_value)
        made = function("broadcast_to")(value if dtype is None else cast(value, dtype), shape=_shape(shape))
    else:
        if dtype is None:
            dtype = onp.bool_ if isinstance(fill_value, bool | onp.bool_) else FLOAT32
        made = _made("_full", ctx, _shape(shape), onp.dtype(dtype), fill_value)
    return made if out is None else function("identity")(made, out=out)


def zeros_like(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None) -> Any:
    """0 in the shape of an array, and in its dtype unless one is given."""
    return full_like(a, 0, dtype, order, ctx, out)


def ones_like(a: Any, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None) -> Any:
    """1 in the shape of an array, and in its dtype unless one is given."""
    return full_like(a, 1, dtype, order, ctx, out)


def empty_like(
    prototype: Any, dtype: Any = None, order: str = "C", subok: bool = False, shape: ShapeLike | None = None
) -> Any:
    """An array of a shape and dtype like another's; here its values are 0."""
    if subok or shape is not None:
        raise NotImplementedError("mx.np.empty_like: subok and shape are not supported; use mx.np.empty")
    return full_like(prototype, 0, dtype, order)


def full_like(
    a: Any, fill_value: float, dtype: Any = None, order: str = "C", ctx: Context | None = None, out: Any = None
) -> Any:
    """One number in the shape of an array, and in its dtype unless one is given."""
    _check_order("full_like", order)
    a = operand(a)
    if is_number(a):
        a = array(a)
    made = function("full_like")(a if dtype is None else cast(a, dtype), fill_value=fill_value)
    made = made if ctx is None else made.as_in_ctx(ctx)
    return made if out is None else function("identity")(made, out=out)


def arange(
    start: float, stop: float | None = None, step: float | None = 1, dtype: Any = None, ctx: Context | None = None
) -> Any:
    """``start``, ``start + step``, … up to but without ``stop``; with one number, it is ``stop``."""
    if stop is None:
        start, stop = 0, start
    if step is None:
        step = 1
    if step == 0:
        raise ZeroDivisionError("mx.np.arange: step cannot be 0")
    if (stop - start) / step <= 0:
        return zeros((0,), dtype, ctx=ctx)
    return _made("_arange", ctx, start, stop, step, 1, _dtype(dtype))


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    ctx: Context | None = None,
) -> Any:
    """``num`` numbers at equal distances from start to stop; with ``retstep``, also the distance."""
    if isinstance(start, list | tuple | onp.ndarray | NDArray) or isinstance(
        stop, list | tuple | onp.ndarray | NDArray
    ):
        raise NotImplementedError("mx.np.linspace: start and stop are numbers; arrays are not supported")
    if axis != 0:
        raise NotImplementedError("mx.np.linspace: the function only supports axis 0")
    made = _made("_linspace", ctx, start, stop, num, endpoint, _dtype(dtype))
    return (made, (stop - start) / (num - bool(endpoint) or 1)) if retstep else made


def logspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
    ctx: Context | None = None,
) -> Any:
    """``num`` numbers from base**start to base**stop, at equal ratios."""
    exponents = linspace(start, stop, num, endpoint, axis=axis, ctx=ctx)
    made = base**exponents
    return made if dtype is None else cast(made, dtype)


def eye(
    N: int, M: int | None = None, k: int = 0, dtype: Any = onp.float32, order: str = "C", ctx: Context | None = None
) -> Any:
    """1 on the k-th diagonal of an N by M matrix, 0 elsewhere."""
    _check_order("eye", order)
    columns = N if M is None else M
    if N == 0 or columns == 0:
        return zeros((N, columns), dtype, ctx=ctx)
    return _made("_eye", ctx, N, columns, k, _dtype(dtype))


def identity(n: int, dtype: Any = None, ctx: Context | None = None) -> Any:
    """The n by n matrix with 1 on its diagonal."""
    return eye(n, None, 0, dtype, ctx=ctx)


def copy(a: Any, out: Any = None) -> Any:
    """A copy."""
    a = operand(a)
    return function("identity")(array(a) if is_number(a) else a, out=out)


def from_dlpack(x: Any) -> ndarray:
    """The array of another library's memory, by DLPack."""
    return as_numpy(creation.from_dlpack(x))


def from_numpy(data: Any) -> ndarray:
    """The array of the memory of ``data``, an array of NumPy."""
    return ndarray(data)
