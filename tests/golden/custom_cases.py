"""What programs with Python custom operators do, written once and run by MXNet (make_custom.py) and by hybridc.

Each case is a function of ``mx`` that returns a dict of arrays, or of values that JSON can hold.
"""

from __future__ import annotations

import copy
import json
import pickle  # noqa: TID251 - what users do
import tempfile
from pathlib import Path

import numpy as np
from custom_operators import operators
from custom_small_cases import SMALL
from deferred_cases import deferred

CASES = {"deferred": deferred, **SMALL}


def case(function):
    """Enter a case under its name."""
    CASES[function.__name__] = function
    return function


def random(*shape, seed=0, low=-1.0, high=1.0):
    """The same float32 numbers everywhere."""
    return np.random.RandomState(seed).uniform(low, high, shape).astype(np.float32)


def names(symbol):
    """What a symbol says of its names."""
    return {
        "name": symbol.name,
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "states": symbol.list_auxiliary_states(),
        "internals": symbol.get_internals().list_outputs(),
    }


def types(answer):
    """Dtypes by name."""
    return None if answer is None else [None if t is None else np.dtype(t).name for t in answer]


def fill(executor, seed=0):
    """Fixed values for all arguments, and 100 for all gradients."""
    for i, (_, x) in enumerate(sorted(executor.arg_dict.items())):
        x[:] = random(*x.shape, seed=seed + i).astype(x.dtype)
    for grad in executor.grad_dict.values():
        if grad is not None:
            grad[:] = 100


def state(executor, key):
    """Outputs, gradients and auxiliary states."""
    found = {f"{key}.{i}": y.asnumpy() for i, y in enumerate(executor.outputs)}
    found.update({f"{key}.grad.{n}": g.asnumpy() for n, g in executor.grad_dict.items() if g is not None})
    found.update({f"{key}.aux.{n}": a.asnumpy() for n, a in executor.aux_dict.items()})
    return found


# --- symbols ---------------------------------------------------------------------------------------------------------


@case
def composed(mx):
    operators(mx)
    found = {}
    with mx.name.NameManager():
        x, w, c = mx.sym.var("x"), mx.sym.var("w"), mx.sym.var("c")
        custom = mx.sym.Custom
        made = {
            "one input": custom(x, op_type="golden_project", units=2, name="p"),
            "by name": custom(data=x, op_type="golden_project", units=2, name="q"),
            "weight only": custom(weight=w, op_type="golden_project", units=2, name="r"),
            "all": custom(x, w, c, op_type="golden_project", units=2, name="s"),
            "state by name": custom(data=x, count=c, op_type="golden_project", units=2, name="t"),
            "no input": custom(op_type="golden_project", units=2, name="u"),
            "automatic": custom(x, op_type="golden_loss"),
            "again": custom(x * 2, op_type="golden_loss"),
            "attr": custom(x, op_type="golden_project", units=2, name="v", attr={"__mood__": "good"}),
        }
        made["nested"] = custom(made["all"][0], op_type="golden_loss", name="n")
        made["group"] = mx.sym.Group([made["one input"][1], made["nested"]])
        for key, symbol in made.items():
            found[key] = names(symbol)
        found["list_attr"] = made["one input"].list_attr()
        found["list_attr of user"] = made["attr"].list_attr()
        found["pieces"] = [names(s) for s in made["one input"]]
        found["by output"] = names(made["one input"]["p_total"])
    return found


@case
def inferred(mx):
    operators(mx)
    x = mx.sym.var("x")
    project = mx.sym.Custom(x, op_type="golden_project", units=2, name="p")
    loss = mx.sym.Custom(mx.sym.exp(project[0]), op_type="golden_loss", name="softmax")
    declared = mx.sym.Custom(
        x, mx.sym.var("w", shape=(2, 0), dtype="float64"), op_type="golden_project", units=2, name="p"
    )
    return {
        "project": project.infer_shape(x=(3, 4)),
        "weight known in part": project.infer_shape(x=(3, 4), p_weight=(2, 0)),
        "declared in part": declared.infer_shape(x=(3, 4)),
        "loss": loss.infer_shape(x=(3, 4)),
        "nothing": project.infer_shape_partial(),
        "internals": mx.sym.Group([project[1], loss]).get_internals().infer_shape(x=(5, 7)),
        "type": [types(t) for t in project.infer_type(x="float64")],
        "type of loss": [types(t) for t in loss.infer_type(x="float32")],
        "type of loss, half": [types(t) for t in loss.infer_type(x="float16")],
        "type declared": [types(t) for t in declared.infer_type(x="float64")],
        "type unknown": [types(t) for t in project.infer_type_partial()],
    }


@case
def shapes_asked(mx):
    """What a Prop is given: [] for an unknown shape, -1 for an unknown size, None for an unknown dtype."""
    asked = []

    @mx.operator.register("golden_asked")
    class AskedProp(mx.operator.CustomOpProp):
        def list_arguments(self):
            return ["data", "weight"]

        def infer_shape(self, in_shape):
            asked.append([list(s) for s in in_shape])
            return [in_shape[0], in_shape[0]], [in_shape[0]], []

        def infer_type(self, in_type):
            asked.append(types(in_type))
            return [in_type[0], in_type[0]], [in_type[0]], []

    found = {}
    for key, ask in {
        "weight unknown": lambda s: s.infer_shape(x=(2, 3)),
        "size unknown": lambda s: s.infer_shape(x=(2, 3), w=(2, 0)),
        "all known": lambda s: s.infer_shape(x=(2, 3), w=(2, 3)),
        "nothing known": lambda s: s.infer_shape_partial(),
        "type unknown": lambda s: s.infer_type(x="float16"),
        "types known": lambda s: s.infer_type(x="float16", w="float16"),
    }.items():
        asked.clear()
        ask(mx.sym.Custom(mx.sym.var("x"), mx.sym.var("w"), op_type="golden_asked"))
        found[key] = asked[0]
    return found


@case
def executors(mx):
    """Two steps of training and one of prediction, for every way to ask for gradients."""
    operators(mx)
    found = {}
    requests = {
        "write": "write",
        "add": "add",
        "null": "null",
        "weight": {"x": "null", "p_weight": "write"},
        "data": {"x": "add", "p_weight": "null"},
        "list": ["write", "add"],
    }
    for key, req in requests.items():
        symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_project", units=2, name="p")
        executor = symbol.simple_bind(mx.cpu(), grad_req=req, x=(3, 4))
        fill(executor)
        for step in range(2):
            executor.forward(is_train=True)
            executor.backward([mx.nd.array(random(3, 2, seed=10)), mx.nd.array(random(3, seed=11))])
            found.update(state(executor, f"{key}.train{step}"))
        executor.forward(is_train=False, x=mx.nd.array(random(3, 4, seed=12)))
        found.update(state(executor, f"{key}.predict"))
    return found


@case
def bound(mx):
    """Arrays given by lists and by names, auxiliary states among them."""
    operators(mx)
    found = {}
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_project", units=2, name="p")
    arrays = [mx.nd.array(random(3, 4, seed=1)), mx.nd.array(random(2, 4, seed=2))]
    for by_name in (False, True):
        grads = [mx.nd.zeros(a.shape) for a in arrays]
        count = mx.nd.array([7])
        args, wanted, states = (
            (dict(zip(["x", "p_weight"], arrays)), dict(zip(["x", "p_weight"], grads)), {"p_count": count})
            if by_name
            else (arrays, grads, [count])
        )
        executor = symbol.bind(mx.cpu(), args, wanted, "write", states)
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((3, 2)), mx.nd.ones((3,))])
        found.update(state(executor, f"{by_name}"))
        found[f"{by_name}.given count"] = count.asnumpy()
        found[f"{by_name}.given grad"] = grads[0].asnumpy()
    return found


@case
def one_of_two_results(mx):
    operators(mx)
    found = {}
    for i in range(2):
        symbol = mx.sym.exp(mx.sym.Custom(mx.sym.var("x"), op_type="golden_project", units=2, name="p")[i])
        executor = symbol.simple_bind(mx.cpu(), x=(3, 4))
        fill(executor)
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones(executor.outputs[0].shape)])
        found.update(state(executor, f"result{i}"))
    return found


@case
def one_operator_for_an_executor(mx):
    """An executor makes one CustomOp, which all of its forwards and backwards use."""
    operators(mx)
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_count", name="c")
    executor = symbol.simple_bind(mx.cpu(), x=(2,))
    found = {}
    for i, training in enumerate([True, True, False, True]):
        executor.forward(is_train=training)
        if training:
            executor.backward(mx.nd.ones((2,)))
        found.update(state(executor, f"{i}"))
    other = symbol.simple_bind(mx.cpu(), x=(2,))
    other.forward()
    found["other"] = other.outputs[0].asnumpy()
    larger = executor.reshape(x=(3,), allow_up_sizing=True)
    larger.arg_dict["x"][:] = 0
    larger.forward()
    found["reshaped"] = larger.outputs[0].asnumpy()
    return found


@case
def losses(mx):
    """A loss ignores the gradient of its output; a label of integers has no gradient."""
    operators(mx)
    fc = mx.sym.FullyConnected(mx.sym.var("x"), num_hidden=1, name="fc")
    symbol = mx.sym.Custom(fc, op_type="golden_loss", name="loss")
    found = {"names": names(symbol)}
    label = mx.nd.array([0, 1, 1], dtype="int32")
    args = {"x": mx.nd.array(random(3, 4)), "fc_weight": mx.nd.array(random(1, 4, seed=1)), "fc_bias": mx.nd.zeros(1)}
    grads = {k: mx.nd.zeros(v.shape) for k, v in args.items()}
    executor = symbol.bind(mx.cpu(), {**args, "loss_label": label}, grads)
    for step in range(2):
        executor.forward(is_train=True)
        executor.backward()
        found.update(state(executor, f"{step}"))
        for name in ("fc_weight", "fc_bias"):
            args[name][:] = args[name] - 0.5 * grads[name]
    return found


@case
def dependencies(mx):
    operators(mx)
    symbol = mx.sym.Custom(mx.sym.var("x") * 2, op_type="golden_root", name="r")
    executor = symbol.simple_bind(mx.cpu(), x=(5,))
    executor.arg_dict["x"][:] = random(5, low=1, high=4)
    executor.forward(is_train=True)
    executor.backward(mx.nd.array(random(5, seed=1)))
    return state(executor, "r")


@case
def dtypes(mx):
    operators(mx)
    found = {}
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_project", units=2, name="p")
    for dtype in ("float16", "float64"):
        executor = symbol.simple_bind(mx.cpu(), type_dict={"x": dtype}, x=(3, 4))
        found[dtype] = {k: np.dtype(v.dtype).name for k, v in {**executor.arg_dict, **executor.aux_dict}.items()}
        if dtype == "float64":
            fill(executor)
            executor.forward(is_train=True)
            executor.backward([mx.nd.ones((3, 2), dtype=dtype), mx.nd.ones((3,), dtype=dtype)])
            found.update(state(executor, "float64"))
    return found


# --- parameters and files --------------------------------------------------------------------------------------------


VALUES = {
    "a": 0.1,
    "b": True,
    "c": None,
    "d": [1, 2],
    "e": (1, 2),
    "f": "text",
    "g": np.float32(0.5),
    "h": np.int64(3),
    "i": -1,
    "j": 1e-8,
    "k": "",
}


@case
def parameters(mx):
    """Every parameter reaches the Prop as a string."""
    seen = operators(mx)
    mx.nd.Custom(mx.nd.ones((1,)), op_type="golden_count", name="ignored", **VALUES)
    by_array = seen[-1]
    mx.sym.Custom(mx.sym.var("x"), op_type="golden_count", name="ignored", **VALUES)
    return {"nd": by_array, "sym": seen[-1]}


@case
def json_of(mx):
    operators(mx)
    symbol = mx.sym.Custom(
        mx.sym.var("x"), op_type="golden_project", units=2, scales=(1, 2), name="p", attr={"__mood__": "good"}
    )
    loss = mx.sym.Custom(symbol[0], mx.sym.var("label"), op_type="golden_loss", name="loss")
    graph = json.loads(mx.sym.Group([loss, symbol[1]]).tojson())
    for node in graph["nodes"]:
        if node["op"] == "null":  # MXNet gives variables that it makes the attributes of the operator
            node.pop("attrs", None)
    return {"graph": graph}


@case
def copies(mx):
    """Copies, pickles and files give the same graph and the same results."""
    operators(mx)
    symbol = mx.sym.Custom(mx.sym.var("x"), op_type="golden_project", units=2, name="p")
    with tempfile.TemporaryDirectory() as folder:
        symbol.save(f"{folder}/p.json")
        made = {
            "copy": copy.copy(symbol),
            "deepcopy": copy.deepcopy(symbol),
            "pickle": pickle.loads(pickle.dumps(symbol)),
            "json": mx.sym.load_json(symbol.tojson()),
            "file": mx.sym.load(f"{folder}/p.json"),
            "composed": symbol(x=mx.sym.var("y") * 2),
        }
    found = {}
    for key, other in made.items():
        found[f"{key}.names"] = names(other) if key != "composed" else other.list_arguments()
        executor = other.simple_bind(mx.cpu(), **{other.list_arguments()[0]: (3, 4)})
        fill(executor)
        executor.forward(is_train=True)
        executor.backward([mx.nd.ones((3, 2)), mx.nd.ones((3,))])
        found.update(state(executor, key))
    return found


# --- blocks ----------------------------------------------------------------------------------------------------------


def project_block(mx):
    """A block with a weight of unknown width and a state, around the operator."""

    class Project(mx.gluon.HybridBlock):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            with self.name_scope():
                self.weight = self.params.get("weight", shape=(2, 0), allow_deferred_init=True)
                self.count = self.params.get("count", shape=(1,), init="zeros", grad_req="null")

        def hybrid_forward(self, F, x, weight, count):
            product, total = F.Custom(x, weight, count, op_type="golden_project", units=2, name="p")
            return F.broadcast_mul(product, total.expand_dims(1))

    return Project(prefix="net_")


def trained(mx, net, count, key):
    """Three steps of training, and a prediction."""
    found = {}
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.01})
    x = mx.nd.array(random(3, 4, seed=5))
    x.attach_grad()
    for step in range(3):
        with mx.autograd.record():
            y = net(x)
            loss = (y * y).sum()
        loss.backward()
        trainer.step(3)
        found[f"{key}.{step}"] = y.asnumpy()
        found[f"{key}.{step}.dx"] = x.grad.asnumpy()
        found[f"{key}.{step}.count"] = count.data().asnumpy()
    found[f"{key}.predict"] = net(x).asnumpy()
    return found


@case
def blocks(mx):
    operators(mx)
    found = {}
    for key in ("eager", "hybrid"):
        net = project_block(mx)
        net.initialize(mx.init.One())
        net.hybridize(key == "hybrid")
        found.update(trained(mx, net, net.count, key))
        found[f"{key}.weight"] = net.weight.data().asnumpy()
        found[f"{key}.names"] = sorted(net.collect_params())
    return found


@case
def exported(mx):
    """A network with a custom operator, written to files and read by SymbolBlock.imports."""
    operators(mx)
    net = project_block(mx)
    net.initialize(mx.init.One())
    net.hybridize()
    x = mx.nd.array(random(3, 4, seed=5))
    found = {"before": net(x).asnumpy()}
    with tempfile.TemporaryDirectory() as folder:
        net.export(f"{folder}/net", epoch=3)
        found["files"] = sorted(p.name for p in Path(folder).iterdir())
        written = mx.nd.load(f"{folder}/net-0003.params")
        found["arrays"] = {k: list(v.shape) for k, v in sorted(written.items())}
        graph = json.loads(Path(f"{folder}/net-symbol.json").read_text())
        found["custom"] = next(n for n in graph["nodes"] if n["op"] == "Custom")["attrs"]
        other = mx.gluon.SymbolBlock.imports(f"{folder}/net-symbol.json", ["data"], f"{folder}/net-0003.params")
    found["after"] = other(x).asnumpy()
    found["names"] = sorted(other.collect_params())
    found["grad_req"] = {k: p.grad_req for k, p in sorted(other.collect_params().items())}
    counts = [p for k, p in other.collect_params().items() if k.endswith("count")]
    found.update(trained(mx, other, counts[0], "imported"))
    other.hybridize()
    found.update(trained(mx, other, counts[0], "hybridized"))
    return found


@case
def symbol_blocks(mx):
    """A composed symbol with a custom operator as a block: its inputs that are not given are parameters."""
    operators(mx)
    found = {}
    for key in ("eager", "hybrid"):
        product, total = mx.sym.Custom(mx.sym.var("x"), op_type="golden_project", units=2, name="p")
        net = mx.gluon.SymbolBlock(mx.sym.broadcast_mul(product, total.expand_dims(1)), [mx.sym.var("x")])
        net.initialize(mx.init.One())
        net.hybridize(key == "hybrid")
        params = net.collect_params()
        found[f"{key}.names"] = sorted(params)
        found[f"{key}.grad_req"] = {k: p.grad_req for k, p in sorted(params.items())}
        params["p_weight"].initialize(mx.init.One(), force_reinit=True)
        found.update(trained(mx, net, params["p_count"], key))
        found[f"{key}.shapes"] = {k: list(p.shape) for k, p in sorted(params.items())}
    return found
