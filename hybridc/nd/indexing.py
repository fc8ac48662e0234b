"""Indexing of arrays: basic keys give views, advanced keys gather."""

from __future__ import annotations

from typing import Any

import numpy as np


def _unwrap(key: Any) -> Any:
    from hybridc.nd.ndarray import NDArray

    if isinstance(key, tuple):
        return tuple(_unwrap(k) for k in key)
    if isinstance(key, NDArray):
        data = key._data
        return data if data.dtype.kind in "iub" else data.astype(np.int64)
    return key


def getitem(x: Any, key: Any) -> Any:
    """``x[key]``."""
    from hybridc.nd.ndarray import NDArray

    return NDArray(np.atleast_1d(x._data[_unwrap(key)]))


def setitem(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value``."""
    x._data[_unwrap(key)] = value._data if hasattr(value, "_data") else value
