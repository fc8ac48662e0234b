"""The stages of a compilation as objects: each prints, and each makes the next.

``net.trace(x).optimize().lower(target="numpy").compile()``

The first one, the trace, is here. It imports the compiler and the further ones
(:mod:`hybridc.compile.lowering_stages`) on demand: a graph from the disk cache needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hybridc.compile.collector import collector_at_rest
from hybridc.compile.long_compilation import reported_if_long
from hybridc.ground.cached import cached_property
from hybridc.ground.display.stage_views import stage_html, stage_text
from hybridc.ground.events import recorded
from hybridc.ground.records import dataclass
from hybridc.trace.equal_layers import with_equal_layers
from hybridc.trace.tracer import Trace, trace_call

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from hybridc.compile.compiled_graph import CompiledGraph
    from hybridc.compile.lowering_stages import Formed, Lowered, Optimized
    from hybridc.compile.trace_key import WrittenTrace


@dataclass(frozen=True)
class Traced:
    """The trace of a forward, to be compiled; ``grads`` are indices of the inputs to differentiate.

    ``backends``: names and options of backends that partition the graph first. ``donated``: pairs of an argument and
    the result that is written into its memory. ``heads``: the results whose gradients the backward takes; None for all.
    """

    trace: Trace
    grads: tuple[int, ...] = ()
    backends: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    donated: tuple[tuple[int, int], ...] = ()
    heads: tuple[int, ...] | None = None

    @property
    def module(self) -> ModuleOp:
        """The traced graph before any pass."""
        from hybridc.compile.lowering_stages import module_of

        return module_of(self)

    __repr__, _repr_html_ = stage_text, stage_html

    def __str__(self) -> str:
        from hybridc.compile.lowering_stages import mlir_text

        return mlir_text(self.module, locations=True)

    @cached_property
    def written(self) -> WrittenTrace:
        """The trace as data, the input of cache keys; NotWritable if it has none."""
        from hybridc.compile.trace_key import written_of

        return written_of(self)

    def graph(self) -> CompiledGraph:
        """The compiled graph: from the disk cache, or by running all stages."""
        from hybridc.compile import warm_start

        with collector_at_rest(), recorded("compile", f"compile {self.trace.name}"):
            graph = warm_start.stored_graph(self, self._compiled)
        graph.traced = self
        return graph

    def stored(self) -> CompiledGraph | None:
        """The compiled graph, if the disk cache has it."""
        from hybridc.compile import warm_start

        graph = warm_start.graph_in_store(self)
        if graph is not None:
            graph.traced = self
        return graph

    def _compiled(self) -> CompiledGraph:
        """Run all stages, but for those before :class:`Formed` where the family of sizes has their result."""
        from hybridc.dialects.mlir import late_formats

        late_formats.install()  # before anything imports xDSL's dialects
        from hybridc.compile import new_sizes

        with reported_if_long(self.trace.name.rpartition("-")[0] or self.trace.name):
            if self.trace.context.device_type == "gpu":
                return self.optimize().lower().compile()
            return new_sizes.planned_graph(self, Traced.formed)

    def lowered_again(self) -> Lowered:
        """Lower the trace as its first compilation did; a graph planned for a new size may have other code."""
        from hybridc.compile import new_sizes

        return new_sizes.lowered_again(self, Traced.formed)

    def formed(self) -> Formed:
        """Its kernels, and calls of them: those of equal layers once."""
        return self.with_layers().optimize().form(in_place=True)

    def with_layers(self) -> Traced:
        """The same with equal layers as nodes, if it has some, and no gradients are wanted."""
        from hybridc.compile import pipeline

        apart = self.grads or self.backends or pipeline.is_watched()
        trace = self.trace if apart else with_equal_layers(self.trace)
        return self if trace is self.trace else replace(self, trace=trace)

    def optimize(self) -> Optimized:
        """Run the graph passes: simplify, partition for backends, differentiate, decompose."""
        from hybridc.compile.lowering_stages import optimized

        return optimized(self)


def trace_block(block: Any, args: Sequence[Any], training: bool = False) -> Traced:
    """Trace ``block(*args)``."""
    return Traced(trace_call(block, args, training), (), block.__dict__.get("_backends", ()))
