"""Native code of loops: the plan of a step, run once for each row of arrays.

Each function here writes one native function; its docstring says what that does, as C would.
"""

from __future__ import annotations

from hybridc.runtime.native.ir_text import TextFunction, TextModule, TextValue
from hybridc.runtime.native.structures import (
    POINTER,
    CopyRecord,
    LoopRecord,
    NativeTable,
    PositionRecord,
)


def emit_steps(module: TextModule, run: TextFunction) -> None:
    """void steps(LoopRecord *loop): run the program of a step until the condition fails, at most ``count`` times."""
    copy = _copies(module)
    f = module.function("steps", "void", ("ptr",), exported=True)
    loop = f.record(f.arguments[0], LoopRecord)
    slots, program, condition = loop.slots, loop.program, loop.condition
    zero = f.constant("i64", 0)
    table = f.record(program, NativeTable)
    begin, end = table.first, table.step_count
    # What follows from inputs that are the same in all steps.
    f.call("void", run, program, slots, zero, begin)
    with f.when(condition.differs(0)):
        f.call("void", run, condition, loop.condition_slots, zero, f.record(condition, NativeTable).first)
    ran = f.variable("i64", 0)
    with f.loop() as each:
        each.leave_if(ran.get() >= loop.count)
        go_on = f.variable("i32", 1)
        with f.when(condition.differs(0)):
            others = loop.condition_slots
            with f.count(loop.link_count) as i:
                link = f.record(loop.links, PositionRecord, i)
                f.store("ptr", _slot(f, slots, link.offset), f.at(others, link.slot * POINTER))
            asked = f.record(condition, NativeTable)
            f.call("void", run, condition, others, asked.first, asked.step_count)
            go_on.set(f.load("i32", loop.answer))
        each.leave_if(go_on.get().equals(0))
        f.call("void", copy, slots, loop.before, loop.before_count)
        f.call("void", run, program, slots, begin, end)
        f.call("void", copy, slots, loop.after, loop.after_count)
        with f.count(loop.swap_count) as i:
            swap = f.record(loop.swaps, PositionRecord, i)
            first, second = f.at(slots, swap.slot * POINTER), f.at(slots, swap.offset * POINTER)
            kept = f.load("ptr", first)
            f.store("ptr", f.load("ptr", second), first)
            f.store("ptr", kept, second)
        with f.count(loop.advance_count) as i:
            advance = f.record(loop.advances, PositionRecord, i)
            here = f.at(slots, advance.slot * POINTER)
            f.store("ptr", f.at(f.load("ptr", here), advance.offset), here)
        with f.when(loop.counter.differs(0)):
            f.store("i64", f.load("i64", loop.counter) + loop.counter_step, loop.counter)
        ran.set(ran.get() + 1)
    loop.set(ran=ran.get())
    f.ret()


def _copies(module: TextModule) -> TextFunction:
    """void copies(void **slots, CopyRecord *copies, int64 count): copy bytes from slots to slots."""
    f = module.function("copies", "void", ("ptr", "ptr", "i64"))
    slots, copies, count = f.arguments
    with f.count(count) as i:
        copy = f.record(copies, CopyRecord, i)
        source, target = f.at(_slot(f, slots, copy.source), copy.offset), _slot(f, slots, copy.target)
        with f.count(copy.size) as byte:
            f.store("i8", f.load("i8", f.at(source, byte)), f.at(target, byte))
    f.ret()
    return f


def _slot(f: TextFunction, slots: TextValue, index: TextValue) -> TextValue:
    return f.load("ptr", f.at(slots, index * POINTER))
