"""The ``hybrid_rt`` dialect: memory and launches of planned programs.

``arena`` is the memory of one call, ``kept`` that of prepared values, which calls share; ``view`` is an array at an
offset of one of them, ``alloc`` a result that the caller will own, ``cell`` operator state, which stays from call to
call, ``donated`` the memory of an argument that a result is written into, ``size`` a size that is computed with, before
memory is planned, ``alias`` another view of a buffer, ``copy`` copies elements, ``launch`` runs a kernel on buffers. A
kernel stays a function of tensors: a launch loads its inputs, stores its results and may use ``scratch``, bytes of the
arena. ``uniform``, in a kernel's loops, is a random sample.

Operations are built without xDSL's general constructor, which takes longer than the rest of planning.
"""

from __future__ import annotations

import functools
import math
from abc import ABC
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    DenseArrayBase,
    FlatSymbolRefAttrConstr,
    IntAttr,
    IntegerAttr,
    MemRefType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    i8,
    i32,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Dialect, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    var_operand_def,
)
from xdsl.utils.exceptions import VerifyException

from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.buffers import ALIGNMENT
from hybridc.ground.sizes import row_major


def aligned(size: int) -> int:
    """The size, rounded up to a multiple of 64 bytes, and at least 64, so that no two buffers share an address."""
    return max(1, -(-size // ALIGNMENT)) * ALIGNMENT


class _MemoryOp(IRDLOperation, ABC):
    """A buffer of a fixed number of bytes; arrays are views of it."""

    memory = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($memory)"

    def __init__(self, size: int) -> None:
        super().__init__(result_types=[MemRefType(i8, [size])])

    @property
    def size(self) -> int:
        """The number of bytes."""
        assert isinstance(self.memory.type, MemRefType)
        return self.memory.type.get_shape()[0]


@irdl_op_definition
class ArenaOp(_MemoryOp):
    """The memory of one call; a program has one arena."""

    name = "hybrid_rt.arena"


@irdl_op_definition
class KeptOp(_MemoryOp):
    """The memory of prepared values, kept from call to call; a program has one at most.

    Each view is a value that is kept by itself: programs of the same parameters that need the same value share it.
    Launches that write it are the program's preparation (``hybrid.preparation``), which comes first. It runs only when
    an array that it reads is another than before, or was written.
    """

    name = "hybrid_rt.kept"


@irdl_op_definition
class ViewOp(IRDLOperation):
    """An array at an offset, in bytes, of the arena or of kept memory."""

    name = "hybrid_rt.view"
    memory = operand_def(MemRefType)
    offset = prop_def(IntegerAttr)
    array = result_def(MemRefType)
    assembly_format = "$memory `[` $offset `]` attr-dict `:` type($memory) `->` type($array)"

    def __init__(self, memory: SSAValue, offset: int, array: Attribute) -> None:
        properties = {"offset": IntegerAttr(offset, i64)}
        Operation.__init__(self, operands=[memory], properties=properties, result_types=[array])

    def verify_(self) -> None:
        """Arrays start at multiples of 64 bytes."""
        if self.offset.value.data % ALIGNMENT:
            raise VerifyException(f"offset {self.offset.value.data} is not a multiple of {ALIGNMENT}")


@irdl_op_definition
class AllocOp(IRDLOperation):
    """A fresh array, owned by the caller."""

    name = "hybrid_rt.alloc"
    array = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($array)"

    def __init__(self, array: Attribute) -> None:
        super().__init__(result_types=[array])


@irdl_op_definition
class StateOp(IRDLOperation):
    """Operator state, kept beside the arena from call to call."""

    name = "hybrid_rt.state"
    array = result_def(MemRefType)
    assembly_format = "attr-dict `:` type($array)"

    def __init__(self, array: Attribute) -> None:
        super().__init__(result_types=[array])


@irdl_op_definition
class DonatedOp(IRDLOperation):
    """The memory of a donated argument, from the point on where a result is written there.

    The argument keeps its own SSA value, so that reading it too late can be told from reading the result.
    """

    name = "hybrid_rt.donated"
    argument = operand_def(MemRefType)
    array = result_def(MemRefType)
    assembly_format = "$argument attr-dict `:` type($argument) `->` type($array)"

    def __init__(self, argument: SSAValue) -> None:
        super().__init__(operands=[argument], result_types=[argument.type])

    def verify_(self) -> None:
        """Verify that the operand is an argument of the function."""
        if not isinstance(self.argument, BlockArgument) or self.argument.type != self.array.type:
            raise VerifyException("the operand must be an argument of the function, and the result of its type")


@irdl_op_definition
class ConstantOp(IRDLOperation):
    """A constant array."""

    name = "hybrid_rt.constant"
    value = prop_def(Attribute)
    array = result_def(MemRefType)
    assembly_format = "$value attr-dict `:` type($array)"

    def __init__(self, value: Attribute, array: Attribute) -> None:
        super().__init__(properties={"value": value}, result_types=[array])


@irdl_op_definition
class SizeOp(IRDLOperation):
    """A size as a number of the result's dtype, for kernels that compute with it: it differs where shapes do."""

    name = "hybrid_rt.size"
    size = prop_def(IntAttr)
    scalar = result_def(TensorType)
    assembly_format = "$size attr-dict `:` type($scalar)"

    def __init__(self, size: int, kind: TensorType[Any]) -> None:
        Operation.__init__(self, properties={"size": IntAttr(size)}, result_types=[kind])


@irdl_op_definition
class AliasOp(IRDLOperation):
    """A view of a buffer in another shape or order.

    ``view`` is a movement (see :mod:`hybridc.dialects.movement`) whose arguments are this operation's attributes, but
    shape, which is the result's: ``reshape``, ``transpose`` (order), ``slice`` (begin, step).
    """

    name = "hybrid_rt.alias"
    array = operand_def(MemRefType)
    view = prop_def(StringAttr)
    result = result_def(MemRefType)
    assembly_format = "$view $array attr-dict `:` type($array) `->` type($result)"

    def __init__(self, view: str, array: SSAValue, attributes: dict[str, Attribute], result: Attribute) -> None:
        properties = {"view": StringAttr(view)}
        Operation.__init__(self, operands=[array], properties=properties, attributes=attributes, result_types=[result])

    def numbers(self, name: str) -> tuple[int, ...]:
        """An argument of the movement: one integer for each axis; () if there is none."""
        argument = self.attributes.get(name)
        return integers_of(cast("DenseArrayBase[Any]", argument)) if isinstance(argument, DenseArrayBase) else ()

    def strides(self, shape: Shape, strides: Shape) -> Shape | None:
        """The view's strides, in elements, given the array's shape and strides; None if it would need a copy."""
        kind: Any = self.result.type
        result: Shape = kind.get_shape()
        match self.view.data:
            case "reshape" if math.prod(result) == math.prod(shape):
                return _reshaped(shape, strides, result)
            case "transpose":
                order = self.numbers("order")
                if sorted(order) == list(range(len(shape))) and tuple(shape[i] for i in order) == result:
                    return tuple(strides[i] for i in order)
            case "slice":
                begin, step = self.numbers("begin"), self.numbers("step")
                if len(begin) == len(step) == len(shape) == len(result) and all(
                    n == 0 or (b >= 0 and s > 0 and b + s * (n - 1) < whole)
                    for b, s, n, whole in zip(begin, step, result, shape, strict=True)
                ):
                    return tuple(s * stride for s, stride in zip(step, strides, strict=True))
            case _:
                pass
        return None


def _reshaped(shape: Shape, strides: Shape, result: Shape) -> Shape | None:
    """The strides of a reshape; None if it would merge axes that are not contiguous."""
    if 0 in shape:
        return row_major(result)
    axes = [(n, s) for n, s in zip(shape, strides, strict=True) if n > 1]
    new_strides: list[int] = []
    for size in reversed(result):
        if size == 1:
            new_strides.append(1)
            continue
        covered, stride = 1, axes[-1][1]
        while covered < size:
            n, s = axes.pop()
            if s != stride * covered:
                return None
            part = math.gcd(n, size // covered)
            if part == 1:
                return None
            covered *= part
            if part < n:
                axes.append((n // part, s * part))
                if covered < size:
                    return None
        new_strides.append(stride)
    return tuple(reversed(new_strides))


@irdl_op_definition
class CopyOp(IRDLOperation):
    """Copy an array into another of its type."""

    name = "hybrid_rt.copy"
    source = operand_def(MemRefType)
    target = operand_def(MemRefType)
    assembly_format = "$source `into` $target attr-dict `:` type($source) `->` type($target)"

    def __init__(self, source: SSAValue, target: SSAValue) -> None:
        super().__init__(operands=[source, target])


@irdl_op_definition
class LaunchOp(IRDLOperation):
    """Run a kernel or a host call: reads ``ins``, writes ``outs``; ``scratch`` is temporary memory."""

    name = "hybrid_rt.launch"
    kernel = prop_def(FlatSymbolRefAttrConstr)
    ins = var_operand_def(MemRefType)
    outs = var_operand_def(MemRefType)
    scratch = opt_operand_def(MemRefType)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    assembly_format = (
        "$kernel `ins` `(` ($ins^ `:` type($ins))? `)` `outs` `(` ($outs^ `:` type($outs))? `)` "
        "(`scratch` `(` $scratch^ `:` type($scratch) `)`)? attr-dict"
    )

    def __init__(
        self, kernel: str, ins: Sequence[SSAValue], outs: Sequence[SSAValue], scratch: SSAValue | None
    ) -> None:
        rest = [] if scratch is None else [scratch]
        properties = {"kernel": SymbolRefAttr(kernel), "operandSegmentSizes": _segments(len(ins), len(outs), len(rest))}
        Operation.__init__(self, operands=[*ins, *outs, *rest], properties=properties)

    @property
    def groups(self) -> tuple[Sequence[SSAValue], Sequence[SSAValue], SSAValue | None]:
        """``ins``, ``outs`` and ``scratch`` at once, which is faster."""
        sizes = integers_of(cast("DenseArrayBase[Any]", self.properties["operandSegmentSizes"]))
        first, end = sizes[0], sizes[0] + sizes[1]
        operands = self.operands
        return operands[:first], operands[first:end], operands[end] if sizes[2] else None


@functools.lru_cache(1024)
def _segments(*sizes: int) -> DenseArrayBase[Any]:
    """``operandSegmentSizes``."""
    return DenseArrayBase.from_list(i32, sizes)


def aliased(value: SSAValue) -> SSAValue:
    """The array at the end of a chain of aliases."""
    while isinstance(value.owner, AliasOp):
        value = value.owner.array
    return value


HybridRt: Any = Dialect(
    "hybrid_rt", [ArenaOp, KeptOp, ViewOp, AllocOp, StateOp, DonatedOp, ConstantOp, SizeOp, AliasOp, CopyOp, LaunchOp]
)
