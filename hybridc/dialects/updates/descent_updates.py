"""Updates of gradient descent: SGD, Nesterov's momentum, signs; for one weight and for several."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, define, register
from hybridc.dialects.operator_attribute import Floats
from hybridc.dialects.updates.update import (
    CLIP,
    COUNT,
    MOMENTUM,
    RESCALE,
    MultiUpdate,
    Update,
    limited,
    of_copy,
    two_weights,
)

# What the samples use: some gradients are beyond the bound.
_ALL: dict[str, Any] = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.7}


def _clipped(g: Any) -> Any:
    return np.clip(0.5 * g, -0.7, 0.7)


@register("hybrid.sgd_update")
class SGDUpdate(Update):
    """weight - lr * (clip(rescale_grad * grad) + wd * weight)"""

    BY_ROWS = True

    ORDER = ("lr", "wd", "rescale_grad", "clip_gradient", "lazy_update")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return (w - h.lr * (limited(F, h.rescale * g, h.clip) + h.wd * w),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5), (3, 5)], lambda w, g: w - 0.1 * (_clipped(g) + 0.01 * w), grad=False, **_ALL),
            Sample([(0, 2), (0, 2)], lambda w, g: w - g, grad=False, lr=1.0),
        ]


MPSGDUpdate = of_copy(SGDUpdate, "hybrid.mp_sgd_update")


@register("hybrid.sgd_mom_update")
class SGDMomUpdate(Update):
    """weight + mom, where mom = momentum * mom - lr * (clip(rescale_grad * grad) + wd * weight) is updated in place"""

    BY_ROWS = True

    INPUTS = ("weight", "grad", "mom")
    ORDER = ("lr", "momentum", "wd", "rescale_grad", "clip_gradient", "lazy_update")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g, h.clip) + h.wd * w
        mom = h.momentum * state[0] - h.lr * g
        return w + mom, mom

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, m: Any) -> Any:
            return w + 0.9 * m - 0.1 * (_clipped(g) + 0.01 * w)

        return [Sample([(3, 5)] * 3, reference, grad=False, momentum=0.9, **_ALL)]


MPSGDMomUpdate = of_copy(SGDMomUpdate, "hybrid.mp_sgd_mom_update")


@register("hybrid.nag_mom_update")
class NAGMomUpdate(Update):
    """weight + momentum * mom - lr * g, where mom = momentum * mom - lr * g is updated in place

    ``g = clip(rescale_grad * grad) + wd * weight``. As in MXNet, whose kernel writes the weight first, the stored
    momentum has the decay of the new weight.
    """

    INPUTS = ("weight", "grad", "mom")
    ORDER = ("lr", "momentum", "wd", "rescale_grad", "clip_gradient")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g, h.clip)
        step = h.lr * (g + h.wd * w)
        decayed = h.momentum * state[0]
        w = w + (h.momentum * (decayed - step) - step)
        return w, decayed - h.lr * (g + h.wd * w)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, m: Any) -> Any:
            step = 0.1 * (_clipped(g) + 0.01 * w)
            return w + 0.9 * (0.9 * m - step) - step

        return [Sample([(3, 5)] * 3, reference, grad=False, momentum=0.9, **_ALL)]


MPNAGMomUpdate = of_copy(NAGMomUpdate, "hybrid.mp_nag_mom_update")


@register("hybrid.signsgd_update")
class SignSGDUpdate(Update):
    """(1 - lr * wd) * weight - lr * sign(grad)"""

    ORDER = ("lr", "wd", "rescale_grad", "clip_gradient")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        # As in MXNet, nothing clips: not even a bound of 0.
        # As in MXNet, the gradient is neither scaled nor clipped.
        return ((1 - h.lr * h.wd) * w - h.lr * F.sign(g),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 5)] * 2, lambda w, g: (1 - 0.1 * 0.01) * w - 0.1 * np.sign(g), grad=False, **_ALL)]


@register("hybrid.signum_update")
class SignumUpdate(Update):
    """(1 - lr * wd_lh) * weight + lr * sign(mom), where mom is updated in place

    ``mom = momentum * mom - (1 - momentum) * (clip(rescale_grad * grad) + wd * weight)``.
    """

    INPUTS = ("weight", "grad", "mom")
    ORDER = ("lr", "momentum", "wd", "rescale_grad", "clip_gradient", "wd_lh")

    wd_lh: float = attribute(0.0, "weight decay of the weight itself, which is no part of the momentum")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g, h.clip)
        mom = h.momentum * state[0] - (1 - h.momentum) * (g + h.wd * w)
        return (1 - h.lr * h.wd_lh) * w + h.lr * F.sign(mom), mom

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, m: Any) -> Any:
            return (1 - 0.1 * 0.2) * w + 0.1 * np.sign(0.9 * m - 0.1 * (_clipped(g) + 0.01 * w))

        return [Sample([(3, 5)] * 3, reference, grad=False, momentum=0.9, wd_lh=0.2, **_ALL)]


# --- several weights --------------------------------------------------------------------------------------------------

# The same for two weights.
_LISTED: dict[str, Any] = {"lrs": (0.1, 0.2), "wds": (0.01, 0.0), "rescale_grad": 0.5, "clip_gradient": 0.7}


def _stepped(w: Any, g: Any, m: Any, lr: float, wd: float) -> Any:
    return w + 0.9 * m - lr * (_clipped(g) + wd * w)


class _MultiDescent(MultiUpdate):
    """SGD of several weights, with momentum or without."""

    OPTIONS: ClassVar[dict[str, Any]] = _LISTED

    momentum: float = MOMENTUM
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    num_weights: int = COUNT

    @classmethod
    def samples(cls) -> list[Sample]:
        momentum = issubclass(cls.UPDATE, SGDMomUpdate)
        step, master = len(cls.UPDATE.INPUTS), cls.UPDATE.MASTER

        def reference(*xs: Any) -> Any:
            weights: list[Any] = []
            for i, (lr, wd) in enumerate(((0.1, 0.01), (0.2, 0.0))):
                weight, grad, *states = xs[i * step : (i + 1) * step]
                weight = states.pop() if master else weight
                weights.append(_stepped(weight, grad, states[0] if momentum else 0, lr, wd))
            return tuple(weights)

        last = [np.array([0.1, 0.2], np.float32), np.array([0.01, 0.0], np.float32)][: len(cls.LAST)]
        attrs = {**cls.OPTIONS, "momentum": 0.9} if momentum else cls.OPTIONS
        return two_weights(cls.UPDATE, reference, *last, master=master, **attrs)

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        step, last = len(cls.UPDATE.INPUTS), "".join(f", then {name}" for name in cls.LAST)
        text = (
            f"{cls.title()}: got {step} arrays, expected {2 * step + len(cls.LAST)}: {', '.join(cls.UPDATE.INPUTS)} of "
            f"each of the num_weights=2 weights{last}"
        )
        return [(((2, 3),) * step, {**cls.OPTIONS, "num_weights": 2}, text)]


class _Listed(_MultiDescent):
    """The learning rates and weight decays are attributes."""

    ORDER = ("lrs", "wds", "momentum", "rescale_grad", "clip_gradient", "num_weights")

    lrs: Floats = attribute(doc="the learning rate of each weight")
    wds: Floats = attribute(doc="the weight decay of each weight")


class _Preloaded(_MultiDescent):
    """The learning rates and weight decays are the last two inputs."""

    LISTS: ClassVar[dict[str, str]] = {}
    LAST = ("lrs", "wds")
    OPTIONS: ClassVar[dict[str, Any]] = {"rescale_grad": 0.5, "clip_gradient": 0.7}

    def numbers(self, F: Any, index: int, last: Sequence[Any], dtype: Any) -> SimpleNamespace:
        h = super().numbers(F, index, last, dtype)
        h.lr, h.wd = (self._element(F, x, index, dtype) for x in last)
        return h

    def _element(self, F: Any, x: Any, index: int, dtype: Any) -> Any:
        """One of the scalars in an array, as an array of no dimension."""
        one = F.reshape_to(F.slice_axis(x, axis=0, begin=index, end=index + 1), shape=())
        return one if one.dtype == dtype else F.cast(one, dtype=np.dtype(dtype).name)


def _descent(
    base: type[_MultiDescent], class_name: str, name: str, update: type[Update], doc: str
) -> type[_MultiDescent]:
    """A row of the table below."""
    order = tuple(n for n in base.ATTRIBUTES if n != "momentum" or n in update.ATTRIBUTES)
    return define(base, name, doc, class_name=class_name, UPDATE=update, ORDER=order)


def _of_several(name: str, update: type[Update]) -> type[_MultiDescent]:
    """The update of several weights."""
    inputs = ", ".join(update.INPUTS)
    doc = f"``{update.title()}`` of several weights: {inputs} of the first, of the second, …"
    return _descent(_Listed, f"Multi{update.__name__}", name, update, doc)


def _preloaded(name: str, multi: type[_MultiDescent]) -> type[_MultiDescent]:
    """The update of several weights whose learning rates and weight decays are inputs."""
    doc = f"``{multi.title()}`` with the learning rates and the weight decays as the last two inputs, of float32"
    return _descent(_Preloaded, f"Preloaded{multi.__name__}", name, multi.UPDATE, doc)


MultiSGDUpdate = _of_several("hybrid.multi_sgd_update", SGDUpdate)
MultiSGDMomUpdate = _of_several("hybrid.multi_sgd_mom_update", SGDMomUpdate)
MultiMPSGDUpdate = _of_several("hybrid.multi_mp_sgd_update", MPSGDUpdate)
MultiMPSGDMomUpdate = _of_several("hybrid.multi_mp_sgd_mom_update", MPSGDMomUpdate)
PreloadedMultiSGDUpdate = _preloaded("hybrid.preloaded_multi_sgd_update", MultiSGDUpdate)
PreloadedMultiSGDMomUpdate = _preloaded("hybrid.preloaded_multi_sgd_mom_update", MultiSGDMomUpdate)
PreloadedMultiMPSGDUpdate = _preloaded("hybrid.preloaded_multi_mp_sgd_update", MultiMPSGDUpdate)
PreloadedMultiMPSGDMomUpdate = _preloaded("hybrid.preloaded_multi_mp_sgd_mom_update", MultiMPSGDMomUpdate)
