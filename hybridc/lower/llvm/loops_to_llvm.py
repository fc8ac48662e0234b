"""Loops over memory become xDSL's llvm dialect: each function is rebuilt once, front to back.

The *phase* (the function with the unit attribute ``hybrid.phase``) takes memrefs, then scalars, then the range
``lo, hi`` and its thread's scratch memory. It becomes two functions: ``phase.body`` with the same arguments, of which
no two pointers overlap, and the exported ``phase(buffers, numbers, lo, hi, scratch)``, which reads the pointers and the
8-byte cells of the numbers and calls it. Every native function has this shape, so one executor runs them all.

``index`` is i64 and never wraps. A truth value is a byte in memory. Addresses are one index into a pointer.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func, llvm
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, UnitAttr, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from hybridc.lower.llvm.loops_to_llvm_ops import RULES
from hybridc.lower.llvm.rebuild import POINTER, Rebuild, native_type

PHASE = "phase"
PHASE_ATTRIBUTE = "hybrid.phase"

_VOID = llvm.LLVMVoidType()
_ABI = llvm.LLVMFunctionType([POINTER, POINTER, i64, i64, POINTER], _VOID)
_EXTERNAL, _INTERNAL = llvm.LinkageAttr("external"), llvm.LinkageAttr("internal")


@dataclass(frozen=True)
class LoopsToLLVM(ModulePass):
    """Functions of scf, arith, math, memref and vector become functions of the llvm dialect."""

    name = "loops-to-llvm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in [f for f in op.ops if isinstance(f, func.FuncOp)]:
            for made in _function(function):
                op.body.block.insert_op_before(made, function)
            function.detach()
            function.erase()


def _function(function: func.FuncOp) -> list[llvm.FuncOp]:
    """What a function becomes: itself, and for a phase also the function that is called from outside."""
    name = function.sym_name.data
    inputs = [native_type(t) for t in function.function_type.inputs]
    outputs = [native_type(t) for t in function.function_type.outputs]
    if len(outputs) > 1:
        raise PassFailedException(f"function {name} has {len(outputs)} results; native functions have at most one")
    kind = llvm.LLVMFunctionType(inputs, outputs[0] if outputs else _VOID)
    if not function.body.blocks:
        return [llvm.FuncOp(name, kind, linkage=_EXTERNAL)]
    body = Rebuild(RULES).run(function.body.block, inputs)
    if PHASE_ATTRIBUTE not in function.attributes:
        return [_private(name, kind, body, "alwaysinline")]
    made = _private(f"{PHASE}.body", kind, body, "noinline")
    alone = DictionaryAttr({"llvm.noalias": UnitAttr()})
    made.properties["arg_attrs"] = ArrayAttr([alone if t == POINTER else DictionaryAttr({}) for t in inputs])
    return [made, _entry(kind)]


def _private(name: str, kind: llvm.LLVMFunctionType, body: Region, inlining: str) -> llvm.FuncOp:
    made = llvm.FuncOp(name, kind, linkage=_INTERNAL, body=body)
    made.properties["passthrough"] = ArrayAttr([StringAttr(inlining), StringAttr("nounwind")])
    return made


def _entry(kind: llvm.LLVMFunctionType) -> llvm.FuncOp:
    """The function with the shape of all: it takes pointers and numbers out of their tables."""
    block = Block(arg_types=_ABI.inputs.data)
    buffers, numbers, lo, hi, scratch = block.args
    *given, _, _, _ = kind.inputs.data
    count = sum(t == POINTER for t in given)
    build = Rebuild(RULES, block)
    arguments: list[SSAValue] = []
    for i, t in enumerate(given):
        table, cell = (buffers, i) if i < count else (numbers, i - count)
        arguments.append(build.load(build.address(table, build.integer(cell), i64), t))
    build.call(f"{PHASE}.body", (*arguments, lo, hi, scratch), ())
    build.add(llvm.ReturnOp, (), ())
    return llvm.FuncOp(PHASE, _ABI, linkage=_EXTERNAL, body=Region([block]))
