"""A planned program of Triton launches, as it is run.

Nothing here needs the compiler.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, NamedTuple

from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NOT_SERIALISED
from hybridc.ir.library_matmul import LibraryMatmul
from hybridc.ir.planned import HostCall, PlannedProgram, Position
from hybridc.lower.triton.triton_function import Config, TritonFunction


class Launch(NamedTuple):
    """A function run on buffers; of ``configs``, the first is expected to be the fastest."""

    function: TritonFunction
    buffers: tuple[Position, ...]
    numbers: tuple[int, ...]
    configs: tuple[Config, ...]
    name: str


class Alternative(NamedTuple):
    """A matmul by a library instead of so many ``steps`` from index ``start`` on.

    ``places`` are the positions of its three matrices; ``after`` are the launches that follow it.
    """

    start: int
    steps: int
    contraction: LibraryMatmul
    places: tuple[Position, Position, Position]
    after: tuple[Launch, ...] = ()


@dataclass
class TritonProgram(PlannedProgram):
    """A planned program of launches; ``calls`` are what the kernels became, ``alternatives`` are in their order."""

    suffix = "triton"

    steps: list[Launch | HostCall] = field(default_factory=lambda: list[Any]())
    alternatives: list[Alternative] = field(default_factory=lambda: list[Alternative]())
    calls: list[tuple[str, list[TritonFunction]]] = field(
        default_factory=lambda: list[Any](), compare=False, metadata=NOT_SERIALISED
    )

    def launched(self) -> list[tuple[str, str]]:
        """For each launch its lines, and the source of its functions."""
        return [(lines, "\n\n".join(f.source for f in functions)) for lines, functions in self.calls]

    def facts(self) -> list[Any]:
        """Also the sources of its functions."""
        return [*super().facts(), [self.nameless(f.source) for f in self.functions_called()]]

    def functions_called(self) -> list[TritonFunction]:
        """The functions, each once."""
        launches = [*self.steps, *(launch for alternative in self.alternatives for launch in alternative.after)]
        return list(dict.fromkeys(step.function for step in launches if isinstance(step, Launch)))

    def code(self) -> str:
        """The source of all functions."""
        return "\n\n".join(f.source for f in self.functions_called())
