# A tutorial's code, as a user would paste it.
# ruff: noqa: F401, I001, UP008
import numpy as np
import hybridc as mx
from hybridc import gluon, autograd
import os


class Sigmoid(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = 1.0 / (1.0 + np.exp(-x))
        self.assign(out_data[0], req[0], mx.nd.array(y))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        y = out_data[0].asnumpy()
        dy = out_grad[0].asnumpy()
        dx = dy * (1.0 - y) * y
        self.assign(in_grad[0], req[0], mx.nd.array(dx))


@mx.operator.register("sigmoid")
class SigmoidProp(mx.operator.CustomOpProp):
    def __init__(self):
        super(SigmoidProp, self).__init__(True)

    def list_arguments(self):
        return ["data"]

    def list_outputs(self):
        return ["output"]

    def infer_shape(self, in_shapes):
        data_shape = in_shapes[0]
        output_shape = data_shape
        return (data_shape,), (output_shape,), ()

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Sigmoid()


x = mx.nd.array([0, 1, 2, 3])
x.attach_grad()
with autograd.record():
    y = mx.nd.Custom(x, op_type="sigmoid")
print(y)

y.backward()
print(x.grad)
