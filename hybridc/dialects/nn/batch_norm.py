"""Batch normalization: the operator that updates two of its inputs, the running mean and variance."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from hybridc.communication import communicator
from hybridc.dialects.math.reduction import combined, reduce
from hybridc.dialects.nn.normalization import checked_axis, known_size, misfit
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import WIDE, is_float, is_half, wide
from hybridc.errors import DTypeError, ShapeError

_OTHER_SIZE = (
    "{}: the data has size 3 along the axis, the layer is for 2; change either: gamma has shape (2,), expected (3,) "
    "for data of shape (4, 3)"
)


class BatchNormalization(Composite):
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each channel: each index of ``axis``.

    Outputs are the result, the mean and a form of the variance (``spread_of``), the latter two hidden unless asked for
    and without gradient.
    """

    INFERS_PARTLY = True
    INPUTS = ("data", "gamma", "beta", "moving_mean", "moving_var")
    OUTPUTS = ("output", "mean", "var")
    TRAIN_MODE = True
    SAME_DTYPE = False
    COMPUTES_IN = WIDE
    NNVM_INITIALIZERS: ClassVar[dict[str, str]] = {"moving_mean": '["zero", {}]', "moving_var": '["one", {}]'}

    eps: float = attribute(1e-3, "added to the variance")
    momentum: float = attribute(0.9, "how much of the moving mean and variance stays")
    fix_gamma: bool = attribute(True, "use 1 for gamma; its gradient is 0")
    use_global_stats: bool = attribute(False, "use the moving mean and variance also in training")
    output_mean_var: bool = attribute(False, "also return the mean and the variance or its inverse root")
    axis: Any = 1
    train: Any = None

    def spread_of(self, variance: Any, scale: Any) -> Any:
        """The third output, of the variance and 1 / sqrt(variance + eps)."""
        return scale

    # COMPAT(mxnet): the moving mean and variance change in the forward, as in every other framework; there they change
    # in the backward, so that a forward without one leaves them. And gamma stays as it is with fix_gamma.
    def mutates(self) -> tuple[int, ...]:
        return (3, 4) if self.train is not False and not self.use_global_stats else ()

    def auxiliary(self) -> tuple[int, ...]:
        return (3, 4)

    def num_outputs(self) -> int:
        return 3 + len(self.mutated)

    def num_visible_outputs(self) -> int:
        return 3 if self.output_mean_var else 1

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Everything but the data has one axis, whose size follows from the data."""
        data = shapes[0] if shapes[0] is not None else outputs[0]
        others: list[Shape] = [(-1,) if s is None else s for s in shapes[1:]]
        return [data, *others] if data is None or -1 in data else [*self.infer_shape([data, *others])[0]]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Everything has the dtype of the data, but float32 beside float16 and bfloat16."""
        data = dtypes[0]
        wanted = data if data is None else self._parameter_type(data)
        return [data, *[wanted if d is None else d for d in dtypes[1:]]]

    @staticmethod
    def _parameter_type(data: DType) -> DType:
        return wide(data)

    def _channel_axis(self, data: Shape) -> int:
        return checked_axis(self.title(), self.axis, data)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, *others = shapes
        want = known_size(data[self._channel_axis(data)], others)
        for name, shape in zip(self.INPUTS[1:], others, strict=True):
            if shape not in (want, (-1,)):
                raise ShapeError(
                    f"{self.title()}: {misfit(shape, want)}{name} has shape {shape}, expected {want} for data of shape "
                    f"{data}"
                )
        return [data, want, want, want, want], [data, *[want] * (2 + len(self.mutated))]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        data, *others = dtypes
        if not is_float(data):
            raise DTypeError(f"{self.title()}: data must be floating-point, got {data}; use .astype('float32')")
        want = self._parameter_type(data)
        for name, dtype in zip(self.INPUTS[1:], others, strict=True):
            if dtype != want:
                raise DTypeError(
                    f"{self.title()}: {name} is {dtype}, expected {want} for data of {data}; use .astype('{want}')"
                )
        return dtypes, [data, *[want] * (2 + len(self.mutated))]

    def _axes(self, data: Shape) -> tuple[tuple[int, ...], Shape, int]:
        """The axes that are averaged over, the shape with which channels broadcast, the numbers for each channel."""
        channel = self._channel_axis(data)
        axes = tuple(i for i in range(len(data)) if i != channel)
        return axes, tuple(n if i == channel else 1 for i, n in enumerate(data)), math.prod(data[a] for a in axes)

    def _moments(self, F: Any, x: Any, moving_mean: Any, moving_var: Any) -> tuple[Any, Any]:
        """Mean and variance, to broadcast to the data: in training its own, otherwise the moving ones."""
        axes, aligned, n = self._axes(x.shape)
        if not self.mutated:
            return F.reshape_to(moving_mean, shape=aligned), F.reshape_to(moving_var, shape=aligned)
        mean = self._mean(F, x, axes, n)
        return mean, self._mean(F, F.square(x - mean), axes, n)

    def _mean(self, F: Any, x: Any, axes: tuple[int, ...], n: int) -> Any:
        """The mean over the ``n`` elements of each channel, to broadcast to the data."""
        return combined(F, "sum", x, axes) / max(n, 1)

    def _eager_mean(self, x: Any, axes: tuple[int, ...], n: int) -> Any:
        return reduce(np.add, x, axes, False) / max(n, 1)

    def _same_moments(self, F: Any, x: Any, moving: list[Any], known: tuple[Any, Any]) -> tuple[Any, Any]:
        """The moments in the gradient: computed again, as ``known``, the hidden outputs, would have to be kept."""
        return self._moments(F, x, *moving)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        data, gamma, beta, moving_mean, moving_var = inputs
        _, aligned, _ = self._axes(data.shape)
        channels = (aligned[self._channel_axis(data.shape)],)
        mean, variance = self._moments(F, data, moving_mean, moving_var)
        scale = 1 / F.sqrt(variance + self.eps)
        y = (data - mean) * scale
        if not self.fix_gamma:
            y = y * F.reshape_to(gamma, shape=aligned)
        y = y + F.reshape_to(beta, shape=aligned)
        mean, variance = (F.reshape_to(v, shape=channels) for v in (mean, variance))
        moved = [
            old * self.momentum + new * (1 - self.momentum)
            for old, new in ((moving_mean, mean), (moving_var, variance))
            if self.mutated
        ]
        return (y, mean, self.spread_of(variance, F.reshape_to(scale, shape=channels)), *moved)

    def eager(self, *arrays: Any) -> Any:
        data, gamma, beta, moving_mean, moving_var = arrays
        self.infer_shape([a.shape for a in arrays])
        self.infer_type([a.dtype for a in arrays])
        axes, aligned, n = self._axes(data.shape)
        mean, variance = moving_mean, moving_var
        if self.mutated:
            mean = self._eager_mean(data, axes, n)
            variance = self._eager_mean(np.square(data - mean.reshape(aligned)), axes, n)
            mean, variance = mean.astype(data.dtype, copy=False), variance.astype(data.dtype, copy=False)
        scale = 1 / np.sqrt(variance + data.dtype.type(self.eps))
        y = data - mean.reshape(aligned)
        factor = scale if self.fix_gamma else scale * gamma
        np.multiply(y, factor.reshape(aligned), out=y)
        np.add(y, beta.reshape(aligned), out=y)
        pairs = ((moving_mean, mean), (moving_var, variance)) if self.mutated else ()
        moved = [old * self.momentum + new * (1 - self.momentum) for old, new in pairs]
        return (y, mean.copy(), np.array(self.spread_of(variance, scale)), *moved)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, (data, gamma, _, *moving, _, mean, spread) = values[0], values[self.num_visible_outputs() :][:8]
        axes, aligned, n = self._axes(data.shape)
        if is_half(data.dtype):
            dy, data = F.cast(dy, "float32"), F.cast(data, "float32")
        mean, variance = self._same_moments(F, data, moving, (mean, spread))
        scale = 1 / F.sqrt(variance + self.eps)
        normal = (data - mean) * scale

        def ddata() -> Any:
            dn = dy if self.fix_gamma else dy * F.reshape_to(gamma, shape=aligned)
            if not self.mutated:
                return dn * scale
            slope = self._mean(F, dn * normal, axes, n)
            return (dn - self._mean(F, dn, axes, n) - normal * slope) * scale

        def dgamma() -> Any:
            return F.reshape_to(combined(F, "sum", dy * normal, axes), shape=gamma.shape)

        def dbeta() -> Any:
            return F.reshape_to(combined(F, "sum", dy, axes), shape=gamma.shape)

        return ddata, None if self.fix_gamma else dgamma, dbeta, None, None


@register("hybrid.batch_norm", "BatchNorm")
class BatchNorm(BatchNormalization):
    """(data - mean) / sqrt(variance + eps) * gamma + beta, for each channel: each index of ``axis``

    In training, mean and variance are those of the data, and ``moving = moving * momentum + new * (1 - momentum)``;
    otherwise the moving ones are used. Outputs are the result, the mean and 1 / sqrt(variance + eps), the latter two
    hidden unless asked for and without gradient.
    """

    axis: int = attribute(1, "the axis of the channels")
    cudnn_off: bool = attribute(False, "accepted; it changes nothing")
    min_calib_range: float | None = attribute(None, "accepted; it changes nothing")
    max_calib_range: float | None = attribute(None, "accepted; it changes nothing")
    train: bool | None = attribute(None, "internal: whether this is for training")

    @classmethod
    def samples(cls) -> list[Sample]:
        def predict(x: Any, g: Any, b: Any, m: Any, v: Any) -> Any:
            return (x - m) / np.sqrt(v + 1e-3) * g + b

        def train(x: Any, g: Any, b: Any, *_: Any) -> Any:
            mean, variance = x.mean((0, 2)), x.var((0, 2))
            y = (x - mean[:, None]) / np.sqrt(variance[:, None] + 0.1) * g[:, None] + b[:, None]
            return y, mean, 1 / np.sqrt(variance + 0.1)

        def output(*xs: Any) -> Any:
            return train(*xs)[0]

        def fixed(x: Any, g: Any, b: Any, m: Any, v: Any) -> Any:
            return predict(x, np.ones_like(g), b, m, v)

        moving = [np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 3.0])]  # whole numbers: states have no gradient
        shapes = [(4, 3), (3,), (3,), *moving]
        images = [(4, 3, 2), (3,), (3,), *moving]
        training: dict[str, Any] = {"fix_gamma": False, "eps": 0.1, "momentum": 0.5, "train": True}
        return [
            Sample(shapes, predict, fix_gamma=False),
            Sample([(4, 3), (3,), (3,), *moving], fixed, axis=-1, grad=False),
            Sample(shapes, predict, fix_gamma=False, use_global_stats=True, train=True),
            Sample(images, output, **training),
            Sample(images, train, output_mean_var=True, grad=False, **training),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        stats = ((3,), (3,), (3,))
        text = _OTHER_SIZE.format("BatchNorm")
        axis = "BatchNorm: axis 2 is out of range for data of 2 dimensions; it must be from -2 to 1"
        return [(((4, 3), (2,), *stats), {}, text), (((4, 3), (3,), *stats), {"axis": 2}, axis)]


@register("hybrid.batch_norm_with_relu", "contrib.BatchNormWithReLU")
class BatchNormWithReLU(BatchNorm):
    """BatchNorm, and 0 instead of what is negative"""

    # COMPAT(mxnet): data of any number of axes and any float dtype; there four of float32.
    def decompose(self, F: Any, *inputs: Any) -> Any:
        y, *others = super().decompose(F, *inputs)
        return (F.relu(y), *others)

    def eager(self, *arrays: Any) -> Any:
        y, *others = super().eager(*arrays)
        return (np.maximum(y, y.dtype.type(0)), *others)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, *others = values
        y = values[self.num_visible_outputs() + 5]
        return super().gradient(F, dy * F.greater(y, 0), *others)

    def nnvm_outputs(self) -> int:
        """Where the result is positive is a further hidden output there."""
        return super().nnvm_outputs() + 1

    @classmethod
    def samples(cls) -> list[Sample]:
        def rectified(x: Any, g: Any, b: Any, *_: Any) -> Any:
            mean, variance = x.mean((0, 2)), x.var((0, 2))
            y = (x - mean[:, None]) / np.sqrt(variance[:, None] + 0.1) * g[:, None] + b[:, None]
            return np.maximum(y, 0)

        def predicted(x: Any, _: Any, b: Any, m: Any, v: Any) -> Any:
            return np.maximum((x - m) / np.sqrt(v + 1e-3) + b, 0)

        moving = [np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 3.0])]
        training: dict[str, Any] = {"fix_gamma": False, "eps": 0.1, "train": True}
        return [
            Sample([(4, 3, 2), (3,), (3,), *moving], rectified, **training),
            Sample([(4, 3), (3,), (3,), *moving], predicted, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = _OTHER_SIZE.format("BatchNormWithReLU")
        return [(((4, 3), (2,), (3,), (3,), (3,)), {}, text)]


@register("hybrid.batch_norm_v1", "BatchNorm_v1")
class BatchNormV1(BatchNormalization):
    """BatchNorm along axis 1, with the variance instead of 1 / sqrt(variance + eps) as the third output: an old form"""

    KEYWORD_INPUTS = 2
    # COMPAT(mxnet): data of any number of axes and any float dtype; there two or four of float32.
    train: bool | None = attribute(None, "internal: whether this is for training")

    def spread_of(self, variance: Any, scale: Any) -> Any:
        return variance

    @classmethod
    def samples(cls) -> list[Sample]:
        return along_axis_1()

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = _OTHER_SIZE.format("BatchNorm_v1")
        return [(((4, 3), (2,), (3,), (3,), (3,)), {}, text)]


def along_axis_1(**attrs: Any) -> list[Sample]:
    """Samples of operators that return the variance."""

    def all_three(x: Any, g: Any, b: Any, *_: Any) -> Any:
        mean, variance = x.mean((0, 2)), x.var((0, 2))
        y = (x - mean[:, None]) / np.sqrt(variance[:, None] + 0.1) * g[:, None] + b[:, None]
        return y, mean, variance

    def first(*xs: Any) -> Any:
        return all_three(*xs)[0]

    def predicted(x: Any, _: Any, b: Any, m: Any, v: Any) -> Any:
        return (x - m) / np.sqrt(v + 1e-3) + b, m, v

    moving = [np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 3.0])]
    training: dict[str, Any] = {"fix_gamma": False, "eps": 0.1, "train": True, **attrs}
    return [
        Sample([(4, 3, 2), (3,), (3,), *moving], first, **training),
        Sample([(4, 3, 2), (3,), (3,), *moving], all_three, output_mean_var=True, grad=False, **training),
        Sample([(4, 3), (3,), (3,), *moving], predicted, grad=False, output_mean_var=True, **attrs),
    ]


@register("hybrid.sync_batch_norm", "contrib.SyncBatchNorm")
class SyncBatchNorm(BatchNormalization):
    """BatchNorm along axis 1, with the variance instead of 1 / sqrt(variance + eps) as the third output

    With ``ndev`` above 1 mean and variance are those of the batches of all ranks of the program.
    """

    ndev: int = attribute(1, "number of ranks that share a batch; from 2 on they exchange sums", low=1)
    key_: str = attribute(doc="the name under which devices share statistics; it changes nothing")
    train: bool | None = attribute(None, "internal: whether this is for training")

    def spread_of(self, variance: Any, scale: Any) -> Any:
        return variance

    def _mean(self, F: Any, x: Any, axes: tuple[int, ...], n: int) -> Any:
        if self.ndev == 1:
            return super()._mean(F, x, axes, n)
        total = combined(F, "sum", x, axes)
        channels = math.prod(total.shape)
        count = F.zeros(shape=(1,), dtype=np.dtype(x.dtype).name) + n
        sums = F._allreduce(F.concat(F.reshape_to(total, shape=(channels,)), count, dim=0), ranks=self.ndev)
        mean = F.slice_axis(sums, axis=0, begin=0, end=channels) / F.maximum(
            F.slice_axis(sums, axis=0, begin=channels, end=channels + 1), 1
        )
        return F.reshape_to(mean, shape=total.shape)

    def _eager_mean(self, x: Any, axes: tuple[int, ...], n: int) -> Any:
        if self.ndev == 1:
            return super()._eager_mean(x, axes, n)
        sums = np.append(reduce(np.add, x, axes, False), x.dtype.type(n))
        communicator().allreduce(sums)
        return sums[:-1] / max(sums[-1], 1)

    def _same_moments(self, F: Any, x: Any, moving: list[Any], known: tuple[Any, Any]) -> tuple[Any, Any]:
        if self.ndev == 1 or not self.mutated:
            return super()._same_moments(F, x, moving, known)
        _, aligned, _ = self._axes(x.shape)
        mean, variance = (F.reshape_to(v, shape=aligned) for v in known)  # without exchanging them once more
        return mean, variance

    @classmethod
    def samples(cls) -> list[Sample]:
        return along_axis_1(key="n")

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = _OTHER_SIZE.format("SyncBatchNorm")
        return [
            (((4, 3), (2,), (3,), (3,), (3,)), {"key": "n"}, text),
            (((4, 3), (3,), (3,), (3,), (3,)), {},
             "SyncBatchNorm: attribute key is required; it takes a string"),
        ]  # fmt: skip
