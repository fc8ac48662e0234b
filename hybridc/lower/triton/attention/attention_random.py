"""Random numbers in blocks of weights: all that a block of words gives, where rows of an array begin with one.

Philox gives eight numbers at once (four of double precision). Where rows of the drawn array have a multiple of eight
elements and lie along one dimension of blocks, a program computes each words once, and lays its numbers beside each
other. Else each number is taken from words of its own, which costs eight times as much.
"""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import SSAValue

from hybridc.dialects.kernels.philox import numbers_each
from hybridc.dialects.mlir.hybrid_rt import UniformOp
from hybridc.ir.kernel import Stage, yielded
from hybridc.ir.nest_plan import loop_axes
from hybridc.ir.strides import row_major
from hybridc.ir.structured import dtype_of
from hybridc.lower.triton.blocks import Blocks
from hybridc.lower.triton.expressions import draws


def read_keys(blocks: Blocks, stages: Iterable[Stage]) -> None:
    """Read the keys of all numbers that stages draw, before a loop."""
    for stage in stages:
        for op in stage.steps:
            if isinstance(op, UniformOp):
                blocks.key(op.key)


def write_stage(blocks: Blocks, stage: Stage) -> str:
    """Write the body of a stage of two-dimensional blocks: the name of what it makes."""
    made = _drawn(blocks, stage)
    return blocks.stage(stage) if made is None else made


def _drawn(blocks: Blocks, stage: Stage) -> str | None:
    """The name of a block of numbers that are made several at once; None if they are not."""
    op = yielded(stage).owner
    if not isinstance(op, UniformOp) or stage.kind != "map":
        return None
    dtype = dtype_of(stage.result)
    each, axis = numbers_each(dtype), stage.axes[-1]
    dim = blocks.dim_of.get(axis)
    if dim is None or blocks.dims[dim].axes != (axis,) or op.sizes[-1] % each or not _in_order(op.places, stage):
        return None
    w, own = blocks.w, blocks.dims[dim]
    seed, draw = blocks.key(op.key)
    spread = "[:, None]" if dim == 0 else "[None, :]"
    first = blocks.first[dim].removesuffix(" + ")
    # How many blocks of words are before: rows have whole ones.
    beside = w.let("words", f"{f'({first}) // {each} + ' if first else ''}tl.arange(0, {own.block} // {each}){spread}")
    steps = [s // each for s in row_major(op.sizes)[:-1]]
    terms = [f"tl.cast({blocks.index[a]}, tl.int64) * {s}" for a, s in _followed(blocks, stage, steps)]
    number = w.let("words", " + ".join([*terms, beside if terms else f"{beside}.to(tl.int64)"]))
    parts = [w.let("drawn", text) for text in draws.numbers(seed, draw, number, dtype, w)]
    # tl.join puts what it joins last: so the numbers that are farthest apart are joined first.
    while len(parts) > 1:
        half = len(parts) // 2
        parts = [w.let("drawn", f"tl.join({parts[i]}, {parts[i + half]})") for i in range(half)]
    (made,) = parts
    if dim == 0:
        twos = ", ".join(str(2 + i) for i in range(each.bit_length() - 1))
        made = w.let("drawn", f"tl.permute({made}, (0, {twos}, 1))")
    follows = blocks.dims_of(stage.axes)
    return w.let("drawn", f"tl.reshape({made}, {blocks.shape(follows)})")


def _followed(blocks: Blocks, stage: Stage, steps: Iterable[int]) -> list[tuple[int, int]]:
    """The axes along which there is more than one number, but for the last, and their steps."""
    pairs = zip(stage.axes, steps, strict=False)
    return [(a, s) for a, s in pairs if blocks.plan.sizes[a] != 1]


def _in_order(places: Iterable[SSAValue], stage: Stage) -> bool:
    """Whether places are the indices of the dimensions of what a stage makes."""
    axes = loop_axes(stage)
    found = [axes[op.dim.value.data] for op in (v.owner for v in places) if isinstance(op, linalg.IndexOp)]
    return tuple(found) == stage.axes
