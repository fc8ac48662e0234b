"""Every operator, method and index form against MXNet 1.9.1: eagerly, and inside a hybridized block."""

from __future__ import annotations

import builtins
from itertools import compress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hybridc as mx
from tests.golden.op_cases import all_cases, outputs_of
from tests.golden.store import Reader
from tests.slices import alone_if_wrong, each_in, in_groups, named_groups, one_in

CASES = all_cases()
GOLDEN = Reader(Path(__file__).parent / "golden" / "ops.npz")
RTOL = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-9}
ATOL = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-9}


def test_golden_file_knows_every_case():
    assert set(GOLDEN.index) == set(CASES), "run tests/golden/make_ops.py with MXNet's interpreter"


@each_in("case", named_groups(CASES, 32))
def test_eager(case):
    check([case], eager)


# What tells its device, and copies where arrays of the CPU have views: docs/gpu.md.
OF_THE_CPU = ("ctx", "context", "str(", "repr(", "y = x[::2]", "y = x[:, 1]")
ANYWHERE = [case for case in CASES.values() if not any(text in case.code for text in OF_THE_CPU)]


@pytest.mark.parametrize("cases", one_in(16, in_groups(ANYWHERE, 64)), ids=lambda cases: f"from {cases[0].name}")
def test_eager_on_a_gpu(cases):
    """The device is Triton's interpreter where the tests have no other; on it, too, an operator runs alone."""
    for case in cases:
        with mx.gpu(0):
            check([case], eager)


TRACED = [case for case in CASES.values() if case.trace]
TOGETHER = in_groups([case for case in TRACED if not case.raises], 16)


@pytest.mark.parametrize("cases", one_in(8, TOGETHER), ids=lambda cases: f"from {cases[0].name}")
def test_hybridized(cases):
    alone_if_wrong(cases, lambda part: check(part, hybridized), lambda case: case.name)


@each_in("case", named_groups({case.name: case for case in TRACED if case.raises}, 32))
def test_errors_in_a_hybridized_block(case):
    check([case], hybridized)


def eager(cases):
    return lambda inputs: [case.fn(mx, *arrays) for case, arrays in zip(cases, inputs, strict=True)]


def hybridized(cases):
    """The cases, one after the other, as the forward of a hybridized block."""

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *arrays):
            given, outputs = iter(arrays), []
            counts.clear()
            for case in cases:
                result = case.fn(SimpleNamespace(nd=F), *[next(given) for _ in case.inputs])
                several = isinstance(result, list | tuple)
                outputs += result if several else [result]
                counts.append(len(result) if several else None)
            return outputs

    def run(inputs):
        arrays = [x for given in inputs for x in given]
        results = net(*arrays)
        if not mx.autograd.is_recording():
            net(*[mx.nd.zeros(x.shape, dtype=x.dtype) for x in arrays])  # a later call must not write into it
        given = iter(results)
        return [next(given) if n is None else [next(given) for _ in range(n)] for n in counts]

    counts = []
    net = Net()
    net.hybridize()
    return run


def check(cases, make_run):
    """What the cases give, run together, is what MXNet gave; ``make_run(cases)`` runs them on a list of arrays each.

    Those with gradients are compiled once, for a recorded call.
    """
    if cases[0].raises:
        (case,) = cases
        with pytest.raises(error_types(case, GOLDEN.index[case.name])):
            outputs_of(make_run(cases)([arrays_of(stored_inputs(case))])[0])
        return
    recorded = [bool(case.differentiated() and not case.compat) for case in cases]
    plain = [case for case, again in zip(cases, recorded, strict=True) if make_run is eager or not again]
    found = make_run(plain)([arrays_of(stored_inputs(case)) for case in plain]) if plain else []
    for case, result in zip(plain, found, strict=True):
        check_result(case, outputs_of(result))
    check_gradients(list(compress(cases, recorded)), make_run)


def check_result(case, found):
    record = GOLDEN.index[case.name]
    if case.compat:
        with np.errstate(all="ignore"):
            wanted = outputs_of(case.wanted())
    else:
        assert "error" not in record, f"MXNet raises {record['error']}: not a case that claims so"
        wanted = [GOLDEN.get(ref) for ref in record["outs"]]
    assert_outputs(case, found, wanted)


def stored_inputs(case):
    """The inputs that MXNet saw; they must still be the case's."""
    inputs = {key: GOLDEN.get(ref) for key, ref in GOLDEN.index[case.name]["inputs"].items()}
    for key, value in case.inputs.items():
        np.testing.assert_array_equal(inputs[key], value, "the case has changed: run tests/golden/make_ops.py")
    return inputs


def arrays_of(inputs):
    return [mx.nd.array(value, dtype=value.dtype) for value in inputs.values()]


def error_types(case, record):
    """MXNet's exception type by name; any of the API's where only hybridc refuses."""
    if case.compat:
        return (mx.MXNetError, ValueError, TypeError, IndexError)
    known = {
        "MXNetError": mx.MXNetError,
        "AssertionError": (AssertionError, ValueError, mx.MXNetError),
    }
    name = (record.get("error") or record["grad_error"])[0]
    return known.get(name) or getattr(builtins, name)


def assert_outputs(case, found, wanted):
    assert len(found) == len(wanted)
    for out, want in zip(found, wanted):
        assert_close(case, out, want, same_type=not case.compat)


def golden_gradients(record):
    return {key: GOLDEN.get(ref) for key, ref in record["grads"].items()}


def own_gradients(case, out):
    """The gradient where MXNet's is wrong."""
    if not case.want:
        return finite_differences(case)
    (key,) = case.differentiated()
    return {key: case.wanted(out=out, w=case.weights(0, out.shape, out.dtype)).astype(out.dtype)}


def finite_differences(case):
    """Central differences of the weighted sum, in float64."""

    def weighted_sum():
        outs = outputs_of(case.fn(mx, *arrays_of(inputs)))
        return sum(float(np.sum(out * case.weights(k, out.shape, "float64"))) for k, out in enumerate(outs))

    inputs = {k: v.astype("float64") if v.dtype.kind == "f" else v for k, v in case.inputs.items()}
    found = {key: np.zeros_like(inputs[key]) for key in case.differentiated()}
    for key, slopes in found.items():
        for at in np.ndindex(slopes.shape):
            middle, ends = inputs[key][at], []
            for step in (1e-5, -1e-5):
                inputs[key][at] = middle + step
                ends.append(weighted_sum())
            inputs[key][at] = middle
            slopes[at] = (ends[0] - ends[1]) / 2e-5
    return {key: slopes.astype(case.inputs[key].dtype) for key, slopes in found.items()}


def check_gradients(cases, make_run):
    """Results, and gradients of the weighted sum of them all."""
    inputs = [dict(zip(case.inputs, arrays_of(stored_inputs(case)), strict=True)) for case in cases]
    for case, arrays in zip(cases, inputs, strict=True):
        for key in case.differentiated():
            arrays[key].attach_grad()
    if not cases:
        return
    with mx.autograd.record(train_mode=False):
        results = make_run(cases)([list(arrays.values()) for arrays in inputs])
    for case, result in zip(cases, results, strict=True):
        check_result(case, outputs_of(result))
    results = [list(r) if isinstance(r, (list, tuple)) else [r] for r in results]
    pairs = [
        (out, mx.nd.array(case.weights(k, out.shape, out.dtype), dtype=out.dtype))
        for case, outs in zip(cases, results, strict=True)
        for k, out in enumerate(outs)
    ]
    mx.autograd.backward([out for out, _ in pairs], [head for _, head in pairs], train_mode=False)
    for case, arrays, outs in zip(cases, inputs, results, strict=True):
        record = GOLDEN.index[case.name]
        wanted = own_gradients(case, outs[0].asnumpy()) if case.no_grad else golden_gradients(record)
        looser = 4 if not case.no_grad else 1e4 if case.inputs[next(iter(wanted))].dtype == "float64" else 20
        for key, gradient in wanted.items():
            assert_close(case, arrays[key].grad.asnumpy(), gradient, looser=looser, what=f"gradient of {key}")


def assert_close(case, found, wanted, same_type=True, looser=1, what="result"):
    found, wanted = np.asarray(found), np.asarray(wanted)
    if same_type:
        assert found.dtype == wanted.dtype, what
    assert found.shape == wanted.shape, what
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(found, wanted, what)
        return
    rtol = max(case.rtol, RTOL[wanted.dtype.name]) * looser
    atol = max(case.atol, ATOL[wanted.dtype.name]) * looser
    np.testing.assert_allclose(found.astype("float64"), wanted.astype("float64"), rtol, atol, err_msg=what)
