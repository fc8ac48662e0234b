"""The kernels of a module: the operation that holds one as data, and how passes read, replace and add them.

A :class:`KernelFunction` prints as a function of linalg ops (:mod:`hybridc.ir.kernels.kernel_text`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Self, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, LocationAttr, ModuleOp, StringAttr, SymbolRefAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import VerifyException

from hybridc.dialects.mlir.erase import replace_op
from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.dialects.mlir.new_op import new_op
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.kernels.kernel_notes import ATTENTION, DOMAINS, GRID, PANELS, VARYING
from hybridc.ir.kernels.kernel_text import read_kernel, write_region
from hybridc.ir.structured import note_dtypes
from hybridc.ir.structured_builder import structured_type
from hybridc.ir.values import functions, new_name

_PRIVATE = StringAttr("private")


class KernelFunction(func.FuncOp):
    """A kernel in a module: a private function with its name, its signature and notes, which holds the kernel as data.

    It prints as other functions do. Its operations are a text of the data: they are written when they are first asked
    for, and changing them does not change the kernel. A function that was parsed has its operations; the kernel is read
    from them when it is first asked for.
    """

    _kernel: Kernel | None = None
    _regions: tuple[Region, ...] = ()

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        if self._kernel is None:
            self._kernel = read_kernel(self)
        return self._kernel

    @property
    def regions(self) -> tuple[Region, ...]:
        """The body."""
        if not self._regions and self._kernel is not None:
            region = write_region(self._kernel)
            region.parent = self
            self._regions = (region,)
        return self._regions

    @regions.setter
    def regions(self, regions: tuple[Region, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._regions = regions

    @classmethod
    def of(cls, kernel: Kernel) -> Self:
        """The function of a kernel."""
        name = StringAttr(kernel.name)
        op = new_op(cls, properties={"sym_name": name, "function_type": _signature(kernel), "sym_visibility": _PRIVATE})
        op.location = fused_location(kernel.ops)
        op._note(kernel)
        return op

    def hold(self, kernel: Kernel) -> None:
        """Hold another kernel of the same name."""
        self.function_type = _signature(kernel)
        self._note(kernel)

    def _note(self, kernel: Kernel) -> None:
        """Hold a kernel, with the notes that say what it is."""
        self._kernel, self._regions = kernel, ()
        DOMAINS.put(self, [nest.domain for nest in kernel.nests])
        varying = [nest.varying for nest in kernel.nests]
        for note, value in (
            (VARYING, varying if any(varying) else ()),
            (GRID, kernel.grid),
            (ATTENTION, kernel.attention),
            (PANELS, kernel.of_panels),
        ):
            if value:
                note.put(self, value)
            else:
                note.drop(self)
        note_dtypes(self, [v.dtype for v in (*kernel.arguments, *kernel.results)])

    @classmethod
    def parsed(cls, function: func.FuncOp) -> Self:
        """A function that is a kernel, as this operation; nothing is left of the former."""
        region = function.detach_region(0)
        op = new_op(cls, properties=function.properties, attributes=function.attributes, regions=[region])
        op.location = function.location
        return op

    def clone(
        self,
        value_mapper: dict[SSAValue, SSAValue] | None = None,
        block_mapper: dict[Block, Block] | None = None,
        *,
        clone_name_hints: bool = True,
        clone_operands: bool = True,
    ) -> Self:
        copy = super().clone(
            value_mapper, block_mapper, clone_name_hints=clone_name_hints, clone_operands=clone_operands
        )
        copy._kernel = self._kernel
        return copy

    def verify_(self) -> None:
        if self._kernel is None:
            super().verify_()
        elif self._kernel.name != self.sym_name.data or self.function_type != _signature(self._kernel):
            raise VerifyException(f"it holds kernel @{self._kernel.name} of another signature")


def _signature(kernel: Kernel) -> FunctionType:
    ins, outs = [[structured_type(v.shape, v.dtype) for v in vs] for vs in (kernel.arguments, kernel.results)]
    return FunctionType.from_lists(ins, outs)


def kernel_functions(module: ModuleOp) -> dict[str, KernelFunction]:
    """The kernels of a module by name, in order."""
    return {op.sym_name.data: op for op in module.ops if isinstance(op, KernelFunction)}


def recognise_kernels(module: ModuleOp) -> None:
    """Make the functions of a parsed module that are kernels operations that hold these."""
    for function in functions(module):
        if DOMAINS.is_on(function) and function.sym_visibility is not None:
            replace_op(function, KernelFunction.parsed(function), [])


class KernelModule:
    """A module whose kernels are read, replaced and added by name."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.names = {f.sym_name.data for f in functions(module)}
        self._functions = kernel_functions(module)
        self._by_key: dict[Any, Kernel] = {}

    @property
    def kernels(self) -> list[Kernel]:
        """The kernels, in order."""
        return [function.kernel for function in self._functions.values()]

    @property
    def callers(self) -> list[func.FuncOp]:
        """The functions that call kernels."""
        return [f for f in functions(self.module) if f.sym_visibility is None]

    def calls(self, function: func.FuncOp) -> Iterator[tuple[func.CallOp, Kernel]]:
        """The calls of kernels in a function, each with its kernel, in order."""
        for op in list(function.body.block.ops):
            if isinstance(op, func.CallOp) and (kernel := self._functions.get(op.callee.string_value())) is not None:
                yield op, kernel.kernel

    def add(self, kernel: Kernel, before: Kernel | None = None) -> Kernel:
        """Add a kernel, under a name of its own, at the end or before another."""
        named = replace(kernel, name=new_name(kernel.name, self.names))
        function = KernelFunction.of(named)
        if before is None:
            self.module.body.block.add_op(function)
        else:
            Rewriter.insert_op(function, InsertPoint.before(self._functions[before.name]))
        self._functions[named.name] = function
        return named

    def shared(self, kernel: Kernel) -> Kernel:
        """The kernel, which is added, or an equal one that was."""
        key = kernel.key
        if key not in self._by_key:
            self._by_key[key] = self.add(kernel)
        return self._by_key[key]

    def remove(self, kernel: Kernel) -> None:
        """Remove a kernel that nothing calls."""
        self._functions.pop(kernel.name).detach()  # to erase it would first write its operations

    def remove_uncalled(self, candidates: Sequence[Kernel]) -> None:
        """Remove those of some kernels that nothing calls."""
        called = {kernel.name for function in self.callers for _, kernel in self.calls(function)}
        for kernel in candidates:
            if kernel.name in self._functions and kernel.name not in called:
                self.remove(kernel)

    def call(self, kernel: Kernel, operands: Sequence[SSAValue], location: LocationAttr) -> func.CallOp:
        """A call of a kernel, which stands nowhere yet."""
        function = self._functions[kernel.name]
        types = cast("Sequence[Attribute]", function.function_type.outputs.data)
        call = new_op(func.CallOp, operands, types, {"callee": SymbolRefAttr(kernel.name)})
        call.location = location
        return call

    def location(self, kernel: Kernel) -> LocationAttr:
        """The lines of a kernel."""
        return self._functions[kernel.name].location


def insert_before(block: Block, before: Operation) -> None:
    """Insert the operations of a block before another operation."""
    ops = list(block.ops)
    for op in ops:
        op.detach()
    Rewriter.insert_op(ops, InsertPoint.before(before))
