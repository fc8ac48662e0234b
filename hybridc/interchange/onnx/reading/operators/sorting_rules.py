"""Operators that sort, and those whose results' sizes follow from values: these compute on NumPy arrays."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc.dialects.array.order import order_along
from hybridc.dialects.vision.box_nms import kept_boxes
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.move_rules import taken


@onnx_op("TopK", known=(1,))
def top_k(call: OnnxCall, x: Any, k: Any = None) -> Any:
    """The largest or smallest elements along an axis, and where they are."""
    count = call["k"] if k is None else int(k.reshape(()))
    axis = call["axis"] % len(x.shape)
    if not 0 <= count <= x.shape[axis]:
        raise call.refuse(f"{count} elements of an axis of {x.shape[axis]}")
    is_largest = call["largest"] is None or bool(call["largest"])
    order = mnp.argsort(mnp.flip(x, axis), axis=axis, kind="stable") if is_largest else mnp.argsort(x, axis=axis)
    if is_largest:  # backwards, so that of equal elements the first is the first
        order = x.shape[axis] - 1 - mnp.flip(order, axis)
    first = order[(slice(None),) * axis + (slice(0, count),)].astype("int64")
    return mnp.take_along_axis(x, first, axis), first


@onnx_op("NonZero", host=True)
def nonzero(_: OnnxCall, x: Any) -> Any:
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64).reshape(max(x.ndim, 1), -1)


@onnx_op("Unique", host=True)
def unique(call: OnnxCall, x: Any) -> Any:
    """The different elements, or parts along an axis: sorted, or in their order."""
    axis = call["axis"]
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.ravel()
    if not call["sorted"]:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return values, *(a.astype(np.int64) for a in (first, inverse, counts))


@onnx_op("Compress", known=(1,))
def compress(call: OnnxCall, x: Any, condition: Any) -> Any:
    """The parts along an axis where a condition holds."""
    axis = call["axis"]
    x = mnp.reshape(x, (-1,)) if axis is None else x
    places = np.nonzero(condition)[0]
    return taken(x, places, 0 if axis is None else axis)


@onnx_op("NonMaxSuppression", host=True)
def non_max_suppression(
    call: OnnxCall, boxes: Any, scores: Any, most: Any = None, overlap: Any = None, threshold: Any = None
) -> Any:
    """The boxes of the highest scores of each class that do not overlap with those of a higher score."""
    limit = 0 if most is None else int(most.reshape(()))
    allowed = 0.0 if overlap is None else float(overlap.reshape(()))
    flat = _corners(boxes.reshape(-1, 4), bool(call["center_point_box"]))
    sizes = (flat[:, 2] - flat[:, 0]) * (flat[:, 3] - flat[:, 1])
    classes, count = scores.shape[1:]
    scores = scores.reshape(-1, count) if scores.size else np.zeros((0, count), np.float32)
    valid = np.ones(scores.shape, bool) if threshold is None else scores > threshold
    rows, columns = np.flatnonzero(valid.any(1)), np.flatnonzero(valid.any(0))
    valid = valid[np.ix_(rows, columns)]
    order = order_along(np.where(valid, -scores[np.ix_(rows, columns)], np.inf), 1, ascending=True)
    places = columns[order] + (rows // max(classes, 1))[:, None] * count
    places[~np.take_along_axis(valid, order, 1)] = -1
    kept = kept_boxes(flat, sizes, None, places, allowed, limit)
    found = [(i // classes, i % classes, j % count) for i, of_row in zip(rows, kept, strict=True) for j in of_row]
    return np.array(found, np.int64).reshape(-1, 3)


def _corners(boxes: Any, is_centered: bool) -> Any:
    """Boxes as two corners, the smaller coordinates first."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if is_centered:
        first, second = first - second / 2, first + second / 2
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], 1)
