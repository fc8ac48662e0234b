"""Kernels run by their native parallel regions, with all that they touch between forbidden pages."""

from __future__ import annotations

import ctypes
import itertools
import math

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hybridc.compile.pipeline import context
from hybridc.compile.targets import target_named
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.loop_nest_plan import inplace_pairs
from hybridc.ir.structured import is_host, kernels
from hybridc.lower.llvm.codegen.native_function import load_functions
from hybridc.lower.llvm.native_target import native_target
from hybridc.transforms.code.choose_matmul import is_contraction_kernel
from hybridc.transforms.code.kernel_cache import code_of
from hybridc.transforms.code.parallel_regions import row_major
from hybridc.transforms.schedules.schedule_kernels import SHORT
from tests.lower.evaluate import Evaluator
from tests.lower.llvm.native import Guarded, call

UNROLLED = 100  # terms of a sum: so many LLVM may write out one by one
GAP = 3  # elements between the rows of results that are not contiguous


def lowered(net, *inputs):
    """The module of a network's forward in kernels, as the native target takes it, before memory is planned."""
    module = net.trace(*inputs).optimize().module.clone()
    run_passes(module, itertools.takewhile(lambda p: p.name != "plan-memory", target_named("llvm").passes()))
    return module


def run_passes(module, passes):
    """The passes, the module verified after each."""
    for each in passes:
        each.apply(context(), module)
        module.verify()


class Array:
    """A strided array between forbidden pages: ``content``, or poison if there is only a dtype and a shape."""

    def __init__(self, dtype, shape, strides, at_end, content=None):
        self.dtype, self.shape, self.strides = dtype, shape, strides
        steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)] if 0 not in shape else []
        self.first = -sum(s for s in steps if s < 0)
        count = self.first + sum(s for s in steps if s > 0) + 1 if 0 not in shape else 0
        self.memory = Guarded(count * dtype.itemsize, at_end)
        ctypes.memset(self.memory.address, 0xFF, self.memory.size)
        if content is not None:
            flat = np.ctypeslib.as_array((ctypes.c_uint8 * self.memory.size).from_address(self.memory.address))
            self._view(flat)[...] = content
        self.before = self.memory.bytes()

    @property
    def address(self):
        """Of its first element."""
        return self.memory.address + self.first * self.dtype.itemsize

    def _view(self, flat):
        if 0 in self.shape:
            return np.empty(self.shape, self.dtype)
        steps = [s * self.dtype.itemsize for s in self.strides]
        return as_strided(flat[self.first * self.dtype.itemsize :].view(self.dtype), self.shape, steps)

    def array(self):
        """Its elements now."""
        return self._view(np.frombuffer(self.memory.bytes(), np.uint8)).copy()

    def check_gaps(self, name):
        """What lies between its elements is as it was."""
        now = np.frombuffer(self.memory.bytes(), np.uint8).copy()
        self._view(now)[...] = 0
        before = np.frombuffer(self.before, np.uint8).copy()
        self._view(before)[...] = 0
        np.testing.assert_array_equal(now, before, err_msg=f"{name} writes between the elements of a result")


class Native(Evaluator):
    """Runs the calls of kernels by native code, in several schedules that must agree to the bit."""

    def __init__(self, module, threads=2, seed=0):
        super().__init__(module, views=True)
        self.threads, self.rng = threads, np.random.default_rng(seed)

    def call(self, name, *arrays):
        function = self.functions[name]
        if function.sym_visibility is None or is_host(function):
            return super().call(name, *arrays)
        results = run_kernel(function, [self.stored(x) for x in arrays], self.threads, self.rng)
        return [self.stored(y) for y in results]


def strided(function):
    """The indices of the arguments, then results, that may not be contiguous."""
    found = function.attributes.get("hybrid.strided")
    return [] if found is None else [int(i) for i in found.get_values()]


def run_kernel(function, arrays, threads, rng):
    """The results of a kernel: run whole and in pieces, at both ends of memory, in place wherever that is allowed."""
    kernel = read_kernel(function)
    views = strided(function)
    results = [(v.dtype, v.shape) for v in kernel.results]
    strides = {}
    for i in views:
        if i < len(arrays):
            strides[i] = tuple(s // arrays[i].itemsize for s in arrays[i].strides)
        else:
            _, shape = results[i - len(arrays)]
            strides[i] = row_major((*shape[:1], *(n + GAP for n in shape[1:])))
    values = [*kernel.arguments, *kernel.results]
    pairs = [] if is_contraction_kernel(kernel) else inplace_pairs(kernel, frozenset(values[i] for i in views))
    first = None
    for algorithm in [(), (), *[(pair,) for pair in pairs]]:
        at_end = first is None or bool(rng.integers(2))
        found = _run(kernel, arrays, results, strides, algorithm, threads, at_end, rng if first is not None else None)
        first = first or found
        for one, other in zip(first, found, strict=True):
            message = f"{kernel.name}, in place {algorithm}, is not the same in pieces"
            if one.dtype.kind == "f" and _adds_short_rows(kernel):
                eps = np.finfo(one.dtype).eps
                np.testing.assert_allclose(other, one, 64 * eps, 64 * eps * _largest(one), err_msg=message)
            else:
                assert one.tobytes() == other.tobytes(), message
    return first


def _adds_short_rows(kernel):
    """Whether LLVM may add up the rows of several points at once, in another order than those of the last points."""
    return any(
        kernel_op.combine is not None
        and kernel_op.combine.op == "arith.addf"
        and SHORT < math.prod(nest.domain[a] for a in kernel_op.reduced if a >= nest.grid) <= UNROLLED
        for nest in kernel.nests
        for kernel_op in nest.ops
        if nest.contraction is not kernel_op
    )


def _largest(x):
    return np.max(np.abs(x[np.isfinite(x)]), initial=0.0)


def _run(kernel, arrays, results, strides, inplace, threads, at_end, rng):
    made = code_of(kernel, native_target(threads), strides, inplace)
    over = {j: i for i, j in inplace}
    given = [Array(x.dtype, x.shape, strides.get(i, row_major(x.shape)), at_end, x) for i, x in enumerate(arrays)]
    outs = [
        given[over[j]] if j in over else Array(d, s, strides.get(len(arrays) + j, row_major(s)), at_end)
        for j, (d, s) in enumerate(results)
    ]
    own = [Array(np.dtype(np.uint8), (size,), (1,), at_end) for size in made.locals]
    run_regions(made.regions, [x.address for x in (*given, *outs, *own)], at_end, rng)
    for i, x in enumerate(given):
        assert i in over.values() or x.memory.bytes() == x.before, f"{kernel.name} writes to its argument {i}"
    for x in outs:
        x.check_gaps(kernel.name)
    return [x.array() for x in outs]


def run_regions(regions, places, at_end, rng=None):
    """Parallel regions, one after the other, on buffers at these addresses; with poisoned scratch for each piece."""
    for region, code in zip(regions, load_functions([p.function for p in regions]), strict=True):
        for lo, hi in _pieces(region, rng):
            scratch = Array(np.dtype(np.uint8), (-(-region.scratch // 64) * 64,), (1,), at_end)
            call(code, [places[i] for i in region.buffers], region.numbers, lo, hi, scratch.address)


def _pieces(region, rng):
    """The range of a parallel region whole, or cut at multiples of its grain and in any order."""
    if region.extent <= 0:
        return []
    if rng is None:
        return [(0, region.extent)]
    inner = range(region.grain, region.extent, region.grain)
    cuts = sorted(rng.choice(inner, min(len(inner), int(rng.integers(1, 9))), replace=False)) if inner else []
    pieces = list(itertools.pairwise([0, *map(int, cuts), region.extent]))
    return [pieces[i] for i in rng.permutation(len(pieces))]


def native_kernels(module):
    """The kernels of a module that native code runs."""
    return [read_kernel(f) for f in kernels(module).values() if not is_host(f)]
