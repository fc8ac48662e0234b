"""The fuzzer: programs cover the operators, planted faults are found and shrunk to a few lines that run."""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
from random import Random

import numpy as np
import pytest

from hybridc import optimizer
from hybridc.errors import MXNetError
from hybridc.tools.fuzz import check_program as check
from hybridc.tools.fuzz import damaged_files as files
from hybridc.tools.fuzz import generate, hostile_peers
from hybridc.tools.fuzz.main import fuzz
from hybridc.tools.fuzz.program_source import python
from hybridc.tools.fuzz.random_program import Input, ProgramStep, RandomProgram
from hybridc.tools.fuzz.shrink import shrink
from hybridc.tools.fuzz.worker import Worker
from tests.slices import EXAMPLES


def test_programs_use_every_operator_and_are_text():
    used = set()
    for number in range(180):
        program = generate.program(0, number)
        assert RandomProgram.from_json(program.to_json()) == program
        used |= {step.op for step in program.steps}
    names = {cls.NAME for cls in generate.operators()}
    assert len(used & names) > 0.95 * len(names)


def test_a_seed_says_what_the_program_is():
    assert generate.program(3, 5) == generate.program(3, 5) != generate.program(3, 6)


def long_program(wrong):
    """A wrong operator among right ones."""
    inputs = (Input((3, 5), "float32", layout="transposed"), Input((5,), "float32", seed=1, parameter=True))
    steps = (
        ProgramStep("hybrid.tanh", (0,), {}),
        ProgramStep("hybrid.add", (2, 1), {}),
        ProgramStep(wrong, (3,), {}),
        ProgramStep("hybrid.multiply", (4, 1), {}),
        ProgramStep("hybrid.sum", (5,), {"axis": 1}),
    )
    return RandomProgram(inputs, steps, (6, 2), heads=(0,), sizes=((3, 2),), tries=("parameters",))


def test_a_planted_fault_is_found_and_shrunk(wrong_operator):
    def fails(program):
        try:
            found = check.check(program)
        except check.Invalid:
            return False
        return found is not None and found.kind.startswith("values")

    program = long_program(wrong_operator)
    assert fails(program)
    small = shrink(program, fails)
    assert [step.op for step in small.steps] == [wrong_operator]
    assert (small.heads, small.sizes, small.tries) == ((), (), ())
    assert max(small.inputs[0].shape, default=1) <= 1


def test_what_rounding_and_jumps_change_is_no_failure():
    """Cancellation, a step function on what was rounded, and an overflow."""
    inputs = (Input((2, 40), "float32", fill="uniform", low=0.5),)
    steps = (
        ProgramStep("hybrid.exp", (0,), {}),
        ProgramStep("hybrid.log", (1,), {}),
        ProgramStep("hybrid.subtract", (2, 0), {}),  # nothing but rounding
        ProgramStep("hybrid.sign", (3,), {}),
        ProgramStep("hybrid.argsort", (3,), {}),
        ProgramStep("hybrid.exp", (1,), {}),
        ProgramStep("hybrid.exp", (6,), {}),
        ProgramStep("hybrid.sum", (7,), {}),
    )
    assert check.check(RandomProgram(inputs, steps, (3, 4, 5, 8), heads=(0, 3))) is None


# How many programs a test tries; HYBRIDC_TEST_EXAMPLES=1000 for a thorough run.
@pytest.mark.parametrize(("target", "share"), [("llvm", 8), ("numpy", 8)])
def test_random_programs_hold(target, share, capsys):
    report = fuzz(15, [target], count=EXAMPLES // share, stop=1)
    assert not report.found, capsys.readouterr().out
    assert report.invalid < report.programs / 4


def test_printed_programs_run():
    """With all that a program may have: parts of arrays, parameters, further sizes and values, writes, threads."""
    program = RandomProgram(
        (
            Input((2, 3), "float32", layout="rows"),
            Input((2, 3), "int32", req="null", layout="columns"),
            Input((3,), "float32", parameter=True),
            Input((2, 3), "float32", same_as=0),
        ),
        (
            ProgramStep("hybrid.softmax", (0,), {"axis": -1}),
            ProgramStep("hybrid.cast", (1,), {"dtype": "float32"}),
            ProgramStep("hybrid.multiply", (3, 2), {}),
        ),
        (4, 5, 6),
        heads=(0, 2),
        sizes=((2, 4),),
        tries=("parameters", "writes", "threads"),
        elements=4,
    )
    # Threads print: until Python 3.12.4 a buffered stream may then write bytes that nobody put into it (gh-119506).
    command = [sys.executable, "-u", "-c", python(program, "llvm", "values")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Error" not in done.stdout + done.stderr
    numbers = r"array\((.*?), dtype=float32\)"
    compared = re.findall(f"compiled {numbers} eager {numbers}", done.stdout, re.DOTALL)
    assert len(compared) == done.stdout.count("compiled") == 30  # five results of three cases, twice
    for got, want in compared:
        np.testing.assert_allclose(ast.literal_eval(got), ast.literal_eval(want), rtol=1e-6)
    assert done.stdout.count("beside others") == 3


def test_crashes_and_hangs_are_outcomes(tmp_path, monkeypatch):
    """A process that dies or does not answer is told as such, and the next program gets a new one."""
    worker = Worker("numpy")
    program = RandomProgram((Input((2,), "float32"),), (ProgramStep("hybrid.tanh", (0,), {}),), (1,))
    assert worker.check(program) is None
    worker._process.kill()
    assert worker.check(program)[0] == "crash"
    assert worker.check(program) is None
    worker._process.send_signal(19)  # SIGSTOP
    assert worker.check(program, 0.2)[0] == "hang"
    worker.close()


def test_equal_bits_tell_signs_of_zeros():
    zero = np.zeros(2, np.float32)
    assert check.equal_bits(zero, zero.copy())
    assert not check.equal_bits(zero, -zero)


@pytest.mark.parametrize("kind", sorted(files.MAKERS))
def test_damaged_files_are_read_right_or_refused_in_words(kind):
    for number in range(12):
        random = Random(f"{kind}-{number}")
        good = files.made(kind, random)
        assert files.read(kind, good) is None
        for _ in range(4):
            data = files.damaged(kind, good, random)
            assert files.read(kind, data) is None, files.source(kind, data)


def test_hostile_peers_change_nothing_for_ranks(capsys):
    assert hostile_peers.fuzz_peers(1, rounds=3) == (3, 0), capsys.readouterr().out


@pytest.mark.long
def test_ten_thousand_hostile_peers(capsys):
    assert hostile_peers.attack_door(Random(5), 10_000) is None
    assert hostile_peers.attack_pmi(Random(6), 2_000) is None


def test_damaged_states_change_nothing():
    """Attributes of other types, numbers of arrays that are not there, states that are no dict."""
    updater = optimizer.get_updater(optimizer.create("adam", learning_rate=0.1))
    for content in (
        {"states": []},
        {"states": {"dict": []}, "optimizer": 1},
        {"states": {"dict": [[0, {"array": 5}]]}},
        {"states": {"dict": []}, "optimizer": {"class": "Adam", "attributes": {"dict": [["lr", "x"]]}}},
        {"states": {"dict": []}, "optimizer": {"class": "Adam", "attributes": {"dict": [[[1], 2]]}}},
        {"states": {"dict": []}, "optimizer": {"class": 3, "attributes": {"dict": []}}},
    ):
        file = io.BytesIO()
        np.savez(file, json=np.frombuffer(json.dumps({"format": 2, **content}).encode(), np.uint8))
        with pytest.raises(MXNetError, match="damaged"):
            updater.set_states(file.getvalue())
        assert (updater.optimizer.lr, updater.states) == (0.1, {})
