"""Key-value stores, ``mx.kvstore``: how the devices of data-parallel training share gradients and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.kvstore import base, kvstore, kvstore_server, summing_store
from hybridc.kvstore.base import KVStoreBase, create
from hybridc.kvstore.distributed import DistributedKVStore
from hybridc.kvstore.kvstore import KVStore
from hybridc.kvstore.kvstore_server import KVStoreServer

__all__ = [
    "DistributedKVStore",
    "KVStore",
    "KVStoreBase",
    "KVStoreServer",
    "base",
    "create",
    "kvstore",
    "kvstore_server",
    "summing_store",
]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.kvstore", name, "attribute", __all__)
