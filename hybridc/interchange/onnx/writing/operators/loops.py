"""Loops that translations write themselves: what is computed step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hybridc.interchange.onnx.writing.onnx_value import BOOL, INT64, OnnxValue
from hybridc.interchange.onnx.writing.translate import Translator

_MANY = (1 << 31) - 1  # steps of a loop that a condition ends: the largest count that all engines take


def iterated(
    t: Translator,
    states: Sequence[OnnxValue],
    step: Callable[..., Sequence[OnnxValue]],
    count: int = _MANY,
    goes_on: Callable[..., OnnxValue] | None = None,
) -> list[OnnxValue]:
    """The states after so many steps, or after the last one before which ``goes_on(*states)`` holds.

    ``step(number, *states)`` gives the next states, of the same shapes and dtypes; ``number`` counts the steps.
    """
    begin = t.constant(np.asarray(True)) if goes_on is None else goes_on(*states)
    with t.writer.inner_graph("loop") as graph:
        number = graph.input("number", (), INT64)
        going = graph.input("goes_on", (), BOOL)
        own = [graph.input("state", x.shape, x.dtype) for x in states]
        after = list(step(number, *own))
        ends = [t.moves.broadcast(t.writer.cast(y, x.dtype), x.shape) for x, y in zip(states, after, strict=True)]
        more = going if goes_on is None else goes_on(*ends)
        proto = graph.proto([more, *ends])
    outputs = [(x.shape, x.dtype) for x in states]
    return t.writer.results("Loop", [t.writer.integer_scalar(count), begin, *states], outputs, body=proto)


def any_of(t: Translator, condition: OnnxValue) -> OnnxValue:
    """Whether a condition holds for some element, as a value without axes."""
    number = t.writer.cast(condition, np.int32)
    if not number.shape:
        return t.writer.cast(number, BOOL)
    most = t.moves.reduce("ReduceMax", number, list(range(number.ndim)), keep=False)
    return t.writer.cast(most, BOOL)
