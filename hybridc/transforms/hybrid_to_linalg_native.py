"""Movements for targets whose loops may read any element: gathers, and arrays put together part by part.

Loops have no axes of size 1 here either, and what a body reads at its own loops' indices is an operand like any other:
only reads at computed indices are left as ``tensor.extract``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import tensor
from xdsl.dialects.builtin import LocationAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue

from hybridc.ir.linalg_attributes import Shape, wide_axes
from hybridc.ir.scalar_builder import INT64, Body, Element, signless
from hybridc.ir.structured import root
from hybridc.ir.tensor_builder import Builder, Tensor

# An array at most so many times as large as what is put into it, or of so many elements, is written in one go.
MOST, FEW = 4, 16384


class NativeBuilder(Builder):
    """Writes movements as loops that a compiler for a processor takes."""

    def body(self, block: Block) -> Body:
        """The builder of a body whose reads at its own indices are operands."""
        return _Places(self, block, self.location)

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> Tensor:
        """Loops that know their indices, over the axes that are not of size 1."""
        if math.prod(shape) == 0:
            return self.fill(shape, np.dtype(dtype), 0)
        axes = wide_axes(shape)
        loops = {axis: loop for loop, axis in enumerate(axes)}

        def body(b: Body, _: Element) -> Any:
            index = [b.index_of(loops[a]) if a in loops else b.constant(0, INT64) for a in range(len(shape))]
            return element(b, *index)

        core = self.generic([], Tensor(tuple(shape[a] for a in axes), np.dtype(dtype), self), body)
        _drop_unused(cast(Operation, core.value.owner).regions[0].block)
        return core if len(axes) == len(shape) else Tensor(shape, core.dtype, self, core=core, axes=axes)

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """``tensor.concat`` of what has elements."""
        filled = [x for x in xs if math.prod(x.shape)]
        if filled:
            return super().concat(filled, axis)
        first = xs[0].shape
        return self.fill((*first[:axis], sum(x.shape[axis] for x in xs), *first[axis + 1 :]), xs[0].dtype, 0)

    def insert(self, x: Tensor, into: Tensor, begin: Sequence[int], step: Sequence[int]) -> Tensor:
        """A box inside an array: what lies before and behind it along each axis, put together with it."""
        if math.prod(x.shape) == 0:
            return into
        spread = any(s != 1 and n > 1 for s, n in zip(step, x.shape, strict=True))
        if spread or math.prod(into.shape) <= max(FEW, MOST * math.prod(x.shape)):
            return self._spread(x, into, begin, step)
        made, low, size = x, list(begin), list(x.shape)
        ones = (1,) * len(into.shape)

        def beside(axis: int, first: int, count: int) -> list[Tensor]:
            box = ([*low[:axis], first, *low[axis + 1 :]], ones, (*size[:axis], count, *size[axis + 1 :]))
            return [self.slice(into, *box)] if count else []

        for axis in reversed(range(len(into.shape))):
            end, whole = low[axis] + size[axis], into.shape[axis]
            made = self.concat([*beside(axis, 0, low[axis]), made, *beside(axis, end, whole - end)], axis)
            low[axis], size[axis] = 0, whole
        return made

    def _spread(self, x: Tensor, into: Tensor, begin: Sequence[int], step: Sequence[int]) -> Tensor:
        """Every so many-th element is one of ``x``: each place finds out which."""

        def element(b: Body, *index: Element) -> Element:
            places: list[Element] = []
            inside: Element | None = None
            for i, first, by, n, whole in zip(index, begin, step, x.shape, into.shape, strict=True):
                if (first, by, n) == (0, 1, whole):
                    places.append(i)
                    continue
                low, every = (first, by) if by > 0 else (first + by * (n - 1), -by)
                far = b.sub(i, low)
                at = b.cast(b.floor(b.div(far, every)), INT64) if every > 1 else far
                here = b.logical_and(b.ge(at, 0), b.lt(at, n))
                if every > 1:
                    here = b.logical_and(here, b.eq(b.mul(at, every), far))
                inside = here if inside is None else b.logical_and(inside, here)
                at = b.min(b.max(at, 0), n - 1)
                places.append(at if by > 0 else b.sub(n - 1, at))
            own = b.load(x, *places)
            return own if inside is None else b.select(inside, own, b.load(into, *index))

        return self.generate(into.shape, into.dtype, element)


class _Places(Body):
    """A body that reads elements: those at its own indices by indexing maps."""

    def __init__(self, builder: Builder, block: Block, location: LocationAttr) -> None:
        super().__init__(block, location)
        self.builder = builder

    def load(self, array: Any, *index: Any) -> Element:
        if array.number is not None:
            return self.constant(array.number, array.dtype)
        value, axes = self.builder.narrow(array)
        filled = root(value).owner
        if isinstance(filled, linalg.FillOp):
            return Element(filled.operands[0], array.dtype)
        kept = [index[a] for a in axes]
        loops = [_loop(i) for i in kept]
        if all(loop is not None for loop in loops) and len(set(loops)) == len(loops):
            return self._operand(value, cast(tuple[int, ...], tuple(loops)), array.dtype)
        places = [self._place(i) for i in kept]
        return Element(self.add_op(tensor.ExtractOp, [value, *places], signless(array.dtype)), array.dtype)

    def _operand(self, value: SSAValue, loops: tuple[int, ...], dtype: np.dtype[Any]) -> Element:
        read = (value, loops, dtype)
        if read not in self.reads:
            self.block.insert_arg(signless(dtype), len(self.reads))
            self.reads.append(read)
        return Element(self.block.args[self.reads.index(read)], dtype)


def _loop(index: Any) -> int | None:
    """The loop whose index an element is; None if it is computed."""
    owner = index.index.owner if isinstance(index, Element) and index.index is not None else None
    return owner.dim.value.data if isinstance(owner, linalg.IndexOp) else None


def _drop_unused(block: Block) -> None:
    """Drop the indices that no element needs."""
    for op in reversed(list(block.ops)):
        if op.results and not any(r.first_use is not None for r in op.results):
            op.detach()
            op.erase()
