"""Stochastic gradient descent: SGD, NAG, Signum."""

from __future__ import annotations

from typing import Any, Unpack

from hybridc.dialects.updates.descent_updates import NAGMomUpdate, SGDMomUpdate, SGDUpdate, SignSGDUpdate, SignumUpdate
from hybridc.optimizer.base_optimizer import Optimizer, register
from hybridc.optimizer.optimizer_options import OptimizerOptions, RateOptions


@register
class SGD(Optimizer):
    """``w -= lr * (g + wd * w)``, or with momentum ``mom = momentum * mom - lr * (g + wd * w); w += mom``.

    ``g = clip(rescale_grad * grad)``.

    Examples
    --------
    >>> w, g = mx.nd.array([1]), mx.nd.array([0.5])
    >>> sgd = mx.optimizer.SGD(learning_rate=0.1, momentum=0.9)
    >>> state = sgd.create_state(0, w)
    >>> sgd.update(0, w, g, state)  # mom = -0.1 * 0.5
    >>> sgd.update(0, w, g, state)  # mom = 0.9 * -0.05 - 0.1 * 0.5
    >>> w.asnumpy()  # 1 - 0.05 - 0.095
    array([0.855], dtype=float32)
    """

    COPY_LAST = True
    BY_ROWS = True

    def __init__(self, momentum: float = 0.0, lazy_update: bool = True, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lazy_update = lazy_update

    def state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "momentum": self.momentum}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return (SGDMomUpdate if state else SGDUpdate).formula(F, w, g, state, h)


@register
class ccSGD(SGD):
    """The same as :class:`SGD`, under MXNet's old name.

    Parameters
    ----------
    *args:
        The first arguments of :class:`SGD`.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> mx.optimizer.ccSGD(learning_rate=0.1).update(0, w, mx.nd.array([0.5]), None)
    >>> w.asnumpy()  # 1 - 0.1 * 0.5
    array([0.95], dtype=float32)
    """

    def __init__(self, *args: Any, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(*args, **kwargs)


@register
class NAG(Optimizer):
    """Nesterov's accelerated gradient: ``mom = momentum * mom - lr * g; w += momentum * mom - lr * g``.

    ``g = clip(rescale_grad * grad) + wd * w``. As in MXNet, whose kernel writes the weight first, the
    momentum that is kept has the decay of the new weight.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> nag = mx.optimizer.NAG(learning_rate=0.1, momentum=0.9)
    >>> nag.update(0, w, mx.nd.array([0.5]), nag.create_state(0, w))
    >>> w.asnumpy()  # mom = -0.1 * 0.5; 1 + 0.9 * -0.05 - 0.1 * 0.5
    array([0.905], dtype=float32)
    """

    COPY_LAST = True

    def __init__(self, momentum: float = 0.0, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum

    def state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "momentum": self.momentum}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return (NAGMomUpdate if state else SGDUpdate).formula(F, w, g, state, h)


@register
class Signum(Optimizer):
    """Steps of equal size: ``mom = momentum*mom - (1-momentum)*g; w = (1 - lr*wd_lh)*w + lr*sign(mom)``.

    ``g = clip(rescale_grad * grad) + wd * w``.
    Without momentum ``w = (1 - lr*(wd + wd_lh))*w - lr*sign(grad)``.
    From Bernstein et al., https://arxiv.org/abs/1802.04434.

    Parameters
    ----------
    momentum:
        The share of the last mean of gradients that the next one has, from 0 to 1.
    wd_lh:
        The factor of a weight decay that is not added to the gradient.

    Examples
    --------
    >>> w = mx.nd.array([1, 1])
    >>> signum = mx.optimizer.Signum(learning_rate=0.1)
    >>> signum.update(0, w, mx.nd.array([0.5, -30]), signum.create_state(0, w))
    >>> w.asnumpy()  # 0.1 against each gradient, however large
    array([0.9, 1.1], dtype=float32)
    """

    def __init__(
        self, learning_rate: float = 0.01, momentum: float = 0.9, wd_lh: float = 0.0, **kwargs: Unpack[OptimizerOptions]
    ) -> None:
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum
        self.wd_lh = wd_lh

    def state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "momentum": self.momentum, "wd_lh": self.wd_lh}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        if state:
            return SignumUpdate.formula(F, w, g, state, h)
        # COMPAT(mxnet): there wd_lh without momentum is an error.
        h.wd = h.wd + h.wd_lh
        return SignSGDUpdate.formula(F, w, g, state, h)
