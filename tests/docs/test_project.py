"""What the project's public pages run and name is there: workflows, issue templates, the container, its platforms."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "Containerfile"], ids=lambda path: path.name)
def test_commands_are_there(path):
    """Each is a target of the Makefile, of the stamps that it keeps, or a file."""
    commands = re.findall(r"(?:run: |RUN |&& )(make [^\n]+|\.ci/\S+)", path.read_text())
    commands += [f"make {target}" for target in re.findall(r'"make", "(\w+)"', path.read_text())]
    assert commands
    for command in commands:
        if command.startswith("make "):
            done = subprocess.run(["make", "--dry-run", *command.split()[1:]], cwd=ROOT, capture_output=True, text=True)
            assert done.returncode == 0, f"{command}: {done.stderr}"
        else:
            assert (ROOT / command).exists(), command


def test_public_tests_run_on_the_pythons_that_are_declared():
    declared = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", each)}
    (matrix,) = re.findall(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    assert set(re.findall(r"3\.\d+", matrix)) == declared
    assert PROJECT["requires-python"] == f">={min(declared, key=lambda v: int(v.partition('.')[2]))}"


def test_templates_ask_for_what_there_is():
    text = "\n".join(path.read_text() for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    (module,) = set(re.findall(r"python -m (hybridc[\w.]+)", text))
    done = subprocess.run([sys.executable, "-m", module], capture_output=True, text=True, check=True)
    assert "cores" in done.stdout or "threads" in done.stdout
    for name in set(re.findall(r"HYBRIDC_\w+", text)):
        assert f"``{name}``" in (ROOT / "hybridc" / "options.py").read_text(), name
