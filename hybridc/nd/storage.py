"""Arrays in files: a zip of ``.npy`` members (NumPy's npz), which cannot run code when it is read."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hybridc.errors import MXNetError
from hybridc.nd.ndarray import NDArray

_LIST = "hybridc.list:"


def save(fname: str | os.PathLike[str], data: NDArray | Sequence[NDArray] | Mapping[str, NDArray]) -> None:
    """Save one array, a list of arrays, or a dict of named arrays. The file appears whole or not at all."""
    if isinstance(data, NDArray):
        data = [data]
    named = data if isinstance(data, Mapping) else {f"{_LIST}{i}": x for i, x in enumerate(data)}
    for name, x in named.items():
        if not isinstance(x, NDArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"save: only NDArrays can be saved, {name!r} is {type(x).__name__}")
    path = Path(fname)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with zipfile.ZipFile(partial, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, x in named.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, x.asnative(), allow_pickle=False)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def load(fname: str | os.PathLike[str]) -> Any:
    """What :func:`save` wrote: a list or a dict of arrays."""
    try:
        with np.load(fname, allow_pickle=False) as archive:
            named = {name: NDArray(archive[name]) for name in archive.files}
    except OSError as error:
        raise MXNetError(f"cannot read {fname}: {error.strerror or error}") from error
    except (ValueError, zipfile.BadZipFile, AttributeError, TypeError, EOFError) as error:
        raise MXNetError(
            f"{fname} is not a file of arrays that this version reads (a zip of .npy members): {error}"
        ) from error
    if named and all(name.startswith(_LIST) for name in named):
        return [named[f"{_LIST}{i}"] for i in range(len(named))]
    return named


def load_named(fname: str | os.PathLike[str]) -> dict[str, NDArray]:
    """A dict of arrays; an error for a file that holds a list."""
    loaded = load(fname)
    if isinstance(loaded, list):
        raise MXNetError(f"{fname} holds a list of arrays, expected arrays with names, as a dict gives them to save")
    return loaded
