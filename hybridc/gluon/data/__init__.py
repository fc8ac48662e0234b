"""Data sets, samplers and the loader: ``mx.gluon.data``.

A data set gives an example by its number, a sampler the order of the numbers, and the loader batches of examples:
``for x, y in DataLoader(ArrayDataset(x, y), 64, shuffle=True)``. Images and their transforms are in
``mx.gluon.data.vision``, samples of unequal lengths are batched by ``mx.gluon.data.batchify``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.gluon.data import batchify, vision
from hybridc.gluon.data.dataloader import DataLoader, default_batchify_fn, default_mp_batchify_fn
from hybridc.gluon.data.dataset import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from hybridc.gluon.data.sampler import (
    BatchSampler,
    DistributedSampler,
    FilterSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)
from hybridc.ground.absent import absent as _absent

__all__ = [
    "ArrayDataset", "BatchSampler", "DataLoader", "Dataset", "DistributedSampler", "FilterSampler", "RandomSampler",
    "RecordFileDataset", "Sampler", "SequentialSampler", "SimpleDataset", "batchify", "default_batchify_fn",
    "default_mp_batchify_fn", "vision",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.gluon.data", name, "attribute", globals())
