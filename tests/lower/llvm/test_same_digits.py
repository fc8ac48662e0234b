"""Results are the same to the bit for any number of threads, and whoever else calls: what is cut follows from sizes."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

import hybridc as mx
from hybridc import options
from hybridc.compile import pipeline, targets
from hybridc.compile.stages import Traced
from hybridc.gluon import HybridBlock, nn
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.native_target import native_target
from hybridc.runtime.native import num_threads, set_num_threads
from hybridc.trace.tracer import trace_call
from hybridc.transforms.code.choose_matmul import regions_of_matmul
from tests.lower.llvm.test_gemm import contraction_kernel, run
from tests.lower.llvm.test_processor import choose


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("algorithm", ["blas", "tiles", "dots", "rows"])
@pytest.mark.parametrize("shape", [(70, 300, 96), (600, 40, 64), (5, 515, 48)])
def test_products_by_any_number_of_threads(algorithm, shape, dtype):
    if algorithm != "blas" and registers() is None:
        pytest.skip("this processor has no registers for tiles")
    rng = np.random.default_rng(0)
    m, n, k = shape
    width = 0 if registers() is None else 2 * registers().bytes // (4 if dtype == "f32" else 8)
    if algorithm == "rows":
        spec, sizes, right, out = "ik,pkj->ipj", {"i": m, "p": 5, "k": k, "j": width}, (5, k, width), (m, 5, width)
    else:
        spec, sizes, right, out = "ik,jk->ij", {"i": m, "j": n, "k": k}, (n, k), (m, n)
    kernel, kind = contraction_kernel(spec, sizes, dtype), f"float{dtype[1:]}"
    a, b = rng.standard_normal((m, k)).astype(kind), rng.standard_normal(right).astype(kind)
    found = set()
    for threads in (1, 2, 7):
        regions = regions_of_matmul(kernel, native_target(threads), algorithms=[algorithm])
        assert [p.algorithm for p in regions] == [algorithm]
        found |= {run(regions, [a, b], np.zeros(out, kind), threads, at_end, rng).tobytes() for at_end in (True, False)}
    assert len(found) == 1


class Net(HybridBlock):
    """Products, reductions of rows, of columns and of all, loops over elements; large enough to be shared."""

    def __init__(self):
        super().__init__()
        with self.name_scope():
            self.a = nn.Dense(330, activation="tanh", in_units=150)
            self.b = nn.Dense(150, in_units=330)

    def hybrid_forward(self, F, x):
        y = F.softmax(self.b(self.a(x)) + x)
        return F.broadcast_sub(y, F.mean(y, axis=0, keepdims=True)) * F.sigmoid(x), F.sum(F.exp(y)), F.transpose(y)


def results(graph, x):
    """The bits of results and of the gradient of a recorded call."""
    x = mx.nd.array(x)
    x.attach_grad()
    with mx.autograd.record():
        made = graph(x)
    mx.autograd.backward(list(made))
    return [a.asnumpy().tobytes() for a in (*made, x.grad)]


@pytest.mark.parametrize("level", ["generic", "host"])
def test_a_network_by_one_thread_or_two_and_beside_others(monkeypatch, level):
    choose(monkeypatch, level)
    mx.random.seed(1)
    net = Net()
    net.initialize(mx.init.Normal(0.2))
    x = mx.nd.array(np.random.default_rng(0).standard_normal((300, 150)))
    trace = trace_call(net, [x], training=False)
    before, found = num_threads(), []
    try:
        for threads in (1, 2):
            for module in (targets, pipeline):
                monkeypatch.setattr(module, "OPTIONS", dataclasses.replace(options.OPTIONS, num_threads=threads))
            set_num_threads(threads)
            graph = Traced(trace, (trace.roles.index("data"),)).optimize().lower("llvm").compile()
            found.append(results(graph, x))
            together(4, lambda graph=graph: found.append(results(graph, x)))
    finally:
        set_num_threads(before)
    assert len(found) == 2 * (1 + 4)
    assert all(bits == found[0] for bits in found)


def together(count, work):
    """Let threads do the same."""
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
