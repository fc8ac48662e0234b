"""Collectives that autograd can go back through."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hybridc import autograd
from hybridc.array.ndarray import NDArray

Compute = Callable[..., list[NDArray]]


def differentiable(forward: Compute, backward: Compute, inputs: Sequence[NDArray]) -> list[NDArray]:
    """``forward(*inputs)``, with the gradients that ``backward`` gives if autograd records.

    All ranks must go back through the collectives, in the same order.
    """
    if not autograd.is_recording() or not inputs:
        return forward(*inputs)
    results = _Collective(forward, backward)(*inputs)
    return list(results)


class _Collective(autograd.Function):
    """A collective, and the one that is its gradient."""

    def __init__(self, forward: Compute, backward: Compute) -> None:
        super().__init__()
        self._forward, self._backward = forward, backward

    def forward(self, *inputs: NDArray) -> list[NDArray]:
        return self._forward(*inputs)

    def backward(self, *output_grads: NDArray) -> list[NDArray]:
        return self._backward(*output_grads)
