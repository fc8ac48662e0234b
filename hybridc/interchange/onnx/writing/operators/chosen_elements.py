"""Operators that choose elements: by indices, by order, by their places."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.creation_ops import Constant
from hybridc.dialects.array.gather import Pick, Take, TakeScatter
from hybridc.dialects.array.gather_nd import BooleanMask, GatherND, ScatterAddND, ScatterND, ScatterSetND
from hybridc.dialects.array.indices import IndexCopy, RavelMultiIndex, UnravelIndex
from hybridc.dialects.array.joining import Tile
from hybridc.dialects.array.sequence import CumProd, CumSum
from hybridc.dialects.array.shape import ReshapeLike, ShapeArray, SizeArray
from hybridc.dialects.array.slicing import SliceLike
from hybridc.dialects.array.sorting import (
    ArgMax,
    ArgMaxChannel,
    ArgMin,
    ArgSort,
    Histogram,
    ScatterAlongAxis,
    Sort,
    TakeAlongAxis,
    TopK,
)
from hybridc.dialects.movement import bounded_index
from hybridc.ground.sizes import is_size
from hybridc.interchange.onnx.writing.graph_writer import refuse
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue
from hybridc.interchange.onnx.writing.translate import REASONS, Translator, has_no_elements, translation

REASONS[BooleanMask] = "the shape of its result depends on values, which a trace cannot have; use where"


@translation(Constant)
def constant(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """A known number."""
    number = op.as_number()
    result = t.results_of(op, inputs)[0]
    return (
        t.writer.cast(t.writer.integer_scalar(number), result.dtype)
        if is_size(number)
        else t.constant(np.asarray(number).astype(result.dtype))
    )


def as_places(t: Translator, indices: OnnxValue) -> OnnxValue:
    """Indices of any dtype as integers."""
    return t.writer.cast(indices, INT64)


@translation(Take)
def take(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Gather; indices are brought into range before."""
    a, indices = inputs
    axis: int = op.axis % a.ndim
    places: Any = as_places(t, indices)
    if op.mode != "raise":
        size: int = a.shape[axis]
        places = bounded_index(t.steps, places, size, op.mode)
    return t.node("Gather", [a, places], t.results_of(op, inputs)[0], axis=axis)


@translation(TakeAlongAxis)
def take_along_axis(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """GatherElements."""
    data, indices = inputs
    result = t.results_of(op, inputs)[0]
    return t.node("GatherElements", [data, as_places(t, indices)], result, axis=op.axis % data.ndim)


def added(t: Translator, into: OnnxValue, places: OnnxValue, values: OnnxValue, axis: int) -> OnnxValue:
    """``into`` with values added at places along an axis, since opset 16."""
    _require_sums(t)
    return t.node("ScatterElements", [into, places, values], into, axis=axis, reduction="add")


def _require_sums(t: Translator) -> None:
    if t.opset < 16:
        raise refuse("a sum at indices", "opset 16 is the first that has it; give a newer opset")


@translation(ScatterAlongAxis)
def scatter_along_axis(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """ScatterElements into zeros."""
    data, indices = inputs
    zeros = t.moves.full(t.results_of(op, inputs)[0].shape, data.dtype, 0)
    return added(t, zeros, as_places(t, indices), data, op.axis % data.ndim)


@translation(TakeScatter)
def take_scatter(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The rows of one axis, added to those of zeros."""
    data, indices = inputs
    axis: int = op.axis % len(op.shape)
    count = math.prod(indices.shape)
    rows = t.moves.reshape(data, (*op.shape[:axis], count, *op.shape[axis + 1 :]))
    places: Any = t.moves.reshape(as_places(t, indices), (count, *[1] * (len(op.shape) - axis - 1)))
    if op.mode != "raise":
        size: int = op.shape[axis]
        places = bounded_index(t.steps, places, size, op.mode)
    places = t.moves.broadcast(places, rows.shape)
    return added(t, t.moves.full(op.shape, data.dtype, 0), places, rows, axis)


def columns_last(t: Translator, indices: OnnxValue) -> OnnxValue:
    """The coordinates of each element in the last axis."""
    return t.moves.transpose(as_places(t, indices), (*range(1, indices.ndim), 0))


@translation(GatherND)
def gather_nd(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """GatherND."""
    data, indices = inputs
    return t.node("GatherND", [data, columns_last(t, indices)], t.results_of(op, inputs)[0])


@translation(ScatterAddND, ScatterND, ScatterSetND)
def scatter_nd(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """ScatterND into zeros, or into the first input."""
    *into, data, indices = inputs
    base = into[0] if into else t.moves.full(op.shape, data.dtype, 0)
    sums = type(op) is ScatterAddND
    if sums:
        _require_sums(t)
    return t.node("ScatterND", [base, columns_last(t, indices), data], base, reduction="add" if sums else None)


@translation(IndexCopy)
def index_copy(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """ScatterND of rows."""
    old, index, new = inputs
    places = t.moves.reshape(as_places(t, index), (*index.shape, 1))
    return t.node("ScatterND", [old, places, new], old)


@translation(Pick)
def pick(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """GatherElements along the axis."""
    data, index = inputs
    if op.axis is None:
        return None
    axis: int = op.axis % data.ndim
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    size: int = data.shape[axis]
    places = bounded_index(t.steps, t.moves.reshape(index, kept), size, op.mode)
    y = t.writer.node("GatherElements", [data, places], kept, data.dtype, axis=axis)
    return t.moves.reshape(y, t.results_of(op, inputs)[0].shape)


# --- order ------------------------------------------------------------------------------------------------------------


def ordered(t: Translator, x: OnnxValue, axis: int, count: int, is_ascending: bool) -> tuple[OnnxValue, OnnxValue]:
    """The first elements in order along an axis, and their places; equal ones keep theirs."""
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    wide = x if x.dtype.kind != "b" else t.writer.cast(x, np.int32)
    values, places = t.writer.results(
        "TopK",
        [wide, t.writer.integer(count)],
        [(shape, wide.dtype), (shape, INT64)],
        axis=axis,
        largest=int(not is_ascending),
    )
    return t.writer.cast(values, x.dtype), places


def _placed(t: Translator, op: Any, x: OnnxValue) -> tuple[OnnxValue, int]:
    """The array to sort, and the axis."""
    shape, axis = op.place(x.shape)
    return t.moves.reshape(x, shape), axis


@translation(Sort, ArgSort)
def sort(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """TopK of all elements."""
    x, axis = _placed(t, op, inputs[0])
    if has_no_elements(x.shape):
        return x if type(op) is Sort else t.writer.cast(x, op.dtype)
    values, places = ordered(t, x, axis, x.shape[axis], op.is_ascend)
    return values if type(op) is Sort else t.writer.cast(places, op.dtype)


@translation(TopK)
def topk(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """TopK; a mask has ones at its places."""
    x, axis = _placed(t, op, inputs[0])
    values, places = ordered(t, x, axis, op.k if op.k > 0 else x.shape[axis], op.is_ascend)
    if op.ret_typ == "mask":
        zeros, ones = (t.moves.full(s, x.dtype, n) for s, n in ((x.shape, 0), (places.shape, 1)))
        mask = t.node("ScatterElements", [zeros, places, ones], x, axis=axis)
        return t.moves.reshape(mask, inputs[0].shape)
    indices = t.writer.cast(places, op.dtype)
    return {"value": values, "indices": indices, "both": (values, indices)}[op.ret_typ]


@translation(ArgMax, ArgMin)
def arg_extreme(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The first of equal elements."""
    (x,) = inputs
    flat = t.moves.reshape(x, (math.prod(x.shape),)) if op.axis is None else x
    return _first_extreme(t, "ArgMax" if type(op) is ArgMax else "ArgMin", op, inputs, flat, op.axis or 0)


@translation(ArgMaxChannel)
def argmax_channel(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Along the second axis."""
    return _first_extreme(t, "ArgMax", op, inputs, inputs[0], 1)


def _first_extreme(
    t: Translator, operator: str, op: Any, inputs: Sequence[OnnxValue], x: OnnxValue, axis: int
) -> OnnxValue:
    axis = axis % x.ndim
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    place = t.writer.node(operator, [x], shape, INT64, axis=axis, keepdims=1)
    result = t.results_of(op, inputs)[0]
    return t.writer.cast(t.moves.reshape(place, result.shape), result.dtype)


@translation(CumSum)
def cumsum(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """CumSum."""
    x, axis, result = _along(t, op, inputs)
    x = t.writer.cast(x, result.dtype)
    return t.node("CumSum", [x, t.constant(np.asarray(axis, np.int64))], x)


@translation(CumProd)
def cumprod(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The products of the rows of a triangle of copies: as many as the square of the axis."""
    x, axis, result = _along(t, op, inputs)
    x = t.writer.cast(x, result.dtype)
    size = int(x.shape[axis])
    copies = t.moves.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))
    triangle = np.tri(size, dtype=bool).reshape(size, size, *[1] * (x.ndim - axis - 1))
    masked = t.steps.select(t.constant(triangle), copies, 1)
    return t.moves.reduce("ReduceProd", masked, [axis + 1], keep=False)


def _along(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> tuple[OnnxValue, int, Any]:
    """The array, flat if there is no axis, the axis and the result."""
    (x,) = inputs
    flat = t.moves.reshape(x, (math.prod(x.shape),)) if op.axis is None else x
    return flat, (op.axis or 0) % max(flat.ndim, 1), t.results_of(op, inputs)[0]


@translation(Histogram)
def histogram(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """How many elements are in each bin: each is compared with all edges."""
    data = inputs[0]
    if len(inputs) > 1:
        edges, count = inputs[1], inputs[1].shape[0] - 1
    else:
        low, high = op.range
        edges, count = t.constant(np.linspace(low, high, op.bin_cnt + 1), data.dtype), op.bin_cnt
    flat = t.moves.reshape(data, (math.prod(data.shape), 1))
    begin, end = (t.moves.slice(edges, (first,), (1,), (count,)) for first in (0, 1))
    last = t.constant(np.arange(count) == count - 1)
    inside = (flat >= begin) & ((flat < end) | (last & (flat == end)))
    counts = t.moves.reduce("ReduceSum", t.writer.cast(inside, INT64), [0], keep=False)
    return counts, edges


# --- shapes -----------------------------------------------------------------------------------------------------------


@translation(ReshapeLike)
def reshape_like(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Reshape to sizes that are known."""
    return t.moves.reshape(inputs[0], t.results_of(op, inputs)[0].shape)


@translation(SliceLike)
def slice_like(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The first elements along axes."""
    x = inputs[0]
    return t.moves.slice(x, (0,) * x.ndim, (1,) * x.ndim, t.results_of(op, inputs)[0].shape)


@translation(ShapeArray, SizeArray)
def shape_array(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The sizes, or their product."""
    (x,) = inputs
    return t.writer.integers(x.shape if type(op) is ShapeArray else [math.prod(x.shape)])


@translation(Tile)
def tile(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Tile, with as many axes as it needs."""
    (x,) = inputs
    result = t.results_of(op, inputs)[0]
    rank = len(result.shape)
    reps = (1,) * (rank - len(op.reps)) + tuple(op.reps)
    wide = t.moves.reshape(x, (1,) * (rank - x.ndim) + x.shape)
    return t.node("Tile", [wide, t.writer.integers(reps)], result)


@translation(RavelMultiIndex)
def ravel_multi_index(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The sum of coordinates times strides."""
    (x,) = inputs
    strides = [math.prod(op.shape[i + 1 :]) for i in range(len(op.shape))]
    weights = t.constant(np.array(strides, np.int64).reshape(-1, *[1] * (x.ndim - 1)))
    total = t.moves.reduce("ReduceSum", as_places(t, x) * weights, [0], keep=False)
    return t.writer.cast(total, x.dtype)


@translation(UnravelIndex)
def unravel_index(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The quotients by strides, modulo sizes; not that of the first axis."""
    (x,) = inputs
    rest = as_places(t, x)
    rows: list[OnnxValue] = []
    for size in (*op.shape[:0:-1], 0):
        row = rest % size if size else rest
        rows.append(t.moves.reshape(row, (1, *x.shape)))
        rest = t.steps.quotient(rest, size) if size else rest
    return t.writer.cast(t.moves.concat(rows[::-1], 0), x.dtype)
