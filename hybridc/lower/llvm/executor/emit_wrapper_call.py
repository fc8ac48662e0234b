"""Native code of calls on array wrappers: Python objects that hold an array each, as an NDArray does.

Each function here writes one native function; its docstring says what that does, as C would.
"""

from __future__ import annotations

from hybridc.lower.llvm.codegen.ir_text import Record, TextFunction, TextModule, TextValue
from hybridc.lower.llvm.executor.emit_entry import give_up, give_up_if
from hybridc.lower.llvm.executor.structures import (
    POINTER,
    ArenaRecord,
    ArenaTable,
    ArrayObject,
    NativeTable,
    Outside,
    WrapperCall,
)


def emit_wrapper_call(module: TextModule, entry: TextFunction) -> None:
    """PyObject *wrapped(PyObject *self, PyObject **boxes, int64 n): the entry, on the wrapped arrays.

    ``self`` is an array over a WrapperCall. Returns a tuple of new wrappers of the program's results, or the wrapper
    of a single one, or None if the call must take the slow path: other objects or arrays, or no workspace of the pool
    is idle and large enough, which is noted there.
    """
    f = module.function("wrapped", "ptr", ("ptr", "ptr", "i64"), exported=True)
    self, boxes, n = f.arguments
    wrapped = f.record(f.record(self, ArrayObject).data, WrapperCall)
    anchor = wrapped.anchor
    program = f.record(f.record(anchor, ArrayObject).data, NativeTable)
    outside, result_count = f.record(program.outside, Outside), program.result_count

    give_up_if(f, outside, n.differs(program.input_count), result="none")
    arguments = f.stack(n + 2)
    arrays = f.at(arguments, 2 * POINTER)
    f.store("ptr", outside.none, f.at(arguments, POINTER))
    with f.count(n) as i:
        box = f.load("ptr", f.at(boxes, i * POINTER))
        give_up_if(f, outside, f.record(box, ArrayObject).type.differs(wrapped.type), result="none")
        array = f.load("ptr", f.at(box, wrapped.array_offset))
        give_up_if(f, outside, array.equals(0), result="none")
        f.store("ptr", array, f.at(arrays, i * POINTER))
    record = _arena(f, outside, f.record(wrapped.arenas, ArenaTable), program)
    workspace = record.workspace
    f.call("void", outside.incref, workspace)  # the pool may put another one there meanwhile
    f.store("ptr", workspace, arguments)
    # While the program runs without the GIL, another thread may put other arrays into the wrappers.
    with f.count(n) as i:
        f.call("void", outside.incref, f.load("ptr", f.at(arrays, i * POINTER)))
    record.set(busy=1)
    results = f.call("ptr", entry, anchor, arguments, n + 2)
    record.set(busy=0)
    f.call("void", outside.decref, workspace)
    with f.count(n) as i:
        f.call("void", outside.decref, f.load("ptr", f.at(arrays, i * POINTER)))
    give_up_if(f, outside, results.equals(0))
    give_up_if(f, outside, results.equals(outside.not_implemented), results, result="none")
    with f.count(result_count) as i:
        wrapper = _box(f, outside, wrapped, f.call("ptr", outside.tuple_get, results, i))
        give_up_if(f, outside, wrapper.equals(0), results)
        with f.when(result_count.equals(1)):
            f.call("void", outside.decref, results)
            f.ret(wrapper)
        f.call("i32", outside.tuple_set, results, i, wrapper)  # which drops the array
    f.ret(results)


def _arena(f: TextFunction, outside: Record, arenas: Record, program: Record) -> Record:
    """The first record of an idle workspace that is large enough; without one the function returns None."""
    i, idle = f.variable("i64", 0), f.variable("ptr", 0)
    with f.loop() as loop:
        with f.when(i.get() >= arenas.count):
            arenas.set(missed=1)
            give_up(f, outside, "none")
        record = f.record(arenas.records, ArenaRecord, i.get())
        idle.set(record.pointer)
        loop.leave_if((record.size >= program.arena) & record.busy.equals(0))
        i.set(i.get() + 1)
    return f.record(idle.get(), ArenaRecord)


def _box(f: TextFunction, outside: Record, wrapped: Record, array: TextValue) -> TextValue:
    """A new wrapper of an array, its other words from the pattern; null after an error."""
    wrapper = f.call("ptr", outside.allocate, wrapped.type, f.operand("i64", 0))
    pattern = wrapped.pattern
    with f.when(wrapper.differs(0)):
        with f.count(wrapped.size // POINTER, f.operand("i64", 2)) as word:
            value = f.load("ptr", f.at(pattern, word * POINTER))
            with f.when(value.differs(0)):
                f.call("void", outside.incref, value)
                f.store("ptr", value, f.at(wrapper, word * POINTER))
        f.call("void", outside.incref, array)
        f.store("ptr", array, f.at(wrapper, wrapped.array_offset))
    return wrapper
