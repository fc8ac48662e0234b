"""SequentialModule: modules one after the other, each on the outputs of the one before."""

from __future__ import annotations

import copy
import logging
from typing import Any

from hybridc.array.ndarray import NDArray
from hybridc.errors import CheckError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.module.base_module import INITIALIZER, SGD, BaseModule

__all__ = ["SequentialModule"]


class SequentialModule(BaseModule):
    """A chain of modules: ``SequentialModule().add(first).add(second, take_labels=True, auto_wiring=True)``.

    ``take_labels`` gives a module the labels of the batch, ``auto_wiring`` lets its data have other names than the
    outputs of the module before.

    Examples
    --------
    >>> first = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4), label_names=None)
    >>> second = mx.mod.Module(mx.sym.Activation(mx.sym.var("data"), act_type="relu"), label_names=None)
    >>> chain = mx.mod.SequentialModule().add(first).add(second, auto_wiring=True)
    >>> chain.bind([("data", (2, 3))])
    >>> chain.init_params()
    >>> chain.predict(np.ones((2, 3))).shape
    (2, 4)
    """

    META_TAKE_LABELS = "take_labels"
    META_AUTO_WIRING = "auto_wiring"

    def __init__(self, logger: Any = logging) -> None:
        super().__init__(logger=logger)
        self._modules: list[Any] = []
        self._metas: list[dict[str, Any]] = []
        self._label_shapes: Any = None
        self._meta_keys = {getattr(type(self), x) for x in dir(type(self)) if x.startswith("META_")}

    def add(self, module: Any, **kwargs: Any) -> SequentialModule:
        """Add a module at the end; returns this one. It has to be bound and initialized again.

        Parameters
        ----------
        module:
            The module.
        **kwargs:
            ``take_labels=True`` gives it the labels of batches; ``auto_wiring=True`` lets its data have other names
            than the outputs of the module before. Others are a CheckError.
        """
        for key in kwargs:
            if key not in self._meta_keys:
                raise CheckError(f'Unknown meta "{key}", a typo? There are {", ".join(sorted(self._meta_keys))}')
        self._modules.append(module)
        self._metas.append(kwargs)
        self.binded = self.params_initialized = self.optimizer_initialized = False
        return self

    def _takes_labels(self, i: int) -> bool:
        return bool(self._metas[i].get(self.META_TAKE_LABELS))

    # --- names and shapes ----------------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """The names of the data of the first module."""
        return self._modules[0].data_names if self._modules else []

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs of the last module."""
        return self._modules[-1].output_names if self._modules else []

    @property
    def data_shapes(self) -> Any:
        """Names and shapes of the data of the first module."""
        self._check_bound("data_shapes")
        return self._modules[0].data_shapes

    @property
    def label_shapes(self) -> Any:
        """Names and shapes of the labels; None if no module takes them."""
        self._check_bound("label_shapes")
        return self._label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs of the last module."""
        self._check_bound("output_shapes")
        return self._modules[-1].output_shapes

    # --- parameters ----------------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """The parameters and the auxiliary states of all modules by name."""
        self._check_ready("get_params")
        arguments: dict[str, NDArray] = {}
        states: dict[str, NDArray] = {}
        for module in self._modules:
            found = module.get_params()
            arguments.update(found[0])
            states.update(found[1])
        return arguments, states

    @hides_frames
    def init_params(
        self,
        initializer: Any = INITIALIZER,
        arg_params: Any = None,
        aux_params: Any = None,
        allow_missing: bool = False,
        force_init: bool = False,
        allow_extra: bool = False,
    ) -> None:
        """Set the parameters to given values, or by an initializer; see :meth:`BaseModule.init_params`."""
        if self.params_initialized and not force_init:
            return
        self._check_bound("init_params")
        owners: dict[str, int] = {}
        for i, module in enumerate(self._modules):
            module.init_params(
                initializer=initializer, arg_params=arg_params, aux_params=aux_params, allow_missing=allow_missing,
                force_init=force_init, allow_extra=allow_extra,
            )  # fmt: skip
            for name in [name for found in module.get_params() for name in found]:
                if name in owners:
                    raise CheckError(
                        f'Duplicated parameter names: name "{name}" in layer {i} ({type(module).__name__}) is already '
                        f"used in layer {owners[name]} ({type(self._modules[owners[name]]).__name__})"
                    )
                owners[name] = i
        self.params_initialized = True

    # --- executors -----------------------------------------------------------------------------------------

    @hides_frames
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
        """Make the executors of all modules, for batches of these shapes; see :meth:`BaseModule.bind`."""
        if self.binded and not force_rebind:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise CheckError("bind: inputs_need_grad=True needs for_training=True")
        if shared_module is not None:
            raise CheckError("bind: Shared module is not supported")
        if not self._modules:
            raise CheckError("Attempting to bind an empty SequentialModule; add modules before")
        # COMPAT(mxnet): there these two stay False.
        self.for_training, self.inputs_need_grad = for_training, inputs_need_grad
        shapes = data_shapes
        for i, module in enumerate(self._modules):
            if self._metas[i].get(self.META_AUTO_WIRING):
                names = module.data_names
                if len(names) != len(shapes):
                    raise CheckError(f"bind: layer {i} has the data {names}, but gets {len(shapes)} arrays")
                shapes = [(name, each[1]) for name, each in zip(names, shapes, strict=True)]
            module.bind(
                data_shapes=shapes, label_shapes=label_shapes if self._takes_labels(i) else None,
                for_training=for_training, inputs_need_grad=inputs_need_grad or (for_training and i > 0),
                force_rebind=force_rebind, shared_module=None, grad_req=grad_req,
            )  # fmt: skip
            shapes = module.output_shapes
        self._label_shapes = label_shapes if any(map(self._takes_labels, range(len(self._modules)))) else None
        self.binded = True

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at the executors of all modules."""
        self._check_bound("install_monitor")
        for module in self._modules:
            module.install_monitor(mon)

    @hides_frames
    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Set an optimizer for each module; see :meth:`Module.init_optimizer`."""
        self._check_ready("init_optimizer")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        for module in self._modules:
            module.init_optimizer(
                kvstore=kvstore, optimizer=optimizer, optimizer_params=optimizer_params, force_init=force_init
            )
        self.optimizer_initialized = True

    # --- computing -----------------------------------------------------------------------------------------

    @hides_frames
    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch."""
        self._check_ready("forward")
        batch = copy.copy(data_batch)
        for i, module in enumerate(self._modules):
            if i:
                before = self._modules[i - 1]
                batch.data = before.get_outputs()
                if hasattr(batch, "provide_data"):
                    names = [x[0] for x in before.output_shapes]
                    if self._metas[i].get(self.META_AUTO_WIRING):
                        names = module.data_names
                    batch.provide_data = [(n, x.shape) for n, x in zip(names, batch.data, strict=True)]
            module.forward(batch, is_train=is_train)

    @hides_frames
    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients of all modules, the last one first."""
        self._check_ready("backward")
        for i, module in reversed(list(enumerate(self._modules))):
            module.backward(out_grads=out_grads)
            if i:
                out_grads = module.get_input_grads()

    @hides_frames
    def update(self) -> None:
        """Update the parameters of all modules with the gradients of the last batch."""
        self._check_ready("update", optimizer=True)
        for module in self._modules:
            module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last module."""
        self._check_ready("get_outputs")
        return self._modules[-1].get_outputs(merge_multi_context=merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data of the first module."""
        self._check_ready("get_input_grads")
        if not self.inputs_need_grad:
            raise CheckError("get_input_grads: there are none; bind with inputs_need_grad=True")
        return self._modules[0].get_input_grads(merge_multi_context=merge_multi_context)

    @hides_frames
    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of all modules that take labels."""
        self._check_ready("update_metric")
        for i, module in enumerate(self._modules):
            if self._takes_labels(i):
                module.update_metric(eval_metric, labels, pre_sliced)
