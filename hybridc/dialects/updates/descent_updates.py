"""Updates of gradient descent: SGD, Nesterov's momentum, signs; for one weight and for several."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, register
from hybridc.dialects.operator_attribute import Floats
from hybridc.dialects.updates.update import (
    CLIP,
    COUNT,
    LAZY,
    LR,
    MOMENTUM,
    RESCALE,
    WD,
    MultiUpdate,
    Update,
    limited,
    two_weights,
    unequal_shapes,
)

_LRS: Any = attribute(doc="the learning rate of each weight")
_WDS: Any = attribute(doc="the weight decay of each weight")
# What the samples use: some gradients are beyond the bound.
_ALL: dict[str, Any] = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.7}


def _clipped(g: Any) -> Any:
    return np.clip(0.5 * g, -0.7, 0.7)


def _master(sample: Sample) -> Sample:
    """A sample of an update of float32."""
    sample.dtypes, sample.grad = ("float32",), False
    return sample


@register("hybrid.sgd_update")
class SGDUpdate(Update):
    """weight - lr * (clip(rescale_grad * grad) + wd * weight)"""

    lr: float = LR
    wd: float = WD
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    lazy_update: bool = LAZY

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return (w - h.lr * (limited(F, h.rescale * g, h.clip) + h.wd * w),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5), (3, 5)], lambda w, g: w - 0.1 * (_clipped(g) + 0.01 * w), grad=False, **_ALL),
            Sample([(0, 2), (0, 2)], lambda w, g: w - g, grad=False, lr=1.0),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return unequal_shapes(cls, lr=0.1)


@register("hybrid.mp_sgd_update")
class MPSGDUpdate(SGDUpdate):
    """``sgd_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""

    INPUTS = ("weight", "grad", "weight32")
    MASTER = True

    @classmethod
    def samples(cls) -> list[Sample]:
        return [_master(Sample([(3, 5)] * 3, lambda _, g, w: w - 0.1 * (_clipped(g) + 0.01 * w), **_ALL))]


@register("hybrid.sgd_mom_update")
class SGDMomUpdate(Update):
    """weight + mom, where mom = momentum * mom - lr * (clip(rescale_grad * grad) + wd * weight) is updated in place"""

    INPUTS = ("weight", "grad", "mom")

    lr: float = LR
    momentum: float = MOMENTUM
    wd: float = WD
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    lazy_update: bool = LAZY

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

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return unequal_shapes(cls, lr=0.1)


@register("hybrid.mp_sgd_mom_update")
class MPSGDMomUpdate(SGDMomUpdate):
    """``sgd_mom_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""

    INPUTS = ("weight", "grad", "mom", "weight32")
    MASTER = True

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(_: Any, g: Any, m: Any, w: Any) -> Any:
            return w + 0.9 * m - 0.1 * (_clipped(g) + 0.01 * w)

        return [_master(Sample([(3, 5)] * 4, reference, momentum=0.9, **_ALL))]


@register("hybrid.nag_mom_update")
class NAGMomUpdate(Update):
    """weight + momentum * mom - lr * g, where mom = momentum * mom - lr * g is updated in place

    ``g = clip(rescale_grad * grad) + wd * weight``. As in MXNet, whose kernel writes the weight first, the stored
    momentum has the decay of the new weight.
    """

    INPUTS = ("weight", "grad", "mom")

    lr: float = LR
    momentum: float = MOMENTUM
    wd: float = WD
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP

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

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return unequal_shapes(cls, lr=0.1)


@register("hybrid.mp_nag_mom_update")
class MPNAGMomUpdate(NAGMomUpdate):
    """``nag_mom_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""

    INPUTS = ("weight", "grad", "mom", "weight32")
    MASTER = True

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(_: Any, g: Any, m: Any, w: Any) -> Any:
            step = 0.1 * (_clipped(g) + 0.01 * w)
            return w + 0.9 * (0.9 * m - step) - step

        return [_master(Sample([(3, 5)] * 4, reference, momentum=0.9, **_ALL))]


@register("hybrid.signsgd_update")
class SignSGDUpdate(Update):
    """(1 - lr * wd) * weight - lr * sign(grad)"""

    lr: float = LR
    wd: float = WD
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        # As in MXNet, nothing clips: not even a bound of 0.
        # As in MXNet, the gradient is neither scaled nor clipped.
        return ((1 - h.lr * h.wd) * w - h.lr * F.sign(g),)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 5)] * 2, lambda w, g: (1 - 0.1 * 0.01) * w - 0.1 * np.sign(g), grad=False, **_ALL)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return unequal_shapes(cls, lr=0.1)


@register("hybrid.signum_update")
class SignumUpdate(Update):
    """(1 - lr * wd_lh) * weight + lr * sign(mom), where mom is updated in place

    ``mom = momentum * mom - (1 - momentum) * (clip(rescale_grad * grad) + wd * weight)``.
    """

    INPUTS = ("weight", "grad", "mom")

    lr: float = LR
    momentum: float = MOMENTUM
    wd: float = WD
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
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

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return unequal_shapes(cls, lr=0.1)


# --- several weights --------------------------------------------------------------------------------------------------

# The same for two weights.
_LISTED: dict[str, Any] = {"lrs": (0.1, 0.2), "wds": (0.01, 0.0), "rescale_grad": 0.5, "clip_gradient": 0.7}


def _stepped(w: Any, g: Any, m: Any, lr: float, wd: float) -> Any:
    return w + 0.9 * m - lr * (_clipped(g) + wd * w)


def _two(w0: Any, g0: Any, w1: Any, g1: Any) -> Any:
    return _stepped(w0, g0, 0, 0.1, 0.01), _stepped(w1, g1, 0, 0.2, 0.0)


def _two_momentum(w0: Any, g0: Any, m0: Any, w1: Any, g1: Any, m1: Any) -> Any:
    return _stepped(w0, g0, m0, 0.1, 0.01), _stepped(w1, g1, m1, 0.2, 0.0)


class _MultiDescent(MultiUpdate):
    """A sample and a bad one of SGD on two weights."""

    OPTIONS: ClassVar[dict[str, Any]] = _LISTED

    @classmethod
    def samples(cls) -> list[Sample]:
        momentum = issubclass(cls.UPDATE, SGDMomUpdate)
        plain = [i for i, name in enumerate(cls.UPDATE.INPUTS) if name not in ("weight32",)]
        step, master = len(cls.UPDATE.INPUTS), cls.UPDATE.MASTER

        def reference(*xs: Any) -> Any:
            used: list[Any] = []
            for i in range(2):
                group = list(xs[i * step : (i + 1) * step])
                if master:
                    group[0] = group[-1]
                used += [group[j] for j in plain]
            return _two_momentum(*used) if momentum else _two(*used)

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


@register("hybrid.multi_sgd_update")
class MultiSGDUpdate(_MultiDescent):
    """``sgd_update`` of several weights: the inputs are weight, grad of the first, of the second, …"""

    UPDATE = SGDUpdate

    lrs: Floats = _LRS
    wds: Floats = _WDS
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    num_weights: int = COUNT


@register("hybrid.multi_sgd_mom_update")
class MultiSGDMomUpdate(_MultiDescent):
    """``sgd_mom_update`` of several weights: the inputs are weight, grad, mom of the first, of the second, …"""

    UPDATE = SGDMomUpdate

    lrs: Floats = _LRS
    wds: Floats = _WDS
    momentum: float = MOMENTUM
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    num_weights: int = COUNT


@register("hybrid.multi_mp_sgd_update")
class MultiMPSGDUpdate(MultiSGDUpdate):
    """``mp_sgd_update`` of several weights: the inputs are weight, grad, weight32 of the first, of the second, …"""

    UPDATE = MPSGDUpdate


@register("hybrid.multi_mp_sgd_mom_update")
class MultiMPSGDMomUpdate(MultiSGDMomUpdate):
    """``mp_sgd_mom_update`` of several weights: the inputs are weight, grad, mom, weight32 of the first, …"""

    UPDATE = MPSGDMomUpdate


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


@register("hybrid.preloaded_multi_sgd_update")
class PreloadedMultiSGDUpdate(_Preloaded):
    """``multi_sgd_update`` with the learning rates and the weight decays as the last two inputs, of float32"""

    UPDATE = SGDUpdate

    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    num_weights: int = COUNT


@register("hybrid.preloaded_multi_sgd_mom_update")
class PreloadedMultiSGDMomUpdate(_Preloaded):
    """``multi_sgd_mom_update`` with the learning rates and the weight decays as the last two inputs, of float32"""

    UPDATE = SGDMomUpdate

    momentum: float = MOMENTUM
    rescale_grad: float = RESCALE
    clip_gradient: float = CLIP
    num_weights: int = COUNT


@register("hybrid.preloaded_multi_mp_sgd_update")
class PreloadedMultiMPSGDUpdate(PreloadedMultiSGDUpdate):
    """``multi_mp_sgd_update`` with the learning rates and the weight decays as the last two inputs, of float32"""

    UPDATE = MPSGDUpdate


@register("hybrid.preloaded_multi_mp_sgd_mom_update")
class PreloadedMultiMPSGDMomUpdate(PreloadedMultiSGDMomUpdate):
    """``multi_mp_sgd_mom_update`` with the learning rates and the weight decays as the last two inputs, of float32"""

    UPDATE = MPSGDMomUpdate
