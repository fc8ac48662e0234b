"""The analysis of hand-written kernels."""

from __future__ import annotations

import pytest

from hybridc.ir.kernels.kernel_text import read_kernel
from tests.lower.kernels import kernel
from tests.lower.write_kernel import BODIES, Writer

EXP = "%r = math.exp %e0 : E"
SUB, ADD = "%r = arith.subf %e0, %e1 : E", BODIES[2][0]


def facts(writer, results):
    return read_kernel(kernel(writer.text(results)))


def softmax(rows=6, columns=8):
    w = Writer("f32", [(rows, columns)])
    x = w.arg((0, 1))
    top = w.reduce(x, (1,), "arith.maximumf")
    e = w.map([w.map([x, top], (0, 1), SUB)], (0, 1), EXP)
    y = w.map([e, w.reduce(e, (1,))], (0, 1), "%r = arith.divf %e0, %e1 : E")
    return w, [y]


def test_rows_of_a_softmax_are_its_grid():
    found = facts(*softmax())
    (nest,) = found.nests
    assert nest.domain == (6, 8)
    assert nest.grid == 1
    assert nest.vector == 1
    assert [s.kind for s in nest.ops] == ["row", "elementwise", "elementwise", "row", "elementwise"]
    assert [s.axes for s in nest.ops] == [(0,), (0, 1), (0, 1), (0,), (0, 1)]
    assert [s.reduced for s in nest.ops] == [(1,), (), (), (1,), ()]
    assert [s.combine.op for s in nest.ops if s.combine is not None] == ["arith.maximumf", "arith.addf"]
    assert found.bytes == 2 * 6 * 8 * 4
    assert found.flops == 5 * 6 * 8
    assert found.scratch == 4 * (1 + 8 + 8 + 1)  # for one row: two numbers and two rows
    assert str(found) == (
        "kernel: 384 bytes, 240 operations, 72 bytes of scratch a grid point\n"
        "  6x8, grid 6: row arith.maximumf, elementwise, elementwise, row arith.addf, elementwise"
    )


def test_reductions_across_the_grid_leave_it_whole():
    w = Writer("f32", [(6, 8)])
    x = w.arg((0, 1))
    e = w.map([x], (0, 1), EXP)
    columns = w.reduce(e, (0,))
    everything = w.reduce(e, (0, 1))
    (nest,) = facts(w, [columns, everything]).nests
    assert [s.kind for s in nest.ops] == ["elementwise", "column", "column"]
    assert nest.grid == 2


def test_a_nest_that_reads_what_it_reduces_across_the_grid_has_none():
    w = Writer("f32", [(6, 8)])
    x = w.arg((0, 1))
    y = w.map([x, w.reduce(x, (0,))], (0, 1), SUB)
    (nest,) = facts(w, [y]).nests
    assert nest.grid == 0


def test_a_reduction_in_the_middle_cuts_the_grid_before_it():
    w = Writer("f64", [(2, 3, 4, 5)])
    x = w.arg((0, 1, 2, 3))
    y = w.map([x, w.reduce(x, (2,))], (0, 1, 2, 3), SUB)
    (nest,) = facts(w, [y]).nests
    assert nest.grid == 2
    assert nest.ops[0].axes == (0, 1, 3)


def test_a_product_and_its_epilogue():
    w = Writer("f32", [(4, 5)])
    lhs, rhs, bias = w.arg((0, 2), extra=(7,)), w.arg((1, 2), extra=(7,)), w.arg((1,))
    y = w.map([w.contraction(lhs, rhs, (0, 1)), bias], (0, 1), ADD)
    found = facts(w, [y])
    (nest,) = found.nests
    assert nest.contraction is nest.ops[0]
    assert [r.axes for r in nest.contraction.reads] == [(0, 2), (1, 2)]
    assert nest.contraction.reduced == (2,)
    assert nest.contraction.sizes == (4, 5, 7)
    assert nest.grid == 2
    assert found.flops == 2 * 4 * 5 * 7 + 4 * 5
    assert found.bytes == 4 * (4 * 7 + 5 * 7 + 5 + 4 * 5)


def test_a_transposed_read_says_which_axes_it_follows():
    w = Writer("f32", [(4, 5)])
    x, row = w.arg((1, 0)), w.arg((1,))
    y = w.map([x, row], (0, 1), ADD)
    (nest,) = facts(w, [y]).nests
    assert [r.axes for r in nest.ops[0].reads] == [(1, 0), (1,)]
    assert nest.vector == 1


def test_nests_are_told_apart():
    w = Writer("f32", [(4, 5), (9,)])
    first = w.map([w.arg((0, 1))], (0, 1), EXP)
    second = w.reduce(w.arg((0,), nest=1), (0,), nest=1)
    found = facts(w, [first, second])
    assert [n.domain for n in found.nests] == [(4, 5), (9,)]
    assert [[s.kind for s in n.ops] for n in found.nests] == [["elementwise"], ["column"]]


def test_a_result_that_is_one_number():
    found = read_kernel(
        kernel(
            """
func.func private @ones() -> tensor<3xf32> attributes {hybrid.domains = [array<i64: 3>]} {
  %one = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %f = linalg.fill ins(%one : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  func.return %f : tensor<3xf32>
}"""
        )
    )
    assert found.fills == [(0, 1.0)]
    assert found.ops == []
    assert found.bytes == 12


def test_lines_and_operators_of_the_user():
    function = kernel(
        """
func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> attributes {hybrid.domains = [array<i64: 3>]} {
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>)
      attrs = {hybrid.axes = array<i64: 0>, hybrid.operator = "exp"} {
    ^b(%a: f32, %o: f32):
      %1 = math.exp %a : f32
      linalg.yield %1 : f32
  } -> tensor<3xf32>
  func.return %y : tensor<3xf32>
}"""
    )
    from hybridc.dialects.mlir.hybrid import file_line
    from hybridc.ground.location import Location

    for op in function.body.block.ops:
        op.location = file_line(Location("net.py", 7, ""))
    found = read_kernel(function)
    assert found.operators == ["exp"]
    assert [(where.file, where.line) for where in found.locations] == [("net.py", 7)]


@pytest.mark.parametrize("axes", [(0, 1), (1, 0)])
def test_sizes_are_those_of_the_loops(axes):
    w = Writer("f32", [(4, 5)])
    y = w.map([w.arg(axes)], axes, EXP)
    (kernel_op,) = facts(w, [y]).ops
    assert kernel_op.sizes == tuple((4, 5)[a] for a in axes)
    assert kernel_op.flops == 20
