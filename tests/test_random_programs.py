"""Random programs, compiled, against NumPy: results in every dtype, gradients by complex steps."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import hybridc as mx
from tests.random_programs import FLOATS, INTEGERS, Net, programs, tiles

SETTINGS = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}
TILES = st.sampled_from([4, 16, 100, 10000])


def draw_inputs(program):
    """The inputs in float64 or int64, with values that their dtypes have."""
    rng = np.random.default_rng(len(program.steps))
    return [
        rng.integers(0 if dtype[0] == "u" else -9, 9, shape)
        if dtype in INTEGERS
        else rng.normal(size=shape).astype(dtype).astype(np.float64)
        for shape, dtype in program.inputs
    ]


@settings(max_examples=250, **SETTINGS)
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
    net.hybridize()
    inputs = [mx.nd.array(a, dtype=dtype) for a, (_, dtype) in zip(arrays, program.inputs, strict=True)]
    with tiles(elements, 4 * elements):
        results = net(*inputs)
    for result, number in zip(results, program.outputs, strict=True):
        got, want = result.asnumpy(), values[number]
        assert (got.shape, got.dtype) == (want.shape, np.dtype(dtypes[number])), f"value {number} of {program}"
        if dtypes[number] in INTEGERS:
            np.testing.assert_array_equal(got, want.astype(dtypes[number]), err_msg=f"value {number} of {program}")
            continue
        np.testing.assert_allclose(
            got.astype(np.float64), want, rtol=0, atol=64 * eps * largest, err_msg=f"value {number} of {program}"
        )
    for x, array in zip(inputs, arrays, strict=True):
        np.testing.assert_array_equal(x.asnumpy(), array, err_msg=f"an input was written by {program}")


@settings(max_examples=150, **SETTINGS)
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
    net.hybridize()
    inputs = [mx.nd.array(a, dtype="float64") for a in arrays]
    for x in inputs:
        x.attach_grad()
    with tiles(elements, 4 * elements):
        with mx.autograd.record():
            outputs = net(*inputs)
        chosen = range(len(outputs)) if together else [0]
        weights = {i: rng.normal(size=outputs[i].shape) for i in chosen}
        heads = [i for i in chosen if outputs[i]._entry is not None]
        mx.autograd.backward([outputs[i] for i in heads], [mx.nd.array(weights[i], dtype="float64") for i in heads])
    expected = sum(float(np.sum(w * values[program.outputs[i]].imag)) / tiny for i, w in weights.items())
    products = [x.grad.asnumpy() * d for x, d in zip(inputs, directions, strict=True)]
    found = sum(float(p.sum()) for p in products)
    size = sum(float(np.abs(p).sum()) for p in products) + abs(expected) + 1
    assert abs(found - expected) <= 1e-9 * size, f"{found} instead of {expected} for {program}"
