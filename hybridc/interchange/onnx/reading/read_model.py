"""ONNX files and protobuf messages become :class:`OnnxModel`, or a clear error: nothing half read, no code run."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Messages of protobuf have fields that type checkers do not see.

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, defs

from hybridc.errors import OnnxFileError, OnnxUnsupportedError
from hybridc.interchange.onnx.reading.check_model import check_graph, check_recursion
from hybridc.interchange.onnx.reading.model_graph import (
    Array,
    AttributeReference,
    ModelFunction,
    ModelGraph,
    ModelNode,
    OnnxModel,
    TensorInfo,
)
from hybridc.interchange.onnx.reading.tensor_values import array_of, dtype_of_element, sparse_array_of

#: The oldest operator set that is read.
OLDEST = 1
#: Elements of a sparse initializer that becomes a dense array: one gigabyte of float32.
MOST_DENSE = 1 << 28


def read_model(source: str | os.PathLike[str] | bytes | Any) -> OnnxModel:
    """The model in a file, in the bytes of one, or in a ``ModelProto``.

    Raises :class:`OnnxFileError`, which names the file, the node and what is wrong.
    """
    if isinstance(source, onnx.ModelProto):
        return _model(source, None, "the model")
    if isinstance(source, bytes):
        return _model(_parsed(source, "the model"), None, "the model")
    path = Path(os.fspath(source))
    where = f"the file {os.fspath(path)!r}"
    try:
        data = path.read_bytes()
    except OSError as error:
        raise OnnxFileError(f"{where} cannot be read: {error}") from error
    return _model(_parsed(data, where), path.parent, where)


def _parsed(data: bytes, where: str) -> Any:
    try:
        return onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:  # RuntimeError: an older protobuf, of names
        raise OnnxFileError(f"{where} is no ONNX model, or it is damaged: {error}") from error


def _model(proto: Any, folder: Path | None, where: str) -> OnnxModel:
    if not proto.HasField("graph"):
        raise OnnxFileError(f"{where} has no graph: it is no ONNX model, or it is damaged")
    opsets = _opsets(proto.opset_import, where)
    keys = {(domain_name(f.domain), f.name, f.overload) for f in proto.functions}
    if len(keys) < len(proto.functions):
        raise OnnxFileError(f"{where}: two functions of the model have one name")
    reader = _ModelReader(opsets, folder, where, keys)
    graph = reader.graph(proto.graph, "the graph")
    functions = {
        (domain_name(f.domain), f.name, f.overload): reader.function(f, f"the function {f.name!r}")
        for f in proto.functions
    }
    check_recursion(functions, where)
    check_graph(graph, frozenset(), where)
    for function in functions.values():
        body = ModelGraph(
            function.name,
            tuple(map(TensorInfo, function.inputs)),
            tuple(map(TensorInfo, function.outputs)),
            function.nodes,
        )
        check_graph(body, frozenset(), f"{where}, the function {function.name!r}")
    return OnnxModel(graph, functions, opsets)


def standard_function(proto: Any, opsets: Mapping[str, int]) -> ModelFunction:
    """The body that the standard gives for an operator; of domains whose set it does not say, a model's is meant."""
    where = f"the standard's body of {proto.name}"
    reader = _ModelReader(opsets, None, where, set())
    return reader.function(proto, where)


def check_texts(values: Iterable[Any], where: str) -> None:
    """Raise unless all are text: of bytes that are none, protobuf gives the bytes."""
    for value in values:
        if not isinstance(value, str):
            raise OnnxFileError(f"{where}: {value!r} is no text in UTF-8")


def domain_name(domain: str) -> str:
    """A domain's one name: that of ONNX's own is empty."""
    return "" if domain == "ai.onnx" else domain


def _opsets(imports: Iterable[Any], where: str) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for each in imports:
        domain = domain_name(each.domain)
        if not 0 < each.version < 1 << 31:
            raise OnnxFileError(f"{where} imports the operator set {each.version} of the domain {each.domain!r}")
        if opsets.setdefault(domain, each.version) != each.version:
            raise OnnxFileError(f"{where} imports two operator sets of the domain {each.domain!r}")
    version = opsets.get("")
    if version is not None and not OLDEST <= version <= defs.onnx_opset_version():
        newer = "; install a newer package onnx" if version > OLDEST else "; convert it with onnx.version_converter"
        raise OnnxUnsupportedError(
            f"{where} is of operator set {version}, and sets {OLDEST} to {defs.onnx_opset_version()} are read{newer}"
        )
    return opsets


class _ModelReader:
    """Reads the parts of one model, whose functions have these ``keys``."""

    def __init__(
        self, opsets: Mapping[str, int], folder: Path | None, where: str, keys: set[tuple[str, str, str]]
    ) -> None:
        self.opsets = opsets
        self.folder = folder
        self.where = where
        self.keys = keys

    def graph(self, proto: Any, name: str, keeps: bool = False) -> ModelGraph:
        """A graph, or one inside a node, which keeps its message for a body of the standard."""
        where = f"{self.where}, {name}"
        initializers: dict[str, Array] = {}
        for tensor in proto.initializer:
            self._add(initializers, tensor.name, array_of(tensor, self.folder, where), where)
        for sparse in proto.sparse_initializer:
            self._add(initializers, sparse.values.name, sparse_array_of(sparse, self.folder, where, MOST_DENSE), where)
        return ModelGraph(
            proto.name,
            tuple(tensor_info(x, where) for x in proto.input),
            tuple(tensor_info(x, where) for x in proto.output),
            self.nodes(proto.node, self.opsets),
            initializers,
            proto.SerializeToString() if keeps else b"",
        )

    def _add(self, initializers: dict[str, Array], name: str, value: Array, where: str) -> None:
        check_texts((name,), where)
        if name in initializers or not name:
            wrong = f"two initializers have the name {name!r}" if name else "an initializer has no name"
            raise OnnxFileError(f"{where}: {wrong}")
        initializers[name] = value

    def function(self, proto: Any, name: str) -> ModelFunction:
        """A function of the model, which has operator sets of its own."""
        check_texts((proto.name, *proto.input, *proto.output), self.where)
        opsets = {**self.opsets, **_opsets(proto.opset_import, f"{self.where}, {name}")}
        defaults = {a.name: self.attribute(a, name) for a in proto.attribute_proto}
        nodes = self.nodes(proto.node, opsets)
        return ModelFunction(proto.name, tuple(proto.input), tuple(proto.output), defaults, nodes)

    def nodes(self, protos: Iterable[Any], opsets: Mapping[str, int]) -> tuple[ModelNode, ...]:
        """Nodes with the versions of their operator sets."""
        return tuple(self.node(node, opsets) for node in protos)

    def node(self, proto: Any, opsets: Mapping[str, int]) -> ModelNode:
        """A node; its operator must be one of the standard or a function of the model."""
        title = f"{self.where}, the node {proto.name or list(proto.output)!r}, {proto.op_type}"
        check_texts((proto.op_type, proto.domain, proto.overload, proto.name, *proto.input, *proto.output), title)
        domain = domain_name(proto.domain)
        attributes: dict[str, Any] = {}
        check_texts([a.name for a in proto.attribute], title)
        for attribute in proto.attribute:
            if attribute.name in attributes:
                raise OnnxFileError(f"{title}: two attributes have the name {attribute.name!r}")
            attributes[attribute.name] = self.attribute(attribute, title)
        version = opsets.get(domain)
        names = tuple(proto.input), tuple(proto.output)
        if (domain, proto.op_type, proto.overload) in self.keys:
            return ModelNode(proto.op_type, domain, version or 1, proto.name, *names, attributes, proto.overload)
        if version is None:
            raise OnnxFileError(
                f"{title}: the model imports no operator set of the domain {proto.domain!r}, of which it has nodes"
            )
        node = ModelNode(proto.op_type, domain, version, proto.name, *names, attributes)
        _check_against_schema(node, title)
        return node

    def attribute(self, proto: Any, where: str) -> Any:
        """The value of an attribute."""
        where = f"{where}, its attribute {proto.name!r}"
        if proto.ref_attr_name:
            return AttributeReference(proto.ref_attr_name)
        try:
            match proto.type:
                case AttributeProto.FLOAT:
                    return proto.f
                case AttributeProto.INT:
                    return proto.i
                case AttributeProto.STRING:
                    return proto.s.decode()
                case AttributeProto.FLOATS:
                    return tuple(proto.floats)
                case AttributeProto.INTS:
                    return tuple(proto.ints)
                case AttributeProto.STRINGS:
                    return tuple(s.decode() for s in proto.strings)
                case AttributeProto.TENSOR:
                    return array_of(proto.t, self.folder, where)
                case AttributeProto.TENSORS:
                    return tuple(array_of(t, self.folder, where) for t in proto.tensors)
                case AttributeProto.SPARSE_TENSOR:
                    return sparse_array_of(proto.sparse_tensor, self.folder, where, MOST_DENSE)
                case AttributeProto.GRAPH:
                    return self.graph(proto.g, f"the graph in {proto.name!r}", True)
                case AttributeProto.GRAPHS:
                    return tuple(self.graph(g, f"a graph in {proto.name!r}") for g in proto.graphs)
                case AttributeProto.TYPE_PROTO:
                    return tensor_info_of_type(proto.name, proto.tp, where)
                case _:
                    raise OnnxFileError(f"{where} has the type {proto.type}, which is none that is read")
        except UnicodeDecodeError as error:
            raise OnnxFileError(f"{where} is no text: {error}") from error


def _check_against_schema(node: ModelNode, where: str) -> None:
    """Raise unless the operator is in its set, and takes so many inputs and these attributes."""
    schema = schema_of(node)
    if schema is None:
        known = node.domain in {s.domain for s in defs.get_all_schemas()}
        reason = (
            f"operator set {node.version} of the domain {node.domain!r} has no operator {node.op!r}"
            if known
            else f"no operators of the domain {node.domain!r} are here; make {node.op!r} a function of the model"
        )
        raise OnnxUnsupportedError(f"{where}: {reason}")
    for what, count, low, high in (
        ("inputs", len(node.inputs), schema.min_input, schema.max_input),
        ("outputs", len(node.outputs), schema.min_output, schema.max_output),
    ):
        if not low <= count <= high:
            raise OnnxFileError(f"{where} has {count} {what}, and takes {low} to {high}")
    for name, value in node.attributes.items():
        declared = schema.attributes.get(name)
        if declared is None:
            raise OnnxFileError(f"{where} has no attribute {name!r}; it has {', '.join(schema.attributes) or 'none'}")
        if not isinstance(value, AttributeReference) and not _has_type(value, declared.type.name):
            raise OnnxFileError(
                f"{where}: its attribute {name!r} must be of the type {declared.type.name}, got {value!r}"
            )
    for name, declared in schema.attributes.items():
        if declared.required and name not in node.attributes:
            raise OnnxFileError(f"{where} lacks its attribute {name!r}")


# The Python types of attributes; of several, those of their elements.
_TYPES: dict[str, Any] = {
    "FLOAT": float, "INT": int, "STRING": str, "TENSOR": np.ndarray, "SPARSE_TENSOR": np.ndarray,
    "GRAPH": ModelGraph, "TYPE_PROTO": TensorInfo,
}  # fmt: skip


def _has_type(value: Any, name: str) -> bool:
    if isinstance(value, tuple):
        return name.endswith("S") and all(isinstance(x, _TYPES.get(name[:-1], ())) for x in value)
    return isinstance(value, _TYPES.get(name, ()))


def schema_of(node: ModelNode) -> Any:
    """What the standard says of a node's operator; None if it has none of this name."""
    try:
        return defs.get_schema(node.op, node.version, node.domain)
    except (defs.SchemaError, RuntimeError):
        return None


def tensor_info(proto: Any, where: str) -> TensorInfo:
    """What a file declares of an input or output."""
    return tensor_info_of_type(proto.name, proto.type, where)


def tensor_info_of_type(name: str, proto: Any, where: str) -> TensorInfo:
    """A declared type, under a name."""
    check_texts((name,), where)
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        tensor = proto.tensor_type
        dtype = dtype_of_element(tensor.elem_type, f"{where}, {name!r}") if tensor.elem_type else None
        sizes = tuple(map(_size, tensor.shape.dim)) if tensor.HasField("shape") else None
        return TensorInfo(name, "tensor", dtype, tensor.elem_type, sizes)
    return TensorInfo(name, (kind or "tensor_type").removesuffix("_type"))


def _size(dim: Any) -> int | str | None:
    kind = dim.WhichOneof("value")
    return dim.dim_value if kind == "dim_value" else dim.dim_param or None
