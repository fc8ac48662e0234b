"""The GPU check without a GPU: what it brings along, its matrix on the interpreter, how it reports, its arithmetic."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu import ahead, bench, bundle, check, matrix, networks, parts
from benchmarks.gpu.compile import launches_of, traces
from benchmarks.gpu.table import Machine, Row, cells, geometric_mean, means
from hybridc.errors import UnsupportedError
from hybridc.runtime.devices.nvidia.compiled import code_key

pytestmark = pytest.mark.triton


ROOT = Path(__file__).resolve().parents[1]
CHECK = ROOT / "benchmarks" / "gpu" / "check.py"


# --- what is brought along --------------------------------------------------------------------------------


def test_what_is_bundled_imports_with_nothing_else(tmp_path):
    names = [text.partition(" ")[0] for text in bundle.bundle(tmp_path)]
    assert names == ["immutabledict", "ordered-set", "typing_extensions", "xdsl"]
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import xdsl.ir, xdsl.dialects.linalg, xdsl.pattern_rewriter, typing_extensions, importlib.metadata\n"
        "print(xdsl.__file__, typing_extensions.__file__, importlib.metadata.version('xdsl'), sep='\\n')"
    )
    command = [sys.executable, "-I", "-S", "-c", program]
    *files, version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert all(Path(file).is_relative_to(tmp_path) for file in files)
    assert version == distribution("xdsl").version
    assert not (tmp_path / "benchmarks").exists()  # xDSL's wheel has such a folder, which would hide ours


def test_machine_code_is_not_bundled():
    with pytest.raises(SystemExit, match="numpy is not pure Python"):
        list(bundle.files_of(distribution("numpy")))


def test_gpu_graphs_need_neither_scipy_nor_llvmlite_nor_ml_dtypes():
    """Without the last there are no arrays of some types, which is told, and is no wrong result."""
    program = (
        "import os, sys\n"
        "os.environ['HYBRIDC_GPU'] = 'interpreter'\n"
        "sys.modules.update(dict.fromkeys(['scipy', 'llvmlite', 'scipy_openblas32', 'ml_dtypes']))\n"
        "from benchmarks.gpu import matrix, parts\n"
        "names = ('gelu(x w + b), float32, 9x4', 'cast to int8, uint8')\n"
        "cases = [c for c in matrix.cases() if c.label.startswith(names) and c.size < 6000]\n"
        "print(*[parts._attempt(c.run)[0].replace(' ', '_') for c in cases])\n"
        "import hybridc as mx\n"
        "try:\n"
        "    mx.nd.ones(2, dtype='bfloat16')\n"
        "except mx.MXNetError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True, text=True)
    right, told = done.stdout.splitlines()
    assert right.split() == ["right"] * 2
    assert "ml_dtypes" in told


# --- the command ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_part_of_the_matrix_on_the_interpreter(tmp_path):
    report = tmp_path / "report.md"
    only = [*("--only", "transpose, float16, 3"), *("--only", "layernorm, b"), *("--only", "rsqrt-0")]
    chosen = [*("--part", "kernels"), *("--part", "networks"), *("--part", "operators")]
    command = [sys.executable, str(CHECK), "--device", "interpreter", "--small", "--out", str(report), "--workers", "1"]
    done = subprocess.run([*command, *chosen, *only], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = report.read_text()
    assert said in done.stdout
    assert "Triton's interpreter" in said
    assert "kernels: 1 right, 0 wrong, 0 not possible, 0 not run" in said
    assert "networks: 1 right, 0 wrong" in said
    assert "operators: 1 right, 0 wrong" in said


def test_a_device_that_is_not_there(tmp_path):
    command = [sys.executable, str(CHECK), "--device", "cupy", "--out", str(tmp_path / "report.md")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "error: gpu(0): " in done.stderr
    assert not (tmp_path / "report.md").exists()


def test_parts_end_in_time():
    assert check.ends(check.arguments(["--minutes", "10"]), 1000) == {
        "kernels": 1120,
        "networks": 1210,
        "bench": 1480,
        "operators": 1600,
    }
    chosen = check.arguments(["--part", "bench", "--part", "kernels", "--minutes", "1"])
    assert check.ends(chosen, 0) == {"kernels": 12, "bench": 60}


# --- processes --------------------------------------------------------------------------------------------

WORKER = """
import json, os, sys, time
for name in json.load(sys.stdin):
    if name.startswith("dies"):
        sys.exit("memory is gone")
    if name.startswith("is killed"):
        os.kill(os.getpid(), 9)
    if name.startswith("hangs"):
        time.sleep(60)
    status = "wrong" if name.startswith("fails") else "right"
    print("noise\\n\\x1eresult " + json.dumps({"name": name, "status": status, "text": "why"}), flush=True)
"""


def run(names, seconds, workers=1):
    found = parts.run([sys.executable, "-c", WORKER], names, time.time() + seconds, workers)
    return {r.name: r for r in found}


@pytest.mark.parametrize("workers", [1, 3])
def test_a_check_that_ends_its_process_does_not_end_the_others(workers):
    found = run(["a", "dies 1", "b", "fails", "is killed", "c"], 60, workers)
    statuses = {name: r.status for name, r in found.items()}
    assert statuses == {
        **dict.fromkeys(["a", "b", "c"], parts.RIGHT),
        **dict.fromkeys(["dies 1", "is killed", "fails"], parts.WRONG),
    }
    assert found["dies 1"].text == "the process ended with 1: memory is gone"
    assert found["is killed"].text == "the process ended with -9: "


def test_what_is_late_is_told():
    found = run(["a", "hangs", "b"], 3)
    assert [found[name].status for name in ("a", "hangs", "b")] == [parts.RIGHT, parts.LEFT, parts.LEFT]
    assert [r.status for r in run(["a"], 0).values()] == [parts.LEFT]


def raising(error):
    def raise_it():
        raise error

    return raise_it


def test_how_a_check_went():
    def status(check):
        return parts._attempt(check)[:2]

    assert status(lambda: None) == (parts.RIGHT, "")
    assert status(raising(AssertionError("one\n\ntwo"))) == (parts.WRONG, "AssertionError: one / two")
    assert status(raising(UnsupportedError("no such type"))) == (parts.IMPOSSIBLE, "UnsupportedError: no such type")
    assert status(lambda: Row("softmax", "float32", wrong="off by 2")) == (parts.WRONG, "off by 2")
    row = parts._attempt(lambda: Row("softmax", "float32", 3))[2]
    assert Row(**json.loads(json.dumps(row))) == Row("softmax", "float32", 3, remarks=[])


def test_reasons_are_told_once():
    results = [parts.Result(f"c{i}", parts.IMPOSSIBLE, "no scipy") for i in range(7)]
    results += [parts.Result("d", parts.WRONG, "off by 2"), parts.Result("e", parts.RIGHT)]
    assert parts.summary("kernels", results, 2.6).splitlines() == [
        "kernels: 1 right, 1 wrong, 7 not possible, 0 not run, in 3 s.",
        "* wrong: d: off by 2",
        "* not possible: c0; c1; c2; c3; c4 and 2 more: no scipy",
    ]


# --- comparing and counting -------------------------------------------------------------------------------


def test_wrong_numbers_are_found():
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    matrix.agree(x, x.astype(float), 1)
    with pytest.raises(AssertionError):
        matrix.agree(x, x + 1e-5, 16)
    with pytest.raises(AssertionError):
        matrix.agree(np.arange(3), np.array([0, 1, 3]), 16)
    with pytest.raises(AssertionError):
        matrix.agree(x, np.where(x > 0.9, np.nan, x), 16)


def test_wrong_gradients_are_found():
    given = {"x": np.linspace(0.1, 2, 20, dtype=np.float32)}
    weights = [np.arange(20.0)]
    right = np.cos(given["x"]) * weights[0]
    networks.agree_with_differences(lambda d: [np.sin(d["x"])], given, weights, {"x": right})
    with pytest.raises(AssertionError, match="gradient of x"):
        networks.agree_with_differences(lambda d: [np.sin(d["x"])], given, weights, {"x": right * 1.01})


def test_differences_to_the_peer():
    a = np.ones((3, 5), np.float16)
    assert bench.difference([a], [a * 1.01], 0.02) == ""
    assert bench.difference([a], [a * 1.1], 0.02).startswith("result 0 is off by 9.")
    assert "off by nan" in bench.difference([a * np.nan], [a], 0.02)
    assert bench.difference([a], [a[:2]], 0.02) == "result 0 is (3, 5), expected (2, 5)"
    assert bench.difference([a], [a, a], 0.02) == "1 results, expected 2"


def test_the_table():
    machine = Machine("a card", copy=4e12, products={"float16": 8e14})
    seconds = {"hybridc": 5e-4, "torch eager": 1e-3, "torch.compile": 4e-4}
    fast = Row("softmax", "float16", moved=1e9, seconds=seconds)
    product = Row("dot", "float16", flops=3e11, seconds={"hybridc": 5e-4, "torch eager": 2.5e-4}, remarks=["a | b"])
    failed = Row("dot", "bfloat16", flops=3e11, wrong="off by 2")
    assert cells(fast, machine) == ["softmax", "float16", "500.0", "1000.0", "400.0", "2.00", "0.80", "50%", "-", ""]
    assert cells(product, machine) == ["dot", "float16", "500.0", "250.0", "-", "0.50", "-", "-", "75%", "a / b"]
    assert cells(failed, machine) == ["dot", "bfloat16", *["-"] * 7, "WRONG: off by 2"]
    assert str(machine) == "a card: copies 4000 GB/s, products 800 TFLOP/s in float16"
    eager, compiled = means([fast, product, failed]).splitlines()
    assert eager == "Geometric mean of the time of torch eager ÷ hybridc's over 2 workloads: 1.00."
    assert compiled == "Geometric mean of the time of torch.compile ÷ hybridc's over 1 workloads: 0.80."
    assert geometric_mean([None]) is None


def test_what_is_measured_is_compiled_ahead(monkeypatch):
    """Shared out among processes: each function in each way that is tried, once, and for what its arguments are."""
    made = []
    monkeypatch.setattr(ahead, "binary", lambda *job: made.append(job))
    names = ["machine", "softmax, float32", "gelu(x + b), float16"]
    found = {name: traces()[name]() for name in names[1:]}
    monkeypatch.setattr(ahead, "traces", lambda: {name: lambda made=made: made for name, made in found.items()})
    checks = ahead.checks(names)
    assert list(checks)[ahead.SHARES :] == [f"torch.compile, {name}" for name in names[1:]]
    for compile_share in list(checks.values())[: ahead.SHARES]:
        compile_share()
    launches = [launch for each in found.values() for launch in launches_of(each)]
    wanted = [(code_key(function), str(config)) for function, configs, _ in launches for config in configs]
    assert sorted((code_key(function), str(config)) for function, config, *_ in made) == sorted(wanted)
    assert {job[2] for job in made} == {(9, 0)}
    assert all(divisible % 4 == 3 for *_, divisible in made)  # its first two pointers, at least


def test_every_workload_is_there():
    names = list(bench.checks(small=False))
    assert names[0] == "machine"
    for text in (
        *("tanh(x*a + b)", "gelu(x + b)", "softmax", "layer norm, forward and backward", "cross entropy"),
        *(f"gelu(x w + b), {n}, {dtype}" for n in (2048, 4096, 8192) for dtype in ("float16", "bfloat16")),
        *(f"attention 64x{n}x{d}{b}" for n in (1024, 8192) for d in (64, 128) for b in ("", ", forward and backward")),
        *("encoder layer, training step", "LSTM", "Adam on 100 M parameters", "small network, latency"),
    ):
        assert any(name.startswith(text) for name in names), text
