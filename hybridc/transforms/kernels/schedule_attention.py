"""The schedule of attention and its backward: neither scores nor weights, nor their gradients, are in memory.

A program has a tile of rows, or of keys, of one batch (its *own*), and walks the *others*. For each tile of these it
multiplies what gives scores, makes what is between element by element, and adds the contractions of that to its totals.

* Attention: a program has rows. It carries, for each, the greatest score so far, the sum of powers of scores less that
  (an online reduction), and the values summed by these powers, which fade by the same factor. In the end the total is
  divided. A row whose scores are all minus infinity gives NaN, as the definition does; a score of infinity or NaN, too.
* Backward: two programs. In the first a program has rows, and adds up the gradient of its queries; it first writes the
  sum of each row of the result times its gradient, which the second reads. There a program has keys, and adds up the
  gradients of its keys and values; tiles lie on their sides there (keys by rows), so that nothing made has to be
  transposed. Nothing is added to memory: results are the same each time.

Tiles of keys that a causal mask hides from all rows of a program, and of rows that see none of its keys, are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import math as functions
from xdsl.ir import SSAValue

from hybridc.dtypes import HALVES
from hybridc.ir.attention.attention_kernel import Attention, GridContraction
from hybridc.ir.kernel import Axes, Kernel, KernelOp, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.online_reductions import OnlinePair, OnlineSoftmax
from hybridc.ir.scalar_builder import conversion
from hybridc.ir.strides import row_major
from hybridc.ir.structured import DType, Shape, dtype_of, shape_of
from hybridc.ir.tile_launch import TileConfig, TileLaunch
from hybridc.ir.tile_program import (
    Address,
    Dims,
    Factor,
    TileBound,
    TileCarry,
    TileContract,
    TileDim,
    TileInside,
    TileLoad,
    TileProgram,
    TileStore,
    TileSweep,
    TileUpdate,
    verify,
)
from hybridc.options import OPTIONS
from hybridc.transforms.kernels.kernel_memory import KernelMemory, Strides
from hybridc.transforms.kernels.tile_blocks import TileStatements
from hybridc.transforms.kernels.tile_machine import NARROW, multiplied_side
from hybridc.transforms.kernels.tile_statements import kind_of, kind_of_dtype

# What dimensions of tiles are: a program's own, those that it walks, and on: columns of what is multiplied.
_OWN, _OTHER = 0, 1


def schedule_attention(
    attention: Attention, strides: Mapping[int, Strides], configs: Sequence[Sequence[TileConfig]]
) -> tuple[list[TileLaunch], KernelMemory]:
    """The launches of an attention, by rows, or of its backward, by rows and by keys, each in any of its ``configs``.

    Tiles have ``bm`` rows and ``bk`` keys. ``strides``, in elements, are of arguments, then results, that may be no
    plain arrays.
    """
    memory = KernelMemory(attention.kernel, strides)
    if attention.delta is not None:
        memory.materialize(attention.delta[0].result)
    rows = [True, False][: len(configs)]
    return [_Scheduler(attention, memory, c, by).launch() for c, by in zip(configs, rows, strict=True)], memory


def _strides(kernel: Kernel, memory: KernelMemory) -> dict[SSAValue, Strides]:
    return {v: memory.strides.get(v) or row_major(shape_of(v)) for v in (*kernel.arguments, *kernel.results)}


@dataclass(eq=False)
class _Scheduler:
    attention: Attention
    memory: KernelMemory
    configs: Sequence[TileConfig]
    by_rows: bool

    def __post_init__(self) -> None:
        attention = self.attention
        self.sizes = [*attention.middle.domain, 1]
        self.nowhere = len(self.sizes) - 1  # the axis of what has one element
        rows, keys = (axes or self._axes((1,)) for axes in (attention.rows, attention.keys))
        self.own, self.other = (rows, keys) if self.by_rows else (keys, rows)
        self.widths: dict[Shape, int] = {}  # the dimension of tiles for each shape of columns
        self.columns: list[Axes] = []
        for contraction in (*attention.given, *attention.made):
            if contraction.sizes not in self.widths:
                self.widths[contraction.sizes] = _OTHER + 1 + len(self.columns)
                self.columns.append(self._axes(contraction.sizes or (1,)))
        self.alone = {a for axes in (self.own, self.other, *self.columns) for a in axes if self.sizes[a] == 1}
        walked = {*(attention.keys if self.by_rows else attention.rows)}
        self.made = [c for c in attention.made if c.summed & walked or len(attention.made) == 1]
        self.kind = kind_of_dtype(attention.wide)
        self.strides = _strides(attention.kernel, self.memory)
        self.middle = self._plan(attention.middle, {a: a for a in range(len(attention.middle.domain))})
        self.text = TileStatements(self.middle, values=self.memory.names, given=self.strides)
        sides = ((self.own, "bm" if self.by_rows else "bk"), (self.other, "bk" if self.by_rows else "bm"))
        blocks = [dict(c.blocks) for c in self.configs]
        bound = None if attention.hidden is None else TileBound(_OWN, attention.hidden, self.by_rows)
        masks = [any(self._extent(axes) % b[block] for b in blocks) for axes, block in sides]
        # Where keys beyond rows are hidden, programs with the most to do, of the last rows, come first.
        backwards = bound is not None and self.by_rows
        self.dims = [
            TileDim(self.own, sides[0][1], "grid", masks[0], backwards),
            TileDim(self.other, sides[1][1], "loop", masks[1], bound=bound),
        ]
        for axes in self.columns:
            side = multiplied_side(self._extent(axes))
            self.dims.append(TileDim(axes, side, "whole", side != self._extent(axes)))

    # --- the index space: axes of what is between, then columns --------------------------------------------

    def _axes(self, sizes: Shape) -> Axes:
        self.sizes += sizes
        return tuple(range(len(self.sizes) - len(sizes), len(self.sizes)))

    def _extent(self, axes: Axes) -> int:
        found = 1
        for axis in axes:
            found *= self.sizes[axis]
        return found

    def _plan(self, nest: LoopNest, merged: Mapping[int, int]) -> LoopNestPlan:
        everywhere = tuple(range(len(self.sizes)))
        found = {**dict.fromkeys(range(-1, len(nest.domain)), self.nowhere), **merged}
        return LoopNestPlan(nest, tuple(self.sizes), found, everywhere, (), False, frozenset())

    def _plan_of(self, contraction: GridContraction) -> LoopNestPlan:
        columns = self.columns[self.widths[contraction.sizes] - _OTHER - 1]
        merged = {axis: a for a, axis in contraction.where.items()} | dict(zip(contraction.own, columns, strict=False))
        return self._plan(contraction.nest, merged)

    def _at(self, plan: LoopNestPlan, on: Dims) -> None:
        """Write statements about the axes of a nest from now on, on tiles that lie on these dimensions."""
        self.text.plan, self.text.on = plan, on

    def _address(self, value: SSAValue, axes: Axes) -> Address:
        """The address of a tile of a value, which is filled also along dimensions of one element."""
        found = self.text.element_at(value, axes)
        alone = [a for i in self.text.on for a in self.dims[i].axes if a in self.alone and a not in found.axes]
        return Address(found.buffer, (*found.terms, *((a, Factor(0)) for a in alone)), found.offset)

    # --- the program ---------------------------------------------------------------------------------------

    def launch(self) -> TileLaunch:
        """The launch."""
        attention, text = self.attention, self.text
        softmax = attention.softmax
        self.operands = [self._operand(c, self.by_rows) for c in attention.given]
        peak = weight = ""
        self._at(self.middle, (_OWN, _OTHER))
        if softmax is not None:
            peak, weight = (self._carry(number, _OTHER) for number in (-float("inf"), 0.0))
        else:
            self._before()
        totals = [self._carry(0.0, self.widths[c.sizes]) for c in self.made]
        sweeps = [self._sweep()]
        known, loaded = dict(text.known), dict(text.loaded)
        self._at(self.middle, (_OWN, _OTHER))
        if softmax is not None:
            self._online(softmax, (peak, weight), totals[0])
        else:
            self._step(totals)
        sweeps.append(self._sweep(self.other))
        text.known, text.loaded = known, loaded
        if softmax is not None:
            totals = [self._divided(softmax, (peak, weight), totals[0])]
        for contraction, total in zip(self.made, totals, strict=True):
            self._end(contraction, total)
        sweeps.append(self._sweep())
        return self._launch(sweeps)

    def _launch(self, sweeps: Sequence[TileSweep]) -> TileLaunch:
        attention, text = self.attention, self.text
        inner = tuple(a for dim in self.dims if dim.walk != "grid" for a in dim.axes)
        parallel = tuple(a for a in range(len(self.sizes)) if a not in inner)
        buffers, sizes = tuple(text.called.values()), tuple(self.sizes)
        program = TileProgram(buffers, sizes, parallel, tuple(sweeps), inner=inner, tiles=tuple(self.dims))
        if OPTIONS.verify:
            verify(program)
        m, n, batches = (attention.extent(axes) for axes in (attention.rows, attention.keys, attention.batch))
        what, suffix = "attention", ""
        if attention.softmax is None:
            what += f"'s {'gradient of queries' if self.by_rows else 'gradients of keys and values'}"
            suffix = "_queries" if self.by_rows else "_keys"
        what += f" ({m} rows, {n} keys, {batches} times)"
        dtypes = tuple(self.memory.dtypes[name] for name in text.buffers)
        far = [sum(abs(s) * (n - 1) for n, s in zip(shape_of(v), s, strict=True)) for v, s in self.strides.items()]
        wide = max(far) >= NARROW
        return TileLaunch(
            what, program, tuple(text.buffers), dtypes, sizes, tuple(self.configs), wide=wide, suffix=suffix
        )

    def _sweep(self, axes: Axes = ()) -> TileSweep:
        """What was written; what is known stays so."""
        statements = tuple(self.text.statements)
        self.text.statements = []
        return TileSweep(axes, statements)

    def _carry(self, number: float, dim: int) -> str:
        """A value for each of the program's own rows, or keys, and each column."""
        axes = self.own if dim == _OTHER else (*self.own, *self.dims[dim].axes)
        return self.text.add(TileCarry, number, axes, self.kind, (_OWN, dim))

    # --- statements ----------------------------------------------------------------------------------------

    def _operand(self, contraction: GridContraction, rows: bool) -> str:
        """A tile of the operand of a contraction that follows rows, or of the one that follows keys."""
        read = contraction.left if rows else contraction.right
        return self._tile(read, contraction, rows)

    def _tile(self, read: Read, contraction: GridContraction, rows: bool) -> str:
        """A tile of an array that follows rows, or keys, and columns of a contraction, with zeros beyond them."""
        on = (_OWN if rows == self.by_rows else _OTHER, self.widths[contraction.sizes])
        self._at(self._plan_of(contraction), on)
        limits = tuple(self._extent(self.dims[i].axes) if self.dims[i].masked else None for i in on)
        given = limits if any(end is not None for end in limits) else ()
        found = self.text.once(TileLoad, self._address(read.value, read.axes), kind_of(read.value), on, given, 0.0)
        return self._as(found, dtype_of(read.value), contraction.dtype)

    def _as(self, value: str, source: DType, target: DType) -> str:
        if source == target:
            return value
        return self.text.map(conversion(source, target), value, kind=kind_of_dtype(target))

    def _contract(self, left: str, right: str, over: Axes, contraction: GridContraction, sofar: str | None) -> str:
        rounded = OPTIONS.tf32 and kind_of_dtype(contraction.dtype) == "f32"
        return self.text.add(TileContract, left, right, over, self.kind, sofar, rounded)

    def _add(self, contraction: GridContraction, left: str, total: str, sofar: str) -> None:
        """Add the contraction of what was made to its total."""
        left = self._as(left, dtype_of(contraction.left.value), contraction.dtype)
        right = self._tile(contraction.right, contraction, not self.by_rows)
        self.text.write(TileUpdate(total, self._contract(left, right, self.other, contraction, sofar)))
        self._at(self.middle, (_OWN, _OTHER))

    def _scores(self) -> None:
        """Multiply what the middle is given."""
        for contraction, own in zip(self.attention.given, self.operands, strict=True):
            other = self._operand(contraction, not self.by_rows)
            columns = self.dims[self.widths[contraction.sizes]].axes
            made = self._contract(own, other, columns, contraction, None)
            self.text.known[contraction.kernel_op.result] = made
        self._at(self.middle, (_OWN, _OTHER))

    def _ops(self, kernel_ops: Sequence[KernelOp], rough: bool = False) -> None:
        for kernel_op in kernel_ops:
            self.text.rough = rough
            self.text.known[kernel_op.result] = self.text.body(kernel_op)
            self.text.rough = False

    # --- attention -----------------------------------------------------------------------------------------

    def _online(self, softmax: OnlineSoftmax, sofar: tuple[str, str], total: str) -> None:
        """Add a tile of scores: where a greater one comes, what there is fades."""
        text = self.text
        self._scores()
        self._ops(softmax.before)
        score = text.read(softmax.peak.reads[0])
        if self.dims[_OTHER].masked:
            score = text.add(TileInside, score, -float("inf"), self.other, self.kind)
        pair = OnlinePair(softmax.peak, tuple(softmax.powers), softmax.total, True)
        # What is rounded to half precision needs no more than the GPU's own.
        text.rough = self.made[0].dtype in HALVES
        factor, power = text.add_powers(pair, score, sofar, filled=True)
        text.rough = False
        text.known[softmax.shares[-1].result] = power
        self._ops((*softmax.beside, *softmax.after))
        left = text.known[softmax.after[-1].result] if softmax.after else power
        self._add(self.made[0], left, total, text.map("arith.mulf", total, factor, kind=self.kind))

    def _divided(self, softmax: OnlineSoftmax, sofar: tuple[str, str], total: str) -> str:
        """The division; the maximum and the sum of each row are stored where they are results."""
        text, results = self.text, self.attention.kernel.results
        self._at(self.middle, (_OWN, _OTHER))
        text.known |= {softmax.total.reads[0].value: total, softmax.total.result: sofar[1]}
        self._ops(softmax.shares)
        for kernel_op, name in zip((softmax.peak, softmax.total), sofar, strict=True):
            if kernel_op.result in results:
                text.write(TileStore(name, self._stored(kernel_op), (_OWN, _OTHER)))
        return text.known[softmax.shares[-1].result]

    def _stored(self, kernel_op: KernelOp) -> Address:
        """The address of what is one for each row."""
        found = self.text.element_at(kernel_op.result, kernel_op.axes)
        alone = [a for a in self.own if a in self.alone and a not in found.axes]
        return Address(found.buffer, (*found.terms, *((a, Factor(0)) for a in alone)), found.offset)

    # --- its backward --------------------------------------------------------------------------------------

    def _before(self) -> None:
        """What does not change along the walk: sums of rows, and maps of the program's own."""
        attention, text = self.attention, self.text
        if self.by_rows:
            self._delta()
        for kernel_op in attention.middle.ops:
            if not self._needs_other(kernel_op):
                self._ops([kernel_op])
                continue
            for read in kernel_op.reads:
                if read.value in attention.kernel.arguments and not {*self.other} & {*self.middle.axes(read.axes)}:
                    text.read(read)

    def _needs_other(self, kernel_op: KernelOp) -> bool:
        """Whether a map needs anything that the walk gives."""
        made = {s.result for s in self.attention.kernel.ops} - {*self.memory.names}
        waits = any(r.value in made and r.value not in self.text.known for r in kernel_op.reads)
        return waits or bool(kernel_op.indirect) or bool({*self.other} & {*self.middle.axes(kernel_op.axes)})

    def _delta(self) -> None:
        """Write the sum of the result times its gradient, for each row, and put it into memory."""
        assert self.attention.delta is not None
        (kernel_op, axes), grads, text = self.attention.delta, self.attention.given[-1], self.text
        kept = dict(zip(kernel_op.axes, axes, strict=True))
        gradient = next(r for r in kernel_op.reads if r.value is grads.left.value)
        output = next(r for r in kernel_op.reads if r.value is not grads.left.value)
        # Axes of the contraction of gradient and values: those of maps by way of it, and its terms.
        places = {a: grads.where.get(m, -1) for a, m in kept.items()}
        places |= dict(zip(gradient.axes, grads.left.axes, strict=True))
        read = Read(output.value, tuple(places[a] for a in output.axes))
        kind, wide = kind_of(kernel_op.result), dtype_of(kernel_op.result)
        factors = [self._as(v, grads.dtype, wide) for v in (self.operands[-1], self._tile(read, grads, True))]
        product = text.map("arith.mulf", *factors, kind=kind)
        columns = self.dims[self.widths[grads.sizes]].axes
        delta = text.reduced(kernel_op, product, columns, 0.0, filled=True)
        self._at(self.middle, (_OWN, _OTHER))
        text.write(TileStore(delta, text.element_at(kernel_op.result, axes), text.on))
        text.known[kernel_op.result] = delta

    def _step(self, totals: Sequence[str]) -> None:
        """Write what is done with a tile of rows and keys."""
        text, attention = self.text, self.attention
        self._scores()
        for kernel_op in attention.middle.ops:
            if kernel_op.result not in text.known:
                power = [type(op) for op in kernel_op.steps] == [functions.ExpOp]
                self._ops([kernel_op], power and attention.given[0].dtype in HALVES)
        for contraction, total in zip(self.made, totals, strict=True):
            left = text.known[contraction.left.value]
            if self.dims[_OWN].masked or self.dims[_OTHER].masked:
                # What is not there counts for nothing, whatever became of it.
                axes = (*self.own, *self.other)
                left = text.once(TileInside, left, 0.0, axes, kind_of(contraction.left.value))
            self._add(contraction, left, total, total)

    # --- after the walk ------------------------------------------------------------------------------------

    def _end(self, contraction: GridContraction, total: str) -> None:
        """Write what follows a contraction, and the stores."""
        text, results = self.text, self.attention.kernel.results
        self._at(self._plan_of(contraction), (_OWN, self.widths[contraction.sizes]))
        text.known, text.loaded = {contraction.kernel_op.result: total}, {}
        for kernel_op in (contraction.kernel_op, *contraction.epilogue):
            if kernel_op is not contraction.kernel_op:
                self._ops([kernel_op])
            if kernel_op.result in results:
                text.write(
                    TileStore(text.known[kernel_op.result], self._address(kernel_op.result, kernel_op.axes), text.on)
                )
