"""Reading, resizing, augmenting and iterating over images: what MXNet 1.9.1 gives for the same programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from tests.golden.image_cases import CASES
from tests.golden.store import Reader

GOLDEN = Reader(Path(__file__).parents[1] / "golden" / "images.npz")
# By how much elements may differ, relative to the largest; float32 sums in another order differ by a few roundings.
CLOSE = 2e-5
# Levels of uint8 by which an element may differ, and which share of them may: OpenCV sums cubic weights in float32
# where its vector instructions reach, and in integers elsewhere.
# MXNet cuts hues off where hybridc rounds them.
# OpenCV's affine maps round places to parts of 32 of a pixel.
LEVELS = {"resize_2_uint8": (1, 0.002), "transformed_at_random": (1, 0.2), "record_distortions": (4, 0.3)}


@pytest.mark.filterwarnings("ignore:Ignoring:UserWarning")
@pytest.mark.parametrize("name", CASES)
def test_program_gives_what_mxnet_gives(name, tmp_path):
    made = CASES[name](mx, tmp_path)
    wanted = [GOLDEN.get(reference) for reference in GOLDEN.index[name]]
    assert len(made) == len(wanted)
    for i, (got, want) in enumerate(zip(made, wanted)):
        got = np.asarray(got)
        assert got.shape == want.shape, (i, got.shape, want.shape)
        assert got.dtype == want.dtype, (i, got.dtype, want.dtype)
        off = np.abs(got.astype(np.float64) - want.astype(np.float64))
        if want.dtype.kind == "f":
            assert np.all(off <= CLOSE * max(1.0, float(np.abs(want).max(initial=0)))), (i, off.max())
        elif name not in LEVELS:
            assert not off.any(), (i, off.max(), (off > 0).mean(), got.tobytes()[:80], want.tobytes()[:80])
    if name in LEVELS:
        pairs = [(a, b) for a, b in zip(made, wanted) if b.dtype == np.uint8]
        off = np.concatenate([np.abs(a.astype(int) - b).ravel() for a, b in pairs])
        levels, share = LEVELS[name]
        assert off.max() <= levels
        assert (off > 0).mean() <= share
