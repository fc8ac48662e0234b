"""Parallel regions that threads share: every iteration once, own scratch, forks, exits, changing thread counts."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

from hybridc.runtime.native import (
    NativePlan,
    NativeProgram,
    NativeRegion,
    PlainArray,
    Position,
    num_threads,
    set_num_threads,
)
from tests.runtime.native.native_programs import COUNT, SCRATCH, PythonCode, add_plan, python

WITHOUT_LOCK = 1e9  # work for which a program lets other threads of Python run


@pytest.fixture
def threads():
    """Sets the number of threads; afterwards it is as it was."""
    before = num_threads()
    yield set_num_threads
    set_num_threads(before)


def shared(code, extent, grain, count, result, **scratch):
    """A plan of one parallel region."""
    region = NativeRegion(code, (Position(1),), b"", extent, grain, **scratch)
    return NativePlan([], [result], [region], arena=1 << 16, threads=count, work=WITHOUT_LOCK)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_iteration_is_done_once(threads, count):
    threads(count)
    for extent in (0, 1, 2, 5, 63, 64, 65, 1000, 12345):
        for grain in (1, 2, 7, 64, 1000, 1 << 40):
            program = NativeProgram(shared(COUNT, extent, grain, count, PlainArray((extent,), "int32")))
            workspace, y = program.workspace(), np.zeros(extent, np.int32)
            for times in range(1, 4):
                program.entry(workspace, (y,))
                assert (y == times).all(), (extent, grain)


@pytest.mark.parametrize(("extent", "grain"), [(100, 1), (100, 7), (1000, 8), (64, 32), (3, 2), (10, 10), (5, 1)])
def test_ranges_are_cut_at_multiples_of_the_grain(threads, extent, grain):
    threads(3)
    pieces = []
    code = PythonCode(lambda buffers, numbers, low, high, scratch: pieces.append((low, high)))
    program = NativeProgram(shared(code, extent, grain, 3, PlainArray((1,), "int32")))
    program.entry(program.workspace(), None)
    pieces.sort()
    assert [low for low, _ in pieces] == [0, *(high for _, high in pieces[:-1])]
    assert pieces[-1][1] == extent
    assert all(low % grain == 0 for low, _ in pieces)
    assert len(pieces) == 1 if extent <= grain else 1 < len(pieces) <= 12


@pytest.mark.parametrize(
    ("extent", "least", "alone"), [(99, 100, True), (100, 100, False), (8, 0, True), (9, 0, False)]
)
def test_short_ranges_are_not_shared(threads, extent, least, alone):
    threads(2)
    pieces = []
    code = PythonCode(lambda buffers, numbers, low, high, scratch: pieces.append((low, high)))
    program = NativeProgram(shared(code, extent, 8, 2, PlainArray((1,), "int32"), least=least))
    program.entry(program.workspace(), None)
    assert (pieces == [(0, extent)]) is alone


def meet(count):
    """A parallel region in which ``count`` threads wait for each other; the idents of threads, and their scratch."""
    barrier, seen = threading.Barrier(count), set()

    def run(buffers, numbers, low, high, scratch):
        seen.add((threading.get_ident(), scratch))
        if low < count:
            barrier.wait(30)

    return PythonCode(run), seen


@pytest.mark.parametrize("count", [2, 3, 5])
def test_threads_take_part_at_the_same_time(threads, count):
    threads(count)
    code, seen = meet(count)
    plan = shared(code, count, 1, count, PlainArray((1,), "int32"), scratch=Position(0, 64), scratch_stride=128)
    program = NativeProgram(plan)
    workspace = program.workspace()
    program.entry(workspace, None)
    base = workspace.ctypes.data + 64
    assert len({ident for ident, _ in seen}) == count
    assert sorted(scratch - base for _, scratch in seen) == [128 * i for i in range(count)]
    assert (threading.get_ident(), base) in seen


def test_a_plan_with_scratch_for_fewer_threads(threads):
    threads(6)
    seen = set()
    code = PythonCode(lambda buffers, numbers, low, high, scratch: seen.add(scratch))
    plan = shared(code, 1000, 1, 2, PlainArray((1,), "int32"), scratch=Position(0), scratch_stride=64)
    program = NativeProgram(plan)
    workspace = program.workspace()
    for _ in range(50):
        program.entry(workspace, None)
    assert {s - workspace.ctypes.data for s in seen} <= {0, 64}


def test_scratch_is_each_threads_own(threads):
    threads(4)
    plan = shared(SCRATCH, 5000, 3, 4, PlainArray((5000,), "int64"), scratch=Position(0), scratch_stride=512)
    program = NativeProgram(plan)
    workspace = program.workspace()
    for _ in range(20):
        (y,) = program.entry(workspace, None)
        np.testing.assert_array_equal(y, np.arange(5000) * 64)


def test_one_region_at_a_time(threads):
    """Who finds the pool taken runs alone, with the first scratch."""
    threads(2)
    outer_started, inner_done = threading.Event(), threading.Event()
    seen = set()

    def wait(buffers, numbers, low, high, scratch):
        outer_started.set()
        assert inner_done.wait(30)

    def note(buffers, numbers, low, high, scratch):
        seen.add((threading.get_ident(), low, high))

    outer = NativeProgram(shared(PythonCode(wait), 2, 1, 2, PlainArray((1,), "int32")))
    inner = NativeProgram(shared(PythonCode(note), 100, 1, 2, PlainArray((1,), "int32")))
    thread = threading.Thread(target=lambda: outer.entry(outer.workspace(), None))
    thread.start()
    assert outer_started.wait(30)
    inner.entry(inner.workspace(), None)
    inner_done.set()
    thread.join()
    assert seen == {(threading.get_ident(), 0, 100)}


def test_the_number_of_threads_changes_while_they_work(threads):
    stop, failed = threading.Event(), []

    def work():
        program = NativeProgram(add_plan(4000, grain=16, threads=4, work=WITHOUT_LOCK))
        workspace, x = program.workspace(), np.arange(4000, dtype=np.float32)
        while not stop.is_set():
            if not np.array_equal(program.entry(workspace, None, x)[0], x + 2):
                failed.append(1)

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for i in range(60):
        threads(1 + i % 4)
        assert num_threads() == 1 + i % 4
    stop.set()
    for worker in workers:
        worker.join()
    assert failed == []


def test_threads_that_are_no_longer_needed_end():
    program = """
    import os, time
    import numpy as np
    from hybridc.runtime.native import NativeProgram, num_threads, set_num_threads
    from tests.runtime.native.native_programs import add_plan

    def settles(count):
        end = time.monotonic() + 30
        while len(os.listdir("/proc/self/task")) != count:  # a thread that was joined is listed a little longer
            assert time.monotonic() < end, os.listdir("/proc/self/task")

    set_num_threads(1)
    others = 0
    for _ in range(20):  # threads of imports end
        others = len(os.listdir("/proc/self/task")) - 1
        time.sleep(0.05)
    for count in (3, 5, 2, 1, 4):
        set_num_threads(count)
        program = NativeProgram(add_plan(1000, grain=1, threads=8))
        program.entry(program.workspace(), None, np.zeros(1000, np.float32))
        settles(others + count)
    print("done")
    """
    assert python(program) == "done\n"


def test_workers_leave_signals_to_others(threads):
    threads(1)
    before = set(os.listdir("/proc/self/task"))
    threads(3)
    program = NativeProgram(shared(COUNT, 1000, 1, 3, PlainArray((1000,), "int32")))
    program.entry(program.workspace(), None)
    workers = set(os.listdir("/proc/self/task")) - before
    assert len(workers) == 2
    for task in workers:
        status = Path(f"/proc/self/task/{task}/status").read_text()
        (blocked,) = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigBlk")]
        for number in (signal.SIGINT, signal.SIGALRM, signal.SIGTERM):
            assert blocked & 1 << number - 1


@pytest.mark.parametrize("count", [0, -1])
def test_fewer_than_one_thread(count):
    with pytest.raises(ValueError, match="threads"):
        set_num_threads(count)


def test_the_default_number_of_threads():
    program = "from hybridc.runtime.native import num_threads; print(num_threads())"
    assert python(program, HYBRIDC_NUM_THREADS="3") == "3\n"


BUSY = """
    import faulthandler, os, signal, sys, threading
    import numpy as np
    from hybridc.runtime.native import NativeProgram, set_num_threads
    from tests.runtime.native.native_programs import add_plan

    set_num_threads(3)
    x = np.arange(100000, dtype=np.float32)
    program = NativeProgram(add_plan(x.size, grain=64, threads=3, work=1e9))

    def work(times):
        workspace = program.workspace()
        for _ in range(times):
            if not np.array_equal(program.entry(workspace, None, x)[0], x + 2):
                os._exit(5)

    def forever():
        while True:
            work(100)
"""


def test_forks_while_threads_are_busy():
    program = """
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
    for i in range(25):
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(30, exit=True)
            work(20)
            tasks = len(os.listdir("/proc/self/task"))  # the pool's, and faulthandler's
            set_num_threads(2)
            work(20)
            os._exit(0 if tasks >= 3 else 7)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if code:
            os._exit(code)
    print("done")
    """
    assert python(BUSY + program) == "done\n"


@pytest.mark.long
def test_a_process_ends_whatever_the_pool_does():
    assert python(BUSY + "    work(10); print('done')") == "done\n"
    daemons = """
    for _ in range(3):
        threading.Thread(target=forever, daemon=True).start()
    work(50)
    print("done")
    """
    for _ in range(3):
        assert python(BUSY + daemons) == "done\n"


def test_signals_arrive_while_programs_run():
    program = """
    caught = []
    signal.signal(signal.SIGALRM, lambda *_: caught.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    while len(caught) < 20:
        work(1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("done")
    """
    assert python(BUSY + program) == "done\n"
