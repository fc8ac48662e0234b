"""Comparing arrays: as a truth value, or by an AssertionError that says where they differ most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.dtypes import is_half
from hybridc.errors import CheckError
from hybridc.test_utils.tolerances import Tolerance, get_atol, get_etol, get_rtol, get_tols

Array = npt.NDArray[Any]
Names = tuple[str, str]

# So small that a difference where the tolerance is 0 counts as a large multiple of it, and not as infinitely many.
_TINY = 1e-20


def as_numpy(x: Any) -> Array:
    """The values of an array, of a number or of lists; halves as float64, in which they are compared exactly."""
    found: Array = x.asnumpy() if hasattr(x, "asnumpy") else np.asarray(x)
    return found.astype(np.float64) if is_half(found.dtype) else found


def same(a: Any, b: Any) -> bool:
    """Whether the arrays ``a`` and ``b`` are equal in every element."""
    return np.array_equal(as_numpy(a), as_numpy(b))


def same_array(array1: Any, array2: Any) -> bool:
    """Whether the arrays ``array1`` and ``array2`` share their memory: what is added to one shows in the other."""
    before = same(array1, array2)
    array1[:] += 1
    together = before and same(array1, array2)
    array1[:] -= 1
    return together and same(array1, array2)


def checkShapes(a: Any, b: Any) -> None:
    """Raise an AssertionError unless the arrays ``a`` and ``b`` have one shape."""
    if a.shape != b.shape:
        raise AssertionError(f"a.shape = {a.shape} and b.shape = {b.shape} are not equal")


def almost_equal(
    a: Any,
    b: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    use_broadcast: bool = True,
) -> bool:
    """Whether |a - b| <= atol + rtol * |b| everywhere.

    Parameters
    ----------
    a, b:
        Arrays, numbers or nested lists, whose shapes broadcast.
    rtol, atol:
        The relative and the absolute tolerance; None is that of float64.
    equal_nan:
        Whether two NaNs are equal.
    use_broadcast:
        Whether shapes may differ and broadcast; else that is an AssertionError.
    """
    if not use_broadcast:
        checkShapes(a, b)
    return np.allclose(as_numpy(a), as_numpy(b), rtol=get_rtol(rtol), atol=get_atol(atol), equal_nan=equal_nan)


def locationError(a: Array, b: Array, index: Any, names: Names, maxError: bool = False) -> str:
    """Where two arrays differ, and what is there, in words.

    Parameters
    ----------
    a, b:
        The arrays.
    index:
        The place.
    names:
        What the text calls both.
    maxError:
        Whether the text says that the difference is the largest.
    """
    most = "maximum " if maxError else ""
    return f"Location of {most}error: {index}, {names[0]}={a[index]:.8f}, {names[1]}={b[index]:.8f}"


def assert_almost_equal(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    names: Names = ("a", "b"),
    equal_nan: bool = False,
    use_broadcast: bool = True,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """Raise an AssertionError, with the largest differences, unless |a - b| <= atol + rtol * |b| everywhere.

    Parameters
    ----------
    a, b:
        Arrays, numbers or nested lists, whose shapes broadcast.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    names:
        What the text of the error calls both.
    equal_nan:
        Whether two NaNs are equal.
    use_broadcast:
        Whether shapes may differ and broadcast; else that is an AssertionError.
    mismatches:
        The first number is how many differences the text lists at most.
    """
    if not use_broadcast:
        checkShapes(a, b)
    rtol, atol = get_tols(a, b, rtol, atol)
    x, y = as_numpy(a), as_numpy(b)
    _check_broadcast(x, y, names)
    if not np.allclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan):
        raise AssertionError(_difference(x, y, rtol, atol, names, equal_nan, mismatches[0]))


def _check_broadcast(a: Array, b: Array, names: Names) -> None:
    try:
        np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise CheckError(f"{names[0]} of shape {a.shape} and {names[1]} of shape {b.shape} do not broadcast") from None


def _difference(a: Array, b: Array, rtol: float, atol: float, names: Names, equal_nan: bool, most: int) -> str:
    """How far apart two arrays are, and where."""
    a, b = (x.astype(np.float64) if x.dtype == np.bool_ else x for x in np.broadcast_arrays(a, b))
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)
    with np.errstate(all="ignore"):
        times = np.where(wrong, np.abs(a - b) / (atol + rtol * np.abs(b) + _TINY), -1)
    times = np.where(np.isnan(times), np.inf, times)
    order = np.argsort(-times, axis=None, kind="stable")[: min(max(most, 1), np.count_nonzero(wrong))]
    places: list[Any] = [tuple(map(int, np.unravel_index(int(i), a.shape))) for i in order]
    share = 100 * np.count_nonzero(wrong) / a.size
    lines = [
        f"{names[0]} and {names[1]} differ: Error {times[places[0]]:f} exceeds tolerance rtol={rtol:e}, atol={atol:e} "
        f"(mismatch {share:f}%).",
        locationError(a, b, places[0], names, maxError=True),
        *(f"{i:3}: Error {times[p]:f}  {locationError(a, b, p, names)}" for i, p in enumerate(places[1:], 2)),
    ]
    return np.testing.build_err_msg([a, b], "\n".join(lines), names=names)


def assert_allclose(a: Any, b: Any, rtol: float = 1e-07, atol: float = 0, equal_nan: bool = True) -> None:
    """As :func:`assert_almost_equal`, with NumPy's tolerances.

    Parameters
    ----------
    a, b:
        Arrays, numbers or nested lists, whose shapes broadcast.
    rtol, atol:
        The relative and the absolute tolerance.
    equal_nan:
        Whether two NaNs are equal.
    """
    assert_almost_equal(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)


def assert_almost_equal_with_err(
    a: Any,
    b: Any,
    rtol: Tolerance = None,
    atol: Tolerance = None,
    etol: float | None = None,
    names: Names = ("a", "b"),
    equal_nan: bool = False,
    mismatches: tuple[int, int] = (10, 10),
) -> None:
    """As :func:`assert_almost_equal`, where some elements may differ.

    Parameters
    ----------
    a, b:
        Arrays, numbers or nested lists, whose shapes broadcast.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    etol:
        The share of the elements that may differ, 0 to 1; None is 0.
    names:
        What the text of the error calls both.
    equal_nan:
        Whether two NaNs are equal.
    mismatches:
        The first number is how many differences the text lists at most.
    """
    etol = get_etol(etol)
    r, t = get_tols(a, b, rtol, atol)
    close = np.isclose(as_numpy(a), as_numpy(b), rtol=r, atol=t, equal_nan=equal_nan)
    if etol > 0 and (close.size == 0 or 1 - np.count_nonzero(close) / close.size <= etol):
        return
    assert_almost_equal(a, b, r, t, names, equal_nan, mismatches=mismatches)


def assert_almost_equal_ignore_nan(
    a: Any, b: Any, rtol: Tolerance = None, atol: Tolerance = None, names: Names = ("a", "b")
) -> None:
    """As :func:`assert_almost_equal`, but for the elements that are NaN in either array.

    Parameters
    ----------
    a, b:
        Arrays, numbers or nested lists, whose shapes broadcast.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    names:
        What the text of the error calls both.
    """
    rtol, atol = get_tols(a, b, rtol, atol)
    x, y = as_numpy(a), as_numpy(b)
    unknown = np.isnan(x) | np.isnan(y)
    assert_almost_equal(np.where(unknown, 0, x), np.where(unknown, 0, y), rtol, atol, names)


def assert_exception(f: Callable[..., Any], exception_type: Any, *args: Any, **kwargs: Any) -> None:
    """Raise an AssertionError unless ``f(*args, **kwargs)`` raises such an exception.

    Parameters
    ----------
    f:
        A function, which is called with the other arguments.
    exception_type:
        The class of the exception, or a tuple of classes.
    """
    try:
        f(*args, **kwargs)
    except exception_type:
        return
    raise AssertionError(f"{getattr(f, '__name__', f)} raised nothing, expected {exception_type}")


def compare_ndarray_tuple(t1: Any, t2: Any, rtol: Tolerance = None, atol: Tolerance = None) -> None:
    """Compare arrays, or nested tuples of them, as the states of optimizers are; None is like anything.

    Parameters
    ----------
    t1, t2:
        Arrays, nested tuples of them, or None.
    rtol, atol:
        The relative and the absolute tolerance: a number, or a dict of one for each dtype; None is what
        :func:`default_rtols` and :func:`default_atols` say of the coarser dtype of both.
    """
    if t1 is None or t2 is None:
        return
    if isinstance(t1, tuple):
        for first, second in zip(cast("tuple[Any, ...]", t1), t2, strict=False):
            compare_ndarray_tuple(first, second, rtol, atol)
        return
    assert_almost_equal(t1, t2, rtol=rtol, atol=atol)


def assign_each(the_input: Any, function: Callable[[Any], Any] | None) -> Array:
    """The array of ``function(element)`` for the elements of ``the_input``; they themselves, if it is None."""
    given = as_numpy(the_input)
    if function is None:
        return np.array(given)
    return np.array([function(x) for x in given.ravel()], dtype=np.float64).reshape(given.shape)


def assign_each2(input1: Any, input2: Any, function: Callable[[Any, Any], Any] | None) -> Array:
    """The array of ``function(element of input1, element of input2)``, of one shape; None gives the first."""
    first, second = as_numpy(input1), as_numpy(input2)
    if function is None:
        return np.array(first)
    checkShapes(first, second)
    pairs = zip(first.ravel(), second.ravel(), strict=True)
    return np.array([function(x, y) for x, y in pairs], dtype=np.float64).reshape(first.shape)


def np_reduce(dat: Array, axis: Any, keepdims: bool, numpy_reduce_func: Callable[..., Any]) -> Array:
    """An array reduced along axes, one after the other.

    Parameters
    ----------
    dat:
        The array.
    axis:
        The axis, or several; None for all.
    keepdims:
        Whether reduced axes stay, with size 1.
    numpy_reduce_func:
        A function such as ``np.sum``, which takes ``axis``.
    """
    axes = [axis] if isinstance(axis, int) else list(range(dat.ndim) if axis is None else axis)
    reduced: Any = dat
    for i in sorted(axes, reverse=True):
        reduced = numpy_reduce_func(reduced, axis=i)
    if keepdims:
        reduced = reduced.reshape(tuple(1 if i in axes else n for i, n in enumerate(dat.shape)))
    return reduced


def collapse_sum_like(a: Array, shape: tuple[int, ...]) -> Array:
    """The sum of ``a`` along the axes on which an array of ``shape`` would be broadcast to it."""
    if np.prod(shape) == 0 or a.size == 0:
        return np.zeros(shape, dtype=a.dtype)
    new = a.ndim - len(shape)
    stretched = [i + new for i, n in enumerate(shape) if n != a.shape[i + new]]
    if new < 0 or any(shape[i - new] != 1 for i in stretched):
        raise AssertionError(f"an array of shape {shape} cannot be broadcast to shape {a.shape}")
    return np.sum(a, axis=(*range(new), *stretched)).reshape(shape)
