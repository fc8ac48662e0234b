"""The structured form of every operator, forward and backward, run by its meaning, against eager calls."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.parser import Parser

from hybridc import random
from hybridc.nd.ndarray import NDArray
from hybridc.pipeline import context
from hybridc.stages import Traced
from hybridc.tools.check_op.case import (
    SPECIAL,
    all_close,
    close,
    each_dtype,
    each_elementwise,
    each_gradient,
    gradients,
    ndarrays,
    run,
    weights_of,
)
from hybridc.tools.check_op.compiled import _EXTRA, Net, each_other_dtype
from hybridc.trace.tracer import trace_call
from tests.lower.evaluate import Evaluator
from tests.ops.samples import OURS


def cases(each, keep=lambda case: True):
    found = [pytest.param(case, id=label) for cls in OURS.values() for label, case in each(cls) if keep(case)]
    return pytest.mark.parametrize("case", found)


def structured(op, arrays, grads=(), training=False):
    """The stage for a block of one operator; it has one more input, so that it has any."""
    trace = trace_call(Net(op), [_EXTRA, *ndarrays(arrays)], training)
    return Traced(trace, tuple(i + 1 for i in grads)).optimize().structure()


def inputs_of(stage, arrays):
    """What the compiled graph passes: the data, and the key of the run."""
    given = iter([_EXTRA.asnumpy(), *arrays])
    with random.isolated(11):
        return [stage.trace.draw_key().asnumpy() if r == "key" else next(given) for r in stage.trace.roles]


def forward(stage, arrays):
    results = Evaluator(stage.module).call("forward", *inputs_of(stage, arrays))
    return results[: len(stage.trace.outputs) - len(stage.trace.updates)]


def backward(stage, arrays, weights):
    run_module = Evaluator(stage.module)
    inputs = inputs_of(stage, arrays)
    known = [*inputs, *run_module.call("forward", *inputs)]
    saved = run_module.functions["backward"].attributes["hybrid.saved"]
    assert isinstance(saved, DenseArrayBase)
    return run_module.call("backward", *[known[i] for i in saved.get_values()], *weights)


def states(case):
    return any(np.dtype(d) == object for d in case.operator().infer_type([x.dtype for x in case.arrays()])[1])


def parses_to_itself(printed):
    if "#hybrid.handle" in printed:  # an object of this process
        return
    module = Parser(context(), printed).parse_module()
    module.verify()
    assert str(module) == printed


@cases(each_dtype)
def test_forward(case):
    arrays = case.arrays()
    stage = structured(case.unbound(), arrays)
    if case.dtype == case.sample.dtypes[0]:
        parses_to_itself(str(stage))
    all_close([NDArray(y) for y in forward(stage, arrays)], run(case.unbound(), ndarrays(arrays)), case.dtype, 4)


@cases(each_gradient)
def test_backward(case):
    arrays = case.arrays("float64")
    grads = [i for i, x in enumerate(arrays) if x.dtype == np.float64 and case.differentiable(i)]
    outputs = run(case.unbound(), ndarrays(arrays))
    weights = weights_of(outputs)
    stage = structured(case.unbound(), arrays, grads)
    got = backward(stage, arrays, weights)
    want = gradients(case.unbound(), arrays, weights)
    for i, g in zip(grads, got, strict=True):
        close(g, want[i] if want[i] is not None else np.zeros_like(arrays[i]), "float64", 100, f"gradient {i}")


@cases(each_elementwise)
def test_special_values(case):
    grids = np.meshgrid(*[SPECIAL] * len(case.sample.inputs))
    arrays = [g.astype("float32") for g in grids]
    got = forward(structured(case.unbound(), arrays), arrays)
    all_close([NDArray(y) for y in got], run(case.unbound(), ndarrays(arrays)), "float32", 4)


@cases(each_other_dtype)
def test_other_dtypes(case):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(1, 4, x.shape).astype(case.dtype) for x in case.arrays()]
    want = run(case.unbound(), ndarrays(arrays))
    got = forward(structured(case.unbound(), arrays), arrays)
    assert [y.dtype for y in got] == [np.dtype(w.dtype) for w in want]
    all_close([NDArray(y) for y in got], want, case.dtype, 2)
