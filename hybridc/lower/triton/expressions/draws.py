"""Uniform random numbers inside of generated kernels, by the functions of :mod:`hybridc.dialects.kernels.philox`."""

from __future__ import annotations

from hybridc.dialects.attribute import DType
from hybridc.dialects.kernels.philox import TRITON_FUNCTIONS, WORDS, numbers_each
from hybridc.lower.triton.expressions.ops import triton_type
from hybridc.lower.triton.handwritten_launch import source_of
from hybridc.lower.triton.source_writer import SourceWriter


def philox(w: SourceWriter) -> str:
    """The name of a function of the module: the four words of a counter, by the two words of a key."""
    return _helper("philox", w)


def uniform(seed: str, draw: str, place: str, dtype: DType, w: SourceWriter) -> str:
    """The numbers at places of a draw, each of a block of words of its own."""
    philox(w)
    _helper("unit", w)
    return f"{_helper('uniform_at', w)}({seed}, {draw}, {place}, {triton_type(dtype)})"


def numbers(seed: str, draw: str, number: str, dtype: DType, w: SourceWriter) -> list[str]:
    """Write the words of the blocks with some numbers, of 64 bits: all numbers that each gives, in order."""
    names = [w.name(f"word{i}") for i in range(WORDS)]
    w.line(f"{', '.join(names)} = {philox(w)}({seed}, {draw}, {number})")
    each = numbers_each(dtype)
    words = [names[i * WORDS // each] for i in range(each)]
    return [_unit(f"({word} >> 32)" if each > WORDS and i % 2 else word, dtype, w) for i, word in enumerate(words)]


def _unit(word: str, dtype: DType, w: SourceWriter) -> str:
    """A number in [0, 1) of a word, or of the lower half of one."""
    return f"{_helper('unit', w)}({word}, {triton_type(dtype)})"


def _helper(name: str, w: SourceWriter) -> str:
    return w.helper(name, source_of(TRITON_FUNCTIONS[name]))
