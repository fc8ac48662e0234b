"""The same values on all ranks: parameters and objects of one rank, objects of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.communication.communicator import labelled
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.ground.events import recorded
from hybridc.horovod.host_values import own_values, put_back
from hybridc.horovod.rank_sets import communicator_of, global_process_set

T = TypeVar("T")


def broadcast_parameters(
    params: ParameterDict | Mapping[str, Any], root_rank: int = 0, prefix: str | None = None
) -> None:
    """Give all ranks the values that parameters have on one.

    A parameter that still waits for its shape is broadcast when it gets it: then all ranks must run the first forward
    pass.

    Parameters
    ----------
    params:
        ``net.collect_params()``, or a dict of arrays; anything else is a ValueError.
    root_rank:
        The rank whose values they are: its number among all ranks, else a ValueError.
    prefix:
        Distinguishes several calls in errors; None for nothing.
    """
    if not isinstance(params, Mapping | ParameterDict):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"invalid params of type: {type(params)}; expected a dict of arrays, or net.collect_params()")
    if prefix is not None and not isinstance(prefix, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"prefix must be a string, got {prefix!r}")
    ranks, root = communicator_of(global_process_set), global_process_set.place(root_rank, "hvd.broadcast_parameters")
    if ranks.size == 1:
        return
    named = [(f"{prefix or ''}{name}", value) for name, value in params.items()]
    ready: list[tuple[str, NDArray]] = []
    for name, value in sorted(named, key=lambda item: item[0]):
        if not isinstance(value, Parameter):
            ready.append((name, value))
        elif value.is_deferred:
            value.when_initialized(lambda arrays, name=name: _broadcast([(name, x) for x in arrays], root))
        else:
            ready += [(name, x) for x in value.arrays()]
    _broadcast(ready, root)
    for value in params.values():
        if isinstance(value, Parameter) and not value.is_deferred:
            value.set_data(value.arrays()[0])  # a store that has a copy learns of it


def _broadcast(named: Sequence[tuple[str, NDArray]], root: int) -> None:
    """Broadcast arrays in place."""
    ranks = communicator_of(global_process_set)
    call = f"hvd.broadcast_parameters from rank {root}"
    ranks.agree(call, {name: f"{np.dtype(x.dtype)}{list(x.shape)}" for name, x in named})
    with labelled(call), recorded("communication", "broadcast_parameters", arrays=len(named)):
        for _, x in named:
            values = own_values(x)
            ranks.broadcast(values, root)
            put_back(x, values)


def broadcast_object(obj: T, root_rank: int = 0, name: str | None = None) -> T:
    """The object of one rank, on all of them.

    Parameters
    ----------
    obj:
        The object, which it must be possible to pickle.
    root_rank:
        The rank whose values they are: its number among all ranks, else a ValueError.
    name:
        Distinguishes this call in errors; None for nothing.
    """
    ranks, root = communicator_of(global_process_set), global_process_set.place(root_rank, "hvd.broadcast_object")
    with labelled(f"hvd.broadcast_object{'' if name is None else f' {name!r}'} from rank {root_rank}"):
        return ranks.broadcast_object(obj, root)


def allgather_object(obj: T, name: str | None = None) -> list[T]:
    """The objects of all ranks, a list by rank.

    Parameters
    ----------
    obj:
        This rank's object, which it must be possible to pickle.
    name:
        Distinguishes this call in errors; None for nothing.
    """
    ranks = communicator_of(global_process_set)
    with labelled(f"hvd.allgather_object{'' if name is None else f' {name!r}'}"):
        return ranks.gather_objects(obj)
