"""One function while it is written: its parameters, the buffers of its kernel, and what its programs do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Axes, Kernel, Stage
from hybridc.ir.nest_plan import NestPlan
from hybridc.ir.online_reductions import Running
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.triton.blocks import Blocks, Dim, Parameters, Strides, is_wide, title
from hybridc.lower.triton.expressions import linalg_body as body
from hybridc.lower.triton.online_pairs import ReductionBlocks, add_block, finished
from hybridc.lower.triton.row_values import in_order_of_need
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.together import call_block
from hybridc.lower.triton.triton_function import Config, Elements, TritonFunction, TritonPhase

# Sizes that are multiples of this are known to be so in a function: Triton looks at each number that it is given.
VECTORS = 16


@dataclass
class PartialResults:
    """Parts of a reduction: the buffer that they lie in, and how many there are."""

    stage: Stage
    buffer: str
    pieces: int


class KernelMemory:
    """The buffers of a kernel: the names of its arguments, its results and its locals, and which values are there."""

    def __init__(self, kernel: Kernel, strides: Mapping[int, Strides]) -> None:
        self.kernel = kernel
        values = [*kernel.arguments, *kernel.results]
        buffers = [*(f"x{i}" for i in range(len(kernel.arguments))), *(f"y{i}" for i in range(len(kernel.results)))]
        self.strides = {values[i]: s for i, s in strides.items()}
        self.number = {name: i for i, name in enumerate(buffers)}
        self.dtypes = {name: dtype_of(v) for name, v in zip(buffers, values, strict=True)}
        self.names: dict[SSAValue, str] = {}
        for name, v in zip(buffers, values, strict=True):
            self.names.setdefault(v, name)
        self.locals: list[int] = []

    def keep(self, value: SSAValue) -> None:
        """Let a value be in memory."""
        if value not in self.names:
            self.names[value] = self.local(math.prod(shape_of(value)), value)

    def local(self, elements: int, like: SSAValue) -> str:
        """A buffer of the kernel's own."""
        name = f"w{len(self.locals)}"
        self.number[name] = len(self.kernel.arguments) + len(self.kernel.results) + len(self.locals)
        self.locals.append(elements * dtype_of(like).itemsize)
        self.dtypes[name] = dtype_of(like)
        return name


@dataclass
class Numbered(Parameters):
    """Parameters numbered as a function comes to them: functions that do the same have the same text."""

    called: dict[str, str] = field(default_factory=lambda: dict[str, str]())  # by the buffers of the kernel

    def pointer(self, value: SSAValue) -> str:
        buffer = super().pointer(value)
        if buffer not in self.called:
            kind = buffer[0]
            self.called[buffer] = f"{kind}{sum(name[0] == kind for name in self.called.values())}"
        return self.called[buffer]


class FunctionText:
    """A function that is being written: its parameters, and what its programs do."""

    def __init__(
        self,
        memory: KernelMemory,
        plan: NestPlan,
        dims: Sequence[Dim],
        constants: tuple[str, ...],
        more: tuple[str, ...] = (),
    ) -> None:
        self.memory = memory
        self.plan = plan
        self.constants = constants
        self.more = more
        self.w = SourceWriter()
        values = [r.value for s in plan.stage_of.values() for r in s.reads]
        values += [v for s in plan.stage_of.values() for v in (s.result, *s.anywhere)]
        self.wide = is_wide(values)
        self.given = Numbered(dict(memory.names))
        self.blocks = Blocks(plan, dims, self.given, memory.strides, self.w)
        self.counted: tuple[str, int] | None = None  # the elements, of which each program has a block
        self.has_tail = False

    def program(self, axis: int) -> str:
        """The number of this program along an axis of the grid."""
        return f"tl.program_id({axis}){'.to(tl.int64)' if self.wide else ''}"

    def block_by_block(self, least: int) -> None:
        """Let programs take the elements of the one dimension, a block each, of at least so many.

        Whether an element is there could be asked for several at once only if they are known to be whole vectors.
        """
        (dim,) = self.blocks.dims
        self.counted = dim.extent, self.plan.extent(dim.axes)
        self.has_tail = dim.masked and self.counted[1] >= least and self.counted[1] % VECTORS != 0
        self.w.line(f"{self.w.name('program')} = {self.program(0)}")
        self.blocks.places(0, f"program * {dim.block} + ")
        if self.has_tail:
            self.blocks.shown = self.w.let("there", f"i < {dim.extent} if TAIL else None")

    def point(self, axes: Axes, rest: str) -> None:
        """Write the index along each of some axes, of which each program has one: ``rest`` counts them."""
        for axis in reversed(axes[1:]):
            rest = self.w.let("rest", rest)
            self.blocks.index[axis] = self.w.let(f"at_{axis}", f"{rest} % {self.blocks.size(axis)}")
            rest = f"{rest} // {self.blocks.size(axis)}"
        if axes:
            self.blocks.index[axes[0]] = self.w.let(f"at_{axes[0]}", rest)

    def stages(self) -> None:
        """Write all stages over whole rows, or without reductions."""
        for stage in in_order_of_need(list(self.plan.stage_of.values())):
            self.known(stage, self.blocks.stage(stage))

    def known(self, stage: Stage, value: str) -> None:
        """Reduce what a stage made along the axes of rows, and put it where it belongs."""
        if stage.combine is not None:
            over = sorted(self.blocks.dims_of(stage.reduced))
            dims = sorted({*over, *self.blocks.dims_of(stage.axes)})
            value = self.blocks.finished(stage, self.blocks.reduced(stage, value, dims, over))
        self.blocks.known[stage.result] = value
        if stage.result in self.memory.names:
            self.blocks.store(stage, value)

    def kept(self, stages: Sequence[Stage]) -> dict[SSAValue, Axes]:
        """The dimensions of the results of reductions."""
        return {s.result: tuple(sorted(self.blocks.dims_of(s.axes))) for s in stages}

    def accumulated(
        self,
        parts: Mapping[SSAValue, PartialResults],
        over: tuple[int, ...],
        kept: Mapping[SSAValue, Axes],
        block: str,
        along: int = 0,
        pairs: Sequence[Running] = (),
    ) -> None:
        """Write the loop over a piece, all stages in it, and the parts of reductions behind it.

        ``along`` is the axis of the grid on which the pieces are; ``pairs`` are reductions that are made together.
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
        started = {pair.first: pair for pair in pairs}
        inside = {s for pair in pairs for s in (*pair.between, pair.second)}
        w.line(f"for step in range(0, piece // {block}):")
        with w.indented():
            blocks.places(0, f"piece_number * piece + step * {block} + ")
            for stage in in_order_of_need(list(self.plan.stage_of.values())):
                if stage in inside:
                    continue
                value = blocks.stage(stage)
                if stage.result not in parts:
                    self.known(stage, value)
                    continue
                assert stage.combine is not None
                reduced = sorted({*over, *blocks.dims_of(stage.reduced)})
                dims = sorted({*reduced, *kept[stage.result]})
                if stage in started:
                    walk = ReductionBlocks(dims, reduced, f"step * {block}", self._here(block))
                    add_block(started[stage], value, sums, walk, blocks)
                    continue
                one = blocks.reduced(stage, value, dims, reduced)
                name = sums[stage.result]
                w.line(f"{name} = {body.combine(stage.combine, name, one, dtype_of(stage.result))}")
        for pair in pairs:
            if parts[pair.second.result].pieces == 1:
                sums[pair.second.result] = finished(pair, sums[pair.first.result], sums[pair.second.result], w)
        for value, part in parts.items():
            self._part(part, sums[value])

    def _here(self, block: str) -> str:
        """How many elements there are along the first dimension in this step of a loop over a piece."""
        dim = self.blocks.dims[0]
        if not dim.masked:
            return block
        return f"tl.minimum(tl.maximum({dim.extent} - piece_number * piece - step * {block}, 0), {block})"

    def _part(self, part: PartialResults, name: str) -> None:
        """Store a part of a reduction, or all of it."""
        blocks, stage = self.blocks, part.stage
        if part.pieces == 1:
            blocks.store(stage, blocks.finished(stage, name))
            return
        blocks.given.values[stage.result] = part.buffer
        size = math.prod(shape_of(stage.result))
        offset = blocks.offset(stage.axes, None)
        first = f"piece_number * {size} + {offset or blocks.origin()}"
        blocks.put(self.given.pointer(stage.result), first, name, blocks.mask(blocks.dims_of(stage.axes)))

    def phase(self, what: str, configs: tuple[Config, ...], numbers: tuple[int, ...]) -> TritonPhase:
        """The function and what it is given."""
        buffers, pointers = list(self.given.called), tuple(self.given.called.values())
        dynamic = sorted(self.plan.dynamic)
        parameters = (*(f"n{a}" for a in dynamic), *self.more)
        name, doc = self.memory.kernel.name, title(self.memory.kernel, what)
        elements = self._elements(pointers, parameters, doc)
        text = self.w
        if elements is not None and elements.tail:
            text = SourceWriter()
            text.line(f"program = {elements.program}")
            call_block(name, elements, text)
        source = module(name, pointers, parameters, self.constants, doc, text)
        kind = "i64" if self.wide else "i32"
        function = TritonFunction(
            name, source, tuple(self.memory.dtypes[b] for b in buffers), (kind,) * len(parameters), self.constants
        )
        given = (*(self.plan.sizes[a] for a in dynamic), *numbers)
        return TritonPhase(function, tuple(self.memory.number[b] for b in buffers), given, configs, elements)

    def _elements(self, pointers: tuple[str, ...], numbers: tuple[str, ...], doc: str) -> Elements | None:
        """What a program does with its block of elements, if programs take them block by block."""
        if self.counted is None:
            return None
        _, *lines = self.w.lines
        extent, count = self.counted
        helpers = tuple(self.w.helpers.items())
        return Elements(pointers, numbers, self.program(0), tuple(lines), helpers, extent, count, self.has_tail, doc)
