"""Gradient descent with noise, for delayed gradients and for large batches: SGLD, DCASGD, LBSGD; and Test."""

from __future__ import annotations

import math
from typing import Any, Unpack

import numpy as np

from hybridc import nd
from hybridc.dtypes import is_half
from hybridc.errors import AttributeValueError
from hybridc.optimizer.base_optimizer import Optimizer, register
from hybridc.optimizer.binding import states_of
from hybridc.optimizer.formula import limited
from hybridc.optimizer.optimizer_options import RateOptions


@register
class SGLD(Optimizer):
    """``w -= lr / 2 * (g + wd * w) + noise`` with ``g = clip(rescale_grad * grad)``.

    The noise is normal, with variance ``lr``. Stochastic gradient Langevin dynamics: the weights are samples of their
    posterior. From Welling and Teh, "Bayesian Learning via Stochastic Gradient Langevin Dynamics".

    Examples
    --------
    >>> w = mx.nd.zeros(100_000)
    >>> mx.optimizer.SGLD(learning_rate=0.04).update(0, w, mx.nd.ones(100_000), None)
    >>> round(float(w.mean().asscalar()), 2), round(float(w.asnumpy().std()), 2)  # -0.04 / 2, and sqrt(0.04)
    (-0.02, 0.2)
    """

    def __init__(self, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Update one weight in place."""
        self._update_count(index)
        lr, wd = self._get_lr(index), self._get_wd(index)
        g = limited(nd, grad * self.rescale_grad, self.clip_gradient or None)
        noise = nd.random.normal(0, math.sqrt(lr), weight.shape, weight.dtype, weight.context)
        with np.errstate(all="ignore"):  # infinities and NaN are the user's
            weight[:] = weight - (g + weight * wd) * (lr / 2) + noise


@register
class DCASGD(Optimizer):
    """Descent with delay compensation: ``w += mom`` with ``mom = momentum * mom - lr * (g + wd * w + c)``.

    ``c = lamda * g**2 * (w - last)``, where ``last`` is the weight before the last update of it, and
    ``g = clip(rescale_grad * grad)``. The states are the momentum (None without) and ``last``.
    From Zheng et al., https://arxiv.org/abs/1609.08326.

    Parameters
    ----------
    lamda:
        The factor of the compensation.

    Examples
    --------
    >>> w, g = mx.nd.array([1]), mx.nd.array([0.5])
    >>> dcasgd = mx.optimizer.DCASGD(learning_rate=0.1, lamda=2)
    >>> state = dcasgd.create_state(0, w)
    >>> dcasgd.update(0, w, g, state)  # 1 - 0.1 * 0.5
    >>> dcasgd.update(0, w, g, state)  # 0.95 - 0.1 * (0.5 + 2 * 0.25 * (0.95 - 1))
    >>> w.asnumpy()
    array([0.9025], dtype=float32)
    """

    # COMPAT(mxnet): there an update with momentum raises for weights of more than one element.

    def __init__(self, momentum: float = 0.0, lamda: float = 0.04, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)
        self.momentum = momentum
        self.lamda = lamda

    def state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def create_state(self, index: Any, weight: Any) -> Any:
        """The momentum or None, and a copy of the weight."""
        return super().create_state(index, weight), weight.copy()

    def numbers(self, index: Any) -> dict[str, float | None]:
        return {**super().numbers(index), "momentum": self.momentum, "lamda": self.lamda}

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        *mom, last = state
        g = limited(F, h.rescale * g, h.clip)
        step = h.lr * (g + h.wd * w + h.lamda * F.square(g) * (w - last))
        if not mom:
            return w - step, w
        new = h.momentum * mom[0] - step
        return w + new, new, w


@register
class LBSGD(Optimizer):
    """SGD for large batches: it takes one step for ``batch_scale`` gradients, with their mean.

    The learning rate grows to ``batch_scale`` times its value within ``warmup_epochs`` epochs of ``updates_per_epoch``
    gradients: linearly, with the square (``power2``) or with the root (``sqrt``) of their number. With ``lars`` it is
    multiplied by ``sqrt(w2 / (g2 + wd * w2))``, at least 0.01 and at most 100, where ``w2`` and ``g2`` are the sums of
    squares of the weight and of its gradient. The step is that of :class:`SGD`.

    Parameters
    ----------
    warmup_strategy:
        How the factor of the learning rate rises: "linear", "power2", "sqrt" or "lars".
    warmup_epochs:
        The number of epochs during which it rises; 0: it is ``batch_scale`` from the beginning.
    batch_scale:
        The number of gradients for one step, at least 1.
    updates_per_epoch:
        The number of gradients in an epoch.
    begin_epoch:
        The epoch that training starts with: those before count as done.
    num_epochs:
        Not used.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> lbsgd = mx.optimizer.LBSGD(learning_rate=0.1, batch_scale=2, warmup_epochs=0)
    >>> lbsgd.update(0, w, mx.nd.array([0.5]), None)  # kept
    >>> lbsgd.update(0, w, mx.nd.array([0.25]), None)
    >>> w.asnumpy()  # 1 - 2 * 0.1 * (0.5 + 0.25) / 2
    array([0.925], dtype=float32)
    """

    STRATEGIES = ("linear", "power2", "sqrt", "lars")

    def __init__(
        self,
        momentum: float = 0.0,
        multi_precision: bool = False,
        warmup_strategy: str = "linear",
        warmup_epochs: int = 5,
        batch_scale: int = 1,
        updates_per_epoch: int = 32,
        begin_epoch: int = 0,
        num_epochs: int = 60,
        **kwargs: Any,
    ) -> None:
        super().__init__(multi_precision=multi_precision, **kwargs)
        if warmup_strategy not in self.STRATEGIES:  # COMPAT(mxnet): there the rate does not grow until the warm-up ends
            raise AttributeValueError(
                f"LBSGD: warmup_strategy is {warmup_strategy!r}, expected one of {', '.join(self.STRATEGIES)}"
            )
        self.momentum = momentum
        self.warmup_strategy = warmup_strategy
        self.warmup_epochs = warmup_epochs
        self.batch_scale = batch_scale
        self.updates_per_epoch = updates_per_epoch
        self.init_updates = begin_epoch * updates_per_epoch
        self.num_epochs = num_epochs
        # By index: the sum of the gradients since the last step, or 0, and how many there were from the beginning.
        self.cumgrads: dict[Any, dict[str, Any]] = {}

    def state_count(self) -> int:
        return 1 if self.momentum != 0 else 0

    def create_state(self, index: Any, weight: Any) -> Any:
        """The momentum, or None; with ``multi_precision`` and 16 bits ``(momentum, float32 copy)``."""
        if not (self.multi_precision and is_half(weight.dtype)):
            return super().create_state(index, weight)
        master = weight.astype("float32")
        return super().create_state(index, master), master

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        """Add a gradient, and update one weight in place if it is time."""
        lr, wd = self._get_lr(index), self._get_wd(index)
        self._update_count(index)
        before = self.cumgrads.get(index, {"cum_grad": 0, "num_cums": self.init_updates})
        # COMPAT(mxnet): a copy; there a gradient that backward overwrites before the step counts several times.
        total, count = grad + before["cum_grad"], before["num_cums"] + 1
        due = count % self.batch_scale == 0
        self.cumgrads[index] = {"cum_grad": 0 if due else total, "num_cums": count}
        if due:
            mean = total / self.batch_scale
            self._step(weight, mean, state, lr * self._factor(weight, mean, wd, count), wd)

    def _factor(self, weight: Any, grad: Any, wd: float, count: int) -> float:
        """How many times its value the learning rate is."""
        if self.warmup_strategy == "lars":
            w2, g2 = (float(np.sum(np.square(x.asnumpy()), dtype=np.float64)) for x in (weight, grad))
            # As in MXNet, no division by 0 where both are 0.
            return min(max(math.sqrt(w2 / (g2 + wd * w2 + 1e-18)), 0.01), 100)
        last = self.warmup_epochs * self.updates_per_epoch
        if count >= last:
            return float(self.batch_scale)
        if last <= 1:
            return 1.0
        power = {"linear": 1.0, "power2": 2.0, "sqrt": 0.5}[self.warmup_strategy]
        return 1.0 + (self.batch_scale - 1) * (count / last) ** power

    def _step(self, weight: Any, grad: Any, state: Any, lr: float, wd: float) -> None:
        clip = self.clip_gradient or -1.0
        options = {"lr": lr, "wd": wd, "rescale_grad": self.rescale_grad, "clip_gradient": clip, "out": weight}
        name = "mp_sgd_update" if isinstance(state, tuple) else "sgd_update"
        if self.momentum != 0:
            name, options = name.replace("sgd", "sgd_mom"), {**options, "momentum": self.momentum}
        getattr(nd, name)(weight, grad, *states_of(state), **options)


@register
class Test(Optimizer):
    """``w += rescale_grad * grad``; the state is the new weight. For tests of what calls optimizers.

    Examples
    --------
    >>> w = mx.nd.array([1])
    >>> test = mx.optimizer.Test()
    >>> test.update(0, w, mx.nd.array([0.5]), test.create_state(0, w))
    >>> w.asnumpy()  # 1 + 0.5
    array([1.5], dtype=float32)
    """

    def __init__(self, **kwargs: Unpack[RateOptions]) -> None:
        super().__init__(**kwargs)

    def state_count(self) -> int:
        return 1

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        w = w + h.rescale * g
        return w, w
