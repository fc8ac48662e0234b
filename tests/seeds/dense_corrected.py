# A tutorial's code, as a user would paste it, with its backward corrected.
# ruff: noqa: F401, I001, UP008
import numpy as np
import hybridc as mx
from hybridc import gluon, autograd


class Dense(mx.operator.CustomOp):
    def __init__(self, bias):
        self._bias = bias

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        weight = in_data[1].asnumpy()
        y = x.dot(weight.T) + self._bias
        self.assign(out_data[0], req[0], mx.nd.array(y))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        x = in_data[0].asnumpy()
        weight = in_data[1].asnumpy()
        dy = out_grad[0].asnumpy()
        self.assign(in_grad[0], req[0], mx.nd.array(dy.dot(weight)))
        self.assign(in_grad[1], req[1], mx.nd.array(dy.T.dot(x)))


@mx.operator.register("dense")
class DenseProp(mx.operator.CustomOpProp):
    def __init__(self, bias):
        super(DenseProp, self).__init__(True)
        self._bias = float(bias)

    def list_arguments(self):
        return ["data", "weight"]

    def infer_shape(self, in_shapes):
        data_shape = in_shapes[0]
        weight_shape = in_shapes[1]
        output_shape = (data_shape[0], weight_shape[0])
        return (data_shape, weight_shape), (output_shape,), ()

    def create_operator(self, ctx, in_shapes, in_dtypes):
        return Dense(self._bias)


class DenseBlock(mx.gluon.HybridBlock):
    def __init__(self, in_channels, channels, bias, **kwargs):
        super(DenseBlock, self).__init__(**kwargs)
        self._bias = bias
        with self.name_scope():
            self.weight = self.params.get("weight", shape=(channels, in_channels))

    def hybrid_forward(self, F, x, weight):
        return F.Custom(x, weight, bias=self._bias, op_type="dense")
