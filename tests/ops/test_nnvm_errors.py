"""What is wrong with attributes in NNVM's form is told."""

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


def line_of(marker):
    """Where this file says ``# marker``."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(i for i, line in enumerate(lines, 1) if line.endswith('# ' + marker))}"


class Plain(op.Opaque):
    """abs(x), by NumPy"""

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        return np.abs(x)

    def gradient(self, F, dy, x, y):
        return dy * F.sign(x)


def attached(**attrs):
    """The function of an operator of its own, to which functions were attached."""
    number = next(NUMBER)
    cls = type(f"Broken{number}", (Plain,), {"__doc__": "of one test", "__qualname__": f"Broken{number}"})
    op.register(f"nnvm.broken{number}")(cls)
    for key, value in attrs.items():
        op.set_attr(cls.NAME, {"FCompute": "FCompute<cpu>"}.get(key, key), value, plevel=11)
    return getattr(nd, f"broken{number}")


@pytest.mark.parametrize(
    ("infer", "text"),
    [
        (lambda attrs, ins, outs: False, "FInferShape leaves output 0 unknown for inputs [(2, 3)]"),
        (
            lambda attrs, ins, outs: None,
            "FInferShape returned None; it fills its lists in place and returns whether all is known",
        ),
        (
            lambda attrs, ins, outs: outs.append((1,)) is None,
            "FInferShape left 1 inputs and 2 outputs, expected 1 and 1; assign to the elements of its lists",
        ),
    ],
)
def test_errors_of_inference(infer, text):
    function = attached(FInferShape=infer)
    with pytest.raises(MXNetError) as error:
        mx.gluon.nn.HybridLambda(lambda F, x: getattr(F, function.__name__)(x)).trace(array(X))
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("call", "text"),
    [
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
    ],
)
def test_errors(call, text):
    with pytest.raises(MXNetError) as error:
        call()
    assert str(error.value) == text
    assert op.get_attr("softmax", "FCreateOpState") is None


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
    function = attached(**{key.removesuffix("<cpu>"): raising})
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
