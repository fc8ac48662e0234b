"""The schedule of a loop nest: merged axes, what threads share, what is saved between sweeps.

Threads share the *parallel axes*: the leading axes of the nest along which nothing waits for anything. In each of their
iterations *sweeps* run one after the other: loops over the same inner axes, with all linalg ops that can be computed in
one go. A value that a later sweep reads is rematerialised there if that is cheap, else it is saved in scratch.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import field, replace
from typing import Any, cast

from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar.table import OperationCost
from hybridc.ground.machine import SQUARE
from hybridc.ground.records import dataclass
from hybridc.ir.costs import RECOMPUTED, operation_cost
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, KernelValue, LoopNest, Read

ROW = 32  # the least length of rows that are told their length: loops over shorter ones are unrolled


@dataclass(eq=False)
class Sweep:
    """Linalg ops in the same loops over the inner ``axes``; none for ops that run once for the parallel axes."""

    axes: Axes
    ops: list[KernelOp] = field(default_factory=lambda: list[KernelOp]())


@dataclass(eq=False)
class LoopNestPlan:
    """The schedule of a loop nest over merged axes, whose sizes are ``sizes``.

    ``parallel`` are the axes that threads share, ``inner`` the others. If none is parallel, threads share the one inner
    axis, if ``shared``. Values that are contiguous along another axis than the inner one are walked in tiles of both
    axes: ``tiled`` is that axis, the last of the parallel ones. ``scratch`` are the values saved in scratch memory,
    ``rematerialized`` those that are computed where they are read. ``dynamic`` axes have sizes that are arguments of
    the code: the first, of the parallel axes those that are known to vary, and an inner one of long rows. ``crossed``
    are those along which some value is strided.
    """

    nest: LoopNest
    sizes: Shape
    merged: Mapping[int, int]
    parallel: Axes
    inner: Axes
    shared: bool
    dynamic: frozenset[int]
    tiled: int | None = None
    crossed: Axes = ()
    sweeps: list[Sweep] = field(default_factory=lambda: list[Sweep]())
    scratch: list[KernelValue] = field(default_factory=lambda: list[KernelValue]())
    rematerialized: set[KernelValue] = field(default_factory=lambda: set[KernelValue]())
    op_of: dict[KernelValue, KernelOp] = field(default_factory=lambda: dict[KernelValue, KernelOp]())

    def axes(self, axes: Axes) -> Axes:
        """The merged axes of axes of the loop nest."""
        return tuple(dict.fromkeys(self.merged[a] for a in axes))

    def loops(self, kernel_op: KernelOp) -> Axes:
        """The inner axes that an op walks, in the order of the loops."""
        walked = {*self.axes(kernel_op.axes), *self.axes(kernel_op.reduced)}
        return tuple(a for a in self.inner if a in walked)

    def is_column_reduction(self, kernel_op: KernelOp) -> bool:
        """Whether iterations of the parallel axes give partial results of an op."""
        reduced = self.axes(kernel_op.reduced)
        return any(a in self.parallel for a in reduced) or (self.shared and bool(reduced))

    def extent(self, axes: Iterable[int]) -> int:
        """Number of elements of merged axes."""
        return math.prod(self.sizes[a] for a in axes)

    def body_sizes(self) -> dict[object, int]:
        """The values of the symbolic sizes that are constants in bodies, in order."""
        steps = (step for sweep in self.sweeps for op in sweep.ops for step in op.body.constants)
        return {step.size: cast(int, step.constant) for step in steps if step.size is not None}

    def at(self, nest: LoopNest) -> LoopNestPlan | None:
        """The schedule of the same loop nest with other sizes; None if its code would be other code."""
        sizes = _sizes(nest, self.merged, len(self.sizes))
        same = not self.crossed or _tiled(self.crossed, sizes, self.inner[0]) == self.tiled
        same = same and all((sizes[a] < ROW) == (self.sizes[a] < ROW) for a in self.inner)
        op_of = {s.result: s for s in nest.ops}
        if not same or any(not s.has_same_numbers(op_of[value]) for value, s in self.op_of.items()):
            return None
        plan = copy.copy(self)
        plan.nest, plan.sizes = nest, sizes
        plan.sweeps = [Sweep(w.axes, [op_of[s.result] for s in w.ops]) for w in self.sweeps]
        plan.op_of = {value: op_of[value] for value in self.op_of}
        return plan

    @property
    def range(self) -> int:
        """Number of iterations that threads share."""
        if self.shared:
            return self.extent(self.inner)
        if self.tiled is None:
            return self.extent(self.parallel)
        return self.extent(self.parallel[:-1]) * -(-self.sizes[self.tiled] // SQUARE)


def plan_loop_nest(
    kernel: Kernel, nest: LoopNest, strided: frozenset[KernelValue], outside: Callable[[KernelValue], bool]
) -> LoopNestPlan:
    """The schedule of a loop nest; ``strided`` arguments are not contiguous, ``outside`` values are read after it."""
    plan = _axes(nest, strided)
    kernel_ops = _wanted(kernel, nest)
    plan.op_of = {s.result: s for s in kernel_ops}
    _sweeps(plan, kernel_ops)
    _memory(plan, outside)
    if _has_rows_of_any_length(plan, strided):
        plan.dynamic |= {*plan.inner}
    return plan


def _has_rows_of_any_length(plan: LoopNestPlan, strided: Set[KernelValue]) -> bool:
    """Whether one code is for rows of all lengths but short ones: of networks of other widths, too."""
    if len(plan.inner) != 1 or plan.scratch or plan.sizes[plan.inner[0]] < ROW:
        return False
    return all(s.combine is None and strided >= {*s.indirect} for s in plan.op_of.values())


def plan_tiles(kernel: Kernel, nest: LoopNest, strided: Set[KernelValue], merge: bool) -> LoopNestPlan:
    """The schedule of a loop nest whose statements are on whole tiles: all its values are in memory afterwards."""
    groups = merged_axes(nest, strided) if merge else [(a,) for a in range(len(nest.domain))]
    merged = {a: i for i, group in enumerate(groups) for a in group}
    grid = sum(group[-1] < nest.grid for group in groups)
    everywhere = tuple(range(len(groups)))
    plan = LoopNestPlan(
        nest, _sizes(nest, merged, len(groups)), merged, everywhere[:grid], everywhere[grid:], False, frozenset()
    )
    plan.op_of = {s.result: s for s in _wanted(kernel, nest)}
    return plan


def _wanted(kernel: Kernel, nest: LoopNest) -> list[KernelOp]:
    """The ops whose results are read."""
    results = set(kernel.results)
    return [s for s in nest.ops if s.result in kernel.readers or s.result in results]


# --- axes -------------------------------------------------------------------------------------------------


def merged_axes(nest: LoopNest, strided: Set[KernelValue]) -> list[Axes]:
    """Neighbouring axes that are walked as one: every value has them next to each other, or has none of them."""
    rank = len(nest.domain)
    orders = [r.axes for s in nest.ops for r in s.reads if r.value.constant is None and not r.index]
    orders += [s.axes for s in nest.ops]
    apart = (r for s in nest.ops for r in s.reads if r.value in strided or r.index)
    fixed = {a for r in apart for a in r.axes} | indexed_axes(nest.ops)
    fixed |= {a for s in nest.ops if s.result in strided for a in s.axes}
    groups: list[Axes] = [(0,)] if rank else []
    for a in range(1, rank):
        together = (
            all(_adjacent(order, a - 1) for order in orders)
            and all((a in s.reduced) == (a - 1 in s.reduced) for s in nest.ops)
            and (a < nest.grid) == (a - 1 < nest.grid)
            and not {a - 1, a} & fixed
        )
        if together:
            groups[-1] = (*groups[-1], a)
        else:
            groups.append((a,))
    return groups


def _axes(nest: LoopNest, strided: frozenset[KernelValue]) -> LoopNestPlan:
    groups = merged_axes(nest, strided)
    merged = {a: i for i, group in enumerate(groups) for a in group}
    sizes = _sizes(nest, merged, len(groups))
    grid = sum(group[0] < nest.grid for group in groups)
    everywhere = tuple(range(len(groups)))
    dynamic = frozenset({0, *(merged[a] for a in nest.varying)})
    if grid < len(groups) or not groups:
        dynamic_outer = dynamic & {*everywhere[:-1], *everywhere[:1]}
        return LoopNestPlan(nest, sizes, merged, everywhere[:grid], everywhere[grid:], False, dynamic_outer)
    vector = merged[nest.vector] if nest.vector is not None else len(groups) - 1
    crossed = _across_memory(nest, merged, vector)
    tiled = _tiled(crossed, sizes, vector)
    points = tuple(a for a in everywhere if a not in (vector, tiled))
    if tiled is not None:
        dynamic_outer = dynamic & {0, *points, tiled}
        return LoopNestPlan(nest, sizes, merged, (*points, tiled), (vector,), False, dynamic_outer, tiled, crossed)
    dynamic_outer = dynamic & {0, *points}
    return LoopNestPlan(nest, sizes, merged, points, (vector,), not points, dynamic_outer, crossed=crossed)


def _sizes(nest: LoopNest, merged: Mapping[int, int], count: int) -> Shape:
    """Number of elements of the merged axes."""
    sizes = [1] * count
    for a, n in enumerate(nest.domain):
        sizes[merged[a]] *= n
    return tuple(sizes)


def _across_memory(nest: LoopNest, merged: Mapping[int, int], vector: int) -> Axes:
    """The axes along which some value lies in memory that the innermost loop walks across."""
    if any(s.combine is not None for s in nest.ops):
        return ()
    crossed: list[int] = []
    for kernel_op in nest.ops:
        for axes in (*(r.axes for r in kernel_op.reads if r.value.constant is None and not r.index), kernel_op.axes):
            loops = {merged[a] for a in axes}
            last = merged[axes[-1]] if axes else vector
            if last != vector and vector in loops:
                crossed.append(last)
    return tuple(dict.fromkeys(crossed))


def _tiled(crossed: Axes, sizes: Shape, vector: int) -> int | None:
    """The axis that is walked in tiles: the first that is long enough."""
    return next((a for a in crossed if min(sizes[a], sizes[vector]) >= SQUARE), None)


def _adjacent(order: Axes, a: int) -> bool:
    """Whether a value has both axes ``a`` and the next, one after the other, or none of them."""
    if a not in order or a + 1 not in order:
        return (a in order) == (a + 1 in order)
    return order.index(a + 1) == order.index(a) + 1


def indexed_axes(kernel_ops: Iterable[KernelOp]) -> set[int]:
    """The axes whose index a body reads."""
    return set[int]().union(*[kernel_op.indexed for kernel_op in kernel_ops])


# --- sweeps -----------------------------------------------------------------------------------------------


def _sweeps(plan: LoopNestPlan, kernel_ops: list[KernelOp]) -> None:
    """Put each op into the first sweep over its axes that comes late enough."""
    at: dict[KernelValue, int] = {}  # the sweep after which a value is there
    for kernel_op in kernel_ops:
        axes = plan.loops(kernel_op)
        earliest = 0
        for read in kernel_op.reads:
            producer = plan.op_of.get(read.value)
            if producer is None or read.value not in at:
                continue
            ready = producer.combine is None and plan.loops(producer) == axes and set(producer.axes) == set(read.axes)
            earliest = max(earliest, at[read.value] + (0 if ready and _same_place(producer, read) else 1))
        index = next((i for i in range(earliest, len(plan.sweeps)) if plan.sweeps[i].axes == axes), None)
        if index is None:
            index = len(plan.sweeps)
            plan.sweeps.append(Sweep(axes))
        plan.sweeps[index].ops.append(kernel_op)
        at[kernel_op.result] = index


def _same_place(producer: KernelOp, read: Read) -> bool:
    """Whether a value is read at the element that was just made."""
    return producer.axes == read.axes


# --- memory -----------------------------------------------------------------------------------------------


def _memory(plan: LoopNestPlan, outside: Callable[[KernelValue], bool]) -> None:
    """Decide about values that are read in a later sweep than the one that makes them."""
    where = {s.result: sweep for sweep in plan.sweeps for s in sweep.ops}
    for sweep in plan.sweeps:
        for kernel_op in sweep.ops:
            value = kernel_op.result
            later = [s for w in plan.sweeps if w is not sweep for s in w.ops if _reads(s, value)]
            if later and sweep.axes and not outside(value) and not plan.is_column_reduction(kernel_op):
                _place(plan, kernel_op, where, outside)


def _place(
    plan: LoopNestPlan, kernel_op: KernelOp, where: Mapping[KernelValue, Sweep], outside: Callable[[KernelValue], bool]
) -> None:
    """Save a value in scratch, or rematerialise it with its producers."""
    if kernel_op.combine is not None:
        if _saved_inside(plan, kernel_op):  # else it is a scalar
            plan.scratch.append(kernel_op.result)
        return
    chain: set[KernelValue] = set()
    if _rematerialization_cost(plan, kernel_op.result, where, outside, chain) <= RECOMPUTED:
        plan.rematerialized |= chain
    else:
        plan.scratch.append(kernel_op.result)


def _reads(kernel_op: KernelOp, value: KernelValue) -> bool:
    return any(r.value == value for r in kernel_op.reads)


def _saved_inside(plan: LoopNestPlan, kernel_op: KernelOp) -> bool:
    """Whether a reduction leaves more than a scalar in an iteration of the parallel axes."""
    return any(a in plan.inner for a in plan.axes(kernel_op.axes))


def _rematerialization_cost(
    plan: LoopNestPlan,
    value: KernelValue,
    where: Mapping[KernelValue, Sweep],
    outside: Callable[[KernelValue], bool],
    chain: set[KernelValue],
) -> int:
    """Number of operations that rematerialise an element of a value, as far as that pays; ``chain`` gets the values."""
    total, work = 0, [value]
    while work and total <= RECOMPUTED:
        value = work.pop()
        kernel_op = plan.op_of.get(value)
        if kernel_op is None or value in chain or value in plan.scratch or outside(value) or not where[value].axes:
            continue
        if kernel_op.combine is not None:
            total += RECOMPUTED + 1 if _saved_inside(plan, kernel_op) else 0
            continue
        chain.add(value)
        for op in (step.op for step in kernel_op.steps):
            is_plain = op.startswith("arith.") and operation_cost(op) is OperationCost.PLAIN
            total += 1 if is_plain else RECOMPUTED + 1
        work += [r.value for r in kernel_op.reads]
    return total


def scratch_bytes(plan: LoopNestPlan, value: KernelValue) -> int:
    """Bytes of scratch that a saved value takes for one iteration of the parallel axes."""
    kernel_op = plan.op_of[value]
    inner = [a for a in plan.axes(kernel_op.axes) if a in plan.inner]
    return plan.extent(inner) * value.dtype.itemsize


# --- loop nests as native code runs them ------------------------------------------------------------------------------
#
# A value that follows only some of the axes that threads share would be written in many iterations at once, in none if
# one of the other axes is empty, and a sum would count its elements again in each. Such values get loop nests of
# their own, in which the other axes have size one.


def loop_nests_of(kernel: Kernel) -> list[LoopNest]:
    """The loop nests in the order in which they run, without dead ops."""
    results = set(kernel.results)
    return [part for nest in kernel.nests for part in _parts(nest, _left_in_memory(kernel, nest, results))]


def read_elsewhere(readers: Mapping[KernelValue, Sequence[LoopNest]], nest: LoopNest, value: KernelValue) -> bool:
    """Whether another loop nest, of the ``readers_of`` all, reads a value that it does not compute itself."""
    return any(n is not nest and all(s.result != value for s in n.ops) for n in readers.get(value, ()))


def _left_in_memory(kernel: Kernel, nest: LoopNest, results: Set[KernelValue]) -> list[KernelOp]:
    """The ops of a loop nest whose results are read after it, or are ``results`` of the kernel."""
    readers = kernel.readers
    return [s for s in nest.ops if s.result in results or any(n is not nest for n in readers.get(s.result, ()))]


def _parts(nest: LoopNest, left: list[KernelOp]) -> Iterable[LoopNest]:
    """Loop nests for the results that leave out the same axes of the grid; first those that leave out most."""
    groups: dict[tuple[int, ...], list[KernelOp]] = {}
    for kernel_op in left:
        groups.setdefault(_left_out(nest, kernel_op), []).append(kernel_op)
    stored: set[KernelValue] = set()
    for axes in sorted(groups, key=len, reverse=True):
        needed = _needed(nest, groups[axes], stored)
        stored.update(s.result for s in groups[axes])
        if not axes and len(needed) == len(nest.ops):
            yield nest
        else:
            part = replace(nest, left_out=axes)
            yield part.at(nest.domain, tuple(needed))


def _left_out(nest: LoopNest, kernel_op: KernelOp) -> tuple[int, ...]:
    """The axes of the grid, of sizes other than one, that an op does not walk."""
    walked = {*kernel_op.axes, *kernel_op.reduced}
    return tuple(a for a in range(nest.grid) if a not in walked and nest.domain[a] != 1)


def _needed(nest: LoopNest, wanted: Iterable[KernelOp], stored: set[KernelValue]) -> list[KernelOp]:
    """These ops and their producers, but for values that are in memory."""
    needed = {s.result for s in wanted}
    for kernel_op in reversed(nest.ops):
        if kernel_op.result in needed:
            needed.update(r.value for r in kernel_op.reads if r.value not in stored)
    return [s for s in nest.ops if s.result in needed]


# --- arguments that results may overwrite -----------------------------------------------------------------------------


def in_sweeps(plan: LoopNestPlan) -> Sequence[KernelOp]:
    """The ops of a loop nest, one sweep after the other."""
    return [kernel_op for sweep in plan.sweeps for kernel_op in sweep.ops]


def inplace_pairs(
    kernel: Kernel, strided: frozenset[KernelValue], order_of: Callable[[LoopNestPlan], Sequence[KernelOp]] = in_sweeps
) -> list[tuple[int, int]]:
    """Pairs of an argument and a result: each element of the argument is read before that of the result is written.

    ``order_of`` gives the ops of a loop nest in the order in which each element is computed; none where elements are
    computed in another order.
    """
    results = set(kernel.results)
    kinds = {(r.shape, r.dtype) for r in results - strided}
    if not any((a.shape, a.dtype) in kinds for a in kernel.arguments):
        return []
    pairs: list[tuple[int, int]] = []
    needed = {v for s in kernel.ops for v in s.indirect}  # and what later loop nests read
    for nest in reversed(loop_nests_of(kernel)):
        plan = plan_loop_nest(kernel, nest, strided, results.__contains__)
        order = {kernel_op: i for i, kernel_op in enumerate(order_of(plan))}

        def last(kernel_op: KernelOp, plan: LoopNestPlan = plan, order: Mapping[KernelOp, int] = order) -> int:
            return _last_read(plan, order, kernel_op)

        pairs = pairs_in(kernel, nest, order, last, strided, needed) + pairs
        needed |= {r.value for s in nest.ops for r in s.reads}
    return pairs


def pairs_in(
    kernel: Kernel,
    nest: LoopNest,
    order: Mapping[KernelOp, int],
    last: Callable[[KernelOp], int],
    strided: Set[KernelValue],
    needed: Set[KernelValue] = frozenset(),
) -> list[tuple[int, int]]:
    """The pairs in one loop nest whose ops are computed in ``order``; ``last`` is the index of an op's last read.

    No value of ``needed`` is overwritten.
    """
    producers = {kernel_op.result: kernel_op for kernel_op in order}
    results: dict[Any, list[tuple[int, int, Any]]] = {}  # by type: a result, its place in the order, its axes
    for j, r in enumerate(kernel.results):
        if r in producers and r not in strided and _covers_domain(nest, producers[r]):
            results.setdefault((r.shape, r.dtype), []).append((j, order[producers[r]], producers[r].axes))
    reads: dict[KernelValue, list[tuple[KernelOp, Any]]] = {}
    for kernel_op in order if results else ():
        for read in kernel_op.reads:
            reads.setdefault(read.value, []).append((kernel_op, read.axes))
    returned = set(kernel.results)
    pairs: list[tuple[int, int]] = []
    for i, argument in enumerate(kernel.arguments):
        if argument not in reads or argument in strided or argument in needed or argument in returned:
            continue
        fitting = results.get((argument.shape, argument.dtype), ())
        read = max(last(s) for s, _ in reads[argument]) if fitting else 0
        places = {axes for _, axes in reads[argument]}
        pairs += [(i, j) for j, written, axes in fitting if places == {axes} and read <= written]
    return pairs


def _covers_domain(nest: LoopNest, kernel_op: KernelOp) -> bool:
    """Whether each point of a loop nest computes its own element of an op's result, which is in memory."""
    if kernel_op.combine is not None or kernel_op.result.constant is not None:
        return False
    return len(kernel_op.axes) == len(nest.domain) and set(kernel_op.axes) == set(range(len(nest.domain)))


def _walked_reads(kernel_op: KernelOp, value: KernelValue) -> bool:
    return any(r.value == value for r in kernel_op.reads)


def _last_read(plan: LoopNestPlan, order: Mapping[KernelOp, int], kernel_op: KernelOp) -> int:
    """The index in ``order`` of an op's last read: its own, or that of ops that rematerialise it."""
    last = order[kernel_op]
    if kernel_op.result in plan.rematerialized:
        for other in order:
            if _walked_reads(other, kernel_op.result):
                last = max(last, _last_read(plan, order, other))
    return last
