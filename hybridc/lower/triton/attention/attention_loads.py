"""What the functions of attention, forward and backward, share: how operands are read, padded and multiplied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.ir import SSAValue

from hybridc.dialects.attribute import DType
from hybridc.ir.kernel import Axes, Kernel, Nest, Stage
from hybridc.ir.nest_plan import NestPlan
from hybridc.ir.strides import row_major
from hybridc.ir.structured import Shape, dtype_of, shape_of
from hybridc.lower.triton.blocks import NARROW, Parameters
from hybridc.lower.triton.expressions.linalg_body import triton_type
from hybridc.lower.triton.products.product_source import along
from hybridc.lower.triton.triton_function import power_of_two
from hybridc.options import OPTIONS

_SINGLE = np.dtype(np.float32)
# The least size of a block that is multiplied, and the programs that keep a large card busy.
LEAST, PROGRAMS = 16, 132


@dataclass(frozen=True)
class AttentionTile:
    """One way: the rows and the keys of a block. A program has one of the two, and reads the other in steps."""

    rows: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True)
class BlockAxis:
    """A dimension of an operand's block: what counts it, the loops that are counted, and where it ends, if masked."""

    counter: str
    sizes: Shape
    strides: Shape
    end: int | None


class KernelBuffers:
    """The buffers of a kernel: ``given`` names its arguments x0, …, its results y0, …, and locals w0, ….

    ``strides`` are those of arguments, then results, that may be no plain arrays. Offsets are ``wide`` where 32 bits
    are too few.
    """

    def __init__(self, kernel: Kernel, strides: Mapping[int, Shape], local: Sequence[SSAValue] = ()) -> None:
        values = [*kernel.arguments, *kernel.results]
        self.strides = {v: strides.get(i, row_major(shape_of(v))) for i, v in enumerate(values)}
        kinds = (("x", kernel.arguments), ("y", kernel.results), ("w", local))
        names = [f"{kind}{i}" for kind, found in kinds for i in range(len(found))]
        self.numbers = {name: i for i, name in enumerate(names)}
        self.given = Parameters(dict(zip([*values, *local], names, strict=True)))
        far = [sum(abs(s) * (n - 1) for n, s in zip(shape_of(v), s, strict=True)) for v, s in self.strides.items()]
        self.wide = max(far) >= NARROW


def bytes_beside(kernel: Kernel, stages: Sequence[Stage], rows: Axes, keys: Axes) -> int:
    """Bytes for each pair of a row and a key of what the kernel is given and these stages read: masks."""
    reads = {r.value: r.axes for s in stages for r in s.reads if r.value in kernel.arguments}
    walked = {*rows}, {*keys}
    return sum(dtype_of(v).itemsize for v, axes in reads.items() if all(side & {*axes} for side in walked))


def load(
    given: Parameters, value: SSAValue, dtype: DType, steps: Iterable[tuple[str, int]], places: Iterable[BlockAxis]
) -> str:
    """The load of an operand's block as ``dtype``; ``steps`` are indices of the batch, with their strides."""
    terms = [given.pointer(value)]
    terms += [f"{index} * {step}".removesuffix(" * 1") for index, step in steps if step]
    masks: list[str] = []
    for place in places:
        terms.append(along(place.counter, place.sizes, place.strides) if place.sizes else f"{place.counter} * 0")
        if place.end is not None:
            masks.append(f"({place.counter} < {place.end})")
    limited = f", mask={' & '.join(masks)}, other=0.0" if masks else ""
    cast = f".to({triton_type(dtype)})" if dtype_of(value) != dtype else ""
    return f"tl.load({' + '.join(terms)}{limited}){cast}"


def padded(n: int) -> int:
    """The least power of two that is not less, of a block's size."""
    return max(LEAST, power_of_two(n))


def plan_of(nest: Nest) -> NestPlan:
    """Each axis by itself."""
    axes = tuple(range(len(nest.domain)))
    return NestPlan(nest, nest.domain, dict(zip(axes, axes, strict=True)), axes, (), False, frozenset())


def precision(dtype: DType) -> str:
    """How single precision is multiplied."""
    return f', input_precision="{"tf32" if OPTIONS.tf32 else "ieee"}"' if dtype == _SINGLE else ""


def alike(found: Sequence[AttentionTile], rows: int, keys: int) -> list[AttentionTile]:
    """At most four of these ways, those that need no masks where the first needs none."""
    first = found[0]
    return [t for t in found if (keys % first.keys or not keys % t.keys) and (rows % first.rows or not rows % t.rows)][
        :4
    ]
