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

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import HALVES, element_kind
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import row_major
from hybridc.ir.attention import Attention, GridContraction
from hybridc.ir.kernels.kernel import Axes, KernelOp, KernelValue, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.online_reductions import OnlinePair, OnlineSoftmax
from hybridc.ir.tiles.tile_program import (
    Address,
    Dims,
    Factor,
    TileBound,
    TileCarry,
    TileConfig,
    TileDim,
    TileInside,
    TileLaunch,
    TileStore,
    TileSweep,
    TileUpdate,
)
from hybridc.transforms.schedules.blocks.kernel_memory import KernelMemory, Strides
from hybridc.transforms.schedules.blocks.tile_blocks import TileStatements
from hybridc.transforms.schedules.blocks.tile_machine import multiplied_side

# The dimensions of tiles: what is a program's own, what it walks, and then columns of what is multiplied.
_OWN, _OTHER = 0, 1
_BOTH = (_OWN, _OTHER)


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
    launches = [_Scheduler(attention, memory, choices, i == 0).launch() for i, choices in enumerate(configs)]
    return launches, memory


@dataclass(eq=False)
class _Scheduler:
    """Makes one launch; ``by_rows`` says that a program has rows and walks keys."""

    attention: Attention
    memory: KernelMemory
    configs: Sequence[TileConfig]
    by_rows: bool

    def __post_init__(self) -> None:
        attention, kernel = self.attention, self.attention.kernel
        # The index space: the axes of the middle, one for what has one element, then columns.
        self.sizes = [*attention.middle.domain, 1]
        rows, keys = (axes or self._axes((1,)) for axes in (attention.rows, attention.keys))
        sides = ((rows, "bm"), (keys, "bk")) if self.by_rows else ((keys, "bk"), (rows, "bm"))
        (self.own, _), (self.other, _) = sides
        own, other = (
            TileDim(axes, block, "grid", any(self._extent(axes) % dict(c.blocks)[block] for c in self.configs))
            for axes, block in sides
        )
        # Where masks hide keys beyond rows, programs with the most to do, of the last rows, come first.
        by = attention.hidden
        bound = None if by is None else TileBound(_OWN, by, self.by_rows)
        own = replace(own, backwards=by is not None and self.by_rows)
        self.dims = [own, replace(other, walk="loop", bound=bound)]
        self.widths: dict[Shape, int] = {}  # the dimension of columns of each shape
        for contraction in (*attention.producers, *attention.consumers):
            if contraction.sizes not in self.widths:
                self.widths[contraction.sizes] = len(self.dims)
                side = multiplied_side(contraction.width)
                axes = self._axes(contraction.sizes or (1,))
                self.dims.append(TileDim(axes, side, "whole", side != contraction.width))
        self.consumers = [c for c in attention.consumers if len(attention.consumers) == 1 or c.summed & {*self.other}]
        self.kind = element_kind(attention.wide)
        values = (*kernel.arguments, *kernel.results)
        strides = {v: self.memory.strides.get(v) or row_major(v.shape) for v in values}
        self.middle = self._plan(attention.middle, {a: a for a in range(len(attention.middle.domain))})
        self.text = TileStatements(self.middle, values=self.memory.names, stepped=strides)
        self.operands: list[str] = []  # of the program's own rows or keys

    def _axes(self, sizes: Shape) -> Axes:
        self.sizes += sizes
        return tuple(range(len(self.sizes) - len(sizes), len(self.sizes)))

    def _extent(self, axes: Axes) -> int:
        return math.prod(self.sizes[a] for a in axes)

    def _plan(self, nest: LoopNest, merged: Mapping[int, int]) -> LoopNestPlan:
        """A nest in the index space: axes of one element are those of no other."""
        everywhere, single = tuple(range(len(self.sizes))), len(self.attention.middle.domain)
        axes = {**dict.fromkeys(range(-1, len(nest.domain)), single), **merged}
        return LoopNestPlan(nest, tuple(self.sizes), axes, everywhere, (), False, frozenset())

    def _in_nest(self, of: GridContraction, side: int) -> None:
        """Write statements about the nest of a contraction from now on, on tiles of its columns and of a side."""
        width = self.widths[of.sizes]
        merged = {axis: a for a, axis in of.where.items()} | dict(zip(of.own, self.dims[width].axes, strict=False))
        self.text.plan, self.text.on = self._plan(of.nest, merged), (side, width)

    def _in_middle(self) -> None:
        self.text.plan, self.text.on = self.middle, _BOTH

    def _address(self, value: KernelValue, axes: Axes, on: Dims) -> Address:
        """The address of a tile of a value, filled along all these dimensions, also where there is one element."""
        address = self.text.element_at(value, axes)
        alone = [a for i in on for a in self.dims[i].axes if self.sizes[a] == 1 and a not in address.axes]
        return Address(address.buffer, (*address.terms, *((a, Factor(0)) for a in alone)), address.offset)

    # --- the program ---------------------------------------------------------------------------------------

    def launch(self) -> TileLaunch:
        """The launch."""
        attention, text, softmax = self.attention, self.text, self.attention.softmax
        self.operands = [self._operand(c, _OWN) for c in attention.producers]
        self._in_middle()
        sofar = ("", "")
        if softmax is not None:
            sofar = self._carry(-math.inf, _OTHER), self._carry(0.0, _OTHER)
        else:
            self._before()
        totals = [self._carry(0.0, self.widths[c.sizes]) for c in self.consumers]
        sweeps = [self._sweep()]
        known, loaded = dict(text.known), dict(text.loaded)
        for contraction, own in zip(attention.producers, self.operands, strict=True):
            other, columns = self._operand(contraction, _OTHER), self.dims[self.widths[contraction.sizes]].axes
            dtypes = contraction.dtype, contraction.wide
            text.known[contraction.kernel_op.result] = text.contracted(own, other, columns, dtypes)
        self._in_middle()
        if softmax is not None:
            self._online(softmax, sofar, totals[0])
        else:
            self._step(totals)
        sweeps.append(self._sweep(self.other))
        text.known, text.loaded = known, loaded
        if softmax is not None:
            totals = [self._divided(softmax, sofar, totals[0])]
        for contraction, total in zip(self.consumers, totals, strict=True):
            self._end(contraction, total)
        sweeps.append(self._sweep())
        m, n, batches = (attention.extent(axes) for axes in (attention.rows, attention.keys, attention.batch))
        kinds = ("'s gradient of queries", "_queries"), ("'s gradients of keys and values", "_keys")
        what, suffix = ("", "") if softmax is not None else kinds[0 if self.by_rows else 1]
        what = f"attention{what} ({m} rows, {n} keys, {batches} times)"
        return text.launch(what, self.memory, self.dims, sweeps, self.configs, suffix=suffix)

    def _sweep(self, axes: Axes = ()) -> TileSweep:
        """What was written; what is known stays so."""
        statements, self.text.statements = tuple(self.text.statements), []
        return TileSweep(axes, statements)

    def _carry(self, start: float, dim: int) -> str:
        """A value for each of the program's own rows, or keys, and each column."""
        axes = self.own if dim == _OTHER else (*self.own, *self.dims[dim].axes)
        return self.text.add(TileCarry, start, axes, self.kind, (_OWN, dim))

    def _operand(self, contraction: GridContraction, side: int) -> str:
        """A tile of the operand that follows a side: the left one follows rows, the right one keys."""
        left = (side == _OWN) == self.by_rows
        return self._tile(contraction.left if left else contraction.right, contraction, side)

    def _tile(self, read: Read, contraction: GridContraction, side: int) -> str:
        """A tile of an array along a side and columns of a contraction, with zeros beyond them."""
        self._in_nest(contraction, side)
        dims = [self.dims[i] for i in self.text.on]
        limits = [self._extent(d.axes) if d.masked else None for d in dims]
        address = self._address(read.value, read.axes, self.text.on)
        return self.text.factor(address, read.value.dtype, contraction.dtype, limits)

    def _add(self, contraction: GridContraction, left: str, total: str, sofar: str) -> None:
        """Add a consumer's products to its total; ``left`` is its operand that this program has made."""
        text, dtypes = self.text, (contraction.dtype, contraction.wide)
        left = text.converted(left, contraction.left.value.dtype, contraction.dtype)
        right = self._tile(contraction.right, contraction, _OTHER)
        text.write(TileUpdate(total, text.contracted(left, right, self.other, dtypes, sofar)))
        self._in_middle()

    def _ops(self, kernel_ops: Sequence[KernelOp]) -> None:
        for kernel_op in kernel_ops:
            self.text.known[kernel_op.result] = self.text.body(kernel_op)

    # --- attention -----------------------------------------------------------------------------------------

    def _online(self, softmax: OnlineSoftmax, sofar: tuple[str, str], total: str) -> None:
        """Add a tile of scores: where a greater one comes, what there is fades."""
        text = self.text
        self._ops(softmax.before)
        score = text.read(softmax.peak.reads[0])
        if self.dims[_OTHER].masked:
            score = text.add(TileInside, score, -math.inf, self.other, self.kind)
        pair = OnlinePair(softmax.peak, tuple(softmax.powers), softmax.total, True)
        text.rough = self.consumers[0].dtype in HALVES  # what is rounded to half precision needs no more
        factor, power = text.add_powers(pair, score, sofar, filled=True)
        text.rough = False
        text.known[softmax.shares[-1].result] = power
        self._ops((*softmax.beside, *softmax.after))
        left = text.known[softmax.after[-1].result] if softmax.after else power
        self._add(self.consumers[0], left, total, text.map("arith.mulf", total, factor, kind=self.kind))

    def _divided(self, softmax: OnlineSoftmax, sofar: tuple[str, str], total: str) -> str:
        """The division; the maximum and the sum of each row are stored where they are results."""
        text = self.text
        text.known |= {softmax.total.reads[0].value: total, softmax.total.result: sofar[1]}
        self._ops(softmax.shares)
        for kernel_op, name in zip((softmax.peak, softmax.total), sofar, strict=True):
            if kernel_op.result in self.memory.names:
                address = self._address(kernel_op.result, kernel_op.axes, (_OWN,))
                text.write(TileStore(name, address, _BOTH))
        return text.known[softmax.shares[-1].result]

    # --- its backward --------------------------------------------------------------------------------------

    def _before(self) -> None:
        """What does not change along the walk: sums of rows, and maps of the program's own."""
        attention, text = self.attention, self.text
        if self.by_rows:
            self._delta()
        inside = {s.result for s in attention.kernel.ops} - {*self.memory.names}
        for kernel_op in attention.middle.ops:
            walked = {*self.other} & {*self.middle.axes(kernel_op.axes)}
            waits = any(r.value in inside and r.value not in text.known for r in kernel_op.reads)
            if not (walked or waits or kernel_op.indirect):
                self._ops([kernel_op])
                continue
            for read in kernel_op.reads:
                if read.value in attention.kernel.arguments and not {*self.other} & {*self.middle.axes(read.axes)}:
                    text.read(read)

    def _delta(self) -> None:
        """Write the sum of the result times its gradient, for each row, and put it into memory."""
        assert self.attention.delta is not None
        (kernel_op, axes, output), grads, text = self.attention.delta, self.attention.producers[-1], self.text
        rows = self.operands[-1], self._tile(output, grads, _OWN)
        factors = [text.converted(v, grads.dtype, kernel_op.result.dtype) for v in rows]
        product = text.map("arith.mulf", *factors, kind=kernel_op.result.kind)
        columns = self.dims[self.widths[grads.sizes]].axes
        delta = text.known[kernel_op.result] = text.reduced(kernel_op, product, columns, 0.0, filled=True)
        self._in_middle()
        text.write(TileStore(delta, text.element_at(kernel_op.result, axes), _BOTH))

    def _step(self, totals: Sequence[str]) -> None:
        """Write what is done with a tile of rows and keys."""
        text, half = self.text, self.attention.producers[0].dtype in HALVES
        for kernel_op in self.attention.middle.ops:
            if kernel_op.result not in text.known:
                text.rough = half and [step.op for step in kernel_op.steps] == ["math.exp"]
                self._ops([kernel_op])
        text.rough = False
        for contraction, total in zip(self.consumers, totals, strict=True):
            left = text.known[contraction.left.value]
            if self.dims[_OWN].masked or self.dims[_OTHER].masked:
                # What is not there counts for nothing, whatever became of it.
                axes = (*self.own, *self.other)
                left = text.once(TileInside, left, 0.0, axes, contraction.left.value.kind)
            self._add(contraction, left, total, total)

    # --- after the walk ------------------------------------------------------------------------------------

    def _end(self, contraction: GridContraction, total: str) -> None:
        """Write what follows a contraction, and the stores."""
        text = self.text
        self._in_nest(contraction, _OWN)
        text.known, text.loaded = {contraction.kernel_op.result: total}, {}
        for kernel_op in (contraction.kernel_op, *contraction.epilogue):
            if kernel_op is not contraction.kernel_op:
                self._ops([kernel_op])
            if kernel_op.result in self.memory.names:
                address = self._address(kernel_op.result, kernel_op.axes, text.on)
                text.write(TileStore(text.known[kernel_op.result], address, text.on))
