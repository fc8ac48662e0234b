"""The checks of operators: they pass what is right, and every mistake is found by the check made for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from wrong_ops import NAMES, WRONG

import hybridc as mx
from hybridc.errors import OperatorCheckError
from hybridc.tools.check_op import CHECKS
from hybridc.tools.check_op.check_report import find, findings
from tests.slices import one_in

pytestmark = pytest.mark.triton


ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("title", ["Right", "RightState"])
def test_what_is_right_passes(title):
    mx.test_utils.check_op(NAMES[title])


@pytest.mark.parametrize("title", WRONG)
def test_mistake_is_found(title):
    check, text = WRONG[title].FINDS
    others = getattr(WRONG[title], "ALSO", ())
    checks = [each for each in CHECKS if each.name in (check, *others)]
    found = {f.check.name: f for f in findings(find(NAMES[title]), checks)}
    assert text in str(found[check])
    for other in others:
        assert found[other].wrong


@pytest.mark.parametrize("title", one_in(len(WRONG), list(WRONG)))
def test_mistake_is_an_error(title):
    with pytest.raises(OperatorCheckError, match=f"^{NAMES[title]} does not do what it says:"):
        mx.test_utils.check_op(NAMES[title])


# Checks whose mistakes no operator can make: registering it would fail, or it is our own affair.
OTHERS = {"name", "what its kind needs", "function", "updated inputs"}


def test_every_check_has_its_mistake():
    found = {check for cls in WRONG.values() for check in (cls.FINDS[0], *getattr(cls, "ALSO", ()))}
    assert {check.name for check in CHECKS} == found | OTHERS


def run(*arguments):
    command = [sys.executable, "-m", "hybridc.tools.check_op", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


def test_command():
    done = run(NAMES["Right"], NAMES["WrongGradient"], "--module", "tests/tools/wrong_ops.py")
    assert done.returncode == 1
    assert done.stderr == ""
    right, wrong = done.stdout.split(NAMES["WrongGradient"] + "\n")
    assert "FAILED" not in right
    assert "ok      values (4 cases)\n" in right
    assert "FAILED  gradient (1 of 2)\n" in wrong
    assert f"{NAMES['WrongGradient']}-1 (inputs float64[2, 3]; beta=2)\n" in wrong


@pytest.mark.long
def test_command_with_a_package(tmp_path):
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("from . import wrong_ops\n")
    (package / "wrong_ops.py").write_text((ROOT / "tests" / "tools" / "wrong_ops.py").read_text())
    assert run(NAMES["Right"], "--module", str(package)).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["mylib.none"], "error: no operator 'mylib.none'; is the module that registers it imported?\n"),
        (["softmax", "--module", "no_such_module"], "error: No module named 'no_such_module'\n"),
    ],
)
def test_command_without_an_operator(arguments, error):
    done = run(*arguments)
    assert (done.returncode, done.stderr) == (2, error)
