"""Tile programs as steps of NumPy: ufuncs, reductions and copies, and the arrays that they read and write.

Where one function of NumPy does what several statements say, it is the step: of half precision, computed in single and
rounded; of the sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from hybridc.dialects.math.reduction import LONG_COLUMN
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import Axes
from hybridc.ir.scalars import CASTS, Number, constant_as, signed_as, signedness
from hybridc.ir.structured_builder import kind_dtype
from hybridc.ir.tiles.tile_program import (
    Address,
    Effect,
    Statement,
    TileConstant,
    TileContract,
    TileGather,
    TileIndex,
    TileLoad,
    TileMap,
    TileProgram,
    TileReduce,
    TileStore,
    axes_of_values,
    needed,
    operands_of,
)
from hybridc.transforms.schedules.arrays.schedule_arrays import ArrayMemory, ArrayNest
from hybridc.transforms.schedules.arrays.ufuncs import SIGN, fold, neutral_of_ufunc, ufunc

# Elements that are summed at once with few partial sums.
SHORT_ROW = LONG_COLUMN
BOOL, HALF, INT64 = np.dtype(bool), np.dtype(np.float16), np.dtype(np.int64)


@dataclass(eq=False)
class StepValue:
    """An array that steps read or write.

    It is one that the kernel has a ``name`` for (an argument, a result, a view of one, memory of its own), or one for
    each tile, in a ``slot``.
    """

    dtype: DType
    shape: Shape = ()
    name: str = ""
    slot: int | None = None
    last_use: int = -1

    @property
    def outside(self) -> bool:
        """Whether it is there before and after a tile is computed."""
        return bool(self.name)

    @property
    def kind(self) -> str:
        """``x`` for an argument, ``y`` for a result, ``w`` for the kernel's own memory, ``v`` for a view."""
        return self.name[:1]


@dataclass(frozen=True)
class StepOperand:
    """A value as a step sees it: the axis of the iteration space that each dimension follows, and the dtype read as."""

    value: StepValue
    axes: Axes
    dtype: DType


Given = StepOperand | Number


@dataclass(eq=False)
class UfuncStep:
    """One line of NumPy: ``function`` is a ufunc, "reduce:" and one, "select", "copy", "gather" or "matmul".

    Of a reduction ``into`` partial results, or into what all tiles add to, each tile gives a part; ``accumulates`` says
    whether several tiles give to the same. What is gathered are elements of ``table``.
    """

    function: str
    operands: list[Given]
    result: StepOperand
    reduced: Axes = ()
    into: str = ""
    accumulates: bool = False
    index: int = 0
    table: StepValue | None = None

    @property
    def reduces(self) -> bool:
        """Whether it is a reduction."""
        return self.function.startswith("reduce:")

    @property
    def combine(self) -> str:
        """The ufunc by which a reduction combines two elements."""
        return self.function.partition(":")[2]

    @property
    def neutral(self) -> Number:
        """The element from which a reduction begins."""
        return neutral_of_ufunc(self.combine, self.result.dtype)

    def reads(self) -> Iterable[StepOperand]:
        """The arrays that it reads."""
        return (o for o in self.operands if isinstance(o, StepOperand))

    def may_overwrite(self, operand: StepOperand) -> bool:
        """Whether the result may be where this operand is: ufuncs read each element before they write it."""
        if self.function == "select":
            return all(o.value is not operand.value for o in self.operands[:2] if isinstance(o, StepOperand))
        return self.function.startswith(("np.", "special."))


@dataclass(eq=False)
class NestSteps:
    """The steps of one loop nest: ``before`` on whole arrays, ``steps`` on tiles, whose memory are ``slots``."""

    nest: ArrayNest
    before: list[UfuncStep] = field(default_factory=list[UfuncStep])
    steps: list[UfuncStep] = field(default_factory=list[UfuncStep])
    slots: list[tuple[DType, Axes]] = field(default_factory=list[tuple[DType, Axes]])

    @property
    def sizes(self) -> Shape:
        """Those of the axes that the steps on tiles walk."""
        return self.nest.domain if self.nest.rest is None else self.nest.rest.known_sizes


class KernelSteps:
    """The steps of a kernel, by loop nest, before these are numbered and values inside a tile get slots.

    ``views`` are the sources of the arrays that are made without a copy, by their names; ``viewed`` are the arguments
    that are read at other indices than those of what is made of them. ``lines`` are the user's, for errors.
    """

    def __init__(self, nests: Sequence[ArrayNest], memory: ArrayMemory, lines: str = "") -> None:
        self.memory = memory
        self.lines = lines
        self.arrays = {name: StepValue(memory.dtypes[name], shape, name) for name, shape in memory.shapes.items()}
        self.views: dict[str, str] = {}
        self.viewed: set[str] = set()
        self.nests = [self._nest(nest) for nest in nests]

    def _nest(self, nest: ArrayNest) -> NestSteps:
        steps = NestSteps(nest)
        if nest.contraction is not None:
            _StepWriter(self, steps.before, nest.contraction).run()
        if nest.rest is not None:
            _StepWriter(self, steps.steps, nest.rest).run()
        return steps


class _StepWriter:
    """Writes the steps of one program."""

    def __init__(self, kernel: KernelSteps, steps: list[UfuncStep], program: TileProgram) -> None:
        self.kernel, self.steps, self.sizes = kernel, steps, program.known_sizes
        (sweep,) = program.sweeps
        self.statements = _simplified(sweep.statements)
        self.kinds = {s.name: s.kind for s in self.statements if not isinstance(s, Effect)}
        self.targets = _targets(self.statements)
        self.known: dict[str, Given] = {}
        self.seen: dict[tuple[str, Axes], StepValue] = {}

    def run(self) -> None:
        """Write all statements."""
        for statement in self.statements:
            self._statement(statement)

    def _statement(self, s: Statement) -> None:
        match s:
            case TileConstant():
                self.known[s.name] = constant_as(s.constant, kind_dtype(s.kind))
            case TileIndex():
                self.known[s.name] = self._view(f"np.arange({self.sizes[s.axis]})", INT64, (s.axis,))
            case TileLoad():
                self.known[s.name] = self._operand(s.address)
            case TileGather():
                self.known[s.name] = self._gather(s)
            case TileMap():
                self.known[s.name] = self._map(s, self._target(s.name))
            case TileReduce():
                self._reduce(s)
            case TileContract():
                target = self._target(s.name)
                assert target is not None, "a contraction is stored"
                operands = [self.known[s.left], self.known[s.right]]
                self.steps.append(UfuncStep("matmul", operands, target, s.over))
                self.known[s.name] = target
            case TileStore():
                self._store(s)
            case _:
                raise TypeError(f"statements about arrays carry nothing: {s}")

    # --- arrays --------------------------------------------------------------------------------------------

    def _operand(self, address: Address) -> StepOperand:
        """The operand at an address: an array whose dimensions follow axes, or a view of one."""
        array = self.kernel.arrays[address.buffer]
        terms, offset = self._dimensions(address)
        plain = not offset and (not terms or [d for d, *_ in terms] == list(range(len(array.shape))))
        whole = plain and all(f == 1 and self.sizes[a] == array.shape[d] for d, a, f in terms)
        whole = whole and (bool(address.terms) or math.prod(array.shape) == 1)  # or the first of several elements
        axes = tuple(dict.fromkeys(address.axes))
        if whole and len(axes) == len(address.axes):
            return StepOperand(array, axes, array.dtype)
        self.kernel.viewed.add(array.name)
        return self._view(self._source(array, terms, offset, axes), array.dtype, axes)

    def _dimensions(self, address: Address) -> tuple[list[tuple[int, int, int]], dict[int, int]]:
        """The dimension, axis and factor of each term that is times a stride, and the first index along dimensions."""
        first = self.kernel.memory.first_stride[address.buffer]
        terms = [(f.stride - first, a, f.constant) for a, f in address.terms if f.stride is not None]
        return terms, {f.stride - first: f.constant for f in address.offset if f.stride is not None}

    def _source(self, array: StepValue, terms: list[tuple[int, int, int]], offset: dict[int, int], axes: Axes) -> str:
        """The source of a view that has an array's elements at sums of axes, over these axes."""
        rank, sizes = len(array.shape), tuple(self.sizes[a] for a in axes)
        along = [[(a, f) for dimension, a, f in terms if dimension == d] for d in range(rank)]
        if len(terms) == len(axes) and all(len(own) <= 1 for own in along):
            parts = [_part(own, offset.get(d, 0), self.sizes) for d, own in enumerate(along)]
            return f"{array.name}[{', '.join(parts)}]"
        begin = ", ".join(f"{offset.get(d, 0)}:" for d in range(rank)) if 0 not in sizes else ""
        strides: list[str] = []
        for axis in axes:
            factors = [(sum(f for a, f in own if a == axis), d) for d, own in enumerate(along)]
            strides.append(" + ".join(f"{f} * {array.name}.strides[{d}]" for f, d in factors if f))
        start = f"[{begin}]" if begin else ""
        return f"np.lib.stride_tricks.as_strided({array.name}{start}, {sizes}, ({', '.join(strides)},))"

    def _view(self, source: str, dtype: DType, axes: Axes) -> StepOperand:
        """An array over axes that is made by one line without a copy."""
        key = (source, axes)
        if key not in self.seen:
            name = f"v{len(self.kernel.views)}"
            self.seen[key] = StepValue(dtype, tuple(self.sizes[a] for a in axes), name)
            self.kernel.views[name] = source
        return StepOperand(self.seen[key], axes, dtype)

    def _target(self, name: str) -> StepOperand | None:
        """Where a value will be stored."""
        address = self.targets.get(name)
        return None if address is None else self._operand(address)

    # --- statements ----------------------------------------------------------------------------------------

    def _store(self, s: TileStore) -> None:
        target, source = self._operand(s.address), self.known[s.value]
        if source != target:  # a contraction may lie already where its copy will be
            self.steps.append(UfuncStep("copy", [self._as(source, target.dtype, s.value)], target))

    def _gather(self, s: TileGather) -> StepOperand:
        """Elements of an argument at computed indices."""
        table = self.kernel.arrays[s.buffer]
        self.kernel.viewed.add(table.name)
        indices, target = [self.known[v] for v, _ in s.terms], self._target(s.name)
        if target is None:
            target = StepOperand(StepValue(table.dtype), _axes(indices), table.dtype)
        self.steps.append(UfuncStep("gather", indices, target, table=table))
        return target

    def _reduce(self, s: TileReduce) -> None:
        function = ufunc(s.op, self.kernel.lines)
        into, operand = s.into, self.known[s.operand]
        target = self._target(s.name)
        if into is not None:
            final = self.kernel.memory.pieces.get(into.buffer, into.buffer)
            target = self._operand(replace(into, buffer=final))
        if target is None:
            target = StepOperand(StepValue(kind_dtype(s.kind)), (), kind_dtype(s.kind))
        dtype = signed_as(target.dtype, signedness(s.op))
        axes = _axes([operand])
        if not {*s.over, *target.axes} <= {*axes}:
            spread = StepOperand(StepValue(dtype), tuple(sorted({*axes, *s.over, *target.axes})), dtype)
            self.steps.append(UfuncStep("copy", [self._as(operand, dtype, s.operand)], spread))
            operand, axes = spread, spread.axes
        if isinstance(operand, StepOperand) and operand.dtype.kind in "iu":
            operand = self._as(operand, dtype, s.operand)
        if not target.value.outside:
            target = replace(target, axes=tuple(sorted({*axes} - {*s.over})))
        result = replace(target, dtype=dtype)
        name = "" if into is None else into.buffer
        self.steps.append(UfuncStep(f"reduce:{function}", [operand], result, s.over, name, s.accumulates))
        self.known[s.name] = target

    def _map(self, s: TileMap, target: StepOperand | None) -> Given:
        """One operation."""
        operands = [self.known[v] for v in s.operands]
        if s.op == "arith.index_cast":
            return operands[0]
        function = "select" if s.op == "arith.select" else "copy" if s.op in CASTS else ufunc(s.op, self.kernel.lines)
        arrays = [x for x in operands if isinstance(x, StepOperand)]
        if not arrays:
            return self._folded(s, function)
        if function == "select" and not isinstance(operands[0], StepOperand):
            return operands[1] if operands[0] else operands[2]
        kind = kind_dtype(s.kind)
        if function == "copy":
            operands = [self._as(arrays[0], signed_as(arrays[0].dtype, signedness(s.op)), s.operands[0])]
            stored = kind if target is None else target.dtype
            dtype = signed_as(stored, {"arith.fptoui": "u", "arith.fptosi": "i"}.get(s.op))
        else:
            # A selection of two scalars has only its condition, of truth values, as an array.
            some = next((x.dtype for x in arrays if x.dtype != BOOL), kind)
            dtype = signed_as(some if target is None or kind.kind != "i" else target.dtype, signedness(s.op))
            operands = [self._as(x, dtype, v) for x, v in zip(operands, s.operands, strict=True)]
            dtype = dtype if kind.kind == "i" else kind
        if target is None:
            target = StepOperand(StepValue(dtype), _axes(operands), dtype)
        self._write(function, operands, replace(target, dtype=dtype))
        return target

    def _write(self, function: str, operands: list[Given], place: StepOperand) -> None:
        """A step; a selection that would overwrite what it still has to read is computed by other functions."""
        over = [isinstance(x, StepOperand) and x.value is place.value for x in operands]
        if function == "select" and over[0]:
            aside = StepOperand(StepValue(place.dtype), tuple(sorted(place.axes)), place.dtype)
            self.steps.append(UfuncStep("select", operands, aside))
            function, operands = "copy", [aside]
        elif function == "select" and over[1]:
            condition, chosen, other = operands
            assert isinstance(condition, StepOperand)
            opposite = StepOperand(StepValue(BOOL), condition.axes, BOOL)
            self.steps.append(UfuncStep("np.logical_not", [condition], opposite))
            operands = [opposite, other, chosen]
        self.steps.append(UfuncStep(function, operands, place))

    def _folded(self, s: TileMap, function: str) -> Number:
        """An operation on scalars alone."""
        values = [x for v in s.operands if not isinstance(x := self.known[v], StepOperand)]
        if function == "select":
            return values[1] if values[0] else values[2]
        read = signed_as(kind_dtype(self.kinds[s.operands[0]]), signedness(s.op))
        dtype = kind_dtype(s.kind)
        return constant_as(fold(function, [constant_as(v, read) for v in values], read, dtype), dtype)

    def _as(self, operand: Given, dtype: DType, name: str) -> Given:
        """An operand read as an integer dtype of another sign; scalars of that kind wrap."""
        kind = operand.dtype.kind if isinstance(operand, StepOperand) else kind_dtype(self.kinds[name]).kind
        if kind not in "iu" or dtype.kind not in "iu":
            return operand
        if not isinstance(operand, StepOperand):
            return constant_as(operand, dtype)
        return operand if operand.dtype == dtype else replace(operand, dtype=dtype)


def _axes(operands: Iterable[Given]) -> Axes:
    """The axes that some of the operands have."""
    return tuple(sorted({a for x in operands if isinstance(x, StepOperand) for a in x.axes}))


def _part(terms: list[tuple[int, int]], first: int, sizes: Shape) -> str:
    """A part of one dimension as a slice, or an index."""
    if not terms:
        return str(first)
    ((axis, step),) = terms
    count = sizes[axis]
    if count == 0:
        return "0:0"
    end = first + step * (count - 1) + (1 if step > 0 else -1)
    return f"{first}:{'' if end < 0 else end}" + (f":{step}" if step != 1 else "")


def _targets(statements: Sequence[Statement]) -> dict[str, Address]:
    """The values that are made where they are stored, as nobody reads before what is there."""
    axes = axes_of_values(statements)
    made_at = {
        s.name: i for i, s in enumerate(statements) if isinstance(s, TileMap | TileReduce | TileGather | TileContract)
    }
    loaded = {s.name: s.address.buffer for s in statements if isinstance(s, TileLoad)}
    targets: dict[str, Address] = {}
    for i, s in enumerate(statements):
        if not isinstance(s, TileStore) or s.value not in made_at or s.value in targets:
            continue
        between = {loaded.get(v) for other in statements[made_at[s.value] + 1 : i] for v in operands_of(other)}
        if axes[s.value] == {*s.address.axes} and s.address.buffer not in between:
            targets[s.value] = s.address
    return targets


# --- functions that do what several statements say --------------------------------------------------------------------


def _simplified(statements: Sequence[Statement]) -> tuple[Statement, ...]:
    """Statements in which one function replaces several that compute the same."""
    makers: dict[str, Statement] = {}
    simplified: list[Statement] = []
    for s in statements:
        if isinstance(s, TileMap):
            s = _half(s, makers) or _sign(s, makers) or s
        elif isinstance(s, TileReduce) and s.op == "arith.addf":
            element = makers[s.operand]
            if isinstance(element, TileMap) and element.op == "arith.extf":  # NumPy widens as it sums
                s = replace(s, operand=element.operands[0])
        if not isinstance(s, Effect):
            makers[s.name] = s
        simplified.append(s)
    return needed(simplified)


def _half(s: TileMap, makers: Mapping[str, Statement]) -> TileMap | None:
    """A function of half precision, computed in single and rounded: NumPy does that by itself."""
    if s.op != "arith.truncf" or kind_dtype(s.kind) != HALF:
        return None
    inner = makers[s.operands[0]]
    if not isinstance(inner, TileMap) or not inner.op.startswith("math."):
        return None
    sources = [makers[v] for v in inner.operands]
    widened = [x.operands[0] for x in sources if isinstance(x, TileMap) and x.op == "arith.extf"]
    halves = len(widened) == len(sources) and all(_kind(makers[v]) == s.kind for v in widened)
    return TileMap(s.name, inner.op, tuple(widened), s.kind) if halves and ufunc(inner.op).startswith("np.") else None


def _sign(s: TileMap, makers: Mapping[str, Statement]) -> TileMap | None:
    """1 where x > 0, else -1 where x < 0, else x."""
    if s.op != "arith.select":
        return None
    condition, one, other = s.operands
    inner = makers[other]
    if not isinstance(inner, TileMap) or inner.op != "arith.select":
        return None
    x = inner.operands[2]
    numbers = _is_number(makers[one], 1) and _is_number(makers[inner.operands[1]], -1)
    same = _compares(makers[condition], makers, x, "g") and _compares(makers[inner.operands[0]], makers, x, "l")
    return TileMap(s.name, SIGN, (x,), s.kind) if numbers and same else None


def _compares(condition: Statement, makers: Mapping[str, Statement], x: str, order: str) -> bool:
    """Whether a condition compares ``x``, with its sign, with 0."""
    orders = (f"arith.cmpf o{order}t", f"arith.cmpi s{order}t")
    if not isinstance(condition, TileMap) or condition.op not in orders:
        return False
    return condition.operands[0] == x and _is_number(makers[condition.operands[1]], 0)


def _is_number(s: Statement, value: int) -> bool:
    return isinstance(s, TileConstant) and s.constant == value


def _kind(s: Statement) -> str:
    assert not isinstance(s, Effect)
    return s.kind
