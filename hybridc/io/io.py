"""``mx.io.io``: the module in which MXNet keeps what :mod:`hybridc.io` has."""

from __future__ import annotations

from typing import Any

from hybridc.ground.absent import absent as _absent
from hybridc.io.data_iter import DataBatch, DataDesc, DataIter, NDArrayIter, PrefetchingIter, ResizeIter
from hybridc.io.file_iters import CSVIter, LibSVMIter, MNISTIter, MXDataIter

__all__ = [
    "CSVIter", "DataBatch", "DataDesc", "DataIter", "LibSVMIter", "MNISTIter", "MXDataIter", "NDArrayIter",
    "PrefetchingIter", "ResizeIter",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith("Image"):
        from hybridc.image import det_record_iter, record_iter

        for module in (record_iter, det_record_iter):
            if name in module.__all__:
                return getattr(module, name)
    raise _absent("mx.io", name, "iterator", globals())
