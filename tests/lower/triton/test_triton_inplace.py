"""In-place results of Triton's functions, and the memory that they save."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import gluon
from hybridc.gluon import nn
from hybridc.gluon.nn import HybridLambda
from hybridc.ir.kernels.kernel_notes import INPLACE
from hybridc.ir.structured import is_host, kernels
from hybridc.transforms.code.blocks.block_kernel_cache import BlockKernelCache
from tests.lower.triton.test_triton_kernel_classes import results_of

pytestmark = pytest.mark.triton


def pairs(function, *shapes):
    """The pairs of each kernel that functions of operators become."""
    lowered = HybridLambda(function).trace(*[mx.nd.zeros(s) for s in shapes]).optimize().lower("triton")
    return [[*INPLACE.of(f)] for f in kernels(lowered.module).values() if not is_host(f)]


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (lambda F, x: F.tanh(x) + 1, [(33, 65)], [(0, 0)]),
        (lambda F, x, b: F.tanh(F.broadcast_add(x, b)), [(8, 4), (4,)], [(0, 0)]),
        # Another element is read than written.
        (lambda F, x: F.transpose(x) + x, [(6, 6)], []),
        (lambda F, x: F.reverse(x, axis=0) * 2, [(6,)], []),
        (lambda F, x, i: F.take(x, i) + x, [(6,), (6,)], [(0, 0)]),  # the indices are the first argument
        # Other types.
        (lambda F, x: F.cast(x, "float64") + 1, [(6,)], []),
        # Programs share rows, or what they sum.
        (lambda F, x: F.softmax(x), [(33, 65)], []),
        (lambda F, x: F.sum(x, axis=0), [(5, 65)], []),
        # What is read after the first result is written is no place for that.
        (lambda F, x, y: (F.exp(x), F.exp(x) * x * y), [(8,), (8,)], [(0, 1), (1, 1)]),
    ],
)
def test_pairs(function, shapes, expected):
    (found,) = pairs(function, *shapes)
    assert sorted(found) == expected


def test_a_product_writes_over_what_follows_it_only():
    """Operands are read by many programs."""
    (found,) = pairs(lambda F, x, y, z: F.relu(F.dot(x, y) + z), (32, 32), (32, 32), (32, 32))
    assert found == [(2, 0)]
    (found,) = pairs(lambda F, x, y: F.relu(F.dot(x, y) + x), (32, 32), (32, 32))
    assert found == []


def test_what_follows_a_product_is_computed_in_its_order():
    """The second result reads what the first must not be written over, though it could have been read before."""

    def both(F, x, y, z):
        contraction = F.dot(x, y)
        return contraction + z, contraction * F.exp(z)

    (found,) = pairs(both, (32, 16), (16, 24), (32, 24))
    assert found == [(2, 1)]


@pytest.mark.parametrize("size", [1, 31, 1024, 5000])
def test_in_place_is_the_same(size):
    """Each pair is tried, by blocks of every length."""
    rng = np.random.default_rng(0)
    x, y = (rng.uniform(0.5, 2, size).astype(np.float32) for _ in range(2))
    got, ran = results_of(lambda F, a, b: (F.log(a) * b, F.sqrt(a) + b), [x, y])
    assert ran
    wide = x.astype(np.float64), y.astype(np.float64)
    for one, other in zip(got, (np.log(wide[0]) * wide[1], np.sqrt(wide[0]) + wide[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


STORES = """
import json
import numpy as np
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.nvidia.compiled import compiled

SOURCE = '''
import triton
import triton.language as tl


@triton.jit
def over(x, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(x + i, tl.load(x + i) * 2.0)
'''
function = TritonFunction("over", SOURCE, (np.dtype("float32"),), (), ("n",))
found = {}
for n in (16, 2048):
    ptx = compiled(function, Config((("n", n),), (1, 1, 1), 4), (9, 0), 0).asm["ptx"]
    found[n] = [line.strip() for line in ptx.splitlines() if "st.global" in line]
print(json.dumps(found))
"""


def test_threads_that_hold_an_element_twice_store_it_once():
    """Else one could read what another had written already, and write over that."""
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", STORES], cwd=root, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    few, many = json.loads(done.stdout).values()
    assert few
    assert all(line.startswith("@") for line in few)
    assert many
    assert not any(line.startswith("@") for line in many)


def test_a_chain_needs_one_buffer(monkeypatch):
    """What the host has sorted is written over."""

    def arena():
        net = HybridLambda(lambda F, x: F.sort(F.exp(F.sort(x))))
        return net.trace(mx.nd.ones((64, 64))).optimize().lower("triton").programs["forward"].arena

    size = 64 * 64 * 4
    assert arena() == size
    monkeypatch.setattr(BlockKernelCache, "inplace", lambda *_: [])
    assert arena() == 2 * size


def test_an_optimizer_updates_where_weights_are():
    """Nothing is copied: weights and states are written by the kernels that read them."""
    net = nn.Dense(7, in_units=5, use_bias=False)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
    step(mx.nd.ones((3, 5)), mx.nd.ones((3, 7)))
    (traced,) = [t for _, found in step._block.compiled.compilations() for t in found]
    program = traced.optimize().lower("triton").programs["forward"]
    assert len(program.donated) >= 3
    assert "copy" not in [step.name for step in program.steps]
