"""Callbacks into higher layers, registered by these, so that imports between layers point one way.

An operator's rule applies other operators, but operators know neither arrays nor symbols; a device is found by the
runtime, but contexts name it; a part of a graph is compiled where the compiler is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Hooks:
    """The registered functions. Those that return a module import it on first call."""

    #: ``invoke(op, inputs, out=None)`` applies an operator: eagerly to arrays, by recording to symbols.
    invoke: Callable[..., Any]
    #: ``execute(op, arrays)`` applies a bound operator (train mode, counter, key): all of its outputs.
    execute: Callable[[Any, Any], list[Any]]
    #: ``function(name)`` is the function of an operator: ``nd.<name>``.
    function: Callable[[str], Callable[..., Any]]
    #: ``getitem(x, key)`` is ``x[key]``, of an array or a symbol.
    getitem: Callable[[Any, Any], Any]
    #: The NDArray of a raw array.
    wrap: Callable[[Any], Any]
    #: The NumPy array of the bytes that MXNet's files have of one.
    array_of_bytes: Callable[[Any], Any]
    #: The ``F`` of rules on arrays: ``mx.nd``.
    arrays: Callable[[], Any]
    #: The ``F`` of recorded rules: ``mx.sym``.
    symbols: Callable[[], Any]
    #: ``new_trace(training)`` is an empty trace.
    new_trace: Callable[[bool], Any]
    #: ``graph_shapes(body, arguments, results)`` infers the shapes of arguments and results of a nested graph.
    graph_shapes: Callable[..., Any]
    #: ``compile(trace)`` is the compiled graph of a trace.
    compile: Callable[[Any], Callable[..., Any]]
    #: As ``invoke``, where some of the inputs are sparse arrays.
    invoke_sparse: Callable[..., Any]
    #: The array of a sparse storage.
    wrap_sparse: Callable[[Any], Any]
    #: ``assign_sparse(buffer, array)`` gives an array the values of a buffer, where one of them is sparse.
    assign_sparse: Callable[[Any, Any], None]
    #: ``assign_gradient(leaf, gradient)`` puts a gradient into its buffer, where one of them is sparse.
    assign_gradient: Callable[[Any, Any], None]
    #: ``cast_storage(x, stype)`` is an array in another storage type.
    cast_storage: Callable[[Any, str], Any]
    #: The module of arrays on GPUs, :mod:`hybridc.nd.on_device`.
    on_device: Callable[[], Any]
    #: The module of NumPy's functions, :mod:`hybridc.np`.
    np: Callable[[], Any]
    #: The module of operators on NumPy's arrays, :mod:`hybridc.npx`.
    npx: Callable[[], Any]
    #: The module of images, :mod:`hybridc.image`.
    images: Callable[[], Any]
    #: The module of MXNet's older functions of ONNX, :mod:`hybridc.contrib.onnx`.
    contrib_onnx: Callable[[], Any]
    #: The module of the tape, :mod:`hybridc.autograd`.
    autograd: Callable[[], Any]
    #: ``symbol_of_tape(x)`` is the symbol of what autograd recorded for an array.
    symbol_of_tape: Callable[[Any], Any]
    #: ``imported(symbol_file, names, param_file)`` is the block of an exported network.
    imported: Callable[..., Any]
    #: The module of ONNX's files, :mod:`hybridc.onnx`.
    onnx: Callable[[], Any]
    #: The module of loaded libraries, :mod:`hybridc.library`.
    library: Callable[[], Any]
    #: The module that finds devices, :mod:`hybridc.runtime.devices.choose`.
    devices: Callable[[], Any]

    def register(self, **functions: Callable[..., Any]) -> None:
        """Set functions by the names above."""
        unknown = functions.keys() - Hooks.__annotations__.keys()
        if unknown:
            raise ValueError(f"unknown hooks {sorted(unknown)}; Hooks declares {sorted(Hooks.__annotations__)}")
        vars(self).update(functions)


HOOKS = Hooks()
