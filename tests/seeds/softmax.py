# A tutorial's code, as a user would paste it; np.int, which NumPy dropped, is int.
# ruff: noqa: E741, F401, I001, UP008
import os
import hybridc as mx
import numpy as np


class Softmax(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
        y /= y.sum(axis=1).reshape((x.shape[0], 1))
        self.assign(out_data[0], req[0], mx.nd.array(y))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        l = in_data[1].asnumpy().ravel().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(l.shape[0]), l] -= 1.0
        self.assign(in_grad[0], req[0], mx.nd.array(y))


@mx.operator.register("softmax")
class SoftmaxProp(mx.operator.CustomOpProp):
    def __init__(self):
        super(SoftmaxProp, self).__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shape):
        data_shape = in_shape[0]
        label_shape = (in_shape[0][0],)
        output_shape = in_shape[0]
        return [data_shape, label_shape], [output_shape], []

    def infer_type(self, in_type):
        dtype = in_type[0]
        return [dtype, dtype], [dtype], []

    def create_operator(self, ctx, shapes, dtypes):
        return Softmax()


# The network of MXNet's full example, whose last line is the tutorial's.
data = mx.symbol.Variable("data")
fc1 = mx.symbol.FullyConnected(data=data, name="fc1", num_hidden=8)
act1 = mx.symbol.Activation(data=fc1, name="relu1", act_type="relu")
fc2 = mx.symbol.FullyConnected(data=act1, name="fc2", num_hidden=6)
act2 = mx.symbol.Activation(data=fc2, name="relu2", act_type="relu")
fc3 = mx.symbol.FullyConnected(data=act2, name="fc3", num_hidden=3)
mlp = mx.symbol.Custom(data=fc3, name="softmax", op_type="softmax")
