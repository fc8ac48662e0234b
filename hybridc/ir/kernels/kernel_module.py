"""The kernels of a module as data, and the functions that call them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects import func
from xdsl.dialects.builtin import LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.kernels.kernel_text import function_of, kernel_of
from hybridc.ir.structured import is_host, kernels
from hybridc.ir.values import functions, new_name


class KernelModule:
    """A module whose kernels are read, replaced and added by name."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.names = {f.sym_name.data for f in functions(module)}
        self._functions = {name: f for name, f in kernels(module).items() if not is_host(f)}
        self.kernels = {name: kernel_of(f) for name, f in self._functions.items()}
        self._by_key: dict[Any, Kernel] = {}

    @property
    def callers(self) -> list[func.FuncOp]:
        """The functions that call kernels."""
        return [f for f in functions(self.module) if f.sym_visibility is None]

    def calls(self, function: func.FuncOp) -> Iterator[tuple[func.CallOp, Kernel]]:
        """The calls of kernels in a function, each with its kernel, in order."""
        for op in list(function.body.block.ops):
            if isinstance(op, func.CallOp) and (kernel := self.kernels.get(op.callee.string_value())) is not None:
                yield op, kernel

    def add(self, kernel: Kernel, before: Kernel | None = None) -> Kernel:
        """Add a kernel, under a name of its own, at the end or before another."""
        named = replace(kernel, name=new_name(kernel.name, self.names))
        function = function_of(named)
        if before is None:
            self.module.body.block.add_op(function)
        else:
            Rewriter.insert_op(function, InsertPoint.before(self._functions[before.name]))
        self.kernels[named.name], self._functions[named.name] = named, function
        return named

    def shared(self, kernel: Kernel) -> Kernel:
        """The kernel, which is added, or an equal one that was."""
        key = kernel.key
        if key not in self._by_key:
            self._by_key[key] = self.add(kernel)
        return self._by_key[key]

    def remove(self, kernel: Kernel) -> None:
        """Remove a kernel that nothing calls."""
        del self.kernels[kernel.name]
        Rewriter.erase_op(self._functions.pop(kernel.name))

    def remove_uncalled(self, candidates: Sequence[Kernel]) -> None:
        """Remove those of some kernels that nothing calls."""
        called = {kernel.name for function in self.callers for _, kernel in self.calls(function)}
        for kernel in candidates:
            if kernel.name in self.kernels and kernel.name not in called:
                self.remove(kernel)

    def call(self, kernel: Kernel, operands: Sequence[SSAValue], location: LocationAttr) -> func.CallOp:
        """A call of a kernel, which stands nowhere yet."""
        function = self._functions[kernel.name]
        types = cast("Sequence[Attribute]", function.function_type.outputs.data)
        call = func.CallOp(kernel.name, list(operands), types)
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
