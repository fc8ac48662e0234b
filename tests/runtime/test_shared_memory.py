"""Memory that programs share: values that follow from parameters, workspaces, and buffers of results."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc.gluon import nn
from hybridc.ground.buffers import capacity
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.options import OPTIONS
from hybridc.runtime.prepared_store import STORE
from hybridc.runtime.workspace import KEPT, POOL, Workspace, WorkspacePool

SIZES = (3, 1, 40, 8, 17, 2)
prepares = pytest.mark.skipif(
    OPTIONS.target != "llvm" or registers() is None, reason="the llvm target packs weights, with tiles in registers"
)


def dense(seed, hybridized=True):
    """A layer, its input of every size, and the function that gives its results in float64 of what it holds now."""
    rng = np.random.default_rng(seed)
    layer = nn.Dense(96, in_units=64, activation="relu")
    layer.initialize()
    layer.weight.set_data(rng.normal(size=(96, 64)).astype("float32"))
    layer.bias.set_data(rng.normal(size=96).astype("float32"))
    if hybridized:
        layer.hybridize()
    return layer


def inputs(sizes=SIZES, columns=64):
    rng = np.random.default_rng(7)
    return [rng.normal(size=(size, columns)).astype("float32") for size in sizes]


def check(layer, xs):
    weight, bias = (p.data().asnumpy().astype("float64") for p in (layer.weight, layer.bias))
    for x in xs:
        expected = np.maximum(x.astype("float64") @ weight.T + bias, 0)
        for _ in range(2):  # the second call is native
            np.testing.assert_allclose(layer(mx.nd.array(x)).asnumpy(), expected, rtol=1e-4, atol=1e-4)


def forwards(block):
    return [graph.forward for graph in block._cached_graph.graphs()]


# --- prepared values ----------------------------------------------------------------------------------------------


@prepares
def test_graphs_of_all_sizes_share_what_follows_from_parameters():
    before = STORE.bytes
    layer = dense(1)
    check(layer, inputs(SIZES[:1]))
    one = STORE.bytes - before
    assert one >= 96 * 64 * 4
    check(layer, inputs())
    assert STORE.bytes - before == one, "every size is packed alike"
    values = {id(v) for forward in forwards(layer) for v in forward.prepared.values.values()}
    assert len(forwards(layer)) == len(SIZES)
    assert len(values) == 1
    assert sum(forward.prepared.count for forward in forwards(layer)) == 1, "one graph has computed it for all"
    text = str(layer.explain())
    assert f"prepared values: 1 of {one} bytes, which {len(SIZES)} graphs share" in text


@prepares
def test_a_convolution_with_its_scale_is_prepared_once():
    net = nn.HybridSequential()
    net.add(nn.Conv2D(32, 3, padding=1, in_channels=16, use_bias=False), nn.BatchNorm(in_channels=32))
    net.initialize(mx.init.Normal(0.2))
    net[1].running_var.set_data(np.linspace(0.5, 2, 32).astype("float32"))
    xs = [mx.nd.array(np.random.default_rng(b).normal(size=(b, 16, 10, 10))) for b in (1, 2, 3, 5)]
    expected = [net(x).asnumpy() for x in xs]
    net.hybridize()
    for x, y in zip(xs, expected, strict=True):
        np.testing.assert_allclose(net(x).asnumpy(), y, rtol=1e-3, atol=1e-3)
    values = {id(v): v.memory.nbytes for f in forwards(net) for v in f.prepared.values.values()}
    forms = [size for size in values.values() if size >= 32 * 16 * 9 * 4]
    assert 1 <= len(forms) <= 2, "the weight as it is multiplied, and as Winograd's algorithm multiplies it"


@prepares
def test_a_write_is_seen_at_every_size_and_prepared_once():
    layer, xs = dense(2), inputs()
    check(layer, xs)
    for number in range(2):
        layer.weight.data()[number] = 3.0
        check(layer, xs)
        layer.bias.set_data(np.full(96, -1.0 - number, "float32"))
        check(layer, xs)
    assert sum(forward.prepared.count for forward in forwards(layer)) == 3


@prepares
def test_equal_layers_with_other_parameters_share_nothing():
    layers, xs = [dense(3), dense(4)], inputs()
    for _ in range(2):
        for layer in layers:
            check(layer, xs)
    values = [{id(v) for f in forwards(layer) for v in f.prepared.values.values()} for layer in layers]
    assert not values[0] & values[1]
    layers[0].weight.data()[:] = layers[1].weight.data()  # equal numbers, and still two arrays
    check(layers[0], xs)
    layers[1].weight.data()[:] = 0.5
    for layer in layers:
        check(layer, xs)


@prepares
def test_networks_with_the_same_parameters_share_them():
    layer = dense(5)
    other = nn.HybridSequential()
    other.add(nn.Dense(96, in_units=64, activation="relu", params=layer.params))
    other.hybridize()
    xs = inputs()
    check(layer, xs)
    gc.collect()
    before = STORE.bytes
    for x in xs:
        np.testing.assert_array_equal(other(mx.nd.array(x)).asnumpy(), layer(mx.nd.array(x)).asnumpy())
    assert STORE.bytes == before
    del layer
    gc.collect()
    assert STORE.bytes == before, "the other network still uses it"


@prepares
def test_values_are_freed_with_the_last_graph():
    gc.collect()
    before = STORE.bytes
    layer = dense(6)
    check(layer, inputs())
    parameters = layer.collect_params()
    assert STORE.bytes > before
    layer.hybridize(False)
    layer.hybridize()
    gc.collect()
    assert STORE.bytes == before
    check(layer, inputs())
    del layer
    gc.collect()
    assert STORE.bytes == before
    assert parameters


@prepares
def test_threads_at_many_sizes_while_one_exchanges_the_weight():
    layer, xs = dense(8), inputs()
    stop, wrong = threading.Event(), []
    weights = [np.full((96, 64), value, "float32") for value in (0.25, -0.5)]
    bias = layer.bias.data().asnumpy().astype("float64")
    expected = [[np.maximum(x.astype("float64") @ w.T + bias, 0) for w in weights] for x in xs]
    layer.weight.data()._data = weights[0]

    def call(number):
        x = mx.nd.array(xs[number])
        while not stop.is_set():
            y = layer(x).asnumpy()
            if not any(np.allclose(y, each, rtol=1e-4, atol=1e-4) for each in expected[number]):
                wrong.append((number, y))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        layer.weight.data()._data = weights[number % 2].copy()
        for at in (3, 4):
            y = layer(mx.nd.array(xs[at])).asnumpy()
            np.testing.assert_allclose(y, expected[at][number % 2], rtol=1e-4, atol=1e-4)
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong


# --- workspaces ---------------------------------------------------------------------------------------------------


def deep(width=64):
    net = nn.HybridSequential()
    net.add(*[nn.Dense(width, in_units=width, activation="tanh") for _ in range(4)])
    mx.random.seed(1)
    net.initialize(mx.init.Xavier())
    return net


def test_one_workspace_serves_all_sizes():
    net = deep()
    xs = [mx.nd.array(x) for x in inputs(range(100, 420, 20))]
    expected = [net(x).asnumpy() for x in xs]
    net.hybridize()
    gc.collect()
    POOL.idle.clear()
    for _ in range(3):
        for x, y in zip(xs, expected, strict=True):
            np.testing.assert_allclose(net(x).asnumpy(), y, rtol=1e-4, atol=1e-5)
    arenas = [forward.program.arena for forward in forwards(net)]
    assert len(arenas) == len(xs)
    assert sum(each.nbytes for each in POOL.idle) <= 2 * capacity(max(arenas)) < sum(arenas)


def test_calls_that_are_recorded_have_workspaces_of_their_own():
    net = deep(8)
    net.hybridize()
    xs = [mx.nd.array(x) for x in inputs((5, 9, 3), 8)]
    for x in xs:
        x.attach_grad()

    def gradients(together):
        if not together:
            made = []
            for x in xs:
                with mx.autograd.record():
                    y = net(x) ** 2
                y.backward()
                made.append(x.grad.asnumpy())
            return made
        with mx.autograd.record():
            ys = [net(x) ** 2 for x in xs]  # all are in flight
        for y in ys:
            y.backward()
        return [x.grad.asnumpy() for x in xs]

    expected = gradients(False)
    for _ in range(2):
        for got, want in zip(gradients(True), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def test_workspaces_are_freed_with_the_graphs():
    def alive():
        gc.collect()
        return sum(type(o) is Workspace for o in gc.get_objects())

    POOL.idle.clear()
    before = alive()
    for _ in range(3):
        net = deep(8)
        net.hybridize()
        x = mx.nd.ones((300, 8))
        x.attach_grad()
        with mx.autograd.record():
            y = net(x)
        y.backward()
        net(x)
        del net, y
    assert alive() <= before + KEPT


def test_idle_workspaces_are_bounded_by_bytes():
    """However many programs there are, and threads that ran the largest at a time; the latest used ones stay."""
    pool, users = WorkspacePool(), [User() for _ in range(50)]
    for number, user in enumerate(users):
        pool.join(user, 1 << 20 if number == 3 else 1 << 10)
    used = [pool.acquire(1 << 20) for _ in range(30)]
    for each in used:
        pool.release(each)
    assert KEPT << 20 <= pool.bytes <= KEPT * capacity(1 << 20)
    assert [each is last for each, last in zip(pool.idle, used[-KEPT:], strict=True)] == [True] * KEPT
    small = [pool.acquire(1 << 10) for _ in range(30)]
    for each in small:
        pool.release(each)
    assert len(pool.idle) >= 29, "of these, only a large one makes room"


class User:
    """Something that needs a workspace."""


def test_the_pool_of_workspaces():
    pool, large, small = WorkspacePool(), User(), User()
    pool.join(large, 3000)
    pool.join(small, 100)
    first, second = pool.acquire(100), pool.acquire(100)
    assert first is not second
    pool.release(first)
    pool.release(second)
    third = pool.acquire(3000)
    assert third.size >= 3000
    assert len(pool.idle) == 1, "one that is too small has made room"
    other = pool.acquire(50)
    pool.release(third)
    pool.release(other)
    assert pool.acquire(2999) is third, "also behind one that is too small"
    pool.release(third)
    for _ in range(3 * KEPT):
        pool.release(pool.acquire(100))
    many = [pool.acquire(100) for _ in range(5 * KEPT)]
    for each in many:
        pool.release(each)
    assert len(pool.idle) < 5 * KEPT
    assert pool.bytes <= KEPT * capacity(3000)
    del large
    gc.collect()
    assert all(each.size < 3000 for each in pool.idle)
    del small
    gc.collect()
    assert pool.bytes == 0


# --- buffers of results -------------------------------------------------------------------------------------------


def test_buffers_serve_arrays_of_many_sizes():
    sizes = [(1 << 17) + 4096 * n for n in range(4000)]
    kinds = {capacity(size) for size in sizes}
    assert len(kinds) < 20
    assert all(size <= capacity(size) <= 2 * size for size in sizes)
    assert all(capacity(size) <= 1.13 * size for size in sizes if size > 1 << 23)
    assert all(capacity(kind) == kind for kind in kinds)


# --- the memory of a process --------------------------------------------------------------------------------------

PROGRAM = """
    import sys
    import hybridc as mx

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    width, first, step, sizes = map(int, sys.argv[1:])
    net = mx.gluon.nn.Dense(width, in_units=width)
    net.initialize()
    net.hybridize()
    for number in range(sizes):
        net(mx.nd.ones((first + number * step, width))).asnumpy()
        if number == 4:
            before = resident()
    print(resident() - before)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads the memory of a process from /proc")
@pytest.mark.parametrize(
    ("arguments", "entries", "most"), [((2048, 8, 8, 24), 64, 40), ((1024, 2, 3, 40), 4, 20)], ids=["sizes", "evicted"]
)
def test_further_sizes_take_little_memory(arguments, entries, most):
    """In MiB, of weights of 16 and of 4 MiB; each size had a copy of these once."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), *map(str, arguments)],
        env={**os.environ, "HYBRIDC_CACHE_ENTRIES": str(entries), "HYBRIDC_GRAPH_BYTES": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) <= most << 20
