"""hawkesll: its gradients beside finite differences, natively as well, and bad input there."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd
from hybridc.errors import IndexRangeError, UnsupportedError
from hybridc.gluon.nn import HybridLambda
from hybridc.options import OPTIONS

RNG = np.random.default_rng(3)
PARAMETERS = [RNG.uniform(0.2, 1.5, shape) for shape in ((3, 2), (2,), (2,), (3, 2))]
LAGS = RNG.uniform(0.1, 1, (3, 5))
MARKS = np.int32(RNG.integers(0, 2, (3, 5)))
COUNT, END = [5, 3, 0], [6, 4.5, 2]
HEADS = np.array([1, -0.5, 2]), RNG.normal(size=(3, 2))


def evaluated(block, dtype, parameters, marks=MARKS, record=True):
    given = [mx.nd.array(x, dtype=dtype) for x in (*parameters, LAGS)]
    given += [mx.nd.array(marks, dtype="int32"), mx.nd.array(COUNT, dtype=dtype), mx.nd.array(END, dtype=dtype)]
    for x in given[:4] * record:
        x.attach_grad()
    with autograd.record(record):
        results = block(*given)
    if not record:
        return [y.asnumpy() for y in results]
    autograd.backward(results, [mx.nd.array(h, dtype=dtype) for h in HEADS])
    return [y.asnumpy() for y in results], [x.grad.asnumpy() for x in given[:4]]


def process():
    return HybridLambda(lambda F, *inputs: F.contrib.hawkesll(*inputs))


@pytest.fixture(scope="module")
def differences():
    def total(parameters):
        results = evaluated(process(), "float64", parameters, record=False)
        return sum((y * h).sum() for y, h in zip(results, HEADS, strict=True))

    found = []
    for i, x in enumerate(PARAMETERS):
        found.append(np.zeros_like(x))
        for place in np.ndindex(x.shape):
            sides = []
            for step in (1e-6, -1e-6):
                moved = [p.copy() for p in PARAMETERS]
                moved[i][place] += step
                sides.append(total(moved))
            found[i][place] = (sides[0] - sides[1]) / 2e-6
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("hybrid", [False, True])
def test_gradients(differences, hybrid, dtype):
    block = process()
    block.hybridize(hybrid)
    results, gradients = evaluated(block, dtype, PARAMETERS)
    for found, want in zip(results, evaluated(process(), "float64", PARAMETERS, record=False), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-6)
    for found, want in zip(gradients, differences, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_bad_marks_natively():
    block = process()
    block.hybridize()
    marks = MARKS.copy()
    marks[1, 2] = 2
    if OPTIONS.target == "numpy":
        with pytest.raises(IndexRangeError, match="hawkesll: marks"):
            evaluated(block, "float32", PARAMETERS, marks, record=False)
        return
    likelihood, _ = evaluated(block, "float32", PARAMETERS, marks, record=False)
    assert np.isnan(likelihood).tolist() == [False, True, False]


@pytest.mark.parametrize("hybrid", [False, True])
def test_no_gradient_of_lags(hybrid):
    block = HybridLambda(lambda F, lags, *rest: F.contrib.hawkesll(*rest[:4], lags * 2, *rest[4:])[0])
    block.hybridize(hybrid)
    lags = mx.nd.array(LAGS)
    lags.attach_grad()
    rest = [mx.nd.array(x) for x in PARAMETERS] + [
        mx.nd.array(MARKS, dtype="int32"),
        mx.nd.array(COUNT),
        mx.nd.array(END),
    ]

    def backward():
        with autograd.record():
            y = block(lags, *rest)
        y.backward()

    with pytest.raises(UnsupportedError, match=r"there is no gradient of lags, but of .* give lags\.detach\(\)"):
        backward()
