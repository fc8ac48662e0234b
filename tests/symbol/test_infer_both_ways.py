"""Inference of shapes and dtypes, forwards and backwards, against MXNet's answers (golden/make_infer.py)."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import hybridc as mx
from tests.golden.infer_cases import answers

MXNET = json.loads((Path(__file__).parents[1] / "golden" / "infer.json").read_text())
# MXNet takes an unknown size to be the one that it is broadcast to; here it stays unknown.
GUESSED = {"broadcast_like"}


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
    return theirs == 0 or mine == theirs


def test_an_unknown_size_follows_from_the_number_of_elements():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    shapes, _, _ = (x.reshape((-1, 6)) + y).infer_shape(x=(4, 0), y=(2, 6))
    assert shapes == [(4, 3), (2, 6)]


def test_a_result_that_says_nothing_of_an_input_leaves_it_unknown():
    x, y = mx.sym.var("x"), mx.sym.var("y")
    types, outs, _ = (mx.sym.Cast(x, dtype="float16") + y).infer_type_partial()
    assert [getattr(t, "__name__", t) for t in types] == [None, "float16"]
    assert outs[0].__name__ == "float16"
