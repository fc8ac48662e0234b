"""Functions for arrays of all sizes: compiled for a level, and taken from the package if it has their objects."""

from __future__ import annotations

import dataclasses
import platform

import numpy as np
import pytest

from hybridc.ground import store
from hybridc.ir.tiles.tile_parser import parse
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen import processor
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_target import print_program
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile, tile_program
from tests.lower.llvm.test_processor import LEVELS, choose

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the levels of x86-64 are there only")

ROWS = """tile_program {
  buffer b0 : f32
  buffer b1 : f32
  axes i0 < n0, i1 < 100
  inner i1
  parallel i0 {
    sweep i1 {
      %0 = load b0[i0*100 + i1] : f32
      store %0, b1[i0*100 + i1]
    }
  }
}
"""


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_shares_its_own_code(monkeypatch, level):
    choose(monkeypatch, level)
    assert processor.shared_level() == processor.name()


def test_the_host_shares_the_code_of_its_highest_level(monkeypatch):
    choose(monkeypatch, "host")
    level = processor.shared_level()
    assert not processor.lacking(level)
    above = [name for name in LEVELS if name > level and name != "generic"]
    assert all(map(processor.lacking, above))


def test_which_programs_are_for_all_sizes():
    rows = parse(ROWS)
    assert not rows.for_all_sizes
    assert dataclasses.replace(rows, sizes=(None, None)).for_all_sizes
    matmul = tile_program(RegisterTile(np.dtype("float32"), Registers(32, 16)), 2).program
    assert matmul.for_all_sizes
    packed = parse(PACKED)
    assert packed.for_all_sizes
    assert not parse(PACKED.replace("tile i2 by 16 whole in 8", "tile i2 by n2 whole in 8")).for_all_sizes


# The columns are those of a register tile.
PACKED = """tile_program {
  buffer b0 : f32
  buffer b1 : f32
  buffer b2 : f32
  scratch t0 over i1, i3, i1 : f32
  strides 5
  axes i0 < n0, i1 < n1, i2 < 16, i3 < n3
  tile i1 by 48 range masked in 6, 4
  tile i2 by 16 whole in 8
  tile i3 by n3 whole in 1
  parallel i1 {
    sweep {
      %0 = load b0[i1*s0 + i3*s1] : f32
      store %0, t0[i1 + i3]
    }
    sweep i0 {
      %1 = load t0[i1 + i3] : f32
      %2 = load b1[i0*s2 + i2 + i3*16] : f32
      %total = contract %1, %2 over i3 : f32
      store %total, b2[i0*s3 + i1*s4 + i2]
    }
  }
}
"""


def test_code_for_all_sizes_is_that_of_the_level(monkeypatch):
    choose(monkeypatch, "host")
    if (vectors := registers()) is None:
        pytest.skip("this processor has no registers for tiles")
    matmul = tile_program(RegisterTile(np.dtype("float32"), vectors), 2).program
    own, shared = print_program(parse(ROWS)), print_program(matmul)
    level, width = processor.shared_level(), processor.vector_bits()
    assert (own.cpu, shared.cpu) == ("host", level)
    made = shared.explain("assembly")
    choose(monkeypatch, level)
    assert processor.vector_bits() != width or shared.explain("assembly") == made


def test_what_the_package_has_is_not_compiled(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "SHIPPED", tmp_path / "objects")
    choose(monkeypatch, "x86-64-v2")
    ir = codegen.llvm_text([print_program(parse(ROWS))])
    compiled: list[str] = []
    optimised = codegen.optimised

    def counted(text, target):
        compiled.append(text)
        return optimised(text, target)

    monkeypatch.setattr(codegen, "optimised", counted)
    codegen.ship_object(ir, "x86-64-v2")
    made = codegen.object_of(ir, "x86-64-v2")
    assert compiled == [ir]
    assert made == codegen.object_of(ir)  # for HYBRIDC_CPU, which is the same
    assert compiled == [ir]
    codegen.object_of(ir, "x86-64-v3")
    codegen.object_of(ir + "\n", "x86-64-v2")
    assert len(compiled) == 3
    another = dataclasses.replace(codegen.host(), llvm="another")
    monkeypatch.setattr(codegen, "host", lambda: another)
    assert codegen.object_of(ir, "x86-64-v2") == made  # of this text LLVM makes the same to the byte
    assert len(compiled) == 4
