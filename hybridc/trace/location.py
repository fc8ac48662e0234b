"""Where a traced operator comes from: the user's file and line, and the path of the block."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from hybridc.quoting import one_line

_PACKAGE = str(Path(__file__).resolve().parent.parent) + "/"


@dataclass(frozen=True)
class Location:
    """A line of the user's code; ``block`` is the path of the block being traced, as ``net_dense0``."""

    file: str
    line: int
    block: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where} (in {self.block})" if self.block else where


def user_location(block: str = "") -> Location:
    """The innermost frame outside hybridc."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<function of")):
        frame = frame.f_back
    if frame is None:
        return Location("<unknown>", 0, one_line(block))
    return Location(one_line(frame.f_code.co_filename), frame.f_lineno, one_line(block))
