"""Operators that move elements: other shapes, orders, parts, and arrays that are made from numbers."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Inputs are arrays or symbols.

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op
from hybridc.interchange.onnx.reading.size_limits import check_size
from hybridc.interchange.onnx.reading.tensor_values import dtype_of_element


@onnx_op("Constant", raw=True)
def constant(call: OnnxCall) -> Any:
    """Its attribute: a tensor, a number, text, or a list of these."""
    for name, dtype in (("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64),
                        ("value_ints", np.int64), ("value_string", object), ("value_strings", object)):  # fmt: skip
        if call[name] is not None:
            return np.array(call[name], dtype)
    value = call["value"] if call["value"] is not None else call["sparse_value"]
    if value is None:
        raise call.refuse("it has no value")
    return value


@onnx_op("ConstantOfShape", known=(0,))
def constant_of_shape(call: OnnxCall, shape: Any) -> Any:
    value = np.zeros(1, np.float32) if call["value"] is None else call["value"]
    if value.size != 1:
        raise call.refuse(f"its value must have one element, got {value.size}")
    sizes = tuple(map(int, shape))
    check_size(sizes)
    return np.full(sizes, value.reshape(())[()], value.dtype)


@onnx_op("Shape", raw=True)
def shape_of(call: OnnxCall, x: Any) -> Any:
    return np.array(x.shape[slice(call["start"], call["end"])], np.int64)


@onnx_op("Size", raw=True)
def size_of(_: OnnxCall, x: Any) -> Any:
    return np.array(math.prod(x.shape), np.int64)


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """The elements in another shape, of which one size may be -1."""
    if -1 in shape and 0 not in x.shape:
        rest = -math.prod(shape)
        shape = tuple(x.size // rest if n == -1 else n for n in shape) if rest else shape
    return mnp.reshape(x, shape)


@onnx_op("Reshape", known=(1,))
def reshape(call: OnnxCall, x: Any, shape: Any = None) -> Any:
    """0 keeps a size, unless zeros are sizes; -1 is what is left."""
    wanted = [int(n) for n in (call["shape"] if shape is None else shape)]
    if not call["allowzero"]:
        wanted = [x.shape[i] if n == 0 else n for i, n in enumerate(wanted)]
    return reshaped(x, tuple(wanted))


@onnx_op("Flatten")
def flatten(call: OnnxCall, x: Any) -> Any:
    axis = call["axis"] + len(x.shape) * (call["axis"] < 0)
    return mnp.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@onnx_op("Squeeze", known=(1,))
def squeeze(call: OnnxCall, x: Any, axes: Any = None) -> Any:
    chosen = call["axes"] if axes is None else tuple(map(int, axes))
    rank = len(x.shape)
    dropped = {a % rank for a in chosen} if chosen is not None else {i for i, n in enumerate(x.shape) if n == 1}
    if any(x.shape[i] != 1 for i in dropped):
        raise call.refuse(f"the axes {sorted(dropped)} of the shape {x.shape} do not all have the size 1")
    return mnp.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in dropped))


@onnx_op("Unsqueeze", known=(1,))
def unsqueeze(call: OnnxCall, x: Any, axes: Any = None) -> Any:
    chosen = call["axes"] if axes is None else np.atleast_1d(axes).tolist()
    rank = len(x.shape) + len(chosen)
    added, sizes = {a % rank for a in chosen}, iter(x.shape)
    if len(added) < len(chosen):
        raise call.refuse(f"an axis is added twice: {list(chosen)}")
    return mnp.reshape(x, tuple(1 if i in added else next(sizes) for i in range(rank)))


@onnx_op("Transpose")
def transpose(call: OnnxCall, x: Any) -> Any:
    return mnp.transpose(x, call["perm"] or tuple(reversed(range(len(x.shape)))))


@onnx_op("Concat")
def concat(call: OnnxCall, *xs: Any) -> Any:
    return xs[0] if len(xs) == 1 else mnp.concatenate(xs, 1 if call["axis"] is None else call["axis"])


@onnx_op("Split", known=(1,))
def split(call: OnnxCall, x: Any, sizes: Any = None) -> Any:
    """Parts of these sizes; else as many equal ones as there are outputs, of which the last may be smaller."""
    axis = call["axis"] % len(x.shape)
    lengths = call["split"] if sizes is None else [int(n) for n in sizes]
    total = x.shape[axis]
    if lengths is None:
        count = len(call.node.outputs)
        if call["num_outputs"] not in (None, count):
            raise call.refuse(f"num_outputs={call['num_outputs']}, but it has {count} outputs")
        part = -(-total // count)
        lengths = [max(0, min(part, total - i * part)) for i in range(count)]
    if sum(lengths) != total or min(lengths, default=0) < 0:
        raise call.refuse(f"parts of the sizes {list(lengths)} do not add up to {total}")
    ends = np.cumsum(lengths)
    return tuple(part_of(x, axis, int(end) - n, int(end)) for n, end in zip(lengths, ends))


def part_of(x: Any, axis: int, begin: int, end: int) -> Any:
    """The elements from ``begin`` to before ``end`` along an axis."""
    return x[(slice(None),) * axis + (slice(begin, end),)]


@onnx_op("Slice", known=(1, 2, 3, 4))
def slice_of(call: OnnxCall, x: Any, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None) -> Any:
    starts = call["starts"] if starts is None else starts.tolist()
    ends = call["ends"] if ends is None else ends.tolist()
    axes = call["axes"] if axes is None else axes.tolist()
    axes = range(len(starts)) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps.tolist()
    key = [slice(None)] * len(x.shape)
    for begin, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        # An end before the first element, of a step back, is one that Python's slices have no number for.
        last = None if step < 0 and end < -size else end
        key[axis] = slice(begin, last, step)
        if step < 0 and begin < -size:
            key[axis] = slice(0, 0)
    return x[tuple(key)]


@onnx_op("Expand", known=(1,))
def expand(call: OnnxCall, x: Any, shape: Any) -> Any:
    sizes = np.broadcast_shapes(x.shape, tuple(map(int, shape)))
    check_size(sizes)
    return mnp.broadcast_to(x, sizes)


@onnx_op("Tile", known=(1,), since=6)
def tile(call: OnnxCall, x: Any, repeats: Any) -> Any:
    counts = tuple(map(int, repeats))
    check_size([n * r for n, r in zip(x.shape, counts)])
    return mnp.tile(x, counts)


@onnx_op("Range", known=(0, 1, 2))
def range_of(call: OnnxCall, start: Any, limit: Any, delta: Any) -> Any:
    first, end, step = (x.reshape(())[()] for x in (start, limit, delta))
    count = (
        max(0, math.ceil((end.astype(np.float64) - first) / step))
        if start.dtype.kind == "f"
        else len(range(int(first), int(end), int(step)))
    )
    check_size((count,))
    return (first + np.arange(count).astype(start.dtype) * step).astype(start.dtype)


@onnx_op("EyeLike")
def eye_like(call: OnnxCall, x: Any) -> Any:
    dtype = x.dtype if call["dtype"] is None else dtype_of_element(call["dtype"], "EyeLike")
    return np.eye(x.shape[0], x.shape[1], k=call["k"], dtype=dtype)


@onnx_op("Trilu", known=(1,))
def trilu(call: OnnxCall, x: Any, k: Any = None) -> Any:
    """The upper or lower triangle of the last two axes, 0 elsewhere."""
    diagonal = 0 if k is None else int(k.reshape(()))
    keep = (np.triu if call["upper"] else np.tril)(np.ones(x.shape[-2:], bool), diagonal)
    return mnp.where(mnp.array(keep, dtype="bool"), x, mnp.zeros_like(x))


@onnx_op("DepthToSpace")
def depth_to_space(call: OnnxCall, x: Any) -> Any:
    n, c, h, w = x.shape
    b = call["blocksize"]
    if call["mode"] == "CRD":
        parts = mnp.transpose(mnp.reshape(x, (n, c // b**2, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    else:
        parts = mnp.transpose(mnp.reshape(x, (n, b, b, c // b**2, h, w)), (0, 3, 4, 1, 5, 2))
    return mnp.reshape(parts, (n, c // b**2, h * b, w * b))


@onnx_op("SpaceToDepth")
def space_to_depth(call: OnnxCall, x: Any) -> Any:
    n, c, h, w = x.shape
    b = call["blocksize"]
    order = (0, 1, 3, 5, 2, 4) if call["mode"] == "CRD" else (0, 3, 5, 1, 2, 4)
    parts = mnp.transpose(mnp.reshape(x, (n, c, h // b, b, w // b, b)), order)
    return mnp.reshape(parts, (n, c * b**2, h // b, w // b))


@onnx_op("Pad", known=(1, 2, 3))
def pad(call: OnnxCall, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    """Borders of a constant, the edge, its mirror image or the other end; negative ones cut off."""
    widths = [int(n) for n in (call["pads"] if pads is None else pads)]
    rank = len(x.shape)
    chosen = range(rank) if axes is None else [int(a) % rank for a in axes]
    number = call["value"] if value is None else value.reshape(())[()]
    border = [(0, 0)] * rank
    for i, axis in enumerate(chosen):
        border[axis] = widths[i], widths[i + len(chosen)]
    check_size([n + max(a, 0) + max(b, 0) for n, (a, b) in zip(x.shape, border)])
    cut = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape, border))
    return padded(
        x[cut], [(max(0, a), max(0, b)) for a, b in border], call["mode"] or "constant", 0 if number is None else number
    )


def taken(x: Any, places: Any, axis: int) -> Any:
    """The elements at indices along an axis, which are known and not outside of it."""
    return mnp.take(x, mnp.array(places, dtype="int64"), axis=axis, mode="clip")


def padded(x: Any, border: list[tuple[int, int]], mode: str, number: Any = 0) -> Any:
    """An array with borders, by ONNX's name of what fills them."""
    check_size(n + before + after for n, (before, after) in zip(x.shape, border))
    for axis, (before, after) in enumerate(border):
        if not before and not after:
            continue
        shape, size = list(x.shape), x.shape[axis]
        if mode == "constant":
            parts = [_filled(x, [*shape[:axis], n, *shape[axis + 1 :]], number) if n else None for n in (before, after)]
            x = mnp.concatenate([p for p in (parts[0], x, parts[1]) if p is not None], axis)
        else:
            places = np.pad(np.arange(size), (before, after), mode=mode)  # pyright: ignore[reportCallIssue, reportArgumentType]
            x = taken(x, places, axis)
    return x


def _filled(x: Any, shape: list[int], number: Any) -> Any:
    return mnp.full(tuple(shape), number, dtype=x.dtype)


@onnx_op("CenterCropPad", known=(1,))
def center_crop_pad(call: OnnxCall, x: Any, shape: Any) -> Any:
    """The middle of the axes that are too long, and zeros around those that are too short."""
    axes = range(len(x.shape)) if call["axes"] is None else [a % len(x.shape) for a in call["axes"]]
    border = [(0, 0)] * len(x.shape)
    for axis, size in zip(axes, map(int, shape)):
        have = x.shape[axis]
        if have > size:
            x = part_of(x, axis, (have - size) // 2, (have - size) // 2 + size)
        else:
            border[axis] = (size - have) // 2, size - have - (size - have) // 2
    return padded(x, border, "constant")


@onnx_op("ReverseSequence")
def reverse_sequence(call: OnnxCall, x: Any, lengths: Any) -> Any:
    """Of each example the first elements in time, backwards."""
    time, batch = call["time_axis"], call["batch_axis"]
    rows = mnp.moveaxis(x, (batch, time), (0, 1))
    count, steps = rows.shape[:2]
    step = mnp.array(np.broadcast_to(np.arange(steps), (count, steps)), dtype="int64")
    example = mnp.array(np.broadcast_to(np.arange(count)[:, None], (count, steps)), dtype="int64")
    last = mnp.expand_dims(lengths.astype("int64"), 1) - 1
    places = mnp.where(step <= last, last - step, step)
    return mnp.moveaxis(npx.gather_nd(rows, mnp.stack([example, places], 0)), (0, 1), (batch, time))
