"""What a kernel does, step by step: ufuncs, reductions, and the scratch arrays that hold values between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue

from hybridc.ir.kernel import CASTS, Axes, Kernel, Number, Read, Stage, number_as, number_of, sign, signed_as
from hybridc.ir.nest_plan import loop_axes
from hybridc.ir.scalar_builder import operation_name
from hybridc.ir.structured import Shape, dtype_of, element_dtype, shape_of
from hybridc.lower.numpy.ufuncs import fold, ufunc

DType = np.dtype[Any]

BOOL, HALF, INT64 = np.dtype(bool), np.dtype(np.float16), np.dtype(np.int64)


@dataclass(eq=False)
class StepValue:
    """An array that steps read or write.

    It is an argument or a result of the kernel (``arg``, ``out``: its number), an array for the whole domain of a nest
    (``whole``), a view of an argument or the indices along an axis (``view``), or scratch for one tile (``slot``).
    """

    dtype: DType
    shape: Shape = ()
    arg: int | None = None
    out: int | None = None
    whole: int | None = None
    slot: int | None = None
    view: int | None = None
    plain: bool = True  # whether its elements follow each other in memory
    last_use: int = -1

    @property
    def outside(self) -> bool:
        """Whether it is there before and after a tile is computed."""
        return any(number is not None for number in (self.arg, self.out, self.whole, self.view))


@dataclass(frozen=True)
class StepOperand:
    """A value as a step sees it: which axis of the domain each of its dimensions follows, and read as which dtype."""

    value: StepValue
    axes: Axes
    dtype: DType


Given = StepOperand | Number


@dataclass(eq=False)
class UfuncStep:
    """One line of NumPy: ``function`` is a ufunc, ``reduce:`` and one, ``select``, ``copy``, ``gather`` or ``matmul``.

    A reduction ``across`` tiles is a part of the result in each of them. What is gathered are elements of ``table``.
    """

    function: str
    operands: list[Given]
    result: StepOperand
    reduced: Axes = ()
    across: bool = False
    number: int = 0
    table: StepValue | None = None

    @property
    def reduces(self) -> bool:
        """Whether it is a reduction."""
        return self.function.startswith("reduce:")

    @property
    def combine(self) -> str:
        """The ufunc by which a reduction combines two elements."""
        return self.function.partition(":")[2]

    def reads(self) -> Iterable[StepOperand]:
        """The arrays that it reads."""
        return (o for o in self.operands if isinstance(o, StepOperand))

    def may_overwrite(self, operand: StepOperand) -> bool:
        """Whether the result may be where this operand is: ufuncs read each element before they write it."""
        if self.function == "select":
            return all(o.value is not operand.value for o in self.operands[:2] if isinstance(o, StepOperand))
        return self.function.startswith(("np.", "special."))


@dataclass
class NestSteps:
    """The steps of one nest: ``before`` on whole arrays, ``steps`` on tiles along the leading ``grid`` axes."""

    domain: Shape
    grid: int
    before: list[UfuncStep] = field(default_factory=lambda: list[UfuncStep]())
    steps: list[UfuncStep] = field(default_factory=lambda: list[UfuncStep]())
    slots: list[tuple[DType, Axes]] = field(default_factory=lambda: list[tuple[DType, Axes]]())


@dataclass
class Schedule:
    """The steps of a kernel, nest by nest; ``whole`` are the arrays that it needs beside its results.

    ``views`` are the sources of the arrays that it makes without a copy, and ``viewed`` the arguments that are read at
    other indices than those of what is made of them.
    """

    args: list[StepValue]
    outs: list[StepValue]
    parts: list[NestSteps] = field(default_factory=lambda: list[NestSteps]())
    whole: list[StepValue] = field(default_factory=lambda: list[StepValue]())
    fills: tuple[tuple[int, Number], ...] = ()
    copies: list[tuple[int, StepValue]] = field(default_factory=lambda: list[tuple[int, StepValue]]())
    views: list[str] = field(default_factory=lambda: list[str]())
    viewed: set[int | None] = field(default_factory=lambda: set[int | None]())


def schedule(kernel: Kernel, updates: Sequence[int] = (), strided: Set[int] = frozenset()) -> Schedule:
    """The steps of a kernel; they have no numbers, and values inside a tile no place yet.

    Results with the numbers ``updates`` hold nothing else before they are written: they may lie over an argument.
    ``strided`` are the arguments, then results, that may be no plain arrays.
    """
    return _Scheduler(kernel, updates, strided).run()


class _Scheduler:
    def __init__(self, kernel: Kernel, updates: Sequence[int], strided: Set[int]) -> None:
        self.kernel = kernel
        self.strided = strided
        self.updates = updates
        self.outside: dict[SSAValue, StepValue] = {}
        self.plan = Schedule([], [], fills=kernel.fills)
        self.part = NestSteps((), 0)
        self.here: dict[SSAValue, StepOperand] = {}  # what the nest at hand has made
        self.seen: dict[tuple[str, Axes], StepValue] = {}  # the views of the nest at hand
        self.last_read = {
            r.value: (n, s)
            for n, nest in enumerate(kernel.nests)
            for s, stage in enumerate(nest.stages)
            for r in stage.reads
        }

    def run(self) -> Schedule:
        plan = self.plan
        for i, v in enumerate(self.kernel.arguments):
            self.outside[v] = StepValue(dtype_of(v), shape_of(v), arg=i, plain=i not in self.strided)
            plan.args.append(self.outside[v])
        for i, v in enumerate(self.kernel.results):
            plain = len(plan.args) + i not in self.strided
            plan.outs.append(StepValue(dtype_of(v), shape_of(v), out=i, plain=plain))
            if number_of(v) is not None:
                continue
            if v in self.outside:
                plan.copies.append((i, self.outside[v]))
            self.outside.setdefault(v, plan.outs[-1])
        for number, nest in enumerate(self.kernel.nests):
            self.part = NestSteps(nest.domain, nest.grid)
            plan.parts.append(self.part)
            self.here, self.seen = {}, {}
            for at, stage in enumerate(nest.stages):
                self._stage(number, at, stage)
        return plan

    def _whole(self, dtype: DType, shape: Shape) -> StepValue:
        value = StepValue(dtype, shape, whole=len(self.plan.whole))
        self.plan.whole.append(value)
        return value

    def _target(self, number: int, at: int, stage: Stage) -> StepOperand:
        """Where the result of a stage goes."""
        result = stage.result
        dtype = dtype_of(result)
        if result in self.outside:
            return StepOperand(self.outside[result], stage.axes, dtype)
        product = stage.kind == "product"
        heir = self._heir(number, at, stage) if product else None
        if heir is not None:
            return heir
        if product or self.last_read.get(result, (number, 0))[0] != number:
            self.outside[result] = self._whole(dtype, shape_of(result))
            return StepOperand(self.outside[result], stage.axes, dtype)
        return StepOperand(StepValue(dtype), tuple(sorted(stage.axes)), dtype)

    def _heir(self, number: int, at: int, stage: Stage) -> StepOperand | None:
        """The result of the kernel in whose place a product may be, as nobody reads the product any more then."""
        last = self.last_read.get(stage.result, (number, -1))
        for later, other in enumerate(self.kernel.nests[number].stages[at + 1 :], at + 1):
            value = self.outside.get(other.result)
            if value is None or value.out is None or value.out in self.updates or other.kind != "map":
                continue
            if not value.plain:
                continue
            same = value.dtype == dtype_of(stage.result) and set(other.axes) == set(stage.axes)
            if same and last <= (number, later):
                return StepOperand(value, other.axes, value.dtype)
        return None

    def _read(self, read: Read) -> Given:
        number = number_of(read.value)
        if number is not None:
            return number_as(number, dtype_of(read.value))
        if read.value in self.here:
            return self.here[read.value]
        value = self.outside[read.value]
        if not read.index:
            return StepOperand(value, read.axes, value.dtype)
        domain = self.part.domain
        return self._view(affine_view(value, read, domain), value.dtype, read.axes, value.arg)

    def _view(self, source: str, dtype: DType, axes: Axes, arg: int | None = None) -> StepOperand:
        """An array over axes of the domain that is made by one line without a copy."""
        if arg is not None:
            self.plan.viewed.add(arg)
        key = (source, axes)
        if key not in self.seen:
            shape = tuple(self.part.domain[a] for a in axes)
            self.seen[key] = StepValue(dtype, shape, view=len(self.plan.views), plain=False)
            self.plan.views.append(source)
        return StepOperand(self.seen[key], axes, dtype)

    def _indices(self, axis: int) -> StepOperand:
        """The indices along an axis."""
        return self._view(f"np.arange({self.part.domain[axis]})", INT64, (axis,))

    def _table(self, value: SSAValue) -> StepValue:
        """An argument that is read at computed indices."""
        found = self.outside[value]
        self.plan.viewed.add(found.arg)
        return found

    def _stage(self, number: int, at: int, stage: Stage) -> None:
        if stage.result not in self.outside and stage.result not in self.last_read:
            return  # nobody wants it
        target = self._target(number, at, stage)
        reads = [self._read(r) for r in stage.reads]
        if stage.kind == "product":
            self._product(stage, reads, target)
        else:
            body = _Body(self.part.steps, stage, reads, self._indices, self._table)
            if stage.combine is None:
                body.map(target)
            else:
                body.reduce(stage, target)
        self.here[stage.result] = target

    def _product(self, stage: Stage, reads: list[Given], target: StepOperand) -> None:
        """The product of two arrays, in the dtype of the sum; numbers everywhere are arrays, too."""
        operands: list[Given] = []
        for given, read in zip(reads, stage.reads, strict=True):
            if isinstance(given, StepOperand) and given.dtype == target.dtype:
                operands.append(given)
                continue
            wide = StepOperand(self._whole(target.dtype, shape_of(read.value)), read.axes, target.dtype)
            self.part.before.append(UfuncStep("copy", [given], wide))
            operands.append(wide)
        self.part.before.append(UfuncStep("matmul", operands, target, stage.reduced))


def affine_view(value: StepValue, read: Read, domain: Shape) -> str:
    """The source of a view that has an argument's elements at sums of axes, over these axes."""
    name = f"x{value.arg}"
    sizes = tuple(domain[a] for a in read.axes)
    if sum(len(terms) for terms, _ in read.index) == len(read.axes) and all(len(t) <= 1 for t, _ in read.index):
        parts = [_part(terms[0][1], first, domain[terms[0][0]]) if terms else str(first) for terms, first in read.index]
        return f"{name}[{', '.join(parts)}]"
    begin = ", ".join(f"{first}:" for _, first in read.index) if 0 not in sizes else ""
    strides: list[str] = []
    for axis in read.axes:
        factors = [(sum(f for a, f in terms if a == axis), d) for d, (terms, _) in enumerate(read.index)]
        strides.append(" + ".join(f"{f} * {name}.strides[{d}]" for f, d in factors if f))
    return f"np.lib.stride_tricks.as_strided({name}{f'[{begin}]' if begin else ''}, {sizes}, ({', '.join(strides)},))"


def _part(step: int, first: int, count: int) -> str:
    """A part of one axis as a slice."""
    if count == 0:
        return "0:0"
    end = first + step * (count - 1) + (1 if step > 0 else -1)
    return f"{first}:{'' if end < 0 else end}" + (f":{step}" if step != 1 else "")


class _Body:
    """The scalar operations of one stage as steps on arrays."""

    def __init__(
        self,
        steps: list[UfuncStep],
        stage: Stage,
        reads: list[Given],
        indices: Callable[[int], StepOperand],
        table: Callable[[SSAValue], StepValue],
    ) -> None:
        self.steps = steps
        self.axes = loop_axes(stage)
        self.indices, self.table = indices, table
        self.block = stage.op.regions[0].block
        self.known: dict[SSAValue, Given] = dict(zip(self.block.args, reads, strict=False))
        start = number_of(stage.op.operands[-1])
        if stage.combine is None and start is not None:  # a reduction of nothing begins and ends with it
            self.known[self.block.args[-1]] = number_as(start, dtype_of(stage.result))

    def map(self, target: StepOperand) -> None:
        """The element of the result, for all of them."""
        end = self.block.last_op
        assert end is not None
        self._compute(end.operands[0], target)

    def reduce(self, stage: Stage, target: StepOperand) -> None:
        """The elements combined."""
        combine = stage.combine
        assert combine is not None
        (element,) = [v for v in combine.operands if v is not self.block.args[-1]]
        function = ufunc(combine)
        dtype = signed_as(target.dtype, sign(combine.name))
        owner = element.owner
        if isinstance(owner, arith.ExtFOp) and function == "np.add":
            element = owner.operands[0]  # NumPy widens as it sums
        loops = tuple(sorted({*stage.axes, *stage.reduced}))
        given = self._compute(element, None)
        if not isinstance(given, StepOperand) or set(given.axes) != set(loops):
            spread = StepOperand(StepValue(dtype), loops, dtype)
            self.steps.append(UfuncStep("copy", [_as(given, dtype, element)], spread))
            given = spread
        if given.dtype.kind in "iu":
            given = _as(given, dtype)
        result = StepOperand(target.value, target.axes, dtype)
        self.steps.append(UfuncStep(f"reduce:{function}", [given], result, stage.reduced, stage.kind == "across"))

    def _compute(self, value: SSAValue, target: StepOperand | None) -> Given:
        """A value of the body and what it needs; into ``target`` if there is one."""
        steps, whole = _needed(value, self.known)
        for op in steps:
            place = target if op.results[0] is value else None
            self.known[op.results[0]] = self._step(op, whole.get(op), place)
        found = self._given(value)
        if target is not None and found != target:  # a product may lie already where its copy will be
            self.steps.append(UfuncStep("copy", [_as(found, target.dtype, value)], target))
        return found

    def _given(self, value: SSAValue) -> Given:
        if value not in self.known:
            number = number_of(value)
            assert number is not None, f"{value} is no number"
            self.known[value] = number_as(number, element_dtype(value.type))
        return self.known[value]

    def _step(self, op: Operation, instead: tuple[str, list[SSAValue]] | None, target: StepOperand | None) -> Given:
        """One operation; ``instead`` of it, a function that does what it and some before it do."""
        match op:
            case linalg.IndexOp():
                return self.indices(self.axes[op.dim.value.data])
            case arith.IndexCastOp():
                return self._given(op.input)
            case tensor.ExtractOp():
                return self._gathered(op, target)
            case _:
                pass
        function, operands = instead or (_function(op), list(op.operands))
        given = [self._given(v) for v in operands]
        arrays = [x for x in given if isinstance(x, StepOperand)]
        result = op.results[0]
        if not arrays:
            return self._folded(op, function, operands)
        if function == "select" and not isinstance(given[0], StepOperand):
            return given[1] if given[0] else given[2]
        kind = element_dtype(result.type)
        if function == "copy":
            given = [_as(arrays[0], signed_as(arrays[0].dtype, sign(operation_name(op))))]
            stored = kind if target is None else target.dtype
            dtype = signed_as(stored, {"arith.fptoui": "u", "arith.fptosi": "i"}.get(op.name))
        else:
            # A selection of two numbers has only its condition, of truth values, as an array.
            some = next((x.dtype for x in arrays if x.dtype != BOOL), kind)
            dtype = signed_as(some if target is None or kind.kind != "i" else target.dtype, sign(operation_name(op)))
            given = [_as(x, dtype, v) for x, v in zip(given, operands, strict=True)]
            dtype = dtype if kind.kind == "i" else kind
        if target is None:
            axes = tuple(sorted({a for x in arrays for a in x.axes}))
            target = StepOperand(StepValue(dtype), axes, dtype)
        self._write(function, given, StepOperand(target.value, target.axes, dtype))
        return target

    def _gathered(self, op: tensor.ExtractOp, target: StepOperand | None) -> StepOperand:
        """Elements of an argument at computed indices."""
        table, indices = self.table(op.tensor), [self._given(v) for v in op.indices]
        if target is None:
            axes = tuple(sorted({a for i in indices if isinstance(i, StepOperand) for a in i.axes}))
            target = StepOperand(StepValue(table.dtype), axes, table.dtype)
        self.steps.append(UfuncStep("gather", indices, target, table=table))
        return target

    def _write(self, function: str, given: list[Given], place: StepOperand) -> None:
        """A step; a selection that would overwrite what it still has to read goes another way."""
        over = [isinstance(x, StepOperand) and x.value is place.value for x in given]
        if function == "select" and over[0]:
            aside = StepOperand(StepValue(place.dtype), tuple(sorted(place.axes)), place.dtype)
            self.steps.append(UfuncStep("select", given, aside))
            function, given = "copy", [aside]
        elif function == "select" and over[1]:
            condition, chosen, other = given
            assert isinstance(condition, StepOperand)
            opposite = StepOperand(StepValue(BOOL), condition.axes, BOOL)
            self.steps.append(UfuncStep("np.logical_not", [condition], opposite))
            given = [opposite, other, chosen]
        self.steps.append(UfuncStep(function, given, place))

    def _folded(self, op: Operation, function: str, operands: list[SSAValue]) -> Number:
        """An operation on numbers alone."""
        values = [x for x in map(self._given, operands) if not isinstance(x, StepOperand)]
        if function == "select":
            return values[1] if values[0] else values[2]
        read = signed_as(element_dtype(operands[0].type), sign(operation_name(op)))
        dtype = element_dtype(op.results[0].type)
        return number_as(fold(function, [number_as(v, read) for v in values], read, dtype), dtype)


def _as(given: Any, dtype: DType, source: SSAValue | None = None) -> Any:
    """An operand read as an integer dtype of another sign; numbers of that kind wrap."""
    kind = given.dtype.kind if isinstance(given, StepOperand) else element_dtype(cast(SSAValue, source).type).kind
    if kind not in "iu" or dtype.kind not in "iu":
        return given
    if not isinstance(given, StepOperand):
        return number_as(given, dtype)
    return given if given.dtype == dtype else StepOperand(given.value, given.axes, dtype)


def _function(op: Operation) -> str:
    if isinstance(op, arith.SelectOp):
        return "select"
    return "copy" if op.name in CASTS else ufunc(op)


def _needed(
    value: SSAValue, known: dict[SSAValue, Given]
) -> tuple[list[Operation], dict[Operation, tuple[str, list[SSAValue]]]]:
    """The operations that a value of a body depends on, in order; a ufunc for those that end what it does alone."""
    instead: dict[Operation, tuple[str, list[SSAValue]]] = {}
    found: dict[Operation, None] = {}

    def visit(v: SSAValue) -> None:
        op = v.owner
        if v in known or not isinstance(op, Operation) or isinstance(op, arith.ConstantOp) or op in found:
            return
        if isinstance(op, tensor.ExtractOp):
            for x in op.indices:
                visit(x)
            found[op] = None
            return
        simpler = _half(op) or _sign(op)
        if simpler is not None:
            instead[op] = simpler
        for x in simpler[1] if simpler is not None else op.operands:
            visit(x)
        found[op] = None

    visit(value)
    return list(found), instead


def _half(op: Operation) -> tuple[str, list[SSAValue]] | None:
    """A function of half precision, computed in single and rounded: NumPy does that by itself."""
    if not isinstance(op, arith.TruncFOp) or element_dtype(op.results[0].type) != HALF:
        return None
    inner = op.operands[0].owner
    if not isinstance(inner, Operation) or inner.name.partition(".")[0] != math.Math.name:
        return None
    function = ufunc(inner)
    sources = [v.owner for v in inner.operands]
    widened = [s.operands[0] for s in sources if isinstance(s, arith.ExtFOp)]
    halves = len(widened) == len(sources) and all(element_dtype(v.type) == HALF for v in widened)
    return (function, widened) if halves and function.startswith("np.") else None


def _sign(op: Operation) -> tuple[str, list[SSAValue]] | None:
    """1 where x > 0, else -1 where x < 0, else x."""
    if not isinstance(op, arith.SelectOp):
        return None
    inner = op.operands[2].owner
    if not isinstance(inner, arith.SelectOp) or number_of(op.operands[1]) != 1 or number_of(inner.operands[1]) != -1:
        return None
    x = inner.operands[2]
    same = _compares(op.operands[0], x, "np.greater") and _compares(inner.operands[0], x, "np.less")
    return ("np.sign", [x]) if same else None


def _compares(condition: SSAValue, x: SSAValue, function: str) -> bool:
    """Whether a condition compares ``x``, with its sign, with 0."""
    op = condition.owner
    if not isinstance(op, arith.CmpfOp | arith.CmpiOp) or ufunc(op) != function or sign(operation_name(op)) == "u":
        return False
    return op.operands[0] is x and number_of(op.operands[1]) == 0
