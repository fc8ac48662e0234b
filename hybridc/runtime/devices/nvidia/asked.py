"""Pending launches of a GPU: the candidates for an asynchronous error of the driver."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterator

from hybridc.errors import DeviceError
from hybridc.lower.triton.triton_function import TritonFunction

# Launches remembered per stream; and listed in an error.
_KEPT, _SHOWN = 256, 6

#: A function, a label, or those of a recording.
Launched = TritonFunction | str | tuple["Launched", ...]


class LatestLaunches:
    """The launches ``of`` each stream since its last synchronisation, the latest ones."""

    def __init__(self) -> None:
        self.of: defaultdict[int, deque[Launched]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def done(self, stream: int | None = None) -> tuple[Launched, ...]:
        """Forget the launches of a stream, or of all if None, as they are done; returns those of the stream."""
        if stream is not None:
            return tuple(self.of.pop(stream, ()))
        self.of.clear()
        return ()

    def in_context(self, error: DeviceError, stream: int | None = None) -> DeviceError:
        """The error with the launches that may have caused it; with a stream, the launch that returned it."""
        if stream is not None and os.environ.get("CUDA_LAUNCH_BLOCKING") == "1":
            return DeviceError(f"{error}: {next(_texts(tuple(self.of[stream])))}")
        texts = [text for asked in list(self.of.values()) for text in _texts(tuple(asked))]
        if not texts:
            return DeviceError(str(error))
        distinct = list(dict.fromkeys(texts))
        more = f", and {len(distinct) - _SHOWN} more" if len(distinct) > _SHOWN else ""
        return DeviceError(
            f"{error}. It was one of the launches since the device was last waited for, the latest first: "
            f"{'; '.join(distinct[:_SHOWN])}{more}. With CUDA_LAUNCH_BLOCKING=1 set it is known which"
        )


def _texts(launched: tuple[Launched, ...]) -> Iterator[str]:
    """Each launch as text, the latest first."""
    for launch in reversed(launched):
        if isinstance(launch, tuple):
            yield from _texts(launch)
        else:
            yield launch if isinstance(launch, str) else launch.described
