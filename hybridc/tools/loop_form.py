"""Modules of loop form (scf, arith, math, memref, vector, func) as LLVM IR, by the builder of the compiler's loops.

The function with the unit attribute ``hybrid.region`` is the parallel region; what it calls is private. The compiler
writes no such modules: they are what ``hybridc-opt`` takes for its target ``llvm-ir``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from hybridc.lower.llvm.codegen.function_text import FunctionText, LLVMValue, ModuleText, type_text
from hybridc.lower.llvm.codegen.instructions import HALF_TYPES, write_operation

REGION_ATTRIBUTE = "hybrid.region"


def loop_form(make: Callable[[], ModuleOp]) -> Callable[[ModuleText, str], None]:
    """The builder of a native function from a module of loop form."""
    return lambda text, symbol: _Functions(make(), text).write(symbol)


class _Functions:
    """The functions of a module of loops; each is written before what calls it."""

    def __init__(self, module: ModuleOp, text: ModuleText) -> None:
        self._text = text
        self._functions = {op.sym_name.data: op for op in module.ops if isinstance(op, func.FuncOp)}
        self._symbols: dict[str, str] = {}
        others = [op.name for op in module.ops if not isinstance(op, func.FuncOp)]
        if others:
            raise PassFailedException(f"a module of loops holds functions only, got {others[0]}")

    def write(self, symbol: str) -> None:
        """Write the parallel region under a symbol, and all that it calls."""
        for function in self._functions.values():
            if REGION_ATTRIBUTE in function.attributes:
                self._text.write_region(self._body(function), symbol)

    def _symbol(self, name: str) -> str:
        """The symbol of a function, which is written on first use."""
        symbol = self._symbols.get(name)
        if symbol is None:
            symbol = self._symbols[name] = self._private(name, self._functions[name])
        return symbol

    def _private(self, name: str, function: func.FuncOp) -> str:
        outputs = [type_text(t) for t in function.function_type.outputs]
        if len(outputs) > 1:
            raise PassFailedException(f"function {name} has {len(outputs)} results; native functions have at most one")
        result = outputs[0] if outputs else "void"
        if not function.body.blocks:
            self._text.declare(name, result, [type_text(t) for t in function.function_type.inputs])
            return name
        f = self._body(function)
        return self._text.add(name, self._text.head("internal ", result, name, f, " alwaysinline nounwind"), f.body())

    def _body(self, function: func.FuncOp) -> FunctionText:
        block = function.body.block
        f = FunctionText(self._text, [type_text(a.type) for a in block.args])
        _BlockWriter(f, self._symbol).write(block, f.arguments)
        return f


class _BlockWriter:
    """Writes blocks: control flow by methods, all else by the compiler's instructions."""

    def __init__(self, f: FunctionText, symbol: Callable[[str], str]) -> None:
        self.f = f
        self._values: dict[SSAValue, LLVMValue] = {}
        self._symbol = symbol  # of a function

    def write(self, block: Block, arguments: Sequence[LLVMValue] = ()) -> list[LLVMValue]:
        """Write the operations of a block; its yielded values."""
        self._put(block.args, arguments)
        for op in block.ops:
            if isinstance(op, scf.YieldOp | scf.ConditionOp):
                return self._of(op.operands)
            control = _CONTROL.get(type(op))
            if control is not None:
                control(self, op)
            else:
                self._operation(op)
        return []

    def _operation(self, op: Operation) -> None:
        kind = op.results[0].type if op.results else None
        value = write_operation(self.f, type(op), self._of(op.operands), kind, op.properties)
        if value is not None:
            self._values[op.results[0]] = value

    def _put(self, names: Iterable[SSAValue], values: Iterable[LLVMValue]) -> None:
        """Note the values of SSA values."""
        for ssa, value in zip(names, values, strict=True):
            self._values[ssa] = value
            if type(ssa.type) in HALF_TYPES:
                self.f.kinds[value] = ssa.type

    def _of(self, values: Iterable[SSAValue]) -> list[LLVMValue]:
        return [self._values[v] for v in values]

    def for_(self, op: scf.ForOp) -> None:
        """A loop."""
        lower, upper, step, *starts = self._of(op.operands)
        self._put(
            op.results,
            self.f.loop(lower, upper, step, lambda index, ends: self.write(op.body.block, (index, *ends)), starts),
        )

    def if_(self, op: scf.IfOp) -> None:
        """A choice."""
        then, *other = [region.block for region in op.regions if region.blocks]
        otherwise = (lambda: self.write(other[0])) if other else None
        self._put(op.results, self.f.choice(self._values[op.cond], lambda: self.write(then), otherwise))

    def while_(self, op: scf.WhileOp) -> None:
        """A loop until a condition fails."""
        before, after = op.before_region.block, op.after_region.block

        def condition(carried: list[LLVMValue]) -> tuple[LLVMValue, list[LLVMValue]]:
            goes_on, *passed = self.write(before, carried)
            return goes_on, passed

        values = self.f.repeat(self._of(op.arguments), condition, lambda passed: self.write(after, passed))
        self._put(op.results, values)

    def call(self, op: func.CallOp) -> None:
        """A call of a function of the module."""
        result = type_text(op.results[0].type) if op.results else "void"
        value = self.f.call(self._symbol(op.callee.string_value()), self._of(op.arguments), result)
        self._put(op.results, [value] * len(op.results))
        self.f.facts.numbers += len(op.results)

    def return_(self, op: func.ReturnOp) -> None:
        """The end of a function."""
        self.f.write(f"ret {self._values[op.operands[0]].typed}" if op.operands else "ret void")


_CONTROL: dict[type[Operation], Callable[[_BlockWriter, Any], None]] = {
    scf.ForOp: _BlockWriter.for_,
    scf.IfOp: _BlockWriter.if_,
    scf.WhileOp: _BlockWriter.while_,
    func.CallOp: _BlockWriter.call,
    func.ReturnOp: _BlockWriter.return_,
}
