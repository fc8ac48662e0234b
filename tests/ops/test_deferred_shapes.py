"""Shapes of parameters that are worked out from the data: what deferred initialisation relies on."""

from __future__ import annotations

import numpy as np
import pytest

from hybridc.dialects.operator_registry import of_function
from hybridc.errors import DTypeError, ShapeError


def infer(name, shapes, **attrs):
    return of_function(name).bind(**attrs).infer_shape(list(shapes))


@pytest.mark.parametrize(
    ("name", "attrs", "given", "filled", "out"),
    [
        ("FullyConnected", {"num_hidden": 5}, [(2, 3, 4), (5, -1), (-1,)], [(2, 3, 4), (5, 12), (5,)], (2, 5)),
        (
            "FullyConnected",
            {"num_hidden": 5, "flatten": False},
            [(2, 3, 4), (-1, -1), (5,)],
            [(2, 3, 4), (5, 4), (5,)],
            (2, 3, 5),
        ),
        ("FullyConnected", {"num_hidden": 5, "no_bias": True}, [(2, 3), (5, -1)], [(2, 3), (5, 3)], (2, 5)),
        ("LayerNorm", {}, [(2, 3), (-1,), (-1,)], [(2, 3), (3,), (3,)], (2, 3)),
        ("LayerNorm", {"axis": 1}, [(2, 3, 4), (-1,), (3,)], [(2, 3, 4), (3,), (3,)], (2, 3, 4)),
        ("InstanceNorm", {}, [(2, 3, 4), (-1,), (-1,)], [(2, 3, 4), (3,), (3,)], (2, 3, 4)),
        ("GroupNorm", {"num_groups": 2}, [(2, 4, 5), (-1,), (-1,)], [(2, 4, 5), (2,), (2,)], (2, 4, 5)),
        ("GroupNorm", {"num_groups": 2}, [(2, 4, 5), (4,), (-1,)], [(2, 4, 5), (4,), (4,)], (2, 4, 5)),
        ("LeakyReLU", {"act_type": "prelu"}, [(2, 3, 4), (-1,)], [(2, 3, 4), (3,)], (2, 3, 4)),
        ("SoftmaxOutput", {}, [(2, 3), (-1,)], [(2, 3), (2,)], (2, 3)),
        ("LinearRegressionOutput", {}, [(2, 3), (-1, -1)], [(2, 3), (2, 3)], (2, 3)),
        ("add_n", {}, [(-1, 3), (2, 3)], [(2, 3), (2, 3)], (2, 3)),
        ("add", {}, [(2, 3), (-1, -1)], [(2, 3), (2, 3)], (2, 3)),
    ],
)
def test_filled_in(name, attrs, given, filled, out):
    shapes, outs = infer(name, given, **attrs)
    assert shapes == filled
    assert outs[0] == out


@pytest.mark.parametrize(
    ("name", "attrs", "shapes"),
    [
        ("FullyConnected", {"num_hidden": 5}, [(2, 3), (5, 4), (5,)]),
        ("FullyConnected", {"num_hidden": 5}, [(2, 3), (-1,), (5,)]),
        ("LayerNorm", {}, [(2, 3), (-1,), (2,)]),
        ("GroupNorm", {"num_groups": 2}, [(2, 3, 5), (-1,), (-1,)]),
        ("LeakyReLU", {"act_type": "prelu"}, [(2, 3, 4), (2,)]),
    ],
)
def test_what_does_not_fit_is_an_error(name, attrs, shapes):
    with pytest.raises(ShapeError):
        infer(name, shapes, **attrs)


def test_gemm_needs_floats():
    dtypes = [np.dtype("int32")] * 2
    with pytest.raises(DTypeError, match="astype"):
        of_function("dot").bind().infer_type(dtypes)
