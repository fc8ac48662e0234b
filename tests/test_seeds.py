"""The MXNet tutorials' code on custom operators and layers, run on hybridc, against MXNet 1.9.1's results."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import ShapeError
from hybridc.ground.display.tracebacks import own_notes
from tests import built

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "golden"))
import seed_cases  # noqa: E402

CASES = [
    (name, hybrid)
    for name in seed_cases.CASES
    for hybrid in ((False,) if name in seed_cases.EAGER_ONLY else (False, True))
]


def load(name):
    return seed_cases.load_seed(name, "hybridc")


@pytest.fixture(scope="module")
def golden():
    with np.load(ROOT / "tests" / "golden" / "seeds.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.mark.parametrize(("name", "hybrid"), CASES, ids=lambda v: {True: "hybrid", False: "eager"}.get(v, v))
@pytest.mark.filterwarnings("ignore:custom operator")
def test_results_are_those_of_mxnet(golden, name, hybrid):
    def fixed(key, shape, low=None, high=None):
        value = golden[f"{name}/in/{key}"]
        assert value.shape == tuple(shape)
        return mx.nd.array(value)

    results = seed_cases.CASES[name](mx, load, fixed, hybrid)
    expected = {k.rpartition("/")[2]: v for k, v in golden.items() if k.startswith(f"{name}/out/")}
    assert results.keys() == expected.keys()
    for key, value in results.items():
        found = seed_cases.plain(value)
        if found.dtype.kind != "f":
            assert found.tolist() == expected[key].tolist(), key
            continue
        assert found.dtype == expected[key].dtype, key
        np.testing.assert_allclose(found, expected[key], rtol=2e-5, atol=2e-6, err_msg=key)


SCRIPTS = [p for p in sorted(seed_cases.SEEDS.glob("*.py")) if p.stem not in ("sigmoid", "normalization_layer")]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_runs_as_pasted(path):
    run(path)


# What MXNet 1.9.1 prints.
PRINTED = {
    "sigmoid": """
[0.5        0.7310586  0.880797   0.95257413]
<NDArray 4 @cpu(0)>

[0.25       0.19661193 0.10499363 0.04517666]
<NDArray 4 @cpu(0)>
""",
    "normalization_layer": """
[0.  0.5 1. ]
<NDArray 3 @cpu(0)>
""",
}


@pytest.mark.parametrize("name", PRINTED)
def test_prints_what_mxnet_prints(name):
    assert run(seed_cases.SEEDS / f"{name}.py") == PRINTED[name]


def run(path, told=False):
    """Run a script in a process of its own, from elsewhere, under a time limit; returns what it printed.

    With ``told`` also what it wrote to stderr.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:hybridc", str(path)],
        capture_output=True, text=True, timeout=300, check=False, env=environment, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return (done.stdout, done.stderr) if told else done.stdout


def test_fork_with_custom_operators_around():
    lines = run(seed_cases.SEEDS / "fork.py").splitlines()
    values = "[0.5        0.7310586  0.880797   0.95257413]"
    assert sorted(lines[-6:]) == sorted([f"done {values}"] * 4 + [f"read {values}"] * 2)


def test_the_wrong_backward_of_the_dense_operator_names_both_shapes():
    seed = load("dense")
    x = mx.nd.ones((4, 3))
    x.attach_grad()
    with mx.autograd.record():
        y = seed["dense"](x)
    with pytest.raises(
        ShapeError, match=r"a value of shape \(5, 3\) does not fit into an array of shape \(4, 3\)"
    ) as error:
        y.backward()
    assert "raised in custom operator 'dense': Dense.backward" in own_notes(error.value)[0]


def test_training_changes_the_weights_and_not_the_scales():
    seed = load("normalization_parameters")
    names = [k for k in seed["net"].collect_params() if "normalizationhybridlayer" in k]
    assert [n.rpartition("_")[2] for n in names] == ["weights", "scales"]
    assert seed["net"].collect_params()[names[1]].data().asnumpy().tolist() == [2.0]


def in_ways(net, x, folder):
    """What a network gives as it is, as a symbol in an executor, exported and imported, and with loaded parameters."""
    yield net(x)
    symbol = net(mx.sym.var("data"))
    arguments = {k: p.data() for k, p in net.collect_params().items()}
    yield symbol.bind(mx.cpu(), {"data": x, **arguments}).forward()[0]
    net.export(str(folder / "net"))
    files = [str(folder / "net-symbol.json"), ["data"], str(folder / "net-0000.params")]
    imported = mx.gluon.SymbolBlock.imports(*files)
    yield imported(x)
    imported.hybridize()
    yield imported(x)
    net.save_parameters(str(folder / "net.params"))
    before = net(x).asnumpy()
    net.collect_params().initialize(mx.init.Uniform(3), force_reinit=True)
    assert np.abs(net(x).asnumpy() - before).max() > 0.01
    net.load_parameters(str(folder / "net.params"))
    yield net(x)


@pytest.mark.parametrize("name", ["normalization_hybrid", "normalization_parameters"])
def test_networks_of_the_tutorial_as_symbols_and_files(name, tmp_path):
    net = load(name)["net"]
    found = [y.asnumpy() for y in in_ways(net, mx.nd.array([[1, -2], [3, 5]]), tmp_path)]
    assert np.abs(found[0]).max() > 0.01
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-6, atol=1e-7)


@pytest.mark.filterwarnings("ignore:custom operator")
def test_a_custom_operator_of_the_tutorial_in_a_symbol_and_a_file(tmp_path):
    seed = load("dense_corrected")
    net = seed["DenseBlock"](2, 5, 0.1)
    net.initialize()
    net.hybridize()
    x = mx.nd.array([[1, -2], [3, 5]])
    w = net.weight.data().asnumpy()
    ways = in_ways(net, x, tmp_path)
    for _ in range(4):
        np.testing.assert_allclose(next(ways).asnumpy(), x.asnumpy() @ w.T + 0.1, rtol=1e-5, atol=1e-6)
    node = json.loads((tmp_path / "net-symbol.json").read_text())["nodes"][-1]
    assert node["op"] == "Custom"
    assert node["attrs"] == {"bias": "0.1", "op_type": "dense"}


def test_the_initializer_of_the_scales_can_be_written():
    symbol = load("normalization_parameters")["net"](mx.sym.var("data"))
    (scales,) = [k for k in symbol.list_arguments() if k.endswith("scales")]
    assert symbol.attr_dict()[scales]["__init__"] == '["constant", {"value": [2.0]}]'


# What test_gemm.py prints with MXNet 1.9.1 in place of hybridc, counts of the stateful operator among it.
GEMM = (ROOT / "tests" / "golden" / "gemm.txt").read_text()


def test_the_walk_through_the_gemm_library(tmp_path):
    """In a copy of the example's folder, with what its Makefile makes: python test_gemm.py."""
    folder = tmp_path / "lib_custom_op"
    shutil.copytree(ROOT / "examples" / "extensions" / "lib_custom_op", folder, ignore=shutil.ignore_patterns("*.so"))
    shutil.copy(built.example("lib_custom_op", "gemm_lib"), folder)
    printed, told = run(folder / "test_gemm.py", told=True)
    assert printed == GEMM
    assert told.splitlines()[:3] == ["Found 2 operators in library", "\tOp[0] my_gemm", "\tOp[1] state_gemm"]


@pytest.mark.parametrize("name", ["my_gemm", "state_gemm"])
def test_gradients_of_a_library_are_added(name):
    """MXNet writes them in place of what is there."""
    seed_cases.library(mx, "gemm_lib")
    arrays = {"s": mx.nd.ones((3, 4)), "t": mx.nd.ones((4, 2))}
    grads = {k: mx.nd.full(v.shape, 10) for k, v in arrays.items()}
    symbol = getattr(mx.sym, name)(mx.sym.Variable("s"), mx.sym.Variable("t"))
    executor = symbol.bind(mx.cpu(), arrays, grads, grad_req={"s": "add", "t": "write"})
    executor.forward(is_train=True)
    executor.backward([mx.nd.ones((3, 2))])
    assert [g.asnumpy().ravel().tolist() for g in grads.values()] == [[12.0] * 12, [3.0] * 8]


def test_one_state_for_all_forwards_and_backwards_of_an_executor(capfd):
    seed_cases.library(mx, "gemm_lib")
    symbol = mx.sym.state_gemm(mx.sym.Variable("s"), mx.sym.Variable("t"), test_kw=7)
    executor = symbol.simple_bind(mx.cpu(), s=(3, 4), t=(4, 2))
    for is_train in (True, True, False, True):  # MXNet 1.9.1: one state, in both modes
        executor.forward(is_train=is_train)
    counts = [line.rpartition(" ")[2] for line in capfd.readouterr().out.splitlines()]
    assert counts == ["8", "9", "10", "11"]


A = mx.nd.ones((2, 3))
SAM_ERRORS = {
    "parseAttrs": (
        lambda: mx.nd.CustomOp(A, op_type="sam"),
        "Error calling ParseAttrs for custom operator 'sam'",
        "sam: myParam is missing",
    ),
    "inferType": (
        lambda: mx.nd.CustomOp(A.astype("int32"), op_type="sam", myParam="2"),
        "Error calling InferType for custom operator 'sam'",
        "sam: expected float32, got type 4",
    ),
    "inferShape": (
        lambda: mx.nd.CustomOp(mx.nd.ones((1, 1, 1)), op_type="sam", myParam="2"),
        "Error calling InferShape for custom operator 'sam'",
        "sam: expected at most 2 dimensions, got 3",
    ),
    "forward": (
        lambda: mx.nd.CustomOp(A, op_type="sam_that_fails", myParam="2"),
        "Error calling FCompute for custom operator 'sam_that_fails'",
        "",
    ),
    "symbol": (
        lambda: mx.sym.CustomOp(mx.sym.Variable("a"), op_type="sam", myParam="2").infer_shape(a=(1, 1, 1)),
        "Error calling InferShape for custom operator 'sam'",
        "sam: expected at most 2 dimensions, got 3",
    ),
}


@pytest.mark.parametrize("name", SAM_ERRORS)
def test_zero_from_a_library_is_an_error(name):
    mx.operator.load_op_lib(seed_cases.built("sam"))
    call, what, why = SAM_ERRORS[name]
    with pytest.raises(mx.MXNetError) as error:
        call()
    assert what in str(error.value)
    assert why in str(error.value)


def test_load_op_lib_checks_the_path(tmp_path, monkeypatch):
    """Texts of MXNet 1.9.1."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "libtest.so").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    for path, text in {
        "/path/to/libtest.so": "load path /path/to/libtest.so does NOT exist",
        "libtest.so": "load path libtest.so is not an absolute path",
        f"{tmp_path}/folder": f"load path {tmp_path}/folder is NOT a library file",
    }.items():
        with pytest.raises(mx.MXNetError) as error:
            mx.operator.load_op_lib(path)
        assert str(error.value) == text


EXAMPLES = {
    "custom_numpy_operators": ["sigmoid", "dense", "fork"],
    "custom_layers": ["scales", "hybridized"],
    "custom_softmax": ["accuracy", "host call"],
    "symbol_softmax": ["softmax_label", "accuracy 1.000", "host call"],
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_as_scripts(name):
    printed = run(ROOT / "examples" / f"{name}.py")
    for word in EXAMPLES[name]:
        assert word in printed
