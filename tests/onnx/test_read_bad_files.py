"""ONNX files that are damaged, contradict themselves or ask for too much: clear errors that name the node."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import hybridc as mx
from hybridc.errors import OnnxFileError, OnnxUnsupportedError
from hybridc.tools.fuzz.main import fuzz_files
from tests.onnx.onnx_models import graph, mlp, model, results

FLOATS = ("float32", [2, 3])


def refused(built, text, kind=OnnxFileError):
    """The model is not read, with an error of this text."""
    with pytest.raises(kind, match=text) as raised:
        mx.onnx.load(built)
    assert isinstance(raised.value, mx.MXNetError)


def test_a_file_that_is_missing_or_no_model(tmp_path):
    refused(tmp_path / "none.onnx", "none.onnx' cannot be read")
    (tmp_path / "text.onnx").write_text("no model")
    refused(tmp_path / "text.onnx", "text.onnx' is no ONNX model, or it is damaged")
    refused(b"", "has no graph")


def test_every_truncation_of_a_file_is_an_error_or_a_smaller_model():
    data = mlp()[0].SerializeToString()
    for end in range(0, len(data), 7):
        with pytest.raises(OnnxFileError):
            mx.onnx.load(data[:end])(np.zeros((1, 3), "float32"))


def test_a_cyclic_graph():
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Neg", ["a"], ["b"], name="back")]
    refused(model(nodes, {"x": FLOATS}, ["b"]), r"Add.* takes 'b', which is made by a later node.*cyclic")


def test_names_that_nothing_gives_or_two_things_give():
    relu = helper.make_node("Relu", ["x"], ["y"], name="r")
    refused(
        model([helper.make_node("Relu", ["z"], ["y"])], {"x": FLOATS}, ["y"]), "takes 'z', which is neither an input"
    )
    refused(model([relu], {"x": FLOATS}, ["z"]), "nothing gives the output 'z'")
    refused(model([relu, relu], {"x": FLOATS}, ["y"]), "the node 'r', Relu gives 'y', and so does something before it")
    body = graph([helper.make_node("Add", ["x", "lost"], ["a"])], [], ["a"])
    nodes = [helper.make_node("If", ["c"], ["y"], then_branch=body, else_branch=body)]
    refused(model(nodes, {"x": FLOATS}, ["y"], {"c": np.array(True)}), "takes 'lost', which is neither")


def test_unknown_operators_domains_and_sets():
    refused(
        model([helper.make_node("Reul", ["x"], ["y"])], {"x": FLOATS}, ["y"]),
        "has no operator 'Reul'",
        OnnxUnsupportedError,
    )
    own = helper.make_node("Own", ["x"], ["y"], domain="own")
    refused(model([own], {"x": FLOATS}, ["y"]), "imports no operator set of the domain 'own'")
    built = model([own], {"x": FLOATS}, ["y"])
    built.opset_import.append(helper.make_opsetid("own", 1))
    refused(built, "make 'Own' a function of the model", OnnxUnsupportedError)
    refused(model([], {"x": FLOATS}, ["x"], opset=999), "is of operator set 999, and sets 1 to", OnnxUnsupportedError)


def test_attributes_of_another_type_and_too_many_inputs():
    wrong = helper.make_node("Concat", ["x"], ["y"], axis=1.5)
    refused(model([wrong], {"x": FLOATS}, ["y"]), "Concat: its attribute 'axis' must be of the type INT, got 1.5")
    refused(
        model([helper.make_node("Relu", ["x", "x"], ["y"])], {"x": FLOATS}, ["y"]), "has 2 inputs, and takes 1 to 1"
    )
    refused(model([helper.make_node("Concat", ["x"], ["y"])], {"x": FLOATS}, ["y"]), "lacks its attribute 'axis'")


def test_functions_that_call_themselves():
    body = [helper.make_node("F", ["a"], ["b"], domain="own")]
    function = helper.make_function("own", "F", ["a"], ["b"], body, [helper.make_opsetid("own", 1)])
    nodes = [helper.make_node("F", ["x"], ["y"], domain="own")]
    refused(model(nodes, {"x": FLOATS}, ["y"], functions=[function]), "functions of the model call themselves")


def test_a_large_tensor_takes_no_memory():
    built = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": FLOATS}, ["y"], {"w": np.zeros(3, "float32")})
    built.graph.initializer[0].dims[:] = [1 << 20, 1 << 20]
    shape = {"n": np.array([1 << 40], "int64")}
    filled = model([helper.make_node("ConstantOfShape", ["n"], ["y"], name="fill")], {"x": FLOATS}, ["y"], shape)
    tracemalloc.start()
    refused(built, r"tensor 'w': its shape \(1048576, 1048576\) and dtype float32 need 4398046511104 bytes")
    with pytest.raises(
        OnnxFileError, match=r"the node 'fill', ConstantOfShape: a result of the shape \[1099511627776\]"
    ):
        results(filled, np.zeros((2, 3), "float32"))
    assert tracemalloc.get_traced_memory()[1] < 1 << 24
    tracemalloc.stop()


def external(tmp_path, location, **entries):
    """A model whose initializer is in a file of its own."""
    built = model([helper.make_node("Add", ["x", "w"], ["y"])], {"x": FLOATS}, ["y"], {"w": np.ones(3, "float32")})
    tensor = built.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    onnx.save(built, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_elements_in_a_file_of_their_own(tmp_path):
    (tmp_path / "weights").write_bytes(bytes(8) + np.array([1, 2, 3], "<f4").tobytes())
    file = external(tmp_path, "weights", offset=8, length=12)
    np.testing.assert_array_equal(results(file, np.zeros((2, 3), "float32"))[0], [[1, 2, 3]] * 2)


def test_elements_that_are_not_where_the_file_says(tmp_path):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "secret").write_bytes(bytes(12))
    refused(external(inside, "weights"), "tensor 'w': its file 'weights' is missing")
    for location in ("../secret", str(tmp_path / "secret"), "a/../../secret", ""):
        refused(external(inside, location), "is not inside the folder of the model")
    (inside / "link").symlink_to(tmp_path / "secret")
    refused(external(inside, "link"), "leads out of the folder of the model")
    (inside / "short").write_bytes(bytes(8))
    refused(external(inside, "short"), "12 bytes are needed of 'short' from byte 0 on, which has 8 bytes")
    refused(external(inside, "short", offset="x"), "offset and length in 'short' must be numbers")
    refused(onnx.load(external(inside, "short"), load_external_data=False), "whose folder is unknown")


def test_inputs_of_a_call():
    built, _ = mlp()
    net = mx.onnx.load(built)
    with pytest.raises(OnnxFileError, match=r"takes 1 inputs \(x\), got 0: the input 'x' is missing"):
        net()
    with pytest.raises(OnnxFileError, match="no input 'z'"):
        net(np.zeros((1, 3), "float32"), z=1)
    with pytest.raises(mx.MXNetError, match="the node 'first', Gemm"):
        net(np.zeros((1, 4), "float32"))


def test_a_missing_opset_and_two_initializers_of_one_name():
    built, _ = mlp()
    built.graph.initializer.append(numpy_helper.from_array(np.zeros(1), "w1"))
    refused(built, "two initializers have the name 'w1'")
    built, _ = mlp()
    built.opset_import[0].version = 1 << 40
    refused(built, "imports the operator set 1099511627776 of the domain ''")
    del built.opset_import[:]
    refused(built, "imports no operator set of the domain ''")


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.long)])
def test_damaged_files_give_clear_errors(count):
    assert fuzz_files(0, "numpy", count=count, kinds=("onnx",))[1] == 0
