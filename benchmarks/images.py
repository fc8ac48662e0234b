"""Workloads of images, and all workloads: what ``benchmarks/peers/run.py --only`` knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks import image_networks
from benchmarks.encoder_train import ENCODER_TRAIN
from benchmarks.first_workloads import FIRST_WORKLOADS
from benchmarks.image_builders import GluonBuilder, NumPyBuilder, Value
from benchmarks.image_networks import NETWORKS, ImageNetwork, trained
from benchmarks.loop_workloads import LOOPS
from benchmarks.sentence_workloads import DEEP_WORKLOADS, SENTENCE_WORKLOADS
from benchmarks.workloads import (
    LEARNING_RATE,
    WORKLOADS,
    Arrays,
    Program,
    WithParameters,
    Workload,
    inference,
    largest_error,
    log_softmax,
    training,
)


class ImageNet(WithParameters):
    """A network, with the given arrays as parameters."""

    def __init__(self, network: ImageNetwork, arrays: Mapping[str, Any]) -> None:
        given = {name: x for name, x in arrays.items() if name not in ("x", "y", "dy")}
        super().__init__(given)
        self._network, self.names = network, [name for name in given if trained(name)]
        for name in given:
            wanted = trained(name) if network.classes else name == network.gradient
            getattr(self, name).grad_req = "write" if wanted else "null"

    def hybrid_forward(self, F: Any, x: Any, **parameters: Any) -> Any:
        return self._network.function(GluonBuilder(F, parameters, bool(self._network.classes)), x)


def _prediction(network: ImageNetwork, arrays: Mapping[str, Any], hybridized: bool) -> Program:
    return inference(ImageNet(network, arrays), hybridized, arrays["x"])


def _training(network: ImageNetwork, arrays: Mapping[str, Any], hybridized: bool) -> Program:
    net, loss_of = ImageNet(network, arrays), mx.gluon.loss.SoftmaxCrossEntropyLoss()
    parameters = [getattr(net, name) for name in net.names]
    return training(net, loss_of, parameters, hybridized, arrays["x"], arrays["y"])


def _gradient(network: ImageNetwork, arrays: Mapping[str, Any], hybridized: bool) -> Program:
    """The backward alone: the forward was run and recorded before."""
    net, x, dy = ImageNet(network, arrays), arrays["x"], arrays["dy"]
    if hybridized:
        net.hybridize()
    if network.gradient == "x":
        x.attach_grad()
    recorded: list[Any] = []

    def call() -> Any:
        if not recorded:
            with mx.autograd.record():
                recorded.append(net(x))
        recorded[0].backward(dy, retain_graph=True)
        return x.grad if network.gradient == "x" else getattr(net, network.gradient).grad()

    return Program(call, lambda grad: [grad.asnumpy()], (net,), lambda: ((x,),))


PROGRAMS = {"image": _prediction, "image_training": _training, "image_gradient": _gradient}


def reference(network: ImageNetwork, arrays: Arrays) -> list[np.ndarray]:
    """The definition: a prediction; the loss and parameters after a first step; or a gradient."""
    builder, x = NumPyBuilder(arrays, bool(network.classes)), Value(arrays["x"])
    result = network.function(builder, x)
    if network.gradient:
        found = builder.backward(result, arrays["dy"])
        return [x.grad if network.gradient == "x" else found[network.gradient]]
    if not network.classes:
        return [result.array]
    logarithms, y = log_softmax(result.array), arrays["y"]
    rows = np.arange(len(y))
    slope = np.exp(logarithms)
    slope[rows, y] -= 1
    grads = builder.backward(result, slope / len(y))
    return [-logarithms[rows, y].mean(), *(w - LEARNING_RATE * grads[k] for k, w in arrays.items() if trained(k))]


def distance(out: np.ndarray, ref: np.ndarray) -> float:
    """The Euclidean distance, relative to the norm.

    Rounding moves some activations over zero: a gradient's element that hangs on few of them then differs visibly.
    """
    return float(np.linalg.norm(out - ref) / np.linalg.norm(ref))


def _workload(name: str, network: ImageNetwork) -> Workload:
    return Workload(
        name,
        network.about,
        lambda rng: image_networks.inputs(network, rng),
        lambda arrays: reference(network, arrays),
        lambda arrays, hybridized: PROGRAMS[network.kind](network, arrays, hybridized),
        *image_networks.costs(network),
        distance if network.classes else largest_error,
    )


IMAGES = {name: _workload(name, network) for name, network in NETWORKS.items()}
ENCODERS = {ENCODER_TRAIN.name: ENCODER_TRAIN, **SENTENCE_WORKLOADS, **DEEP_WORKLOADS}
EVERY = {**WORKLOADS, **ENCODERS, **LOOPS, **IMAGES, **FIRST_WORKLOADS}
GROUPS = {  # names that ``--only`` knows for several workloads
    "dense": [*WORKLOADS],
    "loops": [*LOOPS],
    "sentences": [*SENTENCE_WORKLOADS],
    "images": [*image_networks.PREDICTIONS, *image_networks.TRAININGS],
    "layers": [*image_networks.LAYERS],
    "resnet18_layers": [*image_networks.RESNET18_LAYERS],
    "denormals": ["residual_block", *image_networks.DENORMALS],
}
