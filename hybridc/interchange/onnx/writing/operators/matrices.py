"""Linear algebra by elimination, one column at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.dialects.linalg.linalg_equations import Lstsq, Pinv, Solve
from hybridc.dialects.linalg.linalg_factors import (
    Det,
    Gelqf,
    Inverse,
    InverseOrZero,
    Potrf,
    Potri,
    SLogDet,
    Syevd,
)
from hybridc.dialects.linalg.linalg_spectra import Eig, Svd
from hybridc.dialects.linalg.linalg_triangles import Trsm
from hybridc.dialects.math.linear_maps import Fft, Ifft
from hybridc.interchange.onnx.writing.graph_writer import refuse
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue
from hybridc.interchange.onnx.writing.operators.chosen_elements import ordered
from hybridc.interchange.onnx.writing.operators.loops import iterated
from hybridc.interchange.onnx.writing.translate import REASONS, Translator, translation

for _class in (Eig, Svd, Pinv, Lstsq):
    REASONS[_class] = "it has no operator for singular values, and none for eigenvalues of general matrices"
REASONS[InverseOrZero] = "it is the gradient of determinants, and models of ONNX only predict"


def _flat(t: Translator, a: OnnxValue) -> OnnxValue:
    """A batch of matrices, in double precision, as elimination loses digits."""
    batch = math.prod(a.shape[:-2])
    return t.writer.cast(t.moves.reshape(a, (batch, *a.shape[-2:])), np.float64)


def _at(t: Translator, x: OnnxValue, number: OnnxValue, axis: int) -> OnnxValue:
    """The part of an array at an index along an axis, which goes."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return t.writer.node("Gather", [x, number], shape, x.dtype, axis=axis)


def eliminated(t: Translator, a: OnnxValue, right: OnnxValue) -> tuple[OnnxValue, OnnxValue]:
    """For batches of equations ``a x = right``: x, and the pivots with the signs of exchanged rows, (batch, n).

    Gauss and Jordan's elimination with partial pivoting; a pivot 0 leaves the rows as they are.
    """
    batch, n, _ = a.shape
    width = n + right.shape[2]
    rows = t.constant(np.arange(n, dtype=np.int64))

    def step(k: OnnxValue, m: OnnxValue, pivots: OnnxValue) -> Sequence[OnnxValue]:
        column = _at(t, m, k, 2)
        size = t.steps.select(rows >= k, t.steps.abs(column), -1.0)
        best = t.writer.node("ArgMax", [size], (batch, 1), INT64, axis=1, keepdims=1)
        source = t.steps.select(rows == k, best, t.steps.select(rows == best, k, rows))
        index = t.moves.broadcast(t.moves.reshape(source, (batch, n, 1)), (batch, n, width))
        m = t.writer.node("GatherElements", [m, index], m.shape, m.dtype, axis=1)
        row, column = _at(t, m, k, 1), _at(t, m, k, 2)
        pivot = t.moves.reshape(_at(t, row, k, 1), (batch, 1))
        sign = t.steps.select(best == k, 1.0, t.constant(np.float64(-1.0)))
        usable = t.steps.select(pivot == 0.0, 1.0, pivot)
        factor = t.steps.select(pivot == 0.0, 0.0, column - t.writer.cast(rows == k, np.float64))
        scaled = t.moves.reshape(row / usable, (batch, 1, width))
        m = m - t.moves.reshape(factor, (batch, n, 1)) * scaled
        return [m, t.steps.select(rows == k, pivot * sign, pivots)]

    begin = [t.moves.concat([a, right], 2), t.moves.full((batch, n), np.float64, 1)]
    m, pivots = iterated(t, begin, step, n)
    return t.moves.slice(m, (0, 0, n), (1, 1, 1), right.shape), pivots


def _unit(t: Translator, batch: int, n: int) -> OnnxValue:
    return t.constant(np.broadcast_to(np.eye(n), (batch, n, n)).copy())


@translation(Inverse)
def inverse(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The solutions for the unit matrix; what is singular has no error here."""
    a = _flat(t, inputs[0])
    return t.moves.reshape(eliminated(t, a, _unit(t, *a.shape[:2]))[0], inputs[0].shape)


@translation(Solve)
def solve(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The solutions of systems of equations."""
    a, b = inputs
    result = t.results_of(op, inputs)[0]
    is_vector = b.ndim == a.ndim - 1
    right = t.moves.reshape(b, (*b.shape, 1)) if is_vector else b
    if right.shape[:-2] != a.shape[:-2]:
        return None
    return t.moves.reshape(eliminated(t, _flat(t, a), _flat(t, right))[0], result.shape)


def _pivots(t: Translator, a: OnnxValue) -> OnnxValue:
    flat = _flat(t, a)
    batch, n, _ = flat.shape
    return eliminated(t, flat, t.moves.full((batch, n, 1), np.float64, 0))[1]


@translation(Det)
def det(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The product of the pivots."""
    shape = t.results_of(op, inputs)[0].shape
    if not inputs[0].shape[-1]:
        return t.moves.full(shape, inputs[0].dtype, 1)
    product = t.moves.reduce("ReduceProd", _pivots(t, inputs[0]), [1], keep=False)
    return t.moves.reshape(product, shape)


@translation(SLogDet)
def slogdet(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The product of the pivots' signs, and the sum of their logarithms."""
    shape = t.results_of(op, inputs)[0].shape
    pivots = _pivots(t, inputs[0])
    sign = t.moves.reduce("ReduceProd", t.steps.sign(pivots), [1], keep=False)
    logarithm = t.moves.reduce("ReduceSum", t.steps.log(t.steps.abs(pivots)), [1], keep=False)
    return t.moves.reshape(sign, shape), t.moves.reshape(logarithm, shape)


def _triangle(t: Translator, a: OnnxValue, lower: bool) -> OnnxValue:
    n = a.shape[-1]
    mask = np.tri(n, dtype=bool) if lower else np.tri(n, dtype=bool).T
    return t.steps.select(t.constant(mask), a, 0.0)


def _turned(t: Translator, a: OnnxValue) -> OnnxValue:
    return t.moves.transpose(a, (0, 2, 1))


@translation(Trsm)
def trsm(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The solution X of A X = alpha B, or of X A = alpha B, for a triangular A."""
    a = _triangle(t, _flat(t, inputs[0]), op.lower)
    b = _flat(t, inputs[1]) * float(op.alpha)
    a = _turned(t, a) if op.transpose != op.rightside else a
    solution = eliminated(t, a, _turned(t, b) if op.rightside else b)[0]
    return t.moves.reshape(_turned(t, solution) if op.rightside else solution, t.results_of(op, inputs)[0].shape)


@translation(Potrf)
def potrf(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Cholesky's factor, column by column; of what is not positive definite nan."""
    a = _flat(t, inputs[0])
    low = _triangle(t, a, lower=True)
    diagonal = t.constant(np.eye(a.shape[1]))
    a = low + _turned(t, low) - low * diagonal
    batch, n, _ = a.shape
    rows = t.constant(np.arange(n, dtype=np.int64))

    def step(k: OnnxValue, rest: OnnxValue, factor: OnnxValue) -> Sequence[OnnxValue]:
        column = _at(t, rest, k, 2)
        root = t.steps.sqrt(t.moves.reshape(_at(t, column, k, 1), (batch, 1)))
        column = t.steps.select(rows >= k, column / root, 0.0)
        tall, flat = t.moves.reshape(column, (batch, n, 1)), t.moves.reshape(column, (batch, 1, n))
        here = t.moves.reshape(t.writer.cast(rows == k, np.float64), (1, 1, n))
        return [rest - tall * flat, factor + tall * here]

    factor = iterated(t, [a, t.moves.full(a.shape, np.float64, 0)], step, n)[1]
    return t.moves.reshape(factor, inputs[0].shape)


@translation(Potri)
def potri(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """The inverse of L Lᵀ."""
    low = _triangle(t, _flat(t, inputs[0]), lower=True)
    inverse = eliminated(t, low, _unit(t, *low.shape[:2]))[0]
    product = t.writer.node("MatMul", [_turned(t, inverse), inverse], low.shape, low.dtype)
    return t.moves.reshape(product, inputs[0].shape)


@translation(Gelqf)
def gelqf(t: Translator, _: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Householder's reflections of the transpose, which have LAPACK's signs; a column that is zero below stays."""
    a = _turned(t, _flat(t, inputs[0]))
    batch, n, columns = a.shape
    rows = t.constant(np.arange(n, dtype=np.int64))

    def step(k: OnnxValue, rest: OnnxValue, product: OnnxValue) -> Sequence[OnnxValue]:
        column = t.steps.select(rows >= k, _at(t, rest, k, 2), 0.0)
        here = t.writer.cast(rows == k, np.float64)
        first = t.moves.reshape(_at(t, column, k, 1), (batch, 1))
        below = t.moves.reduce("ReduceSum", column * column * (1.0 - here), [1])
        length = t.steps.copysign(t.steps.sqrt(below + first * first), first)
        normal = t.steps.select(below == 0.0, 0.0, column + length * here)
        size = t.moves.reduce("ReduceSum", normal * normal, [1])
        scaled = normal * (2.0 / t.steps.select(size == 0.0, 1.0, size))
        tall, flat = t.moves.reshape(normal, (batch, n, 1)), t.moves.reshape(scaled, (batch, 1, n))
        reflected = t.writer.node("MatMul", [flat, rest], (batch, 1, columns), np.float64)
        turned = t.writer.node("MatMul", [product, tall], (batch, n, 1), np.float64)
        return [rest - tall * reflected, product - turned * flat]

    rest, product = iterated(t, [a, _unit(t, batch, n)], step, columns)
    q = t.moves.slice(product, (0, 0, 0), (1, 1, 1), (batch, n, columns))
    low = _triangle(t, _turned(t, t.moves.slice(rest, (0, 0, 0), (1, 1, 1), (batch, columns, columns))), lower=True)
    return t.moves.reshape(_turned(t, q), inputs[0].shape), t.moves.reshape(low, (*inputs[0].shape[:-1], columns))


# Sweeps of Jacobi's method: it converges quadratically, so that matrices of any size need few.
_SWEEPS = 10


@translation(Syevd)
def syevd(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """Jacobi's method: each step turns two rows and columns so that the element where they cross is 0."""
    low = _triangle(t, _flat(t, inputs[0]), lower=True)
    batch, n, _ = low.shape
    a = low + _turned(t, low) - low * t.constant(np.eye(n))
    pairs = np.array([(p, q) for p in range(n) for q in range(p + 1, n)] * _SWEEPS, np.int64).reshape(-1, 2)
    first, second = (t.constant(pairs[:, i]) for i in range(2))
    rows = np.arange(n, dtype=np.int64)

    def step(k: OnnxValue, a: OnnxValue, vectors: OnnxValue) -> Sequence[OnnxValue]:
        p, q = (_at(t, places, k, 0) for places in (first, second))
        is_p, is_q = (t.writer.cast(t.constant(rows) == i, np.float64) for i in (p, q))

        def element(i: OnnxValue, j: OnnxValue) -> OnnxValue:
            return t.moves.reshape(_at(t, _at(t, a, i, 1), j, 1), (batch, 1, 1))

        cross = element(p, q)
        ratio = (element(q, q) - element(p, p)) / (t.steps.select(cross == 0.0, 1.0, cross) * 2.0)
        tangent = t.steps.copysign(1.0 / (t.steps.abs(ratio) + t.steps.sqrt(ratio * ratio + 1.0)), ratio)
        tangent = t.steps.select(cross == 0.0, 0.0, tangent)
        cosine = 1.0 / t.steps.sqrt(tangent * tangent + 1.0)
        sine = tangent * cosine

        def outer(x: OnnxValue, y: OnnxValue) -> OnnxValue:
            return t.moves.reshape(x, (n, 1)) * t.moves.reshape(y, (1, n))

        turn = t.constant(np.eye(n)) + (cosine - 1.0) * (outer(is_p, is_p) + outer(is_q, is_q))
        turn = turn + sine * (outer(is_p, is_q) - outer(is_q, is_p))
        half = t.writer.node("MatMul", [_turned(t, turn), a], a.shape, a.dtype)
        return [
            t.writer.node("MatMul", [half, turn], a.shape, a.dtype),
            t.writer.node("MatMul", [vectors, turn], a.shape, a.dtype),
        ]

    a, vectors = iterated(t, [a, _unit(t, batch, n)], step, len(pairs))
    values, order = ordered(t, t.moves.reduce("ReduceSum", a * t.constant(np.eye(n)), [2], keep=False), 1, n, True)
    index = t.moves.broadcast(t.moves.reshape(order, (batch, n, 1)), (batch, n, n))
    found = t.writer.node("GatherElements", [_turned(t, vectors), index], (batch, n, n), np.float64, axis=1)
    largest = t.writer.node("ArgMax", [t.steps.abs(found)], (batch, n, 1), INT64, axis=2, keepdims=1)
    sign = t.writer.node("GatherElements", [found, largest], (batch, n, 1), np.float64, axis=2)
    found = t.steps.select(sign < 0.0, -found, found)
    results = t.results_of(op, inputs)
    return t.moves.reshape(found, results[0].shape), t.moves.reshape(values, results[1].shape)


@translation(Fft, Ifft)
def fourier(t: Translator, op: Any, inputs: Sequence[OnnxValue]) -> Any:
    """DFT of the last axis, since opset 20; the inverse is not divided by the length."""
    (x,) = inputs
    if t.opset < 20:
        raise refuse(op.title(), "opset 20 is the first whose DFT takes any axis; give a newer opset")
    result = t.results_of(op, inputs)[0]
    back = type(op) is Ifft
    length, rows = result.shape[-1] if back else x.shape[-1], math.prod(x.shape[:-1])
    given = t.moves.reshape(x, (rows, length, 2 if back else 1))
    axis = t.constant(np.asarray(1, np.int64))
    y = t.writer.node("DFT", [given, None, axis], (rows, length, 2), x.dtype, inverse=int(back))
    if not back:
        return t.moves.reshape(y, result.shape)
    real = t.moves.slice(y, (0, 0, 0), (1, 1, 1), (rows, length, 1))
    return t.moves.reshape(real, result.shape) * float(length)
