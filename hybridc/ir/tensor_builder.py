"""``m``, the builder of movements: writes ``linalg`` and ``tensor`` operations of the structured form."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, tensor
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    LocationAttr,
    StringAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from hybridc.dialects.mlir.integer_array import integer_array
from hybridc.dialects.mlir.tensor import ExpandShapeOp
from hybridc.dtypes import computed, wide
from hybridc.ir.kernel import neutral
from hybridc.ir.scalar_builder import (
    DType,
    Element,
    ScalarBuilder,
    number_attribute,
    signless,
)
from hybridc.ir.structured import Place, note_dtype


@dataclass(eq=False)
class Tensor:
    """A symbolic array of the structured form.

    ``made`` is its SSA value, if there is one yet: a constant may stay one (``number``), and a tensor that only adds
    axes of size 1 to another (``core``, whose axes are ``axes`` of this one) is not reshaped before something else than
    loops reads it. So a keepdims reduction, and broadcast operands, are read without a reshape.
    """

    shape: Shape
    dtype: DType
    builder: Builder
    made: SSAValue | None = None
    number: Any = None
    core: Tensor | None = None
    axes: tuple[int, ...] = ()

    @property
    def value(self) -> SSAValue:
        """The value with all its axes."""
        if self.made is None:
            self.made = self.builder.materialize(self)
        return self.made

    @property
    def place(self) -> tuple[SSAValue, tuple[int, ...]]:
        """The value to read by an indexing map, and the axis of this tensor for each of its axes."""
        if self.core is not None:
            return self.core.value, self.axes
        return self.value, tuple(range(len(self.shape)))


class Builder:
    """Appends operations to one function; as ``m``, the movements (see :mod:`hybridc.dialects.movement`)."""

    def __init__(self, block: Block) -> None:
        self.block = block
        self.location: LocationAttr = UNKNOWN_LOC
        self.operator = ""  # the operator being lowered
        self.numbers: dict[tuple[str, DType], SSAValue] = {}
        self.squeezed: dict[SSAValue, SSAValue] = {}

    def add(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        results: Sequence[Attribute],
        properties: dict[str, Attribute] | None = None,
        regions: Sequence[Region] = (),
    ) -> Operation:
        """Append one operation, with the location of the operator being lowered."""
        op = cls.create(operands=operands, result_types=results, properties=properties or {}, regions=regions)
        op.location = self.location
        self.block.add_op(op)
        return op

    def tensor(self, value: SSAValue, shape: Shape, dtype: DType) -> Tensor:
        """An SSA value as a tensor."""
        return Tensor(shape, dtype, self, value)

    def _one(self, cls: type[Operation], operands: Sequence[SSAValue], like: Tensor, **properties: Attribute) -> Tensor:
        """An operation whose result has the shape and dtype of ``like``, a tensor without a value."""
        return self._mark(self.add(cls, operands, [structured_type(like.shape, like.dtype)], properties), like)

    def _mark(self, op: Operation, out: Tensor) -> Tensor:
        """The result of an operation, which is marked with its operator, and its dtype if the type does not say it."""
        op.attributes["hybrid.operator"] = string(self.operator)
        note_dtype(op, out.dtype)
        out.made = op.results[0]
        return out

    def number(self, value: Any, dtype: DType) -> SSAValue:
        """A scalar constant, one for all its uses in the function."""
        key = (repr(value), dtype)
        if key not in self.numbers:
            attribute = {"value": number_attribute(value, dtype)}
            self.numbers[key] = self.add(arith.ConstantOp, [], [signless(dtype)], attribute).results[0]
        return self.numbers[key]

    def materialize(self, x: Tensor) -> SSAValue:
        """The SSA value of a constant or of a tensor without its axes of size 1, made on first use."""
        if x.core is not None:
            return self._regroup(x.core, x.shape).value
        kind = structured_type(x.shape, x.dtype)
        attribute = number_attribute(x.number, x.dtype)
        dense = DenseIntOrFPElementsAttr.from_list(cast(Any, kind), [cast(Any, attribute).value.data])
        made = self.add(arith.ConstantOp, [], [kind], {"value": dense})
        note_dtype(made, x.dtype)
        return made.results[0]

    def empty(self, shape: Shape, dtype: DType) -> SSAValue:
        """``tensor.empty``"""
        return self.add(tensor.EmptyOp, [], [structured_type(shape, dtype)]).results[0]

    # --- loops ---------------------------------------------------------------------------------------------

    def generic(
        self,
        inputs: Sequence[tuple[SSAValue, tuple[Place, ...], DType]],
        out: Tensor,
        body: Callable[..., Any],
        loops: int | None = None,
        out_places: tuple[int, ...] | None = None,
        init: SSAValue | None = None,
    ) -> Tensor:
        """``linalg.generic`` into ``out``, a tensor without a value and without axes of size 1.

        ``body(b, *elements of the inputs, accumulator)`` gives the element. Loops that do not index the result are
        reductions.
        """
        rank = len(out.shape)
        loops = rank if loops is None else loops
        out_places = tuple(range(rank)) if out_places is None else out_places
        element = signless(out.dtype)
        block = Block(arg_types=[*[signless(d) for _, _, d in inputs], element])
        dtypes = [*[d for _, _, d in inputs], out.dtype]
        b = self.body(block)
        result = b.convert(body(b, *map(Element, block.args, dtypes)), out.dtype)
        end = linalg.YieldOp.create(operands=[result.value])
        end.location = self.location
        block.add_op(end)
        inputs = (*b.reads, *inputs)
        init = self.empty(out.shape, out.dtype) if init is None else init
        reduced = tuple(i for i in range(loops) if i not in out_places)
        properties: dict[str, Attribute] = {
            "indexing_maps": maps(loops, (*[p for _, p, _ in inputs], out_places)),
            "iterator_types": iterators(loops, reduced),
            "operandSegmentSizes": segments(len(inputs), 1),
        }
        operands = [*[v for v, _, _ in inputs], init]
        types = [structured_type(out.shape, out.dtype)]
        return self._mark(self.add(linalg.GenericOp, operands, types, properties, [Region(block)]), out)

    def reduce(self, combine: str, x: Tensor, axes: Sequence[int], dtype: DType) -> Tensor:
        """A reduction over axes; the result lacks these, and all others of size 1."""
        value, axes_there = self.narrow(x)
        kept = [a for a in axes_there if a not in axes]
        shape = tuple(x.shape[a] for a in kept)
        if len(kept) == len(axes_there):  # one element each
            return self.cast(self.tensor(value, shape, x.dtype), dtype)
        by = wide(x.dtype) if combine in ("add", "mul") else computed(x.dtype)
        start = self.start(shape, by, neutral(combine, by))

        def body(b: Any, element: Element, sofar: Element) -> Any:
            return getattr(b, combine)(sofar, b.convert(element, by))

        order = [*kept, *(a for a in axes_there if a in axes)]  # the loops
        given = [(value, tuple(order.index(a) for a in axes_there), x.dtype)]
        core = self.generic(given, Tensor(shape, by, self), body, len(axes_there), tuple(range(len(kept))), start)
        return self.cast(core, dtype)

    def body(self, block: Block) -> ScalarBuilder:
        """The builder of a scalar body."""
        return ScalarBuilder(block, self.location)

    def map(self, inputs: Sequence[Tensor], out: Tensor, body: Callable[..., Any]) -> Tensor:
        """``generic`` over the axes of ``out`` that are not of size 1; the inputs broadcast to it."""
        given = [self.read(x, out.shape) for x in inputs]
        axes = wide_axes(out.shape)
        if len(axes) == len(out.shape):
            return self.generic(given, out, body)
        out.core = self.generic(given, Tensor(tuple(out.shape[a] for a in axes), out.dtype, self), body)
        out.axes = axes
        return out

    def cast(self, x: Tensor, dtype: DType) -> Tensor:
        """The elements in another dtype."""
        return x if x.dtype == dtype else self.map([x], Tensor(x.shape, dtype, self), first)

    def read(self, x: Tensor, shape: Shape) -> tuple[SSAValue, tuple[int, ...], DType]:
        """``x``, which broadcasts to ``shape``, as a loop operand over the axes of ``shape`` not of size 1."""
        value, axes = self.narrow(x)
        lead = len(shape) - len(x.shape)
        loops = {axis: loop for loop, axis in enumerate(wide_axes(shape))}
        return value, tuple(loops[a + lead] for a in axes), x.dtype

    def narrow(self, x: Tensor) -> tuple[SSAValue, tuple[int, ...]]:
        """The value without axes of size 1, and the axes of ``x`` that it has."""
        value, axes = x.place
        kept = wide_axes(x.shape)
        if kept == axes:
            return value, kept
        if value not in self.squeezed:
            self.squeezed[value] = self._regroup(x.core or x, tuple(x.shape[a] for a in kept)).value
        return self.squeezed[value], kept

    def named(
        self, cls: type[Operation], operands: Sequence[SSAValue], dtypes: Sequence[DType], init: SSAValue,
        out: Tensor, body: Callable[..., Any], **properties: Attribute,
    ) -> Tensor:  # fmt: skip
        """A named operation of linalg, with the region that it implies."""
        block = Block(arg_types=[signless(d) for d in dtypes])
        b = ScalarBuilder(block, self.location)
        end = linalg.YieldOp.create(operands=[body(b, *map(Element, block.args, dtypes)).value])
        end.location = self.location
        block.add_op(end)
        types = [structured_type(out.shape, out.dtype)]
        return self._mark(self.add(cls, [*operands, init], types, properties, [Region(block)]), out)

    def fill(self, shape: Shape, dtype: DType, value: Any) -> Tensor:
        """``linalg.fill``: a constant in every element."""
        number, init = self.number(value, dtype), self.empty(shape, dtype)
        out, sizes = Tensor(shape, dtype, self), segments(1, 1)
        return self.named(linalg.FillOp, [number], [dtype] * 2, init, out, first, operandSegmentSizes=sizes)

    def start(self, shape: Shape, dtype: DType, value: Any) -> SSAValue:
        """The initial value of a sum: a fill of no operator, so that all can share it."""
        made = self.fill(shape, dtype, value).value
        cast(Operation, made.owner).attributes.pop("hybrid.operator")
        return made

    # --- movements -----------------------------------------------------------------------------------------

    def reshape(self, x: Tensor, shape: Shape) -> Tensor:
        """A reshape; added axes of size 1 cost no operation."""
        if x.shape == shape:
            return x
        if x.core is not None:
            return self.reshape(x.core, shape)
        axes = wide_axes(shape)
        if tuple(shape[a] for a in axes) == tuple(x.shape[a] for a in wide_axes(x.shape)):
            core = self.tensor(self.narrow(x)[0], tuple(shape[a] for a in axes), x.dtype)
            return core if len(axes) == len(shape) else Tensor(shape, x.dtype, self, core=core, axes=axes)
        return self._regroup(x, shape)

    def _regroup(self, x: Tensor, shape: Shape) -> Tensor:
        """``tensor.collapse_shape``, then ``tensor.expand_shape``, by groups of axes."""
        if math.prod(shape) == 0:
            return self.fill(shape, x.dtype, 0)
        pairs = groups(x.shape, shape)
        middle = tuple(math.prod(x.shape[i] for i in old) for old, _ in pairs)
        if len(middle) < len(x.shape):
            kept = reassociation(tuple(old for old, _ in pairs))
            x = self._one(tensor.CollapseShapeOp, [x.value], Tensor(middle, x.dtype, self), reassociation=kept)
        if middle == shape:
            return x
        kept = reassociation(tuple(new for _, new in pairs))
        return self._one(
            ExpandShapeOp, [x.value], Tensor(shape, x.dtype, self), reassociation=kept,
            static_output_shape=integers(shape),
        )  # fmt: skip

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """``linalg.transpose``"""
        order = tuple(order)
        if order == tuple(range(len(order))):
            return x
        shape = tuple(x.shape[a] for a in order)
        init = self.empty(shape, x.dtype)
        out = Tensor(shape, x.dtype, self)
        dtypes = [x.dtype, x.dtype]
        return self.named(linalg.TransposeOp, [x.value], dtypes, init, out, first, permutation=integers(order))

    def slice(self, x: Tensor, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Tensor:
        """``tensor.extract_slice`` with positive steps, then a reversal of axes with negative ones."""
        if math.prod(shape) == 0:
            return self.fill(shape, x.dtype, 0)
        if any(s < 0 and n > 1 for s, n in zip(step, shape, strict=True)):
            return self._backwards(x, begin, step, shape)
        if not any(begin) and x.shape == shape:
            return x
        properties = slice_properties(1, tuple(begin), shape, _strides(step, shape))
        return self._one(tensor.ExtractSliceOp, [x.value], Tensor(shape, x.dtype, self), **properties)

    def _backwards(self, x: Tensor, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Tensor:
        """A reversal by computed indices: a map with negative strides is valid upstream, but cannot be tiled."""

        def element(b: ScalarBuilder, *index: Element) -> Element:
            steps = [b.mul(i, s) if abs(s) > 1 else i for i, s in zip(index, map(abs, step), strict=True)]
            return b.load(
                x,
                *[
                    b.sub(at, i) if s < 0 else b.add(i, at) if at else i
                    for at, s, i in zip(begin, step, steps, strict=True)
                ],
            )

        return self.generate(shape, x.dtype, element)

    def broadcast(self, x: Tensor, shape: Shape) -> Tensor:
        """A copy by a broadcasting indexing map."""
        if x.shape == shape:
            return x
        return self.map([x], Tensor(shape, x.dtype, self), first)

    def combine(self, name: str, x: Tensor, axis: int) -> Tensor:
        """A reduction."""
        return self.reshape(self.reduce(name, x, (axis,), x.dtype), (*x.shape[:axis], 1, *x.shape[axis + 1 :]))

    def full(self, shape: Shape, dtype: Any, value: Any) -> Tensor:
        """``linalg.fill``"""
        return self.fill(shape, np.dtype(dtype), value)

    def insert(self, x: Tensor, into: Tensor, begin: Sequence[int], step: Sequence[int]) -> Tensor:
        """``tensor.insert_slice``"""
        if math.prod(x.shape) == 0:
            return into
        back = [s < 0 and n > 1 for s, n in zip(step, x.shape, strict=True)]
        if any(back):
            ends = [n - 1 if r else 0 for r, n in zip(back, x.shape, strict=True)]
            x = self._backwards(x, ends, [-1 if r else 1 for r in back], x.shape)
        offsets = tuple(b + s * (n - 1) if r else b for b, s, n, r in zip(begin, step, x.shape, back, strict=True))
        properties = slice_properties(2, offsets, x.shape, _strides(step, x.shape))
        return self._one(
            tensor.InsertSliceOp, [x.value, into.value], Tensor(into.shape, into.dtype, self), **properties
        )

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """``tensor.concat``"""
        if len(xs) == 1:
            return xs[0]
        size = sum(x.shape[axis] for x in xs)
        out = Tensor((*xs[0].shape[:axis], size, *xs[0].shape[axis + 1 :]), xs[0].dtype, self)
        return self._one(tensor.ConcatOp, [x.value for x in xs], out, dim=IntegerAttr(axis, i64))

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> Tensor:
        """A ``linalg.generic`` whose body reads its loop indices."""
        out = Tensor(shape, np.dtype(dtype), self)

        def body(b: ScalarBuilder, _: Element) -> Any:
            return element(b, *[b.index_of(i) for i in range(len(shape))])

        return self.generic([], out, body)


def first(b: ScalarBuilder, x: Element, *_: Element) -> Element:  # noqa: ARG001 - the interface of every body
    """A body that yields its first input."""
    return x


def _strides(step: Sequence[int], shape: Shape) -> Shape:
    """The absolute steps; 1 along an axis of size 1."""
    return tuple(abs(s) if n > 1 else 1 for s, n in zip(step, shape, strict=True))


# --- shared attributes and types --------------------------------------------------------------------------------------

Shape = tuple[int, ...]


@functools.lru_cache(4096)
def structured_type(shape: Shape, dtype: DType) -> TensorType[Any]:
    """The upstream type of an array."""
    return TensorType(signless(dtype), shape)


@functools.lru_cache(4096)
def indexing_map(loops: int, places: tuple[Place, ...]) -> AffineMapAttr:
    """The affine map from loops to an operand's indices, each a loop or an affine sum of loops."""
    return AffineMapAttr(AffineMap(loops, 0, tuple(map(_expression, places))))


def _expression(place: Place) -> AffineExpr:
    if isinstance(place, int):
        return AffineExpr.dimension(place)
    found: AffineExpr | None = None
    for loop, factor in place.terms:
        term = AffineExpr.dimension(loop)
        term = term if factor == 1 else term * factor
        found = term if found is None else found + term
    if found is None:
        return AffineExpr.constant(place.offset)
    return found + place.offset if place.offset else found


@functools.lru_cache(1024)
def maps(loops: int, places: tuple[tuple[Place, ...], ...]) -> ArrayAttr[AffineMapAttr]:
    """The indexing maps of all operands."""
    return ArrayAttr([indexing_map(loops, p) for p in places])


@functools.lru_cache(1024)
def iterators(loops: int, reduced: tuple[int, ...]) -> ArrayAttr[IteratorTypeAttr]:
    """The iterator types: all loops are parallel but ``reduced``."""
    parallel, reduction = IteratorTypeAttr.parallel(), IteratorTypeAttr.reduction()
    return ArrayAttr([reduction if i in reduced else parallel for i in range(loops)])


@functools.lru_cache(64)
def segments(*sizes: int) -> DenseArrayBase[Any]:
    """``operandSegmentSizes``."""
    return DenseArrayBase.from_list(i32, sizes)


@functools.lru_cache(1024)
def integers(numbers: tuple[int, ...]) -> DenseArrayBase[Any]:
    """Integers as a dense array property."""
    return integer_array(numbers)


@functools.cache
def string(text: str) -> StringAttr:
    """A string attribute."""
    return StringAttr(text)


@functools.lru_cache(4096)
def wide_axes(shape: Shape) -> tuple[int, ...]:
    """The axes that have loops: all but those of size 1."""
    return tuple(i for i, n in enumerate(shape) if n != 1)


def slice_properties(operands: int, offsets: Shape, sizes: Shape, strides: Shape) -> dict[str, Attribute]:
    """The properties of a slice with static offsets, sizes and strides."""
    return {
        "static_offsets": integers(offsets),
        "static_sizes": integers(sizes),
        "static_strides": integers(strides),
        "operandSegmentSizes": segments(*(1,) * operands, 0, 0, 0),
    }


@functools.lru_cache(4096)
def groups(old: Shape, new: Shape) -> tuple[tuple[Shape, Shape], ...]:
    """Reshape groups: the smallest runs of axes of both shapes with equal products."""
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
    if found:  # the remaining axes have size 1
        found[-1][0].extend(range(i, len(old)))
        found[-1][1].extend(range(j, len(new)))
    return tuple((tuple(a), tuple(b)) for a, b in found)


@functools.lru_cache(4096)
def reassociation(groups: tuple[Shape, ...]) -> ArrayAttr[Any]:
    """The reassociation property of collapse_shape and expand_shape."""
    return ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in group]) for group in groups])
