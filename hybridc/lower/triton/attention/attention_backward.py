"""The backward of attention as two Triton functions: neither weights nor the gradients of scores are in memory.

Both compute blocks of weights and of gradients of scores, of some rows and some keys. In the first, a program has a
block of rows and walks the keys: it adds up the gradient of its queries. It also writes, once for each row, the sum of
the result times its gradient (``delta``), which the second reads. There, a program has a block of keys, walks the rows,
and adds up the gradients of its keys and values; blocks lie on their sides there (keys by rows), so that nothing made
has to be transposed. Nothing is added to memory: results are the same each time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from xdsl.dialects import math as functions
from xdsl.ir import SSAValue

from hybridc.dtypes import HALVES
from hybridc.ir.attention_kernel import AttentionBackward, Given, Made, attention_backward_of
from hybridc.ir.kernel import Axes, Kernel, Read, Stage
from hybridc.ir.strides import row_major
from hybridc.ir.structured import Shape, dtype_of, shape_of
from hybridc.lower.triton.attention.attention_loads import (
    PROGRAMS,
    AttentionTile,
    BlockAxis,
    KernelBuffers,
    alike,
    bytes_beside,
    load,
    padded,
    plan_of,
    precision,
)
from hybridc.lower.triton.attention.attention_random import read_keys, write_stage
from hybridc.lower.triton.blocks import Blocks, Dim, Strides, title
from hybridc.lower.triton.expressions.linalg_body import triton_type
from hybridc.lower.triton.products.product_configs import SHARED
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonPhase, TritonPhases

_NAMES = (
    "program",
    "down",
    "batch",
    "rows",
    "keys",
    "bm",
    "bk",
    "start",
    "first",
    "begin",
    "end",
    "scores",
    "grads",
    "delta",
)

# By the bytes of what is multiplied, and of the longest row; those of programs with rows, then with keys. The first way
# of each spills on no card.
TILES = {
    2: {
        128: (
            (
                AttentionTile(128, 64, 8, 3),
                AttentionTile(64, 64, 4, 2),
                AttentionTile(128, 32, 4, 3),
                AttentionTile(32, 64, 4, 3),
                AttentionTile(16, 64, 4, 3),
            ),
            (
                AttentionTile(32, 128, 8, 2),
                AttentionTile(64, 128, 8, 3),
                AttentionTile(64, 64, 4, 3),
                AttentionTile(32, 64, 4, 3),
                AttentionTile(32, 16, 4, 3),
            ),
        ),
        256: (
            (
                AttentionTile(128, 32, 8, 2),
                AttentionTile(128, 64, 8, 2),
                AttentionTile(64, 64, 4, 2),
                AttentionTile(32, 32, 4, 2),
                AttentionTile(16, 32, 4, 2),
            ),
            (
                AttentionTile(32, 64, 8, 2),
                AttentionTile(64, 128, 8, 2),
                AttentionTile(64, 64, 8, 2),
                AttentionTile(32, 32, 4, 2),
                AttentionTile(32, 16, 4, 2),
            ),
        ),
        512: (
            (AttentionTile(64, 32, 8, 2), AttentionTile(32, 32, 8, 2), AttentionTile(16, 32, 4, 2)),
            (AttentionTile(32, 32, 8, 2), AttentionTile(16, 64, 8, 2), AttentionTile(32, 16, 4, 2)),
        ),
    },
    4: {
        256: (
            (AttentionTile(64, 32, 8, 2), AttentionTile(32, 32, 4, 2), AttentionTile(16, 32, 4, 2)),
            (AttentionTile(32, 64, 8, 2), AttentionTile(32, 32, 8, 2), AttentionTile(32, 16, 4, 2)),
        ),
        512: (
            (AttentionTile(32, 32, 8, 2), AttentionTile(16, 32, 4, 2), AttentionTile(16, 16, 4, 2)),
            (AttentionTile(32, 32, 8, 2), AttentionTile(16, 32, 8, 2), AttentionTile(32, 16, 8, 2)),
        ),
    },
    8: {512: ((AttentionTile(16, 16, 4, 1),), (AttentionTile(16, 16, 4, 1),))},
}


def phases_of_attention_backward(
    kernel: Kernel,
    strides: Mapping[int, Strides],
    tiles: tuple[Sequence[AttentionTile], Sequence[AttentionTile]] | None = None,
) -> TritonPhases | None:
    """The two phases of a kernel that is the backward of an attention; None if it is not, or its rows are too long.

    ``strides``, in elements, are those of arguments, then results, that may be no plain arrays. ``tiles`` are, if
    given, how programs with rows, and programs with keys, share the work, instead of what is expected to be fastest.
    """
    attention = attention_backward_of(kernel)
    if attention is None:
        return None
    chosen = tiles or _choice(attention)
    if chosen is None:
        return None
    writers = [
        _AttentionBackwardWriter(attention, strides, each, by_rows)
        for each, by_rows in zip(chosen, (True, False), strict=True)
    ]
    delta = math.prod(shape_of(attention.delta.result)) * dtype_of(attention.delta.result).itemsize
    return TritonPhases([w.phase() for w in writers], [delta])


def _choice(attention: AttentionBackward) -> tuple[list[AttentionTile], list[AttentionTile]] | None:
    """At most four ways for both functions, large blocks first, unless too few programs are left."""
    fitting = [tiles for most, tiles in TILES[attention.dtype.itemsize].items() if attention.row <= most]
    if not fitting:
        return None
    m, n = attention.extent(attention.row_axes), attention.extent(attention.key_axes)
    batches = attention.extent(attention.batch)
    found: list[list[AttentionTile]] = []
    for tiles, by_rows in zip(fitting[0], (True, False), strict=True):
        smaller = [AttentionTile(min(t.rows, padded(m)), min(t.keys, padded(n)), t.warps, t.stages) for t in tiles]
        smaller = [t for t in smaller if _shared(attention, t, by_rows) <= SHARED] or smaller[-1:]
        programs = {t: batches * math.ceil(m / t.rows if by_rows else n / t.keys) for t in smaller}
        found.append(alike(sorted(programs, key=lambda t, p=programs: -min(PROGRAMS, p[t])), m, n))
    return found[0], found[1]


def _shared(attention: AttentionBackward, tile: AttentionTile, by_rows: bool) -> int:
    """Bytes of shared memory: what a program has, and, for each stage, what it walks, and arrays that follow both."""
    row = sum(padded(g.width) for g in (attention.scores, attention.grads)) * attention.dtype.itemsize
    own, other = (tile.rows, tile.keys) if by_rows else (tile.keys, tile.rows)
    beside = bytes_beside(attention.kernel, attention.maps.stages, attention.row_axes, attention.key_axes)
    return own * row + tile.stages * other * (row + own * beside)


class _AttentionBackwardWriter:
    """Writes one of the functions; ``by_rows`` says that a program has rows and walks keys."""

    def __init__(
        self,
        attention: AttentionBackward,
        strides: Mapping[int, Strides],
        tiles: Sequence[AttentionTile],
        by_rows: bool,
    ) -> None:
        self.attention, self.tiles, self.by_rows = attention, tiles, by_rows
        buffers = KernelBuffers(attention.kernel, strides, [attention.delta.result])
        self.strides, self.numbers, self.given = buffers.strides, buffers.numbers, buffers.given
        self.wide = buffers.wide
        self.w = SourceWriter()
        for name in _NAMES:
            self.w.name(name)
        rows = self._dim("rows", attention.row_axes, "bm", [t.rows for t in tiles])
        keys = self._dim("keys", attention.key_axes, "bk", [t.keys for t in tiles])
        self.own, self.other = (rows, keys) if by_rows else (keys, rows)
        self.maps = Blocks(plan_of(attention.maps), [self.own, self.other], self.given, self.strides, self.w)
        self.products = (attention.queries,) if by_rows else (attention.values, attention.keys)
        self.counters: dict[int, str] = {}
        self.loaded: dict[str, str] = {}

    def _dim(self, name: str, axes: Axes, block: str, sizes: Sequence[int]) -> Dim:
        extent = self.attention.extent(axes)
        return Dim(name, axes, str(extent), block, any(extent % n for n in sizes))

    def phase(self) -> TritonPhase:
        """The function and what it is given."""
        attention, kernel = self.attention, self.attention.kernel
        self._places()
        self._begin()
        totals = [self.w.let("total", self._zeros(p)) for p in self.products]
        begin, end = self._walk()
        self.w.line(f"for start in range({begin}, {end}, {self.other.block}):")
        with self.w.indented():
            self._step(totals)
        for product, total in zip(self.products, totals, strict=True):
            self._end(product, total)
        what = "gradient of queries" if self.by_rows else "gradients of keys and values"
        m, n = attention.extent(attention.row_axes), attention.extent(attention.key_axes)
        batches = attention.extent(attention.batch)
        doc = title(kernel, f"attention's {what} ({m} rows, {n} keys, {batches} times)")
        pointers = [self.given.values[v] for v in self.given.used]
        name = f"{kernel.name}_{'queries' if self.by_rows else 'keys'}"
        source = module(name, pointers, (), ("bm", "bk"), doc, self.w)
        function = TritonFunction(name, source, tuple(dtype_of(v) for v in self.given.used), (), ("bm", "bk"))
        extent = int(self.own.extent)
        configs = tuple(
            Config(
                (("bm", t.rows), ("bk", t.keys)),
                (math.ceil(extent / (t.rows if self.by_rows else t.keys)) * batches, 1, 1),
                t.warps,
                t.stages,
                _shared(attention, t, self.by_rows),
            )
            for t in self.tiles
        )
        return TritonPhase(function, tuple(self.numbers[name] for name in pointers), (), configs)

    def _zeros(self, product: Made) -> str:
        return f"tl.zeros([{self.own.block}, {padded(product.width)}], {triton_type(self.attention.wide)})"

    # --- before the walk -----------------------------------------------------------------------------------

    def _places(self) -> None:
        """Write which batch, and which rows or keys, a program has, and what counts terms and columns."""
        w, attention, index = self.w, self.attention, self.maps.index
        w.line(f"program = tl.program_id(0){'.to(tl.int64)' if self.wide else ''}")
        w.line(f"down: tl.constexpr = ({self.own.extent} + {self.own.block} - 1) // {self.own.block}")
        for axis, size in enumerate(attention.maps.domain):
            if size == 1:
                index[axis] = "0"
        rest = "program // down"
        for axis in reversed(attention.batch):
            size = attention.maps.domain[axis]
            index[axis] = w.let("at", rest if axis == attention.batch[0] else f"{rest} % {size}")
            rest = f"{rest} // {size}"
        hides = attention.hidden is not None
        # Where keys beyond rows are hidden, programs with the most to do, of the last rows, come first.
        number = "(down - 1 - program % down)" if hides and self.by_rows else "program % down"
        if hides:
            w.line(f"first = {number} * {self.own.block}")
        self.maps.places(0, "first + " if hides else f"{number} * {self.own.block} + ")
        for width in (attention.scores.width, attention.grads.width, *(p.width for p in self.products)):
            if width not in self.counters:
                self.counters[width] = w.let("columns", f"tl.arange(0, {padded(width)})[None, :]")

    def _walk(self) -> tuple[str, str]:
        """Write between which keys, or rows, not all is hidden."""
        by = self.attention.hidden
        if by is None:
            return "0", self.other.extent
        if self.by_rows:
            last = min(int(self.other.extent), int(self.own.extent) + by)
            self.w.line(f"end = tl.minimum(first + bm{f' + {by}' * bool(by)}, {last})")
            return "0", "end"
        self.w.line(f"begin = tl.maximum(first{f' - {by}' * bool(by)}, 0) // bm * bm")
        return "begin", self.other.extent

    def _begin(self) -> None:
        """Write what does not change along the walk: operands of the program's own, and maps of these."""
        attention, blocks = self.attention, self.maps
        self.own_scores, self.own_grads = (
            self._operand(p, self.by_rows, self.own.name) for p in (attention.scores, attention.grads)
        )
        if self.by_rows:
            self._delta()
        read_keys(blocks, attention.maps.stages)
        for stage in attention.maps.stages:
            if self._needs_other(stage):
                for read in stage.reads:
                    if read.value in attention.kernel.arguments and 1 not in blocks.dims_of(read.axes):
                        blocks.read(read)
            else:
                blocks.known[stage.result] = self._stage(stage)

    def _needs_other(self, stage: Stage) -> bool:
        """Whether a map needs anything that the walk gives."""
        made = {s.result for s in self.attention.kernel.stages}
        waits = any(r.value in made and r.value not in self.maps.known for r in stage.reads)
        return waits or bool(stage.anywhere) or 1 in self.maps.dims_of(stage.axes)

    def _delta(self) -> None:
        """Write the sum of the result times its gradient, for each row, and put it into memory."""
        attention = self.attention
        kept = dict(zip(attention.delta.axes, attention.delta_axes, strict=True))
        gradient = next(r for r in attention.delta.reads if r.value is attention.grads.product.left.value)
        columns = dict(zip(gradient.axes, attention.grads.product.left.axes, strict=True))
        # Axes of the product of gradient and values: those of maps by way of it, and its terms.
        places = {a: attention.grads.where.get(m, -1) for a, m in kept.items()} | columns
        read = Read(attention.output.value, tuple(places[a] for a in attention.output.axes))
        o = self._load("o", read, attention.grads.where, self._terms(attention.grads, read), self.own.name, True)
        kind = triton_type(dtype_of(attention.delta.result))
        product = f"{self.own_grads}.to({kind}) * {o}.to({kind})"
        self.w.line(f"delta = tl.sum({product}, axis=1, keep_dims=True)")
        offset, mask = self._delta_place()
        self.maps.put(self.given.pointer(attention.delta.result), offset, "delta", mask)
        self.maps.known[attention.delta.result] = "delta"

    def _delta_place(self) -> tuple[str, str | None]:
        axes = self.attention.delta_axes
        steps = row_major(shape_of(self.attention.delta.result))
        return self.maps.offset(axes, steps), self.maps.mask(self.maps.dims_of(axes))

    # --- the walk ------------------------------------------------------------------------------------------

    def _step(self, totals: Sequence[str]) -> None:
        """Write what is done with a block of rows and keys."""
        w, attention, blocks = self.w, self.attention, self.maps
        first = "tl.cast(start, tl.int64)" if self.wide else "start"
        blocks.places(1, f"{first} + ")
        down = w.let(f"{self.other.name}_down", f"{first} + tl.arange(0, {self.other.block})[:, None]")
        self.loaded.clear()
        for given, own, name in (
            (attention.scores, self.own_scores, "scores"),
            (attention.grads, self.own_grads, "grads"),
        ):
            other = self._operand(given, not self.by_rows, down)
            product = given.product
            kind = triton_type(product.wide)
            dot = f"tl.dot({own}, tl.trans({other}){precision(product.dtype)}, out_dtype={kind})"
            blocks.known[product.stage.result] = w.let(name, dot)
        if not self.by_rows:
            offset, mask = self._delta_place()
            limited = f", mask={mask}" if mask else ""
            w.line(f"delta = tl.load({self.given.pointer(attention.delta.result)} + {offset}{limited})")
            blocks.known[attention.delta.result] = "delta"
        for stage in attention.maps.stages:
            if stage.result not in blocks.known:
                blocks.known[stage.result] = self._stage(stage)
        for product, total in zip(self.products, totals, strict=True):
            self._add(product, total, down)

    def _stage(self, stage: Stage) -> str:
        """Write a map: powers of what is rounded to half precision need no more than the card's own."""
        if self.attention.dtype in HALVES and [type(op) for op in stage.steps] == [functions.ExpOp]:
            return self.w.let("power", f"tl.exp({self.maps.read(stage.reads[0])})")
        return write_stage(self.maps, stage)

    def _add(self, made: Made, total: str, down: str) -> None:
        """Write the product of a block that maps made, and add it to what there is."""
        w, product = self.w, made.product
        left = self.maps.known[product.left.value]
        mask = self.maps.mask([0, 1])
        if mask:  # what is not there counts for nothing, whatever became of it
            left = w.let("shown", f"tl.where({mask}, {left}, 0.0)")
        if dtype_of(product.left.value) != product.dtype or (mask and product.dtype != product.wide):
            left = w.let("narrow", f"{left}.to({triton_type(product.dtype)})")
        steps = dict(zip(product.right.axes, self.strides[product.right.value], strict=True))
        strides = tuple(steps[a] for a in made.columns)
        places = self._columns(made.sizes, strides)
        right = self._load("right", product.right, made.where, places, down, not self.by_rows)
        kind = triton_type(product.wide)
        w.line(f"{total} = tl.dot({left}, {right}, {total}{precision(product.dtype)}, out_dtype={kind})")

    # --- memory --------------------------------------------------------------------------------------------

    def _operand(self, given: Given, rows: bool, counter: str) -> str:
        """Write the load of the operand of a product that follows rows, or the one that follows keys: its name."""
        read = given.product.left if rows else given.product.right
        return self._load("row" if rows else "key", read, given.where, self._terms(given, read), counter, rows)

    def _terms(self, given: Given, read: Read) -> BlockAxis:
        """The axes that a product sums, as an operand follows them."""
        steps = dict(zip(read.axes, self.strides[read.value], strict=True))
        return self._columns(given.sizes, tuple(steps.get(a, 0) for a in given.terms))

    def _columns(self, sizes: Shape, strides: Shape) -> BlockAxis:
        width = math.prod(sizes)
        return BlockAxis(self.counters[width], sizes, strides, width if padded(width) != width else None)

    def _load(
        self, hint: str, read: Read, where: Mapping[int, int], columns: BlockAxis, counter: str, rows: bool
    ) -> str:
        """Write the load of a block of an array that follows rows, or keys, and columns; its name.

        ``where`` says which of the read's axes one of the maps is.
        """
        attention = self.attention
        steps = dict(zip(read.axes, self.strides[read.value], strict=True))
        step = {a: steps.get(where[a], 0) if a in where else 0 for a in range(len(attention.maps.domain))}
        axes = attention.row_axes if rows else attention.key_axes
        dim = self.own if rows == self.by_rows else self.other
        sizes = tuple(attention.maps.domain[a] for a in axes)
        place = BlockAxis(counter, sizes, tuple(step[a] for a in axes), int(dim.extent) if dim.masked else None)
        batch = [(self.maps.index[a], step[a]) for a in attention.batch]
        text = load(self.given, read.value, attention.dtype, batch, (place, columns))
        if text not in self.loaded:
            self.loaded[text] = self.w.let(hint, text)
        return self.loaded[text]

    # --- after the walk ------------------------------------------------------------------------------------

    def _end(self, made: Made, total: str) -> None:
        """Write what follows a product, and the stores."""
        kernel, nest, width = self.attention.kernel, made.nest, made.width
        names = made.where
        axes = tuple(names[a] for a in (self.attention.row_axes if self.by_rows else self.attention.key_axes))
        own = Dim(self.own.name, axes, self.own.extent, self.own.block, self.own.masked)
        columns = Dim(self.counters[width], made.columns, str(width), str(padded(width)), padded(width) != width)
        blocks = Blocks(plan_of(nest), [own, columns], self.given, self.strides, self.w)
        blocks.index |= {names[a]: name for a, name in self.maps.index.items() if a in names}
        blocks.index |= {axis: "0" for axis, size in enumerate(nest.domain) if size == 1}
        blocks.places(1, "")
        known: dict[SSAValue, str] = {made.product.stage.result: total}
        blocks.known |= known
        for stage in (made.product.stage, *made.epilogue):
            if stage is not made.product.stage:
                blocks.known[stage.result] = blocks.stage(stage)
            if stage.result in kernel.results:
                blocks.store(stage, blocks.known[stage.result])
