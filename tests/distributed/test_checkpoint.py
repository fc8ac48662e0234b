"""Checkpoints of a process that is alone: what they hold, and what becomes of damage."""

import contextlib
import json
import os
import random as python_random
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import hybridc as mx
from hybridc import MXNetError, autograd, gluon, nd
from hybridc.distributed import CheckpointWarning, folder_claim
from hybridc.gluon import nn
from tests.distributed.ranks import PROGRAMS, environment


class Training:
    """A network, its trainer, and what is beside them."""

    def __init__(self, folder, seed=0, units=5, optimizer="sgd", dtype="float32", **options):
        mx.random.seed(seed)
        self.net = nn.HybridSequential()
        self.net.add(nn.Dense(units, in_units=3), nn.BatchNorm(in_channels=units), nn.Dropout(0.5), nn.Dense(2))
        self.net.initialize()
        self.net.cast(dtype)
        settings = {"sgd": {"momentum": 0.9}, "adam": {}}[optimizer]
        self.trainer = gluon.Trainer(self.net.collect_params(), optimizer, {"learning_rate": 0.1, **settings})
        self.checkpoint = mx.distributed.Checkpoint(folder, self.net, self.trainer, **{"every": None, **options})

    def train(self, steps, dtype="float32"):
        losses = []
        for _ in range(steps):
            x = nd.array(np.random.standard_normal((4, 3))).astype(dtype)
            with autograd.record():
                loss = (self.net(x) ** 2).sum()
            loss.backward()
            self.trainer.step(4)
            losses.append(float(loss.asscalar()))
            self.checkpoint.step()
        return losses

    def parameters(self):
        return {name: p.data().asnumpy() for name, p in self.net._collect_params_with_prefix().items()}


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


@pytest.fixture(autouse=True)
def own_generators():
    states = mx.random.generator_states()
    yield
    mx.random.load_generator_states(states)


def saved(folder, *steps):
    """A training with checkpoints of these steps."""
    training = Training(folder, keep=None)
    for step in steps:
        training.train(step - training.checkpoint.steps)
        training.checkpoint.save()
    training.checkpoint.close()
    return training


def shard(folder, step):
    (path,) = (folder / f"step-{step:09d}").glob("*.shard")
    return path


# --- going on --------------------------------------------------------------------------------------------------


def test_losses_go_on_to_the_bit(folder):
    first = Training(folder)
    first.train(7)
    first.checkpoint.save()
    want = first.train(5)
    first.checkpoint.close()
    second = Training(folder, seed=99)
    np.random.seed(12)
    assert second.checkpoint.restore() == 7
    assert second.checkpoint.steps == 7
    assert second.train(5) == want
    for name, value in first.parameters().items():
        np.testing.assert_array_equal(second.parameters()[name], value)


def test_the_copy_is_of_the_step(folder):
    training = Training(folder, every=2)
    training.train(2)
    want = training.parameters()
    training.train(1)  # while the checkpoint is being written
    training.checkpoint.close()
    other = Training(folder)
    assert other.checkpoint.restore() == 2
    for name, value in want.items():
        np.testing.assert_array_equal(other.parameters()[name], value)


@pytest.mark.parametrize("case", ["mode=hybrid", "mode=step optimizer=adam workers=1"])
@pytest.mark.long
def test_a_killed_program_goes_on_to_the_bit(tmp_path, case):
    def run(name, *words):
        program = [sys.executable, PROGRAMS / "resumed_training.py", tmp_path / name, tmp_path / f"{name}-log"]
        subprocess.run([*map(str, program), *case.split(), *words], timeout=120, env=environment(), check=False)
        lines = [json.loads(line) for line in (tmp_path / f"{name}-log.0").read_text().splitlines()]
        return {line["step"]: line["loss"] for line in lines if "step" in line}, lines

    want, lines = run("whole")
    run("killed", "die=17")
    got, again = run("killed")
    assert got == want
    assert again[-1]["digest"] == lines[-1]["digest"]
    assert [line["resumed"] for line in again if "resumed" in line] in ([0, 15], [0, 10])


def test_nothing_to_restore(folder):
    assert Training(folder).checkpoint.restore() == 0
    assert not folder.exists()


def test_deferred_parameters_are_restored(folder):
    saved(folder, 2)

    class Late(nn.HybridSequential):
        pass

    net = Late()
    net.add(nn.Dense(5), nn.BatchNorm(), nn.Dropout(0.5), nn.Dense(2))
    net.initialize()
    assert mx.distributed.Checkpoint(folder, net).restore() == 2
    assert net[0].weight.shape == (5, 3)


def test_parameters_alone(folder):
    first = saved(folder, 3)
    net = Training(folder).net
    assert mx.distributed.Checkpoint(folder, net).restore() == 3
    np.testing.assert_array_equal(net[0].weight.data().asnumpy(), first.net[0].weight.data().asnumpy())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_dtypes(folder, dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    first = Training(folder, dtype=dtype)
    first.train(2, dtype)
    first.checkpoint.save()
    want = first.train(3, dtype)
    first.checkpoint.close()
    second = Training(folder, seed=4, dtype=dtype)
    assert second.checkpoint.restore() == 2
    assert second.train(3, dtype) == want


def test_several_networks_and_trainers(folder):
    def make():
        nets = {"generator": nn.Dense(2, in_units=2), "critic": nn.Dense(2, in_units=2)}
        for net in nets.values():
            net.initialize()
        trainers = [gluon.Trainer(net.collect_params(), "adam") for net in nets.values()]
        return nets, trainers, mx.distributed.Checkpoint(folder, nets, trainers)

    nets, trainers, checkpoint = make()
    for net, trainer in zip(nets.values(), trainers, strict=True):
        with autograd.record():
            loss = net(nd.ones((1, 2))).sum()
        loss.backward()
        trainer.step(1)
    checkpoint.save()
    checkpoint.close()
    others, more, again = make()
    again.restore()
    for name, net in nets.items():
        np.testing.assert_array_equal(others[name].weight.data().asnumpy(), net.weight.data().asnumpy())
    assert [t.optimizer.num_update for t in more] == [1, 1]


def test_extra(folder):
    average = nd.array([1, 2])
    extra = {"average": average, "best": 0.1, "list": [1, (2, None)], 3: b"\x00\xff", "raw": np.arange(4)}
    first = Training(folder, extra=extra)
    first.checkpoint.save()
    first.checkpoint.close()
    there = nd.zeros((2,))
    mine = {"average": there, "gone": 1}
    second = Training(folder, extra=mine)
    second.checkpoint.restore()
    assert second.checkpoint.extra is mine
    assert mine["average"] is there
    assert there.asnumpy().tolist() == [1, 2]
    assert (mine["best"], mine["list"], mine[3]) == (0.1, [1, (2, None)], b"\x00\xff")
    assert mine["raw"].tolist() == [0, 1, 2, 3]
    assert "gone" not in mine


def test_extra_is_pickled_only_where_that_is_allowed(folder):
    with pytest.raises(TypeError, match=r"extra cannot be saved: it holds a set.*allow_pickle=True"):
        Training(folder, extra={1}).checkpoint.save()
    first = Training(folder, extra={1, 2}, allow_pickle=True)
    first.checkpoint.save()
    first.checkpoint.close()
    with pytest.raises(MXNetError, match=r"extra is pickled.*allow_pickle=True"):
        Training(folder).checkpoint.restore()
    second = Training(folder, allow_pickle=True)
    second.checkpoint.restore()
    assert second.checkpoint.extra == {1, 2}


def test_random_numbers(folder):
    saved(folder, 1)
    other = Training(folder)
    other.checkpoint.restore()
    want = np.random.rand(), python_random.random(), float(nd.random.uniform(shape=(1,)).asscalar())
    mx.random.seed(8)
    np.random.seed(8)
    python_random.seed(8)
    other.checkpoint.restore()
    assert (np.random.rand(), python_random.random(), float(nd.random.uniform(shape=(1,)).asscalar())) == want


def test_names_that_sort_otherwise(folder):
    """Dense layers 9 and 10 of a process are in another order than 10 and 11 are."""

    def made(prefixes):
        net = nn.HybridSequential()
        net.add(*[nn.Dense(2, in_units=2, use_bias=False, prefix=prefix) for prefix in prefixes])
        net.initialize()
        trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.1})
        for number, layer in enumerate(net):
            for _ in range(number + 1):  # other counts and other states
                with autograd.record():
                    loss = ((number + 2) * layer(nd.ones((1, 2)))).sum()
                loss.backward()
                trainer.step(1, ignore_stale_grad=True)
        return net, trainer

    net, trainer = made(["dense9_", "dense10_"])
    with mx.distributed.Checkpoint(folder, net, trainer) as checkpoint:
        checkpoint.save()
    other, restored = made(["dense10_", "dense11_"])
    assert mx.distributed.Checkpoint(folder, other, restored).restore() == 0

    def by_layer(net, trainer):
        numbers = [trainer.parameters.index(layer.weight) for layer in net]
        counts = trainer.optimizer._index_update_count
        return [(counts[n], [state.asnumpy().tolist() for state in trainer.updater.states[n]]) for n in numbers]

    assert by_layer(other, restored) == by_layer(net, trainer)
    assert by_layer(net, trainer)[0] != by_layer(net, trainer)[1]


def test_learning_rates_go_on(folder):
    def make():
        net = nn.Dense(1, in_units=1)
        net.initialize()
        schedule = mx.lr_scheduler.MultiFactorScheduler([2, 4], 0.5, base_lr=1.0)
        trainer = gluon.Trainer(net.collect_params(), "adam", {"lr_scheduler": schedule, "learning_rate": 1.0})
        return net, trainer, mx.distributed.Checkpoint(folder, net, trainer)

    def step(net, trainer):
        with autograd.record():
            loss = net(nd.ones((1, 1))).sum()
        loss.backward()
        trainer.step(1)
        return trainer.learning_rate

    net, trainer, checkpoint = make()
    for _ in range(3):
        step(net, trainer)
    checkpoint.save()
    checkpoint.close()
    want = [step(net, trainer) for _ in range(4)]
    net, trainer, checkpoint = make()
    checkpoint.restore()
    assert [step(net, trainer) for _ in range(4)] == want
    assert want[0] != want[-1]


# --- which there are -------------------------------------------------------------------------------------------


def test_older_ones_are_removed(folder):
    training = Training(folder, every=1, keep=2)
    (folder / "step-000000000").mkdir(parents=True)  # left by a run that died
    training.train(5)
    training.checkpoint.close()
    assert sorted(path.name for path in folder.glob("step-*")) == ["step-000000004", "step-000000005"]


def test_files_of_others_stay(folder):
    training = Training(folder, every=1, keep=1)
    training.train(1)
    training.checkpoint.wait()
    (folder / "step-000000001" / "notes.txt").write_text("mine")
    (folder / "notes.txt").write_text("mine")
    training.train(2)
    training.checkpoint.close()
    assert [path.name for path in (folder / "step-000000001").iterdir()] == ["notes.txt"]
    assert (folder / "notes.txt").exists()


def test_the_same_step_can_be_saved_again(folder):
    training = saved(folder, 2)
    other = Training(folder)
    other.checkpoint.restore()
    other.net[0].weight.set_data(nd.ones((5, 3)))
    other.checkpoint.save()
    other.checkpoint.save()
    other.checkpoint.close()
    training.checkpoint.restore()
    assert training.net[0].weight.data().asnumpy().tolist() == np.ones((5, 3)).tolist()
    assert len(list((folder / "step-000000002").iterdir())) == 2


def test_restore_of_a_step_sets_later_ones_aside(folder):
    saved(folder, 2, 4, 6)
    training = Training(folder, keep=None)
    with pytest.raises(MXNetError, match="no checkpoint of step 3; there are: 6, 4, 2"):
        training.checkpoint.restore(3)
    assert training.checkpoint.restore(2) == 2
    with pytest.warns(CheckpointWarning, match=r"which was passed over, is now .*\.aside") as caught:
        training.train(1)
    assert [re.search(r"step \d", str(each.message))[0] for each in caught] == ["step 6", "step 4"]
    training.checkpoint.save()
    training.checkpoint.close()
    names = sorted(path.name for path in folder.glob("step-*"))
    assert names == [f"step-00000000{n}" for n in ("2", "3", "4.aside", "6.aside")]


def test_a_run_that_forgot_to_restore_removes_nothing(folder):
    saved(folder, 4)
    with pytest.raises(MXNetError, match=r"has checkpoints of later steps \(4\) than this run has done \(0\)"):
        Training(folder).train(1)


def test_arguments():
    with pytest.raises(ValueError, match="every must be an integer of at least 1, or None, got 0"):
        mx.distributed.Checkpoint("x", every=0)
    with pytest.raises(TypeError, match="net must be a Block or ParameterDict, or a list or dict of these, got a str"):
        mx.distributed.Checkpoint("x", net="net")
    with pytest.raises(TypeError, match=r"data must have state\(\) and load_state\(\).* got a RandomSampler"):
        mx.distributed.Checkpoint("x", data=gluon.data.RandomSampler(3))
    net, other = nn.Dense(1), nn.Dense(1)
    other.initialize()
    with pytest.raises(MXNetError, match=r"the trainer updates dense.*, which is no parameter of net"):
        mx.distributed.Checkpoint("x", net=net, trainer=gluon.Trainer(other.collect_params(), "sgd"))


# --- damage ----------------------------------------------------------------------------------------------------


def damage_shard(path, kind):
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "flipped":
        path.write_bytes(data[:-100] + bytes([data[-100] ^ 1]) + data[-99:])
    elif kind == "longer":
        path.write_bytes(data + b"\0")
    else:
        path.write_bytes(data[: int(kind)])


@pytest.mark.parametrize("kind", ["missing", "flipped", "longer", "0", "7", "16", "20", "500", "-1"])
def test_a_damaged_shard_is_passed_over(folder, kind):
    saved(folder, 2, 4)
    damage_shard(shard(folder, 4), kind)
    training = Training(folder)
    with pytest.warns(CheckpointWarning, match=r"a damaged checkpoint was passed over: .*step-000000004"):
        assert training.checkpoint.restore() == 2
    with pytest.warns(CheckpointWarning, match="aside"):
        training.train(2)
    training.checkpoint.save()
    training.checkpoint.close()
    assert Training(folder).checkpoint.restore() == 4


def test_a_manifest_that_is_cut_anywhere_is_passed_over(folder):
    saved(folder, 1, 2)
    path = folder / "step-000000002" / "manifest.json"
    text = path.read_bytes()
    training = Training(folder)
    for size in [*range(0, len(text) - 1, 41), len(text) - 2]:
        path.write_bytes(text[:size])
        with pytest.warns(CheckpointWarning, match="passed over"):
            assert training.checkpoint.restore() == 1
    for old, new in ((b'"step": 2', b'"step": 3'), (b"Z", b"\xff")):
        path.write_bytes(text.replace(old, new))
        with pytest.warns(CheckpointWarning, match="passed over"):
            assert training.checkpoint.restore() == 1
    path.write_bytes(text)
    assert training.checkpoint.restore() == 2


def test_all_damaged(folder):
    saved(folder, 1, 2)
    for step in (1, 2):
        damage_shard(shard(folder, step), "10")
    with pytest.raises(MXNetError, match=r"no checkpoint in .* is whole: .*has 10 bytes, expected .*Restore the files"):
        Training(folder).checkpoint.restore()


def test_foreign_and_newer_manifests(folder):
    saved(folder, 1)
    path = folder / "step-000000001" / "manifest.json"
    text = path.read_text()
    path.write_text('{"format": "torch"}')
    with pytest.raises(MXNetError, match="is the manifest of another program"):
        Training(folder).checkpoint.restore()
    path.write_text(text.replace('"version": 1', '"version": 2'))
    with pytest.raises(MXNetError, match=r"is of version 2, written by hybridc .*reads versions up to 1: install"):
        Training(folder).checkpoint.restore()


def test_a_checkpoint_of_another_training(folder):
    saved(folder, 1)
    with pytest.raises(MXNetError, match=r"other parameters: 0\.weight has shape \(5, 3\) there and \(6, 3\) here"):
        Training(folder, units=6).checkpoint.restore()
    with pytest.raises(MXNetError, match=r"0\.weight is float32 there and float16 here"):
        Training(folder, dtype="float16").checkpoint.restore()
    with pytest.raises(MXNetError, match="has the states of SGD, but the trainer has Adam"):
        Training(folder, optimizer="adam").checkpoint.restore()
    dense = nn.Dense(5, in_units=3)
    dense.initialize()
    with pytest.raises(MXNetError, match=r"weight is missing there.*0\.weight is missing here"):
        mx.distributed.Checkpoint(folder, dense).restore()
    net = Training(folder).net
    loader = gluon.data.DataLoader(gluon.data.SimpleDataset([1, 2]), 1)
    with pytest.raises(MXNetError, match="has no state of data"):
        mx.distributed.Checkpoint(folder, net, data=loader).restore()
    mx.distributed.Checkpoint(folder.with_name("bare"), net).save()
    with pytest.raises(MXNetError, match="has no trainer"):
        Training(folder.with_name("bare")).checkpoint.restore()


# --- folders ---------------------------------------------------------------------------------------------------


def test_a_folder_that_is_a_file(folder):
    folder.write_text("mine")
    for call in ("restore", "step", "save"):
        with pytest.raises(MXNetError, match="is a file; checkpoints need a folder"):
            getattr(Training(folder).checkpoint, call)()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MXNetError, match=r"checkpoints cannot be written into .*: Not a directory"):
        Training(tmp_path / "file" / "run").checkpoint.step()
    if hasattr(os, "geteuid") and os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(MXNetError, match=r"checkpoints cannot be written into .*: Permission denied"):
            Training(tmp_path / "run").checkpoint.step()


def test_two_checkpoints_of_a_program(folder):
    first = Training(folder)
    first.train(1)
    with pytest.raises(MXNetError, match="another Checkpoint of this program writes into"):
        Training(folder).train(1)
    first.checkpoint.close()
    Training(folder).train(1)


HOLDS = """
import sys, time
import hybridc as mx
checkpoint = mx.distributed.Checkpoint(sys.argv[1])
checkpoint.step()
print("held", flush=True)
time.sleep(60)
"""


@pytest.mark.long
def test_two_programs(folder, monkeypatch):
    pytest.importorskip("fcntl")
    monkeypatch.setattr(folder_claim, "_PATIENCE", 0.3)
    other = subprocess.Popen([sys.executable, "-c", HOLDS, str(folder)], stdout=subprocess.PIPE, env=environment())
    try:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(MXNetError, match=f"another program writes checkpoints into .*: process {other.pid} on "):
            Training(folder).train(1)
        assert Training(folder).checkpoint.restore() == 0  # reading is allowed
    finally:
        other.kill()
        other.wait()
    Training(folder).train(1)  # the other one is dead


def test_a_program_that_took_the_folder_is_noticed_without_locks(folder):
    training = Training(folder)
    training.checkpoint.save()
    owner = json.loads((folder / "owner.json").read_text())
    (folder / "owner.json").write_text(json.dumps({**owner, "token": "ffffffff", "process": 77}))
    training.train(1)
    with pytest.raises(MXNetError, match=r"step 1 could not be written.*another program .* now: process 77 on"):
        training.checkpoint.save()
    assert [path.name for path in folder.glob("step-*")] == ["step-000000000"]


# --- a full disk -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def largest_file(size):
    """Within the ``with`` block no file may be larger, as if the disk were full."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(folder):
    training = Training(folder, every=2, keep=1)
    training.train(2)
    training.checkpoint.wait()
    with largest_file(2000):
        with pytest.warns(CheckpointWarning, match=r"step 4 could not be written into .*File too large") as caught:
            training.train(4)
        assert "The training goes on; the last one is that of step 2" in str(caught[0].message)
        with (
            pytest.warns(CheckpointWarning, match="step 6"),
            pytest.raises(MXNetError, match=r"step 6 .*File too large"),
        ):
            training.checkpoint.save()
        assert [path.name for path in folder.glob("step-*")] == ["step-000000002"]
    training.train(2)
    training.checkpoint.close()
    assert [path.name for path in folder.glob("step-*")] == ["step-000000008"]
    assert not list(folder.rglob("*.partial"))


@pytest.mark.long
def test_a_program_that_does_not_close(tmp_path):
    folder = tmp_path / "run"
    program = f"""
import hybridc as mx
from hybridc.gluon import nn
net = nn.Dense(2000, in_units=1000)
net.initialize()
checkpoint = mx.distributed.Checkpoint({str(folder)!r}, net, every=1)
checkpoint.step()
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment(), timeout=60, check=True, capture_output=True)
    assert not done.stderr
    net = nn.Dense(2000, in_units=1000)
    net.initialize()
    assert mx.distributed.Checkpoint(folder, net).restore() == 1


KILLED = """
import sys
import hybridc as mx
from hybridc.gluon import nn
net = nn.Dense(1000, in_units=2000, use_bias=False)
net.initialize()
checkpoint = mx.distributed.Checkpoint(sys.argv[1], net, every=1)
start = checkpoint.restore()
assert (net.weight.data() == start).asnumpy().all() or not start
print("begun", start, flush=True)
for step in range(start, 10000):
    net.weight.set_data(mx.nd.full((1000, 2000), step + 1))
    checkpoint.step()
"""


@pytest.mark.long
def test_killed_while_it_writes(tmp_path):
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(8):
        command = [sys.executable, "-c", KILLED, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as program:
            begun, start = program.stdout.readline().split()
            assert (begun, int(start) >= reached) == (b"begun", True)
            time.sleep(rng.uniform(0.05, 0.6))
            program.kill()
        net = nn.Dense(1000, in_units=2000, use_bias=False)
        net.initialize()
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # nothing is damaged, ever
            found = mx.distributed.Checkpoint(tmp_path, net).restore()
        assert found >= int(start)
        assert (net.weight.data().asnumpy() == found).all() or not found
        reached = found
    assert reached > 0


def test_the_files_are_listed_in_the_manifest(folder):
    saved(folder, 1)
    manifest = json.loads((folder / "step-000000001" / "manifest.json").read_text())
    (entry,) = manifest["shards"]
    assert entry["bytes"] == Path(folder / "step-000000001" / entry["file"]).stat().st_size
    assert (manifest["step"], manifest["ranks"]) == (1, 1)
    assert manifest["parameters"]["0.weight"] == {"shape": [5, 3], "dtype": "float32"}
