"""The LLVM IR of each operation of the llvm dialect: a line, or nothing if it is printed inline."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects import llvm
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, IntegerAttr
from xdsl.dialects.utils import FastMathAttrBase
from xdsl.ir import Operation
from xdsl.utils.exceptions import LLVMTranslationException

from hybridc.lower.llvm.codegen.intrinsics import mangled
from hybridc.lower.llvm.codegen.llvm_ir_values import constant_text, type_text
from hybridc.lower.llvm.codegen.llvm_ops import LOOP, ROUNDS, FPToSIOp, UIToFPOp

if TYPE_CHECKING:
    from hybridc.lower.llvm.codegen.llvm_ir import LLVMFunction

Write = Callable[["LLVMFunction", Any], str | None]


def _fast(op: Operation) -> str:
    flags = op.properties.get("fastmathFlags")
    return "" if flags is None else _flags(cast(FastMathAttrBase, flags))


@functools.lru_cache(64)
def _flags(flags: FastMathAttrBase) -> str:
    return "fast " if len(flags.data) == 7 else "".join(f"{f.value} " for f in flags.data)


def _wraps(op: Operation) -> str:
    flags = op.properties.get("overflowFlags")
    if isinstance(flags, IntegerAttr):
        flags = llvm.OverflowAttr.from_int(flags.value.data)
    return "" if flags is None else "".join(f"{f.value} " for f in cast(llvm.OverflowAttr, flags).data)


def _binary(name: str, flags: Callable[[Any], str]) -> Write:
    def write(f: LLVMFunction, op: Operation) -> str:
        left, right = op.operands
        return f"{f.result(op)}{name} {flags(op)}{f.typed[left]}, {f.names[right]}"

    return write


def _convert(name: str, flags: Callable[[Any], str]) -> Write:
    def write(f: LLVMFunction, op: Operation) -> str:
        return f"{f.result(op)}{name} {flags(op)}{f.typed[op.operands[0]]} to {type_text(op.results[0].type)}"

    return write


def _intrinsic(name: str) -> Write:
    """A call of an intrinsic, mangled with the type of the last operand."""

    def write(f: LLVMFunction, op: Operation) -> str:
        full = mangled(name, op.operands[-1].type)
        _declare(f, full, op)
        return f.call(op, full, op.operands, _fast(op))

    return write


def _declare(f: LLVMFunction, name: str, op: Operation) -> None:
    if name not in f.module.text.declarations:
        kind = type_text(op.results[0].type) if op.results else "void"
        f.module.text.declarations[name] = (
            f"declare {kind} @{name}({', '.join(type_text(v.type) for v in op.operands)})"
        )


def _call_intrinsic(f: LLVMFunction, op: llvm.CallIntrinsicOp) -> str:
    _declare(f, op.intrin.data, op)
    return f.call(op, op.intrin.data, op.operands, _fast(op))


def _call(f: LLVMFunction, op: llvm.CallOp) -> str:
    if op.callee is None:
        raise LLVMTranslationException(f"{op.name} must name its callee; indirect calls are not supported")
    kind = op.results[0].type if op.results else None
    return f.call(op, f.module.name(op.callee.string_value()), op.args, _fast(op) if type(kind) in _FLOATS else "")


_FLOATS = (Float16Type, BFloat16Type, Float32Type, Float64Type)


def _icmp(f: LLVMFunction, op: llvm.ICmpOp) -> str:
    predicate = llvm.ICmpPredicateFlag.from_int(op.predicate.value.data).value
    return f"{f.result(op)}icmp {predicate} {f.typed[op.lhs]}, {f.names[op.rhs]}"


def _fcmp(f: LLVMFunction, op: llvm.FCmpOp) -> str:
    predicate = llvm.FCmpPredicateFlag.from_int(op.predicate.value.data).value.removeprefix("_")
    return f"{f.result(op)}fcmp {_fast(op)}{predicate} {f.typed[op.lhs]}, {f.names[op.rhs]}"


def _negative(f: LLVMFunction, op: llvm.FNegOp) -> str:
    return f"{f.result(op)}fneg {_fast(op)}{f.typed[op.arg]}"


def _select(f: LLVMFunction, op: llvm.SelectOp) -> str:
    return f"{f.result(op)}select {', '.join(f.typed[v] for v in op.operands)}"


def _alloca(f: LLVMFunction, op: llvm.AllocaOp) -> str:
    return f"{f.result(op)}alloca {type_text(op.elem_type)}, {f.typed[op.size]}{_alignment(op)}"


def _load(f: LLVMFunction, op: llvm.LoadOp) -> str:
    kind = type_text(op.results[0].type)
    return f"{f.result(op)}load {kind}, {f.typed[op.operands[0]]}{_alignment(op)}"


def _store(f: LLVMFunction, op: llvm.StoreOp) -> str:
    value, place = op.operands
    return f"  store {f.typed[value]}, {f.typed[place]}{_alignment(op)}"


def _alignment(op: Operation) -> str:
    given = op.properties.get("alignment")
    return f", align {given.value.data}" if isinstance(given, IntegerAttr) else ""


def _address(f: LLVMFunction, op: llvm.GEPOp) -> str:
    base, *indices = op.operands
    known = iter(indices)
    places = [
        f.typed[next(known)] if i == llvm.GEP_USE_SSA_VAL else f"i32 {i}" for i in op.rawConstantIndices.iter_values()
    ]
    inside = "inbounds " if "inbounds" in op.properties else ""
    return f"{f.result(op)}getelementptr {inside}{type_text(op.elem_type)}, {f.typed[base]}, {', '.join(places)}"


def _extract_value(f: LLVMFunction, op: llvm.ExtractValueOp) -> str:
    return f"{f.result(op)}extractvalue {f.typed[op.container]}, {', '.join(map(str, op.position.iter_values()))}"


def _insert_value(f: LLVMFunction, op: llvm.InsertValueOp) -> str:
    place = ", ".join(map(str, op.position.iter_values()))
    return f"{f.result(op)}insertvalue {f.typed[op.container]}, {f.typed[op.value]}, {place}"


def _insert_element(f: LLVMFunction, op: llvm.InsertElementOp) -> str:
    return f"{f.result(op)}insertelement {f.typed[op.vector]}, {f.typed[op.value]}, {f.typed[op.index]}"


def _shuffle(f: LLVMFunction, op: llvm.ShuffleVectorOp) -> str:
    mask = [int(i) for i in op.mask.get_values()]
    places = ", ".join(f"i32 {i}" for i in mask)
    return f"{f.result(op)}shufflevector {f.typed[op.v1]}, {f.typed[op.v2]}, <{len(mask)} x i32> <{places}>"


def _jump(f: LLVMFunction, op: llvm.BrOp) -> str:
    loop = op.attributes.get(LOOP)
    hint = f", !llvm.loop {f.module.text.loop(loop, op.attributes.get(ROUNDS))}" if loop is not None else ""
    return f"  br label %{f.blocks[op.successor]}{hint}"


def _branch(f: LLVMFunction, op: llvm.CondBrOp) -> str:
    return f"  br {f.typed[op.cond]}, label %{f.blocks[op.then_block]}, label %{f.blocks[op.else_block]}"


def _return(f: LLVMFunction, op: llvm.ReturnOp) -> str:
    return f"  ret {f.typed[op.operands[0]]}" if op.operands else "  ret void"


def _unreachable(f: LLVMFunction, op: llvm.UnreachableOp) -> str:  # noqa: ARG001 - the interface of every writer
    return "  unreachable"


def _nothing(f: LLVMFunction, op: Operation) -> None:  # noqa: ARG001 - the interface of every writer
    return None


def _exact(op: Any) -> str:
    return "exact " if op.is_exact is not None else ""


def _disjoint(op: llvm.OrOp) -> str:
    return "disjoint " if op.is_disjoint is not None else ""


def _sign_known(op: llvm.ZExtOp) -> str:
    return "nneg " if op.non_neg is not None else ""


def _no_flags(op: Operation) -> str:  # noqa: ARG001 - the interface of flags
    return ""


def _short(kind: type[Operation]) -> str:
    """LLVM's mnemonic of an operation."""
    return kind.name.removeprefix("llvm.").removeprefix("intr.")


# Operations without a line of their own, which are printed inline.
CONSTANTS: dict[type[Operation], Callable[[Any], str]] = {
    llvm.ConstantOp: lambda op: constant_text(op.properties["value"], op.results[0].type),
    llvm.UndefOp: lambda _: "undef",
    llvm.ZeroOp: lambda _: "zeroinitializer",
    llvm.AddressOfOp: lambda op: f"@{op.global_name.string_value()}",
}

WRITE: dict[type[Operation], Write] = {
    **{k: _binary(_short(k), _fast) for k in (llvm.FAddOp, llvm.FSubOp, llvm.FMulOp, llvm.FDivOp, llvm.FRemOp)},
    **{k: _binary(_short(k), _wraps) for k in (llvm.AddOp, llvm.SubOp, llvm.MulOp, llvm.ShlOp)},
    **{k: _binary(_short(k), _exact) for k in (llvm.UDivOp, llvm.SDivOp, llvm.LShrOp, llvm.AShrOp)},
    **{k: _binary(_short(k), _no_flags) for k in (llvm.URemOp, llvm.SRemOp, llvm.AndOp, llvm.XOrOp)},
    llvm.OrOp: _binary("or", _disjoint),
    **{
        k: _convert(_short(k), _no_flags)
        for k in (
            *(llvm.SExtOp, llvm.BitcastOp, llvm.FPExtOp, llvm.FPTruncOp, llvm.SIToFPOp, llvm.PtrToIntOp),
            *(llvm.IntToPtrOp, UIToFPOp, FPToSIOp),
        )
    },
    llvm.TruncOp: _convert("trunc", _wraps),
    llvm.ZExtOp: _convert("zext", _sign_known),
    **{
        k: _intrinsic(f"llvm.{_short(k)}")
        for k in (
            *(llvm.FAbsOp, llvm.FCeilOp, llvm.FSqrtOp, llvm.FFloorOp, llvm.FCopySignOp, llvm.FMAOp),
            *(llvm.VectorFMaxOp, llvm.VectorFMinOp, llvm.VectorReduceFAddOp, llvm.VectorReduceFMulOp),
        )
    },
    llvm.CallIntrinsicOp: _call_intrinsic,
    llvm.CallOp: _call,
    llvm.ICmpOp: _icmp,
    llvm.FCmpOp: _fcmp,
    llvm.FNegOp: _negative,
    llvm.SelectOp: _select,
    llvm.AllocaOp: _alloca,
    llvm.LoadOp: _load,
    llvm.StoreOp: _store,
    llvm.GEPOp: _address,
    llvm.ExtractValueOp: _extract_value,
    llvm.InsertValueOp: _insert_value,
    llvm.InsertElementOp: _insert_element,
    llvm.ShuffleVectorOp: _shuffle,
    llvm.BrOp: _jump,
    llvm.CondBrOp: _branch,
    llvm.ReturnOp: _return,
    llvm.UnreachableOp: _unreachable,
    **dict.fromkeys(CONSTANTS, _nothing),
}
