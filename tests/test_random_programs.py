"""Random programs, eagerly and by every target, against NumPy: results in every dtype, gradients by complex steps."""

from __future__ import annotations

import contextlib
import dataclasses
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import hybridc as mx
from hybridc.compile import targets, trace_key, warm_start
from hybridc.ground.machine import NOMINAL, using
from hybridc.options import OPTIONS
from tests.random_programs import FLOATS, INTEGERS, Net, programs, tiles
from tests.slices import EXAMPLES

pytestmark = [pytest.mark.triton, pytest.mark.long]


# Compiling takes longest: nothing is shrunk.
SETTINGS = {
    "max_examples": EXAMPLES,
    "deadline": None,
    "derandomize": True,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
TILES = st.sampled_from([4, 16, 100, 10000])
ON_THE_CPU = ("eager", "numpy", "llvm")
INTERPRETED = 8  # one of so many programs runs by Triton's interpreter, too, which takes long


def ways_of(program):
    """How a program is run."""
    also = zlib.crc32(repr(program.steps).encode()) % INTERPRETED == 0
    return (*ON_THE_CPU, "triton") if also else ON_THE_CPU


@contextlib.contextmanager
def way_of_running(net, way, elements):
    """A network runs eagerly or is compiled for a target; threads share so few elements."""
    net.hybridize(active=way != "eager")
    with pytest.MonkeyPatch.context() as patch, tiles(elements, 4 * elements):
        if way != "eager":
            for module in (targets, trace_key, warm_start):
                patch.setattr(module, "OPTIONS", dataclasses.replace(OPTIONS, target=way))
        with using(NOMINAL.cut_at(elements * NOMINAL.costs.operation)):
            yield


def draw_inputs(program):
    """The inputs in float64 or int64, with values that their dtypes have."""
    rng = np.random.default_rng(len(program.steps))
    return [
        rng.integers(0 if dtype[0] == "u" else -9, 9, shape)
        if dtype in INTEGERS
        else rng.normal(size=shape).astype(dtype).astype(np.float64)
        for shape, dtype in program.inputs
    ]


@settings(**SETTINGS)
@given(program=programs(dtypes=FLOATS * 2 + INTEGERS), elements=TILES)
def test_results_are_those_of_numpy(program, elements):
    """Integers exactly; floats to the rounding of the least precise dtype, relative to the largest number met."""
    arrays = draw_inputs(program)
    values = program.reference(arrays)
    dtypes = [dtype for _, dtype in program.inputs] + [step.dtype for step in program.steps]
    floats = [v for v, dtype in zip(values, dtypes, strict=True) if dtype not in INTEGERS and v.size]
    largest = max([1.0, *(float(np.max(np.abs(v))) for v in floats)])
    assume(largest < 1000)  # float16 ends at 65504
    eps = max([0.0, *(float(np.finfo(d).eps) for d in dtypes if d not in INTEGERS)])
    net = Net(program)
    inputs = [mx.nd.array(a, dtype=dtype) for a, (_, dtype) in zip(arrays, program.inputs, strict=True)]
    for way in ways_of(program):
        with way_of_running(net, way, elements):
            results = net(*inputs)
        for result, number in zip(results, program.outputs, strict=True):
            got, want, name = result.asnumpy(), values[number], f"{way}: value {number} of {program}"
            assert (got.shape, got.dtype) == (want.shape, np.dtype(dtypes[number])), name
            if dtypes[number] in INTEGERS:
                np.testing.assert_array_equal(got, want.astype(dtypes[number]), err_msg=name)
            else:
                close = {"rtol": 0, "atol": 64 * eps * largest, "err_msg": name}
                np.testing.assert_allclose(got.astype(np.float64), want, **close)
        for x, array in zip(inputs, arrays, strict=True):
            np.testing.assert_array_equal(x.asnumpy(), array, err_msg=f"{way}: an input was written by {program}")


@settings(**SETTINGS)
@given(program=programs(dtypes=("float64",), smooth=True), elements=TILES, together=st.booleans())
def test_gradients_are_those_of_complex_steps(program, elements, together):
    """The derivative of the heads' weighted sum along a random direction, to rounding: no difference is taken."""
    rng = np.random.default_rng(7)
    arrays = draw_inputs(program)
    directions = [rng.normal(size=a.shape) for a in arrays]
    tiny = 1e-30
    values = program.reference([a + 1j * tiny * d for a, d in zip(arrays, directions, strict=True)])
    assume(all(np.all(np.abs(v) < 1e6) for v in values))
    net = Net(program)
    chosen = range(len(program.outputs)) if together else [0]
    weights = {i: rng.normal(size=values[program.outputs[i]].shape) for i in chosen}
    expected = sum(float(np.sum(w * values[program.outputs[i]].imag)) / tiny for i, w in weights.items())
    for way in ways_of(program):
        with way_of_running(net, way, elements):
            grads = gradients(net, arrays, weights)
        products = [g * d for g, d in zip(grads, directions, strict=True)]
        found = sum(float(p.sum()) for p in products)
        size = sum(float(np.abs(p).sum()) for p in products) + abs(expected) + 1
        assert abs(found - expected) <= 1e-9 * size, f"{way}: {found} instead of {expected} for {program}"


def gradients(net, arrays, weights):
    """Of the weighted sum of some outputs, by number, with respect to the inputs."""
    inputs = [mx.nd.array(a, dtype="float64") for a in arrays]
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record():
        outputs = net(*inputs)
    heads = [i for i in weights if outputs[i]._entry is not None]
    mx.autograd.backward([outputs[i] for i in heads], [mx.nd.array(weights[i], dtype="float64") for i in heads])
    return [x.grad.asnumpy() for x in inputs]
