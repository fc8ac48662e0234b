"""The builders of the structured form: ``b`` of scalar bodies, ``m`` of movements.

``b`` writes steps as operations of ``arith`` and ``math`` into a block, ``m`` operations of ``linalg`` and ``tensor``.
Each step of a body is computed in the dtypes in which NumPy computes it
(:func:`~hybridc.dialects.scalar.loop_dtypes`), so a body computes upstream what it computes eagerly: ``div`` of
integers is one of float64, comparisons give booleans, Python scalars adapt. Where NumPy's semantics leave room, these
are the choices:

* a float to integer conversion truncates; a value that does not fit (after a detour over 32 bits for the 8-bit
  integers) is undefined, as in C, NumPy and MXNet;
* functions of half precision are computed in single, as NumPy does;
* storage-only floats (:mod:`hybridc.dtypes`) are computed in single precision, and rounded where the body ends
  or casts;
* a remainder and a quotient by the integer 0 are 0;
* a power of integers is exact modulo their range, and 0 where it would be a fraction.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from math import prod
from typing import Any, Generic, cast

import numpy as np
from typing_extensions import TypeVar
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    TensorType,
    i32,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorTypeAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from hybridc.dialects.mlir.arith import Arith
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.dialects.mlir.hybrid import SIGNLESS
from hybridc.dialects.mlir.hybrid_rt import SizeOp
from hybridc.dialects.mlir.integer_array import integer_array
from hybridc.dialects.mlir.new_op import new_op
from hybridc.dialects.mlir.tensor import ExpandShapeOp
from hybridc.dialects.movement import Indexed
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import Arithmetic, loop_dtypes, number_like
from hybridc.dialects.scalar.table import ITSELF, STEPS, ScalarOperation
from hybridc.dtypes import FLOAT32, STORED, TYPES, WIDE, DType, computed, is_float, wide
from hybridc.errors import UnsupportedError
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Place, Size, are_same, is_size
from hybridc.ir.scalars import neutral
from hybridc.ir.structured import element_dtype, note_dtype

# --- scalar bodies ----------------------------------------------------------------------------------------------------


BOOL, INT32, INT64 = np.dtype(bool), np.dtype("int32"), np.dtype("int64")
INDEX = IndexType()

_ELEMENTS: dict[str, Attribute] = {t.name: SIGNLESS[t.ir] for t in TYPES.values() if t.ir} | {"object": i64}


@functools.lru_cache(256)
def signless(dtype: DType) -> Attribute:
    """The signless upstream element type of a dtype; a state is an index into the host's states."""
    return _ELEMENTS[dtype.name]


@functools.cache
def _classes() -> dict[str, type[Operation]]:
    """The operation classes of arith and math by name."""
    return {op.name: op for dialect in (Arith, math.Math) for op in dialect.operations}


# Element types by their names; no dtype has integers of 16 bits, but half precision is moved as these, nor of 128, but
# random numbers are the halves of products of 64 bits.
ELEMENT_TYPES: dict[str, Attribute] = {
    "index": IndexType(), "i16": IntegerType(16), "i128": IntegerType(128), **SIGNLESS
}  # fmt: skip


@functools.cache
def kind_dtype(kind: str) -> DType:
    """The dtype of an element type's name; of integers the signed one."""
    if kind == "index":
        return INT64
    return element_dtype(IntegerType(int(kind[1:])) if kind[0] == "i" else ELEMENT_TYPES[kind])


def operation_class(op: str) -> type[Operation]:
    """The operation class of a scalar step's text, which may have a predicate after the name."""
    return _classes()[op.partition(" ")[0]]


_PREDICATES: dict[str, Sequence[str]] = {
    "arith.cmpf": arith.CMPF_COMPARISON_OPERATIONS,
    "arith.cmpi": arith.CMPI_COMPARISON_OPERATIONS,
}


def operation_name(cls: type[Operation], properties: Mapping[str, Attribute]) -> str:
    """The name of a scalar operation, with its predicate."""
    if cls.name not in _PREDICATES:
        return cls.name
    predicate = cast("IntegerAttr[IntegerType]", properties["predicate"])
    return f"{cls.name} {_PREDICATES[cls.name][predicate.value.data]}"


def operation_properties(op: str) -> dict[str, Attribute]:
    """Its properties: the predicate and the defaults."""
    name, _, predicate = op.partition(" ")
    return {**_defaults(name), **({"predicate": _predicate(name, predicate)} if predicate else {})}


@functools.cache
def _defaults(name: str) -> dict[str, Attribute]:
    """The default properties of an operation."""
    definition = cast(Any, _classes()[name]).get_irdl_definition()
    return {k: p.default_value for k, p in definition.properties.items() if getattr(p, "default_value", None)}


@functools.lru_cache(4096)
def _predicate(name: str, predicate: str) -> IntegerAttr[IntegerType]:
    return IntegerAttr(_PREDICATES[name].index(predicate), i64)


@functools.lru_cache(4096)
def _number(text: str, dtype: DType) -> Attribute:
    value = np.asarray(float(text) if "." in text or "n" in text or "e" in text else int(text))
    with np.errstate(all="ignore"):
        value = value.astype(dtype).item()
    kind = cast(Any, signless(dtype))
    return FloatAttr(value, kind) if is_float(dtype) else IntegerAttr(int(value), kind)


def number_attribute(value: Any, dtype: DType) -> Attribute:
    """A Python scalar as a constant's attribute of that dtype; integers wrap, symbolic sizes stay as they are."""
    if is_size(value) and dtype.kind in "iu":
        return IntegerAttr(IntAttr(cast(int, value)), cast(IntegerType, signless(dtype)))
    return _number(
        repr(value if isinstance(value, int | float) and not isinstance(value, bool) else float(value)), dtype
    )


def constant_array(value: Any, shape: Shape, dtype: DType) -> DenseIntOrFPElementsAttr:
    """A Python scalar as the attribute of an array that has it everywhere."""
    scalar = cast(Any, number_attribute(value, dtype)).value.data
    return DenseIntOrFPElementsAttr.from_list(cast(Any, structured_type(shape, dtype)), [scalar])


# The values of a body: those of the IR, or of a text that is written at once.
V = TypeVar("V", default=SSAValue)


@dataclass(eq=False)
class Element(Arithmetic, Generic[V]):
    """A value in a body with its dtype (which has the sign), and the loop whose index it is, if any.

    ``constant`` is the number that it is; ``narrow`` what it was widened from, to more bits of a float.
    """

    builder: ScalarSteps[V] = field(repr=False)
    value: V
    dtype: DType
    index: V | None = None
    constant: float | None = None
    narrow: Element[V] | None = None

    @property
    def is_predicate(self) -> bool:
        """Whether it is a boolean."""
        return self.dtype == BOOL


class ScalarSteps(ABC, Generic[V]):
    """The steps of scalar bodies as operations of ``arith`` and ``math``; :meth:`named` says where these go."""

    def __init__(self) -> None:
        self.constants: dict[tuple[str | Size, DType], V] = {}

    def __getattr__(self, step: str) -> Callable[..., Element[V]]:
        if step not in STEPS:
            raise AttributeError(f"scalar bodies have no step {step!r}; see hybridc.dialects.scalar")
        return functools.partial(self.step, step)

    # --- operations ----------------------------------------------------------------------------------------

    @abstractmethod
    def named(self, op: str, operands: Sequence[V], kind: Attribute) -> V:
        """Write one operation with one result; its name may have a predicate."""

    @abstractmethod
    def number(self, attribute: Attribute, kind: Attribute) -> V:
        """Write a constant."""

    def constant(self, value: Any, dtype: DType) -> Element[V]:
        """A constant."""
        if is_size(value):
            return self.convert(self._size(value), dtype)
        key = (repr(value), dtype)
        if key not in self.constants:
            self.constants[key] = self.number(number_attribute(value, dtype), signless(dtype))
        return Element(self, self.constants[key], dtype, constant=value)

    def _size(self, size: Size) -> Element[V]:
        """A symbolic size as an integer."""
        if (size, INT64) not in self.constants:
            self.constants[size, INT64] = self.number(number_attribute(size, INT64), i64)
        return Element(self, self.constants[size, INT64], INT64)

    def operation(self, operation: ScalarOperation, *xs: Element[V], out: DType | None = None) -> Element[V]:
        """An upstream operation on numbers of one dtype, which the result has, too, but for ``out``."""
        dtype = xs[0].dtype if out is None else out
        return Element(self, self.named(operation.name, [x.value for x in xs], signless(dtype)), dtype)

    # --- steps ---------------------------------------------------------------------------------------------

    def step(self, step: str, *operands: Any) -> Element[V]:
        if step == "select":
            return self._select(*operands)
        if step == "cast":
            return self.convert(operands[0], np.dtype(operands[1]))
        if step == "like":
            x = self._computed(operands[0])
            return self.constant(number_like(operands[1], x.dtype).item(), x.dtype)
        row = STEPS[step]
        if row.logical:
            operands = tuple(self.convert(x, BOOL) for x in operands)
        operands = tuple(map(self._computed, operands))
        *wanted, out = loop_dtypes(step, tuple(map(_kind, operands)))
        xs = [self.convert(x, d) for x, d in zip(operands, wanted, strict=True)]
        dtype = wanted[0]
        if (expansion := row.expansion) is not None:
            if dtype in WIDE and out == dtype:
                xs = [self.convert(x, WIDE[dtype]) for x in xs]
            return self.convert(expansion(self, *xs), out)
        if (form := row.operation(dtype.kind)) is ITSELF:
            return xs[0]
        if dtype.kind in "iu" and row.integers is not None:
            return row.integers(self, *xs)
        if form is None:
            raise UnsupportedError(f"the step {step!r} of scalar bodies does not exist for {dtype}")
        if dtype in WIDE and (form.name.startswith("math.") or step == "fmod"):
            return self.convert(self.step(step, *[self.convert(x, WIDE[dtype]) for x in xs]), out)
        return self.operation(form, *xs, out=out)

    def _computed(self, x: Element[V] | Size | float) -> Any:
        """An operand in its compute dtype."""
        return self.convert(x, computed(x.dtype)) if isinstance(x, Element) else x

    def _select(self, condition: Any, x: Any, y: Any) -> Element[V]:
        x, y = self._computed(x), self._computed(y)
        dtype = np.result_type(*[v.dtype if isinstance(v, Element) else 0 if is_size(v) else v for v in (x, y)])
        values = [self.convert(condition, BOOL), self.convert(x, dtype), self.convert(y, dtype)]
        return Element(self, self.named("arith.select", [v.value for v in values], signless(dtype)), dtype)

    # --- conversions ---------------------------------------------------------------------------------------

    def convert(self, x: Element[V] | float, dtype: DType) -> Element[V]:
        """An element or scalar converted to a dtype, as ``astype`` does it."""
        if not isinstance(x, Element):
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        if dtype in STORED:
            return self._rounded(self.convert(x, FLOAT32), dtype)
        if x.dtype in STORED and dtype != FLOAT32:
            return self.convert(self.convert(x, FLOAT32), dtype)
        if x.dtype in STORED and x.constant is not None:
            return self.constant(cast(Any, number_attribute(x.constant, x.dtype)).value.data, dtype)
        if dtype.kind == "b":
            unequal = STEPS["ne"].operation(x.dtype.kind)
            assert unequal is not None
            return self.operation(unequal, x, self.constant(0, x.dtype), out=BOOL)
        if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
            return self.convert(self.convert(x, INT32), dtype)
        name = conversion(x.dtype, dtype)
        value = self.named(name, [x.value], signless(dtype)) if name else x.value
        return Element(self, value, dtype, narrow=x if name == "arith.extf" else None)

    def _rounded(self, x: Element[V], dtype: DType) -> Element[V]:
        """A single-precision value rounded to fewer bits; its source, if it was only widened from that."""
        if x.narrow is not None and x.narrow.dtype == dtype:
            return x.narrow
        return Element(self, self.named("arith.truncf", [x.value], signless(dtype)), dtype)

    def _place(self, x: Element[V] | float) -> V:
        if isinstance(x, Element) and x.index is not None:
            return x.index
        return self.named("arith.index_cast", [self.convert(x, INT64).value], INDEX)


class ScalarBuilder(ScalarSteps[SSAValue]):
    """``b`` of scalar bodies: appends operations to a block."""

    def __init__(self, block: Block, location: LocationAttr) -> None:
        super().__init__()
        self.block = block
        self.location = location
        # Elements that the body loads at its own indices, which become block arguments: the value, and the loops.
        self.reads: list[tuple[SSAValue, tuple[Place, ...], DType]] = []

    def arguments(self, dtypes: Sequence[DType]) -> list[Element]:
        """The block's arguments as elements."""
        return [Element(self, v, d) for v, d in zip(self.block.args, dtypes, strict=True)]

    def add_op(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        kind: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Append one operation with one result."""
        op = new_op(cls, operands, [kind], properties)
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def named(self, op: str, operands: Sequence[SSAValue], kind: Attribute) -> SSAValue:
        return self.add_op(operation_class(op), operands, kind, operation_properties(op))

    def number(self, attribute: Attribute, kind: Attribute) -> SSAValue:
        return self.add_op(arith.ConstantOp, [], kind, {"value": attribute})

    def index_of(self, loop: int) -> Element:
        """The index of a loop."""
        index = self.add_op(linalg.IndexOp, [], INDEX, {"dim": IntegerAttr(loop, i64)})
        return Element(self, self.named("arith.index_cast", [index], i64), INT64, index)

    def load(self, array: Any, *index: Any) -> Element:
        """The element of a tensor at indices in range."""
        places = [self._place(i) for i in index]
        value = self.add_op(tensor.ExtractOp, [array.value, *places], signless(array.dtype))
        return Element(self, value, array.dtype)


def _kind(x: Element[Any] | float) -> Any:
    """A dtype, or the Python type of a scalar, which adapts to the others."""
    if isinstance(x, Element):
        return x.dtype
    return bool if isinstance(x, bool) else int if isinstance(x, int) else float


def conversion(source: DType, target: DType) -> str:
    """The conversion operation from one dtype to another; none between integers that differ in signedness."""
    if is_float(source):
        if is_float(target):
            return "arith.extf" if target.itemsize > source.itemsize else "arith.truncf"
        return "arith.fptoui" if target.kind == "u" else "arith.fptosi"
    signed = source.kind == "i"
    if target.kind == "f":
        return "arith.sitofp" if signed else "arith.uitofp"
    if source.kind != "b" and source.itemsize == target.itemsize:
        return ""
    if source.kind != "b" and source.itemsize > target.itemsize:
        return "arith.trunci"
    return "arith.extsi" if signed else "arith.extui"


# --- movements --------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Tensor(Indexed):
    """A symbolic array of the structured form.

    ``ssa_value`` is its SSA value, if there is one yet: a constant may stay one (``constant``), and a tensor that only
    adds axes of size 1 to another (``core``, whose axes are ``axes`` of this one) is not reshaped before something else
    than loops reads it. So a keepdims reduction, and broadcast operands, are read without a reshape.
    """

    shape: Shape
    dtype: DType
    builder: Builder
    ssa_value: SSAValue | None = None
    constant: Any = None
    core: Tensor | None = None
    axes: tuple[int, ...] = ()

    @property
    def value(self) -> SSAValue:
        """The value with all its axes."""
        if self.ssa_value is None:
            self.ssa_value = self.builder.materialize(self)
        return self.ssa_value

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
        self.sized: dict[tuple[Size, DType], Tensor] = {}
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
        op = new_op(cls, operands, results, properties, regions=regions)
        op.location = self.location
        self.block.add_op(op)
        return op

    def tensor(self, value: SSAValue, shape: Shape, dtype: DType) -> Tensor:
        """An SSA value as a tensor."""
        return Tensor(shape, dtype, self, value)

    def _one(self, cls: type[Operation], operands: Sequence[SSAValue], like: Tensor, **properties: Attribute) -> Tensor:
        """An operation whose result has the shape and dtype of ``like``, a tensor without a value."""
        return self.mark(self.add(cls, operands, [structured_type(like.shape, like.dtype)], properties), like)

    def mark(self, op: Operation, out: Tensor) -> Tensor:
        """The result of an operation, which is marked with its operator, and its dtype if the type does not say it."""
        OPERATOR.put(op, self.operator)
        note_dtype(op, out.dtype)
        out.ssa_value = op.results[0]
        return out

    def number(self, value: Any, dtype: DType) -> SSAValue:
        """A scalar constant, one for all its uses in the function."""
        key = (repr(value), dtype)
        if key not in self.numbers:
            attribute = {"value": number_attribute(value, dtype)}
            self.numbers[key] = self.add(arith.ConstantOp, [], [signless(dtype)], attribute).results[0]
        return self.numbers[key]

    def scalar_array(self, value: Any, dtype: DType) -> Tensor:
        """A Python scalar as an array of shape (); a symbolic size is one that kernels read."""
        if not is_size(value):
            return Tensor((), dtype, self, constant=value)
        if (value, dtype) not in self.sized:
            op = SizeOp(cast(int, value), structured_type((), dtype))
            op.location = self.location
            self.block.add_op(op)
            note_dtype(op, dtype)
            self.sized[value, dtype] = self.tensor(op.scalar, (), dtype)
        return self.sized[value, dtype]

    def materialize(self, x: Tensor) -> SSAValue:
        """The SSA value of a constant or of a tensor without its axes of size 1, made on first use."""
        if x.core is not None:
            return self._regroup(x.core, x.shape).value
        kind = structured_type(x.shape, x.dtype)
        dense = constant_array(x.constant, x.shape, x.dtype)
        constant = self.add(arith.ConstantOp, [], [kind], {"value": dense})
        note_dtype(constant, x.dtype)
        return constant.results[0]

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
        result = b.convert(body(b, *b.arguments(dtypes)), out.dtype)
        end = new_op(linalg.YieldOp, [result.value])
        end.location = self.location
        block.add_op(end)
        inputs = (*b.reads, *inputs)
        init = self.empty(out.shape, out.dtype) if init is None else init
        op = self.loops([v for v, _, _ in inputs], init, (*[p for _, p, _ in inputs], out_places), loops, block, out)
        return self.mark(op, out)

    def loops(
        self,
        inputs: Sequence[SSAValue],
        init: SSAValue,
        places: tuple[tuple[Place, ...], ...],
        loops: int,
        body: Block,
        out: Tensor,
    ) -> Operation:
        """``linalg.generic`` with this body; ``places`` are those of the inputs, and of the result."""
        reduced = tuple(i for i in range(loops) if i not in places[-1])
        properties: dict[str, Attribute] = {
            "indexing_maps": maps(loops, places),
            "iterator_types": iterators(loops, reduced),
            "operandSegmentSizes": segments(len(inputs), 1),
        }
        types = [structured_type(out.shape, out.dtype)]
        return self.add(linalg.GenericOp, [*inputs, init], types, properties, [Region(body)])

    def matrix(self, elements: np.ndarray[Any, Any], dtype: DType) -> SSAValue:
        """A constant matrix."""
        kind = structured_type(elements.shape, dtype)
        dense = DenseIntOrFPElementsAttr.from_list(cast(Any, kind), elements.reshape(-1).tolist())
        return self.add(arith.ConstantOp, [], [kind], {"value": dense}).results[0]

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
        reads = [(value, tuple(order.index(a) for a in axes_there), x.dtype)]
        core = self.generic(reads, Tensor(shape, by, self), body, len(axes_there), tuple(range(len(kept))), start)
        return self.cast(core, dtype)

    def body(self, block: Block) -> ScalarBuilder:
        """The builder of a scalar body."""
        return ScalarBuilder(block, self.location)

    def map(self, inputs: Sequence[Tensor], out: Tensor, body: Callable[..., Any]) -> Tensor:
        """``generic`` over the axes of ``out`` that are not of size 1; the inputs broadcast to it."""
        reads = [self.read(x, out.shape) for x in inputs]
        axes = wide_axes(out.shape)
        if len(axes) == len(out.shape):
            return self.generic(reads, out, body)
        out.core = self.generic(reads, Tensor(tuple(out.shape[a] for a in axes), out.dtype, self), body)
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
        end = new_op(linalg.YieldOp, [body(b, *b.arguments(dtypes)).value])
        end.location = self.location
        block.add_op(end)
        types = [structured_type(out.shape, out.dtype)]
        return self.mark(self.add(cls, [*operands, init], types, properties, [Region(block)]), out)

    def fill(self, shape: Shape, dtype: DType, value: Any) -> Tensor:
        """``linalg.fill``: a constant in every element."""
        constant, init = self.number(value, dtype), self.empty(shape, dtype)
        out, sizes = Tensor(shape, dtype, self), segments(1, 1)
        return self.named(linalg.FillOp, [constant], [dtype] * 2, init, out, first, operandSegmentSizes=sizes)

    def start(self, shape: Shape, dtype: DType, value: Any) -> SSAValue:
        """The initial value of a sum: a fill of no operator, so that all can share it."""
        filled = self.fill(shape, dtype, value).value
        OPERATOR.drop(cast(Operation, filled.owner))
        return filled

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
        if prod(shape) == 0:
            return self.fill(shape, x.dtype, 0)
        pairs = groups(x.shape, shape)
        middle = tuple(prod(x.shape[i] for i in old) for old, _ in pairs)
        if len(middle) < len(x.shape):
            kept = reassociation(tuple(old for old, _ in pairs))
            x = self._one(tensor.CollapseShapeOp, [x.value], Tensor(middle, x.dtype, self), reassociation=kept)
        if middle == shape:
            return x
        kept = reassociation(tuple(new for _, new in pairs))
        return self._one(
            ExpandShapeOp, [x.value], Tensor(shape, x.dtype, self), reassociation=kept,
            static_output_shape=dense_integers(shape),
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
        return self.named(linalg.TransposeOp, [x.value], dtypes, init, out, first, permutation=dense_integers(order))

    def slice(self, x: Tensor, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Tensor:
        """``tensor.extract_slice`` with positive steps, then a reversal of axes with negative ones."""
        if prod(shape) == 0:
            return self.fill(shape, x.dtype, 0)
        if any(s < 0 and n > 1 for s, n in zip(step, shape, strict=True)):
            return self._backwards(x, begin, step, shape)
        if not any(begin) and are_same(x.shape, shape):
            return x
        properties = slice_properties(1, tuple(begin), shape, _strides(step, shape))
        return self._one(tensor.ExtractSliceOp, [x.value], Tensor(shape, x.dtype, self), **properties)

    def _backwards(self, x: Tensor, begin: Sequence[int], step: Sequence[int], shape: Shape) -> Tensor:
        """A reversal by computed indices: a map with negative strides is valid upstream, but cannot be tiled."""

        def element(b: ScalarBuilder, *index: Element) -> Element:
            steps = [i * s if abs(s) > 1 else i for i, s in zip(index, map(abs, step), strict=True)]
            return b.load(
                x,
                *[at - i if s < 0 else i + at if at else i for at, s, i in zip(begin, step, steps, strict=True)],
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
        if prod(x.shape) == 0:
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
    total: AffineExpr | None = None
    for loop, factor in place.terms:
        term = AffineExpr.dimension(loop)
        term = term if factor == 1 else term * factor
        total = term if total is None else total + term
    if total is None:
        return AffineExpr.constant(place.offset)
    return total + place.offset if place.offset else total


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
def dense_integers(numbers: tuple[int, ...]) -> DenseArrayBase[Any]:
    """Integers as a dense array property."""
    return integer_array(numbers)


@functools.lru_cache(4096)
def wide_axes(shape: Shape) -> tuple[int, ...]:
    """The axes that have loops: all but those of size 1."""
    return tuple(i for i, n in enumerate(shape) if n != 1)


def slice_properties(operands: int, offsets: Shape, sizes: Shape, strides: Shape) -> dict[str, Attribute]:
    """The properties of a slice with static offsets, sizes and strides."""
    return {
        "static_offsets": dense_integers(offsets),
        "static_sizes": dense_integers(sizes),
        "static_strides": dense_integers(strides),
        "operandSegmentSizes": segments(*(1,) * operands, 0, 0, 0),
    }


@functools.lru_cache(4096)
def groups(old: Shape, new: Shape) -> tuple[tuple[Shape, Shape], ...]:
    """Reshape groups: the smallest runs of axes of both shapes with equal products."""
    runs: list[tuple[list[int], list[int]]] = []
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
        runs.append(group)
    if runs:  # the remaining axes have size 1
        runs[-1][0].extend(range(i, len(old)))
        runs[-1][1].extend(range(j, len(new)))
    return tuple((tuple(a), tuple(b)) for a, b in runs)


@functools.lru_cache(4096)
def reassociation(groups: tuple[Shape, ...]) -> ArrayAttr[Any]:
    """The reassociation property of collapse_shape and expand_shape."""
    return ArrayAttr([ArrayAttr([IntegerAttr(i, i64) for i in group]) for group in groups])
