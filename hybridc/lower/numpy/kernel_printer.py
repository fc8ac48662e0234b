"""One kernel as a Python function: for each loop nest a matmul, tile loops of ufuncs with ``out=``, or both."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable

from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.ground.quoting import docstring, required_name
from hybridc.lower.numpy.nest_printer import NestPrinter, python_literal
from hybridc.transforms.code.array_code import ArrayCode, KernelArrays, ScratchArray

# How to write a view of memory, given an offset, a dtype and a shape.
View = Callable[[int, DType, Shape], str]


class KernelPrinter(ABC):
    """Writes one kernel: a function of its arguments, its results and, where :meth:`scratch` gives any, its scratch."""

    def __init__(self, code: KernelArrays) -> None:
        self.code = code
        self.kernel = code.kernel
        self.name = required_name(code.kernel.name)

    @abstractmethod
    def scratch(self, view: View) -> str | None:
        """The scratch to pass, made of views of memory, as source; None if there is none to pass."""

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
        if self.code.bytes:
            parameters.append("scratch")
        where = ", ".join(map(str, self.kernel.locations))
        title = f"{self.title()}{'; ' if where else ''}{where}."
        head = [f"def {name or self.name}({', '.join(parameters)}):", f'    """{docstring(title)}"""']
        return "\n".join([*head, *("    " + line for line in self.body())]) + "\n"


class NestsPrinter(KernelPrinter):
    """Writes a kernel whose loop nests run one after the other."""

    def __init__(self, code: ArrayCode) -> None:
        super().__init__(code)
        self.steps = code.steps
        self.nests = [NestPrinter(nest, code.steps.views) for nest in code.nests]

    def scratch(self, view: View) -> str | None:
        """A tuple for each loop nest that needs any, or that of the only nest.

        It holds the arrays that all tiles share, then the slots of the one thread, or for each thread a tuple of these.
        """
        parts: list[str] = []
        for printer in self.nests:
            nest = printer.nest
            slots = [[scratch_source(a, view) for a in arrays] for arrays in nest.slots]
            sources = [scratch_source(a, view) for a in (*nest.whole.values(), *nest.gathered.values())]
            if len(slots) == 1:
                sources += slots[0]
            elif any(slots):
                sources += [tuple_of([tuple_of(arrays) for arrays in slots])]
            if sources:
                parts.append(tuple_of(sources))
        if not parts:
            return None
        return parts[0] if len(self.nests) == 1 else tuple_of(parts)

    def title(self) -> str:
        return self.nests[0].title() if len(self.nests) == 1 else f"{len(self.nests)} loop nests"

    def body(self) -> list[str]:
        inside = self._lines()
        text = "\n".join(inside)
        views = (f"{v} = {source}" for v, source in self.steps.views.items() if re.search(rf"\b{v}\b", text))
        return [*views, *inside]

    def _lines(self) -> list[str]:
        lines: list[str] = []
        entry = 0
        for printer in self.nests:
            if len(self.nests) > 1:
                lines.append(f"# {printer.title()}")
            nest = printer.nest
            if nest.whole or nest.gathered or any(nest.slots):
                lines += printer.unpacked("scratch" if len(self.nests) == 1 else f"scratch[{entry}]")
                entry += 1
            lines += printer.lines()
        lines += [f"np.copyto(y{i}, {python_literal(constant)})" for i, constant in self.kernel.fills]
        return [*lines, *(f"np.copyto({name}, {source})" for name, source in self.steps.memory.copies)]


def scratch_source(array: ScratchArray, view: View) -> str:
    """An array of scratch, as source."""
    return view(array.offset, array.dtype, array.shape)


def tuple_of(sources: list[str]) -> str:
    """A tuple, as source."""
    return f"({', '.join(sources)},)" if sources else "()"
