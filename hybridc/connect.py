"""Connects lower layers with the higher ones that they call, by :data:`hybridc.hooks.HOOKS`.

Each function imports its module when it is first called: to import hybridc imports neither the compiler nor devices.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hybridc.hooks import HOOKS


@functools.cache
def _arrays() -> Any:
    from hybridc import nd

    return nd


@functools.cache
def _symbols() -> Any:
    from hybridc import symbol

    return symbol


def _new_trace(training: bool) -> Any:
    from hybridc.trace.tracer import Trace

    return Trace(training)


def _compile(trace: Any) -> Callable[..., Any]:
    from hybridc.compile.stages import Traced

    return Traced(trace).graph()


@functools.cache
def _on_device() -> Any:
    from hybridc.nd import on_device

    return on_device


@functools.cache
def _devices() -> Any:
    from hybridc.runtime.devices import choose

    return choose


@functools.cache
def _autograd() -> Any:
    from hybridc import autograd

    return autograd


@functools.cache
def _library() -> Any:
    from hybridc import library

    return library


def connect() -> None:
    """Register them all."""
    HOOKS.register(
        arrays=_arrays,
        symbols=_symbols,
        new_trace=_new_trace,
        compile=_compile,
        on_device=_on_device,
        devices=_devices,
        library=_library,
        autograd=_autograd,
    )
