"""``make gpu-check``: is what hybridc computes on this machine's GPU right, and how fast is it beside PyTorch?

::

    python3 benchmarks/gpu/check.py                                   # all parts, within nine minutes
    python3 benchmarks/gpu/check.py --part bench --only attention
    python3 benchmarks/gpu/check.py --part kernels --device interpreter --small     # without a GPU

It runs with Python, NumPy, Triton and PyTorch (or CuPy; the benchmarks need PyTorch), and fetches nothing. What hybridc
needs besides, ``benchmarks/gpu/bundle.py`` puts into ``build/gpu_check/site`` on a machine where hybridc is installed.
Parts run in their order, most important first, each check in a process beside; what is right, wrong, not possible
and not run is told as each part ends, and kept in a file. The exit code is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "build" / "gpu_check" / "site"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu import parts
from benchmarks.gpu.table import Machine, Row, cells, header, line, means

OUT = Path(__file__).resolve().parents[2] / "build" / "gpu_check" / "report.md"
# When each part has to end, as a share of the time.
ENDS = {"kernels": 0.2, "networks": 0.35, "bench": 0.8, "operators": 1.0}
NEEDS = {
    "numpy": "NumPy is missing; PyTorch's own images have it",
    "triton": "Triton is missing; PyTorch for Linux brings it",
    "xdsl": "xDSL is missing: run `make gpu-bundle` where hybridc is installed, and bring build/gpu_check along",
}


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=9, help="after which the check ends (9)")
    parser.add_argument("--part", action="append", choices=parts.PARTS, help="only this one; may be repeated")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="only checks whose name has this")
    parser.add_argument(
        "--device", default="auto", choices=("auto", "torch", "cupy", "cuda", "interpreter"), help="as HYBRIDC_GPU"
    )
    parser.add_argument("--small", action="store_true", help="small arrays: the interpreter is slow")
    parser.add_argument("--workers", type=int, default=min(12, os.cpu_count() or 1), help="processes that check")
    parser.add_argument("--out", type=Path, default=OUT, help="the report")
    parser.add_argument("--work", choices=(*parts.PARTS, parts.AHEAD), help=argparse.SUPPRESS)
    return parser.parse_args(given)


class Report:
    """Lines that are printed and kept at once: a run that is cut leaves what it found."""

    def __init__(self, file: TextIO) -> None:
        self.file = file

    def say(self, text: str) -> None:
        print(text, flush=True)
        print(text, file=self.file, flush=True)


def main(given: Sequence[str] | None = None) -> int:
    """0: all is right; 1: something is wrong; 2: the check cannot run here."""
    asked = arguments(given)
    missing = [text for name, text in NEEDS.items() if importlib.util.find_spec(name) is None]
    if missing:
        print("error: " + "; ".join(missing), file=sys.stderr)
        return 2
    os.environ["HYBRIDC_GPU"] = asked.device
    if asked.device == "interpreter":
        os.environ["TRITON_INTERPRET"] = "1"  # PyTorch imports Triton, too, and perhaps before hybridc
    if importlib.util.find_spec("llvmlite") is None:
        os.environ["HYBRIDC_TARGET"] = "numpy"  # for graphs of CPU arrays
    if asked.work:
        parts.work(asked.work, asked.small, asked.only)
        return 0
    try:
        device = device_text()
    except Exception as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    with asked.out.open("w") as file, tempfile.TemporaryDirectory(prefix="hybridc-gpu-check-") as folder:
        report = Report(file)
        report.say(f"{device}\n")
        wrong: list[bool] = []
        for part, end in ends(asked, time.time()).items():
            # Which way of a function is the fastest is found out anew: processes that check disturb each other.
            os.environ["HYBRIDC_CACHE_DIR"] = str(Path(folder) / part)
            os.environ |= kept_by_torch(Path(folder) / part)
            wrong.append(run_part(part, asked, end, report))
    print(f"This report is in {asked.out}")
    return int(any(wrong))


def kept_by_torch(folder: Path) -> dict[str, str]:
    """Variables of the environment by which PyTorch keeps what it compiles in a folder."""
    kept = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
    return {**kept, "TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}


def ends(asked: argparse.Namespace, start: float) -> dict[str, float]:
    """The parts to run, and when each has to end; the last may use what is left."""
    chosen = [part for part in parts.PARTS if part in (asked.part or parts.PARTS)]
    shares = {part: 1.0 if part == chosen[-1] else ENDS[part] for part in chosen}
    return {part: start + 60 * asked.minutes * share for part, share in shares.items()}


def run_part(part: str, asked: argparse.Namespace, end: float, report: Report) -> bool:
    """Run a part until a moment, telling what it finds; whether something is wrong."""
    start = time.time()
    names = list(parts.checks_of(part, asked.small, asked.only))
    found: list[parts.Result] = []
    if part == "bench" and names and not asked.small:
        compile_ahead(asked, (start + end) / 2, report)
    command = worker(part, asked)
    tell = bench_lines(report) if part == "bench" else None
    for result in parts.run(command, names, end, 1 if part == "bench" else asked.workers):
        found.append(result)
        if tell is not None:
            tell(result)
    if part == "bench":
        report.say("\n" + means([Row(**r.row) for r in found if r.row and r.name != "machine"]))
    report.say("\n" + parts.summary(part, found, time.time() - start) + "\n")
    return any(r.status == parts.WRONG for r in found)


def worker(part: str, asked: argparse.Namespace) -> list[str]:
    """The command of a process that works on a part."""
    small, only = ["--small"] if asked.small else [], [f"--only={text}" for text in asked.only]
    return [sys.executable, __file__, "--work", part, "--device", asked.device, *small, *only]


def compile_ahead(asked: argparse.Namespace, end: float, report: Report) -> None:
    """Compile what the benchmarks measure, until a moment: what is left then is compiled when it is measured."""
    start = time.time()
    names = list(parts.checks_of(parts.AHEAD, asked.small, asked.only))
    made = sum(r.status == parts.RIGHT for r in parts.run(worker(parts.AHEAD, asked), names, end, asked.workers))
    report.say(f"Compiled ahead: {made} of {len(names)} parts in {time.time() - start:.0f} s.\n")


def bench_lines(report: Report) -> Callable[[parts.Result], None]:
    """What tells each result of the benchmarks as a line of the table, below what the machine can do."""
    machine = Machine("this machine", 0, {})

    def tell(result: parts.Result) -> None:
        nonlocal machine
        if result.name == "machine":
            machine = Machine(**result.row) if result.row else machine
            report.say("\n".join([f"{machine}.", "", *header()]))
            return
        name, _, dtype = result.name.rpartition(", ")
        row = Row(**result.row) if result.row else Row(name, dtype, remarks=(result.status,))
        report.say(line(cells(row, machine)))

    return tell


def device_text() -> str:
    """The device, and the versions of what matters."""
    from importlib.metadata import PackageNotFoundError, version

    from hybridc.runtime.devices.choose import device

    versions: list[str] = []
    for package in ("torch", "triton", "numpy", "xdsl"):
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            versions.append(f"no {package}")
    found = device(0)
    return f"{type(found).__name__} {found.name}; Python {sys.version.split()[0]}, {', '.join(versions)}"


if __name__ == "__main__":
    sys.exit(main())
