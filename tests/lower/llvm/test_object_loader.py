"""Objects are loaded without LLVM: their code computes what it does in LLVM's engine, and its memory is given back."""

from __future__ import annotations

import ctypes
import math
import struct
import uuid
from pathlib import Path

import numpy as np
import pytest

from hybridc.errors import LimitError
from hybridc.lower.llvm.codegen import llvm_c, object_loader
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.lower.llvm.codegen.object_file import ElfObject
from hybridc.lower.llvm.codegen.object_loader import LoadedObjects
from hybridc.tools.loop_form import loop_form
from tests.lower.llvm.loops import elementwise
from tests.lower.llvm.native import parse

pytestmark = pytest.mark.skipif(not object_loader.runs_here(), reason="they are of Linux and x86-64")


def compiled(*texts):
    return [codegen.object_of(text).code for text in texts]


@pytest.fixture(params=[LoadedObjects, llvm_c.Engine], ids=["own", "LLVM"])
def load(request):
    """Loads the objects of texts, by this loader and by LLVM's, which is the oracle."""
    engines = []

    def load(*texts):
        engines.append(request.param(compiled(*texts)))
        return engines[-1]

    yield load
    for engine in engines:
        engine.close()


def function(engine, name, result=ctypes.c_int64, *arguments):
    return ctypes.CFUNCTYPE(result, *arguments)(engine.address(name))


def integers(engine, name):
    return function(engine, name, ctypes.c_int64, ctypes.c_int64)


def relocations(code):
    """The place of each relocation in a file, the section that it concerns, and its number."""
    elf = ElfObject.of(code)
    return [
        (at, elf.sections[table.info], struct.unpack_from("<I", code, at + 8)[0])
        for table in elf.sections
        if table.kind == 4
        for at in range(table.offset, table.offset + table.size, 24)
    ]


def patched(text, kind, other):
    """The object of a text whose relocations of one kind are of another."""
    (code,) = compiled(text)
    places = [at for at, _, number in relocations(code) if number == kind]
    assert places
    changed = bytearray(code)
    for at in places:
        struct.pack_into("<I", changed, at + 8, other)
    return bytes(changed)


def maps():
    return Path("/proc/self/maps").read_text().splitlines()


def permissions(address):
    """What may be done with the memory at an address, as ``r-xp``."""
    for line in maps():
        span, may, *_ = line.split()
        first, end = (int(x, 16) for x in span.split("-"))
        if first <= address < end:
            return may
    return None


# --- what code refers to ------------------------------------------------------------------------------------------

POOLS = """
define void @f(ptr %p) {
  %x = load <4 x double>, ptr %p, align 8
  %a = fmul <4 x double> %x, <double 1.5, double 2.5, double 3.5, double 4.5>
  %b = fadd <4 x double> %a, <double 0.1, double 0.1, double 0.1, double 0.1>
  store <4 x double> %b, ptr %p, align 8
  ret void
}
define float @g(float %x) {
  %y = fmul float %x, 0x3FD5555560000000
  ret float %y
}
"""


def test_pools_of_constants(load):
    engine = load(POOLS)
    x = np.array([1.0, -2.0, 3.0, 1e300])
    function(engine, "f", None, ctypes.c_void_p)(x.ctypes.data)
    np.testing.assert_array_equal(x, np.array([1.0, -2.0, 3.0, 1e300]) * [1.5, 2.5, 3.5, 4.5] + 0.1)
    assert function(engine, "g", ctypes.c_float, ctypes.c_float)(3.0) == 1.0


SWITCH = """
define i64 @f(i64 %x) {
  switch i64 %x, label %no [i64 0, label %a i64 1, label %b i64 2, label %c i64 3, label %d i64 4, label %e]
a: %i = call i64 @hybridc_test_next(i64 10) br label %end
b: %j = call i64 @hybridc_test_next(i64 21) %q = mul i64 %j, %j br label %end
c: %r = sdiv i64 777, %x br label %end
d: %k = call i64 @hybridc_test_next(i64 43) %s = xor i64 %k, 5 br label %end
e: %l = call i64 @hybridc_test_next(i64 %x) %t = srem i64 1000, %l br label %end
no: br label %end
end: %y = phi i64 [%i, %a], [%q, %b], [%r, %c], [%s, %d], [%t, %e], [-1, %no] ret i64 %y
}
"""
NEXT = "declare i64 @hybridc_test_next(i64)\n"
NEXT_ITSELF = "define i64 @hybridc_test_next(i64 %x) { %y = add i64 %x, 1 ret i64 %y }\n"


def test_a_table_of_jumps_and_calls_of_another_object(load):
    (code,) = compiled(NEXT + SWITCH)
    assert any(not section.flags & 4 for _, section, _ in relocations(code))  # of data: the table
    for texts in ((NEXT + SWITCH, NEXT_ITSELF), (NEXT_ITSELF, NEXT + SWITCH)):
        f = integers(load(*texts), "f")
        assert [f(i) for i in range(-1, 6)] == [-1, 11, 22 * 22, 388, 44 ^ 5, 0, -1]


CUBE_ROOT = """
declare double @cbrt(double)
declare ptr @memset(ptr, i32, i64)
define double @f(double %x) { %y = call double @cbrt(double %x) ret double %y }
define void @g(ptr %p, i64 %n) { %r = call ptr @memset(ptr %p, i32 7, i64 %n) ret void }
define ptr @h() { ret ptr @cbrt }
"""


def test_functions_of_the_c_library(load):
    """They are further away than a displacement of 32 bits reaches, as a rule."""
    engine = load(CUBE_ROOT)
    f = function(engine, "f", ctypes.c_double, ctypes.c_double)
    assert [f(x) for x in (27.0, -2.0)] == [math.cbrt(27.0), math.cbrt(-2.0)]
    assert function(engine, "h")() == ctypes.cast(ctypes.CDLL("libm.so.6").cbrt, ctypes.c_void_p).value
    x = np.zeros(5, np.uint8)
    function(engine, "g", None, ctypes.c_void_p, ctypes.c_int64)(x.ctypes.data, 4)
    assert x.tolist() == [7, 7, 7, 7, 0]


EXTERNAL = """
@hybridc_test_number = external global i64
declare i64 @hybridc_test_thrice(i64)
declare extern_weak i64 @hybridc_test_nobody(i64)
define i64 @f(i64 %x) {
  %n = load i64, ptr @hybridc_test_number
  %y = call i64 @hybridc_test_thrice(i64 %x)
  %z = add i64 %n, %y
  store i64 %z, ptr @hybridc_test_number
  ret i64 %z
}
define ptr @number() { ret ptr @hybridc_test_number }
define i1 @nobody() { %r = icmp eq ptr @hybridc_test_nobody, null ret i1 %r }
"""


def test_declared_functions_and_data():
    number = ctypes.c_int64(100)
    thrice = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 3 * x)
    object_loader.declare_address("hybridc_test_number", ctypes.addressof(number))
    object_loader.declare_address("hybridc_test_thrice", ctypes.cast(thrice, ctypes.c_void_p).value)
    assert object_loader.is_defined("hybridc_test_thrice")
    engine = LoadedObjects(compiled(EXTERNAL))
    assert integers(engine, "f")(5) == 115 == number.value
    assert function(engine, "number")() == ctypes.addressof(number)
    assert function(engine, "nobody", ctypes.c_bool)()
    engine.close()


def test_a_declared_function_is_preferred_to_one_of_the_process(monkeypatch):
    other = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x + 0.5)
    monkeypatch.setitem(object_loader._DECLARED, "cbrt", ctypes.cast(other, ctypes.c_void_p).value)
    engine = LoadedObjects(compiled(CUBE_ROOT))
    assert function(engine, "f", ctypes.c_double, ctypes.c_double)(27.0) == 27.5
    engine.close()


@pytest.mark.parametrize("name", ["memset", "cbrt", "_handle", "__init__", "hybridc_test_nowhere", "__divtf3"])
def test_names_resolve_as_they_do_for_llvm(name):
    assert object_loader.is_defined(name) == llvm_c.has_symbol(name)


DATA = """
@count = global i64 40
@zeros = global [5000 x i64] zeroinitializer, align 64
@where = global ptr @count
@none = global [0 x i32] zeroinitializer
@text = constant [6 x i8] c"words\\00"
define i64 @next() {
  %p = load ptr, ptr @where
  %x = load i64, ptr %p
  %y = add i64 %x, 1
  store i64 %y, ptr %p
  ret i64 %y
}
define i64 @sum(i64 %i) {
  %p = getelementptr i64, ptr @zeros, i64 %i
  %x = load i64, ptr %p
  %y = add i64 %x, %i
  store i64 %y, ptr %p
  ret i64 %y
}
define ptr @data() { ret ptr @count }
define ptr @words() { ret ptr @text }
"""


def test_data_is_written_and_each_load_has_its_own(load):
    first, second = load(DATA), load(DATA)
    assert [function(engine, "next")() for engine in (first, second, first, first)] == [41, 41, 42, 43]
    assert [integers(first, "sum")(i) for i in (4999, 4999, 0)] == [4999, 9998, 0]
    assert ctypes.string_at(function(second, "words")()) == b"words"


def test_no_memory_is_written_and_executed():
    engine = LoadedObjects(compiled(DATA))
    assert permissions(engine.address("next")) == permissions(function(engine, "words")()) == "r-xp"
    assert permissions(function(engine, "data")()) == permissions(engine.address("none")) == "rw-p"
    engine.close()


def test_a_weak_definition_gives_way(load):
    weak = NEXT_ITSELF.replace("define", "define weak").replace("1", "100")
    call = f"{NEXT} define i64 @f(i64 %x) {{ %y = call i64 @hybridc_test_next(i64 %x) ret i64 %y }}"
    assert integers(load(call, weak), "f")(5) == 105
    for texts in ((weak, call, NEXT_ITSELF), (NEXT_ITSELF, weak, call)):
        engine = LoadedObjects(compiled(*texts))
        assert integers(engine, "f")(5) == 6
        engine.close()


# --- what is refused ----------------------------------------------------------------------------------------------


def test_an_unknown_relocation_is_named():
    before = len(maps())
    code = patched(NEXT + SWITCH, 4, 200)
    for _ in range(20):
        with pytest.raises(ValueError, match="relocation 200 of hybridc_test_next is none of those that are known"):
            LoadedObjects([code, *compiled(NEXT_ITSELF)])
    assert len(maps()) <= before + 2


def test_an_address_that_has_no_room_is_an_error():
    with pytest.raises(ValueError, match="relocation 10 of count has no room for 0x"):
        LoadedObjects([patched(DATA, 1, 10)])


def test_a_number_that_is_none_is_skipped():
    engine = LoadedObjects([patched(NEXT + SWITCH, 4, 0)])
    assert integers(engine, "f")(2) == 388
    engine.close()


def test_other_objects_are_an_error():
    (code,) = compiled(NEXT_ITSELF)
    for wrong in (b"no object", code[:18] + b"\xb7" + code[19:], b"\xcf\xfa\xed\xfe" + code[4:]):
        with pytest.raises(ValueError, match="no relocatable ELF object of x86-64 begins with"):
            LoadedObjects([wrong])


def test_an_alignment_that_no_page_has_is_an_error():
    with pytest.raises(ValueError, match="aligned to 8192 bytes, more than a page has"):
        LoadedObjects(compiled("@x = global i64 1, align 8192"))


def test_an_undefined_symbol_is_named():
    with pytest.raises(LookupError, match="undefined symbol hybridc_test_next"):
        LoadedObjects(compiled(NEXT + SWITCH))
    with pytest.raises(KeyError):
        LoadedObjects(compiled(NEXT_ITSELF)).address("other")


def test_memory_that_the_system_refuses_is_a_limit():
    much = f"@much = global [{1 << 50} x i8] zeroinitializer"
    with pytest.raises(LimitError, match=r"refuses \d+ bytes of memory for machine code: .*; raise the limit \(ulimit"):
        LoadedObjects(compiled(much))


# --- memory -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("texts", [(), ("",), ("@none = global [0 x i32] zeroinitializer",)])
def test_nothing_to_load(texts):
    engine = LoadedObjects(compiled(*texts))
    engine.close()
    engine.close()
    assert engine.closed


def test_many_loads_leave_no_memory():
    objects = compiled(DATA, POOLS, NEXT + SWITCH, NEXT_ITSELF)
    LoadedObjects(objects).close()
    before = len(maps())
    for _ in range(300):
        engine = LoadedObjects(objects)
        assert integers(engine, "f")(2) is not None
        assert not engine.closed
        engine.close()
    assert permissions(engine.address("next")) in (None, "rw-p")
    assert len(maps()) <= before + 2


def test_many_loads_at_once():
    """Each has data of its own."""
    engines = [LoadedObjects(compiled(DATA)) for _ in range(50)]
    assert [function(engine, "next")() for engine in engines] == [41] * 50
    for engine in engines:
        engine.close()


# --- the choice ---------------------------------------------------------------------------------------------------


def test_llvm_loads_where_objects_are_others(monkeypatch):
    assert codegen._loader().load is LoadedObjects
    monkeypatch.setattr(object_loader.platform, "machine", lambda: "aarch64")
    other = codegen._loader()
    assert other == (llvm_c.Engine, llvm_c.add_symbol, llvm_c.has_symbol)
    monkeypatch.setattr(codegen, "_LOADER", other)
    double = loop_form(lambda: parse(elementwise(["f32"], "f32", "%r = arith.addf %0, %0 : f32")))
    (code,) = codegen.load_functions([NativeFunction(f"test {uuid.uuid4()}", double)])
    assert isinstance(code.memory.engine, llvm_c.Engine)
