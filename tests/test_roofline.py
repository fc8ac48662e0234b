"""The roofline table: what it says of bytes and multiply-adds, on a network whose numbers are known."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[1] / "benchmarks" / "roofline.py"


@pytest.mark.long
def test_launches_of_a_small_network(tmp_path):
    path = tmp_path / "rows.json"
    command = [sys.executable, str(PROGRAM), "--only", "tiny_mlp", "--json", str(path)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # nothing is left of that
    rows = json.loads(path.read_text())
    *launches, whole = rows
    assert printed.count("| tiny_mlp |") == len(rows)
    assert all(r["seconds"] > 0 and r["limit"] > 0 for r in rows)
    # 1x32 → 64 → 64 → 10: a multiply-add is two operations
    products = sorted(r["flops"] for r in launches if r["flops"])
    assert products == [2 * 64 * 10, 2 * 32 * 64, 2 * 64 * 64]
    assert whole["flops"] == sum(products)
    # Every weight is read once; the rest is small.
    weights = 4 * (32 * 64 + 64 * 64 + 64 * 10)
    assert weights < sum(r["bytes"] for r in launches) < 1.2 * weights
    assert whole["launches"] == sum(r["launches"] for r in launches)


@pytest.mark.long
def test_layers_of_resnet18(tmp_path):
    path = tmp_path / "rows.json"
    names = "resnet18_14_3x3_256_256,resnet18_14_1x1_256_512"
    subprocess.run([sys.executable, str(PROGRAM), "--layers", "--only", names, "--json", str(path)], check=True)
    three, one = json.loads(path.read_text())
    assert three["algorithm"] in ("Winograd F(4, 3)", "Winograd F(2, 3)", "direct")
    assert one["algorithm"] == "pointwise"
    assert three["flops"] == 2 * 14 * 14 * 9 * 256 * 256
    assert one["flops"] == 2 * 7 * 7 * 256 * 512
    assert all(row["share"] > 0 for row in (three, one))
    assert all(bool(row["note"]) == (row["share"] < 0.75) for row in (three, one))


def test_an_unknown_workload_is_told():
    command = [sys.executable, str(PROGRAM), "--only", "tiny"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "no workload 'tiny'; there are tiny_mlp, " in done.stderr
