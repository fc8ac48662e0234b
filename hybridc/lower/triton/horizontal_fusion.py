"""Equal functions of a kernel, each on small arrays of its own, as one launch: the update of many weights, say.

To begin a launch takes as long as to process a small array. Each program finds out by its program id whose
elements it has, and takes that one's pointers and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import replace

from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, Elements, TritonFunction, TritonLaunch

# An array of more elements has a launch of its own: finding out whose elements it has would cost each program more.
LARGEST = 1 << 18
# The most pointers and scalars that one launch is given; a GPU takes 4096 bytes of them.
PARAMETERS = 256


def fuse_horizontally(kernel_launches: Sequence[TritonLaunch], read_only: Set[int]) -> list[TritonLaunch]:
    """The launches of a kernel, equal ones as one launch where none needs what another makes.

    Nothing is ever written into the buffers with the indices ``read_only``.
    """
    groups: list[list[TritonLaunch]] = []
    for kernel_launch in kernel_launches:
        joined = None
        for group in reversed(groups):
            if any({*other.buffers} & {*kernel_launch.buffers} - read_only for other in group):
                break
            if _joins(kernel_launch, group):
                joined = group
                break
        if joined is None:
            groups.append([kernel_launch])
        else:
            joined.append(kernel_launch)
    return [_launch(group) for group in groups]


def _joins(kernel_launch: TritonLaunch, group: Sequence[TritonLaunch]) -> bool:
    """Whether a launch that does not wait for a group may be made one with it."""
    first = group[0]
    if kernel_launch.elements is None or first.elements is None or kernel_launch.function != first.function:
        return False
    if (
        kernel_launch.elements.extent != first.elements.extent
        or max(kernel_launch.elements.count, first.elements.count) > LARGEST
    ):
        return False
    return (len(group) + 1) * (len(kernel_launch.buffers) + len(kernel_launch.numbers)) <= PARAMETERS


def _launch(members: Sequence[TritonLaunch]) -> TritonLaunch:
    """The one launch of equal ones."""
    first = members[0]
    if len(members) == 1:
        return first
    function, elements = first.function, first.elements
    assert elements is not None
    own = SourceWriter()
    parameters = [*elements.pointers, *elements.numbers]
    own.line(f"program = {elements.program}")
    for name in parameters:
        own.line(f"{name} = {name}_0")
    own.line(f"begin = tl.cdiv({_of(elements.extent, elements.numbers, 0)}, BLOCK)")
    own.line("first = 0")
    for i in range(1, len(members)):
        own.line(f"here = program >= begin  # number {i}")
        for name in parameters:
            own.line(f"{name} = tl.where(here, {name}_{i}, {name})")
        own.line("first = tl.where(here, begin, first)")
        if i + 1 < len(members):
            own.line(f"begin += tl.cdiv({_of(elements.extent, elements.numbers, i)}, BLOCK)")
    own.line("program -= first")
    call_block(function.name, elements, own)
    pointers = [f"{name}_{i}" for i in range(len(members)) for name in elements.pointers]
    numbers = [f"{name}_{i}" for i in range(len(members)) for name in elements.numbers]
    source = module(function.name, pointers, numbers, function.constants, f"{len(members)} times {elements.doc}", own)
    whole = TritonFunction(
        function.name, source, function.pointers * len(members), function.numbers * len(members), function.constants
    )
    buffers = tuple(b for member in members for b in member.buffers)
    return TritonLaunch(whole, buffers, tuple(n for member in members for n in member.numbers), _configs(members))


def call_block(name: str, elements: Elements, w: SourceWriter) -> None:
    """Write what makes the block of ``program``: calls of a function, which is one of the module from now on."""
    parameters = [*elements.pointers, *elements.numbers, "program"]
    block, tail = f"{name}_block", ["TAIL: tl.constexpr"] if elements.tail else []
    head = ["@triton.jit", f"def {block}({', '.join([*parameters, 'BLOCK: tl.constexpr', *tail])}):"]
    w.helpers |= dict(elements.helpers)
    w.helper(block, "\n".join([*head, *(f"    {line}" for line in elements.lines)]))
    arguments = ", ".join([*parameters, "BLOCK"])
    if not elements.tail:
        w.line(f"{block}({arguments})")
        return
    w.line(f"if (program + 1) * BLOCK <= {elements.extent}:")
    with w.indented():
        w.line(f"{block}({arguments}, False)")
    w.line("else:")
    with w.indented():
        w.line(f"{block}({arguments}, True)")


def _of(extent: str, numbers: Sequence[str], member: int) -> str:
    """The number of elements of a member, in terms of its scalar parameters."""
    return re.sub(r"\b(" + "|".join(numbers) + r")\b", rf"\1_{member}", extent) if numbers else extent


def _configs(members: Sequence[TritonLaunch]) -> tuple[Config, ...]:
    """The configs of the largest member, with programs for all."""
    counts = [member.elements.count for member in members if member.elements is not None]
    largest = members[counts.index(max(counts))]
    configs: list[Config] = []
    for config in largest.configs:
        block = dict(config.constants)["BLOCK"]
        configs.append(replace(config, grid=(sum(-(-n // block) for n in counts), 1, 1)))
    return tuple(configs)
