"""Operators in the structured form; that it computes what they mean is in ``test_levels.py``."""

from __future__ import annotations

import functools
import inspect
import re

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.func import FuncOp, ReturnOp

from hybridc.compile.stages import Traced
from hybridc.dialects.mlir.hybrid import location_of
from hybridc.dialects.operator import Opaque
from hybridc.errors import VerifyError
from hybridc.gluon import HybridBlock
from hybridc.ir.structured import is_host
from hybridc.tools.check_op.case import (
    each_sample,
    ndarrays,
)
from hybridc.tools.check_op.check_compiled import _EXTRA, OperatorNet
from hybridc.trace.tracer import trace_call
from hybridc.transforms.graph.mark_kernels import MarkKernels
from hybridc.transforms.structured.hybrid_to_linalg import HybridToLinalg
from tests.lower.evaluate import Evaluator
from tests.lower.levels import inputs_of
from tests.ops.samples import OURS
from tests.ops.together import Part, Together


def structured(op, arrays):
    """The stage for a block of one operator; it has one more input, so that it has any."""
    return Traced(trace_call(OperatorNet(op), [_EXTRA, *ndarrays(arrays)], False)).optimize().structure()


def forward(stage, arrays):
    return Evaluator(stage.module).call("forward", *inputs_of(stage.trace, arrays))


def test_every_operation_has_the_users_line():
    class OperatorNet(HybridBlock):
        def hybrid_forward(self, F, x, w):
            y = F.dot(x, w)
            return F.softmax(2 * y)

    _, start = inspect.getsourcelines(OperatorNet.hybrid_forward)
    trace = trace_call(OperatorNet(prefix="net_"), ndarrays([np.ones((2, 3)), np.ones((3, 4))]), training=True)
    stage = Traced(trace, (0, 1)).optimize().structure()
    (forward, backward) = stage.module.ops
    for function in (forward, backward):
        found = {location_of(op) for op in function.body.walk() if not isinstance(op, ReturnOp)}
        assert {(where.file, where.block) for where in found} == {(__file__, "net")}
        assert {where.line for where in found} == {start + 1, start + 2}
    matmul = next(op for op in forward.body.walk() if op.name == "linalg.matmul")
    assert location_of(matmul).line == start + 1


@functools.cache
def host_calls():
    """For each target the operators that some sample leaves to it."""
    found = {"": set(), "llvm": set()}
    for cls in OURS.values():
        parts = [Part(label, case, case.arrays()) for label, case in each_sample(cls)]
        inputs = [_EXTRA, *[x for part in parts for x in ndarrays(part.arrays)]]
        module = Traced(trace_call(Together(parts), inputs, False)).optimize().module
        for library, names in found.items():
            lowered = module.clone()
            MarkKernels(library).apply(Context(), lowered)
            HybridToLinalg().apply(Context(), lowered)
            calls = [f for f in lowered.ops if isinstance(f, FuncOp) and is_host(f)]
            names.update(re.findall(r'hybrid.operator = "hybrid\.(\w+)"', "\n".join(map(str, calls))))
    return found


def calls_of_the_host(library=""):
    return host_calls()[library]


@pytest.mark.long
def test_native_code_moves_everything_itself():
    """What it leaves to the host is what upstream cannot say."""
    assert calls_of_the_host("llvm") == calls_of_the_host()


def test_operators_of_the_host_are_known():
    """What upstream cannot say; an operator that leaves this list, or joins it, is noticed."""
    found = calls_of_the_host()
    opaque = {n.removeprefix("hybrid.") for n, cls in OURS.items() if issubclass(cls, Opaque)}
    # Movements that add to places, or raise at places out of range.
    others = {"gather_nd", "index_copy", "scatter_add_nd", "scatter_nd", "scatter_set_nd", "take", "take_scatter"}
    assert found - opaque == others
    described = {"arange", "arange_like", "constant", "eye", "full", "index_array", "linspace", "ones", "zeros"}
    assert not found & described
    assert described <= opaque


@pytest.mark.parametrize(("target", "name"), [("llvm", "native_take_scatter"), ("numpy", "host_take_scatter")])
def test_sums_of_rows_are_named_for_who_computes_them(target, name):
    class OperatorNet(HybridBlock):
        def hybrid_forward(self, F, i, w):
            return F.take(w, i)

    trace = trace_call(OperatorNet(), ndarrays([np.array([3.0, 1.0]), np.ones((5, 2))]), training=True)
    programs = Traced(trace, (1,)).optimize().lower(target).programs
    assert programs["backward"].launches[-1] == name
    assert not programs["backward"].host_calls


def test_a_composite_operator_is_refused():
    trace = trace_call(
        OperatorNet(OURS["hybrid.softmax"].bind()), [_EXTRA, *ndarrays([np.ones((2, 3))])], training=False
    )
    with pytest.raises(VerifyError) as error:
        HybridToLinalg().apply(Context(), Traced(trace).module)
    assert str(error.value).endswith("is not primitive; run decompose before")


def test_equal_calls_of_the_host_share_a_declaration_and_its_name_is_free():
    class OperatorNet(HybridBlock):
        def hybrid_forward(self, F, x):
            return F.sort(F.sort(x)) + F.sort(x, is_ascend=False)

    trace = trace_call(OperatorNet(), ndarrays([np.array([3.0, 1.0, 2.0])]), training=False)
    stage = Traced(trace).optimize().structure()
    names = [f.sym_name.data for f in stage.module.ops]
    assert names == ["forward", "host_sort", "host_sort_1"]
    (got,) = Evaluator(stage.module).call("forward", np.array([3.0, 1.0, 2.0]))
    np.testing.assert_array_equal(got, [4.0, 4.0, 4.0])


@pytest.mark.parametrize("target", ["numpy", "llvm"])
def test_calls_of_the_host_for_signed_and_unsigned_integers_are_two(target):
    """Upstream's types are the same for both."""

    class OperatorNet(HybridBlock):
        def hybrid_forward(self, F, x, y):
            return F.sort(x), F.sort(y)

    x, y = np.array([3, -1, 2], np.int8), np.array([3, 255, 2], np.uint8)
    graph = Traced(trace_call(OperatorNet(), ndarrays([x, y]), training=False)).optimize().lower(target).compile()
    for got, want in zip(graph(*ndarrays([x, y])), (x, y), strict=True):
        np.testing.assert_array_equal(got.asnumpy(), np.sort(want))


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
