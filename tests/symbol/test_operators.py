"""Every operator's samples as symbols: inference, executors and gradients agree with eager calls.

That native code computes the same is shown by ``tests/ops/test_hybridized.py``.
"""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import random
from hybridc.array.dispatch import invoke
from hybridc.dialects.operator import Elementwise
from hybridc.dialects.stateful import Stateful
from hybridc.ground.nesting import as_list
from hybridc.symbol.composed import COMPOSER
from hybridc.tools.check_op import case as cases
from tests.ops.samples import divided, each
from tests.slices import alone_if_wrong, in_groups

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


def composed(cases):
    """The operators as one symbol on variables, the outputs of each, and arrays for the variables."""
    symbols, arrays = [], {}
    for number, case in enumerate(cases):
        own = {f"x{number}_{i}": x for i, x in enumerate(case.arrays())}
        with COMPOSER.active():
            symbols.append(as_list(invoke(case.unbound(), [mx.sym.var(name) for name in own])))
        arrays |= own
    counts = [sum(len(s.list_outputs()) for s in made) for made in symbols]
    whole = mx.sym.Group([s for made in symbols for s in made])
    return whole, counts, arrays


def bind(symbol, arrays, grads=None):
    states = symbol.list_auxiliary_states()
    given = {name: mx.nd.array(x, dtype=x.dtype) for name, x in arrays.items()}
    args = {name: x for name, x in given.items() if name not in states}
    return symbol.bind(mx.cpu(), args, grads, aux_states={name: given[name] for name in states})


def parts(values, counts):
    """The values of each operator."""
    given = iter(values)
    return [[next(given) for _ in range(count)] for count in counts]


def executed(of):
    """A decorator: one test for each executor of many cases; what draws numbers or keeps a state is alone."""
    rows = []
    for long, chosen in enumerate(divided(of, every=12)):
        alone = [case for cls, _, case in chosen if cls.DRAWS or issubclass(cls, Stateful)]
        rest = [case for cls, _, case in chosen if not (cls.DRAWS or issubclass(cls, Stateful))]
        for group in [*in_groups(rest, 16), *in_groups(alone, 1)]:
            marks = pytest.mark.long if long else ()
            rows.append(pytest.param(group, id=f"from {group[0].call}{' more' * long}", marks=marks))
    return pytest.mark.parametrize("group", rows)


@executed(cases.each_sample)
@pytest.mark.usefixtures("by_numpy")
def test_as_an_executor(group):
    alone_if_wrong(group, forward, lambda case: case.call)


def forward(group):
    symbol, counts, arrays = composed(group)
    given = parts(arrays.values(), [len(case.sample.inputs) for case in group])
    wanted = [cases.ndarrays(own) for own in given]
    want = [cases.run(case.unbound(), own) for case, own in zip(group, wanted, strict=True)]
    executor = bind(symbol, arrays)
    assert [y.shape for y in executor.outputs] == [y.shape for ys in want for y in ys]
    assert [y.dtype for y in executor.outputs] == [y.dtype for ys in want for y in ys]
    with random.isolated(11), np.errstate(all="ignore"):
        found = parts(executor.forward(), counts)
    for case, got, ours in zip(group, found, want, strict=True):
        cases.all_close(got, ours, case.dtype, 4, case.call)
    names = parts(arrays, [len(own) for own in given])
    for case, own, before in zip(group, names, wanted, strict=True):
        for name, x in zip(own, before, strict=True):
            if name in executor.aux_dict:
                cases.close(executor.aux_dict[name].asnumpy(), x.asnumpy(), case.dtype, 4, f"{case.call}: {name}")


@executed(cases.each_gradient)
@pytest.mark.usefixtures("by_numpy")
def test_gradients_of_an_executor(group):
    alone_if_wrong(group, gradients, lambda case: case.call)


def gradients(group):
    symbol, _, arrays = composed(group)
    grads = {name: mx.nd.zeros(x.shape, dtype=x.dtype) for name, x in arrays.items() if x.dtype.kind == "f"}
    counts = [len(case.sample.inputs) for case in group]
    weights, want = [], []
    for case, own in zip(group, parts(arrays.values(), counts), strict=True):
        weights.append(cases.weights_of(cases.run(case.unbound(), cases.ndarrays(own))))
        want.append(cases.gradients(case.unbound(), own, weights[-1], training=True))
    executor = bind(symbol, arrays, {k: g for k, g in grads.items() if k not in symbol.list_auxiliary_states()})
    with random.isolated(11), np.errstate(all="ignore"):
        executor.forward(is_train=True)
        executor.backward([mx.nd.array(w, dtype=w.dtype) for ws in weights for w in ws])
    for case, names, ours in zip(group, parts(arrays, counts), want, strict=True):
        for name, wanted in zip(names, ours, strict=True):
            if executor.grad_dict.get(name) is not None and wanted is not None:
                cases.close(executor.grad_dict[name].asnumpy(), wanted, "float64", 10, what=f"{case.call}: {name}")


@each(cases.each_sample, lambda cls: cls.NAME != "hybrid.reset_arrays")  # which has no result
def test_inferred_from_all_and_from_some(case):
    symbol, _, arrays = composed([case])
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
