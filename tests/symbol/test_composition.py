"""Composed symbols: blocks called on them, copies, depth, what they refuse, how they print."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.lowering_stages import mlir_text
from hybridc.gluon import nn

sys.path.insert(0, str(Path(__file__).parent.parent / "golden"))

from gluon_cases import layers

LAYERS = {name: (layer, x) for name, layer, x in layers(mx)}
HERE = "test_composition.py"


def message(function):
    """The text of the error that a function raises, with this file's line as ``L``."""
    with pytest.raises((mx.MXNetError, TypeError, ValueError, IndexError)) as caught:
        function()
    found = str(caught.value)
    start = found.find(HERE)
    if start < 0:
        return found
    begin = found.rfind(" ", 0, start) + 1
    end = start + len(HERE) + 1
    while found[end].isdigit():
        end += 1
    return found[:begin] + "L" + found[end:]


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def mlp():
    fc1 = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.relu(fc1), num_hidden=3, name="fc2"), name="softmax")


# --- blocks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n, (layer, _) in LAYERS.items() if isinstance(layer, mx.gluon.HybridBlock)])
def test_a_layer_called_on_a_variable_computes_the_same(name):
    layer, x = LAYERS[name]
    layer.initialize()
    want = layer(mx.nd.array(x)).asnumpy()
    symbol = layer(mx.sym.var("data"))
    params = {k: p.data() for k, p in layer.collect_params().items()}
    assert set(symbol.list_inputs()) == {"data", *params}
    args = {k: v for k, v in params.items() if k not in symbol.list_auxiliary_states()}
    aux = {k: params[k] for k in symbol.list_auxiliary_states()}
    got = symbol.bind(mx.cpu(), {"data": mx.nd.array(x), **args}, aux_states=aux).forward()[0].asnumpy()
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


LABELS = {"SoftmaxCrossEntropyLoss": np.array([0, 2, 1, 0]), "CosineEmbeddingLoss": normal(4, 3)}
MORE = {"TripletLoss": [normal(4, 3, seed=2)], "CosineEmbeddingLoss": [np.array([1.0, -1, 1, -1])]}


@pytest.mark.parametrize(
    # SDMLLoss needs the number of rows, as in MXNet.
    "name",
    [n for n in mx.gluon.loss.__all__ if n.endswith("Loss") and n not in ("Loss", "CTCLoss", "SDMLLoss")],
)
def test_a_loss_called_on_variables_computes_the_same(name):
    loss = getattr(mx.gluon.loss, name)()
    arrays = [
        abs(normal(4, 3)) + 0.1,
        LABELS.get(name.replace("CELoss", "CrossEntropyLoss"), abs(normal(4, 3, seed=1))),
    ]
    arrays += MORE.get(name, [])
    names = [f"x{i}" for i in range(len(arrays))]
    inputs = [mx.nd.array(x) for x in arrays]
    symbol = loss(*[mx.sym.var(n) for n in names])
    got = symbol.eval(**dict(zip(names, inputs, strict=True)))[0].asnumpy()
    np.testing.assert_allclose(got, loss(*inputs).asnumpy(), rtol=1e-5, atol=1e-6)


def test_a_forward_without_f_composes_too():
    class Net(nn.HybridBlock):
        def forward(self, x, y):
            return (x * y).sum(axis=1) + mx.nd.relu(x - 1).max(axis=1)

    symbol = Net()(mx.sym.var("x"), mx.sym.var("y"))
    x, y = np.arange(6.0).reshape(2, 3), np.ones((2, 3))
    got = symbol.eval(x=mx.nd.array(x), y=mx.nd.array(y))[0].asnumpy()
    np.testing.assert_allclose(got, (x * y).sum(1) + np.maximum(x - 1, 0).max(1))


def test_where_with_numbers_and_rows():
    c, x = mx.sym.var("c"), mx.sym.var("x")
    condition, values = mx.nd.array([1, 0], dtype="int32"), mx.nd.array([[0.5, 1], [2, 3]])
    assert mx.sym.where(c, x, 0.25).eval(c=condition, x=values)[0].asnumpy().tolist() == [[0.5, 1], [0.25, 0.25]]
    assert mx.sym.where(c, 0.25, x).eval(c=condition, x=values)[0].asnumpy().tolist() == [[0.25, 0.25], [2, 3]]
    chosen = mx.sym.where(c, x, x * 2, name="chosen")
    assert chosen.list_outputs() == ["chosen_output"]
    assert chosen.infer_shape(x=(2, 2))[0] == [(2, 2), (2, 2)]
    assert chosen.infer_shape(c=(2,), x=(2, 2))[0] == [(2,), (2, 2)]
    grad = mx.nd.zeros((2, 2))
    executor = chosen.bind(mx.cpu(), {"c": condition, "x": values}, {"x": grad})
    executor.forward(is_train=True)
    executor.backward(mx.nd.ones((2, 2)))
    assert grad.asnumpy().tolist() == [[1, 1], [2, 2]]


def test_a_traced_block_is_not_disturbed():
    class Net(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.relu(F.broadcast_add(x, F.ones((1,)), name="shifted")) * F.random.uniform(1, 1, shape=(1,))

    net = Net()
    net.hybridize()
    assert net(mx.nd.array([-3.0, 2.0])).asnumpy().tolist() == [0, 3]


def test_symbol_block_in_a_hybridized_network():
    block = mx.gluon.SymbolBlock(mlp().get_internals()["fc2_output"], mx.sym.var("data"))
    net = nn.HybridSequential()
    net.add(nn.Dense(5), block, nn.Dense(2))
    net.initialize(mx.init.Normal(0.5))
    x = mx.nd.array(np.random.default_rng(0).normal(size=(3, 7)))
    want = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), want, rtol=1e-5)
    assert block.collect_params()["fc1_weight"].shape == (4, 5)
    assert "host calls; arena" in net.explain()


def test_symbol_block_takes_what_variables_say():
    w = mx.sym.var("w", shape=(2, 3), init=mx.init.Constant(2), lr_mult=0.5, dtype="float64")
    block = mx.gluon.SymbolBlock(mx.sym.dot(mx.sym.var("x", dtype="float64"), w), mx.sym.var("x"))
    block.initialize()
    param = block.collect_params()["w"]
    assert (param.shape, param.lr_mult, np.dtype(param.dtype)) == ((2, 3), 0.5, np.float64)
    assert block(mx.nd.ones((1, 2), dtype="float64")).asnumpy().tolist() == [[4, 4, 4]]


# --- graphs ----------------------------------------------------------------------------------------------------


def test_deep_graphs():
    y = mx.sym.var("x")
    for _ in range(3000):
        y = y + 1
    assert copy.copy(y).list_arguments() == ["x"]
    assert y.infer_shape(x=(2,))[1] == [(2,)]
    assert y(x=mx.sym.var("z")).list_arguments() == ["z"]
    block = mx.gluon.SymbolBlock(y, mx.sym.var("x"))
    assert block(mx.nd.zeros((2,))).asnumpy().tolist() == [3000, 3000]


def test_copies_are_independent():
    net = mlp()
    for other in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        other._set_attr(__mood__="new")
        other.get_internals()["data"]._set_attr(__mood__="new")
        assert other.list_arguments() == net.list_arguments()
        assert other.list_outputs() == ["softmax_output"]
    assert "__mood__" not in net.list_attr()
    assert net.attr_dict().get("data") is None


def test_setting_an_attribute_of_the_operator():
    fc = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=3, name="fc")
    fc._set_attr(num_hidden="5")
    assert fc.infer_shape(x=(2, 4))[1] == [(2, 5)]


def test_composition_shares_what_it_does_not_replace():
    net = mlp()
    both = net(data=mx.sym.var("a")) + net(data=mx.sym.var("b"))
    assert both.list_arguments() == ["a", *net.list_arguments()[1:], "b"]


def test_threads_name_for_themselves():
    found = {}

    def work(i):
        with mx.name.NameManager():
            found[i] = [mx.sym.relu(mx.sym.var("x")).name for _ in range(50)]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(names == [f"relu{i}" for i in range(50)] for names in found.values())


def test_every_symbol_is_a_symbol():
    assert isinstance(mx.sym.var("x"), mx.sym.Symbol)
    assert isinstance(mx.sym.var("x"), mx.symbol.Symbol)
    seen = []

    class Net(nn.HybridBlock):
        def hybrid_forward(self, F, x):
            seen.append(isinstance(x, mx.sym.Symbol))
            return x

    net = Net()
    net.hybridize()
    net(mx.nd.ones((1,)))
    assert seen == [True]


# --- in the dialect --------------------------------------------------------------------------------------------

UNRANKED = """builtin.module {
  func.func @forward(%data: tensor<*xf32>, %fc_weight: tensor<*xf32>, %fc_bias: tensor<*xf32>) -> tensor<*xf32> \
attributes {hybrid.roles = ["data", "data", "data"]} {
    %0 = hybrid.constant {value = 2 : i64} : () -> tensor<f32>
    %_mulscalar0 = hybrid.multiply %data, %0 : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
    %fc = hybrid.fully_connected %_mulscalar0, %fc_weight, %fc_bias {num_hidden = 4 : i64} : \
(tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    func.return %fc : tensor<*xf32>
  }
}
"""


def test_printed_without_shapes_and_with():
    with mx.name.NameManager():
        fc = mx.sym.FullyConnected(mx.sym.var("data") * 2, num_hidden=4, name="fc")
    module = fc.module()
    module.verify()
    assert mlir_text(module) + "\n" == UNRANKED
    ranked = fc.module(data=(2, 3))
    ranked.verify()
    assert "-> tensor<2x4xf32>" in mlir_text(ranked)
    assert "*" not in mlir_text(ranked)
    open_batch = fc.module(data=(0, 3))
    open_batch.verify()
    assert "%fc_weight: tensor<4x3xf32>" in mlir_text(open_batch)
    assert "-> tensor<?x4xf32>" in mlir_text(open_batch)


def test_printed_unranked_text_parses_again():
    from xdsl.context import Context
    from xdsl.dialects.builtin import Builtin
    from xdsl.dialects.func import Func
    from xdsl.parser import Parser

    from hybridc.dialects.mlir.hybrid import dialects

    context = Context()
    context.load_dialect(Builtin)
    context.load_dialect(Func)
    for dialect in dialects().values():
        context.load_dialect(dialect)
    for symbol in (mlp(), mx.sym.Dropout(mx.sym.var("x")), mx.sym.BatchNorm(mx.sym.var("x"))):
        for module in (symbol.module(), symbol.module(**{symbol.list_arguments()[0]: (2, 3)})):
            again = Parser(context, mlir_text(module)).parse_module()
            again.verify()
            assert mlir_text(again) == mlir_text(module)


# --- errors ----------------------------------------------------------------------------------------------------

A = mx.sym.var("a")
B = mx.sym.var("b")
ERRORS = {
    "L: <Symbol a> has no shape: shapes, dtypes and the device of a symbol are unknown until it is bound. infer_shape "
    "and infer_type tell what follows from those of the inputs; operators such as reshape_like, slice_like and "
    "broadcast_like need none": lambda: A.shape,
    "L: the truth value (if, while, and, or, not) is not implemented for Symbol: <Symbol a> has no values before it is "
    "bound; use eval(…) or an executor, and F.where instead of Python control flow": lambda: bool(A),
    "L: add: input 'rhs' is an array, but symbols take symbols and numbers only; make it a variable, mx.sym.var(name), "
    "and give the array when the symbol is bound": lambda: A + mx.nd.ones((2,)),
    "L: add: input 'lhs' is an array, but symbols take symbols and numbers only; make it a variable, mx.sym.var(name), "
    "and give the array when the symbol is bound ": lambda: mx.nd.ones((2,)) + A,
    "L: multiply: input 'rhs' must be a Symbol or a number, got str": lambda: A * "x",
    "L: relu: input 'data' must be one value, but <Symbol split0> has 2: split0_output0, split0_output1; take one of "
    "them with [i], or pass all with *": lambda: mx.sym.relu(mx.sym.split(A, 2, name="split0")),
    "L: out= cannot be used with symbols; use the returned value": lambda: mx.sym.relu(A, out=A),
    "L: FullyConnected: attribute num_hidden takes an integer of at least 1, got 'x'": lambda: mx.sym.FullyConnected(
        A, num_hidden="x"
    ),
    "L: Custom: op_type is missing; give the name under which the operator is registered": lambda: mx.sym.Custom(A),
    "L: output 1 of <Symbol a>, which has 1": lambda: A[1],
    "L: a Symbol is indexed by the number or the name of an output, not by tuple; use slice, slice_axis or take for "
    "elements": lambda: A[0, 1],
    'Cannot find output that matches name "zz"; there are a': lambda: A["zz"],
    "L: Keyword argument name zz not found; the inputs are a": lambda: A(zz=B),
    "L: operator sum1: add: shapes do not broadcast: lhs (2, 3), rhs (3, 4); axis 0 has sizes [2, 3], which must be "
    "equal or 1 (infer_shape was given a: (2, 3), b: (3, 4))": lambda: mx.sym.broadcast_add(
        A, B, name="sum1"
    ).infer_shape(a=(2, 3), b=(3, 4)),
    "L: operator fc: FullyConnected: the data has 3 features, the weight is for 7; change the data, or make the layer "
    "anew for 3 features: weight has shape (4, 7), expected (4, 3) for data of shape (2, 3) with "
    "num_hidden=4, flatten=True (bind was given a: (2, 3), fc_weight: (4, 7), fc_bias: (4,))": lambda: (
        mx.sym.FullyConnected(A, num_hidden=4, name="fc").bind(
            mx.cpu(), [mx.nd.ones((2, 3)), mx.nd.ones((4, 7)), mx.nd.ones((4,))]
        )
    ),
    "infer_shape: Keyword argument name zz not found.\nCandidate arguments:\n\t[0]a": lambda: A.infer_shape(zz=(1,)),
    "simple_bind: the shapes of b do not follow from the shapes given (a: (2, 3)); give them, as keywords": lambda: (
        mx.sym.dot(A, B).simple_bind(mx.cpu(), a=(2, 3))
    ),
    "L: operator sum1: elemwise: no": None,
    "grad_req=zork is not valid; only 'null', 'write' and 'add' are supported": lambda: A.simple_bind(
        mx.cpu(), grad_req="zork", a=(2,)
    ),
    "bind: two variables are called 'a'; make one variable and use it twice, or give them two names": lambda: (
        A + mx.sym.var("a")
    ).simple_bind(mx.cpu(), a=(2,)),
    "backward: there is nothing to differentiate yet; call forward(is_train=True) first": lambda: A.simple_bind(
        mx.cpu(), a=(2,)
    ).backward(),
    "backward: no output is called 'zz'; there are a": lambda: _trained().backward({"zz": mx.nd.ones((2,))}),
    "backward: the gradient of a has shape (3,), it must be (2,)": lambda: _trained().backward(mx.nd.ones((3,))),
    "backward: out_grads must be 1 NDArrays, one an output, got int": lambda: _trained().backward([3]),
    "Symbol.gradient is not offered (MXNet's raises, too); bind the symbol and call backward of the executor, or use "
    "autograd on a SymbolBlock": lambda: A.gradient(["a"]),
    "variable 'v': stype='crs' must be one of default, row_sparse, csr": lambda: mx.sym.var("v", stype="crs"),
    "variable 'v': attribute __shape__ takes a tuple of integers, got 'x'": lambda: mx.sym.var(
        "v", __shape__="x"
    ).infer_shape(),
    "SymbolBlock symbolblock0 takes 1 inputs (a), got 2": lambda: _block()(mx.nd.ones((1,)), mx.nd.ones((1,))),
    "Input symbols must be variable, but r is an output of operators": lambda: mx.gluon.SymbolBlock(
        A, mx.sym.relu(A, name="r")
    ),
}
del ERRORS["L: operator sum1: elemwise: no"]


def _trained():
    executor = A.simple_bind(mx.cpu(), a=(2,))
    executor.forward(is_train=True)
    return executor


def _block():
    with mx.name.NameManager():
        return mx.gluon.SymbolBlock(A * 2, A)


@pytest.mark.parametrize("wanted", ERRORS)
def test_error_texts(wanted):
    assert message(ERRORS[wanted]) == wanted.strip()


def test_a_shape_that_cannot_be_inferred_names_the_parameter():
    block = mx.gluon.SymbolBlock(mx.sym.dot(A, B), A)
    block.initialize()
    with pytest.raises(ValueError, match=r"the shape of b is unknown.*mx\.sym\.var\(…, shape=…\)"):
        block(mx.nd.ones((2, 3)))


def test_undecided_shapes_warn_with_their_names():
    with pytest.warns(UserWarning, match=r"Cannot decide shape.*\n\ta: \(\)\n\tb: \(\)$"):
        assert mx.sym.dot(A, B).infer_shape() == (None, None, None)
    with pytest.warns(UserWarning, match=r"Cannot decide type.*\n\ta: None$"):
        assert mx.sym.relu(A).infer_type() == (None, None, None)


def test_attributes_of_operators_become_text():
    attrs = {"__init__": mx.init.Constant(3), "__lr_mult__": 2}  # GluonCV gives initializers; MXNet ignores them, too
    symbol = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc", attr=attrs)
    assert symbol.attr_dict()["fc_weight"]["__lr_mult__"] == "2"
    block = mx.gluon.SymbolBlock(symbol, [mx.sym.var("data")])
    block.initialize(mx.init.Constant(5))
    assert block(mx.nd.ones((1, 2))).asnumpy().tolist() == [[15, 15]]  # weights and bias


def test_a_function_is_one_object():
    for owner in (mx.sym, mx.sym.contrib, mx.sym.random, mx.sym.linalg):
        name = {mx.sym: "FullyConnected", mx.sym.random: "uniform", mx.sym.linalg: "gemm2"}.get(owner, "div_sqrt_dim")
        assert getattr(owner, name) is getattr(owner, name)
