"""What all ranks must have in common is compared at each step; calls of other kinds are errors that name both."""

from __future__ import annotations

import pytest

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
