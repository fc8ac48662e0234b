"""The steps of a loop, as a target's executable runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class LoopSteps:
    """Arrays of a loop, whose step is a program.

    The inputs of the program are a row of each of ``data``, the ``states``, what every step reads (``read``), and, if
    there is one, the random key: a seed and a counter, which is ``key_step`` more at the next index. Its results are a
    row of each of ``outputs``, and the next states; those of the end go to ``last``. A row of ``saved`` is a state
    before a step. Indices are those from 0 to ``count``, or the same ``backwards``. ``condition`` is the executable of
    a program of states, ``read`` and key, whose result, a float32, says whether to go on.
    """

    count: int
    backwards: bool
    data: Sequence[Any]
    states: Sequence[Any]
    read: Sequence[Any]
    key: Any
    key_step: int
    outputs: Sequence[Any]
    last: Sequence[Any]
    saved: Sequence[Any]
    condition: Any = None

    def keys(self, index: int) -> list[Any]:
        """The random key of a step, if there is one, as a list."""
        return [] if self.key is None else [advanced(self.key, index * self.key_step)]


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
        """Whether there may be fewer steps than rows."""
        return self.counted or self.condition is not None


def advanced(key: Any, by: int) -> Any:
    """A random key, a seed and a counter, with a counter that is so much more."""
    seed, counter = (int(n) for n in key)
    return np.array([seed, (counter + by) % 2**64], np.uint64)
