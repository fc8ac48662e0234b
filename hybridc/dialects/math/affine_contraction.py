"""Contractions whose operands are read at affine indices: what convolutions decompose into."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.math.contraction import Product, matmul
from hybridc.dialects.operator import Bad, Contraction, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import HALVES
from hybridc.errors import AttributeValueError, ShapeError, UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, Place

# Bytes of an operand that an eager contraction spreads over all loops, with elements repeated where windows overlap.
_SCRATCH = 1 << 25
_TERM = re.compile(r"(?:(\d+)\*)?([a-z]\d*)|(\d+)")


@dataclass(frozen=True)
class ContractionIndex:
    """The loops of a contraction by name, those of the result first, and how they index each operand."""

    loops: tuple[str, ...]
    kept: int
    lhs: tuple[Place, ...]
    rhs: tuple[Place, ...]

    def sizes(self, lhs: Shape, rhs: Shape, result: Shape) -> dict[int, int]:
        """The trip count of each loop that is an index of the result or, alone, of an operand."""
        found: dict[int, int] = {}
        for places, shape in ((self.lhs, lhs), (self.rhs, rhs)):
            found |= {place: n for place, n in zip(places, shape, strict=True) if isinstance(place, int)}
        return found | dict(enumerate(result))


@functools.lru_cache(1024)
def contraction_index(text: str) -> ContractionIndex:
    """The index of a contraction from its text; ``ValueError`` says what is wrong with it."""
    operands, arrow, result = text.replace(" ", "").partition("->")
    sides = operands.split(";")
    if not arrow or len(sides) != 2:
        raise ValueError("write it as 'indices of lhs; indices of rhs -> indices of the result'")
    kept = _dimensions(result)
    if any(not re.fullmatch(r"[a-z]\d*", name) for name in kept) or len(set(kept)) < len(kept):
        raise ValueError("each index of the result must be a loop of its own")
    numbers: dict[str, int] = {name: i for i, name in enumerate(kept)}
    places = [tuple(_place(each, numbers) for each in _dimensions(side)) for side in sides]
    return ContractionIndex(tuple(numbers), len(kept), *places)


def _dimensions(text: str) -> list[str]:
    return text.split(",") if text else []


def _place(text: str, numbers: dict[str, int]) -> Place:
    """The index along a dimension, such as ``2*i+k+1``; new loops are numbered."""
    factors: dict[int, int] = {}
    offset = 0
    for sign, part in re.findall(r"([+-]?)([^+-]+)", text):
        term = _TERM.fullmatch(part)
        if term is None:
            raise ValueError(f"{part!r} is no loop, such as i or k1, and no multiple of one, such as 2*i")
        factor, name, constant = term.groups()
        by = -1 if sign == "-" else 1
        if name is None:
            offset += by * int(constant)
            continue
        if by * int(factor or 1) <= 0:
            raise ValueError(f"the factor of {name} must be positive")
        loop = numbers.setdefault(name, len(numbers))
        factors[loop] = factors.get(loop, 0) + int(factor or 1)
    if offset < 0:
        raise ValueError(f"the index {text} begins at {offset}")
    if offset == 0 and list(factors.values()) == [1]:
        return next(iter(factors))
    return AffineIndex(tuple(sorted(factors.items())), offset)


@register("hybrid.contract")
class Contract(Product, Contraction):
    """The sums of products of two arrays' elements, each read at affine sums of the loops' indices

    ``index`` names the loops as einsum does, but an index along a dimension may be an affine sum of them: with
    ``"n,2*i+k,c; o,k,c -> n,i,o"`` it is a strided convolution of channels-last data. Loops that are not in the result
    are summed over. ``shape`` is the result's; each other loop is, alone, the index along some dimension of an operand.
    """

    INPUTS = ("lhs", "rhs")

    index: str = attribute(doc="indices of lhs; indices of rhs -> indices of the result")
    shape: Shape = attribute(doc="the shape of the result")

    def check(self) -> None:
        try:
            self.parsed = contraction_index(self.index)
        except ValueError as error:
            raise AttributeValueError(f"contract: attribute index cannot be {self.index!r}: {error}") from error

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        index = self.parsed
        if len(self.shape) != index.kept:
            raise ShapeError(f"contract: shape={self.shape} must have {index.kept} numbers for index={self.index!r}")
        for name, shape, places in zip(self.INPUTS, shapes, (index.lhs, index.rhs), strict=True):
            if len(shape) != len(places):
                raise ShapeError(
                    f"contract: {name} of shape {shape} must have {len(places)} axes for index={self.index!r}"
                )
        sizes = index.sizes(shapes[0], shapes[1], self.shape)
        unknown = [name for i, name in enumerate(index.loops) if i not in sizes]
        if unknown:
            raise ShapeError(f"contract: no axis has the size of loop {unknown[0]} alone in index={self.index!r}")
        for name, shape, places in zip(self.INPUTS, shapes, (index.lhs, index.rhs), strict=True):
            for axis, (n, place) in enumerate(zip(shape, places, strict=True)):
                self._require_inside(name, shape, axis, n, place, sizes)
        return shapes, [self.shape]

    def _require_inside(
        self, name: str, shape: Shape, axis: int, n: int, place: Place, sizes: Mapping[int, int]
    ) -> None:
        """Raise unless all indices along an axis are in it."""
        if isinstance(place, int):
            if sizes[place] != n:
                raise ShapeError(
                    f"contract: axis {axis} of {name}, of shape {shape}, must have {sizes[place]} elements: loop "
                    f"{self.parsed.loops[place]} in index={self.index!r}"
                )
            return
        if any(sizes[loop] == 0 for loop, _ in place.terms):
            return
        low, high = place.ends(sizes)
        if low < 0 or high >= n:
            raise ShapeError(
                f"contract: index={self.index!r} reads from {low} to {high} along axis {axis} of {name}, of shape "
                f"{shape}"
            )

    def loops(self, rank: int) -> tuple[tuple[Place, ...], tuple[Place, ...], tuple[int, ...]]:
        return self.parsed.lhs, self.parsed.rhs, tuple(range(self.parsed.kept))

    def eager(self, *arrays: Any) -> Any:
        a, b = arrays
        self.infer_shape([a.shape, b.shape])
        self.require_float(a.dtype)
        sizes = self.parsed.sizes(a.shape, b.shape, self.shape)
        if 0 in sizes.values():
            return np.zeros(self.shape, a.dtype)
        index = self.parsed
        spread = max((a.itemsize * math.prod(sizes[i] for i in _loops(p)) for p in (index.lhs, index.rhs)), default=0)
        if spread <= _SCRATCH:
            return self._multiplied(a, b, sizes)
        wide = np.dtype(np.float32) if a.dtype in HALVES else a.dtype
        result = np.zeros(self.shape, wide)
        self._add_blocks(result, a, b, sizes)
        return result.astype(a.dtype, copy=False)

    def _add_blocks(self, result: Any, a: Any, b: Any, sizes: dict[int, int]) -> None:
        """Add the contraction to the result, block by block, so that operands spread over their loops stay small.

        The operand that is spread most is cut along the loop that takes the longest steps in it.
        """
        index, sides = self.parsed, ((a, self.parsed.lhs), (b, self.parsed.rhs))
        spread = [x.itemsize * math.prod(sizes[i] for i in _loops(places)) for x, places in sides]
        x, places = sides[0] if spread[0] >= spread[1] else sides[1]
        steps = _steps(x, places)
        loop = max(steps, key=lambda i: (sizes[i] > 1, steps[i]))
        if max(spread) <= _SCRATCH or sizes[loop] == 1:
            wide = result.dtype
            result += self._multiplied(a.astype(wide, copy=False), b.astype(wide, copy=False), sizes)
            return
        block = max(1, sizes[loop] * _SCRATCH // max(spread))
        for first in range(0, sizes[loop], block):
            count = min(block, sizes[loop] - first)
            own = result[(slice(None),) * loop + (slice(first, first + count),)] if loop < index.kept else result
            left, right = (_from(x, each, loop, first, count) for x, each in sides)
            self._add_blocks(own, left, right, {**sizes, loop: count})

    def _multiplied(self, a: Any, b: Any, sizes: Mapping[int, int]) -> Any:
        """The contraction by one matmul of the operands spread over their loops."""
        index = self.parsed
        left, right = _loops(index.lhs), _loops(index.rhs)
        kept = range(index.kept)
        batch = [i for i in kept if i in left and i in right]
        rows = [i for i in kept if i in left and i not in right]
        columns = [i for i in kept if i not in left]
        summed = range(index.kept, len(index.loops))
        lhs = _walked(a, index.lhs, [batch, rows, summed], sizes)
        rhs = _walked(b, index.rhs, [batch, summed, columns], sizes)
        order = [*batch, *rows, *columns]
        made = matmul(lhs, rhs, False, False).reshape([sizes[i] for i in order])
        return made.transpose([order.index(i) for i in kept])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, a, b = values[:3]
        sizes = self.parsed.sizes(a.shape, b.shape, self.shape)
        return (
            lambda: self._adjoint(F, dy, a.shape, self.parsed.lhs, b, self.parsed.rhs, sizes),
            lambda: self._adjoint(F, dy, b.shape, self.parsed.rhs, a, self.parsed.lhs, sizes),
        )

    def _adjoint(
        self, F: Any, dy: Any, shape: Shape, own: Sequence[Place], other: Any, others: Sequence[Place],
        sizes: Mapping[int, int],
    ) -> Any:  # fmt: skip
        """The gradient of one operand: a contraction of the other with ``dy``.

        Where an index is a sum of loops, one contraction for each index of all but the first of them, put into place.
        """
        terms = [_terms(place) for place in own]
        along = [each[0][0] if each else None for each in terms]
        kept = [loop for loop in along if loop is not None]
        taps = sorted({loop for each in terms for loop, _ in each[1:]})
        if len(set(kept)) < len(kept) or set(kept) & set(taps):
            raise UnsupportedError(f"contract: index={self.index!r} has no gradient, as a loop walks along two axes")
        names = self.parsed.loops
        result = ",".join(names[i] for i in range(self.parsed.kept))
        index = f"{result}; {self._written(others)} -> {','.join(names[loop] for loop in kept)}"
        total: Any = None
        for numbers in np.ndindex(*[sizes[loop] for loop in taps]):
            at = dict(zip(taps, numbers, strict=True))
            part = F.contract(
                _at(F, dy, range(self.parsed.kept), at), _at(F, other, others, at), index=index,
                shape=tuple(sizes[loop] for loop in kept),
            )  # fmt: skip
            part = F.reshape_to(part, shape=tuple(1 if loop is None else sizes[loop] for loop in along))
            begin, step = self._box(own, terms, at)
            if part.shape != shape:
                end = tuple(b + s * (n - 1) + 1 for b, s, n in zip(begin, step, part.shape, strict=True))
                part = F.slice_scatter(part, shape=shape, begin=begin, end=end, step=step)
            total = part if total is None else total + part
        return total

    def _written(self, places: Sequence[Place]) -> str:
        """The index along each axis, as text."""
        names, found = self.parsed.loops, list[str]()
        for place in places:
            parts = [names[i] if f == 1 else f"{f}*{names[i]}" for i, f in _terms(place)]
            offset = 0 if isinstance(place, int) else place.offset
            found.append("+".join([*parts, *([str(offset)] if offset or not parts else [])]))
        return ",".join(found)

    def _box(
        self, places: Sequence[Place], terms: Sequence[Sequence[tuple[int, int]]], at: Mapping[int, int]
    ) -> tuple[Shape, Shape]:
        """The begin and the step of the elements that the first loop along each axis walks, at indices of others."""
        begin = tuple(
            (0 if isinstance(place, int) else place.offset) + sum(f * at[loop] for loop, f in each[1:])
            for place, each in zip(places, terms, strict=True)
        )
        return begin, tuple(each[0][1] if each else 1 for each in terms)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(2, 9, 3), (4, 3, 3)], _strided, index="n,2*i+k,c; o,k,c -> n,i,o", shape=(2, 4, 4)),
            Sample(
                [(9, 4), (3,)],
                lambda x, w: np.stack([sum(x[i + 2 * k + 1] * w[k] for k in range(3)) for i in range(4)]),
                index="i+2*k+1,c; k -> i,c",
                shape=(4, 4),
            ),
            Sample(
                [(2, 5, 6), (2, 2)],
                lambda x, w: np.stack([[w[g, 0] * x[g, i] + w[g, 1] * x[g, i + 3] for i in range(2)] for g in (0, 1)]),
                index="g,i+3*k,c; g,k -> g,i,c",
                shape=(2, 2, 6),
            ),
            Sample(
                [(2, 4, 3), (4, 0, 3)],
                lambda x, w: np.einsum("nic,okc->nio", x, w),
                index="n,i+k,c; o,k,c -> n,i,o",
                shape=(2, 4, 4),
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "i+k,c; o,k,c -> i,o"
        return [
            (
                ((5, 2), (3, 3, 2)),
                {"index": text, "shape": (4, 3)},
                f"contract: index={text!r} reads from 0 to 5 along axis 0 of lhs, of shape (5, 2)",
            ),
            (
                ((5, 2), (3, 3, 4)),
                {"index": text, "shape": (3, 3)},
                f"contract: axis 1 of lhs, of shape (5, 2), must have 4 elements: loop c in index={text!r}",
            ),
            (
                ((5,), (3,)),
                {"index": "i+k; k", "shape": (3,)},
                "contract: attribute index cannot be 'i+k; k': write it as 'indices of lhs; indices of rhs -> indices "
                "of the result'",
            ),
        ]


def _at(F: Any, x: Any, places: Sequence[Place], at: Mapping[int, int]) -> Any:
    """The part of an array at these indices of some loops, which keep size 1."""
    if not any(place in at for place in places if isinstance(place, int)):
        return x
    cut = [
        (at[place], at[place] + 1) if isinstance(place, int) and place in at else (0, n)
        for place, n in zip(places, x.shape, strict=True)
    ]
    return F.slice(x, begin=tuple(b for b, _ in cut), end=tuple(e for _, e in cut))


def _loops(places: Sequence[Place]) -> set[int]:
    """The loops that walk along an array."""
    return {loop for place in places for loop, _ in _terms(place)}


def _terms(place: Place) -> Sequence[tuple[int, int]]:
    return ((place, 1),) if isinstance(place, int) else place.terms


def _steps(x: Any, places: Sequence[Place]) -> dict[int, int]:
    """How many bytes further each loop reads in its next iteration."""
    steps = dict[int, int]()
    for place, stride in zip(places, x.strides, strict=True):
        for loop, factor in _terms(place):
            steps[loop] = steps.get(loop, 0) + factor * stride
    return steps


def _walked(x: Any, places: Sequence[Place], groups: Sequence[Sequence[int]], sizes: Mapping[int, int]) -> Any:
    """The array with its loops merged into one axis for each group: a strided view, copied where it must be."""
    steps = _steps(x, places)
    order = [loop for group in groups for loop in group]
    begin = tuple(slice(0 if isinstance(place, int) else place.offset, None) for place in places)
    view = np.lib.stride_tricks.as_strided(x[begin], [sizes[i] for i in order], [steps.get(i, 0) for i in order])
    return view.reshape([math.prod(sizes[i] for i in group) for group in groups])


def _from(x: Any, places: Sequence[Place], loop: int, first: int, count: int) -> Any:
    """The elements that are read from one iteration of a loop on; where it alone is the index, by ``count`` of them."""
    cut = [slice(None)] * len(places)
    for axis, place in enumerate(places):
        for each, factor in _terms(place):
            if each == loop:
                cut[axis] = slice(first, first + count) if isinstance(place, int) else slice(factor * first, None)
    return x[tuple(cut)]


def _strided(x: Any, w: Any) -> Any:
    return np.stack([np.einsum("nkc,okc->no", x[:, 2 * i : 2 * i + 3], w) for i in range(4)], 1)
