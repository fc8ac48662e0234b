"""The interface of key-value stores, their registry, and :func:`create`."""

from __future__ import annotations

import os
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from hybridc.array.ndarray import NDArray
from hybridc.errors import AttributeValueError, UnsupportedError
from hybridc.registry import enter

__all__ = ["KVStoreBase", "TestStore", "create"]

C = TypeVar("C", bound=type[Any])


class KVStoreBase:
    """A store of arrays by key, through which the devices of data-parallel training share gradients or weights.

    A subclass that :meth:`register` was called with can be made by :func:`create`, and given to ``Module.fit`` and
    ``gluon.Trainer``. It defines the methods below.
    """

    OPTIMIZER = "optimizer"
    kv_registry: ClassVar[dict[str, type[Any]]] = {}

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Keep the value of the first worker under a key, and copy it into ``out`` (one array, or a list)."""
        self._lacks("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the arrays of a key, and copy the result into ``out``, or into ``value`` if that is None."""
        self._lacks("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the store update its values by an optimizer, from the gradients that are pushed."""
        self._lacks("set_optimizer")

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do something; ``"optimizer"``: run the optimizer."""
        self._lacks("is_capable")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Save the optimizer's states, and with ``dump_optimizer`` its settings."""
        self._lacks("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Load what :meth:`save_optimizer_states` saved."""
        self._lacks("load_optimizer_states")

    def _lacks(self, name: str) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} does not define {name}")

    @property
    def type(self) -> str:
        """The name of this kind of store."""
        self._lacks("type")

    @property
    def rank(self) -> int:
        """The number of this worker, from 0."""
        self._lacks("rank")

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        self._lacks("num_workers")

    @staticmethod
    def register(klass: C) -> C:
        """Make a class known to :func:`create` by its lower-case name; a decorator."""
        return enter(KVStoreBase.kv_registry, "kvstore", klass)


@KVStoreBase.register
class TestStore(KVStoreBase):
    """A store that only sums and copies: it keeps nothing and runs no optimizer."""

    __test__ = False  # pytest: no tests in here

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Copy the value into ``out``."""
        for each in listed(out):
            each[:] = value

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Copy the sum of the arrays into ``out``, or into themselves."""
        arrays = listed(value)
        total = arrays[0].copy()
        for each in arrays[1:]:
            total += each
        for each in arrays if out is None else listed(out):
            each[:] = total

    def is_capable(self, capability: str) -> bool:
        """False for ``"optimizer"``."""
        check_capability(capability)
        return False

    @property
    def type(self) -> str:
        """The name of this kind of store."""
        return "teststore"

    @property
    def rank(self) -> int:
        """0: there is one worker."""
        return 0

    @property
    def num_workers(self) -> int:
        """1."""
        return 1


def check_capability(capability: str) -> None:
    """Raise unless there is such a capability."""
    if capability.lower() != KVStoreBase.OPTIMIZER:
        raise ValueError(f"Unknown capability: {capability}; there is {KVStoreBase.OPTIMIZER!r}")


def listed(arrays: Any) -> list[Any]:
    """One array or several, as a list."""
    return [arrays] if isinstance(arrays, NDArray) else list(cast("list[Any]", arrays))


# The kinds of stores of one process that MXNet's names choose; they differ there in where sums are made.
_LOCAL = ("local", "device", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device")


def create(name: str = "local") -> Any:
    """A new store: ``"local"`` or ``"device"``, which are the same on CPUs, or the name of a registered class.

    ``"dist_sync"`` and the like, of several machines, raise.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"kvstore.create: name must be a string, got {name!r}")
    name = name.lower()
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if name.startswith("dist") or name in ("p3", "horovod", "byteps"):
        role = os.environ.get("DMLC_ROLE")
        extra = f" (DMLC_ROLE={role} is set)" if role else ""
        raise UnsupportedError(
            f"kvstore.create: {name!r}{extra} is for training on several machines, which this version of hybridc does "
            f"not have; use 'local' or 'device', or register a store with mx.kvstore.KVStoreBase.register"
        )
    if name == "nccl":
        raise UnsupportedError("kvstore.create: 'nccl' is not offered; use 'device'")
    if name not in _LOCAL:
        # COMPAT(mxnet): there an unknown name is taken for 'local'.
        known = ", ".join(map(repr, [*_LOCAL, *KVStoreBase.kv_registry]))
        raise AttributeValueError(f"kvstore.create: there is no store {name!r}; there are {known}")
    return KVStoreBase.kv_registry["kvstore"](name)
