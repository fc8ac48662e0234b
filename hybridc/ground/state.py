"""Thread-local modes: recording, training, tracing, no recompilation."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from typing import Any


class State(threading.local):
    """The modes of one thread; class fields are the defaults of every new thread."""

    recording: bool = False
    training: bool = False
    #: The trace that is recording.
    trace: Any = None
    #: Records the attributes that a trace reads.
    reading: Any = None
    compiled_only: bool = False
    #: An operator's rule is running, its decomposition or gradient: what it calls is not what the user called.
    in_rule: bool = False
    #: Whether 0 in the shapes that users give to symbols is a size, and not unknown.
    np_shape: bool = False
    #: Whether what makes arrays without inputs, as parameters and data sets do, makes those of ``mx.np``.
    np_array: bool = False


STATE = State()


@contextlib.contextmanager
def inside_rule() -> Generator[None]:
    """Within the ``with`` block operators are called by a rule, or by a graph, that says all of them."""
    before, STATE.in_rule = STATE.in_rule, True
    try:
        yield
    finally:
        STATE.in_rule = before
