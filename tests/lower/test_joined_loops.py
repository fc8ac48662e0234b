"""Loops of cheap steps, which are one native function, give the bits that their kernels give one by one."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon
from hybridc.lower.llvm import joined_loop
from hybridc.lower.llvm.joined_loop import inlined
from hybridc.options import OPTIONS

pytestmark = pytest.mark.skipif(OPTIONS.target != "llvm", reason="the llvm target joins steps")


def counted(F, x, s):
    """A condition with a sum, states that change places, an output that is a state."""
    return F.contrib.while_loop(
        lambda i, s: F.sum(s) < 40, lambda i, s: ([s * 0.5, i], [i + 1, s * 0.99 + F.sum(s) * 0.01 + 0.1]),
        [F.zeros((1,)), s], max_iterations=100,
    )  # fmt: skip


def never(F, x, s):
    return F.contrib.while_loop(lambda s: F.sum(s) * 0, lambda s: (s, s + 1), s, max_iterations=70)


def rows(F, x, s):
    return F.contrib.foreach(lambda row, s: (row + F.tanh(s), s * 0.9 + row * row), x, s)


def passed_on(F, x, s):
    """An output that is a row of the data, a state that stays, one that is another one."""
    return F.contrib.foreach(lambda row, t: ([row, t[0]], [t[0], t[2] * 1.5, row - t[1]]), x, [s, s + 1, s * 2])


def drawn(F, x, s):
    def step(row, s):
        return F.Dropout(row, p=0.5, mode="always"), F.Dropout(s, p=0.1, mode="always") * 0.9 + row

    return F.contrib.foreach(step, x, s)


def read(F, x, s):
    """Constants, and what all steps read."""
    scale = F.sum(x, axis=0)
    table = F.arange(12).reshape((4, 3))
    return F.contrib.foreach(lambda row, s: (F.broadcast_add(table, row), s * scale * 1e-2 + 1), x, s)


CASES = [counted, never, rows, passed_on, drawn, read]


class Net(gluon.HybridBlock):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def hybrid_forward(self, F, x, s):
        return self.function(F, x, s)


def flat(found):
    return [each for y in found for each in flat(y)] if isinstance(found, list | tuple) else [found]


def results(function, dtype="float32", steps=80, record=False):
    """Results, and gradients if they are recorded, and whether its loop is one function."""
    net = Net(function)
    net.hybridize()
    rng = np.random.default_rng(1)
    given = [mx.nd.array(rng.standard_normal(shape), dtype=dtype) for shape in ((steps, 3), (3,))]
    mx.random.seed(5)
    found = []
    for x in given:
        x.attach_grad()
    if record:
        with autograd.record():
            found = flat(net(*given))
        autograd.backward([y for y in found if y.dtype == np.dtype(dtype)])
        found += [x.grad for x in given]
    else:
        found = flat(net(*given))
    return [y.asnumpy() for y in found], " in one function" in net.explain()


@pytest.mark.parametrize("record", [False, True])
@pytest.mark.parametrize("function", CASES, ids=[f.__name__ for f in CASES])
def test_one_function_gives_the_same_bits(monkeypatch, function, record):
    found, is_joined = results(function, record=record)
    assert is_joined
    monkeypatch.setattr(joined_loop, "STEPS", 10**9)
    wanted, is_joined = results(function, record=record)
    assert not is_joined
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types(dtype):
    found, is_joined = results(rows, dtype)
    assert is_joined
    rng = np.random.default_rng(1)
    x, s = (rng.standard_normal(shape).astype(dtype).astype(np.float64) for shape in ((80, 3), (3,)))
    wanted = []
    for row in x:
        wanted.append(row + np.tanh(s))
        s = s * 0.9 + row * row
    rtol = 1e-12 if dtype == "float64" else 2e-2
    np.testing.assert_allclose(found[0], wanted, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(found[1], s, rtol=rtol, atol=rtol)


def test_one_function_serves_all_lengths():
    net = Net(rows)
    net.hybridize()
    keys = set()
    for steps in (64, 100, 1000):
        x = np.random.default_rng(steps).standard_normal((steps, 3)).astype(np.float32)
        out, _ = net(mx.nd.array(x), mx.nd.zeros(3))
        state, wanted = np.zeros(3, np.float32), []
        for row in x:
            wanted.append(row + np.tanh(state))
            state = state * np.float32(0.9) + row * row
        np.testing.assert_allclose(out.asnumpy(), wanted, rtol=1e-5, atol=1e-5)
        (program,) = [g.forward.program for g in graphs_of(net) if g.forward.program.inputs[0].shape[0] == steps]
        keys |= {f.key for f in program.functions_called()}
    assert len(keys) == 1


def graphs_of(net):
    """The compiled graphs of a block."""
    return [traced.graph() for _, traces in net._cached_graph.compilations() for traced in traces]


def test_dear_and_few_steps_are_not_joined():
    assert not results(rows, steps=20)[1]
    net = Net(lambda F, x, s: F.contrib.foreach(lambda row, s: (row, F.exp(s) * 0 + row), x, s))
    net.hybridize()
    net(mx.nd.ones((80, 5000)), mx.nd.ones(5000))
    assert "in one function" not in net.explain()


def test_sums_keep_code_of_their_own():
    ir = "\n".join(
        [
            "define internal void @region.body.0(ptr %0) noinline nounwind {\n  fadd reassoc float %1, %2\n}",
            "define internal void @region.body.1(ptr %0) noinline nounwind {\n  fadd contract float %1, %2\n}",
            "define void @region_a(ptr %0) {\n  call void @region.body.0(ptr %0)\n}",
            "define void @region_b(ptr %0) {\n  call void @region.body.1(ptr %0)\n}",
        ]
    )
    text = inlined(ir)
    assert "@region.body.0(ptr %0) noinline" in text
    assert "@region.body.1(ptr %0) alwaysinline" in text
    assert "define void @region_a" in text
    assert "define internal void @region_b" in text
