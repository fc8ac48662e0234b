"""What the standard gives for an operator: defaults of attributes, and bodies of other operators."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Messages of protobuf have fields that type checkers do not see.

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper
from onnx.numpy_helper import from_array

from hybridc.errors import OnnxUnsupportedError
from hybridc.interchange.onnx.reading.model_graph import ModelFunction, ModelGraph, ModelNode
from hybridc.interchange.onnx.reading.read_model import schema_of, standard_function
from hybridc.interchange.onnx.reading.tensor_values import element_of


@functools.lru_cache(maxsize=1024)
def defaults_of(domain: str, op: str, version: int) -> Mapping[str, Any]:
    """The standard's defaults of an operator's attributes."""
    try:
        schema = defs.get_schema(op, version, domain)
    except (defs.SchemaError, RuntimeError):
        return {}
    found = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
    return {name: _plain(helper.get_attribute_value(value)) for name, value in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode()
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def body_of(
    node: ModelNode, attributes: Mapping[str, Any], inputs: list[Any], opsets: Mapping[str, int]
) -> ModelFunction:
    """The body that the standard gives for an operator, which may depend on its inputs' dtypes."""
    plain = plain_body(node, opsets)
    if plain is not None:
        return plain
    schema = schema_of(node)
    if schema is None or not schema.has_context_dependent_function:
        raise OnnxUnsupportedError(f"hybridc has no rule for {node.title} of operator set {node.version}")
    own = _as_protos(attributes)
    proto = helper.make_node(node.op, _unique(node.inputs), list(node.outputs), domain=node.domain, **own)
    version = max((v for v in schema.context_dependent_function_opset_versions if v <= opsets.get("", 1)), default=0)
    types = [_type_of(x) for x in inputs]
    text = schema.get_context_dependent_function_with_opset_version(version, proto.SerializeToString(), types)
    if not text:
        raise OnnxUnsupportedError(f"the standard has no body for {node.title} with these inputs")
    return standard_function(onnx.FunctionProto.FromString(text), opsets)


def plain_body(node: ModelNode, opsets: Mapping[str, int]) -> ModelFunction | None:
    """The body of an operator that does not depend on its inputs' dtypes; None if there is none."""
    schema = schema_of(node)
    if schema is None or not schema.has_function:
        return None
    return _plain_body(node.op, node.domain, node.version, opsets.get("", node.version))


def _as_protos(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as ONNX's helper takes them."""
    values = {
        name: onnx.GraphProto.FromString(v.proto) if isinstance(v, ModelGraph) else v for name, v in attributes.items()
    }
    return {name: from_array(v) if isinstance(v, np.ndarray) else v for name, v in values.items()}


def _unique(names: Sequence[str]) -> list[str]:
    """Names of inputs, which a body that depends on them tells apart."""
    return [f"{name}.{i}" if name in names[:i] and name else name for i, name in enumerate(names)]


@functools.lru_cache(maxsize=1024)
def _plain_body(op: str, domain: str, version: int, opset: int) -> ModelFunction:
    schema: Any = defs.get_schema(op, version, domain)
    versions = [v for v in schema.function_opset_versions if v <= opset] or schema.function_opset_versions[:1]
    text = schema.get_function_with_opset_version(max(versions))
    return standard_function(onnx.FunctionProto.FromString(text), {"": opset})


def _type_of(value: Any) -> bytes:
    """A value's type, as a message."""
    if value is None or isinstance(value, list):
        return onnx.TypeProto().SerializeToString()
    return helper.make_tensor_type_proto(element_of(value.dtype), list(value.shape)).SerializeToString()
