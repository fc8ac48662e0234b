"""Operators that reduce axes: sums, extremes, norms, indices of extremes."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownLambdaType=false
# Inputs are arrays or symbols.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hybridc import np as mnp
from hybridc import npx
from hybridc.dtypes import is_float
from hybridc.interchange.onnx.reading.onnx_rules import OnnxCall, onnx_op

Reduction = Callable[..., Any]


def axes_of(call: OnnxCall, x: Any, axes: Any) -> tuple[int, ...] | None:
    """The axes to reduce, which are an attribute or an input; None if that are none, and nothing is reduced."""
    chosen = call["axes"] if axes is None else axes.tolist()
    if chosen is None or len(chosen) == 0:
        return None if call["noop_with_empty_axes"] else tuple(range(len(x.shape)))
    return tuple(int(axis) % len(x.shape) for axis in chosen)


def _exact(x: Any) -> Any:
    """An array in whose dtype sums are computed."""
    return x.astype("float32") if is_float(np.dtype(x.dtype)) and np.dtype(x.dtype).itemsize < 4 else x


def _sum(x: Any, **options: Any) -> Any:
    return mnp.sum(x, dtype=x.dtype, **options)


def _log_sum_exp(x: Any, **options: Any) -> Any:
    if not x.size:
        return mnp.log(_sum(x, **options))
    largest = mnp.max(x, axis=options["axis"], keepdims=True)
    largest = mnp.where(mnp.isinf(largest), mnp.zeros_like(largest), largest)
    total = mnp.log(mnp.sum(mnp.exp(x - largest), axis=options["axis"], keepdims=True)) + largest
    return total if options["keepdims"] else mnp.squeeze(total, axis=options["axis"])


def _extreme(reduce: Reduction, is_max: bool) -> Reduction:
    def apply(x: Any, **options: Any) -> Any:
        dtype = np.dtype(x.dtype)
        if x.size:
            return reduce(x.astype("int32"), **options).astype("bool") if dtype.kind == "b" else reduce(x, **options)
        if is_float(dtype):
            neutral: Any = -np.inf if is_max else np.inf
        else:
            neutral = not is_max if dtype.kind == "b" else (np.iinfo(dtype).min if is_max else np.iinfo(dtype).max)
        return mnp.full(mnp.sum(x, **options).shape, neutral, dtype=dtype)

    return apply


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceL1": lambda x, **o: _sum(mnp.abs(x), **o),
    "ReduceL2": lambda x, **o: mnp.sqrt(_sum(mnp.square(_exact(x)), **o)).astype(x.dtype),
    "ReduceLogSum": lambda x, **o: mnp.log(_sum(x, **o)),
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceMax": _extreme(mnp.max, True),
    "ReduceMean": lambda x, **o: mnp.mean(x, **o).astype(x.dtype),
    "ReduceMin": _extreme(mnp.min, False),
    "ReduceProd": lambda x, **o: mnp.prod(x, dtype=x.dtype, **o),
    "ReduceSum": _sum,
    "ReduceSumSquare": lambda x, **o: _sum(mnp.square(x), **o),
}
# What the reductions do to each element alone.
_OF_ONE: dict[str, Callable[[Any], Any]] = {
    "ReduceL1": mnp.abs,
    "ReduceL2": mnp.abs,
    "ReduceLogSum": mnp.log,
    "ReduceSumSquare": mnp.square,
}


def _reducing(name: str, reduce: Reduction) -> Callable[..., Any]:
    def apply(call: OnnxCall, x: Any, axes: Any = None) -> Any:
        chosen = axes_of(call, x, axes)
        if not chosen:
            return _OF_ONE.get(name, lambda x: x)(x)
        return reduce(x, axis=chosen, keepdims=bool(call["keepdims"]))

    return apply


for _name, _reduce in _REDUCTIONS.items():
    onnx_op(_name, known=(1,))(_reducing(_name, _reduce))


@onnx_op("ArgMax", "ArgMin")
def arg_extreme(call: OnnxCall, x: Any) -> Any:
    """The first index of the extreme, or the last one."""
    find = mnp.argmax if call.node.op == "ArgMax" else mnp.argmin
    axis = call["axis"] % len(x.shape)
    if call["select_last_index"]:
        index = x.shape[axis] - 1 - find(mnp.flip(x, axis), axis=axis).astype("int64")
    else:
        index = find(x, axis=axis).astype("int64")
    return mnp.expand_dims(index, axis) if call["keepdims"] else index


@onnx_op("CumSum", "CumProd", known=(1,))
def cumulate(call: OnnxCall, x: Any, axis: Any) -> Any:
    """Sums or products of the elements so far, from either end, with or without the element itself."""
    along, is_sum = int(axis.reshape(())) % len(x.shape), call.node.op == "CumSum"
    x = mnp.flip(x, along) if call["reverse"] else x
    if call["exclusive"] and x.shape[along]:
        first = mnp.zeros_like(_part(x, along, 0, 1)) if is_sum else mnp.ones_like(_part(x, along, 0, 1))
        x = mnp.concatenate([first, _part(x, along, 0, -1)], along)
    y = (mnp.cumsum if is_sum else mnp.cumprod)(x, axis=along).astype(x.dtype)
    return mnp.flip(y, along) if call["reverse"] else y


def _part(x: Any, axis: int, begin: int, end: int | None) -> Any:
    return x[(slice(None),) * axis + (slice(begin, end),)]


@onnx_op("Softmax", "LogSoftmax", since=13)
def softmax(call: OnnxCall, x: Any) -> Any:
    return (npx.softmax if call.node.op == "Softmax" else npx.log_softmax)(x, axis=call["axis"])


@onnx_op("Softmax", "LogSoftmax")
def flat_softmax(call: OnnxCall, x: Any) -> Any:
    """Of all axes from one on together, as operator sets before 13 have it."""
    axis = call["axis"] % len(x.shape)
    rows = mnp.reshape(x, (int(np.prod(x.shape[:axis])), -1))
    y = (npx.softmax if call.node.op == "Softmax" else npx.log_softmax)(rows, axis=1)
    return mnp.reshape(y, x.shape)


@onnx_op("Hardmax")
def hardmax(call: OnnxCall, x: Any) -> Any:
    """1 at the first maximum, 0 elsewhere."""
    shape, axis = x.shape, call["axis"] % len(x.shape)
    if call.version < 13:
        x, axis = mnp.reshape(x, (int(np.prod(shape[:axis])), -1)), 1
    best = mnp.expand_dims(mnp.argmax(x, axis=axis), axis)
    places = np.arange(x.shape[axis]).reshape((-1,) + (1,) * (len(x.shape) - axis - 1))
    return mnp.reshape(mnp.equal(best.astype("int64"), mnp.array(places, dtype="int64")).astype(x.dtype), shape)


@onnx_op("Einsum")
def einsum(call: OnnxCall, *xs: Any) -> Any:
    return mnp.einsum(call["equation"].replace(" ", ""), *xs)


@onnx_op("Det")
def determinant(_: OnnxCall, x: Any) -> Any:
    return mnp.linalg.det(x)


@onnx_op("LpNormalization")
def lp_normalization(call: OnnxCall, x: Any) -> Any:
    """The axis by its norm; a norm of 0 gives 0."""
    size = mnp.abs(x) if call["p"] == 1 else mnp.square(x)
    norm = mnp.sum(size, axis=call["axis"], keepdims=True)
    norm = norm if call["p"] == 1 else mnp.sqrt(norm)
    zero = mnp.equal(norm, 0)
    return mnp.where(zero, mnp.zeros_like(x), x / mnp.where(zero, mnp.ones_like(norm), norm))
