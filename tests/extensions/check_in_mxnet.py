"""Check both directions against MXNet 1.9.1 itself; not part of the tests, which need no MXNet.

``mxnet-venv/bin/python tests/extensions/check_in_mxnet.py --hybridc .venv/bin/python`` (``tests/golden/README.md`` says
how to make that environment):

1. the examples, built with hybridc's headers, do in MXNet what they must;
2. the same sources, built with MXNet's own header, do so in hybridc, and in MXNet.

The programs are the same in both: ``mx`` is MXNet, or hybridc.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "extensions"
LIBRARIES = {
    "gemm_lib": "lib_custom_op",
    "relu_lib": "lib_custom_op",
    "center_lib": "lib_custom_op",
    "scale_lib": "lib_custom_op",
    "subgraph_lib": "lib_subgraph",
    "pass_lib": "lib_pass",
    "abs": "nnvm_ops",
}
RNG = np.random.RandomState(0)
A, B = RNG.rand(3, 4).astype("f4"), RNG.rand(4, 2).astype("f4")


def close(found, wanted):
    np.testing.assert_allclose(found.asnumpy(), wanted, rtol=1e-5, atol=1e-6)


def fails(call, text):
    told = "no error"
    try:
        call().asnumpy()
    except Exception as error:
        told = str(error)
    assert text in told, f"expected {text!r}, got {told}"


def recorded(mx, call, *arrays):
    for x in arrays:
        x.attach_grad()
    with mx.autograd.record():
        y = call(*arrays)
    y.backward()
    return [y, *[x.grad for x in arrays]]


def gemm(mx):
    ones, wanted = np.ones((3, 2)), A @ B
    for call in (mx.nd.my_gemm, lambda a, b: mx.nd.state_gemm(a, b, test_kw=100)):
        c, da, db = recorded(mx, call, mx.nd.array(A), mx.nd.array(B))
        close(c, wanted)
        close(da, ones @ B.T)
        close(db, A.T @ ones)
    values = {"s": mx.nd.array(A), "t": mx.nd.array(B)}
    for op, attributes in (mx.sym.my_gemm, {}), (mx.sym.state_gemm, {"test_kw": 200}):
        symbol = op(mx.sym.Variable("s"), mx.sym.Variable("t"), **attributes)
        assert symbol.infer_shape(s=(3, 4), t=(4, 2))[1] == [(3, 2)]
        gradients = {"s": mx.nd.zeros((3, 4)), "t": mx.nd.zeros((4, 2))}
        executor = symbol.bind(mx.cpu(), values, args_grad=gradients)
        executor.forward(is_train=True)
        close(executor.forward(is_train=True)[0], wanted)
        executor.backward(mx.nd.ones((3, 2)))
        close(gradients["s"], ones @ B.T)
        close(gradients["t"], A.T @ ones)
    fails(lambda: mx.nd.my_gemm(values["s"], values["s"]), "the first matrix has 4 columns and the second 3 rows")
    fails(lambda: mx.nd.state_gemm(values["s"], values["t"], test_kw="zz"), "stoi")


def relu(mx):
    x = mx.nd.array(RNG.randn(100, 1000))
    close(mx.nd.my_noisy_relu(x, sigma=0.0), np.maximum(x.asnumpy(), 0))
    noise = mx.nd.my_noisy_relu(x * 0, sigma=2).asnumpy()
    np.testing.assert_allclose([(noise > 0).mean(), noise.mean()], [0.5, 2 / np.sqrt(2 * np.pi)], atol=0.02)
    assert (mx.nd.my_noisy_relu(x * 0, sigma=2).asnumpy() != noise).any()
    fails(lambda: mx.nd.my_noisy_relu(x, sigma=-1), "sigma is a standard deviation, got -1")


def center(mx):
    mean = mx.nd.ones((4,))
    close(mx.nd.my_center(mx.nd.array(A), mean, momentum=0.75), A - A.mean(0))
    close(mean, 0.75 + 0.25 * A.mean(0))
    symbol = mx.sym.my_center(mx.sym.Variable("x"), mx.sym.Variable("mean"))
    assert (symbol.list_arguments(), symbol.list_auxiliary_states()) == (["x"], ["mean"])
    assert symbol.infer_shape(x=(3, 4)) == ([(3, 4)], [(3, 4)], [(4,)])


def scale(mx):
    y, dx = recorded(mx, lambda x: mx.nd.my_scale(x, factor=2.5), mx.nd.array(A))
    close(y, 2.5 * A)
    close(dx, np.full_like(A, 2.5))
    fails(lambda: mx.nd.my_scale(y, factor="q"), 'my_scale: factor is a number, got "q"')


def attributes(mx):
    x = np.array([[-1.5, 0, 2], [3, -4, 0.5]])
    sigmoid = 1 / (1 + np.exp(-x))
    cases = [
        (mx.nd.abs, np.abs(x), np.sign(x)),
        (lambda v: mx.nd.scalar_op(v, scalar=2.5), 2.5 * x, 2.5 + 0 * x),
        (lambda v: mx.nd.my_activation(v, act_type="relu"), np.maximum(x, 0), x > 0),
        (lambda v: mx.nd.my_activation(v, act_type="sigmoid"), sigmoid, sigmoid * (1 - sigmoid)),
        (lambda v: mx.nd.my_activation(v, act_type="tanh"), np.tanh(x), 1 - np.tanh(x) ** 2),
        (lambda v: mx.nd.my_activation(v, act_type="softrelu"), np.log1p(np.exp(x)), sigmoid),
    ]
    for call, value, slope in cases:
        for dtype in ("float32", "float64"):
            y, dx = recorded(mx, call, mx.nd.array(x, dtype=dtype))
            close(y, value)
            close(dx, slope)
    fails(lambda: mx.nd.my_activation(mx.nd.array(x), act_type="x"), "act_type: expected one of relu, sigmoid, tanh")


def graph(mx):
    a, b = mx.sym.var("a"), mx.sym.var("b")
    return mx.sym.sin(mx.sym.log(mx.sym.exp(a + b))) + mx.sym.sqrt(a)


def optimized(mx, backend, **options):
    """The operators of the graph that a backend makes; its result is checked. Additions of either kind are "add"."""
    values = {"a": mx.nd.array(A), "b": mx.nd.array(A[::-1])}
    symbol = graph(mx).optimize_for(backend, values, **options)
    shift = float(options.get("shift", 0))
    close(symbol.bind(mx.cpu(), values).forward()[0], np.sin(A + A[::-1]) + np.sqrt(A) + shift)
    names = {"my_subgraph_op": "subgraph", "elemwise_add": "add", "broadcast_add": "add"}
    ops = [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]
    return [names.get(op, op) for op in ops]


def subgraphs(mx):
    assert optimized(mx, "my_partitioner") == ["subgraph", "sin", "subgraph"]
    assert optimized(mx, "my_selector") == ["subgraph", "sin", "subgraph"]
    assert optimized(mx, "my_partitioner", reject=True) == ["add", "exp", "log", "sin", "sqrt", "add"]


def passes(mx):
    assert optimized(mx, "my_simplify") == ["add", "sin", "sqrt", "add"]
    assert optimized(mx, "my_shift", shift=2.5) == ["add", "exp", "log", "sin", "sqrt", "add", "add"]
    fails(lambda: graph(mx).optimize_for("my_shift", {"a": mx.nd.array(A)}), "my_shift: expected the option shift")


CHECKS = {
    "gemm_lib": gemm,
    "relu_lib": relu,
    "center_lib": center,
    "scale_lib": scale,
    "subgraph_lib": subgraphs,
    "pass_lib": passes,
    "abs": attributes,
}


def check(mx, folder):
    """All libraries of a folder, loaded into one process."""
    found = [name for name in CHECKS if (folder / f"lib{name}.so").exists()]
    for name in found:
        mx.library.load(str(folder / f"lib{name}.so"), verbose=False)
    for name in found:
        try:
            CHECKS[name](mx)
        except Exception:
            print(f"{mx.__name__}: {name}: FAILED")
            traceback.print_exc()
        else:
            print(f"{mx.__name__}: {name}: as it must be")


def build(ours, theirs, home):
    """All libraries as their Makefiles do; and with MXNet's own header those that are in C++ of its kind."""
    for name, folder in LIBRARIES.items():
        subprocess.run(["make", "-s", name, f"OUT={ours}"], cwd=EXAMPLES / folder, check=True)
    for name in ("gemm_lib", "relu_lib", "center_lib", "subgraph_lib", "pass_lib"):
        source = EXAMPLES / LIBRARIES[name] / f"{name}.cc"
        command = ["g++", "-std=c++11", "-O1", "-shared", "-fPIC", str(source), str(home / "src" / "lib_api.cc")]
        subprocess.run([*command, f"-I{home / 'include'}", "-o", str(theirs / f"lib{name}.so")], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hybridc", help="a Python that has hybridc")
    parser.add_argument("--loads", nargs=2, metavar=("MODULE", "FOLDER"), help="check this folder's libraries only")
    chosen = parser.parse_args()
    if chosen.loads:
        check(importlib.import_module(chosen.loads[0]), Path(chosen.loads[1]))
        return
    home = Path(importlib.util.find_spec("mxnet").origin).parent
    pythons = {"mxnet": sys.executable, **({"hybridc": chosen.hybridc} if chosen.hybridc else {})}
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as made:
        folders = {"our header": Path(made, "ours"), "MXNet's header": Path(made, "theirs")}
        for folder in folders.values():
            folder.mkdir()
        build(*folders.values(), home)
        for header, folder in folders.items():
            for module, python in pythons.items():
                print(f"built with {header}, loaded in {module}:", flush=True)
                subprocess.run([python, __file__, "--loads", module, str(folder)], env=environment, check=True)


if __name__ == "__main__":
    main()
