"""AdamW's update, for one weight and for several: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Floats, Shape
from hybridc.dialects.operator_registry import operator
from hybridc.dialects.updates.update import (
    BETA1,
    BETA2,
    CLIP,
    COUNT,
    EPSILON,
    FLOAT32,
    MultiUpdate,
    Update,
    limited,
    require_types,
    same_shape,
    updated,
)
from hybridc.errors import DTypeError, ShapeError
from hybridc.ground.hooks import HOOKS

_ETA: Any = attribute(doc="factor of the whole step, which schedules change")


class AdamWStep(Update):
    """``w - lr * (scale * m / (sqrt(v) + epsilon) + wd * w)`` with the new mean ``m`` and variance ``v``.

    ``m = beta1 * m + (1 - beta1) * g`` and ``v = beta2 * v + (1 - beta2) * g**2`` with ``g = clip(rescale * grad)``.
    """

    INPUTS = ("weight", "grad", "mean", "var")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        m, v = state
        g = limited(F, h.rescale * g, h.clip)
        m = h.beta1 * m + (1 - h.beta1) * g
        v = h.beta2 * v + (1 - h.beta2) * F.square(g)
        return w - (h.lr * h.scale * m / (F.sqrt(v) + h.epsilon) + h.lr * h.wd * w), m, v


class MPAdamWStep(AdamWStep):
    """As :class:`AdamWStep`, of a float32 copy."""

    INPUTS = ("weight", "grad", "mean", "var", "weight32")
    MASTER = True


def _unless_overflowed(F: Any, step: type[Update], group: Sequence[Any], h: Any, rescale: Any) -> tuple[Any, ...]:
    """The step, with the gradient times ``rescale``, an array of one number; none if that is 0, infinite or NaN."""
    dtype = FLOAT32 if step.MASTER else np.dtype(group[0].dtype)
    number = F.reshape_to(rescale, shape=())
    used = F.isfinite(number) * F.not_equal(number, 0)
    h.rescale = number if number.dtype == dtype else F.cast(number, dtype=dtype.name)
    before = (group[0], *group[2:])
    return tuple(F.where(used, new, old) for new, old in zip(updated(step, F, group, h), before, strict=True))


@register("hybrid.adamw_update", "contrib.adamw_update")
class AdamWUpdate(Update):
    """weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight), where mean and var are updated in place

    ``mean = beta1 * mean + (1 - beta1) * g`` and ``var = beta2 * var + (1 - beta2) * g**2`` with
    ``g = clip(rescale_grad * grad)``. If ``rescale_grad``, a number or an array of one, is 0, infinite or NaN, nothing
    changes: so a step is skipped whose gradients overflowed.
    """

    # COMPAT(mxnet): the gradient stays as it is; there a bound of 0 writes zeros to it.

    NNVM = "_adamw_update"
    NNVM_PARAMETERS = ("lr", "beta1", "beta2", "epsilon", "wd", "eta", "clip_gradient")
    INPUTS = ("weight", "grad", "mean", "var", "rescale_grad")
    INPUT_DOCS: ClassVar = {"rescale_grad": "factor of the gradient, a number or an array of one"}
    SAME_DTYPE = False
    STEP: ClassVar[type[Update]] = AdamWStep
    ORDER = ("lr", "eta", "beta1", "beta2", "epsilon", "wd", "clip_gradient")

    eta: float = _ETA

    def states(self) -> int:
        return len(self.INPUTS) - 3

    def numbers(self) -> SimpleNamespace:
        h = super().numbers()
        h.lr, h.scale = self.eta, self.lr
        return h

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All but the last have one shape."""
        return [*super().complete_shapes(shapes[:-1], outputs), (1,) if shapes[-1] is None else shapes[-1]]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """The last has float32."""
        last = FLOAT32 if dtypes[-1] is None else dtypes[-1]
        return [*super().complete_types(dtypes[:-1]), last]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if shapes[-1] not in ((1,), (), (-1,)):
            raise ShapeError(f"{self.title()}: rescale_grad has shape {shapes[-1]}, expected one number: (1,)")
        shape = same_shape(self.title(), self.INPUTS[:-1], shapes[:-1])
        return [*[shape] * (len(shapes) - 1), () if shapes[-1] == () else (1,)], [shape] * self.num_outputs()

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_types(self.title(), self.INPUTS[:-1], dtypes[:-1], 2 if self.MASTER else len(dtypes) - 1)
        if dtypes[-1] != FLOAT32:
            raise DTypeError(f"{self.title()}: rescale_grad is {dtypes[-1]}, expected float32; use .astype('float32')")
        return dtypes, [dtypes[0], *dtypes[2:-1]]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return _unless_overflowed(F, self.STEP, inputs[:-1], self.numbers(), inputs[-1])

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return adamw_update

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(*xs: Any) -> Any:
            return _reference((xs[-2] if cls.STEP.MASTER else xs[0], *xs[1:4]), xs[-1], 0.1, 0.3, 0.01)

        def same(*xs: Any) -> Any:
            return xs[0]

        shapes = [(3, 5)] * (len(cls.INPUTS) - 1)
        attrs: dict[str, Any] = {"lr": 0.1, "eta": 0.3, "wd": 0.01, "beta1": 0.8, "beta2": 0.5, "clip_gradient": 0.7}
        attrs |= {"grad": False, "low": 0.1, "dtypes": ("float32",)}
        used = [
            Sample([*shapes, np.array([0.5], np.float32)], reference, epsilon=1e-3, **attrs),
            Sample([*shapes, np.array([np.inf], np.float32)], same, **attrs),
        ]
        return used

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return []


def _reference(arrays: tuple[Any, ...], rescale: Any, lr: float, eta: float, wd: float) -> Any:
    w, g, m, v = arrays
    g = np.clip(rescale * g, -0.7, 0.7)
    return w - eta * (lr * (0.8 * m + 0.2 * g) / (np.sqrt(0.5 * v + 0.5 * g * g) + 1e-3) + wd * w)


@register("hybrid.mp_adamw_update", "contrib.mp_adamw_update")
class MPAdamWUpdate(AdamWUpdate):
    """``adamw_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype"""

    NNVM = "_mp_adamw_update"
    INPUTS = ("weight", "grad", "mean", "var", "weight32", "rescale_grad")
    MASTER = True
    STEP = MPAdamWStep

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return mp_adamw_update


@register("hybrid.multi_adamw_update", "contrib.multi_adamw_update")
class MultiAdamWUpdate(MultiUpdate):
    """``adamw_update`` of several weights"""

    NNVM = "_multi_adamw_update"
    UPDATE = AdamWStep
    LISTS: ClassVar[dict[str, str]] = {"lrs": "scale", "wds": "wd", "etas": "lr"}
    LAST = ("rescale_grad",)

    lrs: Floats = attribute(doc="the learning rate of each weight")
    beta1: float = BETA1
    beta2: float = BETA2
    epsilon: float = EPSILON
    wds: Floats = attribute(doc="the weight decay of each weight")
    etas: Floats = attribute(doc="the factor of the whole step, of each weight")
    clip_gradient: float = CLIP
    num_weights: int = COUNT

    def last_shape(self, name: str) -> Shape:
        return (1,)

    def numbers(self, F: Any, index: int, last: Sequence[Any], dtype: Any) -> SimpleNamespace:
        h = super().numbers(F, index, last, dtype)
        h.rescale = last[0]
        return h

    def updated(self, F: Any, group: Sequence[Any], h: Any) -> tuple[Any, ...]:
        return _unless_overflowed(F, self.UPDATE, group, h, h.rescale)

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return multi_adamw_update

    @classmethod
    def samples(cls) -> list[Sample]:
        step, master = len(cls.UPDATE.INPUTS), cls.UPDATE.MASTER

        def reference(*xs: Any) -> Any:
            groups = [xs[i * step : (i + 1) * step] for i in range(2)]
            return tuple(
                _reference((x[-1] if master else x[0], *x[1:4]), 0.5, lr, eta, wd)
                for x, lr, eta, wd in zip(groups, (0.1, 0.2), (0.3, 1.0), (0.01, 0.0), strict=True)
            )

        attrs: dict[str, Any] = {"lrs": (0.1, 0.2), "wds": (0.01, 0.0), "etas": (0.3, 1.0), "num_weights": 2}
        attrs |= {"beta1": 0.8, "beta2": 0.5, "epsilon": 1e-3, "clip_gradient": 0.7}
        shapes = [(2, 3)] * step + [(4,)] * step
        given = [*shapes, np.array([0.5], np.float32)]
        return [Sample(given, reference, grad=False, low=0.1, dtypes=("float32",), **attrs)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        attrs = {"lrs": (0.1,), "wds": (0.01, 0.0), "etas": (1, 1), "num_weights": 2}
        text = f"{cls.title()}: lrs has 1 values, expected one for each of the num_weights=2 weights"
        return [(((2, 3),) * 9, attrs, text)]


@register("hybrid.multi_mp_adamw_update", "contrib.multi_mp_adamw_update")
class MultiMPAdamWUpdate(MultiAdamWUpdate):
    """``mp_adamw_update`` of several weights"""

    NNVM = "_multi_mp_adamw_update"
    UPDATE = MPAdamWStep

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return multi_mp_adamw_update


# --- functions with MXNet's parameters --------------------------------------------------------------------------------


def _rescale(value: Any, weight: Any) -> Any:
    """``rescale_grad`` as an array: a number becomes one of float32."""
    if not isinstance(value, int | float | np.generic):
        return value
    full = operator("hybrid.full").bind(shape=(1,), val=np.asarray(value).item())
    if not hasattr(weight, "entries"):
        return HOOKS.invoke(full, ())
    with weight.trace.naming(None, "_full", {}):  # the name that users give is that of the update
        return HOOKS.invoke(full, ())


def adamw_update(
    weight: Any,
    grad: Any,
    mean: Any,
    var: Any,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: Any = None,
    name: str | None = None,  # noqa: ARG001 - symbols are named before
) -> Any:
    """weight - eta * (lr * mean / (sqrt(var) + epsilon) + wd * weight), where mean and var are updated in place

    ``mean = beta1 * mean + (1 - beta1) * g`` and ``var = beta2 * var + (1 - beta2) * g**2`` with
    ``g = clip(rescale_grad * grad)``. Nothing changes if ``rescale_grad`` is 0, infinite or NaN: so a step is skipped
    whose gradients overflowed.
    """
    op = AdamWUpdate.bind_values((lr, eta, beta1, beta2, epsilon, wd, clip_gradient))
    return HOOKS.invoke(op, (weight, grad, mean, var, _rescale(rescale_grad, weight)), out)


def mp_adamw_update(
    weight: Any,
    grad: Any,
    mean: Any,
    var: Any,
    weight32: Any,
    rescale_grad: Any,
    lr: float,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    wd: float = 0,
    clip_gradient: float = -1,
    out: Any = None,
    name: str | None = None,  # noqa: ARG001
) -> Any:
    """``adamw_update`` of the float32 copy ``weight32``, in place; the result is the copy in the weight's dtype

    Nothing changes if ``rescale_grad`` is 0, infinite or NaN.
    """
    op = MPAdamWUpdate.bind_values((lr, eta, beta1, beta2, epsilon, wd, clip_gradient))
    return HOOKS.invoke(op, (weight, grad, mean, var, weight32, _rescale(rescale_grad, weight)), out)


def multi_adamw_update(
    weights: Sequence[Any],
    grads: Sequence[Any],
    mean: Sequence[Any],
    var: Sequence[Any],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,  # noqa: ARG001
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """``adamw_update`` of several weights; nothing changes if ``rescale_grad`` is 0, infinite or NaN

    The new weights are the result, and with ``out=weights`` written in place; means and variances are updated in place.

    Parameters
    ----------
    weights, grads:
        Lists of the weights and of their gradients, in the same order.
    mean, var:
        Lists of the running means of gradients, and of squared gradients.
    rescale_grad:
        Factor of the gradients, a number or an array of one.
    lrs, wds, etas:
        The learning rate, the weight decay and the factor of the whole step of each weight.
    size:
        The number of weights; 0 to count them.
    **kwargs:
        ``beta1=0.9``, ``beta2=0.999``, ``epsilon=1e-8`` and ``clip_gradient=-1``, as those of ``adamw_update``.

    Examples
    --------
    >>> weights, grads = [mx.nd.ones(2), mx.nd.zeros(1)], [mx.nd.ones(2), mx.nd.ones(1)]
    >>> mean, var = [mx.nd.zeros(2), mx.nd.zeros(1)], [mx.nd.zeros(2), mx.nd.zeros(1)]
    >>> found = mx.nd.contrib.multi_adamw_update(
    ...     weights, grads, mean, var, rescale_grad=1.0, lrs=(0.1, 0.1), wds=(0, 0), etas=(1, 1), out=weights
    ... )
    >>> print(*[w.asnumpy().round(3) for w in weights])
    [0.684 0.684] [-0.316]
    """
    op = MultiAdamWUpdate.bind(lrs=lrs, wds=wds, etas=etas, num_weights=size or len(weights), **kwargs)
    return HOOKS.invoke(op, [*interleaved(weights, grads, mean, var), _rescale(rescale_grad, weights[0])], out)


def multi_mp_adamw_update(
    weights: Sequence[Any],
    grads: Sequence[Any],
    mean: Sequence[Any],
    var: Sequence[Any],
    weights32: Sequence[Any],
    rescale_grad: Any,
    lrs: Sequence[float],
    wds: Sequence[float],
    etas: Sequence[float],
    out: Any = None,
    name: str | None = None,  # noqa: ARG001
    size: int = 0,
    **kwargs: Any,
) -> Any:
    """``mp_adamw_update`` of several weights; nothing changes if ``rescale_grad`` is 0, infinite or NaN

    The results are the copies ``weights32``, which are updated in place, in the weights' dtypes.

    Parameters
    ----------
    weights, grads:
        Lists of the weights and of their gradients, in the same order.
    mean, var:
        Lists of the running means of gradients, and of squared gradients, in float32.
    weights32:
        The list of the weights in float32, which are updated in place.
    rescale_grad:
        Factor of the gradients, a number or an array of one.
    lrs, wds, etas:
        The learning rate, the weight decay and the factor of the whole step of each weight.
    size:
        The number of weights; 0 to count them.
    **kwargs:
        As of ``multi_adamw_update``.

    Examples
    --------
    >>> weights32 = [mx.nd.ones(2)]
    >>> weights, grads = [mx.nd.ones(2, dtype="float16")], [mx.nd.ones(2, dtype="float16")]
    >>> found = mx.nd.contrib.multi_mp_adamw_update(
    ...     weights, grads, [mx.nd.zeros(2)], [mx.nd.zeros(2)],
    ...     weights32, 1.0, lrs=[0.1], wds=[0], etas=[1], out=weights
    ... )
    >>> print(weights[0].dtype, weights32[0].asnumpy().round(3))
    <class 'numpy.float16'> [0.684 0.684]
    """
    op = MultiMPAdamWUpdate.bind(lrs=lrs, wds=wds, etas=etas, num_weights=size or len(weights), **kwargs)
    return HOOKS.invoke(
        op, [*interleaved(weights, grads, mean, var, weights32), _rescale(rescale_grad, weights[0])], out
    )


def interleaved(*lists: Sequence[Any]) -> list[Any]:
    """The first of each list, the second of each, and so on."""
    return [x for group in zip(*lists, strict=True) for x in group]
