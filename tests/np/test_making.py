"""Making arrays of ``mx.np``; and all that these modules do, as MXNet 1.9.1 does it (golden data)."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as onp
import pytest

import hybridc as mx
from hybridc import np

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))

import np_arrays_cases
from programs import Recorded

MXNET = Recorded("np_arrays")

# By the reason: what differs from MXNet on purpose.
DIFFERENT = {
    "MXNet ignores constant_values": {"np.pad(x, ((1, 1), (2, 0)), 'constant', constant_values=3)"},
    "MXNet's windows are computed in float32": {"np.hanning(4)", "np.hamming(5)", "np.blackman(5)"},
}


@pytest.mark.parametrize(
    "case", [case for case in np_arrays_cases.CASES if case not in set().union(*DIFFERENT.values())]
)
def test_same_as_mxnet(case):
    MXNET.assert_same(case, np_arrays_cases.CASES[case](mx))


# Functions of NumPy itself, whose parameters are those of the version that is installed.
OF_NUMPY = "choose corrcoef histogram2d histogram_bin_edges histogramdd nanpercentile nanquantile"


def test_parameters_are_mxnets():
    """MXNet's parameters in its order with its defaults; more may follow, and may have a default."""
    made = np_arrays_cases.signatures(np)
    wrong = {}
    for name, theirs in MXNET.values["signatures"].items():
        theirs = re.sub(r" \w+=<no value>", "", theirs)
        found = made.get(name, theirs)
        pairs = list(zip(found.split(), theirs.split(), strict=False))
        if len(pairs) < len(theirs.split()) or any(a != b and a.partition("=")[0] != b for a, b in pairs):
            wrong[name] = theirs, found
    assert not {name: pair for name, pair in wrong.items() if name not in OF_NUMPY.split()}


MAKERS = {
    "array": (lambda: np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]], "float32"),
    "of NumPy": (lambda: np.array(onp.array([1, 2])), [1, 2], "int64"),
    "of bool in NumPy": (lambda: np.array(onp.array([True])), [True], "bool"),
    "of arrays in lists": (lambda: np.array([np.array([1.0]), [2.0]]), [[1], [2]], "float32"),
    "of an nd array": (lambda: np.array(mx.nd.array([1, 2], dtype="int32")), [1, 2], "int32"),
    "dtype": (lambda: np.array([1.7, 2], dtype="int32"), [1, 2], "int32"),
    "0-d": (lambda: np.array(3), 3, "float32"),
    "empty": (lambda: np.array([]), [], "float32"),
    "zeros": (lambda: np.zeros((2,)), [0, 0], "float32"),
    "zeros 0-d": (lambda: np.zeros(()), 0, "float32"),
    "zeros none": (lambda: np.zeros((0, 2), "int8"), onp.zeros((0, 2)), "int8"),
    "ones bool": (lambda: np.ones(2, dtype=bool), [True, True], "bool"),
    "full": (lambda: np.full((2,), 7), [7, 7], "float32"),
    "full of bool": (lambda: np.full(2, True), [True, True], "bool"),
    "full of an array": (lambda: np.full((2, 2), np.array([1, 2])), [[1, 2], [1, 2]], "float32"),
    "full_like": (lambda: np.full_like(np.array([1, 2]), 5, dtype="int64"), [5, 5], "int64"),
    "zeros_like of a list": (lambda: np.zeros_like([1, 2]), [0, 0], "float32"),
    "ones_like": (lambda: np.ones_like(np.zeros((1, 0))), onp.ones((1, 0)), "float32"),
    "empty_like": (lambda: np.empty_like(np.ones(2, dtype="int8")) * 0, [0, 0], "int8"),
    "arange": (lambda: np.arange(3), [0, 1, 2], "float32"),
    "arange down": (lambda: np.arange(3, 0, -2, dtype="int32"), [3, 1], "int32"),
    "arange none": (lambda: np.arange(3, 0), [], "float32"),
    "linspace": (lambda: np.linspace(0, 1, 3), [0, 0.5, 1], "float32"),
    "linspace none": (lambda: np.linspace(0, 1, 0), [], "float32"),
    "logspace": (lambda: np.logspace(0, 2, 3, base=2), [1, 2, 4], "float32"),
    "eye": (lambda: np.eye(2, 3, -1), onp.eye(2, 3, -1), "float32"),
    "eye none": (lambda: np.eye(0, 3), onp.zeros((0, 3)), "float32"),
    "identity": (lambda: np.identity(2, "int32"), [[1, 0], [0, 1]], "int32"),
    "tri": (lambda: np.tri(2, 3, 1), onp.tri(2, 3, 1), "float32"),
    "copy": (lambda: np.copy(np.array([1])), [1], "float32"),
    "asarray": (lambda: np.asarray([1, 2], "int32"), [1, 2], "int32"),
    "hanning": (lambda: np.hanning(5), onp.hanning(5), "float32"),
    "hamming": (lambda: np.hamming(5, dtype="float64"), onp.hamming(5), "float64"),
    "blackman": (lambda: np.blackman(5), onp.blackman(5), "float32"),
    "indices": (lambda: np.indices((2, 3)), onp.indices((2, 3)), "int32"),
    "genfromtxt": (lambda: np.genfromtxt(["1 2", "3 4"]), [[1, 2], [3, 4]], "float64"),
}  # fmt: skip


@pytest.mark.parametrize("name", MAKERS)
def test_makers(name):
    make, values, dtype = MAKERS[name]
    y = make()
    assert type(y) is np.ndarray
    assert y.dtype == onp.dtype(dtype)
    assert y.shape == onp.shape(values)
    onp.testing.assert_allclose(y.asnumpy(), values, rtol=1e-6, atol=1e-7)


def test_makers_in_a_block():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return [x * 0 + np.sum(make().astype("float64")).astype("float32") for make, _, _ in MAKERS.values()]

    net = Net()
    net.hybridize()
    for y, (_, values, _) in zip(net(np.zeros(())), MAKERS.values(), strict=True):
        onp.testing.assert_allclose(y.asnumpy(), onp.sum(values), rtol=1e-5)


def test_a_copy_and_the_array_itself():
    x = np.array([1, 2])
    assert not np.shares_memory(x, np.array(x))
    assert not np.shares_memory(x, np.copy(x))
    assert np.asarray(x) is x
    assert np.shares_memory(np.from_numpy(y := onp.zeros(3, "float32")), np.from_numpy(y))
    assert np.may_share_memory(x, x[1:])
    assert not np.may_share_memory(x, x + 0)


@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda: np.array([[1], [1, 2]]), TypeError, "nested in lists of one length"),
        (lambda: np.array("a"), TypeError, "give it numbers"),
        (lambda: np.zeros(2, order="F"), NotImplementedError, "row-major"),
        (lambda: np.arange(1, 2, 0), ZeroDivisionError, "step cannot be 0"),
        (lambda: np.linspace([0], 1), NotImplementedError, "numbers"),
        (lambda: np.shares_memory(1, 2), TypeError, "expected arrays"),
        (lambda: np.meshgrid(np.ones(2), indexing="a"), ValueError, "'xy' and 'ij'"),
        (lambda: np.ix_(np.ones((2, 2))), ValueError, "1 dimensional"),
    ],
)
def test_errors(run, error, message):
    with pytest.raises(error, match=message):
        run()


@pytest.mark.parametrize(
    ("result", "wanted"),
    [
        (lambda: np.result_type(np.ones(2), np.ones(2, dtype="int32")), "float32"),
        (lambda: np.result_type(np.ones(2, dtype="int8"), np.ones(2, dtype="uint8")), "int32"),
        (lambda: np.result_type(np.ones(2, dtype="int8"), 1.5), "float32"),
        (lambda: np.result_type(np.ones(2, dtype=bool), 1), "int64"),
        (lambda: np.result_type("float16", np.float64), "float64"),
        (lambda: np.result_type(1, 2.5), "float64"),
        (lambda: np.promote_types("int8", "float32"), "float32"),
        (lambda: np.min_scalar_type(300), "uint16"),
    ],
)
def test_facts_of_dtypes(result, wanted):
    assert result() == onp.dtype(wanted)
    assert np.can_cast(np.ones(1, dtype="int8"), "float32")
    assert not np.can_cast("float64", "int32")
    assert np.finfo(np.float32).bits == 32
    assert np.iinfo(np.int8).max == 127
