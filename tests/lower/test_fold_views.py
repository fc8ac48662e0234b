"""The structured form without the views between loops computes what it did, and has the views that it should have."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.func import FuncOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from hybridc import random
from hybridc.lower import spec
from hybridc.lower.hybrid_to_linalg import HybridToLinalg
from hybridc.lower.structured import VIEWS, shape_of
from hybridc.nd.ndarray import NDArray
from hybridc.stages import Traced
from hybridc.tools.check_op.case import (
    all_close,
    close,
    each_dtype,
    each_gradient,
    gradients,
    ndarrays,
    run,
    weights_of,
)
from hybridc.tools.check_op.compiled import _EXTRA, Net
from hybridc.trace.tracer import trace_call
from hybridc.transforms.fold_views import FoldViews
from tests.lower.evaluate import Evaluator
from tests.ops.samples import OURS

PASSES = (
    HybridToLinalg("numpy"), CommonSubexpressionElimination(), DeadCodeElimination(),
    FoldViews(), CommonSubexpressionElimination(), DeadCodeElimination(),
)  # fmt: skip


def cases(each):
    return pytest.mark.parametrize(
        "case", [pytest.param(case, id=label) for cls in OURS.values() for label, case in each(cls)]
    )


def folded(trace, grads=()):
    module = Traced(trace, grads).optimize().module.clone()
    for each in PASSES:
        each.apply(Context(), module)
        module.verify()
        spec.check(module, spec.level_after(each.name, "structured"), each.name)
    for function in bodies(module):
        check_form(function)
    return module


def bodies(module):
    return [op for op in module.ops if isinstance(op, FuncOp) and op.body.blocks]


def check_form(function):
    """What every folded function is like."""
    for op in function.body.block.ops:
        if isinstance(op, (*VIEWS, linalg.GenericOp, linalg.MatmulOp)):
            assert "hybrid.operator" in op.attributes, op
        if not isinstance(op, linalg.GenericOp):
            continue
        maps = [[e.position for e in m.data.results] for m in op.indexing_maps.data]
        kinds = [k.data.value for k in op.iterator_types.data]
        assert maps[-1] == list(range(len(maps[-1]))), "the loops of the result come first, in its order"
        assert kinds == ["parallel"] * len(maps[-1]) + ["reduction"] * (len(kinds) - len(maps[-1]))
        walked = [pair for m, v in zip(maps, op.operands, strict=True) for pair in zip(m, shape_of(v), strict=True)]
        sizes = dict(walked)
        if shape_of(op.results[0]) != (1,):  # there is no other way from rank 0
            assert 1 not in sizes.values(), op
        if 0 not in sizes.values():
            for value in op.inputs:
                assert not isinstance(value.owner, linalg.TransposeOp), "loops read through an indexing map"


def inputs_of(trace, arrays):
    given = iter([_EXTRA.asnumpy(), *arrays])
    with random.isolated(11):
        return [trace.draw_key().asnumpy() if r == "key" else next(given) for r in trace.roles]


@cases(each_dtype)
def test_forward(case):
    arrays = case.arrays()
    trace = trace_call(Net(case.unbound()), [_EXTRA, *ndarrays(arrays)], False)
    results = Evaluator(folded(trace), views=True).call("forward", *inputs_of(trace, arrays))
    results = results[: len(trace.outputs) - len(trace.updates)]
    all_close([NDArray(y) for y in results], run(case.unbound(), ndarrays(arrays)), case.dtype, 4)


@cases(each_gradient)
def test_backward(case):
    arrays = case.arrays("float64")
    grads = [i for i, x in enumerate(arrays) if x.dtype == np.float64 and case.differentiable(i)]
    weights = weights_of(run(case.unbound(), ndarrays(arrays)))
    trace = trace_call(Net(case.unbound()), [_EXTRA, *ndarrays(arrays)], False)
    evaluator = Evaluator(folded(trace, tuple(i + 1 for i in grads)), views=True)
    got = forward_and_backward(evaluator, inputs_of(trace, arrays), weights)
    want = gradients(case.unbound(), arrays, weights)
    for i, g in zip(grads, got, strict=True):
        close(g, want[i] if want[i] is not None else np.zeros_like(arrays[i]), "float64", 100, f"gradient {i}")


def forward_and_backward(evaluator, inputs, weights):
    known = [*inputs, *evaluator.call("forward", *inputs)]
    saved = evaluator.functions["backward"].attributes["hybrid.saved"]
    assert isinstance(saved, DenseArrayBase)
    return evaluator.call("backward", *[known[i] for i in saved.get_values()], *weights)
