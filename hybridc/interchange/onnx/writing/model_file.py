"""A trace as a model of ONNX: its graph, its parameters as initializers, and the file."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from hybridc.errors import AttributeValueError, OnnxExportError
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Sizes, is_size
from hybridc.ground.whole_files import replacing, write_whole
from hybridc.interchange.onnx.package import onnx_package
from hybridc.interchange.onnx.writing import operators as operators
from hybridc.interchange.onnx.writing.graph_writer import GraphWriter
from hybridc.interchange.onnx.writing.movements import OnnxMoves
from hybridc.interchange.onnx.writing.onnx_value import OnnxValue
from hybridc.interchange.onnx.writing.step_nodes import OnnxSteps
from hybridc.interchange.onnx.writing.translate import Translator
from hybridc.trace.tracer import Trace, live_nodes

# The least opset that is written, and that which engines of today all take.
LEAST_OPSET, OPSET = 13, 21
# The version of the file format that has the opset: what onnx.helper says may be newer than engines take.
_IR_VERSIONS = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11, 24: 12, 25: 12}
_MOST_BYTES = (1 << 31) - (1 << 20)  # protobuf's limit of a message, less the nodes
_LEAST_EXTERNAL_BYTES = 1024  # smaller arrays stay in the model


@dataclass(frozen=True)
class ModelOptions:
    """How a model is written.

    ``own_domain`` writes opaque operators of users as nodes of a domain of their own. ``axis_names`` are names of free
    sizes, by input and axis. ``external`` puts parameters into a file beside the model; None does so if they are too
    many for one file. ``with_shapes`` adds the shapes and dtypes of all values, by ONNX's inference.
    """

    opset: int = OPSET
    own_domain: bool = False
    axis_names: Mapping[tuple[str, int], str] = field(default_factory=lambda: dict[tuple[str, int], str]())
    external: bool | None = None
    with_shapes: bool = False

    def __post_init__(self) -> None:
        newest = int(onnx_package("onnx.defs").onnx_opset_version())
        if not LEAST_OPSET <= self.opset <= newest:
            raise AttributeValueError(
                f"opset={self.opset} must be from {LEAST_OPSET} to {newest}, the newest that the installed onnx knows"
            )


def model_of(
    trace: Trace,
    arrays: Mapping[str, Any],
    outputs: Sequence[str],
    options: ModelOptions,
    sizes: Sizes | None = None,
    name: str = "network",
    after: Callable[[Any], None] | None = None,
) -> Any:
    """The model of a trace: its inputs are the leaves that have no array, in order, its results are ``outputs``.

    ``sizes`` are the free sizes of its inputs, which are dynamic axes of the model. ``after`` is called with each node
    of the trace when it has been written.
    """
    writer = GraphWriter(options.opset)
    writer.builder, writer.moves = OnnxSteps(writer), OnnxMoves(writer)
    writer.axis_names = dict(options.axis_names)
    writer.sizes = sizes
    translator = Translator(writer, options.own_domain)
    for leaf in trace.leaves:
        writer.unique(leaf.name)
    for output in outputs:
        writer.unique(output)
    values: dict[int, OnnxValue] = {}
    inputs: list[OnnxValue] = []
    results = trace.outputs[: len(trace.outputs) - len(trace.updates)]
    nodes = live_nodes(trace.nodes, results)
    used = {id(x) for node in nodes for x in node.inputs} | {id(x) for x in results}
    for leaf, role in zip(trace.leaves, trace.roles, strict=True):
        if role == "key":
            values[id(leaf)] = translator.random_key()
        elif leaf.name in arrays:
            if id(leaf) in used:
                values[id(leaf)] = _parameter(writer, leaf.name, np.asarray(arrays[leaf.name]))
        else:
            values[id(leaf)] = writer.value(leaf.name, leaf.shape, leaf._dtype)
            inputs.append(values[id(leaf)])
    writer.free_sizes = _free_sizes(inputs, sizes)
    for node in nodes:
        writer.scope = _label(node)
        found = translator.write(node.op, [values[id(x)] for x in node.inputs], node.location)
        values.update((id(symbol), y) for symbol, y in zip(node.outputs, found, strict=False))
        if after is not None:
            after(node)
    made = [values[id(y)] for y in results]
    return _model(writer, inputs, made, outputs, options, name)


def _label(node: Any) -> str:
    """The name that a node of a trace gives to those that are written for it."""
    path = node.location.block if node.location is not None else ""
    return "/".join(part for part in (path, node.outputs[0].name) if part)


def _free_sizes(inputs: Sequence[OnnxValue], sizes: Sizes | None) -> list[tuple[OnnxValue, int]]:
    """For each free size, the first input and axis that has it."""
    found: dict[int, tuple[OnnxValue, int]] = {}
    for value in inputs:
        for axis, n in enumerate(value.shape):
            atom = n.sizes.free_atom(n) if is_size(n) else None
            if atom is not None:
                found.setdefault(atom, (value, axis))
    count = sum(isinstance(atom, int) for atom in sizes.atoms) if sizes is not None else 0
    return [found[i] for i in range(count)]


def _parameter(writer: GraphWriter, name: str, array: Any) -> OnnxValue:
    """An initializer; that of one number is known, too, so that what follows from it is computed now."""
    value = writer.initializer(name, array)
    value.known = array if array.size == 1 else None
    return value


def _live(nodes: Sequence[Any], outputs: Sequence[str]) -> list[Any]:
    """The nodes on which the outputs depend, in order; a graph inside a node may read any value."""
    needed = set(outputs)
    kept: list[Any] = []
    for node in reversed(nodes):
        if any(name in needed for name in node.output):
            kept.append(node)
            needed |= _read_by(node)
    return kept[::-1]


def _read_by(node: Any) -> set[str]:
    """The names that a node reads, those in its graphs included."""
    found = set(node.input)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                found |= _read_by(inner)
    return found


def _model(
    writer: GraphWriter,
    inputs: Sequence[OnnxValue],
    results: Sequence[OnnxValue],
    outputs: Sequence[str],
    options: ModelOptions,
    name: str,
) -> Any:
    helper = writer.helper
    described: list[Any] = []
    for value, output in zip(results, outputs, strict=True):
        stored = writer.name_of(value)
        writer.nodes.append(helper.make_node("Identity", [stored], [output], name=f"{output}/Identity"))
        described.append(writer.described(value, output))
    nodes = _live([*writer.prologue, *writer.nodes], outputs)
    used = {read for node in nodes for read in _read_by(node)}
    graph = helper.make_graph(nodes, name, [writer.described(x) for x in inputs], described)
    opsets = [helper.make_opsetid("", options.opset), *[helper.make_opsetid(d, v) for d, v in writer.domains.items()]]
    version = _IR_VERSIONS.get(options.opset, int(writer.onnx.IR_VERSION))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=version, producer_name="hybridc")
    for name, array in writer.initializers.items():
        if name in used:  # added to the model itself: a message is copied with all of its bytes
            tensor = model.graph.initializer.add(name=name, dims=array.shape)
            tensor.data_type = helper.np_dtype_to_tensor_dtype(array.dtype)
            tensor.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    return model


def write_model(model: Any, path: str | os.PathLike[str], options: ModelOptions) -> None:
    """Write a model into a file, atomically; with external data, first that beside it."""
    if options.with_shapes:
        model = onnx_package("onnx.shape_inference").infer_shapes(model)
    sizes = [_bytes_of(tensor) for tensor in model.graph.initializer]
    if options.external or (options.external is None and sum(sizes) > _MOST_BYTES):
        large = [t for t, size in zip(model.graph.initializer, sizes, strict=True) if size >= _LEAST_EXTERNAL_BYTES]
        _write_external(large, f"{os.fspath(path)}.data")
    try:
        content = model.SerializeToString()
    except ValueError as error:
        raise OnnxExportError(f"{path}: the model is too large for one file; write it with external=True") from error
    write_whole(path, content)


def _bytes_of(tensor: Any) -> int:
    """The bytes of an array; to look at them, or to ask the message for its size, copies them."""
    return math.prod(tensor.dims) * onnx_package("onnx.helper").tensor_dtype_to_np_dtype(tensor.data_type).itemsize


def _write_external(tensors: Sequence[Any], path: str) -> None:
    """Move the bytes of arrays into a file; each begins at a multiple of its page."""
    helper = onnx_package("onnx.external_data_helper")
    with replacing(path) as file:
        for tensor in tensors:
            begin = -(-file.tell() // 4096) * 4096
            file.write(b"\0" * (begin - file.tell()))
            length = file.write(tensor.raw_data)
            helper.set_external_data(tensor, os.path.basename(path), begin, length)
            tensor.ClearField("raw_data")
            tensor.data_location = tensor.EXTERNAL
