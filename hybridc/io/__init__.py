"""Iterators over batches, ``mx.io``: what MXNet's Module API, and loops over epochs, feed to networks."""

from __future__ import annotations

from typing import Any

from hybridc.ground.absent import absent as _absent
from hybridc.io.data_iter import DataBatch, DataDesc, DataIter, NDArrayIter, PrefetchingIter, ResizeIter

__all__ = ["DataBatch", "DataDesc", "DataIter", "NDArrayIter", "PrefetchingIter", "ResizeIter"]


def __getattr__(name: str) -> Any:
    if name == "ImageRecordIter":
        from hybridc.image import record_iter

        return record_iter.ImageRecordIter
    raise _absent("mx.io", name, "iterator", globals())
