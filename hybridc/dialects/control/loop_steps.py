"""A loop as targets see it that run all of its steps, and the random key of a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc.ground.records import dataclass


@dataclass(frozen=True)
class CompiledLoop:
    """A loop for targets that run all steps at once: compiled graphs of a step and, perhaps, of a condition.

    Inputs are ``data`` with a row for each step, ``states``, what every step reads, and a random key if it is
    ``keyed``: a step begins ``draw`` numbers later in it, and ``key_step`` more for each index. The inputs of the step
    are the same with a row of the data; those of the condition too. Results are ``outputs`` with a row for each step,
    the last states, ``saved`` ones before each step, and, if it ``counts``, the number of steps. There are ``count``
    rows; if it is ``counted``, the last of what every step reads says how many steps there are. If it is ``chosen``,
    there is one step if the first input is (True) or is not (False) another number than zero, else none.
    """

    step: Any
    condition: Any
    count: int
    counted: bool
    backwards: bool
    data: int
    states: int
    outputs: int
    saved: int
    counts: bool
    keyed: bool
    draw: int
    key_step: int
    chosen: bool | None = None

    @property
    def graphs(self) -> list[Any]:
        """Those of the step and of the condition."""
        return [self.step, *([] if self.condition is None else [self.condition])]

    @property
    def programs(self) -> list[Any]:
        """Their programs."""
        return [graph.forward.program for graph in self.graphs]

    @property
    def stops_early(self) -> bool:
        """Whether fewer steps may run than the outputs have rows."""
        return self.counted or self.condition is not None


def advanced(key: Any, by: int) -> Any:
    """A random key, a seed and a counter, with a counter that is so much more."""
    seed, counter = (int(n) for n in key)
    return np.array([seed, (counter + by) % 2**64], np.uint64)
