"""Networks of GluonCV, and what the examples train, as models of ONNX."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples import forecasting
from hybridc import nd
from tests.onnx.engines import agree, operators

ROOT = Path(__file__).resolve().parents[2]
NETWORKS = (
    "ssd_512_mobilenet1.0_voc yolo3_mobilenet1.0_voc fcn_resnet50_voc simple_pose_resnet18_v1b mobilenetv3_small "
    "resnest14"
)


@pytest.mark.long
@pytest.mark.wild
@pytest.mark.parametrize("name", NETWORKS.split())
def test_networks_of_gluoncv(name):
    program = str(ROOT / "tests" / "wild" / "libraries" / "export_models.py")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-W", "ignore", "-m", "hybridc", "run", program, name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(name)


@pytest.mark.forecast
def test_the_forecasting_example(tmp_path):
    net = forecasting.Forecaster(4)
    net.initialize()
    x = nd.array(np.random.default_rng(1).normal(size=(2, forecasting.CONTEXT, 1)))
    net.export_onnx(tmp_path / "net.onnx", x, dynamic_axes={"data": {0: "batch"}})
    model = agree(tmp_path / "net.onnx", [x.asnumpy()], [net(x).asnumpy()])
    assert "GRU" in operators(model)
