"""Every operator as IR, and whole networks: what is printed parses to the same, with the same operators behind it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

from benchmarks import workloads
from hybridc.compile import pipeline, stages
from hybridc.dialects.mlir.hybrid import HandleAttr, from_attribute, tensor_type, to_attribute
from hybridc.errors import MXNetError
from hybridc.tools.check_op.printed import print_and_parse
from hybridc.trace.tracer import trace_call
from tests.ops.samples import each
from tests.slices import but


@each(print_and_parse)
def test_print_and_parse(case):
    print_and_parse(case)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -5,
        2**40,
        -(2**63),
        2**64 - 1,
        0.0,
        -0.0,
        1e-30,
        float("inf"),
        float("-inf"),
        'text with "quotes", a \\ and\na new line',
        "",
        (),
        (1, 2),
        (1.5, 2.5),
        (None, 1, None),
        (True, False),
        ((1, 2), (None, "a")),
        np.dtype("float16"),
        np.dtype("uint8"),
        np.dtype("bool"),
    ],
    ids=repr,
)
def test_values_of_attributes(value):
    kind = "DType" if isinstance(value, np.dtype) else "object"
    attribute = to_attribute(value, kind)
    again = from_attribute(Parser(pipeline.context(), str(attribute)).parse_attribute())
    assert type(again) is type(value)
    assert repr(again) == repr(value)


def test_nan_in_an_attribute():
    again = from_attribute(Parser(pipeline.context(), str(to_attribute(float("nan"), "float"))).parse_attribute())
    assert np.isnan(again)


def test_a_handle_prints_but_does_not_parse():
    attribute = to_attribute(object(), "object")
    assert isinstance(attribute, HandleAttr)
    with pytest.raises(Exception, match="names an object of the process that printed it and cannot be read back"):
        Parser(pipeline.context(), str(attribute)).parse_attribute()


def test_dtypes_that_cannot_be_compiled():
    with pytest.raises(MXNetError) as error:
        tensor_type((2,), "complex64")
    assert str(error.value) == (
        "arrays of dtype complex64 cannot be compiled; use one of ['bfloat16', 'bool', 'float16', 'float32', "
        "'float64', 'float8_e4m3fn', 'int32', 'int64', 'int8', 'uint64', 'uint8']"
    )


# --- whole networks ------------------------------------------------------------------------------------------

LONG = ("encoder", "lstm", "gelu_bias", "layernorm", "softmax", "attention", "norm_layer", "tiny_mlp")
LEVELS = ("differentiate", "choose-residuals", "hybrid-to-linalg", "fold-views", "tile-kernels", "plan-memory")


@pytest.mark.parametrize("name", but(LONG, workloads.WORKLOADS))
def test_networks_print_and_parse_at_every_level(name, monkeypatch):
    """Forward and backward: the text parses to a valid module, which prints as the same text."""
    monkeypatch.setattr(workloads, "STEPS", 3)  # of the lstm; they show what 35 would
    program = workloads.WORKLOADS[name].build(False)
    for net, args in zip(program.blocks, program.feeds(), strict=True):
        trace = trace_call(net, list(args), True)
        grads = tuple(i for i, leaf in enumerate(trace.leaves) if leaf._dtype.kind == "f")
        module = stages.Traced(trace, grads).module
        _same(str(module), "trace")
        seen = []
        for step in (*pipeline.GRAPH, *pipeline.numpy()):
            step.apply(Context(), module)
            if step.name in LEVELS:
                seen.append(step.name)
                _same(str(module), step.name)
        assert tuple(dict.fromkeys(seen)) == LEVELS
        _same(str(stages.Traced(trace, grads).optimize().structure()), "structured")


def _same(text, level):
    again = Parser(pipeline.context(), text).parse_module()
    again.verify()
    assert str(again) == text.rstrip("\n"), level
