"""Key-value stores, ``mx.kvstore``: how the devices of data-parallel training share gradients and weights."""

from __future__ import annotations

from typing import Any

from hybridc.ground.absent import absent as _absent
from hybridc.kvstore import base, kvstore, kvstore_server
from hybridc.kvstore.base import KVStoreBase, create
from hybridc.kvstore.kvstore import KVStore
from hybridc.kvstore.kvstore_server import KVStoreServer

__all__ = ["KVStore", "KVStoreBase", "KVStoreServer", "base", "create", "kvstore", "kvstore_server"]


def __getattr__(name: str) -> Any:
    raise _absent("mx.kvstore", name, "attribute", __all__)
