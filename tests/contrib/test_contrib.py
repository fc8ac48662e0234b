"""mx.contrib beside MXNet 1.9.1: attention, texts, the older gradients, loaders as iterators."""

from __future__ import annotations

import json
import types
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from tests.golden import contrib_cases as cases

GOLDEN = Path(__file__).parents[1] / "golden"


def test_attention_as_in_mxnet():
    with np.load(GOLDEN / "contrib.npz") as golden:
        found = cases.attention(mx)
        assert found.keys() == {name for name in golden.files if not name.startswith("quantized.")}
        for name, value in found.items():
            np.testing.assert_allclose(value, golden[name], rtol=1e-4, atol=1e-5, err_msg=name)


def flat(value):
    """Nested lists and dicts as one list."""
    if isinstance(value, dict):
        return [x for key in value for x in (key, *flat(value[key]))]
    return [x for part in value for x in flat(part)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", ["texts", "gradients", "batches"])
def test_as_in_mxnet(name):
    wanted = json.loads((GOLDEN / "contrib.json").read_text())[name]
    found = json.loads(json.dumps(getattr(cases, name)(mx)))
    for have, want in zip(flat(found), flat(wanted), strict=True):
        assert have == (pytest.approx(want, rel=1e-6) if isinstance(want, float) else want)


def test_namespaces_of_operators():
    x = mx.nd.array([[1.0, 2.0]])
    assert mx.contrib.nd.div_sqrt_dim(x).shape == mx.contrib.ndarray.div_sqrt_dim(x).shape == (1, 2)
    assert mx.contrib.sym.div_sqrt_dim(mx.sym.var("x")).list_arguments() == ["x"]
    assert "interleaved_matmul_selfatt_qk" in dir(mx.contrib.symbol)
    assert mx.nd.contrib.uniform(2, 3, shape=(4,)).min().asscalar() >= 2
    assert mx.sym.contrib.uniform(shape=(2, 3)).infer_shape()[1] == [(2, 3)]
    with pytest.raises(AttributeError, match="this quantized operator; RNN on real numbers is here"):
        _ = mx.nd.contrib.quantized_rnn


def test_files_of_vectors_are_not_downloaded(tmp_path, monkeypatch):
    with pytest.raises(mx.MXNetError, match=r"nothing is downloaded: put glove.6B.50d.txt there"):
        mx.contrib.text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path))
    with pytest.raises(KeyError, match="Cannot find pretrained file glove"):
        mx.contrib.text.embedding.GloVe(pretrained_file_name="glove")
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    folder = tmp_path / "embeddings" / "fasttext"
    folder.mkdir(parents=True)
    (folder / "wiki.simple.vec").write_text("2 3\na 1 2 3\nb 4 5 6\n")
    with pytest.warns(UserWarning, match="likely a header"):
        vectors = mx.contrib.text.embedding.create("fasttext")
    assert vectors.idx_to_token == ["<unk>", "a", "b"]
    assert vectors.idx_to_vec.shape == (3, 3)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        ("a 1 2\nb 1\nc 1 2 3\n", "c has 3 numbers, those before it have 2"),
        ("a\n", "At line 1"),
        ("", "no vector"),
        ("a 1 2\nb 1 x2\n", "At line 2 of .*: a token and its numbers are expected, got 'b 1 x2"),
        ("a 1 2\nb 1 \udcff\n", "file is not a text in utf-8: .* byte 0xff"),
    ],
)
@pytest.mark.filterwarnings("ignore:At line")
def test_files_of_vectors_that_are_none(tmp_path, content, error):
    (tmp_path / "file").write_text(content, errors="surrogateescape")
    with pytest.raises(AssertionError, match=error):
        mx.contrib.text.embedding.CustomEmbedding(str(tmp_path / "file"))
    with pytest.raises(ValueError, match="must be a valid path"):
        mx.contrib.text.embedding.CustomEmbedding(str(tmp_path / "none"))


def test_bad_vocabularies():
    vocabulary = mx.contrib.text.vocab.Vocabulary
    for given, error in (
        ({"min_freq": 0}, "min_freq must be positive"),
        ({"reserved_tokens": ["a", "a"]}, "must not hold a token twice"),
        ({"reserved_tokens": ["<unk>"]}, "must not hold the unknown token"),
        ({"counter": {"a": 1}}, "counter must be a collections.Counter"),
    ):
        with pytest.raises(AssertionError, match=error):
            vocabulary(**given)
    for index in (1, -1, "a"):
        with pytest.raises(ValueError, match="is invalid"):
            vocabulary().to_tokens(index)


def test_metrics_for_tensorboard(monkeypatch, tmp_path):
    written = []

    class SummaryWriter:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, name, value, global_step):
            written.append((self.folder, name, value, global_step))

    for package in ("mxboard", "tensorboardX", "torch"):
        monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(mx.MXNetError, match="pip install tensorboardX"):
        mx.contrib.tensorboard.LogMetricsCallback(str(tmp_path))
    monkeypatch.setitem(__import__("sys").modules, "mxboard", types.SimpleNamespace(SummaryWriter=SummaryWriter))
    metric = mx.metric.Accuracy()
    metric.update([mx.nd.array([1, 0])], [mx.nd.array([[0, 1], [0, 1]])])
    log = mx.contrib.tensorboard.LogMetricsCallback("logs", prefix="train")
    log(types.SimpleNamespace(eval_metric=metric, epoch=3))
    log(types.SimpleNamespace(eval_metric=None, epoch=4))
    assert written == [("logs", "train-accuracy", 0.5, 3)]


def test_old_gradients_of_other_things():
    with pytest.raises(AssertionError, match="argument 0 must be an NDArray"):
        mx.contrib.autograd.grad(lambda x: x)(1)
    with pytest.raises(AssertionError, match="outputs must be a list"):
        mx.contrib.autograd.backward(mx.nd.ones(1))
