"""Optimizers with a rate for each element: Adam and its relatives, RMSProp, AdaGrad, AdaDelta, Ftrl."""

from __future__ import annotations

import math
from typing import Any, Unpack, cast

from hybridc.dialects.updates.adamw_updates import AdamWStep
from hybridc.dialects.updates.adaptive_updates import (
    AdamUpdate,
    FTMLUpdate,
    FtrlUpdate,
    RMSPropAlexUpdate,
    RMSPropUpdate,
)
from hybridc.optimizer.base_optimizer import Optimizer, register
from hybridc.optimizer.binding import states_of
from hybridc.optimizer.formula import limited
from hybridc.optimizer.optimizer_options import OptimizerOptions, RateOptions


class AdamFamily(Optimizer):
    """Base of the Adam family: two states, their decay rates, and the count of updates.

    Parameters
    ----------
    beta1:
        The share of the mean of gradients that an update keeps, from 0 to 1.
    beta2:
        The share of the mean of squared gradients that an update keeps, from 0 to 1.
    """

    def __init__(
        self, learning_rate: float | None, beta1: float, beta2: float, **kwargs: Unpack[OptimizerOptions]
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.beta1 = beta1
        self.beta2 = beta2

    def state_count(self) -> int:
        return 2

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "beta1": self.beta1, "beta2": self.beta2}

    def unbiased(self, index: Any) -> tuple[float, float]:
        """``1 - beta1**t`` and ``1 - beta2**t`` at the t-th update."""
        t = self._index_update_count[index]
        return 1.0 - self.beta1**t, 1.0 - self.beta2**t


@register
class Adam(AdamFamily):
    """``m = beta1*m + (1-beta1)*g; v = beta2*v + (1-beta2)*g**2; w -= lr_t * m / (sqrt(v) + epsilon)``.

    ``g = clip(rescale_grad * grad + wd * w)`` and ``lr_t = lr * sqrt(1 - beta2**t) / (1 - beta1**t)``.
    From Kingma and Ba, https://arxiv.org/abs/1412.6980.

    Parameters
    ----------
    epsilon:
        What keeps the quotient finite where gradients are 0.

    Examples
    --------
    >>> w = mx.nd.array([1, 1])
    >>> adam = mx.optimizer.Adam(learning_rate=0.1)
    >>> adam.update(0, w, mx.nd.array([0.5, -30]), adam.create_state(0, w))
    >>> w.asnumpy().round(4)  # the first step is lr against each gradient, however large
    array([0.9, 1.1], dtype=float32)
    """

    BY_ROWS = True

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        lazy_update: bool = True,
        **kwargs: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.lazy_update = lazy_update

    def numbers(self, index: Any) -> dict[str, float | None]:
        first, second = self.unbiased(index)
        lr = self._get_lr(index) * math.sqrt(second) / first
        return {**super().numbers(index), "lr": lr, "epsilon": self.epsilon}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return AdamUpdate.formula(F, w, g, state, h)


@register
class AdamW(AdamFamily):
    """Adam with decoupled weight decay: ``w -= lr * (m1 / (sqrt(v1) + epsilon) + wd * w)``.

    ``m1 = m / (1 - beta1**t)`` and ``v1 = v / (1 - beta2**t)`` are Adam's moments without bias, or ``m`` and
    ``v`` themselves if not ``correct_bias``; ``g = clip(rescale_grad * grad)``. Names and defaults are
    those of MXNet 2; MXNet 1.9.1 has the operator ``contrib.adamw_update`` only, which this agrees with.
    From Loshchilov and Hutter, https://arxiv.org/abs/1711.05101.

    Parameters
    ----------
    epsilon:
        What keeps the quotient finite where gradients are 0.
    correct_bias:
        Whether the moments are divided by ``1 - beta**t``, as they are 0 at first.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> adamw = mx.optimizer.AdamW(learning_rate=0.1, wd=0.5)
    >>> adamw.update(0, w, mx.nd.array([0.5]), adamw.create_state(0, w))
    >>> w.asnumpy().round(4)  # 1 - 0.1 * (1 + 0.5 * 1)
    array([0.85], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        correct_bias: bool = True,
        **kwargs: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.correct_bias = correct_bias

    def numbers(self, index: Any) -> dict[str, float | None]:
        first, second = self.unbiased(index) if self.correct_bias else (1.0, 1.0)
        root = math.sqrt(second)
        # m1 / (sqrt(v1) + e) = (root / first) * m / (sqrt(v) + root * e): no further pass over the arrays.
        return {**super().numbers(index), "scale": root / first, "epsilon": root * self.epsilon}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return AdamWStep.formula(F, w, g, state, h)


@register
class Adamax(AdamFamily):
    """Adam with the infinity norm: ``u = max(beta2 * u, abs(g)); w -= lr / (1 - beta1**t) * m / u``.

    ``m = beta1*m + (1-beta1)*g`` and ``g = clip(rescale_grad * grad + wd * w)``. Kingma and Ba, section 7.

    Parameters
    ----------
    beta2:
        The share of the largest gradient that an update keeps, from 0 to 1.

    Examples
    --------
    >>> w = mx.nd.array([1, 1])
    >>> adamax = mx.optimizer.Adamax(learning_rate=0.1)
    >>> adamax.update(0, w, mx.nd.array([0.5, -30]), adamax.create_state(0, w))
    >>> w.asnumpy().round(4)  # the first step is lr against each gradient
    array([0.9, 1.1], dtype=float32)
    """

    def __init__(
        self, learning_rate: float = 0.002, beta1: float = 0.9, beta2: float = 0.999, **kwargs: Unpack[OptimizerOptions]
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "lr": self._get_lr(index) / self.unbiased(index)[0]}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        m, u = state
        g = limited(F, h.rescale * g + h.wd * w, h.clip)
        m = h.beta1 * m + (1 - h.beta1) * g
        u = F.maximum(h.beta2 * u, F.abs(g))
        return w - h.lr * m / u, m, u


@register
class Nadam(AdamFamily):
    """Adam with Nesterov's momentum.

    ``w -= lr * ((1 - c) * g / (1 - s) + c1 * m / (1 - s * c1)) / (sqrt(v / (1 - beta2**t)) + epsilon)`` with
    the momentum schedule ``c = beta1 * (1 - 0.96**(t * schedule_decay) / 2)``, ``c1`` the same at ``t + 1``,
    and ``s`` the product of all ``c`` up to ``t``.
    From Dozat, http://cs229.stanford.edu/proj2015/054_report.pdf.

    Parameters
    ----------
    epsilon:
        What keeps the quotient finite where gradients are 0.
    schedule_decay:
        How fast the momentum rises from about ``beta1 / 2`` to ``beta1``.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> nadam = mx.optimizer.Nadam(learning_rate=0.1)
    >>> nadam.update(0, w, mx.nd.array([0.5]), nadam.create_state(0, w))
    >>> w.asnumpy().round(4)  # with c = c1 = 0.45: 1 - 0.1 * (1 + 0.45 * 0.1 / (1 - 0.45 * 0.45))
    array([0.8944], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        schedule_decay: float = 0.004,
        **kwargs: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, **kwargs)
        self.epsilon = epsilon
        self.schedule_decay = schedule_decay
        self._schedules = [1.0]  # s after each update

    def _momentum(self, t: int) -> float:
        return self.beta1 * (1.0 - 0.5 * 0.96 ** (t * self.schedule_decay))

    def numbers(self, index: Any) -> dict[str, float | None]:
        t = self._index_update_count[index]
        now, following = self._momentum(t), self._momentum(t + 1)
        # COMPAT(mxnet): one running product there, multiplied at the update of each parameter in turn, so that a
        # parameter's update depends on the others' names.
        while len(self._schedules) <= t:
            self._schedules.append(self._schedules[-1] * self._momentum(len(self._schedules)))
        schedule = self._schedules[t]
        return {
            **super().numbers(index),
            "epsilon": self.epsilon,
            "of_g": (1.0 - now) / (1.0 - schedule),
            "of_m": following / (1.0 - schedule * following),
            "of_v": self.unbiased(index)[1],
        }

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        m, v = state
        g = limited(F, h.rescale * g + h.wd * w, h.clip)
        m = h.beta1 * m + (1 - h.beta1) * g
        v = h.beta2 * v + (1 - h.beta2) * F.square(g)
        return w - h.lr * (h.of_g * g + h.of_m * m) / (F.sqrt(v / h.of_v) + h.epsilon), m, v


@register
class RMSProp(Optimizer):
    """``n = gamma1*n + (1-gamma1)*g**2; w -= lr * g / sqrt(n + epsilon)`` (Tieleman and Hinton).

    With ``centered`` also ``m = gamma1*m + (1-gamma1)*g``,
    ``d = gamma2*d - lr * g / sqrt(n - m**2 + epsilon)`` and ``w += d``
    (Graves, https://arxiv.org/abs/1308.0850, equations 38 to 45).
    ``g = clip(rescale_grad * grad + wd * w)``.

    Parameters
    ----------
    gamma1:
        The share of the mean of squared gradients that an update keeps, from 0 to 1; of that of gradients, too.
    gamma2:
        The momentum: the share of the last update that the next one has. Without ``centered`` there is none.
    epsilon:
        What is added under the root, which keeps the quotient finite where gradients are 0.
    centered:
        Whether gradients are divided by their standard deviation, rather than the root of their mean square.
    clip_weights:
        Elements of the new weight are clipped to this and its negative; None or 0: they are not.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> rmsprop = mx.optimizer.RMSProp(learning_rate=0.1, gamma1=0.75)
    >>> rmsprop.update(0, w, mx.nd.array([0.5]), rmsprop.create_state(0, w))
    >>> w.asnumpy().round(4)  # n = g**2 / 4: 1 - 0.1 * 2
    array([0.8], dtype=float32)
    """

    def __init__(
        self,
        learning_rate: float = 0.001,
        gamma1: float = 0.9,
        gamma2: float = 0.9,
        epsilon: float = 1e-8,
        centered: bool = False,
        clip_weights: float | None = None,
        **kwargs: Unpack[OptimizerOptions],
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.gamma1 = gamma1
        self.gamma2 = gamma2
        self.epsilon = epsilon
        self.centered = centered
        self.clip_weights = clip_weights

    def state_count(self) -> int:
        return 3 if self.centered else 1

    def create_state(self, index: Any, weight: Any) -> Any:
        """A tuple: one state, or three if ``centered``."""
        return states_of(super().create_state(index, weight))

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {
            **super().numbers(index),
            "gamma1": self.gamma1,
            "gamma2": self.gamma2,
            "epsilon": self.epsilon,
            "clip_weights": self.clip_weights or None,
        }

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return (RMSPropAlexUpdate if self.centered else RMSPropUpdate).formula(F, w, g, state, h)


@register
class AdaGrad(Optimizer):
    """``n += g**2; w -= lr * (g / sqrt(n + eps) + wd * w)`` with ``g = clip(rescale_grad * grad)``.

    From Duchi, Hazan and Singer, http://www.jmlr.org/papers/volume12/duchi11a/duchi11a.pdf.

    Parameters
    ----------
    eps:
        What is added under the root, which keeps the quotient finite where gradients are 0.

    Examples
    --------
    >>> w, g = mx.nd.array([1]), mx.nd.array([0.5])
    >>> adagrad = mx.optimizer.AdaGrad(learning_rate=0.1)
    >>> n = adagrad.create_state(0, w)
    >>> for _ in range(2):
    ...     adagrad.update(0, w, g, n)
    >>> w.asnumpy().round(4)  # 1 - 0.1 - 0.1 / sqrt(2)
    array([0.8293], dtype=float32)
    """

    BY_ROWS = True

    def __init__(self, eps: float = 1e-7, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)
        self.float_stable_eps = eps

    def state_count(self) -> int:
        return 1

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "eps": self.float_stable_eps}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g, h.clip)
        n = state[0] + F.square(g)
        return w - h.lr * (g / F.sqrt(n + h.eps) + h.wd * w), n


@register
class AdaDelta(Optimizer):
    """``n = rho*n + (1-rho)*g**2; d = sqrt(a + epsilon) / sqrt(n + epsilon) * g; a = rho*a + (1-rho)*d**2``.

    The new weight is ``w - (d + wd * w)``: there is no learning rate. ``g = clip(rescale_grad * grad)``.
    From Zeiler, https://arxiv.org/abs/1212.5701.

    Parameters
    ----------
    rho:
        The share of the means of squares that an update keeps, from 0 to 1.
    epsilon:
        What is added under the roots; the first steps are as long as it says.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> adadelta = mx.optimizer.AdaDelta(rho=0.9, epsilon=1e-5)
    >>> adadelta.update(0, w, mx.nd.array([0.5]), adadelta.create_state(0, w))
    >>> w.asnumpy().round(4)  # 1 - sqrt(1e-5) / sqrt(0.1 * 0.25 + 1e-5) * 0.5
    array([0.99], dtype=float32)
    """

    def __init__(self, rho: float = 0.90, epsilon: float = 1e-5, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)
        self.rho = rho
        self.epsilon = epsilon

    def state_count(self) -> int:
        return 2

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "rho": self.rho, "epsilon": self.epsilon}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        n, a = state
        g = limited(F, h.rescale * g, h.clip)
        n = h.rho * n + (1 - h.rho) * F.square(g)
        d = F.sqrt(a + h.epsilon) / F.sqrt(n + h.epsilon) * g
        a = h.rho * a + (1 - h.rho) * F.square(d)
        return w - (d + h.wd * w), n, a


@register
class Ftrl(Optimizer):
    """Follow the regularized leader: weights that matter little become exactly 0.

    ``z += g - (sqrt(n + g**2) - sqrt(n)) * w / lr; n += g**2`` and the new weight is
    ``(sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd)`` where ``abs(z) > lamda1``, else 0, with
    ``g = clip(rescale_grad * grad)``. From McMahan et al., "Ad Click Prediction: a View from the Trenches".

    Parameters
    ----------
    lamda1:
        The factor of the L1 norm: the larger it is, the more weights are 0.
    beta:
        What keeps the first steps short.

    Examples
    --------
    >>> w = mx.nd.array([0, 1])
    >>> ftrl = mx.optimizer.Ftrl(lamda1=0.5, learning_rate=1)
    >>> ftrl.update(0, w, mx.nd.array([2, 2]), ftrl.create_state(0, w))
    >>> w.asnumpy()  # z is [2, 2 - 2 * 1]: (0.5 - 2) / (1 + 2), and 0
    array([-0.5,  0. ], dtype=float32)
    """

    BY_ROWS = True

    def __init__(
        self, lamda1: float = 0.01, learning_rate: float = 0.1, beta: float = 1, **kwargs: Unpack[OptimizerOptions]
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.lamda1 = lamda1
        self.beta = beta

    def state_count(self) -> int:
        return 2

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "lamda1": self.lamda1, "beta": self.beta}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return FtrlUpdate.formula(F, w, g, state, h)


@register
class FTML(AdamFamily):
    """Follow the moving leader: ``w = -z / d`` with ``z = beta1*z + (1-beta1)*g - (d - beta1*d0) * w``.

    ``d = (1 - beta1**t) / lr * (sqrt(v / (1 - beta2**t)) + epsilon)``, of which ``d0`` is the last, and
    ``v = beta2*v + (1-beta2)*g**2`` with ``g = clip(rescale_grad * grad + wd * w)``. The states are d, v, z.
    From Zheng and Kwok, http://proceedings.mlr.press/v70/zheng17a/zheng17a.pdf.

    Parameters
    ----------
    epsilon:
        What keeps the quotient finite where gradients are 0.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> ftml = mx.optimizer.FTML(learning_rate=0.1)
    >>> ftml.update(0, w, mx.nd.array([0.5]), ftml.create_state(0, w))
    >>> w.asnumpy().round(4)  # d = 0.4 / 0.1 * 0.5, z = 0.4 * 0.5 - d
    array([0.9], dtype=float32)
    """

    def __init__(
        self, beta1: float = 0.6, beta2: float = 0.999, epsilon: float = 1e-8, **kwargs: Unpack[RateOptions]
    ) -> None:
        rate = kwargs.pop("learning_rate", None)
        super().__init__(rate, beta1, beta2, **cast("OptimizerOptions", kwargs))
        self.epsilon = epsilon

    def state_count(self) -> int:
        return 3

    def numbers(self, index: Any) -> dict[str, float | None]:
        first, second = self.unbiased(index)
        return {**super().numbers(index), "epsilon": self.epsilon, "first": first, "second": second}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return FTMLUpdate.formula(F, w, g, state, h)
