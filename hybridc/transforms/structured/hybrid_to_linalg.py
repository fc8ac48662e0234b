"""Lower primitive operators to the structured form: ``linalg``, ``tensor``, ``arith``, ``math``, ``func``.

Every operator is lowered by its kind:

* ``Elementwise``: a ``linalg.generic`` whose body is the ``scalar`` body; operands broadcast by their indexing maps;
* ``Reduction``: a ``linalg.generic`` with reduction loops, from the neutral element of ``COMBINE``;
* ``Contraction``: ``linalg.matmul`` where ``loops`` match it, else a ``linalg.generic``;
* any other with a ``move``: reshapes, slices, transposes, gathers;
* the rest, and steps that upstream lacks: a host call, which is a ``func.call`` of a private function without a body.
  The function's attributes name the operator.

Upstream integers are signless, so unsigned arrays are passed as signless ones and read by unsigned operations.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    FunctionType,
    LocationAttr,
    ModuleOp,
    SymbolRefAttr,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.body import Body
from hybridc.dialects.mlir.erase import erase_block, erase_op
from hybridc.dialects.mlir.graph_notes import BY_HAND, HAS_KERNEL, OPERATOR, OPERATOR_ATTRIBUTES
from hybridc.dialects.mlir.hybrid import HandleAttr, HybridOp, hybrid_dtype, hybrid_shape, location_of
from hybridc.dialects.operator import Contraction, Elementwise, Operator, Reduction
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import Scalar, record, replay
from hybridc.dtypes import DType
from hybridc.dtypes import wide as wide_of
from hybridc.errors import VerifyError
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, Place
from hybridc.ir.costs import ONE_TILE
from hybridc.ir.structured import note_dtype, note_dtypes, number_of, root
from hybridc.ir.structured_builder import (
    INT64,
    Builder,
    Element,
    ScalarBuilder,
    Tensor,
    maps,
    segments,
    signless,
    structured_type,
    wide_axes,
)
from hybridc.ir.values import constant_value, functions, new_name, volume
from hybridc.trace.trace_to_graph import identifier

# The most elements of an array that is inlined as constants: half a megabyte of text to print and to compile.
LONGEST = 65536
MATMUL = ((0, 2), (2, 1), (0, 1))  # the loops of linalg.matmul


@dataclass(frozen=True)
class HybridToLinalg(ModulePass):
    """See the module's docstring.

    Affine reads are operands with an affine map; only indirect accesses are
    ``tensor.extract`` in a body. Operators that are marked as having a handwritten kernel are called.
    """

    name = "hybrid-to-linalg"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        hosts = _Hosts({f.sym_name.data for f in functions(op)})
        for function in functions(op):
            if function.body.blocks:
                _Structure(function, hosts).run()
        op.body.block.add_ops(hosts.declarations.values())


@dataclass
class _Hosts:
    """The declared functions, each once: host functions and handwritten kernels."""

    names: set[str]
    declarations: dict[Any, func.FuncOp] = field(default_factory=lambda: dict[Any, func.FuncOp]())

    def declare(self, op: HybridOp, kind: FunctionType, by_hand: bool) -> func.FuncOp:
        """The declaration of the function that computes this operator."""
        attributes = DictionaryAttr({k: a for k, a in op.attributes.items() if k != BY_HAND.name})
        key = (op.name, attributes, kind, tuple(_dtypes_of(op)))
        if op.regions or key not in self.declarations:
            key = (key, op) if op.regions else key
            self.declarations[key] = self._declaration(op, attributes, kind, by_hand)
        return self.declarations[key]

    def _declaration(self, op: HybridOp, attributes: DictionaryAttr, kind: FunctionType, by_hand: bool) -> func.FuncOp:
        where = "native" if by_hand else "host"
        base = f"{where}_{identifier(op.name).removeprefix('hybrid_')}"
        declared = func.FuncOp(new_name(base, self.names), kind, Region(), "private")
        OPERATOR.put(declared, op.name)
        bodies = {k: HandleAttr(v) for k, v in op.operator.attrs.items() if isinstance(v, Body)}
        OPERATOR_ATTRIBUTES.put(declared, {**attributes.data, **bodies})
        note_dtypes(declared, _dtypes_of(op))
        if by_hand:
            HAS_KERNEL.put(declared, True)
        declared.location = op.location
        return declared


class _Structure:
    """The lowering of one function."""

    def __init__(self, function: func.FuncOp, hosts: _Hosts) -> None:
        self.function = function
        self.hosts = hosts
        self.old = function.body.block
        self.tensors: dict[SSAValue, Tensor] = {}
        self.block = Block(arg_types=[_type_of(a) for a in self.old.args])
        self.builder = NativeBuilder(self.block)

    def run(self) -> None:
        for old, new in zip(self.old.args, self.block.args, strict=True):
            new.name_hint = old.name_hint
            self.tensors[old] = self.builder.tensor(new, hybrid_shape(old), hybrid_dtype(old))
        for op in list(self.old.ops):
            self.builder.location = op.location
            if isinstance(op, HybridOp):
                self.builder.operator = _title(op)
                self._operator(op)
            elif isinstance(op, func.ReturnOp):
                self.builder.add(func.ReturnOp, [self._whole(v) for v in op.arguments], [])
            else:
                raise VerifyError(f"hybrid-to-linalg: {op.name} is no operator of a graph")
        results = [_type_of(v) for v in self._returned()]
        note_dtypes(self.function, [hybrid_dtype(v) for v in (*self.old.args, *self._returned())])
        self.function.function_type = FunctionType.from_lists([a.type for a in self.block.args], results)
        region = self.function.body
        region.add_block(self.block)
        erase_block(self.old)

    def _whole(self, value: SSAValue) -> SSAValue:
        """A returned value with all its axes; a reshape for it has the location of its producer."""
        self.builder.operator = _title(value.owner)
        return self.tensors[value].value

    def _returned(self) -> list[SSAValue]:
        end = self.old.last_op
        assert isinstance(end, func.ReturnOp)
        return list(end.arguments)

    def _operator(self, op: HybridOp) -> None:
        operator = op.operator
        constant = constant_value(op.results[0]) if len(op.results) == 1 else None
        if constant is not None:
            self.tensors[op.results[0]] = self.builder.scalar_array(constant, hybrid_dtype(op.results[0]))
            return
        if operator.decomposes():
            raise VerifyError(
                f"hybrid-to-linalg: {operator!r} ({location_of(op)}) is not primitive; run decompose before"
            )
        inputs = [self.tensors[v] for v in op.operands]
        out = Tensor(hybrid_shape(op.results[0]), hybrid_dtype(op.results[0]), self.builder) if op.results else None
        by_hand = BY_HAND.of(op)
        tensors = self._structured(operator, inputs, out) if out is not None and not by_hand else None
        tensors = self._call(op, inputs, by_hand) if tensors is None else tensors
        for result, x in zip(op.results, tensors, strict=True):
            self.tensors[result] = x
            value = x.ssa_value if x.core is None else x.core.ssa_value
            if value is not None and value.name_hint is None:
                value.name_hint = result.name_hint

    def _structured(self, operator: Operator, inputs: list[Tensor], out: Tensor) -> list[Tensor] | None:
        """The results as tensors; None if the host computes them."""
        match operator:
            case Elementwise():
                tensors = self._elementwise(operator, inputs, out)
            case Reduction():
                tensors = self._reduce(operator, inputs[0], out)
            case Contraction():
                tensors = self._contract(operator, inputs, out)
            case _ if is_placed(operator, inputs) and not inputs and operator.PURE and not operator.DRAWS:
                short = volume(out.shape) <= LONGEST
                tensors = self._known(operator, out) if short else operator.move(self.builder, *inputs)
            case _:
                tensors = operator.move(self.builder, *inputs)
        return None if tensors is None else as_list(tensors)

    def _known(self, operator: Operator, out: Tensor) -> Tensor:
        """The result of an operator without inputs: constants, evaluated now."""
        kind = structured_type(out.shape, out.dtype)
        numbers = DenseIntOrFPElementsAttr.from_list(cast(Any, kind), np.asarray(operator.eager()).reshape(-1).tolist())
        constant = self.builder.add(arith.ConstantOp, [], [kind], {"value": numbers})
        note_dtype(constant, out.dtype)
        out.ssa_value = constant.results[0]
        return out

    # --- kinds ---------------------------------------------------------------------------------------------

    def _elementwise(self, operator: Elementwise, inputs: list[Tensor], out: Tensor) -> Tensor:
        _, steps, result = record(operator, len(inputs))
        if not isinstance(result, Scalar):
            return self.builder.fill(out.shape, out.dtype, result)
        if result.step is None:
            same = inputs[result.index]
            if (same.shape, same.dtype) == (out.shape, out.dtype):
                return same
        arrays = [x for x in inputs if x.constant is None]

        def body(b: ScalarBuilder, *elements: Element) -> Any:
            remaining = iter(elements)
            xs = [next(remaining) if x.constant is None else b.constant(x.constant, x.dtype) for x in inputs]
            return replay(steps, result, xs, b.step)

        return self.builder.map(arrays, out, body)

    def _reduce(self, operator: Reduction, x: Tensor, out: Tensor) -> Tensor:
        core = self.builder.reduce(operator.COMBINE, x, operator.axes(len(x.shape)), out.dtype)
        return self.builder.reshape(core, out.shape)

    def _contract(self, operator: Contraction, inputs: list[Tensor], out: Tensor) -> Tensor:
        if any(0 in x.shape for x in (*inputs, out)):  # an empty sum
            return self.builder.fill(out.shape, out.dtype, 0)
        *places, result = operator.loops(len(inputs[0].shape))
        wide = wide_of(out.dtype)
        alone = zip(places, inputs, strict=True)
        sizes = {p: n for places_of, x in alone for p, n in zip(places_of, x.shape, strict=True) if isinstance(p, int)}
        sizes |= dict(zip(result, out.shape, strict=True))
        sliced = [self._sliced(x, places_of, sizes) for x, places_of in zip(inputs, places, strict=True)]
        # Loops of size 1 are left out; those that are left are numbered in the result's order, sums last.
        order = [loop for loop in result if sizes[loop] != 1]
        summed = sorted(loop for loop, n in sizes.items() if n != 1 and loop not in result)
        position = {loop: i for i, loop in enumerate([*order, *summed])}
        reads: list[tuple[SSAValue, tuple[Place, ...], DType]] = []
        for x, places_of in sliced:
            value, axes = self.builder.narrow(x)
            reads.append((value, tuple(_renumbered(places_of[a], position) for a in axes), x.dtype))
        core = Tensor(tuple(n for n in out.shape if n != 1), wide if summed else out.dtype, self.builder)

        def body(b: Any, x: Element, y: Element, sofar: Element) -> Any:
            contraction = b.convert(x, wide) * b.convert(y, wide)
            return sofar + contraction if summed else contraction

        if not summed:
            return self.builder.reshape(self.builder.generic(reads, core, body), out.shape)
        start = self.builder.start(core.shape, wide, 0)
        kept = tuple(range(len(order)))
        if (reads[0][1], reads[1][1], kept) == MATMUL and {wide} == {dtype for _, _, dtype in reads}:
            operands, dtypes = [value for value, _, _ in reads], [wide] * 3
            core = self.builder.named(linalg.MatmulOp, operands, dtypes, start, core, body, **_matmul())
        else:
            core = self.builder.generic(reads, core, body, loops=len(position), out_places=kept, init=start)
        return self.builder.reshape(self.builder.cast(core, out.dtype), out.shape)

    def _sliced(self, x: Tensor, places: Sequence[Place], sizes: Mapping[int, int]) -> tuple[Tensor, list[Place]]:
        """An operand, sliced where it is read at multiples of one loop's index, and its index along each axis.

        The others are sums of loops that begin at 0.
        """
        begin, step, shape, left = [0] * len(places), [1] * len(places), list(x.shape), list(places)
        for axis, place in enumerate(places):
            if isinstance(place, int):
                continue
            terms = [(loop, factor) for loop, factor in place.terms if sizes[loop] != 1]
            if not terms:
                begin[axis], shape[axis] = place.offset, 1
            elif len(terms) == 1:
                ((left[axis], step[axis]),) = terms
                begin[axis], shape[axis] = place.offset, sizes[terms[0][0]]
            else:
                begin[axis], shape[axis] = place.offset, place.ends(sizes)[1] - place.offset + 1
                left[axis] = AffineIndex(tuple(terms))
        return self.builder.slice(x, begin, step, tuple(shape)), left

    def _call(self, op: HybridOp, inputs: list[Tensor], by_hand: bool) -> list[Tensor]:
        """A call of a host function or of a handwritten kernel."""
        results = [_type_of(r) for r in op.results]
        kind = FunctionType.from_lists([_type_of(v) for v in op.operands], results)
        callee = SymbolRefAttr(self.hosts.declare(op, kind, by_hand).sym_name.data)
        call = self.builder.add(func.CallOp, [x.value for x in inputs], results, {"callee": callee})
        return [
            self.builder.tensor(v, hybrid_shape(r), hybrid_dtype(r))
            for v, r in zip(call.results, op.results, strict=True)
        ]


def _renumbered(place: Place, position: Mapping[int, int]) -> Place:
    """An index by the loops that are left."""
    if isinstance(place, int):
        return position[place]
    return place.renamed(position.__getitem__)


@functools.cache
def _matmul() -> dict[str, Attribute]:
    """The properties of every linalg.matmul."""
    return {"indexing_maps": maps(3, MATMUL), "operandSegmentSizes": segments(2, 1)}


def _title(op: Operation | Block) -> str:
    """The name of an operator; none for an argument."""
    return op.name.removeprefix("hybrid.") if isinstance(op, Operation) else ""


def _type_of(value: SSAValue) -> Attribute:
    return structured_type(hybrid_shape(value), hybrid_dtype(value))


def _dtypes_of(op: HybridOp) -> list[DType]:
    """The dtypes of the operands, then of the results."""
    return [hybrid_dtype(v) for v in (*op.operands, *op.results)]


# --- movements that a library does faster than loops ------------------------------------------------------------------


def is_placed(operator: Operator, inputs: Sequence[Tensor]) -> bool:
    """Whether the operator gathers its elements by computed indices, or writes its result slice by slice."""
    asked = MovementProbe()
    operator.move(asked, *[Shaped(x.shape, x.dtype) for x in inputs])
    return asked.placed


@dataclass(frozen=True, eq=False)
class Shaped:
    """An array as its shape and dtype."""

    shape: Shape
    dtype: DType


class MovementProbe:
    """The builder ``m`` of movements that emits nothing; ``placed`` if one of them was more than views and loops."""

    def __init__(self) -> None:
        self.placed = False

    def _made(self, shape: Shape, dtype: Any, placed: bool = False) -> Shaped:
        self.placed |= placed
        return Shaped(shape, dtype)

    def reshape(self, x: Shaped, shape: Shape) -> Shaped:
        """A view."""
        return self._made(tuple(shape), x.dtype)

    def transpose(self, x: Shaped, order: Sequence[int]) -> Shaped:
        """A view."""
        return self._made(tuple(x.shape[a] for a in order), x.dtype)

    def slice(self, x: Shaped, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Shaped:
        """A view, unless it goes backwards."""
        backwards = any(s < 0 and n > 1 for s, n in zip(step, shape, strict=True))
        return self._made(shape, x.dtype, backwards and 0 not in shape)

    def broadcast(self, x: Shaped, shape: Shape) -> Shaped:
        """Loops."""
        return self._made(shape, x.dtype)

    def full(self, shape: Shape, dtype: Any, value: Any) -> Shaped:
        """A fill."""
        return self._made(shape, np.dtype(dtype))

    def insert(self, x: Shaped, into: Shaped, begin: Sequence[int], step: Sequence[int]) -> Shaped:
        """Slice by slice."""
        return self._made(into.shape, into.dtype, True)

    def concat(self, xs: Sequence[Shaped], axis: int) -> Shaped:
        """Slice by slice."""
        before, after = xs[0].shape[:axis], xs[0].shape[axis + 1 :]
        size = sum(x.shape[axis] for x in xs)
        return self._made((*before, size, *after), xs[0].dtype, len(xs) > 1)

    def combine(self, name: str, x: Shaped, axis: int) -> Shaped:
        """With the index of each."""
        return self._made((*x.shape[:axis], 1, *x.shape[axis + 1 :]), x.dtype, True)

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> Shaped:
        """Element by element."""
        return self._made(shape, np.dtype(dtype), True)


# --- gathers and insertions -------------------------------------------------------------------------------------------
# Loops have no axes of size 1 here either, and what a body reads at its own loops' indices becomes an operand: only
# indirect accesses stay ``tensor.extract``.

# An array is written by one loop nest if it is at most so many times as large as what is inserted, or takes a fourth of
# the second cache: then nothing is gained by writing each part once. But what loops compute and is most of the array,
# as in padding, they write to where it belongs.
MOST, FEW = 4, ONE_TILE // 4


class NativeBuilder(Builder):
    """Lowers movements to loops that native targets compile."""

    sizes: Shape = ()  # of the loops of the movement that is lowered

    def body(self, block: Block) -> ScalarBuilder:
        """The scalar builder whose reads at its own indices become operands."""
        return _Places(self, block, self.location)

    def generate(self, shape: Shape, dtype: Any, element: Callable[..., Any]) -> Tensor:
        """A ``linalg.generic`` that reads its loop indices, over the axes that are not of size 1."""
        if math.prod(shape) == 0:
            return self.fill(shape, np.dtype(dtype), 0)
        axes = wide_axes(shape)
        loops = {axis: loop for loop, axis in enumerate(axes)}
        self.sizes = tuple(shape[a] for a in axes)

        def body(b: ScalarBuilder, _: Element) -> Any:
            index = [b.index_of(loops[a]) if a in loops else b.constant(0, INT64) for a in range(len(shape))]
            return element(b, *index)

        core = self.generic([], Tensor(tuple(shape[a] for a in axes), np.dtype(dtype), self), body)
        _drop_unused(cast(Operation, core.value.owner).regions[0].block)
        return core if len(axes) == len(shape) else Tensor(shape, core.dtype, self, core=core, axes=axes)

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        """``tensor.concat`` of the operands that are not empty."""
        filled = [x for x in xs if math.prod(x.shape)]
        if filled:
            return super().concat(filled, axis)
        first = xs[0].shape
        return self.fill((*first[:axis], sum(x.shape[axis] for x in xs), *first[axis + 1 :]), xs[0].dtype, 0)

    def insert(self, x: Tensor, into: Tensor, begin: Sequence[int], step: Sequence[int]) -> Tensor:
        """A contiguous insertion: a concatenation with the elements before and after it along each axis."""
        if math.prod(x.shape) == 0:
            return into
        spread = any(s != 1 and n > 1 for s, n in zip(step, x.shape, strict=True))
        inside, whole = math.prod(x.shape), math.prod(into.shape)
        padded = 2 * inside > whole and _is_computed(x)
        if spread or (not padded and whole <= max(FEW, MOST * inside)):
            return self._spread(x, into, begin, step)
        joined, low, size = x, list(begin), list(x.shape)
        ones = (1,) * len(into.shape)

        def beside(axis: int, first: int, count: int) -> list[Tensor]:
            box = ([*low[:axis], first, *low[axis + 1 :]], ones, (*size[:axis], count, *size[axis + 1 :]))
            return [self.slice(into, *box)] if count else []

        for axis in reversed(range(len(into.shape))):
            end, whole = low[axis] + size[axis], into.shape[axis]
            joined = self.concat([*beside(axis, 0, low[axis]), joined, *beside(axis, end, whole - end)], axis)
            low[axis], size[axis] = 0, whole
        return joined

    def _spread(self, x: Tensor, into: Tensor, begin: Sequence[int], step: Sequence[int]) -> Tensor:
        """A strided insertion: each element computes whether it comes from ``x``."""

        def element(b: ScalarBuilder, *index: Element) -> Element:
            places: list[Element] = []
            inside: Element | None = None
            for i, first, by, n, whole in zip(index, begin, step, x.shape, into.shape, strict=True):
                if (first, by, n) == (0, 1, whole):
                    places.append(i)
                    continue
                low, every = (first, by) if by > 0 else (first + by * (n - 1), -by)
                far = i - low
                at = b.cast(b.floor(far / every), INT64) if every > 1 else far
                within = (at >= 0) & (at < n)
                if every > 1:
                    within = within & (at * every == far)
                inside = within if inside is None else inside & within
                at = b.min(b.max(at, 0), n - 1)
                places.append(at if by > 0 else n - 1 - at)
            own = b.load(x, *places)
            return own if inside is None else b.select(inside, own, b.load(into, *index))

        return self.generate(into.shape, into.dtype, element)


def _is_computed(x: Tensor) -> bool:
    """Whether loops compute an array, which can write their results into the inside of another."""
    return isinstance(root(x.place[0]).owner, linalg.GenericOp)


class _Places(ScalarBuilder):
    """A scalar builder whose affine reads become operands with indexing maps."""

    def __init__(self, builder: NativeBuilder, block: Block, location: LocationAttr) -> None:
        super().__init__(block, location)
        self.builder = builder

    def _leading(self, array: Tensor, index: Sequence[Any]) -> Tensor:
        """The part of an array that is read: the size of a loop is that of each axis which the loop alone indexes."""
        loops = [_loop(i) for i in index]
        sizes = tuple(
            n if loop is None or n == 1 else self.builder.sizes[loop]
            for loop, n in zip(loops, array.shape, strict=True)
        )
        return self.builder.slice(array, (0,) * len(sizes), (1,) * len(sizes), sizes)

    def load(self, array: Any, *index: Any) -> Element:
        if array.constant is not None:
            return self.constant(array.constant, array.dtype)
        if all(affine_index(i) is not None for i in index):
            array = self._leading(array, index)
        value, axes = self.builder.narrow(array)
        filled = root(value).owner
        if isinstance(filled, linalg.FillOp):
            return Element(self, filled.operands[0], array.dtype, constant=number_of(filled.operands[0]))
        kept = [index[a] for a in axes]
        loops = [_loop(i) for i in kept]
        if all(loop is not None for loop in loops) and len(set(loops)) == len(loops):
            return self._operand(value, cast(tuple[int, ...], tuple(loops)), array.dtype)
        affine = [affine_index(i) for i in kept]
        if all(i is not None for i in affine):
            return self._operand(value, cast(tuple[AffineIndex, ...], tuple(affine)), array.dtype)
        places = [self._place(i) for i in kept]
        return Element(self, self.add_op(tensor.ExtractOp, [value, *places], signless(array.dtype)), array.dtype)

    def _operand(self, value: SSAValue, loops: tuple[Place, ...], dtype: np.dtype[Any]) -> Element:
        read = (value, loops, dtype)
        if read not in self.reads:
            self.block.insert_arg(signless(dtype), len(self.reads))
            self.reads.append(read)
        return Element(self, self.block.args[self.reads.index(read)], dtype)


def _loop(index: Element | float) -> int | None:
    """The loop whose index an element is; None if it is computed."""
    owner = index.index.owner if isinstance(index, Element) and index.index is not None else None
    return owner.dim.value.data if isinstance(owner, linalg.IndexOp) else None


def affine_index(index: Element | float) -> AffineIndex | None:
    """An index that is an affine sum of loops; None if it is not."""
    if not isinstance(index, Element):
        return AffineIndex((), int(index))
    terms = _affine_terms(index.value if index.index is None else index.index)
    return None if terms is None else AffineIndex(tuple(sorted((i, f) for i, f in terms[0].items() if f)), terms[1])


def _affine_terms(value: SSAValue) -> tuple[dict[int, int], int] | None:
    """The factor of each loop, and the offset; None if the value is not affine."""
    match value.owner:
        case linalg.IndexOp() as op:
            return {op.dim.value.data: 1}, 0
        case arith.IndexCastOp() as op:
            return _affine_terms(op.input)
        case arith.ConstantOp() as op:
            return {}, cast(Any, op.value).value.data
        case arith.AddiOp() | arith.SubiOp() | arith.MuliOp() as op:
            pass
        case _:
            return None
    (a, b) = (_affine_terms(v) for v in op.operands)
    if a is None or b is None:
        return None
    if isinstance(op, arith.MuliOp):
        a, b = (b, a) if not a[0] else (a, b)
        return None if b[0] else ({i: f * b[1] for i, f in a[0].items()}, a[1] * b[1])
    sign = -1 if isinstance(op, arith.SubiOp) else 1
    loops = {i: a[0].get(i, 0) + sign * b[0].get(i, 0) for i in {**a[0], **b[0]}}
    return loops, a[1] + sign * b[1]


def _drop_unused(block: Block) -> None:
    """Remove index operations without uses."""
    for op in reversed(list(block.ops)):
        if op.results and not any(r.first_use is not None for r in op.results):
            erase_op(op)
