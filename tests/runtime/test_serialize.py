"""Values as bytes, as their dataclasses say: read as they were written, and nothing else is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.ground.serialize import NOT_SERIALISED, NotWritable, from_bytes, to_bytes
from hybridc.ground.store import Store, keep, kept
from hybridc.ir.planned import operator_written


class Place(NamedTuple):
    number: int
    name: str = ""


@dataclass(frozen=True)
class Shared:
    """Equal ones are one."""

    text: str
    build: Any = field(default=len, compare=False, metadata=NOT_SERIALISED)


@dataclass
class Base:
    places: tuple[Place, ...] = ()
    both: list[Place | Shared] = field(default_factory=lambda: list[Any]())


@dataclass
class Whole(Base):
    """All kinds of fields."""

    pair: tuple[int, Shared] = (0, Shared(""))
    maybe: Shared | None = None
    numbers: set[int] = field(default_factory=lambda: set[int]())
    named: dict[str, list[float]] = field(default_factory=lambda: dict[str, list[float]]())
    code: bytes = b""
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype("int8"))
    arrays: list[np.ndarray[Any, Any]] = field(default_factory=lambda: list[Any]())
    value: Any = None
    operator: Operator | None = None
    scratch: list[int] = field(default_factory=lambda: [7], metadata=NOT_SERIALISED)


def whole() -> Whole:
    """One with something in every field."""
    arrays = [np.arange(6, dtype="f4").reshape(2, 3)[:, ::-1], np.zeros((0, 4), "u2"), np.array(True)]
    return Whole(
        places=(Place(1, "a"), Place(-2)),
        both=[Place(3), Shared("x", max), Shared("x")],
        pair=(4, Shared("x")),
        maybe=Shared("y"),
        numbers={9, 8},
        named={"n": [0.1, float("-inf")], "": []},
        code=bytes(range(256)),
        dtype=np.dtype("float16"),
        arrays=arrays,
        value=(1, [2.5, None], np.float32(0.1), np.dtype("u8")),
        operator=operator_registry.operator("hybrid.sum").bind(axis=(0, -1), keepdims=True),
        scratch=[1, 2],
    )


def test_all_is_read_as_it_was_written() -> None:
    given = whole()
    found = from_bytes(Whole, to_bytes(given))
    assert type(found) is Whole
    for ours, read in zip(given.arrays, found.arrays, strict=True):
        assert (read.dtype, read.shape) == (ours.dtype, ours.shape)
        assert read.flags.aligned
        assert read.flags.writeable
        np.testing.assert_array_equal(read, ours)
    assert replace(found, arrays=[]) == replace(given, arrays=[], scratch=[7])
    assert [type(x) for x in found.both] == [Place, Shared, Shared]
    assert type(found.value[2]) is np.float32
    assert found.both[1].build is len  # type: ignore[union-attr]
    assert found.both[1] is found.both[2] is found.pair[1]
    assert found.operator is given.operator
    assert operator_written(operator_registry.operator("hybrid.exp").bind()) == ["hybrid.exp", {}]


def test_what_is_no_dataclass_is_written_too() -> None:
    for value in (7, True, "text", b"bytes", b""):
        assert from_bytes(type(value), to_bytes(value)) == value


def test_what_is_cut_or_has_more_is_refused() -> None:
    data = to_bytes(whole())
    for end in range(len(data)):
        with pytest.raises((ValueError, LookupError, TypeError)):
            from_bytes(Whole, data[:end])
    with pytest.raises(ValueError, match="1 bytes are left after"):
        from_bytes(Whole, data + b"x")


@pytest.mark.parametrize("field", ["both", "value", "dtype"])
def test_other_values_are_not_written(field: str) -> None:
    wrong: Any = {"both": [object()], "value": {1: 2}, "dtype": np.dtype("f4,f4")}
    with pytest.raises(NotWritable):
        to_bytes(replace(whole(), **{field: wrong[field]}))


def test_what_is_kept_is_found_and_what_is_of_another_type_is_not(monkeypatch: Any, tmp_path: Any) -> None:
    own = Store(tmp_path)
    monkeypatch.setattr("hybridc.ground.store.store", lambda: own)
    assert kept("key", Whole) is None
    keep("key", Place(3, "c"))
    assert kept("key", Place) == (3, "c")
    assert kept("key", Whole) is None
