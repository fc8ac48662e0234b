"""Tile programs of contractions: what is carried, on which dimensions tiles lie; they hold to the specification."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.ir.attention import attention_of
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_program import TileBound, TileConfig
from hybridc.ir.tiles.tile_spec import faults
from hybridc.transforms.code.blocks import choose_block_matmul
from hybridc.transforms.schedules.blocks.schedule_attention import schedule_attention
from tests.lower.llvm.guarded import native_kernels
from tests.lower.llvm.test_gemm import contraction_kernel
from tests.lower.triton.printed import launches_of_matmul
from tests.lower.triton.test_attention import causal, plain
from tests.lower.triton.test_attention_backward import lowered

pytestmark = pytest.mark.triton

MATMUL = """\
tile_program {
  buffer x0 : f16
  buffer x1 : f16
  buffer y0 : f32
  axes i0 < 3, i1 < 64, i2 < 40, i3 < 100
  inner i3
  tile i1 by bm grid
  tile i2 by bn grid masked
  tile i3 by bk loop masked
  group group
  parallel i0, i1, i2 {
    sweep {
      %0 = carry 0.0 over i1, i2 on t0, t1 : f32
    }
    sweep i3 {
      %1 = load x0[i0*6400 + i1*100 + i3] on t0, t2 < 100 else 0.0 : f16
      %2 = load x1[i0*4000 + i2 + i3*40] on t2 < 100, t1 < 40 else 0.0 : f16
      %3 = contract %1, %2 over i3 onto %0 : f32
      update %0, %3
    }
    sweep {
      store %0, y0[i0*2560 + i1*40 + i2] on t0, t1
    }
  }
}
"""


def matmuls(monkeypatch, spec, sizes, dtype="f16", parts=0):
    """The launches of a matmul."""
    found = []
    schedule = choose_block_matmul.schedule_matmul
    monkeypatch.setattr(choose_block_matmul, "schedule_matmul", lambda *args: found.extend(schedule(*args)) or found)
    assert launches_of_matmul(contraction_kernel(spec, sizes, dtype), {}, parts=parts) is not None
    return found


def attentions(function, dtype="float16", rows=40):
    """The launches of an attention and its backward."""
    module = lowered(function, [np.ones((2, n, 8), dtype) for n in (rows, 64, 64)])
    known = [a for k in native_kernels(module) for a in [attention_of(k)] if a is not None]
    config = [TileConfig((("bm", 16), ("bk", 32)), 4)]
    return [x for a in known for x in schedule_attention(a, {}, [config] * (1 if a.softmax else 2))[0]]


def test_a_matmul_is_this(monkeypatch):
    (launch,) = matmuls(monkeypatch, "bik,bkj->bij", {"b": 3, "i": 64, "j": 40, "k": 100})
    assert str(launch.program) == MATMUL


def test_matmuls_hold_to_their_specification(monkeypatch):
    """In parts and of vectors, with terms of several axes, too; as text they are the same again."""
    for spec, sizes, parts, launches in (
        ("ik,jk->ij", {"i": 60, "j": 40, "k": 100}, 3, 2),
        ("bk,bkj->bj", {"b": 2, "j": 9, "k": 200}, 2, 2),
        ("hbsd,hed->bse", {"b": 2, "s": 5, "h": 3, "d": 7, "e": 20}, 1, 1),
        ("k,k->", {"k": 30}, 1, 1),
        ("ik,kj->ij", {"i": 20, "j": 40, "k": 1}, 1, 1),
    ):
        with monkeypatch.context() as patch:
            found = matmuls(patch, spec, sizes, parts=parts)
        assert len(found) == launches
        for launch in found:
            assert faults(launch.program) == []
            assert parse(str(launch.program)) == launch.program


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_attentions_hold_to_it(dtype):
    for function in (plain, causal):
        found = attentions(function, dtype)
        assert len(found) == 3
        for launch in found:
            assert faults(launch.program) == []
            assert parse(str(launch.program)) == launch.program


def test_loops_leave_out_what_a_causal_mask_hides():
    assert [x.program.tiles[1].bound for x in attentions(plain)] == [None] * 3
    bounds = [(x.program.tiles[0].backwards, x.program.tiles[1].bound) for x in attentions(causal)]
    by_rows, by_keys = (True, TileBound(0, 0, last=True)), (False, TileBound(0, 0, last=False))
    assert sorted(bounds, key=str) == [by_keys, by_rows, by_rows]


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("onto %0 : f32", "onto %1 : f32", "operands of other kinds: %3 = contract"),
        ("onto %0 : f32", "onto %9 : f32", "%9 is not known: %3 = contract"),
        ("contract %1, %2 over i3", "contract %1, %0 over i3", "operands of other kinds: %3 = contract"),
        ("over i3 onto", "over i2 onto", "a reduction of what other tiles have: %3 = contract"),
        ("on t0, t2 < 100", "on t0, t1 < 100", "a tile that follows what it does not lie on: %1 = load"),
        ("i1*40 + i2] on t0, t1", "i1*40 + i2] on t0, t0", "a tile on no dimensions, or on one twice: store"),
        ("by bk loop", "by bk grid", "tiles share what each has, or do not share the others"),
        ("loop masked", "loop masked until t2 + 3", "what is left out does not depend on a tile of the grid"),
        ("tile i1 by bm grid\n", "", "groups are of tiles along two dimensions of the grid"),
        ("store %0", "store %3", "%3 is not known: store %3"),
    ],
)
def test_what_is_wrong_with_a_program_is_said(before, after, fault):
    assert before in MATMUL
    found = faults(parse(MATMUL.replace(before, after)))
    assert any(fault in each for each in found), found
