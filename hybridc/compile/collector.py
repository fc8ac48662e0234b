"""Pausing Python's garbage collector while many long-lived objects are made."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Generator


@contextlib.contextmanager
def collector_at_rest() -> Generator[None]:
    """Pause the collector: it would traverse a graph again and again while that is built, and once more at the end.

    What a compilation leaves behind is freed without it (:mod:`hybridc.dialects.mlir.erase`, ``Trace.release``).
    """
    rests = gc.isenabled()
    if rests:
        gc.disable()
    try:
        yield
    finally:
        if rests:
            _take_for_old()
            gc.enable()


def _take_for_old() -> None:
    """Let all objects count as old: the next collection of young ones would traverse what was made meanwhile.

    Objects that a program has frozen itself stay so.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
