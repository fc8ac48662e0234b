"""Networks as models of ONNX: symbols with their parameters, and blocks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import is_numpy
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import ArgumentTypeError, AttributeValueError, OnnxExportError
from hybridc.gluon.export import general_symbol
from hybridc.ground.location import Location
from hybridc.ground.nesting import flatten, regroup
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Sizes, is_size
from hybridc.interchange.onnx.writing.model_file import ModelOptions, model_of, write_model
from hybridc.symbol import graph
from hybridc.symbol.infer import Shapes
from hybridc.symbol.running.bind import evaluate
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace, TraceNode, trace_call

# By input: names of its dynamic axes.
Axes = Mapping[str, Mapping[int, str]]
# A dynamic axis has this size while a network is traced, if the sample has size one: that size means broadcasting.
_LEAST_SIZE = 2


@dataclass(frozen=True)
class FreeAxis:
    """A dynamic axis of an input: its free size, and the name that it has in the file; ``asked`` if it must vary."""

    input: str
    axis: int
    size: Any
    name: str
    asked: bool

    def is_fixed(self) -> bool:
        """Whether the size can have no other value now."""
        return not is_size(self.size.sizes.known(self.size))


class FreeAxes:
    """The dynamic axes of a network's inputs."""

    def __init__(self) -> None:
        self.sizes = Sizes()
        self.axes: list[FreeAxis] = []

    def shape(self, name: str, shape: Shape, dynamic: Mapping[int, str], asked: bool = True) -> Shape:
        """A shape with free sizes in place of those of dynamic axes; axes of one name have one size."""
        found = list(shape)
        for axis, label in dynamic.items():
            axis = axis % len(shape)
            known = next((a.size for a in self.axes if label and a.name == label), None)
            size = self.sizes.free(max(shape[axis], _LEAST_SIZE)) if known is None else known
            found[axis] = size
            self.axes.append(FreeAxis(name, axis, size, label, asked))
        return tuple(found)

    def require(self, what: str) -> None:
        """Raise if an axis that was asked for cannot vary any more."""
        fixed = next((a for a in self.axes if a.asked and a.is_fixed()), None)
        if fixed is not None:
            raise OnnxExportError(
                f"axis {fixed.axis} of {fixed.input} cannot vary in the file: {what} takes its size, "
                f"{fixed.size.value}, for a number; compute it from shapes by +, -, * and //, or leave the axis out of "
                "the dynamic ones"
            )

    def require_after(self, node: TraceNode) -> None:
        """As :meth:`require`, of an operator that was written."""
        self.require(described_node(node.op, node.location))

    def names(self) -> dict[tuple[str, int], str]:
        """The names by input and axis."""
        return {(a.input, a.axis): a.name for a in self.axes if a.name}


def described_node(op: Operator, location: Location | None) -> str:
    """An operator with the user's line."""
    return op.title() if location is None else f"{op.title()} ({location})"


class FreeTrace(Trace):
    """A trace with free sizes: the operator that fixes one is found at once."""

    def __init__(self, axes: FreeAxes) -> None:
        super().__init__(training=False)
        self.axes = axes
        self.is_symbolic = True

    def emit(self, op: Operator, inputs: list[TracedSymbol], location: Location | None) -> list[TracedSymbol]:
        """As a trace does, and an error if the operator fixes a size."""
        outputs = super().emit(op, inputs, location)
        self.axes.require(described_node(op, location))
        return outputs


# --- symbols ----------------------------------------------------------------------------------------------------------


def export_symbol(
    symbol: Any,
    params: Mapping[str, Any],
    shapes: Sequence[Shape],
    dtypes: Sequence[Any],
    path: str | os.PathLike[str],
    options: ModelOptions,
    dynamic: Sequence[Mapping[int, str]] = (),
    asked: bool = True,
) -> Any:
    """Write a composed symbol; ``shapes`` and ``dtypes`` are those of the inputs that are no parameters, in order.

    ``dynamic`` has the names of the dynamic axes of each.
    """
    values = {name.removeprefix("arg:").removeprefix("aux:"): _array(x) for name, x in params.items()}
    inputs = [name for name in symbol.list_inputs() if name not in values]
    if len(shapes) > len(inputs):
        raise AttributeValueError(
            f"export_model: {len(shapes)} shapes are given for {len(inputs)} inputs that are no parameters: "
            f"{', '.join(inputs)}"
        )
    axes = FreeAxes()
    unnamed: Mapping[int, str] = {}
    labels = [*dynamic, *[unnamed] * (len(shapes) - len(dynamic))]
    free = {
        name: axes.shape(name, tuple(shape), of_axes, asked)
        for name, shape, of_axes in zip(inputs, shapes, labels, strict=False)
    }
    types = dict(zip(inputs, dtypes, strict=False))
    return _write_symbol(symbol, values, free, types, axes, path, options, inputs[len(shapes) :])


def _write_symbol(
    symbol: Any,
    values: Mapping[str, Any],
    free: Mapping[str, Shape],
    dtypes: Mapping[str, Any],
    axes: FreeAxes,
    path: str | os.PathLike[str],
    options: ModelOptions,
    more: Sequence[str] = (),
) -> Any:
    """Write a symbol, given the shapes and dtypes of its inputs; ``more`` are inputs that nothing may read."""
    trace = _symbol_trace(symbol, values, free, dtypes, axes)
    outputs, name = symbol.list_outputs(), symbol.name or "network"
    model = model_of(trace, values, outputs, _named(options, axes), axes.sizes, name, axes.require_after)
    _require_given(model, more)
    write_model(model, path, options)
    return model


def _array(x: Any) -> Any:
    return x.asnative() if isinstance(x, NDArray) and hasattr(x, "asnative") else np.asarray(x)


def _symbol_trace(
    symbol: Any,
    values: Mapping[str, Any],
    free: Mapping[str, Shape],
    dtypes: Mapping[str, Any],
    axes: FreeAxes,
) -> Trace:
    """The trace of a symbol: sizes that follow from parameters, such as those of labels, are inferred."""
    known = {name: values[name].shape for name in symbol.list_inputs() if name in values}
    shapes = Shapes(symbol.entries, {**known, **free}, "export_model", exact=True)
    trace = FreeTrace(axes)
    leaves: dict[str, TracedSymbol] = {}
    for node in graph.variables(symbol.entries):
        name, shape = node.name, shapes.get((node, 0))
        if shape is None:
            raise OnnxExportError(f"export_model: the shape of the input {name} does not follow; give it in in_shapes")
        dtype = values[name].dtype if name in values else np.dtype(dtypes.get(name, np.float32))
        leaves[name] = trace.leaf(name, shape, dtype, "data")
    with trace.active():
        results = evaluate(symbol.entries, leaves)
    trace.finish(results)
    return trace


def _require_given(model: Any, more: Sequence[str]) -> None:
    """Remove inputs that nothing reads, such as labels; raise for another whose shape was not given."""
    used = {name for node in model.graph.node for name in node.input}
    for value in list(model.graph.input):
        if value.name in more and value.name not in used:
            model.graph.input.remove(value)
        elif value.name in more:
            raise OnnxExportError(
                f"export_model: {value.name} is an input, and no parameter; give its shape in in_shapes, or its array "
                "in params"
            )


def _named(options: ModelOptions, axes: FreeAxes) -> ModelOptions:
    return replace(options, axis_names=axes.names())


# --- blocks -----------------------------------------------------------------------------------------------------------


def export_block(
    block: Any, path: str | os.PathLike[str], args: Sequence[Any], dynamic: Mapping[str, Any], options: ModelOptions
) -> Any:
    """Write a block in predict mode, as it runs on arguments like these."""
    arrays, structure = flatten(tuple(args), NDArray, f"an argument of {block.name}")
    if not arrays:
        raise ArgumentTypeError(f"{block.name}.export_onnx takes the arguments of a call after the file's name: arrays")
    names = ["data"] if len(arrays) == 1 else [f"data{i}" for i in range(len(arrays))]
    unknown = dynamic.keys() - set(names)
    if unknown:
        raise AttributeValueError(
            f"{block.name}.export_onnx: dynamic_axes names {sorted(unknown)[0]!r}; the inputs are {', '.join(names)}"
        )
    axes = FreeAxes()
    free = {
        name: axes.shape(name, x.shape, _labelled(dynamic.get(name, {}))) for name, x in zip(names, arrays, strict=True)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what cannot be a symbol is traced with free sizes
        symbol = general_symbol(block, trace_call(block, args, training=False), structure)
    if symbol is None:
        return _write_trace(block, path, structure, dict(zip(names, arrays, strict=True)), free, axes, options)
    params = block.collect_params()
    values = {name: _array(params[name].data()) for name in symbol.list_inputs() if name in params}
    dtypes = {name: x.asnative().dtype for name, x in zip(names, arrays, strict=True)}
    unread = [name for name in symbol.list_inputs() if name not in values and name not in free]
    return _write_symbol(symbol, values, free, dtypes, axes, path, options, unread)


def _write_trace(
    block: Any,
    path: str | os.PathLike[str],
    structure: Any,
    arrays: Mapping[str, Any],
    free: Mapping[str, Shape],
    axes: FreeAxes,
    options: ModelOptions,
) -> Any:
    """Write a block whose forward reads shapes, as it is traced with free sizes."""
    trace = FreeTrace(axes)
    leaves = [trace.leaf(n, free[n], x.asnative().dtype, "data", numpy=is_numpy(x)) for n, x in arrays.items()]
    with trace.active():
        result = block(*regroup(leaves, structure))
    outputs, trace.structure = flatten(result, (TracedSymbol, NDArray), f"the result of {block.name}")
    trace.finish(outputs)
    trace.infer()
    own = [i for i, role in enumerate(trace.roles) if role not in ("data", "key")]
    values = {trace.leaves[i].name: _source(trace, i) for i in own}
    names = [f"{block.name}_output{i}" if len(outputs) > 1 else f"{block.name}_output" for i in range(len(outputs))]
    model = model_of(trace, values, names, _named(options, axes), axes.sizes, block.name, axes.require_after)
    write_model(model, path, options)
    return model


def _labelled(axes: Any) -> Mapping[int, str]:
    """Axes with their names: of a list of axes there are none."""
    return cast("Mapping[int, str]", axes) if isinstance(axes, Mapping) else dict.fromkeys(axes, "")


def _source(trace: Trace, index: int) -> Any:
    """The array of an input that is no argument: a parameter, or what was read from outside the forward."""
    source, role = trace.sources[index], trace.roles[index]
    if role == "parameter":
        source = source.data() if hasattr(source, "data") else source
    elif role == "number":
        source = source.array(trace.context)
    return _array(source)
