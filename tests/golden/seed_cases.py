"""What is computed with the tutorials' code in ``tests/seeds``, by MXNet for the golden file and by hybridc.

A case is a function of ``(mx, load, fixed, hybrid)``: ``load(name)`` runs a file of ``tests/seeds`` and
returns its names, ``fixed(name, shape, low, high)`` gives the stored values of an input or weight. It
returns named results: arrays, or texts and numbers.
"""

import functools
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests import built as libraries  # noqa: E402

SEEDS = ROOT / "tests" / "seeds"


def load_seed(name, package):
    """Run a seed with ``hybridc`` replaced by the package's name."""
    path = SEEDS / f"{name}.py"
    source = path.read_text().replace("hybridc", package)
    if package == "mxnet":  # MXNet's Constant fails on the list that its own tutorial gives it
        source = source.replace("scales.asnumpy().tolist()", "float(scales.asnumpy()[0])")
    namespace = {"__name__": f"seed_{name}"}
    exec(compile(source, str(path), "exec"), namespace)
    return namespace


def plain(value):
    """A result as NumPy keeps it."""
    return value.asnumpy() if hasattr(value, "asnumpy") else np.asarray(value)


def block(mx, function, hybrid):
    """A function of (F, *inputs) as a block."""

    class Function(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *xs):
            return function(F, *xs)

    made = Function()
    if hybrid:
        made.hybridize()
    return made


def built(name):
    """The path of a library: of ``examples/extensions`` as its Makefile makes it, or of ``tests/seeds``."""
    if (SEEDS / f"{name}.cc").exists():
        return libraries.library(SEEDS / f"{name}.cc", "-Wall", "-Werror")
    return libraries.example("lib_custom_op", name)


@functools.cache
def library(mx, name):
    """Load a library; MXNet cannot load it twice."""
    mx.library.load(built(name))


def set_weights(net, fixed, x):
    """Run once for the shapes, then give every parameter its stored values; the parameters by name."""
    net(x)
    params = {}
    for name, p in net.collect_params().items():
        short = name.split("_", 1)[1] if name.count("_") > 1 else name.rsplit("_", 1)[1]
        params[short] = p
        if "scales" not in short:
            p.set_data(fixed(short, p.shape))
    return params


def sigmoid(mx, load, fixed, hybrid):
    load("sigmoid")
    x = fixed("x", (3, 4), -5, 5)
    x.attach_grad()
    net = block(mx, lambda F, x: F.Custom(x, op_type="sigmoid"), hybrid)
    with mx.autograd.record():
        y = net(x)
    y.backward(fixed("dy", (3, 4)))
    return {"y": y, "dx": x.grad}


def dense(mx, load, fixed, hybrid):
    seed = load("dense_corrected")
    net = seed["DenseBlock"](3, 5, 0.1)
    net.initialize()
    x = fixed("x", (4, 3))
    params = set_weights(net, fixed, x)
    if hybrid:
        net.hybridize()
    x.attach_grad()
    with mx.autograd.record():
        y = net(x)
    y.backward(fixed("dy", (4, 5)))
    return {"y": y, "dx": x.grad, "dw": params["weight"].grad()}


def dense_as_written(mx, load, fixed, hybrid):
    seed = load("dense")
    net = seed["dense"]
    x = fixed("x", (4, 3))
    set_weights(net, fixed, x)
    return {"y": net(x)}


def normalization_layer(mx, load, fixed, hybrid):
    seed = load("normalization_layer")
    x = fixed("x", (4, 6), -10, 10)
    x.attach_grad()
    with mx.autograd.record():
        y = seed["layer"](x)
    y.backward(fixed("dy", (4, 6)))
    return {"y": y, "dx": x.grad, "y123": seed["layer"](mx.nd.array([1, 2, 3]))}


def normalization_hybrid(mx, load, fixed, hybrid):
    seed = load("normalization_hybrid")
    layer = seed["NormalizationHybridLayer"]()
    net = seed["net"]
    net.hybridize(hybrid)
    if hybrid:
        layer.hybridize()
    x = fixed("x", (5, 2), -10, 10)
    params = set_weights(net, fixed, x)
    v = fixed("v", (4, 6), -10, 10)
    v.attach_grad()
    with mx.autograd.record():
        y = net(x)
        z = layer(v)
        head = (z * fixed("dz", (4, 6))).sum() + y.sum()
    head.backward()
    grads = {f"grad_{name}": p.grad() for name, p in params.items()}
    return {"y": y, "z": z, "dv": v.grad, "y123": layer(mx.nd.array([1, 2, 3])), **grads}


def normalization_parameters(mx, load, fixed, hybrid):
    seed = load("normalization_parameters")
    net = seed["net"]
    net.hybridize(hybrid)
    x, label = fixed("x", (5, 2), -10, 10), fixed("label", (5, 1))
    params = set_weights(net, fixed, x)
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    results = {}
    for step in range(3):
        with mx.autograd.record():
            y = net(x)
            loss = seed["mse_loss"](y, label)
        loss.backward()
        trainer.step(x.shape[0])
        results[f"y{step}"], results[f"loss{step}"] = y, loss
    return {**results, **{f"param_{name}": p.data() for name, p in params.items()}}


def softmax(mx, load, fixed, hybrid):
    load("softmax")
    net = mx.gluon.nn.HybridSequential()
    with net.name_scope():
        net.add(mx.gluon.nn.Dense(8, activation="relu"), mx.gluon.nn.Dense(3))
    net.initialize()
    x, label = fixed("x", (6, 4)), mx.nd.array([0, 1, 2, 0, 1, 2])
    params = set_weights(net, fixed, x)
    head = block(mx, lambda F, x, y: F.Custom(x, y, name="softmax", op_type="softmax"), hybrid)
    if hybrid:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
    results = {}
    for step in range(3):
        with mx.autograd.record():
            y = head(net(x), label)
        y.backward()
        trainer.step(6)
        results[f"y{step}"] = y
    return {**results, **{f"param_{name}": p.data() for name, p in params.items()}}


def softmax_symbol(mx, load, fixed, hybrid):
    """The network with the custom softmax as a symbol: its names, what it infers, and an executor that trains it."""
    symbol = load("softmax")["mlp"]
    shapes = symbol.infer_shape(data=(6, 4))
    results = {
        "name": symbol.name,
        "arguments": symbol.list_arguments(),
        "outputs": symbol.list_outputs(),
        "states": symbol.list_auxiliary_states(),
        "internals": symbol.get_internals().list_outputs(),
        "shapes": [str(s) for group in shapes for s in group],
        "types": [t.__name__ for group in symbol.infer_type(data="float32") for t in group],
    }
    executor = symbol.simple_bind(mx.cpu(), data=(6, 4), grad_req="write")
    for name, array in executor.arg_dict.items():
        array[:] = fixed(name, array.shape)
    executor.arg_dict["softmax_label"][:] = mx.nd.array([0, 1, 2, 0, 1, 2])
    for step in range(3):
        (y,) = executor.forward(is_train=True)
        results[f"y{step}"] = y.copy()
        executor.backward()
        for name, array in executor.arg_dict.items():
            if name not in ("data", "softmax_label"):
                array[:] -= 0.1 * executor.grad_dict[name]
    results.update({f"grad_{name}": g for name, g in executor.grad_dict.items() if name != "softmax_label"})
    results["predicted"] = executor.forward(is_train=False, data=fixed("other", (6, 4)))[0]
    return results


def softmax_block(mx, load, fixed, hybrid):
    """The same symbol as a block, trained by a Trainer."""
    symbol = load("softmax")["mlp"]
    net = mx.gluon.SymbolBlock(symbol, [mx.sym.var("data"), mx.sym.var("softmax_label")])
    net.initialize()
    net.hybridize(hybrid)
    x, label = fixed("data", (6, 4)), mx.nd.array([0, 1, 2, 0, 1, 2])
    net(x, label)
    params = net.collect_params()
    for name, p in params.items():
        p.set_data(fixed(name, p.shape))
    trainer = mx.gluon.Trainer(params, "sgd", {"learning_rate": 0.6})
    results = {"names": sorted(params)}
    for step in range(3):
        with mx.autograd.record():
            y = net(x, label)
        y.backward()
        trainer.step(6)
        results[f"y{step}"] = y
    return {**results, **{f"param_{name}": p.data() for name, p in params.items()}}


# --- libraries -------------------------------------------------------------------------------------------------------


def product(mx, fixed, function, hybrid):
    """A product of matrices with its gradients, beside that of the regular operator."""
    a, b, dc = fixed("a", (3, 4)), fixed("b", (4, 2)), fixed("dc", (3, 2))
    results = {}
    for name, f in (("own", function), ("regular", lambda F, a, b: F.linalg.gemm2(a, b))):
        net = block(mx, f, hybrid)
        a.attach_grad()
        b.attach_grad()
        with mx.autograd.record():
            c = net(a, b)
        c.backward(dc)
        results.update({f"{name}_c": c, f"{name}_da": a.grad, f"{name}_db": b.grad})
    return results


def gemm(mx, load, fixed, hybrid):
    library(mx, "gemm_lib")
    return product(mx, fixed, lambda F, a, b: F.my_gemm(a, b), hybrid)


def state_gemm(mx, load, fixed, hybrid):
    library(mx, "gemm_lib")
    return product(mx, fixed, lambda F, a, b: F.state_gemm(a, b, test_kw=100), hybrid)


def gemm_symbol(mx, load, fixed, hybrid):
    library(mx, "gemm_lib")
    results = {}
    arrays = {"s": fixed("s", (3, 4)), "t": fixed("t", (4, 2))}
    for name in ("my_gemm", "state_gemm"):
        symbol = getattr(mx.sym, name)(mx.sym.Variable("s"), mx.sym.Variable("t"), name="c")
        grads = {k: mx.nd.zeros(v.shape) for k, v in arrays.items()}
        executor = symbol.bind(mx.cpu(), arrays, args_grad=grads)
        for _ in range(2):
            (c,) = executor.forward(is_train=True)
        executor.backward([fixed("dc", (3, 2))])
        results.update({f"{name}_{k}": v for k, v in {"c": c, **grads}.items()})
        results[f"{name}_names"] = symbol.list_arguments() + symbol.list_outputs()
        results[f"{name}_shapes"] = str(symbol.infer_shape(s=(3, 4), t=(4, 2)))
        results[f"{name}_types"] = str(symbol.infer_type(s="float64", t="float64"))
    return results


def center(mx, load, fixed, hybrid):
    """An input that the operator updates."""
    library(mx, "center_lib")
    x, mean = fixed("x", (3, 4)), fixed("mean", (4,))
    x.attach_grad()
    net = block(mx, lambda F, x, mean: F.my_center(x, mean, momentum=0.75), hybrid)
    results = {}
    for step in range(2):
        with mx.autograd.record():
            y = net(x, mean)
        y.backward(fixed("dy", (3, 4)))
        results.update({f"y{step}": y, f"dx{step}": x.grad.copy(), f"mean{step}": mean.copy()})
    return results


def center_symbol(mx, load, fixed, hybrid):
    library(mx, "center_lib")
    symbol = mx.sym.my_center(mx.sym.Variable("x"), mx.sym.Variable("mean"), momentum=0.75, name="c")
    grads, mean = {"x": mx.nd.zeros((3, 4))}, fixed("mean", (4,))
    executor = symbol.bind(mx.cpu(), {"x": fixed("x", (3, 4))}, grads, aux_states={"mean": mean})
    results = {"names": [*symbol.list_arguments(), *symbol.list_outputs(), *symbol.list_auxiliary_states()]}
    results["shapes"] = str(symbol.infer_shape(x=(3, 4)))
    for step in range(2):
        (y,) = executor.forward(is_train=True)
        executor.backward([fixed("dy", (3, 4))])
        results.update({f"y{step}": y.copy(), f"dx{step}": grads["x"].copy(), f"mean{step}": mean.copy()})
    return results


def sam(mx, load, fixed, hybrid):
    """The design's calls; what became of them in MXNet is the operator under its own name."""
    library(mx, "sam")
    a = fixed("a", (2, 3))
    generic = hasattr(
        mx.nd, "CustomOp"
    )  # not in MXNet, where a block with an operator without backward cannot hybridize
    own = block(mx, lambda F, a: F.sam(a, myParam="2"), hybrid and generic)(a)
    executor = mx.sym.sam(mx.sym.Variable("a"), myParam="2", name="b").bind(mx.cpu(), {"a": a}, grad_req="null")
    results = {"own": own, "symbol": executor.forward()[0]}
    if not generic:
        return {**results, "generic": own, "generic_symbol": own, "generic_names": ["a", "b_output"]}
    symbol = mx.sym.CustomOp(mx.sym.Variable("a"), op_type="sam", myParam="2", name="b")
    return {
        **results,
        "generic": block(mx, lambda F, a: F.CustomOp(a, op_type="sam", myParam="2"), hybrid)(a),
        "generic_symbol": symbol.bind(mx.cpu(), {"a": a}, grad_req="null").forward()[0],
        "generic_names": symbol.list_arguments() + symbol.list_outputs(),
    }


CASES = {
    "sigmoid": sigmoid,
    "dense": dense,
    "dense_as_written": dense_as_written,
    "normalization_layer": normalization_layer,
    "normalization_hybrid": normalization_hybrid,
    "normalization_parameters": normalization_parameters,
    "softmax": softmax,
    "softmax_symbol": softmax_symbol,
    "softmax_block": softmax_block,
    "gemm": gemm,
    "state_gemm": state_gemm,
    "gemm_symbol": gemm_symbol,
    "center": center,
    "center_symbol": center_symbol,
    "sam": sam,
}
# These use Block, not HybridBlock, or executors.
EAGER_ONLY = (
    "dense_as_written",
    "normalization_layer",
    "softmax_symbol",
    "gemm_symbol",
    "center_symbol",
)
