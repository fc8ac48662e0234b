"""Tells those who rely on the values of arrays that an array was written.

What is written through hybridc is told: assignments, ``out=``, updates of weights and of running statistics. What is
written through NumPy or by another library, into memory that an array shares with it, is not.
"""

from __future__ import annotations

import weakref
from typing import Any, Protocol


class Reader(Protocol):
    """Somebody who relies on values."""

    def notice(self, array: Any) -> None:
        """This raw array was written."""
        ...


READERS: dict[int, weakref.ref[Reader]] = {}  # by identity, until they are done


def watch(reader: Reader) -> None:
    """Tell the reader of all writes from now on, until it says :func:`unwatch`."""
    READERS[id(reader)] = weakref.ref(reader)


def unwatch(reader: Reader) -> None:
    """Tell the reader no more."""
    READERS.pop(id(reader), None)


def written(*arrays: Any) -> None:
    """These raw arrays were written, or are about to be."""
    if not READERS:
        return
    for reference in list(READERS.values()):
        if (reader := reference()) is not None:
            for array in arrays:
                reader.notice(array)
