"""Training steps over ranks give what one process gives with the whole batch."""

from __future__ import annotations

import re

import pytest

from tests.distributed import ranks

pytestmark = pytest.mark.mpi

# Of float32 after 50 steps: a bound for the norm of the difference of all parameters, relative to theirs.
CLOSE = 1e-6
NETWORKS = ("dense", "conv", "norm", "gru", "embedding", "tokens")
# Those with a formula; others run as Python code, which is not compiled into a step. Without Signum, which takes the
# sign of sums: where the rounding of one decides it, its step is as large as any other.
OPTIMIZERS = ("sgd", "nag", "adam", "adamw", "rmsprop", "adagrad", "adadelta", "adamax", "nadam", "ftrl", "ftml",
    "dcasgd", "lamb", "lars")  # fmt: skip


def apart(*cases, count=2):
    """How far the parameters of the cases are from those of training alone."""
    done = ranks.run("equal_steps.py", count, cases, timeout=600, check=True)
    found = {case: float(number) for case, number in re.findall(r"(\w+:[\w:]+) ([\d.e+-]+|nan|inf)", done.stdout)}
    assert found.keys() == set(cases), done.stdout
    return found


def wrong(found, bound=CLOSE):
    return {case: number for case, number in found.items() if not number < bound}


def test_a_step_over_ranks_equals_one_with_the_whole_batch():
    assert not wrong(apart("norm:sgd:shard", "rows:adam", "rows:sgd:loop"))


@pytest.mark.long
def test_everything_at_once():
    assert not wrong(
        apart("dense:adam:shard:clip:accumulate", "dense:adam:clip:accumulate", "gru:adam:loop:accumulate")
    )


@pytest.mark.long
def test_every_network():
    cases = [f"{kind}:sgd{word}" for kind in NETWORKS for word in ("", ":shard", ":clip:accumulate")]
    cases.remove("norm:sgd:clip:accumulate")  # half of the examples have other statistics
    assert not wrong(apart(*cases))


@pytest.mark.long
@pytest.mark.parametrize("words", ["", ":shard", ":loop"])
def test_every_optimizer(words):
    # Adamax divides by the largest gradient, which must not be 0.
    networks = {name: "gru" if name == "adamax" else "dense" for name in OPTIMIZERS}
    found = apart(*[f"{network}:{name}{words}" for name, network in networks.items()])
    assert not wrong(found, 5 * CLOSE)


@pytest.mark.long
def test_four_ranks():
    assert not wrong(apart("conv:adam", "norm:adam:shard", "gru:sgd:loop", count=4))


@pytest.mark.long
def test_compressed_gradients_of_a_sharded_optimizer():
    whole, parts = (apart(case)[case] for case in ("dense:adam:half", "dense:adam:half:shard"))
    assert 1e-6 < whole < 1e-3  # rounding, whose error is fed back
    assert abs(whole - parts) < 1e-6


@pytest.mark.long
@pytest.mark.triton
@pytest.mark.parametrize("case", ["dense:sgd:gpu:clip:accumulate", "norm:adam:gpu:shard"])
def test_arrays_on_a_gpu(case):
    assert not wrong(apart(case))


@pytest.mark.long
@pytest.mark.triton
def test_compressed_gradients_on_a_gpu():
    case = "dense:adam:gpu:half:shard"
    assert 1e-6 < apart(case)[case] < 1e-3


def by_nccl(first, *cases, count=2):
    """As :func:`apart`, on simulated GPUs with an NCCL of our own; also what that was asked for, and warnings."""
    done = ranks.run("nccl_steps.py", count, [first, *cases], env={"HYBRIDC_GPU": "cuda"}, timeout=600, check=True)
    lines = [line for rank in range(count) for line in done.lines[rank] if line.startswith("calls")]
    assert len(lines) == count
    assert len(set(lines)) == 1
    return dict(re.findall(r"(\w+:[\w:]+) ([\d.e+-]+)", done.stdout)), lines[0], done.stderr


@pytest.mark.long
@pytest.mark.triton
@pytest.mark.parametrize(
    ("case", "calls"),
    [
        ("dense:sgd:gpu:clip:accumulate", "['allreduce']"),
        ("norm:adam:gpu:shard", "['allreduce', 'broadcast', 'reduce']"),  # norms are summed at once
        ("dense:lamb:gpu:shard:clip", "['allreduce', 'broadcast', 'reduce']"),
        ("gru:adam:gpu:loop", "['allreduce']"),
    ],
)
def test_nccl(case, calls):
    found, asked, _ = by_nccl("own", case)
    assert float(found[case]) < CLOSE
    assert asked == f"calls {calls} 0"


@pytest.mark.long
@pytest.mark.triton
def test_ranks_with_the_same_gpu_do_without_nccl():
    found, asked, errors = by_nccl("same", "dense:sgd:gpu")
    assert float(found["dense:sgd:gpu"]) < CLOSE
    assert asked == "calls [] 0"
    assert "ranks 0 and 1 have the same GPU" in errors


NCCL_PROGRAM = """
import os
import time
import numpy as np
import pytest
import hybridc as mx
from hybridc import autograd, gluon, nd
from hybridc.communication import communicator
from tests.runtime.devices.simulated import SimulatedCuda, simulated_gpu
from tests.runtime.devices.stub_nccl import StubNccl

stub = SimulatedCuda()
stub.uuid = str(os.getpid()).encode().ljust(15)
library = StubNccl(stub)
RANK = communicator().rank
with pytest.MonkeyPatch.context() as patch, simulated_gpu(stub):
    patch.setattr("hybridc.runtime.devices.nvidia.cuda.nccl_library", lambda: library)
    BODY
"""


@pytest.mark.triton
def test_half_precision_is_summed_in_single_precision_by_nccl():
    """2048 + 1 + 1 is 2048 in float16."""
    body = """
    net = gluon.nn.Dense(1, use_bias=False, in_units=1)
    net.initialize(mx.init.Zero(), ctx=mx.gpu(0))
    net.cast("float16")
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="dist_sync")
    step = gluon.TrainStep(net, lambda out, y: out * y, trainer)
    x = nd.full((1, 1), 2048.0 if RANK == 0 else 1.0, ctx=mx.gpu(0), dtype="float16")
    step(x, nd.ones((1, 1), ctx=mx.gpu(0), dtype="float16"), batch_size=1)
    print("weight", float(net.weight.data().asscalar()), library.calls, flush=True)
    """
    done = ranks.run(NCCL_PROGRAM.replace("BODY", body.strip()), 3, env={"HYBRIDC_GPU": "cuda"}, check=True)
    assert done.lines == {rank: ["weight -2050.0 [('allreduce', 1)]"] for rank in range(3)}


@pytest.mark.long
@pytest.mark.triton
def test_an_error_of_nccl_names_the_call():
    body = """
    library.fails["ncclAllReduce"] = 3
    net = gluon.nn.Dense(1, in_units=1)
    net.initialize(ctx=mx.gpu(0))
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="nccl")
    with autograd.record():
        loss = net(nd.ones((1, 1), ctx=mx.gpu(0)))
    loss.backward()
    with pytest.raises(mx.MXNetError, match="ncclAllReduce: stub error .error 3 of NCCL"):
        trainer.step(1)
    print("raised", flush=True)
    """
    done = ranks.run(NCCL_PROGRAM.replace("BODY", body.strip()), 2, env={"HYBRIDC_GPU": "cuda"}, check=True)
    assert done.lines == {rank: ["raised"] for rank in range(2)}


@pytest.mark.long
@pytest.mark.triton
def test_a_rank_that_never_comes_to_nccl():
    body = """
    net = gluon.nn.Dense(1, use_bias=False, in_units=3)
    net.initialize(ctx=mx.gpu(0))
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}, kvstore="nccl")
    step = gluon.TrainStep(net, lambda out, y: out * y, trainer)
    x, y = nd.ones((1, 3), ctx=mx.gpu(0)), nd.ones((1, 1), ctx=mx.gpu(0))
    step(x, y)
    if RANK == 0:
        step(x, y)
    time.sleep(60)  # the stub's lock would keep the watching thread from an earlier event
    print("done", flush=True)
    """
    program = NCCL_PROGRAM.replace("BODY", body.strip())
    late = ranks.run(program, 2, env={"HYBRIDC_GPU": "cuda"}, options=["--timeout", "4"])
    for rank in range(2):
        said = "\n".join(late.errors[rank])
        assert "hybridc: rank 1 on " in said
        assert "has not come to TrainStep, in which others wait for 4 s" in said
    assert "done" not in late.stdout


@pytest.mark.long
def test_a_rank_without_weights_of_its_own():
    program = """
import hybridc as mx
from hybridc import gluon, nd
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(3))  # two weights, which this optimizer does not cut
net.initialize()
net(nd.ones((4, 5)))
trainer = gluon.Trainer(net.collect_params(), "lamb", kvstore="dist_sync")
step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer, shard_optimizer=True)
losses = [step(nd.ones((4, 5)), nd.ones((4, 3))).mean().asscalar() for _ in range(3)]
print("falls", losses[0] > losses[1] > losses[2], flush=True)
"""
    assert ranks.run(program, 3, check=True).lines == {rank: ["falls True"] for rank in range(3)}


@pytest.mark.long
def test_an_optimizer_is_sharded_to_equal_parts():
    program = """
import hybridc as mx
from hybridc import gluon, nd
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(100), gluon.nn.Dense(7))
net.initialize()
net(nd.ones((4, 30)))
trainer = gluon.Trainer(net.collect_params(), "adam", kvstore="dist_sync")
step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer, shard_optimizer=True)
step(nd.ones((4, 30)), nd.ones((4, 7)))
parts = sum(s._data.nbytes for state in trainer.updater.states.values() for s in state)
trainer.save_states(f"/dev/null")
with trainer.whole_states():
    whole = sum(s._data.nbytes for state in trainer.updater.states.values() for s in state)
shapes = [[s.shape for s in state] for state in trainer.updater.states.values()]
print("states", parts, whole, flush=True)
"""
    parts = [tuple(map(int, pair)) for pair in re.findall(r"states (\d+) (\d+)", ranks.run(program, check=True).stdout)]
    assert len(parts) == 2
    count = 30 * 100 + 100 + 100 * 7 + 7
    assert [whole for _, whole in parts] == [8 * count] * 2
    assert sum(part for part, _ in parts) == 8 * count
    assert abs(parts[0][0] - parts[1][0]) <= 16


def test_ranks_with_other_networks_are_told_apart():
    program = """
import hybridc as mx
from hybridc import gluon, nd
from hybridc.communication import communicator
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(3, activation=("tanh", "relu")[communicator().rank]))
net.initialize()
net(nd.ones((4, 5)))
trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
step(nd.ones((4, 5)), nd.ones((4, 3)))
"""
    done = ranks.run(program)
    assert done.returncode != 0
    assert "the operators of the training step" in done.stderr
    assert "tanh" in done.stderr
    assert "relu" in done.stderr
