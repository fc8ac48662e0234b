"""``python -m hybridc convert``: arrays in a file of another format, under other names or in another dtype.

    python -m hybridc convert net-0003.params net.safetensors --dtype float16
    python -m hybridc convert model.safetensors net.params --rename 'fc(\\d)\\.(.*)=\\1.\\2' --rename '.*num_batches.*='
    python -m hybridc convert model.safetensors.index.json --list
    python -m hybridc convert net-0003.params net.onnx --shapes data:1,3,224,224
    python -m hybridc convert model.onnx net-symbol.json

The ending of the second file is its format: ``.safetensors``, ``.npz``, ``.onnx``, or any other name for MXNet's. Large
files are converted one array at a time; metadata stay where the format has them. Networks become ``.onnx`` from
``net-symbol.json`` beside their parameters; from ``.onnx`` they become ``net-symbol.json`` and ``net-0000.params``, or
arrays alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import re
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.array.ndarray import NDArray, values_of
from hybridc.array_files import formats
from hybridc.array_files.contents import Array, ArrayFile, StoredArray
from hybridc.array_files.name_maps import renamed
from hybridc.dtypes import TYPES, DType, is_float
from hybridc.errors import AttributeValueError, MXNetError
from hybridc.ground.whole_files import write_whole
from hybridc.symbol.checkpoint import load_arrays, named_for_file, save_checkpoint
from hybridc.symbol.composed import load
from hybridc.tools.compile_network import named_shape

_SYMBOL, _ONNX, _SHARDED = "-symbol.json", ".onnx", ".safetensors"
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}  # of bytes, as decimal prefixes


def main(arguments: Sequence[str]) -> int:
    """Convert what the command line says; 1 where that cannot be done."""
    options = _options(arguments)
    try:
        for line in _converted(options):
            print(line)
    except MXNetError as error:
        print(f"python -m hybridc convert: {error}", file=sys.stderr)
        return 1
    return 0


def _options(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser("python -m hybridc convert", None, __doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("source", help="the file to read: its content says what it is")
    parser.add_argument("target", nargs="?", help="the file to write; without it --list is meant")
    parser.add_argument("--list", action="store_true", help="print names, dtypes, shapes and bytes")
    parser.add_argument("--dtype", help="cast floating-point arrays to this one, as float16 or bfloat16")
    renaming = parser.add_argument("--rename", action="append", default=[], metavar="OLD=NEW")
    renaming.help = (
        r"OLD is a regular expression of whole names, NEW may have \1; an empty NEW leaves arrays out; the first wins"
    )
    metadata = parser.add_argument("--metadata", action="append", default=[], metavar="KEY=TEXT")
    metadata.help = "a text for .safetensors, beside those of the source"
    parser.add_argument("--max-shard-size", help="write several .safetensors and an index: 500MB, 5GB")
    shapes = parser.add_argument("--shapes", action="append", default=[], metavar="NAME:SIZES")
    shapes.help = "for .onnx, the shape of each input, as data:1,3,224,224"
    parser.add_argument("--symbol", help="for .onnx, the file of the symbol (default: net-symbol.json)")
    return parser.parse_args(arguments)


def _converted(options: Namespace) -> list[str]:
    """Convert a file; the lines that say what was done."""
    source, target = options.source, options.target
    if target is not None and formats.ending(target) == _ONNX:
        return [_export(options)]
    if target is not None and target.endswith(".json"):
        return [_import(source, target)]
    with _opened(source) as contents:
        changed = _changed(contents, options)
        lines = _listing(changed) if options.list or target is None else []
        if target is not None:
            lines.append(_write(target, changed, options.max_shard_size))
    return lines


@contextlib.contextmanager
def _opened(source: str) -> Generator[ArrayFile]:
    """The arrays of a file, of an ONNX model by the names that they have in a checkpoint."""
    if formats.ending(source) != _ONNX:
        with formats.opened(source) as contents:
            yield contents
        return
    _, arguments, states = _onnx().import_model(source)
    named = named_for_file(arguments, states)
    yield ArrayFile([_stored(name, x) for name, x in named.items()], True, {})


def _stored(name: str, array: NDArray) -> StoredArray:
    return StoredArray(name, array.shape, np.dtype(array.dtype), functools.partial(values_of, array))


# --- arrays ---------------------------------------------------------------------------------------------------


def _changed(contents: ArrayFile, options: Namespace) -> ArrayFile:
    """The arrays as they are asked for: their names, their dtypes, and texts beside them."""
    written = None if options.target is None else formats.for_writing(options.target)
    metadata = dict(contents.metadata) if written is None or written.holds_metadata else {}
    metadata |= (_split(text, "--metadata", "KEY=TEXT") for text in options.metadata)
    named = contents.is_named
    if named or options.rename or (written is not None and not written.holds_lists):
        rules = [_split(text, "--rename", "OLD=NEW") for text in options.rename]
        names = [x.name if named else f"arr_{i}" for i, x in enumerate(contents.arrays)]
        arrays = renamed(dict(zip(names, contents.arrays, strict=True)), _renaming(rules), options.source)
        contents = ArrayFile([StoredArray(n, x.shape, x.dtype, x.read) for n, x in arrays.items()], True, metadata)
    if options.dtype is None:
        return ArrayFile(contents.arrays, contents.is_named, metadata)
    dtype = next((d for d, t in TYPES.items() if t.name == options.dtype and is_float(d)), None)
    if dtype is None:
        raise AttributeValueError(
            f"--dtype {options.dtype}: expected one of {', '.join(t.name for t in TYPES.values())}"
        )
    return ArrayFile([_cast(x, dtype) for x in contents.arrays], contents.is_named, metadata)


def _split(text: str, option: str, expected: str) -> tuple[str, str]:
    before, found, after = text.partition("=")
    if not found or not before:
        raise AttributeValueError(f"{option} {text}: expected {expected}")
    return before, after


def _renaming(rules: Sequence[tuple[str, str]]) -> Callable[[str], str | None]:
    """The new name for each, by the first rule whose expression matches all of it."""

    def new(name: str) -> str | None:
        for old, text in rules:
            try:
                found = re.fullmatch(old, name)
                if found is not None:
                    return found.expand(text) or None
            except (re.error, IndexError) as error:
                raise AttributeValueError(f"--rename {old}={text}: {error}") from error
        return name

    return new


def _cast(x: StoredArray, dtype: DType) -> StoredArray:
    """A floating-point array in another dtype; an error where numbers would become infinite."""
    if not is_float(x.dtype) or x.dtype == dtype:
        return x

    def read() -> Array:
        values = x.read()
        with np.errstate(over="ignore", invalid="ignore"):
            cast = values.astype(dtype)
        if not np.array_equal(np.isfinite(values), np.isfinite(cast)):
            raise MXNetError(f"{x.name or 'an array'} has numbers that are too large for {dtype}; leave --dtype out")
        return cast

    return StoredArray(x.name, x.shape, dtype, read)


def _listing(contents: ArrayFile) -> list[str]:
    """A line for each array, and one for all."""
    rows = [(x.name or str(i), x.dtype.name, str(list(x.shape)), f"{x.nbytes}") for i, x in enumerate(contents.arrays)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{n:{widths[0]}}  {d:{widths[1]}}  {s:{widths[2]}}  {b:>{widths[3]}}" for n, d, s, b in rows]
    texts = [f"{key}: {text}" for key, text in contents.metadata.items()]
    return [*lines, *texts, _sum(contents)]


def _sum(contents: ArrayFile) -> str:
    return f"{len(contents.arrays)} array{'s' * (len(contents.arrays) != 1)}, {_size(_total(contents))}"


def _total(contents: ArrayFile) -> int:
    return sum(x.nbytes for x in contents.arrays)


def _size(count: int) -> str:
    unit = next(unit for unit in reversed(_UNITS) if count >= _UNITS[unit] or not unit)
    return f"{count / _UNITS[unit]:.3g} {unit}B" if unit else f"{count} bytes"


def _write(target: str, contents: ArrayFile, shard_size: str | None) -> str:
    """Write the arrays, with what was done so far on a terminal; a line that says what was written."""
    shown = _Progress(_total(contents), len(contents.arrays))
    arrays = [StoredArray(x.name, x.shape, x.dtype, functools.partial(shown.read, x)) for x in contents.arrays]
    watched = ArrayFile(arrays, contents.is_named, contents.metadata)
    if shard_size is None:
        formats.write(target, watched)
    else:
        _write_shards(target, watched, _bytes(shard_size))
    shown.end()
    return f"{target}: {_sum(contents)}, in {formats.for_writing(target).title}"


class _Progress:
    """A line on a terminal that says how many arrays were read."""

    def __init__(self, size: int, count: int) -> None:
        self._size, self._count = size, count
        self._read_size = self._read_count = 0
        self._stream: Any = sys.stderr if sys.stderr is not None and sys.stderr.isatty() else None

    def read(self, x: StoredArray) -> Array:
        """Read an array, and say so."""
        values = x.read()
        self._read_size += x.nbytes
        self._read_count += 1
        if self._stream is not None:
            done = f"{self._read_count} of {self._count} arrays, {_size(self._read_size)} of {_size(self._size)}"
            self._stream.write(f"\r\x1b[K{done}")
            self._stream.flush()
        return values

    def end(self) -> None:
        """Remove the line."""
        if self._stream is not None:
            self._stream.write("\r\x1b[K")


def _write_shards(target: str, contents: ArrayFile, most: int) -> None:
    """Write files of at most so many bytes, each with an array at least, and then the index that names them."""
    if formats.ending(target) != _SHARDED:
        raise AttributeValueError(f"--max-shard-size is for {_SHARDED}, not for {target}")
    shards: list[list[StoredArray]] = []
    room = 0
    for x in contents.arrays:
        if not shards or x.nbytes > room:
            shards.append([])
            room = most
        shards[-1].append(x)
        room -= x.nbytes
    stem = target[: -len(_SHARDED)]
    files = [f"{stem}-{i:05d}-of-{len(shards):05d}{_SHARDED}" for i in range(1, len(shards) + 1)]
    for file, arrays in zip(files, shards, strict=True):
        formats.write(file, ArrayFile(arrays, True, contents.metadata))
    named = {x.name: re.split(r"[/\\]", file)[-1] for file, arrays in zip(files, shards, strict=True) for x in arrays}
    index = {"metadata": {"total_size": _total(contents)}, "weight_map": named}
    write_whole(stem + formats.INDEX, json.dumps(index, indent=2).encode())


def _bytes(text: str) -> int:
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    if found is None or not int(found[1]):
        raise AttributeValueError(f"--max-shard-size {text}: expected a number of bytes, as 500MB or 5GB")
    return int(found[1]) * _UNITS[found[2]]


# --- networks -------------------------------------------------------------------------------------------------


def _onnx() -> Any:
    return importlib.import_module("hybridc.onnx")


def _export(options: Namespace) -> str:
    """Write a network as an ONNX file, from its symbol and its parameters."""
    file = options.symbol or re.sub(r"(-\d{4,})?\.\w+$", "", options.source) + _SYMBOL
    symbol = load(file)
    inputs = symbol.list_inputs()
    shapes: Mapping[str, tuple[int, ...]] = dict(map(named_shape, options.shapes))
    if not shapes or any(name not in inputs for name in shapes):
        raise AttributeValueError(
            f"{options.target} needs the shape of each input of {file}, as --shapes data:1,3,224,224; got "
            f"{', '.join(shapes) or 'none'}, and its inputs and parameters are {', '.join(inputs)}"
        )
    in_order = [shapes[name] for name in inputs if name in shapes]
    _onnx().export_model(symbol, [*load_arrays(options.source)], in_order, onnx_file_path=options.target)
    return f"{options.target}: the network of {file}, with the parameters of {options.source}"


def _import(source: str, target: str) -> str:
    """Write the network of an ONNX file as a symbol, and its parameters."""
    if formats.ending(source) != _ONNX or not target.endswith(_SYMBOL):
        raise AttributeValueError(f"a network comes from a file {_ONNX}, and goes into one net{_SYMBOL}, not {target}")
    prefix = target.removesuffix(_SYMBOL)
    save_checkpoint(prefix, 0, *_onnx().import_model(source))
    return f"{target} and {prefix}-0000.params: the network of {source}"
