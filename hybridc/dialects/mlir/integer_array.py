"""Arrays of integers as attributes: the integers may be symbolic sizes, which bytes cannot hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from xdsl.dialects.builtin import DYNAMIC_INDEX, BytesAttr, DenseArrayBase, IntegerType, i64

from hybridc.ground.sizes import is_size


class _Sizes(bytes):
    """The bytes of an array with symbolic sizes: who reads them as they are finds sizes that MLIR calls dynamic."""

    numbers: tuple[int, ...]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sizes) and self.numbers == other.numbers

    def __hash__(self) -> int:
        return hash(self.numbers)


def integer_array(numbers: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """The attribute ``array<i64: …>``"""
    if not any(is_size(n) for n in numbers):
        return _plain(tuple(numbers))
    data = _Sizes(i64.pack([DYNAMIC_INDEX if is_size(n) else n for n in numbers]))
    data.numbers = tuple(numbers)
    return DenseArrayBase(i64, BytesAttr(data))


@functools.lru_cache(4096)
def _plain(numbers: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i64, numbers)


@functools.lru_cache(4096)
def integers_of(array: DenseArrayBase[Any]) -> tuple[int, ...]:
    """The integers of an array, which takes its time to unpack them."""
    data = array.data.data
    return data.numbers if isinstance(data, _Sizes) else tuple([int(n) for n in array.get_values()])
