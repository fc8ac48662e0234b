"""Regions of feature maps in MXNet's contrib namespace, for MXNet and for hybridc."""

import numpy as np

RNG = np.random.default_rng(11)
DATA = RNG.normal(size=(2, 18, 9, 11)).astype(np.float32)
BOXES = np.array(
    [
        [0, 0, 0, 10, 9],
        [1, 2.5, 1.5, 12, 8],
        [1, 7, 6, 7, 6],
        [0, -9, -4, 5, 3],
        [1, 15, 12, 40, 30],
        [0, 60, 60, 70, 70],
    ],
    np.float32,
)
TURNED = np.array(
    [
        [0, 10, 9, 12, 6, 30],
        [1, 12, 8, 8, 14, -75],
        [1, 4, 4, 0.5, 0.5, 10],
        [0, 0, 0, 20, 10, 45],
        [1, 9, 9, 7, 7, 180],
    ],
    np.float32,
)
CASES = {
    "psroi": ("PSROIPooling", BOXES, {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3}),
    "psroi_cells": (
        "PSROIPooling",
        BOXES,
        {"spatial_scale": 0.4, "output_dim": 2, "pooled_size": 5, "group_size": 3},
    ),
    "moving": (
        "DeformablePSROIPooling",
        BOXES,
        {
            "spatial_scale": 0.5,
            "output_dim": 2,
            "pooled_size": 3,
            "group_size": 3,
            "sample_per_part": 2,
            "trans_std": 0.2,
        },
    ),
    "moving_cells": (
        "DeformablePSROIPooling",
        BOXES,
        {"spatial_scale": 0.4, "output_dim": 2, "pooled_size": 4, "group_size": 3, "part_size": 2, "trans_std": 0.3},
    ),
    "still": (
        "DeformablePSROIPooling",
        BOXES,
        {"spatial_scale": 0.5, "output_dim": 2, "pooled_size": 3, "group_size": 3, "no_trans": True},
    ),
    "rroi": ("RROIAlign", TURNED, {"pooled_size": (2, 3), "spatial_scale": 0.5, "sampling_ratio": 2}),
    "rroi_adaptive": ("RROIAlign", TURNED, {"pooled_size": (3, 2), "spatial_scale": 0.6}),
}


def run(mx, case):
    """The result, and the gradient of the data where there is one."""
    name, rois, attributes = case
    data, rois = mx.nd.array(DATA), mx.nd.array(rois)
    if name == "RROIAlign":
        return {"out": getattr(mx.nd.contrib, name)(data, rois, **attributes).asnumpy()}
    inputs = [data]
    if name.startswith("Deformable") and not attributes.get("no_trans"):
        parts = attributes.get("part_size", attributes["pooled_size"])
        inputs.append(mx.nd.array(np.random.default_rng(5).normal(size=(len(rois), 4, parts, parts))))
    for x in inputs:
        x.attach_grad()
    with mx.autograd.record():
        out = getattr(mx.nd.contrib, name)(data, rois, *inputs[1:], **attributes)
    weights = np.linspace(-1, 2, out.size).reshape(out.shape)
    out.backward(mx.nd.array(weights))
    return {"out": out.asnumpy(), **{f"grad{i}": x.grad.asnumpy() for i, x in enumerate(inputs)}}
