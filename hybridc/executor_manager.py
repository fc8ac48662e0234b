"""``mx.executor_manager``: executors for data-parallel training of FeedForward, MXNet's first interface to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import CheckError
from hybridc.model import check_arguments
from hybridc.module.executor_group import DataParallelExecutorGroup, split_input_slice

__all__ = ["DataParallelExecutorManager"]

# The names by which programs know them.
_split_input_slice = split_input_slice
_check_arguments = check_arguments


class DataParallelExecutorManager:
    """The executors of a symbol on several devices, for batches of ``train_data``.

    Parameters
    ----------
    symbol:
        The symbol; two arguments of one name are an AttributeValueError.
    ctx:
        The devices.
    train_data:
        An iterator whose batches they are for.
    arg_names, aux_names:
        Accepted for MXNet's API; the symbol says them.
    param_names:
        The arguments that are parameters; None takes all that ``train_data`` does not give.
    work_load_list:
        A number for each device: batches are divided in proportion. None divides them equally.
    logger:
        Where messages go; None is the module ``logging``.
    sym_gen:
        A function that gives the symbol of a bucket key, which batches have; None for one symbol.
    """

    def __init__(
        self,
        symbol: Any,
        ctx: Sequence[Context],
        train_data: Any,
        arg_names: Sequence[str] | None = None,
        param_names: Sequence[str] | None = None,
        aux_names: Sequence[str] | None = None,
        work_load_list: Sequence[float] | None = None,
        logger: Any = None,
        sym_gen: Callable[[Any], Any] | None = None,
    ) -> None:
        self.symbol = symbol
        self.ctx = list(ctx)
        self.sym_gen = sym_gen
        self.slices = split_input_slice(train_data.batch_size, work_load_list or [1] * len(self.ctx))
        inputs = [x[0] for x in (*train_data.provide_data, *train_data.provide_label)]
        self.param_names = list(param_names or [x for x in symbol.list_arguments() if x not in inputs])
        self._options = (self.ctx, work_load_list or [1] * len(self.ctx))
        self._logger = logging if logger is None else logger
        self._first = self._made(symbol, train_data, None)
        self._groups: dict[Any, DataParallelExecutorGroup] = {}
        if sym_gen is not None:
            self._groups[train_data.default_bucket_key] = self._first
        self._now = self._first
        self._batch: Any = None

    def _made(self, symbol: Any, data: Any, shared: DataParallelExecutorGroup | None) -> DataParallelExecutorGroup:
        check_arguments(symbol)
        contexts, workload = self._options
        return DataParallelExecutorGroup(
            symbol, contexts, workload, data.provide_data, data.provide_label, self.param_names, True, False, shared,
            logger=self._logger,
        )  # fmt: skip

    def install_monitor(self, monitor: Any) -> None:
        """Let the ``monitor`` look at all executors; with ``sym_gen`` it is a CheckError."""
        if self.sym_gen is not None:
            raise CheckError("Monitoring is not implemented for bucketing; use mx.mod.BucketingModule")
        self._first.install_monitor(monitor)

    def set_params(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Copy values into the parameters and auxiliary states of all devices.

        Parameters
        ----------
        arg_params, aux_params:
            Arrays by name.
        """
        self._first.set_params(arg_params, aux_params)

    def copy_to(self, arg_params: Mapping[str, NDArray], aux_params: Mapping[str, NDArray]) -> None:
        """Copy the parameters and auxiliary states, each the mean over devices, into these arrays.

        Parameters
        ----------
        arg_params, aux_params:
            Arrays by name.
        """
        self._first.get_params(arg_params, aux_params)

    @property
    def param_arrays(self) -> list[list[NDArray]]:
        """The parameters: for each, the array of each device."""
        return self._first.param_arrays

    @property
    def grad_arrays(self) -> list[list[NDArray | None]]:
        """The gradients of the parameters: for each, the array of each device."""
        return self._first.grad_arrays

    @property
    def aux_arrays(self) -> list[list[NDArray]]:
        """The auxiliary states: for each, the array of each device."""
        return self._first.aux_arrays

    def load_data_batch(self, data_batch: Any) -> None:
        """Take the next batch, ``data_batch``; its bucket becomes the present one."""
        self._batch = data_batch
        if self.sym_gen is not None:
            key = data_batch.bucket_key
            if key not in self._groups:
                self._groups[key] = self._made(self.sym_gen(key), data_batch, self._first)
            self._now = self._groups[key]

    def forward(self, is_train: bool = False) -> None:
        """Compute the outputs of the batch."""
        if self._batch is None:
            raise CheckError("forward: there is no batch; call load_data_batch before")
        self._now.forward(self._batch, is_train)

    def backward(self) -> None:
        """Compute the gradients."""
        self._now.backward()

    def update_metric(self, metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last batch.

        Parameters
        ----------
        metric:
            The metric.
        labels:
            The labels of the batch, a list.
        pre_sliced:
            Whether they are a list for each device.
        """
        self._now.update_metric(metric, labels, pre_sliced)
