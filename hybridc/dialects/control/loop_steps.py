"""The steps of a loop, as a target's executable runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


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
