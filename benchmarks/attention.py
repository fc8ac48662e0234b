"""Time and peak memory of attention, forward and in training, fused and unfused: ``python benchmarks/attention.py``.

Each row is one length of queries and keys, of heads of 64 in single precision. Fused and unfused run in turns, each in
a process of its own; MiB are the peak of the first calls above
the level of the inputs. ``HYBRIDC_TARGET=numpy`` measures that
target.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, Any, cast

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import hybridc as mx
from benchmarks import memory, timing
from benchmarks.workloads import dot_product_attention
from hybridc.compile import pipeline
from hybridc.gluon import nn
from hybridc.transforms.structured.fuse_attention import FuseAttention

LENGTHS, HEADS, SIZE = "128,256,512,1024,2048", 16, 64
CONFIGS = "unfused", "fused", "fused, weights computed again"
ROUNDS, SECONDS = 5, 0.2


def configure(config: str) -> None:
    """Let this process compile as a config says, in the passes that both processor targets share."""
    for name in ("KERNELS", "NUMPY_KERNELS"):
        passes: list[Any] = [p for p in getattr(pipeline, name) if config != "unfused" or p.name != "fuse-attention"]
        if config == CONFIGS[2]:
            passes = [FuseAttention(row=p.row) if isinstance(p, FuseAttention) else p for p in passes]
        setattr(pipeline, name, tuple(passes))


def step(length: int, heads: int, training: bool) -> Any:
    """A call of attention, or of attention and its gradients."""
    rng = np.random.default_rng(0)
    arrays = [mx.nd.array(rng.standard_normal((heads, length, SIZE)), dtype="float32") for _ in range(4)]
    net = nn.HybridLambda(lambda F, q, k, v: dot_product_attention(F, q, k, v, SIZE))
    net.hybridize()
    if not training:
        return lambda: net(*arrays[:3])
    for x in arrays[:3]:
        x.attach_grad()

    def train() -> Any:
        with mx.autograd.record():
            made = net(*arrays[:3])
        made.backward(arrays[3])
        return made

    return train


def serve(config: str, length: int, heads: int, training: bool) -> None:
    """Print the peak of three calls in MiB, then for each line of input the milliseconds of a call."""
    configure(config)
    step(16, heads, training)()  # what the compiler itself needs
    call = step(length, heads, training)
    before = memory.status("VmRSS")
    memory.reset_peak()
    for _ in range(3):
        call()
    print(json.dumps(memory.peak() - before), flush=True)
    for _ in sys.stdin:
        print(json.dumps(timing.block(call, SECONDS) * 1e3), flush=True)


def measure(length: int, heads: int, training: bool, cache: str) -> list[tuple[float, float]]:
    """Milliseconds and MiB of each config."""
    mode = "train" if training else "forward"
    servers: list[subprocess.Popen[str]] = []
    for number, config in enumerate(CONFIGS):  # programs are kept by what was traced, not by these configs
        own = dict(os.environ, HYBRIDC_CACHE_DIR=f"{cache}/{number}")
        command = [sys.executable, __file__, "--serve", config, str(length), str(heads), mode]
        servers.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=own))
    replies = [map(json.loads, cast("IO[str]", s.stdout)) for s in servers]
    peaks = [next(r) for r in replies]
    times: list[list[float]] = [[] for _ in servers]
    for _ in range(ROUNDS):
        for server, reply, found in zip(servers, replies, times, strict=True):
            print(file=server.stdin, flush=True)
            found.append(next(reply))
    for server in servers:
        server.communicate()
    return [(statistics.median(found), peak) for found, peak in zip(times, peaks, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", help="lengths, separated by commas", default=LENGTHS)
    parser.add_argument("--heads", type=int, help="heads of all batches together", default=HEADS)
    parser.add_argument("--serve", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        config, length, heads, mode = options.serve
        serve(config, int(length), int(heads), mode == "train")
        return
    print(f"| {options.heads} heads of {SIZE} | " + " | ".join(f"{c}: ms, MiB" for c in CONFIGS) + " |")
    print("|---" * (len(CONFIGS) + 1) + "|")
    with tempfile.TemporaryDirectory() as cache:
        for training, length in itertools.product((False, True), map(int, options.lengths.split(","))):
            found = measure(length, options.heads, training, cache)
            cells = " | ".join(f"{ms:.2f}, {peak:.0f}" for ms, peak in found)
            print(f"| {'training' if training else 'forward'}, {length} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
