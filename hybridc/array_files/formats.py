"""Which format a file of arrays has: one is written by the ending of its name, and read by its content.

A name that ends with ``.safetensors`` or ``.npz`` is written in that format. Every other name is written in MXNet's
format, as there, but for the endings of other programs (:data:`FOREIGN`), which are refused.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Generator
from pathlib import Path
from typing import BinaryIO

from hybridc.array_files import mxnet_format
from hybridc.array_files.contents import ArrayFile, FileFormat
from hybridc.errors import FileFormatError, MXNetError
from hybridc.ground.whole_files import replacing

INDEX = ".safetensors.index.json"
_PYTORCH = "in PyTorch, save the arrays by safetensors.torch.save_file(model.state_dict(), 'w.safetensors')"
_NUMPY = "in a program that can read it, save the arrays by numpy.savez('w.npz', **arrays)"
#: Endings that no program of MXNet uses: whose they are, and how their arrays get here.
FOREIGN = {
    ".pt": ("PyTorch", _PYTORCH),
    ".pth": ("PyTorch", _PYTORCH),
    ".pkl": ("Python's pickle", _NUMPY),
    ".pickle": ("Python's pickle", _NUMPY),
    ".npy": ("NumPy for one array without a name", _NUMPY),
    ".h5": ("HDF5", _NUMPY),
    ".hdf5": ("HDF5", _NUMPY),
    ".keras": ("Keras", _NUMPY),
    ".tflite": ("TensorFlow Lite", _NUMPY),
    ".msgpack": ("MessagePack", _NUMPY),
    ".gguf": ("llama.cpp", _NUMPY),
    ".onnx": ("ONNX", "mx.onnx.import_model reads it, and mx.onnx.export_model writes it"),
}
# How files of these begin; pickles since protocol 2.
_FOREIGN_MARKS = {
    b"\x93NUMPY": ".npy",
    b"\x89HDF\r\n": ".h5",
    b"GGUF": ".gguf",
    **{bytes([0x80, protocol]): ".pkl" for protocol in range(2, 6)},
}


# Those that are archives, as .npz is.
_ARCHIVES = (".keras", ".pt", ".pth")


def ending(fname: str | os.PathLike[str]) -> str:
    """The ending of a file's name, in small letters."""
    return Path(os.fsdecode(fname)).suffix.lower()


def for_writing(fname: str | os.PathLike[str]) -> FileFormat:
    """The format in which a file of this name is written."""
    end = ending(fname)
    if end in FOREIGN:
        # COMPAT(mxnet): there every file is written in MXNet's format, whatever its name.
        raise _unwritten(os.fsdecode(fname))
    return _by_ending(end)


def refuse_foreign(name: str) -> None:
    """Raise, if a name that is completed to those of files ends as those of another program."""
    if ending(name) in FOREIGN:
        raise _unwritten(name)


def write(fname: str | os.PathLike[str], contents: ArrayFile) -> None:
    """Write a file of arrays in the format of its ending. It appears whole or not at all."""
    written = for_writing(fname)
    for i, x in enumerate(contents.arrays):
        what = repr(x.name) if contents.is_named else f"element {i}"
        if x.dtype not in written.dtypes:
            raise MXNetError(f"save: {what} has dtype {x.dtype}, which the format cannot hold; use .astype")
        if x.stype != "default" and not written.holds_lists:
            raise FileFormatError(
                f"save: {what} is {x.stype}; {written.title} has dense arrays: use .tostype('default')"
            )
        try:
            x.name.encode()
        except UnicodeEncodeError as error:
            raise MXNetError(f"save: {what} cannot be the name of an array: {error}") from error
    if contents.arrays and not contents.is_named and not written.holds_lists:
        raise FileFormatError(f"save: {written.title} has names for all arrays: give a dict of arrays, not a list")
    if contents.metadata and not written.holds_metadata:
        raise FileFormatError(f"save: {written.title} has no metadata; save a file whose name ends with .safetensors")
    with replacing(fname) as file:
        written.write(file, contents)


@contextlib.contextmanager
def opened(fname: str | os.PathLike[str]) -> Generator[ArrayFile]:
    """The arrays of a file, which can be read inside the ``with`` block. Nothing in a file can run code."""
    where = os.fsdecode(fname)
    try:
        if where.endswith(INDEX):
            from hybridc.array_files import shard_index

            with shard_index.opened(where) as contents:
                yield contents
            return
        with Path(where).open("rb") as file:
            yield scan(file if file.seekable() else io.BytesIO(file.read()), where)
    except MXNetError:
        raise
    except OSError as error:
        raise MXNetError(f"cannot read {error.filename or where}: {error.strerror or error}") from error


def scan(file: BinaryIO, where: str) -> ArrayFile:
    """The arrays of an open file, in the format that its content says, or else its ending."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = file.read(16)
    end = ending(where)
    # MXNet's mark is also the length of a header of safetensors, behind which there is a brace.
    is_header = start[8:9] == b"{" and int.from_bytes(start[:8], "little") < size
    if is_header:
        end = ".safetensors"
    elif start.startswith(mxnet_format.MARK):
        end = ".params"
    elif start.startswith(b"PK") and (end not in _ARCHIVES or _holds_arrays(file)):
        end = ".npz"
    else:
        foreign = next((kind for mark, kind in _FOREIGN_MARKS.items() if start.startswith(mark)), end)
        if foreign in FOREIGN:
            raise _foreign(f"{where} is", foreign)
    return _by_ending(end).scan(file, where)


def _holds_arrays(file: BinaryIO) -> bool:
    """Whether the first member of an archive is an array of NumPy: its name stands behind 30 bytes."""
    file.seek(0)
    header = file.read(1 << 10)
    return header[30 : 30 + int.from_bytes(header[26:28], "little")].endswith(b".npy")


def _by_ending(end: str) -> FileFormat:
    if end == ".safetensors":
        from hybridc.array_files import safetensors_format

        return safetensors_format.FORMAT
    if end == ".npz":
        from hybridc.array_files import npz_format

        return npz_format.FORMAT
    return mxnet_format.FORMAT


def _unwritten(name: str) -> FileFormatError:
    """That a file of this name is not written here."""
    program, remedy = FOREIGN[ending(name)]
    kept = f"; {remedy}" if ending(name) == ".onnx" else ""
    return FileFormatError(
        f"{name} would be a file of {program}, which is not written here; choose a name that ends with .params, in "
        f"MXNet's format, .safetensors or .npz, as {Path(name).with_suffix('.params').name}{kept}"
    )


def _foreign(what: str, end: str) -> FileFormatError:
    program, remedy = FOREIGN[end]
    return FileFormatError(
        f"{what} a file of {program}. Files of arrays are .params or any other name, in MXNet's format, .safetensors "
        f"and .npz; {remedy}"
    )
