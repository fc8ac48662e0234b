"""Kernels as data, and the functions that they print as."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp

import hybridc as mx
from hybridc.gluon import nn, rnn
from hybridc.ir.kernels.kernel import KernelValue
from hybridc.ir.kernels.kernel_module import KernelFunction, kernel_functions
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import shape_of
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import parse
from tests.lower.write_kernel import kernels as random_kernels
from tests.slices import tries


@settings(max_examples=tries(100), deadline=None)
@given(text=random_kernels())
def test_the_function_of_a_kernel_that_was_read_computes_the_same(text):
    module = parse(text)
    (function,) = kernel_functions(module).values()
    written = KernelFunction.of(function.kernel)
    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-2, 2, shape_of(a)) for a in function.body.block.args]
    got, want = (Evaluator(m).call("kernel", *arrays) for m in (ModuleOp([written]), module))
    for y, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(y, w)


class Gathers(mx.gluon.HybridBlock):
    """Reads at computed indices, of unsigned and signed integers, and indices themselves."""

    def hybrid_forward(self, F, x):
        counts = F.cast(F.abs(x), "uint8")
        return F.take(x, F.argmax(x, axis=1)), F.flip(counts, axis=1) + 1, F.cumsum(x, axis=0)


def attention():
    """Scores, a softmax of their rows, and what they weigh."""
    return nn.HybridLambda(lambda F, x: F.batch_dot(F.softmax(F.batch_dot(x, x, transpose_b=True)), x))


NETWORKS = {
    "softmax": (lambda: nn.HybridLambda("softmax"), (9, 33)),
    "gathers": (Gathers, (5, 7)),
    "dense": (lambda: nn.Dense(24, activation="tanh"), (300, 40)),
    "convolution": (lambda: nn.Conv2D(16, 3, padding=1, activation="relu"), (2, 16, 16, 16)),
    "attention": (attention, (4, 64, 16)),
    "lstm": (lambda: rnn.LSTM(8), (3, 2, 4)),
}


@pytest.mark.parametrize("target", ["llvm", "numpy", "triton"])
@pytest.mark.parametrize("name", NETWORKS)
def test_kernels_of_networks_are_read_as_they_were_written(name, target):
    make, shape = NETWORKS[name]
    net, x = make(), mx.nd.ones(shape)
    net.initialize()
    net(x)
    module = net.trace(x).optimize().form(target).module
    functions = kernel_functions(module).values()
    assert functions
    for function in functions:
        kernel = read_kernel(function)
        written = KernelFunction.of(kernel)
        assert read_kernel(written).key == kernel.key
        assert str(written) == str(function)
        ModuleOp([written]).verify()


def test_a_kernel_at_other_sizes_is_the_same_one():
    net = nn.HybridLambda("softmax")
    (function,) = kernel_functions(net.trace(mx.nd.ones((9, 33))).optimize().form("llvm").module).values()
    kernel = function.kernel
    other = kernel.at(lambda n: 2 * n if n > 1 else n, [(0,)])
    assert other.identity is kernel.identity
    assert {*other.values} == {*kernel.values}
    assert other.values[kernel.arguments[0]].shape == (18, 66)
    assert [nest.domain for nest in other.nests] == [(18, 66)]
    assert other.results[0].shape == (18, 66)
    assert other.nests[0].varying == (0,)
    assert kernel.arguments[0].shape == (9, 33)


def test_values_of_equal_positions_are_equal():
    value = KernelValue(3, np.dtype("float32"), (2,))
    assert value == value.of_shape((5,)) != value.moved(4, (2,))
    assert value != 3
