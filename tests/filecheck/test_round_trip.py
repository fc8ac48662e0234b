"""Every operator as IR: what is printed parses to the same operation, with the same operator behind it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

import hybridc as mx
from hybridc import pipeline
from hybridc.dialects import registry
from hybridc.dialects.hybrid import HandleAttr, from_attribute, tensor_type, to_attribute
from hybridc.errors import MXNetError
from hybridc.tools.check_op.printed import print_and_parse

mx.nd.ones((1,))  # registers the operators


OURS = [cls for name, cls in sorted(registry.OPERATORS.items()) if name.startswith("hybrid.")]
CASES = [found for cls in OURS for found in print_and_parse.cases(cls)]


@pytest.mark.parametrize("case", [pytest.param(case, id=label) for label, case in CASES])
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
        "arrays of dtype complex64 cannot be compiled; use one of ['bool', 'float16', 'float32', 'float64', 'int32', "
        "'int64', 'int8', 'uint64', 'uint8']"
    )
