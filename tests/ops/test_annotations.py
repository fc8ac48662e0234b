"""Attributes of operators in a module where annotations are values, not texts."""

# No ``from __future__ import annotations`` here: that is what is tested.

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.operator_attribute import Axis, Floats, Shape, Slice


@mx.op.register("annotations.scale_plain")
class ScalePlain(mx.op.Elementwise):
    """factor * x"""

    factor: float = mx.op.attribute(1.0, "the factor")
    number: int | None = mx.op.attribute(None, "an integer")
    flag: bool = mx.op.attribute(False, "a truth value")
    word: str = mx.op.attribute("a", "a word", enum=("a", "b"))
    shape: Shape = mx.op.attribute((), "a shape")
    maybe: Shape | None = mx.op.attribute(None, "a shape or None")
    axis: Axis = mx.op.attribute(None, "an axis")
    cut: Slice = mx.op.attribute((), "a slice")
    weights: Floats = mx.op.attribute((), "numbers")
    dtype: np.dtype = mx.op.attribute("float32", "a dtype")

    def scalar(self, b, *xs):
        return b.mul(*xs, self.factor)


def test_annotations_may_be_values():
    kinds = {name: (a.kind, a.optional) for name, a in ScalePlain.ATTRIBUTES.items()}
    assert kinds == {
        "factor": ("float", False),
        "number": ("int", True),
        "flag": ("bool", False),
        "word": ("str", False),
        "shape": ("Shape", False),
        "maybe": ("Shape", True),
        "axis": ("Axis", True),
        "cut": ("Slice", False),
        "weights": ("Floats", False),
        "dtype": ("object", False),
    }


def test_their_values_are_parsed():
    x = mx.nd.array([1, 2])
    assert mx.nd.scale_plain(x, factor="3", shape="(1, 2)").asnumpy().tolist() == [3, 6]
    with pytest.raises(mx.MXNetError, match="attribute factor takes a number, got 'three'"):
        mx.nd.scale_plain(x, factor="three")
    symbol = mx.sym.scale_plain(mx.sym.var("x"), factor=3, axis=(0, 1), cut=(None, 1), word="b", maybe=2)
    again = mx.sym.load_json(symbol.tojson())
    assert again.entries[0][0].op is symbol.entries[0][0].op
    assert again.eval(x=x)[0].asnumpy().tolist() == [3, 6]
