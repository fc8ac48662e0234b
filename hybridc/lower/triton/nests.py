"""The loops of a kernel as Triton functions: which shape its blocks have, and what its programs share.

* *elements*: nothing is reduced; a program makes a block of the results, flat or, where memory is followed along two
  axes, in two dimensions.
* *rows*: a program holds whole rows in registers; all sweeps over them happen there. Sums across rows are added up over
  the rows of a program, as parts.
* *sums*: one sweep whose reductions all go along the same axes: programs share these axes, too, and give parts.
* A nest that is none of these is cut: values between its sweeps go through memory.

Parts are combined by another function, in their order: results do not depend on chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.ir import SSAValue

from hybridc.lower.kernel import Axes, Kernel, Nest, Read, Stage, grid_of, number_of
from hybridc.lower.nest_parts import nests_of, read_elsewhere
from hybridc.lower.nest_plan import NestPlan, plan_nest
from hybridc.lower.structured import dtype_of, shape_of
from hybridc.lower.triton import body
from hybridc.lower.triton.blocks import Blocks, Dim, Parameters, Strides, is_wide, product, title
from hybridc.lower.triton.functions import Config, TritonFunction, TritonPhase, TritonPhases
from hybridc.lower.triton.source import Writer
from hybridc.lower.triton.texts import copy_phase, fill_phase, module

# Elements that a program holds of each value: of maps, of rows, at most of a row.
ELEMENTS, ROW_ELEMENTS, LONGEST_ROW = 1024, 2048, 1 << 15
# Elements that one warp works on at a time.
WARP_ELEMENTS = 256
# Programs that keep a large card busy; parts of a reduction, at most.
PROGRAMS, PIECES = 528, 256
# Rows that are shared among so few programs are cut, if they are longer than this.
FEW_ROWS, LONG_ROW = 32, 4096
TILE = 32
# A value is rather made again from so many arrays of its size than written and read.
GIVEN_AGAIN = 2


def power_of_two(n: int) -> int:
    """The least power of two that is not less."""
    return 1 << max(0, n - 1).bit_length()


def warps_for(elements: int) -> int:
    """The warps that work on a block."""
    return min(16, max(1, power_of_two(elements // WARP_ELEMENTS)))


def phases_of(kernel: Kernel, strides: Mapping[int, Strides]) -> TritonPhases:
    """The phases of a kernel; ``strides``, in elements, are of arguments, then results, that may be no plain arrays."""
    return _Phases(kernel, strides).run()


@dataclass
class _Part:
    """Parts of a reduction: their buffer, and how many there are."""

    stage: Stage
    buffer: str
    pieces: int


class _Phases:
    def __init__(self, kernel: Kernel, strides: Mapping[int, Strides]) -> None:
        self.kernel = kernel
        values = [*kernel.arguments, *kernel.results]
        self.strides = {values[i]: s for i, s in strides.items()}
        self.made = TritonPhases()
        self.number: dict[str, int] = {f"x{i}": i for i in range(len(kernel.arguments))}
        self.number |= {f"y{i}": len(kernel.arguments) + i for i in range(len(kernel.results))}
        self.names: dict[SSAValue, str] = {v: f"x{i}" for i, v in enumerate(kernel.arguments)}
        for i, v in enumerate(kernel.results):
            self.names.setdefault(v, f"y{i}")
        self.dtypes = {f"x{i}": dtype_of(v) for i, v in enumerate(kernel.arguments)}
        self.dtypes |= {f"y{i}": dtype_of(v) for i, v in enumerate(kernel.results)}
        self.nests = nests_of(kernel)

    def run(self) -> TritonPhases:
        for nest in self.nests:
            for stage in nest.stages:
                if read_elsewhere(self.nests, nest, stage.result):
                    self._memory(stage.result)
            self._nest(nest)
        for i, v in enumerate(self.kernel.results):
            number = number_of(v)
            if number is not None:
                self.made.phases.append(self._filled(f"y{i}", v, body.literal(number, dtype_of(v))))
            elif self.names[v] != f"y{i}":
                self.made.phases.append(self._copied(self.names[v], f"y{i}", v))
        return self.made

    # --- memory --------------------------------------------------------------------------------------------

    def _memory(self, value: SSAValue) -> None:
        """Let a value be in memory after its nest."""
        if value not in self.names:
            self.names[value] = self._local(math.prod(shape_of(value)), value)

    def _local(self, elements: int, like: SSAValue) -> str:
        """A buffer of the kernel's own."""
        name = f"w{len(self.made.locals)}"
        self.number[name] = len(self.kernel.arguments) + len(self.kernel.results) + len(self.made.locals)
        self.made.locals.append(elements * dtype_of(like).itemsize)
        self.dtypes[name] = dtype_of(like)
        return name

    # --- the choice ----------------------------------------------------------------------------------------

    def _nest(self, nest: Nest) -> None:
        plan = plan_nest(self.kernel, nest, frozenset(self.strides), self.names.__contains__)
        if not plan.sweeps:
            return
        stages = list(plan.stage_of.values())
        walks = self._walks(nest, stages)
        if any(len(walk) < nest.domain.count(0) for walk in walks):
            self._each(plan, list(walks.values()))
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
        rows = rows and all({*plan.points} <= {*plan.axes(s.reduced)} for s in sums if plan.across(s))
        read = {r.value for s in stages for r in s.reads}
        if rows and (points >= FEW_ROWS or inner <= LONG_ROW):
            self._rows(plan)
        elif any(s.result in read for s in sums) or not self._in_place(stages):
            self._cut(plan)
        elif len(ways) == 1:
            self._sums(plan, next(iter(ways)))
        else:
            self._apart(plan)

    def _walks(self, nest: Nest, stages: Sequence[Stage]) -> dict[frozenset[int], list[Stage]]:
        """The stages whose results are in memory, by the empty axes that they walk."""
        empty = {a for a, n in enumerate(nest.domain) if n == 0}
        found: dict[frozenset[int], list[Stage]] = {}
        for stage in stages:
            if stage.result in self.names:
                found.setdefault(frozenset(empty & {*stage.axes, *stage.reduced}), []).append(stage)
        return found

    def _in_place(self, stages: Sequence[Stage]) -> bool:
        """Whether what the stages make is read at the elements that were just made."""
        made = {s.result: s for s in stages}
        return all(r.axes == made[r.value].axes for s in stages for r in s.reads if r.value in made)

    def _cut(self, plan: NestPlan) -> None:
        """A nest for each sweep, with what they give each other in memory."""
        self._each(plan, [sweep.stages for sweep in plan.sweeps])

    def _apart(self, plan: NestPlan) -> None:
        """A nest for the reductions along the same axes, with what they reduce in memory."""
        groups: dict[Axes, list[Stage]] = {}
        for stage in plan.stage_of.values():
            groups.setdefault(plan.axes(stage.reduced), []).append(stage)
        self._each(plan, [groups[axes] for axes in sorted(groups, key=len)])

    def _each(self, plan: NestPlan, groups: Sequence[Sequence[Stage]]) -> None:
        stages = list(plan.stage_of.values())
        wanted: list[set[SSAValue]] = []
        for group in groups:
            values = {s.result for s in group}
            for stage in reversed(stages):
                if stage.result in values:
                    values |= {v for r in stage.reads for v in self._again(plan, r, values)}
            wanted.append(values)
        for values in wanted:
            made = [s for s in stages if s.result in values]
            for value in {r.value for s in made for r in s.reads if r.value in plan.stage_of} - values:
                self._memory(value)
        nest = plan.nest
        for values in wanted:
            group = [s for s in stages if s.result in values]
            if any(s.result in self.names for s in group):
                walked = {a for s in group for a in (*s.axes, *s.reduced)}
                domain = tuple(n if a in walked else 1 for a, n in enumerate(nest.domain))
                self._nest(replace(nest, domain=domain, stages=tuple(group), grid=grid_of(domain, group)))

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
            if stage is None or stage.combine is not None or at.value in self.names or stage.axes != at.axes:
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
        axes = (*plan.points, *plan.inner)
        total = plan.extent(axes)
        block = min(ELEMENTS, max(32, power_of_two(total)))
        blocks = [b for b in (block, 2 * block, block // 2, 4 * block) if b == block or total > PROGRAMS * b // 2]
        dim = Dim("i", axes, product(plan, axes), "BLOCK", self._masked(plan, axes, max(blocks)))
        configs = [Config((("BLOCK", b),), (-(-total // b), 1, 1), warps_for(b // 2)) for b in blocks]
        if total == 0:
            return
        text = _Text(self, plan, [dim], ("BLOCK",))
        text.blocks.places(0, f"{text.program(0)} * BLOCK + ")
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
                (-(-plan.sizes[columns] // c), -(-plan.sizes[rows] // r), count),
                warps_for(r * c // 2),
            )
            for r, c in ((TILE, TILE), (2 * TILE, TILE), (TILE, 2 * TILE), (2 * TILE, 2 * TILE))
        ]
        text = _Text(self, plan, dims, ("ROWS", "COLUMNS"))
        text.point(tuple(others), 2)
        text.blocks.places(0, f"{text.program(1)} * ROWS + ")
        text.blocks.places(1, f"{text.program(0)} * COLUMNS + ")
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
                warps_for(r * inner // 2),
            )
            for r in choices
        ]
        text = _Text(self, plan, dims, ("ROWS",), ("piece",) if across else ())
        for n in range(1, len(dims)):
            text.blocks.places(n, "")
        parts = {s.result: self._parts(s, pieces) for s in across}
        if not across:
            text.blocks.places(0, f"{text.program(0)} * ROWS + ")
            text.stages()
        else:
            text.accumulated(parts, (0,), text.kept(across), "ROWS")
        self._add(text, "rows", configs, (piece,) if across else ())
        for part in parts.values():
            self._combine(part)

    # --- sums ----------------------------------------------------------------------------------------------

    def _sums(self, plan: NestPlan, over: Axes) -> None:
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
        configs = [
            Config((("ROWS", rows), ("COLUMNS", columns)), (programs, pieces, 1), warps_for(rows * columns // 2))
        ]
        text = _Text(self, plan, dims, ("ROWS", "COLUMNS"), ("piece",))
        text.blocks.places(1, f"{text.program(0)} * COLUMNS + ")
        stages = [s for s in plan.stage_of.values() if s.combine is not None]
        parts = {s.result: self._parts(s, pieces) for s in stages}
        text.accumulated(parts, (0,), text.kept(stages), "ROWS", along=1)
        self._add(text, "sums", configs, (piece,))
        for part in parts.values():
            self._combine(part)

    def _pieces(self, terms: int, block: int, programs: int) -> tuple[int, int]:
        """How many pieces a reduction is cut into, and how long they are: a multiple of a block."""
        blocks = max(1, -(-terms // block))
        wanted = min(blocks, PIECES, max(1, PROGRAMS // programs))
        piece = -(-blocks // wanted) * block
        return max(1, -(-terms // piece)), piece

    def _parts(self, stage: Stage, pieces: int) -> _Part:
        """Where the parts of a reduction go: at once to its place, if there is only one."""
        if pieces == 1:
            return _Part(stage, self.names[stage.result], 1)
        return _Part(stage, self._local(pieces * math.prod(shape_of(stage.result)), stage.result), pieces)

    def _combine(self, part: _Part) -> None:
        """The phase that combines parts."""
        if part.pieces == 1:
            return
        size, pieces, dtype = math.prod(shape_of(part.stage.result)), part.pieces, dtype_of(part.stage.result)
        assert part.stage.combine is not None
        rows, target = power_of_two(pieces), self.names[part.stage.result]
        columns = min(power_of_two(size), max(1, 2 * ROW_ELEMENTS // rows))
        w = Writer()
        w.line(f"i = tl.arange(0, {rows})[:, None]")
        w.line("j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]")
        masks = [f"(i < {pieces})"] * (rows != pieces) + [f"(j < {size})"] * (size % columns != 0)
        mask = f", mask={' & '.join(masks)}" if masks else ""
        name = w.let("part", f"tl.load({part.buffer} + i * {size} + j{mask})")
        if rows != pieces:
            name = w.let("part", f"tl.where(i < {pieces}, {name}, {body.neutral(part.stage.combine, dtype)})")
        name = body.reduce(part.stage.combine, name, 0, dtype, w)
        start = number_of(part.stage.op.operands[-1])
        assert start is not None
        first = body.literal(start, dtype)
        if first != body.neutral(part.stage.combine, dtype):
            name = w.let("total", body.combine(part.stage.combine, name, first, dtype))
        w.line(f"tl.store({target} + j, {name}{f', mask=j < {size}' if size % columns else ''})")
        doc = f"{pieces} parts of {size} elements are combined."
        source = module("combine", (part.buffer, target), (), ("COLUMNS",), doc, w)
        function = TritonFunction("combine", source, (dtype, dtype), (), ("COLUMNS",))
        config = Config((("COLUMNS", columns),), (-(-size // columns), 1, 1), warps_for(rows * columns // 2))
        self.made.phases.append(TritonPhase(function, (self.number[part.buffer], self.number[target]), (), (config,)))

    # --- pieces of text ------------------------------------------------------------------------------------

    def _masked(self, plan: NestPlan, axes: Axes, block: int) -> bool:
        """Whether blocks may reach beyond the end."""
        return bool(plan.dynamic & {*axes}) or plan.extent(axes) % block != 0

    def _add(self, text: _Text, what: str, configs: Sequence[Config], numbers: tuple[int, ...] = ()) -> None:
        self.made.phases.append(text.phase(what, tuple(configs), numbers))

    def _filled(self, target: str, value: SSAValue, number: str) -> TritonPhase:
        return fill_phase(self.dtypes[target], math.prod(shape_of(value)), number, self.number[target])

    def _copied(self, source: str, target: str, value: SSAValue) -> TritonPhase:
        shape = shape_of(value)
        plain = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
        numbers = (self.number[source], self.number[target])
        return copy_phase(self.dtypes[target], shape, plain, *numbers)


class _Text:
    """A function that is being written: its parameters, and what its programs do."""

    def __init__(
        self,
        phases: _Phases,
        plan: NestPlan,
        dims: Sequence[Dim],
        constants: tuple[str, ...],
        more: tuple[str, ...] = (),
    ) -> None:
        self.phases = phases
        self.plan = plan
        self.constants = constants
        self.more = more
        self.w = Writer()
        values = [r.value for s in plan.stage_of.values() for r in s.reads]
        values += [v for s in plan.stage_of.values() for v in (s.result, *s.anywhere)]
        self.wide = is_wide(values)
        self.given = Parameters(dict(phases.names))
        self.blocks = Blocks(plan, dims, self.given, phases.strides, self.wide, self.w)
        self.pointers: list[str] = []

    def program(self, axis: int) -> str:
        """The number of this program along an axis of the grid."""
        return f"tl.program_id({axis}){'.to(tl.int64)' if self.wide else ''}"

    def point(self, axes: Axes, grid: int) -> None:
        """Write the index along each of some axes, of which each program has one."""
        rest = self.program(grid)
        for axis in reversed(axes[1:]):
            rest = self.w.let("rest", rest)
            self.blocks.index[axis] = self.w.let(f"at_{axis}", f"{rest} % {self.blocks.size(axis)}")
            rest = f"{rest} // {self.blocks.size(axis)}"
        if axes:
            self.blocks.index[axes[0]] = self.w.let(f"at_{axes[0]}", rest)

    def stages(self) -> None:
        """Write all stages over whole rows, or without reductions."""
        for stage in self.plan.stage_of.values():
            self.known(stage, self.blocks.stage(stage))

    def known(self, stage: Stage, value: str) -> None:
        """Reduce what a stage made along the axes of rows, and put it where it belongs."""
        if stage.combine is not None:
            over = sorted(self.blocks.dims_of(stage.reduced))
            dims = sorted({*over, *self.blocks.dims_of(stage.axes)})
            value = self.blocks.finished(stage, self.blocks.reduced(stage, value, dims, over))
        self.blocks.known[stage.result] = value
        if stage.result in self.phases.names:
            self.blocks.store(stage, value)

    def kept(self, stages: Sequence[Stage]) -> dict[SSAValue, Axes]:
        """The dimensions of the results of reductions."""
        return {s.result: tuple(sorted(self.blocks.dims_of(s.axes))) for s in stages}

    def accumulated(
        self,
        parts: Mapping[SSAValue, _Part],
        over: tuple[int, ...],
        kept: Mapping[SSAValue, Axes],
        block: str,
        along: int = 0,
    ) -> None:
        """Write the loop over a piece, all stages in it, and the parts of reductions behind it.

        ``along`` is the axis of the grid on which the pieces are.
        """
        w, blocks = self.w, self.blocks
        w.line(f"piece_number = {self.program(along)}")
        sums: dict[SSAValue, str] = {}
        for value, part in parts.items():
            assert part.stage.combine is not None
            dtype = dtype_of(value)
            neutral = body.neutral(part.stage.combine, dtype)
            shape = blocks.shape(kept[value])
            sums[value] = w.let("sum", f"tl.full({shape}, {neutral}, {body.triton_type(dtype)})")
        w.line(f"for step in range(0, piece // {block}):")
        with w.indented():
            blocks.places(0, f"piece_number * piece + step * {block} + ")
            for stage in self.plan.stage_of.values():
                value = blocks.stage(stage)
                if stage.result not in parts:
                    self.known(stage, value)
                    continue
                assert stage.combine is not None
                reduced = sorted({*over, *blocks.dims_of(stage.reduced)})
                dims = sorted({*reduced, *kept[stage.result]})
                one = blocks.reduced(stage, value, dims, reduced)
                name = sums[stage.result]
                w.line(f"{name} = {body.combine(stage.combine, name, one, dtype_of(stage.result))}")
        for value, part in parts.items():
            self._part(part, sums[value])

    def _part(self, part: _Part, name: str) -> None:
        """Store a part of a reduction, or all of it."""
        blocks, stage = self.blocks, part.stage
        if part.pieces == 1:
            blocks.store(stage, blocks.finished(stage, name))
            return
        blocks.given.values[stage.result] = part.buffer
        size = math.prod(shape_of(stage.result))
        offset = blocks.offset(stage.axes, shape_of(stage.result), None)
        first = f"piece_number * {size} + {offset or blocks.origin()}"
        blocks.put(self.given.pointer(stage.result), first, name, blocks.mask(blocks.dims_of(stage.axes)))

    def phase(self, what: str, configs: tuple[Config, ...], numbers: tuple[int, ...]) -> TritonPhase:
        """The function and what it is given."""
        names = list(dict.fromkeys(self.given.values[v] for v in self.given.used))
        dynamic = sorted(self.plan.dynamic)
        parameters = (*(f"n{a}" for a in dynamic), *self.more)
        name = self.phases.kernel.name
        source = module(name, names, parameters, self.constants, title(self.phases.kernel, what), self.w)
        kind = "i64" if self.wide else "i32"
        function = TritonFunction(
            name, source, tuple(self.phases.dtypes[n] for n in names), (kind,) * len(parameters), self.constants
        )
        given = (*(self.plan.sizes[a] for a in dynamic), *numbers)
        return TritonPhase(function, tuple(self.phases.number[n] for n in names), given, configs)
