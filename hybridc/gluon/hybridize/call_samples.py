"""Arguments that stand for those of later calls: what is compiled ahead of time is compiled for these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import ArgumentTypeError
from hybridc.ground.nesting import as_list


class ArraySample(NamedTuple):
    """Shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: Any


def samples(args: Sequence[Any], dtype: Any, context: Context) -> tuple[Any, ...]:
    """Arrays, on one device, for arguments that are arrays, shapes, or lists and tuples of these.

    A tuple of integers is a shape, of an array of the given dtype. What has a ``shape`` and a ``dtype`` is an array of
    these.
    """
    return tuple([_sample(arg, dtype, context) for arg in args])


def _sample(arg: Any, dtype: Any, context: Context) -> Any:
    if arg is None or isinstance(arg, NDArray):
        return arg
    if isinstance(arg, tuple) and all(isinstance(n, int | np.integer) for n in as_list(arg)):
        return nd.zeros(tuple(as_list(arg)), ctx=context, dtype=dtype)
    if isinstance(arg, list | tuple) and not isinstance(arg, ArraySample):
        parts = [_sample(part, dtype, context) for part in as_list(arg)]
        return tuple(parts) if isinstance(arg, tuple) else parts
    if not hasattr(arg, "shape") or not hasattr(arg, "dtype"):
        raise ArgumentTypeError(
            f"compile: an argument is an array, a shape as a tuple of integers, or a list of these; got {arg!r}"
        )
    return nd.zeros(tuple(arg.shape), ctx=context, dtype=arg.dtype)
