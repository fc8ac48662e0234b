"""Detectors: the choice among boxes, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.onnx.onnx_models import by_runtime, model, results


@pytest.mark.parametrize("hybridize", [False, True])
@pytest.mark.parametrize(
    ("batches", "classes", "count", "most", "least"),
    [(1, 80, 300, 20, 0.3), (2, 3, 100, 5, None), (1, 1, 900, 200, None), (2, 90, 200, 200, 1e-8), (1, 3, 40, 9, 2.0)],
)
def test_boxes_are_those_of_onnx_runtime(hybridize, batches, classes, count, most, least):
    random = np.random.RandomState(classes)
    corner, extent = random.rand(batches, count, 2) * 300, random.rand(batches, count, 2) * 120
    boxes = np.concatenate([corner, corner + extent], 2).astype("float32")
    scores = (random.rand(batches, classes, count) * random.rand(batches, classes, count)).astype("float32")
    numbers = {"most": np.array([most]), "overlap": np.array([0.45], "float32")}
    if least is not None:
        numbers["least"] = np.array([least], "float32")
    node = helper.make_node("NonMaxSuppression", ["boxes", "scores", *numbers], ["chosen"])
    inputs = {"boxes": ("float32", list(boxes.shape)), "scores": ("float32", list(scores.shape))}
    built = model([node], inputs, ["chosen"], numbers, opset=11)
    (expected,) = by_runtime(built, boxes=boxes, scores=scores)
    (found,) = results(built, boxes, scores, hybridize=hybridize)
    np.testing.assert_array_equal(found, expected)
    assert len(found) or least == 2
