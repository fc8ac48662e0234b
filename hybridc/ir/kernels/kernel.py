"""Kernels as data, for every target: loop nests of ops, and the reads, writes and cost of each op.

A kernel's *loop nests* run one after the other; each is a list of ops over one *iteration space* (domain), whose axes
are all the loops there are. The reduction loops of a contraction have no axis; they are numbered from the rank of the
iteration space on. In a module an operation holds a kernel (:mod:`hybridc.ir.kernels.kernel_module`); it prints as a
function of linalg ops, and is read from one (:mod:`hybridc.ir.kernels.kernel_text`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, NamedTuple, TypeGuard, cast

import numpy as np
from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr

from hybridc.dialects.mlir.hybrid import locations_at
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType, element_kind
from hybridc.ground.cached import cached_property
from hybridc.ground.location import Location
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, Place, is_size
from hybridc.ir.scalars import Number, constant_as

Axes = tuple[int, ...]
Matrix = np.ndarray[Any, Any]


# --- scalar bodies ----------------------------------------------------------------------------------------------------

CONSTANT, INDEX, EXTRACT = "arith.constant", "linalg.index", "tensor.extract"
_NUMBERS = ("index", "i64")  # the types of constants that loops can be given as numbers


@dataclass(frozen=True, eq=False)
class BodyArgument:
    """An element that a body is given, of type ``kind``: of read ``position``, or what a reduction has so far.

    A body may leave it ``unused``.
    """

    position: int
    kind: str
    unused: bool = False


@dataclass(frozen=True, eq=False)
class BodyOp:
    """A step of a scalar body, whose result is of type ``kind``.

    ``op`` is an operation of :mod:`hybridc.dialects.scalar.table`, or one of three: a ``constant``; the index of
    ``loop``; an element of ``table`` among those of the op, at the indices ``operands``. A constant that is the value
    of a symbolic ``size`` has other values in the kernel at other sizes: loops are given it as a number.
    """

    op: str
    operands: tuple[BodyValue, ...]
    kind: str
    constant: Number = 0
    loop: int = -1
    table: int = -1
    size: object = None


BodyValue = BodyArgument | BodyOp


@dataclass(frozen=True, eq=False)
class ScalarBody:
    """What an op computes for an element: ``steps`` in their order, of which ``result`` is one, or an argument.

    The last argument is what a reduction has so far, or the initial value. Constants may be operands only.
    """

    arguments: tuple[BodyArgument, ...]
    steps: tuple[BodyOp, ...]
    result: BodyValue

    @cached_property
    def key(self) -> Any:
        """A key of equal bodies."""
        return self._key(of_sizes=True)

    def _key(self, of_sizes: bool) -> Any:
        """A key; it has the values of constants ``of_sizes``, or not."""
        order: dict[BodyValue, int] = {v: i for i, v in enumerate(self.arguments)}
        rows: list[Any] = [tuple([a.kind for a in self.arguments])]
        return (*[_number(v, order, rows, of_sizes) for v in (*self.steps, self.result)], *rows)

    @cached_property
    def form(self) -> Any:
        """A key of bodies that are equal but for the values of sizes."""
        return self._key(of_sizes=False)

    @cached_property
    def constants(self) -> list[BodyOp]:
        """The steps and the operands outside of them that may be constants."""
        read = [*self.steps, *(v for step in self.steps for v in step.operands)]
        return [v for v in dict.fromkeys(read) if isinstance(v, BodyOp)]

    @cached_property
    def is_sized(self) -> bool:
        """Whether a constant in the body is a symbolic size."""
        return any(is_size(v.constant) for v in self.constants)

    def at(self, size: Callable[[int], int]) -> tuple[ScalarBody, Mapping[BodyValue, BodyValue]]:
        """The body with the values of symbolic sizes in its constants, and what each of its values is there."""
        of: dict[BodyValue, BodyValue] = {v: v for v in self.arguments}

        def sized(value: BodyValue) -> BodyValue:
            if value not in of:
                assert isinstance(value, BodyOp)
                operands = tuple(map(sized, value.operands))
                symbol = value.constant if is_size(value.constant) else None
                constant = value.constant if symbol is None else size(cast(int, symbol))
                symbol = symbol if value.kind in _NUMBERS else None
                of[value] = replace(value, operands=operands, constant=constant, size=symbol)
            return of[value]

        steps = tuple([cast(BodyOp, sized(step)) for step in self.steps])
        return ScalarBody(self.arguments, steps, sized(self.result)), of


def _number(value: BodyValue, order: dict[BodyValue, int], rows: list[Any], of_sizes: bool) -> int:
    """The number of a value of a body: new ones, and what they are computed from, get a number and a row."""
    if value not in order:
        assert isinstance(value, BodyOp)
        operands = tuple([_number(v, order, rows, of_sizes) for v in value.operands])
        order[value] = len(order)
        constant = _text_of(value.constant) if of_sizes or value.size is None else ...
        rows.append((value.op, operands, value.kind, constant, value.loop, value.table))
    return order[value]


def _text_of(constant: Number) -> Any:
    """A constant as part of a key: a symbolic size as it is."""
    return constant if is_size(constant) else repr(constant)


# --- kernels ----------------------------------------------------------------------------------------------------------


class KernelValue:
    """An array of a kernel: an argument, the result of an op, or a constant; a scalar has shape ().

    ``constant`` is what each of its elements is, or there is a constant ``matrix``. Two are equal that have the same
    ``position``: in a kernel they are one, and in the kernel at other sizes they are the same one. The ``hint`` is a
    name to print.
    """

    __slots__ = ("constant", "dtype", "hint", "matrix", "position", "shape")

    def __init__(
        self,
        position: int,
        dtype: DType,
        shape: Shape,
        constant: Number | None = None,
        matrix: Matrix | None = None,
        hint: str | None = None,
    ) -> None:
        self.position = position
        self.dtype = dtype
        self.shape = shape
        self.constant = constant
        self.matrix = matrix
        self.hint = hint

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, KernelValue) and self.position == other.position)

    def __hash__(self) -> int:
        return self.position

    def __repr__(self) -> str:
        return f"<{self.position}: {self.kind}{list(self.shape)}>"

    @property
    def kind(self) -> str:
        """The name of its element type."""
        return element_kind(self.dtype)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Its size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def is_constant(self) -> bool:
        """Whether its elements are known."""
        return self.constant is not None or self.matrix is not None

    def of_shape(self, shape: Shape) -> KernelValue:
        """The value with other sizes."""
        return self.moved(self.position, shape)

    def moved(self, position: int, shape: Shape) -> KernelValue:
        """The value as another one, with other sizes."""
        return KernelValue(position, self.dtype, shape, self.constant, self.matrix, self.hint)


@dataclass(frozen=True, eq=False)
class Read:
    """A read of a value in a loop nest: for each dimension of the value the axis that indexes it.

    Where an index is a sum of axes, ``index`` has it for each dimension, and ``axes`` are all axes in these sums.
    """

    value: KernelValue
    axes: Axes
    index: tuple[AffineIndex, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """The index along each dimension of the value."""
        return self.index or self.axes

    def at(self, size: Callable[[int], int]) -> Read:
        """The read with the values of symbolic sizes in its indices."""
        indices = [AffineIndex(tuple((a, size(f)) for a, f in i.terms), size(i.offset)) for i in self.index]
        return replace(self, index=tuple(indices)) if indices else self

    def along(self, strides: Sequence[int]) -> dict[int, int]:
        """The stride along each axis, given those of the value's dimensions."""
        if not self.index:
            return dict(zip(self.axes, strides, strict=True))
        steps = dict.fromkeys(self.axes, 0)
        for index, stride in zip(self.index, strides, strict=True):
            for axis, factor in index.terms:
                steps[axis] += factor * stride
        return steps


def affine_read(value: KernelValue, index: tuple[AffineIndex, ...]) -> Read:
    """A read at sums of axes."""
    return Read(value, tuple(dict.fromkeys(a for affine in index for a, _ in affine.terms)), index)


@dataclass(frozen=True, eq=False)
class KernelOp:
    """One op of a loop nest: its ``body`` for each element of an iteration space.

    ``loops`` are the axes of its loops, in order; ``axes`` those of its result, ``reduced`` those it reduces, by
    ``combine``, the step of its body that yields; reductions begin with ``start``. ``tables`` are the values that it
    reads at computed indices. It is of the user's ``operator``, at a ``location``. Its ``kind`` is
    ``"elementwise"``, ``"row"`` (a reduction, not over axis 0), ``"column"`` (a reduction over axis 0, perhaps more) or
    ``"contraction"`` (of its two reads).
    """

    kind: Literal["elementwise", "row", "column", "contraction"]
    body: ScalarBody
    reads: tuple[Read, ...]
    result: KernelValue
    loops: Axes
    axes: Axes
    reduced: Axes = ()
    combine: BodyOp | None = None
    start: Number | None = None
    tables: tuple[KernelValue, ...] = ()
    operator: str = ""
    location: LocationAttr = UNKNOWN_LOC

    @property
    def indirect(self) -> list[KernelValue]:
        """The values that it accesses indirectly: at computed indices, each once."""
        return list(dict.fromkeys([*self.tables, *(r.value for r in self.reads if r.index)]))

    @cached_property
    def steps(self) -> list[BodyOp]:
        """The steps of its body but constants."""
        return [step for step in self.body.steps if step.op != CONSTANT]

    @property
    def sizes(self) -> Shape:
        """The trip counts of its loops."""
        extents = self.extents
        return tuple([extents[a] for a in self.loops])

    @property
    def extents(self) -> dict[int, int]:
        """The trip count along each axis: each is, alone, the index along a dimension of the result or of a read."""
        plain = {a: n for r in self.reads if not r.index for a, n in zip(r.axes, r.value.shape, strict=True)}
        return plain | dict(zip(self.axes, self.result.shape, strict=True))

    @property
    def key(self) -> Any:
        """A key of ops that do the same, to values of the same types: which of these are one is part of it."""
        values = list(dict.fromkeys([*(r.value for r in self.reads), *self.tables, self.result]))
        types = [(v.dtype, v.shape, repr(v.constant), None if v.matrix is None else v.matrix.tobytes()) for v in values]
        reads = [(values.index(r.value), r.places) for r in self.reads]
        return (self.body.key, *types, *reads, self.loops, self.axes, self.reduced, repr(self.start), self.operator)

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions of what it reads, and of its result."""
        return tuple([v.position for v in (*(r.value for r in self.reads), *self.tables, self.result)])

    @property
    def flops(self) -> int:
        """Steps of the body, times iterations."""
        return len(self.steps) * math.prod(self.sizes)

    @property
    def indexed(self) -> set[int]:
        """The axes whose index the body reads."""
        return {self.loops[step.loop] for step in self.body.steps if step.op == INDEX}

    @property
    def extracts(self) -> list[tuple[KernelValue, tuple[int | None, ...]]]:
        """The values read at computed indices, and the axis that each index depends on; None for none or several."""
        axes: dict[BodyValue, frozenset[int]] = {}
        extracts: list[tuple[KernelValue, tuple[int | None, ...]]] = []
        for step in self.body.steps:
            along = [axes.get(v, frozenset[int]()) for v in step.operands]
            if step.op == INDEX:
                axes[step] = frozenset((self.loops[step.loop],))
            elif step.op == EXTRACT:  # what is read says nothing of where
                extracts.append(
                    (self.tables[step.table], tuple([next(iter(a)) if len(a) == 1 else None for a in along]))
                )
            else:
                axes[step] = frozenset[int]().union(*along)
        return extracts

    def initial(self) -> Number:
        """The initial value of a reduction, as the dtype of its result holds it."""
        assert self.start is not None, "a reduction begins with a number"
        return constant_as(self.start, self.result.dtype)

    def with_values(self, values: Mapping[KernelValue, KernelValue], reads: Sequence[Read] | None = None) -> KernelOp:
        """The same op of other values, those of the same positions; perhaps read at other indices."""
        read = [replace(r, value=values[r.value]) for r in (self.reads if reads is None else reads)]
        tables = tuple([values[v] for v in self.tables])
        return replace(self, reads=tuple(read), result=values[self.result], tables=tables)

    @property
    def is_sized(self) -> bool:
        """Whether an index or the body contains a symbolic size."""
        numbers = (n for r in self.reads for i in r.index for n in (i.offset, *(factor for _, factor in i.terms)))
        return self.body.is_sized or any(map(is_size, numbers))

    def has_same_numbers(self, other: KernelOp) -> bool:
        """Whether the indices and the constants in the body, but for sizes, are those of the same op at other sizes."""
        same = all(r.index == o.index for r, o in zip(self.reads, other.reads, strict=True))
        return same and (self.body is other.body or self.body.form == other.body.form)

    def at(self, size: Callable[[int], int], values: Mapping[KernelValue, KernelValue]) -> KernelOp:
        """The same op of these values, with the values of symbolic sizes."""
        op = self.with_values(values, [r.at(size) for r in self.reads])
        if not self.body.is_sized:
            return op
        body, of = self.body.at(size)
        return replace(op, body=body, combine=None if op.combine is None else cast(BodyOp, of[op.combine]))


@dataclass(frozen=True, eq=False)
class LoopNest:
    """Ops over one iteration space. ``grid`` counts its leading parallel axes, which tiles cut.

    Column reductions (over a grid axis) do not restrict it, as only later loop nests read their results; a loop nest
    that reads them itself has grid 0 and is computed as a whole. ``varying`` are axes known to have other sizes in
    other calls. ``position`` counts the loop nests of its kernel before it. A part of one leaves out some axes, which
    have size 1.
    """

    domain: Shape
    ops: tuple[KernelOp, ...]
    grid: int
    varying: Axes = ()
    position: int = 0
    left_out: Axes = ()

    def at(self, domain: Shape, kernel_ops: tuple[KernelOp, ...]) -> LoopNest:
        """The same loop nest in another iteration space of the kernel, of the ops at these sizes."""
        sizes = tuple([1 if a in self.left_out else n for a, n in enumerate(domain)])
        return LoopNest(sizes, kernel_ops, self.grid, self.varying, self.position, self.left_out)

    def part_of(self, kernel: Kernel) -> LoopNest:
        """The same loop nest, or part of one, of the kernel at other sizes."""
        whole = kernel.nests[self.position]
        op_of = {s.result: s for s in whole.ops}
        return self.at(whole.domain, tuple([op_of[s.result] for s in self.ops]))

    @property
    def contraction(self) -> KernelOp | None:
        """The contraction of the loop nest. Its operands are not made in the loop nest."""
        return next((s for s in self.ops if s.kind == "contraction"), None)

    @property
    def vector(self) -> int | None:
        """The axis to vectorise: the last axis of most values, of those with the most axes."""
        plain = (r.axes for s in self.ops for r in s.reads if not r.index)
        orders = [axes for axes in (*plain, *(s.axes for s in self.ops)) if axes]
        orders = [axes for axes in orders if axes[-1] < len(self.domain)]
        most = max(map(len, orders), default=0)
        last = [axes[-1] for axes in orders if len(axes) == most]
        return max(last, key=lambda a: (last.count(a), a)) if last else None

    def __str__(self) -> str:
        domain = "x".join(map(str, self.domain)) or "scalar"
        kinds = [s.kind if s.combine is None else f"{s.kind} {s.combine.op}" for s in self.ops]
        return f"{domain}, grid {'x'.join(map(str, self.domain[: self.grid])) or 'none'}: {', '.join(kinds)}"


def readers_of(nests: Sequence[LoopNest]) -> dict[KernelValue, list[LoopNest]]:
    """For each value that is read, the loop nests that read it, in order."""
    readers: dict[KernelValue, list[LoopNest]] = {}
    for nest in nests:
        for value in dict.fromkeys(r.value for s in nest.ops for r in s.reads):
            readers.setdefault(value, []).append(nest)
    return readers


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its ``arguments``, its ``results``, its loop nests.

    ``grid`` has for each nest the axes that are the grid of all; it is () where nests are independent. ``attention``
    has the axes that are rows, and those that are keys (:mod:`hybridc.ir.attention`). ``of_panels``: it is a matmul of
    prepacked panels. A kernel at other sizes has the same ``identity``.
    """

    name: str
    arguments: list[KernelValue]
    results: list[KernelValue]
    nests: tuple[LoopNest, ...]
    grid: tuple[Axes, ...] = ()
    attention: tuple[Axes, ...] = ()
    of_panels: bool = False
    identity: object = field(default_factory=object)

    def at(self, size: Callable[[int], int], varying: Sequence[Axes]) -> Kernel:
        """The kernel with the values of its symbolic sizes; and with the axes of each nest that vary with some."""
        of = {v: v.of_shape(tuple(map(size, v.shape))) for v in self.values}
        nests = [
            replace(
                nest,
                domain=tuple(map(size, nest.domain)),
                ops=tuple([s.at(size, of) for s in nest.ops]),
                varying=axes,
            )
            for nest, axes in zip(self.nests, varying or ((),) * len(self.nests), strict=True)
        ]
        arguments, results = [[of[v] for v in values] for values in (self.arguments, self.results)]
        return replace(self, arguments=arguments, results=results, nests=tuple(nests))

    def as_one_tile(self) -> Kernel:
        """The kernel over a grid of one point: its contraction and what follows that are apart then."""
        return replace(self, grid=((),) * len(self.nests))

    @property
    def fills(self) -> list[tuple[int, Number]]:
        """The results that are filled with one constant."""
        return [(i, v.constant) for i, v in enumerate(self.results) if v.constant is not None]

    @property
    def grid_size(self) -> int:
        """How many points the grid of all nests has."""
        return math.prod(self.nests[0].domain[a] for axes in self.grid[:1] for a in axes)

    @cached_property
    def ops(self) -> list[KernelOp]:
        """All ops, in order."""
        return [s for nest in self.nests for s in nest.ops]

    @cached_property
    def readers(self) -> dict[KernelValue, list[LoopNest]]:
        """For each value that is read, the loop nests that read it."""
        return readers_of(self.nests)

    @property
    def key(self) -> Any:
        """A key of kernels that do the same, whatever their names; values are counted in the order of their use."""
        types = tuple([(v.dtype, v.shape) for v in self.arguments])
        results = tuple([v.position for v in self.results])
        rows = [(nest.domain, *[(s.key, s.positions) for s in nest.ops]) for nest in self.nests]
        return (types, results, *rows, self.grid, self.attention, self.of_panels)

    @cached_property
    def values(self) -> dict[KernelValue, KernelValue]:
        """The values at these sizes, by themselves: those of the kernel at any other sizes are equal to them."""
        read = [v for s in self.ops for v in (*(r.value for r in s.reads), *s.tables, s.result)]
        return {v: v for v in (*self.arguments, *self.results, *read)}

    @property
    def bytes(self) -> int:
        """Bytes of memory traffic: each argument and result once."""
        return sum(v.bytes for v in (*self.arguments, *self.results))

    @property
    def flops(self) -> int:
        """Arithmetic operations; a multiply-add counts as two."""
        return sum(s.flops for s in self.ops)

    @property
    def scratch(self) -> int:
        """Bytes of intermediate values for one point of the grid."""
        results = set(self.results)
        total = 0
        for nest in self.nests:
            for kernel_op in nest.ops:
                if kernel_op.result not in results:
                    inner = [nest.domain[a] for a in kernel_op.axes if a >= nest.grid]
                    total += math.prod(inner) * kernel_op.result.dtype.itemsize
        return total

    @property
    def operators(self) -> list[str]:
        """The names of the user's operators that it computes."""
        return [s.operator for s in self.ops]

    @cached_property
    def locations(self) -> list[Location]:
        """The user's source lines, each once."""
        return list(dict.fromkeys(where for s in self.ops for where in locations_at(s.location)))

    def __str__(self) -> str:
        cost = f"{self.bytes} bytes, {self.flops} operations, {self.scratch} bytes of scratch a grid point"
        return "\n".join([f"{self.name}: {cost}", *(f"  {nest}" for nest in self.nests)])


def assembled(
    name: str,
    nests: Sequence[tuple[Shape, Sequence[KernelOp]]],
    arguments: Sequence[KernelValue],
    results: Sequence[KernelValue],
    grid: tuple[Axes, ...] = (),
    of_panels: bool = False,
) -> Kernel:
    """The kernel of some ops over domains; their values get new positions, in the order in which they are met."""
    of: dict[KernelValue, KernelValue] = {}
    inner = [v for _, ops in nests for s in ops for v in (*(r.value for r in s.reads), *s.tables, s.result)]
    for v in (*arguments, *inner):
        if v not in of:
            of[v] = v.moved(len(of), v.shape)
    placed = loop_nests([(domain, [s.with_values(of) for s in ops]) for domain, ops in nests])
    return Kernel(name, [of[v] for v in arguments], [of[v] for v in results], placed, grid, of_panels=of_panels)


def loop_nests(parts: Sequence[tuple[Shape, Sequence[KernelOp]]], varying: Sequence[Axes] = ()) -> tuple[LoopNest, ...]:
    """The loop nests of ops over domains, one after the other; of each the axes may be known that vary."""
    pairs = enumerate(zip(parts, varying or ((),) * len(parts), strict=True))
    return tuple([LoopNest(domain, tuple(ops), grid_of(domain, ops), axes, i) for i, ((domain, ops), axes) in pairs])


def grid_of(domain: Shape, kernel_ops: Sequence[KernelOp]) -> int:
    """Number of leading axes that are parallel in every op but column reductions whose results leave the nest."""
    inside = {r.value for s in kernel_ops for r in s.reads}
    grid = len(domain)
    for kernel_op in kernel_ops:
        if kernel_op.kind == "row" or (kernel_op.kind == "column" and kernel_op.result in inside):
            grid = min(grid, *kernel_op.reduced)
    return grid


def constants_of(kernel: Kernel) -> list[Number] | None:
    """The constants that its results are filled with, if a kernel does nothing else."""
    yields = {s.result: number_in(s.body.result) for s in kernel.ops if s.kind == "elementwise"}
    fills = [yields.get(v, v.constant) for v in kernel.results]
    numbers = [fill for fill in fills if fill is not None]
    return numbers if len(numbers) == len(fills) else None


def number_in(value: BodyValue) -> Number | None:
    """The constant that a value of a body is; None if it is none."""
    return value.constant if isinstance(value, BodyOp) and value.op == CONSTANT else None


# --- definitions of values --------------------------------------------------------------------------------------------


class Definition(NamedTuple):
    """A step that defines an element, in the body of an op."""

    kernel_op: KernelOp
    value: BodyValue

    @property
    def op(self) -> str:
        """Its operation."""
        return self.value.op if isinstance(self.value, BodyOp) else ""

    @property
    def operands(self) -> list[Definition]:
        """Its operands."""
        values = self.value.operands if isinstance(self.value, BodyOp) else ()
        return [Definition(self.kernel_op, v) for v in values]

    @property
    def constant(self) -> Number | None:
        """The constant that it is."""
        return number_in(self.value)


Source = KernelValue | Definition


class Sources:
    """Definitions of a loop nest's values, followed through ops and their bodies."""

    def __init__(self, nest: LoopNest) -> None:
        self.maps = {s.result: s for s in nest.ops if s.kind == "elementwise"}

    def source(self, value: Source) -> Source:
        """The step of a body that defines a value, or the array that it is an element of."""
        while True:
            if isinstance(value, KernelValue):
                kernel_op = self.maps.get(value)
                if kernel_op is None:
                    return value
                value = Definition(kernel_op, kernel_op.body.result)
            elif isinstance(value.value, BodyArgument) and value.kernel_op.result in self.maps:
                value = value.kernel_op.reads[value.value.position].value
            else:
                return value

    def operands(self, value: Definition) -> list[Source]:
        """The definitions of a step's operands."""
        return [self.source(v) for v in value.operands]


def is_plain(value: Source, *ops: str) -> TypeGuard[Definition]:
    """Whether a definition is one of some operations."""
    return isinstance(value, Definition) and value.op in ops


def combines(kernel_op: KernelOp, op: str, start: float) -> bool:
    """Whether an op is a plain reduction: it combines the elements read, from this initial value."""
    combine = kernel_op.combine
    plain = combine is not None and combine.op == op and len(kernel_op.steps) == 1 and len(kernel_op.reads) == 1
    return plain and kernel_op.start == start


def is_power(sources: Sources, value: Source, score: Source, peak: Source) -> bool:
    """Whether a value is exp(score - peak), or of this difference over a positive constant."""
    if not is_plain(value, "math.exp"):
        return False
    (difference,) = sources.operands(value)
    if is_plain(difference, "arith.divf", "arith.mulf"):
        difference, by = sources.operands(difference)
        if by.constant is None or not 0 < by.constant < math.inf:
            return False
    return is_plain(difference, "arith.subf") and sources.operands(difference) == [score, peak]
