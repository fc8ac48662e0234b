"""``mx.libinfo``: where the files of this package are."""

from __future__ import annotations

from hybridc.errors import UnsupportedError
from hybridc.library import include_path

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]


def find_include_path() -> str:
    """The folder with the headers for compiled operators, see :func:`hybridc.library.load`."""
    return include_path()


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """Raises: there is no shared library to link against."""
    raise UnsupportedError(
        f"find_lib_path: hybridc has no library {prefix}.so; compiled operators need the headers in "
        "find_include_path() only, and are loaded by mx.library.load"
    )


def find_conf_path(prefix: str = "tvmop") -> list[str]:
    """Raises: there are no operators made with TVM."""
    raise UnsupportedError(f"find_conf_path: hybridc has no operators made with TVM, so no {prefix}.conf")
