"""Attributes of any operator under any key, those of NNVM among them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd, op
from hybridc.dialects.operator import Sample
from hybridc.errors import MXNetError

NUMBER = itertools.count()
X = np.array([[0.5, -1.5, 2.5], [1.25, -0.75, 0.25]])


def array(x, dtype="float64"):
    made = mx.nd.array(np.asarray(x), dtype=dtype)
    made.attach_grad()
    return made


def compiled(function):
    """The function in a hybridized block."""

    class Net(mx.gluon.HybridBlock):
        def forward(self, *args):
            return function(*args)

    net = Net()
    net.hybridize()
    return net


# --- attributes of any operator -------------------------------------------------------------------------------


@pytest.mark.usefixtures("own_attributes")
def test_any_key():
    key = f"TMyKey{next(NUMBER)}"
    assert op.get_attr("softmax", key) is None
    assert op.get_attr("softmax", key, 5) == 5
    op.set_attr("softmax", key, "one")
    op.set_attr("hybrid.softmax", key, "less", plevel=9)
    assert op.get_attr("softmax", key) == "one"
    op.set_attr("softmax", key, "more", plevel=11)
    assert op.get_attr("hybrid.softmax", key) == "more"
    assert key in op.list_attrs("softmax")
    assert op.get_attr("log_softmax", key) is None
    with pytest.raises(MXNetError) as error:
        op.set_attr("softmax", key, "equal", plevel=11)
    assert str(error.value) == (
        f"operator 'hybrid.softmax' has the attribute {key!r} with plevel 11 already; pass a higher plevel to replace "
        "it"
    )
    with pytest.raises(MXNetError) as error:
        op.set_attr("relu", key, 3)
    assert str(error.value) == (
        f"operator 'hybrid.relu': attribute {key!r} is a str for operator 'hybrid.softmax', got a int; one key has one "
        "kind of values"
    )


def test_interfaces_of_a_class_in_the_form_of_nnvm():
    attrs = op.NodeAttrs("FullyConnected", {"num_hidden": "5"})
    assert attrs.dict["num_hidden"] == "5"
    assert attrs.parsed.num_hidden == 5
    ins, outs = [(2, 3), None, None], [None]
    assert op.get_attr("FullyConnected", "FInferShape")(attrs, ins, outs)
    assert (ins, outs) == ([(2, 3), (5, 3), (5,)], [(2, 5)])
    ins, outs = [None, None, None], [None]
    assert not op.get_attr("FullyConnected", "FInferShape")(attrs, ins, outs)
    assert op.get_attr("FullyConnected", "FListInputNames")(attrs) == ["data", "weight", "bias"]
    assert op.get_attr("relu", "FInplaceOption")(op.NodeAttrs("relu"))[0] == (0, 0)
    assert op.get_attr("BatchNorm", "FMutateInputs")(op.NodeAttrs("BatchNorm")) == [3, 4]
    types, out_types = [np.dtype("int32")], [None]
    assert op.get_attr("Cast", "FInferType")(op.NodeAttrs("Cast", {"dtype": "float16"}), types, out_types)
    assert out_types == [np.dtype("float16")]
    out = np.ones((2, 3))
    compute = op.get_attr("tanh", "FCompute<cpu>")
    compute(op.NodeAttrs("tanh"), op.OpContext(), [X], [op.kAddTo], [out])
    np.testing.assert_allclose(out, 1 + np.tanh(X))
    compute(op.NodeAttrs("tanh"), op.OpContext(), [X], [op.kNullOp], [out])
    np.testing.assert_allclose(out, 1 + np.tanh(X))
    x = array(X)
    (grad,) = op.get_attr("square", "FGradient")(op.Node(op.NodeAttrs("square"), [x], [nd.square(x)]), [x])
    np.testing.assert_allclose(grad.asnumpy(), 2 * X * X)
    assert op.get_attr("sign", "FCreateOpState") is None
    assert op.get_attr("tanh", "TIsBackward", False) is False


def own(base, name=None):
    """A class of its own for one test."""
    number = next(NUMBER)
    cls = type(f"Own{number}", (base,), {"__doc__": "of one test", "__qualname__": f"Own{number}"})
    return op.register(name or f"tests.own{number}")(cls)


class Triple(op.Elementwise):
    """3 * x"""

    def scalar(self, b, x):
        return b.mul(x, 3.0)

    def gradient(self, F, dy, x, y):
        return dy * 3


def test_interfaces_of_a_class_can_be_replaced():
    cls = own(Triple)
    other = own(cls)
    name = cls.NAME
    f = getattr(nd, name.partition(".")[2])
    with pytest.raises(MXNetError) as error:
        op.set_attr(name, "FGradient", lambda node, ograds: [ograds[0] * 5])
    assert str(error.value) == (
        f"operator {name!r} has the attribute 'FGradient' with plevel 10 already; pass a higher plevel to replace it"
    )
    rule = lambda node, ograds: [ograds[0] * 5]  # noqa: E731
    op.set_attr(name, "FGradient", rule, plevel=11)
    assert op.get_attr(name, "FGradient") is rule
    for function, want in ((f, 5), (compiled(f), 5), (getattr(nd, other.NAME.partition(".")[2]), 3)):
        x = array(X)
        with autograd.record():
            y = function(x)
        y.backward()
        np.testing.assert_array_equal(x.grad.asnumpy(), np.full_like(X, want))
    op.set_attr(name, "FInplaceOption", lambda attrs: [], plevel=11)
    assert cls.bind().INPLACE == ()
    assert other.bind().INPLACE != ()
    op.set_attr(name, "FListOutputNames", lambda attrs: ["tripled"])
    f = getattr(mx.sym, name.partition(".")[2])
    assert f(mx.sym.var("x"), name="t").list_outputs() == ["t_tripled"]


def test_a_second_eager_must_mean_the_same():
    cls = own(Triple)
    cls.samples = classmethod(lambda cls: [Sample([X], lambda x: 3 * x)])
    mx.test_utils.check_op(cls.NAME)
    op.set_attr(cls.NAME, "FCompute<cpu>", lambda a, c, i, r, o: np.multiply(i[0], 4, out=o[0]), plevel=11)
    with pytest.raises(AssertionError, match="FAILED  values"):
        mx.test_utils.check_op(cls.NAME)
