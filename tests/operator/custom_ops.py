"""Custom operators made of plain functions, for the tests."""

import warnings

import numpy as np

import hybridc as mx
from hybridc import gluon, nd


class Function(gluon.HybridBlock):
    """A block around a function of (F, *inputs)."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *xs):
        return self.function(mx.nd, *xs)


def array(values, dtype="float32", grad=None):
    x = nd.array(np.asarray(values), dtype=dtype)
    if grad:
        x.attach_grad(grad)
    return x


def declare(
    name,
    forward=None,
    backward=None,
    *,
    arguments=("data",),
    outputs=("output",),
    auxiliary=(),
    infer_shape=None,
    infer_type=None,
    top=True,
    create=None,
    init=None,
    depends=None,
):
    """Register an operator made of plain functions."""

    class Op(mx.operator.CustomOp):
        pass

    class Prop(mx.operator.CustomOpProp):
        def __init__(self, **params):
            super().__init__(need_top_grad=top)
            self.params = params
            if init:
                init(self, **params)

        def list_arguments(self):
            return list(arguments)

        def list_outputs(self):
            return list(outputs)

        def list_auxiliary_states(self):
            return list(auxiliary)

        def create_operator(self, ctx, in_shapes, in_dtypes):
            op = create(self, ctx, in_shapes, in_dtypes) if create else Op()
            if isinstance(op, Op):
                op.params = self.params
            return op

    if forward:
        Op.forward = forward
    if backward:
        Op.backward = backward
    if infer_shape:
        Prop.infer_shape = infer_shape
    if infer_type:
        Prop.infer_type = infer_type
    if depends:
        Prop.declare_backward_dependency = depends
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.operator.register(name)(Prop)


def double_forward(self, is_train, req, in_data, out_data, aux):
    self.assign(out_data[0], req[0], in_data[0] * 2)


def double_backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    self.assign(in_grad[0], req[0], out_grad[0] * 2)
