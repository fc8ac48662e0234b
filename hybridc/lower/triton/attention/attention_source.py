"""Attention and its backward as Triton functions: neither scores nor weights, nor their gradients, are in memory.

A program has a block of rows, or of keys, of one batch (its *own*), and walks the *other* in blocks. For each it
multiplies what gives scores, writes the elementwise stages between, and adds the contractions of these to its totals.

* Attention: a program has rows. It keeps, for each, the greatest score so far (``peak``), the sum of powers of scores
  less that (``weight``), and the values summed by these powers (``total``). Where a greater score comes, what was
  summed so far fades by the power of the difference. In the end the total is divided by the weight. A row whose scores
  are all minus infinity gives NaN, as the definition does; a score of infinity or NaN, too.
* Backward: two functions. In the first a program has rows, and adds up the gradient of its queries; it first writes the
  sum of each row of the result times its gradient (``delta``), which the second reads. There a program has keys, and
  adds up the gradients of its keys and values; blocks lie on their sides there (keys by rows), so that nothing made has
  to be transposed. Nothing is added to memory: results are the same each time.

Blocks of keys that a causal mask hides from all rows of a program, and of rows that see none of its keys, are left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from xdsl.dialects import math as functions
from xdsl.ir import SSAValue

from hybridc.dialects.operator_attribute import DType
from hybridc.dtypes import HALVES
from hybridc.ground.sizes import row_major
from hybridc.ir.attention.attention_kernel import (
    Attention,
    GridContraction,
    attention_backward_of,
    attention_of,
)
from hybridc.ir.kernel import Axes, Kernel, KernelOp, LoopNest, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.online_reductions import OnlineSoftmax
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.triton.attention.attention_configs import (
    BACKWARD_BY_KEYS,
    BACKWARD_BY_ROWS,
    TILES,
    AttentionTile,
    choice,
    padded,
    shared_bytes,
)
from hybridc.lower.triton.blocks import Blocks, Parameters
from hybridc.lower.triton.expressions.ops import literal, triton_type
from hybridc.lower.triton.expressions.statements import combine, reduce
from hybridc.lower.triton.matmul.matmul_source import along
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module, title
from hybridc.lower.triton.tile_printer import Dim
from hybridc.lower.triton.triton_function import (
    Config,
    TritonFunction,
    TritonLaunch,
    TritonLaunches,
)
from hybridc.options import OPTIONS
from hybridc.transforms.kernels.kernel_memory import Strides
from hybridc.transforms.kernels.tile_machine import NARROW

_SINGLE = np.dtype(np.float32)
_NAMES = (
    *("program", "down", "rows", "keys", "bm", "bk", "start", "first", "begin", "end"),
    *("delta", "peak", "weight", "base"),
)


def launches_of_attention(
    kernel: Kernel, strides: Mapping[int, Strides], tiles: Sequence[AttentionTile] = ()
) -> TritonLaunches | None:
    """The phase of a kernel that is an attention; None if it is not, or its rows are too long for a program.

    ``strides``, in elements, are those of arguments, then results, that may be no plain arrays. ``tiles`` are, if
    given, how programs share the work, instead of what is expected to be fastest.
    """
    attention = attention_of(kernel)
    chosen = tiles or (choice(attention, TILES, True) if attention is not None else ())
    if attention is None or not chosen:
        return None
    return TritonLaunches([_Writer(attention, strides, chosen, True).kernel_launch()])


def launches_of_attention_backward(
    kernel: Kernel,
    strides: Mapping[int, Strides],
    tiles: tuple[Sequence[AttentionTile], Sequence[AttentionTile]] | None = None,
) -> TritonLaunches | None:
    """The two phases of a kernel that is the backward of an attention, as :func:`launches_of_attention` gives one."""
    attention = attention_backward_of(kernel)
    if attention is None or attention.delta is None:
        return None
    chosen = tiles or (choice(attention, BACKWARD_BY_ROWS, True), choice(attention, BACKWARD_BY_KEYS, False))
    if not all(chosen):
        return None
    kernel_launches = [
        _Writer(attention, strides, t, rows).kernel_launch() for t, rows in zip(chosen, (True, False), strict=True)
    ]
    delta = attention.delta[0].result
    return TritonLaunches(kernel_launches, [math.prod(shape_of(delta)) * dtype_of(delta).itemsize])


def _plan_of(nest: LoopNest) -> LoopNestPlan:
    """Each axis by itself."""
    axes = tuple(range(len(nest.domain)))
    return LoopNestPlan(nest, nest.domain, dict(zip(axes, axes, strict=True)), axes, (), False, frozenset())


def _precision(dtype: DType) -> str:
    """How single precision is multiplied."""
    return f', input_precision="{"tf32" if OPTIONS.tf32 else "ieee"}"' if dtype == _SINGLE else ""


class _Writer:
    """Writes a function; ``by_rows`` says that a program has rows and walks keys."""

    def __init__(
        self, attention: Attention, strides: Mapping[int, Strides], tiles: Sequence[AttentionTile], by_rows: bool
    ) -> None:
        kernel = attention.kernel
        self.attention, self.tiles, self.by_rows = attention, tiles, by_rows
        values: list[SSAValue] = [*kernel.arguments, *kernel.results]
        local = [] if attention.delta is None else [attention.delta[0].result]
        self.strides = {v: strides.get(i, row_major(shape_of(v))) for i, v in enumerate(values)}
        kinds = (("x", kernel.arguments), ("y", kernel.results), ("w", local))
        names = [f"{kind}{i}" for kind, found in kinds for i in range(len(found))]
        self.numbers = {name: i for i, name in enumerate(names)}
        self.given = Parameters(dict(zip([*values, *local], names, strict=True)))
        far = [sum(abs(s) * (n - 1) for n, s in zip(shape_of(v), s, strict=True)) for v, s in self.strides.items()]
        self.wide = max(far) >= NARROW
        self.w = SourceWriter()
        for name in _NAMES:
            self.w.name(name)
        rows = self._dim("rows", attention.rows, "bm", [t.rows for t in tiles])
        keys = self._dim("keys", attention.keys, "bk", [t.keys for t in tiles])
        self.own, self.other = (rows, keys) if by_rows else (keys, rows)
        self.maps = Blocks(_plan_of(attention.middle), [self.own, self.other], self.given, self.strides, self.w)
        walked = {*(attention.keys if by_rows else attention.rows)}
        self.made = [c for c in attention.made if c.summed & walked or len(attention.made) == 1]
        self.counters: dict[int, str] = {}
        self.loaded: dict[str, str] = {}

    def _dim(self, name: str, axes: Axes, block: str, sizes: Sequence[int]) -> Dim:
        extent = self.attention.extent(axes)
        return Dim(name, axes, str(extent), block, any(extent % n for n in sizes))

    def kernel_launch(self) -> TritonLaunch:
        """The function and what it is given."""
        attention, kernel, w = self.attention, self.attention.kernel, self.w
        self._places()
        self._begin()
        totals = [w.let("total", self._zeros(padded(c.width))) for c in self.made]
        begin, end = self._walk()
        w.line(f"for start in range({begin}, {end}, {self.other.block}):")
        with w.indented():
            self._step(totals)
        if attention.softmax is not None:
            totals = [self._divide(attention.softmax, totals[0])]
        for contraction, total in zip(self.made, totals, strict=True):
            self._end(contraction, total)
        m, n, batches = (attention.extent(axes) for axes in (attention.rows, attention.keys, attention.batch))
        what, name = "attention", kernel.name
        if attention.softmax is None:
            what += f"'s {'gradient of queries' if self.by_rows else 'gradients of keys and values'}"
            name += "_queries" if self.by_rows else "_keys"
        doc = title(kernel, f"{what} ({m} rows, {n} keys, {batches} times)")
        pointers = [self.given.values[v] for v in self.given.used]
        source = module(name, pointers, (), ("bm", "bk"), doc, w)
        function = TritonFunction(name, source, tuple(dtype_of(v) for v in self.given.used), (), ("bm", "bk"))
        configs = tuple(self._config(t, m, n, batches) for t in self.tiles)
        return TritonLaunch(function, tuple(self.numbers[name] for name in pointers), (), configs)

    def _config(self, tile: AttentionTile, m: int, n: int, batches: int) -> Config:
        programs = math.ceil(m / tile.rows if self.by_rows else n / tile.keys) * batches
        shared = () if self.attention.softmax is not None else (shared_bytes(self.attention, tile, self.by_rows),)
        return Config((("bm", tile.rows), ("bk", tile.keys)), (programs, 1, 1), tile.warps, tile.stages, *shared)

    def _zeros(self, columns: int) -> str:
        return f"tl.zeros([{self.own.block}, {columns}], {triton_type(self.attention.wide)})"

    # --- before the walk -----------------------------------------------------------------------------------

    def _places(self) -> None:
        """Write which batch, and which rows or keys, a program has, and what counts terms and columns.

        Programs of one batch, which read the same, are neighbours.
        """
        w, attention, index = self.w, self.attention, self.maps.index
        w.line(f"program = tl.program_id(0){'.to(tl.int64)' if self.wide else ''}")
        w.line(f"down: tl.constexpr = ({self.own.extent} + {self.own.block} - 1) // {self.own.block}")
        index |= {axis: "0" for axis, size in enumerate(attention.middle.domain) if size == 1}
        self.maps.printer.point(attention.batch, "program // down")
        hides = attention.hidden is not None
        # Where keys beyond rows are hidden, programs with the most to do, of the last rows, come first.
        number = "(down - 1 - program % down)" if hides and self.by_rows else "program % down"
        if hides:
            w.line(f"first = {number} * {self.own.block}")
        self.maps.places(0, "first + " if hides else f"{number} * {self.own.block} + ")
        for width in (*(c.width for c in attention.given), *(c.width for c in self.made)):
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
        attention, blocks, w = self.attention, self.maps, self.w
        self.operands = [self._operand(c, self.by_rows, self.own.name) for c in attention.given]
        if attention.softmax is not None:
            wide = triton_type(attention.wide)
            w.line(f"peak = tl.full([{self.own.block}, 1], {literal(-math.inf, attention.wide)}, {wide})")
            w.line(f"weight = tl.zeros([{self.own.block}, 1], {wide})")
            return
        if self.by_rows:
            self._delta()
        for kernel_op in attention.middle.ops:
            if not self._needs_other(kernel_op):
                blocks.known[kernel_op.result] = self._kernel_op(kernel_op)
                continue
            for read in kernel_op.reads:
                if read.value in attention.kernel.arguments and 1 not in blocks.dims_of(read.axes):
                    blocks.read(read)

    def _needs_other(self, kernel_op: KernelOp) -> bool:
        """Whether a map needs anything that the walk gives."""
        made = {s.result for s in self.attention.kernel.ops}
        waits = any(r.value in made and r.value not in self.maps.known for r in kernel_op.reads)
        return waits or bool(kernel_op.indirect) or 1 in self.maps.dims_of(kernel_op.axes)

    def _delta(self) -> None:
        """Write the sum of the result times its gradient, for each row, and put it into memory."""
        assert self.attention.delta is not None
        (kernel_op, axes), grads = self.attention.delta, self.attention.given[-1]
        kept = dict(zip(kernel_op.axes, axes, strict=True))
        gradient = next(r for r in kernel_op.reads if r.value is grads.left.value)
        output = next(r for r in kernel_op.reads if r.value is not grads.left.value)
        # Axes of the contraction of gradient and values: those of maps by way of it, and its terms.
        places = {a: grads.where.get(m, -1) for a, m in kept.items()}
        places |= dict(zip(gradient.axes, grads.left.axes, strict=True))
        read = Read(output.value, tuple(places[a] for a in output.axes))
        o = self._load("o", read, grads, self.own.name, True)
        kind = triton_type(dtype_of(kernel_op.result))
        self.w.line(f"delta = tl.sum({self.operands[-1]}.to({kind}) * {o}.to({kind}), axis=1, keep_dims=True)")
        offset, mask = self._delta_place(kernel_op, axes)
        self.maps.put(self.given.pointer(kernel_op.result), offset, "delta", mask)
        self.maps.known[kernel_op.result] = "delta"

    def _delta_place(self, kernel_op: KernelOp, axes: Axes) -> tuple[str, str | None]:
        return self.maps.offset(axes, row_major(shape_of(kernel_op.result))), self.maps.mask(self.maps.dims_of(axes))

    # --- the walk ------------------------------------------------------------------------------------------

    def _step(self, totals: Sequence[str]) -> None:
        """Write what is done with a block of rows and keys."""
        w, attention, blocks = self.w, self.attention, self.maps
        first = "tl.cast(start, tl.int64)" if self.wide else "start"
        blocks.places(1, f"{first} + ")
        down = w.let(f"{self.other.name}_down", f"{first} + tl.arange(0, {self.other.block})[:, None]")
        self.loaded.clear()
        for given, own, name in zip(attention.given, self.operands, ("scores", "grads"), strict=False):
            other = self._operand(given, not self.by_rows, down)
            dot = f"tl.dot({own}, tl.trans({other}){_precision(given.dtype)}, out_dtype={triton_type(given.wide)})"
            blocks.known[given.kernel_op.result] = w.let(name, dot)
        if attention.softmax is not None:
            self._online(attention.softmax, totals[0], down)
            return
        if not self.by_rows and attention.delta is not None:
            kernel_op, axes = attention.delta
            offset, mask = self._delta_place(kernel_op, axes)
            w.line(
                f"delta = tl.load({self.given.pointer(kernel_op.result)} + {offset}{f', mask={mask}' if mask else ''})"
            )
            blocks.known[kernel_op.result] = "delta"
        for kernel_op in attention.middle.ops:
            if kernel_op.result not in blocks.known:
                blocks.known[kernel_op.result] = self._kernel_op(kernel_op)
        mask = blocks.mask([0, 1])
        for contraction, total in zip(self.made, totals, strict=True):
            left = blocks.known[contraction.left.value]
            if mask:  # what is not there counts for nothing, whatever became of it
                left = w.let("shown", f"tl.where({mask}, {left}, 0.0)")
            self._add(contraction, left, bool(mask), total, total, down)

    def _online(self, softmax: OnlineSoftmax, total: str, down: str) -> None:
        """Write how a block of scores is added to the rows: where a greater one comes, what there is fades."""
        w, blocks, wide = self.w, self.maps, self.attention.wide
        self._kernel_ops(softmax.before)
        score = self.maps.read(softmax.peak.reads[0])
        mask, nothing = blocks.mask([1]), literal(-math.inf, wide)
        shown = w.let("shown", f"tl.where({mask}, {score}, {nothing})") if mask else score
        assert softmax.peak.combine is not None
        assert softmax.total.combine is not None
        highest = reduce(softmax.peak.combine.name, shown, 1, wide, w)
        higher = w.let("higher", combine(softmax.peak.combine.name, "peak", highest, wide))
        # Of minus infinity less itself nothing is known; of rows of which nothing counts yet, nothing is kept.
        w.line(f"base = tl.where({higher} == {nothing}, {literal(0.0, wide)}, {higher})")
        faded, power = self._power(softmax, "peak"), self._power(softmax, shown)
        part = reduce(softmax.total.combine.name, power, 1, wide, w)
        w.line(f"weight = weight * {faded} + {part}")
        blocks.known[softmax.shares[-1].result] = power
        self._kernel_ops((*softmax.beside, *softmax.after))
        left = blocks.known[softmax.after[-1].result] if softmax.after else power
        self._add(self.made[0], left, False, total, f"{total} * {faded}", down)
        w.line(f"peak = {higher}")

    def _power(self, softmax: OnlineSoftmax, score: str) -> str:
        """Write the power of a score less the base."""
        steps = [s for kernel_op in softmax.powers for s in kernel_op.steps]
        if self.made[0].dtype in HALVES and len(steps) == 2:
            # What is rounded to half precision needs no more than the GPU's own.
            return self.w.let("power", f"tl.exp({score} - base)")
        self.maps.known |= {softmax.peak.reads[0].value: score, softmax.peak.result: "base"}
        self._kernel_ops(softmax.powers)
        return self.maps.known[softmax.powers[-1].result]

    def _kernel_ops(self, kernel_ops: Iterable[KernelOp]) -> None:
        for kernel_op in kernel_ops:
            self.maps.known[kernel_op.result] = self.maps.kernel_op(kernel_op)

    def _kernel_op(self, kernel_op: KernelOp) -> str:
        """Write a map: powers of what is rounded to half precision need no more than the GPU's own."""
        if self.attention.given[0].dtype in HALVES and [type(op) for op in kernel_op.steps] == [functions.ExpOp]:
            return self.w.let("power", f"tl.exp({self.maps.read(kernel_op.reads[0])})")
        return self.maps.kernel_op(kernel_op)

    def _add(self, made: GridContraction, left: str, masked: bool, total: str, sofar: str, down: str) -> None:
        """Write the product of a block that the middle made, and add it to what there is so far."""
        if dtype_of(made.left.value) != made.dtype or (masked and made.dtype != made.wide):
            left = self.w.let("narrow", f"{left}.to({triton_type(made.dtype)})")
        right = self._load("right", made.right, made, down, not self.by_rows)
        kind = triton_type(made.wide)
        self.w.line(f"{total} = tl.dot({left}, {right}, {sofar}{_precision(made.dtype)}, out_dtype={kind})")

    # --- memory --------------------------------------------------------------------------------------------

    def _operand(self, given: GridContraction, rows: bool, counter: str) -> str:
        """Write the load of the operand of a contraction that follows rows, or the one that follows keys: its name."""
        return self._load("row" if rows else "key", given.left if rows else given.right, given, counter, rows)

    def _load(self, hint: str, read: Read, of: GridContraction, counter: str, rows: bool) -> str:
        """Write the load of a block of an array that follows rows, or keys, and a contraction's own axes; its name."""
        attention = self.attention
        steps = dict(zip(read.axes, self.strides[read.value], strict=True))
        step = {a: steps.get(of.where[a], 0) if a in of.where else 0 for a in range(len(attention.middle.domain))}
        dim, axes = (self.own if rows == self.by_rows else self.other), attention.rows if rows else attention.keys
        sizes = tuple(attention.middle.domain[a] for a in axes)
        columns, filled = self.counters[of.width], padded(of.width) == of.width
        walked = [
            (counter, sizes, tuple(step[a] for a in axes)),
            (columns, of.sizes, tuple(steps.get(a, 0) for a in of.own)),
        ]
        terms = [f"{self.maps.index[a]} * {step[a]}".removesuffix(" * 1") for a in attention.batch if step[a]]
        terms += [along(*each) if each[1] else f"{each[0]} * 0" for each in walked]
        masks = [f"({counter} < {dim.extent})"] * dim.masked + [f"({columns} < {of.width})"] * (not filled)
        limited = f", mask={' & '.join(masks)}, other=0.0" if masks else ""
        cast = f".to({triton_type(of.dtype)})" if dtype_of(read.value) != of.dtype else ""
        text = f"tl.load({' + '.join([self.given.pointer(read.value), *terms])}{limited}){cast}"
        if text not in self.loaded:
            self.loaded[text] = self.w.let(hint, text)
        return self.loaded[text]

    # --- after the walk ------------------------------------------------------------------------------------

    def _divide(self, softmax: OnlineSoftmax, total: str) -> str:
        """Write the division, and store the maximum and the sum of each row where they are results; its name."""
        made, kernel, blocks = self.made[0], self.attention.kernel, self.maps
        names = [total, "weight", *(["peak"] if softmax.peak.result in kernel.results else [])]
        for name in names if not blocks.dims[0].axes else ():  # one row is left of the block
            self.w.line(f"{name} = tl.sum(tl.where({self.own.name} < 1, {name}, 0.0), axis=0, keep_dims=True)")
        if not made.own:
            columns = self.counters[made.width]
            self.w.line(f"{total} = tl.sum(tl.where({columns} < 1, {total}, 0.0), axis=1, keep_dims=True)")
        blocks.known |= {softmax.total.reads[0].value: total, softmax.total.result: "weight"}
        self._kernel_ops(softmax.shares)
        for kernel_op, name in ((softmax.peak, "peak"), (softmax.total, "weight")):
            if kernel_op.result in kernel.results:
                blocks.store(kernel_op, name)
        return blocks.known[softmax.shares[-1].result]

    def _end(self, made: GridContraction, total: str) -> None:
        """Write what follows a contraction, and the stores."""
        kernel, nest, width, where = self.attention.kernel, made.nest, made.width, made.where
        axes = tuple(where[a] for a in (self.attention.rows if self.by_rows else self.attention.keys))
        own = Dim(self.own.name, axes, self.own.extent, self.own.block, self.own.masked)
        columns = Dim(self.counters[width], made.own, str(width), str(padded(width)), padded(width) != width)
        blocks = Blocks(_plan_of(nest), [own, columns], self.given, self.strides, self.w)
        blocks.index |= {where[a]: name for a, name in self.maps.index.items() if a in where}
        blocks.index |= {axis: "0" for axis, size in enumerate(nest.domain) if size == 1}
        blocks.places(1, "")
        blocks.known[made.kernel_op.result] = total
        for kernel_op in (made.kernel_op, *made.epilogue):
            if kernel_op is not made.kernel_op:
                blocks.known[kernel_op.result] = blocks.kernel_op(kernel_op)
            if kernel_op.result in kernel.results:
                blocks.store(kernel_op, blocks.known[kernel_op.result])
