"""Contractions group by group as tile programs: what they say, element by element, and the code that is printed."""

from __future__ import annotations

import ctypes
import dataclasses

import numpy as np
import pytest

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.gluon.nn import HybridLambda
from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_program import TileMap, TileStore
from hybridc.ir.tiles.tile_spec import faults
from hybridc.lower.llvm.codegen.native_function import load_functions
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_target import native_target
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code.choose_matmul import is_contraction_kernel
from hybridc.transforms.code.lane_regions import lane_regions
from hybridc.transforms.schedules.loop_machine import LoopMachine, Registers
from hybridc.transforms.schedules.schedule_lanes import keeps_sums_in_registers, schedule_lanes
from tests.lower.evaluate import Evaluator
from tests.lower.llvm.native import Guarded, call
from tests.lower.llvm.test_gemm import contraction_kernel
from tests.lower.tile_meaning import Meaning
from tests.slices import crossed

REGISTERS = {"avx512": Registers(64, 32), "avx2": Registers(32, 16), "neon": Registers(16, 32)}
TOLERANCE = {"float32": 1e-5, "float64": 1e-13}
# Data, weight, attributes, and whether data has its channels last.
CASES = {
    "depthwise": ((2, 20, 7, 9), (20, 1, 3, 3), {"pad": (1, 1), "num_group": 20}, True),
    "channels first": ((2, 18, 6, 7), (18, 1, 3, 3), {"pad": (1, 1), "num_group": 18}, False),
    "strided": ((2, 17, 9, 8), (17, 1, 3, 3), {"stride": (2, 1), "num_group": 17}, True),
    "dilated": ((1, 16, 9, 11), (16, 1, 3, 2), {"dilate": (2, 3), "num_group": 16}, True),
    "long filters": ((1, 16, 12, 13), (16, 1, 5, 9), {"num_group": 16}, True),
    "two of each channel": ((2, 12, 6, 7), (24, 1, 3, 3), {"num_group": 12}, True),
    "groups of two": ((2, 32, 5, 6), (32, 2, 3, 3), {"num_group": 16}, True),
    "groups of four": ((2, 32, 5, 6), (32, 4, 3, 3), {"num_group": 8}, True),
    "groups of four to eight": ((1, 16, 5, 6), (32, 4, 2, 2), {"num_group": 4}, True),
    "groups of a vector": ((1, 64, 5, 5), (64, 16, 3, 3), {"num_group": 4}, True),
    "one channel": ((2, 1, 9, 10), (33, 1, 5, 5), {}, True),
    "one pixel of a filter": ((2, 16, 6, 6), (16, 1, 1, 1), {"num_group": 16}, True),
    "pieces": ((5, 16, 13, 11), (16, 1, 3, 3), {"pad": (1, 1), "num_group": 16}, True),
    "one axis": ((2, 24, 30), (24, 1, 5), {"num_group": 24}, False),
}  # fmt: skip


# A convolution, and a gradient whose terms are cut into pieces.
TEXT = """\
tile_program {
  buffer b0 : f32
  buffer b1 : f32
  buffer b2 : f32
  strides 11
  axes i0 < n0, i1 < n1, i2 < n2, i3 < n3, i4 < 3, i5 < n5
  tile i3 by n3 whole in 16 in vectors of 16
  tile i2 by 28 grid
  tile i1 by 1 grid
  tile i0 by 1 grid
  tile i4 by 3 whole
  tile i5 by n5 whole in 1
  parallel i0, i1, i2 {
    sweep {
      %0 = load b0[i0*s0 + i1*s1 + i2*s2 + i3 + i4*s2 + i5*s3] : f32
      %1 = load b1[i0*s4 + i1*s5 + i3 + i4*s6 + i5*s7] : f32
      %total = contract %0, %1 over i5, i4 : f32
      store %total, b2[i0*s8 + i1*s9 + i2*s10 + i3]
    }
  }
}
"""
PIECES = """\
tile_program {
  buffer b0 : f32
  buffer b1 : f32
  pieces p2 : f32
  strides 2
  axes i0 < n0, i1 < 3, i2 < n2, i3 < n3
  tile i0 by n0 whole in 16 in vectors of 16
  tile i1 by 3 whole
  tile i2 by PIECE grid masked in 1
  tile i3 by n3 whole in 2, 1
  parallel i2 {
    sweep {
      %0 = load b0[i0 + i2*s0 + i3] : f32
      %1 = load b1[i1 + i2*s1 + i3] : f32
      %total = contract %0, %1 over i2, i3 : f32
      store %total, p2[i0*3 + i1]
    }
  }
}
"""


def target_with(vectors):
    """Native code for a machine of these registers."""
    return dataclasses.replace(native_target(2), machine=LoopMachine(vectors))


def contractions(data, weight, attributes, last, dtype, after=False):
    """The kernels of a convolution with what comes after it, or of it and its gradients, and their module."""
    taps = {"kernel": weight[2:], "num_filter": weight[0], "no_bias": True, **attributes}

    def function(F, x, w, b):
        x = F.transpose(x, axes=(0, 3, 1, 2)) if last else x
        y = F.Convolution(x, w, **taps)
        y = F.maximum(F.broadcast_add(y, b), 0.1) * 2 if after else y
        return F.transpose(y, axes=(0, 2, 3, 1)) if last else y

    data = (data[0], *data[2:], data[1]) if last else data
    ones = [mx.nd.ones(s, dtype=dtype) for s in (data, weight, (1, weight[0], *[1] * (len(weight) - 2)))]
    traced = Traced(trace_call(HybridLambda(function), ones, training=not after), () if after else (0, 1))
    module = traced.optimize().form("llvm").module
    analysed = [read_kernel(f) for f in kernels(module).values()]
    return module, [kernel for kernel in analysed if is_contraction_kernel(kernel)]


def arrays_of(values, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=v.shape).astype(v.dtype) for v in values]


def plain(kernel):
    """The strides of contiguous arguments and results."""
    return [row_major(v.shape) for v in (*kernel.arguments, *kernel.results)]


def native(region, buffers, at_end):
    """Run a region on buffers, each of which lies at a page that cannot be read."""
    (code,) = load_functions([region.function])
    memory = [Guarded(a.nbytes, at_end) for a in buffers]
    for place, a in zip(memory, buffers, strict=True):
        ctypes.memmove(place.address, a.ctypes.data, a.nbytes)
    cut = region.extent // 3
    for lo, hi in ((cut, region.extent), (0, cut)):
        call(code, [m.address for m in memory], region.numbers, lo, hi)
    for place, a in zip(memory, buffers, strict=True):
        a[...] = np.frombuffer(place.bytes(), a.dtype).reshape(a.shape)


def computed(kernel, regions, inputs, run):
    """The results of a kernel's regions, of which ``run`` runs that of the program."""
    dtype = kernel.ops[0].result.dtype
    results = [np.full(v.shape, np.nan, v.dtype) for v in kernel.results]
    memory = [*inputs, *results, *(np.full(n // dtype.itemsize, np.nan, dtype) for n in regions.locals)]
    for region in regions.regions:
        buffers = [memory[i] for i in region.buffers]
        run(region, buffers) if region.algorithm == "lanes" else native(region, buffers, False)
    return results


def meant(region, buffers):
    """What the program of a region means; each element of its results is written once."""
    program = region.function.program
    written = Meaning(program, region.numbers).run(buffers)
    stored = {s.address.buffer for s in program.sweeps[0].statements if isinstance(s, TileStore)}
    assert all((count == (name in stored)).all() for name, count in written.items())


def check(module, kernel, vectors, dtype):
    """The program of a kernel is valid; its meaning and its code are what the kernel says; None if it has none."""
    regions = lane_regions(kernel, target_with(vectors), plain(kernel))
    if regions is None:
        return None
    (region,) = [r for r in regions.regions if r.algorithm == "lanes"]
    program = region.function.program
    assert faults(program) == []
    assert parse(str(program)) == program
    inputs = arrays_of(kernel.arguments)
    expected = Evaluator(module).call(kernel.name, *inputs)
    for run in (meant, lambda *args: native(*args, False), lambda *args: native(*args, True)):
        for got, want in zip(computed(kernel, regions, inputs, run), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=0, atol=TOLERANCE[dtype] * max(1.0, np.abs(want).max()))
    return program


@pytest.mark.parametrize(("name", "vectors", "dtype"), crossed(7, CASES, REGISTERS, ["float32", "float64"]))
def test_programs_mean_convolutions_and_their_gradients(name, vectors, dtype):
    module, contracted = contractions(*CASES[name], dtype)
    programs = [check(module, kernel, REGISTERS[vectors], dtype) for kernel in contracted]
    assert any(programs)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("vectors", REGISTERS)
@pytest.mark.parametrize("name", ["depthwise", "groups of four"])
@pytest.mark.skipif(registers() is None, reason="this processor's registers hold no sums")
def test_programs_end_with_what_follows(name, vectors, dtype):
    module, contracted = contractions(*CASES[name], dtype, after=True)
    (kernel,) = [k for k in contracted if len(k.ops) > 1]
    program = check(module, kernel, REGISTERS[vectors], dtype)
    assert next(s.op for s in program.sweeps[0].statements if isinstance(s, TileMap)) == "arith.addf"


def depthwise(batch, size):
    data, weight, attributes = (batch, 32, size, size), (32, 1, 3, 3), {"pad": (1, 1), "num_group": 32}
    _, contracted = contractions(data, weight, attributes, True, "float32")
    return [schedule_lanes(kernel, plain(kernel), REGISTERS["avx512"]) for kernel in contracted]


def test_a_program_serves_all_sizes():
    """Of a convolution; the gradient of its weight has pieces."""
    (_, small), (_, large) = depthwise(2, 56), depthwise(3, 84)
    assert str(small.program) == str(large.program) == TEXT
    strides = (58 * 58 * 32, 58 * 32, 32, 58 * 32, 0, 0, 32, 96, 56 * 56 * 32, 56 * 32, 32)
    assert small.numbers == (2, 56, 56, 32, 3, *strides)
    assert (small.extent, large.extent) == (2 * 56 * 2, 3 * 84 * 3)


@pytest.mark.skipif(registers() is None, reason="this processor's registers hold no sums")
def test_code_shows_its_program():
    net = HybridLambda(lambda F, x, w: F.Convolution(x, w, kernel=(3, 3), num_filter=32, num_group=32, no_bias=True))
    lowered = net.trace(mx.nd.ones((1, 32, 9, 9)), mx.nd.ones((32, 1, 3, 3))).optimize().lower("llvm")
    shown = lowered.programs["forward"].code("tiles")
    assert f"in vectors of {registers().lanes(np.dtype('float32'))}\n" in shown
    assert "no tile program" not in shown


def test_sums_go_to_a_part_of_an_array():
    """A result with other elements between its rows has no partial results, which are contiguous."""
    kernel = contraction_kernel("nmc,nmkc->kc", {"n": 16, "m": 40, "k": 3, "c": 16})
    target = target_with(REGISTERS["avx512"])
    pieces, one = [lane_regions(kernel, target, [*plain(kernel)[:2], s]) for s in ((16, 1), (32, 1))]
    assert [len(x.regions) for x in (pieces, one)] == [2, 1]
    left, right = arrays_of(kernel.arguments)
    whole = np.zeros((3, 32), "float32")
    native(one.regions[0], [left, right, whole], True)
    np.testing.assert_allclose(whole[:, :16], np.einsum("nmc,nmkc->kc", left, right), rtol=0, atol=1e-4)
    assert not whole[:, 16:].any()


@pytest.mark.parametrize(
    ("text", "before", "after", "fault"),
    [
        (TEXT, "in 16 in vectors", "in 24 in vectors", "parts that are no whole vectors: tile i3 by n3 whole in 24"),
        (TEXT, "i4 by 3 whole", "i4 by 3 whole in 2 in vectors of 2", "vectors lie along two dimensions"),
        (PIECES, "pieces p2", "buffer p2", "a reduction of what other tiles have: "),
        (PIECES, "parallel i2", "parallel i1, i2", "a reduction of what other tiles have: "),
    ],
)
def test_faults_of_vectors_and_pieces_are_found(text, before, after, fault):
    assert parse(text) == parse(str(parse(text)))
    assert faults(parse(text)) == []
    assert text.count(before) == 1
    assert any(f.startswith(fault) for f in faults(parse(text.replace(before, after))))


def test_sums_stay_in_registers_where_there_are_vectors():
    _, contracted = contractions(*CASES["depthwise"], "float32")
    asked = [[keeps_sums_in_registers(k, v) for k in contracted] for v in (None, REGISTERS["avx512"])]
    assert not any(asked[0])
    assert any(asked[1])
