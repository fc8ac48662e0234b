"""Two reductions in one sweep: what is carried from block to block, and how parts become one.

Of powers these are the greatest value so far and the sum of powers of values less that. A row of which nothing counts
yet has minus infinity as its greatest value, of which powers are taken less zero; in the end the sum is multiplied with
the power of the greatest value less itself, which is one, or NaN where the definition gives NaN. Of squares these are
the sum, and that of squared distances from the mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from hybridc.ir.online_reductions import Running
from hybridc.ir.structured import dtype_of
from hybridc.lower.triton.blocks import Blocks
from hybridc.lower.triton.expressions import linalg_body as body
from hybridc.lower.triton.expressions.linalg_body import literal, triton_type
from hybridc.lower.triton.source_writer import SourceWriter


@dataclass(frozen=True)
class ReductionBlocks:
    """The blocks that a pair is reduced of: over which dimensions they are, and along which of them they are reduced.

    ``before`` and ``here`` are how many elements came before a block, and how many it has, as source.
    """

    dims: Sequence[int]
    over: Sequence[int]
    before: str
    here: str


def add_block(pair: Running, value: str, sums: Mapping[SSAValue, str], walk: ReductionBlocks, blocks: Blocks) -> None:
    """Write how a block of what the first reduces is added to both reductions."""
    if pair.powers:
        _add_powers(pair, value, sums, walk, blocks)
    else:
        _add_squares(pair, value, sums, walk, blocks)


def _add_powers(pair: Running, value: str, sums: Mapping[SSAValue, str], walk: ReductionBlocks, blocks: Blocks) -> None:
    peak, total, w = sums[pair.first.result], sums[pair.second.result], blocks.w
    assert pair.first.combine is not None
    highest = blocks.reduced(pair.first, value, walk.dims, walk.over)
    higher = w.let("higher", body.combine(pair.first.combine, peak, highest, dtype_of(pair.first.result)))
    base = _base(pair, higher, w)
    faded = _power(pair, peak, base, w)
    part = blocks.reduced(pair.second, _power(pair, value, base, w), walk.dims, walk.over)
    w.line(f"{total} = {total} * {faded} + {part}")
    w.line(f"{peak} = {higher}")


def _add_squares(
    pair: Running, value: str, sums: Mapping[SSAValue, str], walk: ReductionBlocks, blocks: Blocks
) -> None:
    whole, total, w = sums[pair.first.result], sums[pair.second.result], blocks.w
    kind = triton_type(dtype_of(pair.first.result))
    here = w.let("here", f"tl.cast({walk.here}, {kind})")
    before = w.let("before", f"tl.cast({walk.before}, {kind})")
    part = blocks.reduced(pair.first, value, walk.dims, walk.over)
    mean = w.let("mean", f"{part} / tl.maximum({here}, 1.0)")
    off = w.let("off", f"{value} - {mean}")
    squares = blocks.reduced(pair.second, w.let("square", f"{off} * {off}"), walk.dims, walk.over)
    gap = w.let("gap", f"{mean} - {whole} / tl.maximum({before}, 1.0)")
    share = w.let("share", f"{before} * {here} / tl.maximum({before} + {here}, 1.0)")
    w.line(f"{total} = {total} + ({squares} + {gap} * {gap} * {share})")
    w.line(f"{whole} = {whole} + {part}")


def finished(pair: Running, first: str, second: str, w: SourceWriter) -> str:
    """The name of the second when everything was added."""
    return w.let("total", f"{second} * {_power(pair, first, first, w)}") if pair.powers else second


def joined(pair: Running, first: str, second: str, counts: str, terms: int, w: SourceWriter) -> tuple[str, str]:
    """The names of both reductions, joined of blocks of parts along the first dimension.

    ``counts`` is how many of the ``terms`` each part has, as source; where there is no part, there is nothing in it.
    """
    assert pair.first.combine is not None
    assert pair.second.combine is not None
    dtype = dtype_of(pair.first.result)
    whole = body.reduce(pair.first.combine, first, 0, dtype, w)
    if pair.powers:
        part = w.let("part", f"{second} * {_power(pair, first, _base(pair, whole, w), w)}")
    else:
        count = w.let("count", f"tl.cast({counts}, {triton_type(dtype)})")
        gap = w.let("gap", f"{first} / tl.maximum({count}, 1.0) - {whole} / {literal(terms, dtype)}")
        part = w.let("part", f"{second} + {gap} * {gap} * {count}")
    return whole, finished(pair, whole, body.reduce(pair.second.combine, part, 0, dtype, w), w)


def _base(pair: Running, peak: str, w: SourceWriter) -> str:
    """The name of what powers are taken less: of minus infinity less itself nothing is known."""
    dtype = dtype_of(pair.first.result)
    return w.let("base", f"tl.where({peak} == {literal(-math.inf, dtype)}, {literal(0.0, dtype)}, {peak})")


def _power(pair: Running, value: str, peak: str, w: SourceWriter) -> str:
    """The name of the power of a value less a peak."""
    names = {pair.value: value, pair.first.result: peak}
    for stage in pair.between:
        reads = zip(stage.op.regions[0].block.args, stage.reads, strict=False)
        given: dict[SSAValue, str] = {a: names[r.value] for a, r in reads if r.value in names}
        names[stage.result] = body.write_body(stage, given, w, _nowhere, _nowhere)
    return names[pair.second.reads[0].value]


def _nowhere(*_: object) -> str:
    raise AssertionError("a power follows nothing but its value and the greatest")
