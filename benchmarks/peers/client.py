"""A peer's process, as the driver sees it: requests go in, answers come out, see ``serve.py``."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from benchmarks import workloads
from benchmarks.images import EVERY
from benchmarks.peers.environments import Column, python
from benchmarks.peers.peer import Arrays, Counts
from benchmarks.workloads import Workload

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 600.0  # seconds for one answer, unless others are given: torch.compile may take minutes
POOLS = ("OMP", "OPENBLAS", "MKL", "NUMBA", "HYBRIDC")  # the thread pools that …_NUM_THREADS sizes
CACHES = (
    "HYBRIDC_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "JAX_COMPILATION_CACHE_DIR",
    "NUMBA_CACHE_DIR",
)
# Modules that a first call imports are read as in any installation, not parsed.
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
# glibc then keeps what was freed and serves large arrays from it: nobody pays page faults for fresh outputs
REUSE = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}


def thread_settings(threads: int) -> dict[str, str]:
    """The environment that sizes thread pools."""
    return {f"{pool}_NUM_THREADS": str(threads) for pool in POOLS}


class PeerError(Exception):
    """A peer could not do what it was asked for; the text is its exception's."""


class InexactError(PeerError):
    """A peer's results are too far from the definition's."""


class Client:
    """A running peer."""

    def __init__(
        self, column: Column, folder: Path, cache: Path, threads: int, reuse: bool, log: IO[str],
        patience: float = PATIENCE, lean: bool = False,
    ) -> None:  # fmt: skip
        self.column = column
        self.patience = patience
        settings = thread_settings(threads) | dict.fromkeys(CACHES, str(cache))
        settings |= {"HYBRIDC_TARGET": column.mode} if column.ours else {}
        command = [str(python(folder, column)), "-m", "benchmarks.peers.serve", column.peer, column.mode, str(threads)]
        command += [str(time.perf_counter())] * lean
        settings |= {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{column.tree}:{ROOT}"} if column.tree else {}
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **BYTECODE, **settings, **(REUSE if reuse else {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    @functools.cached_property
    def _start(self) -> dict[str, Any]:
        return self._answer()

    def started(self) -> dict[str, Any]:
        """Wait until the framework is imported."""
        return self._start

    def ask(self, do: str, **given: Any) -> dict[str, Any]:
        """The answer to a request."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **given}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise PeerError("the process ended") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        late = threading.Event()

        def end() -> None:
            late.set()
            self._process.kill()

        watch = threading.Timer(self.patience, end)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            raise PeerError(f"no answer in {self.patience:g} s" if late.is_set() else "the process ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):  # it ended while a request was on its way
            self._process.stdin.close()
        self._process.stdout.close()


def task_of(name: str, arrays: Callable[[], Arrays], folder: Path) -> dict[str, Any]:
    """What a peer is told of a workload; its inputs are written into the folder."""
    path = folder / f"{name}.npz"
    if not path.exists():
        np.savez(path, **arrays())  # pyright: ignore[reportArgumentType]
    return {
        "inputs": str(path),
        "name": name,
        "epsilon": workloads.EPSILON,
        "heads": workloads.HEADS,
        "learning_rate": workloads.LEARNING_RATE,
        "momentum": workloads.MOMENTUM,
    }


def first_call(client: Client, name: str, folder: Path) -> dict[str, Any] | None:
    """The program made and called once, its outputs checked against float64; None if the peer has no such workload."""
    made = outputs_of(client, name, EVERY[name].inputs, folder)
    if made is None:
        return None
    answer, outputs = made
    return {**answer, "error of magnitude": checked(EVERY[name], outputs)}


def further_call(client: Client, data: Arrays, folder: Path) -> tuple[dict[str, Any], Arrays]:
    """What a peer tells of the program's call with other data, and the outputs."""
    path = folder / "further.npz"
    np.savez(path, **data)  # pyright: ignore[reportArgumentType]
    return _written(client, folder, "further", inputs=str(path))


def checked(workload: Workload, outputs: Arrays) -> float:
    """The error of the outputs; InexactError if they are wrong."""
    try:
        return workload.error([*outputs.values()])
    except AssertionError as wrong:
        raise InexactError(str(wrong)) from None


def outputs_of(
    client: Client, name: str, arrays: Callable[[], Arrays], folder: Path
) -> tuple[dict[str, Any], Arrays] | None:
    """What a peer tells of its first call of a workload's program with these inputs, and the outputs."""
    if not client.ask("prepare", **task_of(name, arrays, folder))["made"]:
        return None
    return _written(client, folder, "first")


def counts_of(client: Client, name: str, arrays: Callable[[], Arrays], folder: Path) -> Counts:
    """What a peer counts of a network of ``counted_networks.py``, and the results that it computes."""
    answer, outputs = _written(client, folder, "count", **task_of(name, arrays, folder))
    return Counts(**answer, outputs=outputs)


def _written(client: Client, folder: Path, do: str, **given: Any) -> tuple[dict[str, Any], Arrays]:
    """The answer to a request that writes arrays, and these, by name."""
    path = folder / f"{client.column.peer}-{client.column.mode}-out.npz"
    answer = client.ask(do, outputs=str(path), **given)
    with np.load(path) as file:
        outputs = {name: file[name] for name in file.files}
    path.unlink()
    return answer, outputs
