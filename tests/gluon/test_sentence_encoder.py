"""The sentence encoder of examples/sentences.py beside float64 NumPy: small with random weights, and the published."""

from __future__ import annotations

import numpy as np
import pytest

import hybridc as mx
from benchmarks import sentence_workloads as workloads
from examples import sentences as example

SIZE = example.Size(words=50, places=24, units=64, heads=2, inner=96, layers=2)
TOLERANCE = 2e-6  # float32's rounding in a vector of length 1


def made(batch, tokens, seed=0):
    """Seeded inputs and weights, the vectors that NumPy makes of them in float64, and the network."""
    arrays = workloads.inputs(np.random.default_rng(seed), SIZE, batch, tokens)
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays.items()}
    net = workloads.network({k: mx.nd.array(v) for k, v in arrays.items()}, SIZE.heads)
    return arrays, workloads.reference(wide, SIZE.heads)[0], net


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (3, 7), (4, 16)])
@pytest.mark.parametrize("hybridized", [False, True])
def test_vectors_are_those_of_numpy(batch, tokens, hybridized):
    arrays, wanted, net = made(batch, tokens, seed=batch)
    if hybridized:
        net.hybridize()
    out = net(mx.nd.array(arrays["x"]), mx.nd.array(arrays["lengths"])).asnumpy()
    np.testing.assert_allclose(out, wanted, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1, rtol=1e-6)


def test_each_attention_is_one_kernel():
    arrays, _, net = made(4, 16)
    net.hybridize()
    net(mx.nd.array(arrays["x"]), mx.nd.array(arrays["lengths"]))
    kernels = [line for line in net.explain().splitlines() if "kernel fused_attention" in line]
    assert [line.split(";")[0].split(": ")[1] for line in kernels] == [f"{SIZE.layers} times"]


def test_what_is_padded_does_not_matter():
    arrays, _, net = made(4, 16)
    net.hybridize()
    tokens, lengths = arrays["x"], arrays["lengths"]
    assert lengths.min() < 16
    padded = np.where(np.arange(16) < lengths[:, None], tokens, (tokens + 1) % SIZE.words)
    first, second = (net(mx.nd.array(x), mx.nd.array(lengths)).asnumpy() for x in (tokens, padded))
    np.testing.assert_array_equal(first, second)
    row = lengths.argmin()
    alone = net(mx.nd.array(tokens[[row], : lengths[row]]), mx.nd.array(lengths[[row]])).asnumpy()
    np.testing.assert_allclose(alone[0], first[row], rtol=0, atol=TOLERANCE)


def test_weights_are_found_by_their_names_in_the_file():
    arrays, wanted, _ = made(3, 7)
    weights = {example.name_in_file(name): arrays[short] for short, name in workloads.names(SIZE.layers).items()}
    net = example.encoder(SIZE, weights | {"pooler.dense.weight": np.zeros((1, 1))})
    out = net(mx.nd.array(arrays["x"]), mx.nd.array(arrays["lengths"])).asnumpy()
    np.testing.assert_allclose(out, wanted, rtol=0, atol=TOLERANCE)
    weights.pop("encoder.layer.1.output.LayerNorm.weight")
    with pytest.raises(KeyError, match=r"layer\.1\.output\.LayerNorm\.weight"):
        example.encoder(SIZE, weights)


def test_batches_hold_each_text_once_and_have_few_shapes():
    rng = np.random.default_rng(3)
    sequences = [[*rng.integers(1, 9, size=n)] for n in rng.integers(1, 257, size=300)]
    seen, shapes = [], set()
    for rows, tokens, lengths in example.batches(sequences):
        assert tokens.size <= example.TOKENS
        seen += rows
        shapes.add(tokens.shape)
        for row, text, length in zip(rows, tokens, lengths):
            assert length == len(sequences[row])
            np.testing.assert_array_equal(text[: int(length)], sequences[row])
            assert not text[int(length) :].any()
        assert (lengths[len(rows) :] == 1).all()
    assert sorted(seen) == [*range(300)]
    assert len(shapes) <= 2 * len(example.LENGTHS)


@pytest.mark.sentences
@pytest.mark.long
def test_published_vectors():
    """The similarities that sentence-transformers' documentation prints for this model; and float64 NumPy's vectors."""
    searcher = example.Searcher()
    texts = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    vectors = searcher.vectors(texts)
    printed = [[1.0000, 0.6660, 0.1046], [0.6660, 1.0000, 0.1411], [0.1046, 0.1411, 1.0000]]
    np.testing.assert_allclose(vectors @ vectors.T, printed, rtol=0, atol=1e-4)

    arrays = {
        short: searcher.weights[example.name_in_file(name)].astype(np.float64)
        for short, name in workloads.names(example.Size().layers).items()
    }
    sequences = searcher.tokens(texts)
    tokens, lengths = example.padded(sequences, len(texts), 16)
    arrays |= {"x": tokens.astype("int64"), "lengths": lengths.astype("int64")}
    np.testing.assert_allclose(vectors, workloads.reference(arrays)[0], rtol=0, atol=TOLERANCE)
