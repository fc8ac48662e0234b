"""Servers of distributed training, of which this version has none."""

from __future__ import annotations

from typing import Any, NoReturn

from hybridc.errors import UnsupportedError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """A process that keeps the values of several workers in MXNet; :meth:`run` raises here."""

    def __init__(self, kvstore: Any) -> None:
        self.kvstore = kvstore
        self.init_logginig = False  # MXNet's spelling

    def run(self) -> NoReturn:
        """Raises: training on several machines is not offered."""
        raise UnsupportedError(
            "KVStoreServer.run: this version of hybridc does not train on several machines; use mx.kv.create('local')"
        )
