"""What the code of kernels is chosen for: the threads, the machine, and what prints a tile program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hybridc.ground.records import dataclass
from hybridc.ir.tiles.tile_program import TileProgram
from hybridc.transforms.schedules.loop_machine import LoopMachine
from hybridc.transforms.schedules.schedule_blas import BlasCall

# What a target makes of a tile program: a function over a range, which has a key that identifies its code.
Function = Any
Printer = Callable[[TileProgram | BlasCall], Function]


def not_ahead(_: Sequence[Function]) -> list[Any]:
    """Functions are compiled when they are loaded."""
    return []


@dataclass(frozen=True)
class LoopTarget:
    """A target whose kernels are parallel regions: functions over a range that ``threads`` share.

    Kernels are scheduled for the ``machine``; ``printer`` makes the function of a tile program, or of calls of BLAS.
    ``compile_ahead`` may begin to compile functions before they are loaded; what it returns is to be kept until then.
    """

    threads: int
    machine: LoopMachine
    printer: Printer
    compile_ahead: Callable[[Sequence[Function]], list[Any]] = not_ahead
