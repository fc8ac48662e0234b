"""Registered functions, their symbols, and tables of numbers: as MXNet 1.9.1 has them (golden/make_internal.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import hybridc as mx
from hybridc.errors import AbsentError, ArgumentTypeError, MXNetError

GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(GOLDEN))

import internal_cases  # noqa: E402

MXNET = json.loads((GOLDEN / "internal.json").read_text())


@pytest.mark.parametrize("code", internal_cases.CALLS)
def test_calls_give_what_mxnet_gives(code):
    assert internal_cases.run(mx, code) == MXNET["calls"][code]


@pytest.mark.parametrize("code", internal_cases.SYMBOLS)
def test_symbols_are_those_of_mxnet(code):
    assert internal_cases.symbol(mx, code) == MXNET["symbols"][code]


def test_each_name_of_mxnet_works_or_is_explained():
    lacking: dict[str, str] = {}
    for name in set(MXNET["names"]) - {"_os", "_sys"}:
        try:
            getattr(mx.nd._internal, name)
        except AbsentError as error:
            lacking[name] = str(error)
    assert [name for name, text in lacking.items() if "MXNet's " not in text] == []
    internal = "_NDArray _Native _NoGradient _CachedOp _CachedOpThreadSafe _CustomFunction _imdecode _imperative_invoke"
    others = "_set_ndarray_class _set_np_ndarray_class _split_v2_backward _broadcast_backward"
    known = {*internal.split(), *others.split()}
    prefixes = ("_backward_", "_cv", "_sg_mkldnn_")
    assert {name for name in lacking if not name.startswith(prefixes)} == known


def test_a_function_of_a_running_mxnet_says_what_takes_its_place():
    with pytest.raises(AbsentError, match="'_backward_Convolution': MXNet's exists in a running MXNet only; autograd"):
        mx.nd._internal._backward_Convolution  # noqa: B018
    with pytest.raises(AbsentError, match=r"'_cvimresize': MXNet's is a function of arrays; mx.image has functions"):
        mx.nd._internal._cvimresize  # noqa: B018


@pytest.mark.parametrize(
    ("code", "error", "text"),
    [
        ("_set_value(2)", MXNetError, "_set_value: out must be the NDArray to write into, got NoneType"),
        ("_set_value('a', out=x)", ArgumentTypeError, "_set_value: src takes a number, got 'a'"),
        ("_plus_scalar(x, 'a')", ArgumentTypeError, "_plus_scalar: scalar takes a number, got 'a'"),
        ("_full(shape=(2,), value=1, ctx='here')", ArgumentTypeError, "_full: ctx takes a Context or its text"),
        ("_full(shape=(2,), val=1)", ArgumentTypeError, "got an unexpected keyword argument 'val'; did you mean value"),
        ("_zeros(1, 2, 3, 4)", ArgumentTypeError, "_zeros.. takes 3 arguments, shape, ctx, dtype; got 4"),
    ],
)
def test_wrong_calls_are_explained(code, error, text):
    with pytest.raises(error, match=text):
        eval(f"mx.nd._internal.{code}", {"mx": mx, "x": mx.nd.ones((2,))})


def test_registered_functions_are_traced():
    class Net(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            internal = F._internal
            return internal._plus_scalar(x, 2) * internal._full(shape=(2,), value=3) + internal._RMinusScalar(x, 1)

    net = Net()
    x = mx.nd.array([1, 2])
    eager = net(x).asnumpy()
    net.hybridize()
    assert eager.tolist() == [9, 11]
    assert net(x).asnumpy().tolist() == [9, 11]


@pytest.mark.parametrize("name", internal_cases.ARGUMENTS)
def test_operators_have_the_arguments_of_mxnet(name):
    assert list(mx.operator.get_operator_arguments(name).names) == MXNET["arguments"][name]


def test_lists_of_operators_have_further_names():
    names = mx.operator.get_all_registered_operators()
    assert names == sorted(set(names))
    assert {"_crop_assign", "_copyto", "_rminus_scalar", "_scatter_plus_scalar", "_full"} <= set(names)


def _plain(value):
    """A number, or the name of a dtype as NumPy 1 and 2 have it."""
    return value if isinstance(value, int) else getattr(value, "__name__", str(value)).replace("bool_", "bool")


@pytest.mark.parametrize("name", MXNET["tables"])
def test_tables_are_those_of_mxnet(name):
    table = getattr(mx.nd, name)
    assert getattr(mx.nd.ndarray, name) is table
    found = [[_plain(v) for v in item] for item in table.items()]
    wanted = [[_plain(v) for v in item] for item in MXNET["tables"][name]]
    assert found[: len(wanted)] == wanted


def test_cached_op_is_in_all_places_of_mxnet():
    places = (mx.nd, mx.nd.op, mx.nd._internal)
    assert len({place.CachedOp for place in places}) == 1
    assert mx.nd._internal._Null is mx.base._Null
    assert isinstance(mx.nd.ones((1,)), mx.nd._internal.NDArrayBase)
