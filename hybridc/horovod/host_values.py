"""The values of arrays as collectives need them: contiguous, in memory of the host, and written back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.array.ndarray import NDArray
from hybridc.errors import ArgumentTypeError
from hybridc.ground.watches import written

Array = npt.NDArray[Any]


def checked(what: str, tensor: Any) -> NDArray:
    """The argument ``tensor``, which must be an array."""
    if not isinstance(tensor, NDArray):
        raise ArgumentTypeError(
            f"hvd.{what}: tensor must be an NDArray, got {type(tensor).__name__}; convert it with mx.nd.array(…), and "
            f"call Horovod outside of hybridized blocks"
        )
    return tensor


def own_values(tensor: NDArray) -> Array:
    """The memory of an array itself, if it can be used; a copy otherwise."""
    data: Any = tensor._data
    if type(data) is np.ndarray and data.flags.c_contiguous and data.flags.writeable:
        return data
    return copied(tensor)


def copied(tensor: NDArray) -> Array:
    """A copy of the values."""
    data: Any = tensor._data
    return np.array(data if type(data) is np.ndarray else tensor.asnumpy(), order="C")


def put_back(tensor: NDArray, values: Array) -> None:
    """Write what :func:`own_values` gave back into the array."""
    data: Any = tensor._data
    if values is not data:
        np.copyto(data, values.reshape(tensor.shape), casting="unsafe")
    written(data)


def new_like(tensor: NDArray, values: Array) -> NDArray:
    """A new array of these values on the device of another."""
    return NDArray(values).as_in_context(tensor.context)
