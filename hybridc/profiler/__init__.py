"""``mx.profiler``: what ran when, as a trace for Perfetto or Chrome, and as a table: see docs/profiling.md.

While the profiler runs, hybridc records calls of blocks, eager operators, compiled graphs with their kernels by thread,
loops and host calls, custom operators, compilation, waiting for data, and memory; users add tasks, frames, events,
counters and markers of their own. While it does not run, none of this takes time.
"""

from __future__ import annotations

import warnings
from typing import Any

from hybridc.errors import CheckError, MXNetError, UnknownNameError
from hybridc.options import OPTIONS
from hybridc.profiler.session import SESSION
from hybridc.profiler.settings import configured
from hybridc.profiler.user_events import Counter, Domain, Event, Frame, Marker, Scope, Task, scope

__all__ = [
    "Counter",
    "Domain",
    "Event",
    "Frame",
    "Marker",
    "Scope",
    "Task",
    "dump",
    "dump_profile",
    "dumps",
    "pause",
    "profiler_set_config",
    "profiler_set_state",
    "resume",
    "scope",
    "set_config",
    "set_kvstore_handle",
    "set_state",
    "start",
    "stop",
]

_STATES = ("stop", "run")
_PROCESSES = ("worker", "server")
_FORMATS = ("table", "json")
_ORDERS = ("total", "avg", "min", "max", "count")

#: The handle of a key-value store, as MXNet's profiler keeps it.
profiler_kvstore_handle: Any = None


def set_kvstore_handle(handle: Any) -> None:
    """Note ``handle``, that of the key-value store whose servers would be profiled; there are none here."""
    global profiler_kvstore_handle
    profiler_kvstore_handle = handle


def set_config(**kwargs: Any) -> None:
    """Say what is recorded, and where it is written; what is not given has its default.

    Parameters
    ----------
    filename : str
        The file that :func:`dump` writes, ``profile.json`` by default.
    profile_all : bool
        Record all of the following, False by default.
    profile_symbolic : bool
        Record compiled graphs, their kernels, loops and host calls. True by default, as the next three.
    profile_imperative : bool
        Record eager operators.
    profile_memory : bool
        Record the memory of the process, and of GPUs, every 20 ms.
    profile_api : bool
        Record calls of blocks, of ``autograd.backward``, ``Trainer.step`` and executors.
    continuous_dump : bool
        Write the file every ``dump_period`` seconds. False by default.
    dump_period : float
        Seconds, 1 by default.
    aggregate_stats : bool
        Accepted: the statistics of :func:`dumps` are made of the same events when they are asked for.
    profile_process : str
        ``worker``; there are no processes of servers here.

    Raises
    ------
    MXNetError
        An argument does not exist, or has a value that it cannot have.
    """
    SESSION.configure(configured(kwargs))


def profiler_set_config(mode: str = "symbolic", filename: str = "profile.json") -> None:
    """The old form of :func:`set_config`.

    Parameters
    ----------
    mode:
        What is recorded besides the defaults: ``symbolic``, ``imperative``, ``api``, ``memory`` or ``all``.
    filename:
        The file that :func:`dump` writes.
    """
    _deprecated("profiler_set_config", "set_config")
    SESSION.configure(configured({f"profile_{mode}": True, "filename": filename}))


def set_state(state: str = "stop", profile_process: str = "worker") -> None:
    """Begin (``run``) or end (``stop``) to record.

    Parameters
    ----------
    state:
        ``"run"`` or ``"stop"``.
    profile_process:
        ``"worker"``; ``"server"`` is an MXNetError, as there are no processes of servers.

    Raises
    ------
    UnknownNameError
        Another state, or another process; it is a KeyError, too.
    """
    _check("set_state", "state", state, _STATES)
    _check_process("set_state", profile_process)
    if state == "run":
        SESSION.start()
    else:
        SESSION.stop()


def profiler_set_state(state: str = "stop") -> None:
    """The old name of :func:`set_state`, with its ``state``."""
    _deprecated("profiler_set_state", "set_state")
    set_state(state)


def start(profile_process: str = "worker") -> None:
    """Begin to record: ``set_state("run")``.

    Parameters
    ----------
    profile_process:
        ``"worker"``; ``"server"`` is an MXNetError, as there are no processes of servers.
    """
    set_state("run", profile_process)


def stop(profile_process: str = "worker") -> None:
    """End to record: ``set_state("stop")``.

    Parameters
    ----------
    profile_process:
        ``"worker"``; ``"server"`` is an MXNetError, as there are no processes of servers.
    """
    set_state("stop", profile_process)


def pause(profile_process: str = "worker") -> None:
    """Record nothing until :func:`resume`.

    Parameters
    ----------
    profile_process:
        ``"worker"``; ``"server"`` is an MXNetError, as there are no processes of servers.
    """
    _check_process("pause", profile_process)
    SESSION.pause(True)


def resume(profile_process: str = "worker") -> None:
    """Record again after :func:`pause`.

    Parameters
    ----------
    profile_process:
        ``"worker"``; ``"server"`` is an MXNetError, as there are no processes of servers.
    """
    _check_process("resume", profile_process)
    SESSION.pause(False)


def dump(finished: bool = True, profile_process: str = "worker") -> None:
    """Write what was recorded to the file.

    The file is valid JSON after each dump: the format of Chrome's tracing, which https://ui.perfetto.dev opens.

    Parameters
    ----------
    finished:
        Whether the profiler stops, and the next run begins a new file.
    profile_process:
        ``"worker"``; ``"server"`` is an MXNetError, as there are no processes of servers.

    Raises
    ------
    MXNetError
        The profiler did not run before.
    """
    _check_process("dump", profile_process)
    SESSION.dump(finished is True)


def dump_profile() -> None:
    """The old name of :func:`dump`."""
    _deprecated("dump_profile", "dump")
    dump(True)


def dumps(reset: bool = False, format: str = "table", sort_by: str = "total", ascending: bool = False) -> str:
    """The statistics of what was recorded: for each name the number of times, and total, least, most and mean time.

    Parameters
    ----------
    reset : bool
        Begin statistics anew after this.
    format : str
        ``table`` or ``json``.
    sort_by : str
        ``total``, ``avg``, ``min``, ``max`` or ``count``: how the names of a group are sorted.
    ascending : bool
        The least first.

    Raises
    ------
    CheckError
        An argument has another value; it is an AssertionError, too.
    """
    # COMPAT(mxnet): there the statistics are empty without aggregate_stats=True.
    for name, value, allowed in (
        ("format", format, _FORMATS),
        ("sort_by", sort_by, _ORDERS),
        ("ascending", ascending, (False, True)),
        ("reset", reset, (False, True)),
    ):
        if value not in allowed:
            raise CheckError(f"Invalid value provided for {name}: {value}. Support: {', '.join(map(repr, allowed))}")
    return SESSION.statistics(reset, format == "json", sort_by, ascending)


def _check(function: str, name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UnknownNameError(f"{function}: {name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")


def _check_process(function: str, process: Any) -> None:
    _check(function, "profile_process", process, _PROCESSES)
    if process == "server":
        raise MXNetError(
            f"{function}: profile_process='server' needs servers of a distributed key-value store, which hybridc does "
            "not have; profile the worker, which is the default"
        )


def _deprecated(old: str, new: str) -> None:
    warnings.warn(f"profiler.{old}() is deprecated. Please use profiler.{new}() instead", stacklevel=3)


if OPTIONS.profiler_autostart:
    start()
