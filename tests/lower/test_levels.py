"""Every operator's samples at every level of the lowering, forward and backward, against eager calls.

All cases of an operator are one graph (``tests/ops/together.py``), and it walks down once: the structured form and the
form without views run by their meaning (``evaluate.py``); the planned program by the code that the NumPy target writes,
each operation a kernel of its own, its tiles of three elements shared by two threads, in memory that is poisoned.
"""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.array.ndarray import NDArray
from hybridc.compile.stages import Traced
from hybridc.tools.check_op.case import all_close, close, gradients, ndarrays, run, weights_of
from hybridc.tools.check_op.check_compiled import _EXTRA
from hybridc.trace.tracer import trace_call
from hybridc.transforms.schedules.arrays import schedule_arrays
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine
from tests.lower.evaluate import Evaluator
from tests.lower.levels import inputs_of, numpy_form, parses_to_itself, planned, program, saved, without_views
from tests.ops.samples import operators
from tests.ops.together import (
    Together,
    backward_parts,
    by_part,
    each_group,
    forward_parts,
    of_each_dtype,
    of_every_third,
)


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of three elements; what is one tile is run wherever networks are compiled."""
    monkeypatch.setattr(schedule_arrays, "MACHINE", ArrayMachine(3, 3, parallel_elements=3))


# Operators that are hundreds of steps.
LARGE = ("modulated_deformable_convolution", "deformable_psroi_pooling", "spatial_transformer")


@operators(forward_parts, of_each_dtype, every=10, long=LARGE)
def test_forward(parts):
    each_group(parts, forward)


def forward(parts):
    """Each level gives what eager calls give; a planned program gives it twice, whatever the first call left."""
    stage = traced(parts).optimize()
    want = [run(part.case.unbound(), ndarrays(part.arrays)) for part in parts]

    def compare(level, results):
        outputs = by_part(parts, results[: len(stage.trace.outputs) - len(stage.trace.updates)])
        for part, got, ours in zip(parts, outputs, want, strict=True):
            got = [y.view(w.dtype) if np.dtype(w.dtype).kind == "u" else y for y, w in zip(got, ours, strict=True)]
            assert [y.dtype for y in got] == [np.dtype(w.dtype) for w in ours], f"{part.label}, {level}"
            all_close([NDArray(y) for y in got], ours, part.dtype, part.factor, f"{part.label}, {level}: result")

    def inputs():
        return inputs_of(stage.trace, arrays_of(parts))

    structured = stage.structure()
    parses_to_itself(str(structured))
    compare("structured", Evaluator(structured.module).call("forward", *inputs()))
    module = numpy_form(stage)
    folded = without_views(module)
    if folded is not None:
        compare("folded", Evaluator(folded, views=True).call("forward", *inputs()))
    planned(module)
    plain, poisoned = program(module, poison=False), program(module)
    for each in (plain, plain, poisoned, poisoned):
        compare("planned", each(*inputs()))


@operators(backward_parts, of_every_third, every=10, long=LARGE)
def test_backward(parts):
    each_group(parts, backward)


def backward(parts):
    """Each level gives the gradients of the eager tape."""
    offsets = np.cumsum([1, *(len(part.arrays) for part in parts)])
    grads = tuple(int(o) + i for part, o in zip(parts, offsets, strict=False) for i in part.differentiated())
    stage = traced(parts, grads).optimize()
    weights, want = [], []
    for part in parts:
        own = weights_of(run(part.case.unbound(), ndarrays(part.arrays)))
        found = gradients(part.case.unbound(), part.arrays, own)
        weights += own
        want.append([x if g is None else g for g, x in zip(found, map(np.zeros_like, part.arrays), strict=True)])

    def compare(level, results):
        counts = [len(part.differentiated()) for part in parts]
        for part, got, ours in zip(parts, by_part(parts, results, counts), want, strict=True):
            for i, g in zip(part.differentiated(), got, strict=True):
                close(g, ours[i], "float64", part.factor, f"{part.label}, {level}: gradient {i}")

    inputs = inputs_of(stage.trace, arrays_of(parts))

    def evaluated(evaluator):
        known = [*inputs, *evaluator.call("forward", *inputs)]
        return evaluator.call("backward", *[known[i] for i in saved(evaluator.functions["backward"])], *weights)

    compare("structured", evaluated(Evaluator(stage.structure().module)))
    module = numpy_form(stage)
    folded = without_views(module)
    if folded is not None:
        compare("folded", evaluated(Evaluator(folded, views=True)))
    planned(module)
    ahead, back = program(module), program(module, "backward")
    known = [*inputs, *ahead.run_in(ahead.acquire(), inputs)]
    (function,) = [f for f in module.ops if f.sym_name.data == "backward"]
    compare("planned", back([None] * len(grads), *[known[i] for i in saved(function)], *weights))


def traced(parts, grads=()):
    inputs = [_EXTRA, *[x for part in parts for x in ndarrays(part.arrays)]]
    return Traced(trace_call(Together(parts), inputs, False), grads)


def arrays_of(parts):
    """Copies of all inputs, one part after the other."""
    return [x.copy() for part in parts for x in part.arrays]
