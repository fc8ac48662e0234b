"""The numbers of constants as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute


def numbers_in(value: Attribute, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The array that a dense attribute says."""
    assert isinstance(value, DenseIntOrFPElementsAttr)
    numbers: list[Any] = list(value.get_values())
    if len(set(numbers)) == 1:  # as one number or as many
        return np.full(shape, np.asarray(numbers[0]).astype(dtype))
    return np.asarray(numbers).astype(dtype).reshape(shape)
