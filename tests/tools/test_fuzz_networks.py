"""The fuzzer of networks: they are text, cover layers of all kinds, hold, and planted faults are found and shrunk."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hybridc.tools.fuzz.check_program import Invalid
from hybridc.tools.fuzz.main import NETWORKS, fuzz
from hybridc.tools.fuzz.networks.check_network import check_network
from hybridc.tools.fuzz.networks.propose_network import random_network
from hybridc.tools.fuzz.networks.random_network import NetworkBody, NetworkInput, NetworkNode, RandomNetwork, script
from hybridc.tools.fuzz.networks.shrink_network import shrink_network
from tests.slices import EXAMPLES


def test_networks_are_text_of_many_layers():
    names = set()
    for number in range(25):
        given = random_network(3, number)
        assert RandomNetwork.from_json(given.to_json()) == given
        names.update(given.names())
    assert len(names) > 40
    assert random_network(3, 5) == random_network(3, 5) != random_network(3, 6)


def network(call, events, **others):
    """Dense layers around a call, in a network inside a network."""
    inner = NetworkBody(
        1,
        (NetworkNode("{b}({0})", (0,), "nn.Dense(3)"), NetworkNode(call, (1,)), NetworkNode("F.tanh({0})", (2,))),
        (3,),
    )
    nodes = (
        NetworkNode("{b}({0})", (0,), "nn.LayerNorm()"),
        NetworkNode("{0} + {b}({0})", (1,), inner),
        NetworkNode("{b}({0})", (2,), None, 0),
    )
    return RandomNetwork(NetworkBody(1, nodes, (3,)), (NetworkInput((3,)),), tuple((e, 2) for e in events), **others)


EVENTS = ("predict", "train", "loop", "step", "write", "save", "export", "threads", "predict")


def test_a_right_network_holds():
    assert check_network(network("F.sigmoid({0})", EVENTS)) is None
    in_parts = network("F.sigmoid({0})", EVENTS[:3], dtype="float16", parts=(1,), grad_reqs=((1, "add"),))
    assert check_network(in_parts) is None


def test_a_planted_fault_is_found_and_shrunk(wrong_operator):
    def fails(given):
        try:
            found = check_network(given)
        except Invalid:
            return False
        return found is not None and found.kind == "values"

    given = network("F.fuzz_wrong({0})", EVENTS, flags=("static_alloc",))
    assert fails(given)
    small = shrink_network(given, fails, 60.0)
    assert small.size() <= 2
    assert len(small.events) == 1
    assert "fuzz_wrong" in script(small, "llvm", "values")


@pytest.mark.parametrize("event", ["predict", "train", "step"])
def test_scripts_run(event):
    given = network("F.Custom({0}, op_type='fuzz_scale')", [event], optimizer="'adam', {'learning_rate': 0.01}")
    done = subprocess.run([sys.executable, "-c", script(given, "llvm", "values")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[[") >= 2


# How many networks a test tries; HYBRIDC_TEST_EXAMPLES=1000 for a thorough run.
@pytest.mark.parametrize("target", ["llvm", "numpy"])
def test_random_networks_hold(target, capsys):
    report = fuzz(41, [target], count=max(4, EXAMPLES // 20), stop=1, fuzzed=NETWORKS)
    assert not report.found, capsys.readouterr().out
    assert report.invalid < report.programs / 3
