"""The networks, in hybridc and in PyTorch, and their batches; each layer is made with the frameworks' own defaults."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

# The examples of all ranks together, the shape of one, and the classes.
TASKS: dict[str, tuple[int, tuple[int, ...], int]] = {
    "mlp": (256, (784,), 10),
    "wide": (64, (1024,), 100),
    "lenet": (128, (1, 28, 28), 10),
    "residual": (32, (3, 32, 32), 10),
    "gru": (64, (20, 32), 10),
}
_CHANNELS = 32
_BLOCKS = 3


def batch(task: str, rank: int, ranks: int) -> tuple[Any, Any]:
    """A rank's part of the examples and of the labels."""
    count, shape, classes = TASKS[task]
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((count, *shape), np.float32), rng.integers(0, classes, count)
    part = slice(rank * count // ranks, (rank + 1) * count // ranks)
    return x[part], y[part]


def of_hybridc(task: str) -> Any:
    """The network as a HybridBlock."""
    from hybridc.gluon import HybridBlock, nn, rnn

    class Residual(HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.HybridSequential()
            for _ in range(2):
                self.body.add(nn.Conv2D(_CHANNELS, 3, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return x + self.body(x)

    class Last(HybridBlock):
        def __init__(self) -> None:
            super().__init__()
            self.gru = rnn.GRU(128, layout="NTC")

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return F.slice_axis(self.gru(x), axis=1, begin=-1, end=None)

    net = nn.HybridSequential()
    classes = TASKS[task][2]
    if task == "mlp":
        net.add(nn.Dense(1024, activation="relu"), nn.Dense(1024, activation="relu"))
    elif task == "wide":
        net.add(*[nn.Dense(2048, activation="relu") for _ in range(4)])
    elif task == "lenet":
        net.add(
            nn.Conv2D(20, 5, activation="relu"), nn.MaxPool2D(),
            nn.Conv2D(50, 5, activation="relu"), nn.MaxPool2D(), nn.Dense(500, activation="relu"),
        )  # fmt: skip
    elif task == "residual":
        net.add(nn.Conv2D(_CHANNELS, 3, padding=1), *[Residual() for _ in range(_BLOCKS)], nn.GlobalAvgPool2D())
    else:
        net.add(Last())
    net.add(nn.Dense(classes))
    return net


def of_torch(task: str) -> Any:
    """The network as a module of PyTorch."""
    from torch import nn

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers: list[Any] = []
            for _ in range(2):
                layers += [nn.Conv2d(_CHANNELS, _CHANNELS, 3, padding=1, bias=False)]
                layers += [nn.BatchNorm2d(_CHANNELS), nn.ReLU()]
            self.body = nn.Sequential(*layers)

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru = nn.GRU(32, 128, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.gru(x)[0][:, -1]

    _, shape, classes = TASKS[task]
    if task == "mlp":
        return nn.Sequential(
            nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, classes)
        )
    if task == "wide":
        widths = [shape[0], 2048, 2048, 2048, 2048]
        layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(2048, classes))
    if task == "lenet":
        return nn.Sequential(
            nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, classes),
        )  # fmt: skip
    if task == "residual":
        return nn.Sequential(
            nn.Conv2d(3, _CHANNELS, 3, padding=1), *[Residual() for _ in range(_BLOCKS)],
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_CHANNELS, classes),
        )  # fmt: skip
    return nn.Sequential(Last(), nn.Linear(128, classes))
