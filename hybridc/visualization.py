"""``mx.viz``: a composed symbol as a table, and as a drawing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hybridc.dialects.operator import Contraction, Elementwise, Movement, Opaque, Operator, Reduction
from hybridc.errors import MXNetError
from hybridc.symbol import graph
from hybridc.symbol.graph import SymbolNode
from hybridc.symbol.infer import Shapes, by_name
from hybridc.trace.traced import Symbol

__all__ = ["plot_network", "print_summary"]

_PARAMETERS = (
    "_weight", "_bias", "_beta", "_gamma", "_moving_mean", "_moving_var", "_running_mean", "_running_var",
)  # fmt: skip
_VARIABLE = "#8dd3c7"
# Colours by what an operator is to the compiler; the others are built of several operators.
_COLOURS: tuple[tuple[type[Operator], str], ...] = (
    (Elementwise, "#ffffb3"),
    (Contraction, "#fb8072"),
    (Reduction, "#80b1d3"),
    (Movement, "#fdb462"),
    (Opaque, "#fccde5"),
)
_COMPOSITE = "#bebada"


def _entries(symbol: Any) -> list[graph.Entry]:
    if not isinstance(symbol, Symbol) or not hasattr(symbol, "entries"):
        raise TypeError(f"symbol must be Symbol, got {type(symbol).__name__}; mx.sym composes one")
    found: Any = symbol
    return list(found.entries)


def is_parameter(node: SymbolNode) -> bool:
    """Whether a variable is a parameter or state of a layer, by its name, as in MXNet."""
    return node.is_variable and node.name.endswith(_PARAMETERS)


def _size(shape: Sequence[int] | None) -> str:
    """The sizes without the batch's: ``3x224x224``."""
    return "" if shape is None else "x".join("?" if n == -1 else str(n) for n in shape[1:])


# --- the table -------------------------------------------------------------------------------------------------


def print_summary(
    symbol: Any,
    shape: Mapping[str, Sequence[int]] | None = None,
    line_length: int = 120,
    positions: Sequence[float] = (0.44, 0.64, 0.74, 1.0),
) -> None:
    """Print the operators of a symbol: name and kind, shape without the batch, parameters, what comes before.

    Parameters
    ----------
    symbol:
        The symbol; anything else is a TypeError.
    shape:
        The shapes of the inputs, a dict by name; sizes that do not follow are left out.
    line_length:
        The width of the table in characters.
    positions:
        The ends of the columns, as parts of the width, or in characters.

    Examples
    --------
    >>> net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2, name="fc")
    >>> mx.viz.print_summary(net, {"data": (1, 3)}, line_length=80)
    ________________________________________________________________________________
    Layer (type)                       Output Shape    Param # Previous Layer
    ================================================================================
    data(null)                         3               0
    ________________________________________________________________________________
    fc(FullyConnected)                 2               8       data
    ================================================================================
    Total params: 8
    ________________________________________________________________________________
    """
    ends = [int(line_length * p) if positions[-1] <= 1 else int(p) for p in positions]
    entries = _entries(symbol)
    shapes = Shapes(entries, by_name(entries, (), {k: tuple(v) for k, v in (shape or {}).items()}, "print_summary"))
    rows, total = _rows(entries, shapes)
    lines = ["_" * line_length, _line(("Layer (type)", "Output Shape", "Param #", "Previous Layer"), ends)]
    for number, row in enumerate(rows):
        lines.append(("=" if number == 0 else "_") * line_length)
        lines += [_line(part, ends) for part in row]
    # COMPAT(mxnet): without shapes the number of parameters is unknown; there it is a wrong one, as it is for a layer
    # that flattens its input.
    lines += [
        "=" * line_length,
        f"Total params: {'unknown; give shape' if total is None else total}",
        "_" * line_length,
    ]
    print("\n".join(lines))  # noqa: T201


def _rows(entries: list[graph.Entry], shapes: Shapes) -> tuple[list[list[tuple[str, str, str, str]]], int | None]:
    """The rows, each of several lines, and the number of all parameters, if it is known."""
    rows: list[list[tuple[str, str, str, str]]] = []
    states = {id(n) for n in graph.auxiliary(entries)}
    counted: set[int] = set()
    total: int | None = 0
    nodes = [n for n in graph.topological(entries) if n.number is None]
    for number, node in enumerate(nodes):
        if node.is_variable and number:
            continue
        count: int | None = 0
        for source, _ in node.inputs:
            if not is_parameter(source) or id(source) in states or id(source) in counted:
                continue
            counted.add(id(source))
            known = shapes.get((source, 0))
            count = None if known is None or -1 in known or count is None else count + math.prod(known)
        total = None if total is None or count is None else total + count
        before = [n.name for n, _ in node.inputs if n.number is None and not (n.is_variable and n is not nodes[0])]
        kind = "null" if node.op is None else node.op.nnvm_name()
        size = _size(shapes.get((node, 0)))
        first = (f"{node.name}({kind})", size, "?" if count is None else str(count), before[0] if before else "")
        rows.append([first, *[("", "", "", b) for b in before[1:]]])
    return rows, total


def _line(fields: Sequence[str], ends: Sequence[int]) -> str:
    """The fields in columns that end at these positions."""
    line = ""
    for field, end in zip(fields, ends, strict=True):
        line = (line + field)[:end].ljust(end)
    return line


# --- the drawing -----------------------------------------------------------------------------------------------


def plot_network(
    symbol: Any,
    title: str = "plot",
    save_format: str = "pdf",
    shape: Mapping[str, Sequence[int]] | None = None,
    dtype: Mapping[str, Any] | None = None,
    node_attrs: Mapping[str, str] | None = None,
    hide_weights: bool = True,
) -> Any:
    """A drawing of a symbol: a ``graphviz.Digraph``, whose ``source`` is DOT and whose ``render()`` draws.

    Needs the package ``graphviz``, else an ImportError says so.

    Parameters
    ----------
    symbol:
        The symbol. Two nodes of one name are an MXNetError.
    title:
        The name of the drawing, and of the file that ``render()`` writes.
    save_format:
        The format of that file, such as ``"pdf"`` or ``"png"``.
    shape:
        The shapes of the inputs, a dict by name: edges say shapes without the batch. None for no shapes.
    dtype:
        Accepted for MXNet's API, without effect.
    node_attrs:
        Attributes of all nodes, as Graphviz calls them, such as ``{"shape": "oval"}``.
    hide_weights:
        Leave parameters out.
    """
    del dtype  # accepted; shapes do not depend on it
    try:
        from graphviz import Digraph
    except ImportError as error:
        raise ImportError("plot_network needs the package graphviz: pip install 'hybridc[viz]'") from error
    entries = _entries(symbol)
    _check_names(entries)
    shapes = Shapes(entries, {k: tuple(v) for k, v in (shape or {}).items()}, "plot_network")
    style = {"shape": "box", "fixedsize": "true", "width": "1.3", "height": "0.8034", "style": "filled"}
    style.update(node_attrs or {})
    drawing: Any = Digraph(name=title, format=save_format)
    nodes = [n for n in graph.topological(entries) if n.number is None and not (hide_weights and is_parameter(n))]
    for node in nodes:
        look = {**style, "fillcolor": _colour(node.op)}
        if node.is_variable:
            look["shape"] = "oval"
        drawing.node(name=node.name, label=_label(node), **look)
    shown = {id(n) for n in nodes}
    for node in nodes:
        for source, index in node.inputs:
            if id(source) in shown:
                label = _size(shapes.get((source, index))) if shape else ""
                drawing.edge(node.name, source.name, label=label, dir="back", arrowtail="open")
    return drawing


def _check_names(entries: list[graph.Entry]) -> None:
    """A drawing tells nodes apart by their names."""
    names = [n.name for n in graph.topological(entries) if n.number is None]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice is not None:
        raise MXNetError(f"plot_network: two nodes are called {twice!r}; give one of them another name")


def _colour(op: Operator | None) -> str:
    if op is None:
        return _VARIABLE
    return next((colour for kind, colour in _COLOURS if isinstance(op, kind)), _COMPOSITE)


def _label(node: SymbolNode) -> str:
    """The name of a variable; an operator's kind, with what its attributes say that is not usual."""
    op = node.op
    if op is None:
        return node.name
    declared = op.ATTRIBUTES
    shown = [
        str(value)
        for key, value in op.attrs.items()
        if key in declared and not declared[key].doc.startswith("internal") and value != declared[key].default
    ]
    return "\n".join([op.title(), *shown[:2]])
