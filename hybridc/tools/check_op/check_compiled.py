"""Checks of an operator in compiled networks: on every target, forward and backward, against eager calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from xdsl.context import Context

from hybridc import autograd, random
from hybridc.array.dispatch import invoke
from hybridc.array.ndarray import NDArray
from hybridc.compile.stages import Traced
from hybridc.compile.targets import TARGETS
from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.operator import Elementwise, Operator, Reduction
from hybridc.dialects.stateful import Stateful
from hybridc.gluon.block import HybridBlock
from hybridc.ground.nesting import as_list
from hybridc.ir.structured import handwritten_kernel
from hybridc.tools.check_op.case import (
    SPECIAL,
    Case,
    Found,
    all_close,
    close,
    each_dtype,
    each_elementwise,
    each_gradient,
    each_sample,
    eager,
    equal,
    gradients,
    heads_of,
    input_name,
    keyed,
    ndarrays,
    require,
    run,
    takes,
    weights_of,
    where,
    within,
)
from hybridc.tools.check_op.checks import check
from hybridc.trace.tracer import trace_call
from hybridc.transforms.memory.verify_plan import VerifyPlan

_EXTRA = NDArray(np.zeros(1, dtype=np.float32))


class OperatorNet(HybridBlock):
    """A block of one operator; it takes one more input, so that operators without inputs can be compiled."""

    def __init__(self, op: Operator) -> None:
        super().__init__()
        self.op = op

    def forward(self, *args: Any) -> Any:
        """The operator, without the additional input."""
        return invoke(self.op, args[1:])


def block(op: Operator) -> OperatorNet:
    """A hybridized block of the operator."""
    net = OperatorNet(op)
    net.hybridize()
    return net


def call_of(net: OperatorNet) -> Callable[..., list[NDArray]]:
    """The block as a function of the operator's inputs; the same random numbers at every call."""

    def apply(*inputs: NDArray) -> list[NDArray]:
        with random.isolated(11), np.errstate(all="ignore"):
            return as_list(net(_EXTRA, *inputs))

    return apply


@check(each_dtype)
def compiled_forward(case: Case) -> None:
    """A hybridized network gives what eager calls give, also in the inputs that the operator updates."""
    op = case.unbound()
    arrays = case.arrays()
    wanted = ndarrays(arrays)
    want = run(op, wanted)
    apply = call_of(block(op))
    # The first call compiles, the second finds the compiled graph; but then a state is not what it was.
    for turn in ("first",) if isinstance(op, Stateful) else ("first", "second"):
        given = ndarrays(arrays)
        got = apply(*given)
        equal([y.dtype for y in got], [w.dtype for w in want], f"dtypes of the {turn} call")
        all_close(got, want, case.dtype, 4, f"result of the {turn} call")
        for i in op.mutated:
            what = f"input {input_name(op, i)} after the {turn} call"
            close(given[i].asnumpy(), wanted[i].asnumpy(), case.dtype, 4, what)


@check(each_sample)
def compiled_inputs_that_are_not_contiguous(case: Case) -> None:
    """Results do not depend on the inputs' memory layout."""
    arrays = case.arrays()
    want = run(case.unbound(), ndarrays(arrays))
    got = call_of(block(case.unbound()))(*[NDArray(np.array(x.T, order="C").T) for x in arrays])
    all_close(got, want, case.dtype, 4)


def _compare_backward(case: Case) -> None:
    op = case.unbound()
    arrays = case.arrays("float64")
    with autograd.train_mode() if case.training else autograd.predict_mode():
        outputs = run(op, ndarrays(arrays))
    weights = weights_of(outputs)
    want = gradients(op, arrays, weights, case.training)
    apply = call_of(block(op))
    inputs = ndarrays(arrays)
    for i, x in enumerate(inputs):
        if x.dtype is np.float64 and case.differentiable(i):
            x.attach_grad()
    with autograd.record(train_mode=case.training):
        got = apply(*inputs)
    all_close(got, outputs, "float64", 100)
    heads = heads_of(got, weights)
    if heads:
        autograd.backward([y for y, _ in heads], [w for _, w in heads], train_mode=case.training)
    for i, (x, w) in enumerate(zip(inputs, want, strict=True)):
        if x.grad is not None:  # pyright: ignore[reportUnnecessaryComparison]
            assert w is not None
            within(x.grad.asnumpy(), w, 1e-8, 1e-9, f"gradient of input {input_name(op, i)}, against eager")


@check(each_gradient)
def compiled_backward(case: Case) -> None:
    """The compiled backward gives what the eager tape gives."""
    _compare_backward(case)


def each_training(cls: type[Operator]) -> Iterable[Found]:
    """Samples of operators that know training from prediction, in training."""
    if cls.TRAIN_MODE:
        for call, case in each_sample(cls):
            yield call, Case(cls, call, case.sample, "float64", training=True)


@check(each_training)
def compiled_training(case: Case) -> None:
    """As the compiled backward, in training mode."""
    _compare_backward(case)


@check(each_elementwise)
def compiled_special_values(case: Case) -> None:
    """Not-a-numbers, infinities and signed zeros, in arrays long enough for the vectorised part of a loop."""
    grids = np.meshgrid(*[np.repeat(SPECIAL, 3)] * len(case.sample.inputs))
    arrays = [g.astype("float32") for g in grids]
    want = run(case.unbound(), ndarrays(arrays))
    got = call_of(block(case.unbound()))(*ndarrays(arrays))
    all_close(got, want, "float32", 4, "result on special values")


@check(each_elementwise)
def one_kernel_without_host_calls(case: Case) -> None:
    """An elementwise operator fuses."""
    net = block(case.unbound())
    call_of(net)(*ndarrays(case.arrays("float32")))
    said = net.explain()
    require("forward: 1 kernel, 0 of them host calls" in said, f"expected one kernel and no host call:\n{said}")


def each_other_dtype(cls: type[Operator]) -> Iterable[Found]:
    """The first sample of operators that work on any numbers, in half precision and in integers."""
    if issubclass(cls, Elementwise | Reduction):
        for call, case in each_sample(cls):
            for dtype in ("float16", "bfloat16", "int32", "int64", "int8", "uint8") if call.endswith("-0") else ():
                if takes(case, dtype):
                    yield f"{call}-{dtype}", Case(cls, call, case.sample, dtype)


@check(each_other_dtype)
def other_dtypes(case: Case) -> None:
    """Small whole numbers in half precision and in integers: the result has the inferred dtype."""
    rng = np.random.default_rng(1)
    arrays = [rng.integers(1, 4, x.shape).astype(case.dtype) for x in case.arrays()]
    op = case.unbound()
    want = run(op, ndarrays(arrays))
    got = call_of(block(op))(*ndarrays(arrays))
    (dtype,) = op.infer_type([np.dtype(case.dtype)] * len(arrays))[1]
    equal([y.dtype for y in (*got, *want)], [dtype] * (len(got) + len(want)), "dtypes, compiled and eager")
    all_close(got, want, case.dtype, 2)


@check(each_sample)
def every_stage_on_every_target(case: Case) -> None:
    """The IR and the memory plan are valid after each stage, and every target computes what eager calls do."""
    for name, target in TARGETS.items():
        if target.is_runnable():
            compare_on(case, name)


@check(where(each_dtype, lambda case: case.cls.kernel is not Operator.kernel))
def kernels_by_hand(case: Case) -> None:
    """The kernels written by hand compute what eager calls do; one for a target that does not run here is written."""
    op, arrays = case.operator(), keyed(case.operator(), case.arrays())
    specs = [[ArraySpec(x.shape, x.dtype) for x in values] for values in (arrays, eager(op, arrays))]
    for name, target in TARGETS.items():
        if handwritten_kernel(op, name, *specs) is None:
            continue
        if target.is_runnable():
            compare_on(case, name)
        else:
            Traced(trace_call(OperatorNet(op), [_EXTRA, *ndarrays(case.arrays())], training=False)).optimize().lower(
                name
            )


def compare_on(case: Case, target: str) -> None:
    """The IR and the memory plan are valid after each stage, and a target computes what eager calls do."""
    op = case.unbound()
    arrays = case.arrays()
    inputs = ndarrays(arrays)
    wanted = [i for i, x in enumerate(arrays) if x.dtype.name in ("float32", "float64") and case.differentiable(i)]
    grads = wanted if case.sample.grad else []
    for i in grads:
        inputs[i].attach_grad()
    graph = _stages(op, [_EXTRA, *inputs], tuple(i + 1 for i in grads), target)
    with random.isolated(11), np.errstate(all="ignore"), autograd.record(train_mode=False):
        got = as_list(graph(_EXTRA, *inputs))
    outputs = run(op, ndarrays(arrays))
    all_close(got, outputs, case.dtype, 100, f"result of target {target}")
    weights = weights_of(outputs)
    heads = heads_of(got, weights) if grads else []
    if not heads:
        return
    autograd.backward([y for y, _ in heads], [w for _, w in heads], train_mode=False)
    want = gradients(op, arrays, weights)
    for i in grads:
        got, expected = inputs[i].grad, want[i]
        assert got is not None
        assert expected is not None
        close(got.asnumpy(), expected, case.dtype, 100, f"gradient of input {input_name(op, i)} on target {target}")


def _stages(op: Operator, inputs: list[NDArray], grads: tuple[int, ...], target: str) -> Any:
    """The graph of one operator, compiled stage by stage, each verified."""
    traced = Traced(trace_call(OperatorNet(op), inputs, training=False), grads)
    traced.module.verify()
    optimized = traced.optimize()
    optimized.module.verify()
    lowered = optimized.lower(target)
    lowered.module.verify()
    VerifyPlan().apply(Context(), lowered.module)
    return lowered.compile()
