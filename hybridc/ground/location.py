"""Source locations of traced operators: the user's file and line, and the path of the block."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from hybridc.ground.quoting import one_line
from hybridc.ground.records import dataclass

_PACKAGE = str(Path(__file__).resolve().parents[1]) + os.sep
# Python's standard library, and installed packages: only frames of the former are skipped.
_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED = (os.path.join(_LIBRARY, "site-packages"), os.path.join(_LIBRARY, "dist-packages"))
# The packages that we call.
_DEPENDENCIES = tuple(f"/site-packages/{name}/" for name in ("numpy", "scipy", "xdsl", "llvmlite", "ml_dtypes"))
#: How the files of operators' functions begin, which are generated.
FUNCTION_FILE = "<function of"


@dataclass(frozen=True)
class Location:
    """A line of the user's code; ``block`` is the path of the block being traced, as "net_dense0"."""

    file: str
    line: int
    block: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{where} (in {self.block})" if self.block else where


@functools.cache
def is_users(file: str) -> bool:
    """Whether a file is a user's, or of a library that is not ours."""
    if file.startswith((_PACKAGE, FUNCTION_FILE, "<frozen ")):
        return False
    return not file.startswith(_LIBRARY) or file.startswith(_INSTALLED)


@functools.cache
def is_dependency(file: str) -> bool:
    """Whether a file is of Python's own library, or of a package that we use: it does what its caller asked for."""
    if file.startswith("<frozen ") or any(package in file for package in _DEPENDENCIES):
        return True
    return file.startswith(_LIBRARY) and not file.startswith((_PACKAGE, *_INSTALLED))


def user_depth() -> int:
    """The ``stacklevel`` of a warning that the caller gives for the innermost frame outside hybridc."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame, depth = frame.f_back, depth + 1
    return depth


def user_location(block: str = "") -> Location:
    """The innermost frame outside hybridc and Python's own library."""
    frame = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return Location("<unknown>", 0, one_line(block))
    return Location(one_line(frame.f_code.co_filename), frame.f_lineno, one_line(block))
