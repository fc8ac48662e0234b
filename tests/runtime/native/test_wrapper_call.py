"""Calls with objects that hold arrays, as NDArrays do."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.runtime.native import Host, NativePlan, NativeProgram, NativeRegion, PlainArray, Position
from hybridc.runtime.native.wrapper_call import wrapper_entry
from tests.runtime.native.native_programs import ADD, PythonCode, add_plan, f32


class Box:
    __slots__ = ("__weakref__", "array", "first", "last")

    def __init__(self, array):
        self.first = None
        self.array = array
        self.last = None


class Other(Box):
    __slots__ = ()


class WithDict:
    def __init__(self, array):
        self.array = array


class Holding:
    __slots__ = ("array", "more")

    def __init__(self, array):
        self.array = array
        self.more = []


class Empty:
    __slots__ = ("array",)

    def __init__(self, array):
        self.array = [array]


def floats(size):
    return np.arange(size, dtype=np.float32)


def sum_plan():
    """The third of three inputs + 1."""
    steps = [NativeRegion(ADD, (Position(3), Position(4)), f32(1), 6)]
    return NativePlan([PlainArray((6,), "float32")] * 3, [PlainArray((6,), "float32")], steps)


@pytest.mark.parametrize("type_", [Box, Other, mx.nd.NDArray])
def test_results_are_new_boxes(type_):
    call = wrapper_entry(NativeProgram(add_plan(6)), type_)
    x = type_(floats(6))
    y = call(x)
    assert type(y) is type_
    assert y is not x
    np.testing.assert_array_equal(y._data if type_ is mx.nd.NDArray else y.array, floats(6) + 2)


def test_new_boxes_are_like_those_that_python_makes():
    call = wrapper_entry(NativeProgram(add_plan(6)), Box)
    y = call(Box(floats(6)))
    assert (y.first, y.last) == (None, None)
    alive = weakref.ref(y)
    assert gc.is_tracked(y)
    y.first = y  # a cycle
    del y
    gc.collect()
    assert alive() is None


def test_an_ndarray_made_natively_is_a_whole_one():
    call = wrapper_entry(NativeProgram(add_plan(6)), mx.nd.NDArray)
    y = call(mx.nd.array(floats(6)))
    assert (y.grad, y.shape, y.context) == (None, (6,), mx.cpu())
    y.attach_grad()
    with mx.autograd.record():
        z = (y * y).sum()
    z.backward()
    np.testing.assert_array_equal(y.grad.asnumpy(), 2 * (floats(6) + 2))


def test_arrays_are_read_at_each_call():
    boxes = [Box(floats(6)), Box(floats(6)), Box(floats(6) * 10)]
    call = wrapper_entry(NativeProgram(sum_plan()), Box)
    np.testing.assert_array_equal(call(*boxes).array, floats(6) * 10 + 1)
    boxes[2].array = floats(6) * 100
    np.testing.assert_array_equal(call(*boxes).array, floats(6) * 100 + 1)
    boxes[2].array = floats(7)
    assert call(*boxes) is None


def test_several_results_are_a_tuple_of_boxes():
    spec = PlainArray((6,), "float32")
    steps = [
        NativeRegion(ADD, (Position(1), Position(2)), f32(1), 6),
        NativeRegion(ADD, (Position(1), Position(3)), f32(2), 6),
    ]
    call = wrapper_entry(NativeProgram(NativePlan([spec], [spec, spec], steps)), Box)
    for _ in range(3):
        found = call(Box(floats(6)))
        assert type(found) is tuple
        assert [type(y) for y in found] == [Box, Box]
        for number, y in enumerate(found, 1):
            np.testing.assert_array_equal(y.array, floats(6) + number)
        alive = [weakref.ref(y.array) for y in found]
        del found, y
        assert [r() for r in alive] == [None, None]
    assert call(Box(floats(7))) is None
    assert wrapper_entry(NativeProgram(NativePlan([spec], [], [])), Box)(Box(floats(6))) == ()


def test_calls_that_go_another_way():
    call = wrapper_entry(NativeProgram(add_plan(6)), Box)
    unset = Box(floats(6))
    del unset.array
    good = Box(floats(6))
    for boxes in [
        (),
        (good, good),
        (floats(6),),
        (None,),
        (Other(floats(6)),),
        (Box(floats(7)),),
        (Box([1]),),
        (unset,),
    ]:
        assert call(*boxes) is None
    np.testing.assert_array_equal(call(good).array, floats(6) + 2)


@pytest.mark.parametrize("type_", [WithDict, Holding, Empty, list])
def test_types_that_are_no_boxes(type_):
    assert wrapper_entry(NativeProgram(add_plan(6)), type_) is None


def test_references_do_not_change():
    x, wrong = Box(floats(6)), Box(floats(7))
    call = wrapper_entry(NativeProgram(sum_plan()), Box)
    watched = [x, x.array, wrong, wrong.array, None, Box, NotImplemented]

    def work():
        for _ in range(10_000):
            assert call(x, x, x) is not None
            assert call(x, x, wrong) is None
            assert call(x) is None

    work()
    before = [sys.getrefcount(w) for w in watched]
    work()
    assert max(abs(sys.getrefcount(w) - b) for w, b in zip(watched, before)) <= 10


def test_errors_arrive_and_the_next_call_works():
    failing = True

    def step(workspace, inputs, results):
        if failing:
            raise KeyError("why")

    spec = PlainArray((6,), "float32")
    steps = [NativeRegion(ADD, (Position(1), Position(2)), f32(1), 6), Host(step)]
    call = wrapper_entry(NativeProgram(NativePlan([spec], [spec], steps)), Box)
    x = Box(floats(6))
    count = sys.getrefcount(x.array)
    for _ in range(3):
        with pytest.raises(KeyError, match="why"):
            call(x)
    gc.collect()
    after = sys.getrefcount(x.array)
    assert after == count
    failing = False
    np.testing.assert_array_equal(call(x).array, floats(6) + 1)


def test_arrays_live_while_a_call_uses_them_and_nobody_else_enters():
    entered, leave = threading.Event(), threading.Event()
    seen = []

    def run(buffers, numbers, low, high, scratch):
        entered.set()
        assert leave.wait(30)
        seen.append(alive() is not None)

    spec = PlainArray((6,), "float32")
    plan = NativePlan([spec], [spec], [NativeRegion(PythonCode(run), (Position(1),))], work=1e9)
    call = wrapper_entry(NativeProgram(plan), Box)
    x = Box(floats(6))
    alive = weakref.ref(x.array)
    made = []
    thread = threading.Thread(target=lambda: made.append(call(x)))
    thread.start()
    assert entered.wait(30)
    x.array = floats(6)
    assert call(x) is None
    leave.set()
    thread.join()
    assert seen == [True]
    assert alive() is None
    assert type(made[0]) is Box
