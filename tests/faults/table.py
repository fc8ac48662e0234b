"""The faults of ``faults.txt``, which ``plant.py`` plants one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """``before`` becomes ``after`` in ``file`` (under ``hybridc/``); ``kind`` is what goes wrong.

    ``tests`` are run first, as they are the likeliest to notice; whether the fault is noticed does not depend on it.
    """

    kind: str
    file: str
    tests: tuple[str, ...]
    before: str
    after: str

    @property
    def name(self) -> str:
        """The kind, the file and the text that is planted."""
        return f"{self.kind}, {self.file}: {' '.join(self.after.split())}"


def _fault(block: str) -> Fault:
    head, *lines = block.rstrip("\n").split("\n")
    kind, file, tests = head.split(" | ")
    before, after = ("\n".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
    return Fault(kind, file, tuple(tests.split()), before, after)


FAULTS = tuple(_fault(block) for block in (Path(__file__).parent / "faults.txt").read_text().split("\n@ ")[1:])
