"""Queries on values of the structured form and on host functions, for targets and the passes below the graph.

Upstream integers are signless. Where a dtype is unsigned, or operator state, an attribute says so:
``hybrid.dtypes`` of a function lists the dtypes of its arguments and results, ``hybrid.dtype`` of an op is that
of its result; without them an integer type is signed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IntegerType,
    ModuleOp,
    TensorType,
    i1,
)
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.traits import SymbolTable

from hybridc.dialects import operator_registry
from hybridc.dialects.error_context import defined, raise_in_context
from hybridc.dialects.handwritten import RETURNED, ArraySpec, Kernel
from hybridc.dialects.mlir import hybrid
from hybridc.dialects.mlir.graph_notes import (
    DONATED,
    DTYPE,
    DTYPES,
    GRADS,
    HAS_KERNEL,
    LASTING,
    OPERATOR,
    OPERATOR_ATTRIBUTES,
    ROLES,
    TRAINING,
    UPDATES,
)
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.mlir.kinds import of_kinds
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.errors import CustomOpError
from hybridc.ground.cached import by_identity
from hybridc.ground.sizes import AffineIndex

# Views: operations that show their first operand's memory in another shape or order.
KNOW_PLACES = (linalg.IndexOp.name, tensor.ExtractOp.name)  # loops of a body with one of these are not split
VIEWS = (tensor.CollapseShapeOp, tensor.ExpandShapeOp, tensor.ExtractSliceOp, linalg.TransposeOp)
is_view_op = of_kinds(*VIEWS)
is_loops = of_kinds(linalg.GenericOp, linalg.MatmulOp)


def shape_of(value: SSAValue) -> Shape:
    """The shape of a tensor; () of a scalar."""
    shape: Any = getattr(value.type, "shape", None)
    return () if shape is None else tuple([n.data for n in shape.data])


def give_type(value: SSAValue, kind: Attribute) -> None:
    """Change the type of a value in place; its uses stay (xDSL would make another value)."""
    value._type = kind  # pyright: ignore[reportPrivateUsage]


def dtype_of(value: SSAValue) -> DType:
    """The dtype of a tensor or scalar value of the structured form."""
    kind: Any = value.type
    known = hybrid.FLOATS.get(cast("type[Any]", type(getattr(kind, "element_type", kind))))
    if known is not None:  # nothing else says more about it
        return known.dtype
    owner = value.owner
    index: int = cast(Any, value).index
    if isinstance(owner, Block):
        function = owner.parent_op()
        if isinstance(function, func.FuncOp) and (dtypes := DTYPES.of(function)) is not None:
            return dtypes[index]
    elif (dtype := DTYPE.of(owner)) is not None:
        return dtype
    elif isinstance(owner, func.CallOp):
        callee = function_called(owner)
        if (dtypes := DTYPES.of(callee)) is not None:
            return dtypes[len(callee.function_type.inputs) + index]
    elif isinstance(owner, VIEWS):
        return dtype_of(owner.operands[0])
    return element_dtype(value.type)


def element_dtype(kind: Attribute) -> DType:
    """The dtype of an element type; signless integers count as signed."""
    if isinstance(kind, TensorType):
        kind = cast(TensorType[Any], kind).get_element_type()
    match kind:
        case IntegerType():
            width = kind.width.data
            return np.dtype(bool) if width == 1 else np.dtype(f"int{width}")
        case _ if type(kind) in hybrid.FLOATS:
            return hybrid.FLOATS[type(kind)].dtype
        case _:
            raise TypeError(f"{kind} is not an element type; expected a float or an integer type")


def note_dtype(op: Operation, dtype: DType) -> None:
    """Set ``hybrid.dtype`` of an operation, if the result's type does not say its dtype."""
    if dtype.kind == "u":
        DTYPE.put(op, dtype)


def note_dtypes(function: func.FuncOp, dtypes: list[DType]) -> None:
    """Set ``hybrid.dtypes`` of a function, if its types do not say all dtypes."""
    if any(d.kind in "uO" for d in dtypes):
        DTYPES.put(function, dtypes)


def function_called(call: func.CallOp) -> func.FuncOp:
    """The callee of a call."""
    callee = SymbolTable.lookup_symbol(call, call.callee)
    assert isinstance(callee, func.FuncOp)
    return callee


def places_of(op: linalg.GenericOp | linalg.MatmulOp) -> tuple[tuple[int, ...], ...]:
    """For each operand the loops that index its dimensions; () for :func:`affine_operands`."""
    return _all_places(op.properties["indexing_maps"])


def affine_operands(op: Operation) -> Mapping[int, tuple[AffineIndex, ...]]:
    """The operands that are read at affine sums of loops, by position: the index along each of their dimensions."""
    maps = op.properties.get("indexing_maps")
    return {} if maps is None else _all_affine(maps)


@by_identity
def _all_places(maps: Any) -> tuple[tuple[int, ...], ...]:
    return tuple([_places(affine_map.data) or () for affine_map in maps.data])


@by_identity
def _all_affine(maps: Any) -> Mapping[int, tuple[AffineIndex, ...]]:
    sums = [(i, affine_map.data) for i, affine_map in enumerate(maps.data) if _places(affine_map.data) is None]
    return {i: tuple(_affine_index(e) for e in affine_map.results) for i, affine_map in sums}


def _places(indexing_map: AffineMap) -> tuple[int, ...] | None:
    """The loops that index an operand; None if the map is no projected permutation."""
    places = tuple([e.position for e in indexing_map.results if isinstance(e, AffineDimExpr)])
    return places if len({*places}) == len(indexing_map.results) else None


def _affine_index(expression: AffineExpr) -> AffineIndex:
    match expression:
        case AffineDimExpr():
            return AffineIndex(((expression.position, 1),))
        case AffineConstantExpr():
            return AffineIndex((), expression.value)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            a, b = _affine_index(expression.lhs), _affine_index(expression.rhs)
            return AffineIndex((*a.terms, *b.terms), a.offset + b.offset)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
            a, b = _affine_index(expression.lhs), _affine_index(expression.rhs)
            a, b = (a, b) if not b.terms else (b, a)
            if not b.terms:
                return AffineIndex(tuple((i, f * b.offset) for i, f in a.terms), a.offset * b.offset)
        case _:
            pass
    raise ValueError(f"{expression} is not an affine sum of loops with constant factors")


def loop_sizes(op: Operation, places: Sequence[tuple[int, ...]]) -> Shape:
    """The trip count of each loop, by the shapes of the operands that it indexes."""
    sizes: dict[int, int] = {}
    for value, followed in zip(op.operands, places, strict=True):
        sizes.update(zip(followed, shape_of(value) if followed else (), strict=True))
    return tuple([sizes[i] for i in range(len(sizes))])


def indirect_operands(op: Operation) -> list[SSAValue]:
    """The tensors that an operation accesses indirectly (``tensor.extract``), each once."""
    if not isinstance(op, linalg.GenericOp):
        return []
    extracted = [inner.operands[0] for inner in op.regions[0].block.ops if inner.name == tensor.ExtractOp.name]
    return list(dict.fromkeys([*extracted, *[op.operands[i] for i in affine_operands(op)]]))


def loops_of_extracts(op: Operation) -> list[tuple[tensor.ExtractOp, tuple[int | None, ...]]]:
    """The ``tensor.extract`` of a body, and the loop that each of its indices depends on; None for none or several."""
    if not isinstance(op, linalg.GenericOp):
        return []
    loops: dict[SSAValue, frozenset[int]] = {}
    extracts: list[tuple[tensor.ExtractOp, tuple[int | None, ...]]] = []
    for inner in op.body.block.ops:
        if isinstance(inner, linalg.IndexOp):
            loops[inner.results[0]] = frozenset((inner.dim.value.data,))
            continue
        if isinstance(inner, tensor.ExtractOp):
            dependencies = [loops.get(index, frozenset[int]()) for index in inner.indices]
            extracts.append((inner, tuple([next(iter(e)) if len(e) == 1 else None for e in dependencies])))
            continue  # what is read says nothing of where
        depends = frozenset[int]().union(*[loops.get(v, frozenset()) for v in inner.operands])
        for result in inner.results:
            loops[result] = depends
    return extracts


def number_of(value: SSAValue) -> int | float | None:
    """The constant that a scalar is or a tensor is filled with; None if it is not known."""
    owner = value.owner
    if isinstance(owner, linalg.FillOp):
        return number_of(owner.operands[0])
    if not isinstance(owner, arith.ConstantOp):
        return None
    attribute: Any = owner.value
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        known = attribute.data.data and attribute.is_splat()  # an empty one has no elements
        return attribute.get_values()[0] if known else None
    return attribute.value.data


def scalar_of(attribute: Any) -> int | float:
    """The number of a scalar constant's attribute; a bool of type i1."""
    return bool(attribute.value.data) if attribute.type == i1 else attribute.value.data


def byte_count(value: SSAValue) -> int:
    """The size of a tensor in bytes."""
    return prod(shape_of(value)) * dtype_of(value).itemsize


def root(value: SSAValue) -> SSAValue:
    """The value at the end of a chain of views, which owns the memory."""
    while is_view_op(owner := value.owner):
        value = owner.operands[0]
    return value


def body_fault(op: Operation) -> str | None:
    """A type error in the body of a ``linalg.generic``, as text; None if there is none."""
    if not isinstance(op, linalg.GenericOp):
        return None
    elements = [cast("TensorType[Attribute]", v.type).get_element_type() for v in op.operands]
    block = op.body.block
    for position, (argument, element) in enumerate(zip(block.args, elements, strict=False)):
        if argument.type != element:
            return f"its body takes {argument.type} for operand {position}, whose elements are {element}"
    end = block.last_op
    yielded = [v.type for v in end.operands] if isinstance(end, linalg.YieldOp) else []
    wanted = elements[len(op.inputs) :]
    if len(block.args) != len(elements) or yielded != wanted:
        actual = ", ".join(map(str, yielded)) or "nothing"
        return f"its body yields {actual} where its results have elements of {', '.join(map(str, wanted))}"
    return None


def slice_fault(op: Operation) -> str | None:
    """An out-of-bounds axis of a slice, as text; None if there is none."""
    match op:
        case tensor.ExtractSliceOp():
            whole = shape_of(op.source)
        case tensor.InsertSliceOp():
            whole = shape_of(op.dest)
        case _:
            return None
    listed = (op.static_offsets, op.static_sizes, op.static_strides)
    parts = zip(*(integers_of(attribute) for attribute in listed), whole, strict=True)
    for axis, (offset, size, stride, length) in enumerate(parts):
        if offset < 0 or size < 0 or (size and not 0 <= offset + stride * (size - 1) < length):
            return f"axis {axis}, of {length} elements, has no {size} from {offset} on by {stride}"
    return None


def groups_of(op: tensor.CollapseShapeOp | tensor.ExpandShapeOp) -> list[list[int]]:
    """The reassociation: for each axis of the collapsed shape the axes of the expanded one."""
    groups: Any = op.reassociation.data
    return [[i.value.data for i in group.data] for group in groups]


def is_host(function: func.FuncOp) -> bool:
    """Whether this is a host function: it has no body, and ``hybrid.operator`` names the operator."""
    return OPERATOR.is_on(function)


def parameters_of(function: func.FuncOp) -> list[SSAValue]:
    """The arguments that are the same arrays at each call, as the trace has it; none if it is not said."""
    arguments = zip(function.body.block.args, ROLES.of(function), strict=False)
    return [argument for argument, role in arguments if role in LASTING]


def changes_parameters(function: func.FuncOp) -> bool:
    """Whether parameters are likely to be others in the next call: it trains, or writes arguments."""
    return any(note.is_on(function) for note in (TRAINING, GRADS, DONATED, UPDATES))


def lasting_parameters(function: func.FuncOp) -> list[SSAValue]:
    """The arguments that are parameters, if they are likely to be the same in the next call."""
    return [] if changes_parameters(function) else parameters_of(function)


def kernels(module: ModuleOp) -> dict[str, func.FuncOp]:
    """The private functions: kernels and host functions."""
    private = (op for op in module.ops if isinstance(op, func.FuncOp) and op.sym_visibility is not None)
    return {f.sym_name.data: f for f in private}


def is_scaffold(op: Operation) -> bool:
    """Whether an operation only makes another's initial value: an empty tensor, a fill, a constant."""
    return op.name in ("tensor.empty", "linalg.fill", "arith.constant")


# --- constants as NumPy arrays ----------------------------------------------------------------------------------------


def numbers_in(value: Attribute, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A dense attribute as a NumPy array."""
    assert isinstance(value, DenseIntOrFPElementsAttr)
    numbers: list[Any] = list(value.get_values())
    if len(set(numbers)) == 1:  # a splat, written either way
        return np.full(shape, np.asarray(numbers[0]).astype(dtype))
    return np.asarray(numbers).astype(dtype).reshape(shape)


# --- functions without a body: operator, handwritten kernel, in-place pairs -------------------------------------------


def operator_of(declaration: func.FuncOp) -> Operator:
    """The operator that computes a declared function, with its attributes bound."""
    attributes = OPERATOR_ATTRIBUTES.of(declaration).items()
    operator = operator_registry.operator(OPERATOR.of(declaration) or "")
    return operator.bind(**{key: hybrid.from_attribute(value) for key, value in attributes})


def arrays_of(values: Sequence[SSAValue]) -> list[ArraySpec]:
    """Shapes and dtypes of values."""
    return [ArraySpec(hybrid.hybrid_shape(v), hybrid.hybrid_dtype(v)) for v in values]


def handwritten_kernel(operator: Operator, target: str, ins: list[ArraySpec], outs: list[ArraySpec]) -> Kernel | None:
    """The handwritten kernel of an operator for a target; None if it has none for these arguments."""
    if target not in RETURNED:
        return None
    try:
        kernel: Any = operator.kernel(target, ins, outs)
    except Exception as error:
        raise_in_context(operator, "kernel", error, target, ins, outs)
        raise
    kind, wanted = RETURNED[target]
    if kernel is not None and not (callable(kernel) if kind is None else isinstance(kernel, kind)):
        raise CustomOpError(
            f"operator {operator.NAME}: kernel({target!r}, …) returned {kernel!r}; it returns {wanted}, or None where "
            f"it has no kernel{defined(operator, 'kernel')}"
        )
    return kernel


def is_handwritten(declaration: func.FuncOp) -> bool:
    """Whether a handwritten kernel computes a declared function, rather than the host."""
    return HAS_KERNEL.of(declaration)


def declared_inplace_pairs(declaration: func.FuncOp) -> list[tuple[int, int]]:
    """Pairs of argument and result that may share memory, by the operator's ``inplace``; both have one type.

    None for a handwritten kernel, which may write an element before it reads it.
    """
    if is_handwritten(declaration):
        return []
    ins, outs = declaration.function_type.inputs.data, declaration.function_type.outputs.data
    dtypes = DTYPES.of(declaration) or [None] * (len(ins) + len(outs))
    return [
        (i, out)
        for i, out in operator_of(declaration).INPLACE
        if i < len(ins) and ins[i] == outs[out] and dtypes[i] == dtypes[len(ins) + out]
    ]
