"""Plant one fault after the other in a copy of the library, and see whether the tests notice.

``python tests/faults/plant.py`` plants all of them and prints a table, ``--write`` puts its sum into
``docs/testing.md``; ``--only TEXT`` takes those whose name has the text. Each fault meets first the tests that it
names; if these pass, all tests that ``make test`` runs, and then those that ``make test-all`` adds.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "testing.md"
sys.path.insert(0, str(ROOT))

from tests.faults.table import FAULTS, Fault  # noqa: E402

COPIED = (
    "hybridc",
    "tests",
    "examples",
    "benchmarks",
    "docs",
    "pyproject.toml",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
)
LIMIT = 3600  # seconds; a fault that keeps the tests from ending was noticed
# A test that no fault here is to fail, and that fails with every one: the table's own.
OWN = "tests/faults"


def plant(fault: Fault, folder: Path) -> None:
    """A copy of the project in ``folder`` that has the fault."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "out"))
        else:
            shutil.copy(source, folder / name)
    file = folder / "hybridc" / fault.file
    file.write_text(file.read_text().replace(fault.before, fault.after))


def first_failure(folder: Path, tests: Sequence[str], long: bool) -> str | None:
    """The first test that fails in a project, by ``make test`` or, ``long``, by ``make test-all``; None if all pass."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        *(() if long else ("-m", "not long")),
        "--deselect",
        OWN,
        *tests,
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        **({"HYBRIDC_VERIFY": "1"} if long else {}),
    }
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {LIMIT} seconds"
    if done.returncode == 0:
        return None
    if done.returncode == 5:  # no test was selected
        return None
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return found[1] if found else f"the tests' process ended with {done.returncode}"


def caught(fault: Fault) -> tuple[str, str]:
    """The first test that fails with a fault, and the command that runs it; empty if none does."""
    with tempfile.TemporaryDirectory(prefix="hybridc-fault-") as folder:
        plant(fault, Path(folder))
        for command, tests in (("make test", fault.tests), ("make test", ["tests"]), ("make test-all", ["tests"])):
            failed = first_failure(Path(folder), tests, command == "make test-all")
            if failed is not None:
                return failed, command
    return "", ""


def table(faults: Sequence[Fault], found: Sequence[tuple[str, str]]) -> str:
    """The faults and what noticed them, as Markdown."""
    lines = ["| fault | file | becomes | noticed by | of |", "|---|---|---|---|---|"]
    for fault, (test, command) in zip(faults, found, strict=True):
        after = " ".join(fault.after.split()).replace("|", "\\|")
        lines.append(f"| {fault.kind} | {fault.file} | `{after or ' '}` | {test or '**nothing**'} | {command} |")
    return "\n".join(lines) + "\n"


def total(found: Sequence[tuple[str, str]]) -> str:
    """How many faults were noticed, as a sentence."""
    quick = sum(command == "make test" for _, command in found)
    every = sum(bool(command) for _, command in found)
    return f"`make test` notices {quick} of {len(found)}, `make test-all` {every}."


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status says whether at least 95 % were caught, by ``make test`` all that any test catches."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="faults whose name has this text")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"put the sum into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    faults = [f for f in FAULTS if options.only in f.name]

    def one(fault: Fault) -> tuple[str, str]:
        start = time.monotonic()
        found = caught(fault)
        print(
            f"{time.monotonic() - start:5.0f} s  {fault.name}: {found[0] or 'NOT NOTICED'}", file=sys.stderr, flush=True
        )
        return found

    with ThreadPoolExecutor(options.jobs) as pool:
        found = list(pool.map(one, faults))
    print(table(faults, found), total(found), sep="\n")
    if options.write:
        head, _, tail = PAGE.read_text().partition("<!-- table -->\n")
        PAGE.write_text(f"{head}<!-- table -->\n\n{total(found)}\n\n<!-- end -->{tail.partition('<!-- end -->')[2]}")
    quick = sum(command == "make test" for _, command in found)
    every = sum(bool(command) for _, command in found)
    return 0 if quick == every and every >= 0.95 * len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
