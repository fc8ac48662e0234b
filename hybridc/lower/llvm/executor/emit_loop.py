"""Native code of loops: the plan of a step, run once for each row of arrays.

Each function here writes one native function; its docstring says what that does, as C would.
"""

from __future__ import annotations

from hybridc.lower.llvm.codegen.ir_text import Record, TextFunction, TextModule, TextValue
from hybridc.lower.llvm.executor.structures import (
    POINTER,
    CopyRecord,
    InnerCell,
    LoopCell,
    NativeTable,
    PositionRecord,
)


def emit_loop(module: TextModule, run: TextFunction) -> None:
    """void loop(void **buffers, LoopCell *loop, int64 lo, int64 hi, void *scratch): the region of a `StepLoop`."""
    copy, zeros, slots_of = _copies(module), _zeros(module), _slots(module)
    f = module.function("loop", "void", ("ptr", "ptr", "i64", "i64", "ptr"), exported=True)
    buffers, address = f.arguments[:2]
    loop = f.record(address, LoopCell)
    known = f.stack(loop.buffer_count + loop.constant_count)
    step, condition = loop.record("step"), loop.record("condition")
    slots, others = f.stack(step.slot_count), f.stack(condition.slot_count)
    with f.count(loop.buffer_count) as i:
        f.store("ptr", f.load("ptr", f.at(buffers, i * POINTER)), f.at(known, i * POINTER))
    with f.count(loop.constant_count) as i:
        constant = f.load("ptr", f.at(loop.constants, i * POINTER))
        f.store("ptr", constant, f.at(known, (loop.buffer_count + i) * POINTER))
    f.call("void", slots_of, step.pointer, known, slots)
    f.call("void", slots_of, condition.pointer, known, others)

    count = f.variable("i64", loop.count)
    with f.when(loop.counted >= 0):
        count.set(f.load("i64", _slot(f, slots, loop.counted)))
    with f.when(loop.choice >= 0):
        scalar, last = _slot(f, slots, loop.choice), loop.choice_size - 1
        bits = f.variable("i64", f.widen(f.load("i8", f.at(scalar, last))) & loop.choice_bits)
        with f.count(last) as byte:
            bits.set(bits.get() | f.widen(f.load("i8", f.at(scalar, byte))))
        is_zero = f.select(bits.get().equals(0), 1, f.operand("i64", 0))
        with f.when(is_zero.differs(loop.choice_zero)):
            count.set(0)
    f.call("void", copy, slots, loop.begin, loop.begin_count)
    last = count.get() - 1
    with f.when(loop.backwards.differs(0)), f.count(loop.advance_count) as i:
        advance = f.record(loop.advances, PositionRecord, i)
        _move(f, f.at(slots, advance.slot * POINTER), advance.offset * last * -1)
    key_step = f.variable("i64", loop.key_step)
    with f.when(loop.key >= 0):
        key, source = _slot(f, slots, loop.key), _slot(f, slots, loop.key_source)
        begin = f.variable("i64", f.load("i64", f.at(source, 8)) + loop.draw)
        with f.when(loop.backwards.differs(0)):
            begin.set(begin.get() + last * loop.key_step)
            key_step.set(loop.key_step * -1)
        f.store("i64", f.load("i64", source), key)
        f.store("i64", begin.get(), f.at(key, 8))

    first, end = _begin(f, run, step, slots)
    asks = condition.program.differs(0)
    asked, answered = f.variable("i64", 0), f.variable("i64", 0)
    with f.when(asks):
        begins, ends = _begin(f, run, condition, others)
        asked.set(begins)
        answered.set(ends)
    ran = f.variable("i64", 0)
    with f.loop() as iteration:
        iteration.leave_if(ran.get() >= count.get())
        with f.when(asks):
            with f.count(loop.link_count) as i:
                link = f.record(loop.links, PositionRecord, i)
                f.store("ptr", _slot(f, slots, link.offset), f.at(others, link.slot * POINTER))
            f.call("void", run, condition.program, others, asked.get(), answered.get())
            answer = loop.record("answer")
            iteration.leave_if(f.is_zero(f.at(_slot(f, others, answer.slot), answer.offset)))
        f.call("void", copy, slots, loop.before, loop.before_count)
        f.call("void", run, step.program, slots, first, end)
        with f.count(loop.swap_count) as i:
            swap = f.record(loop.swaps, PositionRecord, i)
            one, other = f.at(slots, swap.slot * POINTER), f.at(slots, swap.offset * POINTER)
            kept = f.load("ptr", one)
            f.store("ptr", f.load("ptr", other), one)
            f.store("ptr", kept, other)
        with f.count(loop.advance_count) as i:
            advance = f.record(loop.advances, PositionRecord, i)
            _move(f, f.at(slots, advance.slot * POINTER), advance.offset)
        with f.when(loop.key >= 0):
            counter = f.at(_slot(f, slots, loop.key), 8)
            f.store("i64", f.load("i64", counter) + key_step.get(), counter)
        ran.set(ran.get() + 1)
    f.call("void", copy, slots, loop.end, loop.end_count)
    with f.count(loop.zero_count) as i:
        rows = f.record(loop.zeros, PositionRecord, i)
        size = rows.offset
        f.call("void", zeros, f.at(_slot(f, slots, rows.slot), ran.get() * size), (loop.count - ran.get()) * size)
    with f.when(loop.ran >= 0):
        f.store("i64", ran.get(), _slot(f, slots, loop.ran))
    f.ret()


def _begin(f: TextFunction, run: TextFunction, inner: Record, slots: TextValue) -> tuple[TextValue, TextValue]:
    """Run what follows from inputs that are the same in all steps; the first of the other regions, and their end."""
    program = inner.program
    table = f.record(program, NativeTable)
    first, end = table.first, table.step_count
    f.call("void", run, program, slots, f.operand("i64", 0), first)
    return first, end


def _slots(module: TextModule) -> TextFunction:
    """void slots_of(InnerCell *inner, void **known, void **slots): fill the slots of a program."""
    f = module.function("slots_of", "void", ("ptr", "ptr", "ptr"))
    inner = f.record(f.arguments[0], InnerCell)
    known, slots = f.arguments[1:]
    with f.count(inner.slot_count) as i:
        place = f.record(inner.slots, PositionRecord, i)
        f.store("ptr", f.at(_slot(f, known, place.slot), place.offset), f.at(slots, i * POINTER))
    f.ret()
    return f


def _copies(module: TextModule) -> TextFunction:
    """void copies(void **slots, CopyRecord *copies, int64 count): copy bytes from slots to slots."""
    f = module.function("copies", "void", ("ptr", "ptr", "i64"), moves=True)
    slots, copies, count = f.arguments
    with f.count(count) as i:
        copy = f.record(copies, CopyRecord, i)
        source, target = f.at(_slot(f, slots, copy.source), copy.offset), _slot(f, slots, copy.target)
        with f.count(copy.size) as byte:
            f.store("i8", f.load("i8", f.at(source, byte)), f.at(target, byte))
    f.ret()
    return f


def _zeros(module: TextModule) -> TextFunction:
    """void zeros(void *target, int64 size): write so many bytes."""
    f = module.function("zeros", "void", ("ptr", "i64"), moves=True)
    target, size = f.arguments
    with f.count(size) as byte:
        f.store("i8", 0, f.at(target, byte))
    f.ret()
    return f


def _slot(f: TextFunction, slots: TextValue, index: TextValue) -> TextValue:
    return f.load("ptr", f.at(slots, index * POINTER))


def _move(f: TextFunction, slot: TextValue, offset: TextValue) -> None:
    """Add bytes to the address in a slot."""
    f.store("ptr", f.at(f.load("ptr", slot), offset), slot)
