"""The nests of a kernel as native code runs them: each walks all the axes of what it leaves in memory.

A value that follows only some of the axes that threads share would be written by many points at once, by none if one
of the other axes is empty, and a sum would count its elements again at each. Such values get nests of their own, in
which the other axes have size one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Kernel, Nest, Stage


def nests_of(kernel: Kernel) -> list[Nest]:
    """The nests in the order in which they run, without stages that nobody needs."""
    return [part for nest in kernel.nests for part in _parts(nest, _left_in_memory(kernel, nest))]


def read_elsewhere(nests: Sequence[Nest], nest: Nest, value: SSAValue) -> bool:
    """Whether another of the nests reads a value that it does not make itself."""
    others = (n for n in nests if n is not nest and all(s.result is not value for s in n.stages))
    return any(r.value is value for n in others for s in n.stages for r in s.reads)


def _left_in_memory(kernel: Kernel, nest: Nest) -> list[Stage]:
    """The stages of a nest whose results are read after it."""
    read = {r.value for n in kernel.nests if n is not nest for s in n.stages for r in s.reads} | set(kernel.results)
    return [s for s in nest.stages if s.result in read]


def _parts(nest: Nest, left: list[Stage]) -> Iterable[Nest]:
    """A nest for the results that leave out the same axes of the grid; first those that leave out most."""
    groups: dict[tuple[int, ...], list[Stage]] = {}
    for stage in left:
        groups.setdefault(_left_out(nest, stage), []).append(stage)
    made: set[SSAValue] = set()
    for axes in sorted(groups, key=len, reverse=True):
        needed = _needed(nest, groups[axes], made)
        made.update(s.result for s in groups[axes])
        if not axes and len(needed) == len(nest.stages):
            yield nest
        else:
            part = replace(nest, stages=tuple(needed), left_out=axes)
            yield part.at(nest.domain)


def _left_out(nest: Nest, stage: Stage) -> tuple[int, ...]:
    """The axes of the grid, of sizes other than one, that a stage does not walk."""
    walked = {*stage.axes, *stage.reduced}
    return tuple(a for a in range(nest.grid) if a not in walked and nest.domain[a] != 1)


def _needed(nest: Nest, wanted: Iterable[Stage], made: set[SSAValue]) -> list[Stage]:
    """These stages and those that they are made from, but for what is in memory."""
    needed = {s.result for s in wanted}
    for stage in reversed(nest.stages):
        if stage.result in needed:
            needed.update(r.value for r in stage.reads if r.value not in made)
    return [s for s in nest.stages if s.result in needed]
