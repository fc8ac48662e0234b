"""Connects lower layers with the higher ones that they call, by :data:`hybridc.ground.hooks.HOOKS`.

Modules are imported when they are first asked for: to import hybridc imports neither the compiler nor devices.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from hybridc import autograd, nd
from hybridc.ground.hooks import HOOKS
from hybridc.trace.tracer import Trace


def _when_called(module: str) -> Callable[[], Any]:
    return functools.cache(functools.partial(importlib.import_module, module))


_stages = _when_called("hybridc.compile.stages")
_infer = _when_called("hybridc.symbol.infer")
_recorded = _when_called("hybridc.symbol.recorded")


def _compile(trace: Trace) -> Callable[..., Any]:
    return _stages().Traced(trace).graph()


def _graph_shapes(*args: Any) -> Any:
    return _infer().graph_shapes(*args)


def _symbol_of_tape(x: Any) -> Any:
    return _recorded().symbol_of_tape(x)


def connect() -> None:
    """Register them all."""
    HOOKS.register(
        arrays=lambda: nd,
        autograd=lambda: autograd,
        new_trace=Trace,
        compile=_compile,
        graph_shapes=_graph_shapes,
        symbols=_when_called("hybridc.symbol"),
        symbol_of_tape=_symbol_of_tape,
        np=_when_called("hybridc.np"),
        npx=_when_called("hybridc.npx"),
        images=_when_called("hybridc.image"),
        contrib_onnx=_when_called("hybridc.contrib.onnx"),
        on_device=_when_called("hybridc.nd.on_device"),
        devices=_when_called("hybridc.runtime.devices.choose"),
        library=_when_called("hybridc.library"),
        onnx=_when_called("hybridc.onnx"),
    )
