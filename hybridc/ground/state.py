"""Thread-local modes: recording, training, tracing, no recompilation."""

from __future__ import annotations

import threading
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
    #: Whether 0 in the shapes that users give to symbols is a size, and not unknown.
    np_shape: bool = False


STATE = State()
