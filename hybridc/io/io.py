"""``mx.io.io``: the module in which MXNet keeps what :mod:`hybridc.io` has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.io.data_iter import DataBatch, DataDesc, DataIter, NDArrayIter, PrefetchingIter, ResizeIter
from hybridc.io.file_iters import CSVIter, LibSVMIter, MNISTIter, MXDataIter

__all__ = [
    "CSVIter", "DataBatch", "DataDesc", "DataIter", "LibSVMIter", "MNISTIter", "MXDataIter", "NDArrayIter",
    "PrefetchingIter", "ResizeIter",
]  # fmt: skip


_OF_IMAGES = {
    "ImageDetRecordIter", "ImageRecordInt8Iter", "ImageRecordIter", "ImageRecordIter_v1", "ImageRecordUInt8Iter",
    "ImageRecordUInt8Iter_v1",
}  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name in _OF_IMAGES:
            from hybridc.image import det_record_iter, record_iter

            return getattr(det_record_iter if name in det_record_iter.__all__ else record_iter, name)
        raise _absent("mx.io", name, "iterator", __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *_OF_IMAGES})
