"""Modules of loop form (scf, arith, math, memref, vector, func) as LLVM IR, each function in one walk.

The function with the unit attribute ``hybrid.region`` is the parallel region; what it calls is private.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from hybridc.lower.llvm.codegen.function_text import FunctionText, ModuleText, type_text
from hybridc.lower.llvm.codegen.instructions import BlockWriter

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
        BlockWriter(f, dict(zip(block.args, f.arguments, strict=True)), self._symbol).write(block)
        return f
