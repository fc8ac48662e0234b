"""Programs with executors and SymbolBlocks; see sym_cases.py, whose cases these join."""

from __future__ import annotations

import copy
import json
import warnings

import numpy as np
from sym_cases import CASES, case, described, mlp, random, shapes, types

__all__ = ["CASES"]


def fill(executor, seed=1):
    """Fixed values for all arguments."""
    for i, (_, array) in enumerate(sorted(executor.arg_dict.items())):
        array[:] = random(*array.shape, seed=seed + i)


@case
def trained(mx):
    """A network trained through an executor with a hand-written update."""
    executor = mlp(mx).simple_bind(ctx=mx.cpu(), data=(6, 4), softmax_label=(6,))
    fill(executor)
    x, label = random(6, 4, seed=9), np.arange(6, dtype=np.float32) % 3
    found = {}
    for step in range(4):
        outputs = executor.forward(is_train=True, data=mx.nd.array(x), softmax_label=mx.nd.array(label))
        executor.backward()
        found[f"output{step}"] = outputs[0].asnumpy()
        for name, grad in executor.grad_dict.items():
            if name not in ("data", "softmax_label"):
                found[f"{name}.grad{step}"] = grad.asnumpy()
                executor.arg_dict[name][:] -= 0.1 * grad
    found["data.grad"] = executor.grad_dict["data"].asnumpy()
    found["predict"] = executor.forward(is_train=False)[0].asnumpy()
    found["names"] = [list(executor.arg_dict), list(executor.grad_dict), list(executor.output_dict)]
    return found


@case
def custom_softmax(mx):
    """A loss written in Python, used as a symbol; its label is created."""

    class Softmax(mx.operator.CustomOp):
        def forward(self, is_train, req, in_data, out_data, aux):
            x = in_data[0].asnumpy()
            y = np.exp(x - x.max(axis=1).reshape((x.shape[0], 1)))
            y /= y.sum(axis=1).reshape((x.shape[0], 1))
            self.assign(out_data[0], req[0], mx.nd.array(y))

        def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
            label = in_data[1].asnumpy().ravel().astype(np.int32)
            y = out_data[0].asnumpy()
            y[np.arange(label.shape[0]), label] -= 1.0
            self.assign(in_grad[0], req[0], mx.nd.array(y))
            self.assign(in_grad[1], req[1], 0)

    class SoftmaxProp(mx.operator.CustomOpProp):
        def __init__(self):
            super().__init__(need_top_grad=False)

        def list_arguments(self):
            return ["data", "label"]

        def list_outputs(self):
            return ["output"]

        def infer_shape(self, in_shape):
            return [in_shape[0], (in_shape[0][0],)], [in_shape[0]], []

        def infer_type(self, in_type):
            return [in_type[0], in_type[0]], [in_type[0]], []

        def create_operator(self, ctx, shapes, dtypes):
            return Softmax()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.operator.register("golden_softmax")(SoftmaxProp)
    data = mx.symbol.Variable("data")
    fc3 = mx.symbol.FullyConnected(data=data, name="fc3", num_hidden=3)
    net = mx.symbol.Custom(data=fc3, name="softmax", op_type="golden_softmax")
    executor = net.simple_bind(ctx=mx.cpu(), data=(5, 4))
    fill(executor)
    executor.arg_dict["softmax_label"][:] = np.array([0, 1, 2, 0, 1])
    executor.forward(is_train=True)
    executor.backward()
    return {
        "names": described(net),
        "shapes": shapes(net.infer_shape(data=(5, 4))),
        "types": types(net.infer_type(data="float32")),
        "output": executor.outputs[0].asnumpy(),
        **{f"{k}.grad": g.asnumpy() for k, g in executor.grad_dict.items()},
    }


def bound(mx, symbol, values, out_grads=None, grad_req="write", times=1, is_train=True, gradients=None):
    """Outputs and gradients of a symbol on values; gradient arrays start at 10."""
    args = {k: mx.nd.array(v) for k, v in values.items()}
    grads = {k: mx.nd.array(np.full_like(values[k], 10)) for k in gradients or values}
    executor = symbol.bind(mx.cpu(), args=args, args_grad=grads, grad_req=grad_req)
    found = {}
    for _ in range(times):
        executor.forward(is_train=is_train)
        if out_grads is not None:
            executor.backward(out_grads)
    for i, output in enumerate(executor.outputs):
        found[f"output{i}"] = output.asnumpy()
    for name, grad in grads.items():
        found[f"{name}.grad"] = grad.asnumpy()
    found["no gradient"] = [k for k, g in executor.grad_dict.items() if g is None]
    return found


@case
def arithmetic(mx):
    """Python's operators with symbols and numbers, forward and backward."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    values = {"a": random(3, 4, seed=1, low=0.5, high=2), "b": random(3, 4, seed=2, low=0.5, high=2)}
    expressions = {
        "all": (a + b - a * b) / (a + 1) ** b,
        "numbers": 2 - (3 / a) * (b - 1) + 2**b - a % 0.7,
        "compared": (a > b) * a + (a <= 1) * b + (b == a) - (b != 1),
        "functions": mx.sym.maximum(a, b) + mx.sym.minimum(a, 1) + mx.sym.hypot(a, 2) + mx.sym.pow(2, b),
        "negative": -a + abs(b - 1),
    }
    found = {}
    for name, expression in expressions.items():
        y = bound(mx, expression, values, mx.nd.array(random(3, 4, seed=3)))
        found.update({f"{name}/{k}": v for k, v in y.items()})
    return found


@case
def requests(mx):
    """grad_req as a word, a list and a dict; repeated backwards."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    values = {"a": random(3, seed=1), "b": random(3, seed=2)}
    head = mx.nd.array([1.0, 2, 3])
    found = {}
    for name, req in {
        "write": "write",
        "add": "add",
        "null": "null",
        "list": ["add", "write"],
        "dict": {"a": "add"},
    }.items():
        y = bound(mx, a * b, values, head, req, times=2)
        found.update({f"{name}/{k}": v for k, v in y.items()})
    y = bound(mx, a * b, values, head, gradients=["b"])
    found.update({f"one array/{k}": v for k, v in y.items()})
    return found


@case
def shared_variables(mx):
    """One weight in two layers."""
    data, w = mx.sym.var("data"), mx.sym.var("w")
    first = mx.sym.FullyConnected(data, weight=w, no_bias=True, num_hidden=4, name="fc1")
    second = mx.sym.FullyConnected(mx.sym.tanh(first), weight=w, no_bias=True, num_hidden=4, name="fc2")
    values = {"data": random(2, 4, seed=1), "w": random(4, 4, seed=2)}
    return {"names": described(second), **bound(mx, second, values, mx.nd.array(random(2, 4, seed=3)))}


@case
def several_outputs(mx):
    """split, a group with a variable, gradients as a list and as a dict."""
    a = mx.sym.var("a")
    left, right = mx.sym.SliceChannel(a, num_outputs=2, axis=1, name="halves")
    group = mx.sym.Group([left * right, mx.sym.sum(a), right, a])
    values = {"a": random(2, 4, seed=1)}
    heads = [random(2, 2, seed=2), random(1, seed=3), random(2, 2, seed=4), random(2, 4, seed=5)]
    arrays = [mx.nd.array(h) for h in heads]
    found = {"names": described(group)}
    found.update({f"list/{k}": v for k, v in bound(mx, group, values, arrays).items()})
    return found


@case
def losses(mx):
    """Losses and blocked gradients, backward without a gradient of the output."""
    a, label = mx.sym.var("a"), mx.sym.var("label")
    values = {"a": random(4, 3, seed=1), "label": random(4, 3, seed=2)}
    found = {}
    for name in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        executor = getattr(mx.sym, name)(a, label).bind(
            mx.cpu(), {k: mx.nd.array(v) for k, v in values.items()}, {"a": mx.nd.zeros((4, 3))}
        )
        executor.forward(is_train=True)
        executor.backward()
        found[name] = executor.outputs[0].asnumpy()
        found[f"{name}.grad"] = executor.grad_dict["a"].asnumpy()
    loss = mx.sym.MakeLoss(mx.sym.sum(mx.sym.square(a - mx.sym.BlockGrad(label)) + 0 * label))
    executor = loss.bind(
        mx.cpu(), {k: mx.nd.array(v) for k, v in values.items()}, [mx.nd.ones((4, 3)), mx.nd.ones((4, 3))]
    )
    executor.forward(is_train=True)
    executor.backward()
    found["MakeLoss"] = executor.outputs[0].asnumpy()
    found["MakeLoss.a.grad"], found["MakeLoss.label.grad"] = (g.asnumpy() for g in executor.grad_arrays)
    return found


@case
def train_mode(mx):
    """Dropout and BatchNorm in train and predict mode."""
    data = mx.sym.var("data")
    x = random(6, 3, seed=4)
    executor = mx.sym.Dropout(data, p=0.5).simple_bind(mx.cpu(), data=(6, 3))
    found = {"dropout": executor.forward(is_train=False, data=mx.nd.array(x))[0].asnumpy()}
    y = executor.forward(is_train=True)[0].asnumpy()
    executor.backward(mx.nd.ones((6, 3)))
    kept = executor.grad_arrays[0].asnumpy()
    found["dropout keeps"] = bool(np.allclose(y, x * kept) and set(np.unique(kept)) <= {0.0, 2.0})
    norm = mx.sym.BatchNorm(data, name="bn", fix_gamma=False, momentum=0.8)
    executor = norm.simple_bind(mx.cpu(), data=(6, 3))
    executor.arg_dict["bn_gamma"][:] = random(3, seed=5)
    executor.arg_dict["bn_beta"][:] = random(3, seed=6)
    executor.aux_dict["bn_moving_var"][:] = 1
    for step in range(2):
        found[f"bn{step}"] = executor.forward(is_train=True, data=mx.nd.array(x + step))[0].asnumpy()
        executor.backward(mx.nd.array(random(6, 3, seed=7)))
        for name, array in [*executor.grad_dict.items(), *executor.aux_dict.items()]:
            found[f"{name}{step}"] = array.asnumpy()
    found["bn predict"] = executor.forward(is_train=False)[0].asnumpy()
    found["aux"] = [list(executor.aux_dict), [list(a.shape) for a in executor.aux_arrays]]
    return found


@case
def reshaped(mx):
    """An executor for a smaller batch shares its parameters; copied parameters."""
    net = mlp(mx)
    executor = net.simple_bind(mx.cpu(), data=(6, 4))
    fill(executor)
    executor.arg_dict["softmax_label"][:] = np.array([1, 2, 0, 1, 2, 0])
    smaller = executor.reshape(data=(2, 4), softmax_label=(2,))
    executor.arg_dict["fc1_bias"][:] = 0.5
    x = random(2, 4, seed=20)
    smaller.forward(is_train=True, data=mx.nd.array(x))
    smaller.backward()
    larger = smaller.reshape(allow_up_sizing=True, partial_shaping=True, data=(9, 4))
    larger.copy_params_from({"fc1_weight": mx.nd.ones((8, 4)), "other": mx.nd.ones((1,))}, allow_extra_params=True)
    return {
        "output": smaller.outputs[0].asnumpy(),
        "grad": smaller.grad_dict["fc1_weight"].asnumpy(),
        "label": list(larger.arg_dict["softmax_label"].shape),
        "copied": larger.arg_dict["fc1_weight"].asnumpy(),
        "larger": [list(larger.forward(data=mx.nd.ones((9, 4)))[0].shape)],
    }


@case
def evaluated(mx):
    """eval, and dtypes of simple_bind."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    y = (a * 2 + b).eval(ctx=mx.cpu(), a=mx.nd.array([1.0, 2]), b=mx.nd.array([3.0, 4]))
    executor = (a * b).simple_bind(mx.cpu(), grad_req="null", type_dict={"a": "float64"}, a=(2,))
    table = mx.sym.Embedding(a, input_dim=3, output_dim=4).simple_bind(mx.cpu(), type_dict={"a": "int32"}, a=(2,))
    return {
        "eval": y[0].asnumpy(),
        "types": [np.dtype(x.dtype).name for x in (*executor.arg_arrays, *executor.outputs, *table.arg_arrays)],
        "gradients": [g is None for g in executor.grad_arrays],
    }


@case
def as_block(mx):
    """SymbolBlock: its parameters, results and gradients."""
    net = mlp(mx)
    fc2 = net.get_internals()["fc2_output"]
    relu = net.get_internals()["relu1_output"]
    block = mx.gluon.SymbolBlock([fc2, relu], mx.sym.var("data"))
    block.initialize()
    x = mx.nd.array(random(3, 4, seed=30))
    block(x)
    for i, (_, param) in enumerate(sorted(block.collect_params().items())):
        param.set_data(mx.nd.array(random(*param.shape, seed=40 + i)))
    x.attach_grad()
    with mx.autograd.record():
        y, hidden = block(x)
        total = (y * y).sum() + hidden.sum()
    total.backward()
    names = sorted(block.collect_params().keys())
    norm = mx.gluon.SymbolBlock(mx.sym.BatchNorm(mx.sym.var("data"), name="bn"), [mx.sym.var("data")])
    with mx.name.NameManager():
        composed = mx.sym.Group(block(mx.sym.var("other")))
    return {
        "names": names,
        "in files": sorted(block._collect_params_with_prefix()),
        "requests": {k: p.grad_req for k, p in norm.collect_params().items()},
        "output": y.asnumpy(),
        "hidden": hidden.asnumpy(),
        "data.grad": x.grad.asnumpy(),
        **{f"{k}.grad": block.collect_params()[k].grad().asnumpy() for k in names},
        "composed": [composed.list_arguments(), composed.list_outputs()],
    }


@case
def variables_of_parameters(mx):
    """Parameter.var()."""
    p = mx.gluon.Parameter("w", shape=(2, 3), dtype="float64", lr_mult=2.0, init="ones")
    v = p.var()
    return {"attributes": v.list_attr(), "same": p.var() is v, "shapes": shapes((v * 2).infer_shape())}


def _hidden(mx):
    """Symbols of operators that have more outputs than are seen, by what they are."""
    x = mx.sym.var("x")
    state = {"state_size": 2, "num_layers": 1, "mode": "lstm"}
    return {
        "BatchNorm": mx.sym.BatchNorm(x, fix_gamma=False, name="n"),
        "BatchNorm, all": mx.sym.BatchNorm(x, fix_gamma=False, output_mean_var=True, name="n"),
        "LayerNorm": mx.sym.LayerNorm(x, name="n"),
        "GroupNorm": mx.sym.GroupNorm(x, num_groups=1, name="n"),
        "Dropout": mx.sym.Dropout(x, p=0.0, name="n"),
        "split": mx.sym.split(x, num_outputs=2, axis=1, name="n"),
        "split of one": mx.sym.split(x, num_outputs=1, axis=1, name="n"),
        "second of split": mx.sym.split(x, num_outputs=2, axis=1, name="n")[1],
        "topk value": mx.sym.topk(x, k=2, ret_typ="value", name="n"),
        "topk both": mx.sym.topk(x, k=2, ret_typ="both", name="n"),
        "topk mask": mx.sym.topk(x, k=2, ret_typ="mask", name="n"),
        "indices of topk": mx.sym.topk(x, k=2, ret_typ="both", name="n")[1],
        "sort": mx.sym.sort(x, axis=1, name="n"),
        "RNN": mx.sym.RNN(x, name="n", **state),
        "RNN, states": mx.sym.RNN(x, state_outputs=True, name="n", **state),
        "LRN": mx.sym.LRN(mx.sym.expand_dims(x, axis=3, name="m"), nsize=3, name="n"),
        "L2Normalization": mx.sym.L2Normalization(x, name="n"),
        "max": mx.sym.Pooling(x, kernel=(2,), name="n"),
        "moments": mx.sym.moments(x, axes=(0,), name="n"),
    }


@case
def hidden_outputs(mx):
    """Internals of operators with hidden outputs, bound: names, results and gradients of random head gradients."""
    found = {}
    for key, symbol in _hidden(mx).items():
        for kind, bound in (("", symbol), (", internals", symbol.get_internals())):
            executor = bound.simple_bind(mx.cpu(), x=(2, 4, 3))
            for i, array in enumerate([*executor.arg_arrays, *executor.aux_arrays]):
                array[:] = random(*array.shape, seed=60 + i)
            executor.forward(is_train=True)
            results = [np.array(y.asnumpy(), "float32") for y in executor.outputs]
            heads = [mx.nd.array(random(*y.shape, seed=80 + i), dtype=y.dtype) for i, y in enumerate(executor.outputs)]
            executor.backward(heads)
            states = bound.list_auxiliary_states()
            names = [n for n in bound.list_outputs() if n not in states]  # when they change is another matter
            found[key + kind] = bound.list_outputs()
            found.update({f"{key}{kind}: {n}": y for n, y in zip(bound.list_outputs(), results) if n in names})
            found.update({f"{key}{kind}: grad {n}": g.asnumpy() for n, g in executor.grad_dict.items()})
    return found


@case
def names_of_outputs(mx):
    """What the outputs of operators with several are called, those hidden among them."""
    x, quantized = mx.sym.var("x"), mx.sym.contrib
    made = {
        "LayerNorm": mx.sym.LayerNorm(x, output_mean_var=True, name="n"),
        "GroupNorm": mx.sym.GroupNorm(x, output_mean_var=True, name="n"),
        "det": mx.sym.linalg.det(x, name="n"),
        "slogdet": mx.sym.linalg.slogdet(x, name="n"),
        "ctc": mx.sym.CTCLoss(x, x, name="n"),
        "box_nms": quantized.box_nms(x, name="n"),
        "hawkesll": quantized.hawkesll(x, x, x, x, x, x, x, x, name="n"),
        "target": quantized.MultiBoxTarget(x, x, x, name="n"),
        "proposal": quantized.Proposal(x, x, x, output_score=True, name="n"),
        "quantize": quantized.quantize(x, x, x, name="n"),
        "requantize": quantized.requantize(x, x, x, name="n"),
        "conv": quantized.quantized_conv(*[x] * 9, kernel=(1, 1), num_filter=2, name="n"),
        "pooling": quantized.quantized_pooling(x, x, x, kernel=(1, 1), name="n"),
        "dense": quantized.quantized_fully_connected(*[x] * 9, num_hidden=2, name="n"),
        "act": quantized.quantized_act(x, x, x, act_type="relu", name="n"),
        "flatten": quantized.quantized_flatten(x, x, x, name="n"),
        "concat": quantized.quantized_concat(*[x] * 6, num_args=2, name="n"),
        "add": quantized.quantized_elemwise_add(*[x] * 6, name="n"),
        "embedding": quantized.quantized_embedding(x, x, x, x, input_dim=2, output_dim=2, name="n"),
        "calibrate": quantized.calibrate_entropy(x, x, name="n"),
    }
    return {key: symbol.list_outputs() for key, symbol in made.items()}


@case
def equal_nodes(mx):
    """Nodes of equal operators on equal inputs stay apart in symbols, files, copies and compositions."""
    a, b = mx.sym.var("a"), mx.sym.var("b")
    x, y, z = (mx.sym.elemwise_add(a, b, name=n) for n in ("first", "second", "second"))
    parts = [mx.sym.exp(x, name="e1"), mx.sym.exp(y, name="e2"), mx.sym.exp(z, name="e2"), y, x]
    parts += [mx.sym.zeros((2,), name="z1"), mx.sym.zeros((2,), name="z2"), mx.sym.Dropout(a), mx.sym.Dropout(a)]
    group = mx.sym.Group([*parts, mx.sym.elemwise_mul(parts[0], parts[1], name="product"), a + 1, a + 1])
    again = mx.sym.load_json(group.tojson())

    def listed(symbol):
        nodes = [[n["op"], n["name"], n["inputs"]] for n in json.loads(symbol.tojson())["nodes"]]
        return [symbol.list_arguments(), symbol.list_outputs(), symbol.get_internals().list_outputs(), nodes]

    return {
        "made": listed(group),
        "read": listed(again),
        "twice": listed(mx.sym.load_json(again.tojson())),
        "copied": listed(copy.deepcopy(group)),
        "composed": listed(again(a=mx.sym.var("c"))),
        "one": listed(mx.sym.load_json(group.get_internals()["product_output"].tojson())),
    }
