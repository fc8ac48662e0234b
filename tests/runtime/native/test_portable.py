"""Networks where interpreter or processor lack what ours have: the entry in Python; code without AVX, FMA and F16C."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.gluon import HybridBlock, TrainStep, nn
from hybridc.lower.llvm.codegen import processor
from hybridc.runtime.native import native_program as program
from hybridc.runtime.native import threads, wrapper_call
from hybridc.runtime.native.native_library import native_runtime
from tests.slices import but

TOLERANCE = {"float16": 2e-2, "float32": 1e-5, "float64": 1e-12}


class Mixed(HybridBlock):
    """Products, rows, columns, a gather, functions, an update of a running mean, a call of the host; two results."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.words = nn.Embedding(11, 6)
            self.norm = nn.BatchNorm(in_channels=6)
            self.dense = nn.Dense(40, activation="tanh", in_units=6)
            self.last = nn.LayerNorm(in_channels=40)

    def hybrid_forward(self, F, i, x):
        y = self.last(self.dense(self.norm(self.words(i) + x)))
        z = F.softmax(F.dot(y, F.transpose(y))) * F.sigmoid(F.sum(y, axis=1, keepdims=True))
        return F.sort(z), F.mean(F.erf(y) + F.floor(y * 3), axis=0)


def network(dtype):
    mx.random.seed(5)
    net = Mixed()
    net.initialize(mx.init.Normal(0.5))
    net.cast(dtype)
    return net


def results(net, dtype):
    """Results, gradients and running means of some calls."""
    rng = np.random.default_rng(3)
    found = []
    for rows in (9, 9, 20):
        i = mx.nd.array(rng.integers(0, 11, rows), dtype="int32")
        x = mx.nd.array(rng.normal(size=(rows, 6)), dtype=dtype)
        x.attach_grad()
        with autograd.record():
            y, z = net(i, x)
        autograd.backward([y, z])
        found += [y, z, x.grad, *(p.grad() for p in net.collect_params().values() if p.grad_req != "null")]
        found += net(i, x)
    found += [p.data() for p in net.collect_params().values()]
    return [a.asnumpy().astype(np.float64) for a in found]


@pytest.fixture(params=["native", "python"])
def entry(request, monkeypatch):
    """Programs whose entry is native, as here; and in Python, as where native code cannot read arrays."""
    if request.param == "python":
        for module in (program, wrapper_call):
            monkeypatch.setattr(module, "objects_are_as_declared", lambda: False)
    return request.param


@pytest.mark.parametrize("dtype", but(("float64", "float16"), TOLERANCE))
def test_results_are_those_of_the_eager_network(entry, dtype):
    expected = results(network(dtype), dtype)
    net = network(dtype)
    net.hybridize()
    close = {"rtol": 10 * TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    for got, want in zip(results(net, dtype), expected, strict=True):
        np.testing.assert_allclose(got, want, **close)


def test_training_steps_are_those_of_the_eager_network(entry):
    def trained(compiled):
        mx.random.seed(2)
        net = nn.HybridSequential()
        net.add(nn.Dense(20, activation="relu", in_units=7), nn.Dense(3, in_units=20))
        net.initialize(mx.init.Xavier())
        loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        trainer = mx.gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01})
        step = TrainStep(net, loss, trainer)
        rng = np.random.default_rng(0)
        x, y = mx.nd.array(rng.normal(size=(16, 7))), mx.nd.array(rng.integers(0, 3, 16))
        losses = []
        for _ in range(5):
            if compiled:
                losses.append(step(x, y).asnumpy())
                continue
            with autograd.record():
                found = loss(net(x), y)
            found.backward()
            trainer.step(16)
            losses.append(found.asnumpy())
        return [*losses, *(p.data().asnumpy() for p in net.collect_params().values())]

    for got, want in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("dtype", but(("float64", "float16"), TOLERANCE))
def test_results_on_a_system_whose_threads_cannot_wait(monkeypatch, dtype):
    """As on macOS, which has no futex: whatever number of threads is asked for, the caller runs all of a region."""
    pool = native_runtime().threads
    count = pool.count
    pool.set_count(3)
    threaded = results(hybridized(dtype), dtype)
    monkeypatch.setattr(threads, "_FUTEX", {})
    try:
        pool.set_count(4)
        assert pool.count == 1
        large = np.linspace(-3, 3, 1 << 18).astype(dtype)
        close = {"rtol": 10 * TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
        np.testing.assert_allclose(compiled(lambda F, x: F.tanh(x) * 2, large), 2 * np.tanh(large), **close)
        for got, want in zip(results(hybridized(dtype), dtype), threaded, strict=True):
            np.testing.assert_allclose(got, want, **close)
    finally:
        monkeypatch.undo()
        pool.set_count(count)
    assert pool.count == count


def hybridized(dtype):
    net = network(dtype)
    net.hybridize()
    return net


def compiled(function, array):
    net = nn.HybridLambda(function)
    net.hybridize()
    return net(mx.nd.array(array, dtype=array.dtype)).asnumpy()


def test_half_precision_is_read_and_rounded_as_numpy_does():
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    np.testing.assert_array_equal(compiled(lambda F, x: F.cast(x, "float32"), every), every.astype(np.float32))
    single = np.arange(0, 1 << 32, 4093, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        middles = (every[:-1].astype(np.float32) + every[1:].astype(np.float32)) / 2
        for x in (single, middles, np.nextafter(middles, np.float32(0)), np.float64(middles) * (1 + 1e-13)):
            got, right = compiled(lambda F, x: F.cast(x, "float16"), x), x.astype(np.float16)
            np.testing.assert_array_equal(got, right)
            there = ~np.isnan(right)
            np.testing.assert_array_equal(np.signbit(got[there]), np.signbit(right[there]))


def test_code_is_for_the_processor_that_is_asked_for():
    source = nn.HybridLambda("square").trace(mx.nd.ones(4096)).optimize().lower("llvm").programs["forward"]
    assembly = source.code("assembly")
    if platform.machine() == "x86_64":
        assert "mulps" in assembly
        assert ("ymm" in assembly or "zmm" in assembly) == (processor.vector_bits() > 128)


@pytest.mark.long  # beside `make test-levels`
@pytest.mark.skipif(processor.OPTIONS.cpu == "generic", reason="this is that process")
def test_on_a_processor_that_has_the_least(tmp_path):
    """These tests again, where code is made for any processor of this architecture; the entry is native, as here."""
    environment = {**os.environ, "HYBRIDC_CPU": "generic", "HYBRIDC_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "not python", __file__]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed, 1 skipped" in done.stdout
