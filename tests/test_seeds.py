"""The MXNet tutorials' code on custom operators and layers, run on hybridc, against MXNet 1.9.1's results."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import ShapeError

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
        assert value.dtype == expected[key].dtype, key
        np.testing.assert_allclose(value.asnumpy(), expected[key], rtol=2e-5, atol=2e-6, err_msg=key)


@pytest.mark.parametrize("path", sorted(seed_cases.SEEDS.glob("*.py")), ids=lambda p: p.stem)
def test_runs_as_pasted(path):
    run(path)


def run(path):
    """Run a script in a process of its own, from elsewhere, under a time limit; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:hybridc", str(path)],
        capture_output=True, text=True, timeout=300, check=False, env=environment, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    assert "raised in custom operator 'dense': Dense.backward" in error.value.__notes__[0]


def test_training_changes_the_weights_and_not_the_scales():
    seed = load("normalization_parameters")
    names = [k for k in seed["net"].collect_params() if "normalizationhybridlayer" in k]
    assert [n.rpartition("_")[2] for n in names] == ["weights", "scales"]
    assert seed["net"].collect_params()[names[1]].data().asnumpy().tolist() == [2.0]


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
