"""Phases of products whose range is groups of columns, of all matrices that are walked around."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ModuleOp

from hybridc.ir.product_shape import Loop, Matrices
from hybridc.lower.llvm.codegen import NativeFunction
from hybridc.lower.llvm.gemm_phase import (
    EFFORT_TO_SHARE,
    FLOP_NS,
    PARTS,
    Arguments,
    Walk,
    effort_of,
    few_forms,
    grain_of,
    phase,
)
from hybridc.lower.llvm.gemm_tile import Form
from hybridc.lower.llvm.kernel_phases import KernelPhase

# Writes the body of a phase: of its arguments, whose last numbers are those of the walk.
Write = Callable[[Arguments, Walk], None]


def column_phase(
    way: str,
    form: Form,
    given: Matrices,
    buffers: tuple[int, ...],
    threads: int,
    *,
    rows: int,
    fixed: Callable[[Matrices, int], Sequence[int]],
    scratch: int,
    write: Write,
    once: Sequence[Loop] = (),
) -> KernelPhase:
    """The phase that multiplies group by group of ``form.width`` columns.

    Where groups are few, rows are in blocks, of at least ``rows``, that are walked around, too. ``fixed`` are the
    numbers of the phase, of the matrices and the number of groups; ``once`` is walked around where nothing else is.
    """
    groups = math.ceil(given.n / form.width)
    effort = effort_of(given, form.dtype)
    if effort >= EFFORT_TO_SHARE:
        given = given.in_blocks(PARTS * threads // (groups * given.batches), rows)
    around = few_forms(given.around or once)
    numbers = [int(n) for n in fixed(given, groups)]
    extent = groups * given.batches

    def body(arguments: Arguments) -> None:
        write(arguments, Walk.read(around, arguments.numbers[len(numbers) :]))

    def build() -> ModuleOp:
        return phase([form.element] * 3, len(numbers) + Walk.count(around), body)

    return KernelPhase(
        NativeFunction(f"product-{way} {form.key} around {len(around)}", build),
        buffers,
        (*numbers, *Walk.values(around)),
        extent=extent,
        grain=grain_of(extent, effort),
        scratch=scratch,
        work=FLOP_NS * given.flops,
        way=way,
    )
