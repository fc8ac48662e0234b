"""Loaders with worker processes under MPI: workers are no ranks. With "die" rank 1 is killed meanwhile."""

import os
import signal
import sys
import time

import numpy as np

import hybridc as mx
from hybridc.communication import communicator
from hybridc.gluon.data import DataLoader, Dataset, DistributedSampler

RANKS = communicator()
DIES = sys.argv[1:] == ["die"]
PROCESS = os.getpid()


class Items(Dataset):
    """Item ``i``: i, the rank that the worker sees, whether it is a worker, and whether it could communicate."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        if DIES:
            time.sleep(30)
        ranks = communicator()
        try:
            ranks.barrier()
            refused = False
        except mx.MXNetError as error:
            refused = "forked from a rank" in str(error)
        return np.array([i, ranks.rank, ranks.size, os.getpid() != PROCESS, refused], "float32")


sampler = DistributedSampler(Items(), seed=3)
loader = DataLoader(Items(), batch_size=2, sampler=sampler, num_workers=2)
if DIES:
    batches = iter(loader)
    RANKS.barrier()
    if RANKS.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(40)
    sys.exit("rank 0 was not ended")
for _ in range(2):
    rows = np.concatenate([batch.asnumpy() for batch in loader])
    every = np.concatenate(RANKS.gather_objects(rows))  # the watch and MPI go on as before
    assert sorted(every[:, 0]) == [*range(12)], every[:, 0]
    np.testing.assert_array_equal(rows[:, 1:], [[RANKS.rank, RANKS.size, 1, 1]] * len(rows))
    values = np.full(1000, float(RANKS.rank + 1))
    RANKS.allreduce(values)
    assert (values == RANKS.size * (RANKS.size + 1) / 2).all()
child = os.fork()
if not child:
    raise RuntimeError("a forked process that fails is no rank that fails")
os.waitpid(child, 0)
RANKS.barrier()
print(f"[rank {RANKS.rank}] ok\n", end="", flush=True)
