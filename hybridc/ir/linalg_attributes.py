"""Attributes, properties and types that operations of the structured form share: each is made once."""

from __future__ import annotations

import functools
from typing import Any

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr, AffineMap

from hybridc.ir.scalar_builder import DType, signless

Shape = tuple[int, ...]


@functools.lru_cache(4096)
def structured_type(shape: Shape, dtype: DType) -> TensorType[Any]:
    """The upstream type of an array."""
    return TensorType(signless(dtype), shape)


@functools.lru_cache(4096)
def indexing_map(loops: int, places: tuple[int, ...]) -> AffineMapAttr:
    """The map from loops to an operand's indices, each of which is one of the loops."""
    return AffineMapAttr(AffineMap(loops, 0, tuple(map(AffineDimExpr, places))))


@functools.lru_cache(1024)
def maps(loops: int, places: tuple[tuple[int, ...], ...]) -> ArrayAttr[AffineMapAttr]:
    """The maps of all operands."""
    return ArrayAttr([indexing_map(loops, p) for p in places])


@functools.lru_cache(1024)
def iterators(loops: int, reduced: tuple[int, ...]) -> ArrayAttr[IteratorTypeAttr]:
    """The kinds of loops: all are parallel but these."""
    parallel, reduction = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()
    return ArrayAttr([reduction if i in reduced else parallel for i in range(loops)])


@functools.lru_cache(64)
def segments(*sizes: int) -> DenseArrayBase[Any]:
    """How many operands each group of an operation has."""
    return DenseArrayBase.from_list(i32, sizes)


@functools.lru_cache(1024)
def integers(numbers: tuple[int, ...]) -> DenseArrayBase[Any]:
    """Numbers as a property."""
    return DenseArrayBase.from_list(i64, numbers)


@functools.cache
def string(text: str) -> StringAttr:
    """A text as an attribute."""
    return StringAttr(text)


@functools.lru_cache(4096)
def wide_axes(shape: Shape) -> tuple[int, ...]:
    """The axes that loops walk along: all but those of size 1."""
    return tuple(i for i, n in enumerate(shape) if n != 1)


def slice_properties(operands: int, offsets: Shape, sizes: Shape, strides: Shape) -> dict[str, Attribute]:
    """The properties of a slice whose box is known."""
    return {
        "static_offsets": integers(offsets),
        "static_sizes": integers(sizes),
        "static_strides": integers(strides),
        "operandSegmentSizes": segments(*(1,) * operands, 0, 0, 0),
    }


@functools.lru_cache(4096)
def groups(old: Shape, new: Shape) -> tuple[tuple[Shape, Shape], ...]:
    """The axes of both shapes in groups of equal sizes, as small as can be."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        group = ([i], [j])
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left *= old[i]
                group[0].append(i)
                i += 1
            else:
                right *= new[j]
                group[1].append(j)
                j += 1
        found.append(group)
    if found:  # what is left has size 1
        found[-1][0].extend(range(i, len(old)))
        found[-1][1].extend(range(j, len(new)))
    return tuple((tuple(a), tuple(b)) for a, b in found)


@functools.lru_cache(4096)
def reassociation(groups: tuple[Shape, ...]) -> ArrayAttr[Any]:
    """Which axes belong together, as a property."""
    return ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in group]) for group in groups])
