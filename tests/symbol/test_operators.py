"""Every operator's samples as symbols: inference, executors and gradients agree with eager calls."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import random
from hybridc.array.dispatch import invoke
from hybridc.dialects.operator import Elementwise
from hybridc.symbol.composed import COMPOSER
from hybridc.tools.check_op import case as cases
from tests.ops.samples import samples

SAMPLES = samples(cases.each_sample)
SOME = samples(cases.each_sample, every=12)
GRADIENTS = samples(cases.each_gradient, every=12)

# Samples whose second input has another shape than the usual one; that of elementwise operators may broadcast.
SEVERAL_SHAPES = (
    "group_norm-0",
    "prelu-1",
    "linear_regression_output-1",
    "mae_regression_output-1",
    "logistic_regression_output-1",
    "where_by_shapes-0",
    "pick-1",
    "pick-2",
    "pick-4",
)


def composed(case):
    """The operator on variables x0, x1, … and the arrays for them."""
    arrays = dict(zip(["x0", "x1", "x2", "x3", "x4", "x5"], case.arrays(), strict=False))
    variables = [mx.sym.var(name) for name in arrays]
    with COMPOSER.active():
        symbol = invoke(case.unbound(), variables)
    return symbol, arrays


def bind(symbol, arrays, grads=None):
    states = symbol.list_auxiliary_states()
    given = {name: mx.nd.array(x, dtype=x.dtype) for name, x in arrays.items()}
    args = {name: x for name, x in given.items() if name not in states}
    return symbol.bind(mx.cpu(), args, grads, aux_states={name: given[name] for name in states})


@pytest.mark.parametrize("case", SOME)
def test_as_an_executor(case):
    symbol, arrays = composed(case)
    wanted = cases.ndarrays(arrays.values())
    want = cases.run(case.unbound(), wanted)
    executor = bind(symbol, arrays)
    assert [y.shape for y in executor.outputs] == [y.shape for y in want]
    assert [y.dtype for y in executor.outputs] == [y.dtype for y in want]
    with random.isolated(11), np.errstate(all="ignore"):
        got = executor.forward()
    cases.all_close(got, want, case.dtype, 4)
    for name, before in zip(arrays, wanted, strict=True):
        if name in executor.aux_dict:
            cases.close(executor.aux_dict[name].asnumpy(), before.asnumpy(), case.dtype, 4)


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_of_an_executor(case):
    symbol, arrays = composed(case)
    grads = {name: mx.nd.zeros(x.shape, dtype=x.dtype) for name, x in arrays.items() if x.dtype.kind == "f"}
    outputs = cases.run(case.unbound(), cases.ndarrays(arrays.values()))
    weights = cases.weights_of(outputs)
    want = cases.gradients(case.unbound(), list(arrays.values()), weights, training=True)
    executor = bind(symbol, arrays, {k: g for k, g in grads.items() if k not in symbol.list_auxiliary_states()})
    with random.isolated(11), np.errstate(all="ignore"):
        executor.forward(is_train=True)
        executor.backward([mx.nd.array(w, dtype=w.dtype) for w in weights])
    for name, wanted in zip(arrays, want, strict=True):
        if executor.grad_dict.get(name) is not None and wanted is not None:
            cases.close(executor.grad_dict[name].asnumpy(), wanted, "float64", 10, what=name)


@pytest.mark.parametrize("case", SAMPLES)
def test_inferred_from_all_and_from_some(case):
    symbol, arrays = composed(case)
    outputs = cases.run(case.unbound(), cases.ndarrays(arrays.values()))
    known = {name: x.shape for name, x in arrays.items()}
    if any(0 in s or s == () for s in known.values()) or any(0 in y.shape or y.shape == () for y in outputs):
        known = {}  # 0 and () mean "unknown" to infer_shape
    sizes = {**known, **{f"output{i}": y.shape for i, y in enumerate(outputs)}}
    names = symbol.list_arguments(), [f"output{i}" for i in range(len(outputs))], symbol.list_auxiliary_states()
    alone = [] if isinstance(case.operator(), Elementwise) or case.call in SEVERAL_SHAPES else list(known.items())
    for given in [known, *[{n: s} for n, s in alone]] if known else []:
        found = symbol.infer_shape_partial(**given)
        for name, shape in [pair for ns, ss in zip(names, found, strict=True) for pair in zip(ns, ss, strict=True)]:
            if shape == ():
                assert given is not known, name
                continue
            assert len(shape) == len(sizes[name]), name
            assert all(n in (0, m) for n, m in zip(shape, sizes[name], strict=True)), (name, shape, sizes[name])
    types = symbol.infer_type(**{name: x.dtype for name, x in arrays.items()})
    assert types[1] == [y.dtype for y in outputs]
