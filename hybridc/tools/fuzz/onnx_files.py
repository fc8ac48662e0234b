"""Damaged ONNX files: what is read from them runs, or there is a clear error; never another one, a crash or a hang.

Small models of several kinds are changed: bytes, or a field of the message, which leaves a model that can be parsed.
What can be read is called with zeros of the declared sizes.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Messages of protobuf have fields that type checkers do not see.

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

from hybridc.interchange.onnx.reading.check_model import all_nodes
from hybridc.interchange.onnx.reading.model_graph import TensorInfo
from hybridc.interchange.onnx.reading.onnx_block import OnnxBlock
from hybridc.interchange.onnx.reading.read_model import read_model
from hybridc.interchange.onnx.reading.size_limits import at_most

#: Elements of an array that a damaged file may ask for.
LARGEST = 10**6
_NUMBERS = (0, 1, -1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 40, -(1 << 40), (1 << 63) - 1, -(1 << 63))
_NAMES = ("", "x", "y", "w", "h", "nothing", "Relu", "If", "\x00", "ai.onnx.ml")


def _array(random: Random, *shape: int) -> Any:
    return np.array([random.uniform(-1, 1) for _ in range(math.prod(shape))], np.float32).reshape(shape)


def _model(
    nodes: list[Any], shape: list[int], initializers: dict[str, Any], functions: list[Any] | None = None
) -> bytes:
    """A model from x to y."""
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    tensors = [numpy_helper.from_array(value, name) for name, value in initializers.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "graph", infos, outputs, tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions or [], ir_version=10).SerializeToString()


def _dense(random: Random) -> bytes:
    nodes = [
        helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=random.randint(0, 1), alpha=random.choice((1.0, 0.5))),
        helper.make_node(random.choice(("Relu", "Tanh", "Gelu", "Softmax", "Elu", "HardSigmoid")), ["h"], ["y"]),
    ]
    return _model(nodes, [2, 3], {"w": _array(random, 3, 3), "b": _array(random, 3)})


def _convolution(random: Random) -> bytes:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"], pads=[1, 1, 1, 1], strides=[random.randint(1, 2)] * 2),
        helper.make_node(random.choice(("MaxPool", "AveragePool")), ["h"], ["p"], kernel_shape=[2, 2]),
        helper.make_node("BatchNormalization", ["p", "s", "s", "s", "v"], ["y"]),
    ]
    return _model(
        nodes, [1, 2, 5, 5], {"w": _array(random, 3, 2, 3, 3), "s": _array(random, 3), "v": np.ones(3, np.float32)}
    )


def _sizes(random: Random) -> bytes:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "i"], ["n"], axis=0),
        helper.make_node("Concat", ["n", "m"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
        helper.make_node("Slice", ["r", "i", "m2", "i"], ["c"]),
        helper.make_node(random.choice(("Expand", "Tile")), ["c", "t2"], ["y"]),
    ]
    numbers = {"i": [0], "m": [-1], "m2": [2], "t2": [1, 1]}
    return _model(nodes, [2, 3, 2], {name: np.array(values, np.int64) for name, values in numbers.items()})


def _graph(name: str, nodes: list[Any], inputs: list[str], outputs: list[str]) -> GraphProto:
    return helper.make_graph(
        nodes,
        name,
        [helper.make_empty_tensor_value_info(n) for n in inputs],
        [helper.make_empty_tensor_value_info(n) for n in outputs],
    )


def _graphs(random: Random) -> bytes:
    if random.random() < 0.5:
        branches: dict[str, Any] = {
            "then_branch": _graph("then", [helper.make_node("Relu", ["x"], ["a"])], [], ["a"]),
            "else_branch": _graph("else", [helper.make_node("Neg", ["x"], ["a"])], [], ["a"]),
        }
        nodes = [helper.make_node("If", ["c"], ["y"], **branches)]
        return _model(nodes, [2, 3], {"c": np.array(random.random() < 0.5)})
    body = _graph("body", [helper.make_node("Add", ["state", "row"], ["next"])], ["state", "row"], ["next"])
    nodes = [helper.make_node("Scan", ["b", "x"], ["y"], body=body, num_scan_inputs=1)]
    return _model(nodes, [2, 3], {"b": _array(random, 3)})


def _function(random: Random) -> bytes:
    body = [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("Elu", ["b"], ["c"])]
    function = helper.make_function("own", "Twice", ["a"], ["c"], body, [helper.make_opsetid("", 21)])
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], domain="own"),
        helper.make_node("LSTM", ["h", "w", "r"], ["y"], hidden_size=2),
    ]
    return _model(nodes, [2, 1, 3], {"w": _array(random, 1, 8, 3), "r": _array(random, 1, 8, 2)}, [function])


def _quantized(random: Random) -> bytes:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("TopK", ["d", "k"], ["t", ""]),
        helper.make_node("Resize", ["t", "", "f"], ["y"], mode=random.choice(("nearest", "linear", "cubic"))),
    ]
    numbers = {"s": np.float32(0.1), "z": np.uint8(3), "k": np.array([2]), "f": np.array([1, 1, 2, 1.5], np.float32)}
    return _model(nodes, [1, 1, 3, 4], {name: np.asarray(value) for name, value in numbers.items()})


MODELS: tuple[Callable[[Random], bytes], ...] = (_dense, _convolution, _sizes, _graphs, _function, _quantized)


def made(random: Random) -> bytes:
    """A good file."""
    return random.choice(MODELS)(random)


def with_other_field(data: bytes, random: Random) -> bytes | None:
    """The file with another value in one field of its message; None if it cannot be parsed."""
    try:
        model = ModelProto.FromString(data)
    except Exception:  # whatever protobuf says of damaged bytes
        return None
    message: Any = model
    for _ in range(random.randint(1, 7)):  # down from message to message
        inner = [m for field, value in message.ListFields() if field.message_type for m in _messages(value)]
        if not inner:
            break
        message = random.choice(inner)
    fields = [field for field, _ in message.ListFields()]
    if not fields:
        return None
    field = random.choice(fields)
    try:
        _change(message, field, random)
    except (ValueError, TypeError, OverflowError, AttributeError, IndexError):  # a value that this field cannot have
        message.ClearField(field.name)
    return model.SerializeToString()


def _messages(value: Any) -> list[Any]:
    return [value] if hasattr(value, "ListFields") else list(value)


def _change(message: Any, field: Any, random: Random) -> None:
    value = getattr(message, field.name)
    if random.random() < 0.1:
        message.ClearField(field.name)
    elif field.message_type:
        if hasattr(value, "ListFields"):
            message.ClearField(field.name)
        elif random.random() < 0.4:
            del value[random.randrange(len(value))]
        else:
            value.add().CopyFrom(random.choice(list(value)))
    elif isinstance(value, str):
        setattr(message, field.name, random.choice((*_NAMES, value + "2")))
    elif isinstance(value, bytes):
        setattr(message, field.name, value[: random.randrange(len(value) + 1)])
    elif isinstance(value, int | float):
        setattr(message, field.name, random.choice((*_NUMBERS, int(value) + 1)))
    elif random.random() < 0.3:
        del value[random.randrange(len(value))]
    else:
        value[random.randrange(len(value))] = random.choice(_NAMES if isinstance(value[0], str) else _NUMBERS)


def run(data: bytes) -> None:
    """Read a file, and call what is read with zeros of the declared sizes."""
    with at_most(LARGEST):
        model = read_model(data)
        block = OnnxBlock(model)
        inputs = [_zeros(x) for x in block.declared_inputs]
        if not any(x is None for x in inputs) and not any(node.op == "Loop" for node in all_nodes(model.graph.nodes)):
            block(*inputs)


def _zeros(x: TensorInfo) -> Any:
    """An input; None where the file does not say enough, or it would be large."""
    sizes = [n if isinstance(n, int) else 1 for n in x.sizes or ()]
    if x.kind != "tensor" or x.dtype is None or any(n < 0 for n in sizes) or math.prod(sizes) > LARGEST:
        return None
    return np.full(sizes, "", object) if x.dtype.kind == "O" else np.zeros(sizes, x.dtype)
