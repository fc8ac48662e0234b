"""Common mistakes raise the class that MXNet 1.9.1 raises, or one derived from it, and say what is wrong.

``tests/golden/error_cases.py`` has the mistakes, ``errors.json`` what MXNet raised.
"""

from __future__ import annotations

import builtins
import json
import re
import warnings
from pathlib import Path

import pytest

import hybridc as mx
from hybridc import errors
from tests.golden.error_cases import CASES, raised

KNOWN = json.loads((Path(__file__).parents[1] / "golden" / "errors.json").read_text())

# What hybridc can do and MXNet cannot: arrays without elements, more axes, symbols where numbers are meant.
POSSIBLE = {
    "nd.tile(X, reps=(0,))",
    'nd.Pad(X, mode="constant", pad_width=(0, 0, 1, 1))',
    "sym.Group(a)",
    "sym.concat(a, 3)",
    "sym.exp(3)",
    "gluon.rnn.LSTMCell(3).begin_state()",
    'gluon.Trainer({}, "sgd")',
    # Where MXNet trips over what it never checks, and hybridc does not use it.
    "a.attr(3)",
    'mx.optimizer.SGD(learning_rate=0.1, momentum="a").update(0, X, X, None)',
    "mx.metric.CustomMetric(3)",
    "mx.metric.np(3)",
}
# MXNet's accidents (a variable that was never set, an attribute of an object of another type): hybridc says what is
# wrong, by the class that says it.
ACCIDENTS = {
    "X @ X": errors.ShapeError,
    'sym.load_json("{")': mx.MXNetError,
    '(a + b).bind(mx.cpu(), {"a": X, "b": X}, args_grad={"a": X, "b": X}, grad_req=3)': errors.ArgumentTypeError,
    'net = nn.Dense(3, in_units=3); net.initialize(); net.weight.set_data("a")': errors.CheckError,
    'net = nn.Dense(3, in_units=3); net.initialize(ctx="cpu")': errors.ArgumentTypeError,
    "net = nn.Dense(3, in_units=3); nd.save(F, [X]); net.load_parameters(F)": mx.MXNetError,
    "gluon.rnn.ZoneoutCell(3)": errors.CheckError,
    'mx.recordio.unpack(b"a")': mx.MXNetError,
    "gluon.Trainer(P, 3)": ValueError,
    "gluon.Block(3)": TypeError,
    'gluon.Trainer(P, "sgd", {"learning_rate": "a"}).step(1)': TypeError,
    "gluon.data.vision.transforms.Compose(3)": TypeError,
    "mx.optimizer.create(3)": ValueError,
    'mx.metric.Accuracy().update("a", "b")': ValueError,
    'mx.init.Orthogonal(rand_type="nosuch")("w_weight", X)': ValueError,
    'mx.init.Bilinear()("w_weight", nd.ones(3))': ValueError,
}


def expected(case):
    """The class of a case, or None if nothing need be raised."""
    name = KNOWN[case]
    if case in ACCIDENTS:
        return ACCIDENTS[case]
    if not name or case in POSSIBLE:
        return None
    known = {"error": re.error}
    return known.get(name) or getattr(errors, name, None) or getattr(builtins, name)


@pytest.mark.parametrize("case", [c for c in CASES if expected(c) is not None])
def test_class(case, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = raised(mx, tmp_path, case)
    assert isinstance(error, expected(case)), repr(error)
    assert str(error), "an error without a text"


@pytest.mark.parametrize("case", sorted(POSSIBLE))
def test_possible(case, tmp_path):
    assert raised(mx, tmp_path, case) is None


def test_every_case_was_run_by_mxnet():
    assert KNOWN.keys() == set(CASES)
    assert POSSIBLE <= KNOWN.keys() >= ACCIDENTS.keys()
