"""Pausing Python's garbage collector while many long-lived objects are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def collector_at_rest() -> Generator[None]:
    """Pause the collector: it would traverse a graph again and again while that is built."""
    rests = gc.isenabled()
    if rests:
        gc.disable()
    try:
        yield
    finally:
        if rests:
            gc.enable()
