"""Attention as one Triton function: neither scores nor weights are in memory.

A program has a block of rows of one batch and walks the keys in blocks. It keeps, for each row, the greatest score so
far (``peak``), the sum of powers of scores less that (``weight``), and the values summed by these powers (``total``).
Where a greater score comes, what was summed so far fades by the power of the difference. In the end the total is
divided by the weight, and what follows is computed.

A row whose scores are all minus infinity gives NaN, as the definition does; a score of infinity or NaN, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.dialects.mlir.hybrid_rt import UniformOp
from hybridc.dtypes import HALVES
from hybridc.ir.attention_kernel import Attention, attention_of
from hybridc.ir.kernel import Kernel, Read, Stage
from hybridc.ir.structured import dtype_of
from hybridc.lower.triton.attention.attention_loads import (
    PROGRAMS,
    AttentionTile,
    BlockAxis,
    KernelBuffers,
    bytes_beside,
    load,
    padded,
    plan_of,
    precision,
)
from hybridc.lower.triton.attention.attention_random import read_keys, write_stage
from hybridc.lower.triton.blocks import Blocks, Dim, Strides, title
from hybridc.lower.triton.expressions import linalg_body as body
from hybridc.lower.triton.expressions.linalg_body import literal, triton_type
from hybridc.lower.triton.products.product_configs import SHARED
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonPhase, TritonPhases

_NAMES = (
    *("program", "down", "rows", "keys", "keys_down", "terms", "columns", "bm", "bk", "start", "first", "end"),
    *("q", "k", "v", "scores", "peak", "weight", "total", "base"),
)
# By the bytes of what is multiplied, and of a query or a row of values.
TILES = {
    2: {
        128: (
            AttentionTile(128, 64, 4, 3),
            AttentionTile(64, 64, 4, 3),
            AttentionTile(128, 128, 8, 3),
            AttentionTile(32, 64, 4, 3),
            AttentionTile(16, 64, 4, 3),
        ),
        256: (
            AttentionTile(128, 64, 8, 3),
            AttentionTile(64, 64, 4, 3),
            AttentionTile(128, 128, 8, 2),
            AttentionTile(32, 64, 4, 3),
            AttentionTile(16, 64, 4, 3),
        ),
        512: (AttentionTile(64, 32, 8, 2), AttentionTile(32, 32, 4, 2), AttentionTile(16, 32, 4, 2)),
    },
    4: {
        256: (
            AttentionTile(64, 64, 8, 2),
            AttentionTile(64, 32, 4, 2),
            AttentionTile(32, 64, 8, 2),
            AttentionTile(32, 32, 4, 2),
            AttentionTile(16, 32, 4, 2),
        ),
        512: (AttentionTile(64, 32, 8, 2), AttentionTile(32, 32, 4, 2), AttentionTile(16, 32, 4, 2)),
    },
    8: {512: (AttentionTile(32, 16, 8, 2), AttentionTile(16, 16, 4, 2))},
}
# Rows whose words of random numbers are too many for the registers of four warps.
_MANY = 128


def phases_of_attention(
    kernel: Kernel, strides: Mapping[int, Strides], tiles: Sequence[AttentionTile] = ()
) -> TritonPhases | None:
    """The phase of a kernel that is an attention; None if it is not, or its rows are too long for a program.

    ``strides``, in elements, are those of arguments, then results, that may be no plain arrays. ``tiles`` are, if
    given, how programs share the work, instead of what is expected to be fastest.
    """
    attention = attention_of(kernel)
    if attention is None:
        return None
    tiles = tiles or _choice(attention)
    return _AttentionWriter(attention, strides, tiles).phases() if tiles else None


def _choice(attention: Attention) -> list[AttentionTile]:
    """At most four ways, the one expected to be fastest first: large blocks, unless too few programs are left."""
    size = max(attention.scores.dtype.itemsize, attention.sums.dtype.itemsize)
    fitting = [tiles for most, tiles in TILES[size].items() if attention.row <= most]
    if not fitting:
        return []
    tiles = [replace(t, warps=max(t.warps, 8)) if t.rows >= _MANY and _draws(attention) else t for t in fitting[0]]
    m, n = attention.extent(attention.rows), attention.extent(attention.keys)
    batches = attention.extent(attention.batch)
    found = [AttentionTile(min(t.rows, padded(m)), min(t.keys, padded(n)), t.warps, t.stages) for t in tiles]
    found = [t for t in found if _shared(attention, t) <= SHARED] or found[-1:]
    order = sorted(dict.fromkeys(found), key=lambda t: -min(PROGRAMS, math.ceil(m / t.rows) * batches))
    return [t for t in order if n % order[0].keys or not n % t.keys][:4]


def _draws(attention: Attention) -> bool:
    """Whether random numbers are drawn for weights."""
    return any(isinstance(op, UniformOp) for s in (*attention.before, *attention.beside) for op in s.steps)


def _shared(attention: Attention, tile: AttentionTile) -> int:
    """Bytes of shared memory: queries, and, for each stage, keys, values, and what follows rows and keys."""
    terms = padded(math.prod(attention.term_sizes)) * attention.scores.dtype.itemsize
    columns = padded(attention.width) * attention.sums.dtype.itemsize
    read = (*attention.before, *attention.beside)
    beside = bytes_beside(attention.kernel, read, attention.rows, attention.keys)
    return tile.rows * terms + tile.stages * tile.keys * (terms + columns + tile.rows * beside)


class _AttentionWriter:
    """Writes the function for blocks of any of these tiles."""

    def __init__(self, attention: Attention, strides: Mapping[int, Strides], tiles: Sequence[AttentionTile]) -> None:
        kernel = attention.kernel
        self.attention, self.tiles = attention, tiles
        buffers = KernelBuffers(kernel, strides)
        self.strides, self.numbers, self.given = buffers.strides, buffers.numbers, buffers.given
        self.wide = buffers.wide
        self.w = SourceWriter()
        for name in _NAMES:
            self.w.name(name)
        self.m, self.n = attention.extent(attention.rows), attention.extent(attention.keys)
        self.k, self.width = math.prod(attention.term_sizes), attention.width
        rows = Dim("rows", attention.rows, str(self.m), "bm", any(self.m % t.rows for t in tiles))
        keys = Dim("keys", attention.keys, str(self.n), "bk", any(self.n % t.keys for t in tiles))
        columns = Dim(
            "columns", attention.columns, str(self.width), str(padded(self.width)), padded(self.width) != self.width
        )
        below = Dim("rows", tuple(attention.in_sums[a] for a in attention.rows), rows.extent, "bm", rows.masked)
        _, middle, last = kernel.nests
        self.weights = Blocks(plan_of(middle), [rows, keys], self.given, self.strides, self.w)
        self.results = Blocks(plan_of(last), [below, columns], self.given, self.strides, self.w)

    def phases(self) -> TritonPhases:
        """The one phase."""
        attention, kernel = self.attention, self.attention.kernel
        self._places()
        self._begin()
        self.w.line(f"for start in range(0, {self._last()}, bk):")
        with self.w.indented():
            self._keys()
        self._end()
        doc = title(kernel, f"attention ({self.m} rows, {self.n} keys, {attention.extent(attention.batch)} times)")
        pointers = [self.given.values[v] for v in self.given.used]
        source = module(kernel.name, pointers, (), ("bm", "bk"), doc, self.w)
        dtypes = tuple(dtype_of(v) for v in self.given.used)
        function = TritonFunction(kernel.name, source, dtypes, (), ("bm", "bk"))
        configs = tuple(self._config(t) for t in self.tiles)
        buffers = tuple(self.numbers[name] for name in pointers)
        return TritonPhases([TritonPhase(function, buffers, (), configs)])

    def _config(self, tile: AttentionTile) -> Config:
        programs = math.ceil(self.m / tile.rows) * self.attention.extent(self.attention.batch)
        return Config((("bm", tile.rows), ("bk", tile.keys)), (programs, 1, 1), tile.warps, tile.stages)

    # --- before the keys -----------------------------------------------------------------------------------

    def _places(self) -> None:
        """Write which batch and rows a program has; programs of one batch, which read the same keys, are neighbours."""
        w, attention = self.w, self.attention
        w.line(f"program = tl.program_id(0){'.to(tl.int64)' if self.wide else ''}")
        w.line(f"down: tl.constexpr = ({self.m} + bm - 1) // bm")
        index = self.weights.index
        for axis, size in enumerate(attention.shape):
            if size == 1:
                index[axis] = "0"
        rest = "program // down"
        for axis in reversed(attention.batch):
            size = attention.shape[axis]
            last = axis == attention.batch[0]
            index[axis] = w.let("batch", rest if last else f"{rest} % {size}")
            rest = f"{rest} // {size}"
        # Programs with the most to do, those of the last rows if keys beyond them are hidden, come first.
        self.weights.places(0, "program % down * bm + " if attention.hidden is None else f"{self._first()} + ")
        self.results.places(1, "")
        self.results.index |= {attention.in_sums[a]: name for a, name in index.items() if a in attention.in_sums}
        for axis, size in enumerate(self.results.plan.sizes):
            if size == 1:
                self.results.index[axis] = "0"
        w.line(f"terms = tl.arange(0, {padded(self.k)})")

    def _first(self) -> str:
        self.w.line("first = (down - 1 - program % down) * bm")
        return "first"

    def _last(self) -> str:
        """Write behind which key all are hidden from all rows."""
        by = self.attention.hidden
        if by is None:
            return str(self.n)
        self.w.line(f"end = tl.minimum(first + bm{f' + {by}' * bool(by)}, {min(self.n, self.m + by)})")
        return "end"

    def _begin(self) -> None:
        """Write the load of the queries, and what is known before the first key."""
        w, wide = self.w, triton_type(self.attention.wide)
        left = self.attention.scores.left
        where = self.attention.in_scores
        rows, terms = self._loops(left, where, 0, "rows"), self._terms(left, "terms[None, :]")
        self._load("q", left, self.attention.scores.dtype, where, rows, terms)
        w.line(f"peak = tl.full([bm, 1], {literal(-math.inf, self.attention.wide)}, {wide})")
        w.line(f"weight = tl.zeros([bm, 1], {wide})")
        w.line(f"total = tl.zeros([bm, {padded(self.width)}], {wide})")
        read_keys(self.weights, self.attention.kernel.nests[1].stages)

    # --- the keys ------------------------------------------------------------------------------------------

    def _keys(self) -> None:
        """Write what is done with a block of keys."""
        w, attention, blocks = self.w, self.attention, self.weights
        scores, sums, wide = attention.scores, attention.sums, attention.wide
        first = "tl.cast(start, tl.int64)" if self.wide else "start"
        blocks.places(1, f"{first} + ")
        w.line(f"keys_down = {first} + tl.arange(0, bk)[:, None]")
        places = self._loops(scores.right, attention.in_scores, 1, "keys"), self._terms(scores.right, "terms[:, None]")
        self._load("k", scores.right, scores.dtype, attention.in_scores, *places)
        w.line(f"scores = tl.dot(q, k{precision(scores.dtype)}, out_dtype={triton_type(wide)})")
        known = {scores.stage.result: "scores"}
        self._stages(blocks, attention.before, known)
        score = attention.peak.reads[0].value
        name = "scores" if score is scores.stage.result else blocks.known[score]
        mask = blocks.mask([1])
        shown = w.let("shown", f"tl.where({mask}, {name}, {literal(-math.inf, wide)})") if mask else name
        assert attention.peak.combine is not None
        assert attention.total.combine is not None
        highest = body.reduce(attention.peak.combine, shown, 1, wide, w)
        higher = w.let("higher", body.combine(attention.peak.combine, "peak", highest, wide))
        # Of minus infinity less itself nothing is known; of rows of which nothing counts yet, nothing is kept.
        nothing = literal(-math.inf, wide)
        w.line(f"base = tl.where({higher} == {nothing}, {literal(0.0, wide)}, {higher})")
        faded = self._power("peak", "base")
        power = self._power(shown, "base")
        part = body.reduce(attention.total.combine, power, 1, wide, w)
        w.line(f"weight = weight * {faded} + {part}")
        known[attention.shares[-1].result] = power
        self._stages(blocks, (*attention.beside, *attention.after), known)
        given = blocks.known[attention.after[-1].result] if attention.after else power
        places = self._loops(sums.right, attention.in_sums, 1, "keys_down"), self._columns()
        self._load("v", sums.right, sums.dtype, attention.in_sums, *places)
        if dtype_of(sums.left.value) != sums.dtype:
            given = w.let("weights", f"{given}.to({triton_type(sums.dtype)})")
        w.line(f"total = tl.dot({given}, v, total * {faded}{precision(sums.dtype)}, out_dtype={triton_type(wide)})")
        w.line(f"peak = {higher}")

    def _power(self, score: str, peak: str) -> str:
        """Write the power of a score less the peak."""
        attention = self.attention
        steps = [s for stage in attention.powers for s in stage.steps]
        if attention.sums.dtype in HALVES and len(steps) == 2:
            # What is rounded to half precision needs no more than the card's own.
            return self.w.let("power", f"tl.exp({score} - {peak})")
        known = {attention.peak.reads[0].value: score, attention.peak.result: peak}
        self._stages(self.weights, attention.powers, known)
        return self.weights.known[attention.powers[-1].result]

    def _stages(self, blocks: Blocks, stages: Sequence[Stage], known: Mapping[SSAValue, str]) -> None:
        """Write stages, of values that have these names; what they made is known afterwards."""
        blocks.known |= known
        blocks.loaded.clear()
        for stage in stages:
            blocks.known[stage.result] = write_stage(blocks, stage)

    # --- after the keys ------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Write the division, what follows, and the stores."""
        attention, blocks = self.attention, self.results
        power, weight = attention.total.reads[0].value, attention.total.result
        if not blocks.dims[0].axes:  # one row, or column, is left of the block
            self.w.line("total = tl.sum(tl.where(rows < 1, total, 0.0), axis=0, keep_dims=True)")
            self.w.line("weight = tl.sum(tl.where(rows < 1, weight, 0.0), axis=0, keep_dims=True)")
            if attention.peak.result in attention.kernel.results:
                self.w.line("peak = tl.sum(tl.where(rows < 1, peak, 0.0), axis=0, keep_dims=True)")
        if not blocks.dims[1].axes:
            self.w.line("total = tl.sum(tl.where(columns < 1, total, 0.0), axis=1, keep_dims=True)")
        self._stages(self.weights, attention.shares, {power: "total", weight: "weight"})
        blocks.known[attention.sums.stage.result] = self.weights.known[attention.shares[-1].result]
        for stage, name in ((attention.peak, "peak"), (attention.total, "weight")):
            if stage.result in attention.kernel.results:
                self.weights.store(stage, name)
        for stage in (attention.sums.stage, *attention.epilogue):
            if stage is not attention.sums.stage:
                blocks.known[stage.result] = blocks.stage(stage)
            if stage.result in attention.kernel.results:
                blocks.store(stage, blocks.known[stage.result])

    # --- memory --------------------------------------------------------------------------------------------

    def _loops(self, read: Read, where: Mapping[int, int], number: int, counter: str) -> BlockAxis:
        """Rows or keys of an operand, as the dimension with this number of the blocks of weights counts them."""
        dim = self.weights.dims[number]
        axes = (self.attention.rows, self.attention.keys)[number]
        steps = dict(zip(read.axes, self.strides[read.value], strict=True))
        strides = tuple(steps.get(where[a], 0) if a in where else 0 for a in axes)
        sizes = tuple(self.attention.shape[a] for a in axes)
        return BlockAxis(counter, sizes, strides, int(dim.extent) if dim.masked else None)

    def _terms(self, read: Read, counter: str) -> BlockAxis:
        """The axes that scores sum."""
        steps = dict(zip(read.axes, self.strides[read.value], strict=True))
        strides = tuple(steps[a] for a in self.attention.terms)
        return BlockAxis(counter, self.attention.term_sizes, strides, self.k if padded(self.k) != self.k else None)

    def _columns(self) -> BlockAxis:
        """The values' own axes."""
        attention = self.attention
        steps = dict(zip(attention.sums.right.axes, self.strides[attention.sums.right.value], strict=True))
        sizes = tuple(attention.kernel.nests[2].domain[a] for a in attention.columns)
        strides = tuple(steps[a] for a in attention.columns)
        return BlockAxis("columns", sizes, strides, self.width if padded(self.width) != self.width else None)

    def _load(self, name: str, read: Read, dtype: DType, where: Mapping[int, int], *places: BlockAxis) -> None:
        """Write the load of an operand's block, whose places are counted along two dimensions."""
        steps = dict(zip(read.axes, self.strides[read.value], strict=True))
        batch = [(self.weights.index[a], steps.get(where[a], 0) if a in where else 0) for a in self.attention.batch]
        self.w.line(f"{name} = {load(self.given, read.value, dtype, batch, places)}")
