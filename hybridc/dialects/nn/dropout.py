"""Operators that use random samples while training: Dropout, and their base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.cast import Identity
from hybridc.dialects.handwritten import ArraySpec, Kernel
from hybridc.dialects.kernels import philox
from hybridc.dialects.operator import Composite, Opaque, Operator, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import Axes, DType, Shape
from hybridc.dtypes import computed, is_float
from hybridc.errors import DTypeError, ShapeError
from hybridc.random import generator


def uniform(key: Any, draw: int, shape: Shape, dtype: DType) -> Any:
    """Uniform numbers in [0, 1) of the draw that ``key`` and ``draw`` name."""
    if dtype.itemsize == 8:
        return generator(key, draw).random(shape)
    return generator(key, draw).random(shape, np.float32).astype(dtype, copy=False)


@register("hybrid.uniform_sample")
class UniformSample(Opaque):
    """Uniform numbers in [0, 1) of the draw that a key names: what the operators here decompose into

    They are those of :func:`hybridc.random.generator`: Philox with the key's first word as key, and its second plus
    the number of the draw as the counter's highest word; 24 bits for single and half precision, 53 for double.

    Examples
    --------
    >>> key = mx.nd.array([1, 2], dtype="uint64")
    >>> print(mx.nd.uniform_sample(key, shape=(2, 3)).asnumpy().round(2))
    [[0.45 0.75 0.75]
     [0.95 0.06 0.78]]
    """

    gradient = no_gradient

    INPUTS = ("key",)
    INPUT_DOCS: ClassVar = {"key": "two unsigned integers of 64 bits that name the stream of random numbers"}
    SAME_DTYPE = False

    shape: Shape = attribute(doc="the shape of the result")
    dtype: DType = attribute("float32", "the floating-point dtype of the result")
    draw: int = attribute(0, "tells the uses of one key apart")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.shape]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype]

    def kernel(self, target: str, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> Kernel | None:
        return philox.uniform(target, outputs[0], self.draw)

    def eager(self, *arrays: Any) -> Any:
        return uniform(arrays[0], self.draw, self.shape, self.dtype)


class Sampling(Composite):
    """Shape and dtype of an operator with one input, a key, and one hidden output."""

    INPUTS = ("data", "key")
    DRAWS = True
    TRAIN_MODE = True
    SAME_DTYPE = False

    def num_outputs(self) -> int:
        return 2

    def num_visible_outputs(self) -> int:
        return 1

    def hidden_shape(self, shape: Shape) -> Shape:
        """The shape of the hidden output."""
        return shape

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """The data has the shape of the result."""
        return [outputs[0] if shapes[0] is None else shapes[0], *shapes[1:]]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [shapes[0], self.hidden_shape(shapes[0])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(
                f"{self.title()}: in training, data must be of floating-point numbers, got {dtypes[0]}; "
                "use .astype('float32')"
            )
        return dtypes, [dtypes[0]] * 2


@register("hybrid.dropout", "Dropout")
class Dropout(Sampling):
    """In training, elements are set to 0 with probability p and the others divided by 1 - p; else a copy

    The hidden second output is the factor of each element: 0 or 1 / (1 - p).

    Examples
    --------
    >>> mx.random.seed(0)
    >>> x = mx.nd.ones((2, 4))
    >>> with autograd.train_mode():
    ...     print(mx.nd.Dropout(x, p=0.5).asnumpy())
    [[0. 0. 2. 0.]
     [0. 0. 0. 2.]]
    >>> print(mx.nd.Dropout(x, p=0.5).asnumpy())
    [[1. 1. 1. 1.]
     [1. 1. 1. 1.]]
    """

    p: float = attribute(0.5, "the probability of 0", low=0, high=1)
    mode: str = attribute("training", "when elements are dropped", enum=("always", "training"))
    axes: Axes = attribute((), "axes along which all elements are dropped together")
    cudnn_off: bool | None = attribute(False, "accepted for MXNet's API, without effect")
    train: bool | None = attribute(None, "internal: whether autograd is in train mode")
    draw: int = attribute(0, "internal: tells the uses in one graph apart")

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """As for every operator; the identity, without random samples, if nothing is dropped."""
        self = super().bind_values(values)
        if isinstance(self, Dropout) and (self.p == 0 or (self.train is False and self.mode == "training")):
            return Identity.bind()
        return self

    def hidden_shape(self, shape: Shape) -> Shape:
        rank = len(shape)
        for a in self.axes:
            if not -rank <= a < rank:
                raise ShapeError(
                    f"Dropout: axes {self.axes} are out of range for an input of {rank} dimensions; "
                    f"each must be from {-rank} to {rank - 1}"
                )
        shared = {a % rank for a in self.axes}
        return tuple(1 if i in shared else n for i, n in enumerate(shape))

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, key = inputs
        dtype = computed(np.dtype(x.dtype))
        drawn = F.uniform_sample(key, shape=self.hidden_shape(x.shape), dtype=dtype, draw=self.draw)
        kept = F.greater_equal(drawn, self.p)
        factor = (kept if dtype == x.dtype else F.cast(kept, x.dtype)) * self.scale
        return x * factor, factor

    def check(self) -> None:
        self.scale = 1 / (1 - self.p) if self.p < 1 else 0.0

    def eager(self, *arrays: Any) -> Any:
        x, key = arrays
        drawn = uniform(key, self.draw, self.hidden_shape(x.shape), x.dtype)
        factor = np.greater_equal(drawn, x.dtype.type(self.p)).astype(x.dtype)
        factor *= self.scale
        return x * factor, factor

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, factor = values[0], values[-1]
        return dy * factor

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(3, 5)], lambda x: x, p=0.5),
            Sample([(2, 3, 4)], lambda x: x, p=0.0, mode="always"),
            Sample([(2, 3)], lambda x: 0 * x, p=1.0, mode="always"),
        ]
