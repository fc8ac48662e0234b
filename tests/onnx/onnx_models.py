"""Small ONNX models for tests, and other engines' results of them."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import hybridc as mx


def model(nodes, inputs, outputs, initializers=None, opset=21, functions=(), **options):
    """A model of nodes; inputs are dtypes and shapes by name, outputs names."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)
        for name, (dtype, shape) in inputs.items()
    ]
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in (initializers or {}).items()]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(list(nodes), "graph", infos, results, tensors)
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10, **options)


def graph(nodes, inputs, outputs):
    """A graph inside a node: names of inputs and outputs."""
    values = [[helper.make_empty_tensor_value_info(name) for name in names] for names in (inputs, outputs)]
    return helper.make_graph(list(nodes), "inner", *values)


def results(built, *arrays, hybridize=False):
    """What hybridc gives, as a list of NumPy arrays."""
    net = mx.onnx.load(built)
    if hybridize:
        net.hybridize()
    found = net(*arrays)
    return [x.asnumpy() for x in (found if isinstance(found, list) else [found])]


def by_runtime(built, **inputs):
    """The results of ONNX Runtime."""
    session = onnxruntime.InferenceSession(built.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def mlp(seed=0, hidden=4, batch="N"):
    """A network of two dense layers, with its weights by name."""
    random = np.random.RandomState(seed)
    weights = {
        "w1": random.randn(3, hidden).astype("float32"),
        "b1": random.randn(hidden).astype("float32"),
        "w2": random.randn(2, hidden).astype("float32"),
        "b2": random.randn(2).astype("float32"),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["y"], transB=1, name="second"),
    ]
    return model(nodes, {"x": ("float32", [batch, 3])}, ["y"], weights), weights
