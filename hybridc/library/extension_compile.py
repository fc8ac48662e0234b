"""The shim that turns C++ exceptions of extension libraries into errors: compiled once, cached on the disk."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

from hybridc.ground.store import may_be_anothers
from hybridc.ground.whole_files import write_whole
from hybridc.options import OPTIONS

_SOURCE = Path(__file__).with_name("extension_shim.cc")
_FLAGS = ("-O2", "-std=c++11", "-shared", "-fPIC")
_COMPILERS = ("c++", "g++", "clang++")
_ABI = 1  # of extension_shim.cc
_SECONDS = 120  # for which a compiler may run: it needs three


@functools.cache
def shim() -> Any:
    """The loaded shim; None, after a warning that says what follows from it, where it cannot be compiled."""
    try:
        return _load()
    except _CannotCompileError as error:
        warnings.warn(
            f"{error}. Extension libraries work all the same, but a C++ exception that leaves an operator of theirs "
            "ends the process; install a C++ compiler, or name one in HYBRIDC_CXX",
            stacklevel=6,
        )
        return None


class _CannotCompileError(Exception):
    """There is no shim, for this reason."""


def _load() -> Any:
    compiler = _compiler()
    name = f"extension_shim-{_key(compiler)}.so"
    with _folder() as folder:
        path = folder / name
        if path.exists():
            with contextlib.suppress(OSError, AttributeError):  # a damaged or foreign file is made anew
                return _open(path)
        _compile(compiler, path)
        try:
            return _open(path)
        except (OSError, AttributeError) as error:
            raise _CannotCompileError(f"what {compiler} made cannot be loaded: {error}") from error


def _open(path: Path) -> Any:
    if may_be_anothers(path.stat()):
        raise OSError(f"{path} may come from somebody else")  # the cache folder may be a shared one
    loaded = ctypes.CDLL(str(path))
    if loaded.shim_abi() != _ABI:
        raise OSError(f"{path} is another version")
    loaded.shim_error.restype = ctypes.c_char_p
    return loaded


def _compiler() -> str:
    names = _COMPILERS if OPTIONS.cxx is None else (OPTIONS.cxx,)
    for name in names:
        if found := shutil.which(name):
            return found
    raise _CannotCompileError(f"no C++ compiler was found (looked for {', '.join(names)})")


def _key(compiler: str) -> str:
    """Names what is compiled, by what, for what."""
    stat = Path(compiler).stat()
    parts = (
        hashlib.sha256(_SOURCE.read_bytes()).hexdigest(),
        str(Path(compiler).resolve()),
        f"{stat.st_size} {stat.st_mtime_ns}",
        *_FLAGS,
        platform.machine(),
        platform.system(),
    )
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:20]


@contextlib.contextmanager
def _folder() -> Generator[Path]:
    """The cache folder; a temporary one if this user cannot, or others may, write there."""
    folder = Path(OPTIONS.cache)
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(folder, os.W_OK | os.X_OK) and not may_be_anothers(folder.stat()):
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="hybridc-") as temporary:
        yield Path(temporary)


def _compile(compiler: str, path: Path) -> None:
    """Compile the shim; the file appears whole or not at all, also when several processes do this at once."""
    try:
        with tempfile.TemporaryDirectory(prefix="hybridc-") as folder:
            compiled = Path(folder, path.name)
            command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(compiled)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode != 0:
                said = (done.stderr.strip() or f"it returned {done.returncode}").splitlines()[0]
                raise _CannotCompileError(f"{compiler} cannot compile {_SOURCE.name}: {said}")
            write_whole(path, compiled.read_bytes(), private=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise _CannotCompileError(f"{compiler} cannot compile {_SOURCE.name}: {error}") from error
