"""Choices among boxes, made one after the other on the host: non-maximum suppression, bipartite matching."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from hybridc.dialects.array.order import order_along
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.vision.boxes import FORMATS
from hybridc.dialects.vision.rules import always, require_float
from hybridc.dtypes import computed
from hybridc.errors import AttributeValueError, ShapeError

INT64 = np.dtype("int64")

# So many boxes are compared with others in one step: its arrays then stay in a core's cache.
_TOGETHER = 8192


def corners(boxes: Any, format_: str) -> Any:
    """Boxes ``(n, 4)`` as left, top, right and bottom."""
    if format_ == "corner":
        return boxes
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)


def areas(boxes: Any, format_: str) -> Any:
    """Areas of boxes ``(n, 4)``; 0 where a side is negative."""
    sides = boxes[:, 2:] if format_ == "center" else boxes[:, 2:] - boxes[:, :2]
    return np.maximum(sides[:, 0], 0) * np.maximum(sides[:, 1], 0)


def intersections(box: Any, boxes: Any) -> Any:
    """Areas that a box ``(4,)`` has in common with boxes ``(n, 4)``, all given by their corners."""
    sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2])
    return np.maximum(sides[:, 0], 0) * np.maximum(sides[:, 1], 0)


def kept_boxes(
    boxes: Any, sizes: Any, groups: Any, orders: Any, overlap: float, most: int | None = None, extent: float = 0.0
) -> list[Any]:
    """Of each row of indices of boxes, the best first, those of boxes that overlap with no better one that is kept.

    A row that has fewer boxes ends in -1. ``boxes`` are corners, ``sizes`` their areas, ``groups`` integers, or None
    for one group: boxes of different groups do not overlap. At most ``most`` of a row are kept. ``extent`` is 1 where
    corners are whole pixels that belong to the box.
    """
    table = [np.ascontiguousarray(c) for c in (*boxes.T, sizes, *([] if groups is None else [groups]))]
    count, length = orders.shape
    rows = cast("Any", np.arange(count))
    limit = length if most is None else min(most, length)
    kept, counts = np.full((count, limit), -1, np.int64), np.zeros(count, np.int64)
    width = max(1, _TOGETHER // max(1, count))
    with np.errstate(all="ignore"):
        for start in range(0, length, width):
            index = orders[:, start : start + width]
            left = (index >= 0) & (counts < limit)[:, None]
            if not left.any():
                continue
            columns = [c[index] for c in table]
            for better in kept[:, : counts.max()].T:
                hit = _overlap([c[better][:, None] for c in table], columns, overlap, extent)
                left &= ~(hit & (better >= 0)[:, None])
            while left.any():
                first = left.argmax(1)
                found = left[rows, first]
                kept[rows[found], counts[found]] = index[rows, first][found]
                counts += found
                left &= ~_overlap([c[rows, first][:, None] for c in columns], columns, overlap, extent)
                left[rows, first] = False
                left[counts == limit] = False
                some = left.any(0)
                if 2 * np.count_nonzero(some) < some.size:  # the others need no further comparison
                    index, left, columns = index[:, some], left[:, some], [c[:, some] for c in columns]
    return [row[:n] for row, n in zip(kept, counts.tolist(), strict=True)]


def _overlap(box: list[Any], boxes: list[Any], least: float, extent: float) -> Any:
    """Which boxes have in common with another of their row and group more than a part of what both cover."""
    left, top, right, bottom, sizes, *groups = boxes
    width = np.minimum(right, box[2]) - np.maximum(left, box[0]) + extent
    height = np.minimum(bottom, box[3]) - np.maximum(top, box[1]) + extent
    common = np.maximum(width, 0) * np.maximum(height, 0)
    hit = common / (box[4] + sizes - common) > least  # 0 / 0 is no overlap
    return hit & (groups[0] == box[5]) if groups else hit


@register("hybrid.box_nms", "contrib.box_nms", "_contrib_box_nms", "contrib.box_non_maximum_suppression")
class BoxNms(Opaque):
    """The boxes that overlap with no box of a higher score, the best first; the other rows are -1

    A box is a row of numbers: among them are its score, four coordinates and perhaps the index of its class. The
    gradient of a row goes to the row where it came from.
    """

    NNVM = "_contrib_box_nms"
    OUTPUTS = ("output0",)

    overlap_thresh: float = attribute(0.5, "the intersection over union above which boxes overlap")
    valid_thresh: float = attribute(0.0, "only boxes with a higher score are considered")
    topk: int = attribute(-1, "at most so many of the best boxes are considered; -1 for all, 0 to change nothing")
    coord_start: int = attribute(2, "where in a row the four coordinates begin")
    score_index: int = attribute(1, "where in a row the score is")
    id_index: int = attribute(-1, "where in a row the class is; -1 if there is none")
    background_id: int = attribute(-1, "the class whose boxes are left out, if rows have a class")
    force_suppress: bool = attribute(False, "whether boxes of different classes overlap, too")
    in_format: str = attribute("corner", "how the boxes are given", enum=FORMATS)
    out_format: str = attribute("corner", "how the boxes are returned", enum=FORMATS)

    def num_outputs(self) -> int:
        return 2  # the boxes and, hidden, from which row each comes

    def num_visible_outputs(self) -> int:
        return 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        least = 5 + (self.id_index > 0)
        if len(data) < 2 or 0 <= data[-1] < least:
            raise ShapeError(
                f"box_nms: data must have shape (…, boxes, numbers) with at least {least} numbers a box, got {data}"
            )
        if data[-1] >= 0:
            self._require_indices(data[-1])
        return shapes, [data, data[:-1]]

    def _require_indices(self, width: int) -> None:
        start, last = self.coord_start, self.coord_start + 3
        if start < 0 or last >= width:
            raise AttributeValueError(
                f"box_nms: coord_start={start} needs coordinates {start} to {last} in rows of {width} numbers"
            )
        for name in ("score_index", "id_index"):
            index: int = getattr(self, name)
            if index < 0 and name == "id_index":
                continue
            if not 0 <= index < width or start <= index <= last:
                raise AttributeValueError(
                    f"box_nms: {name}={index} must be from 0 to {width - 1} and outside of the coordinates, "
                    f"{start} to {last}"
                )
        if self.id_index == self.score_index:
            raise AttributeValueError(f"box_nms: id_index and score_index are both {self.id_index}")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0], INT64]

    def eager(self, *arrays: Any) -> Any:
        (data,) = arrays
        self.infer_shape([data.shape])
        self.infer_type([data.dtype])
        rows, width = data.shape[-2:]
        batches = math.prod(data.shape[:-2])
        if not self.topk:
            return data.copy(), np.asarray(range(batches * rows), INT64).reshape(data.shape[:-1])
        flat = data.reshape(batches, rows, width)
        out, source = np.full(flat.shape, -1, data.dtype), np.full((batches, rows), -1)
        for i, boxes in enumerate(flat.astype(computed(data.dtype), copy=False)):
            chosen = self.choose(boxes)
            source[i, : len(chosen)] = chosen + i * rows
            found = flat[i][chosen]
            if self.in_format != self.out_format:
                found[:, self.coordinates] = self.converted(boxes[chosen][:, self.coordinates])
            out[i, : len(chosen)] = found
        return out.reshape(data.shape), source.reshape(data.shape[:-1])

    def check(self) -> None:
        self.coordinates = slice(self.coord_start, self.coord_start + 4)

    def choose(self, boxes: Any) -> Any:
        """The rows that are kept, in order."""
        scores = boxes[:, self.score_index]
        valid = scores > self.valid_thresh
        if self.id_index >= 0:
            valid &= boxes[:, self.id_index] != self.background_id
        candidates = np.flatnonzero(valid)
        order = order_along(scores[candidates], 0, ascending=False, count=self.topk if self.topk > 0 else None)
        candidates = candidates[order]
        whole = self.force_suppress or self.id_index < 0
        groups = None if whole else boxes[:, self.id_index].astype(np.int64)
        given = boxes[:, self.coordinates]
        given, sizes = corners(given, self.in_format), areas(given, self.in_format)
        return kept_boxes(given, sizes, groups, candidates[None], self.overlap_thresh)[0]

    def converted(self, boxes: Any) -> Any:
        """The coordinates in ``out_format``."""
        # COMPAT(mxnet): MXNet leaves boxes as they are whose first coordinate is negative.
        if self.out_format == "corner":
            return corners(boxes, "center")
        return np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, _, source = values
        rows = math.prod(data.shape[:-1])
        source = F.reshape_to(source, shape=(rows,))
        dy = F.reshape_to(dy, shape=(rows, data.shape[-1]))
        dy = dy * F.reshape_to(F.cast(source >= 0, dy.dtype), shape=(rows, 1))
        return F.reshape_to(F.take_scatter(dy, source, shape=dy.shape), shape=data.shape) if rows else dy

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        rows = [[0, 0.5, 0.1, 0.1, 0.2, 0.2], [1, 0.4, 0.1, 0.1, 0.2, 0.2], [0, 0.3, 0.1, 0.1, 0.14, 0.14]]
        boxes = np.array([*rows, [2, 0.6, 0.5, 0.5, 0.7, 0.8]])
        none = np.full(6, -1)

        def kept(*order: int) -> Any:
            def reference(x: Any) -> Any:
                return np.stack([*(x[i] for i in order), *[none] * (4 - len(order))])

            return reference

        centers = np.array([[[0.9, 1, 1, 2, 2], [0.8, 1.5, 1, 2, 2], [0.7, 6, 6, 2, 4]]] * 2)
        centers[1, :, 0] = 0.1, 0.2, 0.3
        corner = np.array([[[0.9, 0, 0, 2, 2], [0.7, 5, 4, 7, 8], [-1] * 5], [[0.3, 5, 4, 7, 8], [-1] * 5, [-1] * 5]])
        packed: Any = {"coord_start": 1, "score_index": 0, "in_format": "center", "valid_thresh": 0.25}
        return [
            Sample([boxes], kept(3, 0), overlap_thresh=0.1, dtypes=("float32", "float64", "float16")),
            Sample([boxes], kept(3, 0, 1, 2), id_index=0, grad=False),
            Sample([boxes], kept(3, 0, 1), id_index=0, grad=False, overlap_thresh=0.1),
            Sample([boxes], kept(3, 1), id_index=0, grad=False, background_id=0),
            Sample([boxes], kept(3, 0), topk=2),
            Sample([boxes], lambda x: x, topk=0),
            Sample([boxes], kept(), valid_thresh=0.9),
            Sample([centers], always(corner), grad=False, **packed),
            Sample([(2, 0, 6)], lambda x: x, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        shape = "box_nms: data must have shape (…, boxes, numbers) with at least 5 numbers a box, got"
        inside = "must be from 0 to 5 and outside of the coordinates, 2 to 5"
        return [
            (((6,),), {}, f"{shape} (6,)"),
            (((2, 4),), {}, f"{shape} (2, 4)"),
            (((2, 6),), {"score_index": 2}, f"box_nms: score_index=2 {inside}"),
            (((2, 6),), {"id_index": 9}, f"box_nms: id_index=9 {inside}"),
            (((2, 6),), {"id_index": 1}, "box_nms: id_index and score_index are both 1"),
            (
                ((2, 6),),
                {"coord_start": 3},
                "box_nms: coord_start=3 needs coordinates 3 to 6 in rows of 6 numbers",
            ),
            (
                (np.ones((2, 6), np.int32),),
                {},
                "box_nms: data must be floating-point, got int32; use .astype('float32')",
            ),
        ]


@register("hybrid.bipartite_matching", "contrib.bipartite_matching", "_contrib_bipartite_matching")
class BipartiteMatching(Opaque):
    """The column that each row is matched to, and the row of each column, or -1: the best pairs first

    Of a matrix of scores, or of each matrix of a batch.
    """

    gradient = no_gradient

    is_ascend: bool = attribute(False, "whether low scores are better")
    threshold: float = attribute(doc="a pair must have a better score")
    topk: int = attribute(-1, "the most pairs; -1 for any number")

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        if len(data) < 2:
            raise ShapeError(f"bipartite_matching: data must have at least two axes, (…, rows, columns), got {data}")
        return shapes, [data[:-1], (*data[:-2], data[-1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0]] * 2

    def eager(self, *arrays: Any) -> Any:
        (data,) = arrays
        shapes = self.infer_shape([data.shape])[1]
        self.infer_type([data.dtype])
        rows, columns = data.shape[-2:]
        batches = math.prod(data.shape[:-2])
        of_rows, of_columns = np.full((batches, rows), -1), np.full((batches, columns), -1)
        scores = data.reshape(batches, rows * columns).astype(computed(data.dtype), copy=False)
        for i, each in enumerate(scores if self.is_ascend else -scores):
            self._match(each, of_rows[i], of_columns[i])
        return tuple(y.reshape(s).astype(data.dtype) for y, s in zip((of_rows, of_columns), shapes, strict=True))

    def _match(self, costs: Any, of_rows: Any, of_columns: Any) -> None:
        bound = self.threshold if self.is_ascend else -self.threshold
        order = np.argsort(costs, kind="stable")
        order = order[costs[order] < bound]
        # COMPAT(mxnet): MXNet makes one pair more than topk.
        left = min(len(of_rows), len(of_columns), self.topk if self.topk > 0 else len(order))
        for pair in order.tolist():
            row, column = divmod(pair, len(of_columns))
            if not left:
                break
            if of_rows[row] < 0 and of_columns[column] < 0:
                of_rows[row], of_columns[column] = column, row
                left -= 1

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        scores = np.array([[0.5, 0.6], [0.1, 0.2], [0.3, 0.4]], np.float32)
        high = always(np.array([1, -1, 0]), np.array([2, 0]))
        low = always(np.array([[-1, 0, -1], [-1, 0, -1]]), np.array([[1, -1], [1, -1]]))
        one = always(np.array([1, -1, -1]), np.array([-1, 0]))
        return [
            Sample([scores], high, grad=False, threshold=1e-12, dtypes=("float32", "float64", "float16")),
            Sample([np.stack([scores] * 2)], low, grad=False, threshold=0.35, is_ascend=True),
            Sample([scores], one, grad=False, threshold=1e-12, topk=1),
            Sample([(0, 2)], always(np.zeros(0), np.full(2, -1)), grad=False, threshold=0.5),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "bipartite_matching: data must have at least two axes, (…, rows, columns), got (3,)"
        return [(((3,),), {"threshold": 0.5}, text)]
