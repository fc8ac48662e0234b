"""Sums, means and products: reductions, matmuls, and contractions whose operands are read at affine indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.array.cast import Cast
from hybridc.dialects.math.affine_contraction import Contract
from hybridc.dialects.math.contraction import FullyConnected, Matmul
from hybridc.dialects.math.reduction import Max, Mean, Min, Prod, Sum
from hybridc.ground.sizes import AffineIndex, Place, is_size
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue
from hybridc.interchange.onnx.writing.translate import Translator, has_no_elements, translation

_REDUCTIONS = {Sum: "ReduceSum", Prod: "ReduceProd", Max: "ReduceMax", Min: "ReduceMin", Mean: "ReduceMean"}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@translation(Sum, Prod, Max, Min, Mean)
def reduction(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Integers' means are quotients, and an extreme of nothing is an error: those decompose."""
    (x,) = inputs
    if type(op) is Mean and x.dtype.kind != "f":
        return None
    axes, shape = op.axes(x.ndim), t.results_of(op, inputs)[0].shape
    if has_no_elements(x.shape):
        return None if type(op) is Mean else t.moves.full(shape, x.dtype, int(type(op) is Prod))
    kept = t.moves.reduce(_REDUCTIONS[type(op)], x, axes, keep=bool(op.keepdims)) if axes else x
    return t.moves.reshape(kept, shape)


def transposed(t: Translator, x: OnnxValue, is_transposed: bool) -> OnnxValue:
    """The last two axes in the other order, if they are transposed."""
    order = [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2]
    return t.moves.transpose(x, order) if is_transposed else x


@translation(Matmul)
def matmul(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Transposes are nodes of their own."""
    a, b = inputs
    pair = [transposed(t, a, op.transpose_a), transposed(t, b, op.transpose_b)]
    return t.node("MatMul", pair, t.results_of(op, inputs)[0])


@translation(FullyConnected)
def fully_connected(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Gemm of rows; of more axes a matmul and a sum."""
    data, weight, *bias = inputs
    (result,) = t.results_of(op, inputs)
    if op.flatten or data.ndim == 2:
        columns = weight.shape[1]
        rows = data if data.ndim == 2 else t.moves.reshape(data, (data.shape[0], columns))
        return t.node("Gemm", [rows, weight, *bias], result, transB=1)
    product = t.node("MatMul", [data, transposed(t, weight, True)], result)
    return product if op.no_bias else product + bias[0]


@translation(Contract)
def contract(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Einsum, after each axis that is read at an affine sum of loops has become an axis for each loop."""
    index = op.parsed
    sizes = index.sizes(inputs[0].shape, inputs[1].shape, op.shape)
    result = t.results_of(op, inputs)[0]
    if 0 in [n for n in sizes.values() if not is_size(n)]:
        return t.moves.full(result.shape, result.dtype, 0)
    operands: list[OnnxValue] = []
    terms: list[str] = []
    for x, places in zip(inputs, (index.lhs, index.rhs), strict=True):
        value, loops = _spread(t, x, places, sizes)
        operands.append(value)
        terms.append("".join(_LETTERS[i] for i in loops))
    equation = f"{','.join(terms)}->{_LETTERS[: index.kept]}"
    return t.node("Einsum", operands, result, equation=equation)


def _spread(
    t: Translator, x: OnnxValue, places: Sequence[Place], sizes: Mapping[int, int]
) -> tuple[OnnxValue, list[int]]:
    """An operand with an axis for each of its loops, and these loops."""
    loops: list[int] = []
    axis = 0
    for place in places:
        if not isinstance(place, AffineIndex):
            loops.append(place)
            axis += 1
            continue
        counts = [sizes[loop] for loop, _ in place.terms]
        grid = np.full(tuple(counts), place.offset, np.int64)
        for k, (_, factor) in enumerate(place.terms):
            shape = [1] * len(counts)
            shape[k] = counts[k]
            grid = grid + factor * np.arange(counts[k], dtype=np.int64).reshape(shape)
        shape = (*x.shape[:axis], *counts, *x.shape[axis + 1 :])
        x = t.writer.node("Gather", [x, t.constant(grid, INT64)], shape, x.dtype, axis=axis)
        loops += [loop for loop, _ in place.terms]
        axis += len(counts)
    return x, loops


@translation(Cast)
def cast(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Cast."""
    return t.writer.cast(inputs[0], t.results_of(op, inputs)[0].dtype)
