"""Parts of reductions, combined by a function of its own, in their order: results do not depend on chance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hybridc.ir.online_reductions import Running
from hybridc.ir.structured import dtype_of, shape_of
from hybridc.lower.triton.blocks import with_start
from hybridc.lower.triton.expressions import linalg_body as body
from hybridc.lower.triton.function_text import KernelMemory, PartialResults
from hybridc.lower.triton.online_pairs import joined
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonPhase, power_of_two, warps_for

# Elements of a block of parts, at most.
ELEMENTS = 4096


def combine_phase(memory: KernelMemory, part: PartialResults) -> TritonPhase:
    """The phase that combines the parts of a reduction."""
    combine, dtype = part.stage.combine, dtype_of(part.stage.result)
    assert combine is not None
    w = SourceWriter()
    (name,) = _loaded((part,), w)
    return _phase(memory, (part,), (with_start(part.stage, body.reduce(combine, name, 0, dtype, w), w),), w)


def join_phase(
    memory: KernelMemory, pair: Running, parts: tuple[PartialResults, PartialResults], terms: int, piece: int
) -> TritonPhase:
    """The phase that joins the parts of a pair of reductions, of which each has ``piece`` of the ``terms``."""
    w = SourceWriter()
    first, second = _loaded(parts, w)
    counts = f"tl.minimum(tl.maximum({terms} - i.to(tl.int64) * {piece}, 0), {piece})"
    return _phase(memory, parts, joined(pair, first, second, counts, terms, w), w)


def _sizes(part: PartialResults) -> tuple[int, int, int]:
    """How many elements parts have, and the rows and columns of a block of parts."""
    size, rows = math.prod(shape_of(part.stage.result)), power_of_two(part.pieces)
    return size, rows, min(power_of_two(size), max(1, ELEMENTS // rows))


def _loaded(parts: Sequence[PartialResults], w: SourceWriter) -> list[str]:
    """Write places and loads of parts: the names of blocks in which what is no part counts for nothing."""
    pieces, (size, rows, columns) = parts[0].pieces, _sizes(parts[0])
    w.line(f"i = tl.arange(0, {rows})[:, None]")
    w.line("j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]")
    masks = [f"(i < {pieces})"] * (rows != pieces) + [f"(j < {size})"] * (size % columns != 0)
    mask = f", mask={' & '.join(masks)}" if masks else ""
    names: list[str] = []
    for part in parts:
        assert part.stage.combine is not None
        name = w.let("part", f"tl.load({part.buffer} + i * {size} + j{mask})")
        if rows != pieces:
            neutral = body.neutral(part.stage.combine, dtype_of(part.stage.result))
            name = w.let("part", f"tl.where(i < {pieces}, {name}, {neutral})")
        names.append(name)
    return names


def _phase(memory: KernelMemory, parts: Sequence[PartialResults], made: Sequence[str], w: SourceWriter) -> TritonPhase:
    """The phase that stores what was made of parts."""
    pieces, (size, rows, columns) = parts[0].pieces, _sizes(parts[0])
    targets = [memory.names[part.stage.result] for part in parts]
    for target, name in zip(targets, made, strict=True):
        w.line(f"tl.store({target} + j, {name}{f', mask=j < {size}' if size % columns else ''})")
    pointers = (*(part.buffer for part in parts), *targets)
    doc = f"{pieces} parts of {size} elements are combined."
    source = module("combine", pointers, (), ("COLUMNS",), doc, w)
    dtypes = tuple(memory.dtypes[name] for name in pointers)
    function = TritonFunction("combine", source, dtypes, (), ("COLUMNS",))
    config = Config((("COLUMNS", columns),), (-(-size // columns), 1, 1), warps_for(rows * columns))
    return TritonPhase(function, tuple(memory.number[name] for name in pointers), (), (config,))
