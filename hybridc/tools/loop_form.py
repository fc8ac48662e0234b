"""Modules of loop form (scf, arith, math, memref, vector, func) as LLVM IR, by the builder of the compiler's loops.

The function with the unit attribute ``hybrid.region`` is the parallel region; what it calls is private. The compiler
writes no such modules: they are what ``hybridc-opt`` takes for its target ``llvm-ir``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects import arith, func, math, memref, scf, vector
from xdsl.dialects.builtin import IntegerType, MemRefType, ModuleOp, i1
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from hybridc.dialects.mlir.note import Note
from hybridc.ground.buffers import ALIGNMENT
from hybridc.lower.llvm.codegen.function_text import FunctionText, LLVMValue, ModuleText, constant, type_text
from hybridc.lower.llvm.codegen.instructions import (
    HALF_TYPES,
    Instruction,
    Op,
    Properties,
    fast_math,
    load_at,
    shuffle_lanes,
    splat,
    store_at,
    view_bytes,
    write_operation,
)

REGION = Note.flag("hybrid.region")


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
            if REGION.of(function):
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


# --- instructions of dialects that the compiler does not use ----------------------------------------------------------


def _flat(write: Instruction, pointer: int) -> Instruction:
    """An access to a memref whose pointer is this operand: of rank 1, or of rank 0, which is index 0."""

    def flat(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, properties: Properties) -> LLVMValue | None:
        indices = x[pointer + 1 :] or [LLVMValue("i64", "0")]
        if len(indices) > 1:
            raise PassFailedException(f"a memref of rank {len(indices)} is not flat, expected rank 0 or 1")
        return write(f, [*x[: pointer + 1], *indices], kind, properties)

    return flat


def _alloca(f: FunctionText, _: Sequence[LLVMValue], kind: MemRefType[Any], __: Properties) -> LLVMValue:
    if not kind.has_static_shape():
        raise PassFailedException(f"memref.alloca needs a static shape, got {kind}")
    element = "i8" if kind.element_type == i1 else type_text(kind.element_type)
    return f.cell(f"[{prod(kind.get_shape())} x {element}], align {ALIGNMENT}")


_REDUCE = {
    **{kind: f"llvm.vector.reduce.{kind}" for kind in ("and", "or", "xor")},
    "add": "llvm.vector.reduce.add",
    "mul": "llvm.vector.reduce.mul",
    "minsi": "llvm.vector.reduce.smin",
    "maxsi": "llvm.vector.reduce.smax",
    "minui": "llvm.vector.reduce.umin",
    "maxui": "llvm.vector.reduce.umax",
    "maximumf": "llvm.vector.reduce.fmaximum",
    "minimumf": "llvm.vector.reduce.fminimum",
    "maxnumf": "llvm.vector.reduce.fmax",
    "minnumf": "llvm.vector.reduce.fmin",
}


def _reduction(f: FunctionText, x: Sequence[LLVMValue], kind: Attribute, properties: Properties) -> LLVMValue:
    """A horizontal reduction; sums and products of floats begin with the accumulator."""
    name, type_ = cast("Any", properties["kind"]).data.value, type_text(kind)
    if type(kind) is IntegerType or name not in ("add", "mul"):
        if len(x) > 1:
            text = f"vector.reduction <{name}> of {x[0].type} with an accumulator has no LLVM intrinsic"
            raise PassFailedException(text)
        return f.intrinsic(_REDUCE[name], x, type_, fast_math(properties))
    start = x[1] if len(x) > 1 else constant(0.0 if name == "add" else 1.0, type_)
    return f.intrinsic(f"llvm.vector.reduce.f{name}", (start, x[0]), type_, fast_math(properties), overload=1)


_INSTRUCTIONS: dict[type[Operation], Op] = {
    memref.LoadOp: _flat(load_at, 0),
    memref.StoreOp: _flat(store_at, 1),
    memref.ViewOp: view_bytes,
    memref.AllocaOp: _alloca,
    vector.LoadOp: _flat(load_at, 0),
    vector.StoreOp: _flat(store_at, 1),
    vector.BroadcastOp: splat,
    vector.ShuffleOp: shuffle_lanes,
    vector.BitcastOp: arith.BitcastOp,
    vector.FMAOp: math.FmaOp,
    vector.ReductionOp: _reduction,
}


# --- blocks -----------------------------------------------------------------------------------------------------------


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
        instruction = _INSTRUCTIONS.get(type(op), type(op))
        value = write_operation(self.f, instruction, self._of(op.operands), kind, op.properties)
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
        with self.f.count_up(lower, upper, step, starts) as (index, loop):
            loop.next = self.write(op.body.block, (index, *loop.carried))
        self._put(op.results, loop.carried)

    def if_(self, op: scf.IfOp) -> None:
        """A choice."""
        then, *other = [region.block for region in op.regions if region.blocks]
        otherwise = (lambda: self.write(other[0])) if other else None
        self._put(op.results, self.f.choice(self._values[op.cond], lambda: self.write(then), otherwise))

    def while_(self, op: scf.WhileOp) -> None:
        """A loop until a condition fails."""
        with self.f.repeat(self._of(op.arguments)) as loop:
            condition, *passed = self.write(op.before_region.block, loop.carried)
            loop.leave_unless(condition)
            loop.next = self.write(op.after_region.block, passed)
        self._put(op.results, passed)

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
