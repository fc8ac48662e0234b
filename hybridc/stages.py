"""The stages of a compilation as objects: each prints, and each holds the next step.

``net.trace(x).optimize().lower(target="numpy").compile()``
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.printer import Printer

from hybridc import debug, pipeline
from hybridc.lower.host import numbers_of
from hybridc.lower.program import Program
from hybridc.lower.targets import Target, target_named
from hybridc.runtime.compiled_graph import CompiledGraph
from hybridc.trace.trace_to_graph import identifier, trace_to_graph
from hybridc.trace.tracer import Trace
from hybridc.transforms.partition_graph import PartitionGraph
from hybridc.transforms.values import byte_size, functions


def _dump_name(trace: Trace, grads: tuple[int, ...], part: str) -> str:
    """What the files of one compilation are called: ``dense0-3-recorded.kernels``."""
    return f"{trace.name}{'-recorded' * bool(grads)}.{part}"


def _parameters(trace: Trace) -> dict[str, Any]:
    """The values of the graph's parameters, by the names of its arguments."""
    given = zip(trace.leaves, trace.roles, trace.sources, strict=True)
    return {identifier(leaf.name): source.data() for leaf, role, source in given if role == "parameter"}


def text(module: ModuleOp, locations: bool = False) -> str:
    """The module as MLIR text, on request with the user's lines."""
    stream = io.StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue()


@dataclass(frozen=True)
class Traced:
    """What the forward function did, as a graph; ``grads`` are the inputs whose gradient the backward will give.

    ``backends`` take their parts of the graph first: pairs of a name and its options.
    """

    trace: Trace
    grads: tuple[int, ...] = ()
    backends: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @property
    def module(self) -> ModuleOp:
        """The graph before any pass."""
        return trace_to_graph(self.trace, self.grads)

    def __str__(self) -> str:
        return text(self.module, locations=True)

    @pipeline.collector_at_rest()
    def optimize(self) -> Optimized:
        """Simplify, let backends take their parts, differentiate, decompose."""
        module = self.module
        arrays = _parameters(self.trace) if self.backends else {}
        passes = pipeline.graph([PartitionGraph(name, options, arrays) for name, options in self.backends])
        pipeline.run(passes, module, _dump_name(self.trace, self.grads, "graph"))
        return Optimized(self.trace, self.grads, module)


@dataclass(frozen=True)
class Optimized:
    """The graph in primitive operators, with its backward if one was asked for."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp

    def __str__(self) -> str:
        return text(self.module)

    @pipeline.collector_at_rest()
    def structure(self) -> Structured:
        """The same in upstream's dialects: loops over tensors."""
        module = self.module.clone()
        pipeline.run(pipeline.structured(), module, _dump_name(self.trace, self.grads, "structured"))
        return Structured(self.trace, self.grads, module)

    @pipeline.collector_at_rest()
    def lower(self, target: str | None = None) -> Lowered:
        """Form kernels, plan memory, and write the program of a target: ``HYBRIDC_TARGET``, unless one is named."""
        chosen = target_named(target)
        module = self.module.clone()
        dump = _dump_name(self.trace, self.grads, "kernels")
        pipeline.run(chosen.passes(), module, dump)
        names = [f.sym_name.data for f in functions(module) if f.sym_visibility is None]
        with debug.timed(f"{dump}, time of writing the source"):
            programs = {name: chosen.emit(module, name) for name in names}
        for program in programs.values():
            pipeline.source(f"{dump}.{program.name}", program.source)
        return Lowered(self.trace, self.grads, module, programs, chosen)


@dataclass(frozen=True)
class Structured:
    """The structured form: ``linalg`` on tensors, scalar bodies in ``arith`` and ``math``; valid MLIR."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp

    def __str__(self) -> str:
        return text(self.module)


@dataclass(frozen=True)
class Lowered:
    """The planned program and its source for the target."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp
    programs: dict[str, Program]
    target: Target

    def __str__(self) -> str:
        return "\n\n".join(p.source for p in self.programs.values())

    def plan(self) -> str:
        """The kernels and the memory plan as MLIR text."""
        return text(self.module)

    def compile(self) -> CompiledGraph:
        """Make the program callable."""
        with debug.timed(_dump_name(self.trace, self.grads, "kernels") + ", time of loading the source"):
            executables = {name: self.target.load(program) for name, program in self.programs.items()}
        backward = next((f for f in functions(self.module) if f.sym_name.data == "backward"), None)
        saved = tuple(numbers_of(backward, "hybrid.saved")) if backward is not None else ()
        kept = self._kept(backward, saved) if backward is not None else 0
        return CompiledGraph(self.trace, executables["forward"], executables.get("backward"), saved, self.grads, kept)

    def _kept(self, backward: FuncOp, saved: tuple[int, ...]) -> int:
        """Bytes of what the forward makes and keeps for the backward, beside its inputs and results."""
        own = len(self.trace.leaves) + len(self.trace.outputs)
        return sum(byte_size(arg) for i, arg in zip(saved, backward.body.block.args, strict=False) if i >= own)
