"""What the generated operator tests share: the samples of all operators, their inputs, comparisons."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import hybridc as mx
from hybridc import autograd, random
from hybridc.dialects.operator import Operator, Sample
from hybridc.dialects.registry import OPERATORS
from hybridc.dispatch import invoke
from hybridc.nd.ndarray import NDArray

assert mx.nd  # importing it registers the operators

RTOL = {"float16": 4e-3, "float32": 1e-5, "float64": 1e-10}
ATOL = {"float16": 2e-3, "float32": 2e-6, "float64": 1e-11}

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5])

CALLS: dict[str, tuple[type[Operator], Sample]] = {
    f"{name.removeprefix('hybrid.')}-{i}": (cls, sample)
    for name, cls in sorted(OPERATORS.items())
    if name.startswith("hybrid.")
    for i, sample in enumerate(cls.samples())
}
BAD_CALLS = {
    f"{name.removeprefix('hybrid.')}-{i}": (cls, bad)
    for name, cls in sorted(OPERATORS.items())
    if name.startswith("hybrid.")
    for i, bad in enumerate(cls.bad_samples())
}
WITH_DTYPES = [(call, dtype) for call, (_, sample) in CALLS.items() for dtype in sample.dtypes]


def bound(cls: type[Operator], sample: Sample, training: bool = False) -> Operator:
    """The operator of a sample, in prediction or in training where it knows the difference."""
    op = cls.bind(**sample.attrs)
    if op.TRAIN_MODE and op.attrs.get("train", True) is None:
        op = op.bind(**{**op.attrs, "train": training})
    return op


def inputs_of(call: str, sample: Sample, dtype: str) -> list[np.ndarray]:
    """The inputs: floating-point arrays in that dtype, other arrays as they are, shapes filled at random."""
    rng = np.random.default_rng(zlib.crc32(call.encode()))
    return [fill(rng, x, sample.low, sample.high, dtype) for x in sample.inputs]


def fill(rng: np.random.Generator, given: Any, low: float, high: float, dtype: str) -> np.ndarray:
    """One input from its array or shape."""
    if not isinstance(given, np.ndarray):
        return rng.uniform(low, high, given).astype(dtype)
    return given.astype(dtype) if given.dtype.kind == "f" else given


def differentiable(given: Any) -> bool:
    """Whether to take an input's gradient: not that of an array of whole numbers, such as indices."""
    return not isinstance(given, np.ndarray) or (given.dtype.kind == "f" and bool((given % 1).any()))


def reference_of(sample: Sample, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What the sample's independent reference gives, in float64."""
    wide = [x.astype(np.float64) if x.dtype.kind == "f" or given_shape(g) else x for x, g in zip(arrays, sample.inputs)]
    with np.errstate(all="ignore"):
        result = sample.reference(*wide)
    return [np.asarray(y) for y in (result if isinstance(result, tuple | list) else [result])]


def given_shape(given: Any) -> bool:
    """Whether an input of a sample is given as a shape."""
    return not isinstance(given, np.ndarray)


def keyed(op: Operator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The inputs as an operator's ``eager`` takes them: with a random key if it draws."""
    return [*arrays, np.array([7, 3], dtype=np.uint64)] if op.DRAWS else list(arrays)


def eager(op: Operator, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """All results of an operator run on NumPy arrays, hidden ones included."""
    with np.errstate(all="ignore"):
        result = op.eager(*keyed(op, arrays))
    return [np.asarray(y) for y in (result if isinstance(result, tuple) else (result,))]


def run(op: Operator, inputs: Sequence[NDArray]) -> list[NDArray]:
    """The visible results of an operator on NDArrays; the same random numbers at every call."""
    with random.isolated(11), np.errstate(all="ignore"):
        result = invoke(op, list(inputs))
    return list(result) if isinstance(result, tuple | list) else [result]


def close(got: np.ndarray, want: np.ndarray, dtype: str, factor: float = 1.0) -> None:
    """Equal shapes, and equal values within the tolerance of the dtype (exactly, for integers)."""
    assert got.shape == want.shape
    if got.dtype.kind != "f":
        np.testing.assert_array_equal(got, want.astype(got.dtype))
        return
    dtype = min(dtype, got.dtype.name, key=lambda d: np.dtype(d).itemsize if np.dtype(d).kind == "f" else 9)
    rtol, atol = RTOL[dtype] * factor, ATOL[dtype] * factor
    scale = np.abs(want[np.isfinite(want)]).max(initial=1.0) if want.dtype.kind == "f" else 1.0
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol * scale, equal_nan=True)


def gradients(
    op: Operator, arrays: Sequence[np.ndarray], weights: Sequence[np.ndarray], training: bool = False
) -> list[np.ndarray | None]:
    """Gradients of the weighted sum of all visible results; None for inputs that are not floating-point."""
    inputs = [NDArray(x.copy()) for x in arrays]
    wanted = [x for x in inputs if x.dtype is np.float64 or x.dtype is np.float32]
    for x in wanted:
        x.attach_grad()
    with np.errstate(all="ignore"):
        with autograd.record(train_mode=training):
            outputs = run(op, inputs)
        heads = [(y, NDArray(w)) for y, w in zip(outputs, weights) if y._entry is not None]
        if heads:
            autograd.backward([y for y, _ in heads], [w for _, w in heads], train_mode=training)
    return [x.grad.asnumpy() if x.grad is not None else None for x in inputs]


def weights_of(outputs: Sequence[Any]) -> list[np.ndarray]:
    """Fixed weights of the results in the sum that is differentiated."""
    rng = np.random.default_rng(5)
    return [rng.uniform(0.5, 1.5, y.shape).astype(y.dtype) for y in outputs]


def differences(f: Any, arrays: Sequence[np.ndarray], index: int, eps: float = 1e-6) -> np.ndarray:
    """The gradient of the scalar function ``f`` with respect to one input, by central differences."""
    result = np.zeros(arrays[index].shape)
    for i in np.ndindex(*arrays[index].shape):
        sides = []
        for step in (eps, -eps):
            moved = [x.copy() for x in arrays]
            moved[index][i] += step
            sides.append(f(moved))
        result[i] = (sides[0] - sides[1]) / (2 * eps)
    return result
