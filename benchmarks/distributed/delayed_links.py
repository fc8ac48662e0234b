"""Links on which frames take a while: ``delayed_links.py COUNT SECONDS``, in a network namespace, as root.

Makes pairs of interfaces, ``near0`` and ``far0`` and so on, prints a line, and carries frames between those of a pair
until it is killed: each arrives so many seconds after it was sent. Interfaces may be moved to other namespaces. A
kernel without netem, which tc needs for that, can do it this way.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import struct
import sys
import time
from collections import deque

_TUNSETIFF, _TUNSETOFFLOAD = 0x400454CA, 0x400454D0
_TAP, _NO_INFORMATION, _HEADERS = 0x2, 0x1000, 0x4000
# Frames as the kernel hands them to a card: several as one, with checksums that are still to be computed.
_CHECKSUMS, _SEGMENTS_4, _SEGMENTS_6 = 1, 2, 4
_LONGEST = 1 << 17  # bytes of such a frame
_AT_ONCE = 64  # frames that are read before others are written


def interface(name: str) -> int:
    """A descriptor from which the frames are read that an interface sends; what is written there it receives."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _TAP | _NO_INFORMATION | _HEADERS))
    fcntl.ioctl(descriptor, _TUNSETOFFLOAD, _CHECKSUMS | _SEGMENTS_4 | _SEGMENTS_6)
    return descriptor


def main(count: int, seconds: float) -> None:
    """Carry frames."""
    peers: dict[int, int] = {}
    for k in range(count):
        near, far = interface(f"near{k}"), interface(f"far{k}")
        peers |= {near: far, far: near}
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, 9, 0, 0, 0)  # PR_SET_PDEATHSIG: killed with the process that started this one
    print("ready", flush=True)
    on_the_way: deque[tuple[float, int, bytes]] = deque()
    while True:
        wait = max(0.0, on_the_way[0][0] - time.monotonic()) if on_the_way else None
        for descriptor in select.select([*peers], [], [], wait)[0]:
            due = time.monotonic() + seconds
            with contextlib.suppress(OSError):  # nothing is left, or the interface is down
                for _ in range(_AT_ONCE):
                    on_the_way.append((due, peers[descriptor], os.read(descriptor, _LONGEST)))
        while on_the_way and on_the_way[0][0] <= time.monotonic():
            _, descriptor, frame = on_the_way.popleft()
            with contextlib.suppress(OSError):  # lost, as on a wire
                os.write(descriptor, frame)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
