"""The predicted time of a training step: forward, backward with sums of gradients beside it, update.

Gradients become ready from the last layer to the first, and are summed in buckets, one after the other: a collective
starts when its bucket is ready and the one before has ended. What it takes after the backward is exposed, the rest is
hidden.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np

from hybridc.communication.gradient_buckets import BYTES, FIRST_BYTES, grouped
from hybridc.errors import AttributeValueError
from hybridc.ground.records import dataclass
from hybridc.tools.scaling.cluster import Cluster
from hybridc.tools.scaling.model_layers import LayerSize

# Operations of a layer's backward, by those of its forward: the gradient of its input, and that of its weight.
BACKWARD = 2.0
# The range, in standard deviations, and the number of intervals by which the largest of normals is integrated.
_RANGE, _INTERVALS = 10.0, 4000


@dataclass(frozen=True)
class RankWork:
    """What a rank does in a step: ``compute`` seconds of forward and backward, ``update`` seconds of all parameters.

    ``spread`` is the standard deviation of ranks' compute times, as a part of their mean. ``element`` is bytes of an
    element of a gradient.
    """

    layers: Sequence[LayerSize]
    compute: float
    update: float
    spread: float = 0.0
    sharded: bool = False
    first_bucket: int = FIRST_BYTES
    other_buckets: int = BYTES
    element: int = 4

    @functools.cached_property
    def ready(self) -> list[tuple[float, int]]:
        """Of each bucket, the share of the compute time after which it is ready, and its bytes."""
        total = sum(layer.flops for layer in self.layers)
        if not total > 0:
            raise AttributeValueError("the layers must have operations, by which the compute time is distributed")
        return buckets(self.layers, self.first_bucket, self.other_buckets, self.element)


@dataclass(frozen=True)
class Prediction:
    """A step's seconds: in all, of computing on the slowest rank, of collectives, and of what was not hidden.

    ``single`` is the step of one rank, and ``algorithm`` that of the largest bucket.
    """

    ranks: int
    step: float
    compute: float
    communication: float
    exposed: float
    single: float
    algorithm: str

    @property
    def hidden(self) -> float:
        """The share of communication during which something was computed."""
        return 1 - self.exposed / self.communication if self.communication else 1.0

    @property
    def efficiency(self) -> float:
        """The examples per second of a rank, by those of one that is alone."""
        return self.single / self.step


def buckets(layers: Sequence[LayerSize], first: int, other: int, element: int) -> list[tuple[float, int]]:
    """As :attr:`RankWork.ready`."""
    total = sum(layer.flops for layer in layers)
    forward = 1 / (1 + BACKWARD)
    ready: list[tuple[float, int]] = []  # of each gradient
    done = 0.0
    for layer in reversed(layers):
        done += layer.flops
        at = forward + (1 - forward) * done / total
        ready += [(at, n * element) for n in reversed(layer.parameters) if n]
    groups = grouped([("", size) for _, size in ready], first, other)
    return [(ready[group[-1]][0], sum(ready[n][1] for n in group)) for group in groups]


@functools.cache
def largest(ranks: int) -> float:
    """The expected largest of so many standard normal numbers: the integral of x d(Phi(x)^p)."""
    x = np.linspace(-_RANGE, _RANGE, _INTERVALS + 1)
    normal = np.array([0.5 * math.erfc(-each / math.sqrt(2)) for each in x])
    # By parts, with F = Phi^p: the integral of 1 - F over x > 0, less that of F over x < 0.
    return float(np.trapezoid(np.heaviside(x, 0.5) - normal**ranks, x))


def predict(work: RankWork, cluster: Cluster) -> Prediction:
    """The step of all ranks of a cluster, each of which does this work."""
    single = work.compute + work.update
    if cluster.ranks == 1:
        return Prediction(1, single, work.compute, 0.0, 0.0, single, "")
    compute = work.compute * (1 + work.spread * largest(cluster.ranks))
    end = _sharded if work.sharded else _summed
    step, communication = end(work, cluster, [(share * compute, size) for share, size in work.ready], compute)
    update = work.update / cluster.ranks if work.sharded else work.update
    biggest = max((size for _, size in work.ready), default=0)
    algorithm = (cluster.reduce_scatter if work.sharded else cluster.all_reduce)(biggest)[1]
    return Prediction(cluster.ranks, step, compute, communication, step - compute - update, single, algorithm)


def _in_turn(ready: Sequence[float], costs: Sequence[float]) -> float:
    """When the last of collectives ends that are carried out one after the other."""
    return functools.reduce(lambda end, each: max(end, each[0]) + each[1], zip(ready, costs, strict=True), 0.0)


def _summed(
    work: RankWork, cluster: Cluster, ready: Sequence[tuple[float, int]], compute: float
) -> tuple[float, float]:
    """Seconds of a step with all-reduces, and of these."""
    costs = [cluster.all_reduce(size)[0] for _, size in ready]
    return max(compute, _in_turn([at for at, _ in ready], costs)) + work.update, sum(costs)


def _sharded(
    work: RankWork, cluster: Cluster, ready: Sequence[tuple[float, int]], compute: float
) -> tuple[float, float]:
    """Seconds of a step whose optimizer is sharded, and of its reduce-scatters and all-gathers.

    When all gradients are there, the parts are updated one by one, each of which is gathered during the next update.
    """
    scatters = [cluster.reduce_scatter(size)[0] for _, size in ready]
    gathers = [cluster.all_gather(size)[0] for _, size in ready]
    begin = max(compute, _in_turn([at for at, _ in ready], scatters))
    total = sum(size for _, size in ready)
    each = [work.update / cluster.ranks * size / total for _, size in ready]
    updated = [begin + done for done in itertools.accumulate(each)]
    return max(begin, _in_turn(updated, gathers)), sum(scatters) + sum(gathers)
