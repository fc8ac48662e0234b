"""``mx.libinfo``: where the files of this package are."""

from __future__ import annotations

from hybridc.library import include_path

__all__ = ["find_include_path"]


def find_include_path() -> str:
    """The folder with the headers for compiled operators, see :func:`hybridc.library.load`."""
    return include_path()
