"""Train a classifier of handwritten digits on several processes: each has a part of every batch.

``make several-ranks``, or ``python -m hybridc launch -n 2 examples/several_ranks.py`` with scikit-learn installed; with
``--hosts`` on several machines. Without a launcher it trains alone, by the same lines. The checkpoint in the folder
``several_ranks`` lets a run that was killed go on: start it again, or launch with ``--restarts 3``. What is claimed is
checked: the test accuracy, and that all ranks end with the same parameters.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import hybridc as mx
from hybridc import gluon
from hybridc.gluon import nn

SEED, EPOCHS, BATCH = 7, 20, 64
RATE = 3e-3
ACCURACY = 0.97


def network() -> gluon.HybridBlock:
    """A small convolutional network; its statistics are those of the whole batch, not of a rank's part."""
    net = nn.HybridSequential()
    net.add(
        nn.Conv2D(16, 3, padding=1, use_bias=False), gluon.contrib.nn.SyncBatchNorm(), nn.Activation("relu"),
        nn.Conv2D(32, 3, padding=1, strides=2, activation="relu"), nn.Dropout(0.2), nn.Dense(10),
    )  # fmt: skip
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def main() -> None:
    """Train, report, and check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--accuracy", type=float, default=ACCURACY, help="what the test must reach")
    parser.add_argument("--folder", type=Path, default=Path("several_ranks"), help="of the checkpoint")
    options = parser.parse_args()
    rank, ranks = mx.distributed.rank(), mx.distributed.num_workers()
    mx.random.seed(SEED)

    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    x, tested, y, wanted = train_test_split(images, labels.astype(np.float32), test_size=0.2, random_state=SEED)
    sampler = gluon.data.DistributedSampler(len(x), seed=SEED)
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), BATCH // ranks, sampler=sampler, last_batch="discard")

    net = network()
    net(mx.nd.array(x[:1]))
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": RATE}, kvstore="dist_sync")
    step = gluon.TrainStep(net, gluon.loss.SoftmaxCrossEntropyLoss(), trainer)
    checkpoint = mx.distributed.Checkpoint(options.folder, net=net, trainer=trainer, data=loader, every=len(loader))
    begun = checkpoint.restore() // len(loader)
    if begun and rank == 0:
        print(f"goes on after epoch {begun}")

    loss = mx.metric.Loss()
    for epoch in range(begun, options.epochs):
        loss.reset()
        for data, label in loader:
            loss.update(None, step(data, label))
            checkpoint.step()
        mean = loss.sync().get()[1]  # of all ranks
        if rank == 0 and epoch % 5 == 4:
            print(f"epoch {epoch + 1}: loss {mean:.4f}", flush=True)

    accuracy = mx.metric.Accuracy()
    mine = slice(rank, None, ranks)
    accuracy.update(mx.nd.array(wanted[mine]), net(mx.nd.array(tested[mine])))
    reached = accuracy.sync().get()[1]
    if rank == 0:
        print(f"{ranks} ranks, batches of {BATCH // ranks} each: test accuracy {reached:.3f}")
    weights = [p.data().asnumpy().tobytes() for p in net.collect_params().values()]
    checkpoint.close()
    if any(other != weights for other in mx.distributed.communicator().gather_objects(weights)):
        sys.exit("the ranks have different parameters")
    if reached < options.accuracy:
        sys.exit(f"the test accuracy {reached:.3f} is below {options.accuracy}")
    if rank == 0:
        shutil.rmtree(options.folder)  # the training is over


if __name__ == "__main__":
    main()
