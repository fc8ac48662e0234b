"""The example: one command trains a network on two ranks."""

from __future__ import annotations

import pytest

from tests.distributed import ranks

pytestmark = [pytest.mark.mpi, pytest.mark.demo, pytest.mark.long]


def test_the_example_trains_and_goes_on(tmp_path):
    program = str(ranks.ROOT / "examples" / "several_ranks.py")
    folder = ["--folder", str(tmp_path / "run")]
    # The accuracy that is asked for is out of reach: the run ends with an error, and its checkpoint stays.
    first = ranks.run([program], arguments=["--epochs", "2", "--accuracy", "1.01", *folder])
    assert first.returncode != 0
    assert "is below 1.01" in first.stderr
    done = ranks.run([program], arguments=["--epochs", "5", "--accuracy", "0.9", *folder], check=True)
    assert done.lines[0][0] == "goes on after epoch 2"
    assert "2 ranks, batches of 32 each" in done.lines[0][-1]
    assert not (tmp_path / "run").exists()
