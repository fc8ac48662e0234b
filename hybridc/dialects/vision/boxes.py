"""Boxes of objects: their overlaps, and offsets from anchors as regression targets.

A box is four numbers of the last axis: ``corner`` is (left, top, right, bottom), ``center``
is (x, y, width, height).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.vision.rules import CheckedComposite, always
from hybridc.errors import ShapeError

FORMATS = ("center", "corner")


class OfBoxes(CheckedComposite):
    """A composite operator of floating-point boxes, from which no gradient flows, as in MXNet."""

    gradient = no_gradient

    def require_boxes(self, name: str, shape: Shape, wanted: str, rank: int | None = None) -> None:
        """Raise unless the last axis has the four numbers of a box; ``rank`` if the number of axes is fixed."""
        if len(shape) < 2 or shape[-1] not in (4, -1) or (rank is not None and len(shape) != rank):
            raise ShapeError(f"{self.title()}: {name} must have shape {wanted}, got {shape}")


def parts(F: Any, boxes: Any) -> list[Any]:
    """The four numbers of boxes, each with a last axis of size 1."""
    return [F.slice_axis(boxes, axis=-1, begin=i, end=i + 1) for i in range(4)]


def as_center(F: Any, boxes: Any, format_: str) -> tuple[Any, Any, Any, Any]:
    """Centre and size of boxes, each with a last axis of size 1."""
    a, b, c, d = parts(F, boxes)
    if format_ == "center":
        return a, b, c, d
    width, height = c - a, d - b
    return a + width * 0.5, b + height * 0.5, width, height


def as_corner(F: Any, boxes: Any, format_: str) -> tuple[Any, Any, Any, Any]:
    """Left, top, right and bottom of boxes, each with a last axis of size 1."""
    a, b, c, d = parts(F, boxes)
    if format_ == "corner":
        return a, b, c, d
    return a - c / 2, b - d / 2, a + c / 2, b + d / 2


def area(F: Any, boxes: Any, format_: str) -> Any:
    """Area of boxes, 0 where a side is negative."""
    a, b, width, height = parts(F, boxes)
    if format_ == "corner":
        width, height = width - a, height - b
    return F.maximum(width, 0) * F.maximum(height, 0)


def overlaps(F: Any, lhs: Any, rhs: Any, format_: str = "corner") -> Any:
    """Intersection over union of each of the boxes ``(n, 4)`` with each of ``(m, 4)``."""
    left, top, right, bottom = as_corner(F, lhs, format_)
    *others, bottoms = (F.transpose(v) for v in as_corner(F, rhs, format_))
    lefts, tops, rights = others
    width = F.maximum(F.minimum(right, rights) - F.maximum(left, lefts), 0)
    height = F.maximum(F.minimum(bottom, bottoms) - F.maximum(top, tops), 0)
    common = width * height
    union = area(F, lhs, format_) + F.transpose(area(F, rhs, format_)) - common
    # Without an intersection the union may be empty, too.
    return F.where(common > 0, common / union, F.zeros_like(common))


@register("hybrid.box_iou", "contrib.box_iou", "_contrib_box_iou")
class BoxIou(OfBoxes):
    """Intersection over union of each box of ``lhs`` with each of ``rhs``; no gradient flows"""

    INPUTS = ("lhs", "rhs")
    INPUT_DOCS: ClassVar = {"lhs": "boxes (…, 4)", "rhs": "boxes (…, 4)"}
    format: str = attribute("corner", "how a box is given", enum=FORMATS)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        for name, shape in zip(self.INPUTS, shapes, strict=True):
            self.require_boxes(name, shape, "(…, 4) of at least two axes")
        lhs, rhs = shapes
        return [(*lhs[:-1], 4), (*rhs[:-1], 4)], [(*lhs[:-1], *rhs[:-1])]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        lhs, rhs = (F.reshape_to(x, shape=(math.prod(x.shape[:-1]), 4)) for x in inputs)
        shape = (*inputs[0].shape[:-1], *inputs[1].shape[:-1])
        return F.reshape_to(overlaps(F, lhs, rhs, self.format), shape=shape)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        lhs = np.array([[0.5, 0.5, 1, 1], [0, 0, 0.5, 0.5], [1, 1, 0, 0], [0.2, 0.2, 0.2, 0.2]], np.float32)
        rhs = np.array([[[0.25, 0.25, 0.75, 0.75]], [[0.2, 0.2, 0.2, 0.2]]], np.float32)
        seventh = np.array([[[1 / 7], [0]], [[1 / 7], [0]], [[0], [0]], [[0], [0]]])
        one, two = np.array([[1.0, 1, 2, 2]]), np.array([[2.0, 1, 2, 2], [5, 5, 1, 1]])
        return [
            Sample([lhs, rhs], always(seventh), grad=False, dtypes=("float32", "float64", "float16")),
            Sample([(0, 4), (3, 4)], always(np.zeros((0, 3))), grad=False),
            Sample([one, two], always(np.array([[1 / 3, 0]])), grad=False, format="center"),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        whole = np.zeros((2, 4), np.int32)
        return [
            (((2, 5), (2, 4)), {}, "box_iou: lhs must have shape (…, 4) of at least two axes, got (2, 5)"),
            (((2, 4), (4,)), {}, "box_iou: rhs must have shape (…, 4) of at least two axes, got (4,)"),
            ((whole, whole), {}, "box_iou: lhs and rhs must be floating-point, got int32; use .astype('float32')"),
        ]


@register("hybrid.box_encode", "contrib.box_encode", "_contrib_box_encode")
class BoxEncode(OfBoxes):
    """Offsets of matched boxes from anchors, normalized, and a mask of the positive samples; no gradient flows

    Of the box (x, y, width, height) that an anchor is matched to, the target is ((x - ax) / aw, (y - ay) / ah,
    log(width / aw), log(height / ah)), less the means, divided by the deviations.
    """

    INPUTS = ("samples", "matches", "anchors", "refs", "means", "stds")
    INPUT_DOCS: ClassVar = {
        "samples": "(B, N): 1 where an anchor is a positive sample, else 0 or -1",
        "matches": "(B, N): which box an anchor is matched to, from 0 to M - 1",
        "anchors": "(B, N, 4), corners",
        "refs": "(B, M, 4), corners of the true boxes",
        "means": "(4,): subtracted from the targets",
        "stds": "(4,): then the targets are divided by them",
    }

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        samples, matches, anchors, refs, means, stds = shapes
        self.require_boxes("anchors", anchors, "(B, N, 4)", 3)
        self.require_boxes("refs", refs, "(B, M, 4)", 3)
        batch, count, _ = anchors
        for name, got, want in (
            ("samples", samples, (batch, count)),
            ("matches", matches, (batch, count)),
            ("refs", refs[:1], (batch,)),
            ("means", means, (4,)),
            ("stds", stds, (4,)),
        ):
            if len(got) != len(want) or any(g not in (w, -1) for g, w in zip(got, want, strict=True)):
                what = "a first axis of size" if name == "refs" else "shape"
                wanted: Any = batch if name == "refs" else want
                found: Any = refs if name == "refs" else got
                raise ShapeError(f"box_encode: {name} must have {what} {wanted} for anchors {anchors}, got {found}")
        boxes = (batch, count, 4)
        return [(batch, count), (batch, count), boxes, (batch, refs[1], 4), (4,), (4,)], [boxes, boxes]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        samples, matches, anchors, refs, means, stds = inputs
        batch, count, _ = anchors.shape
        boxes = refs.shape[1]
        positive = F.reshape_to(F.cast(samples > 0.5, anchors.dtype), shape=(batch, count, 1))
        mask = F.broadcast_to(positive, shape=anchors.shape)
        if not boxes or not batch:  # nothing to be matched to
            return F.zeros_like(anchors), F.zeros_like(anchors) if not boxes else mask
        first = F.reshape_to(F._arange(batch, dtype="int64"), shape=(batch, 1)) * boxes
        index = first + F.cast(matches, "int64")
        chosen = F.take(F.reshape_to(refs, shape=(batch * boxes, 4)), index)
        x, y, width, height = as_center(F, chosen, "corner")
        ax, ay, aw, ah = as_center(F, anchors, "corner")
        target = F.concat((x - ax) / aw, (y - ay) / ah, F.log(width / aw), F.log(height / ah), dim=-1)
        target = (target - means) / stds
        return F.where(mask > 0.5, target, F.zeros_like(target)), mask

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        kinds = np.array([[1, -1, 0.75]], np.float32)
        matches = np.array([[0, 1, 1]], np.float32)
        anchors = np.array([[[0, 0, 1, 1], [0, 0, 1, 1], [1, 0, 3, 1]]], np.float32)
        refs = np.array([[[0, 0, 0.5, 0.5], [0, 0.25, 4, 1.25]]], np.float32)
        means, stds = np.array([0, 0, 0.1, 0.1]), np.array([0.1, 0.1, 0.2, 0.2])
        log = np.log(2)
        targets = np.array([[[-2.5, -2.5, -5 * log - 0.5, -5 * log - 0.5], [0] * 4, [0, 2.5, 5 * log - 0.5, -0.5]]])
        mask = np.array([[[1] * 4, [0] * 4, [1] * 4]])
        none = np.zeros((1, 3, 4))
        return [
            Sample(
                [kinds, matches, anchors, refs, means, stds],
                always(targets, mask),
                grad=False,
                dtypes=("float32", "float64", "float16"),
            ),
            Sample(
                [kinds, matches, anchors, refs[:, :0], means, stds],
                always(none, none),
                grad=False,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "box_encode: matches must have shape (1, 3) for anchors (1, 3, 4), got (1, 2)"
        refs = "box_encode: refs must have a first axis of size 1 for anchors (1, 3, 4), got (2, 2, 4)"
        return [
            (((1, 3), (1, 2), (1, 3, 4), (1, 2, 4), (4,), (4,)), {}, text),
            (((1, 3), (1, 3), (1, 3, 4), (2, 2, 4), (4,), (4,)), {}, refs),
        ]


@register("hybrid.box_decode", "contrib.box_decode", "_contrib_box_decode")
class BoxDecode(OfBoxes):
    """Corners of the boxes that offsets from anchors stand for: the inverse of ``box_encode``; no gradient flows"""

    INPUTS = ("data", "anchors")
    INPUT_DOCS: ClassVar = {"data": "(B, N, 4): predicted offsets", "anchors": "(1, N, 4)"}
    std0: float = attribute(1.0, "factor of the first offset, of x")
    std1: float = attribute(1.0, "factor of the second, of y")
    std2: float = attribute(1.0, "factor of the third, of the width's logarithm")
    std3: float = attribute(1.0, "factor of the fourth, of the height's logarithm")
    clip: float = attribute(-1.0, "if greater than 0, the largest logarithm of a width or height")
    format: str = attribute("center", "how an anchor is given", enum=FORMATS)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, anchors = shapes
        self.require_boxes("data", data, "(B, N, 4)", 3)
        wanted = (1, data[1], 4)
        if len(anchors) != 3 or any(a not in (w, -1) for a, w in zip(anchors, wanted, strict=True)):
            raise ShapeError(f"box_decode: anchors must have shape {wanted} for data {data}, got {anchors}")
        return [(*data[:2], 4), wanted], [(*data[:2], 4)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, anchors = inputs
        ax, ay, aw, ah = as_center(F, anchors, self.format)
        dx, dy, dw, dh = parts(F, data)
        x, y = dx * self.std0 * aw + ax, dy * self.std1 * ah + ay
        dw, dh = dw * self.std2, dh * self.std3
        if self.clip > 0:
            dw, dh = F.minimum(dw, self.clip), F.minimum(dh, self.clip)
        width, height = F.exp(dw) * aw * 0.5, F.exp(dh) * ah * 0.5
        return F.concat(x - width, y - height, x + width, y + height, dim=-1)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        anchors = np.array([[[0, 0, 2, 2], [1, 1, 2, 4]]], np.float32)

        def reference(data: Any, anchors: Any) -> Any:
            out = np.zeros_like(data)
            for image, offsets in enumerate(data):
                for n, (left, top, right, bottom) in enumerate(anchors[0]):
                    w, h = right - left, bottom - top
                    x, y = (left + right) / 2 + offsets[n, 0] * 0.1 * w, (top + bottom) / 2 + offsets[n, 1] * 0.2 * h
                    w, h = w * np.exp(min(offsets[n, 2] * 0.5, 0.25)), h * np.exp(min(offsets[n, 3], 0.25))
                    out[image, n] = x - w / 2, y - h / 2, x + w / 2, y + h / 2
            return out

        def plain(data: Any, anchors: Any) -> Any:
            x, y, w, h = (anchors[..., i] for i in range(4))
            x, y, w, h = data[..., 0] * w + x, data[..., 1] * h + y, np.exp(data[..., 2]) * w, np.exp(data[..., 3]) * h
            return np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1)

        attrs: Any = {"std0": 0.1, "std1": 0.2, "std2": 0.5, "clip": 0.25, "format": "corner"}
        return [
            Sample([(2, 2, 4), anchors], reference, grad=False, **attrs),
            Sample([(3, 2, 4), (1, 2, 4)], plain, grad=False, dtypes=("float32", "float64", "float16"), low=-1, high=1),
            Sample([(2, 0, 4), (1, 0, 4)], lambda d, _: d, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "box_decode: anchors must have shape (1, 3, 4) for data (2, 3, 4), got (1, 2, 4)"
        return [
            (((2, 3, 4), (1, 2, 4)), {}, text),
            (((3, 4), (1, 3, 4)), {}, "box_decode: data must have shape (B, N, 4), got (3, 4)"),
        ]
