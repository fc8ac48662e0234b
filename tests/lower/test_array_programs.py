"""The schedule of kernels for functions on whole arrays: what the programs say, and that they hold to their rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_program import TileContract, TileReduce
from hybridc.ir.tiles.tile_spec import faults
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMachine, schedule_arrays
from tests.lower.kernels import kernel
from tests.lower.write_kernel import BODIES, Writer
from tests.lower.write_kernel import kernels as random_kernels
from tests.slices import tries

EXP, ADD = "%r = math.exp %e0 : E", BODIES[2][0]
SMALL = ArrayMachine(8, 8, parallel_elements=8)


def programs(text, machine=SMALL, threads=1):
    """The tile programs of a kernel; each holds to its specification, prints and is parsed again."""
    nests, _ = schedule_arrays(read_kernel(kernel(text)), threads, machine=machine)
    found = [program for nest in nests for program in nest.programs]
    for program in found:
        assert faults(program) == []
        assert repr(parse(str(program))) == repr(program)  # as text, since nan is not nan
    return found


def test_a_contraction_and_its_epilogue():
    w = Writer("f32", [(20, 6)])
    p = w.contraction(w.arg((0, 2), extra=(5,)), w.arg((1, 2), extra=(5,)), (0, 1))
    contraction, rest = programs(w.text([w.map([p, w.arg((1,))], (0, 1), ADD)]))
    assert (
        str(contraction)
        == """\
tile_program {
  buffer x0 : f32
  buffer x1 : f32
  buffer y0 : f32
  axes i0 < 20, i1 < 6, i2 < 5
  tile i0 by 20 whole
  tile i1 by 6 whole
  tile i2 by 5 whole
  parallel {
    sweep {
      %0 = load x0[i0*5 + i2] : f32
      %1 = load x1[i1*5 + i2] : f32
      %2 = contract %0, %1 over i2 : f32
      store %2, y0[i0*6 + i1]
    }
  }
}
"""
    )
    assert (
        str(rest)
        == """\
tile_program {
  buffer y0 : f32
  buffer x2 : f32
  axes i0 < 20, i1 < 6
  tile i0 by 1 grid
  tile i1 by 6 whole
  parallel i0 {
    sweep {
      %0 = load y0[i0*6 + i1] : f32
      %1 = load x2[i1] : f32
      %2 = map arith.addf %0, %1 : f32
      store %2, y0[i0*6 + i1]
    }
  }
}
"""
    )


def reduction(program):
    """The only reduction of a program."""
    (found,) = program.reductions
    return found


def column_sum(domain, reduced):
    w = Writer("f32", [domain])
    e = w.map([w.arg(range(len(domain)))], range(len(domain)), EXP)
    return w.text([w.reduce(e, reduced)])


def test_sums_along_the_grid_are_partial_results():
    (program,) = programs(column_sum((1000, 3), (0,)), ArrayMachine(tile_elements=300))
    assert [str(tile).strip() for tile in program.tiles] == ["tile i0 by 100 grid", "tile i1 by 3 whole"]
    assert [(b.name, b.pieces) for b in program.buffers] == [("x0", False), ("p0", True)]
    assert str(reduction(program).into) == "p0[i1]"
    assert not reduction(program).accumulates


def test_tiles_add_to_the_result_where_partial_results_would_be_many():
    (program,) = programs(column_sum((10, 30), (0,)), ArrayMachine(tile_elements=30))
    assert (str(reduction(program).into), reduction(program).accumulates) == ("y0[i1]", True)
    assert not program.pieces


def test_axes_merge_in_tiles_only():
    text = column_sum((40, 5, 6), (1, 2))
    assert [p.sizes for p in programs(text, ArrayMachine(tile_elements=60))] == [(40, 30)]
    assert [p.sizes for p in programs(text, ArrayMachine())] == [(40, 5, 6)]


@settings(max_examples=tries(60), deadline=None)
@given(text=random_kernels(), size=st.sampled_from([1, 4, 20, 65536]), threads=st.sampled_from([1, 2]))
def test_random_kernels(text, size, threads):
    programs(text, ArrayMachine(size, size, parallel_elements=size), threads)


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("contract %0, %1", "contract %0, %7", "%7 is not known: %2 = contract %0, %7 over i2 : f32"),
        ("over i2 : f32", "over i2 : f64", "operands of other kinds: %2 = contract %0, %1 over i2 : f64"),
        ("tile i2 by 5 whole\n  parallel", "tile i2 by 1 grid\n  parallel i2",
         "a reduction of what other tiles have: %2 = contract %0, %1 over i2 : f32"),
    ],
)  # fmt: skip
def test_faults_of_contractions(before, after, fault):
    w = Writer("f32", [(20, 6)])
    (program,) = programs(w.text([w.contraction(w.arg((0, 2), extra=(5,)), w.arg((1, 2), extra=(5,)), (0, 1))]))
    assert any(isinstance(s, TileContract) for s in program.sweeps[0].statements)
    assert str(program).count(before) == 1
    assert fault in faults(parse(str(program).replace(before, after)))


def test_a_reduction_within_tiles_is_no_partial_result():
    (program,) = programs(column_sum((40, 30), (1,)), ArrayMachine(tile_elements=60))
    assert isinstance(reduction(program), TileReduce)
    assert reduction(program).into is None
