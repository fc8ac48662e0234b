"""The training of examples/language_model.py in PyTorch, from given weights: the perplexities as JSON, one an epoch.

``benchmarks/language_model.py`` runs it by a Python that has torch, and writes the file that it reads.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn


class CharacterModel(nn.Module):
    """As the example's, of the same weights."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        characters, width = weights["embedding0_weight"].shape
        hidden = weights["dense0_weight"].shape[1]
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2)
        self.scores = nn.Linear(hidden, characters)
        names = {"embedding.weight": "embedding0_weight"}
        names |= {f"scores.{kind}": f"dense0_{kind}" for kind in ("weight", "bias")}
        for layer in (0, 1):
            for gates, theirs in (("i2h", "ih"), ("h2h", "hh")):  # both have the gates in the same order
                for kind in ("weight", "bias"):
                    names[f"lstm.{kind}_{theirs}_l{layer}"] = f"lstm0_l{layer}_{gates}_{kind}"
        self.load_state_dict({name: torch.from_numpy(weights[given]) for name, given in names.items()})

    def forward(self, characters: Any, states: Any) -> Any:
        outputs, states = self.lstm(self.embedding(characters), states)
        return self.scores(outputs), states


def segments(task: Mapping[str, np.ndarray], name: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    inputs, targets = (torch.from_numpy(task[f"{name}_{part}"]).long() for part in ("inputs", "targets"))
    return list(zip(inputs, targets))


def loss_of(scores: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), following.flatten())


def perplexity(net: CharacterModel, task: Mapping[str, np.ndarray]) -> float:
    states, losses = None, []
    with torch.no_grad():
        for characters, following in segments(task, "test"):
            scores, states = net(characters, states)
            losses.append(loss_of(scores, following).item())
    return math.exp(sum(losses) / len(losses))


def train(task: Mapping[str, np.ndarray]) -> list[float]:
    """The perplexity on the held-out text after each epoch."""
    net = CharacterModel(task)
    optimizer = torch.optim.Adam(net.parameters())
    batches, steps = segments(task, "train"), enumerate(task["rates"], 1)
    found: list[float] = []
    for _ in range(len(task["rates"]) // len(batches)):
        states: Any = None
        for characters, following in batches:
            scores, states = net(characters, states)
            states = tuple(state.detach() for state in states)
            optimizer.zero_grad()
            loss_of(scores, following).backward()
            nn.utils.clip_grad_norm_(net.parameters(), float(task["clip"]))
            step, rate = next(steps)
            # MXNet adds its epsilon to what is not divided by this yet.
            epsilon = 1e-8 / math.sqrt(1 - 0.999**step)
            optimizer.param_groups[0].update(lr=float(rate), eps=epsilon)
            optimizer.step()
        found.append(perplexity(net, task))
        print(f"PyTorch, epoch {len(found)}: perplexity {found[-1]:.3f}", file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    with np.load(sys.argv[1]) as file:
        print(json.dumps(train(dict(file))))
