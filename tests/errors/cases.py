"""Networks and operators with a mistake in them, each made by a function that is called to make the mistake."""

from __future__ import annotations

import numpy as np

import hybridc as mx
from hybridc import op
from hybridc.gluon import HybridBlock, nn

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Outer(HybridBlock):
    """A network whose child does what a function says."""

    def __init__(self, function, **kwargs):
        super().__init__(prefix="outer_", **kwargs)
        self.child = Inner(function, prefix="outer_inner_")

    def hybrid_forward(self, F, *args):
        return self.child(*args)


class Inner(HybridBlock):
    def __init__(self, function, **kwargs):
        super().__init__(**kwargs)
        self.function = function

    def hybrid_forward(self, F, *args):
        return self.function(F, *args)


def call(function, *args):
    """Compile a network and run it."""
    net = Outer(function)
    net.hybridize()
    return net(*args)


def call_backward(function, *args):
    for x in args:
        x.attach_grad()
    with mx.autograd.record():
        y = call(function, *args)
    y.backward()


X = mx.nd.ones((2, 3))


# --- while tracing -------------------------------------------------------------------------------------------


@case
def shapes_that_do_not_broadcast():
    def forward(F, x, y):
        z = F.exp(x)
        return z + y

    call(forward, X, mx.nd.ones((2, 4)))


@case
def shapes_of_a_product():
    call(lambda F, x: F.dot(x, x), X)


@case
def shapes_of_a_concatenation():
    def forward(F, x):
        return F.concat(
            x,
            F.transpose(x),
            dim=0,
        )

    call(forward, X)


@case
def reshape_to_another_size():
    call(lambda F, x: F.reshape(x, (4, 2)), X)


@case
def axis_out_of_range():
    call(lambda F, x: F.sum(x, axis=2), X)


@case
def dtypes_that_differ():
    call(lambda F, x, y: F.elemwise_mul(x, y), X, mx.nd.ones((2, 3), dtype="float64"))


@case
def layer_for_other_data():
    net = nn.HybridSequential(prefix="net_")
    with net.name_scope():
        net.add(nn.Dense(4, in_units=5))
    net.initialize()
    net.hybridize()
    net(X)


@case
def unknown_attribute():
    call(lambda F, x: F.softmax(x, axes=1), X)


@case
def value_of_an_attribute():
    call(lambda F, x: F.Activation(x, act_type="rleu"), X)


@case
def missing_attribute():
    call(lambda F, x: F.one_hot(x), X)


@case
def missing_input():
    call(lambda F, x: F.dot(x), X)


@case
def input_that_is_no_array():
    call(lambda F, x: F.broadcast_add(x, "a"), X)


@case
def unknown_operator():
    call(lambda F, x: F.rleu(x), X)


@case
def value_in_an_if():
    def forward(F, x):
        if x.sum() > 0:
            return x
        return -x

    call(forward, X)


@case
def value_for_numpy():
    call(lambda F, x: x * x.asnumpy(), X)


@case
def assignment():
    def forward(F, x):
        x[0] = 1
        return x

    call(forward, X)


@case
def result_that_is_no_array():
    call(lambda F, x: [x, "x"], X)


@case
def shape_of_a_parameter():
    class Scale(HybridBlock):
        def __init__(self):
            super().__init__(prefix="scale_")
            with self.name_scope():
                self.factor = self.params.get("factor", shape=(0,), allow_deferred_init=True)

        def hybrid_forward(self, F, x, factor):
            return F.tile(factor, reps=(2,)) + x

    net = Scale()
    net.initialize()
    net.hybridize()
    net(X)


# --- while running -------------------------------------------------------------------------------------------


class Checked(mx.operator.CustomOp):
    """The identity, which refuses numbers that are none."""

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        if np.isnan(x).any():
            raise ValueError("there is a NaN in the input")
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0].reshape((7,)))


class OtherNames(mx.operator.CustomOp):
    def forward(self, train, req, ins, outs, aux):
        self.assign(outs[0], req[0], ins[0])


@mx.operator.register("errors_other_names")
class OtherNamesProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return OtherNames()


@case
def custom_operator_with_other_names():
    call(lambda F, x: F.Custom(x, op_type="errors_other_names"), X)


@mx.operator.register("errors_checked")
class CheckedProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Checked()


@mx.operator.register("errors_shapes")
class ShapesProp(mx.operator.CustomOpProp):
    def infer_shape(self, in_shape):
        return in_shape, [in_shape[1]], []


@case
def nan_in_a_custom_op():
    def forward(F, x):
        y = F.sqrt(x)
        return F.Custom(y, op_type="errors_checked") * 2

    call(forward, -X)


@case
def backward_of_a_custom_op():
    def forward(F, x):
        return F.Custom(x * 2, op_type="errors_checked")

    call_backward(forward, X.copy())


@case
def shapes_of_a_custom_op():
    call(lambda F, x: F.Custom(x, op_type="errors_shapes"), X)


@case
def custom_op_that_is_not_registered():
    call(lambda F, x: F.Custom(x, op_type="errors_chekced"), X)


@case
def index_that_names_no_element():
    def forward(F, x, i):
        rows = F.take(x, i, axis=0, mode="raise")
        return rows.sum()

    call(forward, X, mx.nd.array([5]))


@op.register("errors.halved")
class Halved(op.Opaque):
    """x / 2 on the host, for an even number of elements."""

    def infer_shape(self, shapes):
        return shapes, shapes

    def eager(self, x):
        if x.size % 2:
            raise ArithmeticError(f"{x.size} elements cannot be halved")
        return x / 2


@case
def operator_of_the_host():
    call(lambda F, x: F.exp(F.halved(x)), mx.nd.ones((3,)))


@case
def operator_without_a_gradient():
    call_backward(lambda F, x: F.halved(F.exp(x)), X.copy())


# --- operators that their author got wrong -------------------------------------------------------------------


@op.register("errors.by_numpy")
class ByNumPy(op.Elementwise):
    """exp, written with NumPy instead of the builder."""

    def scalar(self, b, x):
        return np.exp(x)


@op.register("errors.unknown_step")
class UnknownStep(op.Elementwise):
    """A step that bodies do not have."""

    def scalar(self, b, x):
        return b.expp(x)


@op.register("errors.two_gradients")
class TwoGradients(op.Elementwise):
    """x², whose rule gives one gradient too many."""

    def scalar(self, b, x):
        return b.mul(x, x)

    def gradient(self, F, dy, x, y):
        return 2 * x * dy, dy


@op.register("errors.one_list")
class OneList(op.Opaque):
    """The identity, which infers half of what it should."""

    def infer_shape(self, shapes):
        return shapes

    def eager(self, x):
        return x


@case
def body_that_uses_numpy():
    call(lambda F, x: F.by_numpy(x), X)


@case
def body_with_an_unknown_step():
    call(lambda F, x: F.unknown_step(x), X)


@case
def rule_with_too_many_gradients():
    call_backward(lambda F, x: F.two_gradients(x), X.copy())


@case
def inference_that_returns_one_list():
    call(lambda F, x: F.one_list(x), X)


# --- compiling again -----------------------------------------------------------------------------------------


@case
def compiled_again():
    net = nn.Dense(4, in_units=3, prefix="dense_")
    net.initialize()
    net.hybridize()
    net(X)
    with mx.no_recompile():
        net(mx.nd.ones((5, 3)))


# --- what a message of the compiler itself names -------------------------------------------------------------


@case
def gradient_of_a_gradient_that_is_none():
    def forward(F, x):
        y = F.topk(x, k=2, ret_typ="mask")
        return F.halved(x * y)

    call_backward(forward, mx.nd.ones((2, 4)))


@case
def argument_that_is_no_array():
    call(lambda F, x, n: x * n, X, "2")


@case
def value_carried_to_the_next_call():
    class Counting(HybridBlock):
        def __init__(self):
            super().__init__(prefix="counting_")
            self.total = None

        def hybrid_forward(self, F, x):
            self.total = x if self.total is None else self.total + x
            return self.total

    net = Counting()
    net.hybridize()
    net(X)
    net(X)


# --- calls and layers ----------------------------------------------------------------------------------------


class WithoutF(HybridBlock):
    def hybrid_forward(self, x):
        return x * 2


class TwoInputs(HybridBlock):
    def hybrid_forward(self, F, x, y):
        return x * y


class WithoutParameter(HybridBlock):
    def __init__(self):
        super().__init__(prefix="without_")
        self.scale = self.params.get("scale", shape=(3,))

    def hybrid_forward(self, F, x):
        return x * 2


class ForwardWithF(HybridBlock):
    def forward(self, F, x):
        return F.exp(x)


def run(net, *args, eagerly=False):
    net.initialize()
    if not eagerly:
        net.hybridize()
    return net(*args)


@case
def f_forgotten():
    run(WithoutF(prefix="net_"), X)


@case
def f_forgotten_eagerly():
    run(WithoutF(prefix="net_"), X, eagerly=True)


@case
def second_input_forgotten():
    run(TwoInputs(prefix="net_"), X)


@case
def input_too_many():
    run(TwoInputs(prefix="net_"), X, X, X)


@case
def parameter_forgotten():
    run(WithoutParameter(), X)


@case
def forward_with_f():
    run(ForwardWithF(prefix="net_"), X)


@case
def input_by_keyword():
    net = nn.Dense(2, prefix="dense_")
    net(x=X)


@case
def argument_of_a_layer():
    nn.Dense(2, in_feature=3)


class Narrow(nn.Dense):
    def __init__(self):
        super().__init__(2, in_feature=3)


@case
def argument_that_a_class_gives_to_its_base():
    Narrow()


@case
def product_of_numpy_arrays():
    mx.np.dot(mx.np.ones((2, 3)), mx.np.ones((2, 3)))


@case
def argument_of_a_convolution():
    nn.Conv2D(2, 3, in_channel=3)


@case
def sizes_of_the_inputs():
    nn.Dense(2, input_shape=(3,))


@case
def activation_of_several_elements():
    nn.Dense(3, activation="softmax")


@case
def activation_misspelt():
    nn.Conv2D(3, 3, activation="sigmiod")


@case
def layer_frozen_as_in_keras():
    nn.Dense(3).trainable = False


@case
def parameter_frozen_as_in_pytorch():
    nn.Dense(3, prefix="dense_").weight.requires_grad = False


@case
def channels_last():
    run(nn.Conv2D(4, 3, in_channels=3, prefix="conv_"), mx.nd.ones((2, 32, 32, 3)))


@case
def channels_last_at_a_first_call():
    run(nn.Conv2D(4, 5, prefix="conv_"), mx.nd.ones((2, 32, 32, 3)))


@case
def image_without_a_batch_axis():
    run(nn.Conv2D(4, 3, prefix="conv_"), mx.nd.ones((3, 32, 32)))


@case
def kernel_larger_than_the_image():
    run(nn.Conv2D(4, 7, prefix="conv_"), mx.nd.ones((2, 3, 5, 5)))


@case
def axis_of_batch_norm():
    run(nn.BatchNorm(axis=5, prefix="norm_"), X)


@case
def channels_of_batch_norm():
    run(nn.BatchNorm(in_channels=5, prefix="norm_"), X)


@case
def features_of_a_recurrent_layer():
    run(mx.gluon.rnn.LSTM(4, input_size=5, prefix="lstm_"), mx.nd.ones((5, 2, 3)))


@case
def features_of_other_axes():
    run(nn.Dense(4, in_units=3, prefix="dense_"), mx.nd.ones((2, 5, 3)))


# --- losses --------------------------------------------------------------------------------------------------


@case
def labels_one_hot():
    run(mx.gluon.loss.SoftmaxCrossEntropyLoss(prefix="loss_"), mx.nd.ones((4, 3)), mx.nd.ones((4, 3)))


@case
def labels_that_are_numbers():
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False, prefix="loss_")
    run(loss, mx.nd.ones((4, 3)), mx.nd.ones((4,)))


@case
def arguments_of_a_loss_exchanged():
    run(mx.gluon.loss.SoftmaxCrossEntropyLoss(prefix="loss_"), mx.nd.ones((4,)), mx.nd.ones((4, 3)), eagerly=True)


@case
def labels_of_another_batch():
    run(mx.gluon.loss.SoftmaxCrossEntropyLoss(prefix="loss_"), mx.nd.ones((4, 3)), mx.nd.ones((5,)))


@case
def labels_of_another_size():
    run(mx.gluon.loss.L2Loss(prefix="loss_"), mx.nd.ones((4, 2)), mx.nd.ones((4, 3)))


@case
def labels_that_are_integers():
    run(mx.gluon.loss.SigmoidBCELoss(prefix="loss_"), mx.nd.ones((4,)), mx.nd.ones((4,), dtype="int32"))


# --- arrays --------------------------------------------------------------------------------------------------


@case
def sizes_as_arguments():
    mx.nd.zeros(2, 3)


@case
def sizes_as_arguments_in_a_forward():
    call(lambda F, x: F.zeros(2, 3) + x, X)


@case
def device_as_text():
    mx.nd.ones(3, ctx="cpu")


@case
def reshape_with_sizes():
    call(lambda F, x: F.reshape(x, 3, 2), X)


@case
def transpose_with_axes():
    call(lambda F, x: F.transpose(x, 1, 0), X)


@case
def format_of_several_elements():
    format(X, ".2f")


@case
def numpy_in_a_forward():
    call(lambda F, x: np.tanh(x), X)


@case
def labels_and_predictions_exchanged():
    mx.metric.Accuracy().update([mx.nd.ones((4, 3))], [mx.nd.ones((4,))])


@case
def model_of_keras():
    nn.Dense(2, in_units=3).save("model.keras")


@case
def attribute_without_a_type():
    @op.register("errors.untyped")
    class Untyped(op.Elementwise):
        """x"""

        slope = op.attribute(1.0, doc="the slope")
