"""The demo, shortened: its claims hold at every level of the processor that is tested, and it warns about nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).resolve().parents[2] / "examples" / "digits.py"


def test_claims_of_the_demo_hold(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(DEMO), "--epochs", "2", "--accuracy", "0.9"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "Warning" not in done.stderr
    assert (tmp_path / "digits.png").stat().st_size > 10_000
