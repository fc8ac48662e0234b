"""Where the system limits threads, memory or files, programs work in turn, or get an error that says what to do."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import time
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


@pytest.mark.parametrize(
    "size", [300, *(pytest.param(size, marks=pytest.mark.long) for size in (380, 450, 520, 600, 700, 900))]
)
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


class TestThreads:
    """Threads are started in one place, which waits for none without end."""

    def test_nothing_else_starts_threads(self):
        alone = {"ground/limits.py", "launch/rank_process.py"}  # the latter runs where the package is not imported
        starts = re.compile(r"threading\.Thread\(|\(threading\.Thread\):|\bThreadPoolExecutor\(|start_new_thread\(")
        package = ROOT / "hybridc"
        files = {str(path.relative_to(package)): path.read_text() for path in package.rglob("*.py")}
        found = {name for name, text in files.items() if starts.search(text) and not name.startswith("tools/")}
        assert found == alone

    def test_a_thread_without_memory_to_begin_is_given_up(self, monkeypatch):
        """As where Python's own first lines in the thread raise MemoryError; nothing reports that to ``start``."""

        def fail(_thread):
            raise SystemExit  # ends the thread, as MemoryError does, and prints nothing

        monkeypatch.setattr(threading.Thread, "_bootstrap_inner", fail)
        monkeypatch.setattr(limits, "_START", 0.1)
        assert limits.thread(int, "test") is None
        pool = limits.thread_pool(2, "test")
        assert pool.submit(threading.get_ident).result() == threading.get_ident()

    def test_a_thread_that_was_given_up_does_nothing_later(self, monkeypatch):
        begin, may_begin, done = threading.Thread._bootstrap_inner, threading.Event(), []

        def late(thread):
            may_begin.wait()
            begin(thread)

        monkeypatch.setattr(threading.Thread, "_bootstrap_inner", late)
        monkeypatch.setattr(limits, "_START", 0.1)
        assert limits.thread(done.append, "late", 1) is None
        (thread,) = (each for each in threading.enumerate() if each.name == "late")
        may_begin.set()
        while not thread._started.is_set() or thread.is_alive():
            time.sleep(0.01)
        assert done == []

    def test_an_executor(self):
        """What it does at once, and what becomes of the rest when it is shut down, or nobody has it."""
        pool, both = limits.thread_pool(2, "shut"), threading.Barrier(2)
        first = [pool.submit(both.wait, 10) for _ in range(2)]
        assert sorted(each.result() for each in first) == [0, 1]
        go = threading.Event()
        busy = [pool.submit(go.wait) for _ in range(2)]
        rest = pool.submit(int)
        while not all(each.running() for each in busy):
            time.sleep(0.01)
        pool.shutdown(wait=False, cancel_futures=True)
        assert rest.cancelled()
        go.set()
        pool.shutdown()
        assert not any(each.name.startswith("shut_") for each in threading.enumerate())
        with pytest.raises(RuntimeError, match="after shutdown"):
            pool.submit(int)

        pool = limits.thread_pool(2, "dropped")
        threads = [each for each in threading.enumerate() if each.name.startswith("dropped")]
        assert pool.submit(int).result() == 0
        del pool
        gc.collect()
        for each in threads:
            each.join(10)
        assert not any(each.is_alive() for each in threads)


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
