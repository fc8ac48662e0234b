"""Choices among boxes, against the plain definition in Python."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from hybridc.dialects.vision.box_nms import areas, kept_boxes


def chosen(boxes, orders, overlap, most, groups=None, extent=0.0):
    """Each box of a row, in order, that no chosen one overlaps with: in float64, one after the other."""
    sides = np.minimum(boxes[:, None, 2:], boxes[None, :, 2:]) - np.maximum(boxes[:, None, :2], boxes[None, :, :2])
    common = np.prod(np.maximum(sides + extent, 0), -1)
    sizes = np.prod(boxes[:, 2:] - boxes[:, :2] + extent, -1)
    hits = common / (sizes[:, None] + sizes - common) > overlap
    if groups is not None:
        hits &= groups[:, None] == groups
    rows = []
    for order in orders:
        kept = []
        for i in order[order >= 0].tolist():
            if len(kept) < most and not any(hits[i, j] for j in kept):
                kept.append(i)
        rows.append(kept)
    return rows


def random_boxes(count, seed=0):
    """Boxes of whole numbers, many of which overlap."""
    random = np.random.RandomState(seed)
    corner, extent = random.randint(0, 60, (count, 2)), random.randint(1, 40, (count, 2))
    return np.concatenate([corner, corner + extent], 1).astype(np.float64)


# The rows of the second and third case are longer than the windows that are compared together.
@pytest.mark.parametrize(("rows", "count", "most"), [(1, 200, 200), (130, 70, 70), (130, 70, 7), (3, 50, 0), (2, 1, 5)])
@pytest.mark.parametrize("in_groups", [False, True])
def test_boxes_are_kept_as_by_definition(rows, count, most, in_groups):
    random = np.random.RandomState(rows)
    boxes, groups = random_boxes(count), random.randint(0, 3, count) if in_groups else None
    orders = np.stack([random.permutation(count) for _ in range(rows)])
    orders[:, count - count // 4 :] = -1
    kept = kept_boxes(boxes, areas(boxes, "corner"), groups, orders, 0.3, most)
    for found, expected in zip(kept, chosen(boxes, orders, 0.3, most, groups), strict=True):
        assert found.tolist() == expected


def test_corners_that_are_whole_pixels():
    boxes = random_boxes(120, 1)
    orders, sizes = np.arange(120)[None], np.prod(boxes[:, 2:] - boxes[:, :2] + 1, 1)
    (found,) = kept_boxes(boxes, sizes, None, orders, 0.4, 50, extent=1.0)
    assert found.tolist() == chosen(boxes, orders, 0.4, 50, extent=1.0)[0]


def test_no_boxes():
    none = np.zeros((0, 4))
    assert [x.tolist() for x in kept_boxes(none, none[:, 0], None, np.zeros((2, 0), np.int64), 0.5)] == [[], []]
    assert kept_boxes(none, none[:, 0], None, np.zeros((0, 3), np.int64), 0.5) == []


@pytest.mark.parametrize("topk", [-1, 40])
def test_box_nms_of_many_boxes(topk):
    random = np.random.RandomState(2)
    boxes, labels = random_boxes(400, 3), random.randint(0, 4, 400)
    scores = random.randint(0, 50, 400) / 50  # many are equal
    data = np.concatenate([labels[:, None], scores[:, None], boxes], 1).astype("float32")
    found = mx.nd.contrib.box_nms(mx.nd.array(data), overlap_thresh=0.3, valid_thresh=0.2, topk=topk, id_index=0)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order].astype("float32") > np.float32(0.2)][: topk if topk > 0 else None]
    (kept,) = chosen(boxes, [order], 0.3, 400, labels)
    np.testing.assert_array_equal(found.asnumpy()[: len(kept)], data[kept])
    assert (found.asnumpy()[len(kept) :] == -1).all()
