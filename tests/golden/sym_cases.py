"""What programs with symbols do, written once and run by MXNet (make_sym.py) and by hybridc (tests/symbol).

Each case is a function of ``mx`` that returns a dict of arrays, or of values that JSON can hold.
"""

from __future__ import annotations

import warnings

import numpy as np

CASES = {}


def case(function):
    """Enter a case under its name; names of nodes and blocks count from 0 in each."""

    def run(mx):
        with mx.name.NameManager(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(mx)

    CASES[function.__name__] = run
    return function


def random(*shape, seed=0, low=-1.0, high=1.0):
    """The same float32 numbers everywhere."""
    return np.random.RandomState(seed).uniform(low, high, shape).astype(np.float32)


def described(symbol):
    """All names of a symbol."""
    return [symbol.name, symbol.list_arguments(), symbol.list_outputs(), symbol.list_auxiliary_states()]


def types(found):
    """Inferred dtypes as words."""
    return [None if group is None else [None if t is None else np.dtype(t).name for t in group] for group in found]


def shapes(found):
    """Inferred shapes as lists."""
    return [None if group is None else [list(s) for s in group] for group in found]


def mlp(mx):
    """Two layers and a softmax."""
    data = mx.sym.Variable("data")
    hidden = mx.sym.FullyConnected(data, num_hidden=8, name="fc1")
    hidden = mx.sym.Activation(hidden, act_type="relu", name="relu1")
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(hidden, num_hidden=3, name="fc2"), name="softmax")


# --- names -----------------------------------------------------------------------------------------------------

EXPRESSIONS = """
a + b; a - b; a * b; a / b; a % b; a ** b; a + 1; a - 1; 1 - a; a * 2; a / 2; 2 / a; a % 2; 2 % a; a ** 2; 2 ** a; -a
abs(a); a > b; a > 1; a >= b; a >= 1; a < b; a < 1; a <= b; a <= 1; a == b; a == 1; a != b; a != 1; 1 < a
s.maximum(a, b); s.maximum(a, 1); s.maximum(1, a); s.minimum(a, b); s.minimum(a, 2); s.hypot(a, b); s.hypot(a, 3)
s.pow(a, b); s.pow(2, a); s.power(a, 2); s.zeros((2, 3)); s.ones((2,)); s.full((2,), 3); s.arange(3); s.eye(3)
s.linspace(0, 1, 3); s.random.uniform(0, 1, shape=(2,)); s.random.normal(a, b); s.random_uniform(); s.split_v2(a, 2)
a.sum(); a.reshape((2, 3)); a.transpose(); a.astype("float64"); a.square(); a.expand_dims(0); a.flatten(); a.squeeze()
a.slice_axis(axis=0, begin=0, end=1); a.sum(name="total"); a.reshape((2, 3), name="shaped"); a.broadcast_like(b)
s.FullyConnected(a, num_hidden=3); s.FullyConnected(a, num_hidden=3, no_bias=True); s.FullyConnected(a, b, num_hidden=3)
s.FullyConnected(weight=a, num_hidden=3); s.FullyConnected(bias=a, num_hidden=3); s.FullyConnected(num_hidden=3)
s.split(a, 2); s.SliceChannel(a, num_outputs=3); s.Concat(a, b); s.concat(a, b, dim=0); s.stack(a, b); s.add_n(a, b)
s.ElementWiseSum(a, b); s.broadcast_add(a, b); s.elemwise_add(a, b); s.broadcast_add(a); s.broadcast_logical_and(a, b)
s.SoftmaxOutput(a); s.SoftmaxOutput(a, name="softmax"); s.softmax(a); s.log_softmax(a); s.log(a); s.dot(a, b); s.dot(a)
s.Dropout(a); s.BatchNorm(a); s.BatchNorm(a, name="bn"); s.LayerNorm(a); s.InstanceNorm(a); s.GroupNorm(a)
s.L2Normalization(a); s.Embedding(a, input_dim=3, output_dim=4); s.LeakyReLU(a, act_type="prelu"); s.LeakyReLU(a)
s.where(a, b, b); s.topk(a, ret_typ="both"); s.linalg.gemm2(a, b); s.contrib.arange_like(a); s.take(a, b)
s.BlockGrad(a); s.MakeLoss(a); s.LinearRegressionOutput(a); s.LogisticRegressionOutput(a); s.SVMOutput(a)
s.softmax_cross_entropy(a); s.Activation(a, act_type="relu"); s.clip(a, 0, 1); s.norm(a); s.moments(a)
s.slice_axis(a, axis=0, begin=0, end=1); s.cast(a, dtype="int32"); s.Cast(a, dtype="int32"); s.expand_dims(a, axis=0)
s.square(a); s.smooth_l1(a, scalar=1); s.SequenceMask(a); s.SequenceMask(a, use_sequence_length=True)
s.SequenceLast(a, use_sequence_length=True); s.batch_dot(a, b); s.pick(a, b); s.one_hot(a, depth=3); s.gather_nd(a, b)
s.flatten(a); s.Flatten(a); s.Reshape(a, shape=(2,)); s.SwapAxis(a, dim1=0, dim2=1); s.identity(a); s.relu(a, name="r")
a[0]; s.Group([a, b]); s.Group([a + b, s.split(a, 2)]); s.Group([a + b])[0]; s.split(a, 2)[1]
"""


@case
def names(mx):
    """Names of nodes, arguments, outputs and auxiliary states of what one writes."""
    found = {}
    for expression in EXPRESSIONS.replace("\n", ";").split(";"):
        if expression.strip():
            with mx.name.NameManager():
                scope = {"a": mx.sym.var("a"), "b": mx.sym.var("b"), "s": mx.sym}
                found[expression.strip()] = described(eval(expression.strip(), scope))
    return found


@case
def names_of_layers(mx):
    """A gluon network called on a variable."""
    nn = mx.gluon.nn
    net = nn.HybridSequential()
    with net.name_scope():
        net.add(nn.Dense(4, activation="relu"), nn.Dropout(0.5), nn.LayerNorm(), nn.BatchNorm(), nn.LeakyReLU(0.1))
        net.add(nn.Embedding(3, 2), nn.PReLU(), nn.Swish(), nn.Flatten(), nn.Dense(3, use_bias=False))
    y = net(mx.sym.var("data"))
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()(y, mx.sym.var("label"))
    return {
        "net": described(y),
        "internals": y.get_internals().list_outputs(),
        "loss": described(loss),
        "loss internals": loss.get_internals().list_outputs(),
        "twice": (net(mx.sym.var("x")) + y).list_arguments(),
    }


@case
def prefixes(mx):
    """``mx.name.Prefix`` and explicit names."""
    with mx.name.Prefix("pre_"):
        data = mx.sym.var("data")
        fc = mx.sym.FullyConnected(data, num_hidden=4)
        named = mx.sym.FullyConnected(fc, num_hidden=4, name="fc9")
        with mx.name.Prefix("inner_"):
            named = named + 1
    return {"names": described(named), "internals": named.get_internals().list_outputs()}


@case
def structure(mx):
    """Internals, children, groups, parts, composition."""
    net = mlp(mx)
    internals = net.get_internals()
    a, b = mx.sym.var("a"), mx.sym.var("b")
    group = mx.sym.Group([internals["fc1_output"], a + b])
    split = mx.sym.split(a, 2)
    free = mx.sym.FullyConnected(name="fc3", num_hidden=10)
    composed = free(fc3_data=internals["relu1_output"], name="composed")
    return {
        "internals": internals.list_outputs(),
        "repr": [repr(net), repr(internals), repr(group), repr(split)],
        "fc1": described(internals["fc1_output"]),
        "number": described(internals[3]),
        "children": net.get_children().list_outputs(),
        "no children": a.get_children() is None,
        "group": described(group),
        "parts": [s.name for s in group],
        "lengths": [len(net), len(internals), len(group), len(split)],
        "split": [described(s) for s in split],
        "split by name": described(split["split0_output1"]),
        "spread": described(mx.sym.concat(*split, dim=0)),
        "spread internals": mx.sym.concat(*split, dim=0).get_internals().list_outputs(),
        "composed": described(composed),
        "composed again": described(net(data=b)),
        "as it was": described(net),
        "inputs": net.list_inputs(),
        "numbers are no nodes": ((a + 1) * 2).get_internals().list_outputs(),
        "square": (a * a).list_arguments(),
        "two of one name": (mx.sym.var("w") + mx.sym.var("w")).list_arguments(),
    }


@case
def attributes(mx):
    """Attributes of variables and operators, AttrScope."""
    v = mx.sym.var(
        "v",
        shape=(2, 3),
        lr_mult=2,
        wd_mult=0.5,
        dtype="float16",
        init=mx.init.Xavier(),
        attr={"mood": "x"},
        __foo__="b",
    )
    op = mx.sym.FullyConnected(v, num_hidden=4, name="fc", attr={"__mood__": "so"}, lr_mult=3)
    with mx.AttrScope(ctx_group="dev1", __data__="great"):
        d = mx.sym.var("d", attr={"dtype": "data"})
        scoped = mx.sym.FullyConnected(d, num_hidden=4, name="fcx") + 1
        with mx.AttrScope(__data__="greater", __more__="1"):
            inner = mx.sym.relu(d, name="inner")
    v._set_attr(other="1")
    ones = [
        mx.sym.var("i", dtype=t).attr("__dtype__") for t in ("float32", "float64", "uint8", "int32", "int8", "int64")
    ]
    return {
        "variable": v.list_attr(),
        "attr": [v.attr("__shape__"), v.attr("lr_mult"), v.attr("missing"), op.attr("num_hidden"), op.attr("__mood__")],
        "operator": op.attr_dict()["fc"],
        "made for it": op.attr_dict()["fc_weight"]["__mood__"],
        "scope": [d.list_attr(), scoped.attr_dict()["fcx"], scoped.list_attr(), inner.list_attr()],
        "dtypes": ones,
    }


# --- inference -------------------------------------------------------------------------------------------------


@case
def inferred_shapes(mx):
    """infer_shape, infer_shape_partial."""
    net = mlp(mx)
    a, b = mx.sym.var("a"), mx.sym.var("b")
    found = {
        "mlp": shapes(net.infer_shape(data=(5, 4))),
        "images": shapes(net.infer_shape(data=(5, 4, 3, 2))),
        "nothing": shapes(net.infer_shape()),
        "nothing partial": shapes(net.infer_shape_partial()),
        "open batch": shapes(net.infer_shape(data=(0, 4))),
        "open batch partial": shapes(net.infer_shape_partial(data=(0, 4))),
        "a weight only": shapes(net.infer_shape_partial(fc1_weight=(8, 7))),
        "other side": shapes((a + b).infer_shape(b=(2, 3))),
        "with a number": shapes((2 - a).infer_shape(a=(2, 3))),
        "sizes from both": shapes((a + b).infer_shape(a=(0, 3), b=(2, 3))),
        "sizes from each": shapes((a + b).infer_shape(a=(2, 0), b=(0, 4))),
        "declared": shapes((mx.sym.var("v", shape=(2, 3)) * 2).infer_shape()),
        "declared in part": shapes((mx.sym.var("v", shape=(0, 3)) + b).infer_shape(b=(2, 3))),
        "given wins": shapes((mx.sym.var("v", shape=(2, 3)) * 2).infer_shape(v=(4, 5))),
        "back through layers": shapes((mx.sym.relu(a) + b).infer_shape(b=(2, 3))),
        "far back": shapes(mx.sym.exp(mx.sym.tanh(mx.sym.relu(a)) + b).infer_shape(b=(2, 3))),
        "group": shapes(mx.sym.Group([net, a * 2]).infer_shape(data=(5, 4), a=(3,))),
        "split": shapes(mx.sym.split(a, 3, axis=1).infer_shape(a=(2, 6))),
        "topk": shapes(mx.sym.topk(a, k=2, ret_typ="both").infer_shape(a=(2, 6))),
        "sum of four": shapes(mx.sym.add_n(a, b, mx.sym.var("c")).infer_shape(b=(2, 6))),
        "no inputs": shapes(mx.sym.zeros((2, 3)).infer_shape()),
    }
    layers = {
        "Embedding": mx.sym.Embedding(a, input_dim=3, output_dim=4),
        "LayerNorm": mx.sym.LayerNorm(a),
        "LayerNorm axis": mx.sym.LayerNorm(a, axis=1),
        "InstanceNorm": mx.sym.InstanceNorm(a),
        "GroupNorm": mx.sym.GroupNorm(a, num_groups=6),
        "BatchNorm": mx.sym.BatchNorm(a),
        "prelu": mx.sym.LeakyReLU(a, act_type="prelu"),
        "SoftmaxOutput multi": mx.sym.SoftmaxOutput(a, multi_output=True),
        "SoftmaxOutput last": mx.sym.SoftmaxOutput(a, preserve_shape=True),
        "LinearRegressionOutput": mx.sym.LinearRegressionOutput(a),
        "LogisticRegressionOutput": mx.sym.LogisticRegressionOutput(a),
        "MAERegressionOutput": mx.sym.MAERegressionOutput(a),
        "FullyConnected": mx.sym.FullyConnected(a, num_hidden=2, flatten=False),
        "SequenceMask": mx.sym.SequenceMask(a, use_sequence_length=True),
        "SequenceLast": mx.sym.SequenceLast(a, use_sequence_length=True),
        "softmax length": mx.sym.softmax(a, use_length=True),
        "Dropout": mx.sym.Dropout(a),
        "sum": mx.sym.sum(a, axis=1, keepdims=True),
        "reshape": mx.sym.reshape(a, shape=(0, -1)),
        "transpose": mx.sym.transpose(a),
    }
    for name, layer in layers.items():
        found[name] = shapes(layer.infer_shape(a=(2, 6, 5)))
    for name in ("Embedding", "LayerNorm", "BatchNorm", "FullyConnected", "Dropout", "transpose"):
        found[f"{name} open"] = shapes(layers[name].infer_shape_partial(a=(0, 6, 5)))
    return found


@case
def inferred_types(mx):
    """infer_type, infer_type_partial."""
    net = mlp(mx)
    a, b = mx.sym.var("a"), mx.sym.var("b")
    return {
        "mlp": types(net.infer_type(data="float64")),
        "numpy": types(net.infer_type(data=np.float16)),
        "nothing": types(net.infer_type()),
        "nothing partial": types(net.infer_type_partial()),
        "by weight": types(net.infer_type(fc1_weight="float64")),
        "other side": types((a + b).infer_type(b="float16")),
        "with a number": types((2 * a).infer_type(a="float16")),
        "cast": types(mx.sym.cast(a, dtype="int32").infer_type(a="float16")),
        "cast alone": types(mx.sym.cast(a, dtype="int32").infer_type()),
        "embedding": types(mx.sym.Embedding(a, input_dim=3, output_dim=4).infer_type(a="int32")),
        "declared": types((mx.sym.var("v", dtype="float64") * a).infer_type()),
        "batch norm": types(mx.sym.BatchNorm(a).infer_type(a="float16")),
        "zeros": types((mx.sym.zeros((2, 3), dtype="float64") + a).infer_type()),
    }


# --- errors ----------------------------------------------------------------------------------------------------

ERRORS = """
s.var(3); s.var("v", foo="bar"); s.var("v", attr={"a": 1}); s.Group([]); s.Group([1]); net.get_internals()["zzz"]
s.split(a, 2) + 1; s.relu(s.split(a, 2)); (a + b).infer_shape(a=(2, 3), b=(3, 4)); net.infer_shape(zz=(2, 3))
net.infer_shape(data=(2, 3), fc1_weight=(4, 7)); a[1]; s.Group([a, b])[2]; a.gradient(["a"]); bool(a)
a + mx.nd.ones((2,)); s.FullyConnected(a, num_hidden="x"); s.FullyConnected(a); net(zz=a); a.asnumpy(); a.wait_to_read()
(a + b).eval(a=mx.nd.ones((2,))); (a + b).bind(mx.cpu(), {"a": mx.nd.ones((2,))})
(a + b).bind(mx.cpu(), [mx.nd.ones((2,))]); (a * b).bind(mx.cpu(), [mx.nd.ones((2,)), mx.nd.ones((3,))])
(a * b).bind("x", {"a": mx.nd.ones((2,)), "b": mx.nd.ones((2,))}); (a * b).bind(mx.cpu(), {"a": 1, "b": mx.nd.ones(2)})
(a * b).simple_bind(mx.cpu(), a=(2,), grad_req="zork"); (a * b).simple_bind(mx.cpu(), a=(2,), grad_req=["add"])
(a * b).simple_bind(mx.cpu()); (a * b).simple_bind(mx.cpu(), a=(2,)).forward(zz=mx.nd.ones((2,)))
(a * b).simple_bind(mx.cpu(), a=(2,)).forward(a=mx.nd.ones((3,))); (a * b).simple_bind(mx.cpu(), a=(2,)).forward(a=5)
(a * b).simple_bind(mx.cpu(), a=(2,)).copy_params_from({"zz": mx.nd.ones((2,))})
(a * b).simple_bind(mx.cpu(), a=(2,)).reshape(a=(5,)); net.simple_bind(mx.cpu(), data=(6, 4)).reshape(data=(2, 4))
(s.var("a") + s.var("a")).bind(mx.cpu(), {"a": mx.nd.ones((2,))})
s.BatchNorm(a).bind(mx.cpu(), [mx.nd.ones((2, 2))] * 3)
mx.gluon.SymbolBlock(net, net.get_internals()["fc1_output"]); a.attr(); mx.AttrScope(x=1)
"""


def errors(mx):
    """Which kinds of exceptions bad programs raise; hybridc's errors are often of several kinds."""
    found = {}
    kinds = (IndexError, ValueError, TypeError, AssertionError, mx.MXNetError, RuntimeError)
    for expression in ERRORS.replace("\n", ";").split(";"):
        if not expression.strip():
            continue
        scope = {"a": mx.sym.var("a"), "b": mx.sym.var("b"), "s": mx.sym, "mx": mx, "net": mlp(mx)}
        try:
            eval(expression.strip(), scope)
        except Exception as error:
            found[expression.strip()] = [k.__name__ for k in kinds if isinstance(error, k)]
        else:
            found[expression.strip()] = []
    return found
