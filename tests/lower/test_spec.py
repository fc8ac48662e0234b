"""Violations of a level's specification are found, after the pass that made it, with the user's line."""

from __future__ import annotations

import dataclasses

import pytest
from xdsl.parser import Parser

import hybridc as mx
from hybridc.compile import pipeline
from hybridc.dialects.mlir.hybrid import file_line
from hybridc.errors import VerifyError
from hybridc.ground.location import Location
from hybridc.ir import spec

assert mx.nd  # importing it registers the operators

SIGN = "(%x: tensor<2xf32>) -> tensor<2xf32>"
GENERIC = """func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x2xf32>) -> tensor<2x3xf32> {{
  %z = linalg.generic {{indexing_maps = [{}], iterator_types = [{}]}}
    ins(%y : tensor<3x2xf32>) outs(%x : tensor<2x3xf32>) {{
  ^bb0(%a: f32, %b: f32):
    {}
    linalg.yield %a : f32
  }} -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}}"""
OUT, TURNED = "affine_map<(i, j) -> (i, j)>", "affine_map<(i, j) -> (j, i)>"
BOTH = '"parallel", "parallel"'


def module(text):
    return Parser(pipeline.context(), text).parse_module()


@pytest.mark.parametrize(
    ("level", "text", "expected"),
    [
        (
            "graph",
            f"func.func @f{SIGN} {{ %y = math.exp %x : tensor<2xf32>\nfunc.return %y : tensor<2xf32> }}",
            "math.exp is not allowed on the graph level: a function holds operators and func.return",
        ),
        (
            "graph",
            "func.func @f(%x: tensor<*xf32>) { func.return }",
            "func.func is not allowed on the graph level: tensor<*xf32> is not a tensor of static shape",
        ),
        (
            "primitive",
            f"func.func @f{SIGN} {{ %y = hybrid.softmax %x : (tensor<2xf32>) -> tensor<2xf32>\n"
            "func.return %y : tensor<2xf32> }",
            "hybrid.softmax is not allowed on the primitive level: it is a composite operator; decompose replaces "
            "it by primitive ones",
        ),
        (
            "structured",
            f"func.func @f{SIGN} {{ %y = hybrid.exp %x : (tensor<2xf32>) -> tensor<2xf32>\n"
            "func.return %y : tensor<2xf32> }",
            "hybrid.exp is not allowed on the structured level: a function holds linalg, tensor, constants, func.call "
            "and func.return",
        ),
        (
            "structured",
            "func.func @f(%x: tensor<2xui8>) { func.return }",
            "func.func is not allowed on the structured level: ui8 is neither a float nor a signless integer of 1, 8, "
            "32 or 64 bits",
        ),
        (
            "structured",
            "func.func @f(%x: tensor<?xf32>) { func.return }",
            "func.func is not allowed on the structured level: tensor<?xf32> has a dynamic shape",
        ),
        (
            "structured",
            f"func.func @f{SIGN} {{ %y = func.call @g(%x) : (tensor<2xf32>) -> tensor<2xf32>\n"
            f"func.return %y : tensor<2xf32> }}\nfunc.func private @g{SIGN} {{ func.return %x : tensor<2xf32> }}",
            "func.call is not allowed on the structured level: @g is not a declared host function",
        ),
        (
            "structured",
            "func.func private @g(tensor<2xf32>) -> tensor<2xf32>",
            "func.func is not allowed on the structured level: a function without a body is private and says in "
            "hybrid.operator what the host computes",
        ),
        (
            "structured",
            GENERIC.format(f"affine_map<(i, j) -> (j, i + 1)>, {OUT}", BOTH, ""),
            "linalg.generic is not allowed on the structured level: operand 0 is read from 1 to 2 along axis 1, of 2 "
            "elements",
        ),
        (
            "structured",
            GENERIC.format(f"affine_map<(i, j) -> (j, i floordiv 2)>, {OUT}", BOTH, ""),
            "linalg.generic is not allowed on the structured level: (d0 floordiv 2) is not an affine sum of "
            "loops with constant factors",
        ),
        (
            "structured",
            GENERIC.format(f"{TURNED}, {OUT}", '"parallel", "reduction"', ""),
            "linalg.generic is not allowed on the structured level: its parallel loops are not those of its result",
        ),
        (
            "structured",
            GENERIC.format(f"{TURNED}, {OUT}", BOTH, "%e = tensor.empty() : tensor<2xf32>"),
            "tensor.empty is not allowed on the structured level: a body holds arith, math, linalg.index, "
            "tensor.extract and linalg.yield",
        ),
        (
            "kernels",
            f"func.func @f{SIGN} {{ %y = hybrid.exp %x : (tensor<2xf32>) -> tensor<2xf32>\n"
            "func.return %y : tensor<2xf32> }",
            "hybrid.exp is not allowed on the kernels level: a function holds calls of kernels and of the host, views, "
            "concatenation and constants",
        ),
        (
            "kernels",
            f"func.func private @k{SIGN} {{ %y = hybrid.sort %x : (tensor<2xf32>) -> tensor<2xf32>\n"
            "%z = hybrid.exp %y : (tensor<2xf32>) -> tensor<2xf32>\nfunc.return %z : tensor<2xf32> }",
            "hybrid.sort is not allowed on the kernels level: a function holds linalg ops, constants and empty tensors",
        ),
        (
            "plan",
            f"func.func @f{SIGN} {{ %y = hybrid.exp %x : (tensor<2xf32>) -> tensor<2xf32>\n"
            "func.return %y : tensor<2xf32> }",
            "hybrid.exp is not allowed on the plan level: a function holds memory, launches and func.return",
        ),
    ],
)
def test_what_does_not_belong(level, text, expected):
    with pytest.raises(VerifyError) as error:
        spec.check_level(module(text), level, "some-pass")
    assert str(error.value) == f"after some-pass: {expected}"


def test_the_users_line_is_named():
    wrong = module(f"func.func @f{SIGN} {{ %y = math.exp %x : tensor<2xf32>\nfunc.return %y : tensor<2xf32> }}")
    op = next(iter(wrong.ops)).body.block.first_op
    op.location = file_line(Location("net.py", 12, "net_dense0"))
    with pytest.raises(VerifyError, match=r"^after cse: math.exp at net.py:12 \(in net_dense0\) is not allowed on"):
        spec.check_level(wrong, "graph", "cse")


def test_a_pass_that_leaves_a_level_incomplete_is_named(monkeypatch):
    from hybridc.transforms.graph.decompose import Decompose

    monkeypatch.setattr(pipeline, "OPTIONS", dataclasses.replace(pipeline.OPTIONS, verify=True))
    monkeypatch.setattr(Decompose, "apply", lambda *_: None)
    graph = module(
        f"func.func @f{SIGN} {{ %y = hybrid.softmax %x : (tensor<2xf32>) -> tensor<2xf32>\n"
        "func.return %y : tensor<2xf32> }"
    )
    with pytest.raises(VerifyError, match=r"^after decompose: hybrid.softmax is not allowed on the primitive level: "):
        pipeline.run(pipeline.GRAPH, graph)
