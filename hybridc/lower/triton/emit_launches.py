"""A planned program as launches of Triton functions, and the calls of the host amid them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from hybridc.dialects.handwritten import ArraySpec, TritonKernel
from hybridc.ir.planned import Position, SlotView
from hybridc.lower.emit_planned import PlanEmitter
from hybridc.lower.triton.handwritten_launch import launch
from hybridc.lower.triton.launches import Alternative, Launch, TritonProgram
from hybridc.lower.triton.texts import copy_launch, fill_launch
from hybridc.lower.triton.triton_function import LibraryConfig, TritonLaunch, TritonLaunches
from hybridc.options import OPTIONS

if TYPE_CHECKING:
    from hybridc.lower.emit_planned import KernelCacheInterface


def emit_triton_program(
    module: ModuleOp, name: str, kernel_cache: KernelCacheInterface, poison: bool = OPTIONS.poison
) -> TritonProgram:
    """The launches of the planned function ``name``; with ``poison``, memory that holds nothing holds NaN.

    ``kernel_cache`` has the module's kernels.
    """
    emitter = _LaunchEmitter(module, name, kernel_cache, poison)
    emitter.walk()
    emitter.program.source += "\n" + emitter.program.code()
    return emitter.program


class _LaunchEmitter(PlanEmitter):
    TARGET = "triton"

    def __init__(self, module: ModuleOp, name: str, kernel_cache: KernelCacheInterface, poison: bool) -> None:
        self.program = TritonProgram(name, "", 0)
        super().__init__(module, self.program, kernel_cache, poison)

    def launched(self, lines: int, steps: int) -> None:
        functions = [s.function for s in self.program.steps[steps:] if isinstance(s, Launch)]
        self.program.calls.append(("\n".join(self.lines[lines:]), functions))

    def run(self, code: TritonLaunches, places: Sequence[Position], scratch: Position | None, name: str) -> None:
        start = len(self.program.steps)
        for kernel_launch in code.kernel_launches:
            if 0 not in kernel_launch.configs[0].grid:
                self._step(kernel_launch, _launch(kernel_launch, places, name))
        if code.library is not None:
            self._alternative(start, code.library, places, name)

    def _step(self, kernel_launch: TritonLaunch, launch: Launch) -> None:
        self.program.steps.append(launch)
        where = ", ".join(f"{b.slot}+{b.offset}" for b in launch.buffers)
        numbers = ", ".join(map(str, kernel_launch.numbers))
        self.lines.append(
            f"    {kernel_launch.function.name}: buffers ({where}), numbers ({numbers}), {kernel_launch.configs[0]}"
        )

    def _alternative(self, start: int, config: LibraryConfig, places: Sequence[Position], name: str) -> None:
        """Add a library's matmul as an alternative, unless what follows reads an argument that it would overwrite."""
        first, second, result = [places[i] for i in config.contraction.buffers]
        after = tuple(_launch(kernel_launch, places, name) for kernel_launch in config.after)
        if after and result in places[: config.contraction.buffers[2]]:
            return
        count = len(self.program.steps) - start
        self.program.alternatives.append(Alternative(start, count, config.contraction, (first, second, result), after))

    def described(self, kernel: TritonKernel, arrays: Sequence[ArraySpec]) -> TritonLaunches:
        return TritonLaunches([launch(kernel, [a.dtype for a in arrays])])

    def copy(self, source: SlotView) -> TritonLaunches:
        return TritonLaunches([copy_launch(source.dtype, source.shape, source.strides, 0, 1)])

    def fill(self, size: int) -> TritonLaunches:
        return TritonLaunches([fill_launch(np.dtype(np.int8), size, "-1", 0)])


def _launch(kernel_launch: TritonLaunch, places: Sequence[Position], name: str) -> Launch:
    return Launch(
        kernel_launch.function,
        tuple(places[i] for i in kernel_launch.buffers),
        kernel_launch.numbers,
        kernel_launch.configs,
        name,
    )
