"""Connectionist temporal classification (Graves et al., ICML 2006): the loss of unaligned label sequences.

A network gives a class for each step of a sequence, one class being blank; a step sequence stands for the labels that
are left after repetitions are merged and blanks are dropped. The loss is -log of the probability of all step
sequences that stand for the given labels, by the forward algorithm; its gradient follows from the forward and
the backward variables. All of it is computed with logarithms.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.handwritten import ArraySpec, Kernel
from hybridc.dialects.kernels import ctc_loops as kernels
from hybridc.dialects.kernels.ctc_loops import INFINITE, NONE, RESCALED
from hybridc.dialects.operator import Bad, Composite, Opaque, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float, wide
from hybridc.errors import DTypeError, IndexRangeError, ShapeError, UnsupportedError

INT32 = np.dtype("int32")


def _either(x: Any, y: Any) -> Any:
    """log(exp(x) + exp(y))"""
    return np.maximum(x, y) + np.log1p(np.exp(-np.abs(x - y)))


class _Lattice:
    """The states of a batch of sequences: the blank before each label and after the last, and the labels.

    Of the rows ``(N, labels + 1)``, index j of the labels' is the j-th label, counted from 1.
    """

    def __init__(self, arrays: Sequence[Any], blank: int) -> None:
        logs, label, data_length, label_length = arrays
        self.steps, self.batch, classes = logs.shape
        most = label.shape[1]
        number = np.array(range(most), np.int64)
        inside: Any = number < label_length[:, None]
        _require_lengths("data_lengths", data_length, self.steps, "steps of data")
        _require_lengths("label_lengths", label_length, most, "labels")
        _require_labels(label, inside, classes, blank)
        self.logs, self.blank = logs, blank
        self.length, self.labels = data_length, label_length
        self.names: Any = np.where(inside, label, blank)
        # Whether the state before may be skipped: the label before is another one.
        self.skips: Any = np.zeros((self.batch, most + 1), bool)
        self.skips[:, 2:] = label[:, 1:] != label[:, :-1]
        self.inside: Any = np.array(range(most + 1), np.int64) <= label_length[:, None]
        repeats: Any = (~self.skips[:, 2:] & inside[:, 1:]).sum(1)
        # COMPAT(mxnet): labels that need more steps than there are have the loss 0; there the gradient is what lies in
        # memory.
        self.fits: Any = label_length + repeats <= data_length
        self.rows: Any = np.array(range(self.batch), np.int64)

    def blanks(self, t: int) -> Any:
        """The blank's logarithm at a step, ``(N, 1)``."""
        return self.logs[t, :, self.blank, None]

    def named(self, t: int) -> Any:
        """The labels' logarithms at a step."""
        return np.take_along_axis(self.logs[t], self.names, 1)

    def last(self, row: Any) -> Any:
        """The element of each row that belongs to the last label."""
        return row[self.rows, self.labels]


def _require_lengths(name: str, lengths: Any, most: int, what: str) -> None:
    wrong = np.flatnonzero((lengths < 0) | (lengths > most))
    if wrong.size:
        n = int(wrong[0])
        raise IndexRangeError(
            f"CTCLoss: {name}[{n}] is {int(lengths[n])}; it must be from 0 to {most}, the number of {what}"
        )


def _require_labels(label: Any, inside: Any, classes: int, blank: int) -> None:
    wrong = np.argwhere(inside & ((label < 0) | (label >= classes) | (label == blank)))
    if wrong.size:
        n, j = (int(i) for i in wrong[0])
        low, high = (1, classes - 1) if blank == 0 else (0, classes - 2)
        which, padding = ("first", 0) if blank == 0 else ("last", -1)
        raise IndexRangeError(
            f"CTCLoss: label[{n}, {j}] is {int(label[n, j])}; with {classes} classes and blank_label={which!r} labels "
            f"are from {low} to {high}, and what follows the last one is {padding}, or is cut off by label_lengths"
        )


def _rows(data: Shape, label: Shape) -> Shape:
    """The shape of forward variables."""
    return (data[1], data[0], kernels.padded(label[1]))


class _OfLattice(Opaque):
    """The base of the operators that compute the loss and its gradient."""

    SAME_DTYPE = False
    blank: int = 0

    def require_shapes(self, shapes: Sequence[Shape]) -> tuple[Shape, Shape]:
        """The shapes of logarithms and labels; raise unless those of all inputs go together."""
        logs, label, *lengths = shapes
        if len(logs) != 3 or len(label) != 2 or any(shape != logs[1:2] for shape in (label[:1], *lengths)):
            raise ShapeError(f"{self.title()}: logs {logs}, label {label} and lengths {lengths} do not go together")
        if not 0 <= self.blank < max(logs[2], 1):
            raise ShapeError(f"{self.title()}: blank={self.blank} is none of {logs[2]} classes")
        return logs, label


@register("hybrid._ctc_paths")
class CTCPaths(_OfLattice):
    """The losses, given the logarithms of the classes' shares and all lengths, and the forward variables

    These are, relative to a number that the states of one step share, the logarithms of the probabilities of all
    beginnings: blanks and labels, each ``(N, T, padded)``; the blanks' without the probability of the step's own blank.
    """

    INPUTS = ("logs", "label", "data_length", "label_length")
    blank: int = attribute(0, "the class that is blank")

    def num_outputs(self) -> int:
        return 3

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        logs, label = self.require_shapes(shapes)
        return shapes, [logs[1:2], *[_rows(logs, label)] * 2]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]] * 3

    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        return kernels.paths(target, inputs[0], inputs[1], self.blank)

    def eager(self, *arrays: Any) -> Any:
        logs = arrays[0]
        states = _Lattice(arrays, self.blank)
        width = states.inside.shape[1]
        forward = np.full((2, *_rows(logs.shape, arrays[1].shape)), NONE, logs.dtype)
        blanks, labels = (np.full(states.inside.shape, NONE, logs.dtype) for _ in range(2))
        blanks[:, 0] = 0
        shift, offset = np.zeros((states.batch, 1), logs.dtype), np.zeros(states.batch)
        total = np.zeros(states.batch)
        for t in range(states.steps):
            if t:
                stays = blanks + states.blanks(t - 1) - shift
                blanks = np.where(states.inside, _either(stays, labels - shift), NONE)
                comes = np.where(states.skips[:, 1:], blanks[:, :-1], stays[:, :-1])
                labels[:, 1:] = _either(labels[:, 1:] - shift, comes) + states.named(t)
                offset += shift[:, 0]
                shift = np.zeros_like(shift)
                if t % RESCALED == 0:
                    shift = np.max(np.maximum(blanks + states.blanks(t), labels), 1, initial=-np.inf, keepdims=True)
            else:
                labels[:, 1:2] = states.named(0)[:, :1]
            labels[~states.inside] = NONE
            counts = (states.length > t) & states.fits
            forward[0, counts, t, :width], forward[1, counts, t, :width] = blanks[counts], labels[counts]
            ends: Any = states.length == t + 1
            here = _either(states.last(blanks) + states.blanks(t)[:, 0], states.last(labels))
            total = np.where(ends, offset + here, total)
        loss = np.where(states.fits, 0 - total, 0)
        return np.where(loss > INFINITE, np.inf, loss).astype(logs.dtype), *forward

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *inputs, _, blanks, labels = values[0], *values[3:]
        return F._ctc_occupancy(dy, *inputs, blanks, labels, blank=self.blank), None, None, None


@register("hybrid._ctc_occupancy")
class CTCOccupancy(_OfLattice):
    """The gradient of ``_ctc_paths``: -scale times the probability that a step emits a class, given the labels

    Hidden: scratch of the native kernel.
    """

    INPUTS = ("scale", "logs", "label", "data_length", "label_length", "blanks", "labels")
    blank: int = attribute(0, "the class that is blank")

    def num_outputs(self) -> int:
        return 2

    def num_visible_outputs(self) -> int:
        return 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        logs, label = self.require_shapes(shapes[1:5])
        if shapes[0] != logs[1:2] or any(shape != _rows(logs, label) for shape in shapes[5:]):
            raise ShapeError(f"{self.title()}: shapes {shapes} do not go together")
        return shapes, [logs, (logs[1], 4, kernels.padded(label[1]))]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[1], dtypes[1]]

    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        return kernels.occupancy(target, inputs[1], inputs[2], self.blank)

    def eager(self, *arrays: Any) -> Any:
        scale, logs, *lattice, before_blanks, before_labels = arrays
        states = _Lattice((logs, *lattice), self.blank)
        out = np.zeros_like(logs)
        scratch = np.full(self.infer_shape([x.shape for x in arrays])[1][1], NONE, logs.dtype)
        end = np.where(np.array(range(states.inside.shape[1]), np.int64) == states.labels[:, None], 0, NONE).astype(
            logs.dtype
        )
        width = end.shape[1]
        blanks, labels = end, end.copy()
        labels[:, 0] = NONE
        none = np.full((states.batch, 1), NONE, logs.dtype)
        skips = np.concatenate([states.skips[:, 1:], np.zeros((states.batch, 1), bool)], 1)
        for t in reversed(range(states.steps)):
            begins = (states.length > t) & states.fits
            x = np.where(states.inside, before_blanks[:, t, :width] + states.blanks(t) + blanks, NONE)
            y = np.where(states.inside, before_labels[:, t, :width] + labels, NONE)
            top = np.max(np.maximum(x, y), 1, initial=NONE, keepdims=True)
            x, y = (np.where(begins[:, None], np.exp(v - top), 0) for v in (x, y))  # else, whatever logs hold
            each = np.where(begins, -scale / (x.sum(1) + y.sum(1)), 0)
            np.add.at(out[t], (states.rows[:, None], states.names), y[:, 1:] * each[:, None])
            out[t, :, self.blank] = x.sum(1) * each  # the names behind the last label gave nothing to it
            here = blanks + states.blanks(t)
            labels[:, 1:] += states.named(t)
            any_next = _either(here, np.concatenate([labels[:, 1:], none], 1))
            stays = _either(labels, np.where(skips, any_next, here))
            follows = states.length[:, None] > t
            blanks = np.where(follows & states.inside, any_next, end)
            stays[:, 0] = NONE
            first = end.copy()
            first[:, 0] = NONE
            labels = np.where(follows & states.inside, stays, first)
            if t % RESCALED == 0:
                top = np.max(np.maximum(blanks, labels), 1, initial=-np.inf, keepdims=True)
                blanks, labels = blanks - top, labels - top
        return out, scratch

    def gradient(self, F: Any, *values: Any) -> Any:
        raise UnsupportedError("CTCLoss has no second derivative; take its gradient without create_graph")


@register("hybrid.ctc_loss", "CTCLoss", "contrib.CTCLoss", "contrib.ctc_loss", "_contrib_CTCLoss", "_contrib_ctc_loss")
class CTCLoss(Composite):
    """-log of the probability of all alignments of ``label`` to the steps of ``data``, one number for each sequence

    Labels that need more steps than there are (one for each label, and one more between two equal ones) have the loss
    0, and no gradient. Without ``label_lengths`` a label sequence ends before its first 0 with
    ``blank_label='first'``, before its first -1 with ``'last'``.
    """

    INPUTS = ("data", "label", "data_lengths", "label_lengths")
    OUTPUTS = ("output0",)
    INPUT_DOCS: ClassVar = {
        "data": "(T, N, C): the classes' scores, before softmax",
        "label": "(N, L): the labels; L is at most T",
        "data_lengths": "(N,), with use_data_lengths: the steps that count",
        "label_lengths": "(N,), with use_label_lengths: the labels that count",
    }
    OPTIONAL = 2
    SAME_DTYPE = False
    use_data_lengths: bool = attribute(False, "whether data_lengths are given; else all steps count")
    use_label_lengths: bool = attribute(False, "whether label_lengths are given; else labels end with padding")
    blank_label: str = attribute("first", "which class is blank", enum=("first", "last"))

    def input_names(self) -> tuple[str, ...]:
        given = (True, True, self.use_data_lengths, self.use_label_lengths)
        return tuple(name for name, used in zip(self.INPUTS, given, strict=True) if used)

    def num_outputs(self) -> int:
        return 4  # hidden: the logarithms of the classes' shares, and the forward variables

    def num_visible_outputs(self) -> int:
        return 1

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """There is one length for each sequence."""
        data = shapes[0]
        if data is None or len(data) != 3:
            return shapes
        return [data, shapes[1], *[data[1:2] if s is None else s for s in shapes[2:]]]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Labels and lengths have the dtype of the data, unless they have another."""
        return [dtypes[0] if d is None else d for d in dtypes]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, label, *lengths = shapes
        if len(data) != 3 or not data[0] or not data[2]:
            raise ShapeError(f"CTCLoss: data must have shape (T, N, C), of at least one step and class, got {data}")
        steps, batch, _ = data
        if len(label) != 2 or label[0] != batch:
            raise ShapeError(f"CTCLoss: label must have shape ({batch}, L) for data (T, N, C) = {data}, got {label}")
        if label[1] > steps:
            raise ShapeError(
                f"CTCLoss: label of shape {label} has more labels than data of shape {data} has steps; cut off the "
                "padding that all sequences share"
            )
        for name, shape in zip(self.input_names()[2:], lengths, strict=True):
            if shape != (batch,):
                raise ShapeError(f"CTCLoss: {name} must have shape ({batch},), one for each sequence, got {shape}")
        return shapes, [(batch,), data, *[_rows(data, label)] * 2]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"CTCLoss: data must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, [dtypes[0], *[wide(dtypes[0])] * 3]

    def lattice(self, F: Any, data: Any, label: Any, *lengths: Any) -> tuple[Any, Any, Any]:
        """Labels and lengths, as int32."""
        steps, batch, _ = data.shape
        given = dict(zip(self.input_names()[2:], lengths, strict=True))
        names = _whole(F, label)
        if self.use_data_lengths:
            data_length = _whole(F, given["data_lengths"])
        else:
            data_length = F.full(shape=(batch,), val=steps, dtype=INT32)
        if self.use_label_lengths:
            return names, data_length, _whole(F, given["label_lengths"])
        most = label.shape[1]
        if not most or not batch:
            return names, data_length, F.zeros(shape=(batch,), dtype=INT32)
        padding = F.equal(F.cast(names, "float32"), -1.0 if self.blank_label == "last" else 0.0)
        number = F.broadcast_to(F.reshape_to(F._arange(most, dtype="float32"), shape=(1, most)), shape=label.shape)
        first = F.min(F.where(padding, number, F.full_like(number, most)), axis=1)
        return names, data_length, F.cast(first, INT32)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data = inputs[0]
        dtype = np.dtype(data.dtype)
        inner = wide(dtype)
        logs = F.log_softmax(data if inner == dtype else F.cast(data, inner), axis=-1)
        loss, *forward = F._ctc_paths(logs, *self.lattice(F, *inputs), blank=self.blank(data))
        return loss if inner == dtype else F.cast(loss, dtype), logs, *forward

    def blank(self, data: Any) -> int:
        """The index of the blank class."""
        return 0 if self.blank_label == "first" else data.shape[2] - 1

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        self.infer_type([x.dtype for x in arrays])
        return super().eager(*arrays)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *inputs, _, logs, blanks, labels = values
        dy = dy if dy.dtype == logs.dtype else F.cast(dy, logs.dtype)
        d = F._ctc_occupancy(dy, logs, *self.lattice(F, *inputs), blanks, labels, blank=self.blank(inputs[0]))
        total = F.sum(d, axis=-1, keepdims=True)
        dx = d - F.exp(logs) * total
        # Steps behind a sequence's length have no gradient, whatever they hold.
        dx = F.where(F.broadcast_to(F.equal(total, 0), shape=dx.shape), F.zeros_like(dx), dx)
        return dx if dx.dtype == inputs[0].dtype else F.cast(dx, inputs[0].dtype), *[None] * (len(inputs) - 1)

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        def last(x: Any, label: Any, *_: Any) -> Any:
            return _enumerated(x, label, [4, 4, 4], (label >= 0).sum(1), 3)

        dtypes = ("float32", "float64", "float16")
        one, two = np.array([[1, 2], [2, 2], [2, 0]], np.int32), np.array([[1, 1], [0, -1], [-1, -1]], np.float32)
        steps, labels = np.array([3, 2, 4], np.float32), np.array([1, 2, 0], np.int32)
        return [
            Sample([(4, 3, 3), one], lambda x, y: _enumerated(x, y, [4] * 3, [2, 2, 1], 0), dtypes=dtypes),
            Sample([(4, 3, 4), two], last, blank_label="last"),
            Sample(
                [(4, 3, 3), one, steps, labels],
                lambda x, y, steps, labels: _enumerated(x, y, steps, labels, 0),
                use_data_lengths=True,
                use_label_lengths=True,
            ),
            Sample([(1, 2, 2), np.zeros((2, 0), np.int32)], lambda x, y: _enumerated(x, y, [1, 1], [0, 0], 0)),
            Sample([(2, 0, 3), np.zeros((0, 1), np.int32)], lambda x, _: x[0, :, 0]),
        ]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        many = "CTCLoss: label of shape (2, 3) has more labels than data of shape (2, 2, 4) has steps; cut off the "
        many += "padding that all sequences share"
        foreign = "CTCLoss: label[0, 1] is 4; with 4 classes and blank_label='first' labels are from 1 to 3, and what "
        foreign += "follows the last one is 0, or is cut off by label_lengths"
        long = "CTCLoss: data_lengths[1] is 3; it must be from 0 to 2, the number of steps of data"
        ones = np.ones((2, 1), np.int32)
        return [
            (
                ((2, 4), (2, 2)),
                {},
                "CTCLoss: data must have shape (T, N, C), of at least one step and class, got (2, 4)",
            ),
            (((2, 2, 4), (2, 3)), {}, many),
            (
                ((2, 2, 4), (1, 2)),
                {},
                "CTCLoss: label must have shape (2, L) for data (T, N, C) = (2, 2, 4), got (1, 2)",
            ),
            (((2, 2, 4), np.array([[1, 4], [1, 2]])), {}, foreign),
            (((2, 2, 4), ones, np.array([1, 3])), {"use_data_lengths": True}, long),
            (
                ((2, 2, 4), ones, (3,)),
                {"use_label_lengths": True},
                "CTCLoss: label_lengths must have shape (2,), one for each sequence, got (3,)",
            ),
            (
                (np.ones((2, 2, 4), np.int32), ones),
                {},
                "CTCLoss: data must be floating-point, got int32; use .astype('float32')",
            ),
        ]


def _enumerated(x: Any, label: Any, steps: Any, labels: Any, blank: int) -> Any:
    """The losses by the definition: the sum over all step sequences that stand for the labels; 0 if there is none."""
    share = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    losses: list[float] = []
    for n in range(x.shape[1]):
        wanted = [int(k) for k in label[n][: int(labels[n])]]
        total = 0.0
        for path in itertools.product(range(x.shape[2]), repeat=int(steps[n])):
            if [k for k, _ in itertools.groupby(path) if k != blank] == wanted:
                total += math.prod(share[t, n, k] for t, k in enumerate(path))
        losses.append(-math.log(total) if total else 0.0)
    return np.array(losses)


def _whole(F: Any, x: Any) -> Any:
    """Numbers as int32, rounded."""
    dtype = np.dtype(x.dtype)
    x = F.rint(x) if is_float(dtype) else x
    return x if dtype == INT32 else F.cast(x, INT32)
