"""Equal functions of a kernel launched as one: which are, and that each member has its own arrays and sizes."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.ir.kernels.kernel_text import read_kernel
from hybridc.ir.structured import kernels
from hybridc.transforms.code.blocks import fuse_horizontally
from tests.lower.evaluate import Evaluator
from tests.lower.kernels import parse
from tests.lower.triton.guarded import run_regions
from tests.lower.triton.printed import launches_of
from tests.lower.write_kernel import BODIES, Writer

pytestmark = pytest.mark.triton


RNG = np.random.default_rng(3)
DIFFERENCE = BODIES[2][3]


def kernel_of(domains, chained=()):
    """A kernel with a loop nest for each domain, the same maps in all; ``chained`` ones read the one before."""
    writer = Writer(domains=list(domains))
    made = []
    for nest, domain in enumerate(domains):
        axes = tuple(range(len(domain)))
        first = made[-1] if nest in chained else writer.arg(axes, nest)
        made.append(writer.map([first, writer.arg(axes, nest)], axes, DIFFERENCE, nest))
    return writer.text(made)


def launches(text, config=0):
    """The launches of a kernel, after what they compute was compared with what its operations mean."""
    module = parse(text)
    (function,) = kernels(module).values()
    kernel = read_kernel(function)
    made = launches_of(kernel, {})
    arrays = [RNG.uniform(-2, 2, v.shape) for v in kernel.arguments]
    for at_end in (False, True):
        got = run_regions(kernel, made, arrays, at_end=at_end, config=config)
        for x, y in zip(got, Evaluator(parse(text)).call("kernel", *arrays), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)
    return made.kernel_launches


@pytest.mark.parametrize("config", [0, 1])
@pytest.mark.parametrize("sizes", [(5, 3, 1, 1008), (3000, 1025, 2047, 1031), (16, 3200, 32, 1024)])
def test_nests_with_equal_functions_are_one_launch(sizes, config):
    """Some members do not fill a block, others fill several; of some the last block is not full."""
    (kernel_launch,) = launches(kernel_of([(n,) for n in sizes]), config)
    assert len(kernel_launch.buffers) == 4 * 3
    assert kernel_launch.numbers == sizes
    block = dict(kernel_launch.configs[0].constants)["BLOCK"]
    assert kernel_launch.configs[0].grid == (sum(-(-n // block) for n in kernel_launch.numbers), 1, 1)


def test_other_functions_are_other_launches():
    """Two axes are walked as one, so that both are the same function; a body that differs is another."""
    assert len(launches(kernel_of([(5, 4), (6, 4)]))) == 1
    writer = Writer(domains=[(5,), (6,)])
    made = [writer.map([writer.arg((0,), n)], (0,), BODIES[1][n], n) for n in range(2)]
    assert len(launches(writer.text(made))) == 2


def test_other_functions_may_lie_between():
    """Where vectors may be cut off at the end, the function is another."""
    first, second = launches(kernel_of([(1600,), (1601,), (160,), (1603,)]))
    assert (first.numbers, second.numbers) == ((1600, 160), (1601, 1603))
    assert "TAIL" in second.function.source
    assert "TAIL" not in first.function.source


def test_what_another_makes_is_waited_for():
    """The second and the third loop nest have equal functions, and the third reads what the second makes."""
    _, second, third = launches(kernel_of([(50,), (50,), (50,)], chained=(1, 2)))
    assert second.function == third.function


def test_an_argument_that_a_result_may_lie_in_is_shared_by_none():
    """Another member's programs may write over it first."""
    writer = Writer(domains=[(50,), (50,)])
    shared = writer.arg((0,), 0)
    made = [writer.map([shared, writer.arg((0,), n)], (0,), DIFFERENCE, n) for n in range(2)]
    assert len(launches(writer.text(made))) == 2


def test_an_argument_unlike_all_results_is_shared():
    writer = Writer(domains=[(50,), (60,)])
    shared = writer.arg((), 0)
    made = [writer.map([writer.arg((0,), n), shared], (0,), DIFFERENCE, n) for n in range(2)]
    assert len(launches(writer.text(made))) == 1


def test_large_arrays_have_launches_of_their_own(monkeypatch):
    monkeypatch.setattr(fuse_horizontally, "LARGEST", 100)
    assert [p.numbers for p in launches(kernel_of([(5,), (6,), (101,), (7,), (8,)]))] == [(5, 6, 7, 8), (101,)]


def test_a_launch_has_so_many_parameters(monkeypatch):
    monkeypatch.setattr(fuse_horizontally, "PARAMETERS", 9)
    assert [p.numbers for p in launches(kernel_of([(5,), (6,), (7,)]))] == [(5, 6), (7,)]


def test_an_update_of_many_weights_is_one_launch_in_place():
    """Adam by the GPU's way, twice, beside float64."""
    shapes = [(3,), (40, 7), (1,), (2, 3, 5), (1300,)]
    weights = [RNG.normal(size=s) for s in shapes]
    grads = [RNG.normal(size=s) for s in shapes]
    given = [mx.nd.array(w, dtype="float32", ctx=mx.gpu()) for w in weights]
    update = mx.optimizer.get_updater(mx.optimizer.create("adam", learning_rate=0.1))
    for _ in range(2):
        update(list(range(len(given))), [mx.nd.array(g, dtype="float32", ctx=mx.gpu()) for g in grads], given)
    for w, g, got in zip(weights, grads, given, strict=True):
        mean, square = np.zeros_like(w), np.zeros_like(w)
        for t in (1, 2):
            mean, square = 0.9 * mean + 0.1 * g, 0.999 * square + 0.001 * g * g
            w = w - 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * mean / (np.sqrt(square) + 1e-8)
        np.testing.assert_allclose(got.asnumpy(), w, rtol=0, atol=2e-6)
