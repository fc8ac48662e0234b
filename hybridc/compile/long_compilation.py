"""A line on the terminal about a compilation that takes long, so that nobody takes it for a deadlock."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Generator
from typing import Any

from hybridc.ground import limits
from hybridc.ground.compiler_output import say

# Seconds after which a user at a terminal wonders what happens.
LONG = 2.0


@contextlib.contextmanager
def reported_if_long(name: str) -> Generator[None]:
    """Say which network is compiled if that takes longer than :data:`LONG`; only where stderr is a terminal.

    A thread waits for that time, which ends with the compilation; where none can be started, nothing is said.
    """
    if not _is_terminal(sys.stderr):
        yield
        return
    is_over = threading.Event()

    def report() -> None:
        if not is_over.wait(LONG):
            say(f"hybridc: compiling {name} ({LONG:.0f} s so far) …")

    thread = limits.thread(report, "hybridc long compilation", daemon=True)
    try:
        yield
    finally:
        is_over.set()
        if thread is not None:
            thread.join()


def _is_terminal(stream: Any) -> bool:
    """Whether a stream is a terminal; programs replace stderr by streams of any kind, or by None."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # no stream of Python's, or one that is closed
        return False
