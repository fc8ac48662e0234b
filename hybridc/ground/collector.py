"""Python's garbage collector, which takes its time while many objects are made that all live on."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def collector_at_rest() -> Generator[None]:
    """The collector rests: it would walk over a whole graph again and again while that is made."""
    rests = gc.isenabled()
    if rests:
        gc.disable()
    try:
        yield
    finally:
        if rests:
            gc.enable()
