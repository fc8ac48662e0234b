"""The text of a Triton kernel over the blocks of a nest: indices, masks, loads, stages, stores.

A program holds blocks of values: one dimension for each :class:`Dim`, of which a value that does not follow it has one
element, so that values broadcast. What a stage computes is written by
:mod:`~hybridc.lower.triton.expressions.linalg_body`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects import tensor
from xdsl.ir import SSAValue

from hybridc.ir.kernel import Axes, Kernel, Read, Stage, number_of
from hybridc.ir.nest_plan import NestPlan, loop_axes
from hybridc.ir.strides import row_major
from hybridc.ir.structured import AffineIndex, dtype_of, shape_of
from hybridc.lower.triton.expressions import linalg_body as body
from hybridc.lower.triton.source_writer import SourceWriter

Strides = tuple[int, ...]

# Offsets up to here fit into 32 bits.
NARROW = 2**31


@dataclass(frozen=True)
class Dim:
    """A dimension of blocks: its index runs over merged axes of a nest, in the order of memory.

    ``block`` is how many elements a block has along it, a constant of the kernel or a literal; where that does not
    divide the ``extent``, it is ``masked``.
    """

    name: str
    axes: Axes
    extent: str
    block: str
    masked: bool


@dataclass
class Parameters:
    """The buffers of a kernel's function, by the names of its pointers; what is not given is not read or written."""

    values: dict[SSAValue, str] = field(default_factory=lambda: dict[SSAValue, str]())
    used: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())

    def pointer(self, value: SSAValue) -> str:
        """The name of the pointer at a value."""
        if value not in self.used:
            self.used.append(value)
        return self.values[value]


class Blocks:
    """Writes what a program does with its blocks.

    ``strides``, in elements, are those of values that may be no plain arrays.
    """

    def __init__(
        self,
        plan: NestPlan,
        dims: Sequence[Dim],
        given: Parameters,
        strides: Mapping[SSAValue, Strides],
        w: SourceWriter,
    ) -> None:
        self.plan = plan
        self.dims = tuple(replace(d, axes=tuple(a for a in d.axes if not self._is_one(plan, a))) for d in dims)
        self.given = given
        self.strides = strides
        self.w = w
        self.dim_of = {a: i for i, d in enumerate(self.dims) for a in d.axes}
        self.index: dict[int, str] = {}  # of merged axes
        self.known: dict[SSAValue, str] = {}
        self.loaded: dict[tuple[SSAValue, Axes | tuple[AffineIndex, ...]], str] = {}
        self.shown: str | None = None  # the name of what says which elements there are, if it has one

    @staticmethod
    def _is_one(plan: NestPlan, axis: int) -> bool:
        """Whether there is one element along an axis, and always was: nothing is walked there."""
        return plan.sizes[axis] == 1 and axis not in plan.dynamic

    # --- sizes and places ----------------------------------------------------------------------------------

    def size(self, axis: int) -> str:
        """How many elements a merged axis has."""
        return product(self.plan, (axis,))

    def shape(self, dims: Iterable[int] | None = None) -> str:
        """The shape of a block that follows these dimensions; all if None."""
        followed = set(range(len(self.dims)) if dims is None else dims)
        return f"[{', '.join(d.block if i in followed else '1' for i, d in enumerate(self.dims))}]"

    def places(self, number: int, first: str) -> None:
        """Write the index along a dimension, from ``first`` on, and that along each of its axes."""
        dim, w = self.dims[number], self.w
        around = ", ".join(":" if i == number else "None" for i in range(len(self.dims)))
        spread = f"[{around}]" if len(self.dims) > 1 else ""
        w.line(f"{dim.name} = {first}tl.arange(0, {dim.block}){spread}")
        if len(dim.axes) == 1:
            self.index[dim.axes[0]] = dim.name
            return
        rest = dim.name
        for axis in reversed(dim.axes[1:]):
            self.index[axis] = w.let(f"{dim.name}_{axis}", f"{rest} % {self.size(axis)}")
            rest = w.let("rest", f"{rest} // {self.size(axis)}")
        if dim.axes:
            self.index[dim.axes[0]] = rest

    def mask(self, dims: Iterable[int]) -> str | None:
        """Which elements of a block that follows these dimensions there are; None if all are there."""
        parts = [f"({d.name} < {d.extent})" for i, d in enumerate(self.dims) if i in set(dims) and d.masked]
        return (self.shown or " & ".join(parts)) if parts else None

    def offset(self, axes: Axes, strides: Strides | None) -> str:
        """The offset of a block of elements whose dimensions follow axes of the nest."""
        merged = [a for a in self.plan.axes(axes) if not self._is_one(self.plan, a)]
        last = {self.plan.merged[a]: i for i, a in enumerate(axes)}
        terms: list[str] = []
        while merged:
            whole = next((d for d in self.dims if list(d.axes) == merged[: len(d.axes)] and d.axes), None)
            if strides is not None or whole is None:
                index, axis = self.index[merged[0]], merged.pop(0)
                step = product(self.plan, merged) if strides is None else str(strides[last[axis]])
            else:
                index, merged = whole.name, merged[len(whole.axes) :]
                step = product(self.plan, merged)
            terms.append(index if step == "1" else f"{index} * {step}")
        return " + ".join(terms)

    def _affine_offset(self, read: Read, strides: Strides | None) -> str:
        """The offset of a block of elements at sums of axes."""
        terms: list[str] = []
        for (factors, first), step in zip(read.index, strides or row_major(shape_of(read.value)), strict=True):
            terms += [f"{self._place(a)} * {f * step}" for a, f in factors]
            terms += [str(first * step)] if first else []
        return " + ".join(terms)

    def dims_of(self, axes: Axes) -> set[int]:
        """The dimensions that axes of the nest lie along."""
        return {self.dim_of[a] for a in self.plan.axes(axes) if a in self.dim_of}

    # --- memory --------------------------------------------------------------------------------------------

    def read(self, read: Read) -> str:
        """The name of a block that is read."""
        if read.value in self.known:
            return self.known[read.value]
        number = number_of(read.value)
        if number is not None:
            return body.literal(number, dtype_of(read.value))
        key = (read.value, read.index or read.axes)
        if key not in self.loaded:
            pointer = self.given.pointer(read.value)
            strides = self.strides.get(read.value)
            offset = self._affine_offset(read, strides) if read.index else self.offset(read.axes, strides)
            self.loaded[key] = self._load(pointer, offset, self.mask(self.dims_of(read.axes)))
        return self.loaded[key]

    def _load(self, pointer: str, offset: str, mask: str | None) -> str:
        where = f"{pointer} + {offset}" if offset else pointer
        limited = f", mask={mask}" if mask else ""
        return self.w.let(f"{pointer}_block", f"tl.load({where}{limited})")

    def _anywhere(self, op: tensor.ExtractOp, index: Sequence[str]) -> str:
        """An element at a computed place."""
        value = op.tensor
        shape = shape_of(value)
        steps = self.strides.get(value) or row_major(shape)
        terms = [i if s == 1 else f"{i} * {s}" for i, s in zip(index, steps, strict=True) if s]
        return self._load(self.given.pointer(value), " + ".join(terms), self.mask(range(len(self.dims))))

    def store(self, stage: Stage, name: str) -> None:
        """Put a block of a stage's result into memory."""
        offset = self.offset(stage.axes, self.strides.get(stage.result)) or self.origin()
        self.put(self.given.pointer(stage.result), offset, name, self.mask(self.dims_of(stage.axes)))

    def origin(self) -> str:
        """An offset of zero, of a block with one element."""
        return f"tl.zeros({self.shape(())}, tl.int32)"

    def put(self, pointer: str, offset: str, name: str, mask: str | None) -> None:
        """Put a block into memory; an offset that follows no axis is that of a block with one element."""
        self.w.line(f"tl.store({pointer} + {offset}, {name}{f', mask={mask}' if mask else ''})")

    # --- stages --------------------------------------------------------------------------------------------

    def stage(self, stage: Stage) -> str:
        """Write the body of a stage: the name of what it makes, or of what it combines into its result."""
        block = stage.op.regions[0].block
        names: dict[SSAValue, str] = {a: self.read(r) for a, r in zip(block.args, stage.reads, strict=False)}
        axes = loop_axes(stage)
        return body.write_body(stage, names, self.w, lambda d: self._place(axes[d]), self._anywhere)

    def _place(self, axis: int) -> str:
        merged = self.plan.merged[axis]
        return self.index[merged] if merged in self.index else self.origin()

    def whole(self, name: str, dims: Iterable[int]) -> str:
        """A block as one that follows these dimensions, even if it did not."""
        return f"tl.broadcast_to({name}, {self.shape(dims)})"

    def reduced(self, stage: Stage, value: str, dims: Sequence[int], over: Sequence[int]) -> str:
        """The name of a block over ``dims`` reduced along some of them; what is not there counts for nothing."""
        assert stage.combine is not None
        dtype = dtype_of(stage.result)
        name = self.there(stage, value, dims, over)
        for dim in over:
            name = body.reduce(stage.combine, name, dim, dtype, self.w)
        return name

    def there(self, stage: Stage, value: str, dims: Sequence[int], over: Sequence[int]) -> str:
        """The name of a block over ``dims`` in which what is not there along ``over`` counts for nothing."""
        assert stage.combine is not None
        name, mask = self.whole(value, dims), self.mask(over)
        if mask is not None:
            name = f"tl.where({mask}, {name}, {body.neutral(stage.combine, dtype_of(stage.result))})"
        return self.w.let("part", name)

    def finished(self, stage: Stage, name: str) -> str:
        """A reduction combined with the number that it begins with."""
        return with_start(stage, name, self.w)


def with_start(stage: Stage, name: str, w: SourceWriter) -> str:
    """The name of a reduction combined with the number that it begins with, if that is more than nothing."""
    assert stage.combine is not None
    dtype = dtype_of(stage.result)
    start = number_of(stage.op.operands[-1])
    assert start is not None, "a reduction begins with a number"
    first = body.literal(start, dtype)
    if first == body.neutral(stage.combine, dtype):
        return name
    return w.let("total", body.combine(stage.combine, name, first, dtype))


def product(plan: NestPlan, axes: Iterable[int]) -> str:
    """How many elements merged axes have."""
    axes = list(axes)
    known = [str(math.prod(plan.sizes[a] for a in axes if a not in plan.dynamic))]
    known += [f"n{a}" for a in axes if a in plan.dynamic]
    return " * ".join(k for k in known if k != "1") or "1"


def title(kernel: Kernel, what: str) -> str:
    """What a kernel is and where it comes from."""
    where = ", ".join(map(str, kernel.locations))
    names = ", ".join(dict.fromkeys(kernel.operators))
    return f"{what}: {names}{f' ({where})' if where else ''}."


def is_wide(values: Iterable[Any]) -> bool:
    """Whether offsets into some array need 64 bits."""
    return any(math.prod(shape_of(v)) >= NARROW for v in values)
