"""Activation functions of neural networks."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.math.elementwise import by_element, meaning
from hybridc.dialects.math.trigonometry import Tanh
from hybridc.dialects.math.unary import Unary
from hybridc.dialects.nn.dropout import Sampling, uniform
from hybridc.dialects.numpy_rules import PROMOTES
from hybridc.dialects.operator import Bad, Composite, Operator, Sample, attribute, invoke_bound, register
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar import NUMPY
from hybridc.errors import ShapeError


@register("hybrid.relu")
class Relu(Unary):
    """max(x, 0)"""

    NUMPY = PROMOTES
    REFERENCE = meaning(lambda x: x * (x > 0))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.max(x, 0)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * F.sign(y)  # nan where y is nan


@register("hybrid.sigmoid")
class Sigmoid(Unary):
    """1 / (1 + exp(-x))"""

    REFERENCE = meaning(lambda x: 1 / (1 + np.exp(-x)))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.logistic(x)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        if x.dtype.kind != "f" or x.dtype.itemsize < 4 or not x.ndim:
            return super().eager(x)
        y = np.negative(x)
        np.exp(y, out=y)
        np.add(y, 1.0, out=y)
        return np.divide(1.0, y, out=y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (y * (1 - y))


@register("hybrid.hard_sigmoid")
class HardSigmoid(Unary):
    """alpha * x + beta, limited to the range from 0 to 1"""

    alpha: float = attribute(0.2, "the slope")
    beta: float = attribute(0.5, "the value at 0")

    def scalar(self, b: Any, x: Any) -> Any:
        return b.min(b.max(x * self.alpha + self.beta, 0.0), 1.0)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, _, y = values
        return dy * (F.greater(y, 0) * F.lesser(y, 1) * self.alpha)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: np.clip(0.2 * x + 0.5, 0, 1), low=-6, high=6),
            Sample([(4,)], lambda x: np.clip(0.5 * x + 0.1, 0, 1), low=-6, high=6, alpha=0.5, beta=0.1),
        ]


@register("hybrid.softrelu")
class Softrelu(Unary):
    """log(1 + exp(x)) without overflow"""

    REFERENCE = meaning(lambda x: np.log(1 + np.exp(x)))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.max(x, 0) + b.log1p(b.exp(-b.abs(x)))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.sigmoid(x)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.Activation(x, act_type="softrelu")


@register("hybrid.softsign")
class Softsign(Unary):
    """x / (1 + |x|)"""

    REFERENCE = meaning(lambda x: x / (1 + np.abs(x)))

    def scalar(self, b: Any, x: Any) -> Any:
        return x / (b.abs(x) + 1.0)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy / F.square(F.abs(x) + 1)


@register("hybrid.log_sigmoid")
class LogSigmoid(Unary):
    """log(1 / (1 + exp(-x))) without overflow"""

    REFERENCE = meaning(lambda x: -np.log(1 + np.exp(-x)))

    def scalar(self, b: Any, x: Any) -> Any:
        return b.min(x, 0) - b.log1p(b.exp(-b.abs(x)))

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * F.sigmoid(-x)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return -F.Activation(-x, act_type="softrelu")


@register("hybrid.silu")
class Silu(Unary):
    """x / (1 + exp(-beta * x)), also called swish"""

    beta: float = attribute(1.0, "the slope inside the sigmoid")

    def scalar(self, b: Any, x: Any) -> Any:
        return x * b.logistic(x * self.beta)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        if x.dtype.kind != "f" or x.dtype.itemsize < 4 or not x.ndim:
            return super().eager(x)
        y = np.multiply(x, -self.beta)
        np.exp(y, out=y)
        np.add(y, 1.0, out=y)
        np.divide(1.0, y, out=y)
        return np.multiply(x, y, out=y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        s = F.sigmoid(x * self.beta)
        return dy * (s + self.beta * y * (1 - s))

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return x * F.sigmoid(x * self.beta)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: x / (1 + np.exp(-x))),
            Sample([(4,)], lambda x: x / (1 + np.exp(-1.7 * x)), beta=1.7),
        ]


@register("hybrid.gelu")
class Gelu(Unary):
    """x * (1 + erf(x / sqrt(2))) / 2"""

    REFERENCE = by_element(lambda x: x / 2 * (1 + math.erf(x / math.sqrt(2))))

    def scalar(self, b: Any, x: Any) -> Any:
        return x * 0.5 * (b.erf(x * math.sqrt(0.5)) + 1.0)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        if x.dtype.kind != "f" or x.dtype.itemsize < 4 or not x.ndim:
            return super().eager(x)
        y = np.multiply(x, math.sqrt(0.5))
        NUMPY.erf(y, out=y)
        np.add(y, 1.0, out=y)
        np.multiply(y, x, out=y)
        return np.multiply(y, 0.5, out=y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        density = F.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))
        return dy * (F.erf(x * math.sqrt(0.5)) * 0.5 + 0.5 + x * density)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.LeakyReLU(x, act_type="gelu")


@register("hybrid.leaky")
class Leaky(Unary):
    """x where it is positive, else slope * x"""

    slope: float = attribute(0.25, "the slope for negative x")

    def scalar(self, b: Any, x: Any) -> Any:
        if 0 < self.slope <= 1:
            return b.max(x, x * self.slope)
        return b.select(x > 0, x, x * self.slope)

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        if x.dtype.kind != "f" or not x.ndim or not 0 < self.slope <= 1:
            return super().eager(x)
        y = np.multiply(x, self.slope)
        return np.maximum(x, y, out=y)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * (F.greater(x, 0) * (1 - self.slope) + self.slope)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.LeakyReLU(x, act_type="leaky", slope=self.slope)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: np.maximum(x, 0) + 0.25 * np.minimum(x, 0)),
            Sample([(4,)], lambda x: np.maximum(x, 0) + 0.1 * np.minimum(x, 0), slope=0.1),
            Sample([(4,)], lambda x: np.maximum(x, 0) - 1.5 * np.minimum(x, 0), slope=-1.5),
        ]


@register("hybrid.rrelu")
class RRelu(Sampling):
    """x where it is positive, else slope * x: a random slope for each element in training, their mean else

    The hidden second output is the slope of each element.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> x = mx.nd.array([-1, -1, -1, 2])
    >>> with autograd.train_mode():
    ...     print(mx.nd.rrelu(x).asnumpy().round(3))
    [-0.132 -0.127 -0.253  2.   ]
    >>> print(mx.nd.rrelu(x).asnumpy().round(3))
    [-0.23 -0.23 -0.23  2.  ]
    """

    NNVM = "LeakyReLU"
    lower_bound: float = attribute(0.125, "the least slope")
    upper_bound: float = attribute(0.334, "the greatest slope")
    train: bool | None = attribute(None, "internal: whether autograd is in train mode")
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """As for every operator; in prediction it is the leaky ReLU, without random samples."""
        self = super().bind_values(values)
        if isinstance(self, RRelu) and self.train is False:
            return Leaky.bind(slope=(self.lower_bound + self.upper_bound) / 2)
        return self

    def to_nnvm(self) -> dict[str, Any]:
        return {"act_type": "rrelu", **super().to_nnvm()}

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, key = inputs
        drawn = F.uniform_sample(key, shape=x.shape, dtype=x.dtype, draw=self.draw)
        slope = drawn * (self.upper_bound - self.lower_bound) + self.lower_bound
        return F.maximum(x, 0) + slope * F.minimum(x, 0), slope

    def eager(self, *arrays: Any) -> Any:
        x, key = arrays
        self.infer_type([x.dtype])
        slope = uniform(key, self.draw, x.shape, x.dtype)
        slope *= self.upper_bound - self.lower_bound
        slope += self.lower_bound
        return NUMPY.select(x > 0, x, slope * x), slope

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, slope = values[0], values[1], values[-1]
        positive = F.greater(x, 0)
        return dy * (positive + (1 - positive) * slope)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample(
                [(3, 5)],
                lambda x: np.maximum(x, 0) + 0.3 * np.minimum(x, 0),
                lower_bound=0.2,
                upper_bound=0.4,
            )
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "rrelu: in training, data must be of floating-point numbers, got int8; use .astype('float32')"
        return [((np.ones(3, np.int8),), {"train": True}, text)]


@register("hybrid.elu")
class Elu(Unary):
    """x where it is positive, else slope * (exp(x) - 1)"""

    slope: float = attribute(1.0, "minus the limit for negative x")

    def scalar(self, b: Any, x: Any) -> Any:
        return b.select(x > 0, x, b.expm1(x) * self.slope)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, y = values
        positive = F.greater(x, 0)
        return dy * (positive + (1 - positive) * (F.minimum(y, 0) + self.slope))

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.LeakyReLU(x, act_type="elu", slope=self.slope)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: np.maximum(x, 0) + np.exp(np.minimum(x, 0)) - 1),
            Sample([(4,)], lambda x: np.maximum(x, 0) + 0.3 * (np.exp(np.minimum(x, 0)) - 1), slope=0.3),
        ]


# Klambauer et al., Self-Normalizing Neural Networks: they keep mean 0 and variance 1.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848, 1.0507009873554804934


@register("hybrid.selu")
class Selu(Unary):
    """1.0507 * (x where it is positive, else 1.6733 * (exp(x) - 1))"""

    REFERENCE = meaning(lambda x: _SELU_SCALE * (np.maximum(x, 0) + _SELU_ALPHA * (np.exp(np.minimum(x, 0)) - 1)))

    def scalar(self, b: Any, x: Any) -> Any:
        negative = b.expm1(x) * (_SELU_SCALE * _SELU_ALPHA)
        return b.select(x > 0, x * _SELU_SCALE, negative)

    def gradient(self, F: Any, *values: Any) -> Any:
        # COMPAT(mxnet): that of negative x is scale * alpha * exp(x), which is y + scale * alpha; there it is wrong.
        dy, x, y = values
        positive = F.greater(x, 0)
        negative = F.minimum(y, 0) + _SELU_SCALE * _SELU_ALPHA
        return dy * (positive * _SELU_SCALE + (1 - positive) * negative)

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        return F.LeakyReLU(x, act_type="selu")


@register("hybrid.prelu")
class PRelu(Composite):
    """data where it is positive, else gamma * data; gamma is one number or one for each channel (axis 1)"""

    INPUTS = ("data", "gamma")

    def aligned(self, data: Shape, gamma: Shape) -> Shape:
        """The shape with which gamma broadcasts along axis 1 of data."""
        if not data:
            return ()
        return (*gamma, *[1] * (len(data) - 2)) if len(data) > 1 and gamma != (1,) else gamma

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The data has the shape of the result, gamma has one axis."""
        return [outputs[0] if shapes[0] is None else shapes[0], (-1,) if shapes[1] is None else shapes[1]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, gamma = shapes
        channels = data[1] if len(data) > 1 else 1
        if -1 in gamma:
            gamma = (channels,)
        if gamma not in ((1,), (channels,)):
            raise ShapeError(
                f"LeakyReLU: gamma has shape {gamma}, but data of shape {data} needs "
                f"({channels},), one for each channel, or (1,)"
            )
        return [data, gamma], [data]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, gamma = inputs
        shape = self.aligned(x.shape, gamma.shape)
        gamma = gamma if shape == gamma.shape else F.reshape_to(gamma, shape=shape)
        return F.where(F.greater(x, 0), x, gamma * x)

    def eager(self, *arrays: Any) -> Any:
        x, gamma = arrays
        self.infer_shape([x.shape, gamma.shape])
        return NUMPY.select(x > 0, x, gamma.reshape(self.aligned(x.shape, gamma.shape)) * x)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, gamma, _ = values
        shape = self.aligned(x.shape, gamma.shape)
        positive = F.greater(x, 0)
        slope = F.reshape_to(gamma, shape=shape)

        def dgamma() -> Any:
            return F.reshape_to(F.sum_to(dy * F.minimum(x, 0), shape=shape), shape=gamma.shape)

        return dy * (positive + (1 - positive) * slope), dgamma

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        return F.LeakyReLU(*inputs, act_type="prelu")

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, gamma: Any) -> Any:
            return np.maximum(x, 0) + gamma * np.minimum(x, 0)

        return [
            Sample([(3, 5), (5,)], reference),
            Sample([(2, 3, 4), (1,)], reference),
            Sample([(), (1,)], lambda x, g: reference(x, g[0])),
            Sample([(2, 3, 4), (3,)], lambda x, g: reference(x, g[:, None])),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "LeakyReLU: gamma has shape (2,), but data of shape (2, 3) needs (3,), "
        return [(((2, 3), (2,)), {}, text + "one for each channel, or (1,)")]


class Choice(Composite):
    """An operator that is one of several, by the attribute "act_type" of its subclasses."""

    chosen: Operator

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """As the function that is chosen."""
        return self.chosen.complete_shapes(shapes, outputs)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return self.chosen.infer_shape(shapes)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return invoke_bound(self.chosen, *inputs)

    def eager(self, *arrays: Any) -> Any:
        return self.chosen.eager(*arrays)

    def gradient(self, F: Any, *values: Any) -> Any:
        return self.chosen.gradient(F, *values)


@register("hybrid.activation", "Activation")
class Activation(Choice):
    """The activation function that ``act_type`` names"""

    CHOICES: ClassVar[dict[str, type[Unary]]] = {
        "relu": Relu,
        "sigmoid": Sigmoid,
        "tanh": Tanh,
        "softrelu": Softrelu,
        "softsign": Softsign,
        # COMPAT(mxnet): log_sigmoid, silu and gelu are not values of act_type in MXNet.
        "log_sigmoid": LogSigmoid,
        "silu": Silu,
        "gelu": Gelu,
    }

    NNVM_CHOICES: ClassVar = {"act_type": ("relu", "sigmoid", "tanh", "softrelu", "softsign")}
    act_type: str = attribute(doc="the function", enum=tuple(CHOICES))

    def check(self) -> None:
        self.chosen = self.CHOICES[self.act_type].bind()

    def for_nnvm(self, F: Any, *inputs: Any) -> Any:
        """As the function that is chosen, if its name is no act_type there."""
        return None if self.act_type in self.NNVM_CHOICES["act_type"] else self.chosen.for_nnvm(F, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        made: list[Sample] = []
        for name, choice in cls.CHOICES.items():
            first = choice.samples()[0]
            made.append(Sample(first.inputs, first.reference, act_type=name))
        return made

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "Activation: attribute act_type takes one of " + ", ".join(map(repr, cls.CHOICES)) + ", got 'rleu'"
        return [(((2, 3),), {"act_type": "rleu"}, text)]


@register("hybrid.leaky_relu", "LeakyReLU")
class LeakyReLU(Choice):
    """One of the functions that are the identity for positive x, by ``act_type``"""

    INPUTS = ("data", "gamma")
    OPTIONAL = 1
    NNVM_INITIALIZERS: ClassVar[dict[str, str]] = {"gamma": '["Constant", {"value": 0.25}]'}

    act_type: str = attribute("leaky", "the function", enum=("elu", "gelu", "leaky", "prelu", "rrelu", "selu"))
    slope: float = attribute(0.25, "the slope of leaky and elu for negative x")
    lower_bound: float = attribute(0.125, "the least slope of rrelu")
    upper_bound: float = attribute(0.334, "the greatest slope of rrelu")

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """As for every operator; but rrelu uses random samples, so it is an operator of its own."""
        self = super().bind_values(values)
        return self.chosen if isinstance(self, LeakyReLU) and self.act_type == "rrelu" else self

    def input_names(self) -> tuple[str, ...]:
        return ("data", "gamma") if self.act_type == "prelu" else ("data",)

    def check(self) -> None:
        if self.act_type == "rrelu":
            self.chosen = RRelu.bind(lower_bound=self.lower_bound, upper_bound=self.upper_bound)
        elif self.act_type in ("leaky", "elu"):
            self.chosen = (Leaky if self.act_type == "leaky" else Elu).bind(slope=self.slope)
        else:
            self.chosen = {"gelu": Gelu, "selu": Selu, "prelu": PRelu}[self.act_type].bind()

    @classmethod
    def samples(cls) -> list[Sample]:
        choices: dict[str, type[Operator]] = {
            "leaky": Leaky,
            "elu": Elu,
            "gelu": Gelu,
            "selu": Selu,
            "prelu": PRelu,
        }
        made: list[Sample] = []
        for name, choice in choices.items():
            first = choice.samples()[0]
            attrs: dict[str, Any] = {"slope": 1.0} if name == "elu" else {}
            made.append(Sample(first.inputs, first.reference, act_type=name, **attrs))
        return made
