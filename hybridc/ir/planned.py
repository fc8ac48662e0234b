"""Programs as data: planned programs, their steps over memory slots, and tables of native steps.

A :class:`PlannedProgram` also says what Python does before and after its steps. A :class:`NativePlan` has no code of
its own: kernels are native functions (`NativeRegion.code`), shared among graphs, and the executor is the same for all
plans. So making a plan runs no code generator. Nothing here needs the compiler.
"""

from __future__ import annotations

import itertools
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from hybridc.dialects import operator_registry
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.events import RECORDER, now
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NOT_SERIALISED, NotWritable, read, register_form, register_value, written
from hybridc.ground.sizes import row_major

# --- tables of native steps -------------------------------------------------------------------------------------------


class NativeCode(Protocol):
    """A native function ``void region(void **buffers, int64 *scalars, int64 lo, int64 hi, void *scratch)``."""

    @property
    def address(self) -> int: ...


@dataclass(frozen=True)
class _NotLoaded:
    """Code that is not loaded yet."""

    @property
    def address(self) -> int:
        raise LookupError("the code of this parallel region is not loaded; call plan() of the program first")


NOT_LOADED = _NotLoaded()


class Position(NamedTuple):
    """An address as a slot and an offset in bytes.

    Slot 0 is the arena; then come the inputs, the results, the constants and the prepared values, in their order.
    """

    slot: int
    offset: int = 0


@dataclass(frozen=True)
class GridPart:
    """A parallel region that one thread runs at a point of a grid, all iterations of it.

    Slot 0 of its ``buffers`` is the thread's scratch memory; then come the buffers of the grid. Its own scratch
    memory begins ``scratch`` bytes into the thread's.
    """

    code: NativeCode = field(default=NOT_LOADED, metadata=NOT_SERIALISED)
    buffers: tuple[Position, ...] = ()
    numbers: bytes = b""
    extent: int = 1
    scratch: int = 0


@dataclass(frozen=True)
class Grid:
    """A parallel region over a grid of these ``sizes``: its ``parts`` run one after the other at each point.

    ``steps`` are, for each buffer of the region, the bytes from one point to the next along each axis.
    """

    sizes: tuple[int, ...]
    steps: tuple[tuple[int, ...], ...]
    parts: tuple[GridPart, ...]


@dataclass(frozen=True)
class InnerSteps:
    """The steps of a program that another one runs: ``regions`` over these ``slots``, at most so many ``threads`` each.

    The first ``preparation`` of the regions run once. ``notes`` tell of them, but for their lines: a graph inside an
    operator has none that a later process could correct.
    """

    slots: tuple[Position, ...] = ()
    regions: tuple[NativeRegion, ...] = ()
    preparation: int = 0
    threads: int = 1
    notes: tuple[LaunchNote, ...] = ()

    def hoisted(self) -> InnerSteps:
        """The steps without their preparation, which is done elsewhere."""
        count = self.preparation
        notes = tuple([replace(n, first=n.first - count) for n in self.notes if n.first >= count])
        return replace(self, regions=self.regions[count:], preparation=0, notes=notes)

    def loaded(self, codes: Iterator[NativeCode]) -> InnerSteps:
        """The steps with the next ones of loaded code."""
        regions = [r.loaded(list(itertools.islice(codes, r.code_count))) for r in self.regions]
        return replace(self, regions=tuple(regions))

    @property
    def code_count(self) -> int:
        """The native functions of all regions."""
        return sum(r.code_count for r in self.regions)


class SlotCopy(NamedTuple):
    """So many bytes that are copied, from ``offset`` on, from slot to slot."""

    source: int
    offset: int
    target: int
    size: int


class MovingKey(NamedTuple):
    """A random key in a slot, a seed and a counter, made from that in another.

    The counter begins with ``draw`` more, and is ``step`` more at the next index.
    """

    slot: int
    source: int
    draw: int
    step: int


class ZeroTest(NamedTuple):
    """A test of the number in a slot, of ``size`` bytes: that it is ``zero``, or is not.

    The sign bit of a ``signed`` number, a float, does not count.
    """

    slot: int
    size: int
    signed: bool
    zero: bool


@dataclass(frozen=True)
class StepLoop:
    """A loop over the regions of ``step``, at most ``count`` times, or so often as the integer at a slot says.

    Slots of both programs, and more of ``step``, begin at positions in the buffers of the region that has the loop,
    then in the ``constants``. Bytes are copied at the ``begin``, ``before`` each step, and at the ``end``.
    After a step slots change places (``swaps``) or move on by so many bytes (``advances``); ``backwards``,
    they begin at the last row. Before it the ``condition`` is asked, whose slots in ``links`` are set to those of the
    step: the float32 at ``answer`` says whether to go on. Of the rows at the slots in ``zeros``, of so many bytes each,
    those of steps that did not run are zeros; their number is written to the slot ``ran``. There are no steps if the
    ``choice`` does not hold.
    """

    step: InnerSteps = field(default_factory=InnerSteps)
    condition: InnerSteps | None = None
    constants: tuple[bytes, ...] = ()
    count: int = 0
    counted: int | None = None
    backwards: bool = False
    begin: tuple[SlotCopy, ...] = ()
    before: tuple[SlotCopy, ...] = ()
    end: tuple[SlotCopy, ...] = ()
    swaps: tuple[tuple[int, int], ...] = ()
    advances: tuple[tuple[int, int], ...] = ()
    key: MovingKey | None = None
    links: tuple[tuple[int, int], ...] = ()
    answer: Position | None = None
    zeros: tuple[tuple[int, int], ...] = ()
    ran: int | None = None
    choice: ZeroTest | None = None

    @property
    def programs(self) -> list[InnerSteps]:
        """Those of the step and of the condition."""
        return [self.step, *([] if self.condition is None else [self.condition])]

    def loaded(self, codes: Sequence[NativeCode]) -> StepLoop:
        """The loop with loaded code."""
        remaining = iter(codes)
        step, *others = [program.loaded(remaining) for program in self.programs]
        return replace(self, step=step, condition=others[0] if others else None)


@dataclass(frozen=True)
class NativeRegion:
    """A parallel region: a native function over the iterations [0, extent), which threads may share.

    The executor cuts the range at multiples of ``grain``. A range of one grain, or of fewer than ``least`` iterations,
    runs on the calling thread: sharing must pay, and small chunks balance the load better. The thread of index t gets
    the scratch memory at ``scratch + t * scratch_stride``. The iterations of a region with a ``grid`` are its points,
    and a ``loop`` is a region of one iteration, whose steps may be shared; the executor has the code for these.
    """

    code: NativeCode = field(default=NOT_LOADED, metadata=NOT_SERIALISED)
    buffers: tuple[Position, ...] = ()
    numbers: bytes = b""  # scalar arguments of 8 bytes each
    extent: int = 1
    grain: int = 1
    scratch: Position | None = None
    scratch_stride: int = 0
    name: str = ""
    least: int = 0
    grid: Grid | None = None
    loop: StepLoop | None = None

    @property
    def code_count(self) -> int:
        """The native functions that it calls."""
        if self.loop is not None:
            return sum(program.code_count for program in self.loop.programs)
        return 1 if self.grid is None else len(self.grid.parts)

    def loaded(self, codes: Sequence[NativeCode]) -> NativeRegion:
        """The region with loaded code, its own or that of the parts of its grid or loop."""
        if self.loop is not None:
            return replace(self, loop=self.loop.loaded(codes))
        if self.grid is None:
            return replace(self, code=codes[0])
        parts = tuple([replace(part, code=code) for part, code in zip(self.grid.parts, codes, strict=True)])
        return replace(self, grid=replace(self.grid, parts=parts))


@dataclass(frozen=True)
class Host:
    """A host call between native steps: ``call(workspace, inputs, results)``, both tuples of arrays."""

    call: Callable[[Any, tuple[Any, ...], tuple[Any, ...]], None]
    name: str = ""


class PlainArray(NamedTuple):
    """Shape and dtype of an array in C order: an input as it must be, or a result."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        size = int(np.dtype(self.dtype).itemsize)
        for length in self.shape:
            size *= length
        return size


@dataclass(frozen=True)
class LaunchNote:
    """A launch, as a report of a run tells of it: ``count`` steps from ``first`` on, or the launch of that index.

    ``operators`` are the names of the user's operators that it computes, ``lines`` the user's source lines. ``flops``
    counts arithmetic operations: the steps of its bodies times the iterations of their loops; None if unknown, as of
    host calls.
    """

    first: int
    count: int
    name: str
    operators: tuple[str, ...]
    lines: tuple[str, ...]
    reads: tuple[PlainArray, ...]
    writes: tuple[PlainArray, ...]
    flops: int | None = None

    @property
    def bytes(self) -> int:
        """Bytes of its arrays: each that it reads and writes once."""
        return sum(a.nbytes for a in (*self.reads, *self.writes))

    def facts(self) -> dict[str, Any]:
        """What it tells, by words."""
        return {
            "operators": list(self.operators),
            "lines": list(self.lines),
            "reads": [f"{a.dtype.name}{list(a.shape)}" for a in self.reads],
            "writes": [f"{a.dtype.name}{list(a.shape)}" for a in self.writes],
            "bytes": self.bytes,
            **({} if self.flops is None else {"flops": self.flops}),
        }


@dataclass(frozen=True)
class PreparedValue:
    """A value that follows from parameters alone: so many bytes, written by some ``steps`` of the preparation.

    Values with equal keys that follow from the same arrays have the same bytes, whichever program computes them: the
    ``key`` says what is computed, of which of the program's ``inputs``, and how the result is laid out.
    """

    key: str
    inputs: tuple[int, ...]
    size: int
    steps: tuple[int, ...]


@dataclass
class NativePlan:
    """The arrays and the steps of a program; the steps run in order.

    ``title`` and ``notes`` are for reports of a run.
    """

    inputs: Sequence[PlainArray]
    results: Sequence[PlainArray]
    steps: Sequence[NativeRegion | Host]
    constants: Sequence[np.ndarray[Any, Any]] = field(default_factory=list[Any])
    arena: int = 0  # bytes
    work: float = 0.0  # nanoseconds that a call takes, estimated
    threads: int = 1  # the most that share a region: each has its own scratch
    kept: Sequence[PreparedValue] = ()
    preparation: int = 0  # so many of the steps, the first ones, write them
    title: str = ""
    notes: Sequence[LaunchNote] = ()

    def unprepared(self) -> NativePlan:
        """The plan whose calls do all steps each time: what would be kept is in the arena."""
        arena, first = _aligned(self.arena), 1 + len(self.inputs) + len(self.results) + len(self.constants)
        ends = list(itertools.accumulate((_aligned(v.size) for v in self.kept), initial=arena))

        def moved(place: Position) -> Position:
            return place if place.slot < first else Position(ARENA, ends[place.slot - first] + place.offset)

        steps = [
            replace(s, buffers=tuple(map(moved, s.buffers))) if isinstance(s, NativeRegion) else s for s in self.steps
        ]
        return replace(self, steps=steps, arena=ends[-1], kept=(), preparation=0)


def _aligned(size: int) -> int:
    """A number of bytes rounded up, so that what follows is aligned."""
    return -(-size // ALIGNMENT) * ALIGNMENT


# --- planned programs -------------------------------------------------------------------------------------------------


Strides = tuple[int, ...]
ARENA = 0  # the slot of a call's arena: arguments, results, constants and prepared values follow it


@dataclass
class Program(ABC):
    """The code of a planned function for a target; ``source`` is its text for people, ``suffix`` that file's extension.

    ``arena`` is the size of its workspace in bytes, ``live`` the greatest live set. ``launches`` are the kernels that a
    call runs, in order, ``notes`` what there is to tell of each; ``functions`` maps kernels to functions of the source.
    """

    suffix: ClassVar[str]

    name: str
    source: str
    arena: int
    live: int = 0
    functions: dict[str, str] = field(default_factory=lambda: dict[str, str]())
    launches: list[str] = field(default_factory=lambda: list[str]())
    host_calls: list[str] = field(default_factory=lambda: list[str]())
    host_launches: list[int] = field(default_factory=lambda: list[int]())  # which of the launches those are
    loops: list[str] = field(default_factory=lambda: list[str]())  # a line on each launch that is a loop
    is_stateful: bool = False  # whether operator state stays in its workspaces
    layout: str = ""  # a line on the layouts of images, if it has some
    notes: list[LaunchNote] = field(default_factory=lambda: list[LaunchNote]())

    def is_like(self, other: Program) -> bool:
        """Whether another program computes the same in the same memory, but for names of kernels."""
        return type(other) is type(self) and other.facts() == self.facts()

    def facts(self) -> list[Any]:
        """The key of a program, equal for programs that compute the same: all but names of kernels, and comments.

        Comments have source locations, which are those of the network that was compiled first where kernels are shared.
        """
        return [self.nameless(re.sub("  # .*", "", self.source))]

    def nameless(self, text: str) -> str:
        """A text with kernels numbered in place of their names."""
        aliases = {
            name: f"kernel {i}" for i, name in enumerate(dict.fromkeys([*self.launches, *self.functions.values()]))
        }
        if not aliases:
            return text
        return re.sub(rf"\b({'|'.join(map(re.escape, aliases))})\b", lambda match: aliases[match[0]], text)

    @abstractmethod
    def launched(self) -> list[tuple[str, str]]:
        """For each launch the lines that run it, and the text of its function ("" if the program has no text of it)."""


class SlotView(NamedTuple):
    """An array view in a slot of a program; offset in bytes, strides in elements."""

    slot: int
    offset: int
    dtype: DType
    shape: Shape
    strides: Strides

    @property
    def is_plain(self) -> bool:
        """Whether it is contiguous, in C order."""
        return self.strides == row_major(self.shape) or math.prod(self.shape) <= 1

    def is_whole(self, array: PlainArray) -> bool:
        """Whether it covers all of an array, in its order."""
        return self.is_plain and self.offset == 0 and math.prod(self.shape) == math.prod(array.shape)

    def shows(self, array: Any) -> bool:
        """Whether it is that very array; then no new view is made, and later writes are visible in it."""
        same = array.shape == self.shape and array.dtype == self.dtype
        return array.dtype.kind == "O" or (same and self.offset == 0 and self.is_plain)

    def over(self, base: Any) -> Any:
        """The array, where ``base`` is the whole slot."""
        strides = tuple(s * self.dtype.itemsize for s in self.strides)
        return np.ndarray(self.shape, self.dtype, base, self.offset, strides)

    def moved(self, move: Callable[[Any], Any]) -> SlotView:
        """The view after a NumPy movement; ValueError if that would need a copy."""
        base = np.empty(1, np.uint8)
        now = as_strided(base, self.shape, self.strides)
        then = move(now)
        start = then.__array_interface__["data"][0] - now.__array_interface__["data"][0]
        return SlotView(self.slot, self.offset + start * self.dtype.itemsize, self.dtype, then.shape, then.strides)


_IS_NUMPY_20 = np.__version__.startswith("2.0.")


def reshaped_view(x: Any, shape: Sequence[int]) -> Any:
    """A view of an array in another shape of as many elements; ValueError where that would be a copy."""
    if not _IS_NUMPY_20:
        return np.reshape(x, tuple(shape), copy=False)
    view = x.view()  # there reshape has no argument copy; newer versions deprecate what is done here
    try:
        view.shape = tuple(shape)
    except AttributeError as error:
        raise ValueError(f"an array of shape {x.shape} has no view of shape {tuple(shape)}") from error
    return view


class OperatorState(NamedTuple):
    """Operator state, by its position in a workspace."""

    position: int
    shape: Shape

    def of(self, workspace: Any) -> Any:
        """The array of it in a workspace."""
        return workspace.states.setdefault(self.position, np.empty(self.shape, object))


@dataclass
class PlannedProgram(Program):
    """A program as steps (launches as the target has them, and host calls) and the views that are its results.

    ``outputs`` are the views of the results. A program that ``takes_into`` arrays is called with an output buffer, or
    None, for each result; ``into`` has the index of the fresh array of each. ``donated`` inputs are overwritten. The
    first ``preparation`` steps write the ``kept`` values, which follow from parameters alone, for the other steps.
    """

    suffix = "plan"

    inputs: list[PlainArray] = field(default_factory=lambda: list[PlainArray]())
    fresh: list[PlainArray] = field(default_factory=lambda: list[PlainArray]())
    constants: list[np.ndarray[Any, Any]] = field(default_factory=lambda: list[Any]())
    steps: list[Any] = field(default_factory=lambda: list[Any]())
    outputs: list[SlotView | OperatorState] = field(default_factory=lambda: list[SlotView | OperatorState]())
    into: list[int | None] = field(default_factory=lambda: list[int | None]())
    takes_into: bool = False
    donated: set[int] = field(default_factory=lambda: set[int]())
    kept: list[PreparedValue] = field(default_factory=lambda: list[PreparedValue]())
    preparation: int = 0

    def facts(self) -> list[Any]:
        """Adds the arrays and the views of the results."""
        arrays = [self.inputs, self.fresh, self.outputs, self.into, self.takes_into, self.donated]
        arrays += [self.kept, self.preparation]
        return [*super().facts(), *arrays, [(c.shape, c.dtype, c.tobytes()) for c in self.constants]]

    def host_calls_made(self) -> list[HostCall]:
        """The host calls, in order."""
        return [step for step in self.steps if isinstance(step, HostCall)]

    def rename_lines(self, names: Mapping[str, str]) -> None:
        """Rename the source lines in host calls: the source has moved."""
        if not names:
            return
        known = re.compile("|".join(map(re.escape, sorted(names, key=len, reverse=True))))

        def renamed(text: str) -> str:
            return known.sub(lambda match: names[match[0]], text)

        self.source = renamed(self.source)
        self.host_calls = [renamed(call) for call in self.host_calls]
        for i, step in enumerate(self.steps):
            if isinstance(step, HostCall):
                self.steps[i] = replace(step, where=names.get(step.where, step.where))
        self.notes = [replace(n, lines=tuple([names.get(line, line) for line in n.lines])) for n in self.notes]


@dataclass(frozen=True, eq=False)
class HostCall:
    """A call of an operator on the host; ``where`` is the user's source line.

    ``position`` has the graph and the index of the step, for reports of a run; the executable fills it in.
    """

    operator: Operator
    ins: tuple[SlotView | OperatorState, ...]
    outs: tuple[SlotView | OperatorState, ...]
    where: str
    name: str
    position: dict[str, Any] = field(default_factory=lambda: dict[str, Any](), metadata=NOT_SERIALISED)

    @property
    def takes_device_arrays(self) -> bool:
        """Whether the operator accepts device arrays, and all arrays of this call are contiguous."""
        places = (*self.ins, *self.outs)
        return self.operator.ON_DEVICE and all(isinstance(place, SlotView) and place.is_plain for place in places)

    def step(self, constants: Sequence[Any]) -> Host:
        """The call as a step of a native plan with these constants."""

        def call(workspace: Any, inputs: tuple[Any, ...], results: tuple[Any, ...]) -> None:
            slots = (workspace, *inputs, *results, *constants)

            def array(place: SlotView | OperatorState) -> Any:
                if isinstance(place, OperatorState):
                    return place.of(workspace)
                base = slots[place.slot]
                return base if place.shows(base) else place.over(base)

            self.on(tuple(map(array, self.ins)), tuple(map(array, self.outs)))

        return Host(call, self.name)

    def on(self, ins: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
        """Run the operator on arrays."""
        begin = now() if RECORDER.graphs else 0
        try:
            self.operator.call_out(outs, *ins)
            if begin:
                facts = {**self.position, "lines": [self.where], **arrays_read(ins, outs)}
                RECORDER.add("host", self.operator.title(), begin, facts)
        except Exception as error:
            error.__hybridc_line__ = self.where  # pyright: ignore[reportAttributeAccessIssue]  (for who tells of it)
            raise


def arrays_read(ins: Sequence[Any], outs: Sequence[Any]) -> dict[str, Any]:
    """The arrays that a call reads and writes, for a report."""
    return {
        "reads": [f"{a.dtype}{list(a.shape)}" for a in ins],
        "writes": [f"{a.dtype}{list(a.shape)}" for a in outs],
        "bytes": sum(a.nbytes for a in (*ins, *outs)),
    }


def operator_written(op: Operator) -> list[Any]:
    """An operator as its name and attributes, to be stored."""
    return [op.NAME, {name: written(value) for name, value in op.attrs.items()}]


def _operator_read(record: Any) -> Operator:
    name, attributes = record
    return operator_registry.operator(name).bind(**{key: read(value) for key, value in attributes.items()})


def _body_written(body: Body) -> list[Any]:
    """A graph inside an operator, without lines of source."""
    steps: list[Any] = []
    for step in body.steps:
        if not type(step.op).__module__.startswith("hybridc."):
            raise NotWritable(f"{step.op.NAME}, a user's operator, in a graph inside another")
        steps.append([operator_written(step.op), list(step.inputs), step.first])
    return [body.arguments, steps, list(body.results)]


def _body_read(record: Any) -> Body:
    arguments, steps, results = record
    return Body(arguments, [BodyStep(_operator_read(op), inputs, first) for op, inputs, first in steps], results)


register_form(Operator, operator_written, _operator_read)
register_value(Body, "body", _body_written, _body_read)
