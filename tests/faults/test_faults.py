"""Every fault of the table can still be planted: its text occurs once, and what replaces it is Python."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.table import FAULTS, Fault

LIBRARY = Path(__file__).resolve().parents[2] / "hybridc"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_can_be_planted(fault: Fault) -> None:
    source = (LIBRARY / fault.file).read_text()
    assert source.count(fault.before) == 1, "the code has changed; plant the fault where that is done now"
    assert fault.before != fault.after
    ast.parse(source.replace(fault.before, fault.after))


def test_a_planted_fault_is_noticed() -> None:
    command = [sys.executable, str(Path(__file__).parent / "plant.py"), "--only", "metric/classification"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "`make test` notices 1 of 1" in done.stdout
