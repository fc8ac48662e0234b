"""How many operators run as one: ``mx.engine``."""

from __future__ import annotations

from types import TracebackType

__all__ = ["bulk", "set_bulk_size"]

_size = [0]  # the present one


def set_bulk_size(size: int) -> int:
    """Set how many operators, ``size``, MXNet's engine may run in one go; returns what was set before.

    Nothing depends on it here: eager operators run at once, and hybridized blocks are compiled as a whole.

    Parameters
    ----------
    size:
        The number.
    """
    previous, _size[0] = _size[0], int(size)
    return previous


class _BulkScope:
    """A size that is set for a ``with`` block."""

    def __init__(self, size: int) -> None:
        self._inside = size
        self._outside = size

    def __enter__(self) -> _BulkScope:
        self._outside = set_bulk_size(self._inside)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        set_bulk_size(self._outside)


def bulk(size: int) -> _BulkScope:
    """``with mx.engine.bulk(10):`` sets the size of :func:`set_bulk_size` for a block.

    Parameters
    ----------
    size:
        The number.
    """
    return _BulkScope(size)
