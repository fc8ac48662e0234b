"""Reads a tile program from its text."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import replace

from hybridc.ir.tiles.tile_program import (
    Address,
    Axes,
    Dims,
    Factor,
    Number,
    Statement,
    TileBound,
    TileBuffer,
    TileCarried,
    TileCarry,
    TileCombine,
    TileConstant,
    TileContract,
    TileCount,
    TileDim,
    TileGather,
    TileIndex,
    TileInside,
    TileLoad,
    TileLoop,
    TileMap,
    TileNumber,
    TileProgram,
    TileRange,
    TileReduce,
    TileScatter,
    TileScratch,
    TileStore,
    TileSweep,
    TileUpdate,
)

_NAME = r"([\w.]+)"
_ON = r"(?: on ([t\d, <]*?))?"
_LINES = {
    "head": re.compile(rf"(buffer|pieces) {_NAME} : (\w+)"),
    "scratch": re.compile(rf"scratch {_NAME} over ([i\d, ]*) : (\w+)"),
    "constant": re.compile(rf"%{_NAME} = constant (\S+) : (\w+)"),
    "number": re.compile(rf"%{_NAME} = number (\S+) : (\w+)"),
    "range": re.compile(rf"%{_NAME} = range (begin|end) : (\w+)"),
    "position": re.compile(rf"%{_NAME} = position i(\d+){_ON} : (\w+)"),
    "load": re.compile(rf"%{_NAME} = load (\w+\[.*?\]){_ON}(?: else (\S+))? : (\w+)"),
    "gather": re.compile(rf"%{_NAME} = gather (\w+)\[(.*?)\] : (\w+)"),
    "map": re.compile(rf"%{_NAME} = map (\w+\.\w+(?: \w+)?) (%.*?|)( rough)? ?: (\w+)"),
    "inside": re.compile(rf"%{_NAME} = inside %{_NAME} else (\S+) over ([i\d, ]*) : (\w+)"),
    "count": re.compile(rf"%{_NAME} = count ([i\d, ]*) : (\w+)"),
    "carry": re.compile(rf"%{_NAME} = carry (\S+) over ([i\d, ]*?){_ON} : (\w+)"),
    "update": re.compile(rf"update %{_NAME}, %{_NAME}"),
    "reduce": re.compile(
        rf"%{_NAME} = reduce (\S+) %{_NAME} from (\S+) over ([i\d, ]*?)(?: carried (\d+))?"
        r"(?: (accumulating|into) (\w+\[.*?\]))?( ordered)?( filled)? : (\w+)"
    ),
    "contract": re.compile(
        rf"%{_NAME} = contract %{_NAME}, %{_NAME} over ([i\d, ]*?)(?: onto %{_NAME})?( rounded)? : (\w+)"
    ),
    "combine": re.compile(rf"combine (\S+) %{_NAME} of (\w+) into (\w+) from (\S+) : (\w+)"),
    "scatter": re.compile(rf"scatter %{_NAME}, (\w+)\[(.*?)\]"),
    "store": re.compile(rf"store %{_NAME}, (\w+\[.*?\]){_ON}"),
}


def parse(text: str) -> TileProgram:
    """The program that a text says; ValueError if it says none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines or lines[0] != "tile_program {" or lines[-2:] != ["}", "}"]:
        raise ValueError("a tile program begins with 'tile_program {' and ends with two lines '}'")
    program = TileProgram((), (), (), ())
    bodies: list[TileSweep | TileLoop] = [TileSweep((), ())]  # those that are open; the first stands for the program
    for line in lines[1:-2]:
        word = re.split(r"[ ]", line)[0]
        if match := _LINES["head"].fullmatch(line):
            program = replace(program, buffers=(*program.buffers, TileBuffer(match[2], match[3], match[1] == "pieces")))
        elif match := _LINES["scratch"].fullmatch(line):
            program = replace(program, scratch=(*program.scratch, TileScratch(match[1], match[3], _numbers(match[2]))))
        elif word == "strides":
            program = replace(program, strides=int(line.split()[1]))
        elif word == "axes":
            sizes = [part.split("<")[1].strip() for part in line[5:].split(",")]
            program = replace(program, sizes=tuple(int(n) if n.isdigit() else None for n in sizes))
        elif word == "inner":
            program = replace(program, inner=_numbers(line[6:]))
        elif word == "tile":
            program = replace(program, tiles=(*program.tiles, _tile(line)))
        elif word == "group":
            program = replace(program, group=line.split()[1])
        elif word == "parallel":
            axes, _, tiled = line[8:-1].partition("tiled")
            flags = {flag: flag in line.split() for flag in ("shared", "apart", "exact")}
            program = replace(program, parallel=_numbers(axes), **flags)
            program = replace(program, tiled=_numbers(tiled)[0] if tiled else None)
        elif word == "sweep":
            bodies.append(_sweep(line))
        elif word == "for":
            bodies.append(_loop(line))
        elif line == "}" and len(bodies) > 1:
            body = bodies.pop()
            bodies[-1] = _with(bodies[-1], body)
        elif len(bodies) == 1:
            raise ValueError(f"a statement outside of a sweep: {line}")
        else:
            bodies[-1] = _with(bodies[-1], _statement(line))
    (whole,) = bodies
    assert isinstance(whole, TileSweep)
    return replace(program, sweeps=whole.sweeps)


def _with(body: TileSweep | TileLoop, part: Statement | TileSweep) -> TileSweep | TileLoop:
    """A sweep or a loop with one more statement, or one more sweep in it."""
    if not isinstance(part, TileSweep):
        return replace(body, statements=(*body.statements, part))
    if isinstance(body, TileLoop):
        raise ValueError("a sweep in a loop")
    return replace(body, sweeps=(*body.sweeps, part))


def _loop(line: str) -> TileLoop:
    """The loop that begins with a line, still empty."""
    head, _, carrying = line[:-1].partition(" carrying ")
    index, low, high = re.findall(rf"%{_NAME}", head)
    carried = re.findall(rf"%{_NAME} = %{_NAME} next %{_NAME} as %{_NAME} : (\w+)", carrying)
    return TileLoop(index, low, high, tuple(TileCarried(*values) for values in carried), ())


def _sweep(line: str) -> TileSweep:
    """The sweep that begins with a line, still empty."""
    line, _, squares = line[5:-1].partition(" in squares of ")
    line, _, lanes = line.partition(" in vectors of ")
    line, _, blocks = line.partition(" in blocks of ")
    axes, _, bounds = line.partition(" from ")
    names = re.findall(r"%?(\w+)", bounds.replace(" to ", " "))
    between = (None if bounds.startswith("0") else names[0], names[1]) if names else None
    sizes = tuple(map(int, re.findall(r"\d+", blocks)))
    return TileSweep(_numbers(axes), (), sizes, between, (), int(lanes or 1), int(squares or 0))


def _tile(line: str) -> TileDim:
    axes, _, rest = line[4:].partition(" by ")
    rest, _, lanes = rest.partition(" in vectors of ")
    rest, *inside = rest.split(" in ")
    block, walk, *how = rest.split()
    parts = tuple(tuple(int(n) for n in sizes.split(",")) for sizes in inside)
    bound = re.search(r"(until|from) t(\d+) [+-] (-?\d+)", rest)
    limit = None if bound is None else TileBound(int(bound[2]), int(bound[3]), bound[1] == "until")
    size = int(block) if block.isdigit() else block
    return TileDim(_numbers(axes), size, walk, "masked" in how, "backwards" in how, limit, parts, int(lanes or 1))


def _statement(line: str) -> Statement:
    for kind, pattern in itertools.islice(_LINES.items(), 2, None):
        m = pattern.fullmatch(line)
        if m is None:
            continue
        match kind:
            case "constant":
                return TileConstant(m[1], _value(m[2]), m[3])
            case "number":
                return TileNumber(m[1], _factor(m[2]), m[3])
            case "combine":
                return TileCombine(m[1], m[3], m[2], m[4], _value(m[5]), m[6])
            case "range":
                return TileRange(m[1], m[2] == "end", m[3])
            case "scatter":
                return TileScatter(m[1], m[2], _terms(m[3]))
            case "position":
                return TileIndex(m[1], int(m[2]), m[4], _sides(m[3])[0])
            case "load":
                other = None if m[4] is None else _value(m[4])
                return TileLoad(m[1], _address(m[2]), m[5], *_sides(m[3]), other)
            case "gather":
                return TileGather(m[1], m[2], _terms(m[3]), m[4])
            case "map":
                operands = tuple(v.strip()[1:] for v in m[3].split(",") if v.strip())
                return TileMap(m[1], m[2], operands, m[5], m[4] is not None)
            case "inside":
                return TileInside(m[1], m[2], _value(m[3]), _numbers(m[4]), m[5])
            case "count":
                return TileCount(m[1], _numbers(m[2]), m[3])
            case "carry":
                return TileCarry(m[1], _value(m[2]), _numbers(m[3]), m[5], _sides(m[4])[0])
            case "update":
                return TileUpdate(m[1], m[2])
            case "reduce":
                into = None if m[8] is None else _address(m[8])
                rest = (int(m[6] or 0), into, m[7] == "accumulating", m[9] is not None, m[10] is not None)
                return TileReduce(m[1], m[2], m[3], _value(m[4]), _numbers(m[5]), m[11], *rest)
            case "contract":
                return TileContract(m[1], m[2], m[3], _numbers(m[4]), m[7], m[5], m[6] is not None)
            case _:
                return TileStore(m[1], _address(m[2]), _sides(m[3])[0])
    raise ValueError(f"no statement of a tile program: {line}")


def _terms(text: str) -> tuple[tuple[str, Factor], ...]:
    """Computed indices, each times its factor."""
    terms = [t.strip().partition("*") for t in text.split("+") if t.strip() != "0"]
    return tuple((v[1:], _factor(f)) for v, _, f in terms)


def _numbers(text: str) -> Axes:
    return tuple(int(n) for n in re.findall(r"i(\d+)", text))


def _sides(text: str | None) -> tuple[Dims, tuple[int | None, ...]]:
    """The dimensions that a tile lies on, and its limits along them, if there are any."""
    sides = re.findall(r"t(\d+)(?: < (\d+))?", text or "")
    limits = tuple(int(end) if end else None for _, end in sides)
    return tuple(int(dim) for dim, _ in sides), limits if any(end is not None for end in limits) else ()


def _value(text: str) -> Number:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def _factor(text: str) -> Factor:
    parts = [p for p in text.split("*") if p]
    constant = math.prod(int(p) for p in parts if p.lstrip("-").isdigit())
    stride = next((int(p[1:]) for p in parts if p[0] == "s"), None)
    return Factor(constant, tuple(int(p[1:]) for p in parts if p[0] == "n"), stride)


def _address(text: str) -> Address:
    buffer, _, rest = text[:-1].partition("[")
    terms: list[tuple[int, Factor]] = []
    offset: list[Factor] = []
    for term in rest.split(" + "):
        if term.startswith("i"):
            axis, _, factor = term[1:].partition("*")
            terms.append((int(axis), _factor(factor)))
        elif term != "0":
            offset.append(_factor(term))
    return Address(buffer, tuple(terms), tuple(offset))
