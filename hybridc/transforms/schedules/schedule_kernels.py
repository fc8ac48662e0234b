"""The schedule of a loop nest as a tile program: every statement that its plan decides about is written out.

:class:`BodyStatements` lowers the scalar bodies of linalg ops to statements, for all schedules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import field, replace
from typing import Any

from hybridc.dialects.math.reduction import LONG_COLUMN
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel import CONSTANT, EXTRACT, INDEX, BodyOp, BodyValue, KernelOp, KernelValue, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan, Sweep
from hybridc.ir.scalars import Number, constant_as
from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Dims,
    Factor,
    Statement,
    TileBuffer,
    TileConstant,
    TileGather,
    TileIndex,
    TileLoad,
    TileMap,
    TileNumber,
    TileProgram,
    TileReduce,
    TileScratch,
    TileStore,
    TileSweep,
)
from hybridc.ir.tiles.tile_spec import verify
from hybridc.options import OPTIONS

# --- scalar bodies as statements --------------------------------------------------------------------------------------


@dataclass(eq=False)
class BodyStatements(ABC):
    """Emits the statements of a loop nest's ops at the current indices; subclasses give buffers, strides, addresses.

    Values known or loaded at these indices are reused. A statement that is invariant in the loops' ``axes`` is hoisted
    ``before`` them.
    """

    plan: LoopNestPlan
    known: dict[KernelValue, str] = field(default_factory=dict[KernelValue, str])  # values at these indices
    loaded: dict[Any, str] = field(default_factory=dict[Any, str])
    statements: list[Statement] = field(default_factory=list[Statement])
    before: list[Statement] = field(default_factory=list[Statement])
    varying: set[str] = field(default_factory=set[str])  # names that vary along the axes of their loops
    axes: Axes = ()
    on: Dims = ()  # the dimensions that tiles lie on, if not on all
    rough: bool = False  # exponentials need be no more exact than half precision
    count: int = 0
    prefix: str = ""  # of the names of values

    @abstractmethod
    def buffer(self, value: KernelValue) -> str:
        """The name of the buffer of a value."""

    @abstractmethod
    def strides(self, value: KernelValue) -> tuple[Factor, ...]:
        """The strides of a value's dimensions."""

    @abstractmethod
    def address(self, read: Read) -> Address:
        """The address of an element that is read."""

    # --- statements ----------------------------------------------------------------------------------------

    def add(self, cls: Any, *fields: Any, varies: bool = True) -> str:
        """Emit a statement that defines a value; its name."""
        name = f"{self.prefix}{self.count}"
        self.count += 1
        self.write(cls(name, *fields), varies)
        if varies:
            self.varying.add(name)
        return name

    def write(self, statement: Statement, varies: bool = True) -> None:
        """Append a statement to the loops, or hoist it before them."""
        (self.statements if varies else self.before).append(statement)

    def once(self, cls: Any, *fields: Any, varies: bool = True) -> str:
        """The name of a pure statement, which is emitted once."""
        key = (cls, *fields)
        if key not in self.loaded:
            self.loaded[key] = self.add(cls, *fields, varies=varies)
        return self.loaded[key]

    def constant(self, value: Number, kind: str) -> str:
        """The name of a constant."""
        key = ("constant", repr(value), kind)
        if key not in self.loaded:
            self.loaded[key] = self.add(TileConstant, value, kind, varies=False)
        return self.loaded[key]

    def body_constant(self, step: BodyOp) -> str:
        """The name of a constant of a body."""
        return self.constant(step.constant, step.kind)

    # --- elements ------------------------------------------------------------------------------------------

    def read(self, read: Read) -> str:
        """The name of a loaded element."""
        value, plan = read.value, self.plan
        if value.constant is not None:
            return self.constant(constant_as(value.constant, value.dtype), value.kind)
        if value in self.known:
            return self.known[value]
        if value in plan.rematerialized:
            return self.body(plan.op_of[value])
        address = self.affine_address(read) if read.index else self.address(read)
        key = (value, address, self.on)  # a value written in place has the address of another
        if key not in self.loaded:
            varies = bool({*address.axes} & {*self.axes})
            self.loaded[key] = self.add(TileLoad, address, value.kind, self.on, varies=varies)
        if value in plan.op_of:
            self.known[value] = self.loaded[key]
        return self.loaded[key]

    def affine_address(self, read: Read) -> Address:
        """The address of an affine read."""
        terms: list[tuple[int, Factor]] = []
        offset: list[Factor] = []
        for (factors, first), stride in zip(read.index, self.strides(read.value), strict=True):
            terms += [(self.plan.merged[a], replace(stride, constant=f * stride.constant)) for a, f in factors]
            offset += [replace(stride, constant=first * stride.constant)] if first else []
        return Address(self.buffer(read.value), tuple(terms), tuple(offset))

    def element(self, kernel_op: KernelOp) -> str:
        """The element that a reduction combines with its accumulator."""
        assert kernel_op.combine is not None
        sofar = kernel_op.body.arguments[-1]
        (operand,) = (v for v in kernel_op.combine.operands if v is not sofar)
        return self.body(kernel_op, operand)

    def body(self, kernel_op: KernelOp, wanted: BodyValue | None = None) -> str:
        """Emit the body of an op; the name of the value that it yields, or of ``wanted``, a value inside it."""
        body, values = kernel_op.body, dict[BodyValue, str]()
        *arguments, sofar = body.arguments
        for argument, read in zip(arguments, kernel_op.reads, strict=True):
            if not argument.unused:
                values[argument] = self.read(read)
        if kernel_op.combine is None and not sofar.unused:  # the initial value is the result of an empty reduction
            values[sofar] = self.constant(kernel_op.initial(), kernel_op.result.kind)
        for step in body.steps:
            if step is not kernel_op.combine:
                values[step] = self._step(kernel_op, step, values)
        return self._value(body.result if wanted is None else wanted, values)

    def _value(self, value: BodyValue, values: dict[BodyValue, str]) -> str:
        """The name of a value of a body; a constant may be outside of it."""
        if value not in values:
            assert isinstance(value, BodyOp), f"{value} is no constant"
            values[value] = self.body_constant(value)
        return values[value]

    def _step(self, kernel_op: KernelOp, step: BodyOp, values: dict[BodyValue, str]) -> str:
        operands = [self._value(v, values) for v in step.operands]
        varies = any(name in self.varying for name in operands)
        if step.op == CONSTANT:
            return self.body_constant(step)
        if step.op == INDEX:
            axis = self.plan.merged[kernel_op.loops[step.loop]]
            return self.once(TileIndex, axis, step.kind, self.on, varies=axis in self.axes)
        if step.op == EXTRACT:
            table = kernel_op.tables[step.table]
            terms = tuple(zip(operands, self.strides(table), strict=True))
            return self.once(TileGather, self.buffer(table), terms, step.kind, varies=varies)
        rough = self.rough and step.op == "math.exp"
        return self.once(TileMap, step.op, tuple(operands), step.kind, rough, varies=varies)


# --- the schedule -----------------------------------------------------------------------------------------------------


# Terms of a sum that are added in their order, and rounded before.
SHORT = 8
# Elements of a sum over one axis that are accumulated before their sum is added to those of other blocks; and blocks
# whose sums are accumulated before (pairwise summation).
BLOCK, BLOCKS = LONG_COLUMN, 64


@dataclass(frozen=True)
class LoopNestMemory:
    """The buffers of a loop nest.

    ``values`` are the values of each buffer, in order (several if one is written over another), ``parts`` the values
    whose partial results are in the buffers that follow, ``strided`` those whose strides are given. Those of ``rows``
    are contiguous along their last dimension: a stride that is known to be 1 lets LLVM load vectors without a check,
    which costs it a second copy of the loop.
    """

    values: tuple[tuple[KernelValue, ...], ...]
    parts: tuple[KernelValue, ...] = ()
    strided: tuple[KernelValue, ...] = ()
    rows: frozenset[KernelValue] = frozenset()

    def stride_count(self, value: KernelValue) -> int:
        """How many strides of a value are arguments."""
        return len(value.shape) - (value in self.rows)


def schedule(plan: LoopNestPlan, memory: LoopNestMemory) -> TileProgram:
    """The tile program of a planned loop nest."""
    program = _TileScheduler(plan, memory=memory).run()
    if OPTIONS.verify:
        verify(program)
    return program


@dataclass(eq=False)
class _TileScheduler(BodyStatements):
    memory: LoopNestMemory = field(default_factory=lambda: LoopNestMemory(()))
    places: dict[KernelValue, Address] = field(default_factory=dict[KernelValue, Address])  # of what the nest makes
    buffers: dict[KernelValue, str] = field(default_factory=dict[KernelValue, str])
    steps: dict[KernelValue, tuple[Factor, ...]] = field(default_factory=dict[KernelValue, tuple[Factor, ...]])
    sizes: dict[object, Factor] = field(default_factory=dict[object, Factor])  # that bodies contain: among the strides

    def run(self) -> TileProgram:
        """The program."""
        plan = self.plan
        first = sum(map(self.memory.stride_count, self.memory.strided))
        self.sizes = {size: Factor(stride=i) for i, size in enumerate(plan.body_sizes(), first)}
        buffers = [TileBuffer(f"b{i}", group[0].kind) for i, group in enumerate(self.memory.values)]
        buffers += [TileBuffer(f"p{i}", v.kind, pieces=True) for i, v in enumerate(self.memory.parts)]
        self.program = TileProgram(
            tuple(buffers),
            tuple([None if a in plan.dynamic else n for a, n in enumerate(plan.sizes)]),
            plan.parallel,
            (),
            tuple(TileScratch(f"t{i}", v.kind, self._kept_axes(v)) for i, v in enumerate(plan.scratch)),
            first + len(self.sizes),
            plan.shared,
            plan.tiled,
            plan.inner,
        )
        self._place()
        sweeps: list[TileSweep] = []
        for sweep in plan.sweeps:
            self._sweep(sweep)
            if sweeps and self.before and not sweeps[-1].axes:
                self.before = [*sweeps.pop().statements, *self.before]
            sweeps += [TileSweep((), tuple(self.before))] if self.before else []
            sweeps += [TileSweep(sweep.axes, tuple(self.statements), self._blocks())] if self.statements else []
        return replace(self.program, sweeps=tuple(sweeps))

    # --- memory --------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Say where values are."""
        first = 0
        strides: dict[KernelValue, tuple[Factor, ...]] = {}
        for value in self.memory.strided:
            count = self.memory.stride_count(value)
            steps = [Factor(stride=first + i) for i in range(count)]
            strides[value] = (*steps, *[Factor(1)] * (value in self.memory.rows))
            first += count
        for i, group in enumerate(self.memory.values):
            for value in group:
                self.buffers[value] = f"b{i}"
                known = tuple(Factor(n) for n in row_major(value.shape))
                self.steps[value] = strides.get(value, known)
                if value in self.plan.op_of:
                    self.places[value] = self._element_at(value, self.plan.op_of[value].axes)
        for i, value in enumerate(self.memory.parts):
            axes = self.plan.axes(self.plan.op_of[value].axes)
            self.places[value] = self.program.row_major(f"p{i}", axes)
        for i, value in enumerate(self.plan.scratch):
            self.places[value] = self.program.row_major(f"t{i}", self._kept_axes(value))

    def _kept_axes(self, value: KernelValue) -> Axes:
        return tuple(a for a in self.plan.axes(self.plan.op_of[value].axes) if a in self.plan.inner)

    def buffer(self, value: KernelValue) -> str:
        return self.buffers[value]

    def body_constant(self, step: BodyOp) -> str:
        if step.size is None:
            return super().body_constant(step)
        size = self.once(TileNumber, self.sizes[step.size], "index", varies=False)
        cast = "arith.index_cast"
        return size if step.kind == "index" else self.once(TileMap, cast, (size,), step.kind, False, varies=False)

    def strides(self, value: KernelValue) -> tuple[Factor, ...]:
        return self.steps[value]

    def address(self, read: Read) -> Address:
        if read.value in self.plan.op_of:
            return self.places[read.value]
        return self._element_at(read.value, read.axes)

    def _element_at(self, value: KernelValue, axes: Axes) -> Address:
        """The element of an argument or result whose dimensions follow these axes of the loop nest."""
        merged = self.plan.axes(axes)
        if value not in self.memory.strided:
            return self.program.row_major(self.buffers[value], merged)
        return Address(self.buffers[value], tuple(zip(merged, self.steps[value], strict=True)))

    # --- sweeps --------------------------------------------------------------------------------------------

    def _blocks(self) -> tuple[int, ...]:
        """The blocks in which the innermost loop adds up, if it adds up many terms."""
        if self.plan.shared or not any(isinstance(s, TileReduce) and s.carried for s in self.statements):
            return ()
        size = self.program.sizes[self.axes[-1]]
        if size is None or size > BLOCK * BLOCKS:
            return (BLOCK * BLOCKS, BLOCK)
        return (BLOCK,) if size > BLOCK else ()

    def _sweep(self, sweep: Sweep) -> None:
        self.before, self.statements, self.axes = [], [], sweep.axes
        known = dict(self.known)
        for kernel_op in sweep.ops:
            self._kernel_op(kernel_op)
        if self.plan.tiled is None:  # all sweeps over a tile are about the same element
            invariant = {v: name for v, name in self.known.items() if name not in self.varying}
            self.known = {**known, **invariant}
            self.loaded = {key: name for key, name in self.loaded.items() if name not in self.varying}

    def _kernel_op(self, kernel_op: KernelOp) -> None:
        if kernel_op.combine is not None:
            self._reduction(kernel_op, kernel_op.combine.op)
            return
        name = self.known[kernel_op.result] = self.body(kernel_op)
        if kernel_op.result in self.places:
            self.write(TileStore(name, self.places[kernel_op.result]), bool(self.axes))

    def _reduction(self, kernel_op: KernelOp, combine: str) -> None:
        plan, axes = self.plan, self.axes
        reduced = plan.axes(kernel_op.reduced)
        over = tuple(a for a in axes if a in reduced)
        carried = next((i for i, a in enumerate(reversed(axes)) if a not in reduced), len(axes))
        into = self.places.get(kernel_op.result)
        partial = kernel_op.result in self.memory.parts
        accumulates = partial or carried < len(over)
        if not carried and into is None:
            return
        element = self.element(kernel_op)
        short = not plan.dynamic & {*reduced} and plan.extent(reduced) <= SHORT
        rest = (over, kernel_op.result.kind, carried, into, accumulates, short)
        name = self.add(TileReduce, combine, element, kernel_op.initial(), *rest, varies=bool(axes))
        if not accumulates and {*axes} <= {*over}:
            self.varying.discard(name)
            self.known[kernel_op.result] = name
