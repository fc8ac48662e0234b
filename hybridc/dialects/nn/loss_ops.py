"""Output layers of MXNet: their gradient is that of a loss, whatever the gradient of the output."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.math.contraction import reshaped
from hybridc.dialects.nn.softmax import log_softmax, softmax
from hybridc.dialects.operator import Bad, Composite, Sample, attribute, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dtypes import is_float
from hybridc.errors import DTypeError, ShapeError
from hybridc.sparse_storage import converted, stype_of


class Output(Composite):
    """An operator with data and labels and the shape and dtype of the data."""

    INPUTS = ("data", "label")
    # COMPAT(mxnet): labels may have another dtype than the data, such as int32.
    SAME_DTYPE = False

    def label_shapes(self, data: Shape) -> tuple[Shape, ...]:
        """The shapes that labels may have; the first is the usual one."""
        return (data,)

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """Labels have their usual shape."""
        data, label = shapes
        return [data, self.label_shapes(data)[0] if data is not None and label is None else label]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """Labels have the dtype of the data, unless they have another."""
        return [dtypes[0] if d is None else d for d in dtypes]

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, label = shapes
        allowed = self.label_shapes(data)
        if -1 in label:
            label = allowed[0]
        if label not in allowed:
            raise ShapeError(
                f"{self.title()}: label has shape {label}, expected "
                + " or ".join(map(str, dict.fromkeys(allowed)))
                + f" for data of shape {data}"
            )
        return [data, label], [data]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        if not is_float(dtypes[0]):
            raise DTypeError(f"{self.title()}: data must be floating-point, got {dtypes[0]}; use .astype('float32')")
        return dtypes, [dtypes[0]]

    def require(self, data: Any, label: Any) -> None:
        """Raise unless the inputs fit."""
        self.infer_shape([data.shape, label.shape])
        self.infer_type([data.dtype, label.dtype])


def one_hot(F: Any, label: Any, classes: int, dtype: Any) -> Any:
    """1 at the class that the label, cut to an integer, names, else 0.

    The classes are a new axis 1 of labels of shape (n,) or (n, d).
    """
    label = F.trunc(label) if is_float(np.dtype(label.dtype)) else label
    label = label if label.dtype == dtype else F.cast(label, dtype)
    number = F.arange(classes, dtype=dtype)
    number = number if len(label.shape) == 1 else F.reshape_to(number, shape=(classes, 1))
    return F.equal(number, F.expand_dims(label, 1))


@register("hybrid.softmax_output", "SoftmaxOutput", "Softmax")
class SoftmaxOutput(Output):
    """softmax(data); its gradient is that of the cross entropy, softmax(data) - one_hot(label)

    The gradient of the output is ignored unless ``out_grad``. Labels are classes, or probabilities in the
    shape of the data.
    """

    grad_scale: float = attribute(1.0, "factor of the gradient")
    ignore_label: float = attribute(-1.0, "examples with this label give no gradient, if use_ignore")
    multi_output: bool = attribute(False, "softmax along axis 1, one label for each position behind it")
    use_ignore: bool = attribute(False, "whether ignore_label counts")
    preserve_shape: bool = attribute(False, "softmax along the last axis, one label for each position before it")
    normalization: str = attribute(
        "null",
        "what the gradient is divided by: the batch size, or the number of labels that count",
        enum=("batch", "null", "valid"),
    )
    # COMPAT(mxnet): there out_grad multiplies with the output itself.
    out_grad: bool = attribute(False, "multiply with the gradient of the output")
    # COMPAT(mxnet): there multi_output ignores smooth_alpha.
    smooth_alpha: float = attribute(0.0, "the share of each label that goes to the other classes", low=0, high=1)

    def rows(self, data: Shape) -> Shape:
        """The shape (examples, classes) or (examples, classes, positions) to work in."""
        if len(data) < 2:
            raise ShapeError(
                f"SoftmaxOutput: data of shape {data} must be (examples, classes); for more axes use "
                "multi_output=True (classes along axis 1) or preserve_shape=True (along the last)"
            )
        if self.multi_output and len(data) > 2:
            return (data[0], data[1], math.prod(data[2:]))
        return (math.prod(data[:-1]), data[-1]) if self.preserve_shape else (data[0], math.prod(data[1:]))

    def label_shapes(self, data: Shape) -> tuple[Shape, ...]:
        rows = self.rows(data)
        if self.multi_output and len(data) > 2:
            return ((rows[0], rows[2]), (data[0], *data[2:]), (rows[0], 1, *data[2:]), data)
        return (data[:-1], data)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        (x, _) = inputs
        if self.multi_output or self.preserve_shape:
            return F.softmax(x, axis=1 if self.multi_output else -1)
        return reshaped(F, F.softmax(reshaped(F, x, self.rows(x.shape)), axis=1), x.shape)

    def eager(self, *arrays: Any) -> Any:
        x, label = arrays
        self.require(x, label)
        rows = x.shape if self.multi_output or self.preserve_shape else self.rows(x.shape)
        wide = (x if x.dtype.itemsize > 2 else x.astype(np.float32)).reshape(rows)
        return (
            softmax(wide, 1 if self.multi_output or not self.preserve_shape else -1)
            .reshape(x.shape)
            .astype(x.dtype, copy=False)
        )

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, label, y = values
        label = label if label.dtype == x.dtype else F.cast(label, x.dtype)
        dx = (y - label) * self.grad_scale if label.shape == x.shape else self.of_classes(F, label, y)
        return (dx * dy if self.out_grad else dx), None

    def of_classes(self, F: Any, label: Any, y: Any) -> Any:
        """The gradient for labels that are classes."""
        rows = self.rows(y.shape)
        if len(rows) == 2 and not self.preserve_shape and math.prod(label.shape) != rows[0]:
            # COMPAT(mxnet): there the first numbers of such labels are the examples' classes, in row-major order.
            raise ShapeError(
                f"SoftmaxOutput: labels of shape {label.shape} are no classes of {rows[0]} examples, for data of shape "
                f"{y.shape}; use multi_output=True (classes along axis 1) or preserve_shape=True (along the last)"
            )
        label = reshaped(F, label, (rows[0], *rows[2:]))
        target = one_hot(F, label, rows[1], y.dtype)
        if self.smooth_alpha:
            share = self.smooth_alpha / max(rows[1] - 1, 1)
            target = target * (1 - self.smooth_alpha - share) + share
        dx = reshaped(F, y, rows) - target
        counts = None
        if self.use_ignore:
            counts = F.not_equal(label, self.ignore_label)
            ignored = F.broadcast_equal(F.expand_dims(label, 1), F.full_like(dx, self.ignore_label))
            dx = F.where(ignored, F.zeros_like(dx), dx)  # whatever they hold
        positions = math.prod(rows[2:])
        if self.normalization == "null":
            dx = dx * (self.grad_scale / max(positions, 1))
        elif self.normalization == "batch" or counts is None:
            dx = dx * (self.grad_scale / max(rows[0] * positions, 1))
        else:
            dx = dx * self.grad_scale / F.maximum(F.sum(counts), 1)
        return reshaped(F, dx, y.shape)

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, axis: Any) -> Any:
            return np.exp(x) / np.exp(x).sum(axis, keepdims=True)

        return [
            Sample([(2, 3), np.array([0.0, 2.0])], lambda x, _: reference(x, 1), grad=False),
            Sample([(2, 3, 2), np.zeros((2, 3))], lambda x, _: reference(x, (1, 2)), grad=False),
            Sample(
                [(2, 3, 2), np.array([[0.0, 2.0], [1.0, 1.0]])],
                lambda x, _: reference(x, 1),
                grad=False,
                multi_output=True,
            ),
            Sample(
                [(2, 2, 3), np.array([[0.0, 2.0], [1.0, 1.0]])],
                lambda x, _: reference(x, 2),
                grad=False,
                preserve_shape=True,
            ),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "SoftmaxOutput: label has shape (3,), expected (2,) or (2, 3) for data of shape (2, 3)"
        axes = "SoftmaxOutput: data of shape (2,) must be (examples, classes); for more axes use "
        axes += "multi_output=True (classes along axis 1) or preserve_shape=True (along the last)"
        return [(((2, 3), (3,)), {}, text), (((2,), (2,)), {}, axes)]


@register("hybrid.softmax_cross_entropy")
class SoftmaxCrossEntropy(Output):
    """The sum over all examples of -log(softmax(data)[label])"""

    def label_shapes(self, data: Shape) -> tuple[Shape, ...]:
        if len(data) != 2:
            raise ShapeError(f"softmax_cross_entropy: data must be (examples, classes), got shape {data}")
        return (data[:1],)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return super().infer_shape(shapes)[0], [(1,)]

    def hot(self, F: Any, x: Any, label: Any) -> Any:
        """The labels one-hot in the dtype of the data."""
        return one_hot(F, label, x.shape[1], x.dtype)

    def index_sizes(self, shapes: Sequence[Shape]) -> Mapping[int, int]:
        return {1: shapes[0][1]}

    def decompose(self, F: Any, *inputs: Any) -> Any:
        x, label = inputs
        return -F.sum(F.log_softmax(x) * self.hot(F, x, label))

    def eager(self, *arrays: Any) -> Any:
        x, label = arrays
        self.require(x, label)
        label = np.trunc(label)
        inside = (label >= 0) & (label < x.shape[1])
        chosen = np.where(inside, label, 0).astype(np.int64)
        logs = log_softmax(x, 1)[np.arange(len(x)), chosen]
        return -np.add.reduce(logs * inside, dtype=x.dtype, keepdims=True)

    def gradient(self, F: Any, *values: Any) -> Any:
        dy, x, label, _ = values
        # COMPAT(mxnet): there a label outside of the classes reads foreign memory for the loss, and has the gradient
        # softmax(data). Here it adds nothing to the loss, and so has no gradient.
        hot = self.hot(F, x, label)
        return (F.softmax(x) * F.sum(hot, 1, True) - hot) * dy, None

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, label: Any) -> Any:
            logs = x - np.log(np.exp(x).sum(1, keepdims=True))
            return -np.sum([row[int(k)] for row, k in zip(logs, label, strict=True)], keepdims=True)

        return [
            Sample([(3, 5), np.array([0.0, 4.0, 2.0])], reference),
            Sample([(2, 3), np.array([2, 1], dtype=np.int32)], reference),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "softmax_cross_entropy: label has shape (3,), expected (2,) for data of shape (2, 3)"
        return [(((2, 3), (3,)), {}, text)]


class Regression(Output):
    """An output whose gradient is a function of output and label, divided by the numbers of an example."""

    grad_scale: Any = 1.0

    def label_shapes(self, data: Shape) -> tuple[Shape, ...]:
        if len(data) < 2 or data[-1] != 1:
            return (data,)
        return (data[:1], data) if len(data) == 2 else (data, data[:-1])

    def eager(self, *arrays: Any) -> Any:
        x, label = arrays
        self.require(x, label)
        return self.value(x)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",) if stype_of(inputs[0]) == "default" else None

    def eager_sparse(self, *arrays: Any) -> Any:
        return self.eager(*(converted(x, "default") for x in arrays))

    def value(self, x: Any) -> Any:
        """The output as a new NumPy array."""
        return x.copy()

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.identity(inputs[0])

    def difference(self, F: Any, y: Any, label: Any) -> Any:
        """The gradient of the loss of one number."""
        return y - label

    def gradient(self, F: Any, *values: Any) -> Any:
        _, x, label, y = values
        label = reshaped(F, label if label.dtype == x.dtype else F.cast(label, x.dtype), x.shape)
        numbers = max(math.prod(x.shape[1:]), 1)
        return self.difference(F, y, label) * (self.grad_scale / numbers), None

    @classmethod
    def samples(cls) -> list[Sample]:
        def reference(x: Any, _: Any) -> Any:
            return 1 / (1 + np.exp(-x)) if cls is LogisticRegressionOutput else x

        return [
            Sample([(2, 3), (2, 3)], reference, grad=False),
            Sample([(2, 1), (2,)], reference, grad=False),
        ]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = f"{cls.title()}: label has shape (2,), expected (2, 3) for data of shape (2, 3)"
        return [(((2, 3), (2,)), {}, text)]


@register("hybrid.linear_regression_output", "LinearRegressionOutput")
class LinearRegressionOutput(Regression):
    """A copy of data; its gradient is that of half the squared difference to the label"""

    grad_scale: float = attribute(1.0, "factor of the gradient")


@register("hybrid.mae_regression_output", "MAERegressionOutput")
class MAERegressionOutput(Regression):
    """A copy of data; its gradient is that of the absolute difference to the label"""

    grad_scale: float = attribute(1.0, "factor of the gradient")

    def difference(self, F: Any, y: Any, label: Any) -> Any:
        return F.greater(y, label) * 2 - 1  # -1 where they are equal


@register("hybrid.logistic_regression_output", "LogisticRegressionOutput")
class LogisticRegressionOutput(Regression):
    """sigmoid(data); its gradient is that of the cross entropy with the label"""

    grad_scale: float = attribute(1.0, "factor of the gradient")

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.sigmoid(inputs[0])

    def value(self, x: Any) -> Any:
        y = np.negative(x)
        np.exp(y, out=y)
        np.add(y, 1.0, out=y)
        return np.divide(1.0, y, out=y)


@register("hybrid.svm_output", "SVMOutput")
class SVMOutput(Output):
    """A copy of data; its gradient is that of a support vector machine's loss, one class against others"""

    margin: float = attribute(1.0, "how far the score of a class must be on its side")
    regularization_coefficient: float = attribute(1.0, "factor of the gradient")
    use_linear: bool = attribute(False, "the hinge loss itself, not its square")

    def label_shapes(self, data: Shape) -> tuple[Shape, ...]:
        if len(data) != 2:
            raise ShapeError(f"SVMOutput: data must be (examples, classes), got shape {data}")
        return (data[:1],)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.identity(inputs[0])

    def eager(self, *arrays: Any) -> Any:
        x, label = arrays
        self.require(x, label)
        return x.copy()

    def gradient(self, F: Any, *values: Any) -> Any:
        _, x, label, _ = values
        label = label if label.dtype == x.dtype else F.cast(label, x.dtype)
        side = one_hot(F, label, x.shape[1], x.dtype) * -2 + 1  # -1 for the label's class, 1 for the others
        missing = x * side + self.margin
        loss = F.greater(missing, 0) if self.use_linear else F.relu(missing) * 2
        return side * loss * self.regularization_coefficient, None

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(2, 3), np.array([0.0, 2.0])], lambda x, _: x, grad=False)]

    @classmethod
    def bad_samples(cls) -> list[Bad]:
        text = "SVMOutput: label has shape (3,), expected (2,) for data of shape (2, 3)"
        return [(((2, 3), (3,)), {}, text)]


@register("hybrid.loss_output", "MakeLoss")
class LossOutput(Composite):
    """A copy of data that is a loss: its gradient is ``grad_scale``, whatever the gradient of the output"""

    grad_scale: float = attribute(1.0, "the gradient")
    valid_thresh: float = attribute(0.0, "numbers above it count for normalization='valid'")
    normalization: str = attribute(
        "null",
        "what the gradient is divided by: the batch size, or how many numbers are above valid_thresh",
        enum=("batch", "null", "valid"),
    )

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, list(shapes)

    def decompose(self, F: Any, *inputs: Any) -> Any:
        return F.identity(inputs[0])

    def eager(self, *arrays: Any) -> Any:
        return arrays[0].copy()

    def gradient(self, F: Any, *values: Any) -> Any:
        x = values[1]
        if self.normalization != "valid":
            divisor = max(x.shape[0], 1) if self.normalization == "batch" else 1
            return F.full_like(x, self.grad_scale / divisor)
        counts = F.maximum(F.sum(F.greater(x, self.valid_thresh)), 1)
        return F.full_like(x, self.grad_scale) / counts

    @classmethod
    def samples(cls) -> list[Sample]:
        return [Sample([(2, 3)], lambda x: x, grad=False), Sample([(0, 3)], lambda x: x, grad=False)]
