"""One more workload: a training step of the encoder. It is measured where memory and first calls are.

Of each token half the squared distance to where it should be, of each sample the mean over its tokens; one step of SGD
with momentum. The gradients in the definition are written by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import hybridc as mx
from benchmarks.workloads import (
    EPSILON,
    HEADS,
    LEARNING_RATE,
    WORKLOADS,
    Arrays,
    Encoder,
    Program,
    Workload,
    encoder_inputs,
    gelu,
    linear,
    normal,
    softmax,
    training,
)


class TokenDistance(mx.gluon.HybridBlock):
    """Half the squared distance of each token, as the mean over the tokens of a sample."""

    def hybrid_forward(self, F: Any, y: Any, wanted: Any) -> Any:
        return 0.5 * F.mean(F.sum(F.square(y - wanted), axis=2), axis=1)


def inputs(rng: np.random.Generator) -> Arrays:
    arrays = encoder_inputs(rng)
    x = arrays.pop("x")
    return {"x": x, "y": normal(rng, *x.shape), **arrays}


def program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    given = dict(arrays)
    x, y = given.pop("x"), given.pop("y")
    net = Encoder(given)
    return training(net, TokenDistance(), [getattr(net, name) for name in given], hybridized, x, y)


def reference(d: Arrays) -> list[np.ndarray]:
    """The loss and the parameters after the first step, in the order of the inputs."""
    x, wanted = d["x"], d["y"]
    n, s, m = x.shape
    scale = 1 / math.sqrt(m // HEADS)

    def split(z: np.ndarray) -> np.ndarray:
        return z.reshape(n, s, HEADS, m // HEADS).transpose(0, 2, 1, 3)

    def merge(z: np.ndarray) -> np.ndarray:
        return z.transpose(0, 2, 1, 3).reshape(n, s, m)

    u1, r1 = _normalized(x)
    qkv = linear(u1 * d["g1"] + d["h1"], d["wqkv"], d["bqkv"])
    q, k, v = (split(z) for z in np.split(qkv, 3, axis=-1))
    p = softmax(q @ k.swapaxes(-1, -2) * scale)
    context = merge(p @ v)
    x2 = x + linear(context, d["wo"], d["bo"])
    u2, r2 = _normalized(x2)
    z = linear(u2 * d["g2"] + d["h2"], d["wup"], d["bup"])
    a = gelu(z)
    y = x2 + linear(a, d["wdn"], d["bdn"])
    loss = 0.5 * ((y - wanted) ** 2).sum(axis=2).mean()

    grads: Arrays = {}

    def through(tag: str, dy: np.ndarray, x: np.ndarray) -> np.ndarray:
        grads["w" + tag] = np.einsum("nsi,nsj->ij", dy, x)
        grads["b" + tag] = dy.sum(axis=(0, 1))
        return dy @ d["w" + tag]

    def through_norm(i: str, dy: np.ndarray, u: np.ndarray, r: np.ndarray) -> np.ndarray:
        grads["g" + i] = (dy * u).sum(axis=(0, 1))
        grads["h" + i] = dy.sum(axis=(0, 1))
        du = dy * d["g" + i]
        along = (du * u).mean(axis=-1, keepdims=True)
        return (du - du.mean(axis=-1, keepdims=True) - u * along) * r

    dy = (y - wanted) / (n * s)
    dz = through("dn", dy, a) * _gelu_slope(z)
    dx2 = dy + through_norm("2", through("up", dz, u2 * d["g2"] + d["h2"]), u2, r2)
    dcontext = split(through("o", dx2, context))
    dp = dcontext @ v.swapaxes(-1, -2)
    ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) * scale
    parts = (ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ dcontext)
    dqkv = np.concatenate([merge(part) for part in parts], axis=-1)
    through_norm("1", through("qkv", dqkv, u1 * d["g1"] + d["h1"]), u1, r1)
    return [loss, *(w - LEARNING_RATE * grads[name] for name, w in d.items() if name not in "xy")]


def _normalized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of mean 0 and deviation 1, and one over the deviation they had."""
    centred = x - x.mean(axis=-1, keepdims=True)
    factor = 1 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + EPSILON)
    return centred * factor, factor


def _gelu_slope(z: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return 0.5 * (1 + erf(z / math.sqrt(2))) + z * np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)


ENCODER_TRAIN = Workload(
    "encoder_train",
    "encoder: one step of SGD with momentum",
    inputs,
    reference,
    program,
    WORKLOADS["encoder"].moved,  # and more: no floor is printed of it
    3 * WORKLOADS["encoder"].flops,
)
