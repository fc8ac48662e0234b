"""Debug output of the compiler, and the guard against recompilation: ``docs/debugging.md``."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Generator, Iterable
from typing import Any

from hybridc.errors import RecompileError
from hybridc.ground.events import recorded
from hybridc.ground.state import STATE
from hybridc.options import OPTIONS

_LOG = logging.getLogger("hybridc")


@contextlib.contextmanager
def no_recompile() -> Generator[None]:
    """Within this block, on this thread, a call that would compile raises :class:`RecompileError`.

    Warm up the networks before, once for each shape, dtype and mode that follows.
    """
    before = STATE.compiled_only
    STATE.compiled_only = True
    try:
        yield
    finally:
        STATE.compiled_only = before


def compiling(name: str, reason: str, first: bool = False) -> None:
    """Report that a network is about to be compiled, and why; an error inside :func:`no_recompile`."""
    if STATE.compiled_only:
        raise RecompileError(
            f"{name} would be compiled inside no_recompile(): {reason}; call it before in the same way, or keep what "
            "is different out of it"
        )
    if OPTIONS.explain_recompiles and not first:
        _LOG.warning("%s is compiled again: %s", name, reason)


def show(title: str, text: str) -> None:
    """Print a text under a title to stderr."""
    say(f"// ---- {title}\n{text.rstrip()}")


def say(line: str) -> None:
    """Write a line to stderr, if there is one: without it Python has None."""
    stream: Any = sys.stderr
    if stream is not None:
        stream.write(f"{line}\n")
        stream.flush()


def show_times(title: str, steps: Iterable[tuple[str, float]]) -> None:
    """Print the seconds of each step of a stage."""
    steps = list(steps)
    lines = [f"{1000 * seconds:9.2f} ms  {name}" for name, seconds in steps]
    show(title, "\n".join([*lines, f"{1000 * sum(seconds for _, seconds in steps):9.2f} ms  together"]))


@contextlib.contextmanager
def timed(title: str) -> Generator[None]:
    """Print how long a stage took, if ``HYBRIDC_TIME`` asks for it; and record it."""
    start = time.perf_counter()
    module, _, what = title.partition(", time of ")
    with recorded("compile", what, module=module):
        yield
    if OPTIONS.time:
        show(title, f"{1000 * (time.perf_counter() - start):9.2f} ms")
