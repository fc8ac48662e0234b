"""Values of a walk: NumPy arrays, which are known, or arrays of ``mx.np`` and symbols that stand for them.

Known values are sizes, indices and what else a file or a shape says. What is computed of known values alone is known,
so a Shape, a Gather and a Concat before a Reshape are numbers when a graph is traced. Sequences are lists, a missing
optional is None.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import Any

import numpy as np

from hybridc import autograd
from hybridc.array.dispatch import is_symbol
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import ndarray
from hybridc.dtypes import BFLOAT16, TYPES
from hybridc.errors import OnnxUnsupportedError
from hybridc.ground.state import STATE


def is_known(value: Any) -> bool:
    """Whether a value is one of numbers, a list of such values, or missing."""
    if isinstance(value, list | tuple):
        return all(map(is_known, value))
    return value is None or isinstance(value, np.ndarray | np.generic)


def is_traced(value: Any) -> bool:
    """Whether a value, or one in a list, has only a shape and a dtype yet."""
    return any(map(is_traced, value)) if isinstance(value, list | tuple) else is_symbol(value)


def has_dtype(value: Any) -> bool:
    """Whether rules compute with arrays of the dtype of a NumPy array; those of eight bits are for storage."""
    return (value.dtype in TYPES and value.dtype.kind != "V") or value.dtype == BFLOAT16


def numbers(value: Any, what: str) -> Any:
    """A value as a NumPy array, or a list of them; an error for a value that a trace does not know."""
    if isinstance(value, list):
        return [numbers(x, what) for x in value]
    if is_symbol(value):
        raise OnnxUnsupportedError(
            f"{what} must be known when the graph is compiled, because sizes or the steps of a loop follow from it, "
            "and it is computed from the inputs' values; leave this network unhybridized, or compute it outside"
        )
    return value.asnumpy() if isinstance(value, NDArray) else value


def as_np(value: Any) -> Any:
    """An array or a symbol as one of ``mx.np``; NumPy's arrays as they are."""
    if isinstance(value, list | tuple):
        return [as_np(x) for x in value]
    return value.as_np_ndarray() if isinstance(value, NDArray) or is_symbol(value) else value


# Integers that are not compiled, and the dtypes in which a graph computes with them.
WIDER = {np.dtype(a): np.dtype(b) for a, b in (("int16", "int32"), ("uint16", "int32"), ("uint32", "int64"))}


def widened(value: Any) -> Any:
    """Integers that are not compiled in a dtype that is, and has them all."""
    return value.astype(WIDER[np.dtype(value.dtype)]) if np.dtype(value.dtype) in WIDER else value


def lifted(value: Any) -> Any:
    """A value as an array of ``mx.np``, if it is a NumPy array of a dtype that hybridc has; others are as they are.

    While a graph is traced it is of a dtype that is compiled, and owns its memory: what follows from it is prepared
    once, for which a view of memory that others may write has no right. Of a sequence all elements are lifted.
    """
    if isinstance(value, list):
        return [lifted(x) for x in value]
    if isinstance(value, np.ndarray | np.generic):
        value = np.asarray(value)
        if STATE.trace is not None:
            value = widened(value)
            value = value if value.base is None else value.copy()
        return ndarray(np.asarray(value, order="C")) if has_dtype(value) else value
    return value


def lowered(value: Any) -> Any:
    """A value as NumPy arrays."""
    if isinstance(value, list | tuple):
        return type(value)(map(lowered, value))
    return value.asnumpy() if isinstance(value, NDArray) else value


@contextlib.contextmanager
def at_once() -> Generator[None]:
    """Within the ``with`` block operators on arrays run, also while a graph is traced, and nothing is recorded."""
    trace, STATE.trace = STATE.trace, None
    reading, STATE.reading = STATE.reading, None
    try:
        with autograd.pause(STATE.training):
            yield
    finally:
        STATE.trace, STATE.reading = trace, reading
