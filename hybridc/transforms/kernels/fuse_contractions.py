"""Put contractions that share a grid into one kernel, with the rows between them: attention, and its backward.

Along some axes, the *grid*, a contraction, the row reductions and maps of what it gives, and the contractions of these
need nothing of each other's points: of attention the batches, the heads and, forward, the queries. One kernel then goes
from point to point (or from tile to tile, as the target wants), and what lies between the contractions, such as scores
of all queries with all keys, is never in memory as a whole. ``hybrid.grid`` of the kernel says which axes these are
(:mod:`hybridc.ir.grid_kernel`). Found by what operations read and make: nothing here knows attention.

It pays where what lies between is larger than a cache, and where the operands of contractions follow the grid: else
each point would read a matrix again that a single contraction reads once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FunctionType, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.dialects.mlir.integer_array import integer_array
from hybridc.ir.costs import OF_CORE
from hybridc.ir.grid_kernel import followed
from hybridc.ir.kernel import Axes, Kernel, KernelOp, analyse, byte_count
from hybridc.ir.loop_nest_plan import indexed_axes
from hybridc.ir.structured import dtype_of, is_host, kernels, note_dtypes
from hybridc.ir.values import functions
from hybridc.transforms.structured.fuse_kernels import KernelOutliner, depends_on, kernel_name

# Points of the grid that are enough for most processors' threads.
POINTS = 8


@dataclass(frozen=True)
class FuseContractions(ModulePass):
    """See the module's docstring."""

    name = "fuse-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuser = _Fuser(op)
        for function in functions(op):
            if function.sym_visibility is None:
                fuser.fuse(function)
        called = {c.callee.string_value() for f in functions(op) for c in _calls(f)}
        for name in fuser.fused - called:
            Rewriter.erase_op(fuser.kernels[name].function)


def _calls(function: func.FuncOp) -> list[func.CallOp]:
    return [op for block in function.body.blocks for op in block.ops if isinstance(op, func.CallOp)]


@dataclass(frozen=True, eq=False)
class _Member:
    """A call of a kernel in a group; ``axes`` are, by axes of the middle's domain, those of its own."""

    call: func.CallOp
    kernel: Kernel
    axes: dict[int, int]

    @property
    def ops(self) -> Sequence[KernelOp]:
        return self.kernel.nests[0].ops


class _Fuser:
    """Finds the groups of a module's functions, and makes a kernel of each."""

    def __init__(self, module: ModuleOp) -> None:
        self.kernels = {name: analyse(f) for name, f in kernels(module).items() if not is_host(f)}
        self.outliner = KernelOutliner(module)
        self.fused: set[str] = set()

    def fuse(self, function: func.FuncOp) -> None:
        """Fuse what belongs together in a function, from front to back."""
        for call in _calls(function):
            if call.parent is None or (middle := self._middle(call)) is None:
                continue
            before, after = self._before(middle), self._after(middle)
            grid = _grid(middle, before, after) if before and after else ()
            members = [*before, middle, *after]
            if grid and self._pays(grid, middle, before):
                self._replace(members, grid)

    # --- what belongs together -----------------------------------------------------------------------------

    def _middle(self, call: func.CallOp) -> _Member | None:
        """A call that computes rows and elements, as what may lie between contractions."""
        kernel = self.kernels.get(call.callee.string_value())
        if kernel is None or len(kernel.nests) != 1 or kernel.nests[0].contraction is not None or kernel.fills:
            return None
        nest = kernel.nests[0]
        return None if _is_scattered(nest.ops) else _Member(call, kernel, {a: a for a in range(len(nest.domain))})

    def _contraction(self, call: Operation) -> Kernel | None:
        """The kernel of a call that is a contraction with, perhaps, what follows it."""
        kernel = self.kernels.get(call.callee.string_value()) if isinstance(call, func.CallOp) else None
        if kernel is None or len(kernel.nests) != 1 or kernel.nests[0].contraction is None or kernel.fills:
            return None
        return None if _is_scattered(kernel.ops) else kernel

    def _before(self, middle: _Member) -> list[_Member]:
        """The contractions whose results the middle alone reads."""
        found: list[_Member] = []
        for number, value in enumerate(middle.call.arguments):
            call = value.owner
            kernel = self._contraction(call) if isinstance(call, Operation) else None
            used_elsewhere = any(u.operation is not middle.call for u in value.uses)
            if kernel is None or len(kernel.results) != 1 or used_elsewhere:
                continue
            argument = middle.kernel.arguments[number]
            places = {r.axes for s in middle.ops for r in s.reads if r.value is argument}
            made = next(s for s in kernel.ops if s.result is kernel.results[0])
            if len(places) == 1 and isinstance(call, func.CallOp):
                found.append(_Member(call, kernel, dict(zip(places.pop(), made.axes, strict=True))))
        return found

    def _after(self, middle: _Member) -> list[_Member]:
        """The contractions that read what the middle makes."""
        found: dict[func.CallOp, _Member | None] = {}
        made = {s.result: s for s in middle.ops}
        for result, value in zip(middle.kernel.results, middle.call.results, strict=True):
            for use in value.uses:
                call = use.operation
                kernel = self._contraction(call)
                if kernel is None or not isinstance(call, func.CallOp):
                    continue
                argument = kernel.arguments[use.index]
                places = [r.axes for s in kernel.ops for r in s.reads if r.value is argument]
                axes = dict(zip(made[result].axes, places[0], strict=True)) if len(places) == 1 else {}
                found[call] = None if call in found else _Member(call, kernel, axes)
        return [m for m in found.values() if m is not None and m.axes]

    def _pays(self, grid: Axes, middle: _Member, before: Sequence[_Member]) -> bool:
        """Whether a kernel of all is better than one of each."""
        batch = [middle.kernel.nests[0].domain[a] for a in grid]
        if math.prod(batch) < POINTS:
            return False
        values = [m.call.results[0] for m in before]
        return any(byte_count(v) >= OF_CORE for v in values)

    # --- the kernel ----------------------------------------------------------------------------------------

    def _replace(self, members: Sequence[_Member], grid: Axes) -> None:
        """Call one kernel in the place of some calls, unless one needs another by way of what is no such call."""
        calls = [m.call for m in members]
        inside = set[Operation](calls)
        inputs = list(dict.fromkeys(v for c in calls for v in c.arguments if v.owner not in inside))
        made = [v for c in calls for v in c.results]
        outputs = [v for v in made if any(u.operation not in inside for u in v.uses)]
        if depends_on(inputs, inside):
            return
        block = Block(arg_types=[v.type for v in inputs])
        values: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
        for number, member in enumerate(members):
            _copy_body(member, number, values, block)
        block.add_op(func.ReturnOp(*[values[v] for v in outputs]))
        ops = [op for op in block.ops if "hybrid.axes" in op.attributes]
        kind = FunctionType.from_lists([v.type for v in inputs], [v.type for v in outputs])
        kernel = func.FuncOp(kernel_name(ops), kind, Region(block), visibility="private")
        domains = [integer_array(m.kernel.nests[0].domain) for m in members]
        kernel.attributes["hybrid.domains"] = ArrayAttr(domains)
        axes = [DenseArrayBase.from_list(i64, [m.axes[a] for a in grid]) for m in members]
        kernel.attributes["hybrid.grid"] = ArrayAttr(axes)
        note_dtypes(kernel, [dtype_of(v) for v in (*inputs, *outputs)])
        kernel.location = fused_location(ops)
        parent = calls[0].parent
        assert parent is not None
        self.outliner.call(kernel, inputs, outputs, parent)
        for each in reversed(calls):
            Rewriter.erase_op(each)
        self.fused |= {m.kernel.name for m in members}


def _is_scattered(kernel_ops: Iterable[KernelOp]) -> bool:
    """Whether something is read at other indices than those of axes."""
    return any(s.indirect or any(r.index for r in s.reads) for s in kernel_ops)


def _grid(middle: _Member, before: Sequence[_Member], after: Sequence[_Member]) -> Axes:
    """The axes of the middle's domain along which no point needs another; none if operands do not follow them.

    First those that all operands of the contractions follow, then the others.
    """
    (nest,) = middle.kernel.nests
    results = set(middle.kernel.results)
    walked = {a for s in nest.ops for a in s.reduced} | indexed_axes(nest.ops)
    found = [a for a, n in enumerate(nest.domain) if n != 1 and a not in walked]
    found = [a for a in found if all(a in s.axes for s in nest.ops if s.result in results)]
    for member in (*before, *after):
        made = [s for s in member.ops if s.result in member.kernel.results]
        indexed = indexed_axes(member.ops)
        own = [(a, member.axes.get(a)) for a in found]
        found = [a for a, own_axis in own if own_axis not in indexed and all(own_axis in s.axes for s in made)]
    batch = [a for a in found if all(_follow(m, a) for m in (*before, *after))]
    grid = (*batch, *(a for a in found if a not in batch))
    return grid if batch and all(_is_one_place(m, grid) for m in (*before, middle, *after)) else ()


def _follow(member: _Member, axis: int) -> bool:
    """Whether both operands of a contraction follow an axis of the grid."""
    contraction = member.kernel.nests[0].contraction
    assert contraction is not None
    return all(member.axes[axis] in r.axes for r in contraction.reads)


def _is_one_place(member: _Member, grid: Axes) -> bool:
    """Whether each value that a nest reads follows the grid in one way."""
    axes = tuple(member.axes[a] for a in grid)
    places: dict[SSAValue, set[tuple[int | None, ...]]] = {}
    for kernel_op in member.ops:
        for read in kernel_op.reads:
            places.setdefault(read.value, set()).add(followed(read.axes, axes))
    return all(len(p) == 1 for p in places.values())


def _copy_body(member: _Member, number: int, values: dict[SSAValue, SSAValue], block: Block) -> None:
    """Copy a kernel's operations, as a nest with this number; ``values`` of calls are what the new kernel has."""
    kernel = member.kernel
    known = dict(zip(kernel.arguments, [values[v] for v in member.call.arguments], strict=True))
    for op in kernel.function.body.block.ops:
        if isinstance(op, func.ReturnOp):
            values.update(zip(member.call.results, [known[v] for v in op.arguments], strict=True))
            continue
        copy = op.clone(known)
        copy.location = op.location
        if number and "hybrid.axes" in op.attributes:
            copy.attributes["hybrid.loop_nest"] = IntegerAttr(number, i64)
        block.add_op(copy)
        known.update(zip(op.results, copy.results, strict=True))
