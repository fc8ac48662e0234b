"""What a compilation leaves to Python's garbage collector: next to nothing, and nothing that is young."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap

import pytest

# A network that no process has compiled, in an empty cache folder; "first" compiles all that the other one imports.
PROGRAM = """
import gc, sys, hybridc as mx
from hybridc.gluon import nn, rnn

def convolutions():
    net = nn.HybridSequential()
    for channels in (8, 8, 16):
        net.add(nn.Conv2D(channels, 3, padding=1), nn.BatchNorm(), nn.Activation("relu"))
    net.add(nn.MaxPool2D(), nn.Dense(10))
    return net, (2, 3, 12, 12)

def recurrent():
    net = nn.HybridSequential()
    net.add(rnn.LSTM(16, 2), nn.LayerNorm(), nn.Dense(5, flatten=False))
    return net, (7, 2, 9)

def run(net, shape):
    net.initialize()
    net.hybridize()
    x = mx.nd.random.normal(shape=shape)
    with mx.autograd.record():
        loss = (net(x) ** 2).sum()
    loss.backward()
    mx.nd.waitall()
    return net

first = nn.HybridSequential()
first.add(nn.Dense(3), nn.Dense(2))
first = run(first, (2, 4))
"""
GARBAGE = """
gc.collect()
gc.disable()
net = run(*{network}())
print(gc.collect())
"""
YOUNG = """
gc.collect()
seen = []
gc.callbacks.append(lambda when, what: seen.append(what["generation"]) if when == "stop" else None)
net = run(*{network}())
print(2 in seen, len(gc.get_objects(generation=0)), len(gc.get_objects(generation=1)))
"""


def printed(program: str, tmp_path: object) -> list[str]:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    environment = {"HYBRIDC_CACHE_DIR": str(tmp_path), "HYBRIDC_TARGET": "llvm", "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout.split()


@pytest.mark.parametrize("network", ["convolutions", "recurrent"])
def test_a_compilation_frees_what_it_makes(tmp_path, network):
    (found,) = printed(PROGRAM + GARBAGE.format(network=network), tmp_path)
    assert int(found) < 3000  # 35,000 where every operation that is erased waits for the collector


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="generations are others from Python 3.13 on")
@pytest.mark.parametrize("network", ["convolutions", "recurrent"])
def test_the_collector_goes_through_nothing_that_was_made(tmp_path, network):
    full, *young = printed(PROGRAM + YOUNG.format(network=network), tmp_path)
    assert full == "False"
    assert sum(map(int, young)) < 3000, "what was made is young: the next collection traverses it"


def test_what_a_program_has_frozen_stays_so():
    from hybridc.compile.collector import collector_at_rest

    frozen = gc.get_freeze_count()
    gc.freeze()
    try:
        with collector_at_rest():
            made = [[] for _ in range(10)]
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
    assert made
    assert gc.isenabled()
