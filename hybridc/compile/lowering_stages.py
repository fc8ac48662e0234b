"""The stages after the trace: Optimized, Structured, Formed (kernels), Lowered (plan and code).

Importing this imports the compiler's passes.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.printer import Printer

from hybridc.compile import pipeline
from hybridc.compile.collector import collector_at_rest
from hybridc.compile.compiled_graph import CompiledGraph
from hybridc.compile.inlined_layers import inline_layers
from hybridc.compile.targets import Planning, Target, target_named
from hybridc.dialects.body import Body
from hybridc.dialects.mlir.graph_notes import DONATED, HEADS, ROWS, SAVED
from hybridc.ground import compiler_output
from hybridc.ground.display.stage_views import stage_html, stage_text
from hybridc.ground.records import dataclass
from hybridc.ir.planned import Program
from hybridc.ir.structured import dtype_of, kernels, shape_of
from hybridc.ir.values import byte_size, functions
from hybridc.subgraph.partition_graph import PartitionGraph
from hybridc.trace.trace_to_graph import identifier, trace_to_graph
from hybridc.trace.tracer import Trace
from hybridc.transforms.memory.describe_layouts import described_layouts
from hybridc.transforms.memory.hoist_preparation import HoistPreparation

if TYPE_CHECKING:
    from hybridc.compile.stages import Traced


def _dump_name(trace: Trace, grads: tuple[int, ...], part: str) -> str:
    """The base name of one compilation's dump files: ``dense0-3-recorded.kernels``."""
    return f"{trace.name}{'-recorded' * bool(grads)}.{part}"


def _parameters(trace: Trace) -> dict[str, Any]:
    """The graph's parameters by the names of its arguments."""
    arguments = zip(trace.leaves, trace.roles, trace.sources, strict=True)
    return {identifier(leaf.name): source.array() for leaf, role, source in arguments if role == "parameter"}


def mlir_text(module: ModuleOp, locations: bool = False) -> str:
    """The module as MLIR text, with source locations on request."""
    stream = io.StringIO()
    Printer(stream, print_debuginfo=locations).print_op(module)
    return stream.getvalue()


def module_of(traced: Traced) -> ModuleOp:
    """The graph of a trace before any pass."""
    module = trace_to_graph(traced.trace, traced.grads, heads=traced.heads)
    if traced.donated:
        (function,) = functions(module)
        DONATED.put(function, traced.donated)
    return module


def optimized(traced: Traced) -> Optimized:
    """Run the graph passes: simplify, partition for backends, differentiate, decompose."""
    with collector_at_rest():
        module = traced.module
        arrays = _parameters(traced.trace) if traced.backends else {}
        passes = pipeline.graph_passes([PartitionGraph(name, options, arrays) for name, options in traced.backends])
        name = _dump_name(traced.trace, traced.grads, "graph")
        pipeline.run(passes, module, name, is_symbolic=traced.trace.is_symbolic)
    return Optimized(traced.trace, traced.grads, module)


@dataclass(frozen=True)
class Optimized:
    """The graph in primitive operators, with its backward if gradients are wanted."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp

    __repr__, _repr_html_ = stage_text, stage_html

    def __str__(self) -> str:
        return mlir_text(self.module)

    def structure(self) -> Structured:
        """The structured form: ``linalg`` loops over tensors."""
        with collector_at_rest():
            module = self.module.clone()
            pipeline.run(pipeline.structured_passes(), module, _dump_name(self.trace, self.grads, "structured"))
        return Structured(self.trace, self.grads, module)

    def form(self, target: str | None = None, in_place: bool = False) -> Formed:
        """Form the kernels for a target, by default ``HYBRIDC_TARGET``; ``in_place``: of this module itself."""
        is_gpus = self.trace.context.device_type == "gpu"
        chosen = target_named("triton" if is_gpus and target is None else target)
        with collector_at_rest():
            module = self.module if in_place else self.module.clone()
            name = _dump_name(self.trace, self.grads, "kernels")
            pipeline.run(chosen.kernels(), module, name, is_symbolic=self.trace.is_symbolic)
            if inline_layers(module, lambda graph, fixed, like: _layer(self.trace, chosen, graph, fixed, like)):
                passes = chosen.kernels()
                hoists = [one for one in passes if isinstance(one, HoistPreparation)]
                pipeline.run(hoists, module, name, after=passes, is_symbolic=self.trace.is_symbolic)
        return Formed(self.trace, self.grads, module, chosen)

    def lower(self, target: str | None = None) -> Lowered:
        """Form kernels, plan memory and generate code for a target, by default ``HYBRIDC_TARGET``."""
        return self.form(target).lower()


def _layer(trace: Trace, target: Target, graph: Body, fixed: Sequence[int], inputs: Sequence[SSAValue]) -> ModuleOp:
    """The kernels of a layer of a trace, and calls of them, for inputs like these."""
    shapes, dtypes = [shape_of(v) for v in inputs], [dtype_of(v) for v in inputs]
    inside: Trace = graph.trace([f"input{i}" for i in range(len(inputs))], shapes, dtypes, trace.training, fixed)
    inside.is_symbolic, inside.context, inside.name = trace.is_symbolic, trace.context, f"{trace.name}-layer"
    module = trace_to_graph(inside)
    pipeline.run(pipeline.graph_passes([]), module, _dump_name(inside, (), "graph"), is_symbolic=inside.is_symbolic)
    return Optimized(inside, (), module).form(target.name, in_place=True).module


@dataclass(frozen=True)
class Formed:
    """A module of kernels and calls of them, scheduled for a target; memory is not planned yet."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp
    target: Target

    __repr__, _repr_html_ = stage_text, stage_html

    def __str__(self) -> str:
        return mlir_text(self.module)

    def lower(self, planning: Planning | None = None) -> Lowered:
        """Plan memory, in place, and generate the target's code.

        ``planning`` is the target's planning of this module at other sizes, to be reused.
        """
        dump = _dump_name(self.trace, self.grads, "kernels")
        with collector_at_rest():
            planning = self.target.plan() if planning is None else planning
            pipeline.run(planning.passes, self.module, dump, after=self.target.kernels())
            planned = {f.sym_name.data: f for f in functions(self.module) if f.sym_visibility is None}
            with compiler_output.timed(f"{dump}, time of writing the source"):
                programs = {name: planning.emit(self.module, name) for name in planned}
        called = kernels(self.module)
        for name, program in programs.items():
            if name not in planning.layouts:
                planning.layouts[name] = described_layouts(planned[name], called)
            program.layout = planning.layouts[name]
            pipeline.source(f"{dump}.{program.name}.{program.suffix}", program.source)
        return Lowered(self.trace, self.grads, self.module, programs, self.target)


@dataclass(frozen=True)
class Structured:
    """The structured form: linalg on tensors, scalar bodies in arith and math; valid MLIR."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp

    __repr__, _repr_html_ = stage_text, stage_html

    def __str__(self) -> str:
        return mlir_text(self.module)


@dataclass(frozen=True)
class Lowered:
    """The planned program and the target's code of it."""

    trace: Trace
    grads: tuple[int, ...]
    module: ModuleOp
    programs: dict[str, Program]
    target: Target

    __repr__, _repr_html_ = stage_text, stage_html

    def __str__(self) -> str:
        return "\n\n".join(p.source for p in self.programs.values())

    def plan(self) -> str:
        """The kernels and the memory plan as MLIR text."""
        return mlir_text(self.module)

    def compile(self) -> CompiledGraph:
        """Load the code; the callable graph."""
        with compiler_output.timed(_dump_name(self.trace, self.grads, "kernels") + ", time of loading the source"):
            where = self.trace.context
            executables = {name: self.target.load(program, where) for name, program in self.programs.items()}
        backward = next((f for f in functions(self.module) if f.sym_name.data == "backward"), None)
        saved = SAVED.of(backward) if backward is not None else ()
        saved_bytes = self._saved_bytes(backward, saved) if backward is not None else 0
        heads = HEADS.of(backward) if backward is not None else None
        rows = ROWS.of(backward) if backward is not None else ()
        programs = executables["forward"], executables.get("backward")
        return CompiledGraph(self.trace, *programs, saved, self.grads, saved_bytes, heads, rows)

    def _saved_bytes(self, backward: FuncOp, saved: tuple[int, ...]) -> int:
        """Bytes of values that the forward saves for the backward, inputs and results apart."""
        own = len(self.trace.leaves) + len(self.trace.outputs)
        return sum(byte_size(arg) for i, arg in zip(saved, backward.body.block.args, strict=False) if i >= own)
