"""The parallel regions of a kernel run on guarded memory."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np

from hybridc.lower.llvm.codegen.native_function import load_functions
from tests.lower.llvm.native import Guarded, call


def in_guards(regions, arrays, outputs, locals_=(), cuts=3):
    """The outputs after the parallel regions ran on guarded copies of the arrays, each one's range in some parts."""
    made = []
    for at_end in (True, False):
        places = [Guarded(a.nbytes, at_end) for a in (*arrays, *outputs)] + [Guarded(n, at_end) for n in locals_]
        for place, array in zip(places, (*arrays, *outputs), strict=False):
            fill(place, array)
        for region in regions:
            (code,) = load_functions([region.function])
            scratch = Guarded(-(-region.scratch // 64) * 64, at_end)
            bounds = sorted({region.extent * i // cuts for i in range(cuts + 1)})
            for low, high in itertools.pairwise(bounds):
                given = [places[i].address for i in region.buffers]
                call(code, given, region.numbers, low, high, scratch.address)
        first = len(arrays)
        made.append([np.frombuffer(places[first + i].bytes(), o.dtype).reshape(o.shape) for i, o in enumerate(outputs)])
    for one, other in zip(*made, strict=True):
        np.testing.assert_array_equal(one, other)
    return made[0]


def fill(place, array):
    """Put an array into guarded memory."""
    source = np.ascontiguousarray(array)
    ctypes.memmove(place.address, source.ctypes.data, source.nbytes)
