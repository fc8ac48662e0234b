"""The language model of examples/language_model.py here and in PyTorch: ``python benchmarks/language_model.py``.

Both begin with the same weights and see the same segments and learning rates; the perplexity on the held-out text after
each epoch is compared. PyTorch runs in the environment that ``benchmarks/peers/run.py --setup --peers torch`` makes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.peers import environments
from benchmarks.peers.environments import COLUMNS
from examples import language_model as example
from hybridc.lr_scheduler import CosineScheduler

PEER = Path(__file__).parent / "peers" / "language_model_torch.py"
TOLERANCE = 0.02  # of the perplexity after the last epoch: rounding errors grow with the steps


def stacked(text: np.ndarray, size: example.Size, name: str) -> dict[str, np.ndarray]:
    """All segments of a text, and what follows, as two arrays (segments, T, N)."""
    inputs, targets = zip(*example.segments(text, size))
    return {f"{name}_inputs": np.stack(inputs), f"{name}_targets": np.stack(targets)}


def task(net: example.CharacterModel, size: example.Size, text: np.ndarray, held_out: np.ndarray) -> dict[str, Any]:
    """What PyTorch is given: weights, batches, the rate of each step."""
    arrays = stacked(text, size, "train") | stacked(held_out, size, "test")
    steps = size.epochs * len(arrays["train_inputs"])
    schedule = CosineScheduler(steps, base_lr=size.rate)
    parameters = net.collect_params().items()
    weights = {name.removeprefix(net.prefix): value.data().asnumpy() for name, value in parameters}
    return {**arrays, **weights, "rates": [schedule(i + 1) for i in range(steps)], "clip": example.CLIP}


def main() -> int:
    """Print both; the exit status says whether the last perplexities are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="the example's small model")
    parser.add_argument("--epochs", type=int)
    options = parser.parse_args()
    column = COLUMNS["torch"]
    if not environments.installed(environments.FOLDER, column):
        raise SystemExit("PyTorch is not installed: python benchmarks/peers/run.py --setup --peers torch")
    size = example.SMALL if options.small else example.FULL
    size = replace(size, epochs=options.epochs or size.epochs)
    text, held_out = example.documentation()
    text = text[: size.characters]
    net = example.fresh_model(size.hidden)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "task.npz"
        np.savez(file, **task(net, size, text, held_out))
        command = [str(environments.python(environments.FOLDER, column)), str(PEER), str(file)]
        theirs = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    ours = example.train(net, text, size, lambda net: example.perplexity(net, held_out, size))
    print(f"{'epoch':>5} {'hybridc':>8} {'PyTorch':>8} {'ratio':>7}")
    for epoch, (a, b) in enumerate(zip(ours, theirs, strict=True), 1):
        print(f"{epoch:5} {a:8.4f} {b:8.4f} {a / b:7.4f}")
    return 0 if abs(ours[-1] / theirs[-1] - 1) <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main())
