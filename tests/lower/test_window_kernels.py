"""What windows of images become: affine reads in the loops that use them, and nothing of the size of all windows."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.structured import affine_operands, kernels
from hybridc.trace.tracer import trace_call

NCHW, NHWC = (2, 16, 20, 24), (2, 20, 24, 16)


def launches(function, shape, grads=False):
    """The kernels of each program, without host calls, and the module."""
    net, x = HybridLambda(function), mx.nd.ones(shape)
    trace = trace_call(net, [x], grads)
    lowered = Traced(trace, (0,) if grads else ()).optimize().lower("llvm")
    assert not [p.host_calls for p in lowered.programs.values() if p.host_calls]
    return {name: list(p.launches) for name, p in lowered.programs.items()}, lowered.module


POOLING = {
    "max": {"kernel": (3, 3), "stride": (2, 2), "pool_type": "max"},
    "max of a padded image": {"kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "max"},
    "mean": {"kernel": (2, 2), "stride": (2, 2), "pool_type": "avg"},
    "mean without padding": {
        "kernel": (3, 3), "stride": (2, 2), "pad": (1, 1), "pool_type": "avg", "count_include_pad": False,
    },
    "global mean": {"global_pool": True, "pool_type": "avg"},
    "global max": {"global_pool": True, "pool_type": "max"},
    "norm": {"kernel": (2, 2), "pool_type": "lp", "p_value": 2},
}  # fmt: skip


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", POOLING)
def test_pooling_is_one_kernel(name, layout):
    shape = NCHW if layout == "NCHW" else NHWC
    found, _ = launches(lambda F, x: F.relu(F.Pooling(x, layout=layout, **POOLING[name])), shape)
    assert len(found["forward"]) == 1, found


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("name", ["max", "max of a padded image", "mean"])
def test_a_backward_of_pooling_is_two_kernels_of_the_size_of_images(name, layout):
    """The places of maxima, or the quotients of gradients, of which there is one for each window; and the sums."""
    shape = NCHW if layout == "NCHW" else NHWC
    net = HybridLambda(lambda F, x: F.Pooling(x, layout=layout, **POOLING[name]))
    trace = trace_call(net, [mx.nd.ones(shape)], True)
    lowered = Traced(trace, (0,)).optimize().lower("llvm")
    assert len(lowered.programs["backward"].launches) <= 2, lowered.programs["backward"].launches
    windows = net(mx.nd.ones(shape)).size
    assert lowered.programs["backward"].arena <= 4 * windows + 256


@pytest.mark.parametrize("function", [
    lambda F, x: F.Pooling(x, kernel=(2, 2), stride=(2, 2)),
    lambda F, x: F.sum(F.windows(x, axes=(2, 3), kernel=(3, 3), count=(18, 22)), axis=(4, 5)),
], ids=["in one body", "reduced"])  # fmt: skip
def test_windows_are_operands_with_affine_maps(function):
    found, module = launches(function, NCHW)
    (kernel,) = kernels(module).values()
    assert any(affine_operands(op) for op in kernel.body.block.ops)
    assert "tensor.extract " not in str(kernel)
    assert len(found["forward"]) == 1


def test_a_network_says_so():
    net = HybridLambda(lambda F, x: F.Pooling(F.relu(x), kernel=(2, 2), stride=(2, 2), pool_type="avg"))
    net.hybridize()
    net(mx.nd.ones(NCHW))
    kernels = [line.partition(":")[0] for line in net.explain().splitlines()[-2:]]
    assert kernels == ["    kernel k_relu", "    kernel fused_window_sum_divide"]


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_equal_maxima_have_their_first_gradient_on_every_target(target):
    """As in MXNet; of windows of more elements than one loop body reads as well."""
    x = np.random.default_rng(0).integers(0, 3, (2, 3, 12, 13)).astype(np.float32)
    for kernel in ((3, 3), (9, 9)):
        net = HybridLambda(lambda F, x, kernel=kernel: F.Pooling(x, kernel=kernel, stride=(2, 2), pad=(1, 1)))
        traced = trace_call(net, [mx.nd.array(x)], True)
        lowered = Traced(traced, (0,)).optimize().lower(target).compile()
        data = mx.nd.array(x)
        data.attach_grad()
        with mx.autograd.record():
            y = lowered(data)
        y.backward()
        np.testing.assert_array_equal(data.grad.asnumpy(), first_maxima(x, kernel, y.shape))


def first_maxima(x, kernel, shape):
    grad = np.zeros_like(x)
    for n, c, i, j in np.ndindex(shape):
        rows = range(max(2 * i - 1, 0), min(2 * i - 1 + kernel[0], x.shape[2]))
        columns = range(max(2 * j - 1, 0), min(2 * j - 1 + kernel[1], x.shape[3]))
        row, column = max(((r, q) for r in rows for q in columns), key=lambda p: x[(n, c, *p)])
        grad[n, c, row, column] += 1
    return grad
