"""Tile programs for a GPU: what programs share, what loops carry; and that they hold to the specification."""

from __future__ import annotations

import pytest

import hybridc as mx
from hybridc.gluon import nn
from hybridc.ir.tiles.tile_parser import parse
from hybridc.ir.tiles.tile_spec import faults
from hybridc.transforms.code.blocks import code_loop_nests
from tests.lower.random_tile_programs import hold_to_specification
from tests.random_programs import FLOATS, INTEGERS

pytestmark = pytest.mark.triton

SOFTMAX = """\
tile_program {
  buffer x0 : f32
  buffer y0 : f32
  axes i0 < n0, i1 < 100
  inner i1
  tile i0 by ROWS grid masked
  tile i1 by 128 whole masked
  parallel i0 {
    sweep {
      %0 = load x0[i0*100 + i1] : f32
      %1 = reduce arith.maximumf %0 from -inf over i1 : f32
      %2 = map arith.subf %0, %1 : f32
      %3 = map math.exp %2 : f32
      %4 = reduce arith.addf %3 from 0.0 over i1 : f32
      %5 = constant 1.0 : f32
      %6 = map arith.divf %5, %4 : f32
      %7 = map arith.mulf %3, %6 : f32
      store %7, y0[i0*100 + i1]
    }
  }
}
"""

# Partial results of the greatest value and of the sum of powers, and what makes one of them.
LONG_SOFTMAX = """\
tile_program {
  buffer x0 : f32
  pieces w0 : f32
  pieces w1 : f32
  axes i0 < n0, i1 < 40000
  tile i1 by ROWS piece masked
  tile i0 by COLUMNS grid masked
  parallel i0, i1 {
    sweep {
      %0 = carry -inf over i0 : f32
      %1 = carry 0.0 over i0 : f32
    }
    sweep i1 {
      %2 = load x0[i0*40000 + i1] : f32
      %3 = reduce arith.maximumf %2 from -inf over i1 : f32
      %4 = map arith.maximumf %0, %3 : f32
      %5 = constant -inf : f32
      %6 = map arith.cmpf oeq %4, %5 : i1
      %7 = constant 0.0 : f32
      %8 = map arith.select %6, %7, %4 : f32
      %9 = map arith.subf %0, %8 : f32
      %10 = map math.exp %9 : f32
      %11 = map arith.mulf %1, %10 : f32
      %12 = map arith.subf %2, %8 : f32
      %13 = map math.exp %12 : f32
      %14 = reduce arith.addf %13 from 0.0 over i1 : f32
      %15 = map arith.addf %11, %14 : f32
      update %1, %15
      update %0, %4
    }
    sweep {
      store %0, w0[i0]
      store %1, w1[i0]
    }
  }
}
"""

JOINED = """\
tile_program {
  buffer w0 : f32
  buffer w1 : f32
  buffer w2 : f32
  buffer w3 : f32
  axes i0 < 10, i1 < 2
  inner i0
  tile i0 by 16 whole masked
  tile i1 by COLUMNS grid
  parallel i1 {
    sweep {
      %0 = load w0[i0*2 + i1] : f32
      %1 = load w1[i0*2 + i1] : f32
      %2 = reduce arith.maximumf %0 from -inf over i0 : f32
      %3 = constant -inf : f32
      %4 = map arith.cmpf oeq %2, %3 : i1
      %5 = constant 0.0 : f32
      %6 = map arith.select %4, %5, %2 : f32
      %7 = map arith.subf %0, %6 : f32
      %8 = map math.exp %7 : f32
      %9 = map arith.mulf %1, %8 : f32
      %10 = reduce arith.addf %9 from 0.0 over i0 : f32
      %11 = map arith.subf %2, %2 : f32
      %12 = map math.exp %11 : f32
      %13 = map arith.mulf %10, %12 : f32
      store %2, w2[i1]
      store %13, w3[i1]
    }
  }
}
"""


def made(monkeypatch, net, *inputs):
    """The launches of a network's kernels, forward and backward."""
    found = []
    schedule = code_loop_nests.schedule_blocks

    def noted(*args):
        launches, memory = schedule(*args)
        found.extend(launches)
        return launches, memory

    monkeypatch.setattr(code_loop_nests, "schedule_blocks", noted)
    net.trace(*inputs).optimize().lower("triton")
    return found


def test_softmax_is_this(monkeypatch):
    (launch,) = made(monkeypatch, nn.HybridLambda("softmax"), mx.nd.ones((64, 100)))
    assert str(launch.program) == SOFTMAX
    assert (launch.what, launch.buffers, launch.piece) == ("rows", ("x0", "y0"), None)


def test_a_softmax_of_rows_that_no_program_holds(monkeypatch):
    parts, joined, elements = made(monkeypatch, nn.HybridLambda("softmax"), mx.nd.ones((2, 40000)))
    assert [str(each.program) for each in (parts, joined)] == [LONG_SOFTMAX, JOINED]
    assert (parts.pieces, parts.piece) == (10, 4096)
    assert [each.what for each in (parts, joined, elements)] == ["sums", "combine", "elements"]


FUNCTIONS = {
    "elements": (lambda F, x: F.tanh(x) + 1, (33, 65), ["elements"]),
    "column sums in pieces": (lambda F, x: F.sum(x, axis=0), (40000, 8), ["sums", "combine"]),
    "all": (lambda F, x: F.sum(x), (300, 7), ["sums"]),
    "sides": (lambda F, x: F.transpose(x) + 1, (64, 65), ["elements"]),
    "gather": (lambda F, x: F.take(x, F.argmax(x, axis=1), axis=0), (5, 6), ["rows"]),
    "a part": (lambda F, x: F.exp(F.slice(x, begin=(1, 2), end=(9, 60), step=(2, 3))), (10, 64), ["elements"]),
    "numbers": (lambda F, x: F.clip(x * float("inf"), -1e30, 2.5) > 0, (3, 4), ["elements"]),
    "rows and columns": (
        lambda F, x: F.sum(x / F.sum(x, axis=1, keepdims=True), axis=0),
        (4000, 40),
        ["rows", "combine"],
    ),
    "squares": (
        lambda F, x: F.LayerNorm(x, F.ones((30000,)), F.zeros((30000,))),
        (2, 30000),
        ["sums", "combine", "elements"],
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_hold_to_their_specification(monkeypatch, name):
    function, shape, kinds = FUNCTIONS[name]
    found = made(monkeypatch, nn.HybridLambda(function), mx.nd.ones(shape))
    assert [launch.what for launch in found] == kinds
    for launch in found:
        assert faults(launch.program) == []
        assert parse(str(launch.program)) == launch.program


@pytest.mark.parametrize("dtypes", [FLOATS, INTEGERS], ids=["floats", "integers"])
def test_random_programs_hold_to_it(dtypes):
    hold_to_specification(dtypes, lambda *args: [launch.program for launch in made(*args)])


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("update %1, %15", "update %2, %15", "no loop carries it so: update %2, %15"),
        ("update %1, %15", "update %1, %6", "no loop carries it so: update %1, %6"),
        ("store %0, w0", "store %15, w0", "%15 is not known: store %15, w0[i0]"),
        ("store %0, w0[i0]", "store %0, w0[i1]", "an address of axes that the sweep does not walk: store %0, w0[i1]"),
        ("by ROWS piece", "by ROWS whole", "tiles share what each has, or do not share the others"),
        ("by COLUMNS grid", "by COLUMNS piece", "loops are over the tiles of one piece"),
        ("by COLUMNS grid", "by COLUMNS twice", "tiles are not walked so: twice"),
        ("tile i0 by", "tile i1 by", "an axis lies along two dimensions of tiles, or is none"),
        ("from -inf over i1", "from -inf over i0", "a reduction of what other tiles have: %3 = reduce"),
    ],
)
def test_what_is_wrong_with_a_program_is_said(before, after, fault):
    assert before in LONG_SOFTMAX
    found = faults(parse(LONG_SOFTMAX.replace(before, after)))
    assert any(fault in each for each in found), found
