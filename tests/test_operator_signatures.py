"""Functions of operators have MXNet 1.9.1's parameters in their order (tests/golden/make_operator_signatures.py)."""

from __future__ import annotations

import gzip
import inspect
import json
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx

GOLDEN = Path(__file__).parent / "golden" / "operator_signatures.json.gz"
WANTED = json.loads(gzip.decompress(GOLDEN.read_bytes()))
# Parameters that MXNet puts elsewhere: at the end, and by keyword in all programs.
LAST = {"name", "attr", "out", "ctx", "**kwargs"}
# Functions of backward passes, and helpers of MXNet's own indexing.
ABSENT = ("contrib.backward_", "contrib.quantized_rnn", "get_indexing_dispatch_code", "get_oshape_of_gather_nd_op")
ABSENT += ("imdecode", "indexing_key_expand_implicit_axes")
OTHER = {"nd.from_numpy": "the class of the result is always NDArray"}


def found(path):
    value = mx
    for part in path.split("."):
        value = getattr(value, part)
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [stars.get(p.kind, "") + p.name for p in inspect.signature(value).parameters.values()]


def test_parameters_are_those_of_mxnet_in_its_order():
    wrong = {}
    for path, theirs in WANTED.items():
        if path.partition(".")[2].startswith(ABSENT) or path in OTHER:
            continue
        wanted = [name for name in theirs if name not in LAST]
        ours = [name for name in found(path) if name not in LAST]
        if theirs and theirs[0].startswith("*"):  # the others are given by keyword
            same = {name for name in wanted if "*" not in name} - {"data"} <= set(ours)
        else:
            same = ours[: len(wanted)] == wanted
        if not same:
            wrong[path] = theirs, ours
    assert wrong == {}


def test_what_is_absent():
    for path in WANTED:
        if path.partition(".")[2].startswith(ABSENT):
            with pytest.raises(AttributeError):
                found(path)


a, b = mx.sym.var("a"), mx.sym.var("b")


@pytest.mark.parametrize(
    ("made", "name", "result"),
    [
        (lambda: mx.sym.maximum(left=a, right=b), "_maximum0", [3, 2]),
        (lambda: mx.sym.minimum(left=a, right=b), "_minimum0", [1, 2]),
        (lambda: mx.sym.minimum(left=2, right=a), "_minimumscalar0", [1, 2]),
        (lambda: mx.sym.hypot(left=a, right=b), "_hypot0", np.hypot([1, 2], [3, 2])),
        (lambda: mx.sym.pow(base=a, exp=b), "_power0", [1, 4]),
        (lambda: mx.sym.pow(base=2, exp=a), "_rpowerscalar0", [2, 4]),
        (lambda: mx.sym.pow(a, exp=3), "_powerscalar0", [1, 8]),
        (lambda: mx.sym.maximum(lhs=a, rhs=b), "_maximum0", [3, 2]),
    ],
)
def test_names_of_two_parameters(made, name, result):
    with mx.name.NameManager():
        symbol = made()
    assert symbol.name == name
    arrays = {"a": mx.nd.array([1, 2]), "b": mx.nd.array([3, 2])}
    (found,) = symbol.eval(**{n: arrays[n] for n in symbol.list_arguments()})
    np.testing.assert_allclose(found.asnumpy(), result, rtol=1e-6)


def test_two_numbers_give_a_number():
    assert [mx.sym.maximum(2, 3), mx.sym.minimum(2, 3), mx.sym.pow(2, 3), mx.sym.hypot(3, 4)] == [3, 2, 8, 5]


def test_keywords_that_change_nothing_in_mxnet():
    x, y = mx.nd.array([1, 2]), mx.nd.array([3, 1])
    assert mx.nd.broadcast_maximum(x, y, axis=1).asnumpy().tolist() == [3, 2]
    assert mx.sym.broadcast_maximum(a, b, axis=1, name="y").attr_dict() == {"y": {"axis": "1"}}
    identity = np.eye(2, dtype="float32")
    for function in (mx.nd.linalg.potrf, mx.nd.linalg.potri):
        np.testing.assert_array_equal(function(mx.nd.array(identity), lower=True).asnumpy(), identity)
        with pytest.raises(TypeError, match="got an unexpected keyword argument 'lower'"):
            function(mx.nd.array(identity), lower=False)


def test_attributes_behind_hidden_inputs_are_positional():
    x, g, s = (mx.sym.var(n) for n in "xgs")
    symbol = mx.sym.BatchNorm_v1(x, g, s, 1e-4, name="y")
    assert symbol.list_inputs() == ["x", "g", "s", "y_moving_mean", "y_moving_var"]
    assert symbol.attr("eps") == "0.0001"
    symbol = mx.sym.IdentityAttachKLSparseReg(x, 0.2, name="y")
    assert symbol.list_inputs() == ["x", "y_moving_avg"]
    assert symbol.attr("sparseness_target") == "0.2"
    pooled = mx.nd.Pooling_v1(mx.nd.array(np.arange(16).reshape(1, 1, 4, 4)), (2, 2), "max", False, "valid", (2, 2))
    assert pooled.asnumpy().tolist() == [[[[5, 7], [13, 15]]]]
    image = mx.nd.col2im(mx.nd.ones((1, 4, 4)), (3, 3), (2, 2))
    assert image.asnumpy().tolist() == [[[[1, 2, 1], [2, 4, 2], [1, 2, 1]]]]


def test_an_operator_alone_is_composed_again():
    """As mixed precision of MXNet 1.9.1 does, for every call."""
    x = mx.sym.var("x")
    for made, states in ((mx.sym.FullyConnected(x, num_hidden=2, name="f"), []), (mx.sym.BatchNorm(x, name="f"), 2)):
        alone = made._gen_atomic_symbol()
        again = alone(*made.get_children())
        again._set_attr(name="g")
        assert again.list_inputs() == made.list_inputs()
        assert again.list_auxiliary_states() == made.list_auxiliary_states()
        assert again.list_outputs() == ["g_output"]
        assert again.attr_dict()["g"] == made.attr_dict()["f"] if "f" in made.attr_dict() else True
        assert (len(again.list_auxiliary_states()) == states) or not states


def test_attributes_that_an_operator_lacks():
    with pytest.raises(mx.MXNetError, match=r"FullyConnected: Cannot find argument 'mood'; .* __mood__"):
        mx.sym.FullyConnected(a, num_hidden=2, attr={"mood": "so so"})
    assert mx.sym.relu(a, attr={"mood": "so so"}, name="y").attr("mood") == "so so"  # it has no attributes
