"""Operators as models of ONNX: each sample is run by ONNX Runtime and OpenVINO, and must give hybridc's result."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects import operator_registry
from hybridc.errors import OnnxExportError
from hybridc.interchange.onnx.writing.translate import REASONS
from hybridc.tools.onnx_operators import ENGINES, checked, difference, exported, onnx_runtime, operator_model

# One or two of each way: scalar bodies, reductions, movements, decompositions, translations, loops.
QUICK = (
    "erfinv floor_divide left_shift where mean slice pad take gather_nd topk one_hot softmax convolution deconvolution "
    "batch_norm fully_connected rnn box_nms linalg_inverse"
)
# What OpenVINO computes in single precision, though the file says double.
UNLIKE = {"gammaln"}


def operator(name):
    return operator_registry.operators()[f"hybrid.{name}"]


def require_export(name):
    found = exported(operator(name))
    assert found.is_written, found.reason
    missing = {*ENGINES} - {*found.engines}
    assert not missing or name in UNLIKE, found.reason
    assert "ONNX Runtime" in found.engines, found.reason


@pytest.mark.parametrize("name", QUICK.split())
def test_engines_give_the_results_of_operators(name):
    require_export(name)


@pytest.mark.parametrize("opset", [13, 17, 23])
@pytest.mark.parametrize("name", ["layer_norm", "max", "pad", "gelu"])
def test_opsets(name, opset):
    found = exported(operator(name), opset)
    assert {"checker", "ONNX Runtime"} <= {*found.engines}, found.reason


def model_results(op, *arrays):
    model, feeds = operator_model(op, arrays)
    checked(model)
    return onnx_runtime(model, feeds)


@pytest.mark.parametrize(
    ("name", "attributes", "mean", "variance"),
    [
        ("random_uniform", {"low": -1, "high": 3}, 1, 4 / 3),
        ("random_normal", {"loc": 2, "scale": 0.5}, 2, 0.25),
        ("random_exponential", {"lam": 2}, 0.5, 0.25),
        ("random_gamma", {"alpha": 0.5, "beta": 2}, 1, 2),
        ("random_poisson", {"lam": 3}, 3, 3),
        ("random_negative_binomial", {"k": 3, "p": 0.5}, 3, 6),
        ("random_bernoulli", {"prob": 0.25}, 0.25, 3 / 16),
        ("random_randint", {"low": 2, "high": 5}, 3, 2 / 3),
    ],
)
def test_random_samples_have_the_moments_of_their_distribution(name, attributes, mean, variance):
    count = 40_000
    (found,) = model_results(operator(name).bind(shape=(count,), **attributes))
    assert found.shape == (count,)
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / count)
    assert abs(found.var() - variance) < 0.1 * variance


def test_half_precision_is_rounded_once():
    x = np.linspace(-3, 3, 21).astype(np.float16)
    (found,) = model_results(operator("tanh").bind(), x)
    assert found.dtype == np.float16
    assert np.abs(found.astype(float) - np.tanh(x.astype(float))).max() <= 2**-10


def test_bfloat16_is_computed_in_single_precision():
    dtype = mx.nd.ones((1,), dtype="bfloat16").dtype
    x = np.linspace(-3, 3, 21).astype(dtype)
    model, _ = operator_model(operator("tanh").bind(), [x])
    checked(model)
    assert [node.op_type for node in model.graph.node[:3]] == ["Cast", "Tanh", "Cast"]


def test_what_onnx_cannot_say_is_an_error_with_its_reason():
    with pytest.raises(OnnxExportError, match="_svd cannot be written as ONNX: it has no operator for singular values"):
        operator_model(operator("_svd").bind(), [np.eye(3, dtype=np.float32)])
    with pytest.raises(OnnxExportError, match="opset 18 is the first that has it; give a newer opset"):
        operator_model(operator("bitwise_and").bind(), [np.array([1, 2]), np.array([3, 4])], opset=13)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(n.partition(".")[2] for n in operator_registry.operators()))
def test_all_operators_can_be_written_or_have_a_reason(name):
    cls = operator_registry.operators().get(f"hybrid.{name}")
    if cls is None or not cls.samples() or name == "reset_arrays":  # which has no results
        return
    found = exported(cls)
    if found.engines:
        require_export(name)
    else:
        assert any(reason in found.reason for reason in REASONS.values()), found.reason


def test_a_result_that_is_off_is_found():
    assert difference([np.array([1.0, 2.1])], [np.array([1.0, 2.0])]) == "result 0 is off by 0.1 where the largest is 2"
