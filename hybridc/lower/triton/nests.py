"""The loops of a kernel as Triton functions: which shape its blocks have, and what its programs share.

* *elements*: nothing is reduced; a program makes a block of the results, flat or, where memory is followed along two
  axes, in two dimensions.
* *rows*: a program holds whole rows in registers; all sweeps over them happen there. Sums across rows are added up over
  the rows of a program, as parts.
* *sums*: one sweep whose reductions all go along the same axes: programs share these axes, too, and give parts. Of two
  reductions one may be of the other's result, if they can be made together (:mod:`hybridc.ir.online_reductions`).
* A nest that is none of these is cut: values between its sweeps go through memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Axes, Kernel, Nest, Read, Stage, grid_of, number_of
from hybridc.ir.nest_plan import NestPlan, nests_of, plan_nest, read_elsewhere
from hybridc.ir.online_reductions import Running, running_pairs
from hybridc.ir.strides import row_major
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.triton.blocks import Dim, Strides, product
from hybridc.lower.triton.expressions import linalg_body as body
from hybridc.lower.triton.function_text import VECTORS, FunctionText, KernelMemory, PartialResults
from hybridc.lower.triton.parts import combine_phase, join_phase
from hybridc.lower.triton.row_values import held_bytes
from hybridc.lower.triton.texts import copy_phase, fill_phase
from hybridc.lower.triton.together import together
from hybridc.lower.triton.triton_function import Config, TritonPhase, TritonPhases, power_of_two, warps_for, ways_for

# Elements that a program holds of each value: of maps, of rows, at most of a row.
ELEMENTS, ROW_ELEMENTS, LONGEST_ROW = 1024, 2048, 1 << 15
# Bytes of the rows that a program holds, at most: three quarters of a card's registers.
HELD = 3 << 16
# Programs that keep a large card busy; parts of a reduction, at most, and how many blocks each has, at least.
PROGRAMS, PIECES, PIECE_BLOCKS = 528, 256, 4
# Rows that are shared among so few programs are cut, if they are longer than this.
FEW_ROWS, LONG_ROW = 32, 4096
TILE = 32
# A value is rather made again from so many arrays of its size than written and read.
GIVEN_AGAIN = 2


def phases_of(
    kernel: Kernel, strides: Mapping[int, Strides], there: Mapping[SSAValue, int] = MappingProxyType({})
) -> TritonPhases:
    """The phases of a kernel; ``strides``, in elements, are of arguments, then results, that may be no plain arrays.

    Values that are ``there`` lie in the memory of the results with these numbers, when the kernel begins.
    """
    return _Phases(kernel, strides, there).run()


class _Phases:
    def __init__(self, kernel: Kernel, strides: Mapping[int, Strides], there: Mapping[SSAValue, int]) -> None:
        self.kernel = kernel
        self.memory = KernelMemory(kernel, strides)
        self.memory.names |= {value: f"y{i}" for value, i in there.items()}
        self.made: list[TritonPhase] = []
        self.nests = nests_of(kernel)

    def run(self) -> TritonPhases:
        for nest in self.nests:
            for stage in nest.stages:
                if read_elsewhere(self.nests, nest, stage.result):
                    self.memory.keep(stage.result)
            self._nest(nest)
        for i, v in enumerate(self.kernel.results):
            number = number_of(v)
            if number is not None:
                self.made.append(self._filled(f"y{i}", v, body.literal(number, dtype_of(v))))
            elif self.memory.names[v] != f"y{i}":
                self.made.append(self._copied(self.memory.names[v], f"y{i}", v))
        return TritonPhases(together(self.made, self._read_only()), self.memory.locals)

    def _read_only(self) -> set[int]:
        """The arguments that are no memory for any result, as none is like them."""
        results = {(shape_of(v), dtype_of(v)) for v in self.kernel.results}
        return {i for i, v in enumerate(self.kernel.arguments) if (shape_of(v), dtype_of(v)) not in results}

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
        inner = math.prod(power_of_two(plan.sizes[a]) for a in plan.inner)
        points = plan.extent(plan.points)
        rows = any(not plan.across(s) for s in sums) and inner <= LONGEST_ROW and self._in_place(stages)
        rows = rows and inner * held_bytes(plan) <= HELD
        rows = rows and all({*plan.points} <= {*plan.axes(s.reduced)} for s in sums if plan.across(s))
        read = {r.value for s in stages for r in s.reads}
        if rows and (points >= FEW_ROWS or inner <= LONG_ROW):
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
        return chain if len(large) <= GIVEN_AGAIN else set()

    # --- elements ------------------------------------------------------------------------------------------

    def _elements(self, plan: NestPlan) -> None:
        if plan.tiled is not None:
            self._tiles(plan)
            return
        if self._has_numbers_of_rows(plan):
            self._pieces_of_rows(plan)
            return
        axes = (*plan.points, *plan.inner)
        total = plan.extent(axes)
        block = min(ELEMENTS, max(32, power_of_two(total)))
        blocks = [b for b in (block, 2 * block, block // 2, 4 * block) if b == block or total > PROGRAMS * b // 2]
        dim = Dim("i", axes, product(plan, axes), "BLOCK", self._masked(plan, axes, max(blocks)))
        configs = [Config((("BLOCK", b),), (-(-total // b), 1, 1), warps_for(b)) for b in blocks]
        if total == 0:
            return
        text = FunctionText(self.memory, plan, [dim], ("BLOCK",))
        text.block_by_block(min(blocks))
        text.stages()
        self._add(text, "elements", configs)

    def _has_numbers_of_rows(self, plan: NestPlan) -> bool:
        """Whether some values are one for each row, of rows that are long, and begin where vectors do.

        A program with elements of several rows loads such a value once for each element.
        """
        length = plan.extent(plan.inner)
        if length % VECTORS or plan.extent(plan.points) == 0 or not ELEMENTS <= length < ELEMENTS << 15:
            return False
        followed = [plan.axes(r.axes) for s in plan.stage_of.values() for r in s.reads if number_of(r.value) is None]
        stored = [plan.axes(s.axes) for s in plan.stage_of.values() if s.result in self.memory.names]
        inner = {*plan.inner}
        return any(axes and not inner & {*axes} for axes in followed) and all(inner <= {*axes} for axes in stored)

    def _pieces_of_rows(self, plan: NestPlan) -> None:
        """Elements of which each program has some of one row."""
        length = plan.extent(plan.inner)
        blocks = [b for b in (ELEMENTS, 2 * ELEMENTS, ELEMENTS // 2, 4 * ELEMENTS) if b <= length]
        count = product(plan, plan.inner)
        dim = Dim("i", plan.inner, count, "BLOCK", self._masked(plan, plan.inner, max(blocks)))
        programs = plan.extent(plan.points)
        configs = [Config((("BLOCK", b),), (programs * -(-length // b), 1, 1), warps_for(b)) for b in blocks]
        text = FunctionText(self.memory, plan, [dim], ("BLOCK",))
        program, pieces = text.w.let("program", text.program(0)), text.w.let("pieces", f"tl.cdiv({count}, BLOCK)")
        text.blocks.places(0, f"{program} % {pieces} * BLOCK + ")
        text.point(plan.points, f"{program} // {pieces}")
        text.stages()
        self._add(text, "elements", configs)

    def _tiles(self, plan: NestPlan) -> None:
        """Elements of which some follow memory along one axis, others along another."""
        *others, rows = plan.points
        (columns,) = plan.inner
        count = plan.extent(others)
        if count * plan.sizes[rows] * plan.sizes[columns] == 0:
            return
        dims = [
            Dim("i", (rows,), product(plan, (rows,)), "ROWS", self._masked(plan, (rows,), 64)),
            Dim("j", (columns,), product(plan, (columns,)), "COLUMNS", self._masked(plan, (columns,), 64)),
        ]
        configs = [
            Config(
                (("ROWS", r), ("COLUMNS", c)),
                (-(-plan.sizes[columns] // c) * -(-plan.sizes[rows] // r) * count, 1, 1),
                warps_for(r * c),
            )
            for r, c in ((TILE, TILE), (2 * TILE, TILE), (TILE, 2 * TILE), (2 * TILE, 2 * TILE))
        ]
        text = FunctionText(self.memory, plan, dims, ("ROWS", "COLUMNS"))
        # Of a grid's axes only the first has many programs.
        program = text.w.let("program", text.program(0))
        across, down = (
            text.w.let(n, f"tl.cdiv({d.extent}, {d.block})") for n, d in zip(("across", "down"), dims[::-1])
        )
        text.point(tuple(others), f"{program} // ({across} * {down})")
        text.blocks.places(0, f"{program} // {across} % {down} * ROWS + ")
        text.blocks.places(1, f"{program} % {across} * COLUMNS + ")
        text.stages()
        self._add(text, "elements", configs)

    # --- rows ----------------------------------------------------------------------------------------------

    def _rows(self, plan: NestPlan) -> None:
        plan = replace(plan, dynamic=plan.dynamic - {*plan.inner})
        points = plan.extent(plan.points)
        inner = math.prod(power_of_two(plan.sizes[a]) for a in plan.inner)
        rows = max(1, min(power_of_two(points), ROW_ELEMENTS // inner))
        choices = [rows] + [r for r in (2 * rows, rows // 2) if 1 <= r <= points and r * inner <= 4 * ROW_ELEMENTS]
        across = [s for s in plan.stage_of.values() if s.combine is not None and plan.across(s)]
        if points == 0 and not across:
            return
        most = max(choices)
        pieces, piece = self._pieces(points, most, 1) if across else (-(-points // most), most)
        dims = [Dim("row", plan.points, product(plan, plan.points), "ROWS", self._masked(plan, plan.points, most))]
        for n, axis in enumerate(plan.inner):
            size = plan.sizes[axis]
            block = power_of_two(size)
            dims.append(Dim("jklmn"[n], (axis,), str(size), str(block), block != size))
        configs = [
            Config(
                (("ROWS", r),),
                (pieces if across else -(-points // r), 1, 1),
                warps,
            )
            for r in choices
            for warps in ways_for(r * inner)
        ]
        text = FunctionText(self.memory, plan, dims, ("ROWS",), ("piece",) if across else ())
        for n in range(1, len(dims)):
            text.blocks.places(n, "")
        parts = {s.result: self._parts(s, pieces) for s in across}
        if not across:
            text.blocks.places(0, f"{text.program(0)} * ROWS + ")
            text.stages()
        else:
            text.accumulated(parts, (0,), text.kept(across), "ROWS")
        self._add(text, "rows", configs, (piece,) if across else ())
        self._combine(parts.values())

    # --- sums ----------------------------------------------------------------------------------------------

    def _sums(self, plan: NestPlan, over: Axes, pairs: Sequence[Running] = ()) -> None:
        kept = tuple(a for a in range(len(plan.sizes)) if a not in over)
        terms, outputs = plan.extent(over), plan.extent(kept)
        if outputs == 0:
            return
        vector = plan.merged[plan.nest.vector] if plan.nest.vector is not None else 0
        columns = 1 if not kept else min(power_of_two(outputs), 4 if vector in over else 64)
        rows = max(1, min(power_of_two(terms), ROW_ELEMENTS // columns))
        programs = -(-outputs // columns)
        pieces, piece = self._pieces(terms, rows, programs)
        dims = [
            Dim("i", over, product(plan, over), "ROWS", self._masked(plan, over, piece)),
            Dim("j", kept, product(plan, kept), "COLUMNS", self._masked(plan, kept, columns)),
        ]
        configs = [Config((("ROWS", rows), ("COLUMNS", columns)), (programs, pieces, 1), warps_for(rows * columns))]
        text = FunctionText(self.memory, plan, dims, ("ROWS", "COLUMNS"), ("piece",))
        text.blocks.places(1, f"{text.program(0)} * COLUMNS + ")
        stages = [s for s in plan.stage_of.values() if s.combine is not None]
        for stage in stages:
            self.memory.keep(stage.result)
        parts = {s.result: self._parts(s, pieces) for s in stages}
        text.accumulated(parts, (0,), text.kept(stages), "ROWS", along=1, pairs=pairs)
        self._add(text, "sums", configs, (piece,))
        for pair in pairs if pieces > 1 else ():
            both = (parts.pop(pair.first.result), parts.pop(pair.second.result))
            self.made.append(join_phase(self.memory, pair, both, terms, piece))
        self._combine(parts.values())

    def _pieces(self, terms: int, block: int, programs: int) -> tuple[int, int]:
        """How many pieces a reduction is cut into, and how long they are: a multiple of a block."""
        blocks = max(1, -(-terms // block))
        wanted = min(-(-blocks // PIECE_BLOCKS), PIECES, max(1, PROGRAMS // programs))
        piece = -(-blocks // wanted) * block
        return max(1, -(-terms // piece)), piece

    def _parts(self, stage: Stage, pieces: int) -> PartialResults:
        """Where the parts of a reduction go: at once to its place, if there is only one."""
        if pieces == 1:
            return PartialResults(stage, self.memory.names[stage.result], 1)
        return PartialResults(
            stage, self.memory.local(pieces * math.prod(shape_of(stage.result)), stage.result), pieces
        )

    def _combine(self, parts: Iterable[PartialResults]) -> None:
        """The phases that combine parts."""
        self.made += [combine_phase(self.memory, part) for part in parts if part.pieces > 1]

    # --- pieces of text ------------------------------------------------------------------------------------

    def _masked(self, plan: NestPlan, axes: Axes, block: int) -> bool:
        """Whether blocks may reach beyond the end."""
        return bool(plan.dynamic & {*axes}) or plan.extent(axes) % block != 0

    def _add(self, text: FunctionText, what: str, configs: Sequence[Config], numbers: tuple[int, ...] = ()) -> None:
        self.made.append(text.phase(what, tuple(configs), numbers))

    def _filled(self, target: str, value: SSAValue, number: str) -> TritonPhase:
        return fill_phase(self.memory.dtypes[target], math.prod(shape_of(value)), number, self.memory.number[target])

    def _copied(self, source: str, target: str, value: SSAValue) -> TritonPhase:
        shape = shape_of(value)
        numbers = (self.memory.number[source], self.memory.number[target])
        return copy_phase(self.memory.dtypes[target], shape, row_major(shape), *numbers)
