"""Violations of the specification of levels below the structured form are found."""

from __future__ import annotations

import dataclasses

import pytest
from xdsl.parser import Parser

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.errors import VerifyError
from hybridc.gluon.nn import HybridLambda
from hybridc.ir import spec
from hybridc.ir.kernels.kernel_module import recognise_kernels
from tests.lower.llvm.guarded import run_passes

assert mx.nd  # importing it registers the operators

SIGN = "(%x: tensor<2x3xf32>) -> tensor<2x3xf32>"
KERNEL = """
func.func private @k(%x: tensor<2x3xf32>) -> tensor<2x3xf32> attributes {{{domains}}} {{
  %e = tensor.empty() : tensor<2x3xf32>
  %y = linalg.generic {{
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%x : tensor<2x3xf32>) outs(%e : tensor<2x3xf32>) attrs = {{{axes}}} {{
  ^bb0(%a: f32, %b: f32):
    {inside}
    linalg.yield %a : f32
  }} -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}}"""
MATMUL = """
func.func private @k(%x: tensor<2x2xf32>) -> tensor<2x2xf32> attributes {{hybrid.domains = [array<i64: 2, 2>]}} {{
  %n = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x2xf32>
  %z = linalg.fill ins(%n : f32) outs(%e : tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = linalg.matmul {{hybrid.axes = array<i64: 0, 1, {axis}>}} ins(%x, %x : tensor<2x2xf32>, tensor<2x2xf32>)
    outs(%z : tensor<2x2xf32>) -> tensor<2x2xf32>
  {second}
  func.return %y : tensor<2x2xf32>
}}"""
DOMAIN, AXES = "hybrid.domains = [array<i64: 2, 3>]", "hybrid.axes = array<i64: 0, 1>"


def kernel(domains=DOMAIN, axes=AXES, inside=""):
    return KERNEL.format(domains=domains, axes=axes, inside=inside)


def check(level, text):
    module = Parser(pipeline.context(), text).parse_module()
    recognise_kernels(module)
    spec.check_level(module, level, "this")


CALL = f"""
func.func @f{SIGN} {{
  %y = func.call @k(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}}"""


def test_what_is_right_passes():
    check("kernels", CALL + kernel())
    check("kernels", MATMUL.format(axis=-1, second=""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CALL, "@k is neither a kernel nor a declared host function"),
        (
            f"func.func @f{SIGN} {{ %y = math.exp %x : tensor<2x3xf32>\nfunc.return %y : tensor<2x3xf32> }}",
            "a function holds calls of kernels and of the host, views, concatenation and constants",
        ),
        (f"func.func @f{SIGN} {{ func.return %x : tensor<2x3xf32> }}", "result 0 is not a fresh array"),
        (
            "func.func @f(%x: tensor<2xf32>) -> tensor<2x1xf32> {\n%y = tensor.expand_shape %x [[0, 1]] "
            "output_shape [2, 1] : tensor<2xf32> into tensor<2x1xf32>\nfunc.return %y : tensor<2x1xf32> }",
            "result 0 is not a fresh array",
        ),
        (CALL.replace("return %y :", "return %y, %y :").replace("-> tensor<2x3xf32> {", "-> (tensor<2x3xf32>, "
         "tensor<2x3xf32>) {").replace("return %y, %y : tensor<2x3xf32>", "return %y, %y : tensor<2x3xf32>, "
         "tensor<2x3xf32>") + kernel(), "result 1 is not a fresh array"),
        (kernel(inside="%i = tensor.empty() : tensor<2xf32>"),
         "a body holds arith, math, linalg.index, tensor.extract and linalg.yield"),
        (kernel(domains=""), "@k has 0 iteration spaces, but this op is of nest 0"),
        (kernel(domains=DOMAIN + ", hybrid.attention = [array<i64: 0>, array<i64: 1>]"),
         "it is no attention, nor its backward, of the rows and keys in hybrid.attention"),
        (kernel(axes=AXES + ", hybrid.loop_nest = 1 : i64"), "@k has 1 iteration spaces, but this op is of nest 1"),
        (kernel(axes=""), "it has 2 loops, but hybrid.axes is []"),
        (kernel(axes="hybrid.axes = array<i64: 1, 0>"), "loop 0 of size 2 is not axis 1 of the iteration space [2, 3]"),
        (kernel(axes="hybrid.axes = array<i64: 0, -1>"), "size 3 is not axis -1 of the iteration space [2, 3]"),
        (kernel(axes="hybrid.axes = array<i64: 0, 2>"), "loop 1 of size 3 is not axis 2 of the iteration space [2, 3]"),
        (
            MATMUL.format(axis=-1, second="").replace("axes = array<i64: 0, 1", "axes = array<i64: 0, 0"),
            "two loops have the same axis: hybrid.axes is [0, 0, -1]",
        ),
        (MATMUL.format(axis=1, second=""), "loop 2 of size 2 is not axis 1 of the iteration space [2, 2]"),
        (
            MATMUL.format(
                axis=-1,
                second="%w = linalg.matmul {hybrid.axes = array<i64: 0, 1, -1>} ins(%y, %x : tensor<2x2xf32>, "
                "tensor<2x2xf32>) outs(%z : tensor<2x2xf32>) -> tensor<2x2xf32>",
            ),
            "a loop nest has more than one contraction",
        ),
        (f"func.func private @k{SIGN} {{ func.return %x : tensor<2x3xf32> }}",
         "a function with a body is a kernel, whose iteration spaces are in hybrid.domains"),
        (f"func.func private @k{SIGN} {{ %y = math.exp %x : tensor<2x3xf32>\nfunc.return %y : tensor<2x3xf32> }}",
         "a function holds linalg ops, constants and empty tensors"),
    ],
)  # fmt: skip
def test_what_does_not_belong_into_kernels_is_found(text, expected):
    with pytest.raises(VerifyError) as error:
        check("kernels", text)
    assert str(error.value).endswith(expected)
    assert str(error.value).startswith("after this: ")


@pytest.mark.parametrize("wrong", ["[array<i64: 2>, array<i64: 1>]", "[array<i64: 0>, array<i64: 2>]"])
def test_wrong_rows_and_keys_of_attentions_are_found(wrong):
    """Of an attention and its backward, whose axes are 0, batches, 1, rows, and 2, keys."""
    function = HybridLambda(lambda F, q, k, v: F.batch_dot(F.softmax(F.batch_dot(q, k, transpose_b=True)), v))
    with mx.autograd.record():
        traced = function.trace(*[mx.nd.ones((2, n, 4)) for n in (3, 5, 5)])
    module = dataclasses.replace(traced, grads=(0, 1, 2)).optimize().module.clone()
    run_passes(module, pipeline.triton_kernels())
    right, text = "hybrid.attention = [array<i64: 1>, array<i64: 2>]", str(module)
    check("kernels", text)
    for number in range(2):
        before, after = text.split(right)[: number + 1], text.split(right)[number + 1 :]
        with pytest.raises(VerifyError, match=r"it is no attention, nor its backward, of the rows and keys"):
            check("kernels", right.join(before) + f"hybrid.attention = {wrong}" + right.join(after))


def test_a_plan_holds_memory_and_launches_only():
    with pytest.raises(VerifyError, match=r"func\.call is not allowed on the plan level: a function holds memory"):
        check("plan", CALL + kernel())
