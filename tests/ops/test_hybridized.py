"""Every operator inside a hybridized block against the same operator run eagerly, forward and backward.

Most samples are in one of their element types, which differs from operator to operator; the backward is in float64 for
all of them.
"""

from __future__ import annotations

import pytest

from hybridc.tools.check_op import compiled
from hybridc.tools.check_op.case import each_sample, ndarrays
from tests.ops.samples import OURS, each


@each(compiled.compiled_forward, every=4)
def test_forward(case):
    compiled.compiled_forward(case)


@each(compiled.compiled_inputs_that_are_not_contiguous, every=4)
def test_inputs_that_are_not_contiguous(case):
    compiled.compiled_inputs_that_are_not_contiguous(case)


@each(compiled.compiled_backward, every=3)
def test_backward(case):
    compiled.compiled_backward(case)


@each(compiled.compiled_training)
def test_training(case):
    compiled.compiled_training(case)


@each(compiled.compiled_special_values, every=3)
def test_special_values(case):
    compiled.compiled_special_values(case)


@each(compiled.one_kernel_without_host_calls, every=3)
def test_elementwise_operators_are_one_kernel_without_host_calls(case):
    compiled.one_kernel_without_host_calls(case)


@each(compiled.other_dtypes, every=4)
def test_other_dtypes(case):
    compiled.other_dtypes(case)


@each(compiled.every_stage_on_every_target, lambda cls: cls.NAME in ("hybrid.add", "hybrid.softmax", "hybrid.split"))
def test_every_stage_on_every_target(case):
    compiled.every_stage_on_every_target(case)


# Operators that are passes over rows: all of one row fits into one kernel.
ROW_KERNELS = [
    "activation-0", "fully_connected-1", "instance_norm-0", "l2_normalization-0", "layer_norm-0",
    "leaky_relu-0", "log_softmax-0", "mean-1", "nansum-1", "norm-4", "prelu-0", "smooth_l1-0", "softmax-0", "softmin-0",
    "softmax_output-0", "square_sum-1", "sum-1",
]  # fmt: skip


@pytest.mark.parametrize("call", ROW_KERNELS)
def test_operators_over_rows_are_one_kernel(call):
    case = dict(each_sample(OURS[f"hybrid.{call.rpartition('-')[0]}"]))[call]
    net = compiled.block(case.unbound())
    compiled.call_of(net)(*ndarrays(case.arrays("float32")))
    assert "forward: 1 kernel, 0 of them host calls" in net.explain()
