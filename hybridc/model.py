"""``mx.model``: checkpoints, and FeedForward, MXNet's first interface to training."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from hybridc import metric
from hybridc.array.ndarray import NDArray
from hybridc.callback import BatchEndParam, LogValidationMetricsCallback, call_all
from hybridc.context import Context
from hybridc.errors import ArgumentTypeError, AttributeValueError, CheckError
from hybridc.ground.absent import absent as _absent
from hybridc.io import DataIter, NDArrayIter
from hybridc.kvstore import sharing
from hybridc.module.base_module import CPU, INITIALIZER
from hybridc.module.executor_group import as_descriptions
from hybridc.module.module import Module
from hybridc.symbol.checkpoint import load_checkpoint, load_params, save_checkpoint
from hybridc.trace.traced import Symbol

__all__ = ["BatchEndParam", "FeedForward", "load_checkpoint", "load_params", "save_checkpoint"]

_LOG_VALIDATION = LogValidationMetricsCallback()  # of each fit, by default

# The names by which programs know them.
_create_kvstore = sharing.create_kvstore
_initialize_kvstore = sharing.initialize_kvstore
_update_params = sharing.update_params
_update_params_on_kvstore = sharing.update_params_on_kvstore


class FeedForward:
    """A symbol that is trained and used on batches or NumPy arrays; deprecated in favour of ``mx.mod.Module``.

    Parameters
    ----------
    symbol:
        A symbol, or a function of a bucket key that gives one, of which that for the default key of the data is used.
    ctx:
        A device, or several that share every batch.
    num_epoch, epoch_size:
        How many epochs :meth:`fit` trains for, and how many batches an epoch has: all of the data by default.
    optimizer, initializer:
        An optimizer, or its name, and what sets parameters that have no values.
    numpy_batch_size:
        How many samples a batch has where the data is an array.
    arg_params, aux_params, allow_extra_params, begin_epoch:
        Values of parameters; names that the symbol lacks are accepted or not; the number of the first epoch.
    kwargs:
        Arguments of the optimizer.
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Context | Sequence[Context] | None = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = INITIALIZER,
        numpy_batch_size: int = 128,
        arg_params: Mapping[str, NDArray] | None = None,
        aux_params: Mapping[str, NDArray] | None = None,
        allow_extra_params: bool = False,
        begin_epoch: int = 0,
        **kwargs: Any,
    ) -> None:
        warnings.warn(
            "mxnet.model.FeedForward has been deprecated. Please use mxnet.mod.Module instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        self.symbol: Any = symbol if isinstance(symbol, Symbol) else None
        self.sym_gen: Callable[[Any], Any] | None = None if isinstance(symbol, Symbol) else symbol
        if self.sym_gen is not None and not callable(self.sym_gen):
            raise CheckError(f"FeedForward: symbol must be a symbol or a function that gives one, got {symbol!r}")
        self.arg_params = arg_params
        self.aux_params = aux_params
        self.allow_extra_params = allow_extra_params
        self.ctx = [CPU] if ctx is None else [ctx] if isinstance(ctx, Context) else list(ctx)
        self.num_epoch = num_epoch
        self.epoch_size = epoch_size
        self.kwargs = dict(kwargs)
        self.optimizer = optimizer
        self.initializer = initializer
        self.numpy_batch_size = numpy_batch_size
        self.begin_epoch = begin_epoch
        self._predictor: Module | None = None
        if self.symbol is not None:
            self._check_arguments()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_predictor": None}

    def _check_arguments(self) -> None:
        """Raise for equal names in the symbol, and leave parameters out that it lacks if that is allowed."""
        check_arguments(self.symbol)
        if self.allow_extra_params:
            arguments, states = self.symbol.list_arguments(), self.symbol.list_auxiliary_states()
            self.arg_params = self.arg_params and {k: v for k, v in self.arg_params.items() if k in arguments}
            self.aux_params = self.aux_params and {k: v for k, v in self.aux_params.items() if k in states}

    # --- data ----------------------------------------------------------------------------------------------

    def _init_iter(self, X: Any, y: Any, is_train: bool) -> Any:
        """An iterator over data that is one, or is arrays."""
        if isinstance(X, DataIter):
            return X
        if not _is_array(X):
            raise ArgumentTypeError(f"X must be DataIter, NDArray or numpy.ndarray, got {type(X).__name__}")
        if y is None and is_train:
            raise AttributeValueError("y must be specified when X is numpy.ndarray")
        y = np.zeros(X.shape[0]) if y is None else y
        if not _is_array(y):
            raise ArgumentTypeError(f"y must be ndarray when X is numpy.ndarray, got {type(y).__name__}")
        if X.shape[0] != y.shape[0]:
            raise AttributeValueError(f"The numbers of data points and labels not equal: {X.shape[0]} and {y.shape[0]}")
        if y.ndim == 2 and y.shape[1] == 1:
            y = y.reshape((-1,))
        if y.ndim != 1:
            raise AttributeValueError(f"Label must be 1D or 2D (with 2nd dimension being 1), got shape {y.shape}")
        size = min(X.shape[0], self.numpy_batch_size)
        if not is_train:
            return NDArrayIter(X, y, size, shuffle=False)
        return NDArrayIter(X, y, size, shuffle=True, last_batch_handle="roll_over")

    def _init_eval_iter(self, eval_data: Any) -> Any:
        """An iterator over data for validation: an iterator, or a pair of data and labels."""
        if eval_data is None or isinstance(eval_data, DataIter):
            return eval_data
        if not isinstance(eval_data, tuple | list) or len(cast("Sequence[Any]", eval_data)) != 2:
            raise ArgumentTypeError(
                "Eval data must be DataIter, or NDArray/numpy.ndarray/list pair (i.e. tuple/list of length 2), "
                f"got {type(cast('Any', eval_data)).__name__}"
            )
        data, label = cast("Sequence[Any]", eval_data)
        if data is None:
            raise AttributeValueError("Eval data is NONE")
        if label is None and isinstance(data, DataIter):
            return data
        arrays = [np.array(cast("list[Any]", x)) if isinstance(x, list) else x for x in (data, label)]
        return self._init_iter(*arrays, is_train=True)

    def _init_params(self, inputs: Any, overwrite: bool = False) -> tuple[list[str], list[str], list[str]]:
        """Make the parameters for inputs of these shapes: the names of arguments, parameters and auxiliary states."""
        described = as_descriptions(inputs)
        module = Module(self.symbol, [x.name for x in described], [])
        module.bind(described, for_training=False)
        given = (None, None) if overwrite else (self.arg_params, self.aux_params)
        module.init_params(self.initializer, given[0] or {}, given[1] or {}, allow_missing=True)
        self.arg_params, self.aux_params = module.get_params()
        names = [x.name for x in described]
        arguments: list[str] = self.symbol.list_arguments()
        return arguments, [x for x in arguments if x not in names], self.symbol.list_auxiliary_states()

    # --- prediction ----------------------------------------------------------------------------------------

    def _init_predictor(self, data_shapes: Any) -> Module:
        """The module for prediction on batches of these shapes."""
        if self.arg_params is None:
            raise CheckError("FeedForward: there are no parameters; call fit before, or give arg_params")
        described = as_descriptions(data_shapes)
        known = self._predictor
        if known is None or known.data_shapes != described:
            names = [x.name for x in described]
            labels = [x for x in self.symbol.list_arguments() if x not in self.arg_params and x not in names]
            # Labels take the shapes that follow from the data's: they have no meaning here.
            known = self._predictor = Module(self.symbol, names, [], context=self.ctx[0], state_names=labels)
            known.bind(described, for_training=False)
        known.set_params(self.arg_params, self.aux_params or {}, allow_missing=True, allow_extra=True)
        return known

    def predict(self, X: Any, num_batch: int | None = None, return_data: bool = False, reset: bool = True) -> Any:
        """The outputs as NumPy arrays: one, or a list if there are more.

        Parameters
        ----------
        X:
            An iterator of batches, or an array.
        num_batch:
            How many batches are used; None for all.
        return_data:
            Give also the data and the labels: three results.
        reset:
            Reset the iterator before.
        """
        data_iter = self._init_iter(X, None, is_train=False)
        module = self._init_predictor(data_iter.provide_data)
        outputs: list[list[Any]] = []
        data: list[list[Any]] = []
        labels: list[list[Any]] = []
        for found, _, batch in module.iter_predict(data_iter, num_batch, reset):
            size = data_iter.batch_size - (batch.pad or 0)
            outputs.append([x.asnumpy() for x in found])
            if return_data:
                data.append([x[:size].asnumpy() for x in batch.data])
                labels.append([x[:size].asnumpy() for x in batch.label])
        if not return_data:
            return _joined(outputs)
        return _joined(outputs), _joined(data), _joined(labels)

    def score(
        self,
        X: Any,
        eval_metric: Any = "acc",
        num_batch: int | None = None,
        batch_end_callback: Any = None,
        reset: bool = True,
    ) -> Any:
        """The value of a metric.

        Parameters
        ----------
        X:
            An iterator of batches with labels.
        eval_metric:
            A metric, or its name.
        num_batch:
            How many batches are used; None for all.
        batch_end_callback:
            Functions of a ``BatchEndParam``, called after each batch.
        reset:
            Reset the iterator before.
        """
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        data_iter = self._init_iter(X, None, is_train=False)
        module = self._init_predictor(data_iter.provide_data)
        if reset:
            data_iter.reset()
        for i, batch in enumerate(data_iter):
            if num_batch is not None and i == num_batch:
                break
            module.forward(batch, is_train=False)
            eval_metric.update(batch.label, module.get_outputs())
            if batch_end_callback is not None:
                call_all(batch_end_callback, BatchEndParam(0, i, eval_metric, locals()))
        return eval_metric.get()[1]

    # --- training ------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any = None,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Sequence[float] | None = None,
        monitor: Any = None,
        eval_end_callback: Any = _LOG_VALIDATION,
        eval_batch_end_callback: Any = None,
    ) -> None:
        """Train on the batches of an iterator, or on arrays.

        Parameters
        ----------
        X, y:
            An iterator of batches with labels; or the data and the labels, arrays of one first size, whose order is
            random in every epoch.
        eval_data:
            What to score after each epoch: an iterator, or a pair of data and labels; None for nothing.
        eval_metric, epoch_end_callback, batch_end_callback, kvstore, monitor:
            As for ``Module.fit``.
        logger:
            Where epochs are told of; None for the root logger.
        work_load_list:
            How large a part of a batch each device computes; None for equal ones.
        eval_end_callback, eval_batch_end_callback:
            As for ``Module.fit``; by default the score is logged.
        """
        if self.num_epoch is None:
            raise CheckError("FeedForward.fit: num_epoch is missing; give it to the constructor")
        data = self._init_iter(X, y, is_train=True)
        eval_data = self._init_eval_iter(eval_data)
        if self.sym_gen is not None:
            self.symbol = self.sym_gen(data.default_bucket_key)
            self._check_arguments()
        if not isinstance(eval_metric, metric.EvalMetric):
            eval_metric = metric.create(eval_metric)
        names, labels = ([x[0] for x in described] for described in (data.provide_data, data.provide_label))
        log: Any = logging.getLogger() if logger is None or logger is logging else logger
        module = Module(self.symbol, names, labels, log, self.ctx, work_load_list)
        module.bind(data.provide_data, data.provide_label)
        module.init_params(self.initializer, self.arg_params or {}, self.aux_params or {}, allow_missing=True)
        if monitor is not None:
            module.install_monitor(monitor)
        module.init_optimizer(kvstore, self.optimizer, self.kwargs)
        data.reset()
        for epoch in range(self.begin_epoch, self.num_epoch):
            tic = time.time()
            eval_metric.reset()
            self._fit_epoch(module, data, epoch, eval_metric, batch_end_callback, monitor, log)
            log.info("Epoch[%d] Time cost=%.3f", epoch, time.time() - tic)
            self.arg_params, self.aux_params = module.get_params()
            call_all(epoch_end_callback, epoch, self.symbol, self.arg_params, self.aux_params)
            if eval_data is not None:
                module.score(
                    eval_data,
                    eval_metric,
                    batch_end_callback=eval_batch_end_callback,
                    score_end_callback=eval_end_callback,
                    epoch=epoch,
                )
                eval_data.reset()

    def _fit_epoch(
        self, module: Module, data: Any, epoch: int, eval_metric: Any, batch_end_callback: Any, monitor: Any, log: Any
    ) -> None:
        """Train for one epoch: ``epoch_size`` batches, which go on where the last epoch ended, or all."""
        nbatch = 0
        while True:
            for data_batch in data:
                if monitor is not None:
                    monitor.tic()
                module.forward_backward(data_batch)
                module.update()
                if monitor is not None:
                    monitor.toc_print()
                module.update_metric(eval_metric, data_batch.label)
                nbatch += 1
                if batch_end_callback is not None:
                    call_all(batch_end_callback, BatchEndParam(epoch, nbatch, eval_metric, locals()))
                if self.epoch_size is not None and nbatch >= self.epoch_size:
                    return
            if not nbatch:
                raise CheckError("FeedForward.fit: the data has no batches")
            log.info("Epoch[%d] Resetting Data Iterator", epoch)
            data.reset()
            if self.epoch_size is None:
                return

    # --- files ---------------------------------------------------------------------------------------------

    def save(self, prefix: str, epoch: int | None = None, remove_amp_cast: bool = True) -> None:
        """Save a checkpoint.

        Parameters
        ----------
        prefix, remove_amp_cast:
            As for :func:`save_checkpoint`.
        epoch:
            The number in the file's name; None for ``num_epoch``.
        """
        epoch = self.num_epoch if epoch is None else epoch
        if epoch is None or self.arg_params is None:
            raise CheckError("FeedForward.save: call fit before, and give epoch if num_epoch is not set")
        save_checkpoint(prefix, epoch, self.symbol, self.arg_params, self.aux_params or {}, remove_amp_cast)

    @staticmethod
    def load(prefix: str, epoch: int, ctx: Any = None, **kwargs: Any) -> FeedForward:
        """The model of a checkpoint, which goes on with epoch ``epoch``.

        Parameters
        ----------
        prefix, epoch:
            What it was saved with.
        ctx, **kwargs:
            Those of the constructor.
        """
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        return FeedForward(symbol, ctx=ctx, arg_params=arguments, aux_params=states, begin_epoch=epoch, **kwargs)

    @staticmethod
    def create(
        symbol: Any,
        X: Any,
        y: Any = None,
        ctx: Any = None,
        num_epoch: int | None = None,
        epoch_size: int | None = None,
        optimizer: Any = "sgd",
        initializer: Any = INITIALIZER,
        eval_data: Any = None,
        eval_metric: Any = "acc",
        epoch_end_callback: Any = None,
        batch_end_callback: Any = None,
        kvstore: Any = "local",
        logger: Any = None,
        work_load_list: Sequence[float] | None = None,
        eval_end_callback: Any = _LOG_VALIDATION,
        eval_batch_end_callback: Any = None,
        **kwargs: Any,
    ) -> FeedForward:
        """A model that is trained: the constructor and :meth:`fit` in one.

        Parameters
        ----------
        symbol, ctx, num_epoch, epoch_size, optimizer, initializer, **kwargs:
            Those of the constructor.
        X, y, eval_data, eval_metric, epoch_end_callback, batch_end_callback, kvstore, logger, work_load_list:
            Those of :meth:`fit`.
        eval_end_callback, eval_batch_end_callback:
            Those of :meth:`fit`.
        """
        model = FeedForward(
            symbol, ctx=ctx, num_epoch=num_epoch, epoch_size=epoch_size, optimizer=optimizer,
            initializer=initializer, **kwargs,
        )  # fmt: skip
        model.fit(
            X, y, eval_data=eval_data, eval_metric=eval_metric, epoch_end_callback=epoch_end_callback,
            batch_end_callback=batch_end_callback, kvstore=kvstore, logger=logger, work_load_list=work_load_list,
            eval_end_callback=eval_end_callback, eval_batch_end_callback=eval_batch_end_callback,
        )  # fmt: skip
        return model


def check_arguments(symbol: Any) -> None:
    """Raise if two arguments or auxiliary states of a symbol have one name."""
    for kind, names in (("argument", symbol.list_arguments()), ("auxiliary param", symbol.list_auxiliary_states())):
        twice = next((x for x in names if names.count(x) > 1), None)
        if twice is not None:
            raise AttributeValueError(
                f'Find duplicated {kind} name "{twice}", please make the names non-duplicated (using name arguments); '
                f"they are {names}"
            )


def _is_array(x: Any) -> bool:
    return isinstance(x, np.ndarray | NDArray)


def _joined(batches: Sequence[Sequence[Any]]) -> Any:
    """The arrays of all batches put together: one array, or a list."""
    arrays = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return arrays[0] if len(arrays) == 1 else arrays


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("mx.model", name, "attribute", __all__)
