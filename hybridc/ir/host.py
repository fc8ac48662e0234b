"""Functions without a body: the operator that computes one, its handwritten kernel, its in-place pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, StringAttr
from xdsl.ir import SSAValue

from hybridc.dialects import operator_registry
from hybridc.dialects.error_context import defined, raise_in_context
from hybridc.dialects.handwritten import RETURNED, ArraySpec, Kernel
from hybridc.dialects.mlir.hybrid import dtype_of, from_attribute, shape_of
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.operator import Operator
from hybridc.errors import CustomOpError
from hybridc.ir.structured import declared_dtypes

# Attribute of a declared function that a handwritten kernel computes.
HAS_KERNEL = "hybrid.kernel"


def operator_of(declaration: func.FuncOp) -> Operator:
    """The operator that computes a declared function, with its attributes bound."""
    name = cast(StringAttr, declaration.attributes["hybrid.operator"]).data
    attributes = cast(DictionaryAttr, declaration.attributes["hybrid.attributes"]).data
    return operator_registry.operator(name).bind(**{key: from_attribute(value) for key, value in attributes.items()})


def arrays_of(values: Sequence[SSAValue]) -> list[ArraySpec]:
    """Shapes and dtypes of values."""
    return [ArraySpec(shape_of(v), dtype_of(v)) for v in values]


def kernel_of(operator: Operator, target: str, ins: list[ArraySpec], outs: list[ArraySpec]) -> Kernel | None:
    """The handwritten kernel of an operator for a target; None if it has none for these arguments."""
    if target not in RETURNED:
        return None
    try:
        made: Any = operator.kernel(target, ins, outs)
    except Exception as error:
        raise_in_context(operator, "kernel", error, target, ins, outs)
        raise
    kind, wanted = RETURNED[target]
    if made is not None and not (callable(made) if kind is None else isinstance(made, kind)):
        raise CustomOpError(
            f"operator {operator.NAME}: kernel({target!r}, …) returned {made!r}; it returns {wanted}, or None where it "
            f"has no kernel{defined(operator, 'kernel')}"
        )
    return made


def has_kernel(declaration: func.FuncOp) -> bool:
    """Whether a handwritten kernel computes a declared function, rather than the host."""
    return HAS_KERNEL in declaration.attributes


def inplace_pairs(declaration: func.FuncOp) -> list[tuple[int, int]]:
    """Pairs of argument and result that may share memory, by the operator's ``inplace``; both have one type.

    None for a handwritten kernel, which may write an element before it reads it.
    """
    if has_kernel(declaration):
        return []
    ins, outs = declaration.function_type.inputs.data, declaration.function_type.outputs.data
    dtypes = declared_dtypes(declaration) or [None] * (len(ins) + len(outs))
    return [
        (i, out)
        for i, out in operator_of(declaration).INPLACE
        if i < len(ins) and ins[i] == outs[out] and dtypes[i] == dtypes[len(ins) + out]
    ]


def numbers_of(function: func.FuncOp, name: str) -> list[int]:
    """The integers in an array attribute of a function."""
    found = function.attributes.get(name)
    return list(integers_of(cast("DenseArrayBase[Any]", found))) if isinstance(found, DenseArrayBase) else []


def pairs_of(function: func.FuncOp, name: str) -> list[tuple[int, int]]:
    """The pairs of integers in an array attribute of a function."""
    numbers = numbers_of(function, name)
    return list(zip(numbers[::2], numbers[1::2], strict=True))
