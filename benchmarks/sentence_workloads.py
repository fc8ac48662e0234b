"""Workloads of a sentence encoder, ``benchmarks/peers/run.py --only sentences``: few tokens, more, a batch with a mask.

The network is that of ``examples/sentences.py`` in the size of all-MiniLM-L6-v2, with random weights. ``x`` are numbers
of tokens, ``lengths`` how many of each row there are; weights are named by their layer and their place in it: ``w0q``,
``b0q`` and so on for queries, keys, values (q, k, v), the output of attention (o), the inner layer (u) and what leads
back (d), ``g0a``, ``h0a`` and ``g0f``, ``h0f`` for the normalizations after attention and after these two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.peer import DEEP_ENCODERS, SENTENCE_EPSILON, SENTENCE_HEADS, SENTENCES, encoder_layers
from benchmarks.workloads import (
    F32,
    Arrays,
    Program,
    Workload,
    around_one,
    dense,
    gelu,
    inference,
    layer_norm,
    linear,
    normal,
    softmax,
)
from examples.sentences import SentenceEncoder, Size

DENSE = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
    "u": "intermediate.dense",
    "d": "output.dense",
}
NETWORKS = {
    "bert_base": ("BERT-base", Size(units=768, inner=3072, layers=12)),
    "encoder_24": ("all-MiniLM-L6-v2, but for 24 layers,", Size(layers=24)),
}
NORMS = {"a": "attention.output.LayerNorm", "f": "output.LayerNorm"}


def names(layers: int) -> dict[str, str]:
    """What the network calls each array of weights."""
    found = {
        "words": "embeddings.word_embeddings.weight",
        "places": "embeddings.position_embeddings.weight",
        "kinds": "embeddings.token_type_embeddings.weight",
        "ge": "embeddings.LayerNorm.gamma",
        "he": "embeddings.LayerNorm.beta",
    }
    for i in range(layers):
        for kinds, parts in (({"w": "weight", "b": "bias"}, DENSE), ({"g": "gamma", "h": "beta"}, NORMS)):
            for part, place in parts.items():
                found |= {f"{short}{i}{part}": f"encoder.layer.{i}.{place}.{kind}" for short, kind in kinds.items()}
    return found


def weights(rng: np.random.Generator, size: Size) -> Arrays:
    """Random weights."""
    tables = {"words": size.words, "places": size.places, "kinds": 2}
    arrays = {name: normal(rng, rows, size.units) for name, rows in tables.items()}
    arrays |= {"ge": around_one(rng, size.units), "he": normal(rng, size.units, scale=0.1)}
    for i in range(size.layers):
        for part in DENSE:
            before = size.inner if part == "d" else size.units
            arrays |= dense(rng, f"{i}{part}", before, size.inner if part == "u" else size.units, gain=1.0)
        for part in NORMS:
            arrays |= {f"g{i}{part}": around_one(rng, size.units), f"h{i}{part}": normal(rng, size.units, scale=0.1)}
    return arrays


def inputs(rng: np.random.Generator, size: Size, batch: int, tokens: int) -> Arrays:
    """Tokens and weights. The first row is full, the others at least half full, and padded with random tokens, too."""
    lengths = rng.integers(tokens // 2, tokens + 1, size=batch)
    lengths[0] = tokens
    return {"x": rng.integers(0, size.words, size=(batch, tokens)), "lengths": lengths, **weights(rng, size)}


def reference(d: Arrays, heads: int = SENTENCE_HEADS) -> list[np.ndarray]:
    """The definition of the network."""
    n, tokens = d["x"].shape
    shown = np.arange(tokens) < d["lengths"][:, None]
    hidden = np.where(shown, 0, -np.inf).astype(d["words"].dtype)[:, None, None]

    def split(z: np.ndarray) -> np.ndarray:
        return z.reshape(n, tokens, heads, -1).transpose(0, 2, 1, 3)

    x = layer_norm(d["words"][d["x"]] + d["places"][:tokens] + d["kinds"][0], d["ge"], d["he"], SENTENCE_EPSILON)
    for i in range(encoder_layers(d)):
        q, k, v = (split(linear(x, d[f"w{i}{part}"], d[f"b{i}{part}"])) for part in "qkv")
        scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(q.shape[-1])) + hidden
        context = (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
        x = layer_norm(x + linear(context, d[f"w{i}o"], d[f"b{i}o"]), d[f"g{i}a"], d[f"h{i}a"], SENTENCE_EPSILON)
        inner = gelu(linear(x, d[f"w{i}u"], d[f"b{i}u"]))
        x = layer_norm(x + linear(inner, d[f"w{i}d"], d[f"b{i}d"]), d[f"g{i}f"], d[f"h{i}f"], SENTENCE_EPSILON)
    mean = (x * shown[:, :, None]).sum(axis=1) / d["lengths"][:, None]
    return [mean / np.sqrt((mean * mean).sum(axis=1, keepdims=True))]


def network(arrays: Mapping[str, Any], heads: int = SENTENCE_HEADS) -> SentenceEncoder:
    """The example's network with these weights."""
    (words, units), (inner, _) = arrays["words"].shape, arrays["w0u"].shape
    size = Size(words, len(arrays["places"]), units, heads, inner, encoder_layers(arrays))
    net = SentenceEncoder(size)
    net.initialize()
    parameters = net.collect_params()
    for name, theirs in names(size.layers).items():
        parameters[theirs].set_data(arrays[name])
    return net


def program(arrays: Mapping[str, Any], hybridized: bool) -> Program:
    return inference(network(arrays), hybridized, arrays["x"], arrays["lengths"])


def _workload(name: str, batch: int, tokens: int) -> Workload:
    network, size = NETWORKS.get(name, ("all-MiniLM-L6-v2", Size()))
    places = batch * tokens
    weight = size.layers * size.units * (4 * size.units + 2 * size.inner)
    return Workload(
        name,
        f"{network}'s network on {batch} text{'s' * (batch > 1)} of up to {tokens} tokens",
        lambda rng: inputs(rng, size, batch, tokens),
        reference,
        program,
        F32 * (weight + places * size.units + batch * size.units),
        2 * places * weight + 4 * places * tokens * size.units * size.layers,
    )


SENTENCE_WORKLOADS = {name: _workload(name, *shape) for name, shape in SENTENCES.items()}
DEEP_WORKLOADS = {name: _workload(name, *shape) for name, shape in DEEP_ENCODERS.items()}
