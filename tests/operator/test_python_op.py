"""MXNet's first kinds of operators in Python, NumpyOp and NDArrayOp; expected values are NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError

pytestmark = pytest.mark.filterwarnings("ignore:.*has been deprecated:UserWarning")

X = np.array([[1, 2, 4], [0, -1, 3]], "float32")
LABEL = np.array([2, 0], "float32")


class Softmax(mx.operator.NumpyOp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], (in_shape[0][0],)], [in_shape[0]]

    def forward(self, in_data, out_data):
        x, y = in_data[0], out_data[0]
        assert type(x) is np.ndarray
        y[:] = np.exp(x - x.max(axis=1, keepdims=True))
        y /= y.sum(axis=1, keepdims=True)

    def backward(self, out_grad, in_data, out_data, in_grad):
        assert out_grad == []
        label = in_data[1].astype(int)
        in_grad[0][:] = out_data[0]
        in_grad[0][np.arange(label.shape[0]), label] -= 1


class Scale(mx.operator.NDArrayOp):
    def forward(self, in_data, out_data):
        out_data[0][:] = in_data[0] * 3

    def backward(self, out_grad, in_data, out_data, in_grad):
        in_grad[0][:] = out_grad[0] * 3


def softmax_and_gradient():
    e = np.exp(X.astype("float64"))
    p = e / e.sum(axis=1, keepdims=True)
    grad = p.copy()
    grad[[0, 1], [2, 0]] -= 1
    return p, grad


def test_a_numpy_op_is_a_node_of_a_symbol():
    net = Softmax()(data=mx.sym.var("data"), name="softmax")
    assert net.list_arguments() == ["data", "softmax_label"]
    assert net.list_outputs() == ["softmax_output"]
    assert net.infer_shape(data=(2, 3))[0] == [(2, 3), (2,)]
    bound = net.simple_bind(mx.cpu(), data=(2, 3))
    p, grad = softmax_and_gradient()
    out = bound.forward(is_train=True, data=mx.nd.array(X), softmax_label=mx.nd.array(LABEL))
    np.testing.assert_allclose(out[0].asnumpy(), p, rtol=1e-6)
    bound.backward()
    np.testing.assert_allclose(bound.grad_dict["data"].asnumpy(), grad, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("req", ["write", "add"])
def test_an_ndarray_op_gets_the_gradient_of_its_output(req):
    x, grad = mx.nd.array(X), mx.nd.ones((2, 3))
    bound = Scale()(mx.sym.var("data") + 1).bind(mx.cpu(), {"data": x}, {"data": grad}, req)
    np.testing.assert_array_equal(bound.forward(is_train=True)[0].asnumpy(), (X + 1) * 3)
    bound.backward(mx.nd.array(X))
    np.testing.assert_array_equal(grad.asnumpy(), X * 3 + (req == "add"))


def test_defaults_copy_and_have_a_gradient_of_one():
    bound = mx.operator.NumpyOp()(mx.sym.var("data")).simple_bind(mx.cpu(), data=(2, 3))
    np.testing.assert_array_equal(bound.forward(is_train=True, data=mx.nd.array(X))[0].asnumpy(), X)
    bound.backward(mx.nd.zeros((2, 3)))
    np.testing.assert_array_equal(bound.grad_dict["data"].asnumpy(), 1)


def test_a_saved_graph_has_no_instance_in_another_process():
    text = Scale()(mx.sym.var("data"), name="scale").tojson().replace('"info": "', '"info": "9999')
    with pytest.raises(MXNetError, match=r"no instance '9999.*register"):
        mx.sym.load_json(text)


def test_making_one_warns_and_the_base_makes_no_symbol():
    with pytest.warns(UserWarning, match="deprecated"), pytest.raises(NotImplementedError):
        mx.operator.PythonOp()(mx.sym.var("data"))
