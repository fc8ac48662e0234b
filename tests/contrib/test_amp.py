"""Automatic mixed precision: lists and converted symbols beside MXNet 1.9.1, training eagerly and compiled."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc.array.autocast import AUTOCAST
from hybridc.contrib import amp
from hybridc.gluon import nn
from tests.golden import contrib_cases as cases

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "contrib.json").read_text())


@pytest.fixture
def started():
    """Mixed precision can be started; it is ended after the test."""
    yield amp.init
    AUTOCAST.set(None, {}, (), lambda: 1.0)
    amp.amp._STARTED.scaler, amp.amp._STARTED.taken = None, False


def network():
    mx.random.seed(3)
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(8, 3, in_channels=3, use_bias=False),
        nn.BatchNorm(in_channels=8),
        nn.Activation("relu"),
        nn.AvgPool2D(2),
    )
    net.add(nn.Flatten(), nn.Dense(10, in_units=200))
    net.initialize(mx.init.Xavier())
    return net


def batch():
    rng = np.random.default_rng(3)
    return mx.nd.array(rng.normal(size=(4, 3, 12, 12))), mx.nd.array([1, 2, 3, 4])


LOSS = mx.gluon.loss.SoftmaxCrossEntropyLoss()


def test_lists_as_in_mxnet():
    found, wanted = cases.lists(mx), GOLDEN["lists"]
    assert found.keys() == wanted.keys()
    for dtype in ("float16", "bfloat16"):
        assert found[f"{dtype}.lp16"] == wanted[f"{dtype}.lp16"]
        for name in ("conditional", "losses", "kept"):
            assert json.loads(json.dumps(found[f"{dtype}.{name}"])) == wanted[f"{dtype}.{name}"]
        known = {name: where for where in ("fp32", "widest", "lp16_fp32") for name in found[f"{dtype}.{where}"]}
        compared = {n: w for w in ("fp32", "widest", "lp16_fp32") for n in wanted[f"{dtype}.{w}"] if n in known}
        # One operator here stands for two there.
        same = {"_add": "widest", "_mul": "widest", "broadcast_mul": "widest", "cast": None, "Cast": None}
        wrong = {n: (known[n], w) for n, w in compared.items() if known[n] != w and n not in same}
        assert not wrong
        assert len(compared) > 250


def casts(rows):
    return {name: value for name, value in rows if isinstance(value, list)}


def test_converted_symbols_as_in_mxnet():
    for name, rows in cases.mixed(mx).items():
        wanted = GOLDEN["mixed"][name]
        narrow = "bfloat16" if name == "bfloat16" else "float16"
        assert [r for r in rows if not isinstance(r[1], list)] == [r for r in wanted if not isinstance(r[1], list)]
        for node, found in casts(rows).items():
            assert [c == narrow for c in found] == [c == narrow for c in casts(wanted)[node]], (name, node)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_converted_blocks(dtype):
    net, (x, _) = network(), batch()
    net.hybridize()
    wanted = net(x).asnumpy()
    for options in ({}, {"cast_optional_params": True}, {"excluded_sym_names": ["hybridsequential0_dense0_fwd"]}):
        made = amp.convert_hybrid_block(net, dtype, **options)
        outs = [made(x)]
        if not options and dtype == "float16":
            made.hybridize()
            outs.append(made(x))
        tolerance = 2e-3 if dtype == "float16" else 2e-2
        for out in outs:
            np.testing.assert_allclose(out.asnumpy().astype("f"), wanted, atol=tolerance * np.abs(wanted).max())
        kinds = {p.dtype for name, p in made.collect_params().items() if name.endswith("weight")}
        assert {np.dtype(k).name for k in kinds} == {dtype if "cast_optional_params" in options else "float32"}


def test_converted_models_and_files(tmp_path):
    net, (x, _) = network(), batch()
    net.hybridize()
    wanted = net(x).asnumpy()
    net.export(str(tmp_path / "net"))
    sym, args, states = mx.model.load_checkpoint(str(tmp_path / "net"), 0)
    made, args, states = amp.convert_model(sym, args, states, cast_optional_params=True)
    assert {np.dtype(v.dtype).name for k, v in args.items() if k.endswith("weight")} == {"float16"}
    again = mx.sym.load_json(made.tojson(remove_amp_cast=False))
    out = again.bind(mx.cpu(), {"data": x, **args}, aux_states=states, grad_req="null").forward()[0]
    assert out.dtype == np.float16
    np.testing.assert_allclose(out.asnumpy().astype("f"), wanted, atol=4e-3 * np.abs(wanted).max())
    assert "amp_cast" not in made.tojson()


def trained(net, trainer, x, y, scale):
    with mx.autograd.record():
        out = net(x)
        loss = LOSS(out, y)
        if scale is None:
            loss.backward()
            return out, loss
        trainer._amp_loss_scaler._loss_scale = scale
        with amp.scale_loss(loss, trainer) as scaled:
            scaled.backward()
    return out, loss


@pytest.mark.parametrize(
    ("dtype", "hybridize"),
    [
        ("float16", False),
        ("float16", True),
        ("bfloat16", False),
        pytest.param("bfloat16", True, marks=pytest.mark.long),
    ],
)
def test_training(started, dtype, hybridize):
    net, (x, y) = network(), batch()
    trained(net, None, x, y, None)
    wanted = {name: p.grad().copy() for name, p in net.collect_params().items() if p.grad_req != "null"}
    started(dtype)
    if hybridize:
        net.hybridize()
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    out, loss = trained(net, trainer, x, y, 128.0)
    assert (np.dtype(out.dtype).name, loss.dtype) == (dtype, np.float32)
    amp.unscale(trainer)
    for name, grad in wanted.items():
        found = net.collect_params()[name].grad()
        assert found.dtype == np.float32
        error = np.linalg.norm((found - grad).asnumpy()) / np.linalg.norm(grad.asnumpy())  # some relus go the other way
        assert error < (0.02 if dtype == "float16" else 0.1), name
    before = net[0].weight.data().copy()
    trainer.step(4)
    np.testing.assert_allclose(
        net[0].weight.data().asnumpy(), (before - net[0].weight.grad() * (0.1 / 4)).asnumpy(), rtol=1e-6, atol=1e-7
    )


def test_steps_that_overflow_are_left_out(started):
    net, (x, y) = network(), batch()
    started("float16")
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    amp.init_trainer(trainer)
    scaler = trainer._amp_loss_scaler
    assert scaler.loss_scale == 2.0**16
    before = net[0].weight.data().asnumpy().copy()
    scaler._next_loss_scale = 2.0**24
    trained(net, trainer, x, y, 2.0**30)
    trainer.step(4)
    np.testing.assert_array_equal(net[0].weight.data().asnumpy(), before)
    assert (scaler.loss_scale, scaler._next_loss_scale) == (2.0**24, 2.0**23)
    trained(net, trainer, x, y, 128.0)
    scaler._next_loss_scale, scaler._unskipped = 128.0, 1999
    trainer.step(4)
    assert (scaler._next_loss_scale, scaler._unskipped) == (256.0, 0)
    assert np.abs(net[0].weight.data().asnumpy() - before).max() > 0


def test_dtypes_of_operators(started):
    started("float16")
    half, single = mx.nd.ones((2, 3), dtype="float16"), mx.nd.ones((2, 3))
    assert mx.nd.FullyConnected(single, mx.nd.ones((4, 3)), no_bias=True, num_hidden=4).dtype == np.float16
    assert [mx.nd.exp(half).dtype, half.exp().dtype, mx.nd.softmax(half).dtype] == [np.float32] * 3
    assert (half + single).dtype == (single * half).dtype == mx.nd.concat(half, single, dim=0).dtype == np.float32
    assert (half + half).dtype == (half + 1).dtype == mx.nd.relu(half).dtype == np.float16
    assert mx.nd.Activation(half, act_type="softrelu").dtype == np.float32
    assert mx.nd.Activation(half, act_type="relu").dtype == np.float16
    assert mx.nd.exp(mx.nd.ones(2, dtype="float64")).dtype == np.float64
    y = mx.sym.FullyConnected(mx.sym.var("x") + mx.sym.var("z"), num_hidden=2, name="fc")
    assert y.list_arguments() == ["x", "z", "fc_weight", "fc_bias"]
    assert y.infer_type(x="float16", z="float32", fc_weight="float32", fc_bias="float32")[1] == [np.float16]


def test_functions_that_make_arrays_stay_as_they_are(started):
    before = mx.nd.zeros
    started("float16")
    assert mx.nd.zeros is before
    assert mx.nd.ones((2, 3), mx.cpu(), "int32").dtype == np.int32


def test_losses_are_scaled(started, caplog):
    x, label = mx.nd.array([[1.0, 2.0]]), mx.nd.array([1])
    x.attach_grad()
    with mx.autograd.record():
        y = mx.nd.SoftmaxOutput(x, label)
    y.backward()
    plain = x.grad.asnumpy().copy()
    started("float16")
    amp.amp._STARTED.scaler._loss_scale = 8.0
    with mx.autograd.record():
        y = mx.nd.SoftmaxOutput(x, label, grad_scale=0.5)
    y.backward()
    np.testing.assert_allclose(x.grad.asnumpy(), 4 * plain, rtol=1e-6)

    class Head(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x, label):
            return F.SoftmaxOutput(x, label)

    head = Head()
    head.hybridize()
    with caplog.at_level(logging.WARNING):
        head(x, label)
    assert "does not support dynamic loss scaling" in caplog.text


def test_bad_use(started):
    trainer = mx.gluon.Trainer(network().collect_params(), "sgd")
    for call, error in (
        (lambda: amp.init_trainer(trainer), "did you forget to call amp.init"),
        (lambda: amp.scale_loss(1, trainer).__enter__(), "did you forget to call amp.init_trainer"),
        (lambda: started("float64"), "target_dtype must be 'float16' or 'bfloat16', got 'float64'"),
        (lambda: amp.convert_symbol(1), "sym must be a Symbol"),
        (lambda: amp.convert_symbol(mx.sym.var("x"), fp32_ops=["nothing"]), "there is no operator 'nothing'"),
        (lambda: amp.convert_symbol(mx.sym.var("x"), fp32_ops=["RNN"]), "operator RNN is in target_dtype_ops and in"),
        (lambda: amp.convert_symbol(mx.sym.var("x"), excluded_sym_names="x"), "must be a list of names, got str"),
        (lambda: amp.convert_hybrid_block(1), "block must be a HybridBlock, got int"),
    ):
        with pytest.raises(AssertionError, match=error):
            call()
    with pytest.raises(mx.MXNetError, match="Please first call block"):
        amp.convert_hybrid_block(network())
    started("float16")
    with pytest.raises(TypeError, match="only compatible with Gluon Trainer"):
        amp.init_trainer(mx.optimizer.SGD())


@pytest.mark.parametrize("cast_optional_params", [False, True])
def test_all_buckets_of_a_module_are_converted(cast_optional_params):
    def symbols(key):
        pooled = mx.sym.sum(mx.sym.var("data"), axis=1)
        weight = mx.sym.var("fc_weight", shape=(4, 5))
        dense = mx.sym.FullyConnected(pooled, weight, num_hidden=4, no_bias=True, name="fc")
        return mx.sym.SoftmaxOutput(dense, name="softmax"), ("data",), ("softmax_label",)

    shapes = [("data", (2, 6, 5))], [("softmax_label", (2,))]
    module = mx.mod.BucketingModule(symbols, default_bucket_key=6)
    with pytest.raises(mx.MXNetError):
        amp.amp.convert_bucketing_module(module)
    module.bind(*shapes, for_training=False)
    module.init_params(mx.init.Normal(1))
    batches = {
        n: mx.io.DataBatch(
            [mx.nd.random.uniform(shape=(2, n, 5))], [mx.nd.zeros(2)], bucket_key=n,
            provide_data=[("data", (2, n, 5))], provide_label=[("softmax_label", (2,))],
        )
        for n in (6, 3)
    }  # fmt: skip
    outputs = []
    for each in (module, None):
        if each is None:
            each = amp.amp.convert_bucketing_module(module, cast_optional_params=cast_optional_params)
            each.bind(*shapes, for_training=False)
        for batch in batches.values():
            each.forward(batch, is_train=False)
            outputs.append(each.get_outputs()[0].asnumpy().astype("float64"))
    weight = each.get_params()[0]["fc_weight"]
    assert np.dtype(weight.dtype) == ("float16" if cast_optional_params else "float32")
    assert sorted(each._buckets) == [3, 6]
    for want, got in zip(outputs[:2], outputs[2:], strict=True):
        np.testing.assert_allclose(got, want, atol=3e-3)
        assert (got != want).any()
    with pytest.raises(mx.MXNetError, match="expected a BucketingModule, got Module"):
        amp.amp.convert_bucketing_module(mx.mod.Module(symbols(6)[0]))
