"""The writer of LLVM IR: what it writes computes what Python computes."""

from __future__ import annotations

import ctypes

import pytest

from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.ir_text import TextModule


class Pair(ctypes.Structure):
    _fields_ = (("byte", ctypes.c_uint8), ("first", ctypes.c_int64), ("second", ctypes.c_int32))


class Outer(ctypes.Structure):
    _fields_ = (("head", ctypes.c_int64), ("pair", Pair))


def native(module, name, *types, result=ctypes.c_int64):
    """A function of a module, to be called from Python."""
    machine = codegen.machine()
    code = machine.object(codegen.optimised(str(module), machine))
    memory = codegen._ExecutableMemory([code])
    function = ctypes.CFUNCTYPE(result, *types)(memory.engine.address(name))
    function.memory = memory
    return function


def test_arithmetic_comparisons_and_choices():
    module = TextModule("")
    f = module.function("f", "i64", ("i64", "i64"), exported=True)
    x, y = f.arguments
    with f.when(x.equals(y)):
        f.ret(-1)
    with f.when((x > 100) | (y <= -100)):
        f.ret(-2)
    with f.when(((x & 1).differs(0)) & (y >= 0)):
        f.ret(-3)
    f.ret(f.maximum(x, y) * 2 + f.minimum(x, y) - 5)
    got = native(module, "f", ctypes.c_int64, ctypes.c_int64)

    def expected(x, y):
        if x == y:
            return -1
        if x > 100 or y <= -100:
            return -2
        if x & 1 and y >= 0:
            return -3
        return max(x, y) * 2 + min(x, y) - 5

    values = [-101, -100, -2, -1, 0, 1, 2, 99, 100, 101]
    assert all(got(x, y) == expected(x, y) for x in values for y in values)


def test_loops_leave_and_nest():
    module = TextModule("")
    f = module.function("f", "i64", ("i64",), exported=True)
    (n,) = f.arguments
    total = f.variable("i64", 0)
    with f.count(n, 1) as i:
        inner = f.variable("i64", 0)  # anew in each iteration
        with f.loop() as loop:
            loop.leave_if(inner.get() >= i)
            inner.set(inner.get() + 1)
            with f.when(inner.get().equals(7)):
                loop.leave()
        total.set(total.get() + inner.get())
    f.ret(total.get())
    got = native(module, "f", ctypes.c_int64)
    for n in (0, 1, 2, 8, 20):
        assert got(n) == sum(min(i, 7) for i in range(1, n))


def test_fields_of_structures_within_structures():
    module = TextModule("")
    f = module.function("f", "i64", ("ptr", "i64"), exported=True)
    outer = f.record(f.arguments[0], Outer, f.arguments[1])
    pair = outer.record("pair")
    pair.set(byte=7, second=pair.second + 1)
    f.ret(pair.first + f.widen(pair.second) + outer.head)
    got = native(module, "f", ctypes.c_void_p, ctypes.c_int64)
    table = (Outer * 3)(*(Outer(10 * i, Pair(1, 2 * i, -3 * i)) for i in range(3)))
    for i in range(3):
        assert got(table, i) == 9 * i + 1
        assert (table[i].pair.byte, table[i].pair.first, table[i].pair.second) == (7, 2 * i, 1 - 3 * i)


@pytest.mark.parametrize("pause", ["", "llvm.x86.sse2.pause()"])
def test_atomics_return_what_was_there(pause):
    module = TextModule(pause)
    f = module.function("f", "i64", ("ptr",), exported=True)
    (cell,) = f.arguments
    f.pause()
    before = f.add_atomic("i64", cell, 5)
    middle = f.exchange_atomic("i64", cell, 100)
    f.store_atomic("i64", f.load_atomic("i64", cell) + 1, cell)
    f.ret(before * 1000 + middle)
    cell = ctypes.c_int64(3)
    assert native(module, "f", ctypes.c_void_p)(ctypes.byref(cell)) == 3008
    assert cell.value == 101


def test_calls_by_address_and_of_functions_and_texts():
    module = TextModule("")
    square = module.function("square", "i64", ("i64",))
    square.ret(square.arguments[0] * square.arguments[0])
    f = module.function("f", "i64", ("ptr", "i64"), exported=True)
    length, x = f.arguments
    f.ret(f.call("i64", square, x) + f.call("i64", length, module.text(f, "four")))
    strlen = ctypes.cast(ctypes.CDLL(None).strlen, ctypes.c_void_p)
    assert native(module, "f", ctypes.c_void_p, ctypes.c_int64)(strlen, 9) == 85


def test_addresses_are_aligned():
    module = TextModule("")
    f = module.function("f", "ptr", ("ptr",), exported=True)
    f.ret(f.align(f.arguments[0], 64))
    got = native(module, "f", ctypes.c_void_p, result=ctypes.c_void_p)
    assert [got(a) for a in (64, 65, 127, 128)] == [64, 128, 128, 128]
