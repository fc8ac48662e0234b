"""Inference of shapes and dtypes, forwards and backwards, against MXNet's answers (golden/make_infer.py)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import hybridc as mx
from tests.golden.infer_cases import SHAPES, answers

MXNET = json.loads((Path(__file__).parents[1] / "golden" / "infer.json").read_text())
GUESSED = {
    "broadcast_like",  # there an unknown size is the one that it is broadcast to; here it stays unknown
    *("weight norm, forwards, axis 1", "weight norm, backwards, axis 1"),  # * broadcasts here: it need not be the 1
    *("Pad, forwards, axis 2", "Pad, forwards, axis 3"),  # there it is taken for 0
}


@pytest.fixture(scope="module")
def ours():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what cannot be decided is warned of
        return answers(mx)


@pytest.mark.parametrize("kind", MXNET)
def test_what_mxnet_infers_is_inferred(kind, ours):
    wrong = {}
    for name, theirs in MXNET[kind].items():
        mine = ours[kind][name]
        if theirs != "error" and name not in GUESSED and not says_as_much(mine, theirs):
            wrong[name] = f"{mine}, in MXNet {theirs}"
    assert not wrong


def says_as_much(mine, theirs):
    """Whether everything that MXNet knows (no None, no unknown shape, no size 0) is the same here."""
    if theirs is None or theirs == []:
        return True
    if isinstance(theirs, list):
        return isinstance(mine, list) and len(mine) == len(theirs) and all(map(says_as_much, mine, theirs))
    return theirs in (0, -1) or mine == theirs


def test_an_unknown_size_follows_from_the_number_of_elements():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    shapes, _, _ = (x.reshape((-1, 6)) + y).infer_shape(x=(4, 0), y=(2, 6))
    assert shapes == [(4, 3), (2, 6)]


def test_a_result_that_says_nothing_of_an_input_leaves_it_unknown():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    types, outs, _ = (mx.sym.Cast(x, dtype="float16") + y).infer_type_partial()
    assert [getattr(t, "__name__", t) for t in types] == [None, "float16"]
    assert outs[0].__name__ == "float16"


class OfParameter(mx.gluon.HybridBlock):
    """An operator on a parameter of which a part of the shape is known, plus the data."""

    def __init__(self, code, shape):
        super().__init__()
        self.code = code
        self.a = self.params.get("a", shape=shape, allow_deferred_init=True)

    def hybrid_forward(self, F, b, a):
        return eval(self.code, {"mx": Functions(F), "a": a, "b": b})


class Functions:
    """``mx`` of a case in a block: its variables are arrays."""

    def __init__(self, F):
        self.sym = self
        self.F = F

    def __getattr__(self, name):
        return getattr(self.F, name)

    def var(self, _, shape):
        return self.F.ones(shape=shape)


def test_blocks_infer_what_symbols_infer(ours):
    unlike = {}
    for name, (code, known) in SHAPES.items():
        inferred = ours["infer_shape_partial"][name]
        if "backwards" not in name or "name=" in code or 0 in (inferred[0][0] or (0,)):
            continue
        block = OfParameter(code, known.get("a"))
        block.infer_shape(mx.nd.ones(known["b"]))
        if list(block.a.shape) != inferred[0][0]:
            unlike[name] = f"{block.a.shape}, of the symbol {inferred[0][0]}"
    assert not unlike


@pytest.mark.parametrize("hybridize", [False, True])
def test_a_weight_is_inferred_through_what_is_computed_of_it(hybridize):
    class Normalized(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.v = self.params.get("v", shape=(3, 0), allow_deferred_init=True)
            self.g = self.params.get("g", shape=(3, 1), init="ones")
            self.filters = self.params.get("filters", shape=(0, 0, 3, 3), allow_deferred_init=True)
            self.part = self.params.get("part", shape=(1, 0), allow_deferred_init=True)

        def hybrid_forward(self, F, x, image, v, g, filters, part):
            weight = F.broadcast_mul(v / F.sqrt(F.sum(v * v, axis=1, keepdims=True)), g)
            image = F.Convolution(image, F.transpose(filters.tanh(), (1, 0, 2, 3)), kernel=(3, 3), num_filter=2,
                                  no_bias=True)  # fmt: skip
            weight = F.concat(weight, F.cast(F.cast(part, "float64"), "float32"), dim=0)
            return F.FullyConnected(x, weight, num_hidden=4, no_bias=True), image

    net = Normalized()
    net.initialize()
    net.hybridize(hybridize)
    out, image = net(mx.nd.ones((2, 5)), mx.nd.ones((2, 3, 4, 4)))
    assert (out.shape, image.shape) == ((2, 4), (2, 2, 2, 2))
    assert (net.v.shape, net.part.shape, net.filters.shape) == ((3, 5), (1, 5), (3, 2, 3, 3))


def test_what_is_cut_or_dropped_of_an_unknown_size_stays_unknown():
    x = mx.sym.var("x")
    assert mx.sym.slice(x, begin=(0, 1), end=(2, 3)).infer_shape_partial(x=(0, 5))[1] == [(0, 2)]
    assert mx.sym.squeeze(x).infer_shape_partial(x=(0, 3))[1] == [()]
    assert mx.sym.broadcast_add(x, mx.sym.var("y", shape=(1, 3))).infer_shape_partial(x=(0, 3))[1] == [(0, 3)]


@mx.op.register("tests_infer.scaled_fc")
class ScaledFullyConnected(mx.op.Composite):
    """x @ (2 tanh(w)).T"""

    INPUTS = ("x", "w")

    def decompose(self, F, x, w):
        return F.FullyConnected(x, F.tanh(w) * 2, num_hidden=3, no_bias=True)


@pytest.mark.parametrize("shape", [(3, 0), (0, -1), None])
def test_shapes_are_inferred_through_a_users_operator(shape):
    class Scaled(mx.gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            self.w = self.params.get("w", shape=shape, allow_deferred_init=True)

        def forward(self, x):
            F = mx.nd if isinstance(x, mx.nd.NDArray) else mx.sym
            return F.scaled_fc(x, -self.w.data())

    net = Scaled()
    net.initialize()
    assert net(mx.nd.ones((2, 4))).shape == (2, 3)
    assert net.w.shape == (3, 4)
    assert mx.sym.scaled_fc(mx.sym.var("x"), mx.sym.var("w")).infer_shape(x=(2, 4))[0] == [(2, 4), (3, 4)]


def test_what_is_cut_to_one_element_may_have_none():
    """An operator without inputs says 0 for a size that is not known; if nothing else says one, it is 0."""
    net = mx.gluon.nn.HybridLambda(lambda F, x: F.slice(F.random.uniform(shape=(0, 3)), begin=(0, 1), end=(1, 3)) + x)
    x = mx.nd.ones((0, 2))
    eager = net(x)
    net.hybridize()
    assert net(x).shape == eager.shape == (0, 2)
