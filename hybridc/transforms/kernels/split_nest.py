"""A nest that no launch computes as a whole, as several: what they give each other is in memory, or computed again."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Axes, Nest, Read, Stage, grid_of, number_of
from hybridc.ir.nest_plan import NestPlan
from hybridc.ir.online_reductions import Running, running_pairs
from hybridc.ir.structured import shape_of
from hybridc.transforms.kernels.kernel_memory import KernelMemory

Groups = list[list[Stage]]

# A value is rather computed again from so many arrays of its size than written and read.
RECOMPUTED_READS = 2


def reads_pointwise(stages: Sequence[Stage]) -> bool:
    """Whether what the stages make is read at the elements that were just made."""
    made = {s.result: s for s in stages}
    return all(r.axes == made[r.value].axes for s in stages for r in s.reads if r.value in made)


def online_pairs(plan: NestPlan, stages: Sequence[Stage]) -> list[Running]:
    """The pairs by which one sweep makes all reductions of some stages; none if that cannot be, or need not."""
    sums = [s for s in stages if s.combine is not None]
    reduced = {plan.axes(s.reduced) for s in sums}
    if len(reduced) != 1 or plan.extent(next(iter(reduced))) == 0 or not reads_pointwise(stages):
        return []
    pairs = running_pairs(plan.nest, stages)
    inside = [s for pair in pairs for s in (*pair.between, pair.second)]
    late = {s.result for s in (*inside, *sums)}
    others = [s for s in stages if s not in inside]
    return [] if any(r.value in late for s in others for r in s.reads) else pairs


# --- groups of stages -------------------------------------------------------------------------------------------------


def by_empty_axes(plan: NestPlan, memory: KernelMemory) -> Groups:
    """The stages whose results are, or will be, in memory, by the empty axes that they walk; none if all walk all."""
    domain = plan.nest.domain
    empty = {a for a, n in enumerate(domain) if n == 0}
    found: list[tuple[set[int], list[Stage]]] = []
    for stage in plan.stage_of.values():
        if stage.result not in memory.names and stage.combine is None:
            continue
        walked = empty & {*stage.axes, *stage.reduced}
        if not found or found[-1][0] != walked:  # later ones may read what those before made
            found.append((walked, []))
        found[-1][1].append(stage)
    return [group for _, group in found] if any(walked != empty for walked, _ in found) else []


def by_sweeps(plan: NestPlan, memory: KernelMemory) -> Groups:
    """The stages of each sweep; an online reduction is one sweep."""
    stages = list(plan.stage_of.values())
    groups = [list(sweep.stages) for sweep in plan.sweeps]
    for pair in running_pairs(plan.nest, stages):
        at = next(i for i, group in enumerate(groups) if pair.first in group)
        both = {*groups[at], *pair.between, pair.second}
        group = [s for s in stages if s in both]
        if not online_pairs(plan, group):
            continue
        done = _only_for(pair, stages, memory)
        groups = [group if i == at else [s for s in g if s not in done] for i, g in enumerate(groups)]
    return groups


def _only_for(pair: Running, stages: Sequence[Stage], memory: KernelMemory) -> set[Stage]:
    """The stages of a pair that nobody needs beside it."""
    done = {pair.second}
    for stage in reversed(pair.between):
        readers = {s for s in stages for r in s.reads if r.value is stage.result}
        if readers <= done and stage.result not in memory.names:
            done.add(stage)
    return done


def by_reduced_axes(plan: NestPlan) -> Groups:
    """The reductions along the same axes."""
    groups: dict[Axes, list[Stage]] = {}
    for stage in plan.stage_of.values():
        groups.setdefault(plan.axes(stage.reduced), []).append(stage)
    return [groups[axes] for axes in sorted(groups, key=len)]


# --- their nests ------------------------------------------------------------------------------------------------------


def split(plan: NestPlan, groups: Groups, memory: KernelMemory) -> Iterator[Nest]:
    """A nest for each group of stages that makes anything in memory, where values that groups share are."""
    stages = list(plan.stage_of.values())
    wanted = [_computed_by(plan, group, memory) for group in groups]
    while (missing := _missing(plan, groups, wanted)) is not None:
        place, stage = missing
        groups = [*groups[:place], [stage], *groups[place:]]
        wanted.insert(place, _computed_by(plan, [stage], memory))
    for values in wanted:
        made = [s for s in stages if s.result in values]
        for value in {r.value for s in made for r in s.reads if r.value in plan.stage_of} - values:
            memory.materialize(value)
    for values in wanted:
        group = [s for s in stages if s.result in values]
        if any(s.result in memory.names for s in group):
            walked = {a for s in group for a in (*s.axes, *s.reduced)}
            domain = tuple(n if a in walked else 1 for a, n in enumerate(plan.nest.domain))
            yield replace(plan.nest, domain=domain, stages=tuple(group), grid=grid_of(domain, group))


def _computed_by(plan: NestPlan, group: Sequence[Stage], memory: KernelMemory) -> set[SSAValue]:
    """The values that a group computes: its own, and those of others that it rather computes again."""
    values = {s.result for s in group}
    for stage in reversed(plan.stage_of.values()):
        if stage.result in values:
            values |= {v for r in stage.reads for v in _recomputed(plan, r, values, memory)}
    return values


def _missing(plan: NestPlan, groups: Groups, wanted: Sequence[set[SSAValue]]) -> tuple[int, Stage] | None:
    """A stage that a group needs and none makes, with the number of that group."""
    own = {s.result for group in groups for s in group}
    for number, values in enumerate(wanted):
        for value in [r.value for s in plan.stage_of.values() if s.result in values for r in s.reads]:
            if value in plan.stage_of and value not in values and value not in own:
                return number, plan.stage_of[value]
    return None


def _recomputed(plan: NestPlan, read: Read, here: set[SSAValue], memory: KernelMemory) -> set[SSAValue]:
    """The values to compute again for a value of another nest; none if it goes through memory.

    It does if computing it again reads more elements than its own.
    """
    chain: set[SSAValue] = set()
    given: set[SSAValue] = set()
    stack = [read]
    while stack:
        at = stack.pop()
        stage = plan.stage_of.get(at.value)
        if at.value in here or at.value in chain:
            continue
        if stage is None or stage.combine is not None or at.value in memory.names or stage.axes != at.axes:
            given.add(at.value)
            continue
        chain.add(at.value)
        stack += stage.reads
    if any(plan.stage_of[v].anywhere for v in chain):
        return set()
    size = math.prod(shape_of(read.value))
    large = [v for v in given if number_of(v) is None and math.prod(shape_of(v)) >= size]
    return chain if len(large) <= RECOMPUTED_READS else set()
