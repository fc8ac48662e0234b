"""Modules that are written in Python: a base class for those without parameters, and one for losses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.errors import CheckError, UnsupportedError
from hybridc.module.base_module import INITIALIZER, SGD, BaseModule

__all__ = ["PythonLossModule", "PythonModule"]


class PythonModule(BaseModule):
    """A module without parameters, as part of a ``SequentialModule``.

    A subclass defines ``_compute_output_shapes``, ``forward``, ``backward``, ``get_outputs`` and ``get_input_grads``.

    Parameters
    ----------
    data_names, label_names:
        The names of the data and of the labels, in the order in which batches give them; labels may be None.
    output_names:
        The names of the outputs.
    """

    def __init__(
        self,
        data_names: Sequence[str],
        label_names: Sequence[str] | None,
        output_names: Sequence[str],
        logger: Any = logging,
    ) -> None:
        super().__init__(logger=logger)
        self._data_names = list(data_names)
        self._label_names = None if label_names is None else list(label_names)
        self._output_names = list(output_names)
        self._data_shapes: Any = None
        self._label_shapes: Any = None
        self._output_shapes: Any = None

    @property
    def data_names(self) -> list[str]:
        """The names of the data."""
        return self._data_names

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the data."""
        return self._data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels, or None."""
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs."""
        return self._output_shapes

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """No parameters, and no auxiliary states."""
        return {}, {}

    def init_params(
        self,
        initializer: Any = INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Nothing is to be done."""
        # COMPAT(mxnet): there a PythonModule is never ready for score() and the like.
        self.params_initialized = True

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Nothing is to be done."""
        self.optimizer_initialized = True

    def update(self) -> None:
        """Nothing is to be done."""

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs, if the module takes labels."""
        if self._label_shapes is None:
            return
        if pre_sliced:
            raise UnsupportedError("PythonModule does not support presliced labels; give those of whole batches")
        eval_metric.update(labels, self.get_outputs())

    def bind(
        self,
        data_shapes: Any,
        label_shapes: Any = None,
        for_training: bool = True,
        inputs_need_grad: bool = False,
        force_rebind: bool = False,
        shared_module: Any = None,
        grad_req: Any = "write",
    ) -> None:
        """Take note of the shapes; see :meth:`BaseModule.bind`. ``grad_req`` must be ``"write"``."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if grad_req != "write":
            raise CheckError(f"Python module only support write gradient, got grad_req={grad_req!r}")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        _check_names("data", self._data_names, data_shapes)
        if label_shapes is not None:
            _check_names("label", self._label_names or [], label_shapes)
        self._data_shapes, self._label_shapes = data_shapes, label_shapes
        self._output_shapes = self._compute_output_shapes()
        self.binded = True

    def _compute_output_shapes(self) -> Any:
        """Names and shapes of the outputs, from ``_data_shapes`` and ``_label_shapes``."""
        self._lacks("_compute_output_shapes")


def _check_names(kind: str, names: Sequence[str], described: Any) -> None:
    got = [x[0] for x in described]
    if got != list(names):
        raise CheckError(f"bind: {kind}_shapes are of {got}, the module has the {kind}_names {list(names)}")


class PythonLossModule(PythonModule):
    """A loss at the end of a chain of modules: its outputs are the scores that it gets.

    ``grad_func(scores, labels)`` gives the gradient of the scores, as an NDArray or an array of NumPy; or a subclass
    defines ``_backward_impl``, which puts it into ``_scores_grad``.

    Parameters
    ----------
    name:
        The output is called ``<name>_output``.
    data_names, label_names:
        The name of the scores and that of the labels, one each.
    """

    def __init__(
        self,
        name: str = "pyloss",
        data_names: Sequence[str] = ("data",),
        label_names: Sequence[str] = ("softmax_label",),
        logger: Any = logging,
        grad_func: Callable[[NDArray, Any], Any] | None = None,
    ) -> None:
        super().__init__(data_names, label_names, [name + "_output"], logger=logger)
        if len(data_names) != 1 or len(label_names) != 1:
            raise CheckError(f"PythonLossModule: one name each is needed, got {data_names} and {label_names}")
        if grad_func is not None and not callable(grad_func):
            raise CheckError(f"PythonLossModule: grad_func must be a function, got {grad_func!r}")
        self._name = name
        self._scores: Any = None
        self._labels: Any = None
        self._scores_grad: Any = None
        self._grad_func = grad_func

    def _compute_output_shapes(self) -> Any:
        return [(self._name + "_output", self._data_shapes[0][1])]

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Take note of the scores, and of the labels in training."""
        self._scores = data_batch.data[0]
        if self.for_training if is_train is None else is_train:
            self._labels = data_batch.label[0]

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The scores."""
        _check_merged(merge_multi_context)
        return [self._scores]

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradient of the scores."""
        if out_grads is not None:
            raise CheckError("For a loss module, out_grads should be None")
        if not self.for_training:
            raise CheckError("re-bind with for_training=True to run backward")
        self._backward_impl()

    def _backward_impl(self) -> None:
        if self._grad_func is None:
            raise NotImplementedError("PythonLossModule: give grad_func, or define _backward_impl")
        grad = self._grad_func(self._scores, self._labels)
        self._scores_grad = grad if isinstance(grad, NDArray) else nd.array(grad)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradient of the scores."""
        _check_merged(merge_multi_context)
        return [self._scores_grad]


def _check_merged(merge_multi_context: bool) -> None:
    if not merge_multi_context:
        raise CheckError("merge_multi_context must be True: a Python module computes on one device")
