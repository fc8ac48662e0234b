"""Kernels run by their Triton functions in the interpreter, each array between forbidden pages."""

from __future__ import annotations

import math

from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import is_host
from hybridc.runtime.triton_kernel import interpret
from tests.lower.evaluate import Evaluator
from tests.lower.llvm.guarded import GAP, Array, strided
from tests.lower.llvm.native import Guarded


def run_regions(kernel, made, arrays, strides=None, at_end=True, config=0, inplace=()):
    """The results of a kernel by its launches, in their config with this index, or the last.

    ``strides`` are those of arguments, then results, that are not contiguous. For each pair of ``inplace`` a result
    is written over an argument.
    """
    values = [*kernel.arguments, *kernel.results]
    places = []
    for i, v in enumerate(values):
        content = arrays[i] if i < len(arrays) else None
        steps = (strides or {}).get(i, row_major(v.shape))
        places.append(Array(v.dtype, v.shape, steps, at_end, content))
    locals_ = [Guarded(n, at_end) for n in made.locals]
    for i, j in inplace:
        places[len(arrays) + j] = places[i]
    addresses = [p.address for p in (*places, *locals_)]
    for kernel_launch in made.kernel_launches:
        given = [addresses[i] for i in kernel_launch.buffers]
        chosen = kernel_launch.configs[min(config, len(kernel_launch.configs) - 1)]
        if math.prod(chosen.grid):
            interpret(kernel_launch.function, given, kernel_launch.numbers, chosen)
    for i, place in enumerate(places[len(arrays) :]):
        place.check_gaps(f"{kernel.name}, result {i}")
    return [p.array() for p in places[len(arrays) :]]


class Interpreted(Evaluator):
    """Runs the calls of kernels by the Triton functions that ``phases_of(kernel, strides)`` makes.

    Kernels for which it makes none are evaluated. ``ran`` are the kernels that were run. What ``inplace(kernel,
    strided)`` allows to be written over arguments must give the same there.
    """

    def __init__(self, module, launches_of, inplace=None):
        super().__init__(module, views=True)
        self.launches_of, self.inplace, self.ran = launches_of, inplace, []

    def call(self, name, *arrays):
        function = self.functions[name]
        if function.sym_visibility is None or is_host(function):
            return super().call(name, *arrays)
        kernel = read_kernel(function)
        strides = {}
        for i in strided(function):
            if i < len(arrays):
                strides[i] = tuple(s // arrays[i].itemsize for s in arrays[i].strides)
            else:
                shape = kernel.results[i - len(arrays)].shape
                strides[i] = row_major((*shape[:1], *(n + GAP for n in shape[1:])))
        made = self.launches_of(kernel, strides)
        if made is None:
            return super().call(name, *arrays)
        self.ran.append(kernel)
        given = [self.stored(x) for x in arrays]
        found = run_regions(kernel, made, given, strides, at_end=len(self.ran) % 2 == 0)
        for pair in [] if self.inplace is None else self.inplace(kernel, sorted(strides)):
            again = run_regions(kernel, made, given, strides, inplace=[pair])
            assert [y.tobytes() for y in again] == [y.tobytes() for y in found], f"{kernel.name}, in place {pair}"
        return [self.stored(y) for y in found]
