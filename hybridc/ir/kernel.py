"""Analysis of kernels, for every target: loop nests of linalg ops, and the reads, writes and cost of each op.

A kernel is a private function of linalg ops. Its *loop nests* run one after the other; each is a list of ops over one
*iteration space* (domain), whose axes are all the loops there are. ``hybrid.domains`` of the function lists the sizes;
an op's ``hybrid.loop_nest`` is the index of its loop nest (default 0), its ``hybrid.axes`` the axis of each loop.
``hybrid.varying`` lists, for each loop nest, the axes whose sizes are known to vary from one call of the network to the
next. The reduction loops of a contraction have no axis (-1 in the attribute); here they are numbered from the rank
of the iteration space on. ``hybrid.grid`` lists, for each loop nest, the axes that are the grid of all: the same points
in the same order, where a loop nest reads what others make (:mod:`hybridc.ir.grid_kernel`). ``hybrid.attention`` lists
the axes that are rows, and those that are keys (:mod:`hybridc.ir.attention`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from xdsl.dialects import arith, func
from xdsl.dialects import math as functions
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, StringAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Block, Operation, SSAValue

from hybridc.dialects.mlir.hybrid import locations_of
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import STORED, DType, is_float
from hybridc.errors import UnsupportedError
from hybridc.ground.cached import cached_property
from hybridc.ground.location import Location
from hybridc.ground.sizes import AffineIndex, Place
from hybridc.ir.kernel_notes import AXES, DOMAINS, GRID, LOOP_NEST, VARYING
from hybridc.ir.structured import (
    affine_operands,
    dtype_of,
    indirect_operands,
    is_scaffold,
    loop_sizes,
    places_of,
    shape_of,
)

Axes = tuple[int, ...]
Number = int | float


@dataclass(frozen=True, eq=False)
class Read:
    """A read of a value in a loop nest: for each dimension of the value the axis that indexes it.

    Where an index is a sum of axes, ``index`` has it for each dimension, and ``axes`` are all axes in these sums.
    """

    value: SSAValue
    axes: Axes
    index: tuple[AffineIndex, ...] = ()

    @property
    def places(self) -> tuple[Place, ...]:
        """The index along each dimension of the value."""
        return self.index or self.axes

    def along(self, strides: Sequence[int]) -> dict[int, int]:
        """The stride along each axis, given those of the value's dimensions."""
        if not self.index:
            return dict(zip(self.axes, strides, strict=True))
        steps = dict.fromkeys(self.axes, 0)
        for index, stride in zip(self.index, strides, strict=True):
            for axis, factor in index.terms:
                steps[axis] += factor * stride
        return steps


@dataclass(frozen=True, eq=False)
class KernelOp:
    """One linalg op of a loop nest.

    ``axes`` are those of its result, ``reduced`` those it reduces, by ``combine``, an operation of its body. Its
    ``kind`` is ``"elementwise"``, ``"row"`` (a reduction, not over axis 0), ``"column"`` (a reduction over axis 0,
    perhaps more) or ``"contraction"`` (of its two reads).
    """

    op: linalg.GenericOp | linalg.MatmulOp
    kind: Literal["elementwise", "row", "column", "contraction"]
    reads: tuple[Read, ...]
    axes: Axes
    reduced: Axes
    combine: Operation | None

    @property
    def result(self) -> SSAValue:
        """Its result."""
        return self.op.results[0]

    @property
    def indirect(self) -> list[SSAValue]:
        """The kernel's arguments that it accesses indirectly: at computed indices."""
        return indirect_operands(self.op)

    @property
    def steps(self) -> list[Operation]:
        """The arithmetic operations of its body."""
        return [op for op in self.op.regions[0].block.ops if not isinstance(op, arith.ConstantOp | linalg.YieldOp)]

    @property
    def sizes(self) -> Shape:
        """The trip counts of its loops."""
        return loop_sizes(self.op, places_of(self.op))

    @property
    def extents(self) -> dict[int, int]:
        """The trip count along each axis: each is, alone, the index along a dimension of the result or of a read."""
        plain = {a: n for r in self.reads if not r.index for a, n in zip(r.axes, shape_of(r.value), strict=True)}
        return plain | dict(zip(self.axes, shape_of(self.result), strict=True))

    @property
    def flops(self) -> int:
        """Operations of the body, times iterations."""
        return len(self.steps) * math.prod(self.sizes)


@dataclass(frozen=True, eq=False)
class LoopNest:
    """Linalg ops over one iteration space. ``grid`` counts its leading parallel axes, which tiles cut.

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

    def at(self, domain: Shape) -> LoopNest:
        """The same loop nest in another iteration space of the kernel."""
        sizes = tuple([1 if a in self.left_out else n for a, n in enumerate(domain)])
        return LoopNest(sizes, self.ops, self.grid, self.varying, self.position, self.left_out)

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
        kinds = [s.kind if s.combine is None else f"{s.kind} {s.combine.name}" for s in self.ops]
        return f"{domain}, grid {'x'.join(map(str, self.domain[: self.grid])) or 'none'}: {', '.join(kinds)}"


@dataclass(frozen=True, eq=False)
class Kernel:
    """The facts about one kernel: its ``arguments``, its ``results``, its loop nests.

    ``grid`` has for each nest the axes that are the grid of all; it is () where nests are independent. ``fills`` are
    results that are filled with one constant.
    """

    function: func.FuncOp
    arguments: list[SSAValue]
    results: list[SSAValue]
    nests: tuple[LoopNest, ...]
    grid: tuple[Axes, ...]
    fills: tuple[tuple[int, Number], ...]

    @property
    def name(self) -> str:
        """Its symbol name."""
        return self.function.sym_name.data

    def as_one_tile(self) -> Kernel:
        """The kernel over a grid of one point: its contraction and what follows that are apart then."""
        return replace(self, grid=((),) * len(self.nests))

    @property
    def grid_size(self) -> int:
        """How many points the grid of all nests has."""
        return math.prod(self.nests[0].domain[a] for axes in self.grid[:1] for a in axes)

    @property
    def ops(self) -> list[KernelOp]:
        """All linalg ops, in order."""
        return [s for nest in self.nests for s in nest.ops]

    @property
    def bytes(self) -> int:
        """Bytes of memory traffic: each argument and result once."""
        return sum(byte_count(v) for v in (*self.arguments, *self.results))

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
                    total += math.prod(inner) * dtype_of(kernel_op.result).itemsize
        return total

    @cached_property
    def operators(self) -> list[str]:
        """The names of the user's operators that it computes."""
        return [_operator(s.op) for s in self.ops]

    @cached_property
    def locations(self) -> list[Location]:
        """The user's source lines, each once."""
        return locations(s.op for s in self.ops)

    def __str__(self) -> str:
        cost = f"{self.bytes} bytes, {self.flops} operations, {self.scratch} bytes of scratch a grid point"
        return "\n".join([f"{self.name}: {cost}", *(f"  {nest}" for nest in self.nests)])


def analyse(function: func.FuncOp) -> Kernel:
    """The facts about a kernel, from its body."""
    domains = DOMAINS.of(function)
    kernel_ops: list[list[KernelOp]] = [[] for _ in domains]
    for op in function.body.block.ops:
        if not is_scaffold(op) and not isinstance(op, func.ReturnOp):
            assert isinstance(op, linalg.GenericOp | linalg.MatmulOp), f"{op.name} in a kernel"
            at = LOOP_NEST.of(op)
            kernel_ops[at].append(_kernel_op(op, domains[at]))
    varying = VARYING.of(function) or ((),) * len(domains)
    parts = zip(domains, kernel_ops, varying, strict=True)
    nests = tuple(LoopNest(d, tuple(s), grid_of(d, s), v, i) for i, (d, s, v) in enumerate(parts))
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    arguments, results = list[SSAValue](function.body.block.args), list(end.arguments)
    numbers = [(i, number_of(v)) for i, v in enumerate(results)]
    fills = tuple((i, n) for i, n in numbers if n is not None)
    return Kernel(function, arguments, results, nests, GRID.of(function), fills)


def resized(kernel: Kernel) -> Kernel:
    """The analysis of a kernel whose sizes alone have changed; its ops are the same."""
    nests = zip(kernel.nests, DOMAINS.of(kernel.function), strict=True)
    return replace(kernel, nests=tuple([nest.at(domain) for nest, domain in nests]))


def number_of(value: SSAValue) -> Number | None:
    """The constant that a scalar is or a tensor is filled with; None if it is not known."""
    owner = value.owner
    if isinstance(owner, linalg.FillOp):
        return number_of(owner.operands[0])
    if not isinstance(owner, arith.ConstantOp):
        return None
    attribute: Any = owner.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        known = attribute.data.data and attribute.is_splat()  # an empty one has no elements
        return attribute.get_values()[0] if known else None
    return attribute.value.data


def byte_count(value: SSAValue) -> int:
    """The size of a tensor in bytes."""
    return math.prod(shape_of(value)) * dtype_of(value).itemsize


def locations(ops: Iterable[Operation]) -> list[Location]:
    """The user's source lines that operations come from, each once."""
    return list(dict.fromkeys(where for op in ops for where in locations_of(op)))


def _operator(op: Operation) -> str:
    name = op.attributes.get("hybrid.operator")
    return cast(StringAttr, name).data if name is not None else op.name


def _kernel_op(op: linalg.GenericOp | linalg.MatmulOp, domain: Shape) -> KernelOp:
    loops = _numbered(AXES.of(op), len(domain))
    *read, axes = [tuple(loops[place] for place in places) for places in places_of(op)]
    reduced = tuple(sorted(set(loops) - set(axes)))
    affine = affine_operands(op)
    operands = enumerate(zip(op.inputs, read, strict=True))
    reads = tuple(_affine_read(v, affine[i], loops) if i in affine else Read(v, p) for i, (v, p) in operands)
    end = op.regions[0].block.last_op
    assert end is not None
    if any(a >= len(domain) for a in reduced):
        return KernelOp(op, "contraction", reads, axes, reduced, cast(Operation, end.operands[0].owner))
    if not any(kind is IteratorType.REDUCTION for kind in _kinds(op)):
        return KernelOp(op, "elementwise", reads, axes, (), None)
    combine = end.operands[0].owner
    assert isinstance(combine, Operation)
    return KernelOp(op, "column" if 0 in reduced else "row", reads, axes, reduced, combine)


def _affine_read(value: SSAValue, index: tuple[AffineIndex, ...], loops: Axes) -> Read:
    """An affine read: indices are sums of axes."""
    indices = tuple(affine.renamed(loops.__getitem__) for affine in index)
    return Read(value, tuple(dict.fromkeys(a for affine in indices for a, _ in affine.terms)), indices)


def _kinds(op: linalg.GenericOp | linalg.MatmulOp) -> list[IteratorType]:
    return [k.data for k in op.get_iterator_types()]


def _numbered(axes: Axes, rank: int) -> Axes:
    """The axes of the loops; loops without an axis are numbered from ``rank`` on."""
    numbered: list[int] = []
    for axis in axes:
        numbered.append(axis if axis >= 0 else rank)
        rank += axis < 0
    return tuple(numbered)


def grid_of(domain: Shape, kernel_ops: list[KernelOp]) -> int:
    """Number of leading axes that are parallel in every op but column reductions whose results leave the nest."""
    inside = {r.value for s in kernel_ops for r in s.reads}
    grid = len(domain)
    for kernel_op in kernel_ops:
        if kernel_op.kind == "row" or (kernel_op.kind == "column" and kernel_op.result in inside):
            grid = min(grid, *kernel_op.reduced)
    return grid


# --- definitions of values --------------------------------------------------------------------------------------------


class Sources:
    """Definitions of a loop nest's values, followed through ops and their bodies."""

    def __init__(self, nest: LoopNest) -> None:
        self.maps = {s.result: s for s in nest.ops if s.kind == "elementwise"}

    def source(self, value: SSAValue) -> SSAValue:
        """The operation of a body that defines a value, or the tensor that it is an element of."""
        while True:
            kernel_op = self.maps.get(value)
            if kernel_op is not None:
                value = yielded(kernel_op)
                continue
            block = value.owner
            kernel_op = None if not isinstance(block, Block) else self._kernel_op(block)
            if kernel_op is None:
                return value
            value = kernel_op.reads[kernel_op.op.regions[0].block.args.index(value)].value  # pyright: ignore[reportArgumentType]

    def _kernel_op(self, block: Block) -> KernelOp | None:
        return next((s for s in self.maps.values() if s.op.regions[0].block is block), None)


def yielded(kernel_op: KernelOp) -> SSAValue:
    """The value that the body of an op yields."""
    return cast(linalg.YieldOp, kernel_op.op.regions[0].block.last_op).operands[0]


def constants_of(kernel: Kernel) -> list[Number] | None:
    """The constants that its results are filled with, if a kernel does nothing else."""
    yields = {s.result: yielded(s) for s in kernel.ops if s.kind == "elementwise"}
    fills = [number_of(yields.get(v, v)) for v in kernel.results]
    numbers = [fill for fill in fills if fill is not None]
    return numbers if len(numbers) == len(fills) else None


def combines(kernel_op: KernelOp, kind: type[Operation], start: float) -> bool:
    """Whether an op is a plain reduction: it combines the elements read, from this initial value."""
    plain = isinstance(kernel_op.combine, kind) and len(kernel_op.steps) == 1 and len(kernel_op.reads) == 1
    return plain and number_of(kernel_op.op.operands[-1]) == start


def is_power(sources: Sources, value: SSAValue, score: SSAValue, peak: SSAValue) -> bool:
    """Whether a value is exp(score - peak), or of this difference over a positive constant."""
    op = value.owner
    if not isinstance(op, functions.ExpOp):
        return False
    difference = sources.source(op.operands[0]).owner
    if isinstance(difference, arith.DivfOp | arith.MulfOp):
        factor = number_of(sources.source(difference.operands[1]))
        if factor is None or not 0 < factor < math.inf:
            return False
        difference = sources.source(difference.operands[0]).owner
    return isinstance(difference, arith.SubfOp) and [sources.source(v) for v in difference.operands] == [score, peak]


class AnalysedKernels:
    """The kernels of a module; each is analysed once."""

    def __init__(self) -> None:
        self._kernels: dict[func.FuncOp, Kernel] = {}
        self._lines: dict[func.FuncOp, list[Location]] = {}

    def resized(self) -> None:
        """Kernels have other sizes from now on; all else about them is the same."""
        self._kernels = {function: resized(kernel) for function, kernel in self._kernels.items()}

    def kernel(self, function: func.FuncOp) -> Kernel:
        """The analysis of a kernel."""
        if function not in self._kernels:
            self._kernels[function] = analyse(function)
        return self._kernels[function]

    def lines(self, kernel: Kernel) -> list[Location]:
        """The user's source lines of a kernel."""
        if kernel.function not in self._lines:
            self._lines[kernel.function] = kernel.locations
        return self._lines[kernel.function]


# --- scalar operations and constants, as all targets read them --------------------------------------------------------
#
# The signedness of integer operations, the values that a dtype holds, the neutral elements of reductions.
#
# Upstream integers are signless; the operations for which it matters carry the sign in their names.


FLOAT_CASTS = (arith.ExtFOp, arith.TruncFOp)
CASTS = frozenset(
    f"arith.{n}" for n in ("extf", "truncf", "sitofp", "uitofp", "fptosi", "fptoui", "extsi", "extui", "trunci")
)

# The neutral elements that are not the least or the greatest value of the dtype.
_NEUTRAL = {"add": 0, "mul": 1, "or": 0, "and": -1, "xor": 0}


def signedness(op: str) -> str | None:
    """The signedness of an operation, named with its predicate: ``i`` signed, ``u`` unsigned, None if either."""
    known = OPERATIONS.get(op)
    return known.reads or None if known is not None else None


def signed_as(dtype: DType, kind: str | None) -> DType:
    """The integer dtype of the same size with that signedness; other dtypes as they are."""
    if kind is None or dtype.kind not in "iu":
        return dtype
    return np.dtype(f"{'u' if kind == 'u' else ''}int{dtype.itemsize * 8}")


def constant_as(value: Number, dtype: DType) -> Number:
    """A constant as the dtype holds it: integers wrap, floats have the shortest decimal text that reads back."""
    if dtype.kind == "b":
        return bool(value)
    if dtype in STORED:  # their text is short already
        return float(dtype.type(value))
    if dtype.kind == "f":
        return float(str(dtype.type(value)))
    return np.asarray(int(value) & (2**64 - 1), np.uint64).astype(dtype).item()


def neutral(combine: str, dtype: DType) -> Number:
    """The neutral element of a reduction by ``add``, ``mul``, ``max``, ``min``, ``or``, ``and`` or ``xor``."""
    if combine in _NEUTRAL:
        return constant_as(_NEUTRAL[combine], dtype)
    greatest = combine == "min"
    if is_float(dtype):
        return math.inf if greatest else -math.inf
    if dtype.kind == "b":
        return greatest
    limits = np.iinfo(dtype)
    return int(limits.max if greatest else limits.min)


def combining(op: str) -> str:
    """The combining function of an operation: ``add``, ``mul``, ``max``, ``min``, ``or``, ``and`` or ``xor``."""
    known = OPERATIONS.get(op)
    if known is None or not known.combines:
        names = sorted(o.name for o in OPERATIONS.values() if o.combines)
        raise UnsupportedError(f"reduction by {op} is not supported; use one of {', '.join(names)}")
    return known.combines


def neutral_of(op: str, dtype: DType) -> Number:
    """The neutral element of a reduction by an operation, as the dtype holds it."""
    return constant_as(neutral(combining(op), signed_as(dtype, signedness(op))), dtype)
