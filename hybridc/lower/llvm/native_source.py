"""A native program as data, in memory or on the disk: its steps, and the native functions still to be compiled.

Nothing here needs the compiler.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NOT_SERIALISED
from hybridc.ir.planned import HostCall, NativePlan, NativeRegion, PlannedProgram
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.native_function import LoadedCode, NativeFunction


@dataclass
class NativeSource(PlannedProgram):
    """A planned program of native steps, each with its function, or those of the parts of its grid.

    ``calls`` are the functions of each launch, if it was just compiled.
    """

    steps: list[tuple[tuple[NativeFunction, ...], NativeRegion] | HostCall] = field(default_factory=lambda: list[Any]())
    threads: int = 1
    work: float = 0.0
    calls: list[tuple[str, list[NativeFunction]]] = field(
        default_factory=lambda: list[Any](), compare=False, metadata=NOT_SERIALISED
    )

    def launched(self) -> list[tuple[str, str]]:
        """For each launch its lines, and its functions: tile programs, LLVM IR of those that have none."""
        return [(lines, "\n\n".join(map(_listing, functions))) for lines, functions in self.calls]

    def facts(self) -> list[Any]:
        """Adds the functions of its steps."""
        return [*super().facts(), [f.key for f in self.functions_called()]]

    def functions_called(self) -> list[NativeFunction]:
        """The native functions of the steps, in order."""
        return [function for step in self.steps if isinstance(step, tuple) for function in step[0]]

    def forget_builders(self) -> None:
        """Keep only the keys of functions: their IR is, or will be, replaced."""
        self.steps = [
            s if isinstance(s, HostCall) else (tuple([NativeFunction(f.key) for f in s[0]]), s[1]) for s in self.steps
        ]
        self.calls = []

    def code(self, stage: str = "llvm") -> str:
        """The functions that it calls, at a stage: see :meth:`NativeFunction.explain`."""
        names: dict[NativeFunction, list[str]] = {}
        for functions, region in (step for step in self.steps if isinstance(step, tuple)):
            for function in functions:
                if region.name not in names.setdefault(function, []):
                    names[function].append(region.name)
        return "\n\n".join(f"// {', '.join(n)}\n{f.explain(stage)}" for f, n in names.items())

    def plan(self, codes: Iterable[LoadedCode] | None = None) -> NativePlan:
        """The plan with loaded code, which is compiled where it is missing."""
        loaded = iter(codegen.load_functions(self.functions_called()) if codes is None else codes)
        steps = [
            step.step(self.constants) if isinstance(step, HostCall) else step[1].loaded([next(loaded) for _ in step[0]])
            for step in self.steps
        ]
        arrays = (self.inputs, self.fresh, steps, self.constants)
        kept = (self.kept, self.preparation)
        return NativePlan(*arrays, self.arena, self.work, self.threads, *kept, self.name, self.notes)


def _listing(function: NativeFunction) -> str:
    return function.explain("llvm" if function.program is None else "tiles")
