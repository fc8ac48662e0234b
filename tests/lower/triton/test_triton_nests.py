"""How loops of kernels become Triton functions: what is cut, what is made again, which offsets need 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.kernel import analyse
from hybridc.lower.structured import kernels
from hybridc.lower.triton.nests import phases_of
from tests.lower.kernels import parse
from tests.lower.triton.test_triton_kernel_classes import results_of


def program_of(function, *shapes):
    traced = HybridLambda(function).trace(*[mx.nd.zeros(s) for s in shapes])
    return traced.optimize().lower("triton").programs["forward"]


def kinds_of(program):
    """What the first words of the functions' descriptions are."""
    return [step.function.source.splitlines()[0].strip('"').partition(":")[0] for step in program.steps]


@pytest.mark.parametrize(
    ("function", "shape", "kinds"),
    [
        (lambda F, x: F.tanh(x) + 1, (33, 65), ["elements"]),
        (lambda F, x: F.softmax(x), (33, 65), ["rows"]),
        (lambda F, x: F.sum(x, axis=0), (64, 65), ["sums"]),
        (lambda F, x: F.sum(x), (1000, 1000), ["sums", "123 parts of 1 elements are combined."]),
    ],
)
def test_the_kind_of_a_function(function, shape, kinds):
    assert kinds_of(program_of(function, shape)) == kinds


def test_a_row_that_registers_cannot_hold_is_read_again():
    """The exponentials are made twice instead of written and read: no buffer is as large as the input."""
    program = program_of(lambda F, x: F.softmax(x), (2, 40000))
    assert program.arena < 40000 * 4
    x = np.random.default_rng(0).normal(size=(2, 40000)).astype(np.float32)
    (got,), _ = results_of(lambda F, x: F.softmax(x), [x])
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(("rows", "wide"), [(2**16, False), (2**22, True)])
def test_far_offsets_are_of_64_bits(rows, wide):
    text = f"""
func.func private @kernel(%x: tensor<{rows}x1024xf32>) -> tensor<{rows}x1024xf32> attributes {{
    hybrid.domains = [array<i64: {rows}, 1024>]}} {{
  %e = tensor.empty() : tensor<{rows}x1024xf32>
  %y = linalg.generic {{indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]}} ins(%x : tensor<{rows}x1024xf32>)
      outs(%e : tensor<{rows}x1024xf32>) attrs = {{hybrid.axes = array<i64: 0, 1>}} {{
  ^b(%a: f32, %o: f32):
    %n = arith.negf %a : f32
    linalg.yield %n : f32
  }} -> tensor<{rows}x1024xf32>
  func.return %y : tensor<{rows}x1024xf32>
}}"""
    module = parse(text)
    assert isinstance(module, ModuleOp)
    (function,) = kernels(module).values()
    (phase,) = phases_of(analyse(function), {}).phases
    assert ("int64" in phase.function.source) == wide
    assert phase.function.numbers == ("i64" if wide else "i32",)


def test_sums_of_nothing_that_maps_read():
    """They are made before the maps, which walk less than they do: numbers that are added to something."""

    def function(F, x, nothing):
        return F.flip(x, axis=0) + F.reshape(F.sum(nothing * F.reshape(x, (1, 3, 1)), axis=(0, 2)), (3,))

    module = HybridLambda(function).trace(mx.nd.zeros((3,)), mx.nd.zeros((2, 3, 0))).optimize().lower("triton").module
    (name,) = [n for n in kernels(module) if "sum" in n]
    kernel = analyse(kernels(module)[name])
    made = phases_of(kernel, {})
    stored = [b for phase in made.phases for b in phase.buffers if b >= len(kernel.arguments)]
    assert set(stored) == {
        *range(len(kernel.arguments), len(kernel.arguments) + len(kernel.results) + len(made.locals))
    }
    (got,), _ = results_of(function, [np.arange(3, dtype=np.float32), np.zeros((2, 3, 0), np.float32)])
    np.testing.assert_array_equal(got, [2, 1, 0])
