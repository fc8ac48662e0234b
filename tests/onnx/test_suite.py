"""ONNX's own tests of backends: a slice, and with ``long`` all, eagerly and compiled; and the backend's interface."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from hybridc.onnx import backend
from hybridc.tools.onnx_suite import outcomes
from tests.onnx.onnx_models import mlp

PAGE = Path(__file__).parents[2] / "docs/onnx_in.md"

# Random numbers are those of NumPy's generator there; the others are of the domains of training and of trees.
NOT_MEANT = r"bernoulli|training_dropout|adagrad|adam|momentum|gradient|tree_ensemble"


def failing(**options):
    """The tests that do not pass, and why."""
    return {x.name: x.error for x in outcomes(**options) if x.error is not None and not re.search(NOT_MEANT, x.name)}


def test_each_sixth_node_test_eagerly():
    found = failing(hybridize=False, every=6, kinds=("Node",))
    assert len(found) <= 2, found


def test_some_node_tests_compiled():
    found = failing(hybridize=True, every=40, kinds=("Node",))
    assert len(found) <= 6, found


@pytest.mark.long
@pytest.mark.parametrize("hybridize", [False, True])
def test_as_many_pass_as_the_page_says(hybridize):
    passed = [x for x in outcomes(hybridize) if x.error is None]
    node = sum(x.kind == "Node" for x in passed)
    kept = re.search(
        rf"\| {'compiled' if hybridize else 'eager'} \| ([\d,]+) of 1,884 \| ([\d,]+) of 140 \|", PAGE.read_text()
    )
    assert kept
    assert (node, len(passed) - node) >= tuple(int(n.replace(",", "")) for n in kept.groups())


def test_the_interface_of_backends():
    built, weights = mlp()
    x = np.ones((2, 3), "float32")
    assert backend.supports_device("CPU")
    assert not backend.supports_device("TPU")
    assert backend.is_compatible(built)
    prepared = backend.prepare(built, hybridize=True)
    want = np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"].T + weights["b2"]
    for found in (prepared.run([x]), prepared.run({"x": x}), backend.run_model(built, [x])):
        np.testing.assert_allclose(found[0], want, rtol=1e-5)
        assert found["y"] is found[0]
    node = helper.make_node("Softmax", ["a"], ["b"], axis=0)
    found = backend.run_node(node, [np.zeros((4, 1), "float32")])
    np.testing.assert_allclose(found[0], np.full((4, 1), 0.25), rtol=1e-6)
    strange = onnx.ModelProto.FromString(built.SerializeToString())
    strange.graph.node[1].op_type = "Reul"
    assert not backend.is_compatible(strange)
