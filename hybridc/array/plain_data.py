"""Plain data as JSON and arrays beside it: how states are written into files that can hold no code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray

Array = npt.NDArray[Any]


def encode(value: Any, arrays: list[Array]) -> Any:
    """Plain data as JSON; copies of arrays are appended to ``arrays``, and named by their index.

    Plain are None, numbers, texts, bytes, arrays, and lists, tuples and dicts of these; anything else is a TypeError.
    NumPy's scalars become Python's.
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return cast("Any", value).item()
    if isinstance(value, NDArray):
        arrays.append(value.asnumpy())
        return {"array": len(arrays) - 1}
    if type(value) is np.ndarray and value.dtype.kind not in "OMm":
        arrays.append(value.copy(order="C"))
        return {"numpy": len(arrays) - 1}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, (list, tuple)):
        items = [encode(v, arrays) for v in cast("list[Any]", value)]
        return {"list" if isinstance(value, list) else "tuple": items}
    if isinstance(value, dict):
        mapping = cast("dict[Any, Any]", value)
        return {"dict": [[encode(k, arrays), encode(v, arrays)] for k, v in mapping.items()]}
    raise TypeError(f"it holds a {type(value).__name__}, expected numbers, texts, arrays, and lists or dicts of these")


def decode(value: Any, arrays: Sequence[Array]) -> Any:
    """The data of :func:`encode`; a TypeError, ValueError or LookupError if it is damaged."""
    if not isinstance(value, dict):
        return value
    [(kind, content)] = cast("dict[str, Any]", value).items()
    if kind in ("array", "numpy"):
        if not isinstance(content, int) or not 0 <= content < len(arrays):
            raise ValueError(f"array {content!r} does not exist; the file has {len(arrays)}")
        return NDArray(arrays[content]) if kind == "array" else arrays[content]
    if kind == "bytes":
        return bytes.fromhex(content)
    if kind == "dict":
        return {_key(decode(k, arrays)): decode(v, arrays) for k, v in _listed(content)}
    if kind not in ("list", "tuple"):
        raise ValueError(f"unknown kind of value {kind!r}")
    items = [decode(v, arrays) for v in _listed(content)]
    return items if kind == "list" else tuple(items)


def _key(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        raise ValueError(f"a {type(value).__name__} is a key of a dict") from None
    return value


def _listed(content: Any) -> list[Any]:
    if not isinstance(content, list):
        raise TypeError(f"got a {type(content).__name__}, expected a list")
    return cast("list[Any]", content)
