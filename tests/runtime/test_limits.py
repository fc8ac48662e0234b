"""Where the system limits threads, memory or files, programs work in turn, or get an error that says what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hybridc.ground import limits

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")

PROGRAM = Path(__file__).with_name("limited_program.py")
ROOT = Path(__file__).parents[2]


def outcomes(folder, kind, value, env=None, cases=()):
    """What the program says of each case."""
    full = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDC_CACHE_DIR": str(folder / "cache"), **(env or {})}
    full.pop("OPENBLAS_NUM_THREADS", None)
    folder.chmod(0o777)
    command = [sys.executable, str(PROGRAM), kind, str(value), str(folder), *cases]
    done = subprocess.run(
        command, env=full, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return dict(line.split(maxsplit=1) for line in done.stdout.splitlines())


def test_no_thread_may_be_started(tmp_path):
    cases = ("eager", "hybridized", "loader_threads", "loader_processes")
    found = outcomes(tmp_path, "threads", 1, cases=cases)
    refused = found.pop("loader_processes")
    assert found == dict.fromkeys(cases[:3], "ok")
    assert refused.startswith("LimitError: DataLoader worker 0 needs a process, which the system refuses")
    assert refused.endswith("or use num_workers=0")


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_some_threads_may_be_started(tmp_path, count):
    found = outcomes(tmp_path, "threads", count)
    assert all(text == "ok" for name, text in found.items() if name != "loader_processes"), found
    assert found["loader_processes"] == "ok" or found["loader_processes"].startswith("LimitError")


@pytest.mark.parametrize("size", [300, *(pytest.param(size, marks=pytest.mark.long) for size in (380, 450, 520, 600))])
def test_little_address_space(tmp_path, size):
    """LLVM and OpenBLAS end a process that has no more, so they are not asked."""
    found = outcomes(tmp_path, "memory", size)
    assert all(text == "ok" or text.startswith("LimitError: ") for text in found.values()), found
    for text in found.values():
        assert text == "ok" or "raise the limit (ulimit -v)" in text
    assert found["eager"] == found["save"] == "ok"


@pytest.mark.long
def test_numpy_needs_no_llvm(tmp_path):
    found = outcomes(tmp_path, "memory", 450, {"HYBRIDC_TARGET": "numpy"})
    assert set(found.values()) == {"ok"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("value", "env"),
    [(40, {}), (1024, {"HOME": "/nonexistent", "HYBRIDC_CACHE_DIR": "/proc/none"}), (1024, {"TMPDIR": "/proc/none"})],
)
def test_few_files_and_no_folders(tmp_path, value, env):
    assert set(outcomes(tmp_path, "files", value, env).values()) == {"ok"}


@pytest.mark.long
def test_closed_streams(tmp_path):
    """Without stdin and stderr; descriptors 0 and 2 are then those of the first files that are opened."""
    script = f"exec {sys.executable} {PROGRAM} nothing 0 {tmp_path} <&- 2>&-"
    done = subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert {line.split(maxsplit=1)[1] for line in done.stdout.splitlines()} == {"ok"}


def test_work_in_turn_where_no_thread_starts(monkeypatch):
    """The executor's results and errors are those of threads."""

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", refuse)
    assert not limits.may_start_threads()
    pool = limits.thread_pool(3, "test")
    assert pool.submit(max, 1, 2).result() == 2
    assert isinstance(pool.submit(int, "x").exception(), ValueError)
    pool.shutdown(wait=False, cancel_futures=True)
