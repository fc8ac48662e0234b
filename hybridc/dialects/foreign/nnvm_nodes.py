"""NNVM's ``Node``, ``NodeAttrs`` and ``OpContext``: the arguments of functions with NNVM's signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.errors import ArgumentTypeError
from hybridc.ground.records import dataclass

# Requests for an output: do nothing, write, write in place of an input, add.
kNullOp, kWriteTo, kWriteInplace, kAddTo = "null", "write", "inplace", "add"


def get(name: str) -> type[Operator]:
    """The class of the operator ``name``, which is that in the IR (``mylib.swish``) or of its function (``swish``)."""
    if name.__class__ is not str:
        raise ArgumentTypeError(f"an operator is named by a string, as 'mylib.swish' or 'relu', got {name!r}")
    if not operator_registry.has_operator(name) and operator_registry.has_function(name):
        return operator_registry.of_function(name)
    return operator_registry.operator(name)


@dataclass(frozen=True)
class OpContext:
    """The context of a call: whether it is for training."""

    is_train: bool = False


class NodeAttrs:
    """The attributes of a node: ``dict`` as strings, ``parsed`` as fields of the bound operator.

    Parameters
    ----------
    op:
        The operator's class, or its name.
    dict:
        Its attributes, as values or as strings; None for their defaults.
    name:
        The name of the node; by default the operator's.
    """

    def __init__(self, op: str | type[Operator], dict: dict[str, Any] | None = None, name: str = "") -> None:
        self.op = get(op) if isinstance(op, str) else op
        self.name = name or self.op.title()
        self._read(self.op.bind(**(dict or {})))

    def _read(self, bound: Operator) -> None:
        self.bound = bound
        attrs = bound.attrs
        shown = {k: v for k, v in attrs.items() if not self.op.ATTRIBUTES[k].doc.startswith("internal")}
        self.dict = {k: str(v) for k, v in shown.items() if v is not None}
        self.parsed: Any = bound

    @classmethod
    def of(cls, bound: Operator) -> NodeAttrs:
        """Those of a ``bound`` operator; cached."""
        made = bound.__dict__.get("_node_attrs")
        if made is None:
            made = cls.__new__(cls)
            made.op, made.name = type(bound), bound.title()
            made._read(bound)
            vars(bound)["_node_attrs"] = made
        return made


@dataclass(frozen=True)
class Node:
    """A node of a graph: an operator with its attributes, inputs and outputs."""

    attrs: NodeAttrs
    inputs: Sequence[Any]
    outputs: Sequence[Any] = ()

    @property
    def op(self) -> type[Operator]:
        """The operator's class."""
        return self.attrs.op


@dataclass(frozen=True)
class Interface:
    """An NNVM key: the methods it stands for, how to read one with NNVM's signature, how to install one."""

    methods: tuple[str, ...]
    adapted: Any
    install: Callable[[type[Operator], Any], None]
