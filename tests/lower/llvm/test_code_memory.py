"""Machine code whose last user is garbage: freed once, by who has the lock."""

from __future__ import annotations

import gc
import threading
import uuid

from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.native_function import NativeFunction
from hybridc.tools.loop_form import loop_form
from tests.lower.llvm.loops import elementwise
from tests.lower.llvm.native import parse

DOUBLE = elementwise(["f32"], "f32", "%r = arith.addf %0, %0 : f32")


def load():
    (code,) = codegen.load_functions([NativeFunction(f"test {uuid.uuid4()}", loop_form(lambda: parse(DOUBLE)))])
    return code


def test_the_collector_frees_no_code_while_another_thread_has_the_lock():
    held, done = threading.Event(), threading.Event()

    def hold():
        with codegen._LOCK.current:
            held.set()
            done.wait(60)

    gc.collect()
    cycle = [load()]
    cycle.append(cycle)
    assert codegen._UNUSED == []
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    try:
        del cycle
        gc.collect()
        assert [engine.closed for engine in codegen._UNUSED] == [False]
    finally:
        done.set()
        thread.join()
    (engine,) = codegen._UNUSED
    load()
    assert codegen._UNUSED == []
    assert engine.closed
