"""What operators say of the places of their elements, run on NumPy, against their eager meaning."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.dialects.movement import NUMPY_MOVES
from hybridc.dialects.operator import Contraction, Movement
from hybridc.tools.check_op import meaning
from hybridc.tools.check_op.case import each_sample
from tests.ops.samples import OURS, each

# They raise at indices out of range, or add to places that may coincide: only the host can.
HOST = {
    "gather_nd-0", "gather_nd-1", "gather_nd-2", "index_copy-0", "scatter_add_nd-0", "scatter_nd-0", "scatter_set_nd-0",
    "take-4", "take_scatter-0",
}  # fmt: skip


@each(meaning.movement)
def test_moves_are_what_eager_does(case):
    meaning.movement(case)


def test_movements_without_words_are_known():
    silent = set()
    for cls in OURS.values():
        for call, case in each_sample(cls) if issubclass(cls, Movement) else ():
            op = case.operator()
            if not op.decomposes() and op.move(NUMPY_MOVES, *case.arrays()) is None:
                silent.add(call)
    assert silent == HOST


@pytest.mark.parametrize("cls", [c for c in OURS.values() if issubclass(c, Contraction)])
def test_loops_of_contractions(cls):
    for _, case in each_sample(cls):
        op, (a, b) = case.operator(), case.arrays("float64")
        loops = op.loops(a.ndim)
        if any(not isinstance(place, int) for places in loops for place in places):
            continue  # at affine indices; their samples have references
        got = np.einsum(*[x for pair in zip((a, b), loops, strict=False) for x in pair], loops[2])
        np.testing.assert_allclose(got, op.eager(a, b), rtol=1e-12, atol=1e-12)
