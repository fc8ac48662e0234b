"""A training with checkpoints: it prints each step's loss, and at the end a hash of the parameters.

    trains.py FOLDER STEPS [SECONDS]

The loss is in hexadecimal, so that a training that went on after a failure can be compared to the bit.
"""

import hashlib
import os
import sys
import time

import numpy as np

import hybridc as mx
from hybridc import gluon

folder, steps = sys.argv[1], int(sys.argv[2])
seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 0.05
BATCH = 8
print("process", os.getpid(), flush=True)

mx.random.seed(3)
random = np.random.default_rng(5)
x = random.standard_normal((64, 6)).astype(np.float32)
y = (x[:, :1] * x[:, 1:2]).astype(np.float32)
sampler = gluon.data.DistributedSampler(len(x), seed=3)
loader = gluon.data.DataLoader(gluon.data.ArrayDataset(x, y), BATCH, sampler=sampler, num_workers=1)
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(16, activation="tanh"), gluon.nn.Dropout(0.1), gluon.nn.Dense(1))
net.initialize()
net(mx.nd.array(x[:1]))
trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.01}, kvstore="dist_sync")
step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
checkpoint = mx.distributed.Checkpoint(folder, net=net, trainer=trainer, data=loader, every=5)
done = checkpoint.restore()
print("restored", done, flush=True)
while done < steps:
    for data, label in loader:
        loss = step(data, label)
        done += 1
        print("step", done, loss.mean().asscalar().item().hex(), flush=True)
        checkpoint.step()
        time.sleep(seconds)
        if done == steps:
            break
checkpoint.close()
values = b"".join(p.data().asnumpy().tobytes() for p in net.collect_params().values())
print("final", hashlib.sha256(values).hexdigest(), flush=True)
