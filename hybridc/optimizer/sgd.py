"""Stochastic gradient descent: SGD, NAG, Signum."""

from __future__ import annotations

from typing import Any, Unpack

from hybridc.dialects.updates.descent_updates import NAGMomUpdate, SGDMomUpdate, SGDUpdate, SignSGDUpdate, SignumUpdate
from hybridc.optimizer.base_optimizer import Optimizer, register
from hybridc.optimizer.optimizer_options import OptimizerOptions, RateOptions


@register
class SGD(Optimizer):
    """``w -= lr * (g + wd * w)``, or with momentum ``mom = momentum * mom - lr * (g + wd * w); w += mom``.

    ``g = clip(rescale_grad * grad)``. With ``lazy_update`` a row_sparse gradient updates its own rows alone.
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
    """The same as :class:`SGD`."""

    def __init__(self, *args: Any, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(*args, **kwargs)


@register
class NAG(Optimizer):
    """Nesterov's accelerated gradient: ``mom = momentum * mom - lr * g; w += momentum * mom - lr * g``.

    ``g = clip(rescale_grad * grad) + wd * w``. As in MXNet, whose kernel writes the weight first, the
    momentum that is kept has the decay of the new weight.
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
