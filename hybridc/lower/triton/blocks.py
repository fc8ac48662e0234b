"""Stages of a nest amid a kernel that is written otherwise, a product or attention: what follows, and their arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import SSAValue

from hybridc.ir.kernel import Axes, KernelOp, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.structured import dtype_of
from hybridc.ir.tile_program import Address, Factor
from hybridc.lower.triton.expressions.ops import Term
from hybridc.lower.triton.source_writer import SourceWriter
from hybridc.lower.triton.tile_printer import Dim, TilePrinter, narrowed_in
from hybridc.transforms.kernels.kernel_memory import Strides
from hybridc.transforms.kernels.tile_blocks import TileStatements


@dataclass
class Parameters:
    """The buffers of a kernel's function, by the names of its pointers; what is not given is not read or written."""

    values: dict[SSAValue, str] = field(default_factory=lambda: dict[SSAValue, str]())
    used: list[SSAValue] = field(default_factory=lambda: list[SSAValue]())

    def pointer(self, value: SSAValue) -> str:
        """The name of the pointer at a value."""
        if value not in self.used:
            self.used.append(value)
        return self.values[value]


class _StageStatements(TileStatements):
    """Statements whose buffers are the pointers of a function."""

    def __init__(self, plan: LoopNestPlan, given: Parameters, strides: Mapping[SSAValue, Strides]) -> None:
        super().__init__(plan, given=strides)
        self.parameters = given

    def buffer(self, value: SSAValue) -> str:
        return self.parameters.pointer(value)


class Blocks:
    """Writes the stages of a nest on blocks of values over ``dims``.

    ``strides``, in elements, are those of values that may be no plain arrays. ``known`` are values that have names.
    """

    def __init__(
        self,
        plan: LoopNestPlan,
        dims: Sequence[Dim],
        given: Parameters,
        strides: Mapping[SSAValue, Strides],
        w: SourceWriter,
    ) -> None:
        self.plan, self.given, self.w = plan, given, w
        dtypes = {name: dtype_of(value) for value, name in given.values.items()}
        self.text = _StageStatements(plan, given, strides)
        self.printer = TilePrinter(self.text.space.sizes, dims, dtypes, w)
        self.dims, self.index = self.printer.dims, self.printer.index
        self.mask, self.put = self.printer.mask, self.printer.put
        self.known: dict[SSAValue, str] = {}

    def places(self, number: int, first: str) -> None:
        """Write the index along a dimension, and along each of its axes."""
        self.printer.places(number, first)
        self.index |= {a: self.printer.at(a) for a in self.dims[number].axes}

    def dims_of(self, axes: Axes) -> frozenset[int]:
        """The dimensions that axes of the nest lie along."""
        return self.printer.dims_of(self.plan.axes(axes))

    def offset(self, axes: Axes, strides: Strides) -> str:
        """The offset of a block of elements whose dimensions follow axes of the nest, so far apart."""
        terms = tuple((self.plan.merged[a], Factor(s)) for a, s in zip(axes, strides, strict=True))
        return self.printer.offset(Address("", terms))

    def read(self, read: Read) -> str:
        """The name of a block that is read."""
        return self._named(self.text.read(read), read.value) if read.value not in self.known else self.known[read.value]

    def kernel_op(self, kernel_op: KernelOp) -> str:
        """Write an elementwise stage: the name of what it makes."""
        self.text.known = {}
        for read in kernel_op.reads:
            if read.value in self.known:
                name = self.text.known[read.value] = self.known[read.value]
                self.printer.known[name] = Term(name, dtype_of(read.value))
                self.printer.sides[name] = self.printer.sides_of(self.dims_of(read.axes))
        return self._named(self.text.body(kernel_op), kernel_op.result)

    def _named(self, name: str, value: SSAValue) -> str:
        """Write the statements that make a value; its name in the source."""
        loaded = {key: n for key, n in self.text.loaded.items() if isinstance(key[0], SSAValue)}
        statements = self.text.take()
        self.text.loaded = loaded  # what was computed may be of names that have other values later
        self.printer.statements(statements, narrowed_in(statements) - {name})
        found = self.printer.known[name].as_dtype(dtype_of(value))
        return found.text if found.text.isidentifier() and found.number is None else self.w.let("result", found.block)

    def store(self, kernel_op: KernelOp, name: str) -> None:
        """Put a block of a stage's result into memory."""
        address = self.text.element_at(kernel_op.result, kernel_op.axes)
        offset = self.printer.offset(address) or self.printer.origin()
        self.put(address.buffer, offset, name, self.mask(self.dims_of(kernel_op.axes)))
