"""The ``hybrid`` dialect: one IR operation for every registered operator, generated from its class.

This module imports xDSL; nothing that eager code needs imports this module.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    FileLineColLoc,
    FloatAttr,
    FunctionType,
    FusedLoc,
    IntAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    NameLoc,
    NoneAttr,
    NoneType,
    Signedness,
    StringAttr,
    TensorType,
    UnrankedTensorType,
    f64,
    i1,
    i64,
)
from xdsl.ir import (
    Attribute,
    Block,
    Data,
    Dialect,
    Operation,
    ParametrizedAttribute,
    Region,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    traits_def,
    var_operand_def,
    var_region_def,
    var_result_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import IsolatedFromAbove, IsTerminator, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException

from hybridc.dialects import operator_registry
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.mlir.graph_notes import BY_HAND
from hybridc.dialects.mlir.integer_array import integer_array, integers_of
from hybridc.dialects.mlir.new_op import new_op
from hybridc.dialects.operator import Operator
from hybridc.dtypes import TYPES, ElementType
from hybridc.errors import MXNetError
from hybridc.ground.location import Location
from hybridc.ground.nesting import as_list
from hybridc.ground.sizes import Size

# --- types -------------------------------------------------------------------------------------------------


@irdl_attr_definition
class StateType(ParametrizedAttribute, TypeAttribute):
    """The type of an operator's state, a Python object; a cell is a tensor of one of them."""

    name = "hybrid.state"


# Upstream element types by name: ``f32``, ``i8``.
SIGNLESS: dict[str, Attribute] = {
    t.ir: getattr(builtin, t.ir) if t.kind == "f" else IntegerType(int(t.ir[1:])) for t in TYPES.values() if t.ir
}
# What is known of floats, by the type of their IR type, which hashes faster than an attribute.
FLOATS: dict[type[Attribute], ElementType] = {type(SIGNLESS[t.ir]): t for t in TYPES.values() if t.kind == "f"}
_UNSIGNED = IntegerType(64, Signedness.UNSIGNED)
_ELEMENTS: dict[str, Attribute] = {
    **{
        t.name: IntegerType(t.bits, Signedness.UNSIGNED) if t.kind == "u" else SIGNLESS[t.ir]
        for t in TYPES.values()
        if t.ir
    },
    "object": StateType(),
}
_DTYPES: dict[Attribute, np.dtype[Any]] = {_ELEMENTS[t.name]: t.dtype for t in TYPES.values() if t.ir}
_DTYPES[StateType()] = np.dtype(object)


def element_type(dtype: Any) -> Attribute:
    """The IR type of a dtype."""
    try:
        return _ELEMENTS[np.dtype(dtype).name]
    except KeyError:
        raise MXNetError(
            f"arrays of dtype {np.dtype(dtype)} cannot be compiled; use one of {sorted(_ELEMENTS.keys() - {'object'})}"
        ) from None


def tensor_type(shape: Sequence[int], dtype: Any) -> TensorType[Any]:
    """The IR type of an array."""
    return _tensor_type(tuple(shape), np.dtype(dtype).name)


@functools.lru_cache(4096)
def _tensor_type(shape: tuple[int, ...], dtype: str) -> TensorType[Any]:
    return TensorType(element_type(dtype), list(shape))


def open_type(shape: Sequence[int] | None, dtype: Any) -> TensorType[Any] | UnrankedTensorType[Any]:
    """The IR type of an array in a graph without shapes: unranked, or with dynamic sizes."""
    if shape is None:
        return UnrankedTensorType(element_type(dtype))
    return tensor_type([DYNAMIC_INDEX if n == -1 else n for n in shape], dtype)


def is_open(value: SSAValue) -> bool:
    """Whether a tensor type has an unknown rank or dynamic sizes."""
    return isinstance(value.type, UnrankedTensorType) or DYNAMIC_INDEX in hybrid_shape(value)


def hybrid_element_dtype(element: Attribute) -> np.dtype[Any]:
    """The dtype of an IR element type."""
    return _DTYPES[element]


def hybrid_shape(value: SSAValue) -> tuple[int, ...]:
    """The shape of a tensor or an array in memory."""
    return cast(TensorType[Any], value.type).get_shape()


def hybrid_dtype(value: SSAValue) -> np.dtype[Any]:
    """The dtype of a tensor or an array in memory."""
    return _DTYPES[cast(TensorType[Any], value.type).element_type]


# --- attributes -------------------------------------------------------------------------------------------


@irdl_attr_definition
class HandleAttr(Data[Any]):
    """A Python object, such as a custom operator; it prints, but does not parse."""

    name = "hybrid.handle"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Any:
        parser.raise_error("a handle names an object of the process that printed it and cannot be read back")

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<")
        printer.print_string_literal(repr(self.data).encode("utf-8", "backslashreplace").decode())
        printer.print_string(">")


@functools.lru_cache(4096)
def _integer(value: int, width: int) -> IntegerAttr[IntegerType]:
    """An integer attribute; cached, as making one costs 200 µs."""
    return IntegerAttr(value, i1 if width == 1 else i64 if value < 1 << 63 else _UNSIGNED)


def to_attribute(value: Any, kind: str) -> Attribute:
    """The IR attribute of an operator attribute's value."""
    if value is None:
        return NoneType()  # it prints as `none` and, unlike NoneAttr, parses again
    if kind == "bool" or isinstance(value, bool):
        return _integer(int(value), 1)
    if kind == "DType":
        return element_type(value)
    if isinstance(value, int):
        return _integer(value, 64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, tuple):
        items = as_list(value)
        if items and all(type(v) is float for v in items):
            return DenseArrayBase.from_list(f64, items)
        if all(type(v) is int or type(v) is Size for v in items):
            return integer_array(items)
        return ArrayAttr([to_attribute(v, "object") for v in items])
    return HandleAttr(value)


def from_attribute(attribute: Attribute) -> Any:
    """The Python value of an IR attribute."""
    kind, known = type(attribute), cast(Any, attribute)  # these classes have no others below them
    if kind is NoneType:
        return None
    if kind is IntegerAttr:
        return bool(known.value.data) if known.type == i1 else known.value.data
    if kind is FloatAttr:
        return known.value.data
    if kind is StringAttr or kind is HandleAttr:
        return known.data
    if kind is DenseArrayBase:
        return integers_of(known) if known.elt_type == i64 else tuple(known.get_values())
    if kind is ArrayAttr:
        return tuple([from_attribute(part) for part in known.data])
    return _DTYPES[attribute]


# --- operations -------------------------------------------------------------------------------------------


class HybridOp(IRDLOperation):
    """An operator as an IR operation; subclasses differ only in operator class and traits."""

    OPERATOR: ClassVar[type[Operator]]

    ins = var_operand_def()
    outs = var_result_def()
    bodies = var_region_def()

    @property
    def operator(self) -> Operator:
        """The operator, bound to this operation's attributes and regions."""
        bound = {k: from_attribute(a) for k, a in self.attributes.items() if k != BY_HAND.name}
        if self.regions:
            bound |= zip(_body_names(self.OPERATOR), map(region_to_body, self.regions), strict=True)
        return self.OPERATOR.bind(**bound)

    @classmethod
    def build_op(
        cls,
        operator: Operator,
        operands: Sequence[SSAValue],
        location: Location | None,
        results: Sequence[Attribute] | None = None,
    ) -> HybridOp:
        """The operation of a bound operator; result types are inferred unless given."""
        if results is None:
            _, shapes = operator.infer_shape([hybrid_shape(v) for v in operands])
            _, dtypes = operator.infer_type([hybrid_dtype(v) for v in operands])
            results = [tensor_type(s, d) for s, d in zip(shapes, dtypes, strict=True)]
        attributes = {
            name: to_attribute(value, declared.kind)
            for (name, declared), value in zip(operator.ATTRIBUTES.items(), operator.key[1:], strict=True)
            if declared.kind != "Body" and (value != declared.default or type(value) is not type(declared.default))
        }
        types = _argument_types(operator, operands)
        op = new_op(
            operation(type(operator)),
            operands,
            results,
            attributes=attributes,
            regions=[body_to_region(operator.attrs[name], types) for name in _body_names(type(operator))],
        )
        if location is not None:
            op.location = file_line(location)
        return op

    def verify_(self) -> None:
        """Verify that the result types are as inferred from the operands, where shapes are known."""
        self._verify_count()
        try:
            operator = self.operator
            self._verify_regions(operator)
            self._verify_inputs(operator)
            if any(is_open(v) for v in self.operands):
                return
            _, shapes = operator.infer_shape([hybrid_shape(v) for v in self.operands])
            _, dtypes = operator.infer_type([hybrid_dtype(v) for v in self.operands])
        except MXNetError as error:
            raise VerifyException(str(error)) from error
        expected = [tensor_type(s, d) for s, d in zip(shapes, dtypes, strict=True)]
        got = [r.type for r in self.results]
        if got != expected:
            raise VerifyException(
                f"{self.name}: result types are {', '.join(map(str, got))}, inferred {', '.join(map(str, expected))}"
            )

    def _verify_count(self) -> None:
        names = _body_names(self.OPERATOR)
        if len(self.regions) != len(names):
            raise VerifyException(f"{self.name} has {len(self.regions)} regions, expected {len(names)}")

    def _verify_regions(self, operator: Operator) -> None:
        expected = _argument_types(operator, self.operands)
        for region in self.regions:
            got = [arg.type for arg in region.block.args]
            if got != expected:
                raise VerifyException(
                    f"{self.name}: the arguments of its region are {', '.join(map(str, got))}, but its operands are "
                    f"{', '.join(map(str, expected))}"
                )

    def _verify_inputs(self, operator: Operator) -> None:
        names = operator.input_names()
        if operator.VARIADIC:
            return
        if not len(names) - operator.OPTIONAL <= len(self.operands) <= len(names):
            takes = f"{len(names)} input{'s' * (len(names) != 1)} ({', '.join(names)})"
            raise VerifyException(f"{operator.title()}: takes {takes}, got {len(self.operands)}")

    def print(self, printer: Printer) -> None:
        if self.operands:
            printer.print_string(" ")
            printer.print_list(self.operands, printer.print_ssa_value)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_function_type([v.type for v in self.operands], [v.type for v in self.results])
        for region in self.regions:
            printer.print_string(" ")
            printer.print_region(region)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands = parser.parse_optional_undelimited_comma_separated_list(
            parser.parse_optional_unresolved_operand, parser.parse_unresolved_operand
        )
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        position = parser.pos
        kind = parser.parse_type()
        if not isinstance(kind, FunctionType):
            parser.raise_error("expected the function type of the operation", position, parser.pos)
        resolved = parser.resolve_operands(operands or [], kind.inputs.data, position)
        regions = [parser.parse_region() for _ in _body_names(cls.OPERATOR)]
        return cls.create(operands=resolved, result_types=kind.outputs.data, attributes=attributes, regions=regions)


@irdl_op_definition
class YieldOp(IRDLOperation):
    """The terminator of an operation's region."""

    name = "hybrid.yield"
    values = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "attr-dict ($values^ `:` type($values))?"


@functools.cache
def _body_names(cls: type[Operator]) -> tuple[str, ...]:
    """The attributes of an operator that are nested graphs, which its operations have as regions."""
    return tuple(name for name, declared in cls.ATTRIBUTES.items() if declared.kind == "Body")


def _argument_types(operator: Operator, operands: Sequence[SSAValue]) -> list[Attribute]:
    """The types of the arguments of an operator's regions: those of the operands, or of a row of them."""
    types = [v.type for v in operands]
    return [
        tensor_type(hybrid_shape(v)[1:], hybrid_dtype(v))
        if i < operator.rows_inside() and isinstance(t, TensorType)
        else t
        for i, (v, t) in enumerate(zip(operands, types, strict=True))
    ]


def body_to_region(body: Body, types: Sequence[Attribute]) -> Region:
    """The region of a body whose arguments have these types."""
    block = Block(arg_types=types)
    values: list[SSAValue] = list(block.args)
    for step in body.typed([hybrid_dtype(arg) for arg in block.args]).steps:
        operands = [values[i] for i in step.inputs]
        results: list[Attribute] | None = None
        if any(is_open(v) for v in operands):
            results = [open_type(None, d) for d in step.op.infer_type([hybrid_dtype(v) for v in operands])[1]]
        op = HybridOp.build_op(step.op, operands, step.location, results)
        for result in op.results:
            result.name_hint = step.name or None
        block.add_op(op)
        values += op.results
    block.add_op(YieldOp.create(operands=[values[i] for i in body.results]))
    return Region(block)


def region_to_body(region: Region) -> Body:
    """The body of a region of hybrid operations."""
    block = region.block
    numbers: dict[SSAValue, int] = {arg: i for i, arg in enumerate(block.args)}
    steps: list[BodyStep] = []
    results: list[int] = []
    for op in block.ops:
        inputs = [numbers[v] for v in op.operands]
        if isinstance(op, YieldOp):
            results = inputs
            continue
        if not isinstance(op, HybridOp):
            raise VerifyException(f"{op.name} cannot be inside the graph of an operator; hybrid operations can")
        steps.append(BodyStep(op.operator, inputs, len(numbers), location_of(op), op.results[0].name_hint or ""))
        for result in op.results:
            numbers[result] = len(numbers)
    return Body(len(block.args), steps, results)


_OPERATIONS: dict[str, type[HybridOp]] = {}


def operation(cls: type[Operator]) -> type[HybridOp]:
    """The operation class of an operator class, generated on first use."""
    op_class = _OPERATIONS.get(cls.NAME)
    if op_class is None or op_class.OPERATOR is not cls:
        traits: list[OpTrait] = [Pure()] if cls.PURE else []
        traits += [IsolatedFromAbove()] if _body_names(cls) else []
        body: dict[str, Any] = {
            "__doc__": cls.__doc__,
            "__module__": cls.__module__,
            "__annotations__": {"OPERATOR": "ClassVar[type[Operator]]"},
            "name": cls.NAME,
            "OPERATOR": cls,
            "traits": traits_def(*traits),
        }
        op_class = _OPERATIONS[cls.NAME] = irdl_op_definition(type(f"{cls.__name__}Op", (HybridOp,), body))
    return op_class


def dialects() -> dict[str, Dialect]:
    """A dialect for every namespace of the registry: ``hybrid`` and those of users."""
    names = sorted({name.partition(".")[0] for name in operator_registry.operators()})
    by_namespace: dict[str, Dialect] = {}
    for name in names:
        operations: list[type[Operation]] = [
            operation(c) for n, c in operator_registry.operators().items() if n.startswith(f"{name}.")
        ]
        if name == "hybrid":
            by_namespace[name] = Dialect(name, [*operations, YieldOp], [HandleAttr, StateType])
        else:
            by_namespace[name] = Dialect(name, operations, [])
    return by_namespace


def file_line(location: Location) -> FileLineColLoc | NameLoc:
    """A location as an IR attribute: ``loc("net_dense0"("net.py":12:0))``."""
    where = FileLineColLoc(StringAttr(location.file), IntAttr(location.line), IntAttr(0))
    return NameLoc(StringAttr(location.block), where) if location.block else where


def location_of(op: Operation) -> Location | None:
    """The user's line of an operation, if known; the first one of a fused location."""
    return next(iter(locations_of(op)), None)


def locations_of(op: Operation) -> list[Location]:
    """The user's lines of an operation; several for a fused location."""
    return locations_at(op.location)


def locations_at(location: Attribute) -> list[Location]:
    """The user's lines that an operation's location has."""
    several = location.locations if isinstance(location, FusedLoc) else [location]
    return [where for one in cast("Iterable[Attribute]", several) if (where := _location(one)) is not None]


def _location(location: Attribute) -> Location | None:
    block = ""
    if isinstance(location, NameLoc):
        location, block = location.location, location.desc.data
    if isinstance(location, FileLineColLoc):
        return Location(location.filename.data, location.line.data, block)
    return None


class Located(Protocol):
    """An operation, or what one is made of."""

    @property
    def location(self) -> LocationAttr: ...


def fused_location(ops: Iterable[Located]) -> Any:
    """The fused location of an operation that replaces several."""
    several = tuple(dict.fromkeys(op.location for op in ops))
    return several[0] if len(several) == 1 else FusedLoc(several, NoneAttr())
