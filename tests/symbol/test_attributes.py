"""The attributes of symbols are those that MXNet 1.9.1 keeps (tests/golden/make_attributes.py)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.operator_registry import operators
from hybridc.symbol.graph import SymbolNode
from hybridc.symbol.json import to_json
from hybridc.symbol.node_attributes import declared_shape

GOLDEN = Path(__file__).parent.parent / "golden"
sys.path.insert(0, str(GOLDEN))

from attribute_cases import CASES, described  # noqa: E402

WANTED = json.loads((GOLDEN / "attributes.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_attributes_are_kept_as_in_mxnet(name):
    assert described(mx, CASES[name]) == WANTED[name]


REQUIRED = json.loads((GOLDEN / "required_attributes.json").read_text())


def test_what_mxnet_requires_is_always_written():
    """Also of nodes that no call made: those of a trace, whose attributes nobody gave."""
    missing = {}
    for name, cls in operators().items():
        for sample in cls.samples() if cls.nnvm_name() in REQUIRED else ():
            op = cls.bind(**sample.attrs).undecided()
            inputs = [(SymbolNode(None, f"x{i}"), 0) for i in range(len(sample.inputs))]
            if not op.num_visible_outputs():
                continue
            nodes = json.loads(to_json([(SymbolNode(op, "y", inputs), 0)], remove_amp_cast=False))["nodes"]
            lacking = set(REQUIRED[cls.nnvm_name()]) - nodes[-1].get("attrs", {}).keys()
            if nodes[-1]["op"] == cls.nnvm_name() and lacking:
                missing[name] = lacking
    assert missing == {}


def test_an_attribute_set_again_is_the_one_that_is_listed():
    x = mx.sym.var("x")
    symbol = mx.sym.Pooling(x, kernel=(2, 2), pool_type="max", name="y")
    symbol._set_attr(pool_type="avg", __note__="a")
    assert symbol.list_attr() == {"kernel": "(2, 2)", "pool_type": "avg", "__note__": "a"}
    assert mx.sym.load_json(symbol.tojson()).list_attr() == symbol.list_attr()
    found = symbol.eval(x=mx.nd.array([[[[1, 2], [3, 6]]]]))[0]
    assert found.asscalar() == 3


def test_what_mxnet_could_not_read_is_spelled_otherwise():
    x = mx.sym.var("x")
    dense = mx.sym.FullyConnected(x, num_hidden=np.int32(4), no_bias=np.True_, flatten=1, name="y")
    assert dense.list_attr() == {"num_hidden": "4", "no_bias": "True", "flatten": "1"}
    dense = mx.sym.FullyConnected(x, num_hidden=4.0, name="y")
    assert dense.list_attr() == {"num_hidden": "4"}
    with pytest.raises(ValueError, match="attribute no_bias takes True or False, got 7"):
        mx.sym.FullyConnected(x, num_hidden=4, no_bias=7, name="y")
    pooled = mx.sym.Pooling(x, kernel=(np.int64(2), np.int64(3)), stride=np.array([1, 2]), name="y")
    assert pooled.list_attr() == {"kernel": "(2, 3)", "stride": "(1, 2)"}
    assert mx.sym.load_json(pooled.tojson()).list_attr() == pooled.list_attr()


@pytest.mark.parametrize(
    ("text", "shape"),
    [("(2L, 3L)", (2, 3)), ("[2, 3]", (2, 3)), ("(np.int64(2), 3)", (2, 3)), ("(2,0)", (2, -1)), ("4", (4,))],
)
def test_shapes_of_variables_as_programs_wrote_them(text, shape):
    assert declared_shape(mx.sym.var("x", attr={"__shape__": text}).entries[0][0]) == shape


@pytest.mark.parametrize("text", ["(2L, x)", "__import__('os')", "(" * 2000])
def test_shapes_that_nobody_can_read(text):
    with pytest.raises(mx.MXNetError, match="attribute __shape__ takes a tuple of integers, got"):
        declared_shape(mx.sym.var("x", attr={"__shape__": text}).entries[0][0])


def test_prelu_begins_at_a_quarter():
    symbol = mx.sym.LeakyReLU(mx.sym.var("data"), act_type="prelu", name="p")
    module = mx.mod.Module(symbol, label_names=[])
    module.bind([("data", (2, 3))], for_training=False)
    module.init_params(mx.init.One())
    assert module.get_params()[0]["p_gamma"].asnumpy().tolist() == [0.25] * 3
