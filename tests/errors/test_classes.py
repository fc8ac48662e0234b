"""Errors are also of the class that MXNet 1.9.1 raises, so that ``except`` in its users' code catches them.

The classes were read off MXNet itself, which ran the same lines.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json

import pytest

import hybridc as mx
from hybridc import autograd, errors, gluon, nd, sym
from hybridc.base import NotImplementedForSymbol
from hybridc.gluon import nn

X = nd.ones((2, 3))


def hybrid(function, *layers):
    net = nn.HybridLambda(function, prefix="net_")
    net.hybridize()
    return net(X)


def deferred(dtype="float32"):
    net = nn.Dense(3, prefix="net_")
    net.initialize()
    return net(X.astype(dtype))


class After(gluon.HybridBlock):
    """A layer whose weights wait for their shapes, and something after it."""

    def __init__(self, after):
        super().__init__(prefix="net_")
        self.dense = nn.Dense(3, prefix="dense_")
        self.after = after

    def hybrid_forward(self, F, x):
        return self.after(F, self.dense(x))


def after(function):
    net = After(function)
    net.initialize()
    net.hybridize()
    return net(X)


CASES = [
    (lambda: bool(sym.var("a")), NotImplementedForSymbol),
    (lambda: sym.var("a").asnumpy(), NotImplementedForSymbol),
    (lambda: sym.var("a").asscalar(), NotImplementedForSymbol),
    (lambda: sym.var("a").wait_to_read(), NotImplementedForSymbol),
    (lambda: hybrid(lambda F, x: x if x.sum() > 0 else -x), NotImplementedForSymbol),
    (lambda: hybrid(lambda F, x: x.asnumpy()), NotImplementedForSymbol),
    (lambda: hybrid(lambda F, x: "a"), ValueError),
    (lambda: hybrid(lambda F, x: len(x)), ValueError),
    (lambda: float(X), TypeError),
    (lambda: int(X), TypeError),
    (lambda: X.asscalar(), ValueError),
    (lambda: X.broadcast_to((4, 5)), ValueError),
    (lambda: X.astype("float33"), TypeError),
    (lambda: nd.ones(3, dtype="float33"), TypeError),
    (lambda: X.attach_grad("sum"), KeyError),
    (lambda: mx.Context("tpu"), KeyError),
    (lambda: autograd.grad(X, []), AssertionError),
    (lambda: gluon.utils.clip_global_norm([], 1), AssertionError),
    (lambda: nd.random.uniform(nd.ones(2), 3.0), AssertionError),
    (lambda: after(lambda F, y: F.dot(y, F.ones((7, 9)))), ValueError),
    (lambda: after(lambda F, y: y + no_such_name), NameError),  # noqa: F821
    (lambda: deferred("int32"), mx.MXNetError),
]


@pytest.mark.parametrize(("case", "kind"), CASES, ids=range(len(CASES)))
def test_class(case, kind):
    with pytest.raises(kind) as caught:
        case()
    if kind is not NameError:
        assert isinstance(caught.value, mx.MXNetError)
        assert not str(caught.value).startswith(("'", '"'))  # as KeyErrors are shown


def test_the_cause_of_an_error_in_deferred_initialisation():
    with pytest.raises(errors.ShapeError) as caught:
        after(lambda F, y: F.dot(y, F.ones((7, 9))))
    assert "dot: the axis of lhs (2, 3) to be summed over has size 3, that of rhs (7, 9) has 7" in str(caught.value)
    assert "inferred" not in str(caught.value)
    with pytest.raises(errors.DTypeError) as caught:
        deferred("int32")
    assert str(caught.value).endswith("weight is float32, bias is float32; use .astype('float32') on data")
    with pytest.raises(errors.DTypeError, match=r"use \.astype\('float32'\) on lhs"):
        nd.elemwise_add(X.astype("int32"), X)


def test_lines_are_never_of_pythons_own_library():
    """Not even where it calls what the user wrote, nor where it raises."""

    @contextlib.contextmanager
    def managed(F, x):
        yield F.dot(x, x)

    def forward(F, x):
        with managed(F, x) as y:
            return functools.reduce(lambda a, b: F.dot(a, b), [x, x]) + y

    line = inspect.getsourcelines(forward)[1]
    with pytest.raises(errors.ShapeError, match=rf"^{__file__}:{line - 2} "):
        hybrid(forward)
    with pytest.raises(errors.ShapeError, match=rf"^{__file__}:\d+ "):
        hybrid(lambda F, x: functools.reduce(F.dot, [x, x]))  # which is called by C code, and by nothing of Python's
    with pytest.raises(errors.ShapeError, match=rf"^{__file__}:\d+ "), contextlib.ExitStack() as stack:
        stack.callback(hybrid, lambda F, x: F.dot(x, x))


@mx.op.register("classes.parsed")
class Parsed(mx.op.Opaque):
    """Reads what is no JSON."""

    def infer_shape(self, shapes):
        json.loads("{")
        return shapes, shapes

    def eager(self, x):
        return json.loads("{")


def test_an_operator_whose_library_raises():
    with pytest.raises(errors.CustomOpError, match=rf"\({__file__}:\d+ in (eager|infer_shape)\)"):
        nd.parsed(X)


@pytest.mark.parametrize(
    "call",
    [
        lambda: X.as_in_context("cpu"),
        lambda: X.copyto("cpu"),
        lambda: nd.array([1], ctx="cpu"),
        lambda: nn.Dense(2).initialize(ctx="cpu"),
        lambda: nn.Dense(2, in_units=2).collect_params().reset_ctx("cpu"),
        lambda: sym.var("x").bind("cpu", {}),
    ],
)
def test_a_device_is_a_context(call):
    with pytest.raises(errors.ArgumentTypeError, match=r"such as mx\.cpu\(\), got 'cpu'"):
        call()


def test_an_unknown_optimizer():
    """Also in a file of states, of which every error is an MXNetError."""
    with pytest.raises(errors.MXNetError, match="Cannot find optimizer nadamm; known are") as caught:
        mx.optimizer.create("nadamm")
    assert isinstance(caught.value, ValueError)
