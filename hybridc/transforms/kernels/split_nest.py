"""Loop fission: a loop nest that no launch computes as a whole becomes several, with values passed in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hybridc.ir.kernels.kernel import Axes, KernelOp, KernelValue, LoopNest, Read, grid_of
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.online_reductions import OnlinePair, online_pairs_in
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory

Groups = list[list[KernelOp]]

# A value is rematerialised from at most so many arrays of its size rather than written and read.
RECOMPUTED_READS = 2


def reads_pointwise(kernel_ops: Sequence[KernelOp]) -> bool:
    """Whether ops read each other's results at the elements that were just computed."""
    op_of = {s.result: s for s in kernel_ops}
    return all(r.axes == op_of[r.value].axes for s in kernel_ops for r in s.reads if r.value in op_of)


def online_pairs(plan: LoopNestPlan, kernel_ops: Sequence[KernelOp]) -> list[OnlinePair]:
    """The pairs by which one sweep computes all reductions of some ops; none if that cannot be, or need not."""
    sums = [s for s in kernel_ops if s.combine is not None]
    reduced = {plan.axes(s.reduced) for s in sums}
    if len(reduced) != 1 or plan.extent(next(iter(reduced))) == 0 or not reads_pointwise(kernel_ops):
        return []
    pairs = online_pairs_in(plan.nest, kernel_ops)
    inside = [s for pair in pairs for s in (*pair.between, pair.second)]
    late = {s.result for s in (*inside, *sums)}
    others = [s for s in kernel_ops if s not in inside]
    return [] if any(r.value in late for s in others for r in s.reads) else pairs


# --- groups of ops ----------------------------------------------------------------------------------------------------


def by_empty_axes(plan: LoopNestPlan, memory: KernelMemory) -> Groups:
    """Groups of the ops with results in memory: each iterates over other empty axes; none if all iterate over all."""
    domain = plan.nest.domain
    empty = {a for a, n in enumerate(domain) if n == 0}
    groups: list[tuple[set[int], list[KernelOp]]] = []
    for kernel_op in plan.op_of.values():
        if kernel_op.result not in memory.names and kernel_op.combine is None:
            continue
        walked = empty & {*kernel_op.axes, *kernel_op.reduced}
        if not groups or groups[-1][0] != walked:  # later ones may read what those before made
            groups.append((walked, []))
        groups[-1][1].append(kernel_op)
    return [group for _, group in groups] if any(walked != empty for walked, _ in groups) else []


def by_sweeps(plan: LoopNestPlan, memory: KernelMemory) -> Groups:
    """The ops of each sweep; an online reduction is one sweep."""
    kernel_ops = list(plan.op_of.values())
    groups = [list(sweep.ops) for sweep in plan.sweeps]
    for pair in online_pairs_in(plan.nest, kernel_ops):
        at = next(i for i, group in enumerate(groups) if pair.first in group)
        both = {*groups[at], *pair.between, pair.second}
        group = [s for s in kernel_ops if s in both]
        if not online_pairs(plan, group):
            continue
        done = _only_for(pair, kernel_ops, memory)
        groups = [group if i == at else [s for s in g if s not in done] for i, g in enumerate(groups)]
    return groups


def _only_for(pair: OnlinePair, kernel_ops: Sequence[KernelOp], memory: KernelMemory) -> set[KernelOp]:
    """The ops of a pair that nothing else needs."""
    done = {pair.second}
    for kernel_op in reversed(pair.between):
        readers = {s for s in kernel_ops for r in s.reads if r.value == kernel_op.result}
        if readers <= done and kernel_op.result not in memory.names:
            done.add(kernel_op)
    return done


def by_reduced_axes(plan: LoopNestPlan) -> Groups:
    """The reductions along the same axes."""
    groups: dict[Axes, list[KernelOp]] = {}
    for kernel_op in plan.op_of.values():
        groups.setdefault(plan.axes(kernel_op.reduced), []).append(kernel_op)
    return [groups[axes] for axes in sorted(groups, key=len)]


# --- loop nests -------------------------------------------------------------------------------------------------------


def split_into_nests(plan: LoopNestPlan, groups: Groups, memory: KernelMemory) -> Iterator[LoopNest]:
    """A loop nest for each group of ops that stores a value; values that groups share are in memory."""
    kernel_ops = list(plan.op_of.values())
    wanted = [_computed_by(plan, group, memory) for group in groups]
    while (missing := _missing(plan, groups, wanted)) is not None:
        place, kernel_op = missing
        groups = [*groups[:place], [kernel_op], *groups[place:]]
        wanted.insert(place, _computed_by(plan, [kernel_op], memory))
    for values in wanted:
        members = [s for s in kernel_ops if s.result in values]
        for value in {r.value for s in members for r in s.reads if r.value in plan.op_of} - values:
            memory.materialize(value)
    for values in wanted:
        group = [s for s in kernel_ops if s.result in values]
        if any(s.result in memory.names for s in group):
            walked = {a for s in group for a in (*s.axes, *s.reduced)}
            domain = tuple(n if a in walked else 1 for a, n in enumerate(plan.nest.domain))
            yield replace(plan.nest, domain=domain, ops=tuple(group), grid=grid_of(domain, group))


def _computed_by(plan: LoopNestPlan, group: Sequence[KernelOp], memory: KernelMemory) -> set[KernelValue]:
    """The values that a group computes: its own, and those of others that it rematerialises."""
    values = {s.result for s in group}
    for kernel_op in reversed(plan.op_of.values()):
        if kernel_op.result in values:
            values |= {v for r in kernel_op.reads for v in _recomputed(plan, r, values, memory)}
    return values


def _missing(plan: LoopNestPlan, groups: Groups, wanted: Sequence[set[KernelValue]]) -> tuple[int, KernelOp] | None:
    """An op that a group needs and none computes, with the index of that group."""
    own = {s.result for group in groups for s in group}
    for index, values in enumerate(wanted):
        for value in [r.value for s in plan.op_of.values() if s.result in values for r in s.reads]:
            if value in plan.op_of and value not in values and value not in own:
                return index, plan.op_of[value]
    return None


def _recomputed(plan: LoopNestPlan, read: Read, own: set[KernelValue], memory: KernelMemory) -> set[KernelValue]:
    """The values to rematerialise for a value of another loop nest; none if it goes through memory.

    It does if rematerialising it reads more elements than its own.
    """
    chain: set[KernelValue] = set()
    leaves: set[KernelValue] = set()
    stack = [read]
    while stack:
        at = stack.pop()
        kernel_op = plan.op_of.get(at.value)
        if at.value in own or at.value in chain:
            continue
        if kernel_op is None or kernel_op.combine is not None or at.value in memory.names or kernel_op.axes != at.axes:
            leaves.add(at.value)
            continue
        chain.add(at.value)
        stack += kernel_op.reads
    if any(plan.op_of[v].indirect for v in chain):
        return set()
    size = read.value.size
    large = [v for v in leaves if v.constant is None and v.size >= size]
    return chain if len(large) <= RECOMPUTED_READS else set()
