"""Kernels in modules: functions that hold data, of which their operations are a text."""

from __future__ import annotations

import dataclasses
import io

import pytest
from xdsl.dialects.builtin import FunctionType, StringAttr
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.gluon import nn
from hybridc.ir.kernels import kernel_module
from hybridc.ir.kernels.kernel_module import kernel_functions, recognise_kernels


def traced():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(8, 3, activation="relu"), nn.GlobalAvgPool2D(), nn.Flatten(), nn.Dense(5))
    net.initialize()
    x = mx.nd.ones((2, 3, 9, 9))
    net(x)
    with mx.autograd.record():
        return dataclasses.replace(net.trace(x), grads=(1,))


@pytest.fixture
def formed():
    return traced().optimize().form("llvm").module


def norms(n=6):
    function = nn.HybridLambda(lambda F, x: F.softmax(F.exp(x) + 1))
    (kernel,) = kernel_functions(function.trace(mx.nd.ones((5, n))).optimize().form("numpy").module).values()
    return kernel


@pytest.mark.parametrize("target", ["llvm", "numpy", "triton"])
def test_no_operation_of_a_kernel_is_written_on_its_way(target, monkeypatch):
    def refused(_):
        raise AssertionError("a kernel is data")

    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=False, verify_plan=False))
    for name in ("read_kernel", "write_region"):
        monkeypatch.setattr(kernel_module, name, refused)
    assert traced().optimize().lower(target).programs


def test_its_operations_are_written_once():
    kernel = norms()
    assert kernel.body is kernel.body
    assert kernel.body.parent is kernel
    assert [a.type for a in kernel.body.block.args] == [*kernel.function_type.inputs]


@pytest.mark.parametrize("generic", [False, True])
def test_it_prints_as_a_function_that_is_read_as_it(formed, generic):
    def text(module):
        stream = io.StringIO()
        Printer(stream, print_generic_format=generic).print_op(module)
        return stream.getvalue()

    again = Parser(pipeline.context(), text(formed)).parse_module()
    assert not kernel_functions(again)
    recognise_kernels(again)
    read, written = ([str(f.kernel) for f in kernel_functions(m).values()] for m in (again, formed))
    assert read == written
    assert text(again) == text(formed)
    again.verify()


def test_a_clone_holds_the_same_kernels(formed):
    copy = formed.clone()
    for name, function in kernel_functions(copy).items():
        assert function.kernel is kernel_functions(formed)[name].kernel
    before = {*formed.walk()}
    assert not any(op in before or v.owner in before for op in copy.walk() for v in op.operands)
    assert str(copy) == str(formed)
    copy.verify()


def test_what_it_holds_is_what_it_says():
    kernel, other = norms(6), norms(8)
    assert "5x6" in str(kernel)
    kernel.hold(other.kernel)
    assert str(kernel) == str(other)


def test_its_verifier_compares_signatures():
    kernel = norms()
    kernel.verify()
    kernel.properties["sym_name"] = StringAttr("other")
    with pytest.raises(VerifyException, match=r"it holds kernel @\w+ of another signature"):
        kernel.verify()
    kernel.properties["sym_name"] = StringAttr(kernel.kernel.name)
    kernel.function_type = FunctionType.from_lists([*kernel.function_type.inputs], [])
    with pytest.raises(VerifyException, match="another signature"):
        kernel.verify(verify_nested_ops=False)
