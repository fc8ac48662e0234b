"""Launches of one function, each on small arrays of its own, as one launch.

Each program finds out by its program id whose elements it has, and takes that one's pointers and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.tile_program import TileLaunch
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonLaunch
from hybridc.lower.triton.triton_function_text import TritonFunctionText


def joined_launch(kernel: Kernel, members: Sequence[TileLaunch], numbers: Mapping[str, int]) -> TritonLaunch:
    """The one launch of equal ones; ``numbers`` are the indices of the kernel's buffers."""
    text, count = TritonFunctionText(kernel, members[0]), len(members)
    parameters, extent = [*text.pointers, *text.parameters], text.printer.dims[0].extent
    w = SourceWriter()
    w.line(f"program = {text.program_id(0)}")
    for name in parameters:
        w.line(f"{name} = {name}_0")
    w.line(f"begin = tl.cdiv({_of(extent, text.parameters, 0)}, BLOCK)")
    w.line("first = 0")
    for i in range(1, count):
        w.line(f"here = program >= begin  # number {i}")
        for name in parameters:
            w.line(f"{name} = tl.where(here, {name}_{i}, {name})")
        w.line("first = tl.where(here, begin, first)")
        if i + 1 < count:
            w.line(f"begin += tl.cdiv({_of(extent, text.parameters, i)}, BLOCK)")
    w.line("program -= first")
    text.call_block(w)
    pointers, scalars = (
        [f"{n}_{i}" for i in range(count) for n in names] for names in (text.pointers, text.parameters)
    )
    source = module(text.name, pointers, scalars, text.constants, f"{count} times {text.doc}", w)
    function = TritonFunction(text.name, source, members[0].dtypes * count, text.kinds * count, text.constants)
    buffers = tuple(numbers[b] for member in members for b in member.buffers)
    return TritonLaunch(function, buffers, tuple(n for m in members for n in text.arguments(m)), _configs(members))


def _of(extent: str, parameters: Sequence[str], member: int) -> str:
    """The number of elements of a member, in terms of its scalar parameters."""
    return re.sub(r"\b(" + "|".join(parameters) + r")\b", rf"\1_{member}", extent) if parameters else extent


def _configs(members: Sequence[TileLaunch]) -> tuple[Config, ...]:
    """The configs of the largest member, with programs for all."""
    counts = [member.extent(member.program.tiles[0].axes) for member in members]
    configs: list[Config] = []
    for c in members[counts.index(max(counts))].configs:
        block = dict(c.blocks)["BLOCK"]
        configs.append(Config(c.blocks, (sum(-(-n // block) for n in counts), 1, 1), c.warps, c.stages, c.shared))
    return tuple(configs)
