"""The trace of a function inside another one, such as the body of a loop: it may use what the outer one has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.errors import TraceError
from hybridc.ground.location import user_location
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace


class NestedTrace(Trace):
    """A trace whose inputs beside its arguments are values of the ``outer`` one: ``outer_values``, by input."""

    def __init__(self, outer: Trace) -> None:
        super().__init__(outer.training)
        self.outer = outer
        self.context = outer.context
        self.track_locations = outer.track_locations
        self.casts = outer.casts
        self.is_open = outer.is_open
        self.outer_values: dict[int, TracedSymbol] = {}
        self._blocks = list(outer.blocks())

    def inside(self, value: Any) -> TracedSymbol:
        """A value of this trace: itself, or an input for one of the outer trace, or for an array."""
        if isinstance(value, NDArray):
            return self.capture(value)
        if value.trace is self:
            return self.latest(value)
        own = self._foreign(value)
        if own is None:
            raise TraceError(
                f"{user_location()}: a loop got a value of another trace; return it from its block instead"
            )
        return own

    def leaf_of(self, value: TracedSymbol) -> TracedSymbol:
        """The input that a value of the outer trace is, as it was before this trace."""
        known = self._known.get(id(value))
        return self.inside(value) if known is None else known

    def _foreign(self, x: TracedSymbol) -> TracedSymbol | None:
        outer = self.outer
        source = x if x.trace is outer else outer._foreign(x)
        if source is None:
            return None
        source = outer.latest(source)
        known = self._known.get(id(source))
        if known is None:
            known = self.leaf(source.name, source.inferred_shape, source._dtype, "value", source.constant)
            self._known[id(source)] = known
            self.outer_values[known.index] = source
        return known

    def parameter(self, parameter: Any) -> TracedSymbol:
        """The outer trace's input of a Parameter."""
        return self.inside(self.outer.parameter(parameter))

    def capture(self, array: NDArray) -> TracedSymbol:
        """The outer trace's input of an array."""
        return self.inside(self.outer.capture(array))

    def finish(self, outputs: Sequence[Any]) -> None:
        """Set the results, which may be values of the outer trace."""
        super().finish([self.inside(o) for o in outputs])
