"""Sequences as cells take and give them: one array with a time axis, or a list with an array for each step."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

from hybridc import nd, symbol
from hybridc.array.ndarray import NDArray
from hybridc.dialects.array.shape_rules import is_known
from hybridc.errors import AttributeValueError, CheckedShapeError, CheckError, ShapeError
from hybridc.symbol.composed import ComposedSymbol
from hybridc.trace.traced import Symbol, TracedSymbol


def is_array(x: Any) -> bool:
    """Whether this is one array or symbol, not a list of them."""
    return isinstance(x, NDArray | Symbol)


def shape_of(x: Any) -> tuple[int, ...] | None:
    """The shape of an array; None for a symbol whose shape is not known yet."""
    if isinstance(x, TracedSymbol):
        return x.inferred_shape if is_known(x.inferred_shape) else None
    return None if isinstance(x, ComposedSymbol) else tuple(x.shape)


def namespace(x: Any) -> Any:
    """``F`` for an array or a symbol."""
    return symbol if isinstance(x, Symbol) else nd


def label(cell: Any) -> str:
    """How errors call a cell: by its name, or by its class if it has none."""
    return cell.name or type(cell).__name__


def brief(x: Any) -> str:
    """What an argument is, for an error."""
    if isinstance(x, list | tuple):
        parts = cast("Sequence[Any]", x)
        return f"a {type(parts).__name__} of {len(parts)}"
    shape = shape_of(x) if is_array(x) else None
    return type(x).__name__ if shape is None else f"an array of shape {shape}"


class UnrolledSteps:
    """How a cell unrolls: the number of steps, the time axis of whole sequences, and the first input's namespace."""

    def __init__(self, cell: str, length: Any, inputs: Any, layout: Any) -> None:
        self.length = _length(cell, length)
        self.axis = _time_axis(cell, layout)
        if not is_array(inputs):
            inputs = _listed(cell, inputs, self.length)
            self.first = inputs[0]
        else:
            self.first = inputs
            self._check(cell, inputs, layout)
        self.F = namespace(self.first)
        shape = shape_of(self.first)
        self.batch_size = 0 if shape is None else shape[0 if not is_array(inputs) or self.axis else 1]

    def _check(self, cell: str, inputs: Any, layout: str) -> None:
        if isinstance(inputs, ComposedSymbol) and inputs.num_outputs != 1:
            raise CheckError(
                f"{cell}: unroll doesn't allow grouped symbol as input, got {inputs.num_outputs} results; pass a list "
                "with the input of each step, list(inputs)"
            )
        shape = shape_of(inputs)
        if shape is None:
            return
        if len(shape) < 2 or self.axis >= len(shape):
            raise ShapeError(f"{cell}: inputs of layout {layout!r} must have the axes N and T, got shape {shape}")
        if shape[self.axis] != self.length:
            raise CheckedShapeError(
                f"{cell}: cannot unroll {self.length} steps of inputs {shape}, whose layout {layout!r} says that they "
                f"have {shape[self.axis]}; give unroll this length, or slice the inputs"
            )

    def split(self, sequence: Any) -> list[Any]:
        """The steps of a sequence."""
        if not is_array(sequence):
            return list(sequence)
        found = self.F.split(sequence, axis=self.axis, num_outputs=self.length, squeeze_axis=True)
        return [found] if self.length == 1 else list(found)

    def merge(self, sequence: Any) -> Any:
        """A sequence as one array."""
        return sequence if is_array(sequence) else self.F.stack(*sequence, axis=self.axis)

    def formed(self, sequence: Any, merge: bool | None) -> Any:
        """A sequence as one array, as a list, or, with None, as it is."""
        return sequence if merge is None else self.merge(sequence) if merge else self.split(sequence)

    def masked(self, sequence: Any, valid_length: Any, merge: bool | None = True) -> Any:
        """A sequence with zeros after the end of each row."""
        whole = self.F.SequenceMask(
            self.merge(sequence), sequence_length=valid_length, use_sequence_length=True, axis=self.axis
        )
        return whole if merge else self.split(whole)

    def reversed(self, steps: Sequence[Any], valid_length: Any) -> list[Any]:
        """The steps of a sequence from its end, which may be another for each row, to its beginning."""
        if valid_length is None:
            return list(reversed(steps))
        turned = self.F.SequenceReverse(
            self.F.stack(*steps, axis=0), sequence_length=valid_length, use_sequence_length=True
        )
        found = self.F.split(turned, axis=0, num_outputs=self.length, squeeze_axis=True)
        return [found] if self.length == 1 else list(found)

    def last(self, steps: Sequence[Any], valid_length: Any) -> Any:
        """Of each row the step with which it ends."""
        # Of no step there is no state: that of the first stands for it. A symbol is as MXNet's.
        lengths = valid_length if isinstance(valid_length, ComposedSymbol) else self.F.maximum(valid_length, 1)
        stacked = self.F.stack(*steps, axis=0)
        return self.F.SequenceLast(stacked, sequence_length=lengths, use_sequence_length=True, axis=0)

    def check_lengths(self, cell: str, valid_length: Any) -> None:
        """Refuse lengths that are no array with one for each row."""
        if valid_length is None:
            return
        if not is_array(valid_length):
            raise CheckError(
                f"{cell}: valid_length must be an array with the length of each row, got {brief(valid_length)}; make "
                "one with mx.nd.array(…)"
            )
        shape, rows = shape_of(valid_length), self.batch_size
        if shape is not None and shape_of(self.first) is not None and shape != (rows,):
            raise ShapeError(f"{cell}: valid_length must have shape ({rows},), a length for each row, got {shape}")


def _length(cell: str, length: Any) -> int:
    try:
        steps = -1 if isinstance(length, bool) else operator.index(length)
    except TypeError:
        steps = -1
    if steps < 1:
        raise AttributeValueError(f"{cell}: unroll needs the number of steps, an int of at least 1, got {length!r}")
    return steps


def _time_axis(cell: str, layout: Any) -> int:
    text = layout if isinstance(layout, str) else ""
    if text.count("T") != 1 or not text.replace("T", "").startswith("N"):
        raise CheckError(f"{cell}: layout must be 'NTC' or 'TNC', with T for the steps, got {layout!r}")
    return text.index("T")


def _listed(cell: str, inputs: Any, length: int) -> list[Any]:
    steps: list[Any] = list(cast("Sequence[Any]", inputs)) if isinstance(inputs, list | tuple) else []
    if not steps or not all(map(is_array, steps)):
        raise CheckError(
            f"{cell}: the inputs of unroll must be an array or a symbol, or a list with one for each step, got "
            f"{brief(inputs)}"
        )
    if len(steps) != length:
        raise CheckError(f"{cell}: cannot unroll {length} steps of a list of {len(steps)} inputs; give one for each")
    return steps
