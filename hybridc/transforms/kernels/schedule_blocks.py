"""The schedule of a kernel's nests for a machine whose programs work on whole tiles: which tiles, and what they share.

* *elements*: nothing is reduced; a program makes a block of the results, flat or, where memory is followed along two
  axes, in two dimensions.
* *rows*: a program holds whole rows in registers; all sweeps over them happen there. Sums across rows are added up over
  the rows of a program, as partial results.
* *sums*: one sweep whose reductions all go along the same axes: programs share these axes, too, and give partial
  results. Of two reductions one may be of the other's result, if they are an online reduction
  (:mod:`hybridc.ir.online_reductions`).
* *combine*: the partial results of a reduction are combined, in their order: results do not depend on chance.
* A nest that is none of these is cut: values between its sweeps go through memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Axes, Kernel, Nest, Read, Stage, grid_of, number_of
from hybridc.ir.nest_plan import NestPlan, nests_of, plan_nest, read_elsewhere
from hybridc.ir.online_reductions import Running, running_pairs
from hybridc.ir.structured import shape_of
from hybridc.ir.tile_launch import NARROW, TileConfig, TileLaunch, TileMachine, power_of_two
from hybridc.ir.tile_program import TileDim, TileProgram, TileSweep
from hybridc.transforms.kernels.rows_in_registers import held_bytes
from hybridc.transforms.kernels.tile_blocks import KernelMemory, PartialResults, Strides, TileStatements

# A program's elements of one long row are counted from the row's beginning, but for rows so long that programs are few.
LONGEST = 1 << 25
# A value is rather made again from so many arrays of its size than written and read.
_GIVEN_AGAIN = 2
# The machine that is scheduled for.
GPU = TileMachine()


def schedule_blocks(
    kernel: Kernel, strides: Mapping[int, Strides], there: Mapping[SSAValue, int] = MappingProxyType({})
) -> tuple[list[TileLaunch], KernelMemory]:
    """The launches that make the results of a kernel, but for those that are numbers, and where its values are.

    ``strides``, in elements, are of arguments, then results, that may be no plain arrays. Values that are ``there``
    lie in the memory of the results with these numbers, when the kernel begins.
    """
    memory = KernelMemory(kernel, strides)
    memory.names |= {value: f"y{i}" for value, i in there.items()}
    return _BlockScheduler(kernel, memory, GPU).run(), memory


@dataclass(eq=False)
class _BlockScheduler:
    kernel: Kernel
    memory: KernelMemory
    machine: TileMachine
    made: list[TileLaunch] = field(default_factory=list[TileLaunch])

    def run(self) -> list[TileLaunch]:
        """The launches, in order."""
        nests = nests_of(self.kernel)
        for nest in nests:
            for stage in nest.stages:
                if read_elsewhere(nests, nest, stage.result):
                    self.memory.keep(stage.result)
            self._nest(nest)
        return self.made

    # --- the choice ----------------------------------------------------------------------------------------

    def _nest(self, nest: Nest) -> None:
        plan = plan_nest(self.kernel, nest, frozenset(self.memory.strides), self.memory.names.__contains__)
        if not plan.sweeps:
            return
        stages = list(plan.stage_of.values())
        walks = self._walks(nest, stages)
        if any(len(walk) < nest.domain.count(0) for walk, _ in walks):
            self._each(plan, [group for _, group in walks])
            return
        sums = [s for s in stages if s.combine is not None]
        if not sums:
            if self._in_place(stages):
                self._elements(plan)
            else:
                self._cut(plan)
            return
        ways = {plan.axes(s.reduced) for s in sums}
        inner = self._padded(plan, plan.inner)
        points = plan.extent(plan.points)
        rows = any(not plan.across(s) for s in sums) and inner <= self.machine.longest_row and self._in_place(stages)
        rows = rows and inner * held_bytes(plan) <= self.machine.held
        rows = rows and all({*plan.points} <= {*plan.axes(s.reduced)} for s in sums if plan.across(s))
        read = {r.value for s in stages for r in s.reads}
        if rows and (points >= self.machine.few_rows or inner <= self.machine.long_row):
            self._rows(plan)
        elif pairs := self._together(plan, stages):
            self._sums(plan, next(iter(ways)), pairs)
        elif any(s.result in read for s in sums) or not self._in_place(stages):
            self._cut(plan)
        elif len(ways) == 1:
            self._sums(plan, next(iter(ways)))
        else:
            self._apart(plan)

    def _walks(self, nest: Nest, stages: Sequence[Stage]) -> list[tuple[frozenset[int], list[Stage]]]:
        """The stages whose results are, or will be, in memory: those together that walk the same empty axes."""
        empty = {a for a, n in enumerate(nest.domain) if n == 0}
        found: list[tuple[frozenset[int], list[Stage]]] = []
        for stage in stages:
            if stage.result not in self.memory.names and stage.combine is None:
                continue
            walk = frozenset(empty & {*stage.axes, *stage.reduced})
            if not found or found[-1][0] != walk:  # later ones may read what those before made
                found.append((walk, []))
            found[-1][1].append(stage)
        return found

    def _in_place(self, stages: Sequence[Stage]) -> bool:
        """Whether what the stages make is read at the elements that were just made."""
        made = {s.result: s for s in stages}
        return all(r.axes == made[r.value].axes for s in stages for r in s.reads if r.value in made)

    def _together(self, plan: NestPlan, stages: Sequence[Stage]) -> list[Running]:
        """The pairs by which one sweep makes all reductions of some stages; none if that cannot be, or need not."""
        sums = [s for s in stages if s.combine is not None]
        ways = {plan.axes(s.reduced) for s in sums}
        if len(ways) != 1 or plan.extent(next(iter(ways))) == 0 or not self._in_place(stages):
            return []
        pairs = running_pairs(plan.nest, stages)
        inside = [s for pair in pairs for s in (*pair.between, pair.second)]
        late = {s.result for s in (*inside, *sums)}
        others = [s for s in stages if s not in inside]
        return [] if any(r.value in late for s in others for r in s.reads) else pairs

    def _cut(self, plan: NestPlan) -> None:
        """A nest for each sweep, with what they give each other in memory; pairs of reductions are one sweep."""
        stages = list(plan.stage_of.values())
        groups = [list(sweep.stages) for sweep in plan.sweeps]
        for pair in running_pairs(plan.nest, stages):
            at = next(i for i, group in enumerate(groups) if pair.first in group)
            both = {*groups[at], *pair.between, pair.second}
            group = [s for s in stages if s in both]
            if not self._together(plan, group):
                continue
            done = self._done(pair, stages)
            groups = [group if i == at else [s for s in g if s not in done] for i, g in enumerate(groups)]
        self._each(plan, groups)

    def _done(self, pair: Running, stages: Sequence[Stage]) -> set[Stage]:
        """The stages of a pair that nobody needs beside it."""
        done = {pair.second}
        for stage in reversed(pair.between):
            readers = {s for s in stages for r in s.reads if r.value is stage.result}
            if readers <= done and stage.result not in self.memory.names:
                done.add(stage)
        return done

    def _apart(self, plan: NestPlan) -> None:
        """A nest for the reductions along the same axes, with what they reduce in memory."""
        groups: dict[Axes, list[Stage]] = {}
        for stage in plan.stage_of.values():
            groups.setdefault(plan.axes(stage.reduced), []).append(stage)
        self._each(plan, [groups[axes] for axes in sorted(groups, key=len)])

    def _each(self, plan: NestPlan, groups: Sequence[Sequence[Stage]]) -> None:
        """A nest for each group of stages, with what they give each other in memory."""
        stages = list(plan.stage_of.values())
        groups = [list(group) for group in groups]
        wanted = [self._wanted(plan, stages, group) for group in groups]
        while (unmade := self._unmade(plan, groups, wanted)) is not None:
            place, stage = unmade
            groups.insert(place, [stage])
            wanted.insert(place, self._wanted(plan, stages, [stage]))
        for values in wanted:
            made = [s for s in stages if s.result in values]
            for value in {r.value for s in made for r in s.reads if r.value in plan.stage_of} - values:
                self.memory.keep(value)
        nest = plan.nest
        for values in wanted:
            group = [s for s in stages if s.result in values]
            if any(s.result in self.memory.names for s in group):
                walked = {a for s in group for a in (*s.axes, *s.reduced)}
                domain = tuple(n if a in walked else 1 for a, n in enumerate(nest.domain))
                self._nest(replace(nest, domain=domain, stages=tuple(group), grid=grid_of(domain, group)))

    def _wanted(self, plan: NestPlan, stages: Sequence[Stage], group: Sequence[Stage]) -> set[SSAValue]:
        """The values that a group makes: its own, and those that it rather makes again."""
        values = {s.result for s in group}
        for stage in reversed(stages):
            if stage.result in values:
                values |= {v for r in stage.reads for v in self._again(plan, r, values)}
        return values

    def _unmade(
        self, plan: NestPlan, groups: Sequence[Sequence[Stage]], wanted: Sequence[set[SSAValue]]
    ) -> tuple[int, Stage] | None:
        """A stage that a group needs and none makes, with the number of that group."""
        own = {s.result for group in groups for s in group}
        for number, values in enumerate(wanted):
            for value in [r.value for s in plan.stage_of.values() if s.result in values for r in s.reads]:
                if value in plan.stage_of and value not in values and value not in own:
                    return number, plan.stage_of[value]
        return None

    def _again(self, plan: NestPlan, read: Read, here: set[SSAValue]) -> set[SSAValue]:
        """The values to make again for a value that another nest makes; none if it goes through memory.

        It does if making it again reads more elements than its own.
        """
        chain: set[SSAValue] = set()
        given: set[SSAValue] = set()
        stack = [read]
        while stack:
            at = stack.pop()
            stage = plan.stage_of.get(at.value)
            if at.value in here or at.value in chain:
                continue
            if stage is None or stage.combine is not None or at.value in self.memory.names or stage.axes != at.axes:
                given.add(at.value)
                continue
            chain.add(at.value)
            stack += stage.reads
        if any(plan.stage_of[v].anywhere for v in chain):
            return set()
        size = math.prod(shape_of(read.value))
        large = [v for v in given if number_of(v) is None and math.prod(shape_of(v)) >= size]
        return chain if len(large) <= _GIVEN_AGAIN else set()

    # --- elements ------------------------------------------------------------------------------------------

    def _elements(self, plan: NestPlan) -> None:
        if plan.extent((*plan.points, *plan.inner)) == 0:
            return
        machine, axes = self.machine, (*plan.points, *plan.inner)
        if plan.tiled is not None:
            tall, wide = machine.side, 2 * machine.side
            sides = ((tall, tall), (wide, tall), (tall, wide), (wide, wide))
            dims = self._dim(plan, plan.points[-1:], "ROWS", wide), self._dim(plan, plan.inner, "COLUMNS", wide)
            configs = [self._config(ROWS=rows, COLUMNS=columns) for rows, columns in sides]
        elif self._has_numbers_of_rows(plan):
            n, length = machine.elements, plan.extent(plan.inner)
            blocks = [b for b in (n, 2 * n, n // 2, 4 * n) if b <= length]
            dims = (self._dim(plan, plan.inner, "BLOCK", max(blocks)),)
            configs = [self._config(BLOCK=b) for b in blocks]
        else:
            total = plan.extent(axes)
            n = min(machine.elements, max(32, power_of_two(total)))
            blocks = [b for b in (n, 2 * n, n // 2, 4 * n) if b == n or total > machine.programs * b // 2]
            dims = (self._dim(plan, axes, "BLOCK", max(blocks)),)
            configs = [self._config(BLOCK=b) for b in blocks]
        text = self._statements(plan)
        text.stages(list(plan.stage_of.values()))
        self._add("elements", text, dims, (TileSweep((), text.take()),), configs)

    def _has_numbers_of_rows(self, plan: NestPlan) -> bool:
        """Whether some values are one for each row, of rows that are long, and begin where vectors do.

        A program with elements of several rows loads such a value once for each element.
        """
        length, least = plan.extent(plan.inner), self.machine.elements
        if length % self.machine.vector or not least <= length < LONGEST:
            return False
        followed = [plan.axes(r.axes) for s in plan.stage_of.values() for r in s.reads if number_of(r.value) is None]
        stored = [plan.axes(s.axes) for s in plan.stage_of.values() if s.result in self.memory.names]
        inner = {*plan.inner}
        return any(axes and not inner & {*axes} for axes in followed) and all(inner <= {*axes} for axes in stored)

    # --- rows ----------------------------------------------------------------------------------------------

    def _rows(self, plan: NestPlan) -> None:
        plan = replace(plan, dynamic=plan.dynamic - {*plan.inner})
        points = plan.extent(plan.points)
        inner, limit = self._padded(plan, plan.inner), self.machine.row_elements
        rows = max(1, min(power_of_two(points), limit // inner))
        choices = [rows] + [r for r in (2 * rows, rows // 2) if 1 <= r <= points and r * inner <= 4 * limit]
        stages = list(plan.stage_of.values())
        across = [s for s in stages if s.combine is not None and plan.across(s)]
        if points == 0 and not across:
            return
        configs = [TileConfig((("ROWS", r),), w) for r in choices for w in self.machine.warps_to_hold(r * inner)]
        dims = [self._dim(plan, plan.points, "ROWS", max(choices), "piece" if across else "grid")]
        dims += [
            self._dim(plan, (a,), power_of_two(plan.sizes[a]), power_of_two(plan.sizes[a]), "whole") for a in plan.inner
        ]
        text = self._statements(plan)
        if not across:
            text.stages(stages)
            self._add("rows", text, dims, (TileSweep((), text.take()),), configs)
            return
        pieces, piece = self._pieces(points, max(choices), 1)
        parts = [self._part(s, pieces) for s in across]
        self._add("rows", text, dims, text.accumulated(stages, parts, plan.points, ()), configs, piece)
        self._combine(plan, parts)

    # --- sums ----------------------------------------------------------------------------------------------

    def _sums(self, plan: NestPlan, over: Axes, pairs: Sequence[Running] = ()) -> None:
        kept = tuple(a for a in range(len(plan.sizes)) if a not in over)
        machine, terms, outputs = self.machine, plan.extent(over), plan.extent(kept)
        if outputs == 0:
            return
        vector = plan.merged[plan.nest.vector] if plan.nest.vector is not None else 0
        columns = min(power_of_two(outputs), machine.rows if vector in over else machine.columns)
        rows = max(1, min(power_of_two(terms), machine.row_elements // columns))
        pieces, piece = self._pieces(terms, rows, -(-outputs // columns))
        dims = self._dim(plan, over, "ROWS", piece, "piece"), self._dim(plan, kept, "COLUMNS", columns)
        stages = list(plan.stage_of.values())
        for stage in stages:
            if stage.combine is not None:
                self.memory.keep(stage.result)
        parts = {s: self._part(s, pieces) for s in stages if s.combine is not None}
        text = self._statements(plan)
        sweeps = text.accumulated(stages, list(parts.values()), over, pairs)
        self._add("sums", text, dims, sweeps, [self._config(ROWS=rows, COLUMNS=columns)], piece)
        for pair in pairs if pieces > 1 else ():
            self._join(plan, pair, (parts.pop(pair.first), parts.pop(pair.second)), terms, piece)
        self._combine(plan, list(parts.values()))

    def _pieces(self, terms: int, block: int, programs: int) -> tuple[int, int]:
        """How many pieces a reduction is cut into, and how long they are: a multiple of a block."""
        machine, blocks = self.machine, max(1, -(-terms // block))
        wanted = min(-(-blocks // machine.piece_blocks), machine.pieces, max(1, machine.programs // programs))
        piece = -(-blocks // wanted) * block
        return max(1, -(-terms // piece)), piece

    def _part(self, stage: Stage, pieces: int) -> PartialResults:
        """Where the partial results of a reduction go: at once to its place, if there is only one."""
        if pieces == 1:
            return PartialResults(stage, self.memory.names[stage.result], 1)
        elements = pieces * math.prod(shape_of(stage.result))
        return PartialResults(stage, self.memory.local(elements, stage.result), pieces)

    # --- partial results -----------------------------------------------------------------------------------

    def _combine(self, plan: NestPlan, parts: Iterable[PartialResults]) -> None:
        """The launches that combine partial results."""
        for part in parts:
            if part.pieces > 1:
                text = self._statements(self._of_parts(plan, part))
                text.combined(part)
                self._combined(text, part)

    def _join(
        self, plan: NestPlan, pair: Running, parts: tuple[PartialResults, PartialResults], terms: int, piece: int
    ) -> None:
        """The launch that combines the partial results of an online reduction, each of ``piece`` of the ``terms``."""
        text = self._statements(self._of_parts(plan, parts[0]))
        text.joined(pair, parts, terms, piece)
        self._combined(text, parts[0])

    def _of_parts(self, plan: NestPlan, part: PartialResults) -> NestPlan:
        """The walk of partial results: which one, and where in the result."""
        sizes = (part.pieces, math.prod(shape_of(part.stage.result)))
        return replace(plan, sizes=sizes, dynamic=frozenset(), points=(1,), inner=(0,))

    def _combined(self, text: TileStatements, part: PartialResults) -> None:
        pieces, size = text.plan.sizes
        rows = power_of_two(pieces)
        columns = min(power_of_two(size), max(1, self.machine.combined // rows))
        dims = self._dim(text.plan, (0,), rows, rows, "whole"), self._dim(text.plan, (1,), "COLUMNS", columns)
        config = TileConfig((("COLUMNS", columns),), self.machine.warps_for(rows * columns))
        self._add("combine", text, dims, (TileSweep((), text.take()),), [config])

    # --- programs ------------------------------------------------------------------------------------------

    def _statements(self, plan: NestPlan) -> TileStatements:
        return TileStatements(plan, values=self.memory.names, given=self.memory.strides)

    def _dim(self, plan: NestPlan, axes: Axes, block: int | str, least: int, walk: str = "grid") -> TileDim:
        """A dimension of tiles; ``least`` is what divides its length if no tile reaches beyond the end."""
        count = plan.extent(axes)
        return TileDim(axes, block, walk, bool(plan.dynamic & {*axes}) or count % least != 0 or count == 0)

    def _padded(self, plan: NestPlan, axes: Axes) -> int:
        """Elements of blocks that hold all of these axes."""
        return math.prod(power_of_two(plan.sizes[a]) for a in axes)

    def _config(self, **blocks: int) -> TileConfig:
        return TileConfig(tuple(blocks.items()), self.machine.warps_for(math.prod(blocks.values())))

    def _add(
        self,
        what: str,
        text: TileStatements,
        dims: Sequence[TileDim],
        sweeps: Sequence[TileSweep],
        configs: Sequence[TileConfig],
        piece: int | None = None,
    ) -> None:
        plan = text.plan
        whole = tuple(a for d in dims if d.walk == "whole" for a in d.axes)
        parallel = tuple(a for a in range(len(plan.sizes)) if a not in whole)
        program = TileProgram(
            tuple(text.called.values()), text.space.sizes, parallel, tuple(sweeps), inner=whole, tiles=tuple(dims)
        )
        wide = max(plan.extent(range(len(plan.sizes))), text.far) >= NARROW
        dtypes = tuple(self.memory.dtypes[name] for name in text.buffers)
        self.made.append(
            TileLaunch(what, program, tuple(text.buffers), dtypes, plan.sizes, tuple(configs), piece, wide)
        )
