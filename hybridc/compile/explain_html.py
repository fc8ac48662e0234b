"""``net.explain()`` as one HTML page: source line → operators → kernel → generated code, and a map of the arena.

The page is self-contained. It is made by running the stages again, so a call of the network pays nothing for it; but
where the same kernels are called at other sizes, it has what the programs say (:mod:`hybridc.compile.known_page`).
Elements that belong together have the same word in ``data-k``, and are highlighted together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from html import escape
from typing import Any

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from hybridc.compile.known_page import document, known_compilation, size_text, source_line, text_lines
from hybridc.compile.lowering_stages import Lowered
from hybridc.compile.stages import Traced
from hybridc.dialects.mlir.hybrid import hybrid_element_dtype, locations_of
from hybridc.dialects.mlir.hybrid_rt import ArenaOp, CopyOp, LaunchOp, ViewOp, aliased
from hybridc.dialects.operator import Movement, Operator
from hybridc.ground.location import Location
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.kernels.kernel_notes import INPLACE, THREADS
from hybridc.ir.planned import Program
from hybridc.ir.structured import kernels, operator_of
from hybridc.ir.values import functions, volume

_WIDTH, _ROW, _MARGIN = 900, 18, 36  # of the map of an arena, in pixels


def page(
    text: str,
    signatures: Sequence[tuple[str, Sequence[Traced]]],
    programs: Sequence[Sequence[Sequence[Program]]] = (),
) -> str:
    """The HTML page of a report: its text, and a section for each signature.

    ``programs`` are those of each compilation of each signature. Where they call the same kernels as one that is shown
    in full, at other sizes, only what is known of them without running the stages again is shown.
    """
    body = text_lines(text)
    full: dict[tuple[Any, ...], tuple[str, str]] = {}
    for position, (signature, compilations) in enumerate(signatures):
        body.append(f'<section><h2 id="s{position}">{escape(signature)}</h2>')
        for index, traced in enumerate(compilations):
            own: Sequence[Program] = programs[position][index] if programs else ()
            word = f"s{position}g{index}"
            where = full.setdefault(_called(traced, own), (word, signature)) if own else (word, signature)
            body += _compilation(traced, word) if where[0] == word else known_compilation(own, word, *where)
        body.append("</section>")
    return document(text, body)


def _called(traced: Traced, programs: Sequence[Program]) -> tuple[Any, ...]:
    """What compilations have in common that differ in sizes alone."""
    return (traced.grads, traced.heads, *[(p.name, *p.launches, *p.host_calls) for p in programs])


# --- what a program does ----------------------------------------------------------------------------------


@dataclass
class LaunchRow:
    """A launch of a kernel, or a host call, on its buffers: one row of the page."""

    index: int
    word: str
    kernel: func.FuncOp
    op: LaunchOp
    lines: list[Location]
    first: int  # the index of the first launch of this kernel
    facts: Kernel | None  # None for the host
    operator: Operator | None  # of the host
    host_call: str | None = None
    code: str = ""

    @property
    def operators(self) -> list[str]:
        """The operators that it computes, each with its result."""
        if self.facts is None:
            return [f"{self.operator!r} → {', '.join(map(_type, self.op.outs))}"]
        results = [f"{s.operator} → {s.result.dtype.name}{list(s.result.shape)}" for s in self.facts.ops]
        return [*results, *(f"{constant} → {_type(self.op.outs[i])}" for i, constant in self.facts.fills)]

    @property
    def flops(self) -> int | None:
        """Arithmetic operations: those of its bodies, times the iterations of their loops; None for a host call."""
        if self.facts is not None:
            return self.facts.flops
        return 0 if isinstance(self.operator, Movement) else None


@dataclass
class Rectangle:
    """The lifetime of bytes of the arena: from the launch that writes them to the last one that reads them."""

    offset: int
    size: int
    start: int
    end: int
    kind: str
    values: list[str] = field(default_factory=lambda: list[str]())
    words: list[str] = field(default_factory=lambda: list[str]())


def launches(lowered: Lowered, program: Program, prefix: str) -> list[LaunchRow]:
    """The launches of a program, in order."""
    called = kernels(lowered.module)
    calls = dict(zip(program.host_launches, program.host_calls, strict=True))
    known: dict[str, tuple[int, Kernel | None, Operator | None]] = {}
    rows: list[LaunchRow] = []
    for op in _function(lowered, program.name).body.block.ops:
        if not isinstance(op, LaunchOp):
            continue
        name, index = op.kernel.string_value(), len(rows)
        kernel = called[name]
        if name not in known:
            is_kernel = isinstance(kernel, KernelFunction)
            known[name] = (index, kernel.kernel, None) if is_kernel else (index, None, operator_of(kernel))
        lines = locations_of(op)  # those of the kernel are the lines of its first launch
        launch = LaunchRow(index, f"{prefix}-{index}", kernel, op, lines, *known[name])
        launch.host_call = calls.get(index)
        rows.append(launch)
    _attach_code(rows, program)
    return rows


def _attach_code(rows: list[LaunchRow], program: Program) -> None:
    """Attach generated code to each launch: the line that runs it, and the function of its kernel."""
    launch_of: dict[str, int] = {}
    for launch, (own, text) in zip(rows, program.launched(), strict=True):
        if not text:
            launch.code = own
        elif launch_of.setdefault(text, launch.index) != launch.index:
            launch.code = f"{own}  # as in {launch_of[text]}"
        else:
            launch.code = "\n".join([own, "", text])


def rectangles(lowered: Lowered, program: Program, rows: list[LaunchRow]) -> list[Rectangle]:
    """Offsets and lifetimes of values in the arena, read off the planned program, not asked of the planner."""
    function = _function(lowered, program.name)
    places: dict[SSAValue, Rectangle] = {}
    for launch in rows:
        scratch = [launch.op.scratch] if launch.op.scratch is not None else []
        for value in (*launch.op.outs, *scratch):
            if isinstance(value.owner, ViewOp) and isinstance(value.owner.memory.owner, ArenaOp):
                _write(places, launch, value, "scratch" if value in scratch else "value")
        for value in launch.op.ins:
            place = places.get(aliased(value))
            if place is not None:
                place.end = max(place.end, launch.index)
                place.words.append(launch.word)
    _read_by_copies(function, places)
    end = function.body.block.last_op
    assert end is not None
    for value in end.operands:
        if (place := places.get(aliased(value))) is not None:
            place.end, place.kind = len(rows), "saved"  # what follows, such as the backward, reads it
    return list({id(p): p for p in places.values()}.values())


def _read_by_copies(function: func.FuncOp, places: dict[SSAValue, Rectangle]) -> None:
    """Extend lifetimes to the copies that read a value after its last launch."""
    index = -1
    for op in function.body.block.ops:
        index += isinstance(op, LaunchOp)
        if isinstance(op, CopyOp) and (place := places.get(aliased(op.source))) is not None:
            place.end = max(place.end, index)


def _write(places: dict[SSAValue, Rectangle], launch: LaunchRow, value: SSAValue, kind: str) -> None:
    """Begin the lifetime of a value that a launch writes; extend the argument's if it is written in place."""
    view = value.owner
    assert isinstance(view, ViewOp)
    offset, size = view.offset.value.data, _bytes(value)
    name = "scratch" if kind == "scratch" else f"{value.name_hint or 'value'} {_type(value)}"
    for read in _written_over(launch, value):
        place = places.get(read)
        if place is not None and (place.offset, place.size) == (offset, size):
            place.values.append(name)
            places[value] = place
            place.end = launch.index
            return
    places[value] = Rectangle(offset, size, launch.index, launch.index, kind, [name], [launch.word])


def _written_over(launch: LaunchRow, value: SSAValue) -> list[SSAValue]:
    """The arguments that the kernel declares to overwrite with this result."""
    outs = list(launch.op.outs)
    return [launch.op.ins[i] for i, out in INPLACE.of(launch.kernel) if outs[out] is value]


def _function(lowered: Lowered, name: str) -> func.FuncOp:
    return next(f for f in functions(lowered.module) if f.sym_name.data == name)


def _content(value: SSAValue) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Dtype and shape of a tensor or of a buffer."""
    kind: Any = value.type
    return hybrid_element_dtype(kind.get_element_type()), tuple(kind.get_shape())


def _bytes(value: SSAValue) -> int:
    dtype, shape = _content(value)
    return 0 if dtype.kind == "O" else volume(shape) * dtype.itemsize


def _type(value: SSAValue) -> str:
    if isinstance(value.type, MemRefType) and _content(value)[0].kind == "O":
        return "state"
    dtype, shape = _content(value)
    return f"{dtype.name}{list(shape)}"


# --- what the page shows ----------------------------------------------------------------------------------


def _compilation(traced: Traced, prefix: str) -> list[str]:
    """One compilation: the user's lines, then each of its programs."""
    lowered = traced.optimize().lower()
    rows = {name: launches(lowered, p, f"{prefix}-{name}") for name, p in lowered.programs.items()}
    what = "forward and backward" if traced.grads else "forward alone"
    if traced.heads is not None:
        what += f" from results {', '.join(map(str, traced.heads))}"
    body = [f'<article id="{prefix}"><h3>Compiled for {what}</h3>']
    body += _sources(traced, [launch for listed in rows.values() for launch in listed])
    for name, program in lowered.programs.items():
        body += _program(lowered, program, rows[name])
    return [*body, "</article>"]


def _sources(traced: Traced, rows: list[LaunchRow]) -> list[str]:
    """The user's lines, the operators recorded from each, and their kernels."""
    recorded: dict[Location, list[str]] = {}
    for node in traced.trace.nodes:
        if node.location is not None:
            recorded.setdefault(node.location, []).append(repr(node.op))
    body = ["<h4>Source</h4>", "<table><tr><th>line</th><th>operators</th><th>kernels</th></tr>"]
    for where, operators in recorded.items():
        own = [launch for launch in rows if where in launch.lines]
        links = "".join(f'<a href="#{a.word}"><code>{escape(a.kernel.sym_name.data)}</code></a><br>' for a in own)
        recorded_operators = "\n".join(operators)
        body.append(
            f'<tr class="source" data-k="{" ".join(a.word for a in own)}">'
            f"<td>{_line(where)}</td><td><pre>{escape(recorded_operators)}</pre></td><td>{links or _GONE}</td></tr>"
        )
    return [*body, "</table>"]


_GONE = "<small>part of another kernel, a view, or simplified away</small>"


def _line(where: Location) -> str:
    """A user's source line and its location."""
    return source_line(where.file, where.line, str(where))


def _program(lowered: Lowered, program: Program, rows: list[LaunchRow]) -> list[str]:
    """One program: a row for each launch, the map of its arena, and all of its source."""
    calls = len(program.host_calls)
    counts = [launch.flops for launch in rows]
    total = f"{sum(c or 0 for c in counts):,} FLOPs" + " and those of the unknown" * (None in counts)
    head = "<tr><th>#</th><th>source</th><th>operators</th><th>kernel</th><th>generated code</th></tr>"
    body = [
        f"<h4>{escape(program.name)}</h4>",
        f"<p>{len(rows)} kernels, {calls} of them host calls; {total}; "
        f"arena {size_text(program.arena)}, of which {size_text(program.live)} are needed at one time</p>",
        f"<table>{head}",
        *(_row(launch) for launch in rows),
        "</table>",
    ]
    body += _map(program, len(rows), rectangles(lowered, program, rows))
    summary = f"<summary>all of the generated {escape(program.name)}</summary>"
    return [*body, f"<details>{summary}<pre>{escape(program.source)}</pre></details>"]


def _row(launch: LaunchRow) -> str:
    source = "".join(_line(where) for where in launch.lines)
    if launch.first != launch.index:
        source += f"<small>the same kernel as {launch.first}</small>"
    operators = "\n".join(launch.operators)
    host = f"<small>host call {escape(launch.host_call)}</small>" if launch.host_call is not None else ""
    count = launch.flops
    read, written = sum(map(_bytes, launch.op.ins)), sum(map(_bytes, launch.op.outs))
    facts = [
        f"{', '.join(map(_type, launch.op.ins))} → {', '.join(map(_type, launch.op.outs))}",
        f"reads {size_text(read)}, writes {size_text(written)}",
        "FLOPs unknown" if count is None else f"{count:,} FLOPs",
    ]
    if launch.op.scratch is not None:
        facts.append(f"scratch {size_text(_bytes(launch.op.scratch))}")
    if (threads := THREADS.of(launch.kernel)) > 1:
        facts.append(f"{threads} threads")
    details = "".join(f"<small>{escape(fact)}</small>" for fact in facts)
    return (
        f'<tr class="launch{" host" * (launch.host_call is not None)}" id="{launch.word}" data-k="{launch.word}" '
        f'data-read="{read}" data-written="{written}" data-flops="{"" if count is None else count}">'
        f"<td>{launch.index}</td><td>{source}</td><td><pre>{escape(operators)}</pre></td>"
        f"<td><code>{escape(launch.kernel.sym_name.data)}</code>{host}{details}</td>"
        f"<td><pre>{escape(launch.code)}</pre></td></tr>"
    )


def _map(program: Program, count: int, areas: list[Rectangle]) -> list[str]:
    """The memory map: offsets to the right, launches downwards."""
    if not areas:
        return ["<p>Nothing lies in the arena.</p>"]
    height = (count + 1) * _ROW
    scale = _WIDTH / program.arena
    body = [
        "<p>The arena: offsets to the right, launches downwards; "
        "blue: values, orange: scratch, green: kept for the backward.</p>",
        f'<svg class="arena" width="{_MARGIN + _WIDTH}" height="{height}" data-arena="{program.arena}">',
    ]
    body += [f'<text x="2" y="{(i + 0.7) * _ROW:g}">{i}</text>' for i in range(count)]
    body.append(f'<text x="2" y="{(count + 0.7) * _ROW:g}">end</text>')
    for r in areas:
        until = "the end" if r.end == count else f"launch {r.end}"
        title = f"{', then '.join(r.values)}: {size_text(r.size)} at {r.offset}, from launch {r.start} to {until}"
        body.append(
            f'<rect class="{r.kind}" x="{_MARGIN + r.offset * scale:.2f}" y="{r.start * _ROW}" '
            f'width="{r.size * scale:.2f}" height="{(r.end - r.start + 1) * _ROW}" data-offset="{r.offset}" '
            f'data-size="{r.size}" data-start="{r.start}" data-end="{r.end}" '
            f'data-k="{" ".join(dict.fromkeys(r.words))}"><title>{escape(title)}</title></rect>'
        )
    return [*body, "</svg>"]
