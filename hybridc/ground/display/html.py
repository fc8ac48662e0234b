"""Pieces of HTML for notebooks: small, without scripts and styles of their own; every text is escaped.

Imported where a notebook shows an object, and not before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

# What one look takes in: rows and columns of a table of numbers, lines and characters of a program.
_MOST_ROWS, _MOST_COLUMNS, _MOST_LINES, _MOST_CHARACTERS = 20, 10, 200, 20_000


def line(text: object) -> str:
    """A line of text."""
    return f"<div>{escape(str(text))}</div>"


def preformatted(text: str) -> str:
    """A text as it prints, and of a long one the beginning."""
    lines = text.splitlines()
    shown = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARACTERS]
    more = len(lines) - shown.count("\n") - 1
    rest = line(f"… {more:,} more lines; print() shows all") if more > 0 else ""
    return f'<pre style="white-space: pre">{escape(shown)}</pre>{rest}'


def table(rows: Iterable[Sequence[object]], head: Sequence[object] = ()) -> str:
    """A table of texts."""
    lines = [_row("th", head)] if head else []
    return f"<table>{''.join([*lines, *(_row('td', row) for row in rows)])}</table>"


def folded(summary: object, body: str, is_open: bool = False) -> str:
    """A line that unfolds what is HTML already."""
    inside = f'<div style="margin-left: 1.2em">{body}</div>'
    return f"<details{' open' * is_open}><summary>{escape(str(summary))}</summary>{inside}</details>"


def settings_table(title: str, settings: Mapping[str, object]) -> str:
    """What something is, and a row for each of its settings."""
    return line(title) + (table(settings.items()) if settings else "")


def array_html(title: str, shape: Sequence[int], part: Callable[[tuple[Any, ...]], Any]) -> str:
    """The first rows and columns of an array; ``part`` gives a part of it as a NumPy array, and nothing else is read.

    Where it raises, because what computes the array failed, that is shown.
    """
    corner = (slice(_MOST_ROWS), slice(_MOST_COLUMNS))
    key = (*[0] * (len(shape) - 2), *corner[2 - min(len(shape), 2) :])
    shown = "" if len(shape) <= 2 else f"; [{', '.join(['0'] * (len(shape) - 2))}, :, :] of it"
    if 0 in shape:
        return line(title)
    try:
        values = part(key)
        rows = values.reshape((-1, values.shape[-1]) if values.ndim else (1, 1)).tolist()
    except Exception as error:  # a look at an array does not raise
        return line(title) + preformatted(f"{type(error).__name__}: {error}")
    is_cut = bool(shape) and shape[-1] > _MOST_COLUMNS
    lines = [[_number(x) for x in row] + ["…"] * is_cut for row in rows]
    if len(shape) > 1 and shape[-2] > _MOST_ROWS:
        lines.append(["…"] * len(lines[0]))
    return line(f"{title}{shown}") + table(lines)


def _row(kind: str, cells: Sequence[object]) -> str:
    return f"<tr>{''.join(f'<{kind}>{escape(str(cell))}</{kind}>' for cell in cells)}</tr>"


def _number(x: Any) -> str:
    return f"{x:.6g}" if isinstance(x, float) else str(x)
