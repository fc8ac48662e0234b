"""Loggers with coloured, short lines: ``mx.log``."""

from __future__ import annotations

import logging
import warnings
from logging import CRITICAL, DEBUG, ERROR, INFO, NOTSET, WARNING

__all__ = ["CRITICAL", "DEBUG", "ERROR", "INFO", "NOTSET", "WARNING", "getLogger", "get_logger"]

_LETTERS = {CRITICAL: "C", ERROR: "E", WARNING: "W", INFO: "I", DEBUG: "D"}
_RED, _GREEN, _BLUE, _PLAIN = (f"\x1b[{code}m" for code in (31, 32, 34, 0))
_DONE: set[str] = set()  # the names of loggers that have their handler


class _Formatter(logging.Formatter):
    """``W0505 00:29:47 3525 train.py:main:12] text``, the first part red from warnings on, green for infos."""

    def __init__(self) -> None:
        super().__init__(datefmt="%m%d %H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        level = record.levelno
        colour = _RED if level >= WARNING else _GREEN if level >= INFO else _BLUE
        where = "%(asctime)s %(process)d %(pathname)s:%(funcName)s:%(lineno)d]"
        self._style = logging.PercentStyle(f"{colour}{_LETTERS.get(level, 'U')}{where}{_PLAIN} %(message)s")
        return super().format(record)


def getLogger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """:func:`get_logger` with the same arguments; deprecated.

    Parameters
    ----------
    name, filename, filemode, level:
        As for :func:`get_logger`.
    """
    warnings.warn("getLogger is deprecated, use get_logger instead", DeprecationWarning, stacklevel=2)
    return get_logger(name, filename, filemode, level)


def get_logger(
    name: str | None = None, filename: str | None = None, filemode: str | None = None, level: int = WARNING
) -> logging.Logger:
    """A logger that writes to a file, or in colours to stderr.

    A second call with the same name gives the same logger unchanged.

    Parameters
    ----------
    name:
        Its name; None is the root logger, as it is.
    filename:
        The file; None is stderr.
    filemode:
        How the file is opened; None is ``"a"``, which goes on at its end.
    level:
        The least level that is written, such as ``mx.log.INFO``.
    """
    logger = logging.getLogger(name)
    if name is None or name in _DONE:
        return logger
    _DONE.add(name)
    if filename:
        handler: logging.Handler = logging.FileHandler(filename, filemode or "a")
    else:
        handler = logging.StreamHandler()
        handler.setFormatter(_Formatter())
    logger.addHandler(handler)
    logger.setLevel(level)
    return logger
