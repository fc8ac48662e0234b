"""Stores, Trainer, Module and estimator of several ranks against one process, NumPy and MXNet's rules."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.communication import Alone
from hybridc.communication.compression import CompressedSum, Half, TwoBit, compression_of
from hybridc.errors import AttributeValueError, UnsupportedError
from tests.distributed import ranks

pytestmark = pytest.mark.mpi

SHORT = ["store", "buckets", "compression", "trainer", "stale_gradients", "parameters_of_rank_0"]
LONG = [
    *("dtypes", "plugins", "compression_of_what_is_not_finite", "compressed_training", "trainer_on_store"),
    *("trainer_with_other_stores", "trainer_hybridized", "trainer_on_two_devices", "trainer_accumulates"),
    *("trainer_clips", "trainer_with_many_buckets", "states", "module", "estimator", "feed_forward"),
    *("frozen_parameters", "half_precision"),
]


def passed(result):
    return re.findall(r"(\w+) passed", result.stdout)


@pytest.mark.long
def test_two_ranks_train_as_one():
    assert passed(ranks.run("kvstore_cases.py", check=True, arguments=SHORT)) == SHORT


@pytest.mark.long
def test_two_ranks_in_all_ways():
    assert passed(ranks.run("kvstore_cases.py", check=True, arguments=LONG, timeout=300)) == LONG


@pytest.mark.long
def test_all_optimizers():
    assert passed(ranks.run("kvstore_cases.py", check=True, arguments=["all_optimizers"], timeout=600)) == [
        "all_optimizers"
    ]


@pytest.mark.long
@pytest.mark.triton
def test_gradients_on_gpus():
    """They go through the memory of the host; the GPU is Triton's interpreter."""
    env = {"HYBRIDC_GPU": "interpreter"}
    assert passed(ranks.run("kvstore_cases.py", check=True, arguments=["arrays_on_gpus"], env=env)) == [
        "arrays_on_gpus"
    ]


@pytest.mark.long
def test_four_ranks():
    cases = ["store", "buckets", "compression", "trainer"]
    assert passed(ranks.run("kvstore_cases.py", check=True, ranks=4, arguments=cases, timeout=300)) == cases


@pytest.mark.long
def test_one_rank():
    cases = [*SHORT, *LONG]
    assert passed(ranks.run("kvstore_cases.py", check=True, ranks=1, arguments=cases, timeout=300)) == cases


DISAGREEMENTS = {
    "name": "net0_bias of the parameters of the trainer differs",
    "shape": r"net_bias of the parameters of the trainer differs.*'\(3,\) float32 write'.*'\(4,\) float32 write'",
    "dtype": r"float32 write.*float64 write",
    "grad_req": "float32 write.*float32 add",
    "optimizer": "class of the optimizer of Trainer.step differs.* rank 0 on .* has 'SGD', rank 1 on .* has 'Adam'",
    "rate": "learning_rate of Trainer.step differs between ranks: rank 0 on .* has 0.1, rank 1 on .* has 0.2",
    "batch": "batch_size of Trainer.step differs between ranks: rank 0 on .* has 4.0, rank 1 on .* has 5.0;",
    "on_store": "update_on_kvstore of Trainer.step differs between ranks: rank 0 on .* has False, rank 1 .* True",
    "compression": "the compression of gradients differs between ranks.*TwoBit.*Half",
    "deferred": r"\(3, 2\) float32.*\(3, 3\) float32",
    "schedule": "step of lr_scheduler of the optimizer differs between ranks: rank 0 on .* has 5, rank 1 on .* has 6",
    "keys": "rank . on .* calls push of the keys .* to kvstore 'dist_sync'.*, but rank . on .* calls push of the keys",
    "init": r"1 of the values that init gets differs.*\(2,\) float32.*\(3,\) float32",
    "value": "the graph of the step differs between ranks: rank 0 on .* has 'hash 0', rank 1 on .* has 'hash 1'",
    "what": "rank . on .* calls comparison of the .*, but rank . on .* calls comparison of the .*; all ranks must call",
}


@pytest.mark.parametrize(
    "what", [w if w == "shape" else pytest.param(w, marks=pytest.mark.long) for w in DISAGREEMENTS]
)
def test_ranks_that_differ_are_an_error_on_each(what):
    lines = ranks.run("disagreements.py", arguments=[what], timeout=60).lines
    assert set(lines) == {0, 1}
    for texts in lines.values():
        assert re.search(DISAGREEMENTS[what], texts[0]), texts


# --- one process, without a launcher ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dist_sync", "dist", "p3", "dist_device_sync", "device"])
def test_alone_all_stores_equal_device(kind):
    found = []
    for each in (kind, "device"):
        kv = mx.kv.create(each)
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
        kv.init([1, 2], [nd.ones(3), nd.ones((2, 2))])
        out = [nd.zeros(3), nd.zeros((2, 2))]
        for _ in range(3):
            kv.pushpull([1, 2], [[nd.ones(3), nd.ones(3, ctx=mx.cpu(1))], nd.full((2, 2), 2)], out=out)
        found.append([x.asnumpy() for x in out])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)


def test_compression_packs_as_mxnet_does():
    """The bits of gradients of 2 bits: 11 for the threshold, 10 for its negative, the first value in the highest."""
    left = np.zeros(16, np.float32)
    left[[0, 1, 5, 15]] = [0.7, -0.5, 0.5, -1.2]
    code = np.zeros(1, np.uint32)
    TwoBit(0.5).encode(left, code)
    assert code.view(np.uint8).tolist() == [0b11100000, 0b00110000, 0, 0b00000010]
    np.testing.assert_allclose(left[[0, 1, 5, 15]], [0.2, 0, 0, -0.7], rtol=1e-6)
    assert np.count_nonzero(left) == 2


def test_what_rounding_leaves_out_is_not_lost():
    rng = np.random.default_rng(0)
    for compression, bound in ((TwoBit(0.5), 0.5), (Half(), 3e-4)):
        total, sent = np.zeros(50), np.zeros(50)
        made = CompressedSum(50, np.float32, compression, Alone())
        for _ in range(40):
            x = rng.uniform(-0.4, 0.4, 50).astype(np.float32)
            total += x
            made.allreduce(x)
            sent += x
        assert np.abs(total - sent).max() < bound


WRONG = [{"type": "4bit"}, {"type": "2bit", "threshold": 0}, {"type": "2bit", "threshold": "x"}, {"typ": "fp16"}, 3]


@pytest.mark.parametrize("params", WRONG)
def test_compression_params_that_are_wrong(params):
    with pytest.raises(AttributeValueError, match=r"compression_params.*got"):
        compression_of(params)


def test_stores_that_are_refused(monkeypatch):
    net = gluon.nn.Dense(1, in_units=1)
    net.initialize()
    with pytest.raises(UnsupportedError, match=r"'nccl' takes arrays on GPUs, got one on cpu.*'dist_sync'"):
        gluon.Trainer(net.collect_params(), "sgd", kvstore="nccl")
    with pytest.raises(UnsupportedError, match="takes arrays on GPUs"):
        mx.kv.create("nccl").init(1, nd.ones(1))
    for kind in ("dist_async", "dist_device_async"):
        with pytest.raises(UnsupportedError, match=r"local SGD, gluon.TrainStep\(..., sync_every=k\)"):
            gluon.Trainer(net.collect_params(), "sgd", kvstore=kind)
    with pytest.raises(AttributeValueError, match="there is no store 'dist_snyc'"):
        mx.kv.create("dist_snyc")
    monkeypatch.setenv("DMLC_ROLE", "worker")
    monkeypatch.setenv("DMLC_NUM_WORKER", "3")
    with pytest.raises(UnsupportedError, match=r"DMLC_ROLE=worker.*hybridc launch -n 3"):
        mx.kv.create("dist_sync")


def test_a_view_that_a_user_has_of_a_gradient_stays_one():
    net = gluon.nn.Dense(2, in_units=2, use_bias=False)
    net.initialize()
    row = net.weight.grad()[0]
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore="dist_sync")
    for value in (1, 2):
        with autograd.record():
            y = net(nd.full((1, 2), value))
        y.backward()
        trainer.step(1)
        np.testing.assert_array_equal(row.asnumpy(), [value, value])
