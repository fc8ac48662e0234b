"""Key-value stores, ``mx.kvstore``: how the devices of data-parallel training share gradients and weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.kvstore import base, kvstore, kvstore_server
from hybridc.kvstore.base import KVStoreBase, create
from hybridc.kvstore.kvstore import KVStore
from hybridc.kvstore.kvstore_server import KVStoreServer

__all__ = ["KVStore", "KVStoreBase", "KVStoreServer", "base", "create", "kvstore", "kvstore_server"]


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.kvstore", name, "attribute", __all__)
