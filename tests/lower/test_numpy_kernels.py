"""Every operator's kernels as NumPy runs them, against the meaning of the structured form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination

from hybridc.lower.hybrid_to_linalg import HybridToLinalg
from hybridc.lower.numpy import tiling
from hybridc.lower.structured import declared_dtypes, is_host, shape_of
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
from tests.lower.kernels import compiled, parse
from tests.lower.outline import outline
from tests.lower.test_hybrid_to_linalg import cases, inputs_of
from tests.lower.write_kernel import kernels as random_kernels


class Emitted(Evaluator):
    """Runs the calls of kernels by the code that is written for them."""

    def __init__(self, module, threads=1):
        super().__init__(module)
        self.compiled = {}
        self.threads = threads

    def call(self, name, *arrays):
        function = self.functions[name]
        if function.sym_visibility is None or is_host(function):
            return super().call(name, *arrays)
        if name not in self.compiled:
            self.compiled[name] = compiled(function, self.threads)[1]
        dtypes = declared_dtypes(function) or [x.dtype for x in arrays]
        given = [x.view(d) if d.kind == "u" else x for x, d in zip(arrays, dtypes, strict=False)]
        return [self.stored(y) for y in self.compiled[name](*given)]


def outlined(op, arrays, grads=()):
    """The stage for a block of one operator whose loops are kernels, each alone."""
    trace = trace_call(Net(op), [_EXTRA, *ndarrays(arrays)], False)
    stage = Traced(trace, tuple(i + 1 for i in grads)).optimize()
    passes = (HybridToLinalg(library="numpy"), CommonSubexpressionElimination(), DeadCodeElimination())
    for each in passes:
        each.apply(context(), stage.module)
    outline(stage.module)
    return stage


def forward(stage, arrays, threads):
    results = Emitted(stage.module, threads).call("forward", *inputs_of(stage, arrays))
    return results[: len(stage.trace.outputs) - len(stage.trace.updates)]


@pytest.fixture
def threads(monkeypatch):
    """Two threads that share tiles of three elements; what is one tile is run wherever networks are compiled."""
    for name in ("TILE_ELEMENTS", "SHARED_TILE_ELEMENTS", "PARALLEL_ELEMENTS"):
        monkeypatch.setattr(tiling, name, 3)
    return 2


@cases(each_dtype)
def test_forward(case, threads):
    arrays = case.arrays()
    got = forward(outlined(case.unbound(), arrays), arrays, threads)
    all_close([NDArray(y) for y in got], run(case.unbound(), ndarrays(arrays)), case.dtype, 4)


@cases(each_gradient)
def test_backward(case, threads):
    arrays = case.arrays("float64")
    grads = [i for i, x in enumerate(arrays) if x.dtype == np.float64 and case.differentiable(i)]
    weights = weights_of(run(case.unbound(), ndarrays(arrays)))
    stage = outlined(case.unbound(), arrays, grads)
    emitted = Emitted(stage.module, threads)
    inputs = inputs_of(stage, arrays)
    known = [*inputs, *emitted.call("forward", *inputs)]
    saved = emitted.functions["backward"].attributes["hybrid.saved"].get_values()
    got = emitted.call("backward", *[known[i] for i in saved], *weights)
    want = gradients(case.unbound(), arrays, weights)
    for i, g in zip(grads, got, strict=True):
        close(g, want[i] if want[i] is not None else np.zeros_like(arrays[i]), "float64", 100, f"gradient {i}")


@cases(each_elementwise)
def test_special_values(case):
    grids = np.meshgrid(*[SPECIAL] * len(case.sample.inputs))
    arrays = [g.astype("float32") for g in grids]
    got = forward(outlined(case.unbound(), arrays), arrays, 1)
    all_close([NDArray(y) for y in got], run(case.unbound(), ndarrays(arrays)), "float32", 4)


@cases(each_other_dtype)
def test_other_dtypes(case, threads):
    rng = np.random.default_rng(1)
    arrays = [rng.integers(1, 4, x.shape).astype(case.dtype) for x in case.arrays()]
    want = run(case.unbound(), ndarrays(arrays))
    got = forward(outlined(case.unbound(), arrays), arrays, threads)
    got = [y.view(w.dtype) if np.dtype(w.dtype).kind == "u" else y for y, w in zip(got, want, strict=True)]
    assert [y.dtype for y in got] == [np.dtype(w.dtype) for w in want]
    all_close([NDArray(y) for y in got], want, case.dtype, 2)


@settings(max_examples=100, deadline=None)
@given(text=random_kernels(), size=st.sampled_from([None, 1, 2, 4, 7, 20]), threads=st.sampled_from([1, 2]))
def test_random_kernels(text, size, threads):
    module = parse(text)
    evaluator = Evaluator(module)
    rng = np.random.default_rng(0)
    function = evaluator.functions["kernel"]
    arrays = [rng.uniform(-2, 2, shape_of(a)) for a in function.body.block.args]
    want = evaluator.call("kernel", *arrays)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("TILE_ELEMENTS", "SHARED_TILE_ELEMENTS", "PARALLEL_ELEMENTS") if size is not None else ():
            patch.setattr(tiling, name, size)
        emitter, run_kernel = compiled(function, threads)
    for pairs in ((), *[(pair,) for pair in emitter.inplace_pairs()]):
        got = run_kernel(*[x.copy() for x in arrays], inplace=pairs)
        for y, w in zip(got, want, strict=True):
            np.testing.assert_allclose(y, w, rtol=1e-12, atol=1e-12, err_msg=f"{pairs}\n{emitter.source()}")
