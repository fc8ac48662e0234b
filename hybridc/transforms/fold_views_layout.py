"""Where the elements of a view lie in the memory of its root: pieces of an axis, each with a size and a stride.

A view of an array by reshapes, transposes and slices is a list of pieces, in its own row-major order: nested loops over
them visit its elements in order. Pieces of size 1 are left out, and neighbours that are one run through memory are one
piece, so equal views have equal pieces: what a reshape undoes, or two transposes, leaves no trace. A contiguous array
is a single piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Shape = tuple[int, ...]
Piece = tuple[int, int]  # size, stride
Pieces = tuple[Piece, ...]


def merged(pieces: Iterable[Piece]) -> Pieces:
    """Without pieces of size 1, and as few as can be."""
    found: list[Piece] = []
    for size, stride in pieces:
        if size == 1:
            continue
        if found and found[-1][1] == stride * size:
            found[-1] = (found[-1][0] * size, stride)
        else:
            found.append((size, stride))
    return tuple(found)


def row_major(sizes: Sequence[int]) -> list[Piece]:
    """One piece for each axis of a contiguous array."""
    found: list[Piece] = []
    stride = 1
    for n in reversed(sizes):
        found.append((n, stride))
        stride *= n
    return found[::-1]


def split(pieces: Sequence[Piece], sizes: Iterable[int]) -> list[Piece] | None:
    """The pieces cut so that there is one of each of these sizes; None if a size needs more than one."""
    found: list[Piece] = []
    rest = iter(pieces)
    left, stride = 1, 1
    for size in sizes:
        if left == 1:
            left, stride = next(rest)
        if left % size:
            return None
        left //= size
        found.append((size, stride * left))
    return found


def by_axis(pieces: Sequence[Piece], shape: Sequence[int]) -> list[list[Piece]] | None:
    """The pieces that each axis of a view of this shape consists of; None if an axis ends inside a piece unevenly."""
    found: list[list[Piece]] = []
    rest = iter(pieces)
    left, stride = 1, 1
    for size in shape:
        group: list[Piece] = []
        while size > 1:
            if left == 1:
                left, stride = next(rest)
            taken = min(left, size)
            if left % taken or size % taken:
                return None
            left //= taken
            size //= taken
            group.append((taken, stride * left))
        found.append(group)
    return found


def in_memory(pieces: Iterable[Piece]) -> list[int]:
    """The places of pieces in the order in which they lie in memory, the outermost first."""
    return [i for i, _ in sorted(enumerate(pieces), key=lambda each: -each[1][1])]
