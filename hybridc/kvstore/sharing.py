"""How parameters on several devices share a store: what Module, FeedForward and gluon's Trainer do at a step."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.communication.agreement import require_equal
from hybridc.kvstore.base import KVStoreBase, create, is_over_ranks
from hybridc.kvstore.distributed import DistributedKVStore
from hybridc.kvstore.kvstore import KVStore
from hybridc.kvstore.summing_store import Horovod
from hybridc.optimizer.plain_settings import settings_of

# Parameters of one device after the other: the arrays of each parameter.
Arrays = Sequence[Sequence[NDArray | None]]

# Elements of an array from which on a store of type "local" leaves updates to the devices; MXNet's.
_LARGE = 1024 * 1024 * 16


def create_kvstore(kvstore: Any, num_device: int, arg_params: Mapping[str, NDArray]) -> tuple[Any, bool]:
    """The store, or None where one device needs none, and whether it runs the optimizer.

    ``kvstore`` is None, a name as :func:`create` takes it, or a store.
    """
    on_store = os.environ.get("MXNET_UPDATE_ON_KVSTORE", "1") not in ("0", "")
    store = kvstore
    if isinstance(kvstore, str):
        store = create(kvstore) if num_device > 1 or is_over_ranks(kvstore) else None
        if kvstore == "local" and any(x.size > _LARGE for x in arg_params.values()):
            on_store = False
    elif kvstore is not None and not isinstance(kvstore, KVStoreBase):
        raise TypeError(f"kvstore must be KVStore, str or None, got {kvstore!r}")
    return store, store is not None and on_store and store.is_capable(KVStoreBase.OPTIMIZER)


def sums_over_ranks(store: Any) -> bool:
    """Whether a store sums gradients over several ranks."""
    return isinstance(store, DistributedKVStore | Horovod)


def total_batch_size(store: Any, batch_size: int) -> int:
    """The number of samples in the batches of all workers of a store together, of one that is fixed for training."""
    # COMPAT(mxnet): there only names with "dist" and "_sync" count, so that the steps of "dist", "p3" and "horovod" are
    # too large by the number of workers.
    if store is None or not (sums_over_ranks(store) or ("dist" in store.type and "_sync" in store.type)):
        return batch_size
    return batch_size * store.num_workers


def check_optimizer(store: Any, optimizer: Any) -> None:
    """Raise if ranks would update with optimizers of different settings; a store that has one compares by itself."""
    if sums_over_ranks(store):
        require_equal("the optimizer", settings_of(optimizer), store.rank_sums.ranks)


def initialize_kvstore(
    kvstore: Any,
    param_arrays: Arrays,
    arg_params: Mapping[str, NDArray],
    param_names: Sequence[str],
    update_on_kvstore: bool,
) -> None:
    """Put the parameters into a store; where it updates them, or is of several ranks, also from there onto devices."""
    # COMPAT(mxnet): there ranks that update by themselves begin with different parameters.
    copied = update_on_kvstore or sums_over_ranks(kvstore)
    for name, arrays in zip(param_names, param_arrays, strict=True):
        # A store that only sums keeps nothing, so it may have no init.
        if copied or not hasattr(kvstore, "init"):
            kvstore.broadcast(name, arg_params[name], out=list(arrays))
        else:
            kvstore.init(name, arg_params[name])


def update_params_on_kvstore(
    param_arrays: Arrays, grad_arrays: Arrays, kvstore: Any, param_names: Sequence[str]
) -> None:
    """Give the store the gradients, and the devices the parameters that it updated."""
    rows = [
        (name, list(grads), list(params))
        for name, params, grads in zip(param_names, param_arrays, grad_arrays, strict=True)
        if grads[0] is not None
    ]
    pushpull_all(kvstore, rows)


def pushpull_all(kvstore: Any, rows: Sequence[tuple[Any, list[Any], list[Any] | None]]) -> None:
    """Call ``pushpull`` for keys with what goes in and out: of our own stores all at once, so that updates are one."""
    if isinstance(kvstore, KVStore | Horovod):
        keys, values, outs = ([row[i] for row in rows] for i in range(3))
        if keys:
            kvstore.pushpull(keys, values, None if outs[0] is None else outs)
        return
    for i, (key, value, out) in enumerate(rows):
        kvstore.pushpull(key, value, out=out, priority=-i)


def update_params(
    param_arrays: Arrays,
    grad_arrays: Arrays,
    updater: Any,
    num_device: int,
    kvstore: Any = None,
    param_names: Sequence[str] | None = None,
) -> None:
    """Update the parameters of each device with gradients that a store, if there is one, has summed.

    The updater knows array ``k`` of parameter ``i`` by the number ``i * num_device + k``.
    """
    if kvstore is not None:
        assert param_names is not None
        named = zip(param_names, grad_arrays, strict=True)
        pushpull_all(kvstore, [(name, list(grads), None) for name, grads in named if grads[0] is not None])
    rows: list[list[tuple[int, Any, Any]]] = [[] for _ in range(num_device)]
    for index, (params, grads) in enumerate(zip(param_arrays, grad_arrays, strict=True)):
        if grads[0] is None:
            continue
        for k, (param, grad) in enumerate(zip(params, grads, strict=True)):
            rows[k].append((index * num_device + k, grad, param))
    for each in rows:
        if each:
            updater(*map(list, zip(*each, strict=True)))
