"""What programs take from MXNet's modules of Gluon besides layers: files, whole models, hooks, data of contrib."""

from __future__ import annotations

import hashlib
import http.server
import inspect
import json
import threading
import zipfile

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd

# --- files from elsewhere -----------------------------------------------------------------------------------


def test_files_are_copied_and_checked(tmp_path, capsys):
    source = tmp_path / "source.bin"
    source.write_bytes(b"hello")
    sha1 = hashlib.sha1(b"hello").hexdigest()
    folder = tmp_path / "there"
    folder.mkdir()
    url = source.as_uri()
    file = gluon.utils.download(url, path=str(folder), sha1_hash=sha1)
    assert file == str(folder / "source.bin")
    assert gluon.utils.check_sha1(file, sha1)
    assert f"from {url}" in capsys.readouterr().out
    source.write_bytes(b"other")
    assert gluon.utils.download(url, path=file) == file  # is there
    assert (folder / "source.bin").read_bytes() == b"hello"
    assert not capsys.readouterr().out
    gluon.utils.download(url, path=file, overwrite=True)
    assert (folder / "source.bin").read_bytes() == b"other"
    with pytest.raises(UserWarning, match="the content hash does not match: its SHA-1 is"):
        gluon.utils.download(url, path=file, sha1_hash=sha1, retries=2)
    assert (folder / "source.bin").read_bytes() == b"other"  # what was wrong is not kept
    assert [p.name for p in folder.iterdir()] == ["source.bin"]
    gluon.utils.replace_file(file, str(source))
    assert not (folder / "source.bin").exists()


def test_files_come_by_http_and_errors_say_what_to_do(tmp_path):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            code = 404 if self.path == "/absent.bin" else 503 if len(asked) == 1 else 200
            self.send_response(code)
            self.end_headers()
            self.wfile.write(b"content")

        def log_message(self, *args):
            pass

    asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        assert gluon.utils.download(f"{address}/file.bin", str(tmp_path / "file.bin")) == str(tmp_path / "file.bin")
        assert (tmp_path / "file.bin").read_bytes() == b"content"
        assert asked == ["/file.bin"] * 2  # tried again
        with pytest.raises(mx.MXNetError, match="the server answers 404, Not Found"):
            gluon.utils.download(f"{address}/absent.bin", str(tmp_path))
        assert asked.count("/absent.bin") == 1
    finally:
        server.shutdown()
        server.server_close()
    with pytest.raises(
        mx.MXNetError, match=r"Failed downloading .*refused.*put the file \(SHA-1 ab\) there by hand: .*x.bin"
    ):
        gluon.utils.download(f"{address}/x.bin", str(tmp_path), sha1_hash="ab", retries=1)
    with pytest.raises(AssertionError, match="Number of retries should be at least 0"):
        gluon.utils.download(f"{address}/x.bin", retries=-1)
    with pytest.raises(AssertionError, match="is no URL"):
        gluon.utils.download("/x.bin")
    with pytest.raises(AssertionError, match="Can't construct file-name"):
        gluon.utils.download(f"{address}/")


def test_addresses_of_mxnets_files(monkeypatch):
    monkeypatch.setenv("MXNET_GLUON_REPO", "http://here")
    assert gluon.utils._get_repo_url() == "http://here/"
    assert gluon.utils._get_repo_file_url("gluon/x", "f.zip") == "http://here/gluon/x/f.zip"
    monkeypatch.delenv("MXNET_GLUON_REPO")
    assert gluon.utils._get_repo_url() == "https://apache-mxnet.s3-accelerate.dualstack.amazonaws.com/"


def test_helpers_of_utils_and_block():
    from hybridc.gluon.block import _BlockScope, _flatten, _indent, _regroup

    assert gluon.utils._brief_print_list(["a", "b"]) == "'a', 'b'"
    assert gluon.utils._brief_print_list(list("abcdefgh")) == "'a', 'b', 'c', ..., 'e', 'f', 'g', 'h'"
    assert _indent("a\nb", 2) == "a\n  b"
    x, y = nd.ones((1,)), mx.sym.split(mx.sym.var("y"), num_outputs=2)
    flat, nesting = _flatten([x, [x, None], (y,)], "input")
    assert flat == [x, x, None, y]
    assert nesting == [0, [0, -1], [2]]
    assert _regroup([1, 2, None, 3, 4], nesting) == [1, [2, None], [[3, 4]]]
    with pytest.raises(ValueError, match="types that are not None"):
        _regroup([1, 2, 3, 4, 5], nesting)
    with pytest.raises(ValueError, match="nested"):
        _flatten("text", "output")
    assert _BlockScope is not None
    assert gluon.nn.SymbolBlock is gluon.block.SymbolBlock is gluon.SymbolBlock
    assert isinstance(x, gluon.parameter.tensor_types)
    assert isinstance(y, gluon.tensor_types)


# --- whole models ---------------------------------------------------------------------------------------------


class _Net(gluon.HybridBlock):
    def __init__(self, size=3, **kwargs):
        super().__init__(**kwargs)
        with self.name_scope():
            self.first = gluon.nn.Dense(size)
            self.second = gluon.nn.Dense(2)

    def hybrid_forward(self, F, x):
        return self.second(F.relu(self.first(x)))


def test_whole_models_are_saved_and_loaded(tmp_path):
    net, x, prefix = _Net(), nd.arange(8).reshape((2, 4)), str(tmp_path / "m")
    net.initialize()
    net.hybridize()
    expected = net(x).asnumpy()
    net.save(prefix)
    (described,) = json.loads((tmp_path / "m-model.json").read_text()).values()
    assert described["hybridized"]
    assert described["in_format"] == [0]
    assert list(described["children"].values()) == ["first", "second"]
    assert mx.sym.load_json(described["symbol"]).list_arguments()[0] == "data"
    again = _Net()
    again.load(prefix)
    assert again.is_active
    np.testing.assert_array_equal(again(x).asnumpy(), expected)
    plain = gluon.nn.Sequential()
    plain.add(_Net(), gluon.nn.Dense(1))
    plain.initialize()
    plain(x)
    plain.save(prefix)
    other = gluon.nn.Sequential()
    other.add(_Net(), gluon.nn.Dense(1))
    other.load(prefix)
    assert not other[0].is_active
    np.testing.assert_array_equal(other(x).asnumpy(), plain(x).asnumpy())
    with pytest.raises(KeyError, match=r"describes a block with the children '0', '1', but .* has 'first', 'second'"):
        _Net().load(prefix)
    with pytest.raises(FileNotFoundError, match="absent-model"):
        net.load(str(tmp_path / "absent"))


@pytest.mark.parametrize("monitor_all", [False, True])
def test_hooks_see_every_operator(monitor_all):
    mx.random.seed(1)  # weights of which not all give negative numbers, whose gradient is 0
    net, x, seen = _Net(prefix="net_"), nd.arange(8).reshape((2, 4)), []
    net.initialize()
    expected = net(x).asnumpy()
    net.register_op_hook(lambda name, op, array: seen.append((name, op, array.shape)), monitor_all)
    net(x)
    assert not seen  # not hybridized
    net.hybridize()
    with autograd.record():
        y = net(x)
    np.testing.assert_allclose(y.asnumpy(), expected, rtol=1e-6)
    results = [
        ("net_dense0_fwd_output", "FullyConnected", (2, 3)),
        ("net_relu0_output", "relu", (2, 3)),
        ("net_dense1_fwd_output", "FullyConnected", (2, 2)),
    ]
    assert [each for each in seen if each[0].endswith("output")] == results
    inputs = [name for name, _, _ in seen if not name.endswith("output")]
    assert inputs == (
        [*(f"net_dense0_fwd_{n}" for n in ("data", "weight", "bias")), "net_relu0_data"]
        + [f"net_dense1_fwd_{n}" for n in ("data", "weight", "bias")]
        if monitor_all
        else []
    )
    y.backward()
    assert net.first.weight.grad().asnumpy().any()


@pytest.mark.filterwarnings("ignore:All children of this Sequential")
def test_hooks_reach_blocks_inside_and_leave_statistics_right():
    inside, seen = gluon.nn.BatchNorm(in_channels=3), []
    net = gluon.nn.Sequential()
    net.add(inside)
    net.initialize()
    net.hybridize()
    net.register_op_hook(lambda name, op, array: seen.append(op))
    x = np.random.default_rng(0).standard_normal((5, 3)).astype("float32")
    with autograd.record():
        net(nd.array(x))
    assert seen == ["BatchNorm"]
    np.testing.assert_allclose(inside.running_mean.data().asnumpy(), 0.1 * x.mean(axis=0), rtol=1e-5, atol=1e-7)


def test_types_are_inferred():
    net = gluon.nn.Dense(2)
    net.infer_type(nd.ones((1, 3)))
    assert net.weight.dtype == np.float32
    with pytest.raises(mx.MXNetError, match="float16"):
        net.infer_type(nd.ones((1, 3), dtype="float16"))


def test_hybridize_names_its_options():
    names = list(inspect.signature(gluon.HybridBlock.hybridize).parameters)[1:-1]
    assert names == [
        *("active", "backend", "clear", "static_alloc", "static_shape", "inline_limit"),
        *("forward_bulk_size", "backward_bulk_size"),
        "background",  # ours
    ]
    assert inspect.signature(gluon.nn.Conv2D).parameters["layout"].default == "NCHW"
    assert inspect.signature(gluon.contrib.rnn.Conv1DLSTMCell).parameters["conv_layout"].default == "NCW"
    with pytest.raises(ValueError, match="static_aloc"):
        _Net().hybridize(static_aloc=True)


def test_cells_are_called_by_position():
    class Mine(gluon.rnn.LSTMCell):
        def hybrid_forward(self, F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias):
            out, new = super().hybrid_forward(F, inputs, states, i2h_weight, h2h_weight, i2h_bias, h2h_bias)
            return out * 2, new

    cell = Mine(3, input_size=2)
    cell.initialize()
    out, states = cell(nd.ones((1, 2)), cell.begin_state(1))
    np.testing.assert_allclose(out.asnumpy(), 2 * states[0].asnumpy())


# --- symbols of what was recorded -----------------------------------------------------------------------------


def test_symbols_of_what_was_recorded():
    x, w, c = nd.array([[1, 2]]), nd.array([[3, 4]]), nd.array([[5, 6]])
    x.attach_grad()
    w.attach_grad()
    with autograd.record():
        y = nd.exp(x * 0.1) * c + nd.FullyConnected(x, w, no_bias=True, num_hidden=1)
    symbol = autograd.get_symbol(y)
    assert symbol.list_arguments() == ["var0", "var1", "var2"]
    got = symbol.eval(var0=x, var1=c, var2=w)[0].asnumpy()
    np.testing.assert_allclose(got, np.exp([[0.1, 0.2]]) * [[5, 6]] + 11, rtol=1e-6)
    assert autograd.get_symbol(x).list_arguments() == ["var0"]
    with pytest.raises(mx.MXNetError, match="Did you forget to turn on recording"):
        autograd.get_symbol(c)
    y.backward()
    with pytest.raises(mx.MXNetError, match="differentiated already"):
        autograd.get_symbol(y)


def test_symbols_of_hybridized_calls_and_functions():
    net, x = _Net(), nd.arange(4).reshape((1, 4))
    net.initialize()
    net(x)
    net.hybridize()
    x.attach_grad()
    with autograd.record():
        y = net(x) * 2
    symbol = autograd.get_symbol(y)
    arrays = {"var0": x}
    values = [p.data() for p in net.collect_params().values()]
    for name in symbol.list_arguments()[1:]:
        shape = dict(zip(symbol.list_arguments(), symbol.infer_shape(var0=(1, 4))[0], strict=True))[name]
        arrays[name] = next(v for v in values if v.shape == shape)
        values = [v for v in values if v is not arrays[name]]
    np.testing.assert_allclose(symbol.eval(**arrays)[0].asnumpy(), y.asnumpy(), rtol=1e-5)

    class Twice(autograd.Function):
        def forward(self, a):
            return a * 2

        def backward(self, dy):
            return dy * 2

    with autograd.record():
        z = Twice()(x)
    with pytest.raises(mx.MXNetError, match="runs Python code in its backward"):
        autograd.get_symbol(z)


def test_grad_gives_a_list_for_one_variable_too():
    x = nd.array([2.0, 3.0])
    x.attach_grad()
    for variables in (x, [x]):
        with autograd.record():
            y = x * x
        found = autograd.grad(y, variables)
        assert type(found) is list
        np.testing.assert_array_equal(found[0].asnumpy(), [4, 6])


# --- data ------------------------------------------------------------------------------------------------------


def test_interval_sampler():
    sampler = gluon.contrib.data.IntervalSampler
    assert list(sampler(13, interval=3)) == [0, 3, 6, 9, 12, 1, 4, 7, 10, 2, 5, 8, 11]
    assert list(sampler(13, interval=3, rollover=False)) == [0, 3, 6, 9, 12]
    assert [len(sampler(13, 3, rollover)) for rollover in (True, False)] == [13, 5]
    with pytest.raises(AssertionError, match="Interval 4 must be smaller than or equal to length 3"):
        sampler(3, 4)


def test_wikitext_from_files(tmp_path):
    text = " \n = A title = \n \n The cat sat on the mat . \n A dog ran . The cat saw it . \n"
    with zipfile.ZipFile(tmp_path / "wikitext-2-v1.zip", "w") as archive:
        archive.writestr("wikitext-2/wiki.train.tokens", text)
        archive.writestr("wikitext-2/wiki.valid.tokens", "The dog sat .\n")
    data = gluon.contrib.data.text.WikiText2(tmp_path, seq_len=4)
    # MXNet's answer for this text.
    assert [d.asnumpy().tolist() for d, _ in data] == [
        *([3, 4, 15, 3], [1, 5, 6, 12], [10, 14, 9, 2], [1, 4, 7, 11], [2, 5, 6, 13]),
    ]
    assert data[1][1].asnumpy().tolist() == [5, 6, 12, 10]
    assert data[1][1].dtype == np.int32
    assert data.frequencies["."] == 3
    valid = gluon.contrib.data.text.WikiText2(tmp_path, "validation", vocab=data.vocabulary, seq_len=2)
    assert [d.asnumpy().tolist() for d, _ in valid] == [[5, 7], [12, 2]]
    with pytest.raises(
        mx.MXNetError, match=r"there is neither wiki.test.tokens nor wikitext-103-v1.zip in .*downloads nothing"
    ):
        gluon.contrib.data.text.WikiText103(tmp_path, "test")
    with pytest.raises(mx.MXNetError, match=r"has no wiki.test.tokens; it holds wikitext-2/wiki.train.tokens"):
        gluon.contrib.data.text.WikiText2(tmp_path, "test")
    with pytest.raises(ValueError, match="segment must be one of train, validation, test"):
        gluon.contrib.data.text.WikiText2(tmp_path, "valid")


def test_loaders_prefetch_when_told():
    drawn = []

    class Items(gluon.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, idx):
            drawn.append(idx)
            return np.float32(idx)

    loader = gluon.data.DataLoader(Items(), 2, num_workers=1, thread_pool=True, prefetch=2, auto_reload=True)
    for _ in range(2):
        assert [batch.asnumpy().tolist() for batch in loader] == [[0, 1], [2, 3]]
    loader.refresh()
    loader.clean()
    assert len(list(loader)) == len(loader) == 2
    old = gluon.data.dataloader.DataLoaderV1(Items(), 3)
    assert [len(batch) for batch in old] == [3, 1]


def test_queues_carry_arrays():
    module = gluon.data.dataloader
    keys, batches, found = module.SimpleQueue(), module.Queue(), {}
    for key in ((0, [1, 2]), (1, [0]), (None, None)):
        keys.put(key)
    module.worker_loop_v1(np.arange(3, dtype="float32"), keys, batches, module.default_batchify_fn)
    batches.put((None, None))
    module.fetcher_loop_v1(batches, found, True, 0, threading.Lock())
    assert {number: batch.asnumpy().tolist() for number, batch in found.items()} == {0: [1, 2], 1: [0]}
    assert found[0].context == mx.cpu_pinned(0)


# --- losses ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hybridized", [False, True])
def test_smoothed_deep_metric_learning_loss(hybridized):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 3))
    loss = gluon.loss.SDMLLoss(smoothing_parameter=0.2)
    if hybridized:
        loss.hybridize()

    def expected(a, b):
        scores = -((a[:, None] - b[None]) ** 2).sum(axis=2)
        log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
        labels = np.full((4, 4), 0.2 / 3) + (0.8 - 0.2 / 3) * np.eye(4)
        return (labels * (np.log(labels) - log_p)).mean(axis=1) * 4

    x, y = nd.array(a, dtype="float64"), nd.array(b, dtype="float64")
    x.attach_grad()
    with autograd.record():
        got = loss(x, y)
    np.testing.assert_allclose(got.asnumpy(), expected(a, b), rtol=1e-6)
    got.backward()
    steps = np.zeros_like(a)
    for i in np.ndindex(a.shape):
        step = np.zeros_like(a)
        step[i] = 1e-5
        steps[i] = (expected(a + step, b) - expected(a - step, b)).sum() / 2e-5
    np.testing.assert_allclose(x.grad.asnumpy(), steps, rtol=1e-4, atol=1e-6)
    with pytest.raises(AssertionError, match="one shape"):
        loss(x, y[:2])


def test_smoothed_deep_metric_learning_loss_of_mxnet():
    a, b = (nd.array(part) for part in np.split(np.random.RandomState(0).randn(8, 3), 2))
    got = gluon.loss.SDMLLoss()(a, b).asnumpy()
    np.testing.assert_allclose(got, [1.2514199, 1.3751575, 4.3180585, 4.0212564], rtol=1e-5)
