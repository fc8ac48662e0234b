"""Which operators there are, by MXNet's names, and what they take."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import REQUIRED, Attribute
from hybridc.errors import MXNetError

_WORDS = {
    "int": "int", "Index": "int", "float": "float", "bool": "boolean", "str": "string", "Shape": "Shape(tuple)",
    "Axes": "Shape(tuple)", "Axis": "Shape", "Slice": "Shape(tuple)", "Steps": "Shape(tuple)", "DType": "string",
    "Floats": "tuple of <float>",
}  # fmt: skip


# The types of parameters that only MXNet has.
_MXNETS = {
    "ctx": "string, optional, default=''",
    "infer_range": "boolean, optional, default=0",
    "indices": "Shape(tuple), required",
    "sections": "int, optional, default='0'",
}


class OperatorArguments(NamedTuple):
    """What an operator takes.

    Parameters
    ----------
    narg:
        How many inputs and attributes.
    names:
        Their names, inputs first.
    types:
        Their types in words, as MXNet's documentation writes them.
    """

    narg: int
    names: list[str]
    types: list[str]


def get_all_registered_operators() -> list[str]:
    """The names of all operators, as MXNet has them: ``exp``, ``_linalg_gemm2``, ``_contrib_box_nms``.

    Custom operators of Python are called through ``Custom``.
    """
    names = {f"_{n.replace('.', '_')}" if "." in n else n for n in operator_registry.functions()}
    for cls in operator_registry.operators().values():
        names.update((cls.nnvm_name(), *vars(cls).get("NNVM_ALIASES", ())))
    return sorted({*names, *operator_registry.of_scalar()})


def get_operator_arguments(op_name: str) -> OperatorArguments:
    """The inputs and attributes of the operator ``op_name``; of an array and a number, the array and ``scalar``.

    A name that there is not is an MXNetError.
    """
    cls = operator_registry.of_mxnet(op_name)
    if cls is None:
        return _of_scalar(op_name)
    inputs = [name for name in cls.INPUTS if name != "key"]
    ours = {theirs: name for name, theirs in cls.NNVM_ATTRIBUTES.items()}
    attributes = [name for name, a in cls.ATTRIBUTES.items() if not a.doc.startswith("internal")]
    parameters = cls.nnvm_parameters() or attributes
    kinds = [f"NDArray-or-Symbol{'[]' * cls.VARIADIC}"] * len(inputs)
    kinds += [_of_parameter(cls, ours.get(name, name)) for name in parameters]
    return OperatorArguments(len(kinds), [*inputs, *parameters], kinds)


def _of_parameter(cls: type[Operator], name: str) -> str:
    """The type of an attribute, or of a parameter that only MXNet has."""
    declared = cls.ATTRIBUTES.get(name)
    if declared is None:
        return _MXNETS[name]
    return _type(declared, cls.NNVM_CHOICES.get(name, declared.enum))


def _of_scalar(op_name: str) -> OperatorArguments:
    if operator_registry.snake_of_scalar(op_name) not in operator_registry.of_scalar():
        raise MXNetError(f"Operator {op_name} is not registered; get_all_registered_operators() lists all")
    kinds = ["NDArray-or-Symbol", "double, optional, default=1", "boolean, optional, default=1"]
    return OperatorArguments(3, ["data", "scalar", "is_int"], kinds)


def _type(declared: Attribute, enum: tuple[str, ...] | None) -> str:
    """An attribute's type and default, as MXNet's documentation writes them."""
    word = _WORDS.get(declared.kind, declared.kind)
    if enum is not None:
        choices = ", ".join(map(repr, sorted(enum)))
        word = f"{{{'None, ' * declared.optional}{choices}}}"
    elif declared.kind == "int" and declared.low is not None and declared.low >= 0:
        word += " (non-negative)"
    if declared.optional and declared.enum is None:
        word += " or None"
    if declared.default is REQUIRED:
        return f"{word}, required"
    return f"{word},{' ' * (declared.enum is None)}optional, default={_default(declared, word)}"


def _default(declared: Attribute, word: str) -> str:
    value: Any = declared.default
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return str(list(value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, np.dtype):
        return repr(value.name)
    if isinstance(value, float):
        return f"{value:g}"
    quoted = declared.enum is not None or declared.kind == "str" or word in ("int", "int or None")
    return repr(str(value)) if quoted else str(value)
