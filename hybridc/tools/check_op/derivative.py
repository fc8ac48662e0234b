"""Checks of an operator's gradient, by finite differences in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc import autograd, nd
from hybridc.array.ndarray import NDArray
from hybridc.dialects.operator import Opaque
from hybridc.errors import MXNetError, UnsupportedError
from hybridc.test_utils.differences import EPS, differences, units
from hybridc.tools.check_op.case import (
    Array,
    Case,
    each_gradient,
    gradients,
    heads_of,
    input_name,
    ndarrays,
    require,
    run,
    weights_of,
    within,
)
from hybridc.tools.check_op.checks import check

# The elements of an input whose slopes are compared one by one: two evaluations each. All count in one direction.
MOST = 64


@check(each_gradient)
def gradient(case: Case) -> None:
    """The gradient of every input is the slope of the results."""
    for training in sorted({False, case.cls.TRAIN_MODE and not case.cls.DRAWS}):
        _compare(Case(case.cls, case.call, case.sample, case.dtype, training))


def _compare(case: Case) -> None:
    op = case.operator()
    arrays = case.arrays()
    weights = weights_of(run(op, ndarrays(arrays)))

    def loss(moved: Sequence[Array]) -> float:
        results = run(op, ndarrays(moved))
        return sum(float((y.asnumpy() * w).sum()) for y, w in zip(results, weights, strict=True))

    found = gradients(op, arrays, weights, case.training)
    for i, grad in enumerate(found):
        if grad is None or i in op.mutated or not case.differentiable(i):
            continue
        shape, size = arrays[i].shape, arrays[i].size
        what = f"gradient of input {input_name(op, i)}{' in training' * case.training}, against differences"
        require(grad.shape == shape, f"{what}: got shape {grad.shape}, expected {shape}")
        places = np.unique(np.linspace(0, size - 1, min(size, MOST)).astype(int))
        want = grad.copy()
        want.reshape(-1)[places] = differences(loss, arrays, i, units(shape, places=places))
        within(grad, want, 1e-5, 2e-7, what)
        if size > MOST:
            all_at_once = np.random.default_rng(6).uniform(-1, 1, shape)
            (slope,) = differences(loss, arrays, i, [all_at_once])
            within(
                np.array((grad * all_at_once).sum()), np.array(slope), 1e-5, 2e-7 * size, f"{what}, in one direction"
            )


@check(each_gradient)
def second_gradient(case: Case) -> str | None:
    """The gradient's derivative in one direction is the difference of gradients; a remark, if there is none."""
    op = case.operator()
    arrays = case.arrays()
    chosen = [
        i for i, x in enumerate(arrays) if x.dtype == np.float64 and i not in op.mutated and case.differentiable(i)
    ]
    rng = np.random.default_rng(3)
    weights = weights_of(run(op, ndarrays(arrays)))
    directions = {i: rng.uniform(-1, 1, arrays[i].shape) for i in chosen}
    with np.errstate(all="ignore"):
        try:
            total, inputs = _slope(op, arrays, weights, directions)
            if total._entry is not None:
                total.backward(train_mode=False)
        except MXNetError as error:
            if not isinstance(op, Opaque) and not isinstance(error, UnsupportedError):
                raise
            return f"differentiable once only: {error}"
        grads = [(x.grad, directions[i]) for i, x in enumerate(inputs) if i in directions]
        got = sum(float((g.asnumpy() * d).sum()) for g, d in grads if g is not None)  # pyright: ignore[reportUnnecessaryComparison]
        sides: list[float] = []
        for sign in (1, -1):
            moved = [x + sign * EPS * directions[i] if i in chosen else x for i, x in enumerate(arrays)]
            sides.append(float(_slope(op, moved, weights, directions)[0].asscalar()))
    want = (sides[0] - sides[1]) / (2 * EPS)
    what = "second derivative in one direction, against the difference of gradients"
    within(np.array(got), np.array(want), 2e-5, 1e-6, what)
    return None


def _slope(
    op: Any, arrays: Sequence[Array], weights: Sequence[Array], directions: dict[int, Array]
) -> tuple[NDArray, list[NDArray]]:
    """The gradient along the directions, as something to be differentiated."""
    inputs = ndarrays(arrays)
    for i in directions:
        inputs[i].attach_grad()
    with autograd.record(train_mode=False):
        outputs = run(op, inputs)
        heads = heads_of(outputs, weights)
        grads = autograd.grad(
            [y for y, _ in heads],
            [inputs[i] for i in directions],
            head_grads=[w for _, w in heads],
            create_graph=True,
            train_mode=False,
        )
        total = NDArray(np.zeros(1))
        for g, i in zip(grads, directions, strict=True):
            total = nd.sum(g * NDArray(directions[i])) + total
    return total, inputs
