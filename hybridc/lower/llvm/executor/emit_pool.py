"""Native code of the thread pool: parallel regions, work stealing, sleeping workers; and of grids.

A region is a range of iterations. Its thread opens the pool's region, claims chunks of it as the workers
do, closes it, and waits until no worker is in it. Workers spin for a while and then sleep, so a region costs a
microsecond or two if the last one was just now. There is one region at a time: a thread that finds the pool busy runs
its whole range alone, which is also right when there are more Python threads than cores.

Each function here writes one native function; its docstring says what that does, as C would.
"""

from __future__ import annotations

from hybridc.ground.machine import CHUNKS, NOMINAL
from hybridc.lower.llvm.codegen.ir_text import Record, TextFunction, TextModule, TextValue
from hybridc.lower.llvm.executor.emit_events import EventCode
from hybridc.lower.llvm.executor.structures import (
    POINTER,
    ClaimRecord,
    GridCell,
    GridPartCell,
    NativeTable,
    Outside,
    Pool,
    PositionRecord,
    StepRecord,
    Timespec,
)

# How long a worker spins before it sleeps, in nanoseconds: all programs share the pool, so it is the nominal time.
_SPIN = int(NOMINAL.spin)

# Linux's constants: FUTEX_WAIT_PRIVATE, FUTEX_WAKE_PRIVATE, INT_MAX waiters; SIG_SETMASK, CLOCK_MONOTONIC; and the
# bytes of a sigset_t and a cpu_set_t of glibc.
_FUTEX_WAIT, _FUTEX_WAKE, _EVERYBODY = 128, 129, 2**31 - 1
_SET_MASK, _MONOTONIC = 2, 1
_SIGNAL_SET, _CORE_SET = 128, 1024


def emit_pool(module: TextModule, clock: TextFunction, events: EventCode | None) -> TextFunction:
    """Emit all functions; returns the one that runs a parallel region on several threads.

    ``events`` records what each of them did.
    """
    drain = _drain(module)
    start = _start(module, _worker(module, clock, drain, _move(module)))
    _stop(module)
    return _share(module, start, drain, clock, events)


def _share(
    module: TextModule, start: TextFunction, drain: TextFunction, clock: TextFunction, events: EventCode | None
) -> TextFunction:
    """void share(Program *program, StepRecord *step, void **buffers, void *scratch): a region, on several threads."""
    f = module.function("share", "void", ("ptr", "ptr", "ptr", "ptr"))
    program, step = f.record(f.arguments[0], NativeTable), f.record(f.arguments[1], StepRecord)
    buffers, scratch = f.arguments[2:]
    outside = f.record(program.outside, Outside)
    address = outside.pool
    pool = f.record(address, Pool)
    extent, grain = step.extent, step.grain

    threads = f.minimum(program.threads, pool.threads)
    busy = f.variable("i32", 1)
    with f.when(threads > 1):
        busy.set(f.exchange_atomic("i32", pool.address("lock"), 1))
    with f.when(busy.get().differs(0)):
        f.call("void", step.code, buffers, step.numbers, f.operand("i64", 0), extent, scratch)
        f.ret()
    with f.when(pool.ready.equals(0)):
        f.call("void", start, address)

    piece = _quotient_up(_quotient_up(extent, grain), threads * CHUNKS) * grain
    pieces = _quotient_up(extent, piece)
    limit = f.minimum(threads, pieces)
    code = step.code
    if events is not None:
        code, buffers = events.timed_region(f, outside, step, buffers)
    pool.set(code=code, buffers=buffers, numbers=step.numbers, extent=extent, piece=piece, pieces=pieces)
    pool.set(scratch=scratch, scratch_stride=step.scratch_stride, limit=limit, core=f.call("i32", outside.getcpu))
    claims, begin = pool.claims, f.variable("i64", 0)
    with f.count(limit) as part:
        end = pieces * (part + 1) // limit
        f.record(claims, ClaimRecord, part).set(next=begin.get(), end=end)
        begin.set(end)

    f.add_atomic("i32", pool.address("generation"), 1)
    with f.when(f.load_atomic("i32", pool.address("sleepers")) > 0):
        _futex(f, outside, pool.address("generation"), _FUTEX_WAKE, f.operand("i64", _EVERYBODY))
    f.call("void", drain, address, f.operand("i64", 0))
    f.add_atomic("i32", pool.address("generation"), 1)

    active = pool.address("active")
    since = f.call("i64", clock, outside.pointer)
    with f.loop() as spin:
        spin.leave_if(f.load_atomic("i32", active).equals(0))
        f.pause()
        spin.leave_if((f.call("i64", clock, outside.pointer) - since) > _SPIN)
    with f.when(f.load_atomic("i32", active).differs(0)):
        # A worker was preempted in its chunk: leave it the core.
        f.store_atomic("i32", 1, pool.address("waiting"))
        with f.loop() as sleep:
            workers = f.load_atomic("i32", active)
            sleep.leave_if(workers.equals(0))
            _futex(f, outside, active, _FUTEX_WAIT, f.widen(workers))
        f.store_atomic("i32", 0, pool.address("waiting"))
    f.store_atomic("i32", 0, pool.address("lock"))
    f.ret()
    return f


def _drain(module: TextModule) -> TextFunction:
    """void drain(Pool *pool, int64 part): run chunks of the region as thread ``part``, until none is left.

    Its own chunks come first: a thread then has the same part of an array in successive kernels,
    and finds it in its cache.
    """
    f = module.function("drain", "void", ("ptr", "i64"))
    address, part = f.arguments
    pool = f.record(address, Pool)
    code, buffers, numbers, extent, piece = pool.code, pool.buffers, pool.numbers, pool.extent, pool.piece
    limit, claims = pool.limit, pool.claims
    scratch = f.at(pool.scratch, part * pool.scratch_stride)
    with f.count(part + limit, part) as turn:
        claim = f.record(claims, ClaimRecord, f.select(turn < limit, turn, turn - limit))
        end = claim.end
        with f.loop() as loop:
            loop.leave_if(f.load_atomic("i64", claim.pointer) >= end)
            index = f.add_atomic("i64", claim.pointer, 1)
            loop.leave_if(index >= end)
            low = index * piece
            f.call("void", code, buffers, numbers, low, f.minimum(low + piece, extent), scratch)
    f.ret()
    return f


def _worker(module: TextModule, clock: TextFunction, drain: TextFunction, move: TextFunction) -> TextFunction:
    """void *worker(Pool *pool): join each region, until the pool is stopped.

    A worker counts as active before it checks that the region it saw is still open, and the caller closes the
    region before it checks for active workers. So either the worker stays out, or the caller waits for it.
    """
    f = module.function("worker", "ptr", ("ptr",))
    (address,) = f.arguments
    pool = f.record(address, Pool)
    outside = f.record(pool.outside, Outside)
    generation, active = pool.address("generation"), pool.address("active")
    part = f.add_atomic("i64", pool.address("numbered"), 1) + 1
    seen = f.variable("i32", 0)
    with f.loop():
        current = f.variable("i32", 0)
        begin = f.variable("i64", f.call("i64", clock, outside.pointer))
        with f.loop() as spin:
            current.set(f.load_atomic("i32", generation))
            spin.leave_if(current.get().differs(seen.get()))
            f.pause()
            now = f.call("i64", clock, outside.pointer)
            with f.when((now - begin.get()) > _SPIN):
                f.add_atomic("i32", pool.address("sleepers"), 1)
                _futex(f, outside, generation, _FUTEX_WAIT, f.widen(seen.get()))
                f.add_atomic("i32", pool.address("sleepers"), -1)
                begin.set(f.call("i64", clock, outside.pointer))
        with f.when(f.load_atomic("i32", pool.address("stopped")).differs(0)):
            f.ret(0)
        seen.set(current.get())
        with f.when((seen.get() & 1).differs(0)):
            with f.when(f.call("i32", outside.getcpu).equals(pool.core)):
                f.call("void", move, outside.pointer)
            f.add_atomic("i32", active, 1)
            with f.when(f.load_atomic("i32", generation).equals(seen.get())), f.when(part < pool.limit):
                f.call("void", drain, address, part)
            last = f.add_atomic("i32", active, -1).equals(1)
            with f.when(last & f.load_atomic("i32", pool.address("waiting")).differs(0)):
                _futex(f, outside, active, _FUTEX_WAKE, f.operand("i64", 1))
    return f


def _move(module: TextModule) -> TextFunction:
    """void move(Outside *outside): migrate to another core, if the affinity mask has one.

    On a busy machine the scheduler may keep a worker on the caller's core, where the two would take turns.
    Excluding that core from the thread's mask migrates it at once; then the mask is restored.
    """
    f = module.function("move", "void", ("ptr",))
    outside = f.record(f.arguments[0], Outside)
    this_thread, size = f.operand("i32", 0), f.operand("i64", _CORE_SET)
    allowed, others = f.stack(f.operand("i64", 1), _CORE_SET), f.stack(f.operand("i64", 1), _CORE_SET)
    with f.when(f.call("i32", outside.getaffinity, this_thread, size, allowed) < 0):
        f.ret()
    f.call("i32", outside.getaffinity, this_thread, size, others)
    core = f.widen(f.call("i32", outside.getcpu))
    with f.when((core < 0) | (core >= 8 * _CORE_SET)):
        f.ret()
    word = f.at(others, core // 64 * 8)
    f.store("i64", f.load("i64", word) & (f.operand("i64", -1) - f.power_of_two(core & 63)), word)
    with f.when(f.call("i32", outside.setaffinity, this_thread, size, others).equals(0)):
        f.call("i32", outside.setaffinity, this_thread, size, allowed)
    f.ret()
    return f


def _start(module: TextModule, worker: TextFunction) -> TextFunction:
    """void start(Pool *pool): start the workers, with all signals blocked."""
    f = module.function("start", "void", ("ptr",))
    (address,) = f.arguments
    pool = f.record(address, Pool)
    outside = f.record(pool.outside, Outside)
    null, set_mask = f.operand("ptr", 0), f.operand("i32", _SET_MASK)
    every, before = f.stack(f.operand("i64", 1), _SIGNAL_SET), f.stack(f.operand("i64", 1), _SIGNAL_SET)
    with f.count(f.operand("i64", _SIGNAL_SET // 8)) as word:
        f.store("i64", -1, f.at(every, word * 8))
    f.call("i32", outside.thread_sigmask, set_mask, every, before)
    handles, code = pool.handles, TextValue(f, "ptr", f"@{worker.name}")
    with f.count(pool.threads - 1):
        started = pool.started
        failed = f.call("i32", outside.thread_create, f.at(handles, started * 8), null, code, address)
        with f.when(failed.equals(0)):
            pool.set(started=started + 1)
    f.call("i32", outside.thread_sigmask, set_mask, before, null)
    pool.set(ready=1)
    f.ret()
    return f


def _stop(module: TextModule) -> TextFunction:
    """int32 stop(Pool *pool): let the workers return. Later regions of this pool run on their caller alone.

    Returns 0, without effect, while there is a region.
    """
    f = module.function("stop", "i32", ("ptr",), exported=True)
    (address,) = f.arguments
    pool = f.record(address, Pool)
    outside = f.record(pool.outside, Outside)
    with f.when(f.exchange_atomic("i32", pool.address("lock"), 1).differs(0)):
        f.ret(0)
    f.store_atomic("i32", 1, pool.address("stopped"))
    f.add_atomic("i32", pool.address("generation"), 2)
    _futex(f, outside, pool.address("generation"), _FUTEX_WAKE, f.operand("i64", _EVERYBODY))
    f.ret(1)
    return f


def emit_clock(module: TextModule) -> TextFunction:
    """int64 clock(Outside *outside): monotonic nanoseconds."""
    f = module.function("clock", "i64", ("ptr",))
    outside = f.record(f.arguments[0], Outside)
    cell = f.stack(f.operand("i64", 1), 16)
    f.call("i32", outside.clock_gettime, f.operand("i32", _MONOTONIC), cell)
    time = f.record(cell, Timespec)
    f.ret(time.seconds * 1_000_000_000 + time.nanoseconds)
    return f


def _futex(f: TextFunction, outside: Record, address: TextValue, operation: int, value: TextValue) -> None:
    """Sleep while ``*address == value``, or wake up to ``value`` threads that sleep on ``address``."""
    null = f.operand("ptr", 0)
    futex, op = outside.futex, f.operand("i64", operation)
    f.call("i64", outside.syscall, futex, address, op, value, null, null, null, signature="(i64, ...)")


def _quotient_up(value: TextValue, divisor: TextValue) -> TextValue:
    """ceil(value / divisor), both positive."""
    return (value + divisor - 1) // divisor


# --- grids ------------------------------------------------------------------------------------------------------------
#
# All parallel regions of a point run one after the other on one thread: what one writes is in its cache when the next
# one reads it, and needs memory for a few points only.


def emit_grid(module: TextModule) -> TextFunction:
    """void grid(void **buffers, GridCell *grid, int64 lo, int64 hi, void *scratch): the parallel region of a `Grid`."""
    f = module.function("grid", "void", ("ptr", "ptr", "i64", "i64", "ptr"), exported=True)
    buffers, address, low, high, scratch = f.arguments
    grid = f.record(address, GridCell)
    count, axes, sizes, steps = grid.buffer_count, grid.axis_count, grid.sizes, grid.steps
    slots = f.stack(count + 1)  # the thread's scratch, then what the point has of each buffer
    arguments = f.stack(grid.widest)
    f.store("ptr", scratch, slots)
    with f.count(high, low) as point:
        with f.count(count) as i:
            f.store("ptr", f.load("ptr", f.at(buffers, i * POINTER)), f.at(slots, (i + 1) * POINTER))
        rest, axis = f.variable("i64", point), f.variable("i64", axes)
        with f.loop() as walk:
            walk.leave_if(axis.get() <= 0)
            axis.set(axis.get() - 1)
            size = f.load("i64", f.at(sizes, axis.get() * 8))
            before = rest.get() // size
            index = rest.get() - before * size
            rest.set(before)
            with f.count(count) as i:
                step = f.load("i64", f.at(steps, (axis.get() * count + i) * 8))
                slot = f.at(slots, (i + 1) * POINTER)
                f.store("ptr", f.at(f.load("ptr", slot), index * step), slot)
        with f.count(grid.part_count) as part_index:
            part = f.record(grid.parts, GridPartCell, part_index)
            with f.count(part.buffer_count) as i:
                place = f.record(part.buffers, PositionRecord, i)
                buffer = f.at(f.load("ptr", f.at(slots, place.slot * POINTER)), place.offset)
                f.store("ptr", buffer, f.at(arguments, i * POINTER))
            own = f.at(scratch, part.scratch)
            f.call("void", part.code, arguments, part.numbers, f.operand("i64", 0), part.extent, own)
    f.ret()
    return f
