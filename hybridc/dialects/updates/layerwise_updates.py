"""LAMB's and LARS' updates, whose rate depends on the length of each whole weight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import Axes, DType, Floats, Shape
from hybridc.dialects.updates.adamw_updates import interleaved
from hybridc.dialects.updates.update import (
    BETA1,
    BETA2,
    CLIP,
    FLOAT32,
    LR,
    RESCALE,
    MultiUpdate,
    Update,
    bound,
    limited,
    not_differentiable,
    require_types,
    same_shape,
    unbiased,
)
from hybridc.errors import ShapeError
from hybridc.ground.hooks import HOOKS

_EPSILON: Any = attribute(1e-6, "added to the denominator")
_LOWER: Any = attribute(-1.0, "least length of the weight; below 0 there is none")
_UPPER: Any = attribute(-1.0, "greatest length of the weight; below 0 there is none")
_T: Any = attribute(doc="number of this update, from 1")
_CORRECTED: Any = attribute(True, "whether the moments are corrected for their bias")


def norm(F: Any, x: Any) -> Any:
    """``sqrt(sum(x**2))``, with as many dimensions as ``x``."""
    return F.sqrt(F.sum(F.square(x), keepdims=True))


def corrected(h: SimpleNamespace) -> SimpleNamespace:
    """The scalars of update ``t`` with ``scale``, and ``epsilon`` for it, of which the moments lose their bias.

    ``m1 / (sqrt(v1) + e) = (root / first) * m / (sqrt(v) + root * e)``: no further pass over the arrays.
    """
    first, second = unbiased(h.beta1, h.beta2, h.t) if h.bias_correction else (1.0, 1.0)
    with np.errstate(all="ignore"):  # of decay rates of 1, or more
        root = np.sqrt(np.float64(second))
        h.scale, h.epsilon = float(root / first), float(root * h.epsilon)
    return h


@register("hybrid.lamb_update_phase1")
class LambUpdatePhase1(Update):
    """mean1 / (sqrt(var1) + epsilon) + wd * weight, where the mean and the variance are updated in place

    ``mean = beta1 * mean + (1 - beta1) * g`` and ``var = beta2 * var + (1 - beta2) * g**2`` with
    ``g = clip(rescale_grad * grad)``; ``mean1`` and ``var1`` are these without their bias at update ``t``, or with it
    if not ``bias_correction``.
    """

    INPUTS = ("weight", "grad", "mean", "var")
    ORDER = ("beta1", "beta2", "epsilon", "t", "bias_correction", "wd", "rescale_grad", "clip_gradient")

    epsilon: float = _EPSILON
    t: int = _T
    bias_correction: bool = _CORRECTED
    wd: float = attribute(doc="weight decay")

    def numbers(self) -> SimpleNamespace:
        return corrected(super().numbers())

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        m, v = state
        g = limited(F, h.rescale * g, h.clip)
        m = h.beta1 * m + (1 - h.beta1) * g
        v = h.beta2 * v + (1 - h.beta2) * F.square(g)
        return h.scale * m / (F.sqrt(v) + h.epsilon) + h.wd * w, m, v

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(*xs: Any) -> Any:
            return _direction((xs[-1] if cls.MASTER else xs[0], *xs[1:4]), 3, 0.01)

        attrs: dict[str, Any] = {"beta1": 0.8, "beta2": 0.5, "epsilon": 1e-3, "t": 3, "wd": 0.01, "rescale_grad": 0.5}
        attrs |= {"dtypes": ("float32",)} if cls.MASTER else {}
        return [Sample([(3, 5)] * len(cls.INPUTS), reference, grad=False, low=0.1, clip_gradient=0.7, **attrs)]


def _direction(arrays: tuple[Any, ...], t: int, wd: float) -> Any:
    w, g, m, v = arrays
    g = np.clip(0.5 * g, -0.7, 0.7)
    m, v = 0.8 * m + 0.2 * g, 0.5 * v + 0.5 * g * g
    return m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.5**t)) + 1e-3) + wd * w


@register("hybrid.mp_lamb_update_phase1")
class MPLambUpdatePhase1(LambUpdatePhase1):
    """``lamb_update_phase1`` of the float32 copy ``weight32``, which stays as it is; the result has float32"""

    INPUTS = ("weight", "grad", "mean", "var", "weight32")
    MASTER = True

    def states(self) -> int:
        return 2

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        super().infer_type(dtypes)
        return dtypes, [FLOAT32] * 3

    def decompose(self, F: Any, *inputs: Any) -> Any:
        _, grad, mean, var, weight32 = inputs
        return self.formula(F, weight32, F.cast(grad, dtype="float32"), (mean, var), self.numbers())


def lamb_step(F: Any, w: Any, u: Any, length: Any, step: Any, h: Any) -> Any:
    """``w - lr * length / step * u``, given the lengths of ``w``, which has bounds, and of ``u``.

    If one of them is 0, their quotient counts as 1.
    """
    length = length if h.lower is None else F.maximum(length, h.lower)
    length = length if h.upper is None else F.minimum(length, h.upper)
    ratio = F.where(F.equal(F.minimum(length, step), 0), F.ones_like(step), length / step)
    return w - h.lr * ratio * u


@register("hybrid.lamb_update_phase2")
class LambUpdatePhase2(Composite):
    """weight - lr * r1 / r2 * g, where r1 and r2 are the lengths of the weight and of g

    ``r1`` is limited to ``[lower_bound, upper_bound]``; if ``r1`` or ``r2`` is 0, their quotient counts as 1.
    """

    INPUTS = ("weight", "g", "r1", "r2")
    INPUT_DOCS: ClassVar = {
        "g": "the result of the first phase",
        "r1": "the length of the weight, of shape (1,)",
        "r2": "the length of g, of shape (1,)",
    }
    MASTER: ClassVar[bool] = False

    lr: float = LR
    lower_bound: float = _LOWER
    upper_bound: float = _UPPER

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The lengths are one number each."""
        known = next((s for s in (*shapes[:2], *shapes[4:], *outputs) if s is not None and -1 not in s), None)
        return [((1,) if i in (2, 3) else known) if s is None else s for i, s in enumerate(shapes)]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        names = [n for n in self.INPUTS if n not in ("r1", "r2")]
        shape = same_shape(self.title(), names, [s for i, s in enumerate(shapes) if i not in (2, 3)])
        for name, given in zip(("r1", "r2"), shapes[2:4], strict=True):
            if given not in ((1,), (), (-1,)):
                raise ShapeError(f"{self.title()}: {name} has shape {given}, expected one number: (1,)")
        lengths = [() if s == () else (1,) for s in shapes[2:4]]
        return [shape, shape, *lengths, *[shape] * (len(shapes) - 4)], [shape] * self.num_outputs()

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        require_types(self.title(), self.INPUTS, dtypes, 1 if self.MASTER else len(dtypes))
        return dtypes, [dtypes[0], *[FLOAT32] * (self.num_outputs() - 1)]

    def stepped(self, F: Any, w: Any, g: Any, r1: Any, r2: Any) -> Any:
        """The new weight."""
        h = SimpleNamespace(lr=self.lr, lower=bound(self.lower_bound), upper=bound(self.upper_bound))
        return lamb_step(F, w, g, F.reshape_to(r1, shape=()), F.reshape_to(r2, shape=()), h)

    gradient = not_differentiable

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return self.stepped(F, *inputs)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        self.infer_type([x.dtype for x in arrays])
        with np.errstate(all="ignore"):
            return super().eager(*arrays)

    @classmethod
    def samples(cls) -> list[Sample]:
        def bounded(*xs: Any) -> Any:
            return xs[-1 if cls.MASTER else 0] - 0.1 * np.clip(xs[2], 1.5, 2) / xs[3] * xs[1]

        def plain(*xs: Any) -> Any:
            return xs[-1 if cls.MASTER else 0] - 0.1 * xs[1]

        more, zero = [(3, 5)] * cls.MASTER, np.zeros(1, np.float32)
        attrs: dict[str, Any] = {"grad": False, "lr": 0.1, "dtypes": ("float32",)}
        return [
            Sample([(3, 5), (3, 5), (1,), (1,), *more], bounded, low=0.1, lower_bound=1.5, upper_bound=2.0, **attrs),
            Sample([(3, 5), (3, 5), zero, (1,), *more], plain, low=0.1, **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = f"{cls.title()}: r1 has shape (2,), expected one number: (1,)"
        return [(((2, 3), (2, 3), (2,), (1,), *[(2, 3)] * cls.MASTER), {"lr": 0.1}, text)]


@register("hybrid.mp_lamb_update_phase2")
class MPLambUpdatePhase2(LambUpdatePhase2):
    """``lamb_update_phase2`` of the float32 copy ``weight32``, in place; the result is the copy, rounded"""

    # COMPAT(mxnet): it updates the copy, as its documentation says; there the copy stays as it was.

    INPUTS = ("weight", "g", "r1", "r2", "weight32")
    MASTER = True
    SAME_DTYPE = False
    MUTATES = (4,)

    def num_outputs(self) -> int:
        return 2

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """All but the weight have float32."""
        return [dtypes[0], *[FLOAT32 if d is None else d for d in dtypes[1:]]]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        weight, g, r1, r2, weight32 = inputs
        new = self.stepped(F, weight32, g, r1, r2)
        return F.cast(new, dtype=np.dtype(weight.dtype).name), new


class LambStep(Update):
    """Both phases: Adam's step, made as long as the weight."""

    INPUTS = ("weight", "grad", "mean", "var")

    @staticmethod
    def formula(F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        u, m, v = LambUpdatePhase1.formula(F, w, g, state, h)
        return lamb_step(F, w, u, norm(F, w), norm(F, u), h), m, v


class MPLambStep(LambStep):
    """As :class:`LambStep`, of a float32 copy."""

    INPUTS = ("weight", "grad", "mean", "var", "weight32")
    MASTER = True


@register("hybrid.multi_lamb_update", "contrib.multi_lamb_update")
class MultiLambUpdate(MultiUpdate):
    """LAMB's update of several weights: ``lamb_update_phase1``, then ``lamb_update_phase2``"""

    NNVM = "_multi_lamb_update"
    UPDATE = LambStep
    LISTS: ClassVar[dict[str, str]] = {"learning_rates": "lr", "wds": "wd", "step_count": "t"}
    NUMBER = "num_tensors"

    learning_rates: Floats = attribute(doc="the learning rate of each weight")
    beta1: float = BETA1
    beta2: float = BETA2
    epsilon: float = _EPSILON
    wds: Floats = attribute(doc="the weight decay of each weight")
    rescale_grad: float = RESCALE
    lower_bound: float = _LOWER
    upper_bound: float = _UPPER
    clip_gradient: float = CLIP
    bias_correction: bool = _CORRECTED
    step_count: Axes = attribute(doc="the number of this update of each weight, from 1")
    num_tensors: int = attribute(1, "number of weights", low=1)

    def numbers(self, F: Any, index: int, last: Sequence[Any], dtype: Any) -> SimpleNamespace:
        h = corrected(super().numbers(F, index, last, dtype))
        h.lower, h.upper = bound(self.lower_bound), bound(self.upper_bound)
        return h

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return multi_lamb_update

    @classmethod
    def samples(cls) -> list[Sample]:
        step, master = len(cls.UPDATE.INPUTS), cls.UPDATE.MASTER

        def reference(*xs: Any) -> Any:
            found: list[Any] = []
            for i, (lr, wd, t) in enumerate(((0.1, 0.01, 1), (0.2, 0.0, 3))):
                weight, *others = xs[i * step : (i + 1) * step]
                weight = others.pop() if master else weight
                u = _direction((weight, *others), t, wd)
                found.append(weight - lr * np.clip(np.linalg.norm(weight), 2.0, 3.0) / np.linalg.norm(u) * u)
            return tuple(found)

        attrs: dict[str, Any] = {"learning_rates": (0.1, 0.2), "wds": (0.01, 0.0), "step_count": (1, 3)}
        attrs |= {"beta1": 0.8, "beta2": 0.5, "epsilon": 1e-3, "rescale_grad": 0.5, "clip_gradient": 0.7}
        attrs |= {"lower_bound": 2.0, "upper_bound": 3.0, "num_tensors": 2}
        shapes = [(2, 3)] * step + [(4,)] * step
        return [Sample(shapes, reference, grad=False, low=0.1, dtypes=("float32",), **attrs)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        attrs = {"learning_rates": (0.1, 0.2), "wds": (0.01, 0.0), "step_count": (1,), "num_tensors": 2}
        text = f"{cls.title()}: step_count has 1 values, expected one for each of the num_tensors=2 weights"
        return [(((2, 3),) * 8, attrs, text)]


@register("hybrid.multi_mp_lamb_update", "contrib.multi_mp_lamb_update")
class MultiMPLambUpdate(MultiLambUpdate):
    """``multi_lamb_update`` of float32 copies, in place; the results are the copies in the weights' dtypes"""

    NNVM = "_multi_mp_lamb_update"
    UPDATE = MPLambStep

    @classmethod
    def function(cls) -> Callable[..., Any] | None:
        return multi_mp_lamb_update


def multi_lamb_update(
    weights: Sequence[Any],
    grads: Sequence[Any],
    mean: Sequence[Any],
    var: Sequence[Any],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """LAMB's step of several weights: ``lamb_update_phase1``, then ``lamb_update_phase2``

    The new weights are the result, and with ``out=weights`` written in place; means and variances are updated in place.

    Parameters
    ----------
    weights, grads:
        Lists of the weights and of their gradients, in the same order.
    mean, var:
        Lists of the running means of gradients, and of squared gradients.
    step_count:
        For each weight, the number of this update, from 1 on.
    lrs, wds:
        The learning rate and the weight decay of each weight.
    num_tensors:
        The number of weights; 0 to count them.
    **kwargs:
        ``beta1=0.9``, ``beta2=0.999``, ``epsilon=1e-6``, ``rescale_grad=1``, ``lower_bound=-1``, ``upper_bound=-1``,
        ``clip_gradient=-1`` and ``bias_correction=True``, as those of ``lamb_update_phase1`` and
        ``lamb_update_phase2``.

    Examples
    --------
    >>> weights, grads = [mx.nd.ones(2), mx.nd.ones(1)], [mx.nd.ones(2), mx.nd.ones(1)]
    >>> mean, var = [mx.nd.zeros(2), mx.nd.zeros(1)], [mx.nd.zeros(2), mx.nd.zeros(1)]
    >>> found = mx.nd.contrib.multi_lamb_update(
    ...     weights, grads, mean, var, step_count=(1, 1), lrs=(0.1, 0.2), wds=(0, 0), out=weights
    ... )
    >>> print(*[w.asnumpy().round(3) for w in weights])
    [0.9 0.9] [0.8]
    """
    kwargs |= {"learning_rates": lrs, "wds": wds, "step_count": step_count}
    op = MultiLambUpdate.bind(num_tensors=num_tensors or len(weights), **kwargs)
    return HOOKS.invoke(op, interleaved(weights, grads, mean, var), out)


def multi_mp_lamb_update(
    weights: Sequence[Any],
    grads: Sequence[Any],
    mean: Sequence[Any],
    var: Sequence[Any],
    weights32: Sequence[Any],
    step_count: Sequence[int],
    lrs: Sequence[float],
    wds: Sequence[float],
    out: Any = None,
    num_tensors: int = 0,
    **kwargs: Any,
) -> Any:
    """LAMB's step of several weights, of float32 copies: ``multi_lamb_update`` of ``weights32``, in place

    The results are the copies in the weights' dtypes.

    Parameters
    ----------
    weights, grads:
        Lists of the weights and of their gradients, in the same order.
    mean, var:
        Lists of the running means of gradients, and of squared gradients, in float32.
    weights32:
        The list of the weights in float32, which are updated in place.
    step_count:
        For each weight, the number of this update, from 1 on.
    lrs, wds:
        The learning rate and the weight decay of each weight.
    num_tensors:
        The number of weights; 0 to count them.
    **kwargs:
        As of ``multi_lamb_update``.

    Examples
    --------
    >>> weights32 = [mx.nd.ones(2)]
    >>> weights, grads = [mx.nd.ones(2, dtype="float16")], [mx.nd.ones(2, dtype="float16")]
    >>> found = mx.nd.contrib.multi_mp_lamb_update(
    ...     weights, grads, [mx.nd.zeros(2)], [mx.nd.zeros(2)],
    ...     weights32, step_count=[1], lrs=[0.1], wds=[0], out=weights
    ... )
    >>> print(weights[0].dtype, weights32[0].asnumpy().round(3))
    <class 'numpy.float16'> [0.9 0.9]
    """
    kwargs |= {"learning_rates": lrs, "wds": wds, "step_count": step_count}
    op = MultiMPLambUpdate.bind(num_tensors=num_tensors or len(weights), **kwargs)
    return HOOKS.invoke(op, interleaved(weights, grads, mean, var, weights32), out)


def lars_ratio(F: Any, length: Any, slope: Any, wd: Any, h: Any) -> Any:
    """``eta * length / (slope + wd * length + eps)``, of a weight and its gradient; 1 where one of them is 0."""
    ratio = h.eta * length / (slope + wd * length + h.eps)
    return F.where(F.greater(F.minimum(length, slope), 0), ratio, F.ones_like(ratio))


@register("hybrid.multi_lars")
class MultiLars(Composite):
    """lrs * eta * w / (g + wds * w + eps), where w = sqrt(weights_sum_sq) and g = rescale_grad * sqrt(grads_sum_sq)

    The rates stay as they are where ``w`` or ``g`` is 0. Each input has a number for each weight.
    """

    INPUTS = ("lrs", "weights_sum_sq", "grads_sum_sq", "wds")
    INPUT_DOCS: ClassVar = {
        "lrs": "the learning rate of each weight",
        "weights_sum_sq": "the sum of squares of each weight, see multi_sum_sq",
        "grads_sum_sq": "the sum of squares of each gradient",
        "wds": "the weight decay of each weight",
    }

    eta: float = attribute(doc="factor of the rates")
    eps: float = attribute(doc="added to the denominator")
    rescale_grad: float = RESCALE

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """All have one shape."""
        known = next((s for s in (*shapes, *outputs) if s is not None and -1 not in s), None)
        return [known if s is None else s for s in shapes]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        shape = same_shape(self.title(), self.INPUTS, shapes)
        return [shape] * 4, [shape]

    gradient = not_differentiable

    def decompose(self, F: Any, *inputs: Any) -> Any:
        self.infer_shape([x.shape for x in inputs])
        lrs, weights, grads, wds = inputs
        return lrs * lars_ratio(F, F.sqrt(weights), self.rescale_grad * F.sqrt(grads), wds, self)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(lr: Any, w: Any, g: Any, wd: Any) -> Any:
            length: Any = np.sqrt(w)
            slope: Any = 2 * np.sqrt(g)
            scaled: Any = 0.5 * length / (slope + wd * length + 0.01)
            scaled[w * g == 0] = 1
            return lr * scaled

        attrs: dict[str, Any] = {"eta": 0.5, "eps": 0.01, "rescale_grad": 2.0, "grad": False, "low": 0.1}
        zero = np.array([4.0, 0.0, 9.0])
        return [
            Sample([(3,)] * 4, reference, **attrs),
            Sample([(3,), zero, zero[::-1].copy(), (3,)], reference, **attrs),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "multi_lars: wds has shape (2,), expected (3,), the shape of all its inputs"
        return [(((3,), (3,), (3,), (2,)), {"eta": 1.0, "eps": 0.0}, text)]
