"""Every operator, method and index form against MXNet 1.9.1: eagerly, and inside a hybridized block."""

from __future__ import annotations

import builtins
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import hybridc as mx
from tests.golden.op_cases import all_cases, outputs_of
from tests.golden.store import Reader
from tests.slices import one_in

CASES = all_cases()
GOLDEN = Reader(Path(__file__).parent / "golden" / "ops.npz")
RTOL = {"float16": 2e-3, "float32": 1e-5, "float64": 1e-9}
ATOL = {"float16": 1e-3, "float32": 2e-6, "float64": 1e-9}


def test_golden_file_knows_every_case():
    assert set(GOLDEN.index) == set(CASES), "run tests/golden/make_ops.py with MXNet's interpreter"


@pytest.mark.parametrize("name", CASES)
def test_eager(name):
    check(CASES[name], lambda case: lambda arrays: case.fn(mx, *arrays))


@pytest.mark.parametrize("name", one_in(4, [name for name, case in CASES.items() if case.trace]))
def test_hybridized(name):
    check(CASES[name], hybridized)


def hybridized(case):
    """The case as the forward of a hybridized block."""

    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, *arrays):
            result = case.fn(SimpleNamespace(nd=F), *arrays)
            return list(result) if isinstance(result, tuple) else result

    def run(arrays):
        result = net(*arrays)
        if not mx.autograd.is_recording():
            net(*[mx.nd.zeros(x.shape, dtype=x.dtype) for x in arrays])  # a later call must not write into it
        return result

    net = Net()
    net.hybridize()
    return run


def check(case, make_run):
    record, inputs = GOLDEN.index[case.name], stored_inputs(case)
    if case.raises:
        with pytest.raises(error_types(case, record)):
            outputs_of(make_run(case)(arrays_of(inputs)))
        return
    found = outputs_of(make_run(case)(arrays_of(inputs)))
    if case.compat:
        with np.errstate(all="ignore"):
            wanted = outputs_of(case.wanted())
        assert_outputs(case, found, wanted)
        return
    assert "error" not in record, f"MXNet raises {record['error']}: not a case that claims so"
    assert_outputs(case, found, [GOLDEN.get(ref) for ref in record["outs"]])
    if case.differentiated():
        wanted = own_gradients(case, found[0]) if case.no_grad else golden_gradients(record)
        assert_gradients(case, wanted, inputs, make_run)


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


def assert_gradients(case, wanted, inputs, make_run):
    arrays = dict(zip(inputs, arrays_of(inputs)))
    for key in case.differentiated():
        arrays[key].attach_grad()
    with mx.autograd.record(train_mode=False):
        outs = make_run(case)(list(arrays.values()))
    outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    heads = [mx.nd.array(case.weights(k, out.shape, out.dtype), dtype=out.dtype) for k, out in enumerate(outs)]
    mx.autograd.backward(outs, heads, train_mode=False)
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
