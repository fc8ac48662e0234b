"""Random choices among given things: categories by their probabilities, and the order of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc import random
from hybridc.dialects.operator import Bad, Opaque, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import AttributeValueError, ShapeError


@register("hybrid.sample_multinomial", "_sample_multinomial", "random.multinomial")
class SampleMultinomial(Opaque):
    """Indices drawn by the probabilities in each row of data; with ``get_prob``, also their logarithms.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> p = mx.nd.array([[0.1, 0.9], [0.5, 0.5]])
    >>> print(mx.nd.sample_multinomial(p, shape=8).asnumpy())
    [[0 1 1 1 1 1 1 1]
     [0 0 1 0 1 0 1 1]]
    """

    NNVM = "_sample_multinomial"
    INPUTS = ("data", "key")
    DRAWS = True
    SAME_DTYPE = False
    shape: Shape = attribute((), "shape of the draws of one row")
    get_prob: bool = attribute(False, "also return the logarithm of the probability of each draw")
    dtype: DType = attribute("int32", "dtype of the indices")
    draw: int = attribute(0, "internal: which use of the key this is")

    def num_outputs(self) -> int:
        return 2 if self.get_prob else 1

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data = shapes[0]
        if not data or not data[-1]:
            raise ShapeError(f"sample_multinomial: data must have rows of probabilities, got shape {data}")
        return shapes, [(*data[:-1], *self.shape) or (1,)] * self.num_outputs()

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [self.dtype, dtypes[0]][: self.num_outputs()]

    def eager(self, *arrays: Any) -> Any:
        data, key = arrays
        shape = self.infer_shape([data.shape, key.shape])[1][0]
        rows: Any = data.reshape(-1, data.shape[-1]).astype(np.float64)
        sums = np.cumsum(rows, 1)
        each = math.prod(self.shape)
        unit = random.generator(key, self.draw).random((rows.shape[0], each))
        # All rows at once: row i of the cumulated probabilities lies between i and i + 1.
        offset = np.array(range(rows.shape[0]), np.int64).reshape(-1, 1)
        found: Any = np.searchsorted((sums / sums[:, -1:] + offset).reshape(-1), (unit + offset).reshape(-1), "right")
        chosen = np.minimum(found.reshape(unit.shape) - offset * rows.shape[1], rows.shape[1] - 1)
        indices = chosen.reshape(shape).astype(self.dtype)
        if not self.get_prob:
            return indices
        logs = np.log(np.take_along_axis(rows, chosen, 1)).reshape(shape).astype(data.dtype)
        return indices, logs

    def gradient(self, F: Any, *values: Any) -> Any:
        if not self.get_prob:
            return None
        _, dlog, data, _, indices, _ = values
        rows = math.prod(data.shape[:-1])
        flat = (rows, math.prod(indices.shape) // rows if rows else 0)
        size = data.shape[-1]
        chosen = F.reshape_to(indices, shape=flat)
        chances = F.take_along_axis(F.reshape_to(data, shape=(rows, size)), chosen, axis=1)
        slopes = F.reshape_to(dlog, shape=flat) / chances
        return F.reshape_to(F.scatter_along_axis(slopes, chosen, size=size, axis=1), shape=data.shape)

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "sample_multinomial: data must have rows of probabilities, got shape (2, 0)"
        return [(((2, 0),), {}, text)]


@register("hybrid.shuffle", "random.shuffle", "_shuffle")
class Shuffle(Opaque):
    """The slices along the first axis in random order

    Examples
    --------
    >>> mx.random.seed(0)
    >>> print(mx.nd.shuffle(mx.nd.array([[0, 1], [2, 3], [4, 5]])).asnumpy())
    [[2. 3.]
     [4. 5.]
     [0. 1.]]
    """

    gradient = no_gradient

    NNVM = "_shuffle"
    INPUTS = ("data", "key")
    DRAWS = True
    SAME_DTYPE = False
    draw: int = attribute(0, "internal: which use of the key this is")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if not shapes[0]:
            raise ShapeError("shuffle: data needs at least one axis")
        return shapes, [shapes[0]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def eager(self, *arrays: Any) -> Any:
        x, key = arrays
        self.infer_shape([x.shape])
        return x[random.generator(key, self.draw).permutation(x.shape[0])]


@register("hybrid.sample_unique_zipfian", "_sample_unique_zipfian")
class SampleUniqueZipfian(Opaque):
    """Rows of different classes, drawn from a log-uniform distribution, and how many draws each row took

    Class k of ``range_max`` has the probability log((k + 2) / (k + 1)) / log(range_max + 1).

    Examples
    --------
    >>> mx.random.seed(0)
    >>> classes, draws = mx.nd.sample_unique_zipfian(100, shape=(1, 5))
    >>> print(classes.asnumpy(), draws.asnumpy())
    [[ 0  2 12  9 77]] [7]
    """

    gradient = no_gradient

    NNVM = "_sample_unique_zipfian"
    INPUTS = ("key",)
    DRAWS = True
    SAME_DTYPE = False
    range_max: int = attribute(doc="number of classes", low=1)
    shape: Shape = attribute(doc="(rows, classes in each row)")
    draw: int = attribute(0, "internal: which use of the key this is")

    def check(self) -> None:
        if len(self.shape) != 2 or self.shape[1] > self.range_max:
            raise ShapeError(
                f"_sample_unique_zipfian: shape={self.shape} must be (rows, n), with n of at most {self.range_max}"
            )

    def num_outputs(self) -> int:
        return 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [self.shape, self.shape[:1]]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype("int64")] * 2

    def eager(self, *arrays: Any) -> Any:
        rng = random.generator(arrays[0], self.draw)
        rows, size = self.shape
        classes, counts = np.zeros((rows, size), np.int64), np.zeros(rows, np.int64)
        for i in range(rows):
            found: dict[int, None] = {}  # in the order of the draws
            while len(found) < size:
                found[int(math.exp(rng.random() * math.log(self.range_max + 1))) - 1] = None
                counts[i] += 1
            classes[i] = list(found)
        return classes, counts

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "_sample_unique_zipfian: shape=(2, 5) must be (rows, n), with n of at most 4"
        return [((), {"range_max": 4, "shape": (2, 5)}, text)]


@register("hybrid._multinomial_counts")
class MultinomialCounts(Opaque):
    """How often each outcome comes in ``n`` trials, by the probabilities in data; what they lack of 1 is the last's"""

    gradient = no_gradient

    INPUTS = ("data", "key")
    DRAWS = True
    SAME_DTYPE = False
    n: int = attribute(doc="number of trials", low=0)
    shape: Shape = attribute((), "shape of the repetitions")
    draw: int = attribute(0, "internal: which use of the key this is")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if len(shapes[0]) != 1 or not shapes[0][0]:
            raise ShapeError(f"_multinomial_counts: data must be a vector of probabilities, got shape {shapes[0]}")
        return shapes, [(*self.shape, *shapes[0])]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype("int64")]

    def eager(self, *arrays: Any) -> Any:
        data, key = arrays
        self.infer_shape([data.shape, key.shape])
        chances = data.astype(np.float64)
        total = chances.sum()
        if total > 1:  # by rounding, if they are of float32
            if total > 1 + 1e-5:
                raise AttributeValueError(f"_multinomial_counts: the probabilities in data sum to {total}, more than 1")
            chances = chances / total
        return random.generator(key, self.draw).multinomial(self.n, chances, self.shape or None).astype(np.int64)

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "_multinomial_counts: data must be a vector of probabilities, got shape (2, 2)"
        return [(((2, 2),), {"n": 3}, text)]
