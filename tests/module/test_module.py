"""Modules beyond what MXNet's golden data covers: bad input, compilation, and what is better here."""

from __future__ import annotations

import logging
import re
import sys

import numpy as np
import pytest

import hybridc as mx
from hybridc.errors import CheckError, MXNetError, UnsupportedError

pytestmark = pytest.mark.usefixtures("by_numpy")


def net():
    """A layer and a softmax."""
    return mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), name="softmax")


def bound(symbol=None, rows=4, **options):
    """A module that is ready."""
    module = mx.mod.Module(symbol or net(), **options)
    module.bind([("data", (rows, 2))], [("softmax_label", (rows,))])
    module.init_params(mx.init.One())
    return module


def batch(rows=4, seed=0):
    """A batch of random numbers."""
    data = np.random.RandomState(seed).rand(rows, 2)
    return mx.io.DataBatch([mx.nd.array(data)], [mx.nd.array(np.arange(rows) % 3)])


def softmax(x):
    """Of rows, in float64."""
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def test_a_step_is_that_of_numpy():
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    x = batch()
    module.forward_backward(x)
    module.update()
    data = x.data[0].asnumpy().astype(np.float64)
    error = softmax(data @ np.ones((2, 3))) - np.eye(3)[np.arange(4) % 3]
    arguments, states = module.get_params()
    np.testing.assert_allclose(arguments["fc_weight"].asnumpy(), 1 - 0.5 * error.T @ data / 4, rtol=1e-5)
    np.testing.assert_allclose(arguments["fc_bias"].asnumpy(), -0.5 * error.sum(0) / 4, rtol=1e-5, atol=1e-7)
    assert states == {}


def test_batches_of_known_sizes_compile_nothing():
    module = bound()
    for rows in (4, 2, 3):
        module.forward(batch(rows), is_train=False)
    with mx.no_recompile():
        for rows in (2, 4, 3, 2):
            x = batch(rows, rows)
            module.forward(x, is_train=False)
            wanted = softmax(x.data[0].asnumpy().astype(np.float64) @ np.ones((2, 3)))
            np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), wanted, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Data provided by label_shapes")
def test_batches_without_labels_may_have_another_size():
    module = bound()
    assert module.predict(np.ones((2, 2), np.float32)).shape == (2, 3)
    assert module.predict(mx.io.NDArrayIter(np.ones((9, 2), np.float32), None, 5)).shape == (9, 3)
    module.forward_backward(batch())
    assert module.get_outputs()[0].shape == (4, 3)
    with pytest.raises(MXNetError, match=r"fc_weight would need the shape \(3, 5\) instead of \(3, 2\)"):
        module.predict(np.ones((4, 5), np.float32))
    assert module.predict(np.ones((2, 2), np.float32)).shape == (2, 3)


@pytest.mark.filterwarnings("ignore:Data provided by label_shapes")
def test_parameters_stay_when_it_is_bound_again():
    module = bound()
    module.init_optimizer(optimizer_params={"learning_rate": 0.5})
    module.forward_backward(batch())
    module.update()
    module.bind([("data", (2, 2))], for_training=False, force_rebind=True)
    assert not np.allclose(module.get_params()[0]["fc_weight"].asnumpy(), 1)
    assert module.predict(np.ones((2, 2), np.float32)).shape == (2, 3)


def test_a_batch_for_each_device():
    module = bound(context=[mx.cpu(0), mx.cpu(1)])
    parts = [batch(2, 1), batch(2, 2)]
    module.forward(parts, is_train=False)
    whole = np.concatenate([part.data[0].asnumpy() for part in parts])
    np.testing.assert_allclose(module.get_outputs()[0].asnumpy(), softmax(whole @ np.ones((2, 3))), rtol=1e-5)
    metric = mx.metric.create("acc")
    module.update_metric(metric, [part.label for part in parts], pre_sliced=True)
    assert metric.num_inst == 4


def test_metrics_and_losses_without_labels():
    loss = mx.sym.MakeLoss(mx.sym.sum(mx.sym.var("data") ** 2), name="loss")
    module = mx.mod.Module(loss, label_names=None)
    module.bind([("data", (4, 2))], inputs_need_grad=True)
    module.init_params()
    module.forward_backward(batch())
    metric = mx.metric.Loss()
    module.update_metric(metric, [])
    np.testing.assert_allclose(metric.get()[1], (batch().data[0].asnumpy() ** 2).sum(), rtol=1e-5)
    np.testing.assert_allclose(module.get_input_grads()[0].asnumpy(), 2 * batch().data[0].asnumpy(), rtol=1e-5)


def test_fixed_parameters_and_requests_by_name():
    module = mx.mod.Module(net(), fixed_param_names=["fc_weight"])
    module.bind([("data", (4, 2))], [("softmax_label", (4,))], grad_req={"fc_bias": "add"})
    assert module._exec_group.grad_req == {
        "data": "null", "fc_weight": "null", "fc_bias": "add", "softmax_label": "null",
    }  # fmt: skip


def test_initializers_of_variables_and_missing_values():
    weight = mx.sym.var("w", init=mx.init.Constant(7))
    module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), weight, num_hidden=1, name="fc"), label_names=None)
    module.bind([("data", (4, 2))])
    with pytest.raises(MXNetError, match="fc_bias is not presented"):
        module.init_params(arg_params={"w": mx.nd.ones((1, 2))}, aux_params={})
    module.init_params(arg_params={"fc_bias": mx.nd.ones(1)}, aux_params={}, allow_missing=True)
    assert module.get_params()[0]["w"].asnumpy().tolist() == [[7, 7]]
    module.set_params({"w": mx.nd.ones((1, 2)) * 3}, {}, allow_missing=True)
    assert module.get_params()[0]["w"].asnumpy().tolist() == [[3, 3]]
    with pytest.raises(ValueError, match='"other" that is not in the arguments'):
        module.set_params({"other": mx.nd.ones(1)}, {}, allow_missing=True)
    module.set_params({"other": mx.nd.ones(1)}, {}, allow_missing=True, allow_extra=True)
    with pytest.raises(MXNetError, match=r"w has shape \(1, 2\), the given value \(2, 1\)"):
        module.set_params({"w": mx.nd.ones((2, 1)), "fc_bias": mx.nd.ones(1)}, {})


BAD = {
    "data_names": (lambda: mx.mod.Module(net(), data_names=["x"]), ValueError, "x' is not found .*you mean .*data"),
    "order": (lambda: mx.mod.Module(net()).init_params(), AssertionError, "call bind before"),
    "unready": (lambda: mx.mod.Module(net()).forward(batch()), AssertionError, "call bind before"),
    "names": (lambda: mx.mod.Module(net()).bind([("x", (2, 2))]), ValueError, "don't match names specified by data"),
    "sizes": (
        lambda: mx.mod.Module(net()).bind([("data", (4, 2))], [("softmax_label", (3,))]),
        AssertionError,
        "same batch size: batch_size = 4, but softmax_label",
    ),
    "devices": (
        lambda: bound(rows=2, context=[mx.cpu(i) for i in range(3)]), ValueError, "Some splits are empty: a batch of 2",
    ),
    "loads": (lambda: mx.mod.Module(net(), work_load_list=[1, 2]), AssertionError, "2 numbers for 1 devices"),
    "epochs": (lambda: mx.mod.Module(net()).fit(None), AssertionError, "specify number of epochs"),
    "no grads": (lambda: bound().get_input_grads(), AssertionError, "inputs_need_grad=True"),
    "optimizer": (lambda: bound().update(), AssertionError, "call init_optimizer before"),
    "what": (lambda: bound().predict([1]), ValueError, "must be of type NDArray or DataIter, got list"),
    "kvstore": (lambda: bound().init_optimizer(kvstore=3), TypeError, "kvstore must be KVStore, str or None, got 3"),
    "nccl": (lambda: bound().init_optimizer(kvstore="nccl"), MXNetError, "takes arrays on GPUs, got one on cpu"),
    "bucket": (lambda: mx.mod.BucketingModule(lambda n: None), AssertionError, "default_bucket_key is missing"),
    "meta": (lambda: mx.mod.SequentialModule().add(None, take_label=True), AssertionError, 'Unknown meta "take_label"'),
    "twice": (
        lambda: mx.model.FeedForward(mx.sym.Group([net(), net()])), ValueError, 'Find duplicated argument name "data"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
@pytest.mark.filterwarnings("ignore")
def test_bad_input(name):
    run, kind, text = BAD[name]
    with pytest.raises(kind, match=text):
        run()


def test_names_of_submodules():
    from hybridc.module.base_module import BaseModule
    from hybridc.module.executor_group import DataParallelExecutorGroup

    assert mx.mod is mx.module
    assert mx.mod.base_module.BaseModule is mx.mod.BaseModule is BaseModule
    assert mx.mod.executor_group.DataParallelExecutorGroup is DataParallelExecutorGroup
    assert mx.executor_manager._split_input_slice(10, [1, 1, 3]) == [slice(0, 2), slice(2, 4), slice(4, 10)]
    assert mx.kv is mx.kvstore
    assert mx.mon is mx.monitor
    assert mx.io.io.NDArrayIter is mx.io.NDArrayIter
    assert {"CSVIter", "ImageRecordIter", "ImageDetRecordIter", "MXDataIter", "utils"} <= {*dir(mx.io)}
    with pytest.raises(AttributeError, match="did you mean Module"):
        mx.mod.Modul  # noqa: B018


def test_executor_manager():
    data = mx.io.NDArrayIter(np.ones((4, 2)), np.zeros(4), 4)
    manager = mx.executor_manager.DataParallelExecutorManager(net(), [mx.cpu(0), mx.cpu(1)], data)
    manager.set_params({"fc_weight": mx.nd.ones((3, 2)), "fc_bias": mx.nd.zeros(3)}, {})
    manager.load_data_batch(next(data))
    manager.forward(is_train=True)
    manager.backward()
    grads = [g.asnumpy() for g in manager.grad_arrays[manager.param_names.index("fc_bias")]]
    np.testing.assert_allclose(grads, [[-4 / 3, 2 / 3, 2 / 3]] * 2, rtol=1e-5)
    metric = mx.metric.create("acc")
    manager.update_metric(metric, [mx.nd.zeros(4)])
    assert metric.num_inst == 4


# --- stores ----------------------------------------------------------------------------------------------------


def test_stores_say_what_is_wrong():
    store = mx.kv.create()
    store.init(1, mx.nd.ones(2))
    for run, kind, text in [
        (lambda: store.init(1, mx.nd.ones(2)), MXNetError, "duplicate init of key 1"),
        (lambda: store.init("a", mx.nd.ones(2)), MXNetError, "Mixed key types are not allowed: got 'a'"),
        (lambda: store.push(2, mx.nd.ones(2)), MXNetError, "key 2 has not been inited.*Keys: 1"),
        (lambda: store.pull(1), AssertionError, "out is missing"),
        (lambda: store.pull(1, mx.nd.ones(3)), MXNetError, r"key 1 has shape \(2,\), the array \(3,\)"),
        (lambda: store.push(1, 5), TypeError, "must be an NDArray or a list of NDArrays, got int"),
        (lambda: store.push(1.5, mx.nd.ones(2)), AssertionError, "unexpected type for keys: float"),
        (lambda: store.push([1, "a"], [mx.nd.ones(2)] * 2), AssertionError, "inconsistent types of keys"),
        (lambda: store.row_sparse_pull(1, mx.nd.ones(2)), AssertionError, "out and row_ids are needed"),
        (
            lambda: store.row_sparse_pull(1, mx.nd.ones(2), row_ids=mx.nd.array([0])),
            AssertionError,
            "key 1 is default, the array default; use pull",
        ),
        (lambda: store.save_optimizer_states("x"), AssertionError, "call set_optimizer before"),
        (lambda: store.set_gradient_compression({"type": "2bit"}), MXNetError, "not supported for this type"),
        (lambda: mx.kv.create("dist_async"), UnsupportedError, "local SGD.*sync_every=k.*'dist_sync' sums"),
        (lambda: mx.kv.create("nearby"), MXNetError, "no store 'nearby'; there are 'local'"),
        (lambda: mx.kv.create(None), TypeError, "name must be a string"),
        (lambda: mx.kv.KVStoreServer(store).run(), UnsupportedError, "no servers here.*hybridc launch -n N"),
    ]:
        with pytest.raises(kind, match=text):
            run()


class Counting(mx.kv.KVStoreBase):
    """A user's store that sums."""

    def __init__(self):
        self.keys = []

    def broadcast(self, key, value, out, priority=0):
        for each in out:
            each[:] = value

    def pushpull(self, key, value, out=None, priority=0):
        self.keys.append(key)
        total = sum(value[1:], value[0].copy())
        for each in value if out is None else out:
            each[:] = total

    def is_capable(self, capability):
        return False

    type = "counting"


def trained(kvstore, devices, **options):
    """A parameter after two steps of a trainer."""
    dense = mx.gluon.nn.Dense(1, use_bias=False, in_units=2)
    dense.initialize(mx.init.One(), ctx=[mx.cpu(i) for i in range(devices)])
    trainer = mx.gluon.Trainer(
        dense.collect_params(), "sgd", {"learning_rate": 0.5, "momentum": 0.9}, kvstore=kvstore, **options
    )
    for step in range(2):
        with mx.autograd.record():
            losses = [dense(mx.nd.ones((1, 2), ctx=mx.cpu(i)) * (i + step)).sum() for i in range(devices)]
        mx.autograd.backward(losses)
        trainer.step(devices)
    return trainer, dense.weight.data(mx.cpu(devices - 1)).asnumpy()


@pytest.mark.parametrize("devices", [1, 2])
def test_trainers_take_stores(devices, tmp_path):
    wanted = trained("device", devices)[1]
    for kvstore in ("local", mx.kv.create("device"), mx.kv.create("teststore"), Counting()):
        trainer, found = trained(kvstore, devices)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        trainer.save_states(str(tmp_path / "s"))
        trainer.load_states(str(tmp_path / "s"))
        assert trainer.learning_rate == 0.5
    store = mx.kv.create("local")
    np.testing.assert_allclose(trained(store, devices, update_on_kvstore=False)[1], wanted, rtol=1e-6)
    assert not isinstance(store._updater, mx.optimizer.Updater)
    with pytest.raises(CheckError, match="Try setting `update_on_kvstore` to False"):
        trained(mx.kv.create("local"), devices)[0].allreduce_grads()


def test_a_store_of_ones_own_class():
    registry = dict(mx.kv.KVStoreBase.kv_registry)
    try:
        mx.kv.KVStoreBase.register(Counting)
        assert isinstance(mx.kv.create("counting"), Counting)
        trainer, _ = trained("counting", 2)
        assert trainer.store.keys == [0, 0]
        with pytest.raises(ValueError, match="update_on_kvstore=False when training with Counting"):
            trained("counting", 2, update_on_kvstore=True)
        module = bound(context=[mx.cpu(0), mx.cpu(1)])
        module.init_optimizer(kvstore=Counting())
        module.forward_backward(batch())
        module.update()
        assert module._kvstore.keys == ["fc_weight", "fc_bias"]
    finally:
        mx.kv.KVStoreBase.kv_registry.clear()
        mx.kv.KVStoreBase.kv_registry.update(registry)


# --- the small namespaces --------------------------------------------------------------------------------------


def test_progress_bar(caplog):
    caplog.set_level(logging.INFO)
    bar = mx.callback.ProgressBar(total=4, length=8)
    for i in (1, 4):
        bar(mx.model.BatchEndParam(epoch=0, nbatch=i, eval_metric=None, locals=None))
    assert [r.getMessage() for r in caplog.records] == ["[==------] 25%\r", "[========] 100%\r"]


def test_engine_and_rtc():
    before = mx.engine.set_bulk_size(7)
    with mx.engine.bulk(3):
        assert mx.engine.set_bulk_size(3) == 3
    assert mx.engine.set_bulk_size(before) == 7
    with pytest.raises(UnsupportedError, match=r"mx\.rtc\.CudaModule.*mx\.op"):
        mx.rtc.CudaModule("__global__ void f() {}")


def test_loggers(tmp_path, capsys):
    logger = mx.log.get_logger("hybridc.test.colours", level=mx.log.INFO)
    assert mx.log.get_logger("hybridc.test.colours", level=mx.log.ERROR) is logger
    assert len(logger.handlers) == 1
    logger.handlers[0].setStream(__import__("sys").stderr)
    logger.info("text %d", 3)
    line = capsys.readouterr().err
    assert re.match(r"\x1b\[32mI\d{4} \d\d:\d\d:\d\d \d+ .*test_module\.py:test_loggers:\d+\]\x1b\[0m text 3\n", line)
    file = mx.log.get_logger("hybridc.test.file", str(tmp_path / "log"), level=mx.log.DEBUG)
    file.debug("kept")
    assert (tmp_path / "log").read_text() == "kept\n"
    with pytest.warns(DeprecationWarning, match="use get_logger"):
        assert mx.log.getLogger("hybridc.test.file") is file
    assert mx.log.get_logger() is logging.getLogger()


# --- files -----------------------------------------------------------------------------------------------------


def test_bad_files(tmp_path):
    def wrote(name, text):
        path = tmp_path / name
        path.write_bytes(text)
        return str(path)

    table = wrote("a.csv", b"1,2\n3,4\n")
    images = wrote("i", np.array([2051, 1, 1, 1], ">u4").tobytes() + b"\0")
    labels = wrote("l", np.array([2049, 1], ">u4").tobytes() + b"\0")
    csv, svm, mnist = mx.io.CSVIter, mx.io.LibSVMIter, mx.io.MNISTIter
    for run, text in [
        (lambda: csv("none.csv", (2,), batch_size=1), "cannot read none.csv: No such file"),
        (lambda: csv(table, (3,), batch_size=1), r"specified shape=\(3,\), the csv row-length=2"),
        (lambda: csv(wrote("b.csv", b"1,x\n"), (2,), batch_size=1), "not a table of float32"),
        (lambda: csv(wrote("c.csv", b""), (2,), batch_size=1), "has no rows"),
        (lambda: csv(table, (2,), batch_size=0), "2 rows make no batches of 0"),
        (lambda: csv(table, (2,), batch_size=1, dtype="float16"), "must be float32, int32 or int64, got float16"),
        (lambda: csv(table, (2,), wrote("d.csv", b"1\n"), batch_size=1), "2 rows of data, but 1 of labels"),
        (lambda: svm(wrote("s", b"1 5:1\n"), (3,), batch_size=1), "line 1: .*indices below 3, got '1 5:1'"),
        (lambda: mnist(images, images, batch_size=1), "not a file of MNIST with 1 dimensions"),
        (lambda: mnist(images, labels, batch_size=2), "1 images make no batches of 2"),
        (lambda: mnist(wrote("j", b"\0\0\x08\x01\0\0\0\x05"), labels, batch_size=1), "3 dimensions"),
        (lambda: mnist(images, labels, batch_size=1, num_parts=2, part_index=2), "part_index must be from 0 to 1"),
    ]:
        with pytest.raises(MXNetError, match=text):
            run()


def test_gzipped_and_shuffled_mnist(tmp_path):
    import gzip

    images, labels = np.arange(8, dtype=np.uint8), np.arange(8, dtype=np.uint8)
    files = {"image": str(tmp_path / "i.gz"), "label": str(tmp_path / "l.gz")}
    (tmp_path / "i.gz").write_bytes(gzip.compress(np.array([2051, 8, 1, 1], ">u4").tobytes() + images.tobytes()))
    (tmp_path / "l.gz").write_bytes(gzip.compress(np.array([2049, 8], ">u4").tobytes() + labels.tobytes()))
    iterator = mx.io.MNISTIter(**files, batch_size=4, seed=1)
    order = [batch.label[0].asnumpy() for batch in iterator]
    iterator.reset()
    for batch, label in zip(iterator, order, strict=True):
        np.testing.assert_allclose(batch.data[0].asnumpy().ravel() * 256, label)
        assert batch.label[0].asnumpy().tolist() == label.tolist()
    flat = np.concatenate(order).tolist()
    assert sorted(flat) == list(range(8)) != flat
    iterator.reset()
    iterator.debug_skip_load()
    assert next(iterator) is next(iterator)


@pytest.mark.parametrize("kind", ["dict", "lists", "list"])
def test_arrays_are_on_the_devices_of_their_groups(kind):
    """As in MXNet 1.9.1."""
    with mx.AttrScope(ctx_group="first"):
        double = mx.sym.var("a") * 2
    with mx.AttrScope(ctx_group="second"):
        symbol = double + mx.sym.var("b")
    groups = {"first": mx.cpu(1), "second": mx.cpu(2)}
    given = {"dict": groups, "lists": {k: [v] for k, v in groups.items()}, "list": [groups]}[kind]
    module = mx.mod.Module(symbol, ("a", "b"), None, group2ctxs=given)
    module.bind([("a", (2, 5)), ("b", (2, 5))], inputs_need_grad=True)
    module.init_params()
    module.forward(mx.io.DataBatch([mx.nd.ones((2, 5)), mx.nd.ones((2, 5))]), is_train=True)
    module.backward([mx.nd.ones((2, 5))])
    grads = module.get_input_grads()
    assert [x.context for x in grads] == [mx.cpu(1), mx.cpu(2)]
    assert [x.asnumpy()[0, 0] for x in grads] == [2, 1]
    (output,) = module.get_outputs()
    assert (output.context, output.asnumpy()[0, 0]) == (mx.cpu(2), 3)
    with pytest.raises(CheckError, match="one device, or one for each of 1"):
        mx.mod.Module(symbol, ("a", "b"), None, group2ctxs={"first": [mx.cpu()] * 2}).bind([("a", (2,)), ("b", (2,))])


def test_a_monitor_prints_as_mxnet(caplog):
    """Eight digits, names to the left; gradients of operators' inputs, too."""
    module = bound()
    monitor = mx.mon.Monitor(1, lambda x: [x.sum() / 3, x.max()], "fc_(weight|output|backward_output1)|softmax_back")
    module.install_monitor(monitor)
    monitor.tic()
    module.forward_backward(batch())
    with caplog.at_level(logging.INFO):
        monitor.toc_print()
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[2] for line in lines] == [
        *("fc_output", "softmax_backward_output0", "fc_backward_output1", "fc_weight"),
    ]
    assert lines[3] == f"Batch:       1 {'fc_weight':30} 2.0\t1.0\t"
    digits = re.compile(rf"Batch:       1 {'fc_output':30} (\d\.\d{{5,8}})\t(\d\.\d{{5,8}})\t")
    assert digits.fullmatch(lines[0])


def test_a_program_configures_logging_after_using_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.WARNING)
    (tmp_path / "i").write_bytes(np.array([2051, 8, 1, 2], ">u4").tobytes() + bytes(16))
    (tmp_path / "l").write_bytes(np.array([2049, 8], ">u4").tobytes() + bytes(8))
    files = {"image": str(tmp_path / "i"), "label": str(tmp_path / "l")}
    data = mx.io.MNISTIter(**files, batch_size=4, flat=True, silent=False)
    module = mx.mod.Module(net())
    module.fit(data, num_epoch=1)
    module.save_checkpoint(str(tmp_path / "m"), 0)
    assert logging.root.handlers == []
    logging.basicConfig(level=logging.INFO, filename=tmp_path / "log")
    module.fit(data, num_epoch=1)
    lines = (tmp_path / "log").read_text().splitlines()
    logging.root.handlers[0].close()
    assert any(line.startswith("INFO:root:Epoch[0] Train-accuracy=") for line in lines)


@pytest.mark.demo
def test_fit_shows_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    data = mx.io.NDArrayIter(np.ones((8, 2), np.float32), np.zeros(8), 4, label_name="softmax_label")
    module = mx.mod.Module(net())
    module.fit(data, num_epoch=1)
    assert "epoch 0" in capsys.readouterr().err
    data.reset()
    mx.mod.Module(net()).fit(data, num_epoch=1, batch_end_callback=lambda _: None)  # which shows progress itself
    assert not capsys.readouterr().err


# --- initializers of operators ------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [None, mx.init.One()])
def test_parameters_have_the_initializers_of_their_operators(given):
    """A Module's initializer does not reach them, as in MXNet 1.9.1; one that the variable has is kept."""
    x = mx.sym.LeakyReLU(mx.sym.var("data"), mx.sym.var("slope", init=given), act_type="prelu")
    x = mx.sym.IdentityAttachKLSparseReg(mx.sym.BatchNorm(mx.sym.FullyConnected(x, num_hidden=2), name="bn"), name="kl")
    module = mx.mod.Module(mx.sym.LeakyReLU(x, act_type="prelu", name="last"), label_names=None)
    module.bind(data_shapes=[("data", (4, 3))])
    module.init_params(mx.init.Constant(7))
    arguments, states = module.get_params()
    values = {name: set(array.asnumpy().ravel().tolist()) for name, array in {**arguments, **states}.items()}
    assert values["slope"] == {0.25 if given is None else 1}
    assert values["last_gamma"] == {0.25}
    assert (values["bn_moving_mean"], values["bn_moving_var"], values["kl_moving_avg"]) == ({0}, {1}, {0})
    assert module.symbol.attr_dict()["last_gamma"]["__init__"] == '["Constant", {"value": 0.25}]'
