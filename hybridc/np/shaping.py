"""Shapes of ``mx.np`` arrays: other shapes, orders of axes, joining, cutting, repeating."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.
# pyright: reportPrivateUsage=false
# An array's buffer belongs to all classes of arrays.

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.dialects.array.shape import normalize_axis
from hybridc.dialects.numpy_rules import common
from hybridc.ground.sizes import is_size
from hybridc.ground.state import STATE
from hybridc.np.apply import cast, dtype_of, into, reshaped
from hybridc.np.reducing import given

__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_to",
    "column_stack",
    "concatenate",
    "dsplit",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "moveaxis",
    "ndim",
    "permute_dims",
    "ravel",
    "real",
    "repeat",
    "reshape",
    "roll",
    "rollaxis",
    "rot90",
    "row_stack",
    "shape",
    "size",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "vsplit",
    "vstack",
]


def shape(a: Any) -> tuple[int, ...]:
    """The sizes of all dimensions."""
    return given(a).shape


def ndim(a: Any) -> int:
    """The number of dimensions."""
    return given(a).ndim


def size(a: Any, axis: int | None = None) -> int:
    """The number of elements, all or along an axis."""
    return given(a).size if axis is None else given(a).shape[axis]


def new_shape(old: tuple[int, ...], new: Any) -> tuple[int, ...]:
    """The shape that NumPy's argument ``newshape`` means, where -1 is what is left."""
    sizes: tuple[Any, ...] = (new,) if isinstance(new, int | onp.integer) else tuple(new)
    new = tuple([n if is_size(n) else int(n) for n in sizes])
    rest = math.prod(n for n in new if n != -1)
    total = math.prod(old)
    found = tuple(total // rest if n == -1 and rest else 0 if n == -1 else n for n in new)
    if new.count(-1) > 1:
        raise ValueError(f"mx.np.reshape: can only specify one unknown dimension, got {new}")
    if any(n < -1 for n in new) or math.prod(found) != total:
        raise ValueError(f"mx.np.reshape: cannot reshape array of size {total} into shape {new}")
    return found


def reshape(a: Any, newshape: Any, order: str = "C", out: Any = None) -> Any:
    """The same elements in another shape, in which one -1 is what is left; outside of traces a view.

    Parameters
    ----------
    newshape:
        The shape, a tuple or one size; one size may be -1.
    """
    if order not in ("C", "A", "K"):
        raise NotImplementedError(f"mx.np.reshape: order={order!r} is not supported; arrays are in row-major order")
    a = given(a)
    wanted = new_shape(a.shape, newshape)
    if out is None and is_plain(a):
        return a._like(a._data.reshape(wanted))
    return into(function("reshape_to")(a, shape=wanted), out)


def is_plain(a: Any) -> bool:
    """Whether a view of the buffer may stand for the result of an operator: nothing traces or records it."""
    return (
        isinstance(a, NDArray)
        and type(a._data) is onp.ndarray
        and STATE.trace is None
        and not (STATE.recording and a._entry is not None)
    )


def ravel(x: Any, order: str = "C") -> Any:
    """All elements in one dimension."""
    return reshape(x, -1, order=order)


def real(val: Any) -> Any:
    """The real part, which is the array itself."""
    return given(val)


def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order; in reverse by default."""
    a = given(a)
    if not a.ndim and not axes:
        return a._like(a._data) if is_plain(a) else function("identity")(a)
    order = (
        tuple(range(a.ndim))[::-1]
        if axes is None
        else tuple(normalize_axis("transpose", i, a.ndim, "axes has") for i in axes)
    )
    if sorted(order) != list(range(a.ndim)):
        raise ValueError(f"mx.np.transpose: axes {axes} don't match an array of {a.ndim} dimensions")
    if is_plain(a):
        return a._like(a._data.transpose(order))
    return function("transpose")(a, axes=order)


def permute_dims(a: Any, axes: Any = None) -> Any:
    """As :func:`transpose`."""
    return transpose(a, axes)


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two axes exchanged."""
    a = given(a)
    order = list(range(a.ndim))
    i, j = (normalize_axis("swapaxes", x, a.ndim, "axis has") for x in (axis1, axis2))
    order[i], order[j] = order[j], order[i]
    return transpose(a, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Axes moved to other positions; the rest keeps its order."""
    a = given(a)
    froms, tos = ([x] if isinstance(x, int) else list(x) for x in (source, destination))
    if len(froms) != len(tos):
        raise ValueError("mx.np.moveaxis: `source` and `destination` arguments must have the same number of elements")
    froms = [normalize_axis("moveaxis", x, a.ndim, "source has") for x in froms]
    tos = [normalize_axis("moveaxis", x, a.ndim, "destination has") for x in tos]
    order = [i for i in range(a.ndim) if i not in froms]
    for to, origin in sorted(zip(tos, froms, strict=True)):
        order.insert(to, origin)
    return transpose(a, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """An axis moved back until it lies before the axis ``start``."""
    a = given(a)
    axis = normalize_axis("rollaxis", axis, a.ndim, "axis has")
    start = start + a.ndim if start < 0 else start
    order = [i for i in range(a.ndim) if i != axis]
    order.insert(start - (axis < start), axis)
    return transpose(a, order)


def expand_dims(a: Any, axis: Any) -> Any:
    """New axes of size 1 at positions of the result."""
    a = given(a)
    axes = axis if isinstance(axis, tuple) else (axis,)
    rank = a.ndim + len(axes)
    places = {normalize_axis("expand_dims", x, rank, "axis has") for x in axes}
    sizes = iter(a.shape)
    return reshape(a, tuple(1 if i in places else next(sizes) for i in range(rank)))


def squeeze(a: Any, axis: Any = None, out: Any = None) -> Any:
    """Without the axes of size 1, or without those that are named."""
    a = given(a)
    if axis is None:
        return reshape(a, tuple(n for n in a.shape if n != 1), out=out)
    axes = {normalize_axis("squeeze", x, a.ndim, "axis has") for x in (axis if isinstance(axis, tuple) else (axis,))}
    if any(a.shape[i] != 1 for i in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return reshape(a, tuple(n for i, n in enumerate(a.shape) if i not in axes), out=out)


def atleast_1d(*arys: Any) -> Any:
    """Arrays of at least one dimension."""
    return _each([a if a.ndim else reshape(a, (1,)) for a in map(given, arys)])


def atleast_2d(*arys: Any) -> Any:
    """Arrays of at least two dimensions, the new ones in front."""
    return _each([a if a.ndim >= 2 else reshape(a, (1, a.size)) for a in map(given, arys)])


def atleast_3d(*arys: Any) -> Any:
    """Arrays of at least three dimensions."""
    return _each([_three(a) for a in map(given, arys)])


def _three(a: Any) -> Any:
    if a.ndim >= 3:
        return a
    return reshape(a, (*a.shape, 1) if a.ndim == 2 else (1, a.size, 1))


def _each(made: list[Any]) -> Any:
    return made[0] if len(made) == 1 else made


def broadcast_to(array: Any, shape: Any) -> Any:
    """The array repeated along axes of size 1, and new ones in front, up to a shape."""
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    array = given(array)
    if 0 in wanted or not array.ndim or len(array.shape) < len(wanted):
        onp.broadcast_to(onp.empty(array.shape, onp.bool_), wanted)  # raises if they do not fit
        array = reshaped(array, (1,) * (len(wanted) - array.ndim) + array.shape)
        if 0 in wanted:
            array = array[tuple(slice(0, 0) if not n else slice(None) for n in wanted)]
    return array if array.shape == wanted else function("broadcast_to")(array, shape=wanted)


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays broadcast to the shape that they have together."""
    arrays = [given(a) for a in args]
    together = onp.broadcast_shapes(*[a.shape for a in arrays])
    return [broadcast_to(a, together) for a in arrays]


# --- joining -----------------------------------------------------------------------------------------------------


def promoted(arrays: Sequence[Any]) -> list[Any]:
    """Arrays cast to a common dtype."""
    found = [given(a) for a in arrays]
    dtype = common([dtype_of(a) for a in found])
    return [cast(a, dtype) for a in found]


def concatenate(seq: Any, axis: int | None = 0, out: Any = None) -> Any:
    """The arrays one after the other along an axis; flattened ones for ``axis=None``.

    Parameters
    ----------
    seq:
        A list or tuple of arrays, whose shapes agree but for the axis along which they are joined.
    """
    arrays = promoted(list(seq))
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        arrays, axis = [ravel(a) for a in arrays], 0
    if not arrays[0].ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = normalize_axis("concatenate", axis, arrays[0].ndim, "axis has")
    return into(function("concat")(*arrays, dim=axis), out)


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """The values after an array along an axis, or both flattened."""
    return concatenate([arr, values], axis)


def stack(arrays: Any, axis: int = 0, out: Any = None) -> Any:
    """The arrays one after the other along a new axis."""
    made = promoted(list(arrays))
    if not made:
        raise ValueError("need at least one array to stack")
    if any(a.shape != made[0].shape for a in made):
        raise ValueError("all input arrays must have the same shape")
    axis = normalize_axis("stack", axis, made[0].ndim + 1, "axis has")
    return concatenate([expand_dims(a, axis) for a in made], axis, out)


def vstack(arrays: Any, out: Any = None) -> Any:
    """The arrays below each other.

    Parameters
    ----------
    arrays:
        A list or tuple of arrays, whose shapes agree but for the first axis; vectors are rows.
    """
    return concatenate([atleast_2d(a) for a in arrays], 0, out)


row_stack = vstack


def hstack(arrays: Any) -> Any:
    """The arrays beside each other.

    Parameters
    ----------
    arrays:
        A list or tuple of arrays, whose shapes agree but for the axis along which they are joined.
    """
    made = [atleast_1d(a) for a in arrays]
    return concatenate(made, 0 if made and made[0].ndim == 1 else 1)


def dstack(arrays: Any) -> Any:
    """The arrays one after the other along the third axis.

    Parameters
    ----------
    arrays:
        A list or tuple of arrays, whose shapes agree but for the axis along which they are joined.
    """
    return concatenate([atleast_3d(a) for a in arrays], 2)


def column_stack(tup: Any) -> Any:
    """Arrays of one dimension as the columns of a matrix."""
    return concatenate([a if a.ndim > 1 else reshape(a, (a.size, 1)) for a in map(given, tup)], 1)


# --- cutting -----------------------------------------------------------------------------------------------------


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Pieces along an axis: so many equal ones, or cut before each of the given indices."""
    a = given(ary)
    axis = normalize_axis("split", axis, a.ndim, "axis has")
    if isinstance(indices_or_sections, int | onp.integer) and a.shape[axis] % indices_or_sections:
        raise ValueError("array split does not result in an equal division")
    return array_split(a, indices_or_sections, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """As :func:`split`; so many pieces may differ by one in length."""
    a = given(ary)
    axis = normalize_axis("array_split", axis, a.ndim, "axis has")
    n = a.shape[axis]
    if isinstance(indices_or_sections, int | onp.integer):
        count = int(indices_or_sections)
        if count <= 0:
            raise ValueError("number sections must be larger than 0")
        size, longer = divmod(n, count)
        sizes = [size + 1] * longer + [size] * (count - longer)
        cuts = [0, *onp.cumsum(sizes).tolist()]
    else:
        cuts = [0, *[int(i) for i in indices_or_sections], n]
    return [a[(slice(None),) * axis + (slice(i, j),)] for i, j in itertools.pairwise(cuts)]


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the second axis, or along the first of one dimension."""
    a = given(ary)
    if a.ndim < 1:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(a, indices_or_sections, 1 if a.ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the first axis."""
    a = given(ary)
    if a.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(a, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Pieces along the third axis."""
    a = given(ary)
    if a.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(a, indices_or_sections, 2)


# --- repeating ---------------------------------------------------------------------------------------------------


def tile(A: Any, reps: Any) -> Any:
    """The array repeated so often along each axis."""
    a = given(A)
    counts = (int(reps),) if isinstance(reps, int | onp.integer) else tuple(int(n) for n in reps)
    rank = builtin_max(a.ndim, len(counts))
    a = reshaped(a, (1,) * (rank - a.ndim) + a.shape)
    counts = (1,) * (rank - len(counts)) + counts
    if not rank or all_ones(counts):
        return function("identity")(a)
    inner = tuple(m for n in a.shape for m in (1, n))
    outer = tuple(m for n, c in zip(a.shape, counts, strict=True) for m in (c, n))
    spread = broadcast_to(reshape(a, inner), outer)
    return reshape(spread, tuple(n * c for n, c in zip(a.shape, counts, strict=True)))


builtin_max = max


def all_ones(counts: tuple[int, ...]) -> bool:
    """Whether nothing is repeated."""
    return set(counts) <= {1}


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """Each element, or each slice along an axis, so often."""
    a = given(a)
    if axis is None or not a.ndim:
        a, axis = ravel(a), 0
    axis = normalize_axis("repeat", axis, a.ndim, "axis has")
    if not isinstance(repeats, int | onp.integer):
        counts = onp.asarray(repeats)
        return a[(slice(None),) * axis + (onp.repeat(onp.arange(a.shape[axis]), counts),)]
    return function("repeat")(a, repeats=int(repeats), axis=axis)


def flip(m: Any, axis: Any = None, out: Any = None) -> Any:
    """The elements in reverse order along axes; along all by default."""
    a = given(m)
    axes = range(a.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    found = {normalize_axis("flip", x, a.ndim, "axis has") for x in axes}
    return into(a[tuple(slice(None, None, -1) if i in found else slice(None) for i in range(a.ndim))], out)


def fliplr(m: Any) -> Any:
    """The columns in reverse order."""
    return flip(m, 1)


def flipud(m: Any) -> Any:
    """The rows in reverse order."""
    return flip(m, 0)


def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """The elements shifted along axes; what leaves at one end enters at the other."""
    a = given(a)
    if axis is None:
        return reshape(roll(ravel(a), int(shift), 0), a.shape)
    axes = axis if isinstance(axis, tuple) else (axis,)
    shifts = shift if isinstance(shift, tuple) else (shift,) * len(axes)
    for by, at in zip(shifts, axes, strict=True):
        at = normalize_axis("roll", at, a.ndim, "axis has")
        n = a.shape[at]
        by = int(by) % n if n else 0
        if by:
            before = (slice(None),) * at
            a = concatenate([a[(*before, slice(n - by, None))], a[(*before, slice(0, n - by))]], at)
    return a


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Any:
    """The array turned by 90 degrees k times in the plane of two axes, from the first towards the second."""
    a = given(m)
    first, second = (normalize_axis("rot90", x, a.ndim, "axes has") for x in axes)
    if first == second:
        raise ValueError("Axes must be different.")
    k %= 4
    if k == 2:
        return flip(flip(a, first), second)
    if k == 1:
        a = flip(a, second)
    a = swapaxes(a, first, second)
    return flip(a, second) if k == 3 else a
