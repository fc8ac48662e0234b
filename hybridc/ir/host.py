"""What the host, or its library, computes: the operator behind a function without a body; and what may share memory."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, StringAttr

from hybridc.dialects import registry
from hybridc.dialects.interfaces import AddsRows, DrawsUniform
from hybridc.dialects.mlir.hybrid import from_attribute
from hybridc.dialects.mlir.hybrid_rt import numbers_listed
from hybridc.dialects.operator import Operator
from hybridc.ir.structured import declared_dtypes


def operator_of(declaration: func.FuncOp) -> Operator:
    """The operator that computes a declared function, with its attributes bound."""
    name = cast(StringAttr, declaration.attributes["hybrid.operator"]).data
    attributes = cast(DictionaryAttr, declaration.attributes["hybrid.attributes"]).data
    return registry.operator(name).bind(**{key: from_attribute(value) for key, value in attributes.items()})


def has_native_loops(operator: Operator) -> bool:
    """Whether targets with loops of their own compute it, though no loops of linalg say what it does."""
    return isinstance(operator, DrawsUniform) or (isinstance(operator, AddsRows) and operator.row_sums() is not None)


def inplace_pairs(declaration: func.FuncOp) -> list[tuple[int, int]]:
    """The pairs of argument and result that may share memory, as its operator says; both have one type."""
    ins, outs = declaration.function_type.inputs.data, declaration.function_type.outputs.data
    dtypes = declared_dtypes(declaration) or [None] * (len(ins) + len(outs))
    return [
        (i, out)
        for i, out in operator_of(declaration).INPLACE
        if i < len(ins) and ins[i] == outs[out] and dtypes[i] == dtypes[len(ins) + out]
    ]


def numbers_of(function: func.FuncOp, name: str) -> list[int]:
    """The numbers that an attribute of a function lists."""
    found = function.attributes.get(name)
    return list(numbers_listed(cast("DenseArrayBase[Any]", found))) if isinstance(found, DenseArrayBase) else []


def pairs_of(function: func.FuncOp, name: str) -> list[tuple[int, int]]:
    """The pairs of numbers that an attribute of a function lists."""
    numbers = numbers_of(function, name)
    return list(zip(numbers[::2], numbers[1::2], strict=True))
