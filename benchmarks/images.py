"""Workloads of images, and all workloads: what ``benchmarks/peers/run.py --only`` knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.encoder_train import ENCODER_TRAIN
from benchmarks.image_networks import NETWORKS, GluonBuilder, NumPyBuilder, flops, inputs
from benchmarks.workloads import WORKLOADS, Arrays, Program, WithParameters, Workload, inference


class ImageNet(WithParameters):
    """One of the networks, with the given arrays as parameters."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self._function = NETWORKS[name].function

    def hybrid_forward(self, F: Any, x: Any, **parameters: Any) -> Any:
        return self._function(GluonBuilder(F, parameters), x)


def _workload(name: str, about: str) -> Workload:
    network = NETWORKS[name]

    def make(rng: np.random.Generator) -> Arrays:
        return inputs(network, rng)

    def reference(arrays: Arrays) -> list[np.ndarray]:
        return [network.function(NumPyBuilder(arrays), arrays["x"])]

    def program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
        net = ImageNet(name, {k: v for k, v in arrays.items() if k != "x"})
        return inference(net, hybridized, arrays["x"])

    moved = sum(x.nbytes for x in inputs(network, np.random.default_rng(0)).values())
    return Workload(name, about, make, reference, program, moved, flops(network))


IMAGES = {
    w.name: w
    for w in (
        _workload("residual_block", "8x64x56x56, two convolutions of 3x3"),
        _workload("resnet18", "1x3x224x224, prediction"),
    )
}
EVERY = {**WORKLOADS, ENCODER_TRAIN.name: ENCODER_TRAIN, **IMAGES}
