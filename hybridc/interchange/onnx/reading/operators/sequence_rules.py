"""Sequences, which are Python lists, and optionals, which are None or a value."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.operators.move_rules import part_of
from hybridc.interchange.onnx.reading.walk_values import is_known, lifted, numbers


@onnx_op("SequenceEmpty", "SequenceConstruct", raw=True)
def sequence_of(_: OnnxCall, *xs: Any) -> Any:
    return list(xs)


def _index(position: Any, default: int) -> int:
    return default if position is None else int(np.asarray(numbers(position, "a position")).reshape(()))


@onnx_op("SequenceAt", raw=True, known=(1,))
def sequence_at(call: OnnxCall, sequence: Any, position: Any) -> Any:
    index = _index(position, 0)
    if not -len(sequence) <= index < len(sequence):
        raise call.refuse(f"the sequence has {len(sequence)} elements, and none at {index}")
    return sequence[index]


@onnx_op("SequenceInsert", raw=True, known=(2,))
def sequence_insert(call: OnnxCall, sequence: Any, x: Any, position: Any = None) -> Any:
    index = _index(position, len(sequence))
    if not -len(sequence) <= index <= len(sequence):
        raise call.refuse(f"the sequence has {len(sequence)} elements: {index} is no place in it")
    changed = list(sequence)
    changed.insert(index, x)
    return changed


@onnx_op("SequenceErase", raw=True, known=(1,))
def sequence_erase(_: OnnxCall, sequence: Any, position: Any = None) -> Any:
    changed = list(sequence)
    del changed[_index(position, -1)]
    return changed


@onnx_op("SequenceLength", raw=True)
def sequence_length(_: OnnxCall, sequence: Any) -> Any:
    return np.array(len(sequence), np.int64)


@onnx_op("SplitToSequence", raw=True, known=(1,))
def split_to_sequence(call: OnnxCall, x: Any, sizes: Any = None) -> Any:
    axis = call["axis"] % len(x.shape)
    total = x.shape[axis]
    chosen = np.asarray(1 if sizes is None else numbers(sizes, "the sizes of parts"))
    part = int(chosen) if chosen.ndim == 0 else 0
    lengths = chosen.tolist() if chosen.ndim else [min(part, total - i) for i in range(0, total, part)]
    ends = np.cumsum(lengths)
    parts = [part_of(x, axis, int(end) - int(n), int(end)) for n, end in zip(lengths, ends)]
    if sizes is None and not call["keepdims"]:
        return [p.reshape((*x.shape[:axis], *x.shape[axis + 1 :])) for p in parts]
    return parts


@onnx_op("ConcatFromSequence", raw=True)
def concat_from_sequence(call: OnnxCall, sequence: Any) -> Any:
    if is_known(sequence):
        return (np.stack if call["new_axis"] else np.concatenate)(sequence, call["axis"])
    return (mnp.stack if call["new_axis"] else mnp.concatenate)(list(map(lifted, sequence)), call["axis"])


@onnx_op("Optional", "OptionalGetElement", raw=True)
def optional_element(call: OnnxCall, x: Any = None) -> Any:
    if x is None and call.node.op == "OptionalGetElement":
        raise call.refuse("the optional has no element")
    return x


@onnx_op("OptionalHasElement", raw=True)
def optional_has_element(_: OnnxCall, x: Any = None) -> Any:
    return np.array(x is not None)
