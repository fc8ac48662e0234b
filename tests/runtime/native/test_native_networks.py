"""Whole networks by native code: called by many threads, in ever new shapes, with arrays as callers have them."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import weakref

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon.hybridize import cached_graph
from hybridc.gluon.nn import HybridLambda
from hybridc.lower.llvm.codegen.native_function import LoadedCode
from hybridc.runtime.native_executable import NativeExecutable
from tests.runtime.mixed_network import mixed_network
from tests.slices import EXAMPLES, but

THREADS, CALLS = 8, 1000
SHAPES = EXAMPLES // 2


def network():
    """A network large enough to be shared by threads."""
    return mixed_network(96, 160, axis=0, scale=0.2)


def native(net, *inputs):
    """The executable of a network's forward."""
    made = net.trace(*inputs).optimize().lower("llvm").compile().forward
    assert isinstance(made, NativeExecutable)
    return made


@pytest.mark.parametrize("record", but((False,), [False, True]), ids=["plain", "recorded"])
def test_threads_call_one_network(record):
    """Each gets what a single thread gets, to the bit: results are nobody else's, and so is what they are made in."""
    net = network()
    rng = np.random.default_rng(0)
    inputs = [mx.nd.array(rng.normal(size=(130, 96)).astype("float32")) for _ in range(THREADS)]
    calls = CALLS if not record else CALLS // 10

    def results(x):
        if not record:
            return [y.asnumpy() for y in net(x)]
        x = mx.nd.array(x)
        x.attach_grad()
        with mx.autograd.record():
            y, z = net(x)
        mx.autograd.backward([y, z])
        return [y.asnumpy(), z.asnumpy(), x.grad.asnumpy()]

    eager = [results(x) for x in inputs]
    net.hybridize()
    serial = [results(x) for x in inputs]
    for one, other in zip(eager, serial, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
    errors = []
    barrier = threading.Barrier(THREADS)

    def work(i):
        try:
            barrier.wait()
            for n in range(calls):
                for got, want in zip(results(inputs[i]), serial[i], strict=True):
                    np.testing.assert_array_equal(got, want, err_msg=f"thread {i}, call {n}")
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def resident():
    """Bytes of memory that the process has."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def machine_code():
    """How many pieces of machine code are loaded."""
    gc.collect()
    return sum(isinstance(x, LoadedCode) for x in gc.get_objects())


@pytest.mark.long
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory of the process from /proc")
def test_ever_new_shapes_leave_memory_on_a_plateau(monkeypatch):
    """Graphs are bounded, their machine code is freed with them."""
    monkeypatch.setattr(
        cached_graph, "OPTIONS", dataclasses.replace(cached_graph.OPTIONS, cache_entries=4, graph_bytes=0)
    )
    before = machine_code()
    net = HybridLambda(lambda F, x: F.broadcast_add(F.softmax(F.tanh(x) * 2), F.sum(x, axis=0, keepdims=True)))
    net.hybridize()
    sizes, codes = [], []
    for i in range(SHAPES):
        x = np.random.default_rng(i).normal(size=(1 + i // 5, 3 + i % 5)).astype("float32")
        found = net(mx.nd.array(x)).asnumpy()
        e = np.exp(2 * np.tanh(x.astype(np.float64)))
        np.testing.assert_allclose(found, e / e.sum(1, keepdims=True) + x.sum(0), rtol=1e-4, atol=1e-4)
        if i >= SHAPES // 2 and i % 8 == 7:
            codes.append(machine_code())
            sizes.append(resident())
    assert max(codes) - before <= 4 * 4  # a graph has up to four regions
    assert max(sizes) - sizes[0] < 8 << 20
    graph = weakref.ref(net._cached_graph)
    del net
    gc.collect()
    assert graph() is None
    assert machine_code() <= before + 1  # the last result may hold what made it


def unaligned(x):
    """The same numbers, one byte behind where they ought to lie."""
    memory = np.empty(x.nbytes + 1, np.uint8)
    made = memory[1:].view(x.dtype).reshape(x.shape)
    made[...] = x
    return made


VIEWS = {
    "unaligned": unaligned,
    "in Fortran's order": np.asfortranarray,
    "every other": lambda x: np.repeat(x, 2, axis=1)[:, ::2],
    "backwards": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "read only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
    "at an odd element": lambda x: np.concatenate([x[:1].ravel()[:1], x.ravel()])[1:].reshape(x.shape),
    "other bytes first": lambda x: x.astype(x.dtype.newbyteorder()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_arrays_as_callers_have_them(name):
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(9, 13)).astype("float32") for _ in range(2))
    made = native(
        HybridLambda(lambda F, x, y: (F.softmax(x * y), F.transpose(x), x + 0)), mx.nd.array(x), mx.nd.array(y)
    )
    plain = [np.array(r) for r in made.run(made.make_workspace(), x, y)]
    given = VIEWS[name](x)
    seen = made.run(made.make_workspace(), given, VIEWS[name](y))
    for a, b in zip(plain, seen, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(given, x)
    e = np.exp(x.astype(np.float64) * y)
    np.testing.assert_allclose(plain[0], e / e.sum(1, keepdims=True), rtol=1e-6)
