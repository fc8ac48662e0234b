"""Optimizers whose rate depends on the length of each whole weight, for large batches: LAMB and LARS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Unpack

from hybridc.dialects.updates.layerwise_updates import LambStep, lars_ratio, norm
from hybridc.optimizer.adaptive import AdamFamily
from hybridc.optimizer.base_optimizer import Optimizer, register
from hybridc.optimizer.formula import limited
from hybridc.optimizer.optimizer_options import OptimizerOptions, RateOptions


@register
class LAMB(AdamFamily):
    """Adam's step, made as long as the weight: ``w -= lr * norm(w) / norm(u) * u``.

    ``u = m1 / (sqrt(v1) + epsilon) + wd * w``, where ``m1`` and ``v1`` are Adam's moments of
    ``g = clip(rescale_grad * grad)`` without bias, or with it if not ``bias_correction``. ``norm(w)`` is limited to
    ``[lower_bound, upper_bound]``; if a norm is 0, their quotient counts as 1.
    From You et al., https://arxiv.org/abs/1904.00962.

    Parameters
    ----------
    epsilon:
        What keeps the quotient finite where gradients are 0.
    lower_bound:
        The least that ``norm(w)`` counts as; None: no limit.
    upper_bound:
        The most that ``norm(w)`` counts as; None: no limit.
    bias_correction:
        Whether the moments are divided by ``1 - beta**t``, as they are 0 at first.

    Examples
    --------
    >>> w = mx.nd.array([3, 4])
    >>> lamb = mx.optimizer.LAMB(learning_rate=0.1)
    >>> lamb.update(0, w, mx.nd.array([0.5, 0]), lamb.create_state(0, w))
    >>> w.asnumpy().round(4)  # norm(w) = 5, and Adam's first step is [1, 0]: 3 - 0.1 * 5 / 1 * 1
    array([2.5, 4. ], dtype=float32)
    """

    # COMPAT(mxnet): with float16 weights and multi_precision, MXNet forgets the moments from one update to the next.

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        lower_bound: float | None = None,
        upper_bound: float | None = None,
        bias_correction: bool = True,
        **kwargs: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound
        self.bias_correction = bias_correction

    def numbers(self, index: Any) -> dict[str, float | None]:
        first, second = self.unbiased(index) if self.bias_correction else (1.0, 1.0)
        root = math.sqrt(second)
        # m1 / (sqrt(v1) + e) = (root / first) * m / (sqrt(v) + root * e): no further pass over the arrays.
        return {
            **super().numbers(index),
            "scale": root / first,
            "epsilon": root * self.epsilon,
            # As in MXNet, a bound of 0 is none.
            "lower": self.lower_bound or None,
            "upper": self.upper_bound or None,
        }

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return LambStep.formula(F, w, g, state, h)


@register
class LARS(Optimizer):
    """SGD with a rate for each weight: ``lr * eta * norm(w) / (norm(g) + wd * norm(w) + eps)``.

    ``g = rescale_grad * grad``; the step is that of :class:`~hybridc.optimizer.SGD`. The rate is plain ``lr`` if a norm
    is 0, and for parameters whose names (``param_idx2name``) end in gamma, beta or bias. With
    ``momentum_correction``, momentum gathered at one learning rate is scaled to the next.
    From You et al., https://arxiv.org/abs/1708.03888.

    Parameters
    ----------
    lazy_update:
        Without effect: the rate depends on the whole weight, so all rows are updated.
    eta:
        The factor of the rate: how far a step may go, compared with the length of the weight.
    eps:
        What is added to the denominator of the rate.
    momentum_correction:
        Whether the momentum is multiplied by the new learning rate over the last one.

    Examples
    --------
    >>> w = mx.nd.array([3, 4])
    >>> lars = mx.optimizer.LARS(learning_rate=1, eta=0.1)
    >>> lars.update(0, w, mx.nd.array([10, 0]), lars.create_state(0, w))
    >>> w.asnumpy()  # the rate is 0.1 * 5 / 10: 3 - 0.05 * 10
    array([2.5, 4. ], dtype=float32)
    """

    COPY_LAST = True

    def __init__(
        self,
        momentum: float = 0.0,
        lazy_update: bool = True,
        eta: float = 0.001,
        eps: float = 0,
        momentum_correction: bool = True,
        **kwargs: Unpack[RateOptions],
    ) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update
        self.eta = eta
        self.eps = eps
        self.momentum_correction = momentum_correction
        self.last_lr: dict[Any, float] = {}

    def state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        """Set factors of weight decay, as ``Optimizer.set_wd_mult`` does.

        Parameters
        ----------
        args_wd_mult:
            A dict of factors, by the index or the name of a parameter. Others have that of ``sym``, else 0 if
            ``param_idx2name`` has their name and it does not end in ``_weight``, else 1.
        """
        undecayed = {n: 0.0 for n in self.idx2name.values() if not n.endswith("_weight")}
        super().set_wd_mult({**undecayed, **args_wd_mult})

    def numbers(self, index: Any) -> dict[str, float | None]:
        given = super().numbers(index)
        rate = self._get_lr(index)
        # COMPAT(mxnet): there only the weights that are updated first after a change of the rate are corrected.
        last = self.last_lr.get(index, rate) if self.momentum_correction else rate
        self.last_lr[index] = rate
        name = self.idx2name.get(index, str(index))
        return {
            **given,
            "momentum": self.momentum * rate / last if last else self.momentum,
            "eta": None if name.endswith(("gamma", "beta", "bias")) else self.eta,
            "eps": self.eps,
        }

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = h.rescale * g
        rate = h.lr if h.eta is None else h.lr * self._ratio(F, w, g, h)
        step = rate * (limited(F, g, h.clip) + h.wd * w)
        if not state:
            return (w - step,)
        mom = h.momentum * state[0] - step
        return w + mom, mom

    def _ratio(self, F: Any, w: Any, g: Any, h: Any) -> Any:
        return lars_ratio(F, norm(F, w), norm(F, g), h.wd, h)
