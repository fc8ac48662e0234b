"""Sums over axes of sparse arrays; the results are dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.sparse_storage import CsrStorage, SparseStorage


def summed(x: SparseStorage, axes: tuple[int, ...]) -> Any:
    """The sums of the values along axes, which stay with size 1; matrices are added in double precision."""
    if not isinstance(x, CsrStorage):
        return _of_rows(x, axes)
    if axes == (0,):
        sums = np.bincount(x.indices, x.data, x.shape[1])[None]
    elif axes == (1,):
        sums = np.bincount(x.rows(), x.data, x.shape[0])[:, None]
    else:
        return x.dense() if not axes else np.sum(x.data, dtype=np.float64).astype(x.dtype).reshape(1, 1)
    return sums.astype(x.dtype)


def _of_rows(x: SparseStorage, axes: tuple[int, ...]) -> Any:
    sums = np.sum(x.data, axes, keepdims=True)
    if 0 in axes:
        return sums
    made = np.zeros((x.shape[0], *sums.shape[1:]), sums.dtype)
    made[x.indices] = sums
    return made
