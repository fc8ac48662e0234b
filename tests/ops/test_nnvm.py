"""Operators registered function by function, as in NNVM, and attributes of any operator under any key."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, nd, op
from hybridc.dialects import registry
from hybridc.dialects.operator import Sample
from hybridc.errors import MXNetError
from hybridc.tools.check_op.case import Case
from hybridc.tools.check_op.printed import print_and_parse

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


# --- the operators of the registry's documentation, in Python -------------------------------------------------


def abs_cpu(attrs, ctx, inputs, req, outputs):
    assert req == ["write"] or req == ["inplace"]
    np.abs(inputs[0], out=outputs[0])


def abs_backward_cpu(attrs, ctx, inputs, req, outputs):
    outputs[0][...] = inputs[0] * np.sign(inputs[1])


(
    op.NNVM_REGISTER_OP("abs2")
    .MXNET_DESCRIBE("Take absolute value of the src")
    .set_num_inputs(1)
    .set_num_outputs(1)
    .set_attr("FInferShape", op.ElemwiseShape(1, 1))
    .set_attr("FInferType", op.ElemwiseType(1, 1))
    .set_attr("FInplaceOption", lambda attrs: [(0, 0)])
    .set_attr("FGradient", op.ElemwiseGradUseIn("_backward_abs2"))
    .set_attr("FCompute<cpu>", abs_cpu)
    .set_attr("FCompute<gpu>", abs)
    .add_argument("data", "NDArray", "The source")
)
(
    op.NNVM_REGISTER_OP("_backward_abs2")
    .set_num_inputs(2)
    .set_num_outputs(1)
    .set_attr("TIsBackward", True)
    .set_attr("FCompute<cpu>", abs_backward_cpu)
)
op.get("abs2").samples = classmethod(lambda cls: [Sample([X], np.abs), Sample([(2, 3, 4)], np.abs)])


def test_registered_operator_passes_all_checks():
    mx.test_utils.check_op("abs2")


def test_what_is_kept_for_a_gpu():
    assert op.get_attr("abs2", "FCompute<gpu>") is abs
    assert "FCompute<gpu>" in op.list_attrs("abs2")


def test_documentation():
    assert nd.abs2.__doc__.startswith("Take absolute value of the src\n\nFrom ")
    assert nd.abs2.__doc__.partition("\n\nParameters\n")[2] == "----------\ndata : NDArray or Symbol\n    The source"
    assert mx.sym.abs2(mx.sym.var("x")).list_outputs()[0].startswith("abs2")


def test_backward_takes_its_shape_from_the_forward():
    node = op.Node(op.NodeAttrs("abs2"), [array(X)])
    (grad,) = op.MakeGradNode("_backward_abs2", node, [array(X), array(X)])
    np.testing.assert_array_equal(grad.asnumpy(), np.abs(X))
    with pytest.raises(MXNetError) as error:
        nd._backward_abs2(array(X), array(X))
    assert str(error.value) == "_backward_abs2 has no FInferShape; apply it by MakeGradNode"


def test_backward_prints_and_parses():
    cls = op.get("_backward_abs2")
    attrs = {"forward_shapes": ((2, 3),), "forward_types": ("float64",), "forward_attrs": (("k", "1"),)}
    print_and_parse(Case(cls, "backward-0", Sample([X, X], np.abs, **attrs), "float64"))


def parse_scalar(attrs):
    attrs.parsed = float(attrs.dict["scalar"])


(
    op.NNVM_REGISTER_OP("mylib.times")
    .describe("data * scalar")
    .set_attr_parser(parse_scalar)
    .set_attr("FInferShape", op.ElemwiseShape(1, 1))
    .set_attr("FCompute<cpu>", lambda attrs, ctx, ins, req, outs: np.multiply(ins[0], attrs.parsed, out=outs[0]))
    .set_attr("FGradient", op.ElemwiseGradUseNone("_backward_times"))
    .add_argument("data", "NDArray", "what to multiply")
    .add_argument("scalar", "float, optional, default=1.0", "the factor")
)
(
    op.NNVM_REGISTER_OP("mylib._backward_times")
    .set_attr_parser(parse_scalar)  # which reads what the forward was given
    .set_attr("TIsBackward", True)
    .set_attr("FCompute<cpu>", lambda attrs, ctx, ins, req, outs: np.multiply(ins[0], attrs.parsed, out=outs[0]))
)


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
def test_parsed_attributes(mode):
    x = array(X)
    function = (
        compiled(lambda x: nd.times(x, scalar="2.5")) if mode == "hybridized" else lambda x: nd.times(x, scalar=2.5)
    )
    with autograd.record():
        y = function(x)
    y.backward()
    np.testing.assert_array_equal(y.asnumpy(), X * 2.5)
    np.testing.assert_array_equal(x.grad.asnumpy(), np.full_like(X, 2.5))
    assert op.get("mylib.times").NAME == "mylib.times"
    np.testing.assert_array_equal(nd.times(x).asnumpy(), X)


class ActivationParam(op.Parameter):
    act_type: str = op.attribute(doc="Activation function to be applied.", enum=("relu", "tanh"))


def activation_cpu(attrs, ctx, inputs, req, outputs):
    function = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}[attrs.parsed.act_type]
    outputs[0][...] = function(inputs[0])


def activation_backward_cpu(attrs, ctx, inputs, req, outputs):
    dy, y = inputs
    outputs[0][...] = dy * ((y > 0) if attrs.parsed.act_type == "relu" else 1 - y * y)


(
    op.NNVM_REGISTER_OP("MyActivation")
    .set_attr_parser(op.ParamParser(ActivationParam))
    .add_argument("data", "NDArray", "the input")
    .add_arguments(ActivationParam.__FIELDS__())
    .set_attr("FInferShape", op.ElemwiseShape(1, 1))
    .set_attr("FCompute<cpu>", activation_cpu)
    .set_attr("FGradient", op.ElemwiseGradUseOut("_backward_my_activation"))
)
(
    op.NNVM_REGISTER_OP("_backward_my_activation")
    .set_num_inputs(2)
    .set_attr_parser(op.ParamParser(ActivationParam))
    .set_attr("TIsBackward", True)
    .set_attr("FCompute<cpu>", activation_backward_cpu)
)


def test_parameter_class():
    x = array(X)
    with autograd.record():
        y = nd.MyActivation(x, act_type="tanh")
    y.backward()
    np.testing.assert_allclose(y.asnumpy(), np.tanh(X))
    np.testing.assert_allclose(x.grad.asnumpy(), 1 - np.tanh(X) ** 2)
    assert op.get("MyActivation").NAME == "nnvm.my_activation"
    with pytest.raises(MXNetError) as error:
        nd.MyActivation(x, act_type="rleu")
    assert str(error.value) == "MyActivation: attribute act_type takes one of 'relu', 'tanh', got 'rleu'"
    with pytest.raises(MXNetError) as error:
        nd.MyActivation(x)
    assert str(error.value) == "MyActivation: attribute act_type is required; it takes one of 'relu', 'tanh'"


def parts_cpu(attrs, ctx, inputs, req, outputs):
    for out, part in zip(outputs, np.split(inputs[0], int(attrs.dict["parts"]))):
        out[...] = part


def parts_shape(attrs, ins, outs):
    if ins[0] is None:
        return False
    n = int(attrs.dict["parts"])
    outs[:] = [(ins[0][0] // n, *ins[0][1:])] * n
    return True


(
    op.NNVM_REGISTER_OP("parts")
    .set_num_outputs(lambda attrs: int(attrs.dict["parts"]))
    .add_argument("data", "NDArray")
    .add_argument("parts", "int (non-negative), required", "how many")
    .set_attr("FNumVisibleOutputs", lambda attrs: int(attrs.dict["parts"]) - 1)
    .set_attr("FListOutputNames", lambda attrs: [f"part{i}" for i in range(int(attrs.dict["parts"]) - 1)])
    .set_attr("FInferShape", parts_shape)
    .set_attr("FCompute<cpu>", parts_cpu)
    .set_attr("FGradient", lambda node, ograds: [nd.concat(*ograds, nd.zeros_like(ograds[0]), dim=0)])
)


@pytest.mark.parametrize("function", [nd.parts, compiled(lambda x: nd.parts(x, parts=3))])
def test_outputs_by_attributes(function):
    x = array(np.arange(6.0))
    with autograd.record():
        a, b = function(x, parts=3) if function is nd.parts else function(x)
        total = a * 2 + b * 3
    total.backward()
    np.testing.assert_array_equal([a.asnumpy(), b.asnumpy()], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(x.grad.asnumpy(), [2, 2, 3, 3, 0, 0])
    assert mx.sym.parts(mx.sym.var("x"), parts=3, name="p").list_outputs() == ["p_part0", "p_part1"]


def same_as_first(attrs, ins, outs):
    outs[0] = ins[0]
    return ins[0] is not None


(
    op.NNVM_REGISTER_OP("weighted")
    .set_num_inputs(lambda attrs: 2 if attrs.dict["weights"] == "True" else 1)
    .add_argument("data", "NDArray")
    .add_argument("weight", "NDArray")
    .add_argument("weights", bool, "whether there are weights")
    .set_attr("FInferShape", same_as_first)
    .set_attr("FCompute<cpu>", lambda attrs, ctx, ins, req, outs: np.copyto(outs[0], np.prod(ins, axis=0)))
)
(
    op.NNVM_REGISTER_OP("total")
    .set_num_inputs(op.kVarg)
    .set_attr("FInferShape", same_as_first)
    .set_attr("FCompute<cpu>", lambda attrs, ctx, ins, req, outs: np.copyto(outs[0], sum(ins)))
)
(
    op.NNVM_REGISTER_OP("named")
    .set_num_inputs(2)
    .set_attr("FListInputNames", lambda attrs: ["left", "right"])
    .set_attr("FInferShape", op.ElemwiseShape(2, 1))
    .set_attr("FCompute<cpu>", lambda attrs, ctx, ins, req, outs: np.subtract(*ins, out=outs[0]))
    .add_alias("named_too")
)


def test_inputs():
    x = array(X)
    np.testing.assert_array_equal(nd.weighted(x, weights=False).asnumpy(), X)
    np.testing.assert_array_equal(nd.weighted(x, x, weights=True).asnumpy(), X * X)
    np.testing.assert_array_equal(nd.total(x, x, x).asnumpy(), X * 3)
    np.testing.assert_array_equal(nd.named(right=x, left=x * 3).asnumpy(), X * 2)
    np.testing.assert_array_equal(nd.named_too(x * 3, x).asnumpy(), X * 2)


def count_cpu(attrs, ctx, inputs, req, outputs):
    inputs[1] += inputs[0].size * (2 if ctx.is_train else 1)
    outputs[0][...] = inputs[0]


(
    op.NNVM_REGISTER_OP("counted")
    .set_num_inputs(2)
    .set_attr("FMutateInputs", lambda attrs: [1])
    .set_attr("FInferShape", same_as_first)
    .set_attr("FCompute<cpu>", count_cpu)
)


@pytest.mark.parametrize("function", [nd.counted, compiled(nd.counted)])
def test_updated_inputs(function):
    seen = mx.nd.zeros(1)
    function(mx.nd.ones((2, 3)), seen)
    function(mx.nd.ones((2, 3)), seen)
    assert seen.asscalar() == 12
    with autograd.train_mode():
        function(mx.nd.ones((2, 3)), seen)
    assert seen.asscalar() == 24


class Sum:
    def __init__(self):
        self.total = 0


def running_cpu(state, ctx, inputs, req, outputs):
    state.total = state.total + inputs[0]
    outputs[0][...] = state.total


(
    op.NNVM_REGISTER_OP("running")
    .set_attr("FInferShape", op.ElemwiseShape(1, 1))
    .set_attr("FCreateOpState", lambda attrs, ctx, in_shapes, in_types: Sum())
    .set_attr("FStatefulCompute<cpu>", running_cpu)
)


def test_state():
    x = array(X)
    assert issubclass(op.get("running"), op.Stateful)
    for _ in range(2):  # an eager call has a state of its own
        np.testing.assert_array_equal(nd.running(x).asnumpy(), X)
    net = compiled(nd.running)
    for i in range(3):  # a use in a compiled network keeps it
        np.testing.assert_array_equal(net(x).asnumpy(), X * (i + 1))


# --- in symbols -----------------------------------------------------------------------------------------------


def test_registered_operators_in_symbols():
    x = mx.sym.var("x")
    made = mx.sym.abs2(mx.sym.times(x, scalar=3, name="t"), name="a")
    symbol = mx.sym.load_json(made.tojson())
    assert symbol.tojson() == made.tojson()
    executor = symbol.simple_bind(mx.cpu(), x=(2, 3))
    executor.arg_dict["x"][:] = mx.nd.array(X)
    np.testing.assert_allclose(executor.forward(is_train=True)[0].asnumpy(), 3 * np.abs(X))
    executor.backward(mx.nd.ones((2, 3)))
    np.testing.assert_allclose(executor.grad_dict["x"].asnumpy(), 3 * np.sign(X))
    assert mx.sym.weighted(x, weights=True, name="w").list_arguments() == ["x", "w_weight"]
    assert mx.sym.counted(x, name="c").list_auxiliary_states() == ["c_data1"]
    assert mx.sym.parts(x, parts=3, name="p").infer_shape(x=(6, 2)) == ([(6, 2)], [(2, 2), (2, 2)], [])


def test_an_executor_keeps_a_state():
    executor = mx.sym.running(mx.sym.var("x")).bind(mx.cpu(), {"x": mx.nd.ones(2)})
    results = [executor.forward()[0].asnumpy()[0] for _ in range(3)]
    assert results == [1, 2, 3]


# --- attributes of any operator -------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("text", "kind", "default", "others"),
    [
        ("float, optional, default=0.5", "float", 0.5, {}),
        ("int, required", "int", None, {}),
        ("int or None, optional, default='None'", "int", "None", {"optional": True}),
        ("{'a', 'b'},optional, default='b'", "str", "b", {"enum": ("a", "b")}),
        ("Shape(tuple), optional, default=[1,2]", "Shape", (1, 2), {}),
        ("boolean, optional, default=0", "bool", 0, {}),
        ("int (non-negative), optional, default=3", "int", 3, {"low": 0}),
    ],
)
def test_types_of_arguments(text, kind, default, others):
    from hybridc.dialects.attribute import REQUIRED
    from hybridc.dialects.foreign.nnvm_operator import argument_type

    made = argument_type(text, "doc")
    assert (made.kind, made.default) == (kind, REQUIRED if default is None else default)
    for name, value in others.items():
        assert getattr(made, name) == value


def test_registering_again_from_the_same_line_starts_anew():
    def made():
        return op.NNVM_REGISTER_OP("again").set_attr("FInferShape", op.ElemwiseShape(1, 1)).op

    first, second = (made() for _ in range(2))
    assert first is not second
    assert registry.FUNCTIONS["again"] is second
