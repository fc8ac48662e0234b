"""One rank of a measured program: ``worker.py WAY TASK SECONDS [PART]``; rank 0 prints milliseconds per step as JSON.

``PART`` such as ``1/4`` lets a process that is alone train on the part of the batch that rank 1 of 4 has.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from benchmarks.distributed.networks import batch, of_hybridc, of_torch

RATE, MOMENTUM = 0.01, 0.9


def hybridc(task: str, shards: bool = False) -> tuple[Callable[[], Any], Any, Callable[[], dict[str, Any]]]:
    """A compiled training step; its communicator; what it says of its communication."""
    import hybridc as mx
    from hybridc.communication import communicator
    from hybridc.dialects.control.collectives import TIMES

    ranks = communicator()
    net = of_hybridc(task)
    net.initialize(mx.init.Xavier())
    net.hybridize()
    x, y = (mx.nd.array(a, dtype="float32") for a in batch(task, *_part(ranks.rank, ranks.size)))
    net(x)
    options = {"learning_rate": RATE, "momentum": MOMENTUM}
    trainer = mx.gluon.Trainer(net.collect_params(), "sgd", options, kvstore="dist_sync")
    step = mx.gluon.TrainStep(net, mx.gluon.loss.SoftmaxCrossEntropyLoss(), trainer, shard_optimizer=shards)

    def run() -> None:
        step(x, y).wait_to_read()

    def notes() -> dict[str, Any]:
        return {"hidden": max(0.0, 1 - TIMES.waited / TIMES.taken) if TIMES.taken else None}

    return run, ranks.barrier, notes


def torch_step(task: str, by_hand: bool) -> tuple[Callable[[], Any], Any, Callable[[], dict[str, Any]]]:
    """A step of PyTorch: DistributedDataParallel over Gloo, or an all-reduce of the joined gradients by mpi4py."""
    import numpy as np
    import torch
    from mpi4py import MPI

    world: Any = MPI.COMM_WORLD
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0))))
    net = of_torch(task)
    given, labels = batch(task, *_part(world.rank, world.size))
    x, y = torch.from_numpy(given), torch.from_numpy(labels)
    if not by_hand and world.size > 1:
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", **os.environ}
        torch.distributed.init_process_group("gloo", rank=world.rank, world_size=world.size)
        net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    parameters = list(net.parameters())
    optimizer = torch.optim.SGD(parameters, lr=RATE, momentum=MOMENTUM)
    loss_of = torch.nn.CrossEntropyLoss()
    flat = np.empty(sum(p.numel() for p in parameters), np.float32)
    views: list[Any] = []
    if by_hand and world.size > 1:  # gradients are views of one array, as an expert would have them
        whole, at = torch.from_numpy(flat), 0
        for p in parameters:
            views.append(whole[at : at + p.numel()].view_as(p))
            at += p.numel()
            p.grad = views[-1]

    def run() -> None:
        optimizer.zero_grad(set_to_none=not views)
        loss_of(net(x), y).backward()
        if views:
            world.Allreduce(MPI.IN_PLACE, flat)
            whole.div_(world.size)
        optimizer.step()

    return run, world.Barrier, dict


def _part(rank: int, ranks: int) -> tuple[int, int]:
    """The rank whose part of the batch is trained on, and the number of parts."""
    return (rank, ranks) if len(sys.argv) < 5 else tuple(int(each) for each in sys.argv[4].split("/"))


def main() -> None:
    """Measure one way."""
    way, task, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if way.startswith("hybridc"):
        run, barrier, notes = hybridc(task, way.endswith("sharded"))
    else:
        run, barrier, notes = torch_step(task, way == "hand")
    times: list[float] = []
    for _ in range(5):
        run()
    # Each rank must do as many steps as the others.
    begin = time.perf_counter()
    run()
    steps = max(5, min(2000, int(seconds / (time.perf_counter() - begin))))
    if "mpi4py" in sys.modules:
        from mpi4py import MPI

        steps = MPI.COMM_WORLD.bcast(steps)
    for _ in range(steps):
        barrier()
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    if way == "ddp" and MPI.COMM_WORLD.size > 1:
        import torch

        torch.distributed.destroy_process_group()
    if "mpi4py" not in sys.modules or MPI.COMM_WORLD.rank == 0:
        print(json.dumps({"ms": statistics.median(times) * 1e3, **notes()}), flush=True)


if __name__ == "__main__":
    main()
