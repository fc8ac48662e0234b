"""What all modules share: training, scoring and predicting over the batches of an iterator."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from hybridc import metric, nd
from hybridc.array.ndarray import NDArray
from hybridc.callback import BatchEndParam, call_all
from hybridc.context import cpu
from hybridc.errors import AttributeValueError, CheckError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.location import user_depth
from hybridc.initializer import Uniform
from hybridc.io import DataBatch, DataDesc, DataIter
from hybridc.io.progress import progress
from hybridc.module.executor_group import as_descriptions
from hybridc.nd import storage
from hybridc.symbol.checkpoint import load_arrays, named_for_file

__all__ = ["BaseModule"]

# What methods take by default.
INITIALIZER = Uniform(0.01)
SGD = (("learning_rate", 0.01),)
CPU = cpu()

_PARAMETERS = ("_weight", "_bias", "_gamma", "_beta")


def check_input_names(symbol: Any, names: Sequence[str], kind: str, throw: bool) -> None:
    """Raise, or warn, about names that are no arguments of a symbol."""
    arguments: list[str] = symbol.list_arguments() if names else []
    for name in names:
        if name in arguments:
            continue
        near = [x for x in arguments if not x.endswith(_PARAMETERS)]
        text = (
            f"You created Module with Module(..., {kind}_names={list(names)}) but input with name '{name}' is not "
            f"found in symbol.list_arguments(). Did you mean one of: {', '.join(near)}"
        )
        if throw:
            raise AttributeValueError(text)
        warnings.warn(text, stacklevel=user_depth())


def _check_names_match(names: Sequence[str], described: Sequence[DataDesc], kind: str, throw: bool) -> None:
    if sorted(names) == sorted(x.name for x in described):
        return
    text = (
        f"Data provided by {kind}_shapes don't match names specified by {kind}_names ({list(described)} vs. "
        f"{list(names)})"
    )
    if throw:
        raise AttributeValueError(text)
    warnings.warn(text, stacklevel=user_depth())


def parse_data_desc(
    data_names: Sequence[str], label_names: Sequence[str], data_shapes: Any, label_shapes: Any
) -> tuple[list[DataDesc], list[DataDesc] | None]:
    """The descriptions of data and labels, once it is sure that the data has the names that were promised."""
    data = as_descriptions(data_shapes)
    _check_names_match(data_names, data, "data", True)
    labels = None if label_shapes is None else as_descriptions(label_shapes)
    _check_names_match(label_names, labels or [], "label", False)
    return data, labels


class BaseModule:
    """A thing that computes outputs of batches, and may have parameters that it learns.

    Use it in this order: :meth:`bind` to the shapes of a batch, :meth:`init_params`, :meth:`init_optimizer`; then for
    each batch :meth:`forward`, :meth:`backward` and :meth:`update`. :meth:`fit` does all of it.

    A subclass defines the properties and the methods of the parts "symbol", "parameters" and "computing".

    Parameters
    ----------
    logger:
        What tells of epochs and metrics: a logger of :mod:`logging`, by default the root logger.
    """

    def __init__(self, logger: Any = logging) -> None:
        # The functions of the module logging would add a handler, after which a program's basicConfig does nothing.
        self.logger = logging.getLogger() if logger is logging else logger
        self.binded = False
        self.for_training = False
        self.inputs_need_grad = False
        self.params_initialized = False
        self.optimizer_initialized = False
        self._symbol: Any = None

    def _check_bound(self, what: str) -> None:
        """Raise unless there are executors."""
        if not self.binded:
            raise CheckError(f"{what}: call bind before")

    def _check_ready(self, what: str, optimizer: bool = False) -> None:
        """Raise unless there are executors and parameters, and if asked for an optimizer."""
        missing = (
            "bind" if not self.binded else "init_params" if not self.params_initialized else
            "init_optimizer" if optimizer and not self.optimizer_initialized else None
        )  # fmt: skip
        if missing is not None:
            raise CheckError(f"{what}: call {missing} before; fit does it all")

    def _lacks(self, name: str) -> NoReturn:
        raise NotImplementedError(f"{type(self).__name__} does not define {name}")

    # --- loops over batches --------------------------------------------------------------------------------

    @hides_frames
    def forward_backward(self, data_batch: Any) -> None:
        """Compute the outputs of a batch, and the gradients.

        Parameters
        ----------
        data_batch:
            The batch, as :meth:`forward` takes it.
        """
        self.forward(data_batch, is_train=True)
        self.backward()

    @hides_frames
    def score(
        self,
        eval_data: Any,
        eval_metric: Any,
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        score_end_callback: Any = None,
        reset: bool = True,
        epoch: int = 0,
        sparse_row_id_fn: Any = None,
    ) -> list[tuple[str, float]]:
        """The metric of the outputs on the batches of an iterator: pairs of a name and a value.

        Parameters
        ----------
        eval_data:
            An iterator of batches with labels, such as ``mx.io.NDArrayIter``.
        eval_metric:
            A metric, or its name, such as ``"acc"``; it is reset before.
        num_batch:
            How many batches are used; None for all.
        batch_end_callback, score_end_callback:
            A function of a ``BatchEndParam``, or a list of such, called after each batch, and at the end.
        reset:
            Reset the iterator before.
        epoch:
            The number that callbacks get.
        sparse_row_id_fn:
            As for :meth:`prepare`.
        """
        self._check_ready("score")
        if reset:
            eval_data.reset()
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        eval_metric.reset()
        actual_num_batch = 0
        for nbatch, eval_batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            self._measure(eval_metric, eval_batch)
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            actual_num_batch += 1
        if score_end_callback is not None:
            call_all(score_end_callback, BatchEndParam(epoch, actual_num_batch, eval_metric, locals()))
        return eval_metric.get_name_value()

    def _measure(self, eval_metric: Any, data_batch: Any) -> None:
        """Let a metric take in the outputs of a batch, or of a list with one for each device."""
        if isinstance(data_batch, list):
            batches = cast("list[Any]", data_batch)
            self.update_metric(eval_metric, [each.label for each in batches], pre_sliced=True)
        else:
            self.update_metric(eval_metric, data_batch.label)

    def iter_predict(
        self, eval_data: Any, num_batch: int | None = None, reset: bool = True, sparse_row_id_fn: Any = None
    ) -> Iterator[tuple[list[NDArray], int, Any]]:
        """For each batch its outputs, without those of samples that only fill it up, its number and itself.

        Parameters
        ----------
        eval_data:
            An iterator of batches, such as ``mx.io.NDArrayIter``.
        num_batch:
            How many batches are used; None for all.
        reset:
            Reset the iterator before.
        sparse_row_id_fn:
            As for :meth:`prepare`.
        """
        self._check_ready("iter_predict")
        if reset:
            eval_data.reset()
        for nbatch, eval_batch in enumerate(eval_data):
            if num_batch is not None and nbatch == num_batch:
                break
            self.prepare(eval_batch, sparse_row_id_fn=sparse_row_id_fn)
            self.forward(eval_batch, is_train=False)
            yield [out[: out.shape[0] - (eval_batch.pad or 0)] for out in self.get_outputs()], nbatch, eval_batch

    @hides_frames
    def predict(
        self,
        eval_data: Any,
        num_batch: int | None = None,
        merge_batches: bool = True,
        reset: bool = True,
        always_output_list: bool = False,
        sparse_row_id_fn: Any = None,
    ) -> Any:
        """The outputs for all batches of an iterator, or for one array.

        Parameters
        ----------
        eval_data:
            An iterator of batches, such as ``mx.io.NDArrayIter``, or the array of one batch's data.
        num_batch:
            How many batches are used; None for all.
        merge_batches:
            Join the outputs of batches along axis 0; if not, there is a list of outputs for each batch. If batches
            have different numbers of outputs, as buckets may, joining is a CheckError.
        reset:
            Reset the iterator before.
        always_output_list:
            Whether a single output comes in a list, too.
        sparse_row_id_fn:
            As for :meth:`prepare`.

        Returns
        -------
        An NDArray, or a list of them if the module has several outputs or ``always_output_list``.
        """
        self._check_ready("predict")
        if isinstance(eval_data, NDArray | np.ndarray):
            array = eval_data if isinstance(eval_data, NDArray) else nd.array(eval_data)
            # COMPAT(mxnet): there this is in train mode if the module is bound for training.
            self.forward(DataBatch([array]), is_train=False)
            return self.get_outputs()[0]
        if not isinstance(eval_data, DataIter):
            raise AttributeValueError(f"eval_data must be of type NDArray or DataIter, got {type(eval_data).__name__}")
        batches = [
            [out.copy() for out in outputs]
            for outputs, _, _ in self.iter_predict(eval_data, num_batch, reset, sparse_row_id_fn)
        ]
        if not batches or not merge_batches:
            return batches
        if len(set(map(len, batches))) > 1:
            raise CheckError(
                "Cannot merge batches, as num of outputs is not the same in mini-batches. Maybe bucketing is used?"
            )
        merged = [nd.concat(*parts, dim=0) for parts in zip(*batches, strict=True)]
        return merged[0] if len(merged) == 1 and not always_output_list else merged

    @hides_frames
    def fit(
        self,
        train_data: Any,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        optimizer: Any = "sgd",
        optimizer_params: Any = SGD,
        eval_end_callback: Any = None,
        eval_batch_end_callback: Any = None,
        initializer: Any = INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_rebind: bool = False,
        force_init: bool = False,
        begin_epoch: int = 0,
        num_epoch: int | None = None,
        validation_metric: Any = None,
        monitor: Any = None,
        sparse_row_id_fn: Any = None,
    ) -> None:
        """Train on the batches of an iterator, from epoch ``begin_epoch`` to ``num_epoch``.

        Parameters
        ----------
        train_data:
            An iterator of batches with labels, such as ``mx.io.NDArrayIter``; an epoch goes over all of them.
        eval_metric:
            A metric of the training, or its name, logged after each epoch.
        eval_data, validation_metric:
            What to score after each epoch, and the metric of it; by default ``eval_metric``, that of training.
        epoch_end_callback:
            Functions ``f(epoch, symbol, arg_params, aux_params)``.
        batch_end_callback, eval_end_callback, eval_batch_end_callback:
            Functions of a ``BatchEndParam``, after each batch of training, each scoring, and each batch of that.
        kvstore, optimizer, optimizer_params:
            As for :meth:`init_optimizer`.
        begin_epoch, num_epoch:
            The number of the first epoch, not 0 where training goes on, and of the one before which it ends, which is
            required.
        force_rebind:
            As for :meth:`bind`.
        sparse_row_id_fn:
            As for :meth:`prepare`.
        initializer, arg_params, aux_params, allow_missing, force_init:
            As for :meth:`init_params`.
        monitor:
            A ``mx.mon.Monitor``.
        """
        if num_epoch is None:
            raise CheckError("fit: please specify number of epochs, as num_epoch")
        self.bind(
            data_shapes=train_data.provide_data,
            label_shapes=train_data.provide_label,
            for_training=True,
            force_rebind=force_rebind,
        )
        if monitor is not None:
            self.install_monitor(monitor)
        self.init_params(
            initializer=initializer,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
        )
        self.init_optimizer(kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params)
        if validation_metric is None:
            validation_metric = eval_metric
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        for epoch in range(begin_epoch, num_epoch):
            tic = time.time()
            for name, value in self._train_epoch(
                train_data, epoch, eval_metric, batch_end_callback, monitor, sparse_row_id_fn
            ):
                self.logger.info("Epoch[%d] Train-%s=%f", epoch, name, value)
            self.logger.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            # All devices get the means of the auxiliary states.
            arg_params, aux_params = self.get_params()
            self.set_params(arg_params, aux_params)
            call_all(epoch_end_callback, epoch, self.symbol, arg_params, aux_params)
            if eval_data is not None:
                found = self.score(
                    eval_data,
                    validation_metric,
                    batch_end_callback=eval_batch_end_callback,
                    score_end_callback=eval_end_callback,
                    epoch=epoch,
                )
                for name, value in found:
                    self.logger.info("Epoch[%d] Validation-%s=%f", epoch, name, value)
            train_data.reset()

    def _train_epoch(
        self,
        train_data: Any,
        epoch: int,
        eval_metric: Any,
        batch_end_callback: Any,
        monitor: Any,
        sparse_row_id_fn: Any,
    ) -> list[tuple[str, float]]:
        """Train on all batches: the names and values of the metric."""
        eval_metric.reset()
        # A callback of batches, such as Speedometer, shows progress itself.
        data_iter = iter(train_data if batch_end_callback else progress(train_data, f"epoch {epoch}"))
        next_data_batch = next(data_iter, None)
        if next_data_batch is None:
            raise CheckError("fit: train_data has no batches; reset() it if it was used before")
        nbatch = 0
        eval_name_vals: list[tuple[str, float]] = []
        while next_data_batch is not None:
            data_batch = next_data_batch
            if monitor is not None:
                monitor.tic()
            self.forward_backward(data_batch)
            self.update()
            self._measure(eval_metric, data_batch)
            next_data_batch = next(data_iter, None)
            if next_data_batch is not None:
                self.prepare(next_data_batch, sparse_row_id_fn=sparse_row_id_fn)
            if monitor is not None:
                monitor.toc_print()
            if next_data_batch is None:  # callbacks may start the metric over
                eval_name_vals = eval_metric.get_global_name_value()
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
            nbatch += 1
        return eval_name_vals

    # --- the symbol ----------------------------------------------------------------------------------------

    @property
    def symbol(self) -> Any:
        """The symbol, if there is one; that of the present bucket, if there are several."""
        return self._symbol

    @property
    def data_names(self) -> list[str]:
        """The names of the data."""
        self._lacks("data_names")

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        self._lacks("output_names")

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the data, once the module is bound."""
        self._lacks("data_shapes")

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels; None, or none, if there are no labels."""
        self._lacks("label_shapes")

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs."""
        self._lacks("output_shapes")

    # --- parameters ----------------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """The parameters and the auxiliary states by name, as they are now."""
        self._lacks("get_params")

    def init_params(
        self,
        initializer: Any = INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters to given values, or by an initializer.

        Parameters
        ----------
        initializer:
            What sets those that have no value, such as ``mx.init.Xavier()``; by default uniform in [-0.01, 0.01].
        arg_params, aux_params:
            Values of parameters, and of auxiliary states, such as running means: dicts of arrays by name. None lets
            the initializer set them all. A ShapeError is raised for a value of another shape.
        allow_missing:
            Let the initializer set those that the dicts lack; else they are an MXNetError.
        force_init:
            Set them even if they were set before; else nothing happens then.
        allow_extra:
            Accept values of names that do not exist.
        """
        self._lacks("init_params")

    @hides_frames
    def set_params(
        self,
        arg_params: Any,
        aux_params: Any,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters to given values.

        Parameters
        ----------
        arg_params, aux_params:
            Values of parameters, and of auxiliary states: dicts of arrays by name, as :meth:`get_params` gives them.
        allow_missing:
            Let those that the dicts lack stay; else they are an error.
        force_init:
            Set them even if they were set before; else nothing happens then.
        allow_extra:
            Accept values of names that do not exist.
        """
        self.init_params(
            initializer=None,
            arg_params=arg_params,
            aux_params=aux_params,
            allow_missing=allow_missing,
            force_init=force_init,
            allow_extra=allow_extra,
        )

    @hides_frames
    def save_params(self, fname: str) -> None:
        """Save the parameters and auxiliary states into a file.

        Parameters
        ----------
        fname:
            The file, whose name chooses the format as for ``mx.nd.save``.
        """
        storage.save(fname, named_for_file(*self.get_params()))

    @hides_frames
    def load_params(self, fname: str) -> None:
        """Set the parameters to those of a file of :meth:`save_params`, or of a checkpoint.

        Parameters
        ----------
        fname:
            The file. An AttributeValueError is raised for one of other names, as those of Gluon's blocks.
        """
        self.set_params(*load_arrays(fname))

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states of each device; this module has none.

        Parameters
        ----------
        merge_multi_context:
            Must be False, else a CheckError is raised: for each state there is a list of the arrays of each device.
        """
        self._check_ready("get_states")
        if merge_multi_context:
            raise CheckError("get_states: merge_multi_context must be False")
        return []

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states; this module has none.

        Parameters
        ----------
        states:
            For each state an array, or a list of those of each device, such as :meth:`get_states` gives.
        value:
            Instead, a number for all elements of all states.
        """
        self._check_ready("set_states")
        if states or value:
            raise CheckError(f"set_states: this {type(self).__name__} has no states")

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at all executors.

        Parameters
        ----------
        mon:
            A ``mx.mon.Monitor``.
        """
        self._lacks("install_monitor")

    # --- computing -----------------------------------------------------------------------------------------

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Get ready for a batch, which is not yet computed.

        Parameters
        ----------
        data_batch:
            The batch.
        sparse_row_id_fn:
            A function of the batch that gives the numbers of the rows of row_sparse parameters that it needs, a dict of
            arrays by the parameters' names; None for all rows. Modules without a kvstore have them.
        """

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch.

        Parameters
        ----------
        data_batch:
            An ``mx.io.DataBatch``, or a list of one for each device; it may have other shapes than those before.
        is_train:
            Whether operators compute as in training, as dropout does; None for what the module was bound for.
        """
        self._lacks("forward")

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients.

        Parameters
        ----------
        out_grads:
            The gradients of outputs that are no losses: an array, or a list of them; None if all are losses.
        """
        self._lacks("backward")

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last batch.

        Parameters
        ----------
        merge_multi_context:
            Whether those of several devices become one array each; else each is a list of arrays by device.
        """
        self._lacks("get_outputs")

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data; the module was bound with ``inputs_need_grad=True``.

        Parameters
        ----------
        merge_multi_context:
            As for :meth:`get_outputs`.
        """
        self._lacks("get_input_grads")

    def update(self) -> None:
        """Update the parameters with the gradients of the last batch."""
        self._lacks("update")

    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last batch, and its labels.

        Parameters
        ----------
        eval_metric:
            The metric, an ``mx.metric.EvalMetric``.
        labels:
            The list of the batch's labels.
        pre_sliced:
            Whether ``labels`` is a list with a list of labels for each device.
        """
        self._lacks("update_metric")

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
        """Make the executors for batches of these shapes.

        Parameters
        ----------
        data_shapes, label_shapes:
            What an iterator has as ``provide_data`` and ``provide_label``, or pairs of a name and a shape; None for no
            labels.
        for_training:
            Whether there will be gradients.
        inputs_need_grad:
            Whether there will be gradients of the data, too.
        force_rebind:
            Bind a module that is bound anew; else it stays as it is, and a warning is logged.
        shared_module:
            A module, bound and with parameters, whose parameters are used and shared.
        grad_req:
            What a backward does with gradients: ``"write"``, ``"add"`` (to what is there) or ``"null"``, or a list or
            dict of these by argument.
        """
        self._lacks("bind")

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Set the optimizer, by which :meth:`update` works.

        Parameters
        ----------
        kvstore:
            How devices share gradients: a name as ``mx.kvstore.create`` takes it, a store, or None. A single device
            needs none, and gets none by the names of stores within this process.
        optimizer:
            An optimizer, or its name.
        optimizer_params:
            A dict, or pairs, of the arguments for a name. Without ``rescale_grad`` gradients are divided by the size
            of the batch, of all workers together.
        force_init:
            Set it even if there is one; else it stays, and a warning is logged.
        """
        self._lacks("init_optimizer")


class AssignedModule(BaseModule):
    """A module whose executors take some of the parameters while the others stay."""

    _params_dirty: bool  # whether the executors have newer parameters than the module

    @hides_frames
    def set_params(
        self,
        arg_params: Any,
        aux_params: Any,
        allow_missing: bool = False,
        force_init: bool = True,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters to given values; with ``allow_missing`` the others stay."""
        if not allow_missing:
            super().set_params(arg_params, aux_params, False, force_init, allow_extra)
            return
        if self.params_initialized and not force_init:
            warnings.warn(
                "Parameters already initialized and force_init=False. set_params call ignored.", stacklevel=user_depth()
            )
            return
        self._check_bound("set_params")
        self._assign(arg_params, aux_params, force_init, allow_extra)
        self._params_dirty = True
        self.params_initialized = True

    def _assign(self, arg_params: Any, aux_params: Any, force_init: bool, allow_extra: bool) -> None:
        """Give these parameters to the executors."""
        raise NotImplementedError
