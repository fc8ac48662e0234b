"""The interface of key-value stores, their registry, and :func:`create`."""

from __future__ import annotations

import os
from typing import Any, ClassVar, NoReturn, TypeVar, cast

from hybridc.array.ndarray import NDArray
from hybridc.communication import is_launched
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
        """Keep the value of the first worker under a key, and copy it into arrays.

        Parameters
        ----------
        key:
            An int or a string, or a list of them.
        value:
            The array, or a list of one for each key.
        out:
            The array that gets the value, or a list of such, one for each device; for several keys a list of these.
        priority:
            Accepted for MXNet's API, without effect.
        """
        self._lacks("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Sum the arrays of a key, and copy the result into others.

        Parameters
        ----------
        key:
            An int or a string, or a list of them.
        value:
            The array, or a list of such, one for each device; for several keys a list of these.
        out:
            The arrays that get the sum, as ``value``; None for ``value`` itself.
        priority:
            Accepted for MXNet's API, without effect.
        """
        self._lacks("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Let the store update its values by an optimizer, from the gradients that are pushed.

        Parameters
        ----------
        optimizer:
            An ``mx.optimizer.Optimizer``.
        """
        self._lacks("set_optimizer")

    def is_capable(self, capability: str) -> bool:
        """Whether the store can do something.

        Parameters
        ----------
        capability:
            ``"optimizer"``: run the optimizer; others are a ValueError.
        """
        self._lacks("is_capable")

    def save_optimizer_states(self, fname: str, dump_optimizer: bool = False) -> None:
        """Save the optimizer's states.

        Parameters
        ----------
        fname:
            The file, which appears whole or not at all.
        dump_optimizer:
            Save the optimizer's settings, too.
        """
        self._lacks("save_optimizer_states")

    def load_optimizer_states(self, fname: str) -> None:
        """Load what :meth:`save_optimizer_states` saved.

        Parameters
        ----------
        fname:
            The file, of this library or of MXNet. An MXNetError is raised if it is damaged.
        """
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
        """Make a class known to :func:`create` by its lower-case name; a decorator.

        Parameters
        ----------
        klass:
            The class, which is returned.
        """
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

    @staticmethod
    def is_capable(capability: str) -> bool:  # pyright: ignore[reportIncompatibleMethodOverride] - as in MXNet
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
# The kinds of stores of all ranks of a program; they differ there in where sums are made, and in the order of sending.
_OVER_RANKS = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device", "dist_device", "p3", "nccl")
_PLUGINS = ("horovod", "byteps")


def is_over_ranks(name: Any) -> bool:
    """Whether a name is that of a store of all ranks of a program, or meant to be."""
    return isinstance(name, str) and (name.lower() in (*_OVER_RANKS, *_PLUGINS) or name.lower().startswith("dist"))


def create(name: str = "local") -> Any:
    """A new store, by its name.

    Parameters
    ----------
    name:
        ``"local"`` or ``"device"``, which are the same on CPUs: of the devices of this process. ``"dist_sync"`` and the
        like, ``"horovod"``: of all ranks that ``python -m hybridc launch`` started; all of them make it. Otherwise the
        name of a registered class, in any case. An AttributeValueError is raised for others, an UnsupportedError for
        ``"dist_async"``.

    Examples
    --------
    >>> store = mx.kv.create("local")
    >>> store.init(3, mx.nd.ones(2))
    >>> store.push(3, [mx.nd.array([1, 2]), mx.nd.array([10, 20])])
    >>> out = mx.nd.zeros(2)
    >>> store.pull(3, out=out)
    >>> out.tolist()
    [11.0, 22.0]
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"kvstore.create: name must be a string, got {name!r}")
    name = name.lower()
    if is_over_ranks(name):
        _check_launcher(name)
    if name in KVStoreBase.kv_registry:
        return KVStoreBase.kv_registry[name]()
    if "async" in name and name.startswith("dist"):
        raise UnsupportedError(
            f"kvstore.create: {name!r} is not offered: what updates from old weights give depends on chance. For less "
            f"communication use local SGD, gluon.TrainStep(..., sync_every=k), which averages the parameters every k "
            f"steps; 'dist_sync' sums gradients at each step"
        )
    if name in _OVER_RANKS:
        return KVStoreBase.kv_registry["distributedkvstore"](name)
    if name not in _LOCAL:
        # COMPAT(mxnet): there an unknown name is taken for 'local'.
        known = ", ".join(map(repr, [*_LOCAL, *_OVER_RANKS, *KVStoreBase.kv_registry]))
        raise AttributeValueError(f"kvstore.create: there is no store {name!r}; there are {known}")
    return KVStoreBase.kv_registry["kvstore"](name)


def _check_launcher(name: str) -> None:
    """Raise if MXNet's launcher started this process, which would be alone here."""
    role, count = os.environ.get("DMLC_ROLE"), os.environ.get("DMLC_NUM_WORKER", "1")
    if role is None or is_launched() or (role == "worker" and count in ("", "1")):
        return
    raise UnsupportedError(
        f"kvstore.create: {name!r} in a process that MXNet's launcher started (DMLC_ROLE={role}, "
        f"DMLC_NUM_WORKER={count}): there are no servers and schedulers here, all processes are workers; start them by "
        f"python -m hybridc launch -n {count} script.py, without these variables"
    )
