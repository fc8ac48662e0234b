"""Blocks and parameters as notebooks show them: a tree of layers that unfolds, with shapes and numbers of elements."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hybridc.ground.display.arguments_text import counted, dtype_name, elements_of, elements_text
from hybridc.ground.display.html import folded, line, table

# The blocks and the parameters that one look takes in; the tree of ResNet-50 has 185.
_MOST_BLOCKS, _MOST_PARAMETERS = 400, 400
# Of what a layer says of itself.
_MOST_CHARACTERS = 200


def block_html(block: Any) -> str:
    """The tree of a block's layers: its children are shown, theirs unfold."""
    shown: list[Any] = []
    summary = f"{type(block).__name__} {block.name}: {elements_text(block.collect_params().values())}"
    return folded(summary, _inside(block, shown), is_open=True)


def parameters_html(title: str, parameters: Iterable[Any]) -> str:
    """Parameters as a table, under the number of their elements."""
    given = list(parameters)
    rows = [
        (p.name, "?" if p.shape is None else p.shape, dtype_name(p.dtype), p.grad_req, _where(p), _elements(p))
        for p in given[:_MOST_PARAMETERS]
    ]
    rest = line(f"… {len(given) - len(rows):,} more") if len(given) > len(rows) else ""
    head = line(f"{title}{elements_text(given)}") if len(given) > 1 else ""
    return f"{head}{table(rows, ('parameter', 'shape', 'dtype', 'gradient', 'arrays', 'elements'))}{rest}"


def _inside(block: Any, shown: list[Any]) -> str:
    """The own parameters of a block and its children, until there are enough of these."""
    rows = [(p.name, p.shape, dtype_name(p.dtype), _elements(p)) for p in block._reg_params.values()]
    parts = [table(rows)] if rows else []
    children = list(block._children.items())
    for position, (name, child) in enumerate(children):
        if len(shown) >= _MOST_BLOCKS:
            parts.append(line(f"… {counted(len(children) - position, 'more block')}"))
            break
        shown.append(child)
        summary = f"({name}) {_label(child)}"
        body = _inside(child, shown)
        parts.append(folded(summary, body) if body else line(summary))
    return "".join(parts)


def _label(block: Any) -> str:
    text = repr(block)
    if "\n" in text:
        return f"{type(block).__name__}: {elements_text(block.collect_params().values())}"
    return text[:_MOST_CHARACTERS]


def _where(parameter: Any) -> str:
    """The devices of a parameter's arrays."""
    if parameter._data is None:
        return "deferred" if parameter.is_deferred else "not initialized"
    return ", ".join(map(str, parameter._ctx_list))


def _elements(parameter: Any) -> str:
    size = elements_of(parameter)
    return "?" if size is None else f"{size:,}"
