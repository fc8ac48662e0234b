"""What all ranks must have in common is compared at each step; calls of other kinds are errors that name both."""

from __future__ import annotations

import copy

import pytest

import hybridc as mx
from hybridc.optimizer.plain_settings import ScalarsReader, scalars_of
from tests.distributed import ranks

pytestmark = pytest.mark.mpi


def held(count, *arguments):
    """The cases that held on rank 0, of which the program prints each."""
    done = ranks.run("agreement_cases.py", count, arguments, timeout=300, check=True)
    assert all(lines == done.lines[0] for lines in done.lines.values())
    return done.lines[0]


def test_uneven_batches_and_settings_of_one_rank():
    assert len(held(2)) == 13


@pytest.mark.long
@pytest.mark.parametrize("count", [2, 3])
def test_every_pair_of_calls(count):
    assert len(held(count, "every")) == 13


CHECKPOINT = """
import sys
import hybridc as mx
from hybridc import distributed, gluon, nd
net = gluon.nn.Dense(2, in_units=3)
net.initialize()
trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync")
checkpoint = distributed.Checkpoint(sys.argv[1], net, trainer)
if distributed.rank():
    distributed.barrier()
checkpoint.save()
print("done")
"""


def test_calls_of_groups_that_wait_for_each_other(tmp_path):
    """A checkpoint has a group of its own, so no message of it meets the barrier's: the ranks watch each other."""
    done = ranks.run(CHECKPOINT, arguments=[tmp_path], options=["--timeout", "60"])
    assert done.returncode != 0
    assert "done" not in done.stdout
    assert done.seconds < 40
    for rank in range(2):
        said = "\n".join(done.errors[rank])
        assert "rank 1 on " in said
        assert "waits in hybridc.distributed.barrier: barrier" in said
        assert "all ranks must call the same operations in the same order" in said


CHANGES = {
    "nothing": lambda o: None,
    "equal": lambda o: (o.set_lr_mult({"a": float("2")}), setattr(o, "wd", float("0"))),
    "lr": lambda o: setattr(o, "lr", 0.25),
    "wd": lambda o: setattr(o, "wd", 0.5),
    "clip_gradient": lambda o: setattr(o, "clip_gradient", 0.5),
    "beta1": lambda o: setattr(o, "beta1", 0.5),
    "no-attribute": lambda o: delattr(o, "beta1"),
    "no-scalar": lambda o: setattr(o, "beta1", [0.5]),
    "lr_mult": lambda o: o.set_lr_mult({"a": 3.0}),
    "lr_mult-in-place": lambda o: o.lr_mult.update(a=3.0),
    "wd_mult-in-place": lambda o: o.wd_mult.update(a=3.0),
    "schedule": lambda o: setattr(o, "lr_scheduler", mx.lr_scheduler.FactorScheduler(5, base_lr=0.5)),
    "no-schedule": lambda o: setattr(o, "lr_scheduler", None),
    "of-schedule": lambda o: setattr(o.lr_scheduler, "factor", 0.25),
    "count": lambda o: setattr(o, "num_update", 9),
}


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("change", CHANGES)
def test_scalars_are_read_again_when_one_changed(change, scheduled):
    schedule = mx.lr_scheduler.FactorScheduler(5, base_lr=0.5) if scheduled else None
    optimizer = mx.optimizer.create("adam", learning_rate=0.5, lr_scheduler=schedule)
    optimizer.set_lr_mult({"a": 2.0})
    reader, before = ScalarsReader(optimizer, ("num_update",)), copy.deepcopy(scalars_of(optimizer))
    if change == "of-schedule" and not scheduled:
        pytest.skip("there is no schedule")
    CHANGES[change](optimizer)
    now = scalars_of(optimizer)
    is_equal = {**now, "num_update": 0} == {**before, "num_update": 0}
    assert reader.finds_as_before(optimizer) <= is_equal
    assert is_equal is (change in ("nothing", "equal", "count")) or change in ("schedule", "no-schedule")
    if change in ("nothing", "equal", "count"):
        assert reader.finds_as_before(optimizer)
