"""Every traced operator, and every error of tracing, names the user's file and line."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import DTypeError, MXNetError, ShapeError, TraceError
from hybridc.gluon import HybridBlock, nn
from tests.function_blocks import Lambda, hybrid

FILE = str(Path(__file__).resolve())


def line_of(function, offset=1):
    return inspect.getsourcelines(function)[1] + offset


def test_operations_have_the_line_that_called_them():
    def forward(F, x):
        y = F.exp(x)
        return (
            y + 1  # the line of the expression's operator
        ).sum()

    first = line_of(forward)
    text = str(Lambda(forward, prefix="lambda0_").trace(mx.nd.ones((2, 3))))
    lines = dict(re.findall(r'hybrid\.(\w+) [^\n]*loc\("lambda0"\("[^"]*test_locations\.py":(\d+):0\)', text))
    assert int(lines["exp"]) == first
    assert int(lines["add"]) in range(first + 1, first + 4)
    assert "loc(unknown)" not in "\n".join(re.findall(r"hybrid\.(?:exp|add|sum) .*", text))


def test_helpers_of_the_user_are_the_users_lines():
    def helper(F, x):
        return F.tanh(x)

    text = str(Lambda(lambda F, x: helper(F, x)).trace(mx.nd.ones((2,))))
    assert f'test_locations.py":{line_of(helper)}:0' in text


def test_kernels_name_their_lines():
    def forward(F, x):
        return F.exp(x) * 2

    source = str(Lambda(forward).trace(mx.nd.ones((2,))).optimize().lower())
    assert f"test_locations.py:{line_of(forward)}" in source


def test_backward_kernels_name_the_forward_lines():
    def forward(F, x):
        return F.sin(x)

    net = hybrid(forward)
    x = mx.nd.ones((2,))
    x.attach_grad()
    with mx.autograd.record():
        net(x)
    (graph,) = net._cached_graph.graphs()
    assert f"test_locations.py:{line_of(forward)}" in graph.backward.program.source


NEEDS_VALUES = [
    (lambda F, x: x if x else -x, "the truth value (if, while, and, or, not)"),
    (lambda F, x: x if x.sum() > 0 else -x, "the truth value (if, while, and, or, not)"),
    (lambda F, x: x and x, "the truth value (if, while, and, or, not)"),
    (lambda F, x: x * (1 in x), "the truth value (if, while, and, or, not)"),
    (lambda F, x: x * float(x[0, 0]), "float()"),
    (lambda F, x: x * int(x[0, 0]), "int()"),
    (lambda F, x: x[[1, 2][x[0, 0]]], "use as an index"),
    (lambda F, x: x[: range(5)[x[0, 0]]], "use as an index"),
    (lambda F, x: x * x.asnumpy(), "asnumpy()"),
    (lambda F, x: x * x.asscalar(), "asscalar()"),
    (lambda F, x: x * x.item(), "item()"),
    (lambda F, x: x * np.exp(x), "conversion to a NumPy array"),
    (lambda F, x: x * np.asarray(x), "conversion to a NumPy array"),
    (lambda F, x: x * x.tolist()[0][0], "tolist()"),
    (lambda F, x: x * round(float(x.sum())), "float()"),
]


@pytest.mark.parametrize(("function", "what"), NEEDS_VALUES, ids=range(len(NEEDS_VALUES)))
def test_values_are_not_known_while_tracing(function, what):
    shape = r"\(\d*(, \d*)*,?\)"
    remedy = "Use F.where instead of Python control flow on values"
    if "NumPy" in what:
        remedy = "Use the function of F in place of NumPy's, as F.tanh(x) for np.tanh(x)"
    with pytest.raises(TraceError) as error:
        hybrid(function)(mx.nd.ones((3, 4)))
    expected = (
        re.escape(f"{FILE}:{line_of(function, 0)} (in net): {what} needs the values of an array of shape ")
        + shape
        + re.escape(
            f", but while a hybridized block is traced only shapes and dtypes are known. {remedy}, or leave this block "
            "unhybridized."
        )
    )
    assert re.fullmatch(expected, str(error.value)), str(error.value)


def test_error_in_a_child_names_the_child():
    class Outer(HybridBlock):
        def __init__(self):
            super().__init__(prefix="outer_")
            self.child = Lambda(lambda F, x: x if x else -x, prefix="child_")

        def hybrid_forward(self, F, x):
            return self.child(x)

    net = Outer()
    net.hybridize()
    with pytest.raises(TraceError, match=r"\(in child\): the truth value"):
        net(mx.nd.ones((1,)))
    net.hybridize(False)
    net(mx.nd.ones((1,)))  # and tracing that failed leaves nothing behind


def test_a_failed_trace_leaves_the_block_usable():
    net = Lambda(lambda F, x: x * 2 if net.fine else (x if x else -x), prefix="net_")
    net.fine = False
    net.hybridize()
    for _ in range(2):
        with pytest.raises(TraceError):
            net(mx.nd.ones((1,)))
    assert type(net) is Lambda
    net.fine = True
    assert net(mx.nd.ones((1,))).asscalar() == 2


def test_shape_and_dtype_errors_name_the_line():
    def shapes(F, x, y):
        return x + y

    with pytest.raises(ShapeError) as error:
        hybrid(shapes)(mx.nd.ones((2, 3)), mx.nd.ones((4,)))
    assert str(error.value).startswith(f"{FILE}:{line_of(shapes)} (in net): ")
    assert "(2, 3)" in str(error.value)
    assert "(4,)" in str(error.value)
    with pytest.raises(DTypeError) as error:
        hybrid(shapes)(mx.nd.ones((2,)), mx.nd.ones((2,), dtype="float64"))
    assert str(error.value).startswith(f"{FILE}:{line_of(shapes)} (in net): ")


def test_assignment():
    def forward(F, x):
        x[0] = 1
        return x

    with pytest.raises(MXNetError) as error:
        hybrid(forward)(mx.nd.ones((2,)))
    assert str(error.value) == (
        f"{FILE}:{line_of(forward)}: a traced array cannot be assigned to; use F.where, F.concat or F.slice_assign"
    )


def test_out():
    def forward(F, x):
        return F.exp(x, out=x)

    with pytest.raises(TraceError) as error:
        hybrid(forward)(mx.nd.ones((2,)))
    assert str(error.value) == (
        f"{FILE}:{line_of(forward)} (in net): out= cannot be used while tracing; use the returned value"
    )


def test_value_that_leaked_from_another_trace():
    kept = []

    def leaks(F, x):
        kept.append(F.exp(x))
        return x

    def uses(F, x):
        return x + kept[0]

    hybrid(leaks)(mx.nd.ones((2,)))
    with pytest.raises(TraceError) as error:
        hybrid(uses)(mx.nd.ones((2,)))
    assert str(error.value) == (
        f"{FILE}:{line_of(uses)} (in net): add got a value of another trace; return it from its block instead"
    )
    with pytest.raises(TraceError) as error:
        hybrid(lambda F, x: [x, kept[0]])(mx.nd.ones((2,)))
    assert str(error.value) == (
        "the result of net contains a value of another trace; keep no traced values between calls"
    )


def test_results_that_are_not_arrays():
    for bad in (3.0, "text", {"a": 1}, np.ones(3)):
        with pytest.raises(MXNetError) as error:
            hybrid(lambda F, x, bad=bad: [x, bad])(mx.nd.ones((2,)))
        assert str(error.value) == (
            "the result of net must be an NDArray or nested lists or tuples of them, "
            f"got {type(bad).__name__}; keep other values as attributes of the block"
        )


def test_arguments_that_are_not_arrays():
    for bad in (3.0, "text", {"a": 1}, [1, 2]):
        with pytest.raises((MXNetError, ValueError)) as error:
            hybrid(lambda F, x, b: x)(mx.nd.ones((2,)), bad)
        assert "the arguments of a hybridized block must be an NDArray or nested lists" in str(error.value)


def test_a_library_layer_is_located_at_its_call():
    net = nn.HybridSequential()
    net.add(nn.Dense(3, in_units=2))
    net.initialize()
    line = inspect.currentframe().f_lineno + 1
    text = str(net.trace(mx.nd.ones((1, 2))))
    assert f'test_locations.py":{line}:0' in text
