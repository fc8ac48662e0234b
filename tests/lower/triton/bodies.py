"""Scalar bodies as stages of kernels, and a Triton kernel that computes many of them at once."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Region

from hybridc.ir.kernel import Read, Stage
from hybridc.ir.structured import dtype_of, note_dtypes
from hybridc.ir.tensor_builder import Builder, Tensor, structured_type
from hybridc.lower.triton.expressions.linalg_body import combine, reduce, write_body
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.triton_kernel import run_interpreted


def stage_of(body, dtypes, out, shape=(64,), start=None):
    """The stage of ``body(b, *elements, sofar)`` over arrays; ``start`` begins a reduction of the last axis.

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
    op = made.value.owner
    reads = tuple(Read(v, axes) for v in op.inputs)
    if start is None:
        return Stage(op, "map", reads, axes, (), None)
    return Stage(op, "row", reads, kept, axes[-1:], op.body.block.last_op.operands[0].owner)


def function_of(stages):
    """A function of one program that computes stages on the same arrays: a pointer to each, then to each result.

    Reductions are done in two halves.
    """
    (shape,) = {s.sizes for s in stages}
    given = [dtype_of(r.value) for r in stages[0].reads]
    results = [dtype_of(s.result) for s in stages]
    w = SourceWriter()
    inputs, outputs = ([w.name(f"{c}{i}") for i in range(len(of))] for c, of in (("x", given), ("y", results)))
    w.line("@triton.jit")
    w.line(f"def bodies({', '.join([*inputs, *outputs])}):")
    with w.indented():
        parts = [_Part(w, inputs, shape)] if all(s.combine is None for s in stages) else []
        parts = parts or [_Part(w, inputs, shape, half * shape[1] // 2) for half in (0, 1)]
        for stage, pointer in zip(stages, outputs, strict=True):
            made = [part.compute(stage, inputs) for part in parts]
            if stage.combine is None:
                w.line(f"tl.store({pointer} + {parts[0].place}, {made[0]})")
                continue
            made = w.let("whole", combine(stage.combine, *made, dtype_of(stage.result)))
            w.line(f"tl.store({pointer} + {parts[0].along[0]}, {made})")
    return TritonFunction("bodies", w.module("Bodies of stages."), (*given, *results))


class _Part:
    """The elements of arrays that stages are computed of: all, or half of each row from ``first`` on."""

    def __init__(self, w, inputs, shape, first=None):
        self.w = w
        rank = len(shape)
        spread = [f"[{', '.join(':' if a == b else 'None' for b in range(rank))}]" for a in range(rank)]
        self.along = [w.let(f"i{a}", f"tl.arange(0, {n}){spread[a]}") for a, n in enumerate(shape)]
        if first is not None:
            self.along[-1] = w.let("i", f"{first} + tl.arange(0, {shape[-1] // 2}){spread[-1]}")
        place = f"{self.along[0]} * {shape[1]} + {self.along[1]}" if rank == 2 else self.along[0]
        self.place = w.let("place", place)
        self.names = [w.let("x", f"tl.load({p} + {self.place})") for p in inputs]

    def compute(self, stage, inputs):
        """The name of what a stage makes, or of its reduction."""

        def load(op, places):
            pointer = inputs[[r.value for r in stage.reads].index(op.tensor)]
            return self.w.let("loaded", f"tl.load({pointer} + {places[0]})")

        known = dict(zip(stage.op.body.block.args, self.names))
        made = write_body(stage, known, self.w, lambda loop: self.along[loop], load)
        if stage.combine is None:
            return made
        made = self.w.let("all", f"tl.broadcast_to({made}, {self.place}.shape)")
        return reduce(stage.combine, made, len(self.along) - 1, dtype_of(stage.result), self.w)


def run(stages, *arrays):
    """The results of stages."""
    function = function_of(stages)
    shapes = [tuple(s.sizes[a] for a in s.axes) for s in stages]
    outs = [np.zeros(shape, dtype_of(s.result)) for shape, s in zip(shapes, stages, strict=True)]
    run_interpreted(function, [*arrays, *outs], [], Config((), (1, 1, 1)))
    return outs
