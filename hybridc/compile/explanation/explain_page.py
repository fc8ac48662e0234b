"""``net.explain()`` as one HTML page: kernels in groups, memory over time, source line → operators → kernel → code.

The page is self-contained. It is made by running the stages again, so a call of the network pays nothing for it. Of
signatures that differ in sizes alone, one is shown in full. The template is ``explain_page.html``.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup
from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from hybridc.compile.compiled_graph import Compilation, SignatureReport
from hybridc.compile.explanation.code_listing import listing
from hybridc.compile.explanation.launch_groups import (
    LaunchFacts,
    LaunchGroup,
    Naming,
    SourceLine,
    flops_text,
    launch_groups,
    launches,
    size_text,
    span_text,
    time_text,
    total_text,
)
from hybridc.compile.lowering_stages import Lowered
from hybridc.dialects.mlir.hybrid import hybrid_element_dtype
from hybridc.dialects.mlir.hybrid_rt import ArenaOp, CopyOp, LaunchOp, ViewOp, aliased, aligned
from hybridc.ground.location import Location
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.kernels.kernel_notes import INPLACE, THREADS
from hybridc.ir.planned import PlainArray, Program
from hybridc.ir.structured import kernels, operator_of
from hybridc.ir.values import functions, volume
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.native_source import NativeSource

_TEMPLATE = "explain_page.html"
#: Pages with more kernels than this have no assembly unless it is asked for: LLVM takes half of the time of the page.
MOST_WITH_ASSEMBLY = 32


def page(
    text: str, signatures: Sequence[SignatureReport], naming: Naming | None = None, assembly: bool | None = None
) -> str:
    """The HTML page of a report: its text, and a section for each signature; ``assembly`` None: of few kernels."""
    codes = Codes()
    sections = [_SignatureSection.of(f"s{i}", told, naming or Naming(), codes) for i, told in enumerate(signatures)]
    if len(codes) <= MOST_WITH_ASSEMBLY if assembly is None else assembly:
        codes.assemble()
    programs = [program for section in sections for part in section.compilations for program in part.programs]
    is_timed = any(launch.seconds is not None for program in programs for launch in program.launched)
    return _template().render(
        text=text, title=text.partition("\n")[0], sections=sections, codes=codes, is_timed=is_timed
    )


@cache
def _template() -> jinja2.Template:
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters.update(
        size=size_text, flops=flops_text, time=time_text, arrays=_arrays, span=span_text, line=_code_at
    )
    return environment.get_template(_TEMPLATE)


def _arrays(arrays: Iterable[PlainArray]) -> str:
    return ", ".join(f"{a.dtype.name}{list(a.shape)}" for a in arrays) or "nothing"


def _code_at(line: SourceLine) -> str:
    """The text of a source line, if the file is there."""
    return linecache.getline(line.file, line.line).strip()


# --- what the page shows ----------------------------------------------------------------------------------------------


@dataclass
class _SignatureSection:
    """A signature: its compilations, and the sizes that have the same kinds of kernels."""

    word: str
    title: str
    compilations: list[_CompilationSection]
    sizes: list[tuple[str, list[Program]]]

    @staticmethod
    def of(word: str, told: SignatureReport, naming: Naming, codes: Codes) -> _SignatureSection:
        parts = [_CompilationSection.of(f"{word}g{i}", part, naming, codes) for i, part in enumerate(told.compilations)]
        sizes = [(title, [p for part in parts for _, p in part.programs]) for title, parts in told.sizes]
        return _SignatureSection(word, told.title, parts, sizes)


@dataclass
class _CompilationSection:
    """A compilation: its programs, and the operators that it was made of."""

    word: str
    title: str
    programs: list[_ProgramSection]
    sources: list[_Source]

    @staticmethod
    def of(word: str, told: Compilation, naming: Naming, codes: Codes) -> _CompilationSection:
        traced = told.traced
        lowered = traced.optimize().lower()
        what = "forward and backward" if traced.grads else "forward alone"
        if traced.heads is not None:
            what += f" from results {', '.join(map(str, traced.heads))}"
        known = {program.name: (title, program) for title, program in told.programs}
        programs: list[_ProgramSection] = []
        for own in lowered.programs.values():
            programs.append(_ProgramSection.of(word, lowered, own, *known.get(own.name, ("", own)), naming))
            programs[-1].code_of = codes.of(lowered, own)
        return _CompilationSection(word, what, programs, _sources(traced.trace.nodes, programs, naming))


@dataclass
class _ProgramSection:
    """A program: its launches in groups, and what lies in the arena when."""

    word: str
    program: Program
    launched: list[LaunchFacts]
    groups: list[LaunchGroup]
    memory: Memory
    threads: dict[str, int]
    source: Markup
    code_of: dict[str, KernelCode] = field(default_factory=lambda: dict[str, KernelCode]())

    @staticmethod
    def of(
        prefix: str, lowered: Lowered, own: Program, title: str, compiled: Program, naming: Naming
    ) -> _ProgramSection:
        """Of a program as it was compiled, if the stages gave the same kernels again; else of what they gave now."""
        program = compiled if compiled.launches == own.launches else own
        launched = launches(program, title if program is compiled else "", naming)
        threads = {name: THREADS.of(kernel) for name, kernel in kernels(lowered.module).items()}
        language = "python" if own.suffix == "py" else "mlir"
        source = Markup(listing(own.source, language))
        memory = memory_of(lowered, own)
        return _ProgramSection(
            f"{prefix}-{own.name}", program, launched, launch_groups(launched), memory, threads, source
        )

    @property
    def total(self) -> str:
        """What its launches cost together."""
        return total_text(self.launched)


@dataclass
class _Source:
    """The operators that a layer, or a line, recorded, and the launches that compute them."""

    place: str
    lines: list[SourceLine]
    operators: list[tuple[str, int]]
    kernels: list[str]


def _sources(nodes: Iterable[Any], programs: Sequence[_ProgramSection], naming: Naming) -> list[_Source]:
    recorded: dict[str, tuple[dict[SourceLine, None], dict[str, int]]] = {}
    for node in nodes:
        where: Location | None = node.location
        if where is not None:
            line = SourceLine(where.file, where.line, where.block)
            lines, operators = recorded.setdefault(span_text(naming.places([line])), ({}, {}))
            lines[line] = None
            operators[repr(node.op)] = operators.get(repr(node.op), 0) + 1
    names: dict[SourceLine, dict[str, None]] = {}
    for launch in (launch for program in programs for launch in program.launched):
        for line in launch.lines:
            names.setdefault(line, {})[launch.note.name] = None
    return [
        _Source(
            place, [*lines], [*operators.items()], [*dict.fromkeys(k for line in lines for k in names.get(line, ()))]
        )
        for place, (lines, operators) in recorded.items()
    ]


# --- code -------------------------------------------------------------------------------------------------------------


@dataclass
class KernelCode:
    """The code of a kernel, or of several that run the same functions; ``texts`` are what it is called and its HTML."""

    word: str
    kernels: list[str]
    texts: list[tuple[str, Markup]]
    functions: Sequence[NativeFunction]  # those that it runs


class Codes:
    """The code of all kernels of a page, each once."""

    def __init__(self) -> None:
        self._codes: dict[str, KernelCode] = {}
        self.has_assembly = False

    def __iter__(self) -> Iterator[KernelCode]:
        return iter(self._codes.values())

    def __len__(self) -> int:
        return len(self._codes)

    def of(self, lowered: Lowered, program: Program) -> dict[str, KernelCode]:
        """The code of each kernel of a program."""
        called = kernels(lowered.module)
        launched = [op for op in _function(lowered, program).body.block.ops if isinstance(op, LaunchOp)]
        codes: dict[str, KernelCode] = {}
        rows = zip(launched, program.launches, program.launched(), strict=True)
        for index, (op, name, (_, source)) in enumerate(rows):
            kernel = called[op.kernel.string_value()]  # a loop has another name as a launch
            key = source or str(kernel)
            code = self._codes.get(key)
            if code is None:
                functions = program.calls[index][1] if isinstance(program, NativeSource) else ()
                texts = _texts(kernel, source, program, functions)
                code = self._codes[key] = KernelCode(f"code-{len(self._codes)}", [], texts, functions)
            if name not in code.kernels:
                code.kernels.append(name)
            codes[name] = code
        return codes

    @property
    def lack_assembly(self) -> bool:
        """Whether kernels have assembly that is not shown."""
        return not self.has_assembly and any(code.functions for code in self)

    def assemble(self) -> None:
        """Add what LLVM makes of each kernel."""
        self.has_assembly = True
        assembly: dict[str, str] = {}  # of functions, which kernels share
        for code in self:
            for function in code.functions:
                if function.key not in assembly:
                    assembly[function.key] = function.explain("assembly")
            if code.functions:
                text = "\n".join([assembly[function.key] for function in code.functions])
                code.texts.append(("assembly", Markup(listing(text, "assembly"))))


def _texts(
    kernel: func.FuncOp, source: str, program: Program, functions: Sequence[NativeFunction]
) -> list[tuple[str, Markup]]:
    """The code of a kernel at the levels above assembly, as HTML."""
    is_kernel = isinstance(kernel, KernelFunction)
    texts = [("MLIR", str(kernel), "mlir") if is_kernel else ("operator", repr(operator_of(kernel)), "python")]
    if functions:
        is_tiles = all(function.program is not None for function in functions)
        texts.append(("tile program", source, "mlir") if is_tiles else ("LLVM IR", source, "llvm"))
    elif source and not isinstance(program, NativeSource):
        texts.append(("source", source, "python"))
    return [(what, Markup(listing(text, language))) for what, text, language in texts]


# --- memory over time -------------------------------------------------------------------------------------------------


@dataclass
class Rectangle:
    """The lifetime of bytes of the arena: from the launch that writes them to the last one that reads them."""

    offset: int
    size: int
    start: int
    end: int
    kind: str
    values: list[str] = field(default_factory=lambda: list[str]())

    def __str__(self) -> str:
        return f"{', then '.join(self.values)}: {size_text(self.size)} at {self.offset}"


@dataclass
class Memory:
    """The arena over the launches of a call: what lies where, and how many bytes are live at each launch."""

    arena: int
    steps: int
    areas: list[Rectangle]

    @property
    def live(self) -> list[int]:
        """The bytes in use at each launch; and after the last one, where something is saved."""
        counts = [0] * (max((r.end for r in self.areas), default=self.steps - 1) + 1)
        counts += [0] * (self.steps - len(counts))
        for area in self.areas:
            for step in range(area.start, area.end + 1):
                counts[step] += aligned(area.size)
        return counts

    @property
    def peak(self) -> int:
        """The launch at which the most bytes are live."""
        return max(range(len(self.live)), key=self.live.__getitem__, default=0)

    @property
    def outline(self) -> str:
        """The points of a line: the live bytes over the launches."""
        points = [(x, self.arena - live) for step, live in enumerate(self.live) for x in (step, step + 1)]
        return " ".join(f"{x},{y}" for x, y in points)


def memory_of(lowered: Lowered, program: Program) -> Memory:
    """Offsets and lifetimes of values in the arena, read off the planned program, not asked of the planner."""
    function = _function(lowered, program)
    called = kernels(lowered.module)
    places: dict[SSAValue, Rectangle] = {}
    index = -1
    for op in function.body.block.ops:
        if isinstance(op, LaunchOp):
            index += 1
            _launched(places, op, called[op.kernel.string_value()], index)
        elif isinstance(op, CopyOp) and (place := places.get(aliased(op.source))) is not None:
            place.end = max(place.end, index)
    end = function.body.block.last_op
    assert end is not None
    for value in end.operands:
        if (place := places.get(aliased(value))) is not None:
            place.end, place.kind = index + 1, "saved"  # what follows, such as the backward, reads it
    return Memory(program.arena, index + 1, [*{id(p): p for p in places.values()}.values()])


def _function(lowered: Lowered, program: Program) -> func.FuncOp:
    return next(f for f in functions(lowered.module) if f.sym_name.data == program.name)


def _launched(places: dict[SSAValue, Rectangle], op: LaunchOp, kernel: func.FuncOp, index: int) -> None:
    """Begin the lifetimes of what a launch writes into the arena, and extend those of what it reads."""
    scratch = [op.scratch] if op.scratch is not None else []
    for value in (*op.outs, *scratch):
        whole = aliased(value)  # where it is a part, as of a concatenation
        if isinstance(whole.owner, ViewOp) and isinstance(whole.owner.memory.owner, ArenaOp):
            if whole is not value and whole in places:
                places[whole].end = max(places[whole].end, index)
            elif whole is not value:
                places[whole] = _rectangle(whole, index, "value")
            else:
                _write(places, op, kernel, value, index, "scratch" if value in scratch else "value")
    for value in op.ins:
        place = places.get(aliased(value))
        if place is not None:
            place.end = max(place.end, index)


def _write(
    places: dict[SSAValue, Rectangle], op: LaunchOp, kernel: func.FuncOp, value: SSAValue, index: int, kind: str
) -> None:
    """Begin the lifetime of a value that a launch writes; extend the argument's if it is written in place."""
    new, outs = _rectangle(value, index, kind), list(op.outs)
    written_over = [op.ins[i] for i, out in INPLACE.of(kernel) if outs[out] is value]
    for read in written_over:
        place = places.get(read)
        if place is not None and (place.offset, place.size) == (new.offset, new.size):
            place.values += new.values
            places[value] = place
            place.end = index
            return
    places[value] = new


def _rectangle(value: SSAValue, index: int, kind: str) -> Rectangle:
    """The place of a value that is written at a launch."""
    view = value.owner
    assert isinstance(view, ViewOp)
    name = "scratch" if kind == "scratch" else f"{value.name_hint or 'value'} {_type(value)}"
    return Rectangle(view.offset.value.data, _bytes(value), index, index, kind, [name])


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
