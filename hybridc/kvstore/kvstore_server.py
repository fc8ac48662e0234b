"""Servers of distributed training, of which there are none here: all processes are workers."""

from __future__ import annotations

from typing import Any, NoReturn

from hybridc.errors import UnsupportedError

__all__ = ["KVStoreServer"]


class KVStoreServer:
    """A process that keeps the values of several workers in MXNet; :meth:`run` raises here.

    Parameters
    ----------
    kvstore:
        A store, which is kept as the attribute ``kvstore``.
    """

    def __init__(self, kvstore: Any) -> None:
        self.kvstore = kvstore
        self.init_logginig = False  # MXNet's spelling

    def run(self) -> NoReturn:
        """Raises: ranks sum gradients among themselves."""
        raise UnsupportedError(
            "KVStoreServer.run: there are no servers here, several machines train as ranks that sum gradients among "
            "themselves; start them by python -m hybridc launch -n N script.py, and use mx.kv.create('dist_sync')"
        )
