"""Region proposals of Faster R-CNN: boxes that anchors and predicted offsets stand for, the best of which are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.order import order_along
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Floats, Shape
from hybridc.dialects.vision.box_nms import kept_boxes
from hybridc.dialects.vision.rules import always, require_float, require_shape
from hybridc.dtypes import wide
from hybridc.errors import AttributeValueError, ShapeError


@register("hybrid.multi_proposal", "contrib.MultiProposal", "_contrib_MultiProposal")
class MultiProposal(Opaque):
    """The best regions of each image: rows (image, left, top, right, bottom), and their scores; no gradient flows

    Corners are whole pixels that belong to the region. If there are fewer regions than are asked for, they repeat.
    """

    gradient = no_gradient

    INPUTS = ("cls_prob", "bbox_pred", "im_info")
    OUTPUTS = ("output", "score")
    INPUT_DOCS: ClassVar = {
        "cls_prob": "(N, 2 A, rows, columns): probabilities, of the background first, of A anchors at each place",
        "bbox_pred": "(N, 4 A, rows, columns): offsets from the anchors",
        "im_info": "(N, 3): height, width and scale of each image",
    }
    rpn_pre_nms_top_n: int = attribute(6000, "at most so many of the best boxes are considered; 0 for all")
    rpn_post_nms_top_n: int = attribute(300, "the number of regions of an image", low=1)
    threshold: float = attribute(0.7, "the intersection over union above which the box of the lower score is left out")
    rpn_min_size: int = attribute(16, "the least width and height, which the image's scale multiplies")
    scales: Floats = attribute((4.0, 8.0, 16.0, 32.0), "sizes of anchors, in strides")
    ratios: Floats = attribute((0.5, 1.0, 2.0), "heights of anchors, divided by their widths")
    feature_stride: int = attribute(16, "the distance of places in the image", low=1)
    output_score: bool = attribute(False, "whether scores are returned, too")
    iou_loss: bool = attribute(False, "whether offsets are those of corners, in pixels")

    def check(self) -> None:
        if not self.scales or not self.ratios or min(self.ratios) <= 0:
            raise AttributeValueError(
                f"{self.title()}: scales and ratios must have at least one number each, and ratios be greater than 0, "
                f"got {self.scales} and {self.ratios}"
            )

    def num_outputs(self) -> int:
        return 2

    def num_visible_outputs(self) -> int:
        return 1 + self.output_score

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        scores, offsets, info = shapes
        title, anchors = self.title(), len(self.scales) * len(self.ratios)
        require_shape(title, "cls_prob", scores, ("N", 2 * anchors, "rows", "columns"))
        images, _, *places = scores
        require_shape(title, "bbox_pred", offsets, (images, 4 * anchors, *places))
        require_shape(title, "im_info", info, (images, 3))
        if 0 in places:
            raise ShapeError(f"{title}: there are no places for anchors: cls_prob has shape {scores}")
        rows = images * self.rpn_post_nms_top_n if images != -1 else -1
        filled: list[Shape] = [(images, k * anchors, *places) for k in (2, 4)]
        return [*filled, (images, 3)], [(rows, 5), (rows, 1)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_float(self, dtypes)
        return dtypes, [dtypes[0]] * 2

    def eager(self, *arrays: Any) -> Any:
        shapes = self.infer_shape([x.shape for x in arrays])[1]
        dtype = self.infer_type([x.dtype for x in arrays])[1][0]
        scores, offsets, info = (x.astype(wide(dtype), copy=False) for x in arrays)
        out, found = (np.zeros(shape, scores.dtype) for shape in shapes)
        each = self.rpn_post_nms_top_n
        rows = np.arange(each)
        for i in range(len(scores)):
            boxes, best = self._regions(scores[i], offsets[i], info[i])
            chosen = rows % len(boxes)
            part = slice(i * each, (i + 1) * each)
            out[part, 0], out[part, 1:], found[part, 0] = i, boxes[chosen], best[chosen]
        return out.astype(dtype, copy=False), found.astype(dtype, copy=False)

    def _anchors(self, dtype: DType) -> Any:
        """The anchors ``(A, 4)`` at the first place."""
        stride = self.feature_stride
        anchors: list[Any] = []
        for ratio in self.ratios:
            width = np.floor(np.sqrt(np.floor(stride * stride / ratio)) + 0.5)
            for scale in self.scales:
                half = np.array([width * scale - 1, np.floor(width * ratio + 0.5) * scale - 1]) / 2
                anchors.append(np.concatenate([-half, half]) + (stride - 1) / 2)
        return np.array(anchors, dtype)

    def _regions(self, scores: Any, offsets: Any, info: Any) -> tuple[Any, Any]:
        """The boxes ``(n, 4)`` of an image that are kept, and their scores."""
        rows, columns = scores.shape[1:]
        anchors = self._anchors(scores.dtype)
        count, stride = len(anchors), self.feature_stride
        at: Any = np.indices((rows, columns)).astype(anchors.dtype) * stride
        anchors = at[[1, 0, 1, 0]].transpose(1, 2, 0)[:, :, None] + anchors
        moved = offsets.reshape(count, 4, rows, columns).transpose(2, 3, 0, 1)
        best = scores[count:].transpose(1, 2, 0).copy()
        boxes = anchors + moved if self.iou_loss else _moved(anchors, moved)
        ends = np.asarray([info[1], info[0]] * 2, boxes.dtype) - 1
        boxes = np.maximum(np.minimum(boxes, ends), 0)
        # What lies beyond the image comes from padding.
        best[int(info[0] / stride) :] = -1
        best[:, int(info[1] / stride) :] = -1
        boxes, best = boxes.reshape(-1, 4), best.reshape(-1)
        least = self.rpn_min_size * info[2]
        small = ((boxes[:, 2:] - boxes[:, :2] + 1) < least).any(1)
        boxes[small] += np.asarray([-1, -1, 1, 1], boxes.dtype) * least / 2
        best[small] = -1
        most = self.rpn_pre_nms_top_n if self.rpn_pre_nms_top_n > 0 else None
        order = order_along(-best, 0, ascending=True, count=most)
        sizes = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
        kept = kept_boxes(boxes, sizes, None, order[None], self.threshold, self.rpn_post_nms_top_n, extent=1.0)[0]
        return boxes[kept], best[kept]

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        scores = np.zeros((1, 2, 2, 2))
        scores[0, 1] = [[0.25, 0.75], [0.5, 0.875]]
        offsets = np.zeros((1, 4, 2, 2))
        offsets[0, 0, 1, 1] = -1  # the box of the best score goes one width to the left, onto its neighbour
        info = np.array([[8.0, 8, 1]])
        one: Any = {"feature_stride": 4, "scales": 1, "ratios": 1, "rpn_min_size": 2, "rpn_post_nms_top_n": 4}
        best = np.array([[0, 0, 4, 3, 7], [0, 4, 0, 7, 3], [0, 0, 0, 3, 3], [0, 0, 4, 3, 7]])
        points = np.array([[0.875], [0.75], [0.25], [0.875]])
        inputs = [scores, offsets, info]
        # Only the first row of places is inside of the image, and the boxes of the second are below it.
        low = np.array([[4.0, 8, 1]])
        two: Any = {**one, "rpn_post_nms_top_n": 2}
        return [
            Sample(inputs, always(best), grad=False, **one),
            Sample(inputs, always(best, points), grad=False, output_score=True, **one),
            Sample([scores, offsets, low], always(best[1:3], points[1:3]), grad=False, output_score=True, **two),
            *cls.further_samples(inputs, best, two),
        ]

    @classmethod
    def further_samples(cls, inputs: list[Any], best: Any, attrs: Any) -> list[Sample]:
        """Samples of several images."""
        twice = np.concatenate([best[:2], best[:2]]) + np.array([[0], [0], [1], [1]]) * np.array([1, 0, 0, 0, 0])
        return [Sample([np.concatenate([x, x]) for x in inputs], always(twice), grad=False, **attrs)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        title = cls.title()
        return [
            (
                ((1, 24, 2, 2), (1, 24, 2, 2), (1, 3)),
                {},
                f"{title}: bbox_pred must have shape (1, 48, 2, 2), got (1, 24, 2, 2)",
            ),
            (
                ((1, 2, 2, 2), (1, 4, 2, 2), (1, 3)),
                {},
                f"{title}: cls_prob must have shape (N, 24, rows, columns), got (1, 2, 2, 2)",
            ),
        ]


def _moved(anchors: Any, offsets: Any) -> Any:
    """The boxes at normalized offsets from anchors, which include their last pixels."""
    sizes = anchors[..., 2:] - anchors[..., :2] + 1
    centers = offsets[..., :2] * sizes + anchors[..., :2] + (sizes - 1) / 2
    with np.errstate(over="ignore"):
        halves = (np.exp(offsets[..., 2:]) * sizes - 1) / 2
    return np.concatenate([centers - halves, centers + halves], -1)


@register("hybrid.proposal", "contrib.Proposal", "_contrib_Proposal")
class Proposal(MultiProposal):
    """The best regions of one image: rows (0, left, top, right, bottom), and their scores; no gradient flows

    Corners are whole pixels that belong to the region. If there are fewer regions than are asked for, they repeat.
    """

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if shapes[0][:1] not in ((1,), (-1,)):
            raise ShapeError(f"Proposal: cls_prob must be of one image, got shape {shapes[0]}; use MultiProposal")
        return super().infer_shape(shapes)

    @classmethod
    def further_samples(cls, inputs: list[Any], best: Any, attrs: Any) -> list[Sample]:
        """None: there is one image."""
        return []

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "Proposal: cls_prob must be of one image, got shape (2, 24, 2, 2); use MultiProposal"
        return [*super().bad_samples(), (((2, 24, 2, 2), (2, 48, 2, 2), (2, 3)), {}, text)]
