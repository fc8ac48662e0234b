"""A planned program of Triton launches, as it is run.

Nothing here needs the compiler.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hybridc.lower.planned import PlannedProgram
from hybridc.lower.triton.functions import Config, TritonFunction
from hybridc.runtime.native.plan import Host, Place


class Launch(NamedTuple):
    """A function run on buffers; of ``configs``, the first is expected to be the fastest."""

    function: TritonFunction
    buffers: tuple[Place, ...]
    numbers: tuple[int, ...]
    configs: tuple[Config, ...]
    name: str


@dataclass
class TritonProgram(PlannedProgram):
    """A planned program of launches; ``calls`` are what the kernels became."""

    suffix = "triton"

    steps: list[Launch | Host] = field(default_factory=lambda: list[Any]())
    calls: list[tuple[str, list[TritonFunction]]] = field(default_factory=lambda: list[Any](), compare=False)

    def launched(self) -> list[tuple[str, str]]:
        """For each launch its lines, and the source of its functions."""
        return [(lines, "\n\n".join(f.source for f in found)) for lines, found in self.calls]

    def functions_called(self) -> list[TritonFunction]:
        """The functions, each once."""
        return list(dict.fromkeys(step.function for step in self.steps if isinstance(step, Launch)))

    def code(self) -> str:
        """The source of all functions."""
        return "\n\n".join(f.source for f in self.functions_called())
