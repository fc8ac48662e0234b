"""Indexing of arrays: basic keys give views, advanced keys gather.

:func:`getitem` serves NDArrays, also while recording, and Symbols, whose values are not known: there it is
made of ``basic_index``, ``take``, ``gather_nd``, ``transpose`` and ``reshape_to``.
"""

# pyright: reportPrivateUsage=false
# An array's buffer belongs to all of hybridc.nd.

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.array.dispatch import as_scalar, invoke, is_symbol, record
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray, check_unrecorded, recorded_inplace
from hybridc.array.numpy_array import is_numpy, ndarray
from hybridc.dialects.array.slicing import BasicIndex
from hybridc.dtypes import is_float
from hybridc.errors import ArgumentTypeError, BroadcastError, MXNetError
from hybridc.ground.display.tracebacks import boundary, hide_frames
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE
from hybridc.ground.watches import written

_BASIC = (int, slice, type(None), type(Ellipsis))
_ALL = slice(None)  # the one key of a slice that an array without axes takes


@boundary
def getitem(x: Any, key: Any) -> Any:
    """``x[key]`` for an NDArray or a Symbol."""
    try:
        kind: Any = x.__class__
        if (
            (kind is NDArray or kind is ndarray)
            and STATE.trace is None
            and not (STATE.recording and x._entry is not None)
        ):
            return NDArray(_of_buffer(x._data, key)) if kind is NDArray else ndarray(_numpy_of_buffer(x._data, key))
        alone = x.shape == ()
        if is_numpy(x) and key.__class__ is not int and key.__class__ is not slice:
            parts: tuple[Any, ...] = key if key.__class__ is tuple else (key,)
            if any(_is_truth(p) for p in parts):
                return _with_truths(x, parts)
        entries = _entries(x.shape, () if alone and key.__class__ is slice and key == _ALL else key)
        if alone and not entries:
            return function("identity")(x)
        found = _advanced(x, entries) if any(_is_advanced(e) for e in entries) else _basic(x, entries)
        if is_numpy(x) and found.shape == (1,) and not _rank(entries):
            return function("reshape_to")(found, shape=())
        return found
    except Exception as error:
        hide_frames(error)
        raise


def _rank(entries: list[Any]) -> int:
    """How many dimensions an element of ``mx.np`` has that these parts of a key select."""
    kept = sum(e is None or e.__class__ is slice for e in entries)
    return kept + max((len(e.shape) for e in entries if _is_advanced(e)), default=0)


def _is_truth(part: Any) -> bool:
    """Whether a part of a key of ``mx.np`` is True or False, or such an array without axes."""
    if part.__class__ is bool or part.__class__ is np.bool_:
        return True
    array: Any = part if part.__class__ is np.ndarray or isinstance(part, NDArray) else None
    return array is not None and array.shape == () and np.dtype(array.dtype) == np.bool_


def _with_truths(x: Any, parts: tuple[Any, ...]) -> Any:
    """``x[parts]`` for parts with truth values, each of which is a new axis of one element, or of none."""
    places = [i for i, p in enumerate(parts) if _is_truth(p)]
    if len(places) > 1 or any(_is_advanced(p) and type(p) is not int for p in parts if not _is_truth(p)):
        raise IndexError("one True or False beside slices and integers can be an index here; use an array of integers")
    (place,) = places
    y = getitem(x, tuple(None if i == place else p for i, p in enumerate(parts)))
    if bool(parts[place]):
        return y
    after = [p for p in parts[place + 1 :] if p is not Ellipsis]
    axis = sum(type(p) is not int for p in parts[:place])
    if Ellipsis in parts[:place]:
        used = sum(p is not None for p in after)
        axis = y.ndim - 1 - (sum(type(p) is not int for p in after) if used == len(after) else len(after))
    return getitem(y, (*[_ALL] * axis, slice(0, 0)))


def _numpy_of_buffer(data: Any, key: Any) -> Any:
    """``data[key]`` as NumPy has it, always an array."""
    kind = key.__class__
    if kind is not int and kind is not slice:
        parts: tuple[Any, ...] = key if kind is tuple else (key,)
        key = tuple(p if type(p) in _BASIC else _numpy_plain(p) for p in parts)
    result = data[key]
    if type(result) is np.ndarray:
        return result
    return data[(*key, Ellipsis)] if key.__class__ is tuple else data[key, ...]


def _of_buffer(data: Any, key: Any) -> Any:
    """``data[key]`` as an array of at least one dimension (a view, if the key is basic)."""
    # COMPAT(mxnet): every basic key gives a view; there x[:, 0] is a copy, since its elements are not contiguous.
    kind = key.__class__
    if kind is not int and kind is not slice:
        parts: tuple[Any, ...] = key if kind is tuple else (key,)
        key = tuple(p if type(p) in _BASIC else _plain(p) for p in parts)
    elif not data.ndim and kind is slice and key == _ALL:
        key = ()
    result = data[key]
    if type(result) is np.ndarray and (result.ndim or not data.ndim):
        return result
    one = None if data.ndim else Ellipsis
    return data[(*key, one) if key.__class__ is tuple else (key, one)]


def _plain(part: Any) -> Any:
    """One part of a key as NumPy takes it; floats (MXNet's default dtype) are integers here."""
    if type(part) in _BASIC:
        return part
    if part.__class__ is bool or issubclass(part.__class__, np.bool_ | np.integer):
        return int(part)
    if isinstance(part, NDArray):
        part = part._data if type(part._data) is np.ndarray else part.asnumpy()
    elif part.__class__ in (list, tuple, range):
        part = np.array([p.asscalar() if isinstance(p, NDArray) else p for p in part])
    if part.__class__ is not np.ndarray:
        raise ValueError(
            f"NDArray does not support slicing with key {part} of type {type(part)}; "
            "use integers, slices, None, ..., or arrays and lists of them"
        )
    # COMPAT(mxnet): an array of dtype bool is a mask, as in NumPy; MXNet takes True and False for 1 and 0.
    # Comparisons give floats there and here, so x[x > 0] selects rows 0 and 1; use x[(x > 0).astype("bool")].
    if part.dtype.kind in "iub":
        return part
    if is_float(part.dtype):
        return part.astype(np.int64)
    raise ValueError(f"NDArray does not support slicing with an array of dtype {part.dtype}")


def _numpy_plain(part: Any) -> Any:
    """As :func:`_plain`, for arrays of ``mx.np``, where True and False are no integers."""
    return np.asarray(part) if _is_truth(part) else _plain(part)


def _is_advanced(part: Any) -> bool:
    return type(part) not in _BASIC


def _entries(shape: tuple[int, ...], key: Any) -> list[Any]:
    """The parts of a key, one an axis and one a None: integers from 0, slices, None, arrays or Symbols."""
    parts: list[Any] = list(key) if key.__class__ is tuple else [key]
    parts = [p if is_symbol(p) else _plain(p) for p in parts]
    parts = [int(p) if p.__class__ is np.ndarray and not p.ndim and p.dtype.kind in "iu" else p for p in parts]
    expanded: list[Any] = []
    for i, part in enumerate(parts):
        if part.__class__ is np.ndarray and part.dtype == np.bool_:
            first = (
                len(shape) - sum(map(_width, parts[i:])) if any(p is Ellipsis for p in expanded) else _used(expanded)
            )
            _check_mask(part.shape, shape[max(first, 0) :])
            expanded.extend(part.nonzero())
        else:
            expanded.append(part)
    dots = [i for i, p in enumerate(expanded) if p is Ellipsis]
    if len(dots) > 1:
        raise IndexError("Cannot use more than one ellipsis (`...`) for indexing")
    used = _used(expanded)
    if used > len(shape):
        raise IndexError(f"too many indices ({used}) for array with {len(shape)} dimensions")
    place = dots[0] if dots else len(expanded)
    fill = [slice(None)] * (len(shape) - used)
    expanded[place : place + len(dots)] = fill
    return _check(shape, expanded)


def _width(part: Any) -> int:
    """Number of axes that a part of a key indexes."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if part.__class__ is np.ndarray and part.dtype == np.bool_ else 1


def _used(entries: list[Any]) -> int:
    """Number of axes that these parts of a key index."""
    return sum(e is not None and e is not Ellipsis for e in entries)


def _check_mask(mask: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if shape[: len(mask)] != mask:
        raise IndexError(f"boolean index of shape {mask} does not fit the axes it indexes, of shape {shape}")


def _check(shape: tuple[int, ...], entries: list[Any]) -> list[Any]:
    """The entries with their integers counted from 0, or an IndexError."""
    axis = 0
    for i, entry in enumerate(entries):
        if entry is None:
            continue
        n = shape[axis]
        if entry.__class__ is int:
            entries[i] = int(_inside(np.asarray(entry), n, axis)) % n
        elif entry.__class__ is np.ndarray:
            _inside(entry, n, axis)
        axis += 1
    return entries


def _inside(index: Any, n: int, axis: int) -> Any:
    """The index, or an IndexError if it leaves an axis of size n."""
    wrong = index[(index < -n) | (index >= n)]
    if wrong.size:
        raise IndexError(f"index {wrong.reshape(-1)[0]} is out of bounds for axis {axis} with size {n}")
    return index


def _bind(entries: list[Any]) -> BasicIndex:
    """The operator of a key without arrays."""
    axes = [e for e in entries if e is not None]
    squeeze = tuple(i for i, e in enumerate(axes) if type(e) is int)
    slices = [slice(e, e + 1) if type(e) is int else e for e in axes]
    kept = [e for e in entries if type(e) is not int]
    op: Any = BasicIndex.bind(
        begin=tuple(s.start for s in slices),
        end=tuple(s.stop for s in slices),
        step=tuple(s.step for s in slices),
        squeeze=squeeze,
        newaxis=tuple(i for i, e in enumerate(kept) if e is None),
    )
    return op


def _basic(x: Any, entries: list[Any]) -> Any:
    op = _bind(entries)
    if type(x) is not NDArray or STATE.trace is not None:
        return invoke(op, (x,))
    y = NDArray(op.eager(x._data))  # a view: invoke would copy
    record(op, (x,), (x._data,), [y])
    return y


def _advanced(x: Any, entries: list[Any]) -> Any:
    """NumPy's advanced indexing, by operators.

    The slices come first; then the indexed axes are gathered, and their dimensions put where NumPy puts them:
    in place of the indexed axes if these are neighbours, else in front.
    """
    axes = [e for e in entries if e is not None]
    places = [i for i, e in enumerate(entries) if type(e) is int or _is_advanced(e)]
    indexed = [i for i, e in enumerate(axes) if type(e) is int or _is_advanced(e)]
    sliced = [e if e.__class__ is slice else slice(None) for e in axes]
    if any(s != slice(None) for s in sliced):
        x = _basic(x, sliced)
    rest = [i for i in range(len(axes)) if i not in indexed]
    indices = [axes[i] for i in indexed]
    if len(indices) == 1:
        gathered, dims = _take(x, indices[0], indexed[0])
        lead = indexed[0]
    else:
        order = (*indexed, *rest)
        moved = x if order == tuple(range(len(order))) else function("transpose")(x, axes=order)
        gathered, dims = _gather(moved, indices)
        neighbours = places[-1] - places[0] == len(places) - 1
        lead = sum(isinstance(e, slice) for e in entries[: places[0]]) if neighbours else 0
        if lead:
            back = (*range(dims, dims + lead), *range(dims), *range(dims + lead, dims + len(rest)))
            gathered = function("transpose")(gathered, axes=back)
    if gathered.shape and all(e is not None for e in entries):
        return gathered
    return function("reshape_to")(gathered, shape=_with_new_axes(gathered.shape, entries, places, lead, dims))


def _with_new_axes(
    shape: tuple[int, ...], entries: list[Any], places: list[int], lead: int, dims: int
) -> tuple[int, ...]:
    """The shape with a 1 for each None; ``dims`` gathered dimensions stand after ``lead`` sliced ones."""
    neighbours = places[-1] - places[0] == len(places) - 1
    out: list[int] = [] if neighbours else list(shape[:dims])
    others = iter([*shape[:lead], *shape[lead + dims :]])
    for i, entry in enumerate(entries):
        if i == places[0] and neighbours:
            out += shape[lead : lead + dims]
        if entry is None:
            out.append(1)
        elif isinstance(entry, slice):
            out.append(next(others))
    return tuple(out) or (1,)


def _beside(x: Any, values: Any) -> NDArray:
    """NumPy's values as an array on the device of x."""
    made = NDArray(values)
    return made.as_in_context(x.context) if isinstance(x, NDArray) else made


def _take(x: Any, index: Any, axis: int) -> tuple[Any, int]:
    """One index array along one axis; also how many dimensions it has."""
    if is_symbol(index):
        _reject_mask(index)
    else:
        index = _beside(x, np.asarray(index))
    return function("take")(x, index, axis=axis, mode="raise"), len(index.shape)


def _gather(x: Any, indices: list[Any]) -> tuple[Any, int]:
    """Several index arrays for the leading axes; also how many dimensions they broadcast to."""
    if not any(is_symbol(i) for i in indices):
        plain: list[Any] = [np.asarray(i, np.int64) for i in indices]
        try:
            stacked: Any = np.stack(np.broadcast_arrays(*plain))
        except ValueError as error:
            shapes = ", ".join(str(i.shape) for i in plain)
            raise IndexError(f"index arrays could not be broadcast together: shapes {shapes}") from error
        return function("gather_nd")(x, _beside(x, stacked)), stacked.ndim - 1
    values = [i if is_symbol(i) else _beside(x, np.asarray(i)) for i in indices]
    for value in values:
        _reject_mask(value)
    shape = np.broadcast_shapes(*[v.shape for v in values])
    flat = [function("broadcast_to")(function("cast")(v, "int64"), shape=shape) for v in values]
    return function("gather_nd")(x, function("stack")(*flat)), len(shape)


def _reject_mask(index: Any) -> None:
    if index.dtype == np.bool_:
        raise MXNetError(
            "while tracing, an array of dtype bool cannot be an index: how many elements it selects depends "
            "on its values; use F.where, or leave this block unhybridized"
        )


@boundary
def setitem(x: NDArray, key: Any, value: Any) -> None:
    """``x[key] = value``: the value broadcasts and is cast to the array's dtype."""
    try:
        data = x._data
        if STATE.recording and assign_recorded(x, key, value):
            return
        if type(key) is not slice:
            parts: tuple[Any, ...] = key if key.__class__ is tuple else (key,)
            plain = _numpy_plain if x.__class__ is ndarray else _plain
            key = tuple(p if type(p) in _BASIC else plain(p) for p in parts)
        elif not data.ndim and key == _ALL:
            key = ()
        if isinstance(value, NDArray):
            value = value._data
        elif isinstance(value, bool | int | float | np.generic):
            value = as_scalar(value, data.dtype)
        elif value.__class__ is not np.ndarray or value.dtype.kind in "USO":
            value = _numbers(value, data.dtype)
        # MXNet's scalars have one dimension: an array of one element may become one element.
        _write(data, key, value.reshape(()) if value.size == 1 else value)
    except Exception as error:
        hide_frames(error)
        raise


def _numbers(value: Any, dtype: Any) -> Any:
    """The numbers of lists; an error for what is none."""
    try:
        return np.array(value).astype(dtype)
    except (ValueError, TypeError) as error:
        raise ArgumentTypeError(f"cannot assign {value!r} to the selected elements: {error}") from error


def _write(data: Any, key: Any, value: Any) -> None:
    try:
        data[key] = value
    except ValueError as error:
        target = data[key].shape
        if not data.flags.writeable:
            raise ValueError(f"cannot assign to a readonly NDArray, of shape {data.shape}; use a copy of it") from error
        raise BroadcastError(
            f"cannot assign a value of shape {np.shape(value)} to the selected elements, of shape {target}: {error}"
        ) from error
    finally:
        written(data)


def assign_recorded(x: NDArray, key: Any, value: Any) -> bool:
    """Whether ``x[key] = value`` is done, while autograd records: where ``x[:]`` becomes what depends on a variable.

    From then on the tape knows x as a copy of the value. It is an error where the tape would lose x or the value.
    """
    check_unrecorded(x)
    if not isinstance(value, NDArray) or value._entry is None:
        return False
    if not (key.__class__ is slice and key == _ALL):
        raise recorded_inplace()
    if value.shape != x.shape:
        value = function("broadcast_to")(value, shape=x.shape)
    value.copyto(x)
    return True


def inplace(x: NDArray, name: str, other: Any) -> NDArray:
    """``x = name(x, other)``, written into the buffer of x."""
    result = function(name)(x, other)
    if not isinstance(result, NDArray):
        raise MXNetError(
            "inplace operations (+=, -=, ...) change an array from outside the traced block; write x = x + y"
        )
    if result.shape != x.shape:
        raise MXNetError(
            f"{name}: the result has shape {result.shape} and does not fit into an array of shape {x.shape}"
        )
    np.copyto(x._data, result._data, casting="unsafe")
    written(x._data)
    return x


for _name, _method in {"__getitem__": getitem, "__setitem__": setitem, "_update": inplace}.items():
    setattr(NDArray, _name, _method)
HOOKS.register(getitem=getitem)
