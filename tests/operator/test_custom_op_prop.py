"""mx.operator: what a CustomOpProp declares, and how nd.Custom reads its arguments."""

import numpy as np
import pytest
from custom_ops import array, declare, double_forward

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.errors import MXNetError, ShapeError


def test_parameters_arrive_as_strings(apply):
    seen = {}
    declare("params", double_forward, init=lambda s, **params: seen.update(params))
    apply(
        lambda F, x: F.Custom(
            x, op_type="params", name="ignored", a=0.1, b=True, c=None, d=[1, 2], e=(1, 2), f=np.float32,
            g="float32", h=[np.float64(1.5)], i=np.int64(3),
        ),
        array([1.0]),
    )  # fmt: skip
    assert seen == {
        "a": "0.1", "b": "True", "c": "None", "d": "[1, 2]", "e": "(1, 2)", "f": "<class 'numpy.float32'>",
        "g": "float32", "h": "[1.5]", "i": "3",
    }  # fmt: skip


def test_what_the_prop_is_asked(apply):
    asked = []

    def create(prop, ctx, in_shapes, in_dtypes):
        asked.append((ctx, in_shapes, in_dtypes))
        op = mx.operator.CustomOp()
        op.forward = lambda is_train, req, in_data, out_data, aux: None
        return op

    def infer_shape(prop, in_shapes):
        assert in_shapes == [[2, 3], [4]]
        return in_shapes, [in_shapes[0][:-1] + [7]], [[5]]  # noqa: RUF005  (shapes are lists, as in MXNet)

    declare("ask", arguments=("a", "b"), auxiliary=("s",), infer_shape=infer_shape, create=create)
    y = apply(lambda F, *xs: F.Custom(*xs, op_type="ask"), nd.zeros((2, 3)), nd.zeros((4,)), nd.zeros((5,)))
    assert y.shape == (2, 7)
    assert asked[0] == (mx.cpu(0), [[2, 3], [4], [5]], [np.float32] * 3)


def test_defaults_of_the_prop():
    prop = mx.operator.CustomOpProp()
    assert prop.need_top_grad_
    assert (prop.list_arguments(), prop.list_outputs(), prop.list_auxiliary_states()) == (
        ["data"],
        ["output"],
        [],
    )
    assert prop.infer_shape([[1, 2]]) == ([[1, 2]], [[1, 2]], [])
    assert prop.infer_type([np.float32]) == ([np.float32], [np.float32], [])
    assert prop.infer_storage_type(["default"]) == (["default"], ["default"], [])
    assert prop.infer_storage_type_backward(*[["default"]] * 5) == (["default"],) * 5
    assert prop.declare_backward_dependency([1], [2, 3], [4]) == [1, 2, 3, 4]
    assert mx.operator.CustomOpProp(False).declare_backward_dependency([1], [2, 3], [4]) == [2, 3, 4]
    assert isinstance(prop.create_operator(mx.cpu(), [], []), mx.operator.CustomOp)


def test_inputs_by_position_by_name_and_as_a_list(apply):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] - in_data[1])

    declare("minus", forward, arguments=("a", "b"))
    a, b = array([5, 7]), array([1, 2])
    for f in (
        lambda F, a, b: F.Custom(a, b, op_type="minus"),
        lambda F, a, b: F.Custom(a, b=b, op_type="minus"),
        lambda F, a, b: F.Custom(b=b, a=a, op_type="minus"),
        lambda F, a, b: F.Custom([a, b], op_type="minus"),
    ):
        np.testing.assert_array_equal(apply(f, a, b).asnumpy(), [4, 5])


def test_the_prop_completes_the_shape_of_a_deferred_parameter():
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], nd.dot(in_data[0], in_data[1].T))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], nd.dot(out_grad[0], in_data[1]))
        self.assign(in_grad[1], req[1], nd.dot(out_grad[0].T, in_data[0]))

    def infer_shape(prop, in_shapes):
        data, weight = in_shapes
        weight = [weight[0], data[1]]
        return [data, weight], [[data[0], weight[0]]], []

    declare("project", forward, backward, arguments=("data", "weight"), infer_shape=infer_shape)

    class Project(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(3, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, weight):
            return F.Custom(x, weight, op_type="project")

    x = array(np.arange(8.0).reshape(4, 2), grad="write")
    results = []
    for hybrid in (False, True):
        net = Project()
        net.initialize(mx.init.One())
        if hybrid:
            net.hybridize()
        with autograd.record():
            y = net(x)
        y.backward()
        assert net.weight.shape == (3, 2)
        results.append([y.asnumpy(), x.grad.asnumpy(), net.weight.grad().asnumpy()])
    expected = [x.asnumpy() @ np.ones((2, 3)), np.full((4, 2), 3.0), np.tile(x.asnumpy().sum(0), (3, 1))]
    for result in results:
        for got, want in zip(result, expected):
            np.testing.assert_array_equal(got, want)


def test_assign():
    assign = mx.operator.CustomOp().assign
    x = array([[1, 2], [3, 4]])
    assign(x, "null", 9)
    assign(x, "add", array([1, 1]))
    np.testing.assert_array_equal(x.asnumpy(), [[2, 3], [4, 5]])
    assign(x, "write", np.array([[[7.5], [8.5]]]))
    np.testing.assert_array_equal(x.asnumpy(), [[7.5, 7.5], [8.5, 8.5]])
    assign(x, "inplace", 1)
    np.testing.assert_array_equal(x.asnumpy(), np.ones((2, 2)))
    i = array([1, 2], "int32")
    assign(i, "add", np.array([0.6, 1.6]))
    np.testing.assert_array_equal(i.asnumpy(), [1, 3])
    with pytest.raises(MXNetError) as error:
        assign(x, "wrte", 1)
    assert str(error.value) == "assign: req must be 'write', 'inplace', 'add' or 'null', got 'wrte'"
    with pytest.raises(ShapeError) as error:
        assign(x, "write", np.ones((2, 3)))
    assert str(error.value) == (
        "assign: a value of shape (2, 3) does not fit into an array of shape (2, 2); out_data[i] has the "
        "shape that infer_shape gives for output i, in_grad[i] that of input i"
    )


def test_registering():
    with pytest.raises(MXNetError) as error:
        mx.operator.register("nonsense")(int)
    assert str(error.value) == (
        "operator.register('nonsense') takes a subclass of mx.operator.CustomOpProp, got <class 'int'>"
    )
    first = type("FirstProp", (mx.operator.CustomOpProp,), {})
    second = type("SecondProp", (mx.operator.CustomOpProp,), {})
    assert mx.operator.register("twice")(first) is first
    mx.operator.register("twice")(first)
    with pytest.warns(UserWarning, match=r"custom operator 'twice' was .*FirstProp, now it is .*SecondProp"):
        mx.operator.register("twice")(second)
    names = mx.operator.get_all_registered_operators()
    assert {"Custom", "add", "exp"} <= set(names)
    assert names == sorted(names)
