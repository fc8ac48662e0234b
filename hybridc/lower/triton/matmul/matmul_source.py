"""The Triton source of a product with its epilogue, of a product's partial sums, and of what adds these up.

A program computes a block of the result: ``bm`` rows and ``bn`` columns of one batch, in steps of ``bk`` terms. All
sizes and strides are written out as numbers, so that the compiler sees which accesses may be wide. Only axes that
blocks do not divide get masks. A vector times a matrix has no rows: its terms are multiplied element by element.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hybridc.dialects.operator_attribute import DType
from hybridc.ir.structured import Shape, dtype_of
from hybridc.lower.triton.blocks import Blocks, Parameters
from hybridc.lower.triton.expressions.ops import literal, triton_type
from hybridc.lower.triton.matmul.matmul_configs import MatmulTile
from hybridc.lower.triton.matmul.matmul_loops import FusedMatmul, MatmulOperand
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module, title
from hybridc.lower.triton.tile_printer import Dim
from hybridc.lower.triton.triton_function import TritonFunction
from hybridc.options import OPTIONS
from hybridc.transforms.kernels.tile_machine import NARROW

_SINGLE = np.dtype(np.float32)
# What the text calls its own; what follows a product gets other names.
_NAMES = (
    *("program", "down", "across", "group", "first", "height", "rows", "columns", "bm", "bn", "bk"),
    *("part", "share", "start", "terms", "left", "right", "a", "b", "total"),
)


class MatmulWriter:
    """Writes one function of a product for blocks of any of these ``tiles``; the terms are cut into ``parts``.

    ``buffers`` are, when a function is written, the numbers of those that it is given.
    """

    def __init__(self, contraction: FusedMatmul, tiles: Sequence[MatmulTile], parts: int) -> None:
        kernel = contraction.kernel
        self.contraction, self.parts = contraction, parts
        self.vector = contraction.m == 1
        self.wide = max(contraction.far, parts * contraction.outputs) >= NARROW
        self.w = SourceWriter()
        for name in _NAMES:
            self.w.name(name)
        self.numbers = {f"x{i}": i for i in range(len(kernel.arguments))}
        self.numbers |= {f"y{i}": len(kernel.arguments) + i for i in range(len(kernel.results))}
        names = dict(zip([*kernel.arguments, *kernel.results], self.numbers, strict=False))
        self.given = Parameters(names)
        rows = Dim("rows", contraction.rows, str(contraction.m), "bm", any(contraction.m % t.m for t in tiles))
        columns = Dim("columns", contraction.columns, str(contraction.n), "bn", any(contraction.n % t.n for t in tiles))
        self.dims = [d for d in (rows, columns) if d.axes]
        self.tiles = tiles
        self.own: dict[str, DType] = {}
        self.buffers: tuple[int, ...] = ()
        self.blocks = Blocks(contraction.plan, self.dims, self.given, contraction.strides, self.w)

    # --- the functions -------------------------------------------------------------------------------------

    def whole(self) -> TritonFunction:
        """Multiply and compute what follows the product."""
        self._places(grouped=not self.vector)
        self._sum("0", str(self.contraction.k))
        self._results()
        return self._function("product", self._constants())

    def part(self) -> TritonFunction:
        """Multiply a part of the terms, for a buffer of the kernel's own."""
        k = self.contraction.k
        self._places(grouped=not self.vector)
        self.w.line("part = tl.program_id(1)")
        self.w.line(f"share: tl.constexpr = ({k} + {self.parts} * bk - 1) // ({self.parts} * bk) * bk")
        self._sum("part * share", f"tl.minimum(part * share + share, {k})")
        self.w.line(f"tl.store({self._partial('part')}, total{self._mask()})")
        return self._function(f"part of {self.parts} of a product", self._constants())

    def sum_of_parts(self) -> TritonFunction:
        """Add up the sums of all parts, one after the other, and compute what follows the product."""
        self._places(grouped=False)
        w, mask = self.w, self._mask()
        w.line(f"total = tl.load({self._partial('0')}{mask})")
        w.line(f"for part in range(1, {self.parts}):")
        with w.indented():
            w.line(f"total += tl.load({self._partial('part')}{mask})")
        self._results()
        return self._function(f"sum of {self.parts} parts of a product", tuple(d.block for d in self.dims))

    def _constants(self) -> tuple[str, ...]:
        blocks = tuple(d.block for d in self.dims)
        return (*blocks, "bk") if self.vector else (*blocks, "bk", "group")

    # --- places --------------------------------------------------------------------------------------------

    def _places(self, grouped: bool) -> None:
        """Write which batch, rows and columns a program has.

        Programs that run at the same time should read the same rows and columns: they go down ``group`` blocks before
        they go to the next columns.
        """
        w, contraction = self.w, self.contraction
        w.line(f"program = tl.program_id(0){'.to(tl.int64)' if self.wide else ''}")
        for dim, name in zip(self.dims, ("down", "across"), strict=False):
            w.line(f"{name}: tl.constexpr = ({dim.extent} + {dim.block} - 1) // {dim.block}")
        if contraction.batches > 1:
            blocks = ("1", "down", "(down * across)")[len(self.dims)]
            rest = f"program // {blocks}"
            for axis in reversed(contraction.batch[1:]):
                self.blocks.index[axis] = w.let("batch", f"{rest} % {contraction.plan.sizes[axis]}")
                rest = f"{rest} // {contraction.plan.sizes[axis]}"
            self.blocks.index[contraction.batch[0]] = w.let("batch", rest)
            w.line(f"program = program % {blocks}")
        for axis, size in enumerate(contraction.plan.sizes):
            if size == 1:
                self.blocks.index[axis] = "0"
        if len(self.dims) == 1:
            self.blocks.places(0, f"program * {self.dims[0].block} + ")
        elif grouped:
            w.line("first = program // (group * across) * group")
            w.line("height = tl.minimum(down - first, group)")
            self.blocks.places(0, "(first + program % (group * across) % height) * bm + ")
            self.blocks.places(1, "program % (group * across) // height * bn + ")
        elif self.dims:
            self.blocks.places(0, "program // across * bm + ")
            self.blocks.places(1, "program % across * bn + ")

    def _mask(self) -> str:
        """The mask of a load or store of a whole block, if it needs one."""
        mask = self.blocks.mask(range(len(self.dims)))
        return f", mask={mask}" if mask else ""

    def _partial(self, part: str) -> str:
        """Where the sums of a part are, without gaps: for each batch its rows."""
        contraction, plan = self.contraction, self.contraction.plan
        order = (*contraction.batch, *contraction.rows, *contraction.columns)
        steps = {a: math.prod(plan.sizes[b] for b in order[i + 1 :]) for i, a in enumerate(order)}
        parts = self._own(sum(x.own is not None for x in (contraction.left, contraction.right)), contraction.wide)
        terms = [parts, f"{part} * {contraction.outputs}"] if part != "0" else [parts]
        terms += [f"{self.blocks.index[a]} * {steps[a]}" for a in contraction.batch]
        terms += [f"{d.name} * {steps[d.axes[-1]]}" for d in self.dims]
        return " + ".join(t.removesuffix(" * 1") for t in terms)

    # --- the sum -------------------------------------------------------------------------------------------

    def _sum(self, begin: str, end: str) -> None:
        """Write the loop over some terms, which gives ``total``."""
        w, contraction = self.w, self.contraction
        left, right = self._operand("left", contraction.left), self._operand("right", contraction.right)
        shape = [d.block for d in self.dims] + ["bk"] * self.vector
        start = 0 if self.vector or self.parts > 1 else contraction.start
        kind = triton_type(contraction.wide)
        w.line(f"total = tl.full([{', '.join(shape)}], {literal(start, contraction.wide)}, {kind})")
        w.line(f"for start in range({begin}, {end}, bk):")
        with w.indented():
            w.line(f"terms = start + tl.arange(0, bk){'.to(tl.int64)' if self.wide else ''}")
            if self.vector:
                self._multiply_vector(left, right)
            else:
                self._multiply(left, right)
        if self.vector:
            w.line(f"total = tl.sum(total{', 1' if self.dims else ''})")

    def _multiply(self, left: str, right: str) -> None:
        """A block of rows times one of columns."""
        contraction = self.contraction
        self._load("a", left, contraction.left, "terms[None, :]", "rows")
        self._load("b", right, contraction.right, "terms[:, None]", "columns")
        given = f', input_precision="{"tf32" if OPTIONS.tf32 else "ieee"}"' if contraction.dtype == _SINGLE else ""
        self.w.line(f"total = tl.dot(a, b, total{given}, out_dtype={triton_type(contraction.wide)})")

    def _multiply_vector(self, left: str, right: str) -> None:
        """One row times a block of columns; the terms of each stay apart until all are there."""
        contraction = self.contraction
        self._load("a", left, contraction.left, "terms", "")
        if self.dims:
            self._load("b", f"{right}[:, None]", contraction.right, "terms[None, :]", "columns[:, None]")
        else:
            self._load("b", right, contraction.right, "terms", "")
        row = "a[None, :]" if self.dims else "a"
        factors = [f"{name}.to({triton_type(contraction.wide)})" for name in (row, "b")]
        self.w.line(f"total += {' * '.join(factors)}")

    def _operand(self, name: str, operand: MatmulOperand) -> str:
        """Write where an operand's rows or columns begin."""
        index = self.blocks.index
        steps = [index[a] if s == 1 else f"{index[a]} * {s}" for a, s in operand.axes.items()]
        if operand.own is None:
            pointer = self.given.pointer(operand.value)
        else:
            pointer = self._own(operand.own, dtype_of(operand.value))
        if not steps:
            return pointer
        self.w.line(f"{name} = {' + '.join([pointer, *steps])}")
        return name

    def _own(self, number: int, dtype: DType) -> str:
        """The pointer at a buffer of the kernel's own."""
        name = f"w{number}"
        self.own[name] = dtype
        self.numbers[name] = len(self.contraction.kernel.arguments) + len(self.contraction.kernel.results) + number
        return name

    def _load(self, name: str, where: str, operand: MatmulOperand, terms: str, kept: str) -> None:
        """Write the load of an operand's block at some terms."""
        contraction, tiles = self.contraction, self.tiles
        masks: list[str] = []
        if kept and any(operand.kept % (t.m if operand is contraction.left else t.n) for t in tiles):
            masks.append(f"({kept} < {operand.kept})")
        if any(operand.terms % t.k for t in tiles):
            masks.append(f"({terms} < {operand.terms})")
        dtype = dtype_of(operand.value)
        limited = f", mask={' & '.join(masks)}, other={literal(0.0, dtype)}" if masks else ""
        loaded = f"tl.load({where} + {along(terms, contraction.terms, operand.loops)}{limited})"
        self.w.line(
            f"{name} = {loaded if dtype == contraction.dtype else f'{loaded}.to({triton_type(contraction.dtype)})'}"
        )

    # --- what follows --------------------------------------------------------------------------------------

    def _results(self) -> None:
        """Write what follows the product, and the stores."""
        contraction, blocks = self.contraction, self.blocks
        if contraction.start != 0 and (self.vector or self.parts > 1):
            self.w.line(f"total += {literal(contraction.start, contraction.wide)}")
        blocks.known[contraction.kernel_op.result] = "total"
        for kernel_op in contraction.plan.nest.ops:
            if kernel_op is not contraction.kernel_op:
                blocks.known[kernel_op.result] = blocks.kernel_op(kernel_op)
            if kernel_op.result in contraction.kernel.results:
                blocks.store(kernel_op, blocks.known[kernel_op.result])

    def _function(self, what: str, constants: tuple[str, ...]) -> TritonFunction:
        """The function that was written."""
        contraction, kernel = self.contraction, self.contraction.kernel
        sizes = f"{contraction.m}x{contraction.n}, {contraction.k} terms" + f", {contraction.batches} times" * (
            contraction.batches > 1
        )
        doc = title(kernel, f"{what} ({sizes})")
        pointers = [self.given.values[v] for v in self.given.used] + [*self.own]
        self.buffers = tuple(self.numbers[name] for name in pointers)
        dtypes = [dtype_of(v) for v in self.given.used] + [*self.own.values()]
        source = module(kernel.name, pointers, (), constants, doc, self.w)
        return TritonFunction(kernel.name, source, tuple(dtypes), (), constants)


def along(counter: str, sizes: Shape, strides: Shape) -> str:
    """How far an array moves along loops that are counted as one, even if they do not follow each other in memory."""
    loops: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if loops and loops[-1][1] == stride * size:
            loops[-1] = (loops[-1][0] * size, stride)
        else:
            loops.append((size, stride))
    parts: list[str] = []
    for i, (size, stride) in enumerate(loops):
        inner = math.prod(n for n, _ in loops[i + 1 :])
        part = counter if inner == 1 else f"{counter} // {inner}"
        part = part if i == 0 else f"{part} % {size}"
        parts.append(part if stride == 1 else f"{part} * {stride}")
    return " + ".join(parts) or counter
