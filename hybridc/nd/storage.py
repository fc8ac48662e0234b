"""Arrays in files: ``nd.save`` and ``nd.load``, in each format of :mod:`hybridc.array_files`."""

from __future__ import annotations

import functools
import io
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.array.ndarray import NDArray, values_of, wrap
from hybridc.array_files import formats
from hybridc.array_files.contents import ArrayFile, StoredArray
from hybridc.array_files.mxnet_format import TYPE_FLAGS
from hybridc.dtypes import BFLOAT16
from hybridc.errors import MXNetError, NestedArraysError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.sparse_storage import STORAGE_TYPES

if TYPE_CHECKING:
    from hybridc.array.several_arrays import Arrays

# MXNet's tables of numbers, under its names: of dtypes, what gradients are asked for, and storage types.
DTYPE_NP_TO_MX: dict[Any, int] = {None: -1, **{d.type: n for d, n in TYPE_FLAGS.items() if n < 8}}
DTYPE_NP_TO_MX[BFLOAT16] = TYPE_FLAGS[BFLOAT16]
DTYPE_MX_TO_NP: dict[int, Any] = {flag: dtype for dtype, flag in DTYPE_NP_TO_MX.items()}
GRAD_REQ_MAP = {"null": 0, "write": 1, "add": 3}  # kWriteInplace, 2, cannot be asked for
STORAGE_TYPE_STR_TO_ID = {"undefined": -1, **{name: i for i, name in enumerate(STORAGE_TYPES)}}
STORAGE_TYPE_ID_TO_STR = {i: name for name, i in STORAGE_TYPE_STR_TO_ID.items()}


@hides_frames
def save(
    fname: str | os.PathLike[str],
    data: NDArray | Sequence[NDArray] | Mapping[str, NDArray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Save one array, a list of arrays, or a dict of named arrays. The file appears whole or not at all.

    Parameters
    ----------
    fname:
        The file. A name that ends with ``.safetensors`` or ``.npz`` gets that format, which has dicts only; endings of
        other programs, as ``.pt``, are a FileFormatError; all others get MXNet's format, which MXNet reads.
    data:
        The array, the list or the dict. Arrays may be sparse in MXNet's format. Lists in lists are a
        NestedArraysError.
    metadata:
        Texts by name, in ``.safetensors`` alone; :func:`load_metadata` reads them.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "net.params")
    ...     mx.nd.save(file, {"weight": mx.nd.ones((2, 3)), "bias": mx.nd.zeros(2)})
    ...     {name: x.shape for name, x in mx.nd.load(file).items()}
    {'weight': (2, 3), 'bias': (2,)}
    """
    names: list[str] = []
    if isinstance(data, NDArray):
        values = [data]
    elif isinstance(data, Mapping):
        names, values = list(data.keys()), list(data.values())
    elif isinstance(data, list | tuple):
        values = list(data)
    else:
        raise NestedArraysError(f"save: data must be an NDArray, a list or a dict of such, got {type(data).__name__}")
    for i, x in enumerate(values):
        what = repr(names[i]) if names else f"element {i}"
        if not isinstance(x, NDArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"save: only NDArrays can be saved, {what} is {type(x).__name__}")
    for name in (*names, *(metadata or {}), *(metadata or {}).values()):
        if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"save: names must be strings, got {name!r}")
    arrays = [
        StoredArray(name, x.shape, np.dtype(x.dtype), functools.partial(_buffer, x), x.stype)
        for name, x in zip(names or [""] * len(values), values, strict=True)
    ]
    formats.write(fname, ArrayFile(arrays, bool(names), dict(metadata or {})))


@hides_frames
def load(fname: str | os.PathLike[str]) -> Arrays:
    """The list or dict of arrays in a file of :func:`save`, of MXNet, NumPy or safetensors.

    The content says which format it is. Arrays of a ``.safetensors`` file have its memory: what nobody uses is not
    read, and what is written to them stays out of the file.

    Parameters
    ----------
    fname:
        The file. ``model.safetensors.index.json`` is read with the files that it names. A file of another format, or
        one that is cut off, is a FileFormatError.

    Returns
    -------
    A dict of arrays by name, or a list if the file has no names; an empty list for an empty dict.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "arrays.npz")
    ...     np.savez(file, x=np.arange(3, dtype="float32"))
    ...     mx.nd.load(file)["x"].tolist()
    [0.0, 1.0, 2.0]
    """
    with formats.opened(fname) as contents:
        return _arrays(contents)


@hides_frames
def load_frombuffer(buf: bytes | bytearray | memoryview) -> Arrays:
    """As :func:`load`, from the bytes of a file.

    Parameters
    ----------
    buf:
        What a file holds, as bytes, a bytearray or a memoryview; anything else is a TypeError.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> np.savez(file, x=np.arange(3, dtype="float32"))
    >>> mx.nd.load_frombuffer(file.getvalue())["x"].tolist()
    [0.0, 1.0, 2.0]
    """
    if not isinstance(buf, bytes | bytearray | memoryview):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"load_frombuffer: buf must be bytes, got {type(buf).__name__}")
    return _arrays(formats.scan(io.BytesIO(buf), "the buffer"))


def load_metadata(fname: str | os.PathLike[str]) -> dict[str, str]:
    """The texts by name that were saved beside the arrays of a ``.safetensors`` file; of other files none.

    Parameters
    ----------
    fname:
        The file; no array of it is read.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = os.path.join(folder, "net.safetensors")
    ...     mx.nd.save(file, {"x": mx.nd.ones(2)}, metadata={"epoch": "3"})
    ...     mx.nd.load_metadata(file)
    {'epoch': '3'}
    """
    with formats.opened(fname) as contents:
        return dict(contents.metadata)


def load_named(fname: str | os.PathLike[str]) -> dict[str, NDArray]:
    """A dict of arrays; an error for a file that holds a list."""
    loaded: Any = load(fname)
    if isinstance(loaded, dict):
        return loaded  # pyright: ignore[reportUnknownVariableType]
    if loaded:
        raise MXNetError(f"{fname} holds a list of arrays, expected arrays with names, as a dict gives them to save")
    return {}  # an empty dict is written like an empty list


def _buffer(x: NDArray) -> Any:
    return values_of(x) if x.stype == "default" else x._data


def _arrays(contents: ArrayFile) -> Any:
    arrays = [(x.name, wrap(x.read())) for x in contents.arrays]
    # An empty list: MXNet's files do not say which it is.
    return dict(arrays) if contents.is_named and arrays else [x for _, x in arrays]
