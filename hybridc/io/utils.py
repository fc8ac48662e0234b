"""``mx.io.utils``: how iterators take their arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hybridc.array.ndarray import NDArray, values_of
from hybridc.io.data_iter import named_arrays


def has_instance(data: Iterable[tuple[str, Any]], dtype: type) -> bool:
    """Whether one of the arrays of ``data``, pairs of names and arrays, is of the class ``dtype``."""
    return any(isinstance(x, dtype) for _, x in data)


def rows_of(data: Iterable[tuple[str, NDArray]], idx: Any) -> list[tuple[str, NDArray]]:
    """The arrays of ``data``, pairs of names and arrays, with only the rows ``idx``, in this order."""
    return [(name, NDArray(values_of(x)[idx])) for name, x in data]


# The names by which programs know them.
_init_data, _has_instance, _getdata_by_idx = named_arrays, has_instance, rows_of
