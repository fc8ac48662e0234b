"""Anchors of a single-shot detector, the targets of its training, and its detections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.order import order_along
from hybridc.dialects.movement import NUMPY_MOVES, MovementBuilder
from hybridc.dialects.operator import Bad, Movement, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Floats, Shape
from hybridc.dialects.vision.box_nms import areas, intersections
from hybridc.dialects.vision.rules import always, require_float, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, ShapeError

FLOAT64 = np.dtype("float64")


@register("hybrid.multi_box_prior", "contrib.MultiBoxPrior", "_contrib_MultiBoxPrior")
class MultiBoxPrior(Movement):
    """Anchor boxes of every pixel of a feature map, as corners in an image of width 1 and height 1

    Those of one pixel follow each other: each size with the first ratio, then the first size with the other ratios. An
    anchor of size s and ratio r has the width s * height / width * sqrt(r) and the height s / sqrt(r), where height and
    width are those of the map.
    """

    gradient = no_gradient

    INPUT_DOCS: ClassVar = {"data": "the feature map (N, C, height, width), of which only the shape counts"}
    sizes: Floats = attribute((1.0,), "sizes")
    ratios: Floats = attribute((1.0,), "aspect ratios")
    clip: bool = attribute(False, "whether corners are brought into the image")
    steps: Floats = attribute((-1.0, -1.0), "distances of anchors, vertical and horizontal; -1 for the pixels'")
    offsets: Floats = attribute((0.5, 0.5), "where in a pixel the centre is, vertically and horizontally")

    def check(self) -> None:
        for name in ("sizes", "ratios"):
            if not getattr(self, name):
                raise AttributeValueError(f"MultiBoxPrior: {name} must have at least one number")
        for name in ("steps", "offsets"):
            if len(getattr(self, name)) != 2:
                raise AttributeValueError(
                    f"MultiBoxPrior: {name} must have two numbers, vertical and horizontal, got {getattr(self, name)}"
                )
        if min(self.ratios) <= 0:
            raise AttributeValueError(f"MultiBoxPrior: ratios must be greater than 0, got {self.ratios}")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        (data,) = shapes
        if len(data) != 4:
            raise ShapeError(f"MultiBoxPrior: data must have shape (N, C, height, width), got {data}")
        known = -1 not in data[2:]
        count = len(self.sizes) + len(self.ratios) - 1
        return shapes, [(1, data[2] * data[3] * count if known else -1, 4)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0]]

    def move(self, m: MovementBuilder[Any], *xs: Any) -> Any:
        (x,) = xs
        height, width = map(int, x.shape[2:])
        step_y, step_x = (s if s > 0 else 1 / max(n, 1) for s, n in zip(self.steps, (height, width), strict=True))
        kinds = [(s, self.ratios[0]) for s in self.sizes] + [(self.sizes[0], r) for r in self.ratios[1:]]
        halves = [(s * height / max(width, 1) * r**0.5 / 2, s / r**0.5 / 2) for s, r in kinds]

        def element(b: Any, row: Any, column: Any, kind: Any, corner: Any) -> Any:
            horizontal = corner % 2 == 0
            center_x = (column + self.offsets[1]) * step_x
            center_y = (row + self.offsets[0]) * step_y
            half_w, half_h = b.cast(kind * 0, FLOAT64), b.cast(kind * 0, FLOAT64)
            for i, (w, h) in enumerate(halves):
                half_w, half_h = b.select(kind == i, w, half_w), b.select(kind == i, h, half_h)
            center, half = b.select(horizontal, center_x, center_y), b.select(horizontal, half_w, half_h)
            value = center + half * b.select(corner < 2, -1.0, 1.0)
            return b.min(b.max(value, 0.0), 1.0) if self.clip else value

        made = m.generate((height, width, len(kinds), 4), x.dtype, element)
        return m.reshape(made, (1, height * width * len(kinds), 4))

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        self.infer_shape([x.shape])
        self.infer_type([x.dtype])
        return self.move(NUMPY_MOVES, x)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def reference(x: Any) -> Any:
            found: list[Any] = []
            height, width = x.shape[2:]
            for row in range(height):
                for column in range(width):
                    cx, cy = (column + 0.5) / width, (row + 0.5) / height
                    for size, ratio in ((0.5, 2), (0.25, 2), (0.5, 1), (0.5, 0.5)):
                        w, h = size * height / width * np.sqrt(ratio), size / np.sqrt(ratio)
                        found.append([cx - w / 2, cy - h / 2, cx + w / 2, cy + h / 2])
            return np.array(found)[None]

        clipped = np.array([[[0, 0, 0.625, 1], [0.375, 0, 1, 1]]])
        stepped = np.array([[[0.015, -0.22, 0.265, 0.28], [0.215, -0.22, 0.465, 0.28]]])
        halves = ("float32", "float64", "float16")
        return [
            Sample([(2, 3, 3, 5)], reference, grad=False, sizes=(0.5, 0.25), ratios=(2, 1, 0.5), dtypes=halves),
            Sample([(1, 3, 1, 2)], always(clipped), grad=False, sizes=1.5, clip=True),
            Sample([(1, 1, 1, 2)], always(stepped), grad=False, sizes=0.5, steps=(0.3, 0.2), offsets=(0.1, 0.7)),
            Sample([(0, 3, 1, 1)], always(np.array([[[0, 0, 1, 1]]])), grad=False),
            Sample([(1, 3, 0, 2)], always(np.zeros((1, 0, 4))), grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        steps = "MultiBoxPrior: steps must have two numbers, vertical and horizontal, got (0.5,)"
        return [
            (((3, 4, 4),), {}, "MultiBoxPrior: data must have shape (N, C, height, width), got (3, 4, 4)"),
            (((1, 3, 4, 4),), {"sizes": ()}, "MultiBoxPrior: sizes must have at least one number"),
            (((1, 3, 4, 4),), {"steps": 0.5}, steps),
            (((1, 3, 4, 4),), {"ratios": 0}, "MultiBoxPrior: ratios must be greater than 0, got (0.0,)"),
        ]


def require_variances(title: str, variances: Floats) -> None:
    """Raise unless there is one for each number of a box."""
    if len(variances) != 4:
        raise AttributeValueError(f"{title}: variances must have four numbers, got {variances}")


@register("hybrid.multi_box_target", "contrib.MultiBoxTarget", "_contrib_MultiBoxTarget")
class MultiBoxTarget(Opaque):
    """What a single-shot detector is to predict for each anchor: offsets, their mask, and classes; no gradient flows

    Each true box is matched to the anchor that overlaps with it most, the best pairs first; then each other anchor to
    the box with which it overlaps most, if that is more than ``overlap_threshold``. Class 0 is the background.
    """

    gradient = no_gradient

    INPUTS = ("anchor", "label", "cls_pred")
    OUTPUTS = ("loc_target", "loc_mask", "cls_target")
    INPUT_DOCS: ClassVar = {
        "anchor": "(1, N, 4), corners",
        "label": "(B, M, 5 or more): class and corners of the true boxes; rows from the first of class -1 on are none",
        "cls_pred": "(B, classes, N): scores, of which negative mining chooses the hardest anchors",
    }
    overlap_threshold: float = attribute(0.5, "the overlap above which an anchor is matched; 0 for best pairs only")
    ignore_label: float = attribute(-1.0, "the class of anchors that do not count")
    negative_mining_ratio: float = attribute(-1.0, "at most so many negative anchors for each positive; -1 for all")
    negative_mining_thresh: float = attribute(0.5, "negative anchors overlap less than this with all boxes")
    minimum_negative_samples: int = attribute(0, "accepted for MXNet's API, without effect, as there")
    variances: Floats = attribute((0.1, 0.1, 0.2, 0.2), "the offsets are divided by these")

    def check(self) -> None:
        require_variances("MultiBoxTarget", self.variances)
        if self.negative_mining_ratio > 0 and self.negative_mining_thresh <= 0:
            raise AttributeValueError(
                f"MultiBoxTarget: negative_mining_thresh must be greater than 0, got {self.negative_mining_thresh}"
            )

    def num_outputs(self) -> int:
        return 3

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        anchor, label, scores = shapes
        require_shape("MultiBoxTarget", "anchor", anchor, (1, "N", 4))
        require_shape("MultiBoxTarget", "label", label, ("B", "M", "5 or more"))
        if -1 < label[2] < 5:
            raise ShapeError(f"MultiBoxTarget: label must have shape (B, M, 5 or more), got {label}")
        require_shape("MultiBoxTarget", "cls_pred", scores, (label[0], "classes", anchor[1]))
        offsets = (label[0], 4 * anchor[1] if anchor[1] != -1 else -1)
        return [(1, anchor[1], 4), label, (label[0], scores[1], anchor[1])], [offsets, offsets, (label[0], anchor[1])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0]] * 3

    def eager(self, *arrays: Any) -> Any:
        (offsets, _, classes) = self.infer_shape([x.shape for x in arrays])[1]
        dtype = self.infer_type([x.dtype for x in arrays])[1][0]
        (anchors,), labels, scores = (x.astype(wide(dtype), copy=False) for x in arrays)
        targets, mask = np.zeros((2, *offsets), anchors.dtype)
        found = np.full(classes, self.ignore_label, anchors.dtype)
        for i, rows in enumerate(labels):
            ends = np.flatnonzero(rows[:, 0] == -1)
            boxes = rows[: ends[0] if ends.size else None]
            if not len(boxes) or not len(anchors):
                continue
            matched, negative = self._matched(_overlaps(anchors, boxes[:, 1:5]), scores[i])
            positive = matched >= 0
            found[i, negative] = 0
            chosen = boxes[matched[positive]]
            found[i, positive] = chosen[:, 0] + 1
            mask[i].reshape(-1, 4)[positive] = 1
            targets[i].reshape(-1, 4)[positive] = self._offsets(anchors[positive], chosen[:, 1:5])
        return tuple(y.astype(dtype, copy=False) for y in (targets, mask, found))

    def _matched(self, overlaps: Any, scores: Any) -> tuple[Any, Any]:
        """The box of each anchor, or -1, and which anchors are negative samples."""
        anchors, boxes = overlaps.shape
        matched = np.full(anchors, -1)
        left = overlaps.copy()
        for _ in range(min(anchors, boxes)):
            anchor, box = divmod(int(np.argmax(left)), boxes)
            if not left[anchor, box] > 1e-6:  # as in MXNet: what touches hardly is no match
                break
            matched[anchor] = box
            left[anchor] = -1
            left[:, box] = -1
        best = overlaps.max(1)
        if self.overlap_threshold > 0:
            more = (matched < 0) & (best > self.overlap_threshold)
            matched[more] = np.argmax(overlaps[more], 1)
        if not self.negative_mining_ratio > 0:
            return matched, matched < 0
        count = min(int(np.sum(matched >= 0) * self.negative_mining_ratio), int(np.sum(matched < 0)))
        candidates = np.flatnonzero((matched < 0) & (best < self.negative_mining_thresh))
        powers = np.exp(scores[:, candidates] - scores[:, candidates].max(0, initial=-np.inf))
        background = powers[0] / powers.sum(0)
        # COMPAT(mxnet): with fewer candidates than count, MXNet stops with a failed check; here all of them are taken.
        negative = np.zeros(anchors, bool)
        negative[candidates[order_along(background, 0, ascending=True, count=count)]] = True
        return matched, negative

    def _offsets(self, anchors: Any, boxes: Any) -> Any:
        """The targets of anchors, each with its true box."""
        sizes, wanted = anchors[:, 2:] - anchors[:, :2], boxes[:, 2:] - boxes[:, :2]
        centers, goals = (anchors[:, 2:] + anchors[:, :2]) / 2, (boxes[:, 2:] + boxes[:, :2]) / 2
        with np.errstate(all="ignore"):
            offsets = np.concatenate([(goals - centers) / sizes, np.log(wanted / sizes)], 1)
        return offsets / np.asarray(self.variances, offsets.dtype)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        anchor = np.array([[[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0, 0.5, 0.25, 1], [0.5, 0.5, 1, 0.75]]], np.float32)
        none = [-1.0] * 5
        boxes = [[[0, 0, 0, 0.5, 0.25], [2, 0.5, 0.5, 1, 1], none], [none] * 3]
        label = np.array(boxes, np.float32)
        scores = np.array([[[0, 0, 3, 0], [1, 1, 1, 1]]] * 2, np.float32)
        log = np.log(2) / 0.2
        first, fourth = [0, -2.5, 0, -log], [0, 5, 0, log]
        zero, one = [0.0] * 4, [1.0] * 4

        def wanted(last: Any, mask: Any, classes: Any) -> Any:
            offsets, masks = [*first, *zero, *zero, *last], [*one, *one, *zero, *mask]
            return always(np.array([offsets, [0] * 16]), np.array([masks, [0] * 16]), np.array([classes, [-1] * 4]))

        mined: Any = {"negative_mining_ratio": 0.5, "negative_mining_thresh": 0.6, "overlap_threshold": 0.75}
        empty = always(np.zeros((2, 0)), np.zeros((2, 0)), np.zeros((2, 0)))
        return [
            Sample([anchor, label, scores], wanted(fourth, one, [1, 3, 0, 3]), grad=False, overlap_threshold=0.4),
            Sample([anchor, label, scores], wanted(zero, zero, [1, 3, 0, 0]), grad=False),
            Sample([anchor, label, scores], wanted(zero, zero, [1, 3, 0, 0]), grad=False, overlap_threshold=0),
            Sample([anchor, label, scores], wanted(zero, zero, [1, 3, -1, 0]), grad=False, **mined),
            Sample([np.zeros((1, 0, 4)), label, scores[:, :, :0]], empty, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        scores = "MultiBoxTarget: cls_pred must have shape (2, classes, 3), got (2, 4, 2)"
        return [
            (((3, 4), (2, 1, 5), (2, 4, 3)), {}, "MultiBoxTarget: anchor must have shape (1, N, 4), got (3, 4)"),
            (
                ((1, 3, 4), (2, 1, 4), (2, 4, 3)),
                {},
                "MultiBoxTarget: label must have shape (B, M, 5 or more), got (2, 1, 4)",
            ),
            (((1, 3, 4), (2, 1, 5), (2, 4, 2)), {}, scores),
            (
                ((1, 3, 4), (2, 1, 5), (2, 4, 3)),
                {"variances": 1},
                "MultiBoxTarget: variances must have four numbers, got (1.0,)",
            ),
        ]


def _overlaps(anchors: Any, boxes: Any) -> Any:
    """Intersection over union of each anchor with each box; 0 where the union is empty."""
    common = np.stack([intersections(box, anchors) for box in boxes], 1)
    union = areas(anchors, "corner")[:, None] + areas(boxes, "corner") - common
    return np.where(union > 0, common / np.where(union > 0, union, 1), 0).astype(anchors.dtype)


@register("hybrid.multi_box_detection", "contrib.MultiBoxDetection", "_contrib_MultiBoxDetection")
class MultiBoxDetection(Opaque):
    """Rows (class, score, left, top, right, bottom) of what was detected, the best first; no gradient flows

    The class is counted without the background, which is class 0 of ``cls_prob``; it is -1 where nothing was detected,
    or where a better box of the class overlaps.
    """

    gradient = no_gradient

    INPUTS = ("cls_prob", "loc_pred", "anchor")
    INPUT_DOCS: ClassVar = {
        "cls_prob": "(B, classes, N): probabilities",
        "loc_pred": "(B, 4 N): offsets from the anchors",
        "anchor": "(1, N, 4), corners",
    }
    clip: bool = attribute(True, "whether corners are brought into the image")
    threshold: float = attribute(0.01, "the least score of a detection")
    background_id: int = attribute(0, "accepted for MXNet's API, without effect, as there: class 0 is the background")
    nms_threshold: float = attribute(0.5, "the overlap from which on the box of the lower score is left out")
    force_suppress: bool = attribute(False, "whether boxes of different classes overlap, too")
    variances: Floats = attribute((0.1, 0.1, 0.2, 0.2), "the offsets are multiplied by these")
    nms_topk: int = attribute(-1, "at most so many of the best boxes are considered; -1 for all")

    def check(self) -> None:
        require_variances("MultiBoxDetection", self.variances)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        scores, offsets, anchor = shapes
        require_shape("MultiBoxDetection", "cls_prob", scores, ("B", "classes", "N"))
        batch, _, count = scores
        require_shape("MultiBoxDetection", "loc_pred", offsets, (batch, 4 * count if count != -1 else "4 N"))
        require_shape("MultiBoxDetection", "anchor", anchor, (1, count, 4))
        return [scores, (batch, 4 * count if count != -1 else -1), (1, count, 4)], [(batch, count, 6)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        (shape,) = self.infer_shape([x.shape for x in arrays])[1]
        dtype = self.infer_type([x.dtype for x in arrays])[1][0]
        scores, offsets, (anchors,) = (x.astype(wide(dtype), copy=False) for x in arrays)
        out = np.full(shape, -1, scores.dtype)
        if scores.shape[1] > 1:
            boxes = self._boxes(offsets.reshape(*offsets.shape[:1], -1, 4), anchors)
            for rows, each, corners in zip(out, scores, boxes, strict=True):
                self._detect(rows, each[1:], corners)
        return out.astype(dtype, copy=False)

    def _boxes(self, offsets: Any, anchors: Any) -> Any:
        """The corners that the offsets stand for."""
        sizes, centers = anchors[:, 2:] - anchors[:, :2], (anchors[:, 2:] + anchors[:, :2]) / 2
        moved = offsets * np.asarray(self.variances, offsets.dtype)
        centers = moved[..., :2] * sizes + centers
        with np.errstate(over="ignore"):
            halves = np.exp(moved[..., 2:]) * sizes / 2
        corners = np.concatenate([centers - halves, centers + halves], -1)
        return np.clip(corners, 0, 1) if self.clip else corners

    def _detect(self, rows: Any, scores: Any, corners: Any) -> None:
        """Write the detections of an image into the rows."""
        classes = np.argmax(scores, 0)
        best = scores.max(0)
        valid = np.flatnonzero(best >= self.threshold)
        count = len(valid)
        rows[:count, 0], rows[:count, 1], rows[:count, 2:] = classes[valid], best[valid], corners[valid]
        if not 0 < self.nms_threshold <= 1 or not count:
            return
        kept = order_along(-best[valid], 0, ascending=True, count=self.nms_topk if self.nms_topk > 0 else None)
        rows[: len(kept)] = rows[kept]
        rows[len(kept) : count, 0] = -1
        found = rows[: len(kept)]
        sizes = (found[:, 4] - found[:, 2]) * (found[:, 5] - found[:, 3])
        for i in range(len(found) - 1):
            if found[i, 0] < 0:
                continue
            rest = found[i + 1 :]
            common = intersections(found[i, 2:], rest[:, 2:])
            union = sizes[i] + sizes[i + 1 :] - common
            hit = common >= self.nms_threshold * union
            hit &= (union > 0) & (self.force_suppress | (rest[:, 0] == found[i, 0]))
            rest[hit, 0] = -1

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        anchor = np.array([[[0, 0, 0.5, 0.5], [0, 0, 0.5, 0.4], [0.5, 0.5, 1, 1], [0, 0, 0.5, 0.45]]])
        scores = np.array([[[0, 0, 1, 0], [0.5, 0.25, 0, 0.125], [0.25, 0.75, 0, 0.875]]])
        offsets = np.zeros((1, 16))
        offsets[0, 12:] = 2.5, 0, np.log(2) / 0.2, 0
        last, first, second = [1, 0.875, 0, 0, 0.875, 0.45], [0, 0.5, 0, 0, 0.5, 0.5], [1, 0.75, 0, 0, 0.5, 0.4]
        none, gone = [-1.0] * 6, [-1, *second[1:]]
        moved = [1, 0.875, -0.125, *last[3:]]
        inputs = [scores, offsets, anchor]

        def found(*rows: Any) -> Any:
            return always(np.array([rows]))

        topk = [-1, *second[1:]]
        return [
            Sample(inputs, found(last, second, first, none), grad=False, nms_threshold=0.75),
            Sample(inputs, found(last, gone, first, none), grad=False, nms_threshold=0.25),
            Sample(inputs, found(first, second, last, none), grad=False, nms_threshold=0),
            Sample(inputs, found(moved, second, none, none), grad=False, threshold=0.6, clip=False),
            Sample(inputs, found(last, topk, [-1, *last[1:]], none), grad=False, nms_topk=1),
            Sample([inputs[0][:, :1], *inputs[1:]], found(none, none, none, none), grad=False),
            Sample([(2, 3, 0), (2, 0), (1, 0, 4)], always(np.zeros((2, 0, 6))), grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        title = "MultiBoxDetection"
        return [
            (((2, 3, 4), (2, 8), (1, 4, 4)), {}, f"{title}: loc_pred must have shape (2, 16), got (2, 8)"),
            (((2, 3, 4), (2, 16), (1, 3, 4)), {}, f"{title}: anchor must have shape (1, 4, 4), got (1, 3, 4)"),
            (
                ((2, 3, 4), (2, 16), (1, 4, 4)),
                {"variances": (1, 1)},
                f"{title}: variances must have four numbers, got (1.0, 1.0)",
            ),
        ]
