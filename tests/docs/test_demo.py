"""The demos, shortened: their claims hold at every level of the processor that is tested, without warnings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def claims_hold(example: str, arguments: str, folder: Path) -> None:
    command = [sys.executable, "-W", "error", str(EXAMPLES / example), *arguments.split()]
    # Beside other tests, threads of NumPy's small products wait for each other: minutes in place of seconds.
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "Warning" not in done.stderr


@pytest.mark.demo
@pytest.mark.long  # `make demo` beside `make test`
def test_claims_of_the_demo_hold(tmp_path: Path) -> None:
    claims_hold("digits.py", "--epochs 2 --accuracy 0.9", tmp_path)
    assert (tmp_path / "digits.png").stat().st_size > 10_000


@pytest.mark.demo
@pytest.mark.long
def test_claims_of_the_language_model_hold(tmp_path: Path) -> None:
    claims_hold("language_model.py", "--small", tmp_path)


@pytest.mark.forecast
@pytest.mark.long
def test_claims_of_the_forecast_hold(tmp_path: Path) -> None:
    claims_hold("forecasting.py", "--epochs 4 --better 0.95", tmp_path)
    assert (tmp_path / "forecasting.png").stat().st_size > 50_000


@pytest.mark.sentences
@pytest.mark.long
def test_claims_of_the_search_hold(tmp_path: Path) -> None:
    claims_hold("sentences.py", "--small", tmp_path)


@pytest.mark.long  # 17 s; `make test` trains the digits
@pytest.mark.mnist
def test_claims_of_the_example_with_images_hold(tmp_path: Path) -> None:
    claims_hold("images.py", "--images 1000 --epochs 2 --accuracy 0.6", tmp_path)
    for picture in ("images_mistakes.png", "images_filters.png"):
        assert (tmp_path / picture).stat().st_size > 4_000
