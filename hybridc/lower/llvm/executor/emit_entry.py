"""Native code that runs a plan: the executor, and the function that Python calls.

Each function here writes one native function; its docstring says what that does, as C would.
"""

from __future__ import annotations

import sys

from hybridc.ground.buffers import ALIGNMENT
from hybridc.lower.llvm.codegen.ir_text import Record, TextFunction, TextModule, TextValue
from hybridc.lower.llvm.executor.emit_events import EventCode, emit_drain
from hybridc.lower.llvm.executor.structures import (
    ALIGNED,
    C_CONTIGUOUS,
    POINTER,
    WRITEABLE,
    ArrayObject,
    ArrayRecord,
    DescrObject,
    NativeTable,
    Outside,
    PositionRecord,
    StepRecord,
)

_BYTE_ORDER = ord("<" if sys.byteorder == "little" else ">")  # the byte order in dtypes read from some files


def emit_entry(module: TextModule, run: TextFunction, events: EventCode | None) -> TextFunction:
    """Emit all functions; returns the one that Python calls.

    ``run`` runs the regions of a program, ``events`` records calls.
    """
    fits = _fits(module)
    return _entry(module, fits, _fresh(module), _execute(module, run), events)


def emit_run(module: TextModule, share: TextFunction, events: EventCode | None) -> TextFunction:
    """void run(Program *program, void **slots, int64 first, int64 last): the regions [first, last), in order."""
    f = module.function("run", "void", ("ptr", "ptr", "i64", "i64"), exported=True)
    address, slots, first, last = f.arguments
    program = f.record(address, NativeTable)
    steps = program.steps
    buffers = f.stack(program.buffer_count)
    outside = f.record(program.outside, Outside)
    before = None if events is None else f.variable("i64", events.time(f, outside))
    with f.count(last, first) as i:
        step = f.record(steps, StepRecord, i)
        places = step.buffers
        with f.count(step.buffer_count) as b:
            f.store("ptr", _resolve(f, slots, f.record(places, PositionRecord, b)), f.at(buffers, b * POINTER))
        scratch = _resolve(f, slots, step.record("scratch"))
        extent = step.extent
        code = step.code if events is None else events.code_of(f, outside, step)
        alone = (extent <= step.alone) | program.threads.equals(1)
        with f.when(alone):
            f.call("void", code, buffers, step.numbers, f.operand("i64", 0), extent, scratch)
        with f.when(alone.equals(0)):
            f.call("void", share, address, step.pointer, buffers, scratch)
        if events is not None and before is not None:
            before.set(events.step(f, outside, step, before.get()))
    f.ret()
    return f


def _resolve(f: TextFunction, slots: TextValue, place: Record) -> TextValue:
    """slots[place.slot] + place.offset"""
    return f.at(f.load("ptr", f.at(slots, place.slot * POINTER)), place.offset)


def _fits(module: TextModule) -> TextFunction:
    """i1 fits(Outside *outside, PyObject *object, ArrayRecord *cell, int32 flags): whether it is an array as declared.

    Exactly an ndarray, with these flags, this rank, dtype and shape. An equal dtype that is another object
    (read from a file, say) fits.
    """
    f = module.function("fits", "i1", ("ptr", "ptr", "ptr", "i32"))
    outside, (object_, flags) = f.record(f.arguments[0], Outside), (f.arguments[1], f.arguments[3])
    array, cell = f.record(object_, ArrayObject), f.record(f.arguments[2], ArrayRecord)
    with f.when(array.type.differs(outside.ndarray)):
        f.ret(0)
    with f.when((array.flags & flags).differs(flags) | array.rank.differs(cell.rank)):
        f.ret(0)
    descr = array.descr
    with f.when(descr.differs(cell.descr)):
        other = f.record(descr, DescrObject)
        order = other.byteorder
        native = (
            order.equals(ord("="))
            | order.equals(ord("|"))
            | order.equals(ord("<" if sys.byteorder == "little" else ">"))
        )
        with f.when(other.type_num.differs(cell.type_num) | native.equals(0)):
            f.ret(0)
    shape, wanted = array.shape, cell.shape
    with f.count(f.widen(cell.rank)) as d:
        differs = f.load("i64", f.at(shape, d * 8)).differs(f.load("i64", f.at(wanted, d * 8)))
        with f.when(differs):
            f.ret(0)
    f.ret(1)
    return f


def _fresh(module: TextModule) -> TextFunction:
    """PyObject *fresh(Outside *outside, ArrayRecord *cell): a new, uninitialised array; null after an error.

    The memory of a large one is from the buffer pool; the array references the pool's object, by which the pool sees
    that it is in use.
    """
    f = module.function("fresh", "ptr", ("ptr", "ptr"))
    outside, cell = f.record(f.arguments[0], Outside), f.record(f.arguments[1], ArrayRecord)
    null = f.operand("ptr", 0)
    buffer, data, flags = f.variable("ptr", 0), f.variable("ptr", 0), f.variable("i32", 0)
    with f.when(cell.size.differs(0)):
        one = f.operand("i64", 1)
        buffer.set(
            f.call("ptr", outside.vectorcall, outside.take, f.at(cell.pointer, ArrayRecord.size.offset), one, null)
        )
        give_up_if(f, outside, buffer.get().equals(0))
        data.set(f.align(f.record(buffer.get(), ArrayObject).data, ALIGNMENT))
        flags.set(C_CONTIGUOUS | ALIGNED | WRITEABLE)
    f.call("void", outside.incref, cell.descr)  # new_array steals the reference
    properties = (outside.ndarray, cell.descr, cell.rank, cell.shape, null, data.get(), flags.get(), null)
    array = f.call("ptr", outside.new_array, *properties)
    with f.when(buffer.get().equals(0)):
        f.ret(array)
    with f.when(array.equals(0)):
        f.call("void", outside.decref, buffer.get())
        f.ret(0)
    failed = f.call("i32", outside.set_base, array, buffer.get())  # steals the reference, also if it fails
    give_up_if(f, outside, failed.differs(0), array)
    f.ret(array)
    return f


def _execute(module: TextModule, run: TextFunction) -> TextFunction:
    """i1 execute(Program *, void **slots, PyObject *workspace, PyObject **inputs, PyObject *results): all steps.

    The regions between two host steps run without the GIL if the plan's work is worth it. Returns false
    if a host step has raised.
    """
    f = module.function("execute", "i1", ("ptr", "ptr", "ptr", "ptr", "ptr"))
    address, slots, workspace, inputs, results = f.arguments
    program = f.record(address, NativeTable)
    outside = f.record(program.outside, Outside)
    steps, count, release = program.steps, program.step_count, program.release.differs(0)
    arguments = f.stack(f.operand("i64", 3))
    f.store("ptr", workspace, arguments)
    f.store("ptr", results, f.at(arguments, 2 * POINTER))
    at = f.variable("i64", program.first)
    with f.loop() as loop:
        first = at.get()
        loop.leave_if(first >= count)
        host = f.record(steps, StepRecord, first).next_host
        with f.when(host > first):
            state = f.variable("ptr", 0)
            with f.when(release):
                state.set(f.call("ptr", outside.save_thread))
            f.call("void", run, address, slots, first, host)
            with f.when(release):
                f.call("void", outside.restore_thread, state.get())
        loop.leave_if(host >= count)
        arrays = _tuple(f, outside, inputs, program.input_count)
        give_up_if(f, outside, arrays.equals(0))
        f.store("ptr", arrays, f.at(arguments, POINTER))
        callee = f.record(steps, StepRecord, host).host
        answer = f.call("ptr", outside.vectorcall, callee, arguments, f.operand("i64", 3), f.operand("ptr", 0))
        f.call("void", outside.decref, arrays)
        give_up_if(f, outside, answer.equals(0))
        f.call("void", outside.decref, answer)
        at.set(host + 1)
    f.ret(1)
    return f


def _tuple(f: TextFunction, outside: Record, items: TextValue, count: TextValue) -> TextValue:
    """A tuple of the objects at ``items``; null after an error."""
    objects = f.call("ptr", outside.tuple_new, count)
    with f.when(objects.differs(0)), f.count(count) as i:
        item = f.load("ptr", f.at(items, i * POINTER))
        f.call("void", outside.incref, item)
        f.call("i32", outside.tuple_set, objects, i, item)
    return objects


def _entry(
    module: TextModule, fits: TextFunction, fresh: TextFunction, execute: TextFunction, events: EventCode | None
) -> TextFunction:
    """PyObject *entry(PyObject *self, PyObject **args, int64 n): what Python calls as entry(workspace, into, *arrays).

    ``self`` is an array whose data is the Program. Returns NotImplemented, without effect, if an array is
    not as declared in the plan.
    """
    f = module.function("entry", "ptr", ("ptr", "ptr", "i64"), exported=True)
    self, arguments, n = f.arguments
    address = f.record(self, ArrayObject).data
    program = f.record(address, NativeTable)
    outside = f.record(program.outside, Outside)
    begin = None
    if events is not None:
        emit_drain(f, outside)
        begin = events.time(f, outside)

    input_count = program.input_count
    with f.when(n.differs(input_count + 2)):
        _raise(module, f, outside, "entry(workspace, into, *arrays): a wrong number of arrays")
    workspace = f.load("ptr", arguments)
    into = f.load("ptr", f.at(arguments, POINTER))
    with f.when(f.record(workspace, ArrayObject).type.differs(outside.workspace)):
        _raise(module, f, outside, "entry(workspace, into, *arrays): workspace is no Workspace")
    with f.when(f.load("i64", f.record(workspace, ArrayObject).shape) < program.arena):
        _raise(module, f, outside, "entry(workspace, into, *arrays): the workspace is one of a smaller program")

    with f.when(into.differs(outside.none)), f.when(f.record(into, ArrayObject).type.differs(outside.tuple)):
        _raise(module, f, outside, "entry(workspace, into, *arrays): into is neither None nor a tuple")

    slots = f.stack(program.slot_count)
    f.store("ptr", f.record(workspace, ArrayObject).data, slots)
    inputs, specs = f.at(arguments, 2 * POINTER), program.inputs
    usable = f.operand("i32", C_CONTIGUOUS | ALIGNED)
    with f.count(input_count) as i:
        array = f.load("ptr", f.at(inputs, i * POINTER))
        cell = f.record(specs, ArrayRecord, i)
        fit = f.call("i1", fits, outside.pointer, array, cell.pointer, usable)
        give_up_if(f, outside, fit.equals(0), result="not_implemented")
        f.store("ptr", f.record(array, ArrayObject).data, f.at(slots, i * POINTER + POINTER))

    result_count = program.result_count
    results = f.call("ptr", outside.tuple_new, result_count)
    give_up_if(f, outside, results.equals(0))
    result_slots, result_specs = f.at(slots, input_count * POINTER + POINTER), program.results
    writeable = f.operand("i32", C_CONTIGUOUS | ALIGNED | WRITEABLE)
    with f.count(result_count) as r:
        cell = f.record(result_specs, ArrayRecord, r)
        result = f.variable("ptr", outside.none)
        with f.when(into.differs(outside.none)):
            target = f.call("ptr", outside.tuple_get, into, r)
            give_up_if(f, outside, target.equals(0), results)
            result.set(target)
        with f.when(result.get().differs(outside.none)):
            fit = f.call("i1", fits, outside.pointer, result.get(), cell.pointer, writeable)
            give_up_if(f, outside, fit.equals(0), results, result="not_implemented")
            f.call("void", outside.incref, result.get())
        with f.when(result.get().equals(outside.none)):
            result.set(f.call("ptr", fresh, outside.pointer, cell.pointer))
            give_up_if(f, outside, result.get().equals(0), results)
        f.call("i32", outside.tuple_set, results, r, result.get())
        f.store("ptr", f.record(result.get(), ArrayObject).data, f.at(result_slots, r * POINTER))

    constant_slots, constants = f.at(result_slots, result_count * POINTER), program.constants
    with f.count(program.constant_count) as c:
        f.store("ptr", f.load("ptr", f.at(constants, c * POINTER)), f.at(constant_slots, c * POINTER))
    prepared = f.variable("ptr", 0)
    with f.when(program.kept.differs(0)):
        prepared.set(program.prepared)
        valid = f.variable("i64", 1)
        with f.when(prepared.get().equals(0)):
            valid.set(0)
        with f.count(input_count) as i:
            read = f.load("ptr", f.at(program.read, i * POINTER))
            now = f.load("ptr", f.at(slots, i * POINTER + POINTER))
            with f.when(read.differs(0)), f.when(read.differs(now)):
                valid.set(0)
        give_up_if(f, outside, valid.get().equals(0), results, result="not_implemented")
        f.call("void", outside.incref, prepared.get())  # other threads may prepare values anew meanwhile
        kept_slots = f.at(constant_slots, program.constant_count * POINTER)
        addresses = f.record(prepared.get(), ArrayObject).data
        with f.count(program.kept) as k:
            f.store("ptr", f.load("ptr", f.at(addresses, k * POINTER)), f.at(kept_slots, k * POINTER))
    done = f.call("i1", execute, address, slots, workspace, inputs, results)
    with f.when(prepared.get().differs(0)):
        f.call("void", outside.decref, prepared.get())
    give_up_if(f, outside, done.equals(0), results)
    if events is not None and begin is not None:
        events.whole(f, outside, address, begin, events.time(f, outside))
    f.ret(results)
    return f


def give_up_if(f: TextFunction, outside: Record, condition: TextValue, *owned: TextValue, result: str = "") -> None:
    """If a condition holds, drop references and return null, or the ``result``."""
    with f.when(condition):
        for reference in owned:
            f.call("void", outside.decref, reference)
        give_up(f, outside, result)


def give_up(f: TextFunction, outside: Record, result: str) -> None:
    """Return null, or a new reference to the object of this name."""
    if result:
        f.call("void", outside.incref, getattr(outside, result))
    f.ret(getattr(outside, result) if result else 0)


def _raise(module: TextModule, f: TextFunction, outside: Record, text: str) -> None:
    """Set a TypeError and return null."""
    f.call("void", outside.set_error, outside.type_error, module.text(f, text))
    f.ret(0)
