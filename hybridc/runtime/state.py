"""What this thread is doing: recording, training, tracing, or running only what is compiled already."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hybridc.trace.tracer import Trace


class State(threading.local):
    """The modes of one thread; class fields are the defaults of every new thread."""

    recording: bool = False
    training: bool = False
    trace: Trace | None = None
    compiled_only: bool = False


STATE = State()
