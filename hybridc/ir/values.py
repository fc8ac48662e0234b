"""Questions that passes ask about the values and functions of a graph."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, ModuleOp, StringAttr
from xdsl.ir import SSAValue

from hybridc.dialects.mlir.hybrid import HybridOp, dtype_of, element_dtype, shape_of
from hybridc.dialects.operator import Movement


def constant_value(value: SSAValue) -> Any:
    """The number that a value is known to be, or None."""
    op = value.owner
    if isinstance(op, HybridOp) and not op.operands and not shape_of(value):
        return op.operator.as_number()
    return None


def is_constant(op: HybridOp) -> bool:
    """Whether the operation is a number, which kernels hold as a literal."""
    return len(op.results) == 1 and constant_value(op.results[0]) is not None


def functions(module: ModuleOp) -> list[func.FuncOp]:
    """The functions of a module, in order."""
    return [op for op in module.ops if isinstance(op, func.FuncOp)]


def new_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or if that is taken the first with a number behind it that is not; it is taken then."""
    name, number = wanted, 1
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    taken.add(name)
    return name


def put(module: ModuleOp, function: func.FuncOp) -> None:
    """Put a function into a module, under a name that no other has."""
    name = new_name(function.sym_name.data, {f.sym_name.data for f in functions(module)})
    function.sym_name = StringAttr(name)
    module.body.block.add_op(function)


def hybrid_ops(function: func.FuncOp) -> list[HybridOp]:
    """The operators of a function's body, in order."""
    return [op for op in function.body.block.ops if isinstance(op, HybridOp)]


def result_count(function: func.FuncOp) -> int:
    """How many of a function's results its caller sees; new values of inputs and what a backward needs follow them."""
    count = function.attributes.get("hybrid.outputs")
    return int(count.get_values()[0]) if isinstance(count, DenseArrayBase) else len(function.function_type.outputs)


def is_state(value: SSAValue) -> bool:
    """Whether the value is a cell: the state of an operator, which stays from call to call."""
    return dtype_of(value).kind == "O"


def volume(shape: tuple[int, ...]) -> int:
    """The number of elements."""
    return math.prod(shape)


def byte_size(array: SSAValue) -> int:
    """The bytes of a tensor, or of a buffer."""
    kind: Any = array.type
    return volume(kind.get_shape()) * element_dtype(kind.get_element_type()).itemsize


def is_view(op: HybridOp) -> bool:
    """Whether the operation gives another view of its operand's memory."""
    operator = op.operator
    if not isinstance(operator, Movement) or len(op.operands) != 1 or not operator.is_view():
        return False
    return operator.LAYOUT != "row-major" or is_row_major(op.operands[0])


def is_row_major(value: SSAValue) -> bool:
    """Whether a value's elements follow each other in memory: not behind a transpose or a slice."""
    while isinstance(value.owner, HybridOp):
        operator = value.owner.operator
        if not isinstance(operator, Movement) or not operator.is_view():
            return True
        if operator.LAYOUT == "strided":
            return False
        value = value.owner.operands[0]
    return True


def root(value: SSAValue) -> SSAValue:
    """The value whose memory a chain of views shows."""
    while isinstance(value.owner, HybridOp) and value.owner.operands and is_view(value.owner):
        value = value.owner.operands[0]
    return value
