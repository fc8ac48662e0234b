"""Iterators over batches, ``mx.io``: what MXNet's Module API, and loops over epochs, feed to networks."""

from __future__ import annotations

from typing import Any

from hybridc.io import io, utils
from hybridc.io.data_iter import DataBatch, DataDesc, DataIter, NDArrayIter, PrefetchingIter, ResizeIter
from hybridc.io.file_iters import CSVIter, LibSVMIter, MNISTIter, MXDataIter

__all__ = [
    "CSVIter", "DataBatch", "DataDesc", "DataIter", "LibSVMIter", "MNISTIter", "MXDataIter", "NDArrayIter",
    "PrefetchingIter", "ResizeIter", "io", "utils",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    return getattr(io, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(io)})
