"""Operators for images and boxes."""

from __future__ import annotations

import numpy as np

from .op_cases import Cases, F, P, V

CASES = Cases(tag="vision")
add = CASES.add


def boxes(seed, *shape, dtype="float32", span=1.0):
    """Corners of boxes, some of which overlap."""
    rng = np.random.RandomState(seed)
    first = rng.uniform(0, 0.6, (*shape, 2))
    return (span * np.concatenate([first, first + rng.uniform(0.05, 0.6, (*shape, 2))], -1)).astype(dtype)


def scored(seed, *shape, classes=3, dtype="float32"):
    """Rows (class, score, left, top, right, bottom)."""
    rng = np.random.RandomState(seed + 100)
    head = np.stack([rng.randint(0, classes, shape), rng.uniform(0, 1, shape)], -1)
    return np.concatenate([head, boxes(seed, *shape)], -1).astype(dtype)


# Boxes.
IOU = "nd.contrib.box_iou"
add(f"{IOU}(x, y)", x=boxes(1, 5), y=boxes(2, 4))
add(f"{IOU}(x, y)", x=boxes(1, 2, 3), y=boxes(2, 2, 2))
add(f"{IOU}(x, y, format='center')", x=boxes(1, 5), y=boxes(2, 4))
add(f"{IOU}(x, y)", x=boxes(1, 5, dtype="float64"), y=boxes(2, 4, dtype="float64"), rtol=1e-7)
add(f"{IOU}(x, y)", x=boxes(1, 5, dtype="float16"), y=boxes(2, 4, dtype="float16"), rtol=1e-2, atol=4e-3)
add(f"{IOU}(x, y)", x=V(1, 1, 0, 0, 0, 0, 1, 1, shape=(2, 4)), y=V(0, 0, 1, 1, 0.5, 0.5, 0.5, 0.5, shape=(2, 4)))
add(f"{IOU}(x, y)", x=F(4), y=F(2, 4), raises=True)
add(f"{IOU}(x, y)", x=F(2, 5), y=F(2, 4), raises=True)

NMS = "nd.contrib.box_nms"
for attrs in [
    "", ", overlap_thresh=0.1", ", overlap_thresh=0.8", ", valid_thresh=0.4", ", valid_thresh=2", ", topk=3", ", topk=0", ", topk=-3",
    ", id_index=0", ", id_index=0, force_suppress=True", ", id_index=0, background_id=1", ", id_index=0, background_id=0, topk=4", ", background_id=1",
    ", out_format='center'", ", in_format='center'", ", in_format='center', out_format='center', overlap_thresh=0.2",
]:  # fmt: skip
    add(f"{NMS}(x{attrs})", x=scored(3, 8))
add(f"{NMS}(x, id_index=0, overlap_thresh=0.2)", x=scored(4, 2, 3, 7))
add(f"{NMS}(x, coord_start=1, score_index=0)", x=scored(5, 2, 9)[..., 1:].copy())
add(
    f"{NMS}(x, coord_start=0, score_index=5, id_index=4)",
    x=np.roll(scored(5, 2, 9), -2, -1)[..., [0, 1, 2, 3, 4, 5]].copy(),
)
add(f"{NMS}(x, overlap_thresh=0.3)", x=scored(6, 8, dtype="float64"))
add(f"{NMS}(x, overlap_thresh=0.3)", x=scored(6, 8, dtype="float16"))
add(f"{NMS}(x)", x=np.array([[0, 0.5, 0, 0, 1, 1], [0, 0.5, 2, 2, 3, 3], [0, 0.5, 0, 0, 1, 1]], "float32"), tag="ties")
add(
    f"{NMS}(x, out_format='center')",
    x=np.array([[0, 0.5, -0.5, 0, 1, 1]], "float32"),
    compat="MXNet leaves boxes whose first coordinate is negative in the other format",
    want="np.array([[0, 0.5, 0.25, 0.5, 1.5, 1]])",
)
for attrs in ["score_index=2", "coord_start=3", "id_index=1", "id_index=7", "in_format='corners'"]:
    add(f"{NMS}(x, {attrs})", x=F(2, 6), raises=True)
add(f"{NMS}(x)", x=F(6), raises=True)
add(f"{NMS}(x)", x=F(2, 4), raises=True)

MATCH = "nd.contrib.bipartite_matching"
for attrs in ["threshold=1e-12", "threshold=0.5", "threshold=0.5, is_ascend=True", "threshold=9.0"]:
    add(f"{MATCH}(x, {attrs})", x=P(4, 3, lo=0.0, hi=1.0))
    add(f"{MATCH}(x, {attrs})", x=P(2, 3, 5, lo=0.0, hi=1.0))
add(
    f"y = {MATCH}(x, threshold=0.1, topk=1); nd.concat(y[0], y[1], dim=0)",
    x=V(0.5, 0.6, 0.1, 0.2, 0.3, 0.4, shape=(3, 2)),
    compat="MXNet makes one pair more than topk",
    want="np.array([1, -1, -1, -1, 0])",
)
add(f"{MATCH}(x, threshold=0.1)", x=F(3), raises=True)
add(f"{MATCH}(x)", x=F(3, 2), raises=True)

MEANS, STDS = V(0.0, 0.0, 0.1, -0.1), V(0.1, 0.1, 0.2, 0.3)
add(
    "nd.contrib.box_encode(s, m, a, r, mean, std)",
    s=V(1, -1, 0, 0.6, 0.4, 1, shape=(2, 3)), m=V(0, 1, 1, 1, 0, 0, shape=(2, 3)), a=boxes(7, 2, 3), r=boxes(8, 2, 2),
    mean=MEANS, std=STDS, rtol=1e-5,
)  # fmt: skip
add("nd.contrib.box_decode(x, a)", x=F(2, 3, 4), a=boxes(9, 1, 3))
add("nd.contrib.box_decode(x, a, format='corner', clip=0.5)", x=F(2, 3, 4), a=boxes(9, 1, 3))
add("nd.contrib.box_decode(x, a, std0=0.1, std1=0.2, std2=0.3, std3=0.4)", x=F(2, 3, 4), a=boxes(9, 1, 3))
add(
    "nd.contrib.box_decode(x, a, 0.1, 0.2, 0.3, 0.4, 0.2)",
    x=F(1, 3, 4, dtype="float64"),
    a=boxes(9, 1, 3, dtype="float64"),
    rtol=1e-7,
)
add("nd.contrib.box_decode(x, a)", x=F(2, 3, 4), a=boxes(9, 1, 2), raises=True)

# Single-shot detectors.
PRIOR = "nd.contrib.MultiBoxPrior"
for attrs in [
    "", ", sizes=(0.5, 0.25), ratios=(1, 2, 0.5)", ", sizes=(0.5, 0.25), ratios=(2, 1)", ", sizes=[1.5], clip=True",
    ", sizes=(0.5,), steps=(0.3, 0.2), offsets=(0.1, 0.7)", ", sizes=0.3, ratios=2",
]:  # fmt: skip
    add(f"{PRIOR}(x{attrs})", x=F(2, 3, 3, 5))
    add(f"{PRIOR}(x{attrs})", x=F(1, 1, 1, 2))
for attrs in ["steps=(0.3,)", "sizes=()", "ratios=()"]:
    add(f"{PRIOR}(x, {attrs})", x=F(1, 3, 2, 2), raises=True)
add(f"{PRIOR}(x)", x=F(3, 2, 2), raises=True)

LABELS = np.full((3, 4, 5), -1, "float32")
LABELS[0, :3, 0], LABELS[0, :3, 1:] = (2, 0, 1), boxes(10, 3)
LABELS[1, :1, 0], LABELS[1, :1, 1:] = 1, boxes(11, 1)
TARGET = "nd.contrib.MultiBoxTarget(a, y, p{})"
for attrs in [
    "", ", overlap_threshold=0.3", ", overlap_threshold=0.9", ", overlap_threshold=-1", ", ignore_label=-7", ", variances=(1, 1, 1, 1)",
    ", negative_mining_ratio=1", ", negative_mining_ratio=2, overlap_threshold=0.4", ", negative_mining_ratio=0.5, minimum_negative_samples=3",
    ", negative_mining_ratio=1, negative_mining_thresh=0.3, ignore_label=-3",
]:  # fmt: skip
    add(TARGET.format(attrs), a=boxes(12, 1, 16), y=LABELS, p=F(3, 4, 16), rtol=1e-4, atol=1e-5)
add(TARGET.format(""), a=boxes(12, 1, 2), y=LABELS, p=F(3, 4, 2), rtol=1e-4, atol=1e-5, tag="fewer anchors than boxes")
add(TARGET.format(""), a=boxes(12, 1, 4), y=LABELS[2:], p=F(1, 4, 4), tag="no boxes")
add(
    TARGET.format(", negative_mining_ratio=1, negative_mining_thresh=-1"),
    a=boxes(12, 1, 4),
    y=LABELS,
    p=F(3, 4, 4),
    raises=True,
)
add(TARGET.format(", variances=(1, 1)"), a=boxes(12, 1, 4), y=LABELS, p=F(3, 4, 4), raises=True)
add(TARGET.format(""), a=boxes(12, 4), y=LABELS, p=F(3, 4, 4), raises=True)
add(TARGET.format(""), a=boxes(12, 1, 4), y=LABELS, p=F(3, 4, 5), raises=True)
add(TARGET.format(""), a=boxes(12, 1, 4), y=LABELS[..., :4].copy(), p=F(3, 4, 4), raises=True)

DETECTION = "nd.contrib.MultiBoxDetection(p, x, a{})"
for attrs in [
    "", ", clip=False", ", threshold=0.6", ", background_id=1", ", nms_threshold=0.2", ", nms_threshold=0.2, force_suppress=True", ", nms_topk=3",
    ", nms_topk=3, nms_threshold=1", ", nms_threshold=0", ", nms_topk=2, nms_threshold=0", ", variances=(1, 1, 1, 1)", ", threshold=3",
]:  # fmt: skip
    add(DETECTION.format(attrs), p=P(2, 3, 9, lo=0.0, hi=1.0), x=F(2, 36), a=boxes(13, 1, 9))
add(DETECTION.format(""), p=P(2, 1, 9, lo=0.0, hi=1.0), x=F(2, 36), a=boxes(13, 1, 9), tag="one class")
add(DETECTION.format(""), p=P(2, 3, 9), x=F(2, 32), a=boxes(13, 1, 9), raises=True)


# Regions of interest.
ROIS = V(0, 0, 0, 3, 3, 1, 2, 1, 6, 9, 0, -3, -3, -1, -1, 0, 20, 20, 30, 30, 1, -2, 1, 3, 2, shape=(5, 5))
PIXELS = ROIS[:, 1:] * 4 + V(1, 2, 3, 1)
SCALED = np.concatenate([ROIS[:, :1], PIXELS], 1)
POOL = "nd.ROIPooling(x, r, pooled_size={}, spatial_scale={})"
for size, scale in [((2, 2), 1.0), ((2, 3), 0.7), ((3, 1), 0.25), ((7, 7), 1.0)]:
    add(POOL.format(size, scale), x=F(2, 3, 5, 7), r=SCALED if scale < 0.5 else ROIS, grad=("x",))
add(POOL.format((2, 2), 1.0), x=F(2, 3, 5, 7, dtype="float64"), r=ROIS.astype("float64"))
add(POOL.format((2, 2), 1.0), x=F(2, 3, 5, 7, dtype="float16"), r=ROIS.astype("float16"))
add(POOL.format((2, 2), 1.0), x=F(1, 1, 1, 1), r=ROIS[:1])
add(POOL.format((2, 2), 1.0), x=F(1, 1, 4, 4, lo=-2.0, hi=-1.0), r=V(0, 2.5, 1.5, 3.49, 0.5, shape=(1, 5)), grad=False)
for code in [POOL.format((2, 2), 2), POOL.format(2, 1.0), POOL.format((0, 2), 1.0)]:
    add(code, x=F(1, 1, 4, 4), r=ROIS[:1], raises=True)
add(POOL.format((2, 2), 1.0), x=F(1, 1, 4, 4), r=F(2, 4), raises=True)

ALIGN = "nd.contrib.ROIAlign(x, r, (2, 3), {}{})"
for attrs in [
    "",
    ", sample_ratio=2",
    ", sample_ratio=1",
    ", sample_ratio=3, position_sensitive=True",
    ", position_sensitive=True",
]:
    add(ALIGN.format(1.0, attrs), x=F(2, 6, 5, 7), r=ROIS)
    add(ALIGN.format(0.25, attrs), x=F(2, 6, 5, 7), r=SCALED)
for attrs in [
    ", aligned=True",
    ", aligned=True, sample_ratio=2",
    ", aligned=True, sample_ratio=2, position_sensitive=True",
]:
    add(ALIGN.format(0.25, attrs), x=F(2, 6, 5, 7), r=SCALED)
    add(ALIGN.format(0.25, attrs), x=F(2, 6, 5, 7, dtype="float64"), r=SCALED.astype("float64"), rtol=1e-7, atol=1e-7)
add(
    ALIGN.format(0.25, ", sample_ratio=2"),
    x=F(2, 6, 5, 7, dtype="float16"),
    r=SCALED.astype("float16"),
    rtol=2e-2,
    atol=1e-2,
)
add(ALIGN.format(0.25, ", sample_ratio=2"), x=F(2, 6, 1, 1), r=SCALED)
add(
    "nd.contrib.ROIAlign(x, r, (1, 1), 1.0, sample_ratio=1)",
    x=V(1, 2, 3, 4, shape=(1, 1, 2, 2)),
    r=V(-1, 0, 0, 1, 1, 0, 0, 0, 1, 1, shape=(2, 5)),
    compat="MXNet leaves most of the result of a region without an image as it was in memory",
    want="np.array([0, 2.5]).reshape(2, 1, 1, 1)",
)
add(ALIGN.format(1.0, ""), x=F(2, 6, 5, 7), r=F(2, 4), raises=True)
add(ALIGN.format(1.0, ", position_sensitive=True"), x=F(2, 5, 5, 7), r=ROIS, raises=True)

# Samplers.
add("nd.BilinearSampler(x, g)", x=F(2, 3, 5, 7), g=F(2, 2, 3, 4, lo=-1.3, hi=1.3), rtol=1e-4, atol=1e-5)
add("nd.BilinearSampler(x, g)", x=F(2, 3, 5, 7), g=F(2, 2, 3, 4, lo=-9, hi=9))
add("nd.BilinearSampler(x, g)", x=F(1, 2, 1, 3), g=F(1, 2, 3, 4, lo=-1.3, hi=1.3), rtol=1e-4, atol=1e-5)
add("nd.BilinearSampler(x, g)", x=F(1, 1, 3, 3), g=V(-1, 1, 0, 1, -1, -1, 0, 1, shape=(1, 2, 2, 2)), grad=("x",))
add("nd.BilinearSampler(x, g)", x=F(2, 3, 5, 7, dtype="float64"), g=F(2, 2, 3, 4, lo=-1.3, hi=1.3, dtype="float64"))
add(
    "nd.BilinearSampler(x, g)",
    x=F(1, 2, 4, 4, dtype="float16"),
    g=F(1, 2, 2, 2, dtype="float16", lo=-1, hi=1),
    rtol=3e-2,
    atol=2e-2,
    grad=False,
)
add("nd.BilinearSampler(x, g)", x=P(1, 1, 3, 3), g=V(np.nan, 0, 0, np.nan, shape=(1, 2, 1, 2)), grad=False)
add("nd.BilinearSampler(x, g)", x=F(2, 3, 5, 7), g=F(2, 3, 3, 4), raises=True)
add("nd.BilinearSampler(x, g)", x=F(2, 3, 5, 7), g=F(1, 2, 3, 4), raises=True)
add("nd.GridGenerator(x, transform_type='affine', target_shape=(2, 3))", x=F(2, 6))
add("nd.GridGenerator(x, 'affine', (4, 2))", x=F(1, 6))
add("nd.GridGenerator(x, transform_type='warp')", x=F(2, 2, 3, 4))
add(
    "nd.GridGenerator(x, 'affine', (1, 1))",
    x=V(1, 2, 3, 4, 5, 6, shape=(1, 6)),
    compat="MXNet divides by 0 where the grid has one row or column",
    want="np.array([3, 6]).reshape(1, 2, 1, 1)",
)
add("nd.GridGenerator(x, 'affine')", x=F(2, 6), raises=True)
add("nd.GridGenerator(x, 'warp')", x=F(2, 3, 2, 2), raises=True)
add("nd.GridGenerator(x, 'wrap')", x=F(2, 2, 2, 2), raises=True)
MAPS = F(2, 6, lo=-0.8, hi=0.8)
TRANSFORM = "nd.SpatialTransformer(x, t, target_shape={}, transform_type='affine', sampler_type='bilinear')"
add(TRANSFORM.format((3, 4)), x=F(2, 3, 5, 7), t=MAPS, rtol=1e-4, atol=1e-5)
add(TRANSFORM.format((6, 2)), x=F(2, 1, 2, 2, dtype="float64"), t=F(2, 6, lo=-0.8, hi=0.8, dtype="float64"))
add(TRANSFORM.format((0, 0)), x=F(2, 3, 5, 7), t=MAPS, raises=True)
add(TRANSFORM.format((3, 4)), x=F(2, 3, 5, 7), t=F(1, 6), raises=True)
add("nd.SpatialTransformer(x, t, target_shape=(2, 2), sampler_type='bilinear')", x=F(2, 3, 5, 7), t=MAPS, raises=True)


# Images.
def image(seed, *shape):
    """Bytes."""
    return np.random.RandomState(seed).randint(0, 256, shape).astype("uint8")


PHOTO, PHOTOS = image(1, 5, 7, 3), image(2, 2, 4, 6, 3)
for photo in (PHOTO, PHOTOS, PHOTO[..., :1].copy(), image(3, 1, 1, 3)):
    add("nd.image.to_tensor(x)", x=photo)
for dtype in ["int8", "int32", "float32", "float64"]:
    add("nd.image.to_tensor(x)", x=PHOTO.astype(dtype), grad=False)
add("nd.image.to_tensor(x)", x=F(4, 3), raises=True)
add("nd.image.normalize(x, mean=(0.1, 0.2, 0.3), std=(0.5, 0.6, 0.7))", x=F(3, 4, 5))
add("nd.image.normalize(x, (0.1, 0.2, 0.3), (0.5, 0.6, 0.7))", x=F(2, 3, 4, 5, dtype="float64"), rtol=1e-6, atol=1e-7)
add("nd.image.normalize(x, mean=0.5, std=2)", x=F(2, 1, 2, 2))
add("nd.image.normalize(x, mean=0.5, std=(1, 2, 3))", x=F(3, 2, 2, dtype="float16"))
add("nd.image.normalize(x, mean=(0.5, 1), std=1)", x=F(3, 2, 2), raises=True)
add("nd.image.normalize(x, mean=0.5, std=1)", x=F(3, 2), raises=True)
add("nd.image.normalize(x)", x=F(3, 2, 2), compat="MXNet's defaults are for four channels, which it refuses", want="x")
add("nd.image.normalize(x, mean=1)", x=PHOTO.transpose(2, 0, 1), compat="MXNet divides whole numbers", raises=True)
add("nd.image.crop(x, 1, 2, 3, 2)", x=PHOTO)
add("nd.image.crop(x, x=0, y=1, width=6, height=3)", x=PHOTOS)
add("nd.image.crop(x, 1, 0, 2, 2)", x=F(3, 4, 3))
add("nd.image.crop(x, 0, 0, 4, 3)", x=F(3, 4, 1, dtype="float64"))
for part in ["3, 1, 2, 2", "0, 3, 1, 1", "0, 0, 0, 2"]:
    add(f"nd.image.crop(x, {part})", x=F(3, 4, 2), raises=True)
add("nd.image.crop(x, -1, 0, 2, 2)", x=F(3, 4, 2), raises=True, compat="MXNet reads before its memory")
add("nd.image.flip_left_right(x)", x=PHOTOS[0])
add("nd.image.flip_left_right(x)", x=F(4, 6, 1), no_grad="MXNet's gradient is not flipped")
add("nd.image.flip_top_bottom(x)", x=PHOTOS[0])
add("nd.image.flip_top_bottom(x)", x=PHOTO, compat="MXNet leaves the middle row out", want="x[::-1]")
add("nd.image.flip_top_bottom(x)", x=F(4, 3, 1, dtype="float16"), grad=False)
add("nd.image.flip_left_right(x)", x=PHOTOS, compat="MXNet takes one image only", want="x[:, :, ::-1]")
add("nd.image.flip_left_right(x)", x=F(4, 3), raises=True)
for size in ["(3, 4)", "(11, 8)", "4", "[5]", "(3, 2)", "(7, 5)"]:
    for interp in [0, 1]:
        add(f"nd.image.resize(x, {size}, interp={interp})", x=PHOTO)
    for interp in range(5):
        add(f"nd.image.resize(x, {size}, interp={interp})", x=F(5, 7, 2), grad=False, rtol=1e-4, atol=1e-5)
for interp in range(5):
    add(f"nd.image.resize(x, (3, 2), interp={interp})", x=PHOTOS)
    add(f"nd.image.resize(x, (9, 5), interp={interp})", x=PHOTOS)
    add(f"nd.image.resize(x, (3, 4), interp={interp})", x=image(4, 1, 1, 3))
    add(f"nd.image.resize(x, (6, 4), interp={interp})", x=F(5, 7, 1, dtype="float64"), grad=False, rtol=1e-5, atol=1e-5)
add("nd.image.resize(x, 3, keep_ratio=True)", x=PHOTO)
add("nd.image.resize(x, 3, True)", x=image(5, 20, 13, 3))
add("nd.image.resize(x, (4, 2), keep_ratio=True, interp=0)", x=PHOTO.astype("int32"))
for attrs in ["", ", 0", ", (1, 2, 3)", ", 3, interp=9"]:
    add(f"nd.image.resize(x{attrs})", x=PHOTO, raises=True)
add("nd.image.resize(x, 3)", x=F(4, 4), raises=True)

for code in ["random_brightness(x, 1.5, 1.5)", "random_brightness(x, 0.3, 0.3)", "random_contrast(x, 1.5, 1.5)", "random_contrast(x, 0.3, 0.3)",
             "adjust_lighting(x, (0.1, 0.2, -0.3))", "random_lighting(x, 0)"]:  # fmt: skip
    add(f"nd.image.{code}", x=PHOTO)
    add(f"nd.image.{code}", x=PHOTO.astype("float32"), grad=False, rtol=1e-4, atol=1e-4)
add("nd.image.random_brightness(x, 1.5, 1.5)", x=F(3, 4, 3))
add("nd.image.random_contrast(x, 1.5, 1.5)", x=PHOTO[..., :1].copy())
GRAY = "(np.array([0.299, 0.587, 0.114]) * x).sum(2, keepdims=True)"
add(
    "nd.image.random_saturation(x, 0.5, 0.5)",
    x=PHOTO.astype("float32"), compat="MXNet takes the blue channel alone for the lightness", want=f"0.5 * x + 0.5 * {GRAY}", rtol=1e-4,
)  # fmt: skip
for turn in [0.1, 0.4, 1.3]:
    add(f"nd.image.random_hue(x, {turn}, {turn})", x=PHOTO.astype("float32"), grad=False, rtol=1e-4, atol=1e-2)
LEAVES = "MXNet leaves the result as it was in memory"
for code in ["random_hue(x, 0.1, 0.1)", "adjust_lighting(x, (1, 2, 3))", "random_color_jitter(x, 0, 0, 0, 0)"]:
    add(f"nd.image.{code}", x=PHOTO[..., :1].copy(), compat=LEAVES, want="x")
for code in ["random_brightness(x, -1, 1)", "random_brightness(x, 1)", "random_color_jitter(x, 0, 0, 0)"]:
    add(f"nd.image.{code}", x=PHOTO, raises=True)
BATCHES = "MXNet refuses several images"
for code in ["random_brightness(x, 1, 1)", "random_contrast(x, 1, 1)", "random_hue(x, 0, 0)"]:
    add(f"nd.image.{code}", x=PHOTOS, compat=BATCHES, want="x")
for code in ["random_brightness(x, 1, 1)", "random_contrast(x, 1, 1)", "random_hue(x, 0, 0)", "random_lighting(x)"]:
    add(f"nd.image.{code}", x=image(6, 2, 2, 4), raises=True)

for attrs in [
    "h_w=(2, 2)",
    "h_w=(2, 3), offset=(1, 2)",
    "h_w=(2, 2), center_crop=True",
    "h_w=(3, 2), center_crop=True, offset=(9, 9)",
]:
    add(f"nd.Crop(x, {attrs})", x=F(2, 3, 5, 6))
add("nd.Crop(x, y, offset=(1, 0))", x=F(1, 2, 4, 4), y=F(1, 3, 2, 3), grad=("x",))
add("nd.Crop(x, y, num_args=2, center_crop=True)", x=F(1, 2, 5, 4), y=F(1, 3, 2, 3), grad=("x",))
for attrs in ["h_w=(7, 2)", "h_w=(2, 2), offset=(4, 0)", "h_w=(0, 0)"]:
    add(f"nd.Crop(x, {attrs})", x=F(2, 3, 5, 6), raises=True)

# Deformable convolutions.
DEFORMABLE = "nd.contrib.DeformableConvolution(x, o, w, b, {})"
MODULATED = "nd.contrib.ModulatedDeformableConvolution(x, o, m, w, b, {})"
SIZES = "kernel=(3, 3), num_filter=4"
GROUPS = "kernel=(3, 3), num_filter=4, stride=(2, 1), dilate=(1, 2), pad=(1, 2), num_group=2, num_deformable_group=2"
CLOSE = {"rtol": 1e-4, "atol": 1e-4}
add(DEFORMABLE.format(SIZES + ", pad=(1, 1)"), x=F(2, 3, 5, 6), o=F(2, 18, 5, 6), w=F(4, 3, 3, 3), b=F(4), **CLOSE)
add(DEFORMABLE.format(SIZES), x=F(2, 3, 5, 6), o=F(2, 18, 3, 4, lo=-4, hi=4), w=F(4, 3, 3, 3), b=F(4), **CLOSE)
add(DEFORMABLE.format(GROUPS), x=F(2, 4, 5, 6), o=F(2, 36, 3, 6), w=F(4, 2, 3, 3), b=F(4), **CLOSE)
add(
    "nd.contrib.DeformableConvolution(x, o, w, kernel=(1, 2), num_filter=2, no_bias=True)",
    x=F(1, 2, 3, 4, dtype="float64"), o=F(1, 4, 3, 3, dtype="float64"), w=F(2, 2, 1, 2, dtype="float64"),
)  # fmt: skip
add(DEFORMABLE.format(SIZES + ", pad=(1, 1)"), x=F(2, 3, 5, 6), o=F(2, 18, 3, 4), w=F(4, 3, 3, 3), b=F(4), raises=True)
add(DEFORMABLE.format(SIZES), x=F(2, 3, 5, 6), o=F(2, 9, 3, 4), w=F(4, 3, 3, 3), b=F(4), raises=True)
for attrs, o, w, x in [
    (SIZES + ", pad=(1, 1)", F(2, 18, 5, 6), F(4, 3, 3, 3), F(2, 3, 5, 6)),
    (GROUPS, F(2, 36, 3, 6), F(4, 2, 3, 3), F(2, 4, 5, 6)),
]:
    m = F(2, o.shape[1] // 2, *o.shape[2:], lo=0.0, hi=1.0)
    add(MODULATED.format(attrs), x=x, o=o, m=m, w=w, b=F(4), grad=False, **CLOSE)  # MXNet has a gradient on GPUs only

CORRELATION = "nd.Correlation(x, y{})"
for attrs in [
    ", pad_size=1", ", kernel_size=3, pad_size=2", ", max_displacement=2, stride1=2, stride2=2, pad_size=2",
    ", kernel_size=3, max_displacement=2, stride1=2, pad_size=3, is_multiply=False", ", max_displacement=3, stride2=2, pad_size=3", "",
]:  # fmt: skip
    add(CORRELATION.format(attrs), x=F(2, 3, 5, 6), y=F(2, 3, 5, 6), rtol=1e-4, atol=1e-5)
add(CORRELATION.format(""), x=F(2, 3, 5, 6, dtype="float64"), y=F(2, 3, 5, 6, dtype="float64"))
add(CORRELATION.format(", kernel_size=2"), x=F(2, 3, 5, 6), y=F(2, 3, 5, 6), raises=True)
add(CORRELATION.format(", max_displacement=5"), x=F(2, 3, 5, 6), y=F(2, 3, 5, 6), raises=True)

# Region proposals.
SMALL = "feature_stride=8, scales=(1, 2), ratios=(0.5, 1, 2), rpn_min_size=4"
INFO = V(40, 48, 1.5, 33, 47, 0.5, shape=(2, 3))
for name, n in [("Proposal", 1), ("MultiProposal", 2)]:
    for attrs in [
        ", rpn_post_nms_top_n=8", ", rpn_post_nms_top_n=40, threshold=0.5", ", rpn_pre_nms_top_n=12, rpn_post_nms_top_n=6, output_score=True",
        ", rpn_post_nms_top_n=8, iou_loss=True, threshold=0.4",
    ]:  # fmt: skip
        add(
            f"nd.contrib.{name}(s, x, i, {SMALL}{attrs})",
            s=P(n, 12, 5, 6, lo=0.0, hi=1.0), x=F(n, 24, 5, 6, lo=-0.6, hi=0.6), i=INFO[:n], rtol=1e-5, atol=2e-5,
        )  # fmt: skip
add(f"nd.contrib.Proposal(s, x, i, {SMALL})", s=P(2, 12, 5, 6), x=F(2, 24, 5, 6), i=INFO, raises=True)
add(f"nd.contrib.Proposal(s, x, i, {SMALL})", s=P(1, 12, 5, 6), x=F(1, 12, 5, 6), i=INFO[:1], raises=True)
