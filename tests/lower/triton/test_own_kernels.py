"""Operators with a GPU kernel of their author's, by Triton's interpreter."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import MXNetError
from hybridc.lower.triton.handwritten_launch import launch
from tests.lower.triton.test_triton_networks import by_triton  # noqa: F401  (a fixture)

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import kernels_by_hand

pytestmark = pytest.mark.triton


def reference(x):
    x = x.astype(np.float64) * 2
    return np.tanh(x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)) + 1


@pytest.mark.usefixtures("by_triton")
@pytest.mark.parametrize("shape", [(6, 100), (1, 1), (2, 3, 33)])
def test_the_example(shape):
    x = np.random.default_rng(2).normal(size=shape).astype(np.float32)
    net = kernels_by_hand.Net()
    net.hybridize()
    np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), reference(x), rtol=1e-5)
    (graph,) = net._cached_graph.graphs()
    assert not graph.forward.program.host_calls
    assert "rms_kernel, written by hand" in graph.forward.program.code()


def test_elsewhere_it_is_what_its_kind_says():
    x = np.random.default_rng(2).normal(size=(6, 100)).astype(np.float32)
    net = kernels_by_hand.Net()
    net.hybridize()
    np.testing.assert_allclose(net(mx.nd.array(x)).asnumpy(), reference(x), rtol=1e-5)


def twice_kernel(x_ptr, y_ptr, BLOCK):
    i = tl.arange(0, BLOCK)  # noqa: F821  (kernels see it)
    tl.store(y_ptr + i, twice(tl.load(x_ptr + i)))  # noqa: F821


def twice(x):
    return x * 2


def test_helpers_are_brought_along():
    kernel = mx.op.TritonKernel(twice_kernel, (1,), constants={"BLOCK": 8}, helpers=[twice])
    kernel_launch = launch(kernel, [np.dtype("float32")] * 2)
    assert kernel_launch.function.source.index("def twice(") < kernel_launch.function.source.index("def twice_kernel(")
    assert kernel_launch.configs[0].grid == (1, 1, 1)


def test_a_kernel_without_source():
    with pytest.raises(MXNetError, match="define it with def, in a file"):
        launch(mx.op.TritonKernel(eval("lambda x_ptr: None"), (1,)), [np.dtype("float32")])
