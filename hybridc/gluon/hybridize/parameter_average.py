"""The average of parameters over ranks, for training in which these go on alone for some steps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hybridc.array.ndarray import values_of
from hybridc.communication import communicator
from hybridc.dtypes import is_float, wide
from hybridc.ground.watches import all_written


def average(parameters: Iterable[Any]) -> None:
    """Replace the values of parameters, running statistics too, by their means over all ranks, which call this."""
    ranks = communicator()
    if ranks.size == 1:
        return
    arrays = [parameter.array() for parameter in parameters if is_float(np.dtype(parameter.dtype))]
    for dtype in dict.fromkeys(wide(x._data.dtype) for x in arrays):
        some = [x for x in arrays if wide(x._data.dtype) == dtype]
        flat = np.concatenate([values_of(x).reshape(-1).astype(dtype) for x in some])
        ranks.allreduce(flat)
        flat /= ranks.size
        begin = 0
        for x in some:
            x._data[...] = flat[begin : begin + x.size].reshape(x.shape)
            begin += x.size
    all_written([x._data for x in arrays])
