"""The attributes of a graph's nodes, as MXNet shows them: strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.array_files.mxnet_format import TYPE_FLAGS
from hybridc.dialects.interchange import text
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import DType, Shape, literal
from hybridc.errors import AttributeValueError, UnsupportedError
from hybridc.ground.state import STATE
from hybridc.sparse_storage import STORAGE_TYPES
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode

# Attributes that MXNet also takes without the underscores around them.
HIDDEN = ("ctx_group", "lr_mult", "wd_mult", "force_mirroring", "mirror_stage")


def of_node(node: SymbolNode) -> dict[str, str]:
    """All attributes of a node; those that MXNet hides (``__lr_mult__``) under their plain name, too."""
    found = {**_of_operator(node), **node.attrs}
    plain = {key: found[f"__{key}__"] for key in HIDDEN if f"__{key}__" in found}
    return {**found, **plain}


def _of_operator(node: SymbolNode) -> dict[str, str]:
    """The operator's own attributes: those that were given, and those that differ from the default."""
    if node.op is None:
        return {}
    found = {name: text(value) for name, value in node.op.to_nnvm().items()}
    if node.op.NNVM_COUNT:
        found[node.op.NNVM_COUNT] = str(len(node.inputs))
    for source, _ in node.inputs:
        if source.number is not None:
            found["scalar"] = str(source.number)
    return {**found, **node.given}


def declared_shape(node: SymbolNode) -> Shape | None:
    """The shape that a variable was made with; unknown sizes are -1, and no shape is known from None or ().

    Under ``np_shape`` () and 0 are known.
    """
    given = node.attrs.get("__shape__")
    if given is None:
        return None
    try:
        shape = literal(given)
        if shape is None or (shape == () and not STATE.np_shape):
            return None
        sizes = (shape,) if isinstance(shape, int) else shape
        return tuple(-1 if n == -1 or (n == 0 and not STATE.np_shape) else int(n) for n in sizes)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise AttributeValueError(
            f"variable {node.name!r}: attribute __shape__ takes a tuple of integers, got {given!r}"
        ) from None


def declared_dtype(node: SymbolNode) -> DType | None:
    """The dtype of a variable; MXNet stores its type code."""
    given = node.attrs.get("__dtype__")
    if given is None:
        return None
    names = {str(flag): dtype for dtype, flag in TYPE_FLAGS.items()}
    try:
        return names[given] if given in names else np.dtype(given)
    except TypeError:
        raise AttributeValueError(f"variable {node.name!r}: attribute __dtype__ takes a dtype, got {given!r}") from None


def _described(node: SymbolNode) -> list[str]:
    if node.op is None:
        return [f"Variable:{node.name}"]
    lines = ["-" * 20, f"Op:{node.op.nnvm_name()}, Name={node.name}", "Inputs:"]
    sources = [source for source in node.inputs if source[0].number is None]
    lines += [f"\targ[{i}]={source.name}({index})" for i, (source, index) in enumerate(sources)]
    attrs = of_node(node)
    return [*lines, *(["Attrs:"] if attrs else []), *[f"\t{k}={v}" for k, v in attrs.items()]]


class AttributesOfNodes:
    """The part of a composed symbol that is about attributes."""

    __slots__ = ()

    entries: list[Entry]

    def _node(self, what: str) -> SymbolNode:
        nodes = {id(node): node for node, _ in self.entries}
        if len(nodes) != 1:
            raise AttributeValueError(f"{what} needs a symbol of one node, this is a group of {len(nodes)}: {self!r}")
        return self.entries[0][0]

    def attr(self, key: str) -> str | None:
        """The attribute ``key`` of this node, or None."""
        return of_node(self._node("attr")).get(key)

    def list_attr(self, recursive: bool = False) -> dict[str, str]:
        """The attributes of this node."""
        if recursive:
            raise UnsupportedError("list_attr(recursive=True) has been deprecated; use attr_dict()")
        return of_node(self._node("list_attr"))

    def attr_dict(self) -> dict[str, dict[str, str]]:
        """The attributes of all nodes that have some, by name."""
        nodes = [n for n in graph.topological(self.entries) if n.number is None]
        return {n.name: found for n in nodes if (found := of_node(n))}

    def _set_attr(self, **kwargs: str) -> None:
        """Set attributes of this node, or its ``name``; values are strings."""
        node = self._node("_set_attr")
        given = checked(kwargs)
        node.name = given.pop("name", node.name)
        own = given.keys() & node.op.ATTRIBUTES.keys() if node.op is not None else set[str]()
        if own:
            node.rebind({k: given.pop(k) for k in own})
        node.attrs.update(given)

    def debug_str(self) -> str:
        """The graph as a list of its nodes."""
        lines = ["Symbol Outputs:"]
        lines += [f"\toutput[{i}]={node.name}({index})" for i, (node, index) in enumerate(self.entries)]
        for node in graph.topological(self.entries):
            if node.number is None:
                lines += _described(node)
        return "\n".join(lines) + "\n"

    def declared_dtype(self) -> DType | None:
        """The dtype that a variable was made with, or None."""
        return declared_dtype(self.entries[0][0]) if len(self.entries) == 1 else None


def note_initializers(op: Operator, inputs: Sequence[Entry]) -> None:
    """Note on the variables among an operator's inputs how it initializes them, unless that is known."""
    if not op.NNVM_INITIALIZERS:
        return
    for name, (source, _) in zip(op.input_names(), inputs, strict=False):
        if source.is_variable and name in op.NNVM_INITIALIZERS:
            source.attrs.setdefault("__init__", op.NNVM_INITIALIZERS[name])


def is_hidden(key: str) -> bool:
    """Whether it is an attribute that MXNet hides."""
    return key.startswith("__") and key.endswith("__")


def checked(attrs: Mapping[str, Any]) -> dict[str, str]:
    """Attributes as a node stores them: strings, ``lr_mult`` as ``__lr_mult__``."""
    for key, value in attrs.items():
        if not isinstance(value, str):
            raise ValueError(f"Set Attr only accepts string values, got {key}={value!r}")
    return {f"__{k}__" if k in HIDDEN else k: v for k, v in attrs.items()}


def storage_type(node: SymbolNode) -> str:
    """The storage type of a variable's array."""
    number = node.attrs.get("__storage_type__", "0")
    return STORAGE_TYPES[int(number)] if number.isdecimal() and int(number) < len(STORAGE_TYPES) else "default"
