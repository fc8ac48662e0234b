"""The pool of buffers: memory is used again as soon as nobody refers to it, and never before, whatever counts read."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

from hybridc.ground import buffers

_COUNT = sys.getrefcount
SIZE = buffers.SMALLEST


def interpreter(monkeypatch, count):
    """The module as an interpreter imports it whose ``sys.getrefcount`` reads otherwise than this one's."""
    monkeypatch.setattr(sys, "getrefcount", count)
    spec = importlib.util.spec_from_file_location("buffers_of_another", buffers.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("shift", [-2, -1, 0])
def test_counts_may_begin_anywhere(monkeypatch, shift):
    """As of CPython 3.14, whose calls borrow what is in local variables."""
    other = interpreter(monkeypatch, lambda x: _COUNT(x) + shift)
    assert other.COUNTS_ARE_EXACT
    check(other.BufferPool(10 * SIZE))


@pytest.mark.parametrize("count", [lambda _: 3, lambda x: 3 * _COUNT(x)])
def test_without_exact_counts_nothing_is_used_again(monkeypatch, count):
    other = interpreter(monkeypatch, count)
    assert not other.COUNTS_ARE_EXACT
    pool = other.BufferPool(10 * SIZE)
    pool.empty((SIZE,), "int8")
    assert pool.bytes == 0


def check(pool):
    """What the pool promises."""
    first, second = pool.empty((SIZE,), "int8"), pool.empty((SIZE,), "int8")
    assert not np.shares_memory(first, second)
    assert pool.bytes == 2 * SIZE
    view, place = first[5:], first.ctypes.data
    del first
    third = pool.empty((SIZE,), "int8")
    assert not np.shares_memory(view, third)  # a view is a use
    del view
    fourth = pool.empty((SIZE // 4,), "float32")
    assert fourth.ctypes.data == place  # and nothing else is
    assert fourth.ctypes.data % buffers.ALIGNMENT == 0
    del second
    pool.trim()
    assert pool.bytes == 2 * SIZE
    del third, fourth
    pool.trim()
    assert pool.bytes == 0


def test_this_interpreter():
    assert buffers.COUNTS_ARE_EXACT or not getattr(sys, "_is_gil_enabled", lambda: True)()
    if buffers.COUNTS_ARE_EXACT:
        check(buffers.BufferPool(10 * SIZE))


def test_what_is_handed_out_is_in_use_at_once():
    """Also before its user has made an array of it: another thread may ask in between."""
    pool = buffers.BufferPool(10 * SIZE)
    found = [pool._take(SIZE) for _ in range(2)]
    places = {buffer.ctypes.data for buffer, _ in found}
    assert len(places) == 2
    del found
    found = [pool._take(SIZE) for _ in range(2)]
    assert {buffer.ctypes.data for buffer, _ in found} == (places if buffers.COUNTS_ARE_EXACT else set())


def test_the_limit_is_kept():
    pool = buffers.BufferPool(2 * SIZE)
    held = [pool.empty((SIZE,), "int8") for _ in range(4)]
    assert pool.bytes <= 2 * SIZE
    assert len({x.ctypes.data for x in held}) == 4
