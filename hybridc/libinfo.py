"""``mx.libinfo``: where the files of this package are, and the version of MXNet whose interfaces it has."""

from __future__ import annotations

import os
from typing import NoReturn

from hybridc.errors import UnsupportedError
from hybridc.ground import mxnet_version
from hybridc.library import include_path

__all__ = ["find_conf_path", "find_include_path", "find_lib_path"]

__version__ = mxnet_version


def find_include_path() -> str:
    """The folder with the headers for compiled operators, see :func:`hybridc.library.load`."""
    return include_path()


def find_lib_path(prefix: str = "libmxnet") -> list[str]:
    """The path that ``MXNET_LIBRARY_PATH`` names, in a list; a RuntimeError, which names ``prefix``, without it."""
    return _named_by("MXNET_LIBRARY_PATH", prefix)


def find_conf_path(prefix: str = "tvmop") -> list[str]:
    """The path that ``MXNET_CONF_PATH`` names, in a list; a RuntimeError, which names ``prefix``, without it."""
    return _named_by("MXNET_CONF_PATH", prefix)


def _named_by(variable: str, prefix: str) -> list[str]:
    path = os.environ.get(variable, "")
    return [path] if os.path.isabs(path) and os.path.isfile(path) else _no_library(variable, prefix)


def _no_library(variable: str, prefix: str) -> NoReturn:
    raise UnsupportedError(
        f"Cannot find {prefix}: hybridc has no library in C and no operators of TVM. Libraries of operators need the "
        f"headers in mx.libinfo.find_include_path() only; {variable} may name a file of yours, by its absolute path"
    )
