"""Programs for MXNet run unchanged, and print what they print under MXNet 1.9.1."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import hybridc as mx
import hybridc.alias

HERE = Path(__file__).resolve().parent
# Those whose compilation takes seconds run with ``make test-all``.
LONG = {"crash_course", "hybridize_export"}
NAMES = sorted(path.stem for path in (HERE / "programs").glob("*.py"))
NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:e[-+]?\d+)?|-?\b(?:nan|inf)\b")


def compare(got: str, expected: str) -> None:
    """Texts are equal but for numbers, which are close."""
    lines = got.splitlines()
    wanted = expected.splitlines()
    for line, other in zip(lines, wanted, strict=False):
        assert NUMBER.sub("#", line) == NUMBER.sub("#", other)
        for number, value in zip(NUMBER.findall(line), NUMBER.findall(other), strict=True):
            assert float(number) == pytest.approx(float(value), rel=3e-4, abs=2.1e-4, nan_ok=True), (line, other)
    assert len(lines) == len(wanted)


@pytest.fixture
def mxnet(monkeypatch):
    """``import mxnet`` gives hybridc within a test."""
    monkeypatch.syspath_prepend(str(Path(hybridc.alias.__file__).parent))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "mxnet":
            del sys.modules[name]


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.long) if n in LONG else n for n in NAMES])
@pytest.mark.filterwarnings("ignore")
def test_programs_print_what_they_print_under_mxnet(mxnet, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), mx.name.NameManager():
        runpy.run_path(str(HERE / "programs" / f"{name}.py"), run_name="__main__")
    compare(printed.getvalue(), (HERE / "outputs" / f"{name}.txt").read_text())


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_programs_run_by_the_command(name, tmp_path):
    program = HERE / "programs" / f"{name}.py"
    made = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "hybridc", "run", str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE.parents[1]), os.environ.get("PYTHONPATH")])),
        },
    )
    assert made.returncode == 0, made.stderr
    compare(made.stdout, (HERE / "outputs" / f"{name}.txt").read_text())


def test_a_difference_is_found():
    compare("loss 0.12345 [cpu(0)]", "loss 0.12346 [cpu(0)]")
    for other in (
        "loss 0.125 [cpu(0)]",
        "loss 0.12345 [cpu(1)]",
        "lost 0.12345 [cpu(0)]",
        "loss 0.12345 [cpu(0)]\nmore",
    ):
        with pytest.raises(AssertionError):
            compare("loss 0.12345 [cpu(0)]", other)
