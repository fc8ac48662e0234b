"""``b``, the builder of scalar bodies: writes steps as operations of ``arith`` and ``math`` into a block.

Each step is computed in the dtypes in which NumPy computes it (:func:`~hybridc.dialects.mlir.upstream.loop_dtypes`), so
a body computes upstream what it computes eagerly: ``div`` of integers is one of float64, comparisons give booleans,
Python scalars adapt. Where NumPy's semantics leave room, these are the choices:

* a float to integer conversion truncates; a value that does not fit (after a detour over 32 bits for the 8-bit
integers)
  is undefined, as in C, NumPy and MXNet;
* functions of half precision are computed in single, as NumPy does;
* storage-only floats (:mod:`hybridc.dtypes`) are computed in single precision, and rounded where the body ends
  or casts;
* a remainder and a quotient by the integer 0 are 0;
* a power of integers is exact modulo their range, and 0 where it would be a fraction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, math, tensor
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i64,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue

from hybridc.dialects.mlir.arith import Arith
from hybridc.dialects.mlir.upstream import COMPOSED, LOGICAL, UPSTREAM, loop_dtypes
from hybridc.dialects.scalar import PREDICATES, NumPyScalar, number_like
from hybridc.dtypes import FLOAT16, FLOAT32, STORED, computed, is_float
from hybridc.errors import UnsupportedError
from hybridc.ground.sizes import is_size
from hybridc.ir.structured import Place, element_dtype

DType = np.dtype[Any]

BOOL, INT32, INT64 = np.dtype(bool), np.dtype("int32"), np.dtype("int64")
INDEX = IndexType()

_ELEMENTS: dict[str, Attribute] = {
    "float16": f16, "bfloat16": bf16, "float32": f32, "float64": f64, "bool": i1, "object": i64, "int64": i64,
    "uint64": i64, "int8": IntegerType(8), "uint8": IntegerType(8), "int32": IntegerType(32),
}  # fmt: skip


def signless(dtype: DType) -> Attribute:
    """The signless upstream element type of a dtype; a state is an index into the host's states."""
    return _ELEMENTS[dtype.name]


@functools.cache
def _classes() -> dict[str, type[Operation]]:
    """The operation classes of arith and math by name."""
    return {op.name: op for dialect in (Arith, math.Math) for op in dialect.operations}


# Element types by their names.
ELEMENT_TYPES: dict[str, Attribute] = {"index": IndexType(), **{str(kind): kind for kind in _ELEMENTS.values()}}


@functools.cache
def kind_dtype(kind: str) -> DType:
    """The dtype of an element type's name; of integers the signed one."""
    if kind == "index":
        return INT64
    return element_dtype(IntegerType(int(kind[1:])) if kind[0] == "i" else ELEMENT_TYPES[kind])


def operation_class(op: str) -> type[Operation]:
    """The operation class of a scalar step's text, which may have a predicate after the name."""
    return _classes()[op.partition(" ")[0]]


def operation_name(op: Operation) -> str:
    """The name of a scalar operation, with its predicate."""
    match op:
        case arith.CmpfOp():
            return f"{op.name} {arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]}"
        case arith.CmpiOp():
            return f"{op.name} {arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]}"
        case _:
            return op.name


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
    tables: dict[str, Sequence[str]] = {
        "arith.cmpf": arith.CMPF_COMPARISON_OPERATIONS,
        "arith.cmpi": arith.CMPI_COMPARISON_OPERATIONS,
    }
    return IntegerAttr(tables[name].index(predicate), i64)


@functools.lru_cache(4096)
def _number(text: str, dtype: DType) -> Attribute:
    value = np.asarray(float(text) if "." in text or "n" in text or "e" in text else int(text))
    with np.errstate(all="ignore"):
        value = value.astype(dtype).item()
    kind = cast(Any, signless(dtype))
    return FloatAttr(value, kind) if is_float(dtype) else IntegerAttr(int(value), kind)


def number_attribute(value: Any, dtype: DType) -> Attribute:
    """A Python scalar as a constant's attribute of that dtype; integers wrap."""
    return _number(
        repr(value if isinstance(value, int | float) and not isinstance(value, bool) else float(value)), dtype
    )


@dataclass(eq=False)
class Element:
    """An SSA value in a body with its dtype (which has the sign), and the loop whose index it is, if any."""

    value: SSAValue
    dtype: DType
    index: SSAValue | None = None


class ScalarBuilder:
    """``b`` of scalar bodies: appends operations to a block."""

    def __init__(self, block: Block, location: LocationAttr) -> None:
        self.block = block
        self.location = location
        self.constants: dict[tuple[str, DType], SSAValue] = {}
        # Elements that the body loads at its own indices, which become block arguments: the value, and the loops.
        self.reads: list[tuple[SSAValue, tuple[Place, ...], DType]] = []

    def __getattr__(self, step: str) -> Callable[..., Element]:
        if not hasattr(NumPyScalar, step):
            raise AttributeError(f"scalar bodies have no step {step!r}; see hybridc.dialects.scalar")
        return functools.partial(self._step, step)

    # --- operations ----------------------------------------------------------------------------------------

    def add_op(
        self,
        cls: type[Operation],
        operands: Sequence[SSAValue],
        kind: Attribute,
        properties: dict[str, Attribute] | None = None,
    ) -> SSAValue:
        """Write one operation with one result."""
        op = cls.create(operands=operands, result_types=[kind], properties=properties or {})
        op.location = self.location
        self.block.add_op(op)
        return op.results[0]

    def _named(self, name: str, operands: Sequence[SSAValue], kind: Attribute, **properties: Attribute) -> SSAValue:
        return self.add_op(_classes()[name], operands, kind, {**_defaults(name), **properties})

    def constant(self, value: Any, dtype: DType) -> Element:
        """A constant."""
        key = (repr(value), dtype)
        if key not in self.constants:
            attribute = {"value": number_attribute(value, dtype)}
            self.constants[key] = self.add_op(arith.ConstantOp, [], signless(dtype), attribute)
        return Element(self.constants[key], dtype)

    def integers(self, step: str, *xs: Element) -> Element:
        """The upstream operation of a step on integers of one dtype."""
        dtype = xs[0].dtype
        name = UPSTREAM[step]["fiub".index(dtype.kind)] or ""
        return Element(self._named(name, [x.value for x in xs], signless(dtype)), dtype)

    def _compare(self, predicate: str, x: Element, y: Element) -> Element:
        name = "arith.cmpf" if x.dtype.kind == "f" else "arith.cmpi"
        values = [x.value, y.value]
        return Element(self._named(name, values, i1, predicate=_predicate(name, predicate)), BOOL)

    # --- steps ---------------------------------------------------------------------------------------------

    def _step(self, step: str, *operands: Any) -> Element:
        if step == "select":
            return self._select(*operands)
        if step == "cast":
            return self.convert(operands[0], np.dtype(operands[1]))
        if step == "like":
            x = self._computed(operands[0])
            return self.constant(number_like(operands[1], x.dtype).item(), x.dtype)
        if step in LOGICAL:
            operands = tuple(self.convert(x, BOOL) for x in operands)
        operands = tuple(map(self._computed, operands))
        *wanted, out = loop_dtypes(step, tuple(map(_kind, operands)))
        xs = [self.convert(x, d) for x, d in zip(operands, wanted, strict=True)]
        dtype = wanted[0]
        if step in COMPOSED:
            if dtype == FLOAT16 and out == FLOAT16:
                xs = [self.convert(x, FLOAT32) for x in xs]
            return self.convert(COMPOSED[step](self, *xs), out)
        name = UPSTREAM[step]["fiub".index(dtype.kind)] if step in UPSTREAM else None
        if name == "":
            return xs[0]
        if step in PREDICATES and step not in LOGICAL and name is not None:
            return self._compare(name, xs[0], xs[1])
        if dtype.kind in "iu" and step in _ON_INTEGERS:
            return _ON_INTEGERS[step](self, *xs)
        if name is None:
            raise UnsupportedError(f"the step {step!r} of scalar bodies does not exist for {dtype}")
        if dtype == FLOAT16 and (name.startswith("math.") or step == "fmod"):
            wide = self._step(step, *[self.convert(x, FLOAT32) for x in xs])
            return self.convert(wide, out)
        return Element(self._named(name, [x.value for x in xs], signless(out)), out)

    def _computed(self, x: Any) -> Any:
        """An operand in its compute dtype; a symbolic size is fixed."""
        if is_size(x):
            return int(x)
        return self.convert(x, computed(x.dtype)) if isinstance(x, Element) else x

    def _select(self, condition: Any, x: Any, y: Any) -> Element:
        x, y = self._computed(x), self._computed(y)
        dtype = np.result_type(*[v.dtype if isinstance(v, Element) else v for v in (x, y)])
        values = [self.convert(condition, BOOL), self.convert(x, dtype), self.convert(y, dtype)]
        return Element(self.add_op(arith.SelectOp, [v.value for v in values], signless(dtype)), dtype)

    # --- conversions ---------------------------------------------------------------------------------------

    def convert(self, x: Any, dtype: DType) -> Element:
        """An element or scalar converted to a dtype, as ``astype`` does it."""
        if not isinstance(x, Element):
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        if dtype in STORED:
            return self._rounded(self.convert(x, FLOAT32), dtype)
        if x.dtype in STORED and dtype != FLOAT32:
            return self.convert(self.convert(x, FLOAT32), dtype)
        if x.dtype in STORED and isinstance(x.value.owner, arith.ConstantOp):
            return self.constant(cast(Any, x.value.owner.value).value.data, dtype)
        if dtype.kind == "b":
            return self._compare("une" if x.dtype.kind == "f" else "ne", x, self.constant(0, x.dtype))
        if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
            return self.convert(self.convert(x, INT32), dtype)
        name = conversion(x.dtype, dtype)
        return Element(self._named(name, [x.value], signless(dtype)) if name else x.value, dtype)

    def _rounded(self, x: Element, dtype: DType) -> Element:
        """A single-precision value rounded to fewer bits; its source, if it was only widened from that."""
        made = x.value.owner
        if isinstance(made, arith.ExtFOp) and made.input.type == signless(dtype):
            return Element(made.input, dtype)
        return Element(self._named("arith.truncf", [x.value], signless(dtype)), dtype)

    # --- indices and loads ---------------------------------------------------------------------------------

    def index_of(self, loop: int) -> Element:
        """The index of a loop."""
        index = self.add_op(linalg.IndexOp, [], INDEX, {"dim": IntegerAttr(loop, i64)})
        return Element(self.add_op(arith.IndexCastOp, [index], i64), INT64, index)

    def load(self, array: Any, *index: Any) -> Element:
        """The element of a tensor at indices in range."""
        places = [self._place(i) for i in index]
        value = self.add_op(tensor.ExtractOp, [array.value, *places], signless(array.dtype))
        return Element(value, array.dtype)

    def _place(self, x: Any) -> SSAValue:
        if isinstance(x, Element) and x.index is not None:
            return x.index
        return self.add_op(arith.IndexCastOp, [self.convert(x, INT64).value], INDEX)


def _kind(x: Any) -> Any:
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


# --- integers: what upstream leaves undefined, or lacks ---------------------------------------------------


def _negative(b: ScalarBuilder, x: Element) -> Element:
    return b.sub(b.constant(0, x.dtype), x)


def _c_remainder(b: ScalarBuilder, x: Element, y: Element) -> Element:
    """The remainder with the sign of x; by 0, and by -1 where it could overflow, it is 0."""
    zero, one = b.constant(0, y.dtype), b.constant(1, y.dtype)
    bad = b.eq(y, zero)
    if y.dtype.kind == "i":
        bad = b.logical_or(bad, b.eq(y, b.constant(-1, y.dtype)))
    return b.integers("fmod", x, b.select(bad, one, y))


def _quotient(b: ScalarBuilder, x: Element, y: Element) -> Element:
    """x / y, cut towards zero; by 0 it is 0, and by -1, where it could overflow, it is -x."""
    zero, one = b.constant(0, y.dtype), b.constant(1, y.dtype)
    by_zero = b.eq(y, zero)
    if y.dtype.kind == "u":
        return b.select(by_zero, zero, b.integers("quotient", x, b.select(by_zero, one, y)))
    negated = b.eq(y, b.constant(-1, y.dtype))
    result = b.integers("quotient", x, b.select(b.logical_or(by_zero, negated), one, y))
    return b.select(by_zero, zero, b.select(negated, _negative(b, x), result))


def _power(b: ScalarBuilder, x: Element, y: Element) -> Element:
    """In 64 bits, as ``ipowi`` takes the exponent as signed; with a negative one, only that of 1 and -1 is not 0."""
    wide = [b.convert(v, INT64) for v in (x, y)]
    if y.dtype.kind == "u":
        return b.convert(b.integers("pow", *wide), x.dtype)
    zero, one = b.constant(0, INT64), b.constant(1, INT64)
    base, exponent = wide
    inverse = b.select(b.eq(b.abs(base), one), base, zero)
    negative = b.lt(exponent, zero)
    # For bases 1 and -1 the power depends on the parity of the exponent only; 0 must not become 0**0.
    odd = Element(b._named("arith.andi", [exponent.value, one.value], i64), INT64)  # pyright: ignore[reportPrivateUsage]  (the same module)
    power = b.integers("pow", b.select(negative, inverse, base), b.select(negative, odd, exponent))
    return b.convert(b.select(b.logical_and(negative, b.eq(inverse, zero)), zero, power), x.dtype)


_ON_INTEGERS: dict[str, Callable[..., Element]] = {
    "neg": _negative,
    "fmod": _c_remainder,
    "pow": _power,
    "quotient": _quotient,
}
