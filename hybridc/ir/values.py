"""Queries on the values and functions of a module."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.mlir.graph_notes import OUTPUTS
from hybridc.dialects.mlir.hybrid import HybridOp, hybrid_dtype, hybrid_element_dtype, hybrid_shape
from hybridc.dialects.mlir.kinds import of_kinds
from hybridc.dialects.operator import Movement


def constant_value(value: SSAValue) -> Any:
    """The constant that a value is known to be, or None."""
    op = value.owner
    if isinstance(op, HybridOp) and not op.operands and not hybrid_shape(value):
        return op.operator.as_number()
    return None


def is_constant(op: HybridOp) -> bool:
    """Whether the operation is a scalar constant, which kernels hold as a literal."""
    return len(op.results) == 1 and constant_value(op.results[0]) is not None


is_function = of_kinds(func.FuncOp)


def functions(module: ModuleOp) -> list[func.FuncOp]:
    """The functions of a module, in order."""
    return [op for op in module.regions[0].block.ops if is_function(op)]


def new_name(wanted: str, names: set[str]) -> str:
    """A unique symbol name: the wanted one, or the first with a number appended; it is added to ``names``."""
    name, suffix = wanted, 1
    while name in names:
        name, suffix = f"{wanted}_{suffix}", suffix + 1
    names.add(name)
    return name


def put(module: ModuleOp, function: func.FuncOp) -> None:
    """Add a function to a module, under a unique name."""
    name = new_name(function.sym_name.data, {f.sym_name.data for f in functions(module)})
    function.sym_name = StringAttr(name)
    module.body.block.add_op(function)


def hybrid_ops(function: func.FuncOp) -> list[HybridOp]:
    """The operators of a function's body, in order."""
    return [op for op in function.body.block.ops if isinstance(op, HybridOp)]


def result_count(function: func.FuncOp) -> int:
    """The number of visible results; new values of mutated inputs and residuals follow them."""
    visible = OUTPUTS.of(function)
    return len(function.function_type.outputs) if visible is None else visible


def is_state(value: SSAValue) -> bool:
    """Whether the value is operator state, which stays from call to call."""
    return hybrid_dtype(value).kind == "O"


def volume(shape: tuple[int, ...]) -> int:
    """The number of elements of a shape."""
    return math.prod(shape)


def byte_size(array: SSAValue) -> int:
    """The size of a tensor or buffer in bytes."""
    kind: Any = array.type
    return volume(kind.get_shape()) * hybrid_element_dtype(kind.get_element_type()).itemsize


def is_view(op: HybridOp) -> bool:
    """Whether the result is a view of the operand's memory."""
    operator = op.operator
    if not isinstance(operator, Movement) or len(op.operands) != 1 or not operator.is_view():
        return False
    return operator.LAYOUT != "row-major" or is_row_major(op.operands[0])


def is_row_major(value: SSAValue) -> bool:
    """Whether a value is contiguous in row-major order: no transposed or strided view."""
    while isinstance(value.owner, HybridOp):
        operator = value.owner.operator
        if not isinstance(operator, Movement) or not operator.is_view():
            return True
        if operator.LAYOUT == "strided":
            return False
        value = value.owner.operands[0]
    return True


def graph_root(value: SSAValue) -> SSAValue:
    """The value at the end of a chain of views, which owns the memory."""
    while isinstance(value.owner, HybridOp) and value.owner.operands and is_view(value.owner):
        value = value.owner.operands[0]
    return value


def operands_first(value: SSAValue, is_known: Callable[[SSAValue], bool]) -> list[Operation]:
    """The operations that compute a value from known ones, each after those that compute its operands.

    A graph may be deeper than Python's recursion.
    """
    ordered: dict[Operation, None] = {}
    stack: list[tuple[SSAValue, bool]] = [(value, False)]
    while stack:
        value, is_after = stack.pop()
        op = value.owner
        if not isinstance(op, Operation) or op in ordered or is_known(value):
            continue
        if is_after:
            ordered[op] = None
            continue
        stack.append((value, True))
        stack += [(v, False) for v in reversed(op.operands)]
    return list(ordered)
