"""The stages of a compilation as objects: each prints, and each holds the next step.

``net.trace(x).optimize().lower(target="numpy").compile()``

Here is the first, the trace. It imports the compiler, with the further ones (:mod:`hybridc.compile.lowering_stages`),
only when one of them is asked for: a graph that an earlier process left on the disk needs none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hybridc.ground.cached import cached_property
from hybridc.ground.collector import collector_at_rest
from hybridc.trace.tracer import Trace, trace_call

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from hybridc.compile.compiled_graph import CompiledGraph
    from hybridc.compile.lowering_stages import Optimized
    from hybridc.compile.trace_key import WrittenTrace


@dataclass(frozen=True)
class Traced:
    """What the forward function did, as a graph; ``grads`` are the inputs whose gradient the backward will give.

    ``backends`` take their parts of the graph first: pairs of a name and its options. ``donated`` lists pairs: an
    argument, and the result that is written over it. ``heads`` are the results from which the backward starts, if these
    are not all.
    """

    trace: Trace
    grads: tuple[int, ...] = ()
    backends: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    donated: tuple[int, ...] = ()
    heads: tuple[int, ...] | None = None

    @property
    def module(self) -> ModuleOp:
        """The graph before any pass."""
        from hybridc.compile.lowering_stages import module_of

        return module_of(self)

    def __str__(self) -> str:
        from hybridc.compile.lowering_stages import text

        return text(self.module, locations=True)

    @cached_property
    def written(self) -> WrittenTrace:
        """What the trace is, as text: equal for equal ones; NotWritable if there is none."""
        from hybridc.compile.trace_key import written_of

        return written_of(self)

    def graph(self) -> CompiledGraph:
        """The graph made callable: by all stages, unless a process before did the same and left it on the disk."""
        from hybridc.compile import warm_start

        with collector_at_rest():
            made = warm_start.graph(self, self._compiled)
        made.traced = self
        return made

    def _compiled(self) -> CompiledGraph:
        """By all stages; those before :class:`Formed` are left out if they are known to give what they gave before."""
        from hybridc.compile import new_sizes

        if self.trace.context.device_type == "gpu":
            return self.optimize().lower().compile()
        return new_sizes.graph(self, lambda: self.optimize().form())

    def optimize(self) -> Optimized:
        """Simplify, let backends take their parts, differentiate, decompose."""
        from hybridc.compile.lowering_stages import optimized

        return optimized(self)


def trace_block(block: Any, args: Sequence[Any], training: bool = False) -> Traced:
    """The first stage for ``block(*args)``."""
    return Traced(trace_call(block, args, training), (), block.__dict__.get("_backends", ()))
