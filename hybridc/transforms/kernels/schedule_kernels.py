"""The schedule of a loop nest as a tile program: every statement that its plan decides about is written out."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace
from typing import Any, cast

from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Operation, SSAValue

from hybridc.ir.kernel import Number, Read, Stage, number_as, number_of
from hybridc.ir.nest_plan import NestPlan, Sweep, loop_axes
from hybridc.ir.scalar_builder import signless
from hybridc.ir.strides import row_major
from hybridc.ir.structured import AffineIndex, dtype_of, shape_of
from hybridc.ir.tile_program import (
    Address,
    Axes,
    Factor,
    Statement,
    TileBuffer,
    TileConstant,
    TileGather,
    TileIndex,
    TileLoad,
    TileMap,
    TileProgram,
    TileReduce,
    TileScratch,
    TileStore,
    TileSweep,
)

# Terms of a sum that are added in their order, and rounded before.
SHORT = 8


@dataclass(frozen=True)
class NestMemory:
    """The memory that a nest is given.

    ``values`` are the values of each buffer, in order (several if one is written over another), ``parts`` the values
    whose partial results are in the buffers that follow, ``strided`` those whose strides are given.
    """

    values: tuple[tuple[SSAValue, ...], ...]
    parts: tuple[SSAValue, ...] = ()
    strided: tuple[SSAValue, ...] = ()


def schedule(plan: NestPlan, memory: NestMemory) -> TileProgram:
    """The tile program of a planned nest."""
    return _TileScheduler(plan, memory).run()


@dataclass(eq=False)
class _TileScheduler:
    plan: NestPlan
    memory: NestMemory
    places: dict[SSAValue, Address] = field(default_factory=dict[SSAValue, Address])  # of what the nest makes
    buffers: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    strides: dict[SSAValue, tuple[Factor, ...]] = field(default_factory=dict[SSAValue, tuple[Factor, ...]])
    known: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])  # values at the indices of now
    loaded: dict[Any, str] = field(default_factory=dict[Any, str])
    statements: list[Statement] = field(default_factory=list[Statement])
    before: list[Statement] = field(default_factory=list[Statement])  # what does not vary along the sweep's axes
    varying: set[str] = field(default_factory=set[str])  # names whose values differ along the axes of their sweep
    count: int = 0

    def run(self) -> TileProgram:
        """The program."""
        plan = self.plan
        given = [TileBuffer(f"b{i}", _kind(group[0])) for i, group in enumerate(self.memory.values)]
        given += [TileBuffer(f"p{i}", _kind(v), pieces=True) for i, v in enumerate(self.memory.parts)]
        self.program = TileProgram(
            tuple(given),
            tuple([None if a in plan.dynamic else n for a, n in enumerate(plan.sizes)]),
            plan.points,
            (),
            tuple(TileScratch(f"t{i}", _kind(v), self._kept_axes(v)) for i, v in enumerate(plan.kept)),
            sum(len(shape_of(v)) for v in self.memory.strided),
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
            sweeps += [TileSweep(sweep.axes, tuple(self.statements))] if self.statements else []
        return replace(self.program, sweeps=tuple(sweeps))

    # --- memory --------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Say where values are."""
        first = 0
        given: dict[SSAValue, tuple[Factor, ...]] = {}
        for value in self.memory.strided:
            rank = len(shape_of(value))
            given[value] = tuple(Factor(stride=first + i) for i in range(rank))
            first += rank
        for i, group in enumerate(self.memory.values):
            for value in group:
                self.buffers[value] = f"b{i}"
                known = tuple(Factor(n) for n in row_major(shape_of(value)))
                self.strides[value] = given.get(value, known)
                if value in self.plan.stage_of:
                    self.places[value] = self._address(value, self.plan.stage_of[value].axes)
        for i, value in enumerate(self.memory.parts):
            axes = self.plan.axes(self.plan.stage_of[value].axes)
            self.places[value] = self.program.row_major(f"p{i}", axes)
        for i, value in enumerate(self.plan.kept):
            self.places[value] = self.program.row_major(f"t{i}", self._kept_axes(value))

    def _kept_axes(self, value: SSAValue) -> Axes:
        return tuple(a for a in self.plan.axes(self.plan.stage_of[value].axes) if a in self.plan.inner)

    def _address(self, value: SSAValue, axes: Axes) -> Address:
        """The element of an argument or result whose dimensions follow these axes of the nest."""
        merged = self.plan.axes(axes)
        if value not in self.memory.strided:
            return self.program.row_major(self.buffers[value], merged)
        return Address(self.buffers[value], tuple(zip(merged, self.strides[value], strict=True)))

    def _affine_address(self, value: SSAValue, index: tuple[AffineIndex, ...]) -> Address:
        """The element at sums of axes."""
        terms: list[tuple[int, Factor]] = []
        offset: list[Factor] = []
        for (factors, first), stride in zip(index, self.strides[value], strict=True):
            terms += [(self.plan.merged[a], replace(stride, number=f * stride.number)) for a, f in factors]
            offset += [replace(stride, number=first * stride.number)] if first else []
        return Address(self.buffers[value], tuple(terms), tuple(offset))

    # --- sweeps --------------------------------------------------------------------------------------------

    def _sweep(self, sweep: Sweep) -> None:
        self.before, self.statements = [], []
        known = dict(self.known)
        for stage in sweep.stages:
            self._stage(sweep, stage)
        if self.plan.tiled is None:  # all sweeps over a tile are about the same element
            made = {v: name for v, name in self.known.items() if name not in self.varying}
            self.known = {**known, **made}
            self.loaded = {key: name for key, name in self.loaded.items() if name not in self.varying}

    def _add(self, cls: Any, *fields: Any, varies: bool) -> str:
        name = str(self.count)
        self.count += 1
        self._write(cls(name, *fields), varies)
        if varies:
            self.varying.add(name)
        return name

    def _write(self, statement: Statement, varies: bool) -> None:
        """Put a statement into the loops of its sweep, or before them."""
        (self.statements if varies else self.before).append(statement)

    def _stage(self, sweep: Sweep, stage: Stage) -> None:
        if stage.combine is not None:
            self._reduction(sweep, stage)
            return
        name = self.known[stage.result] = self._body(sweep, stage)
        if stage.result in self.places:
            self._write(TileStore(name, self.places[stage.result]), bool(sweep.axes))

    def _reduction(self, sweep: Sweep, stage: Stage) -> None:
        plan, combine = self.plan, stage.combine
        assert combine is not None
        reduced = plan.axes(stage.reduced)
        over = tuple(a for a in sweep.axes if a in reduced)
        carried = next((i for i, a in enumerate(reversed(sweep.axes)) if a not in reduced), len(sweep.axes))
        into = self.places.get(stage.result)
        partial = stage.result in self.memory.parts
        accumulates = partial or carried < len(over)
        if not carried and into is None:
            return
        out = stage.op.regions[0].block.args[-1]
        (operand,) = (v for v in combine.operands if v is not out)
        element = self._body(sweep, stage, operand)
        short = not plan.dynamic & {*reduced} and plan.extent(reduced) <= SHORT
        rest = (over, _kind(stage.result), carried, into, accumulates, short)
        name = self._add(TileReduce, combine.name, element, _start(stage), *rest, varies=bool(sweep.axes))
        if not accumulates and {*sweep.axes} <= {*over}:
            self.varying.discard(name)
            self.known[stage.result] = name

    # --- elements ------------------------------------------------------------------------------------------

    def _read(self, sweep: Sweep, read: Read) -> str:
        value, plan = read.value, self.plan
        number = number_of(value)
        if number is not None:
            dtype = dtype_of(value)
            return self._constant(number_as(number, dtype), _kind_of(signless(dtype)))
        if value in self.known:
            return self.known[value]
        if value in plan.again:
            return self._body(sweep, plan.stage_of[value])
        made = value in plan.stage_of
        if read.index:
            address = self._affine_address(value, read.index)
        else:
            address = self.places[value] if made else self._address(value, read.axes)
        key = (value, address)  # a value that is written over another has its address
        if key not in self.loaded:
            varies = bool({*address.axes} & {*sweep.axes})
            self.loaded[key] = self._add(TileLoad, address, _kind(value), varies=varies)
        if made:
            self.known[value] = self.loaded[key]
        return self.loaded[key]

    def _constant(self, number: Number, kind: str) -> str:
        key = ("constant", repr(number), kind)
        if key not in self.loaded:
            self.loaded[key] = self._add(TileConstant, number, kind, varies=False)
        return self.loaded[key]

    def _body(self, sweep: Sweep, stage: Stage, wanted: SSAValue | None = None) -> str:
        """What a stage makes of the elements here, or an operand of what it reduces by."""
        block = stage.op.regions[0].block
        values: dict[SSAValue, str] = {}
        for arg, read in zip(block.args, stage.reads, strict=False):
            if arg.first_use is not None:
                values[arg] = self._read(sweep, read)
        out, end = block.args[-1], block.last_op
        assert end is not None
        if stage.combine is None and out.first_use is not None:  # a reduction of nothing begins and ends with it
            values[out] = self._constant(_start(stage), _kind(stage.result))
        for op in block.ops:
            if op is not end and op is not stage.combine:
                values[op.results[0]] = self._operation(sweep, stage, op, values)
        return values[end.operands[0] if wanted is None else wanted]

    def _operation(self, sweep: Sweep, stage: Stage, op: Operation, values: dict[SSAValue, str]) -> str:
        kind = _kind_of(op.results[0].type)
        match op:
            case arith.ConstantOp():
                return self._constant(_literal(op.value), kind)
            case linalg.IndexOp():
                axis = self.plan.merged[loop_axes(stage)[op.dim.value.data]]
                key = ("position", axis)
                if key not in self.loaded:
                    self.loaded[key] = self._add(TileIndex, axis, varies=axis in sweep.axes)
                return self.loaded[key]
            case tensor.ExtractOp():
                terms = tuple(zip((values[i] for i in op.indices), self.strides[op.tensor], strict=True))
                varies = any(name in self.varying for name, _ in terms)
                return self._once((TileGather, self.buffers[op.tensor], terms, kind), varies)
            case _:
                operands = tuple(values[v] for v in op.operands)
                return self._once((TileMap, _name(op), operands, kind), any(v in self.varying for v in operands))

    def _once(self, statement: tuple[Any, ...], varies: bool) -> str:
        """The name of a statement without effects, which is written once in a sweep."""
        if statement not in self.loaded:
            self.loaded[statement] = self._add(*statement, varies=varies)
        return self.loaded[statement]


def _start(stage: Stage) -> Number:
    number = number_of(stage.op.operands[-1])
    assert number is not None, "a reduction begins with a number"
    return number_as(number, dtype_of(stage.result))


def _literal(value: Any) -> Number:
    if isinstance(value, DenseIntOrFPElementsAttr):
        return cast(Number, value.get_values()[0])
    return bool(value.value.data) if str(value.type) == "i1" else value.value.data


def _kind(value: SSAValue) -> str:
    return _kind_of(signless(dtype_of(value)))


@functools.lru_cache(64)
def _kind_of(element: Attribute) -> str:
    """An element type in a word."""
    return str(element)


def _name(op: Operation) -> str:
    """The name of a scalar operation, with its predicate."""
    match op:
        case arith.CmpfOp():
            return f"{op.name} {arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]}"
        case arith.CmpiOp():
            return f"{op.name} {arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]}"
        case _:
            return op.name
