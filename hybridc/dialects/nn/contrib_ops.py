"""Small operators of ``mx.nd.contrib``, and those that mixed precision training uses."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from hybridc.dialects.array.cast import Copy
from hybridc.dialects.math.reduction import reduce
from hybridc.dialects.math.unary import Rint, Sign, Unary
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float, wide
from hybridc.errors import ShapeError


@register("hybrid.quadratic", "contrib.quadratic")
class Quadratic(Unary):
    """a * x**2 + b * x + c"""

    a: float = attribute(0.0, "factor of the square")
    b: float = attribute(0.0, "factor of x")
    c: float = attribute(0.0, "constant")

    def scalar(self, b: Any, x: Any) -> Any:
        return (x * self.a + self.b) * x + self.c

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * (x * (2 * self.a) + self.b)

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 5)], lambda x: 2 * x**2 - 3 * x + 0.5, a=2, b=-3, c=0.5)]


@register("hybrid.identity_attach_kl_sparse_reg", "IdentityAttachKLSparseReg")
class IdentityAttachKLSparseReg(Composite):
    """A copy of data, results of a sigmoid, whose gradient pulls each unit's mean towards ``sparseness_target``

    The penalty is the Kullback-Leibler divergence of the target rho from the moving average a of the unit (axis 1) over
    the batch; ``penalty * ((1 - rho) / (1 - a) - rho / a)`` is added to the gradient of each element. In training
    ``moving_avg = moving_avg * momentum + mean * (1 - momentum)``.
    """

    INPUTS = ("data", "moving_avg")
    KEYWORD_INPUTS = 1
    TRAIN_MODE = True
    NNVM_INITIALIZERS: ClassVar[dict[str, str]] = {"moving_avg": '["zero", {}]'}
    sparseness_target: float = attribute(0.1, "the wanted mean", low=0, high=1)
    penalty: float = attribute(1e-3, "factor of the penalty")
    momentum: float = attribute(0.9, "how much of the moving average stays", low=0, high=1)
    train: bool | None = attribute(None, "internal: whether this is for training")

    # COMPAT(mxnet): the moving average changes in the forward; there in the backward, each time.
    def mutates(self) -> tuple[int, ...]:
        return (1,) if self.train is not False else ()

    def auxiliary(self) -> tuple[int, ...]:
        return (1,)

    def num_outputs(self) -> int:
        return 1 + len(self.mutated)

    def num_visible_outputs(self) -> int:
        return 1

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """There is one average for each unit."""
        data, average = shapes[0] if shapes[0] is not None else outputs[0], shapes[1]
        return [data, data[1:2] if average is None and data is not None and len(data) > 1 else average]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, average = shapes
        if len(data) < 2 or average not in (data[1:2], (-1,)):
            raise ShapeError(
                f"{self.title()}: data must have shape (N, C, …) and moving_avg (C,), got {data} and {average}"
            )
        return [data, data[1:2]], [data, *[data[1:2]] * len(self.mutated)]

    def _average(self, F: Any, data: Any, moving: Any) -> Any:
        """The moving average after this batch."""
        if not self.mutated:
            return moving
        axes = tuple(i for i in range(len(data.shape)) if i != 1)
        return moving * self.momentum + F.mean(data, axis=axes) * (1 - self.momentum)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, moving = inputs
        self.infer_shape([data.shape, moving.shape])
        y = F.identity(data)
        return (y, self._average(F, data, moving)) if self.mutated else y

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, data, moving, *_ = values
        average = F.BlockGrad(self._average(F, data, moving))
        rho = self.sparseness_target
        pull = ((1 - rho) / (1 - average) - rho / average) * self.penalty
        return dy + F.reshape_to(pull, shape=(1, data.shape[1], *(1,) * (len(data.shape) - 2))), None

    @classmethod
    def samples(cls) -> list[Sample]:
        average = np.array([0.25, 0.5, 0.75])
        return [
            Sample([(4, 3), average], lambda x, _: x, grad=False, train=False),
            Sample([(4, 3, 2), average], lambda x, _: x, grad=False, train=True, low=0.1, high=0.9),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "IdentityAttachKLSparseReg: data must have shape (N, C, …) and moving_avg (C,), got (4, 3) and (2,)"
        return [(((4, 3), (2,)), {}, text)]


@register("hybrid.gradientmultiplier", "contrib.gradientmultiplier")
class GradientMultiplier(Copy):
    """A copy of x; the gradient is multiplied by ``scalar``"""

    scalar_: float = attribute(1.0, "factor of the gradient")
    is_int: bool = attribute(True, "accepted for MXNet's API, without effect")

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0] * self.scalar_

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(3, 5)], lambda x: x, grad=False, scalar=-0.5)]


@register("hybrid.round_ste", "contrib.round_ste")
class RoundSte(Rint):
    """The whole number nearest to x; the gradient passes straight through"""

    STEPS = True

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0]


@register("hybrid.sign_ste", "contrib.sign_ste")
class SignSte(Sign):
    """The sign of x; the gradient passes straight through"""

    STEPS = True

    def gradient(self, F: Any, *values: Any) -> Any:
        return values[0]


@register("hybrid.div_sqrt_dim", "contrib.div_sqrt_dim")
class DivSqrtDim(Composite):
    """data divided by the square root of the size of its last axis"""

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if not shapes[0]:
            raise ShapeError("div_sqrt_dim: data needs at least one axis")
        return shapes, list(shapes)

    def factor(self, shape: Shape) -> float:
        """The factor of the data."""
        return max(shape[-1], 1) ** -0.5

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x,) = inputs
        if is_float(np.dtype(x.dtype)):
            return x * self.factor(x.shape)
        return F.cast(F.cast(x, "float64") * self.factor(x.shape), x.dtype)  # the factor is no integer

    def eager(self, *arrays: Any) -> Any:
        (x,) = arrays
        return np.multiply(x, self.factor(x.shape)).astype(x.dtype, copy=False)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, _ = values
        return dy * self.factor(x.shape)

    @classmethod
    def samples(cls) -> list[Sample]:
        whole = np.array([[-4, 5, 0, 7]], np.int8)
        return [
            Sample([(2, 3, 5)], lambda x: x / np.sqrt(5)),
            Sample([(0, 3)], lambda x: x),
            Sample([whole], lambda _: np.array([[-2, 2, 0, 3]]), grad=False, dtypes=("int8",)),
        ]


def _yes(*_: Any) -> Any:
    return np.array(1)


def _no(*_: Any) -> Any:
    return np.array(0)


def _compared(dtype: DType) -> DType:
    """The dtype in which differences of such numbers are exact enough."""
    return wide(dtype) if is_float(dtype) else np.dtype("float64")


@register("hybrid.allclose", "contrib.allclose")
class AllClose(Composite):
    """1 if all |a - b| <= atol + rtol * |b|, else 0: a scalar of uint8"""

    INPUTS = ("a", "b")
    INPUT_DOCS: ClassVar = {"a": "the numbers", "b": "what they should be, in the same shape and dtype"}

    rtol: float = attribute(1e-5, "relative tolerance")
    atol: float = attribute(1e-8, "absolute tolerance")
    equal_nan: bool = attribute(True, "whether nan equals nan")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if shapes[0] != shapes[1]:
            raise ShapeError(f"allclose: a has shape {shapes[0]} and b {shapes[1]}, which must be equal")
        return shapes, [()]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        self.require_same_dtype(dtypes)
        return dtypes, [np.dtype("uint8")]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        dtype = _compared(np.dtype(inputs[0].dtype))
        a, b = (x if x.dtype == dtype else F.cast(x, dtype) for x in inputs)
        near = F.lesser_equal(F.abs(a - b), F.abs(b) * self.rtol + self.atol) + F.equal(a, b)
        if self.equal_nan:
            near = near + F.isnan(a) * F.isnan(b)
        return F.cast(F.equal(F.reshape_to(F.sum(F.equal(near, 0)), shape=()), 0), "uint8")

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        a, b = (x.astype(_compared(x.dtype), copy=False) for x in arrays)
        return np.array(np.allclose(a, b, self.rtol, self.atol, self.equal_nan), np.uint8)

    @classmethod
    def samples(cls) -> list[Sample]:
        x = np.array([1.0, np.nan, np.inf, 4.0])
        return [
            Sample([x, x], _yes, grad=False),
            Sample([x, x], _no, grad=False, equal_nan=False),
            Sample([x[:1], x[3:]], _no, grad=False),
            Sample([x[:1], x[3:]], _yes, grad=False, atol=3.5),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2,), (3,)), {}, "allclose: a has shape (2,) and b (3,), which must be equal")]


def _all(*_: Any) -> Any:
    return np.ones(1)


def _not_all(*_: Any) -> Any:
    return np.zeros(1)


class AllFinite(Composite):
    """1 if every element of every input is finite, else 0."""

    SAME_DTYPE = False

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(1,)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [np.dtype("float32")]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        result = None
        for x in inputs:
            one = F.cast(F.equal(F.sum(F.equal(F.isfinite(x), 0)), 0), "float32")
            result = one if result is None else result * one
        return result

    def eager(self, *arrays: Any) -> Any:
        return np.array([all(np.isfinite(x).all() for x in arrays)], dtype=np.float32)

    COUNTS: ClassVar[tuple[int, ...]] = (1,)

    @classmethod
    def samples(cls) -> list[Sample]:
        bad = np.array([0.5, np.inf])
        made: list[Sample] = []
        for n in cls.COUNTS:
            made.append(Sample([(2, 3)] * n, _all, grad=False))
            made.append(Sample([(2, 3)] * (n - 1) + [bad], _not_all, grad=False))
        return made


@register("hybrid.all_finite")
class AllFiniteOne(AllFinite):
    """1 if every element is finite, else 0"""

    init_output: bool = attribute(True, "accepted for MXNet's API, without effect")


@register("hybrid.multi_all_finite")
class AllFiniteMany(AllFinite):
    """1 if every element of every input is finite, else 0"""

    NNVM_COUNT = "num_arrays"
    INPUTS = ("data",)
    VARIADIC = True
    COUNTS = (1, 3)

    num_arrays: int = attribute(1, "accepted for MXNet's API, without effect")
    init_output: bool = attribute(True, "accepted for MXNet's API, without effect")


def _nothing(*_: Any) -> Any:
    return ()


@register("hybrid.reset_arrays")
class ResetArrays(Composite):
    """Sets every element of each input to zero, in place; there is no result

    Examples
    --------
    >>> x, y = mx.nd.ones(2), mx.nd.ones((1, 2))
    >>> found = mx.nd.reset_arrays(x, y, num_arrays=2)
    >>> x.tolist(), y.tolist()
    ([0.0, 0.0], [[0.0, 0.0]])
    """

    NNVM_COUNT = "num_arrays"
    INPUTS = ("data",)
    VARIADIC = True
    SAME_DTYPE = False
    PURE = False  # it has an effect alone

    num_arrays: int = attribute(doc="number of arrays", low=1)

    def mutates(self) -> tuple[int, ...]:
        return tuple(range(self.num_arrays))

    def num_outputs(self) -> int:
        return self.num_arrays

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if len(shapes) != self.num_arrays:
            raise ShapeError(f"reset_arrays: got {len(shapes)} arrays, expected num_arrays={self.num_arrays}")
        return shapes, list(shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, list(dtypes)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return tuple(F.zeros_like(x) for x in inputs)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        return tuple(np.zeros_like(x) for x in arrays)

    gradient = no_gradient

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(2, 3), (4,)], _nothing, grad=False, num_arrays=2)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        return [(((2, 3), (4,)), {"num_arrays": 3}, "reset_arrays: got 2 arrays, expected num_arrays=3")]


@register("hybrid.multi_sum_sq")
class MultiSumSq(Composite):
    """The sum of squares of each input, in one array"""

    NNVM_COUNT = "num_arrays"
    INPUTS = ("data",)
    VARIADIC = True

    num_arrays: int = attribute(1, "accepted for MXNet's API, without effect")

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(len(shapes),)]

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.concat(*[F.square_sum(x) for x in inputs], dim=0)

    def eager(self, *arrays: Any) -> Any:
        return np.concatenate([reduce(np.add, x * x, None, False) for x in arrays])

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *inputs, _ = values
        return [x * (F.slice_axis(dy, axis=0, begin=i, end=i + 1) * 2) for i, x in enumerate(inputs)]

    @classmethod
    def samples(cls) -> list[Sample]:
        return [
            Sample([(2, 3), (4,)], lambda x, y: np.array([np.sum(x * x), np.sum(y * y)])),
            Sample([(5,)], lambda x: np.sum(x * x, keepdims=True)),
        ]
