"""The structured form of every operator, forward and backward, run by its meaning, against eager calls."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.dialects.func import ReturnOp
from xdsl.parser import Parser

from hybridc import random
from hybridc.dialects.hybrid import location_of
from hybridc.dialects.operator import Opaque
from hybridc.errors import VerifyError
from hybridc.gluon import HybridBlock
from hybridc.lower.hybrid_to_linalg import HybridToLinalg
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
    each_sample,
    gradients,
    ndarrays,
    run,
    weights_of,
)
from hybridc.tools.check_op.compiled import _EXTRA, Net, each_other_dtype
from hybridc.trace.tracer import trace_call
from tests.lower.evaluate import Evaluator
from tests.ops.samples import OURS
from tests.slices import one_in


def cases(each, keep=lambda case: True):
    found = [pytest.param(case, id=label) for cls in OURS.values() for label, case in each(cls) if keep(case)]
    return pytest.mark.parametrize("case", one_in(4, found))


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


def test_every_operation_has_the_users_line():
    class Net(HybridBlock):
        def hybrid_forward(self, F, x, w):
            y = F.dot(x, w)
            return F.softmax(2 * y)

    _, start = inspect.getsourcelines(Net.hybrid_forward)
    trace = trace_call(Net(prefix="net_"), ndarrays([np.ones((2, 3)), np.ones((3, 4))]), training=True)
    stage = Traced(trace, (0, 1)).optimize().structure()
    (forward, backward) = stage.module.ops
    for function in (forward, backward):
        found = {location_of(op) for op in function.body.walk() if not isinstance(op, ReturnOp)}
        assert {(where.file, where.block) for where in found} == {(__file__, "net")}
        assert {where.line for where in found} == {start + 1, start + 2}
    matmul = next(op for op in forward.body.walk() if op.name == "linalg.matmul")
    assert location_of(matmul).line == start + 1


def calls_of_the_host(library=""):
    """The operators that some sample leaves to the host."""
    found = set()
    for cls in OURS.values():
        for _, case in each_sample(cls):
            trace = trace_call(Net(case.unbound()), [_EXTRA, *ndarrays(case.arrays())], False)
            module = Traced(trace).optimize().module.clone()
            HybridToLinalg(library).apply(Context(), module)
            found |= set(re.findall(r'hybrid.operator = "hybrid\.(\w+)"', str(module)))
    return found


def test_numpy_moves_what_is_moved_place_by_place():
    """What joins this list, or leaves it, is noticed: its loops would be slower than the library's function.

    Without inputs (``arange``, ``eye``, ``linspace``) the elements are numbers of the program.
    """
    parts = {"concat", "diag_scatter", "pad", "slice_assign", "slice_assign_scalar", "slice_scatter", "stack"}
    backwards = {"basic_index", "flip", "sequence_reverse", "slice"}  # with negative steps only
    places = {"arange_like", "diag", "fill_element_0index", "index_array", "pick"}
    extremes = {"argmax", "argmax_channel", "argmin"}  # with their places
    assert calls_of_the_host("numpy") - calls_of_the_host() == parts | backwards | places | extremes


def test_native_code_moves_everything_itself():
    """What it leaves to the host is what upstream cannot say."""
    assert calls_of_the_host("llvm") == calls_of_the_host()


def test_operators_of_the_host_are_known():
    """What upstream cannot say; an operator that leaves this list, or joins it, is noticed."""
    found = calls_of_the_host()
    opaque = {n.removeprefix("hybrid.") for n, cls in OURS.items() if issubclass(cls, Opaque)}
    # Elementwise functions that `math` lacks; movements that add to places, or raise at places out of range.
    others = {"erfinv", "gamma", "gammaln", "digamma"}
    others |= {"gather_nd", "index_copy", "scatter_add_nd", "scatter_nd", "take", "take_scatter"}
    assert found - opaque == others
    described = {"arange", "arange_like", "constant", "eye", "full", "index_array", "linspace", "ones", "zeros"}
    assert not found & described
    assert described <= opaque


@pytest.mark.parametrize(("target", "name"), [("llvm", "native_take_scatter"), ("numpy", "host_take_scatter")])
def test_sums_of_rows_are_named_for_who_computes_them(target, name):
    class Net(HybridBlock):
        def hybrid_forward(self, F, i, w):
            return F.take(w, i)

    trace = trace_call(Net(), ndarrays([np.array([3.0, 1.0]), np.ones((5, 2))]), training=True)
    programs = Traced(trace, (1,)).optimize().lower(target).programs
    assert programs["backward"].launches[-1] == name
    assert not programs["backward"].host_calls


def test_a_composite_operator_is_refused():
    trace = trace_call(Net(OURS["hybrid.softmax"].bind()), [_EXTRA, *ndarrays([np.ones((2, 3))])], training=False)
    with pytest.raises(VerifyError) as error:
        HybridToLinalg().apply(Context(), Traced(trace).module)
    assert str(error.value).endswith("is not primitive; run decompose before")


def test_equal_calls_of_the_host_share_a_declaration_and_its_name_is_free():
    class Net(HybridBlock):
        def hybrid_forward(self, F, x):
            return F.sort(F.sort(x)) + F.sort(x, is_ascend=False)

    trace = trace_call(Net(), ndarrays([np.array([3.0, 1.0, 2.0])]), training=False)
    stage = Traced(trace).optimize().structure()
    names = [f.sym_name.data for f in stage.module.ops]
    assert names == ["forward", "host_sort", "host_sort_1"]
    (got,) = Evaluator(stage.module).call("forward", np.array([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(got, [4.0, 4.0, 4.0])


def test_unsigned_integers_are_read_as_such():
    x, y = np.array([200, 3, 255], np.uint8), np.array([100, 7, 0], np.uint8)
    for name, want in (
        ("maximum", [200, 7, 255]),
        ("divide", [2, 0, 255]),
        ("lesser", [0, 1, 0]),
        ("modulo", [0, 3, 0]),
    ):
        op = OURS[f"hybrid.{name}"].bind()
        y = np.maximum(y, 1) if name == "divide" else y
        (got,) = forward(structured(op, [x, y]), [x, y])
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, want)
