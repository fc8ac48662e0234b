"""What the GPU check runs, part by part: named checks, each in a process that may fail without harm to the others."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

RIGHT, WRONG, IMPOSSIBLE, LEFT = "right", "wrong", "not possible", "not run"
PARTS = ("kernels", "networks", "bench", "operators")
AHEAD = "ahead"  # what is compiled before the benchmarks

# Before a result on the standard output, where others may write, too.
_MARK = "\x1eresult "
# Elements up to which the interpreter is quick enough.
_SMALL = 6000
_NAMES = 5  # so many checks that could not be made for the same reason are told by name


@dataclass(frozen=True)
class Result:
    """How a check went; ``row`` is what a benchmark measured: the fields of a Row or a Machine."""

    name: str
    status: str
    text: str = ""
    seconds: float = 0
    row: dict[str, Any] | None = None


# --- what there is --------------------------------------------------------------------------------------------


def checks_of(part: str, small: bool, only: Sequence[str] = ()) -> dict[str, Callable[[], Any]]:
    """The checks of a part whose names have one of some texts, most important first; ``small`` for the interpreter."""
    if part == AHEAD:
        from benchmarks.gpu import ahead

        return ahead.checks(list(checks_of("bench", small, only)))
    found = _checks_of(part, small)
    chosen = {name: check for name, check in found.items() if any(text in name for text in only or [""])}
    return {"machine": found["machine"], **chosen} if part == "bench" and chosen else chosen


def _checks_of(part: str, small: bool) -> dict[str, Callable[[], Any]]:
    return {"kernels": _kernels, "networks": _networks, "operators": _operators, "bench": _bench}[part](small)


def _kernels(small: bool) -> dict[str, Callable[[], Any]]:
    from benchmarks.gpu import matrix

    found: dict[str, Callable[[], Any]] = {}
    for case in matrix.cases():
        assert case.label not in found, f"two cases are called {case.label}"
        if not small or case.size <= _SMALL:
            found[case.label] = case.run
    found["random numbers"] = matrix.draws
    return found if small else {**found, "more than 2^31 elements": matrix.huge}


def _networks(small: bool) -> dict[str, Callable[[], Any]]:
    from benchmarks.gpu import networks

    found: dict[str, Callable[[], Any]] = dict(networks.checks())
    if small:
        networks.shrink()
        for name in networks.TRAINED:  # their sizes are fixed
            del found[name]
    return found


def _operators(small: bool) -> dict[str, Callable[[], Any]]:
    import hybridc as mx
    from hybridc.dialects.operator_registry import operators
    from hybridc.tools.check_op.case import each_sample
    from hybridc.tools.check_op.check_compiled import compare_on

    assert mx.nd  # importing it registers the operators
    ours = [cls for name, cls in sorted(operators().items()) if name.startswith("hybrid.")]
    return {label: lambda case=case: compare_on(case, "triton") for cls in ours for label, case in each_sample(cls)}


def _bench(small: bool) -> dict[str, Callable[[], Any]]:
    from benchmarks.gpu import bench

    return bench.checks(small)


# --- in a process of its own ----------------------------------------------------------------------------------


def work(part: str, small: bool, only: Sequence[str] = ()) -> None:
    """Run the checks that the standard input names, and print their results."""
    checks = checks_of(part, small, only)
    for name in json.load(sys.stdin):
        start = time.perf_counter()
        status, text, row = _attempt(checks[name])
        found = Result(name, status, text, time.perf_counter() - start, row)
        print("\n" + _MARK + json.dumps(asdict(found)), flush=True)


def _attempt(check: Callable[[], Any]) -> tuple[str, str, dict[str, Any] | None]:
    from hybridc.errors import DeviceError, DeviceMemoryError, UnsupportedError

    try:
        row = check()
    except (UnsupportedError, DeviceMemoryError, ModuleNotFoundError) as error:
        return IMPOSSIBLE, _told(error), None
    except DeviceError:  # on the GPU everything fails after it: another process goes on
        traceback.print_exc()
        sys.stderr.flush()
        raise
    except Exception as error:
        return WRONG, _told(error), None
    values = None if row is None else asdict(row)
    wrong = getattr(row, "wrong", "")
    return WRONG if wrong else RIGHT, wrong, values


def _told(error: Exception) -> str:
    """An error in one line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' / '.join(lines[:4])[:400]}"


# --- and beside it --------------------------------------------------------------------------------------------


def run(command: Sequence[str], names: Sequence[str], deadline: float, workers: int) -> Iterator[Result]:
    """The results of checks, as they come; ``command`` starts a process that works. Late ones are not run."""
    shares = [list(names[i::workers]) for i in range(workers)]
    found: list[Result] = []
    news = threading.Condition()

    def share(left: list[str]) -> None:
        while left:
            for result in _process(command, left, deadline):
                left.remove(result.name)
                with news:
                    found.append(result)
                    news.notify()

    threads = [threading.Thread(target=share, args=(left,), daemon=True) for left in shares if left]
    for thread in threads:
        thread.start()
    told = 0
    while told < len(names):
        with news:
            news.wait_for(lambda: len(found) > told)  # noqa: B023  (it is called here)
            fresh = found[told:]
        told += len(fresh)
        yield from fresh


def _process(command: Sequence[str], names: Sequence[str], deadline: float) -> Iterator[Result]:
    """Results of one process; one in which it ended is wrong, those after the deadline are not run."""
    left = list(names)
    late = time.time() >= deadline
    if not late:
        process = _started(command)
        stop = threading.Timer(deadline - time.time(), _end, [process])
        stop.start()
        try:
            for result in _read(process, left, deadline):
                left.remove(result.name)
                yield result
        finally:
            stop.cancel()
            _end(process)
            process.wait()
        late = time.time() >= deadline
    if late:
        yield from [Result(name, LEFT, "out of time") for name in left]


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    """A process that is the first of a group of its own."""
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and what it started, as PyTorch's compilers, which keep its output open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _read(process: subprocess.Popen[str], names: Sequence[str], deadline: float) -> Iterator[Result]:
    """What a process tells; where it ends before all names are told, the next one ended it."""
    assert process.stdin
    assert process.stdout
    assert process.stderr
    last: list[str] = []
    reader = threading.Thread(target=lambda: last.extend(process.stderr or ()), daemon=True)
    reader.start()
    with contextlib.suppress(BrokenPipeError):  # it ended already, for a reason that it told
        json.dump(list(names), process.stdin)
        process.stdin.close()
    told: set[str] = set()
    for line in process.stdout:
        if line.startswith(_MARK):
            result = Result(**json.loads(line.removeprefix(_MARK)))
            told.add(result.name)
            yield result
    code = process.wait()
    reader.join(1)
    missing = [name for name in names if name not in told]
    if missing and time.time() < deadline:
        said = [line.strip() for line in last if line.strip()][-1:]
        yield Result(missing[0], WRONG, f"the process ended with {code}: {''.join(said)[:400]}")


def summary(part: str, results: Sequence[Result], seconds: float) -> str:
    """How many results are of each kind, and which are not right and why, in Markdown."""
    counts = ", ".join(f"{sum(r.status == s for r in results)} {s}" for s in (RIGHT, WRONG, IMPOSSIBLE, LEFT))
    lines = [f"{part}: {counts}, in {seconds:.0f} s."]
    reasons: dict[tuple[str, str], list[str]] = {}
    for status in (WRONG, IMPOSSIBLE, LEFT):
        for r in results:
            if r.status == status:
                reasons.setdefault((status, r.text), []).append(r.name)
    for (status, text), names in reasons.items():
        shown = names if status == WRONG else names[:_NAMES]
        more = f" and {len(names) - len(shown)} more" if len(names) > len(shown) else ""
        lines.append(f"* {status}: {'; '.join(shown)}{more}: {text}")
    return "\n".join(lines)
