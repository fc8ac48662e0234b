"""Every operator as IR: what is printed parses to the same operation, with the same operator behind it."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp
from xdsl.ir import Block, Region
from xdsl.parser import Parser

import hybridc as mx
from hybridc import pipeline
from hybridc.dialects import registry
from hybridc.dialects.hybrid import HandleAttr, HybridOp, from_attribute, tensor_type, to_attribute
from hybridc.dialects.operator import Opaque
from hybridc.errors import MXNetError
from hybridc.stages import text
from hybridc.trace.location import Location

mx.nd.ones((1,))  # registers the operators


def samples():
    for name, cls in sorted(registry.OPERATORS.items()):
        for number, sample in enumerate(cls.samples()):
            yield pytest.param(cls, sample, id=f"{name.partition('.')[2]}-{number}")


def operation(cls, sample):
    """A module with one operation, or None where the sample's inputs are no tensors of the IR."""
    operator = cls.bind(**sample.attrs)
    dtype = sample.dtypes[0]
    types = []
    for x in sample.inputs:
        shape = x if isinstance(x, tuple) else np.shape(x)
        own = np.asarray(x).dtype if not isinstance(x, tuple) else np.dtype(dtype)
        types.append(tensor_type(shape, own if own.kind != "f" else dtype))
    if operator.DRAWS:
        types.append(tensor_type((2,), "uint64"))
    block = Block(arg_types=types)
    op = HybridOp.build_op(operator, list(block.args), Location("model.py", 7, "net"))
    block.add_ops([op, func.ReturnOp(*op.results)])
    kind = FunctionType.from_lists(types, [r.type for r in op.results])
    return ModuleOp([func.FuncOp("f", kind, Region(block))]), op


@pytest.mark.parametrize(("cls", "sample"), list(samples()))
def test_print_and_parse(cls, sample):
    module, op = operation(cls, sample)
    module.verify()
    if any(isinstance(a, HandleAttr) for a in op.attributes.values()):
        assert issubclass(cls, Opaque), "only host calls may refer to Python objects"
        return
    printed = text(module, locations=True)
    again = Parser(pipeline.context(), printed).parse_module()
    again.verify()
    assert text(again, locations=True) == printed
    (found,) = [o for o in again.walk() if isinstance(o, HybridOp)]
    assert found.operator is op.operator
    assert found.location == op.location


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
