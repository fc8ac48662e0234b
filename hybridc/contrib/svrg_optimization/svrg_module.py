"""A Module that is trained by SVRG: each gradient is corrected by those of weights that are some epochs old."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from hybridc import nd
from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import ArgumentTypeError, AttributeValueError, CheckError
from hybridc.kvstore import sharing
from hybridc.module.base_module import CPU, SGD
from hybridc.module.module import Module

__all__ = ["SVRGModule"]

_FULL = "_full"  # what the key of a sum of gradients in a KVStore ends in


class SVRGModule(Module):
    """A Module whose gradients are g(w) - g(old w) + the mean of g(old w) over all batches.

    The other parameters are as of :class:`hybridc.module.Module`.

    Parameters
    ----------
    update_freq:
        Every how many epochs the old weights become those of the Module, and the mean over all batches is computed:
        an integer, else an ArgumentTypeError.
    """

    def __init__(
        self,
        symbol: Any,
        data_names: Sequence[str] | None = ("data",),
        label_names: Sequence[str] | None = ("softmax_label",),
        logger: Any = logging,
        context: Context | Sequence[Context] = CPU,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
        update_freq: int | None = None,
    ) -> None:
        if not isinstance(update_freq, int):
            raise ArgumentTypeError(
                "SVRGModule: update_freq must be an integer, the number of epochs after which the full gradients are "
                f"computed, got {update_freq!r}"
            )
        if update_freq <= 0:
            raise AttributeValueError(f"SVRGModule: update_freq must be a positive number of epochs, got {update_freq}")
        arguments = (symbol, data_names, label_names, logger, context, work_load_list, fixed_param_names, state_names)
        super().__init__(*arguments, group2ctxs, compression_params)
        self.update_freq = update_freq
        self._mod_aux = Module(*arguments, group2ctxs, compression_params)  # of the old weights
        self._param_dict: list[dict[str, NDArray]] = []  # for each device, the mean gradients of the old weights

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
        """Make the executors of the weights and of the old weights; see :meth:`Module.bind`."""
        arguments = (data_shapes, label_shapes, for_training, inputs_need_grad, force_rebind)
        super().bind(*arguments, shared_module, grad_req)
        if for_training:
            shared_aux = getattr(shared_module, "_mod_aux", shared_module)
            self._mod_aux.bind(*arguments, shared_aux, grad_req)

    def _reset_bind(self) -> None:
        super()._reset_bind()
        self._mod_aux._reset_bind()

    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Go on with batches of other shapes."""
        super().reshape(data_shapes, label_shapes)
        if self._mod_aux.binded:
            self._mod_aux.reshape(data_shapes, label_shapes)

    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Set the optimizer that gets the corrected gradients; see :meth:`Module.init_optimizer`."""
        self._check_ready("init_optimizer")
        arg_params, _ = self.get_params()
        count = len(self._context)
        self._param_dict = [
            {name: nd.zeros(x.shape, ctx=ctx, dtype=x.dtype) for name, x in arg_params.items()} for ctx in self._context
        ]
        store, on_store = sharing.create_kvstore(kvstore, count, arg_params)
        batch_size = sharing.total_batch_size(store, self._exec_group.batch_size)
        per_device = 1 if on_store else count
        names = {i * per_device + k: name for i, name in enumerate(self._param_names) for k in range(per_device)}
        names.update(enumerate((name + _FULL for name in self._param_names), len(names)))
        options = {"rescale_grad": 1.0 / batch_size if batch_size else 1.0, **dict(optimizer_params)}
        made = opt.create("_svrgoptimizer", default_optimizer=optimizer, param_idx2name=names, **options)
        super().init_optimizer(store, made, optimizer_params, force_init)
        if self._kvstore is not None:
            # COMPAT(mxnet): with several devices the parameters are set to 0 there.
            for name in self._param_names:
                self._kvstore.init(name + _FULL, nd.zeros(arg_params[name].shape, dtype=arg_params[name].dtype))

    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch; in training with the old weights, too."""
        super().forward(data_batch, is_train)
        if is_train:
            self._mod_aux.forward(data_batch, is_train)

    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients for both weights."""
        super().backward(out_grads)
        if self._mod_aux.binded:
            self._mod_aux.backward(out_grads)

    def update(self) -> None:
        """Update the parameters with the corrected gradients of the last batch."""
        self._check_ready("update", optimizer=True)
        self._update_svrg_gradients()
        super().update()

    def update_full_grads(self, train_data: Any) -> None:
        """The old weights become the present ones, and their mean gradients over all batches are computed.

        Parameters
        ----------
        train_data:
            An iterator over all batches; it starts over before.
        """
        self._check_ready("update_full_grads", optimizer=True)
        if not self._mod_aux.binded:
            raise CheckError("update_full_grads: the module must be bound for training, bind(for_training=True)")
        self._mod_aux.set_params(*self.get_params())
        # COMPAT(mxnet): there the sums begin with the means of the last call, which are never forgotten.
        self._param_dict = [{name: nd.zeros_like(x) for name, x in sums.items()} for sums in self._param_dict]
        count, padding = 0, 0
        train_data.reset()
        for batch in train_data:
            self._mod_aux.forward(batch, is_train=True)
            self._mod_aux.backward()
            for name, grads in self._gradients(self._mod_aux):
                for sums, grad in zip(self._param_dict, grads, strict=True):
                    sums[name] += grad
            count += 1
            padding = batch.pad or 0
        batches = count - padding / train_data.batch_size
        for name, _ in self._gradients(self._mod_aux):
            for sums in self._param_dict:
                sums[name] /= batches
            if self._kvstore is not None:
                self._share(name)

    def _share(self, name: str) -> None:
        """Divide the sum of all devices and workers among them: each batch's gradients are summed alike."""
        values = [sums[name] for sums in self._param_dict]
        self._kvstore.push(name + _FULL, values)
        self._kvstore.pull(name + _FULL, values)
        # COMPAT(mxnet): there it is divided by the number of devices only, and each worker adds all.
        for value in values:
            value /= len(values) * self._kvstore.num_workers

    @staticmethod
    def _gradients(module: Module) -> list[tuple[str, list[NDArray]]]:
        """The gradients of a module by parameter, one for each device; fixed parameters have none."""
        group = module._exec_group
        pairs = zip(group.param_names, group.grad_arrays, strict=True)
        return [(name, grads) for name, grads in pairs if all(g is not None for g in grads)]

    def _update_svrg_gradients(self) -> None:
        """Correct the gradients of the last batch, in place."""
        old = dict(self._gradients(self._mod_aux))
        for name, grads in self._gradients(self):
            means = [sums[name] for sums in self._param_dict]
            self._svrg_grads_update_rule(grads, old[name], means)

    def _svrg_grads_update_rule(
        self,
        g_curr_batch_curr_weight: Sequence[NDArray],
        g_curr_batch_special_weight: Sequence[NDArray],
        g_special_weight_all_batch: Sequence[NDArray],
    ) -> Sequence[NDArray]:
        """The gradients of the weights, minus those of the old weights, plus the means of these over all batches."""
        parts = (g_curr_batch_curr_weight, g_curr_batch_special_weight, g_special_weight_all_batch)
        for grad, old, mean in zip(*parts, strict=True):
            grad -= old
            grad += mean
        return g_curr_batch_curr_weight

    def _train_epoch(
        self,
        train_data: Any,
        epoch: int,
        eval_metric: Any,
        batch_end_callback: Any,
        monitor: Any,
        sparse_row_id_fn: Any,
    ) -> list[tuple[str, float]]:
        """Train on all batches; every ``update_freq`` epochs the full gradients are computed before."""
        if epoch % self.update_freq == 0:
            self.update_full_grads(train_data)
        train_data.reset()
        return super()._train_epoch(train_data, epoch, eval_metric, batch_end_callback, monitor, sparse_row_id_fn)

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Get both modules ready for a batch."""
        super().prepare(data_batch, sparse_row_id_fn)
        self._mod_aux.prepare(data_batch, sparse_row_id_fn)
