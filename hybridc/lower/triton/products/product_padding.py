"""Operands whose rows are no multiples of 16 bytes are laid out anew, if the product is large enough to gain from it.

Only 16 bytes at a time come fast enough for tensor cores of half precision. The copy has the operand's order of axes;
what follows memory is filled up with zeros, whose products change no sum.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hybridc.ground.machine import GPU
from hybridc.ir.strides import row_major
from hybridc.ir.structured import Shape, dtype_of, shape_of
from hybridc.lower.triton.products.product_loops import FusedProduct, ProductOperand
from hybridc.lower.triton.products.product_source import along
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.texts import module
from hybridc.lower.triton.triton_function import Config, TritonFunction, TritonPhase
from hybridc.transforms.kernels.tile_machine import NARROW

HALF, WIDE = 2, 16  # bytes: of the numbers that come too slowly otherwise, and those of one access
LINES, ELEMENTS = 8, 128  # what a program copies
MULTIPLE = 16  # elements
COST = 4  # times as long as multiplying at full speed takes what narrow accesses add


def padded(product: FusedProduct) -> tuple[FusedProduct, list[TritonPhase], list[int]]:
    """The product with operands laid out anew where that pays, the phases that do so, and the bytes of their buffers.

    What is decided does not depend on strides: memory is planned before they are known.
    """
    phases: list[TritonPhase] = []
    sizes: list[int] = []
    operands: list[ProductOperand] = []
    for operand in (product.left, product.right):
        if not _pays(product, operand):
            operands.append(operand)
            continue
        made = _laid_out(product, operand, len(sizes))
        phases.append(_copy(product, operand, made))
        sizes.append(product.batches * made.kept * made.terms * dtype_of(operand.value).itemsize)
        operands.append(made)
    return replace(product, left=operands[0], right=operands[1]), phases, sizes


def is_narrow(product: FusedProduct, operand: ProductOperand) -> bool:
    """Whether numbers of half precision do not come 16 bytes at a time."""
    shape = [n for n in shape_of(operand.value) if n != 1]
    size = dtype_of(operand.value).itemsize
    if product.m == 1 or size > HALF or product.dtype.itemsize > HALF or operand.own is not None:
        return False
    return shape[-1] * size % WIDE != 0


def _pays(product: FusedProduct, operand: ProductOperand) -> bool:
    """Whether a copy takes less time than narrow accesses cost."""
    if not is_narrow(product, operand) or product.plan.merged.get(_last(operand)) in product.batch:
        return False
    lost = COST * 2 * product.outputs * product.k / (GPU.multiprocessors * GPU.flops[HALF])
    return lost > GPU.launch + 2 * dtype_of(operand.value).itemsize * math.prod(shape_of(operand.value)) / GPU.memory


def _last(operand: ProductOperand) -> int:
    """The axis that is innermost in memory."""
    read = operand.read
    return next(a for a, n in zip(reversed(read.axes), reversed(shape_of(read.value)), strict=True) if n != 1)


def _laid_out(product: FusedProduct, operand: ProductOperand, number: int) -> ProductOperand:
    """The operand as a dense array of batches with its rows or columns of terms, or the other way round."""
    plan = product.plan
    kept = product.rows if operand is product.left else product.columns
    inner_terms = _last(operand) not in plan.merged
    count, terms = operand.kept, operand.terms
    if inner_terms:
        terms = -(-terms // MULTIPLE) * MULTIPLE
    else:
        count = -(-count // MULTIPLE) * MULTIPLE
    units = (terms, 1) if inner_terms else (1, count)
    axes = _dense(product, kept, units[0]) | _dense(product, product.batch, count * terms)
    loops = tuple(s * units[1] for s in row_major(product.terms))
    return ProductOperand(operand.read, axes, loops, count, terms, number)


def _dense(product: FusedProduct, axes: tuple[int, ...], unit: int) -> dict[int, int]:
    """The strides of axes that follow each other, the last in steps of ``unit``."""
    steps = row_major(tuple(product.plan.sizes[a] for a in axes))
    return {a: s * unit for a, s in zip(axes, steps, strict=True)}


def _copy(product: FusedProduct, operand: ProductOperand, made: ProductOperand) -> TritonPhase:
    """The phase that lays an operand out anew: lines along its innermost family, with zeros at their end."""
    kept = product.rows if operand is product.left else product.columns
    inner_terms = _last(operand) not in product.plan.merged
    size, filled = (operand.terms, made.terms) if inner_terms else (operand.kept, made.kept)
    each = operand.kept if inner_terms else operand.terms
    lines = product.batches * each
    wide = ".to(tl.int64)" if max(product.far, lines * filled) >= NARROW else ""
    dtype = dtype_of(operand.value)
    w = SourceWriter()
    across = -(-filled // ELEMENTS)
    w.line(f"program = tl.program_id(0){wide}")
    w.line(f"line = program // {across} * {LINES} + tl.arange(0, {LINES})[:, None]")
    w.line(f"element = program % {across} * {ELEMENTS} + tl.arange(0, {ELEMENTS})[None, :]")
    w.line(f"batch = line // {each}")
    w.line(f"{'kept' if inner_terms else 'terms'} = line % {each}")
    w.line(f"{'terms' if inner_terms else 'kept'} = element")
    walks = {
        "batch": _walk(product, operand, product.batch),
        "kept": _walk(product, operand, kept),
        "terms": (product.terms, operand.loops),
    }
    places = " + ".join(along(name, *walk) for name, walk in walks.items() if walk[0])
    w.line(f"x = tl.load(x0 + {places}, mask=(line < {lines}) & (element < {size}), other=0)")
    w.line(f"tl.store(w0 + line * {filled} + element, x, mask=(line < {lines}) & (element < {filled}))")
    doc = f"{lines} lines of {size} elements, filled up to {filled}."
    name = f"{product.kernel.name}_filled"
    function = TritonFunction(name, module(name, ("x0", "w0"), (), (), doc, w), (dtype, dtype))
    assert made.own is not None
    first = len(product.kernel.arguments) + len(product.kernel.results)
    buffers = (product.kernel.arguments.index(operand.value), first + made.own)
    return TritonPhase(function, buffers, (), (Config((), (-(-lines // LINES) * across, 1, 1)),))


def _walk(product: FusedProduct, operand: ProductOperand, axes: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]]:
    """Sizes and strides of an operand along merged axes."""
    return tuple(product.plan.sizes[a] for a in axes), tuple(operand.axes[a] for a in axes)
