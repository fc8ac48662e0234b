"""One kernel as a Python function: for each loop nest a matmul, tile loops of ufuncs with ``out=``, or both."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hybridc.dialects.mlir.hybrid_rt import aligned
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.quoting import docstring, required_name
from hybridc.ir.kernels.kernel import Kernel
from hybridc.lower.numpy.array_steps import KernelSteps, NestSteps, StepOperand, StepValue, UfuncStep
from hybridc.lower.numpy.emit_nest import NestEmitter, assign_slots, form_contractions
from hybridc.lower.numpy.ufuncs import python_literal
from hybridc.transforms.schedules.schedule_arrays import ArrayNest, schedule_arrays

# How to write a view of memory, given an offset, a dtype and a shape.
View = Callable[[int, np.dtype[Any], Shape], str]


@dataclass(frozen=True)
class ScratchArray:
    """An array of a kernel's scratch."""

    offset: int
    dtype: np.dtype[Any]
    shape: Shape

    def source(self, view: View) -> str:
        """The array, as source."""
        return view(self.offset, self.dtype, self.shape)


class KernelSource(ABC):
    """Writes one kernel: a function of its arguments, its results and, where :meth:`scratch` gives any, its scratch.

    ``bytes`` says how much memory :meth:`scratch` cuts up, from an offset that is a multiple of 64.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.name = required_name(kernel.name)
        self.bytes = 0

    @property
    @abstractmethod
    def threads(self) -> int:
        """How many threads may share it."""

    @abstractmethod
    def scratch(self, view: View) -> str | None:
        """The scratch to pass, made of views of memory, as source; None if there is none to pass."""

    @abstractmethod
    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Which arguments may share memory with which results."""

    @abstractmethod
    def title(self) -> str:
        """The iteration space, in words."""

    @abstractmethod
    def body(self) -> list[str]:
        """The lines of the function: equal for kernels that do the same."""

    def source(self, name: str | None = None) -> str:
        """The Python function."""
        parameters = [f"x{i}" for i in range(len(self.kernel.arguments))]
        parameters += [f"y{i}" for i in range(len(self.kernel.results))]
        if self.bytes:
            parameters.append("scratch")
        where = ", ".join(map(str, self.kernel.locations))
        title = f"{self.title()}{'; ' if where else ''}{where}."
        head = [f"def {name or self.name}({', '.join(parameters)}):", f'    """{docstring(title)}"""']
        return "\n".join([*head, *("    " + line for line in self.body())]) + "\n"


class KernelEmitter(KernelSource):
    """Writes a kernel whose loop nests run one after the other."""

    def __init__(
        self, kernel: Kernel, threads: int, strided: frozenset[int] = frozenset(), updates: Sequence[int] = ()
    ) -> None:
        super().__init__(kernel)
        self.scheduled: list[ArrayNest]
        self.scheduled, self.memory = schedule_arrays(self.kernel, threads, strided, updates)
        self.steps = KernelSteps(self.scheduled, self.memory, ", ".join(map(str, self.kernel.locations)))
        form_contractions(self.steps)
        assign_slots(self.steps)
        self.nests = [NestEmitter(self.steps, part) for part in self.steps.nests]
        self.arrays: list[tuple[list[ScratchArray], list[list[ScratchArray]]]] = []
        self._place()

    @property
    def threads(self) -> int:
        return max((nest.threads for nest in self.scheduled), default=1)

    # --- scratch -------------------------------------------------------------------------------------------

    def _place(self) -> None:
        """Assign offsets in scratch; loop nests run one after the other, so those of each alone share memory."""
        whole = {n: self._array(v.dtype, v.shape) for n, v in self.steps.arrays.items() if v.kind == "w"}
        start = end = self.bytes
        for nest in self.nests:
            self.bytes = start
            shared = [whole[i] for i in nest.whole]
            shared += [self._array(dtype, shape) for dtype, shape in nest.gathered.values()]
            slots = [[self._array(d, nest.loops.tile(axes)) for d, axes in nest.part.slots] for _ in nest.workers]
            self.arrays.append((shared, slots))
            end = max(end, self.bytes)
        self.bytes = end

    def _array(self, dtype: np.dtype[Any], shape: Shape) -> ScratchArray:
        array = ScratchArray(self.bytes, dtype, shape)
        self.bytes += aligned(math.prod(shape) * dtype.itemsize)
        return array

    def scratch(self, view: View) -> str | None:
        """A tuple for each loop nest that needs any, or that of the only nest.

        It holds the arrays that all tiles share, then the slots of the one thread, or for each thread a tuple of these.
        """
        parts: list[str] = []
        for shared, slots in self.arrays:
            sources = [a.source(view) for a in shared]
            if len(slots) == 1:
                sources += [a.source(view) for a in slots[0]]
            elif any(slots):
                sources += [tuple_of([tuple_of([a.source(view) for a in arrays]) for arrays in slots])]
            if sources:
                parts.append(tuple_of(sources))
        if not parts:
            return None
        return parts[0] if len(self.nests) == 1 else tuple_of(parts)

    def inplace_pairs(self) -> list[tuple[int, int]]:
        """Which arguments may share memory with which results: of one loop nest, as nests may be many."""
        pairs = (pair for nest in self.nests for pair in _inplace_pairs(nest.part, nest.loops.flat))
        return sorted((p for p in pairs if f"x{p[0]}" not in self.steps.viewed), key=lambda pair: (pair[1], pair[0]))

    # --- source --------------------------------------------------------------------------------------------

    def body(self) -> list[str]:
        inside = self._lines()
        text = "\n".join(inside)
        views = (f"{v} = {source}" for v, source in self.steps.views.items() if re.search(rf"\b{v}\b", text))
        return [*views, *inside]

    def _lines(self) -> list[str]:
        lines: list[str] = []
        entry = 0
        for nest, (shared, slots) in zip(self.nests, self.arrays, strict=True):
            if len(self.nests) > 1:
                lines.append(f"# {nest.title()}")
            if shared or any(slots):
                lines += nest.unpacked("scratch" if len(self.nests) == 1 else f"scratch[{entry}]")
                entry += 1
            lines += nest.lines()
        lines += [f"np.copyto(y{i}, {python_literal(constant)})" for i, constant in self.kernel.fills]
        return [*lines, *(f"np.copyto({name}, {source})" for name, source in self.memory.copies)]

    def title(self) -> str:
        return self.nests[0].title() if len(self.nests) == 1 else f"{len(self.nests)} loop nests"


def _inplace_pairs(part: NestSteps, flat: bool) -> list[tuple[int, int]]:
    """The arguments that a loop nest reads, and the results that it may write over them, element by element."""
    writes: dict[StepValue, UfuncStep] = {}
    reads: dict[StepValue, list[tuple[UfuncStep, StepOperand]]] = {}
    for step in (*part.before, *part.steps):
        if step.result.value.kind == "y":
            writes.setdefault(step.result.value, step)
        for operand in step.reads():
            if operand.value.kind == "x":
                reads.setdefault(operand.value, []).append((step, operand))
    return [
        (int(arg.name[1:]), int(out.name[1:]))
        for out, write in writes.items()
        for arg, uses in reads.items()
        if (arg.shape, arg.dtype) == (out.shape, out.dtype)
        and not write.reduces
        and arg.last_use <= write.index
        and all(_leaves(part, flat, write, *read) for read in uses)
    ]


def _leaves(part: NestSteps, flat: bool, write: UfuncStep, step: UfuncStep, operand: StepOperand) -> bool:
    """Whether a step reads an argument before a result is written there, on this tile and on all others."""
    if step is not write and (flat or write not in part.steps or step not in part.steps):
        return True
    if operand.axes != write.result.axes or len(operand.axes) < len(part.sizes):
        return False
    return step is not write or step.may_overwrite(operand)


def tuple_of(sources: list[str]) -> str:
    """A tuple, as source."""
    return f"({', '.join(sources)},)" if sources else "()"
