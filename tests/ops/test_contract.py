"""What every operator class must have."""

from __future__ import annotations

import re

import pytest

import hybridc as mx
from hybridc.dialects.operator import (
    Composite,
    Contraction,
    Elementwise,
    Movement,
    Opaque,
    Operator,
    Reduction,
)
from hybridc.dialects.registry import FUNCTIONS, OPERATORS
from hybridc.nd.functions import function

assert mx.nd  # importing it registers the operators

OURS = {name: cls for name, cls in OPERATORS.items() if name.startswith("hybrid.")}
KINDS = (Elementwise, Reduction, Contraction, Movement, Composite, Opaque)
# Operators without samples, and what tests them.
NO_SAMPLES: dict[str, str] = {
    "hybrid.uniform_draw": "random: tests/ops/test_dropout.py",
    "hybrid.boolean_mask": "its shape depends on values: tests/nd/test_ndarray.py",
    "hybrid.custom": "it is what the user's CustomOp is: tests/operator",
    "hybrid.custom_backward": "it is what the user's CustomOp is: tests/operator",
}
RANDOM = ("hybridc.dialects.random_ops", "hybridc.dialects.random_choice")
NO_SAMPLES |= {name: "tests/nd/test_random.py" for name, cls in OURS.items() if cls.__module__ in RANDOM}


@pytest.mark.parametrize("name", OURS)
def test_name(name):
    assert re.fullmatch(r"hybrid\.[a-z][a-z0-9_]*", name)


@pytest.mark.parametrize("name", OURS)
def test_docstring_says_what_it_computes(name):
    text = OURS[name].__dict__.get("__doc__") or ""
    assert text.strip(), "the first line of the docstring is the operator's meaning"
    assert len(text.splitlines()[0]) <= 110


@pytest.mark.parametrize("name", OURS)
def test_attributes_are_documented(name):
    for attribute, declared in OURS[name].ATTRIBUTES.items():
        assert declared.doc, f"attribute {attribute} needs a doc"


@pytest.mark.parametrize("name", OURS)
def test_one_kind(name):
    assert sum(issubclass(OURS[name], kind) for kind in KINDS) == 1


@pytest.mark.parametrize("name", OURS)
def test_has_what_its_kind_needs(name):
    cls = OURS[name]
    if issubclass(cls, Elementwise):
        assert cls.scalar is not Elementwise.scalar
    elif issubclass(cls, Composite):
        assert cls.decompose is not Composite.decompose
    elif issubclass(cls, Movement | Opaque):
        assert cls.eager is not Operator.eager
    if not issubclass(cls, Elementwise | Reduction):
        assert cls.infer_shape is not Operator.infer_shape


@pytest.mark.parametrize("name", OURS)
def test_samples(name):
    assert bool(OURS[name].samples()) != (name in NO_SAMPLES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name):
    made = function(name)
    assert made.__doc__
    assert callable(made)
