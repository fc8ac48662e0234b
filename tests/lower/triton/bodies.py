"""Scalar bodies as linalg ops of kernels, and a Triton kernel that computes many of them at once."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Region

from hybridc.ir.kernels.kernel import LoopNest
from hybridc.ir.kernels.kernel_notes import AXES, DOMAINS
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.scalars import neutral_of, signed_as, signedness
from hybridc.ir.structured import note_dtypes
from hybridc.ir.structured_builder import Builder, Tensor, structured_type
from hybridc.ir.tiles.tile_program import TileDim, TileProgram, TileSweep
from hybridc.lower.triton.expressions.ops import Term
from hybridc.lower.triton.expressions.statements import applied
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.tile_printer import TilePrinter
from hybridc.lower.triton.triton_function import Config, TritonFunction, triton_type
from hybridc.runtime.triton_kernel import run_interpreted
from hybridc.transforms.schedules.blocks.rough_maps import with_rough_maps
from hybridc.transforms.schedules.blocks.tile_blocks import TileStatements


def op_of(body, dtypes, out, shape=(64,), start=None):
    """The linalg op of ``body(b, *elements, sofar)`` over arrays; ``start`` begins a reduction of the last axis.

    ``b.arrays`` are the arrays themselves.
    """
    dtypes, out = [np.dtype(d) for d in dtypes], np.dtype(out)
    block = Block(arg_types=[structured_type(shape, d) for d in dtypes])
    function = func.FuncOp("kernel", FunctionType.from_lists([a.type for a in block.args], []), Region(block))
    note_dtypes(function, dtypes)
    builder, axes = Builder(block), tuple(range(len(shape)))
    arrays = [builder.tensor(v, shape, d) for v, d in zip(block.args, dtypes)]
    kept = axes if start is None else axes[:-1]
    made = Tensor(tuple(shape[a] for a in kept), out, builder)
    init = None if start is None else builder.start(made.shape, out, start)

    def with_arrays(b, *elements):
        b.arrays = arrays
        return body(b, *elements)

    builder.generic([(a.value, axes, a.dtype) for a in arrays], made, with_arrays, len(axes), kept, init)
    AXES.put(made.value.owner, axes)
    DOMAINS.put(function, [shape])
    block.add_op(func.ReturnOp(made.value))
    return read_kernel(function).ops[0]


def function_of(kernel_ops):
    """A function of one program that computes linalg ops on the same arrays: a pointer to each, then to each result.

    Reductions are done in two halves.
    """
    (shape,) = {s.sizes for s in kernel_ops}
    given = [r.value.dtype for r in kernel_ops[0].reads]
    results = [s.result.dtype for s in kernel_ops]
    w = SourceWriter()
    inputs, outputs = ([w.name(f"{c}{i}") for i in range(len(of))] for c, of in (("x", given), ("y", results)))
    pointers = dict(zip([*inputs, *outputs], [*given, *results], strict=True))
    whole = all(s.combine is None for s in kernel_ops)
    w.line("@triton.jit")
    w.line(f"def bodies({', '.join(pointers)}):")
    with w.indented():
        parts = [printer_of(shape, shape, "i", "", pointers, w)] if whole else []
        half = (*shape[:-1], shape[-1] // 2)
        parts = parts or [printer_of(shape, half, c, first, pointers, w) for c, first in (("i", ""), ("j", half[1]))]
        for kernel_op, pointer in zip(kernel_ops, outputs, strict=True):
            made = [computed(part, kernel_op) for part in parts]
            if kernel_op.combine is not None:
                made = [w.let("whole", combine_expression(kernel_op.combine.op, *made, kernel_op.result.dtype))]
            place = parts[0].offset(parts[0].space.row_major(pointer, kernel_op.axes))
            w.line(f"tl.store({pointer} + {place}, {made[0]})")
    return TritonFunction("bodies", w.module("Bodies of stages."), (*given, *results))


def combine_expression(op, a, b, dtype):
    """Two partial results of a reduction as one, as an expression; of names."""
    operands = [Term(text, dtype).as_dtype(signed_as(dtype, signedness(op))) for text in (a, b)]
    text = applied(op, operands, operands[0].dtype)
    return text if operands[0].dtype == dtype else f"({text}).to({triton_type(dtype)})"


def printer_of(shape, block, name, first, dtypes, w):
    """What prints statements about a block of arrays, the last of whose indices begin at ``first``."""
    space = TileProgram((), shape, (), (), tiles=tuple(TileDim((a,), n, "whole", False) for a, n in enumerate(block)))
    printer = TilePrinter(space, dtypes, w, [f"{name}{a}" for a in range(len(shape))])
    printer.space = space
    for a in range(len(shape)):
        printer.places(a, f"{first} + " if first and a == len(shape) - 1 else "")
    return printer


class _OfInputs(TileStatements):
    """Statements whose buffers are called as the inputs are."""

    def buffer(self, value):
        return self.values[value]


def computed(printer, kernel_op):
    """The name of the result of an op, or of its reduction."""
    shape = kernel_op.sizes
    axes = tuple(range(len(shape)))
    nest = LoopNest(shape, (kernel_op,), len(shape))
    plan = LoopNestPlan(nest, shape, dict(zip(axes, axes)), axes, (), False, frozenset())
    text = _OfInputs(plan, values={r.value: f"x{i}" for i, r in enumerate(kernel_op.reads)})
    name = text.element(kernel_op) if kernel_op.combine is not None else text.body(kernel_op)
    if kernel_op.combine is not None:
        start = neutral_of(kernel_op.combine.op, kernel_op.result.dtype)
        name = text.reduced(kernel_op, name, kernel_op.reduced, start)
    statements = text.take()
    (sweep,) = with_rough_maps([TileSweep((), tuple(statements))], {name})
    for statement in sweep.statements:
        printer.statement(statement)
    return printer.w.let("made", printer.known[name].as_dtype(kernel_op.result.dtype).block)


def run(kernel_ops, *arrays):
    """The results of linalg ops."""
    function = function_of(kernel_ops)
    shapes = [tuple(s.sizes[a] for a in s.axes) for s in kernel_ops]
    outs = [np.zeros(shape, s.result.dtype) for shape, s in zip(shapes, kernel_ops, strict=True)]
    run_interpreted(function, [*arrays, *outs], [], Config((), (1, 1, 1)))
    return outs
