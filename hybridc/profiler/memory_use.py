"""The memory that this process has, and that GPUs have given away."""

from __future__ import annotations

import contextlib
import os
import sys

from hybridc.errors import MXNetError
from hybridc.ground.buffers import POOL
from hybridc.ground.events import RECORDER

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
_STATM = "/proc/self/statm"  # of Linux: sizes in pages, of which the second are resident


def memory_in_use() -> dict[str, int]:
    """Bytes by MXNet's names of devices: resident memory of the process where the system says it; and the pool's."""
    found = {"Memory: cpu/pool": POOL.bytes}
    if sys.platform == "linux":
        with open(_STATM, "rb") as file:
            found["Memory: cpu/0"] = int(file.read().split()[1]) * _PAGE
    for name, gauge in list(RECORDER.gauges.items()):
        with contextlib.suppress(MXNetError):  # a driver may answer some threads only
            found[name] = gauge()
    return found
