"""Every operator inside a hybridized block against the same operator run eagerly, forward and backward.

All cases of an operator are one block (``tests/ops/together.py``).
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from hybridc import autograd
from hybridc.array.ndarray import NDArray
from hybridc.dialects.operator import Elementwise
from hybridc.dialects.stateful import Stateful
from hybridc.tools.check_op import check_compiled as compiled
from hybridc.tools.check_op.case import (
    all_close,
    close,
    each_sample,
    equal,
    gradients,
    heads_of,
    input_name,
    ndarrays,
    require,
    run,
    weights_of,
    within,
)
from tests.ops.samples import OURS, each, operators
from tests.ops.together import (
    Part,
    Together,
    backward_parts,
    by_part,
    each_group,
    forward_parts,
    inputs_of,
    of_each_dtype,
    of_every_third,
)


def hybridized(parts):
    """A hybridized block of the parts, and it as a function of the inputs of each part."""
    net = Together(parts)
    net.hybridize()
    apply = compiled.call_of(net)
    return net, lambda inputs: by_part(parts, apply(*[x for given in inputs for x in given]))


# Of two operators ``make test`` takes one forwards and the other one forwards and backwards, if it has a gradient.
DIFFERENTIATED = {number for number, cls in enumerate(OURS.values()) if backward_parts(cls)}


@operators(forward_parts, lambda n, part: (n % 2 == 0 or n not in DIFFERENTIATED) and of_each_dtype(n, part))
def test_forward(parts):
    each_group(parts, forward)


def forward(parts):
    """What eager calls give, also in the inputs that the operator updates; however the inputs lie in memory."""
    net, apply = hybridized(parts)
    wanted = inputs_of(parts)
    want = [run(part.case.unbound(), given) for part, given in zip(parts, wanted, strict=True)]
    # The first call compiles, the second finds the compiled graph; but then a state is not what it was.
    turns = ("first",) if issubclass(parts[0].case.cls, Stateful) else ("first", "second")
    for turn in turns:
        inputs = inputs_of(parts)
        found = apply(inputs)
        for part, given, got, ours, theirs in zip(parts, inputs, found, want, wanted, strict=True):
            op = part.case.unbound()
            equal([y.dtype for y in got], [w.dtype for w in ours], f"dtypes of the {turn} call")
            all_close(got, ours, part.dtype, part.factor, f"result of the {turn} call")
            for i in op.mutated:
                what = f"input {input_name(op, i)} after the {turn} call"
                close(given[i].asnumpy(), theirs[i].asnumpy(), part.dtype, part.factor, what)
    if len(turns) == 2:
        found = apply([[NDArray(np.asarray(x.T, order="C").T) for x in part.arrays] for part in parts])
        for part, got, ours in zip(parts, found, want, strict=True):
            all_close(got, ours, part.dtype, part.factor, "result for inputs that are not contiguous")
    if issubclass(parts[0].case.cls, Elementwise):
        said = re.search(r"forward: (\d+) kernels?, (\d+) of them host calls", net.explain())
        kernels, calls = map(int, said.groups())
        require(kernels <= len(parts) and calls == 0, f"one kernel each, without host calls:\n{said.group()}")


@operators(backward_parts, lambda n, part: n % 2 == 1 and of_every_third(n, part))
def test_backward(parts):
    """The compiled backward gives what the eager tape gives."""
    each_group(parts, lambda group: backward(group, training=False))


def training_parts(cls):
    """Samples of operators that know training from prediction."""
    return [Part(label, case, case.arrays("float64"), 100) for label, case in compiled.each_training(cls)]


@operators(training_parts, long=("rnn",))
def test_training(parts):
    each_group(parts, lambda group: backward(group, training=True))


def backward(parts, training):
    """Results and gradients of the weighted sum of all results."""
    _, apply = hybridized(parts)
    inputs = inputs_of(parts)
    for part, given in zip(parts, inputs, strict=True):
        for i in part.differentiated():
            given[i].attach_grad()
    with autograd.record(train_mode=training):
        found = apply(inputs)
    heads, wanted = [], []
    for part, got in zip(parts, found, strict=True):
        op = part.case.unbound()
        with autograd.train_mode() if training else autograd.predict_mode():
            outputs = run(op, ndarrays(part.arrays))
        all_close(got, outputs, "float64", part.factor)
        weights = weights_of(outputs)
        heads += heads_of(got, weights)
        wanted.append(gradients(op, part.arrays, weights, training))
    if heads:
        autograd.backward([y for y, _ in heads], [w for _, w in heads], train_mode=training)
    for part, given, want in zip(parts, inputs, wanted, strict=True):
        for i in part.differentiated():
            what = f"gradient of input {input_name(part.case.unbound(), i)}, against eager"
            assert want[i] is not None
            within(given[i].grad.asnumpy(), want[i], 1e-8, 1e-9, what)


@each(compiled.every_stage_on_every_target, lambda cls: cls.NAME in ("hybrid.add", "hybrid.softmax", "hybrid.split"))
@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_every_stage_on_every_target(case, target):
    compiled.compare_on(case, target)


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
