"""Errors for names that are missing here: what they are in MXNet, PyTorch or Keras, what to use, or similar names."""

from __future__ import annotations

import difflib
import re
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from hybridc.errors import AbsentError
from hybridc.ground.location import user_depth

# What hybridc lacks of MXNet: a pattern of names, what they are, and the way out.
_FAMILIES = [
    (r"numpy_op_fallback", "operators of mx.np that call NumPy", "; mx.np has functions of their names"),
    (r"th|torch", "functions of Torch for Lua", "; mx.nd.from_dlpack takes tensors of PyTorch"),
    (r"tvmop|api", "MXNet's second interface to C", "; its functions are those of mx.nd"),
    (r"notebook", "charts of training in notebooks", "; mx.callback has what is called after each batch and epoch"),
    (r"quantized_rnn", "this quantized operator", "; RNN on real numbers is here"),
    (r"imdecode|imresize", "this operator", "; mx.image has functions of this name"),
]  # fmt: skip


# Operators of MXNet that hybridc lacks: by kind, the beginnings of their names, and what they are.
_INTERNAL = ("_CachedOp", "_CustomFunction", "_NDArray", "_Native", "_NoGradient", "_broadcast_backward")
_HANDLES = ("_imperative_invoke", "_set_ndarray_class", "_set_np_ndarray_class")
_OF_BACKWARD = ("_split_v2_backward", "_backward_", "_contrib_backward_")
_LACKING = {
    "mkldnn": (("_sg_mkldnn_", "_contrib_quantized_rnn"), "was made for MKL-DNN"),
    "arrays": (("_cv", "_npi_cv", "_imdecode", "_onehot_encode", "_set_value"), "is a function of arrays"),
    "running": ((*_INTERNAL, *_HANDLES, *_OF_BACKWARD), "exists in a running MXNet only"),
}  # fmt: skip


# --- names of PyTorch and Keras ---------------------------------------------------------------------------------------

# By the kind of thing that was asked for the name; what is said follows "here that is".
_ARRAY = {
    "numpy": "x.asnumpy()",
    "cuda": "x.as_in_context(mx.gpu())",
    "cpu": "x.as_in_context(mx.cpu())",
    "to": "x.as_in_context(context), or x.astype(dtype)",
    "device": "x.context",
    "view": "x.reshape(shape)",
    "permute": "x.transpose(axes)",
    "unsqueeze": "x.expand_dims(axis)",
    "requires_grad": "x.attach_grad(), before autograd.record()",
    "requires_grad_": "x.attach_grad(), before autograd.record()",
    "zero_": "x[:] = 0",
    "float": 'x.astype("float32")',
    "double": 'x.astype("float64")',
    "half": 'x.astype("float16")',
    "long": 'x.astype("int64")',
    "int": 'x.astype("int32")',
    "t": "x.T",
    "dim": "x.ndim",
    "numel": "x.size",
    "contiguous": "x itself",
    "clone": "x.copy()",
    "clamp": "x.clip(a_min, a_max)",
    "eq": "x == y",
    "ne": "x != y",
    "mm": "mx.nd.dot(x, y)",
    "bmm": "mx.nd.batch_dot(x, y)",
    "matmul": "mx.nd.dot(x, y), or mx.nd.batch_dot of several matrices",
    "masked_fill": "mx.nd.where(mask, value, x)",
    "gather": "mx.nd.pick, mx.nd.take or mx.nd.gather_nd",
}
_BLOCK = {
    "parameters": "net.collect_params().values()",
    "named_parameters": "net.collect_params().items()",
    "state_dict": "net.save_parameters(file), or net.collect_params()",
    "load_state_dict": "net.load_parameters(file)",
    "trainable": 'net.collect_params().setattr("grad_req", "null"), or "write"',
    "load_weights": "net.load_parameters(file)",
    "save_weights": "net.save_parameters(file)",
    "train": "autograd.record(): layers behave as in training inside it alone",
    "eval": "a call outside autograd.record(), where layers behave as in prediction",
    "to": "net.collect_params().reset_ctx(context), or net.cast(dtype)",
    "cuda": "net.collect_params().reset_ctx(mx.gpu())",
    "cpu": "net.collect_params().reset_ctx(mx.cpu())",
    "half": 'net.cast("float16")',
    "float": 'net.cast("float32")',
    "double": 'net.cast("float64")',
    "requires_grad_": 'net.collect_params().setattr("grad_req", "null") or "write"',
    "fit": "a loop over batches, see docs/training.md, or gluon.contrib.estimator.Estimator(net, loss).fit",
    "predict": "net(x)",
    "evaluate": "a loop over batches with a metric, or gluon.contrib.estimator.Estimator",
    "layers": "net[i] of a Sequential",
    "children": "net[i] of a Sequential",
    "weights": "net.collect_params()",
    "trainable_weights": "net.collect_params()",
    "get_weights": "net.collect_params()",
    "build": "net.initialize(); sizes follow from the first call",
}
_NN = {
    "Linear": "nn.Dense(out_features)",
    "Module": "gluon.HybridBlock",
    "Layer": "gluon.HybridBlock",
    "Model": "gluon.HybridBlock",
    "ModuleList": "nn.HybridSequential",
    "Parameter": "self.params.get(name, shape=shape) in a block",
    "ReLU": 'nn.Activation("relu")',
    "Sigmoid": 'nn.Activation("sigmoid")',
    "Tanh": 'nn.Activation("tanh")',
    "Softplus": 'nn.Activation("softrelu")',
    "Softmax": "nn.HybridLambda(lambda F, x: F.softmax(x))",
    "Conv1d": "nn.Conv1D(out_channels, kernel_size)",
    "Conv2d": "nn.Conv2D(out_channels, kernel_size)",
    "Conv3d": "nn.Conv3D(out_channels, kernel_size)",
    "ConvTranspose2d": "nn.Conv2DTranspose(out_channels, kernel_size)",
    "BatchNorm1d": "nn.BatchNorm()",
    "BatchNorm2d": "nn.BatchNorm()",
    "BatchNorm3d": "nn.BatchNorm()",
    "BatchNormalization": "nn.BatchNorm()",
    "LayerNormalization": "nn.LayerNorm()",
    "MaxPool2d": "nn.MaxPool2D()",
    "AvgPool2d": "nn.AvgPool2D()",
    "AdaptiveAvgPool2d": "nn.GlobalAvgPool2D(), or F.contrib.AdaptiveAvgPooling2D",
    "GlobalAveragePooling2D": "nn.GlobalAvgPool2D()",
    "MaxPooling2D": "nn.MaxPool2D()",
    "LSTM": "gluon.rnn.LSTM",
    "GRU": "gluon.rnn.GRU",
    "RNN": "gluon.rnn.RNN",
    "LSTMCell": "gluon.rnn.LSTMCell",
    "GRUCell": "gluon.rnn.GRUCell",
    "MultiheadAttention": "F.contrib.interleaved_matmul_selfatt_qk and its like, or F.batch_dot and F.softmax",
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "NLLLoss": "gluon.loss.SoftmaxCrossEntropyLoss(from_logits=True)",
    "BCELoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss(from_sigmoid=True)",
    "BCEWithLogitsLoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "MSELoss": "gluon.loss.L2Loss(), half of the square",
    "L1Loss": "gluon.loss.L1Loss()",
    "functional": "F in hybrid_forward, or mx.nd",
    "Upsample": "F.UpSampling, or F.contrib.BilinearResize2D",
    "UpSampling2D": "F.UpSampling",
    "Input": "nothing: a network takes the arrays that it is called with",
}
_LOSS = {
    "CrossEntropyLoss": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "SparseCategoricalCrossentropy": "gluon.loss.SoftmaxCrossEntropyLoss()",
    "CategoricalCrossentropy": "gluon.loss.SoftmaxCrossEntropyLoss(sparse_label=False)",
    "BinaryCrossentropy": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "BCEWithLogitsLoss": "gluon.loss.SigmoidBinaryCrossEntropyLoss()",
    "MSELoss": "gluon.loss.L2Loss(), half of the square",
    "MeanSquaredError": "gluon.loss.L2Loss(), half of the square",
    "MeanAbsoluteError": "gluon.loss.L1Loss()",
    "SmoothL1Loss": "gluon.loss.HuberLoss()",
}
_ND = {
    "tensor": "mx.nd.array(values)",
    "from_numpy": "mx.nd.array(values), or mx.nd.from_numpy",
    "cat": "mx.nd.concat(*arrays, dim=axis)",
    "randn": "mx.nd.random.normal(shape=shape)",
    "rand": "mx.nd.random.uniform(shape=shape)",
    "randint": "mx.nd.random.randint(low, high, shape)",
    "mm": "mx.nd.dot(x, y)",
    "matmul": "mx.nd.dot(x, y), or mx.nd.batch_dot of several matrices",
    "bmm": "mx.nd.batch_dot(x, y)",
    "view": "x.reshape(shape)",
    "permute": "mx.nd.transpose(x, axes)",
    "unsqueeze": "mx.nd.expand_dims(x, axis)",
    "einsum": "mx.np.einsum",
}
_AUTOGRAD = {
    "no_grad": "autograd.pause(); nothing is recorded outside autograd.record()",
    "inference_mode": "autograd.pause(); nothing is recorded outside autograd.record()",
    "enable_grad": "autograd.record()",
    "GradientTape": "autograd.record(), and backward() of its result",
    "Variable": "x.attach_grad(), before autograd.record()",
}
_MX = {
    "no_grad": _AUTOGRAD["no_grad"],
    "tensor": "mx.nd.array(values)",
    "array": "mx.nd.array(values)",
    "zeros": "mx.nd.zeros(shape)",
    "ones": "mx.nd.ones(shape)",
    "arange": "mx.nd.arange(stop)",
    "randn": "mx.nd.random.normal(shape=shape)",
    "rand": "mx.nd.random.uniform(shape=shape)",
    "manual_seed": "mx.random.seed(seed)",
    "set_seed": "mx.random.seed(seed)",
    "save": "mx.nd.save(file, arrays)",
    "load": "mx.nd.load(file)",
    "nn": "mx.gluon.nn",
    "optim": "mx.optimizer, by gluon.Trainer",
    "optimizers": "mx.optimizer, by gluon.Trainer",
    "layers": "mx.gluon.nn",
    "losses": "mx.gluon.loss",
    "utils": "mx.gluon.utils, and gluon.data for data",
    "cat": "mx.nd.concat(*arrays, dim=axis)",
    "matmul": "mx.nd.dot(x, y)",
    "float32": '"float32", or np.float32',
    "float16": '"float16", or np.float16',
    "int64": '"int64", or np.int64',
    "compile": "net.hybridize()",
    "cuda": "mx.gpu(), mx.num_gpus()",
    "device": "mx.cpu() or mx.gpu()",
    "Tensor": "mx.nd.NDArray",
}
_INIT = {
    "xavier_uniform_": "mx.init.Xavier()",
    "xavier_normal_": 'mx.init.Xavier("gaussian", "avg", 1)',
    "kaiming_uniform_": 'mx.init.Xavier("uniform", "in", 6)',
    "kaiming_normal_": 'mx.init.Xavier("gaussian", "in", 2)',
    "GlorotUniform": "mx.init.Xavier()",
    "GlorotNormal": 'mx.init.Xavier("gaussian", "avg", 1)',
    "HeNormal": 'mx.init.Xavier("gaussian", "in", 2)',
    "HeUniform": 'mx.init.Xavier("uniform", "in", 6)',
    "RandomNormal": "mx.init.Normal(sigma)",
    "RandomUniform": "mx.init.Uniform(scale)",
    "normal_": "mx.init.Normal(sigma)",
    "uniform_": "mx.init.Uniform(scale)",
    "zeros_": "mx.init.Zero()",
    "ones_": "mx.init.One()",
    "constant_": "mx.init.Constant(value)",
    "Zeros": "mx.init.Zero()",
    "Ones": "mx.init.One()",
}
_SCHEDULES = {
    "StepLR": "mx.lr_scheduler.FactorScheduler(step, factor), in batches",
    "MultiStepLR": "mx.lr_scheduler.MultiFactorScheduler(step, factor), in batches",
    "ExponentialLR": "mx.lr_scheduler.FactorScheduler(1, factor), in batches",
    "ExponentialDecay": "mx.lr_scheduler.FactorScheduler(step, factor), in batches",
    "CosineAnnealingLR": "mx.lr_scheduler.CosineScheduler(max_update), in batches",
    "CosineDecay": "mx.lr_scheduler.CosineScheduler(max_update), in batches",
    "PolynomialLR": "mx.lr_scheduler.PolyScheduler(max_update), in batches",
    "PolynomialDecay": "mx.lr_scheduler.PolyScheduler(max_update), in batches",
    "LambdaLR": "any function of the number of updates, or trainer.set_learning_rate(rate)",
    "ReduceLROnPlateau": "trainer.set_learning_rate(rate), after each validation",
    "LearningRateScheduler": "trainer.set_learning_rate(rate), before each epoch",
}
_METRIC = {
    "BinaryAccuracy": "mx.metric.Accuracy()",
    "CategoricalAccuracy": "mx.metric.Accuracy()",
    "SparseCategoricalAccuracy": "mx.metric.Accuracy()",
    "MeanSquaredError": "mx.metric.MSE()",
    "MeanAbsoluteError": "mx.metric.MAE()",
    "RootMeanSquaredError": "mx.metric.RMSE()",
    "Mean": "mx.metric.Loss()",
    "F1Score": "mx.metric.F1()",
}
_CALLBACK = {
    "EarlyStopping": "EarlyStoppingHandler of gluon.contrib.estimator",
    "ModelCheckpoint": "mx.callback.do_checkpoint(prefix), or CheckpointHandler of gluon.contrib.estimator",
    "LearningRateScheduler": "an mx.lr_scheduler of the optimizer",
    "ReduceLROnPlateau": "trainer.set_learning_rate(rate), after each validation",
}
_PARAMETER = {
    "requires_grad": 'parameter.grad_req = "null", or "write"',
    "trainable": 'parameter.grad_req = "null", or "write"',
    "numpy": "parameter.data().asnumpy()",
    "asnumpy": "parameter.data().asnumpy()",
    "assign": "parameter.set_data(values)",
    "copy_": "parameter.set_data(values)",
    "detach": "parameter.data()",
}
_LAYER = {
    "in_features": "in_units",
    "in_feature": "in_units",
    "input_size": "in_units",
    "out_features": "units",
    "out_channels": "channels",
    "filters": "channels",
    "stride": "strides",
    "dilation_rate": "dilation",
    "bias": "use_bias, True or False",
    "num_features": "in_channels",
    "kernel_initializer": "weight_initializer",
    "name": 'prefix, as "name_"',
    "num_embeddings": "input_dim",
    "embedding_dim": "output_dim",
    "eps": "epsilon",
    "p": "rate",
    "negative_slope": "alpha",
    "batch_first": 'layout, "NTC"',
    "hidden_dim": "hidden_size",
    "units": "hidden_size",
    "reduction": "batch_axis; a loss is a number for each sample, use mx.nd.mean(loss) or loss.sum()",
}
_OWNERS = {
    "arguments of layers": _LAYER,
    "Parameter": _PARAMETER,
    "NDArray": _ARRAY,
    "Block": _BLOCK,
    "mx.gluon.nn": _NN,
    "mx.gluon.loss": _LOSS,
    "mx.nd": _ND,
    "mx.autograd": _AUTOGRAD,
    "mx.init": _INIT,
    "mx.lr_scheduler": _SCHEDULES,
    "mx.metric": _METRIC,
    "mx.callback": _CALLBACK,
    "module 'hybridc'": _MX,
}


def habit(owner: str, name: str) -> str | None:
    """What to write here instead of this name of PyTorch or Keras; None if the owner has no hint for it."""
    return _OWNERS.get(owner, {}).get(name)


class _Habit:
    """A name of PyTorch or Keras on a class: to read it is an error that says what does the same here."""

    def __init__(self, name: str, here: str) -> None:
        self._name = name
        self._here = here

    def __get__(self, instance: object, owner: type) -> Any:
        what = f"type object {owner.__name__!r}" if instance is None else f"{owner.__name__!r} object"
        raise AttributeError(f"{what} has no attribute {self._name!r}; here that is {self._here}")


class _SetHabit(_Habit):
    """A name that PyTorch and Keras set on objects: on ours, that has no effect, and is an error.

    A class of a user's may use the name for itself.
    """

    def __get__(self, instance: Any, owner: type) -> Any:
        values: dict[str, Any] = getattr(instance, "__dict__", {})
        return values[self._name] if self._name in values else super().__get__(instance, owner)

    def __set__(self, instance: object, value: object) -> None:
        if type(instance).__module__.startswith("hybridc."):
            super().__get__(instance, type(instance))
        frame = sys._getframe(user_depth() - 1)
        if self._name not in vars(instance) and frame.f_locals.get("self") is not instance:
            text = f"{type(instance).__name__}.{self._name} = {value!r} has no effect here; that is {self._here}"
            warnings.warn(text, stacklevel=user_depth())
        vars(instance)[self._name] = value

    def __delete__(self, instance: object) -> None:
        if self._name not in vars(instance):
            super().__get__(instance, type(instance))
        del vars(instance)[self._name]


# What is set more often than read.
_SET = ("requires_grad", "trainable")


def explain_habits(kind: str, cls: Any) -> None:
    """Let a class say what does the same here, where one of these names is read that it lacks.

    As attributes of the class they cost nothing where others are read, which ``__getattr__`` would.
    """
    for name, here in _OWNERS[kind].items():
        if not hasattr(cls, name):
            setattr(cls, name, (_SetHabit if name in _SET else _Habit)(name, here))


def without_habits(kind: str, names: Iterable[str], cls: type) -> list[str]:
    """The names for ``__dir__``: those that a class has."""
    return [n for n in names if n not in _OWNERS[kind] or hasattr(cls, n)]


# --- names of MXNet ---------------------------------------------------------------------------------------------------


def why_lacking(operator: str) -> tuple[str, str] | None:
    """The kind of an operator of MXNet that hybridc lacks, and what it is; None for other names."""
    kinds = ((kind, what) for kind, (names, what) in _LACKING.items() if operator.startswith(names))
    return next(kinds, None)


def absent(
    owner: str, name: str, kind: str, known: Iterable[str], family: tuple[str, str] | None = None
) -> AttributeError:
    """``owner has no <kind> 'name'``, with what it is in MXNet, or similar names out of ``known``.

    ``family`` is what all names of the owner are, and the way out. Where the name is imported, the text is that of
    an AbsentImportError, see :mod:`hybridc.aliases`.
    """
    text = f"{owner} has no {kind} {name!r}"
    if name.startswith("__"):
        return AttributeError(text)
    here = habit(owner, name)
    if here is not None:
        return AbsentError(f"{text}; here that is {here}")
    return AbsentError(text if name.startswith("_") else text + _explanation(name, known, family))


def _explanation(name: str, known: Iterable[str], family: tuple[str, str] | None) -> str:
    """What the name is in MXNet, or similar names."""
    found = next(((what, way) for pattern, what, way in _FAMILIES if re.fullmatch(pattern, name)), family)
    if found is not None:
        what, way = found
        return f": this version of hybridc does not have {what}{way}"
    near = difflib.get_close_matches(name, [n for n in known if not n.startswith("_")], n=3)
    return f"; did you mean {', '.join(near)}?" if near else ""
