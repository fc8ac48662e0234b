"""Boxes and regions of images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.vision.box_nms import BoxNms
from hybridc.dialects.vision.multibox import MultiBoxDetection
from hybridc.dialects.vision.roi import RoiAlign, RoiPooling
from hybridc.dialects.vision.roi_variants import PsRoiPooling
from hybridc.dtypes import wide
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue
from hybridc.interchange.onnx.writing.operators.chosen_elements import ordered
from hybridc.interchange.onnx.writing.operators.loops import iterated
from hybridc.interchange.onnx.writing.translate import Translator, translation

# --- choices among boxes, which lie in arrays (images, boxes, …) ------------------------------------------------------


def column(t: Translator, x: OnnxValue, first: int, count: int = 1) -> OnnxValue:
    """Some numbers of each row; one alone without an axis of its own."""
    shape = (*x.shape[:-1], count)
    part = t.moves.slice(x, (*[0] * (x.ndim - 1), first), (1,) * x.ndim, shape)
    return t.moves.reshape(part, x.shape[:-1]) if count == 1 else part


def rows_at(t: Translator, x: OnnxValue, places: OnnxValue) -> OnnxValue:
    """The rows of each image at its places."""
    if x.ndim == places.ndim:
        return t.writer.node("GatherElements", [x, places], places.shape, x.dtype, axis=1)
    index = t.moves.broadcast(t.moves.reshape(places, (*places.shape, 1)), (*places.shape, x.shape[-1]))
    return t.writer.node("GatherElements", [x, index], index.shape, x.dtype, axis=1)


def _pairwise(t: Translator, x: OnnxValue) -> tuple[OnnxValue, OnnxValue]:
    """A number of each box, along two axes: to compare each box with each."""
    images, count = x.shape
    return t.moves.reshape(x, (images, count, 1)), t.moves.reshape(x, (images, 1, count))


def common_areas(t: Translator, corners: OnnxValue) -> OnnxValue:
    """The areas that any two boxes of an image have in common."""
    left, top, right, bottom = (column(t, corners, i) for i in range(4))
    sides: list[OnnxValue] = []
    for low, high in ((left, right), (top, bottom)):
        (a, b), (c, d) = _pairwise(t, low), _pairwise(t, high)
        sides.append(t.steps.max(t.steps.min(c, d) - t.steps.max(a, b), 0.0))
    return sides[0] * sides[1]


def suppressed(t: Translator, valid: OnnxValue, hit: OnnxValue) -> OnnxValue:
    """Which boxes are kept, the best first: those that no kept box before them hits."""
    images, count = valid.shape
    places = t.constant(np.arange(count, dtype=np.int64))

    def step(i: OnnxValue, kept: OnnxValue) -> Sequence[OnnxValue]:
        own = t.moves.reshape(t.writer.node("Gather", [kept, i], (images,), kept.dtype, axis=1), (images, 1))
        hits = t.writer.node("Gather", [hit, i], (images, count), hit.dtype, axis=1)
        return [kept & ~(own & hits & (places > i))]

    return iterated(t, [valid], step, count)[0]


def _centers_as_corners(t: Translator, boxes: OnnxValue) -> OnnxValue:
    middle, half = column(t, boxes, 0, 2), column(t, boxes, 2, 2) * 0.5
    return t.moves.concat([middle - half, middle + half], boxes.ndim - 1)


def _corners_as_centers(t: Translator, boxes: OnnxValue) -> OnnxValue:
    low, high = column(t, boxes, 0, 2), column(t, boxes, 2, 2)
    return t.moves.concat([(low + high) * 0.5, high - low], boxes.ndim - 1)


def _areas(t: Translator, boxes: OnnxValue, form: str) -> OnnxValue:
    sides = column(t, boxes, 2, 2) if form == "center" else column(t, boxes, 2, 2) - column(t, boxes, 0, 2)
    sides = t.steps.max(sides, 0.0)
    return column(t, sides, 0) * column(t, sides, 1)


@translation(BoxNms)
def box_nms(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """By score, then one box after the other; ONNX's operator would lose the order among classes."""
    (data,) = inputs
    if not op.topk:
        return data
    rows, width = data.shape[-2:]
    boxes = t.writer.cast(t.moves.reshape(data, (math.prod(data.shape[:-2]), rows, width)), wide(data.dtype))
    scores = column(t, boxes, op.score_index)
    valid = scores > float(op.valid_thresh)
    if op.id_index >= 0:
        valid = valid & (column(t, boxes, op.id_index) != float(op.background_id))
    count = min(op.topk, rows) if op.topk > 0 else rows
    order = ordered(t, t.steps.select(valid, scores, -math.inf), 1, count, is_ascending=False)[1]
    best, valid = rows_at(t, boxes, order), rows_at(t, valid, order)
    given = column(t, best, op.coord_start, 4)
    corners = given if op.in_format == "corner" else _centers_as_corners(t, given)
    common = common_areas(t, corners)
    first, second = _pairwise(t, _areas(t, given, op.in_format))
    hit = common / (first + second - common) > float(op.overlap_thresh)
    if op.id_index >= 0 and not op.force_suppress:
        groups = _pairwise(t, t.writer.cast(column(t, best, op.id_index), INT64))
        hit = hit & (groups[0] == groups[1])
    kept = suppressed(t, valid, hit)
    found = _first_kept(t, _with_coordinates(t, op, best, given), kept, rows)
    return t.writer.cast(t.moves.reshape(found, data.shape), data.dtype)


def _with_coordinates(t: Translator, op: Any, rows: OnnxValue, given: OnnxValue) -> OnnxValue:
    """Rows with their coordinates in the format of the result."""
    if op.in_format == op.out_format:
        return rows
    made = _centers_as_corners(t, given) if op.out_format == "corner" else _corners_as_centers(t, given)
    first, last, width = op.coord_start, op.coord_start + 4, rows.shape[-1]
    parts = [t.moves.slice(rows, (0, 0, 0), (1, 1, 1), (*rows.shape[:2], first))] if first else []
    parts.append(made)
    if last < width:
        parts.append(t.moves.slice(rows, (0, 0, last), (1, 1, 1), (*rows.shape[:2], width - last)))
    return t.moves.concat(parts, 2)


def _first_kept(t: Translator, rows: OnnxValue, kept: OnnxValue, total: int) -> OnnxValue:
    """The kept rows in their order, and then rows of -1: so many in all."""
    images, count, width = rows.shape
    places = t.constant(np.arange(count, dtype=np.int64))
    order = ordered(t, t.steps.select(kept, places, places + count), 1, count, is_ascending=True)[1]
    inside = t.moves.reshape(rows_at(t, kept, order), (images, count, 1))
    found = t.steps.select(inside, rows_at(t, rows, order), -1.0)
    rest = total - count
    return t.moves.concat([found, t.moves.full((images, rest, width), rows.dtype, -1)], 1) if rest else found


@translation(MultiBoxDetection)
def multi_box_detection(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Boxes from offsets; then the valid rows, the best first, of which those that are hit lose their class."""
    result = t.results_of(op, inputs)[0]
    scores, offsets, anchors = (t.writer.cast(x, wide(result.dtype)) for x in inputs)
    images, classes, count = scores.shape
    if classes < 2:
        return t.moves.full(result.shape, result.dtype, -1)
    corners = _detected_corners(t, op, t.moves.reshape(offsets, (images, count, 4)), anchors)
    probable = t.moves.slice(scores, (0, 1, 0), (1, 1, 1), (images, classes - 1, count))
    label = t.writer.node("ArgMax", [probable], (images, count), INT64, axis=1, keepdims=0)
    best = t.moves.reduce("ReduceMax", probable, [1], keep=False)
    columns = [t.moves.reshape(x, (images, count, 1)) for x in (t.writer.cast(label, best.dtype), best)]
    rows = t.moves.concat([*columns, corners], 2)
    valid = best >= float(op.threshold)
    suppresses = 0 < op.nms_threshold <= 1
    places = t.constant(np.arange(count, dtype=np.int64))
    if not suppresses:
        return _first_kept(t, rows, valid, count)
    # The rows that only take part by their number stay in the order of the image.
    order = ordered(t, t.steps.select(valid, best, -math.inf), 1, count, is_ascending=False)[1]
    limit = op.nms_topk if op.nms_topk > 0 else count
    plain = ordered(t, t.steps.select(valid, places, places + count), 1, count, is_ascending=True)[1]
    chosen = places < limit
    sorted_valid = rows_at(t, valid, order)
    taken = sorted_valid & chosen
    rows = rows_at(t, rows, t.steps.select(taken, order, plain))
    kept = suppressed(t, taken, _overlaps(t, op, rows))
    label = t.moves.reshape(t.steps.select(kept, column(t, rows, 0), -1.0), (images, count, 1))
    found = t.moves.concat([label, column(t, rows, 1, 5)], 2)
    return t.steps.select(t.moves.reshape(sorted_valid, (images, count, 1)), found, -1.0)


def _detected_corners(t: Translator, op: Any, offsets: OnnxValue, anchors: OnnxValue) -> OnnxValue:
    low, high = column(t, anchors, 0, 2), column(t, anchors, 2, 2)
    sizes, centers = high - low, (high + low) * 0.5
    moved = offsets * t.constant(np.asarray(op.variances, offsets.dtype))
    middle = column(t, moved, 0, 2) * sizes + centers
    halves = t.steps.exp(column(t, moved, 2, 2)) * sizes * 0.5
    corners = t.moves.concat([middle - halves, middle + halves], 2)
    return t.steps.min(t.steps.max(corners, 0.0), 1.0) if op.clip else corners


def _overlaps(t: Translator, op: Any, rows: OnnxValue) -> OnnxValue:
    """Whether two boxes overlap so much that only the better one is kept."""
    corners = column(t, rows, 2, 4)
    sides = column(t, corners, 2, 2) - column(t, corners, 0, 2)
    first, second = _pairwise(t, column(t, sides, 0) * column(t, sides, 1))
    common = common_areas(t, corners)
    union = first + second - common
    hit = (common >= union * float(op.nms_threshold)) & (union > 0.0)
    if op.force_suppress:
        return hit
    groups = _pairwise(t, column(t, rows, 0))
    return hit & (groups[0] == groups[1])


# --- regions ----------------------------------------------------------------------------------------------------------


@translation(RoiAlign)
def roi_align(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """RoiAlign, since opset 16; regions of no image give 0."""
    if t.opset < 16:
        return None
    data, rois = inputs
    rows, columns = op.pooled_size[0], op.pooled_size[-1]
    image = column(t, rois, 0)
    y = t.writer.node(
        "RoiAlign",
        [data, column(t, rois, 1, 4), t.writer.cast(t.steps.max(image, 0.0), INT64)],
        (rois.shape[0], data.shape[1], rows, columns),
        data.dtype,
        coordinate_transformation_mode="half_pixel" if op.aligned else "output_half_pixel",
        output_height=rows,
        output_width=columns,
        sampling_ratio=max(op.sample_ratio, 0),
        spatial_scale=float(op.spatial_scale),
        mode="avg",
    )
    if op.position_sensitive:
        y = _own_channels(t, y)
    there = t.moves.reshape(image > -1.0, (rois.shape[0], 1, 1, 1))
    return t.steps.select(there, y, 0.0)


def _own_channels(t: Translator, y: OnnxValue) -> OnnxValue:
    """Of the bins of all channels, each bin of the channels that are its own."""
    count, channels, rows, columns = y.shape
    bins = rows * columns
    pairs = t.moves.reshape(y, (count, channels // bins, bins, bins))
    own = t.moves.reduce("ReduceSum", pairs * t.constant(np.eye(bins, dtype=y.dtype)), [2], keep=False)
    return t.moves.reshape(own, (count, channels // bins, rows, columns))


@translation(RoiPooling)
def roi_pooling(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """MaxRoiPool; regions of no image give 0."""
    data, rois = inputs
    image = column(t, rois, 0)
    batch = t.moves.reshape(t.steps.max(image, 0.0), (rois.shape[0], 1))
    y = t.node(
        "MaxRoiPool",
        [data, t.moves.concat([batch, column(t, rois, 1, 4)], 1)],
        t.results_of(op, inputs)[0],
        pooled_shape=[op.pooled_size[0], op.pooled_size[-1]],
        spatial_scale=float(op.spatial_scale),
    )
    return t.steps.select(t.moves.reshape(image > -1.0, (rois.shape[0], 1, 1, 1)), y, 0.0)


@translation(PsRoiPooling)
def psroi_pooling(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The sums of the channels of each bin, with the weights of rows and of columns."""
    result = t.results_of(op, inputs)[0]
    data, rois = (t.writer.cast(x, wide(result.dtype)) for x in inputs)
    image, count = column(t, rois, 0), rois.shape[0]
    given = column(t, rois, 1, 4)
    corners = t.steps.trunc(given + t.steps.copysign(t.steps.like(given, 0.5), given))
    left, top, right, bottom = (column(t, corners, i) for i in range(4))
    rows = _pixel_weights(t, op, top, bottom, data.shape[2])
    columns = _pixel_weights(t, op, left, right, data.shape[3])
    own = (data.shape[0], *op.channels.shape, *data.shape[2:])
    parts = t.writer.node("Gather", [data, t.constant(op.channels, INT64)], own, data.dtype, axis=1)
    places = t.writer.cast(t.steps.max(image, 0.0), INT64)
    parts = t.writer.node("Gather", [parts, places], (count, *own[1:]), data.dtype, axis=0)
    found = t.writer.node("Einsum", [rows, parts, columns], result.shape, data.dtype, equation="rph,rdpqhw,rqw->rdpq")
    return t.steps.select(t.moves.reshape(image > -1.0, (count, 1, 1, 1)), found, 0.0)


def _pixel_weights(t: Translator, op: Any, first: OnnxValue, last: OnnxValue, limit: int) -> OnnxValue:
    """The weight (regions, bins, pixels) that each pixel of an axis has in each bin."""
    shape = (*first.shape, 1)
    low = t.moves.reshape(first, shape) * float(op.spatial_scale)
    high = (t.moves.reshape(last, shape) + 1.0) * float(op.spatial_scale)
    step = t.steps.max(high - low, 0.1) * (1 / op.pooled_size)
    bins = np.arange(op.pooled_size, dtype=first.dtype)
    ends = [t.steps.floor(t.constant(bins) * step + low), t.steps.ceil(t.constant(bins + 1) * step + low)]
    tall = (*first.shape, op.pooled_size, 1)
    begin, end = (t.moves.reshape(t.steps.min(t.steps.max(x, 0.0), float(limit)), tall) for x in ends)
    pixel = t.constant(np.arange(limit, dtype=first.dtype))
    inside = t.writer.cast((pixel >= begin) & (pixel < end), first.dtype)
    return inside / t.steps.max(end - begin, 1.0)
