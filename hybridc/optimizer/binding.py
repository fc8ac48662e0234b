"""Arguments of compiled updates: kinds of weights, scalars, and memory that is safe to write."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from numpy.lib.array_utils import byte_bounds

from hybridc.context import CPU
from hybridc.dtypes import is_float
from hybridc.errors import MXNetError
from hybridc.optimizer.formula import UNKNOWN, Kind, Values, is_trivial

Array = npt.NDArray[Any]
# Index, weight, gradient, states (None, one or a tuple), and the half-precision weight that it is a copy of, or None.
Row = tuple[Any, Any, Any, Any, Any]


def states_of(state: Any) -> tuple[Any, ...]:
    """The states of a weight as a tuple, without those that are None."""
    if not isinstance(state, tuple):
        return () if state is None else (state,)
    return tuple([s for s in cast("tuple[Any, ...]", state) if s is not None])


def kind_of(row: Row, values: Values, varying: Collection[str] = ("lr",)) -> Kind:
    """The kind of a weight; numbers in ``varying`` are never part of a formula's text, whatever their value is now.

    The learning rate is one of them: schedules lead it through 0 and 1, nothing to compile for.
    """
    _, weight, grad, state, half = row
    w = weight._data
    states = tuple([(s.shape, s._data.dtype) for s in states_of(state)])
    numbers = tuple([(n, v if n not in varying and is_trivial(v) else UNKNOWN) for n, v in values.items()])
    dtype = None if half is None else half._data.dtype
    context = weight.context if weight.context.device_type == "gpu" else CPU
    return Kind(w.shape, w.dtype, grad._data.dtype, states, dtype, numbers, context)


def check_row(name: str, row: Row) -> None:
    """Raise if a weight cannot be updated with its gradient by the optimizer ``name``."""
    index, w, g = row[0], row[1]._data, row[2]._data
    if w.shape != g.shape:
        raise MXNetError(
            f"{name}: parameter {index!r} has shape {w.shape}, but its gradient has shape {g.shape}; "
            f"expected equal shapes"
        )
    if not is_float(w.dtype):
        raise MXNetError(f"{name}: parameter {index!r} has dtype {w.dtype}; only floating point is trained")


def advance(optimizer: Any, indices: Sequence[Any]) -> list[Values]:
    """Count one more update of each weight, and give the numbers that its formula has at that update."""
    numbers: list[Values] = []
    for index in indices:  # one after the other: an optimizer's numbers may depend on the updates before
        optimizer._update_count(index)
        numbers.append(optimizer.numbers(index))
    return numbers


def following(optimizer: Any, indices: Sequence[Any]) -> list[Values]:
    """The numbers that the next update will have, without counting it."""
    uncounted = copy.deepcopy(optimizer)
    uncounted.param_dict = optimizer.param_dict  # parameters, which are never copied
    return advance(uncounted, indices)


class Known:
    """Of each weight, the numbers that are part of its formula's text, and how many of them are None."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._known = [[(name, value) for name, value in kind.numbers if value != UNKNOWN] for kind in kinds]
        self._absent = [[value for _, value in known].count(None) for known in self._known]

    def accepts(self, numbers: Sequence[Values]) -> bool:
        """Whether they are as before, and so are those that are absent."""
        for values, known, absent in zip(numbers, self._known, self._absent, strict=True):
            for name, value in known:
                if values[name] != value:
                    return False
            if list(values.values()).count(None) != absent:
                return False
        return True


class Fill:
    """The numbers of one dtype: one array, of which every argument that is a number is an element."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype
        self._wanted: list[tuple[int, Callable[[Values], float]]] = []
        self._arguments: list[int] = []
        self._last: list[float] = []
        self._buffer: Array = np.zeros(0, dtype)

    def add(self, argument: int, row: int, compute: Callable[[Values], float]) -> None:
        """One more number."""
        self._arguments.append(argument)
        self._wanted.append((row, compute))

    def give(self, arguments: list[Any]) -> None:
        """Put the elements among the arguments."""
        self._buffer = np.zeros(len(self._wanted), self._dtype)
        for i, argument in enumerate(self._arguments):
            arguments[argument] = self._buffer[i : i + 1].reshape(())

    def run(self, numbers: Sequence[Values]) -> None:
        """Compute the numbers of this step."""
        values = [compute(numbers[row]) for row, compute in self._wanted]
        if values != self._last:
            self._buffer[:] = values
            self._last = values


def _bounds(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of an array and of the one behind its last."""
    return (array.pointer, array.pointer + array.nbytes) if hasattr(array, "pointer") else byte_bounds(array)


def overlap(written: Sequence[Array], read: Sequence[Array]) -> bool:
    """Whether an array that is written shares memory with any other one."""
    spans = [(*_bounds(a), True) for a in written if a.size] + [(*_bounds(a), False) for a in read if a.size]
    end_of_all, end_of_written = 0, 0
    for start, stop, is_written in sorted(spans):
        if start < (end_of_all if is_written else end_of_written):
            return True
        end_of_all = max(end_of_all, stop)
        end_of_written = max(end_of_written, stop) if is_written else end_of_written
    return False
