"""Serialisation of dataclasses to bytes, for the disk cache. Reading executes no code.

    from_bytes(Plan, to_bytes(plan))   # an equal plan, if Plan and what it holds are dataclasses

The annotations of a dataclass or a named tuple define how its fields are written: numbers, strings, bytes, tuples,
lists, sets, dictionaries with string keys, dtypes, arrays, unions of these, other dataclasses, and any attribute value
(:func:`written`). Fields with ``metadata=NOT_SERIALISED`` have their default when they are read. Equal frozen
dataclasses are written once, and are one object when they are read. The format: a length, so many bytes of JSON, and
the binary data of the values. A value that cannot be serialised is :class:`NotWritable`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

from hybridc.dtypes import kind_of
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Size

T = TypeVar("T")

NOT_SERIALISED: Mapping[str, Any] = {"serialised": False}
_LENGTH = 8  # bytes of the number in front


class NotWritable(Exception):
    """A value that cannot be serialised."""


def to_bytes(value: Any) -> bytes:
    """Serialise a value."""
    writer = _ValueWriter()
    content = _form(cast(Any, type(value))).write(writer, value)
    text = json.dumps([content, writer.values], separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(_LENGTH, "little"), text, *writer.blobs])


def from_bytes(kind: type[T], data: bytes) -> T:
    """Deserialise a value of this type from the bytes of :func:`to_bytes`.

    ValueError, LookupError or TypeError if the bytes are malformed.
    """
    end = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
    content, values = json.loads(data[_LENGTH:end])
    reader = _Reader(data, end, values)
    value = _form(kind).read(reader, content)
    if reader.last != len(data):
        raise ValueError(f"{len(data) - reader.last} bytes are left after the last value; expected none")
    return value


# --- writing and reading --------------------------------------------------------------------------------------


class _ValueWriter:
    """The binary data written so far, and the index of each shared value."""

    def __init__(self) -> None:
        self.blobs: list[bytes] = []
        self.values: list[Any] = []
        self.numbers: dict[Any, int] = {}
        self._end = 0

    def blob(self, value: bytes) -> list[int]:
        """Append binary data; its offset and length."""
        self.blobs.append(value)
        self._end += len(value)
        return [self._end - len(value), len(value)]


class _Reader:
    """The input bytes, and the shared values read so far."""

    def __init__(self, data: bytes, start: int, values: list[Any]) -> None:
        self.values = values
        self.read: dict[int, Any] = {}
        self.last = start  # the end of the binary data read so far
        self._data = data
        self._start = start

    def blob(self, given: Any) -> bytes:
        """A slice of the binary data."""
        first, count = given
        begin = self._start + first
        self.last = max(self.last, begin + count)
        return self._data[begin : begin + count]


# --- types ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ByteForm:
    """A codec of a type: to and from JSON values."""

    write: Callable[[_ValueWriter, Any], Any]
    read: Callable[[_Reader, Any], Any]


# Codecs of types registered by other modules; they include subclasses.
_OWN_FORMS: dict[type, _ByteForm] = {}


def register_form(kind: type[T], write: Callable[[T], Any], read: Callable[[Any], T]) -> None:
    """Register a codec of a type and its subclasses, to and from JSON values."""
    _OWN_FORMS[kind] = _ByteForm(lambda _, value: write(value), lambda _, given: read(given))


# The codec of values that are JSON already.
_PLAIN = _ByteForm(lambda _, value: value, lambda _, x: x)


@functools.cache
def _form(kind: Any) -> _ByteForm:
    """The codec of a type."""
    origin, given = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return _ByteForm(lambda _, value: written(value), lambda _, x: read(x))
    if kind in (bool, int, float, str):
        return _PLAIN
    if kind is bytes:
        return _ByteForm(_ValueWriter.blob, _Reader.blob)
    if origin is types.UnionType:
        return _union(given)
    if origin is np.dtype:
        return _ByteForm(lambda _, value: dtype_name(np.dtype(value)), lambda _, x: np.dtype(x))
    if origin is np.ndarray:
        return _ByteForm(_write_array, _read_array)
    if origin is tuple and given[-1] is not ...:
        return _row([_form(x) for x in given], tuple)
    if origin in (tuple, list, set):
        return _sequence(origin, _form(given[0]))
    if origin is dict:
        return _dictionary(_form(given[1]))
    for base, form in _OWN_FORMS.items():
        if issubclass(kind, base):
            return form
    names = getattr(kind, "_fields", None)
    if names is not None:  # a named tuple
        return _row([_form(x) for x in _annotations(kind, names)], kind._make)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    raise TypeError(f"values of type {kind} cannot be serialised")


def _annotations(kind: type, names: Any) -> list[Any]:
    """The types of fields, evaluated in the module in which each is declared."""
    said = [(base, inspect.get_annotations(base)) for base in kind.__mro__]
    found: list[Any] = []
    for name in names:
        owner, text = next((base, known[name]) for base, known in said if name in known)
        found.append(_evaluated(getattr(text, "__forward_arg__", text), owner.__module__))
    return found


@functools.cache
def _evaluated(text: str, module: str) -> Any:
    return eval(text, vars(sys.modules[module]))


def _union(kinds: tuple[Any, ...]) -> _ByteForm:
    """None is null; of several other types, the index comes first."""
    some = [x for x in kinds if x is not type(None)]
    forms: list[_ByteForm] = [_form(x) for x in some]
    if len(some) == 1:
        form = forms[0]
        return _ByteForm(
            lambda writer, value: None if value is None else form.write(writer, value),
            lambda reader, x: None if x is None else form.read(reader, x),
        )
    classes: list[type] = [typing.get_origin(x) or x for x in some]

    def write(writer: _ValueWriter, value: Any) -> Any:
        for number, (kind, form) in enumerate(zip(classes, forms, strict=True)):
            if type(value) is kind:
                return [number, form.write(writer, value)]
        raise NotWritable(f"a {type(value).__name__}")

    def read_(reader: _Reader, given: Any) -> Any:
        number: int = given[0]
        return forms[number].read(reader, given[1])

    return _ByteForm(write, read_)


def _row(forms: list[_ByteForm], make: Callable[[list[Any]], Any]) -> _ByteForm:
    """A codec of fixed-length sequences of several types."""
    others = [(i, form.write, form.read) for i, form in enumerate(forms) if form is not _PLAIN]

    def write(writer: _ValueWriter, value: Any) -> Any:
        made = list(value)
        for i, each, _ in others:
            made[i] = each(writer, made[i])
        return made

    def read_(reader: _Reader, given: Any) -> Any:
        if len(given) != len(forms):
            raise ValueError(f"a sequence has {len(given)} values, expected {len(forms)}")
        made = list(given)
        for i, _, each in others:
            made[i] = each(reader, made[i])
        return make(made)

    return _ByteForm(write, read_)


def _sequence(make: Callable[[Any], Any], form: _ByteForm) -> _ByteForm:
    if form is _PLAIN:
        return _ByteForm(lambda _, value: list(value), lambda _, given: make(given))
    write, read_ = form.write, form.read
    return _ByteForm(
        lambda writer, value: [write(writer, x) for x in value],
        lambda reader, given: make([read_(reader, x) for x in given]),
    )


def _dictionary(form: _ByteForm) -> _ByteForm:
    write, read_ = form.write, form.read
    return _ByteForm(
        lambda writer, value: {name: write(writer, x) for name, x in value.items()},
        lambda reader, given: {name: read_(reader, given[name]) for name in given},
    )


def _dataclass(kind: Any) -> _ByteForm:
    """A codec of the stored fields, in order; a frozen dataclass is written as the index of a shared value."""
    names = [f.name for f in dataclasses.fields(kind) if f.metadata.get("serialised", True)]

    @functools.cache
    def row() -> _ByteForm:  # made when it is needed: a dataclass may hold others of its kind
        forms = [_form(x) for x in _annotations(kind, names)]
        return _row(forms, lambda given: kind(**dict(zip(names, given, strict=True))))

    def write(writer: _ValueWriter, value: Any) -> Any:
        return row().write(writer, [getattr(value, name) for name in names])

    def read_(reader: _Reader, given: Any) -> Any:
        return row().read(reader, given)

    def write_once(writer: _ValueWriter, value: Any) -> int:
        number = writer.numbers.get(value)
        if number is None:
            content = write(writer, value)
            number = writer.numbers[value] = len(writer.values)
            writer.values.append(content)
        return number

    def read_once(reader: _Reader, number: int) -> Any:
        found = reader.read.get(number)
        if found is None:
            found = reader.read[number] = read_(reader, reader.values[number])
        return found

    settings: Any = kind.__dataclass_params__
    return _ByteForm(write_once, read_once) if settings.frozen and settings.eq else _ByteForm(write, read_)


def _write_array(writer: _ValueWriter, value: Any) -> Any:
    return [list(value.shape), dtype_name(value.dtype), *writer.blob(np.ascontiguousarray(value).tobytes())]


def _read_array(reader: _Reader, given: Any) -> Any:
    """An array that owns its memory, aligned."""
    shape, dtype, *place = given
    return np.frombuffer(reader.blob(place), np.dtype(dtype)).reshape(shape).copy()


# --- attribute values -----------------------------------------------------------------------------------------


# Of types registered by other modules: their names in JSON, and their codecs.
_OWN_VALUES: dict[type, tuple[str, Callable[[Any], Any]]] = {}
_READERS: dict[str, Callable[[Any], Any]] = {}


def register_value(kind: type[T], name: str, write: Callable[[T], Any], read: Callable[[Any], T]) -> None:
    """Register a codec of attribute values of a type, to and from JSON values."""
    _OWN_VALUES[kind] = name, write
    _READERS[name] = read


def written(value: Any) -> Any:
    """An attribute's value as JSON, from which :func:`read` makes an equal one of the same type."""
    if value is None or type(value) in (bool, int, str, Size):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if type(value) is tuple:
        return {"tuple": [written(v) for v in as_list(value)]}
    if type(value) is list:
        return [written(v) for v in as_list(value)]
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(cast("np.dtype[Any]", value))}
    if isinstance(value, np.generic):
        number = cast(Any, value)
        return {"number": [dtype_name(number.dtype), number.tobytes().hex()]}
    if type(value) in _OWN_VALUES:
        name, write = _OWN_VALUES[type(value)]
        return {name: write(value)}
    raise NotWritable(f"a {type(value).__name__}")


def without_integers(data: Any) -> tuple[Hashable, tuple[int, ...]]:
    """Data of :func:`written` values with ``...`` in place of each integer, and the integers.

    The integers are in the order of the data; symbolic sizes stay what they are.
    """
    integers: list[int] = []
    return _without(data, integers), tuple(integers)


def _without(value: Any, integers: list[int]) -> Hashable:
    kind = cast("type[Any]", type(value))
    if kind is int or kind is Size:
        integers.append(value)
        return ...
    if kind in (str, bool, types.NoneType):
        return value
    if kind is tuple or kind is list:
        return tuple([_without(x, integers) for x in value])
    if kind is dict:
        return dict, tuple(value), tuple([_without(x, integers) for x in value.values()])
    if isinstance(value, tuple):  # a named one
        return _without(tuple(cast("tuple[Any, ...]", value)), integers)
    if isinstance(value, np.integer):  # users' shapes have them
        return _without(int(cast(Any, value)), integers)
    return _without(written(value), integers)


def read(value: Any) -> Any:
    """The value from JSON."""
    if isinstance(value, list):
        return [read(v) for v in as_list(value)]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = cast("dict[str, Any]", value).items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "tuple":
        return tuple(read(v) for v in content)
    if kind == "dtype":
        return np.dtype(content)
    if kind == "number":
        return np.frombuffer(bytes.fromhex(content[1]), np.dtype(content[0]))[0]
    if kind in _READERS:
        return _READERS[kind](content)
    raise ValueError(f"unknown kind of value {kind!r}")


@functools.lru_cache(64)  # NumPy builds a name slowly
def dtype_name(dtype: np.dtype[Any]) -> str:
    """The name of a dtype, if that identifies it."""
    if kind_of(dtype) not in "biufc" or np.dtype(dtype.name) != dtype:
        raise NotWritable(f"the dtype {dtype}")
    return dtype.name
