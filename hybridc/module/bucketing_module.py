"""BucketingModule: modules of several symbols, one for each size of input, with the same parameters."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc import nd
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import CheckError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.module.base_module import CPU, INITIALIZER, SGD, AssignedModule, check_input_names
from hybridc.module.module import Module
from hybridc.name import NameManager
from hybridc.nd import storage
from hybridc.symbol.checkpoint import load_params, parameters_file
from hybridc.symbol.composed import load

__all__ = ["BucketingModule"]


class BucketingModule(AssignedModule):
    """Modules by bucket, such as sentences of one length; a batch says in ``DataBatch.bucket_key`` which one is for it.

    Parameters
    ----------
    sym_gen:
        A function of a key that gives a symbol, the names of its data and the names of its labels.
    default_bucket_key:
        The key of the bucket that :meth:`bind` makes; the others, made when they are first met, share its parameters.
    context, work_load_list, fixed_param_names, state_names, group2ctxs, compression_params:
        As for :class:`Module`.

    Examples
    --------
    >>> def sym_gen(length):
    ...     words = mx.sym.Embedding(mx.sym.var("data"), input_dim=5, output_dim=3, name="words")
    ...     return mx.sym.sum(words, axis=1), ["data"], None
    >>> module = mx.mod.BucketingModule(sym_gen, default_bucket_key=4)
    >>> module.bind([("data", (2, 4))], for_training=False)
    >>> module.init_params()
    >>> for length in (4, 2):
    ...     data = mx.nd.ones((2, length))
    ...     module.forward(
    ...         mx.io.DataBatch([data], bucket_key=length, provide_data=[("data", data.shape)])
    ...     )
    ...     print(module.get_outputs()[0].shape)
    (2, 3)
    (2, 3)
    """

    def __init__(
        self,
        sym_gen: Callable[[Any], Any],
        default_bucket_key: Any = None,
        logger: Any = logging,
        context: Context | Sequence[Context] = CPU,
        work_load_list: Sequence[float] | None = None,
        fixed_param_names: Sequence[str] | None = None,
        state_names: Sequence[str] | None = None,
        group2ctxs: Any = None,
        compression_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(logger=logger)
        if default_bucket_key is None:
            raise CheckError("BucketingModule: default_bucket_key is missing; it is that of the largest bucket")
        self._default_bucket_key = default_bucket_key
        self._sym_gen = sym_gen
        symbol, data_names, label_names = self._call_sym_gen(default_bucket_key)
        check_input_names(symbol, list(data_names or ()), "data", True)
        check_input_names(symbol, list(label_names or ()), "label", False)
        check_input_names(symbol, list(state_names or ()), "state", True)
        check_input_names(symbol, list(fixed_param_names or ()), "fixed_param", True)
        self._options: dict[str, Any] = {
            "logger": logger,
            "context": context,
            "work_load_list": work_load_list,
            "fixed_param_names": fixed_param_names,
            "state_names": state_names,
            "group2ctxs": group2ctxs,
            "compression_params": compression_params,
        }
        self._buckets: dict[Any, Module] = {}
        self._curr_module: Any = None
        self._curr_bucket_key: Any = None
        self._lender: Any = None  # the module that had the optimizer before bind was called again
        self._params_dirty = False
        self._monitor: Any = None
        self._grad_req: Any = None

    def _call_sym_gen(self, key: Any) -> Any:
        with NameManager():
            return self._sym_gen(key)

    def _made(self, key: Any) -> Module:
        symbol, data_names, label_names = self._call_sym_gen(key)
        return Module(symbol, data_names, label_names, **self._options)

    # --- names and shapes ----------------------------------------------------------------------------------

    @property
    def symbol(self) -> Any:
        """The symbol of the present bucket."""
        self._check_bound("symbol")
        return self._curr_module.symbol

    @property
    def data_names(self) -> list[str]:
        """The names of the data of the present bucket."""
        return self._curr_module.data_names if self.binded else self._call_sym_gen(self._default_bucket_key)[1]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs of the present bucket."""
        if self.binded:
            return self._curr_module.output_names
        return self._call_sym_gen(self._default_bucket_key)[0].list_outputs()

    @property
    def data_shapes(self) -> Any:
        """Descriptions of the data of the present bucket."""
        self._check_bound("data_shapes")
        return self._curr_module.data_shapes

    @property
    def label_shapes(self) -> Any:
        """Descriptions of the labels of the present bucket, or None."""
        self._check_bound("label_shapes")
        return self._curr_module.label_shapes

    @property
    def output_shapes(self) -> Any:
        """Names and shapes of the outputs of the present bucket."""
        self._check_bound("output_shapes")
        return self._curr_module.output_shapes

    # --- parameters ----------------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """The parameters and the auxiliary states by name."""
        if not self.params_initialized:
            raise CheckError("get_params: call init_params before")
        self._curr_module._params_dirty = self._params_dirty
        params = self._curr_module.get_params()
        self._params_dirty = False
        return params

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
        self._curr_module.init_params(initializer, arg_params, aux_params, allow_missing, force_init, allow_extra)
        self._params_dirty = False
        self.params_initialized = True

    def _assign(self, arg_params: Any, aux_params: Any, force_init: bool, allow_extra: bool) -> None:
        self._curr_module.set_params(arg_params, aux_params, True, force_init, allow_extra)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states of the present bucket."""
        self._check_ready("get_states")
        return self._curr_module.get_states(merge_multi_context=merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states of the present bucket."""
        self._check_ready("set_states")
        self._curr_module.set_states(states, value)

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
        """Make the executors of the default bucket, for batches of these shapes; see :meth:`BaseModule.bind`."""
        params = self.get_params() if self.params_initialized else None
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if shared_module is not None:
            raise CheckError("bind: shared_module for BucketingModule is not supported")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        key = self._default_bucket_key
        module = self._buckets.get(key) or self._made(key)
        module.bind(data_shapes, label_shapes, for_training, inputs_need_grad, grad_req=grad_req)
        self._buckets[key] = self._curr_module = module
        self._curr_bucket_key = key
        self.binded = True
        if params is not None:
            self.set_params(*params)
            # COMPAT(mxnet): the optimizer of a module that is bound again is of use here; there update() fails.
            self._lend_optimizer()

    def _reset_bind(self) -> None:
        self._lender = self._curr_module
        self.binded = False
        self._buckets = {}
        self._curr_module = None
        self._curr_bucket_key = None

    def _lend_optimizer(self) -> None:
        if self.optimizer_initialized:
            self._curr_module.borrow_optimizer(self._lender)

    @hides_frames
    def switch_bucket(self, bucket_key: Any, data_shapes: Any, label_shapes: Any = None) -> None:
        """Make another bucket the present one.

        Parameters
        ----------
        bucket_key:
            The key of the bucket.
        data_shapes, label_shapes:
            As for :meth:`bind`; used if the bucket is new.
        """
        self._check_bound("switch_bucket")
        module = self._buckets.get(bucket_key)
        if module is None:
            module = self._buckets[bucket_key] = self._made(bucket_key)
        if not module.binded:
            now = self._curr_module
            shared = self._buckets[self._default_bucket_key]
            module.bind(
                data_shapes, label_shapes, now.for_training, now.inputs_need_grad,
                shared_module=shared, grad_req=self._grad_req,
            )  # fmt: skip
            if self._monitor is not None:
                module.install_monitor(self._monitor)
        self._curr_module = module
        self._curr_bucket_key = bucket_key

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at all executors, also at those of later buckets."""
        self._check_bound("install_monitor")
        self._monitor = mon
        for module in self._buckets.values():
            if module.binded:
                module.install_monitor(mon)

    @hides_frames
    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Set the optimizer of all buckets; see :meth:`Module.init_optimizer`."""
        self._check_ready("init_optimizer")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring.")
            return
        self._curr_module.init_optimizer(kvstore, optimizer, optimizer_params, force_init=force_init)
        for module in self._buckets.values():
            if module is not self._curr_module:
                module.borrow_optimizer(self._curr_module)
        self.optimizer_initialized = True

    # --- computing -----------------------------------------------------------------------------------------

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Make the bucket of a batch if it is new."""
        self._check_ready("prepare")
        before = self._curr_bucket_key
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.prepare(data_batch, sparse_row_id_fn=sparse_row_id_fn)
        self.switch_bucket(before, None, None)

    @hides_frames
    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch by the module of its bucket."""
        self._check_ready("forward")
        self.switch_bucket(data_batch.bucket_key, data_batch.provide_data, data_batch.provide_label)
        self._curr_module.forward(data_batch, is_train=is_train)

    @hides_frames
    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients; ``out_grads`` are those of outputs that are no losses."""
        self._check_ready("backward")
        self._curr_module.backward(out_grads=out_grads)

    @hides_frames
    def update(self) -> None:
        """Update the parameters with the gradients of the last batch."""
        self._check_ready("update", optimizer=True)
        self._params_dirty = True
        self._curr_module.update()

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last batch; without ``merge_multi_context`` a list for each, by device."""
        self._check_ready("get_outputs")
        return self._curr_module.get_outputs(merge_multi_context=merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data, as :meth:`get_outputs` gives outputs."""
        self._check_ready("get_input_grads")
        return self._curr_module.get_input_grads(merge_multi_context=merge_multi_context)

    @hides_frames
    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last batch, and its labels; ``pre_sliced`` ones are by device."""
        self._check_ready("update_metric")
        self._curr_module.update_metric(eval_metric, labels, pre_sliced)

    # --- files ---------------------------------------------------------------------------------------------

    @hides_frames
    def save_checkpoint(self, prefix: str, epoch: int, remove_amp_cast: bool = False) -> None:
        """Save ``prefix-0003.params``, a ``prefix-<key>-symbol.json`` for each bucket, and the keys, integers.

        They are in ``prefix.buckets``.

        Parameters
        ----------
        prefix:
            What names of the files begin with, with their folder.
        epoch:
            The number in the name of the parameters' file, with at least 4 digits.
        remove_amp_cast:
            Save the symbols without the casts of mixed precision.
        """
        if not self._buckets:
            raise CheckError("Empty BucketingModule cannot be saved; call bind before")
        self.save_params(parameters_file(prefix, epoch))
        for key in self._buckets:
            symbol, _, _ = self._sym_gen(key)
            symbol.save(f"{prefix}-{key}-symbol.json", remove_amp_cast=remove_amp_cast)
        storage.save(f"{prefix}.buckets", nd.array(list(self._buckets), dtype=np.int32))

    @staticmethod
    def load(
        prefix: str,
        epoch: int,
        sym_gen: Callable[[Any], Any] | None = None,
        default_bucket_key: Any = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """The module of what :meth:`save_checkpoint` saved.

        Parameters
        ----------
        prefix, epoch:
            What :meth:`save_checkpoint` was called with.
        sym_gen, default_bucket_key:
            As for the constructor; both are required.
        **kwargs:
            Those of the constructor.
        """
        keys: Any = storage.load(f"{prefix}.buckets")
        symbols = {key: load(f"{prefix}-{key}-symbol.json") for key in map(int, keys[0].asnumpy())}
        return BucketingModule.load_dict(symbols, sym_gen, default_bucket_key, *load_params(prefix, epoch), **kwargs)

    def converted(self, convert: Callable[[Any, Any, Any], tuple[Any, Any, Any]]) -> BucketingModule:
        """A module of what a function makes of the symbol of each bucket so far and of the parameters.

        Parameters
        ----------
        convert:
            A function of a symbol, the parameters and the auxiliary states (dicts of arrays by name) that gives the
            three anew, as ``mx.contrib.amp`` converts them to half precision.
        """
        arguments, states = self.get_params()
        if not self._buckets:
            raise CheckError("convert_bucketing_module: the module has no bucket yet; call bind before")
        made = {key: convert(module.symbol, arguments, states) for key, module in self._buckets.items()}
        symbols = {key: symbol for key, (symbol, _, _) in made.items()}
        # Parameters of several buckets are cast alike, as the same operators use them.
        new_arguments = {name: x for _, found, _ in made.values() for name, x in found.items()}
        new_states = {name: x for _, _, found in made.values() for name, x in found.items()}
        return BucketingModule.load_dict(
            symbols, self._sym_gen, self._default_bucket_key, new_arguments, new_states, **self._options
        )

    @staticmethod
    def load_dict(
        sym_dict: Mapping[Any, Any] | None = None,
        sym_gen: Callable[[Any], Any] | None = None,
        default_bucket_key: Any = None,
        arg_params: Any = None,
        aux_params: Any = None,
        **kwargs: Any,
    ) -> BucketingModule:
        """A module of symbols by bucket and parameters by name; all parameters are required.

        Parameters
        ----------
        sym_dict:
            The symbol of each bucket, a dict by key.
        sym_gen, default_bucket_key:
            As for the constructor.
        arg_params, aux_params:
            Dicts of arrays by name.
        **kwargs:
            Those of the constructor.
        """
        given = {
            "sym_dict": sym_dict, "sym_gen": sym_gen, "default_bucket_key": default_bucket_key,
            "arg_params": arg_params, "aux_params": aux_params,
        }  # fmt: skip
        missing = [name for name, value in given.items() if value is None]
        if sym_dict is None or sym_gen is None or missing:
            raise CheckError(f"{', '.join(missing)} must be given to load a BucketingModule")
        if default_bucket_key not in sym_dict:
            raise CheckError(f"no symbol for default_bucket_key={default_bucket_key!r}: there are {list(sym_dict)}")
        made = BucketingModule(sym_gen, default_bucket_key, **kwargs)
        for key, symbol in sym_dict.items():
            _, data_names, label_names = sym_gen(key)
            made._buckets[key] = Module(symbol, data_names, label_names, **made._options)
        made._curr_module = made._buckets[default_bucket_key]
        made._curr_module._arg_params = arg_params
        made._curr_module._aux_params = aux_params
        made._curr_module.params_initialized = made.params_initialized = True
        return made
