"""Operators registered function by function, as in NNVM: what is wrong with them is told."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import nd, op
from hybridc.errors import MXNetError

NUMBER = itertools.count()
X = np.array([[0.5, -1.5, 2.5], [1.25, -0.75, 0.25]])


def array(x):
    made = mx.nd.array(np.asarray(x), dtype="float64")
    made.attach_grad()
    return made


def abs_cpu(attrs, ctx, inputs, req, outputs):
    np.abs(inputs[0], out=outputs[0])


def line_of(marker):
    """Where this file says ``# marker``."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(i for i, line in enumerate(lines, 1) if line.endswith('# ' + marker))}"


(
    op.NNVM_REGISTER_OP("difference")
    .set_num_inputs(2)
    .set_attr("FInferShape", op.ElemwiseShape(2, 1))
    .set_attr("FCompute<cpu>", lambda attrs, ctx, ins, req, outs: np.subtract(*ins, out=outs[0]))
)


def registered(**attrs):
    builder = op.NNVM_REGISTER_OP(f"broken{next(NUMBER)}")
    for key, value in attrs.items():
        builder.set_attr({"FCompute": "FCompute<cpu>", "FGpu": "FCompute<gpu>"}.get(key, key), value)
    return getattr(nd, builder.op.NAME.partition(".")[2])


@pytest.mark.parametrize(
    ("attrs", "text"),
    [
        (
            {},
            "has no FCompute<cpu>: nothing to run; set_attr('FCompute<cpu>', f) with f(attrs, ctx, inputs, req, "
            "outputs)",
        ),
        ({"FGpu": abs}, "has FCompute<gpu> only, which hybridc does not call; give it FCompute<cpu> as well"),
        ({"FCompute": abs_cpu}, "has no FInferShape; ElemwiseShape(1, 1) serves simple operators"),
        (
            {"FCompute": abs_cpu, "FInferShape": lambda attrs, ins, outs: False},
            "FInferShape leaves output 0 unknown for inputs [(2, 3)]",
        ),
        (
            {"FCompute": abs_cpu, "FInferShape": lambda attrs, ins, outs: None},
            "FInferShape returned None; it fills its lists in place and returns whether all is known",
        ),
        (
            {"FCompute": abs_cpu, "FInferShape": lambda attrs, ins, outs: outs.append((1,)) is None},
            "FInferShape left 1 inputs and 2 outputs, expected 1 and 1; assign to the elements of its lists",
        ),
        (
            {"FCompute": abs_cpu, "FInferShape": op.ElemwiseShape(2, 1)},
            "ElemwiseShape(2, 1), but the operator has 1 inputs and 1 outputs",
        ),
        (
            {"FCreateOpState": lambda *a: 0, "FInferShape": op.ElemwiseShape(1, 1)},
            "has no FStatefulCompute<cpu>: nothing to run; set_attr('FStatefulCompute<cpu>', f) with f(state, ctx, "
            "inputs, req, outputs)",
        ),
    ],
)
def test_errors_of_registered_operators(attrs, text):
    function = registered(**attrs)
    with pytest.raises(MXNetError) as error:
        function(array(X))
    assert str(error.value) in (f"{function.__name__} {text}", f"{function.__name__}: {text}")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: op.NNVM_REGISTER_OP("softmax").set_num_inputs(1),
            "operator 'hybrid.softmax' is a class, which says this itself; set_num_inputs is for operators that "
            "NNVM_REGISTER_OP made. Attach attributes with set_attr, or choose another name",
        ),
        (
            lambda: op.NNVM_REGISTER_OP("two words"),
            "an operator's name is a name of Python, maybe after a dialect in lower case, got 'two words'",
        ),
        (
            lambda: op.set_attr("softmax", "FGradient", 5, plevel=20),
            "operator 'hybrid.softmax': attribute 'FGradient' must be a function, got 5",
        ),
        (
            lambda: op.set_attr("softmax", "TIsBackward", "yes"),
            "operator 'hybrid.softmax': attribute 'TIsBackward' must be True or False, got 'yes'",
        ),
        (
            lambda: op.set_attr("softmax", "FCreateOpState", lambda *a: None),
            "operator 'hybrid.softmax' owns no state: its class must be derived from mx.op.Stateful",
        ),
        (lambda: op.get(5), "an operator is named by a string, as 'mylib.swish' or 'relu', got 5"),
        (
            lambda: op.set_attr("relu", 5, 1),
            "operator 'hybrid.relu': an attribute's key is a string, as 'TMyKey', got 5",
        ),
        (lambda: op.get("no_such_op"), "no operator 'no_such_op'; is the module that registers it imported?"),
        (
            lambda: op.NNVM_REGISTER_OP("abs3").add_argument("scalar", "quaternion"),
            "an argument has the type 'quaternion'; use NDArray, NDArray[] or one of int, long, float, double, string, "
            "str, boolean, bool, Shape(tuple), Shape, tuple of <int>, dtype",
        ),
        (
            lambda: nd.difference(array(X), array([1.0])),
            "difference: all shapes must be equal, got (2, 3), (1,)",
        ),
        (
            lambda: op.ElemwiseType(2, 1)(op.NodeAttrs("difference"), [np.dtype("int32"), np.dtype("int8")], [None]),
            "difference: all inputs must have one dtype, got int32, int8; use .astype(…)",
        ),
    ],
)
def test_errors(call, text):
    with pytest.raises(MXNetError) as error:
        call()
    assert str(error.value) == text


def train(net):
    x = array(X)
    with mx.autograd.record():
        y = net(x)
    y.backward()


def raising(*_):
    return 1 / 0  # raising


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize("key", ["FInferShape", "FInferType", "FGradient", "FCompute<cpu>"])
def test_functions_that_raise(key, mode):
    attrs = {"FInferShape": op.ElemwiseShape(1, 1), "FCompute": abs_cpu, "FGradient": lambda node, ograds: ograds}
    function = registered(**{**attrs, key.removesuffix("<cpu>"): raising})
    name = function.__name__

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return getattr(F, name)(x)  # network

    net = Net(prefix="net_")
    if mode == "hybridized":
        net.hybridize()
    with pytest.raises(MXNetError) as error:
        train(net)
    what = f"raised ZeroDivisionError: division by zero ({line_of('raising')} in raising)"
    where = f"{line_of('network')} (in net): " if mode == "hybridized" else ""
    assert str(error.value) == f"{where}operator nnvm.{name}: {key} {what}"


def test_parser_that_raises():
    op.NNVM_REGISTER_OP("unparsed").add_argument("scale", "float, optional, default=2.0").set_attr_parser(
        lambda attrs: attrs.dict["scalar"]  # parser
    )
    with pytest.raises(MXNetError) as error:
        nd.unparsed(array(X))
    assert str(error.value) == (
        "unparsed: the attribute parser raised KeyError: 'scalar' for {'scale': '2.0'} "
        f"({line_of('parser')} in <lambda>)"
    )
