"""One call of a program: guards, results, host steps, errors, and that nothing is left behind."""

from __future__ import annotations

import gc
import resource
import sys
import threading
import weakref

import numpy as np
import pytest

from hybridc.ground.buffers import SMALLEST
from hybridc.runtime.native import Host, NativePlan, NativeProgram, NativeRegion, PlainArray, Position, Workspace
from hybridc.runtime.native.fallback import python_entry
from hybridc.runtime.native.native_program import Tables, native_entry
from tests.runtime.native.native_programs import ADD, add_plan, f32


@pytest.fixture(params=[native_entry, python_entry], ids=["native", "python"])
def make(request):
    """A program with its entry made one way or the other."""

    def program(plan):
        made = NativeProgram(plan)
        made.entry = request.param(Tables(plan))
        return made

    return program


def floats(size):
    return np.arange(size, dtype=np.float32)


def test_the_entry_of_this_interpreter_is_native():
    assert type(NativeProgram(add_plan(4)).entry) is type(len)


@pytest.mark.parametrize("size", [0, 1, 7, 1000, SMALLEST // 4 - 1, SMALLEST // 4, 100_000])
def test_steps_run_in_order(make, size):
    program = make(add_plan(size))
    (y,) = program.entry(program.workspace(), None, floats(size))
    np.testing.assert_array_equal(y, np.arange(size, dtype=np.float64) + 2)
    assert (y.dtype, y.shape, y.flags.c_contiguous, y.flags.writeable) == (np.float32, (size,), True, True)


def test_no_inputs_no_results_no_steps(make):
    program = make(NativePlan(inputs=[], results=[], steps=[]))
    assert program.entry(program.workspace(), None) == ()


def test_constants_and_offsets(make):
    constant = floats(10)
    steps = [
        NativeRegion(ADD, (Position(3, 4 * 4), Position(2, 4)), f32(1), 3),
        NativeRegion(ADD, (Position(1, 8), Position(2, 16)), f32(2), 1),
    ]
    plan = NativePlan([PlainArray((3,), "float32")], [PlainArray((5,), "float32")], steps, [constant])
    program = make(plan)
    out = np.zeros(5, np.float32)
    (y,) = program.entry(program.workspace(), (out,), floats(3))
    assert y is out
    np.testing.assert_array_equal(y, [0, 5, 6, 7, 4])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"])
def test_every_type_and_rank(make, dtype):
    shapes = [(), (3,), (2, 3), (1, 1, 1, 1, 5), (0, 4)]
    arrays = [np.ones(shape, dtype) for shape in shapes]
    specs = [PlainArray(shape, dtype) for shape in shapes]
    program = make(NativePlan(specs, specs, []))
    results = program.entry(program.workspace(), None, *arrays)
    assert [(r.shape, r.dtype) for r in results] == [(shape, np.dtype(dtype)) for shape in shapes]


class Odd(np.ndarray):
    """Another type of arrays."""


def unaligned(size):
    return np.zeros(4 * size + 1, np.uint8)[1:].view(np.float32)


NOT_SUITABLE = {
    "list": [0.0] * 6,
    "none": None,
    "number": 3.0,
    "subclass": floats(6).view(Odd),
    "masked": np.ma.masked_array(floats(6)),
    "float64": np.arange(6.0),
    "int32": np.arange(6, dtype=np.int32),
    "swapped": floats(6).astype(">f4"),
    "length": floats(7),
    "shorter": floats(5),
    "rank": floats(6).reshape(1, 6),
    "scalar": np.float32(1),
    "strided": floats(12)[::2],
    "reversed": floats(6)[::-1],
    "unaligned": unaligned(6),
}


@pytest.mark.parametrize("name", NOT_SUITABLE)
def test_arrays_that_are_not_as_the_plan_says(make, name):
    program = make(add_plan(6))
    workspace = program.workspace()
    assert program.entry(workspace, None, NOT_SUITABLE[name]) is NotImplemented
    if name != "none":
        assert program.entry(workspace, (NOT_SUITABLE[name],), floats(6)) is NotImplemented
    np.testing.assert_array_equal(program.entry(workspace, None, floats(6))[0], floats(6) + 2)


def test_order_of_a_matrix_is_guarded(make):
    program = make(NativePlan([PlainArray((2, 3), "float32")], [], []))
    assert program.entry(program.workspace(), None, np.ones((2, 3), np.float32)) == ()
    assert program.entry(program.workspace(), None, np.ones((3, 2), np.float32).T) is NotImplemented
    # One row is in both orders.
    program = make(NativePlan([PlainArray((1, 3), "float32")], [], []))
    assert program.entry(program.workspace(), None, np.asfortranarray(np.ones((1, 3), np.float32))) == ()


def test_an_equal_type_that_is_another_object_fits(make):
    other = np.dtype("float32", metadata={"a": 1})
    assert other is not np.dtype("float32")
    program = make(add_plan(6))
    np.testing.assert_array_equal(program.entry(program.workspace(), None, floats(6).astype(other))[0], floats(6) + 2)


def test_read_only_arrays_are_inputs_but_no_results(make):
    x = floats(6)
    x.flags.writeable = False
    program = make(add_plan(6))
    np.testing.assert_array_equal(program.entry(program.workspace(), None, x)[0], floats(6) + 2)
    assert program.entry(program.workspace(), (x,), floats(6)) is NotImplemented
    np.testing.assert_array_equal(x, floats(6))


def test_into_some_of_the_results(make):
    steps = [NativeRegion(ADD, (Position(1), Position(2 + i)), f32(i), 4) for i in range(3)]
    program = make(NativePlan([PlainArray((4,), "float32")], [PlainArray((4,), "float32")] * 3, steps))
    given = np.zeros(4, np.float32)
    results = program.entry(program.workspace(), (None, given, None), floats(4))
    assert results[1] is given
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, floats(4) + i)
    assert not np.shares_memory(results[0], results[2])


def test_wrong_calls(make):
    program, larger = make(add_plan(6)), make(add_plan(60))
    workspace = larger.workspace()
    for arguments, text in [
        ((workspace, None), "wrong number"),
        ((workspace, None, floats(6), floats(6)), "wrong number"),
        ((floats(500), None, floats(6)), "no Workspace"),
        ((None, None, floats(6)), "no Workspace"),
        ((workspace, [None], floats(6)), "neither None nor a tuple"),
        ((workspace, floats(6), floats(6)), "neither None nor a tuple"),
    ]:
        with pytest.raises(TypeError, match=text):
            program.entry(*arguments)
    with pytest.raises(TypeError, match="smaller program"):
        larger.entry(program.workspace(), None, floats(60))
    with pytest.raises(IndexError):
        program.entry(workspace, (), floats(6))
    np.testing.assert_array_equal(program.entry(workspace, None, floats(6))[0], floats(6) + 2)


def test_plans_that_native_code_must_not_run():
    good = NativeRegion(ADD, (Position(1), Position(2)), f32(1), 4)
    inputs = [PlainArray((4,), "float32")]
    for steps, constants in [
        ([NativeRegion(ADD, (Position(1), Position(3)), f32(1), 4)], []),
        ([NativeRegion(ADD, (Position(-1), Position(2)), f32(1), 4)], []),
        ([NativeRegion(ADD, (Position(0, 1), Position(2)), f32(1), 4)], []),
        ([NativeRegion(ADD, (Position(1), Position(2, 17)), f32(1), 4)], []),
        ([NativeRegion(ADD, (Position(1), Position(2)), f32(1), 4, grain=0)], []),
        ([NativeRegion(ADD, (Position(1), Position(2)), f32(1)[:4], 4)], []),
        ([NativeRegion(ADD, (Position(1), Position(2)), f32(1), 4, scratch=Position(9))], []),
        ([good], [floats(8)[::2]]),
    ]:
        with pytest.raises(ValueError, match="native plan"):
            NativeProgram(NativePlan(inputs, inputs, steps, constants))


def test_workspaces_are_aligned_and_have_cells():
    program = NativeProgram(add_plan(100))
    for _ in range(5):
        workspace = program.workspace()
        assert type(workspace) is Workspace
        assert workspace.ctypes.data % 64 == 0
        assert workspace.nbytes == program.plan.arena
        assert workspace.states == {}


def test_large_results_begin_a_cache_line_and_never_overlap(make):
    size = SMALLEST // 4 + 3
    program = make(add_plan(size))
    workspace = program.workspace()
    kept = [program.entry(workspace, None, floats(size) + i)[0] for i in range(5)]
    for i, y in enumerate(kept):
        assert y.ctypes.data % 64 == 0
        np.testing.assert_array_equal(y, floats(size) + i + 2)
    part = kept[0][5:7]
    kept.clear()
    program.entry(workspace, None, floats(size) * 0)
    np.testing.assert_array_equal(part, [7, 8])


# Host steps


def host_plan(calls, work=0.0):
    """Adds 1; calls; adds 1; calls; ..."""
    steps = []
    for call in calls:
        steps += [NativeRegion(ADD, (Position(1), Position(2)), f32(1), 4), Host(call)]
    return NativePlan([PlainArray((4,), "float32")], [PlainArray((4,), "float32")], steps, arena=64, work=work)


@pytest.mark.parametrize("work", [0.0, 1e9], ids=["with the lock", "without the lock"])
def test_host_steps_see_arrays_in_the_middle(make, work):
    seen = []

    def call(workspace, inputs, results):
        seen.append((type(workspace), inputs, results, results[0].copy()))
        workspace.states["times"] = workspace.states.get("times", 0) + 1
        inputs[0][:] = results[0] * 10

    program = make(host_plan([call, call, call], work))
    workspace, x = program.workspace(), floats(4)
    results = program.entry(workspace, None, x)
    np.testing.assert_array_equal([s[3] for s in seen], [[1, 2, 3, 4], [11, 21, 31, 41], [111, 211, 311, 411]])
    assert workspace.states["times"] == 3
    for type_, inputs, outputs, _ in seen:
        assert type_ is Workspace
        assert type(inputs) is tuple
        assert inputs[0] is x
        assert outputs is results


@pytest.mark.parametrize("work", [0.0, 1e9], ids=["with the lock", "without the lock"])
def test_errors_of_host_steps_arrive(make, work):
    class Odd(Exception):
        pass

    def fail(workspace, inputs, results):
        raise Odd("why")

    later = []
    program = make(host_plan([fail, lambda *a: later.append(a)], work))
    workspace, x, into = program.workspace(), floats(4), np.zeros(4, np.float32)
    counts = sys.getrefcount(x), sys.getrefcount(into), sys.getrefcount(workspace)
    for _ in range(100):
        with pytest.raises(Odd, match="why"):
            program.entry(workspace, (into,), x)
    assert later == []
    gc.collect()
    assert (sys.getrefcount(x), sys.getrefcount(into), sys.getrefcount(workspace)) == counts


def test_a_host_step_may_call_programs(make):
    inner = make(add_plan(4))
    outer = make(
        host_plan([lambda w, i, r: r[0].__setitem__(slice(None), inner.entry(inner.workspace(), None, r[0])[0])])
    )
    np.testing.assert_array_equal(outer.entry(outer.workspace(), None, floats(4))[0], floats(4) + 3)


# Nothing is left behind, nothing dies too early


@pytest.mark.parametrize("size", [4, SMALLEST])
def test_counts_of_references_do_not_change(make, size):
    calls = 100_000 if size == 4 else 2_000
    program = make(add_plan(size))
    workspace, x = program.workspace(), floats(size)
    into = (np.zeros(size, np.float32),)
    wrong = np.arange(6.0)
    watched = [x, x.dtype, into, into[0], workspace, wrong, None, NotImplemented, np.ndarray, Workspace, program.entry]

    def work(times):
        for _ in range(times):
            program.entry(workspace, None, x)
            program.entry(workspace, into, x)
            program.entry(workspace, None, wrong)
            program.entry(workspace, (wrong,), x)

    work(10)
    before = [sys.getrefcount(w) for w in watched]
    work(calls // 4)
    after = [sys.getrefcount(w) for w in watched]
    assert max(abs(a - b) for a, b in zip(after, before)) <= 10


def test_memory_stays_level(make):
    program = make(add_plan(1 << 18))
    workspace, x = program.workspace(), floats(1 << 18)
    for _ in range(20):
        program.entry(workspace, None, x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(300):  # 300 MiB of results
        program.entry(workspace, None, x)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_the_entry_keeps_what_it_needs_and_no_more(make):
    class Call:
        def __call__(self, workspace, inputs, results):
            results[0][:] += constant()[0]

    call, data = Call(), floats(3) + 5
    constant = weakref.ref(data)
    plan = host_plan([call])
    plan.constants = [data]
    program = make(plan)
    entry, workspace, alive = program.entry, program.workspace(), weakref.ref(call)
    del program, plan, call, data
    gc.collect()
    np.testing.assert_array_equal(entry(workspace, None, floats(4))[0], floats(4) + 6)
    del entry
    gc.collect()
    assert alive() is None
    assert constant() is None


def test_many_threads_of_python(make):
    small, large = make(add_plan(100)), make(add_plan(3000, grain=10, threads=2, work=1e9))
    failed = []

    def work(number):
        pairs = [(p, p.workspace()) for p in (small, large)]
        for _ in range(1000):
            for program, workspace in pairs:
                x = np.full(program.plan.inputs[0].shape, number, np.float32)
                (y,) = program.entry(workspace, None, x)
                if not (y == number + 2).all():
                    failed.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
