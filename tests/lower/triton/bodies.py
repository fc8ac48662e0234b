"""Scalar bodies as stages of kernels, and a Triton kernel that computes many of them at once."""

from __future__ import annotations

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType
from xdsl.ir import Block, Region

from hybridc.lower.hybrid_to_linalg_attributes import structured_type
from hybridc.lower.hybrid_to_linalg_tensor import Builder, Tensor
from hybridc.lower.kernel import Read, Stage
from hybridc.lower.structured import dtype_of, note_dtypes
from hybridc.lower.triton.body import reduce, write_body
from hybridc.lower.triton.functions import Config, TritonFunction
from hybridc.lower.triton.source import Writer
from hybridc.runtime.triton_kernel import run_interpreted


def stage_of(body, dtypes, out, shape=(64,), start=None):
    """The stage of ``body(b, *elements, sofar)`` over arrays; ``start`` begins a reduction of the last axis."""
    dtypes, out = [np.dtype(d) for d in dtypes], np.dtype(out)
    block = Block(arg_types=[structured_type(shape, d) for d in dtypes])
    function = func.FuncOp("kernel", FunctionType.from_lists([a.type for a in block.args], []), Region(block))
    note_dtypes(function, dtypes)
    builder, axes = Builder(block), tuple(range(len(shape)))
    kept = axes if start is None else axes[:-1]
    made = Tensor(tuple(shape[a] for a in kept), out, builder)
    init = None if start is None else builder.number(start, out)
    builder.generic([(v, axes, d) for v, d in zip(block.args, dtypes)], made, body, len(axes), kept, init)
    op = made.value.owner
    reads = tuple(Read(v, axes) for v in op.inputs)
    if start is None:
        return Stage(op, "map", reads, axes, (), None)
    combine = op.body.block.last_op.operands[0].owner
    return Stage(op, "row", reads, kept, axes[-1:], combine)


def function_of(stages):
    """A function of one program that computes stages on the same arrays: a pointer to each, then to each result."""
    (shape,) = {s.sizes for s in stages}
    given = [dtype_of(r.value) for r in stages[0].reads]
    results = [dtype_of(s.result) for s in stages]
    w = Writer()
    pointers = [*(f"x{i}" for i in range(len(given))), *(f"y{i}" for i in range(len(results)))]
    pointers = [w.name(p) for p in pointers]
    w.line("@triton.jit")
    w.line(f"def bodies({', '.join(pointers)}):")
    with w.indented():
        rank = len(shape)
        along = [
            w.let(f"i{a}", f"tl.arange(0, {n})[{', '.join(':' if a == b else 'None' for b in range(rank))}]")
            for a, n in enumerate(shape)
        ]
        place = along[0] if rank == 1 else w.let("place", f"{along[0]} * {shape[1]} + {along[1]}")
        names = [w.let("x", f"tl.load({p} + {place})") for p in pointers[: len(given)]]
        for stage, pointer in zip(stages, pointers[len(given) :]):
            known = dict(zip(stage.op.body.block.args, names))
            made = write_body(stage, known, w, lambda loop: along[loop], lambda *_: "")
            if stage.combine is None:
                w.line(f"tl.store({pointer} + {place}, {made})")
                continue
            made = reduce(stage.combine, made, rank - 1, dtype_of(stage.result), w)
            w.line(f"tl.store({pointer} + {along[0]}, {made})")
    return TritonFunction("bodies", w.module("Bodies of stages."), (*given, *results))


def run(stages, *arrays):
    """The results of stages."""
    function = function_of(stages)
    shapes = [tuple(s.sizes[a] for a in s.axes) for s in stages]
    outs = [np.zeros(shape, dtype_of(s.result)) for shape, s in zip(shapes, stages, strict=True)]
    run_interpreted(function, [*arrays, *outs], [], Config((), (1, 1, 1)))
    return outs
