"""Functions of ``mx.np`` that are NumPy's own, on copies: autograd does not record them and no trace contains them.

They are those that MXNet leaves to NumPy.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as onp

from hybridc.array.dispatch import is_symbol
from hybridc.array.ndarray import NDArray
from hybridc.context import CPU, Context
from hybridc.errors import MXNetError
from hybridc.np.apply import into
from hybridc.np.making import array

#: Names in ``numpy``, which has them all in the versions that there may be.
_NAMES = (
    "apply_along_axis",
    "apply_over_axes",
    "argpartition",
    "choose",
    "compress",
    "convolve",
    "corrcoef",
    "correlate",
    "cov",
    "digitize",
    "extract",
    "histogram2d",
    "histogram_bin_edges",
    "histogramdd",
    "i0",
    "interp",
    "intersect1d",
    "isin",
    "lexsort",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "packbits",
    "partition",
    "piecewise",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polysub",
    "roots",
    "searchsorted",
    "setdiff1d",
    "setxor1d",
    "spacing",
    "trim_zeros",
    "union1d",
    "unpackbits",
    "unwrap",
    "vander",
)


def on_host(value: Any) -> Any:
    """A value with NumPy's arrays for ours."""
    if isinstance(value, NDArray):
        return value.asnumpy()
    if isinstance(value, list | tuple):
        return type(value)([on_host(part) for part in value])
    if isinstance(value, dict):
        return {key: on_host(part) for key, part in value.items()}
    return value


def ours(value: Any, double: bool = True) -> Any:
    """A result of NumPy with our arrays for its own, in float32 for float64 unless ``double``."""
    if isinstance(value, onp.ndarray):
        if value.dtype.kind not in "fiub":
            return value
        return array(value, onp.float32 if value.dtype == onp.float64 and not double else value.dtype)
    if isinstance(value, list | tuple) and any(isinstance(part, onp.ndarray) for part in value):
        parts = [ours(part, double) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value


def placed_at(place: Context, value: Any) -> Any:
    """Arrays, also in lists and tuples, on a device."""
    if isinstance(value, list | tuple):
        parts = [placed_at(place, part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    return value.as_in_ctx(place) if isinstance(value, NDArray) else value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for part in value:
            yield from _leaves(part)
    else:
        yield value


def on_copies(name: str, function: Any) -> Callable[..., Any]:
    """The function ``mx.np.<name>`` that is NumPy's ``function`` on copies.

    Results are arrays of ``mx.np``, also of one number.
    """

    # COMPAT(mxnet): results are in float64 only if an input is, as everywhere in mx.np; MXNet has what NumPy gives,
    # float64 of most, and NumPy's scalars for arrays of shape ().
    def apply(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        leaves = list(_leaves([*args, *kwargs.values()]))
        if any(is_symbol(leaf) for leaf in leaves):
            raise MXNetError(
                f"mx.np.{name} is NumPy's function, which needs values, and a trace does not have them; "
                "call it outside of the hybridized block, or leave the block unhybridized"
            )
        double = any(onp.dtype(v.dtype) == onp.float64 for v in leaves if isinstance(v, NDArray | onp.ndarray))
        result = function(*on_host(args), **on_host(kwargs))
        if isinstance(result, onp.generic):
            result = onp.asarray(result)
        made = ours(result, double)
        place = next((v.context for v in leaves if isinstance(v, NDArray)), CPU)
        return into(made if place == CPU else placed_at(place, made), out)

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "hybridc.np"
    vars(apply)["__wrapped__"] = function  # whose signature it has
    apply.__doc__ = f"NumPy's ``{name}``, on copies: without a gradient, and not in traces."
    return apply


def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    """For each element of the flattened ``ar1`` whether ``ar2`` has it, as booleans.

    Parameters
    ----------
    ar1, ar2:
        Arrays, which are flattened.
    assume_unique:
        Whether no array has an element twice, which is faster.
    invert:
        Whether an answer says that ``ar2`` has it not.
    """

    def contained(x: Any, *rest: Any) -> Any:
        return onp.isin(onp.ravel(x), *rest)

    return on_copies("in1d", contained)(ar1, ar2, assume_unique, invert)


def msort(a: Any) -> Any:
    """A copy whose elements are in ascending order along the first axis."""
    return on_copies("msort", onp.sort)(a, 0)


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
) -> Any:
    """The different elements, or slices along an axis, in ascending order.

    With the flags a tuple: also where each one comes first, which one each element is, and how often each comes.
    """

    def found(x: Any) -> Any:
        made = onp.unique(x, return_index, return_inverse, return_counts, axis)
        if isinstance(made, tuple):  # numbers of elements, flat as in NumPy before 2.0
            return tuple(part if not i else part.reshape(-1) for i, part in enumerate(made))
        return made

    return on_copies("unique", found)(ar)


def bincount(x: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each integer from 0 comes, in the dtype of the integers; with weights, the sums of those."""

    def counted(numbers: Any, weights: Any) -> Any:
        numbers = onp.asarray(numbers)
        if numbers.dtype.kind == "f":
            raise TypeError("mx.np.bincount: the elements must be integers; use x.astype('int64')")
        counts = onp.bincount(numbers, weights, minlength)
        return counts.astype(numbers.dtype if weights is None else onp.asarray(weights).dtype)

    return on_copies("bincount", counted)(x, weights)


def _removed(name: str) -> Callable[..., Any]:
    def apply(*args: Any, **kwds: Any) -> Any:
        raise NotImplementedError(f"mx.np.{name}: NumPy 1.20 removed its financial functions; use numpy_financial")

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "hybridc.np"
    apply.__doc__ = "Not in NumPy any more: raises."
    return apply


_FINANCIAL = ("mirr", "npv", "ppmt", "pv", "rate")
globals().update({name: on_copies(name, getattr(onp, name)) for name in _NAMES})
globals().update({name: _removed(name) for name in _FINANCIAL})

__all__ = ["bincount", "in1d", "msort", "unique"]
__all__ += [*_NAMES, *_FINANCIAL]
