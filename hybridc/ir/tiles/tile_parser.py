"""Reads a tile program from its text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any, get_args

from hybridc.ir.tiles import tile_program as tiles
from hybridc.ir.tiles.tile_program import TileProgram
from hybridc.ir.tiles.tile_text import Template

# The fields of programs, sweeps and loops that have what the lines of their blocks say, by its class.
_FIELDS: dict[Any, str] = {
    tiles.TileBuffer: "buffers",
    tiles.TileScratch: "scratch",
    tiles.TileDim: "tiles",
    tiles.TileSweep: "sweeps",
    **dict.fromkeys(get_args(tiles.Statement), "statements"),
}
_TEMPLATES: list[Template] = [*tiles.PROGRAM_LINES, *(cls.template for cls in (TileProgram, *_FIELDS))]
# By the word that a line begins with, or if it names a value, that comes after the name.
_TEMPLATE_OF = {
    word: template
    for template in _TEMPLATES
    for word in re.findall(r"\w+", template.text.removeprefix("%{name} = ").split(" ")[0])
}


def parse(text: str) -> TileProgram:
    """The program that a text says; ValueError if it says none."""
    first, *others = [line.strip() for line in text.splitlines() if line.strip()] or [""]
    lines = iter(others)
    if first != "tile_program {" or others[-2:] != ["}", "}"]:
        raise ValueError("a tile program begins with 'tile_program {' and ends with two lines '}'")
    program = _block(TileProgram, {"sizes": (), "parallel": ()}, lines)
    if [*lines] != ["}"]:  # of the program: the sweeps stand in a block of their own
        raise ValueError("a block of the tile program has no end, or two")
    return program


def _block(cls: Any, fields: dict[str, Any], lines: Iterator[str]) -> Any:
    """The object whose block consists of the next lines; ``fields`` are those that its first line says."""
    parts: dict[str, list[Any]] = {name: [] for name in _FIELDS.values() if name in cls.__dataclass_fields__}
    for line in itertools.takewhile("}".__ne__, lines):
        first, *words = line.split(" ", 3)
        template = _TEMPLATE_OF.get(words[1] if words[:1] == ["="] and words[1:] else first)
        if template is None:
            raise ValueError(f"no statement of a tile program: {line}")
        values = template.read(line.removesuffix(" {"))
        name = _FIELDS.get(template.owner)
        if name is None:
            fields |= values
        elif name in parts:
            part = _block(template.owner, values, lines) if line[-1] == "{" else template.owner(**values)
            parts[name].append(part)
        elif cls is TileProgram:
            raise ValueError(f"a statement outside of a sweep: {line}")
        else:
            raise ValueError(f"no part of a {cls.__name__}: {line}")
    return cls(**fields, **{name: tuple(values) for name, values in parts.items()})
