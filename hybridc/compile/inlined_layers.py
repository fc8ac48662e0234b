"""The kernels of equal layers: formed once, and called where each layer stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from hybridc.dialects.body import Body
from hybridc.dialects.control.layer import EqualLayer
from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.ir.kernels.kernel_module import KernelModule, kernel_functions
from hybridc.ir.structured import operator_of
from hybridc.ir.values import functions, new_name

# Forms the kernels of a graph, some of whose inputs are parameters, for inputs like these.
Form = Callable[[Body, Sequence[int], Sequence[SSAValue]], ModuleOp]


def inline_layers(module: ModuleOp, form: Form) -> bool:
    """Put the calls of kernels of each layer of a graph in the place of its call; whether there are layers."""
    declared = {f.sym_name.data: f for f in functions(module) if OPERATOR.of(f) == EqualLayer.NAME}
    if not declared:
        return False
    into, formed = KernelModule(module), dict[Any, _Layer]()
    for function in into.callers:
        for call in [op for op in function.body.block.ops if isinstance(op, func.CallOp)]:
            declaration = declared.get(call.callee.string_value())
            if declaration is None:
                continue
            operator = operator_of(declaration)
            assert isinstance(operator, EqualLayer)
            key = (operator.graph, operator.fixed, *[v.type for v in call.operands])
            if key not in formed:
                formed[key] = _Layer(form(operator.graph, operator.fixed, call.operands))
            formed[key].inline(call, into)
    for declaration in declared.values():
        erase_op(declaration)
    return True


class _Layer:
    """A layer whose kernels are formed."""

    def __init__(self, module: ModuleOp) -> None:
        self.kernels = kernel_functions(module)
        self.hosts = {f.sym_name.data: f for f in functions(module) if f.sym_name.data not in self.kernels}
        self.forward = self.hosts.pop("forward")
        self.names: dict[str, str] = {}  # of host functions, in the network

    def inline(self, call: func.CallOp, into: KernelModule) -> None:
        """Call its kernels before a call of it, and let what follows read their results."""
        *ops, end = self.forward.body.block.ops
        block = call.parent
        assert block is not None
        of: dict[SSAValue, SSAValue] = dict(zip(self.forward.body.block.args, call.operands, strict=True))
        for op in ops:
            copy = self._copy(op, of, into)
            of.update(zip(op.results, copy.results, strict=True))
            block.insert_op_before(copy, call)
        for result, value in zip(call.results, end.operands, strict=True):
            result.replace_all_uses_with(of[value])
        erase_op(call)

    def _copy(self, op: Operation, of: dict[SSAValue, SSAValue], into: KernelModule) -> Operation:
        """An operation of the layer, for other values."""
        if not isinstance(op, func.CallOp):
            copy = op.clone(of)
            copy.location = op.location
            return copy
        name = op.callee.string_value()
        if name in self.kernels:
            kernel = into.shared(self.kernels[name].kernel)
            return into.call(kernel, [of[v] for v in op.operands], op.location)
        copy = op.clone(of)
        copy.location, copy.callee = op.location, SymbolRefAttr(self._host(name, into))
        return copy

    def _host(self, name: str, into: KernelModule) -> str:
        """The name in the network of a function that the host computes."""
        if name not in self.names:
            declaration = self.hosts[name].clone()
            self.names[name] = new_name(name, into.names)
            declaration.properties["sym_name"] = type(declaration.sym_name)(self.names[name])
            into.module.body.block.add_op(declaration)
        return self.names[name]
