"""How loops of kernels become Triton functions: what is cut, what is made again, which offsets need 64 bits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import hybridc as mx
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.transforms.schedules.blocks import schedule_blocks
from tests.lower.kernels import parse
from tests.lower.triton.guarded import run_regions
from tests.lower.triton.printed import launches_of
from tests.lower.triton.test_triton_kernel_classes import results_of

pytestmark = pytest.mark.triton


RNG = np.random.default_rng(5)


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


def test_rows_of_which_registers_hold_one_but_not_two_are_read_again():
    """What is needed before and after a reduction is held meanwhile; what only follows it is made afterwards."""

    def double(F, dy, y):
        return y * (dy - F.sum(y * dy, axis=1, keepdims=True))

    def single(F, dy, y):
        return dy - F.exp(y - F.max(dy, axis=1, keepdims=True))

    shapes = [(4096, 32000), (4096, 16000)]
    assert [kinds_of(program_of(double, s, s)) for s in shapes] == [["sums", "elements"], ["rows"]]
    assert [kinds_of(program_of(single, s, s)) for s in shapes] == [["rows", "elements"], ["rows"]]
    (rows,) = program_of(single, shapes[1], shapes[1]).steps
    lines = rows.function.source.splitlines()
    loaded, reduced = [next(i for i, line in enumerate(lines) if what in line) for what in ("tl.load(x1", "tl.reduce")]
    assert loaded > reduced


def test_sums_across_rows_are_held_beside_the_rows(monkeypatch):
    """The gradients of a layer norm: with less room, each sweep is a function of its own, and they are the same."""
    x, g, b, dy = [RNG.normal(size=s).astype(np.float32) for s in ((33, 48), (48,), (48,), (33, 48))]

    def function(F, x, g, b, dy):
        mean = F.mean(x, axis=1, keepdims=True)
        scale = 1 / F.sqrt(F.mean(F.square(x - mean), axis=1, keepdims=True) + 1e-5)
        unit = (x - mean) * scale
        off = dy * g
        away = unit * F.mean(off * unit, axis=1, keepdims=True)
        dx = scale * (off - F.mean(off, axis=1, keepdims=True) - away) + b
        return dx, F.sum(dy * unit, axis=0), F.sum(dy, axis=0)

    wide = [a.astype(np.float64) for a in (x, g, b, dy)]
    unit = (wide[0] - wide[0].mean(1, keepdims=True)) / np.sqrt(wide[0].var(1, keepdims=True) + 1e-5)
    off = wide[3] * wide[1]
    dx = off - off.mean(1, keepdims=True) - unit * (off * unit).mean(1, keepdims=True)
    want = dx / np.sqrt(wide[0].var(1, keepdims=True) + 1e-5) + wide[2], (wide[3] * unit).sum(0), wide[3].sum(0)
    for row_bytes in (schedule_blocks.MACHINE.row_bytes, 64 * 4, 0):
        monkeypatch.setattr(schedule_blocks, "MACHINE", replace(schedule_blocks.MACHINE, row_bytes=row_bytes))
        got, _ = results_of(function, [x, g, b, dy])
        for y, w in zip(got, want, strict=True):
            np.testing.assert_allclose(y, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [1024, 2064, 5008])
def test_numbers_of_long_rows_are_loaded_once_for_each_program(length):
    """Not once for each element; in every way to cut rows into pieces, the last of which may not be full."""

    def function(F, x, scale, bias):
        return F.broadcast_add(F.tanh(scale * 2) * x, bias)

    arrays = [RNG.normal(size=s).astype(np.float32) for s in ((2, 3, length), (2, 3, 1), (length,))]
    x, scale, bias = (a.astype(np.float64) for a in arrays)
    module = HybridLambda(function).trace(*map(mx.nd.array, arrays)).optimize().form("triton").module
    (kernel,) = map(read_kernel, kernels(module).values())
    made = launches_of(kernel, {})
    ways = made.kernel_launches[0].configs
    given = [next(a for a in arrays if a.size == math.prod(v.shape)) for v in kernel.arguments]
    given = [a.reshape(v.shape) for a, v in zip(given, kernel.arguments, strict=True)]
    assert len({way.constants for way in ways}) == len(ways) > 1
    for config in range(len(ways)):
        for at_end in (False, True):
            (got,) = run_regions(kernel, made, given, at_end=at_end, config=config)
            np.testing.assert_allclose(got, np.tanh(2 * scale) * x + bias, rtol=1e-5, atol=1e-6)


def test_rows_that_begin_anywhere_are_walked_as_one():
    """Vectors of a flat array are whole, whatever the length of its rows."""
    steps = program_of(lambda F, x, scale: x * scale, (64, 4001), (64, 1)).steps
    assert [step.configs[0].grid for step in steps] == [(-(-64 * 4001 // 1024), 1, 1)]


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
    (kernel_launch,) = launches_of(read_kernel(function), {}).kernel_launches
    assert ("int64" in kernel_launch.function.source) == wide
    assert kernel_launch.function.numbers == ("i64" if wide else "i32",)


def test_sums_of_nothing_that_maps_read():
    """They are made before the maps, which walk less than they do: numbers that are added to something."""

    def function(F, x, nothing):
        return F.flip(x, axis=0) + F.reshape(F.sum(nothing * F.reshape(x, (1, 3, 1)), axis=(0, 2)), (3,))

    module = HybridLambda(function).trace(mx.nd.zeros((3,)), mx.nd.zeros((2, 3, 0))).optimize().lower("triton").module
    (name,) = [n for n in kernels(module) if "sum" in n]
    kernel = read_kernel(kernels(module)[name])
    made = launches_of(kernel, {})
    stored = [b for kernel_launch in made.kernel_launches for b in kernel_launch.buffers if b >= len(kernel.arguments)]
    assert set(stored) == {
        *range(len(kernel.arguments), len(kernel.arguments) + len(kernel.results) + len(made.locals))
    }
    (got,), _ = results_of(function, [np.arange(3, dtype=np.float32), np.zeros((2, 3, 0), np.float32)])
    np.testing.assert_array_equal(got, [2, 1, 0])
