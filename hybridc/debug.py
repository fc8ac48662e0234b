"""``mx.debug``: find where numbers go wrong, and where an error comes from."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc import autograd
from hybridc.array.ndarray import NDArray, values_of
from hybridc.dtypes import is_float
from hybridc.errors import AnomalyError, IndexRangeError
from hybridc.gluon.block import Block
from hybridc.gluon.epoch import ATTRIBUTE_EPOCH
from hybridc.ground.display.tracebacks import full_traceback
from hybridc.ground.events import RECORDER
from hybridc.ground.location import Location, user_location
from hybridc.ground.state import STATE
from hybridc.sparse_storage import SparseStorage

__all__ = ["check_indices", "detect_anomaly", "full_traceback"]

# Operators whose lines are kept for their gradients; the oldest go first.
_KEPT_LINES = 1 << 20


@contextlib.contextmanager
def detect_anomaly() -> Generator[None]:
    """Within the ``with`` block, raise AnomalyError where the first NaN or infinity arises, forward or backward.

    The error names the operator, the block and the line that called it, and says what its inputs were. A NaN counts
    wherever it is; an infinity, where no input of the operator has one, as masks do. Of a hybridized network the
    results are looked at, and if one is wrong its operators run one by one on the same inputs; a ``TrainStep`` without
    ``accumulate``, ``clip_global_norm`` and ``shard_optimizer`` runs as the loop that it stands for. It holds for all
    threads of the process, on the CPU, and takes time: use it to find the place, not to train. A NaN that is an index
    or a label counts, too.
    """
    with _detecting(anomalies=True):
        yield


@contextlib.contextmanager
def check_indices() -> Generator[None]:
    """Within the ``with`` block, raise IndexRangeError for an index or a label that is out of range or no integer.

    Outside of it they are clipped without a word, as in MXNet: class 99 of 3 counts as class 2, word -1 as word 0, 0.7
    as 0. Looked at are Embedding, take with ``mode="clip"``, pick, batch_take, one_hot and softmax_cross_entropy, and
    so the labels of SoftmaxCrossEntropyLoss. The error names the operator, the block and the line that called it, the
    first wrong value and the range. Hybridized networks run twice, compiled and operator by operator, so it takes
    time; it can be used together with :func:`detect_anomaly`.
    """
    with _detecting(indices=True):
        yield


@contextlib.contextmanager
def _detecting(anomalies: bool = False, indices: bool = False) -> Generator[None]:
    """Look at operators within the ``with`` block, for these and for what is looked for around it."""
    before = RECORDER.detector
    if before is not None:
        anomalies, indices = anomalies or before.anomalies, indices or before.indices
    RECORDER.detect(_Detector(anomalies, indices, None if before is None else before.place))
    ATTRIBUTE_EPOCH.value += 1  # calls go the long way now, where results are looked at
    try:
        yield
    finally:
        RECORDER.detect(before)
        ATTRIBUTE_EPOCH.value += 1


class _Place(threading.local):
    """Where a thread is: in a line of a graph, in a backward; and the lines that it recorded."""

    line: Location | None = None  # that of the operator which a graph runs
    in_backward: bool = False

    def __init__(self) -> None:
        self.lines: OrderedDict[int, Location] = OrderedDict()  # of recorded operators, by positions of the tape


class _Detector:
    """Looks at the results of operators and graphs, and at gradients; at indices among the inputs of operators."""

    def __init__(self, anomalies: bool, indices: bool, place: _Place | None) -> None:
        self.anomalies = anomalies
        self.indices = indices
        self.place = _Place() if place is None else place

    # --- forward -------------------------------------------------------------------------------------------

    def operator(self, op: Any, arrays: Sequence[Any], result: Any) -> None:
        """Look at the results of an operator that ran."""
        place = self.place
        if place.in_backward:
            return
        line = place.line or user_location(_block_name())
        if STATE.recording:
            place.lines[autograd.tape_position()] = line
            if len(place.lines) > _KEPT_LINES:
                place.lines.popitem(last=False)
        self._look_at_indices(op, arrays, line if place.line is None else None)
        if not self.anomalies:
            return
        results: tuple[Any, ...] = result if result.__class__ is tuple else (result,)
        what = _anomaly(arrays, results[: op.num_visible_outputs()])
        if what is not None:
            names = [f"{name}: {_described(a)}" for name, a in zip(op.input_names(), arrays, strict=False)]
            # The error of an operator of a graph begins with its line.
            self._raise(f"{what} in the result of {_called(op)}", line if place.line is None else None, names)

    def _look_at_indices(self, op: Any, arrays: Sequence[Any], line: Location | None) -> None:
        """Raise for an index that is out of range; in a search for anomalies alone, for one that is NaN."""
        for i, size in op.index_sizes([tuple(a.shape) for a in arrays]).items():
            x = _numbers(arrays[i])
            if x is None:
                continue
            wrong = np.isnan(x) if is_float(x.dtype) else np.zeros(x.shape, bool)
            kind: Any = AnomalyError
            if self.indices:
                kind = IndexRangeError
                wrong |= (x < 0) | (x > size - 1)
                wrong |= (x != np.floor(x)) if is_float(x.dtype) else False
            if wrong.any():
                place = tuple(map(int, np.argwhere(wrong)[0]))
                value = x[place].item()
                name = op.input_names()[i]
                at = f"{name}[{', '.join(map(str, place))}]" if place else name
                text = f"{op.title()}: index {value:g} in {at} is no integer from 0 to {size - 1}"
                where = "" if line is None else f"{line}: "
                raise kind(f"{where}{text}; {int(wrong.sum())} of {x.size} are none. Outside of mx.debug it is clipped")

    def graph(self, inputs: Sequence[Any], results: Sequence[NDArray], again: Callable[[], Any], name: str) -> None:
        """Look at the results of a compiled graph; ``again`` runs its operators one by one on the same inputs."""
        if self.place.in_backward:
            return
        what = _anomaly(inputs, [x._data for x in results]) if self.anomalies else None
        if what is None and not (self.indices or any(map(_has_nan, inputs))):
            return
        try:
            again()
        finally:
            self.place.line = None
        if what is not None and (what == "NaN" or not any(map(_has_infinity, inputs))):
            text = f"{what} in a result of the compiled graph {name}, but not where its operators run one by one"
            self._raise(text, user_location(), [_described(x) for x in inputs])

    def at(self, line: Location | None) -> None:
        """The operator that a graph runs next is of this line of the user's."""
        self.place.line = line

    # --- backward ------------------------------------------------------------------------------------------

    def gradients(self, node: Any, ograds: Sequence[Any], into: Mapping[int, Any]) -> Sequence[Any]:
        """The gradients of a recorded operator's inputs, which are looked at."""
        place = self.place
        before, place.in_backward = place.in_backward, True
        try:
            arrays, inputs = list(node.arrays or ()), node.inputs()
            grads = node.backward(ograds, into)
        finally:
            place.in_backward = before
        heads = [g._data for g in ograds if g is not None]
        for i, grad in enumerate(grads):
            what = None if grad is None or not self.anomalies else _anomaly([*heads, *arrays], [grad._data])
            if what is None:
                continue
            if hasattr(node.op, "replayed"):  # of a compiled graph: its operators say more
                self._replay(node, ograds, inputs)
            names = [f"gradient of result {n}: {_described(g)}" for n, g in enumerate(heads)]
            names += [f"input {n}: {_described(a)}" for n, a in enumerate(arrays)]
            title = _called(node.op) if hasattr(node.op, "title") else type(node.op).__name__
            self._raise(f"{what} in the gradient of input {i} of {title}", self._line_of(node), names)
        return grads

    def _replay(self, node: Any, ograds: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Compute the gradients of a compiled graph operator by operator."""
        heads = tuple([i for i, g in enumerate(ograds) if g is not None])
        try:
            with autograd.record(STATE.training):
                node.op.replayed(ograds, inputs, heads)
        finally:
            self.place.line = None

    def _line_of(self, node: Any) -> Location | None:
        """The line that recorded a node: the latest before it."""
        latest = None
        for position, line in self.place.lines.items():
            if position > node.order:
                break
            latest = line
        return latest

    @staticmethod
    def _raise(text: str, line: Location | None, inputs: Sequence[str]) -> None:
        where = "" if line is None else f"{line}: "
        raise AnomalyError("\n  ".join([where + text, *inputs]))


def _called(op: Any) -> str:
    """An operator as errors name it, with its attributes."""
    attributes = ", ".join(f"{name}={value!r}" for name, value in op.attrs.items())
    return f"{op.title()}({attributes})" if attributes else op.title()


def _floats(x: Any) -> Any:
    """The elements of a buffer on the CPU, if they are floats, else None."""
    data: Any = values_of(x) if isinstance(x, NDArray) else x
    array = _numbers(data.data if isinstance(data, SparseStorage) else data)
    return array if array is not None and is_float(array.dtype) else None


def _anomaly(inputs: Sequence[Any], results: Sequence[Any]) -> str | None:
    """``NaN``, if a result has one; ``infinity``, if one has that and no input does; what has no inputs is meant."""
    if not inputs:
        return None
    arrays = [a for a in map(_floats, results) if a is not None]
    if any(np.isnan(a).any() for a in arrays):
        return "NaN"
    if any(np.isinf(a).any() for a in arrays) and not any(map(_has_infinity, inputs)):
        return "infinity"
    return None


def _numbers(x: Any) -> Any:
    """The elements of a dense buffer on the CPU, else None."""
    data: Any = values_of(x) if isinstance(x, NDArray) else x
    if not isinstance(data, np.ndarray | np.generic):
        return None
    return np.asarray(data)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def _has_nan(x: Any) -> bool:
    a = _floats(x)
    return a is not None and bool(np.isnan(a).any())


def _has_infinity(x: Any) -> bool:
    a = _floats(x)
    return a is not None and bool(np.isinf(a).any())


def _described(x: Any) -> str:
    """Dtype, shape and range of a buffer, and how many of its elements are no numbers."""
    data = x._data if isinstance(x, NDArray) else x
    text = f"{data.dtype}{list(data.shape)}"
    a = _floats(x)
    if a is None or not a.size:
        return text
    with np.errstate(all="ignore"):
        finite = a[np.isfinite(a)]
    if finite.size:
        text += f", from {finite.min():.6g} to {finite.max():.6g}"
    for name, count in (("NaN", int(np.isnan(a).sum())), ("infinite", int(np.isinf(a).sum()))):
        text += f", {count} of {a.size} {name}" if count else ""
    return text


def _block_name() -> str:
    """The name of the innermost block whose forward is running."""
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self") if frame.f_code.co_name in ("forward", "hybrid_forward") else None
        if isinstance(owner, Block):
            return owner.name
        frame = frame.f_back
    return ""
