"""Updates with a rate for each element: Adam, RMSProp, Ftrl, FTML, row-wise AdaGrad."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.updates.update import (
    CLIP,
    Update,
    bound,
    limited,
    same_shape,
    unbiased,
)
from hybridc.errors import ShapeError

# What the samples use: some gradients are beyond the bound.
_ALL: dict[str, Any] = {"lr": 0.1, "wd": 0.01, "rescale_grad": 0.5, "clip_gradient": 0.7}
_GAMMA1: Any = attribute(0.95, "decay rate of the averages")
_CLIP_WEIGHTS: Any = attribute(-1.0, "bound of the new weight's magnitude; below 0 there is none")


def _decayed(w: Any, g: Any) -> Any:
    return np.clip(0.5 * g + 0.01 * w, -0.7, 0.7)


def _positive(count: int, reference: Any, **attrs: Any) -> list[Sample]:
    """A sample whose states are positive."""
    return [Sample([(3, 5)] * count, reference, grad=False, low=0.1, **_ALL, **attrs)]


@register("hybrid.adam_update")
class AdamUpdate(Update):
    """weight - lr * mean / (sqrt(var) + epsilon), where the mean and the variance are updated in place

    ``mean = beta1 * mean + (1 - beta1) * g`` and ``var = beta2 * var + (1 - beta2) * g**2`` with
    ``g = clip(rescale_grad * grad + wd * weight)``.
    """

    BY_ROWS = True

    INPUTS = ("weight", "grad", "mean", "var")
    ORDER = ("lr", "beta1", "beta2", "epsilon", "wd", "rescale_grad", "clip_gradient", "lazy_update")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        m, v = state
        g = limited(F, h.rescale * g + h.wd * w, h.clip)
        m = h.beta1 * m + (1 - h.beta1) * g
        v = h.beta2 * v + (1 - h.beta2) * F.square(g)
        return w - h.lr * m / (F.sqrt(v) + h.epsilon), m, v

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, m: Any, v: Any) -> Any:
            g = _decayed(w, g)
            return w - 0.1 * (0.8 * m + 0.2 * g) / (np.sqrt(0.5 * v + 0.5 * g * g) + 1e-3)

        return _positive(4, reference, beta1=0.8, beta2=0.5, epsilon=1e-3)


@register("hybrid.rmsprop_update")
class RMSPropUpdate(Update):
    """clip(weight - lr * g / sqrt(n + epsilon)), where n = gamma1 * n + (1 - gamma1) * g**2 is updated in place

    ``g = clip(rescale_grad * grad + wd * weight)``.
    """

    INPUTS = ("weight", "grad", "n")
    INPUT_DOCS: ClassVar = {"n": "the running mean of squared gradients, a state that is updated"}
    ORDER = ("lr", "gamma1", "epsilon", "wd", "rescale_grad", "clip_gradient", "clip_weights")

    gamma1: float = _GAMMA1
    clip_weights: float = _CLIP_WEIGHTS

    def numbers(self) -> SimpleNamespace:
        return _bounded(super().numbers())

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g + h.wd * w, h.clip)
        n = h.gamma1 * state[0] + (1 - h.gamma1) * F.square(g)
        return limited(F, w - h.lr * g / F.sqrt(n + h.epsilon), h.clip_weights), n

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, n: Any) -> Any:
            g = _decayed(w, g)
            return np.clip(w - 0.1 * g / np.sqrt(0.9 * n + 0.1 * g * g + 1e-3), -1, 1)

        return _positive(3, reference, gamma1=0.9, epsilon=1e-3, clip_weights=1.0)


def _bounded(h: SimpleNamespace) -> SimpleNamespace:
    h.clip_weights = bound(h.clip_weights)
    return h


@register("hybrid.rmspropalex_update")
class RMSPropAlexUpdate(Update):
    """clip(weight + delta), where n, g and delta are updated in place

    ``n = gamma1 * n + (1 - gamma1) * x**2``, ``g = gamma1 * g + (1 - gamma1) * x`` and
    ``delta = gamma2 * delta - lr * x / sqrt(n - g**2 + epsilon)`` with ``x = clip(rescale_grad * grad + wd * weight)``.
    """

    INPUTS = ("weight", "grad", "n", "g", "delta")
    INPUT_DOCS: ClassVar = {
        "n": "the running mean of squared gradients, a state that is updated",
        "g": "the running mean of gradients, a state that is updated",
        "delta": "the last step, a state that is updated",
    }
    ORDER = ("lr", "gamma1", "gamma2", "epsilon", "wd", "rescale_grad", "clip_gradient", "clip_weights")

    gamma1: float = _GAMMA1
    gamma2: float = attribute(0.9, "how much of the last step stays")
    clip_weights: float = _CLIP_WEIGHTS

    def numbers(self) -> SimpleNamespace:
        return _bounded(super().numbers())

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g + h.wd * w, h.clip)
        n = h.gamma1 * state[0] + (1 - h.gamma1) * F.square(g)
        m = h.gamma1 * state[1] + (1 - h.gamma1) * g
        d = h.gamma2 * state[2] - h.lr * g / F.sqrt(n - F.square(m) + h.epsilon)
        return limited(F, w + d, h.clip_weights), n, m, d

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, x: Any, n: Any, g: Any, d: Any) -> Any:
            x = _decayed(w, x)
            n, g = 0.9 * n + 0.1 * x * x, 0.9 * g + 0.1 * x
            return w + 0.8 * d - 0.1 * x / np.sqrt(n - g * g + 5)

        return _positive(5, reference, gamma1=0.9, gamma2=0.8, epsilon=5.0)


@register("hybrid.ftrl_update")
class FtrlUpdate(Update):
    """(sign(z) * lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where abs(z) > lamda1, else 0; z and n change in place

    ``z += g - (sqrt(n + g**2) - sqrt(n)) * weight / lr`` and ``n += g**2`` with ``g = clip(rescale_grad * grad)``.
    """

    BY_ROWS = True

    INPUTS = ("weight", "grad", "z", "n")
    INPUT_DOCS: ClassVar = {
        "z": "what the weight follows from, a state that is updated",
        "n": "the sum of squared gradients, a state that is updated",
    }
    ORDER = ("lr", "lamda1", "beta", "wd", "rescale_grad", "clip_gradient")

    lamda1: float = attribute(0.01, "factor of the sum of magnitudes that is added to the loss")
    beta: float = attribute(1.0, "added to the root of n")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        z, n = state
        g = limited(F, h.rescale * g, h.clip)
        grown = n + F.square(g)
        z = z + g - (F.sqrt(grown) - F.sqrt(n)) * w / h.lr
        kept = F.greater(F.abs(z), h.lamda1)
        return (F.sign(z) * h.lamda1 - z) / ((h.beta + F.sqrt(grown)) / h.lr + h.wd) * kept, z, grown

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, z: Any, n: Any) -> Any:
            g = np.clip(0.5 * g, -0.7, 0.7)
            z = z + g - (np.sqrt(n + g * g) - np.sqrt(n)) * w / 0.1
            w = (np.sign(z) * 0.5 - z) / ((2 + np.sqrt(n + g * g)) / 0.1 + 0.01)
            return np.where(np.abs(z) > 0.5, w, 0)

        return _positive(4, reference, lamda1=0.5, beta=2.0)


@register("hybrid.ftml_update")
class FTMLUpdate(Update):
    """-z / d at update ``t``, where d, v and z are updated in place

    ``v = beta2 * v + (1 - beta2) * g**2``, ``new = (1 - beta1**t) / lr * (sqrt(v / (1 - beta2**t)) + epsilon)``,
    ``z = beta1 * z + (1 - beta1) * g - (new - beta1 * d) * weight`` and ``d = new``, with
    ``g = clip(rescale_grad * grad + wd * weight)``. From Zheng and Kwok, "Follow the Moving Leader in Deep Learning".
    """

    INPUTS = ("weight", "grad", "d", "v", "z")
    INPUT_DOCS: ClassVar = {
        "d": "the divisor of the last step, a state that is updated",
        "v": "the running mean of squared gradients, a state that is updated",
        "z": "the running mean from which the weight follows, a state that is updated",
    }
    ORDER = ("lr", "beta1", "beta2", "epsilon", "t", "wd", "rescale_grad", "clip_grad")

    beta1: float = attribute(0.6, "decay rate of z")
    beta2: float = attribute(0.999, "decay rate of v")
    t: int = attribute(doc="number of this update, from 1")
    clip_grad: float = CLIP

    def numbers(self) -> SimpleNamespace:
        h = super().numbers()
        h.first, h.second = unbiased(self.beta1, self.beta2, self.t)
        return h

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        d, v, z = state
        g = limited(F, h.rescale * g + h.wd * w, h.clip)
        v = h.beta2 * v + (1 - h.beta2) * F.square(g)
        new = (F.sqrt(v / h.second) + h.epsilon) * h.first / h.lr
        z = h.beta1 * z + (1 - h.beta1) * g - (new - h.beta1 * d) * w
        return -z / new, new, v, z

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, d: Any, v: Any, z: Any) -> Any:
            g = _decayed(w, g)
            v = 0.9 * v + 0.1 * g * g
            new = (1 - 0.6**3) / 0.1 * (np.sqrt(v / (1 - 0.9**3)) + 1e-3)
            return -(0.6 * z + 0.4 * g - (new - 0.6 * d) * w) / new

        attrs = {**_ALL, "clip_grad": _ALL["clip_gradient"]}
        del attrs["clip_gradient"]
        attrs |= {"beta2": 0.9, "epsilon": 1e-3, "t": 3}
        return [Sample([(3, 5)] * 5, reference, grad=False, low=0.1, **attrs)]


@register("hybrid.sparse_adagrad_update", "_sparse_adagrad_update")
class SparseAdaGradUpdate(Update):
    """weight - lr * g / sqrt(history + epsilon), where history += g**2 is updated in place

    ``g = clip(rescale_grad * grad)``; a row_sparse gradient updates its own rows alone.
    """

    BY_ROWS = True
    NNVM = "_sparse_adagrad_update"
    INPUTS = ("weight", "grad", "history")
    INPUT_DOCS: ClassVar = {"history": "the sum of squared gradients, a state that is updated"}
    ORDER = ("lr", "epsilon", "wd", "rescale_grad", "clip_gradient")

    epsilon: float = attribute(1e-7, "added to the history")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g, h.clip) + h.wd * w
        history = state[0] + F.square(g)
        return w - h.lr * g / F.sqrt(history + h.epsilon), history

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, n: Any) -> Any:
            g = np.clip(0.5 * g, -0.7, 0.7) + 0.01 * w
            return w - 0.1 * g / np.sqrt(n + g * g + 1e-3)

        attrs: dict[str, Any] = {"lr": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.7, "wd": 0.01, "epsilon": 1e-3}
        return [Sample([(3, 5)] * 3, reference, grad=False, low=0.1, **attrs)]


@register("hybrid.group_adagrad_update", "contrib.group_adagrad_update")
class GroupAdaGradUpdate(Update):
    """weight - lr * g / sqrt(history + epsilon), where history, a number for each row, is updated in place

    ``history += mean(g**2)`` over each row, with ``g = clip(rescale_grad * grad)``.
    """

    # COMPAT(mxnet): dense gradients, too; there the gradient must be row_sparse.

    BY_ROWS = True

    INPUTS = ("weight", "grad", "history")
    INPUT_DOCS: ClassVar = {"history": "(rows, 1): the sum of mean squared gradients, a state that is updated"}
    ORDER = ("lr", "rescale_grad", "clip_gradient", "epsilon")

    epsilon: float = attribute(1e-5, "added to the history")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        g = limited(F, h.rescale * g, h.clip)
        history = state[0] + F.mean(F.square(g), axis=1, keepdims=True)
        return w - h.lr * g / F.sqrt(history + h.epsilon), history

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The history has one number for each row."""
        weight, grad = super().complete_shapes(shapes[:2], outputs)
        if shapes[2] is None and weight is not None and len(weight) == 2:
            return [weight, grad, (weight[0], 1)]
        return [weight, grad, shapes[2]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        weight = same_shape(self.title(), self.INPUTS[:2], shapes[:2])
        if len(weight) != 2:
            raise ShapeError(f"{self.title()}: weight has shape {weight}, expected two axes: rows and what is in them")
        history = shapes[2]
        want = (weight[0], 1)
        if len(history) != 2 or any(n not in (-1, m) for n, m in zip(history, want, strict=True)):
            raise ShapeError(f"{self.title()}: history has shape {history}, expected {want} for weight {weight}")
        return [weight, weight, want], [weight, want]

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(w: Any, g: Any, n: Any) -> Any:
            g = np.clip(0.5 * g, -0.7, 0.7)
            return w - 0.1 * g / np.sqrt(n + np.mean(g * g, 1, keepdims=True) + 1e-3)

        attrs: dict[str, Any] = {"lr": 0.1, "rescale_grad": 0.5, "clip_gradient": 0.7, "epsilon": 1e-3}
        return [Sample([(3, 5), (3, 5), (3, 1)], reference, grad=False, low=0.1, **attrs)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "group_adagrad_update: history has shape (3, 5), expected (3, 1) for weight (3, 5)"
        return [(((3, 5), (3, 5), (3, 5)), {"lr": 0.1}, text)]
