"""Python's recursion limit for calls of deeply nested blocks."""

from __future__ import annotations

import sys
import threading

# Frames that a call of a block nested in another takes: ``__call__``, ``forward``, ``hybrid_forward``, what it calls.
_FRAMES = 6
# Calls of blocks take 0.4 KiB of the thread's stack a frame, others up to 0.7: so many frames fit into 8 MiB.
_MOST = 10_000
_LOCK = threading.Lock()


def allow_nested(levels: int) -> None:
    """Let calls of so many nested blocks not meet the recursion limit: a third of it stays for others.

    The limit is raised when a deep network is built and stays: to lower it again would race with other threads, and a
    network of less than some hundred levels leaves it alone.
    """
    wanted = min(_MOST, _FRAMES * levels * 3 // 2)
    if wanted <= sys.getrecursionlimit():
        return
    with _LOCK:
        sys.setrecursionlimit(max(wanted, sys.getrecursionlimit()))
