"""Operators and helpers of mx.contrib, for MXNet and for hybridc."""

import collections
import tempfile
import warnings
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(7)
HEADS = 2
QKV = RNG.normal(size=(5, 3, HEADS * 3 * 4)).astype(np.float32)
QUERIES = RNG.normal(size=(4, 3, HEADS * 4)).astype(np.float32)
KEYS_VALUES = RNG.normal(size=(6, 3, HEADS * 2 * 4)).astype(np.float32)


def grads(mx, function, *arrays):
    """The result and the gradients of the sum of its squares."""
    given = [mx.nd.array(x) for x in arrays]
    for x in given:
        x.attach_grad()
    with mx.autograd.record():
        y = function(*given)
        loss = (y * y).sum()
    loss.backward()
    return [y.asnumpy(), *[x.grad.asnumpy() for x in given]]


def attention(mx):
    """Self-attention and attention of a decoder to an encoder."""
    c = mx.nd.contrib

    def own(x):
        scores = mx.nd.softmax(c.interleaved_matmul_selfatt_qk(x, heads=HEADS))
        return c.interleaved_matmul_selfatt_valatt(x, scores, heads=HEADS)

    def cross(q, x):
        scores = mx.nd.softmax(c.interleaved_matmul_encdec_qk(q, x, heads=HEADS))
        return c.interleaved_matmul_encdec_valatt(x, scores, heads=HEADS)

    found = {"selfatt_qk": c.interleaved_matmul_selfatt_qk(mx.nd.array(QKV), heads=HEADS).asnumpy()}
    found["encdec_qk"] = c.interleaved_matmul_encdec_qk(
        *map(mx.nd.array, (QUERIES, KEYS_VALUES)), heads=HEADS
    ).asnumpy()
    for name, values in (("self", grads(mx, own, QKV)), ("cross", grads(mx, cross, QUERIES, KEYS_VALUES))):
        found |= {f"{name}.{i}": x for i, x in enumerate(values)}
    return found


COUNTS = collections.Counter(["a", "b", "b", "c", "c", "c", "some_word$", "d", "d", "d", "d"])
FIRST = "a 0.1 0.2 0.3\nb 1 2 3\nb 7 7 7\nheader 4\n<unk> 9 8 7\nc 4 5 6\n"
SECOND = "a,5,6\nc,7,8\n"


def texts(mx):
    """Vocabularies, and vectors of words."""
    text = mx.contrib.text
    found = {}
    words = text.utils.count_tokens_from_str(" Life is great ! \n life is good . \n", " ", "\n", True)
    found["counted"] = sorted(words.items())
    for name, given in {
        "all": {},
        "rare": {"min_freq": 2},
        "few": {"most_freq_count": 3},
        "reserved": {"reserved_tokens": ["b", "<pad>"], "most_freq_count": 2, "unknown_token": "?"},
    }.items():
        vocabulary = text.vocab.Vocabulary(COUNTS, **given)
        found[f"vocabulary.{name}"] = [
            vocabulary.idx_to_token,
            vocabulary.token_to_idx,
            len(vocabulary),
            vocabulary.to_indices(["c", "z", "b"]),
            vocabulary.to_indices("c"),
            vocabulary.to_tokens([0, 1]),
            vocabulary.reserved_tokens,
        ]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        files = [Path(folder) / name for name in ("first", "second")]
        for file, content in zip(files, (FIRST, SECOND)):
            file.write_text(content)
        first = text.embedding.CustomEmbedding(str(files[0]))
        second = text.embedding.CustomEmbedding(str(files[1]), elem_delim=",", init_unknown_vec=mx.nd.ones)
        vocabulary = text.vocab.Vocabulary(COUNTS)
        within = text.embedding.CustomEmbedding(str(files[0]), vocabulary=vocabulary)
        both = text.embedding.CompositeEmbedding(vocabulary, [first, second])
    for name, each in {"first": first, "second": second, "within": within, "both": both}.items():
        found[f"embedding.{name}"] = [each.idx_to_token, each.vec_len, each.idx_to_vec.asnumpy().tolist()]
    first.update_token_vectors(["a", "c"], mx.nd.array([[2, 2, 2], [3, 3, 3]]))
    second.update_token_vectors("<unk>", mx.nd.array([6, 6]))
    found["looked_up"] = [
        first.get_vecs_by_tokens(["c", "z", "A"]).asnumpy().tolist(),
        first.get_vecs_by_tokens("A", lower_case_backup=True).asnumpy().tolist(),
        second.get_vecs_by_tokens(["unknown", "c"]).asnumpy().tolist(),
    ]
    found["names"] = {k: sorted(v) for k, v in text.embedding.get_pretrained_file_names().items()}
    return found


def gradients(mx):
    """The older interface of gradients."""
    old = mx.contrib.autograd
    x, y = mx.nd.array([1, 2, 3]), mx.nd.array([4, 5, 6])
    (dx, dy), out = old.grad_and_loss(lambda x, y: x * x * y)(x, y)
    found = {"dx": dx, "dy": dy, "out": out, "second": old.grad(lambda x, y: x * y * y, argnum=1)(x, y)[0]}
    gradient = mx.nd.ones((3,))
    old.mark_variables([x], [gradient], "add")
    with old.train_section():
        z = x * 3
        with old.test_section():
            recorded = mx.autograd.is_recording(), mx.autograd.is_training()
        inside = mx.autograd.is_recording(), mx.autograd.is_training()
    old.backward([z], [mx.nd.array([1, 10, 100])])
    found = {key: value.asnumpy().tolist() for key, value in {**found, "added": gradient}.items()}
    found["modes"] = [recorded, inside, [old.set_is_training(True), old.set_is_training(False)]]
    return found


def batches(mx):
    """A DataLoader as an iterator."""
    data = mx.gluon.data.ArrayDataset(np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10, dtype=np.float32))
    iterator = mx.contrib.io.DataLoaderIter(mx.gluon.data.DataLoader(data, 4))
    found = [[d.name, list(d.shape)] for d in (*iterator.provide_data, *iterator.provide_label)]
    for _ in range(2):
        for batch in iterator:
            kept = 4 - batch.pad
            found.append([batch.data[0].asnumpy()[:kept].tolist(), batch.label[0].asnumpy()[:kept].tolist(), batch.pad])
        iterator.reset()
    return found
