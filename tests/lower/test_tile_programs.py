"""Tile programs: those of kernels print, parse and hold to their specification; what is wrong with others is said."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import VerifyError
from hybridc.gluon import nn
from hybridc.ir.contraction_shape import Loop, Matrices, contraction_of, matrices_of
from hybridc.ir.costs import SAME_SET
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_spec import faults, verify
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.transforms.code import parallel_regions
from hybridc.transforms.code.kernel_builder import kernel_program
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.schedule_contractions import schedule_loops
from hybridc.transforms.schedules.schedule_linear_map import LinearMapForm
from hybridc.transforms.schedules.schedule_moves import (
    CombinationForm,
    FillForm,
    RowsForm,
    TilesForm,
    TranspositionForm,
)
from hybridc.transforms.schedules.schedule_register_tiles import (
    RegisterTile,
    dot_program,
    exchanged_program,
    matmul_loops,
    prepacked_program,
    schedule_prepacked,
    tile_program,
)
from tests.lower.llvm.test_gemm import contraction_kernel
from tests.lower.random_tile_programs import hold_to_specification
from tests.random_programs import FLOATS, INTEGERS

SOFTMAX = """\
tile_program {
  buffer b0 : f32
  buffer b1 : f32
  scratch t0 over i1 : f32
  axes i0 < n0, i1 < 100
  inner i1
  parallel i0 {
    sweep i1 {
      %0 = load b0[i0*100 + i1] : f32
      %1 = reduce arith.maximumf %0 from -inf over i1 carried 1 : f32
    }
    sweep i1 {
      %2 = load b0[i0*100 + i1] : f32
      %3 = map arith.subf %2, %1 : f32
      %4 = map math.exp %3 : f32
      store %4, t0[i1]
      %5 = reduce arith.addf %4 from 0.0 over i1 carried 1 : f32
    }
    sweep {
      %6 = constant 1.0 : f32
      %7 = map arith.divf %6, %5 : f32
    }
    sweep i1 {
      %8 = load t0[i1] : f32
      %9 = map arith.mulf %8, %7 : f32
      store %9, b1[i0*100 + i1]
    }
  }
}
"""


def made(monkeypatch, net, *inputs):
    """The tile programs of a network's kernels, forward and backward."""
    found = []
    schedule = parallel_regions.schedule

    def noted(plan, memory):
        found.append(schedule(plan, memory))
        return found[-1]

    monkeypatch.setattr(parallel_regions, "schedule", noted)
    net.trace(*inputs).optimize().lower("llvm")
    return found


def test_softmax_is_this(monkeypatch):
    (program,) = made(monkeypatch, nn.HybridLambda("softmax"), mx.nd.ones((64, 100)))
    assert str(program) == SOFTMAX


FUNCTIONS = {
    "column sums in pieces": (lambda F, x: F.sum(x, axis=0), (4000, 8)),
    "all": (lambda F, x: F.sum(x), (300, 7)),
    "tiles": (lambda F, x: F.transpose(x) + 1, (64, 65)),
    "gather": (lambda F, x: F.reverse(x, axis=1), (5, 6)),
    "a part": (lambda F, x: F.exp(F.slice(x, begin=(1, 2), end=(9, 60), step=(2, 3))), (10, 64)),
    "predicates": (lambda F, x: F.where(x > 0, x, F.isnan(x)), (5, 6)),
    "order": (lambda F, x: F.sum(x, axis=1), (50, 3)),
    "inner and outer": (lambda F, x: F.sum(x, axis=(0, 2)), (8, 40, 9)),
    "numbers": (lambda F, x: F.clip(x * np.inf, -1e30, 2.5) > 0, (3, 4)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_hold_to_their_specification(monkeypatch, name):
    function, shape = FUNCTIONS[name]
    found = made(monkeypatch, nn.HybridLambda(function), mx.nd.ones(shape))
    assert found
    for program in found:
        assert faults(program) == []
        assert parse(str(program)) == program


@pytest.mark.parametrize("dtypes", [FLOATS, INTEGERS], ids=["floats", "integers"])
def test_random_programs_hold_to_it(dtypes):
    hold_to_specification(dtypes, made)


ROWS = """\
tile_program {
  buffer b0 : f16
  buffer b1 : f16
  buffer b2 : f32
  strides 4
  axes i0 < n0, i1 < n1, i2 < n2
  inner i1, i2
  parallel i0 {
    sweep i2, i1 {
      %0 = load b0[i0*s0 + i2*s1] : f16
      %1 = load b1[i1 + i2*s2] : f16
      %2 = map arith.extf %0 : f32
      %3 = map arith.extf %1 : f32
      %4 = map arith.mulf %2, %3 : f32
      %5 = reduce arith.addf %4 from 0.0 over i2 accumulating b2[i0*s3 + i1] : f32
    }
  }
}
"""
SUMS = """\
tile_program {
  buffer b0 : i32
  buffer b1 : i32
  buffer b2 : i32
  strides 4
  axes i0 < n0, i1 < n1, i2 < n2
  inner i1, i2
  parallel i0 {
    sweep i1, i2 {
      %0 = load b0[i0*s0 + i2] : i32
      %1 = load b1[i1*s1 + i2] : i32
      %2 = map arith.muli %0, %1 : i32
      %3 = reduce arith.addi %2 from 0 over i2 carried 1 into b2[i0*s2 + i1*s3] : i32
    }
  }
}
"""


@pytest.mark.parametrize(
    ("spec", "dtype", "text", "numbers"),
    [
        ("ik,kj->ij", "f16", ROWS, (5, 7, 3, 3, 1, 7, 7)),
        ("ik,jk->ij", "i32", SUMS, (5, 7, 3, 3, 3, 7, 1)),
    ],
)
def test_contractions_of_any_types_are_loops(spec, dtype, text, numbers):
    """Rows to which each term adds a multiple of one, or an element's sum along memory."""
    kernel = contraction_kernel(spec, {"i": 5, "j": 7, "k": 3}, dtype)
    made = schedule_loops(contraction_of(kernel), kernel.ops[0], kernel.nests[0])
    assert (str(made.program), made.numbers, made.extent) == (text, numbers, 5)
    assert parse(text) == made.program
    assert faults(made.program) == []


TILES = """\
tile_program {
  buffer b0 : f32
  buffer b1 : f32
  buffer b2 : f32
  scratch t0 over i4, i3 : f32
  strides 11
  axes i0 < n0, i1 < n1, i2 < n2, i3 < n3, i4 < n4
  tile i2 by n2 whole in 12, 4
  tile i3 by 32 grid masked in 16
  tile i4 by n4 whole in 1
  parallel i0, i1, i3 {
    sweep {
      %0 = load b1[i0*s0 + i1*s1 + i3*s2 + i4*s3] : f32
      store %0, t0[i4 + i3]
    }
    sweep {
      %1 = load b0[i0*s4 + i1*s5 + i2*s6 + i4*s7] : f32
      %2 = load t0[i4 + i3] : f32
      %total = contract %1, %2 over i4 : f32
      store %total, b2[i0*s8 + i1*s9 + i2*s10 + i3]
    }
  }
}
"""
REGISTERS = (Registers(64, 32), Registers(32, 16), Registers(16, 32))


@pytest.mark.parametrize("vectors", REGISTERS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matmuls_in_registers_are_tile_programs(vectors, dtype):
    tile = RegisterTile(np.dtype(dtype), vectors)
    programs_ = [tile_program(tile, 2), exchanged_program(tile, 2), dot_program(tile, 2, 0), dot_program(tile, 1, 3)]
    for each in (*programs_, prepacked_program(tile, True), prepacked_program(tile, False)):
        assert faults(each.program) == []
        assert parse(str(each.program)) == each.program
    # The accumulators, the vectors of a row of the panel, and an element leave no register over.
    high, low = tile.heights
    assert 2 * low < 2 * high <= vectors.count - 2 - 1
    assert str(tile_program(tile, 2).program) == TILES or (tile.vectors, tile.kind) != (REGISTERS[0], "f32")


@pytest.mark.parametrize(("apart", "rows"), [(2 * SAME_SET, 4), (2 * SAME_SET + 16, 35)])
def test_rows_that_conflict_in_the_cache_are_not_those_of_a_tile(apart, rows):
    """Of 35 rows so many bytes apart in 4 lines, which are half of ``SAME_SET`` apart, a tile takes the lines."""
    tile = RegisterTile(np.dtype("float32"), REGISTERS[0])
    width, stride = tile.width, apart // 4
    around = (Loop(3, None, 64 * width, width), Loop(4, SAME_SET // 8, None, 35 * 3 * width))
    matrices = Matrices(35, width, 64, (stride, 1), (width, 1), (3 * width, 1), around, (), False)
    schedule = schedule_prepacked(matrices, tile, 1)
    assert schedule is not None
    assert schedule.extent == 140 // rows
    assert {(loop.size, loop.a) for loop in schedule.loops if loop.b is None and loop.size > 1} == {
        (35, stride),
        (4, SAME_SET // 8),
    }


@pytest.mark.parametrize("shape", [(35, 4, 256), (35, 4, 320), (7, 5, 513), (3, 9, 512), (1, 6, 1024)])
def test_a_dense_layer_of_rows_that_are_far_apart(shape):
    net, rng = nn.HybridSequential(), np.random.default_rng(2)
    net.add(
        nn.HybridLambda(lambda F, x: F.transpose(x, axes=(1, 0, 2))),
        nn.Dense(96, activation="relu", flatten=False, in_units=shape[-1]),
    )
    net.initialize()
    net.hybridize()
    x, w, b = rng.normal(size=shape), rng.normal(size=(96, shape[-1])), rng.normal(size=96)
    net[1].weight.set_data(mx.nd.array(w))
    net[1].bias.set_data(mx.nd.array(b))
    found = net(mx.nd.array(x)).asnumpy()
    expected = np.maximum(x.transpose(1, 0, 2) @ w.T + b, 0)
    np.testing.assert_allclose(found, expected, atol=2e-5 * np.abs(expected).max())


def test_a_matmul_is_given_its_sizes_and_strides():
    """In row-major order: those of a (5, 7, 3) matmul, whose right matrix is transposed, and no batches."""
    matrices = matrices_of(contraction_of(contraction_kernel("ik,jk->ij", {"i": 5, "j": 7, "k": 3})))
    made = tile_program(RegisterTile(np.dtype("float32"), REGISTERS[0]), 2)
    loops = matmul_loops(matrices, [Loop(1, 0, 0, 0)] * 2)
    assert made.numbers(loops) == (1, 1, 5, 7, 3, 0, 0, 3, 1, 0, 0, 3, 1, 0, 0, 7)


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("whole in 12, 4", "whole in 4 in 12", "a part is larger than what it is of: tile i2 by n2 whole in 4 in 12"),
        ("by 32 grid", "by 32 everywhere", "tiles are not walked so: everywhere"),
        ("over i4 : f32\n      store", "over i3 : f32\n      store", "a reduction of what other tiles have: "),
    ],
)
def test_faults_of_tiles_are_found(before, after, fault):
    assert TILES.count(before) == 1
    assert any(found.startswith(fault) for found in faults(parse(TILES.replace(before, after))))


MOVES = [
    FillForm(4, 3),
    RowsForm(4, 4, contiguous=True, bordered=True),
    RowsForm(2, 5, contiguous=False, bordered=False),
    TilesForm(8, 3),
    TranspositionForm("f32", 8, 2, -1.5),
    CombinationForm("arith.addf", 0.0, "f32"),
    LinearMapForm((((1.0, 0.0, -1.0), (0.0, 0.5, 0.5)),), "f64", 4, 2, apart=True),
]


@pytest.mark.parametrize("form", MOVES, ids=lambda form: type(form).__name__)
def test_what_moves_elements_is_a_tile_program(form):
    program = form.program()
    assert faults(program) == []
    assert parse(str(program)) == program


def counted(b, low, high, x, y):
    """How many elements of a row are positive, and their sum, by a loop in a loop."""

    def row(i):
        def element(j, count, total):
            positive = x[i, j] > 0
            return b.select(positive, count + 1, count), b.select(positive, total + x[i, j], total)

        count, total = b.loop(0, 7, element, b.constant(0, np.dtype("int64")), b.constant(0.0, np.dtype("float32")))
        y[i, 0], y[i, 1] = count, total

    b.loop(low, high, row)


COUNTED = kernel_program(counted, 0, [((3, 7), np.dtype("float32")), ((3, 2), np.dtype("float32"))])


def test_loops_by_hand_are_tile_programs():
    assert faults(COUNTED) == []
    assert str(parse(str(COUNTED))) == str(COUNTED)
    assert " carrying %" in str(COUNTED)
    assert "scatter %" in str(COUNTED)


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("range begin : index", "range begin : i64", "a loop does not run between"),
        (" as %30", " as %12", "%12 is made twice"),
        (" next %23", " next %18", "a loop does not carry it so"),
        ("scatter %32", "scatter %18", "%18 is not known"),
        ("scatter %", "scatter %0, b1[0]\n        scatter %", "b1 holds f32"),
    ],
)
def test_faults_of_loops_by_hand_are_found(before, after, fault):
    assert any(fault in text for text in faults(parse(str(COUNTED).replace(before, after, 1))))


def test_code_shows_its_tile_programs():
    net = nn.HybridLambda("dot")
    program = net.trace(mx.nd.ones((64, 512)), mx.nd.ones((512, 64))).optimize().lower("llvm").programs["forward"]
    shown = program.code("tiles")
    expected = "contract" if registers() is not None else "no tile program"
    assert expected in shown


def test_long_sums_are_added_up_in_blocks(monkeypatch):
    for size, blocks in ((4096, ()), (5000, (4096,)), (300_000, (262_144, 4096))):
        (program,) = made(monkeypatch, nn.HybridLambda(lambda F, x: F.sum(x, axis=1)), mx.nd.ones((2, size)))
        assert [sweep.blocks for sweep in program.sweeps] == [blocks]
        assert parse(str(program)) == program
        assert faults(program) == []


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("math.exp %3", "math.exp %9", "%9 is not known: %4 = map math.exp %9 : f32"),
        ("%8 = load t0[i1]", "%8 = load t9[i1]", "t9 is no buffer: %8 = load t9[i1] : f32"),
        ("%8 = load t0[i1] : f32", "%8 = load t0[i1] : f64", "t0 holds f32: %8 = load t0[i1] : f64"),
        ("constant 1.0 : f32", "constant 1.0 : f64", "operands of other kinds: %7 = map arith.divf %6, %5 : f32"),
        ("store %9, b1", "store %3, b1", "%3 is not known: store %3, b1[i0*100 + i1]"),
        (
            "%8 = load t0[i1]",
            "%8 = load t0[i2]",
            "an address of axes that the sweep does not walk: %8 = load t0[i2] : f32",
        ),
        ("%9 = map", "%8 = map", "%8 is made twice"),
        ("parallel i0 {", "parallel i1 {", "the parallel axes are no axes, or inner ones"),
        ("buffer b1 : f32", "buffer b0 : f32", "two buffers have one name"),
        ("sweep {", "sweep in blocks of 4096 {", "a loop does not run in blocks of (4096,)"),
    ],
)
def test_faults_are_found(before, after, fault):
    assert SOFTMAX.count(before) == 1
    found = faults(parse(SOFTMAX.replace(before, after)))
    assert fault in found


def test_a_wrong_program_is_a_bug():
    verify(parse(SOFTMAX))
    with pytest.raises(VerifyError, match=r"%9 is not known: %4 = map math\.exp %9"):
        verify(parse(SOFTMAX.replace("math.exp %3", "math.exp %9")))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("softmax", "a tile program begins with 'tile_program {'"),
        (SOFTMAX.replace("math.exp %3 : f32", "math.exp %3"), r"no statement of a tile program: %4 = map math.exp %3"),
        (SOFTMAX.replace("    sweep i1 {\n", ""), "a statement outside of a sweep: %0 = load"),
    ],
)
def test_other_texts_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)
