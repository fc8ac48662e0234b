"""``mx.optimizer.contrib``: AdaGrad with one rate for each row."""

from __future__ import annotations

from typing import Any, Unpack

from hybridc import nd
from hybridc.dialects.updates.adaptive_updates import GroupAdaGradUpdate
from hybridc.errors import CheckError
from hybridc.optimizer.base_optimizer import Optimizer, register
from hybridc.optimizer.optimizer_options import RateOptions

__all__ = ["GroupAdaGrad"]


@register
class GroupAdaGrad(Optimizer):
    """``n += mean(g**2)`` over each row; ``w -= lr * g / sqrt(n + eps)`` with ``g = clip(rescale_grad * grad)``.

    Weights have two axes. There is no weight decay.

    Parameters
    ----------
    eps:
        What is added under the root, which keeps the quotient finite where gradients are 0.

    Examples
    --------
    >>> w = mx.nd.array([[1, 1]])
    >>> adagrad = mx.optimizer.contrib.GroupAdaGrad(learning_rate=0.1)
    >>> adagrad.update(0, w, mx.nd.array([[3, 4]]), adagrad.create_state(0, w))
    >>> w.asnumpy().round(4)  # n = (9 + 16) / 2: 1 - 0.1 * 3 / sqrt(12.5), and the same of 4
    array([[0.9151, 0.8869]], dtype=float32)
    """

    BY_ROWS = True

    def __init__(self, eps: float = 1e-5, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def create_state(self, index: Any, weight: Any) -> Any:
        """A number for each row."""
        if len(weight.shape) != 2:
            raise CheckError(
                f"GroupAdaGrad: parameter {index!r} has shape {weight.shape}, expected two axes: rows and what is in "
                "them; use AdaGrad for other parameters"
            )
        return nd.zeros((weight.shape[0], 1), ctx=weight.context, dtype=weight.dtype)

    def numbers(self, index: Any) -> dict[str, float | None]:
        given = super().numbers(index)
        if given["wd"] != 0:
            raise CheckError(
                f"Weight decay is not supported for GroupAdaGrad, but it is {given['wd']} for parameter {index!r}; "
                "set wd=0, or wd_mult=0 for this parameter"
            )
        return {**given, "epsilon": self.float_stable_eps}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return GroupAdaGradUpdate.formula(F, w, g, state, h)
