"""What the tests of written models share: the engines' results beside those of a network."""

from __future__ import annotations

import numpy as np
import onnx

from hybridc.tools.onnx_operators import ENGINES, TOLERANCE, checked, difference


def agree(path, inputs, wanted, engines=tuple(ENGINES), tolerance=TOLERANCE):
    """Check a model, and that each engine gives these results; the model."""
    model = onnx.load(path)
    checked(model)
    feeds = {value.name: x for value, x in zip(model.graph.input, inputs, strict=True)}
    for name in engines:
        wrong = difference(ENGINES[name](model, feeds), [np.asarray(y) for y in wanted], tolerance)
        assert not wrong, f"{name}: {wrong}"
    return model


def operators(model):
    """The names of the operators of a model, once each."""
    return {node.op_type for node in model.graph.node}
