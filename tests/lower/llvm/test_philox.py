"""Random numbers by native code are those that NumPy draws, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.dialects.handwritten import ArraySpec
from hybridc.dialects.kernels import philox
from hybridc.dialects.nn.dropout import uniform
from hybridc.lower.llvm.native_target import native_target
from hybridc.transforms.code.kernel_builder import loop_kernel_region
from tests.lower.llvm.guards import in_guards

KEYS = [(0, 0), (12345678901234567890, 77), (2**64 - 1, 2**64 - 1)]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 7, 8, 9, 1001])
@pytest.mark.parametrize("draw", [0, 5, 2**64 - 3])
def test_the_numbers_of_a_draw(kind, count, draw):
    for words in KEYS:
        key = np.array(words, np.uint64)
        specs = [ArraySpec((2,), key.dtype), ArraySpec((count,), np.dtype(kind))]
        region = loop_kernel_region(philox.uniform("llvm", specs[1], draw), specs, native_target(2))
        (got,) = in_guards([region], [key], [np.full(count, 7, kind)])
        np.testing.assert_array_equal(got, uniform(key, draw, (count,), np.dtype(kind)))
