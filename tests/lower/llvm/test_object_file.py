"""What an object calls is read from it, in each format; code generation calls what no LLVM IR names."""

from __future__ import annotations

import pytest
from llvmlite import binding

import hybridc as mx
from hybridc.compile.stages import Traced
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.object_file import undefined_symbols
from hybridc.trace.tracer import trace_call
from tests.lower.llvm.test_processor import LEVELS, choose, x86

TEXT = """
target triple = "{0}"
@hybridc_test_number = external global i32
@hybridc_test_own = global i32 3
declare i64 @hybridc_test_other_with_a_long_name(i64)
declare i64 @short(i64)
declare i64 @hybridc_test_unused(i64)
define internal i64 @inner(i64 %x) noinline {{
  %y = call i64 @short(i64 %x)
  ret i64 %y
}}
define bfloat @brain(float %x) {{
  %y = fptrunc float %x to bfloat
  ret bfloat %y
}}
define i64 @other(i64 %x) {{
  %n = load i32, ptr @hybridc_test_number
  %m = load i32, ptr @hybridc_test_own
  %k = add i32 %n, %m
  %w = zext i32 %k to i64
  %y = call i64 @hybridc_test_other_with_a_long_name(i64 %w)
  %z = call i64 @inner(i64 %y)
  ret i64 %z
}}
"""


@x86
@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "x86_64-apple-macosx14.0", "x86_64-pc-windows-msvc"])
def test_what_an_object_refers_to(triple):
    machine = binding.Target.from_triple(triple).create_target_machine(cpu="x86-64", reloc="pic", codemodel="small")
    found = undefined_symbols(machine.emit_object(binding.parse_assembly(TEXT.format(triple))))
    assert found == ("__truncsfbf2", "hybridc_test_number", "hybridc_test_other_with_a_long_name", "short")


def test_other_bytes_are_an_error():
    with pytest.raises(ValueError, match="no object file of ELF, Mach-O or COFF begins with 7061"):
        undefined_symbols(b"part of something else that is long enough")


def test_what_code_generation_calls_is_asked_for_before_code_is_loaded():
    """A float of 128 bits takes a function of the compiler's library, which no process need have."""
    text = "define fp128 @f(fp128 %x, fp128 %y) { %z = fdiv fp128 %x, %y ret fp128 %z }"
    made = codegen.object_of(text)
    assert made.needs == ("__divtf3",)
    if not codegen.resolves("__divtf3"):
        with pytest.raises(LookupError, match="undefined symbols __divtf3 in native functions"):
            codegen._place([made], [])


def short(F, x, y, z):
    """One element for all, a choice, a largest element, casts: values that live longer than a round of a loop."""
    wide = F.broadcast_mul(F.reshape(y, (1, 1)), x)
    casts = [F.cast(x, d) for d in ("float64", "float16", "bfloat16", "int32")]
    back = [F.cast(c, x.dtype) for c in casts]
    return F.broadcast_to(F.reshape(y, (1,)), (5,)), F.where(z > 0, x, wide), F.max(x, axis=0), *casts, *back


@x86
@pytest.mark.parametrize(
    ("level", "dtype"),
    [(level, dtype) for level in LEVELS for dtype in ("bfloat16", "float16")],
)
def test_short_floats_call_nothing(monkeypatch, level, dtype):
    """Conversions are written out, or part of the object."""
    choose(monkeypatch, level)
    arrays = [mx.nd.ones(shape, dtype=dtype) for shape in ((4, 6), (1,), (4, 6))]
    made = Traced(trace_call(HybridLambda(short), arrays, training=False), (0, 1)).optimize().lower("llvm")
    called: set[str] = set()
    for program in made.programs.values():
        for function in dict.fromkeys(program.functions_called()):
            called |= {*codegen.object_of(codegen.llvm_text([function])).needs}
    assert called <= {"memset", "memcpy", "fmaf", "fma"}
