"""GluonTS, GluonCV and GluonNLP, unchanged, give with hybridc what they give with MXNet 1.9.1: see README.md."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys

import pytest

from tests.wild.forecast_runs import HERE, MODELS, SERIES, run
from tests.wild.test_programs import compare

pytestmark = [pytest.mark.long, pytest.mark.wild]
COMMAND = [sys.executable, "-W", "ignore", "-m", "hybridc", "run"]
FEWEST = 3  # seeds
WORSE = 1.1  # the largest median error, in those of MXNet


@pytest.fixture(autouse=True)
def path(monkeypatch):
    """Programs find this hybridc."""
    places = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, places)))


@pytest.mark.parametrize("series", SERIES)
@pytest.mark.parametrize("model", MODELS)
def test_forecasts_are_as_good(model, series):
    wanted = json.loads((HERE / "forecasts.json").read_text())["runs"][f"{model} {series}"]["errors"]
    errors = run(COMMAND, model, series, range(len(wanted)))["errors"]
    assert len(errors) == len(wanted) >= FEWEST
    assert statistics.median(errors) <= WORSE * statistics.median(wanted), (errors, wanted)


@pytest.mark.parametrize("name", ["classify_images", "detect_objects", "understand_text"])
def test_networks_see_the_same(name, tmp_path):
    program = str(HERE / "libraries" / f"{name}.py")
    made = subprocess.run([*COMMAND, program], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    compare(made.stdout, (HERE / "outputs" / f"{name}.txt").read_text())
