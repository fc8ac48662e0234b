"""Module: a symbol with its parameters, executors and optimizer."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.errors import CheckError, MXNetError, ShapeError
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.location import user_depth
from hybridc.ground.whole_files import write_whole
from hybridc.initializer import InitDesc
from hybridc.io import DataDesc
from hybridc.kvstore import sharing
from hybridc.module.base_module import CPU, INITIALIZER, SGD, AssignedModule, check_input_names, parse_data_desc
from hybridc.module.executor_group import DataParallelExecutorGroup
from hybridc.symbol.checkpoint import load_checkpoint, parameters_file

__all__ = ["Module"]


class Module(AssignedModule):
    """A symbol that is trained and used on batches.

    Parameters
    ----------
    symbol:
        The symbol, whose outputs end in losses if it is trained, such as ``mx.sym.SoftmaxOutput``.
    data_names, label_names:
        The arguments that batches give.
    context, work_load_list:
        A device, or several, each of which computes a slice of every batch in proportion to its work load.
    fixed_param_names:
        Parameters that are not trained.
    state_names:
        Arguments that keep their values from batch to batch: 0 at first, see :meth:`set_states`.
    group2ctxs:
        Devices of variables and outputs by their attribute ``"ctx_group"``: a dict, or a list of one for each of
        ``context``. The arrays are on them; a graph is one program, whose operators run on ``context``.
    compression_params:
        As for ``KVStore.set_gradient_compression``.

    Examples
    --------
    >>> x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype="float32")
    >>> labels = np.array([0, 0, 1, 1], dtype="float32")
    >>> batches = mx.io.NDArrayIter(x, labels, batch_size=2)
    >>> net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), name="softmax")
    >>> module = mx.mod.Module(net)
    >>> module.fit(batches, num_epoch=20, optimizer="sgd", optimizer_params={"learning_rate": 1.0})
    >>> module.score(batches, "acc")
    [('accuracy', 1.0)]
    >>> module.predict(batches).shape
    (4, 2)
    """

    @hides_frames
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
    ) -> None:
        super().__init__(logger=logger)
        self._context = [context] if isinstance(context, Context) else list(context)
        self._work_load_list = [1.0] * len(self._context) if work_load_list is None else list(work_load_list)
        if len(self._work_load_list) != len(self._context):
            raise CheckError(
                f"Module: work_load_list has {len(self._work_load_list)} numbers for {len(self._context)} devices"
            )
        self._group2ctxs = group2ctxs
        self._symbol = symbol
        self._data_names = list(data_names or ())
        self._label_names = list(label_names or ())
        self._state_names = list(state_names or ())
        self._fixed_param_names = list(fixed_param_names or ())
        check_input_names(symbol, self._data_names, "data", True)
        check_input_names(symbol, self._label_names, "label", False)
        check_input_names(symbol, self._state_names, "state", True)
        check_input_names(symbol, self._fixed_param_names, "fixed_param", True)
        inputs = {*self._data_names, *self._label_names, *self._state_names}
        self._param_names: list[str] = [name for name in symbol.list_arguments() if name not in inputs]
        self._aux_names: list[str] = symbol.list_auxiliary_states()
        self._output_names: list[str] = symbol.list_outputs()
        self._arg_params: dict[str, NDArray] | None = None
        self._aux_params: dict[str, NDArray] | None = None
        self._params_dirty = False  # whether those on the devices are newer
        self._compression_params = compression_params
        self._optimizer: Any = None
        self._kvstore: Any = None
        self._has_rows = True  # whether the row_sparse parameters are those that the kvstore updated
        self._update_on_kvstore = False
        self._updater: Any = None
        self._preload_opt_states: str | None = None
        self._compiled_entries: Any = None  # of a file, which are found as long as this lives
        self._grad_req: Any = None
        self._exec_group: Any = None
        self._data_shapes: list[DataDesc] = []
        self._label_shapes: list[DataDesc] | None = None

    # --- files ---------------------------------------------------------------------------------------------

    @staticmethod
    def load(
        prefix: str,
        epoch: int,
        load_optimizer_states: bool = False,
        compiled: bool | str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> Module:
        """The module of a checkpoint.

        Parameters
        ----------
        prefix, epoch:
            What :meth:`save_checkpoint` was called with: ``prefix-symbol.json`` and ``prefix-0003.params`` are read.
        load_optimizer_states:
            Read ``prefix-0003.states`` when there is an optimizer.
        compiled:
            What ``python -m hybridc compile --module`` compiled is not compiled again: True for the file
            ``prefix-0003.compiled``, or the name of the file. It has machine code, which runs here: give only files
            that you trust as you would trust a program.
        **kwargs:
            Those of the constructor.
        """
        symbol, arguments, states = load_checkpoint(prefix, epoch)
        made = Module(symbol=symbol, **kwargs)
        made._arg_params, made._aux_params = arguments, states
        made.params_initialized = True
        if load_optimizer_states:
            made._preload_opt_states = f"{prefix}-{epoch:04d}.states"
        if compiled:
            from hybridc.compile.compiled_file import adopted

            file = f"{prefix}-{epoch:04d}.compiled" if compiled is True else compiled
            made._compiled_entries = adopted(file)
        return made

    @hides_frames
    def save_checkpoint(
        self, prefix: str, epoch: int, save_optimizer_states: bool = False, remove_amp_cast: bool = True
    ) -> None:
        """Save ``prefix-symbol.json``, ``prefix-0003.params``, and if asked for ``prefix-0003.states``.

        Parameters
        ----------
        prefix:
            What names of the files begin with, with their folder.
        epoch:
            The number in the names, with at least 4 digits.
        save_optimizer_states:
            Save the optimizer's states, too.
        remove_amp_cast:
            Save the symbol without the casts of mixed precision.

        Examples
        --------
        >>> import os, tempfile
        >>> module = mx.mod.Module(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=2), label_names=None)
        >>> module.bind([("data", (1, 3))])
        >>> module.init_params()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     module.save_checkpoint(os.path.join(folder, "net"), 3)
        ...     print(sorted(os.listdir(folder)))
        ...     again = mx.mod.Module.load(os.path.join(folder, "net"), 3, label_names=None)
        ['net-0003.params', 'net-symbol.json']
        >>> again.bind([("data", (1, 3))])
        >>> again.predict(np.ones((1, 3))).shape
        (1, 2)
        """
        self._symbol.save(f"{prefix}-symbol.json", remove_amp_cast=remove_amp_cast)
        file = parameters_file(prefix, epoch)
        self.save_params(file)
        logging.getLogger().info('Saved checkpoint to "%s"', file)
        if save_optimizer_states:
            file = f"{prefix}-{epoch:04d}.states"
            self.save_optimizer_states(file)
            logging.getLogger().info('Saved optimizer state to "%s"', file)

    def save_optimizer_states(self, fname: str) -> None:
        """Save the optimizer's states, such as momenta.

        Parameters
        ----------
        fname:
            The file, which appears whole or not at all.
        """
        self._check_ready("save_optimizer_states", optimizer=True)
        if self._update_on_kvstore:
            self._kvstore.save_optimizer_states(fname)
        else:
            write_whole(fname, self._updater.get_states())

    @hides_frames
    def load_optimizer_states(self, fname: str) -> None:
        """Load what :meth:`save_optimizer_states` saved.

        Parameters
        ----------
        fname:
            The file, of this library or of MXNet. An MXNetError is raised if it is damaged.
        """
        self._check_ready("load_optimizer_states", optimizer=True)
        if self._update_on_kvstore:
            self._kvstore.load_optimizer_states(fname)
        else:
            self._updater.set_states(Path(fname).read_bytes())

    def __repr__(self) -> str:
        inputs = [*self._data_names, *self._label_names]
        if self.binded:
            inputs = [f"{x.name}{list(x.shape)}" for x in (*self.data_shapes, *(self.label_shapes or ()))]
        return f"Module({self._symbol!r}, {', '.join(inputs)}{'' if self.binded else '; not bound'})"

    # --- names and shapes ----------------------------------------------------------------------------------

    @property
    def data_names(self) -> list[str]:
        """The names of the data."""
        return self._data_names

    @property
    def label_names(self) -> list[str]:
        """The names of the labels."""
        return self._label_names

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return self._output_names

    @property
    def data_shapes(self) -> list[DataDesc]:
        """Descriptions of the data."""
        self._check_bound("data_shapes")
        return self._data_shapes

    @property
    def label_shapes(self) -> list[DataDesc] | None:
        """Descriptions of the labels, or None."""
        self._check_bound("label_shapes")
        return self._label_shapes

    @property
    def output_shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """Names and shapes of the outputs."""
        self._check_bound("output_shapes")
        return self._exec_group.get_output_shapes()

    @property
    def _total_exec_bytes(self) -> int:
        """Bytes of the arrays of all executors."""
        return self._exec_group.total_exec_bytes if self.binded else 0

    # --- parameters ----------------------------------------------------------------------------------------

    def get_params(self) -> tuple[dict[str, NDArray], dict[str, NDArray]]:
        """The parameters and the auxiliary states by name: each the mean over devices."""
        if not self.params_initialized:
            raise CheckError("get_params: call init_params before")
        if self._params_dirty:
            self._sync_params_from_devices()
        assert self._arg_params is not None
        assert self._aux_params is not None
        return self._arg_params, self._aux_params

    def _sync_params_from_devices(self) -> None:
        self._pull_sparse()
        self._exec_group.get_params(self._arg_params, self._aux_params)
        self._params_dirty = False

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
            warnings.warn(
                "Parameters already initialized and force_init=False. init_params call ignored.",
                stacklevel=user_depth(),
            )
            return
        self._check_bound("init_params")
        attributes = self._symbol.attr_dict()
        groups = (self._arg_params, arg_params), (self._aux_params, aux_params)
        for own, given in groups:
            assert own is not None
            for name, array in sorted(own.items()):
                _fill(InitDesc(name, attributes.get(name)), array, given, initializer, allow_missing)
        self.params_initialized = True
        self._params_dirty = False
        self._exec_group.set_params(self._arg_params, self._aux_params, allow_extra=allow_extra)

    def _assign(self, arg_params: Any, aux_params: Any, force_init: bool, allow_extra: bool) -> None:
        self._exec_group.set_params(arg_params or {}, aux_params or {}, allow_extra=allow_extra)

    def get_states(self, merge_multi_context: bool = True) -> list[Any]:
        """The states: for each, the array of each device; ``merge_multi_context`` must be False."""
        self._check_ready("get_states")
        return self._exec_group.get_states(merge_multi_context=merge_multi_context)

    def set_states(self, states: Any = None, value: Any = None) -> None:
        """Set the states to arrays, such as :meth:`get_states` or ``get_outputs`` by device give, or to a number.

        Exactly one of ``states`` and ``value`` is given.
        """
        self._check_ready("set_states")
        self._exec_group.set_states(states, value)

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
        """Make the executors for batches of these shapes; see :meth:`BaseModule.bind`."""
        if force_rebind:
            self._reset_bind()
        if self.binded:
            self.logger.warning("Already bound, ignoring bind()")
            return
        if inputs_need_grad and not for_training:
            raise CheckError("bind: inputs_need_grad=True needs for_training=True")
        self.for_training = for_training
        self.inputs_need_grad = inputs_need_grad
        self._grad_req = grad_req
        self._data_shapes, self._label_shapes = parse_data_desc(
            self._data_names, self._label_names, data_shapes, label_shapes
        )
        if shared_module is not None and not (shared_module.binded and shared_module.params_initialized):
            raise CheckError("bind: shared_module must be bound and have parameters")
        self._exec_group = DataParallelExecutorGroup(
            self._symbol,
            self._context,
            self._work_load_list,
            self._data_shapes,
            self._label_shapes,
            self._param_names,
            for_training,
            inputs_need_grad,
            None if shared_module is None else shared_module._exec_group,
            logger=self.logger,
            fixed_param_names=self._fixed_param_names,
            grad_req=grad_req,
            state_names=self._state_names,
            group2ctxs=self._group2ctxs,
        )
        self.binded = True
        if shared_module is not None:
            self.params_initialized = True
            self._arg_params, self._aux_params = shared_module._arg_params, shared_module._aux_params
            if shared_module.optimizer_initialized:
                self.borrow_optimizer(shared_module)
        elif self.params_initialized:
            self._exec_group.set_params(self._arg_params, self._aux_params)
        else:
            self._arg_params = _zeros(self._param_names, self._exec_group.param_arrays)
            self._aux_params = _zeros(self._aux_names, self._exec_group.aux_arrays)

    def _reset_bind(self) -> None:
        if self.binded and self.params_initialized and self._params_dirty:
            # COMPAT(mxnet): there the newest values are lost with the executors.
            self._sync_params_from_devices()
        self.binded = False
        self._exec_group = None
        self._data_shapes = []
        self._label_shapes = None

    @hides_frames
    def reshape(self, data_shapes: Any, label_shapes: Any = None) -> None:
        """Go on with batches of other shapes; :meth:`forward` does it by itself.

        Parameters
        ----------
        data_shapes, label_shapes:
            As for :meth:`bind`.
        """
        self._check_bound("reshape")
        found = parse_data_desc(self._data_names, self._label_names, data_shapes, label_shapes)
        self._exec_group.reshape(*found)
        self._data_shapes, self._label_shapes = found

    @hides_frames
    def compile(self) -> None:
        """Compile the forward, and when training the backward, for the shapes that it is bound to, without running."""
        self._check_bound("compile")
        for executor in self._exec_group.execs:
            executor.compile(self.for_training)

    def install_monitor(self, mon: Any) -> None:
        """Let a monitor look at all executors."""
        self._check_bound("install_monitor")
        self._exec_group.install_monitor(mon)

    # --- the optimizer -------------------------------------------------------------------------------------

    @hides_frames
    def init_optimizer(
        self, kvstore: Any = "local", optimizer: Any = "sgd", optimizer_params: Any = SGD, force_init: bool = False
    ) -> None:
        """Set the optimizer, by which :meth:`update` works; see :meth:`BaseModule.init_optimizer`."""
        self._check_ready("init_optimizer")
        if self.optimizer_initialized and not force_init:
            self.logger.warning("optimizer already initialized, ignoring...")
            return
        arg_params, _ = self.get_params()
        count = len(self._context)
        store, on_store = sharing.create_kvstore(kvstore, count, arg_params)
        batch_size = sharing.total_batch_size(store, self._exec_group.batch_size)
        rescale_grad = 1.0 / batch_size if batch_size else 1.0
        per_device = 1 if on_store else count
        names = {i * per_device + k: name for i, name in enumerate(self._param_names) for k in range(per_device)}
        if isinstance(optimizer, str):
            options = {"rescale_grad": rescale_grad, **dict(optimizer_params)}
            optimizer = opt.create(optimizer, sym=self.symbol, param_idx2name=names, **options)
        elif not isinstance(optimizer, opt.Optimizer):
            raise CheckError(f"init_optimizer: optimizer must be an Optimizer or a name, got {optimizer!r}")
        else:
            if optimizer.rescale_grad != rescale_grad:
                warnings.warn(
                    "Optimizer created manually outside Module but rescale_grad is not normalized to "
                    f"1.0/batch_size/num_workers ({optimizer.rescale_grad} vs. {rescale_grad}). Is this intended?",
                    stacklevel=user_depth(),
                )
            if not optimizer.idx2name:
                optimizer.idx2name = names
        self._optimizer, self._kvstore, self._update_on_kvstore, self._updater = optimizer, store, on_store, None
        if store is not None:
            if self._compression_params:
                store.set_gradient_compression(self._compression_params)
            if on_store:
                store.set_optimizer(optimizer)
            else:
                sharing.check_optimizer(store, optimizer)
            if sharing.sums_over_ranks(store):
                self._params_dirty = True  # they become those of rank 0
            sharing.initialize_kvstore(store, self._exec_group.param_arrays, arg_params, self._param_names, on_store)
        if not on_store:
            self._updater = opt.get_updater(optimizer)
        self.optimizer_initialized = True
        if self._preload_opt_states is not None:
            self.load_optimizer_states(self._preload_opt_states)
            self._preload_opt_states = None

    def borrow_optimizer(self, shared_module: Any) -> None:
        """Use the optimizer of another module with the same parameters.

        Parameters
        ----------
        shared_module:
            The other module, which has an optimizer.
        """
        if not shared_module.optimizer_initialized:
            raise CheckError("borrow_optimizer: the other module has no optimizer; call its init_optimizer before")
        self._optimizer = shared_module._optimizer
        self._kvstore = shared_module._kvstore
        self._update_on_kvstore = shared_module._update_on_kvstore
        self._updater = shared_module._updater
        self.optimizer_initialized = True

    # --- computing -----------------------------------------------------------------------------------------

    @hides_frames
    def forward(self, data_batch: Any, is_train: bool | None = None) -> None:
        """Compute the outputs of a batch, whose shapes may be others than those before."""
        self._check_ready("forward")
        if not self._has_rows:
            self._pull_sparse()
        shapes = _shapes(data_batch)
        if shapes != [x.shape for x in self._data_shapes]:
            self._fit_shapes(data_batch, shapes)
        self._exec_group.forward(data_batch, is_train)

    def _fit_shapes(self, data_batch: Any, shapes: Sequence[tuple[int, ...]]) -> None:
        """Reshape for a batch of other shapes."""
        data = getattr(data_batch, "provide_data", None) or [
            DataDesc(x.name, shape, x.dtype, x.layout) for x, shape in zip(self._data_shapes, shapes, strict=False)
        ]
        labels = getattr(data_batch, "provide_label", None)
        if not labels and getattr(data_batch, "label", None):
            labels = [
                DataDesc(x.name, label.shape, x.dtype, x.layout)
                for x, label in zip(self._label_shapes or (), data_batch.label, strict=False)
            ]
        self.reshape(data, labels or None)

    @hides_frames
    def backward(self, out_grads: Any = None) -> None:
        """Compute the gradients; ``out_grads`` are those of outputs that are no losses."""
        self._check_ready("backward")
        self._exec_group.backward(out_grads=out_grads)

    @hides_frames
    def update(self) -> None:
        """Update the parameters with the gradients of the last batch."""
        self._check_ready("update", optimizer=True)
        self._params_dirty = True
        group = self._exec_group
        if self._update_on_kvstore:
            sharing.update_params_on_kvstore(group.param_arrays, group.grad_arrays, self._kvstore, group.param_names)
            self._has_rows = False
        else:
            sharing.update_params(
                group.param_arrays, group.grad_arrays, self._updater, len(self._context), self._kvstore,
                group.param_names,
            )  # fmt: skip

    def get_outputs(self, merge_multi_context: bool = True) -> list[Any]:
        """The outputs of the last batch; without ``merge_multi_context`` a list for each, by device."""
        self._check_ready("get_outputs")
        return self._exec_group.get_outputs(merge_multi_context=merge_multi_context)

    def get_input_grads(self, merge_multi_context: bool = True) -> list[Any]:
        """The gradients of the data, as :meth:`get_outputs` gives outputs."""
        self._check_ready("get_input_grads")
        return self._exec_group.get_input_grads(merge_multi_context=merge_multi_context)

    @hides_frames
    def update_metric(self, eval_metric: Any, labels: Any, pre_sliced: bool = False) -> None:
        """Let a metric take in the outputs of the last batch, and its labels; ``pre_sliced`` ones are by device."""
        self._exec_group.update_metric(eval_metric, labels, pre_sliced)

    def prepare(self, data_batch: Any, sparse_row_id_fn: Any = None) -> None:
        """Get ready for a batch: get the rows of row_sparse parameters that it needs from the kvstore.

        ``sparse_row_id_fn(data_batch)`` gives their numbers by the parameters' names. Without it all rows are got.
        """
        self._check_bound("prepare")
        if sparse_row_id_fn is None or not self._update_on_kvstore:
            return
        for name, rows in sparse_row_id_fn(data_batch).items():
            if name not in self._param_names:
                raise CheckError(f"prepare: sparse_row_id_fn has rows of {name!r}, which is no parameter")
            arrays = self._exec_group.param_arrays[self._param_names.index(name)]
            self._kvstore.row_sparse_pull(name, arrays, row_ids=rows)
        self._has_rows = True

    def _pull_sparse(self) -> None:
        """Get all rows of row_sparse parameters from the kvstore that updates them."""
        if self._update_on_kvstore:
            group = self._exec_group
            for name, arrays in zip(group.param_names, group.param_arrays, strict=True):
                if arrays[0].stype != "default":
                    self._kvstore.pull(name, list(arrays), ignore_sparse=False)
        self._has_rows = True


def _zeros(names: Sequence[str], blocks: Sequence[Sequence[NDArray]]) -> dict[str, NDArray]:
    """Arrays for copies of those of the devices, by name."""
    return {name: block[0].zeros_like() for name, block in zip(names, blocks, strict=True)}


def _fill(desc: InitDesc, array: NDArray, given: Any, initializer: Any, allow_missing: bool) -> None:
    """Set a parameter to its given value, or by the initializer."""
    value = None if given is None else given.get(desc)
    if value is not None:
        if value.shape != array.shape:
            raise ShapeError(f"init_params: {desc} has shape {array.shape}, the given value {value.shape}")
        value.copyto(array)
    elif given is not None and not allow_missing:
        raise MXNetError(
            f"{desc} is not presented: give its value, or set allow_missing=True to let the initializer make it"
        )
    elif initializer is not None:
        initializer(desc, array)


def _shapes(data_batch: Any) -> list[tuple[int, ...]]:
    """The shapes of the data of a batch, or of a list of batches, one for each device, together."""
    if not isinstance(data_batch, list):
        return [tuple(x.shape) for x in data_batch.data]
    batches = cast("list[Any]", data_batch)
    found = [[tuple(x.shape) for x in each.data] for each in batches]
    if any(shapes != found[0] for shapes in found):
        raise CheckError(f"All data batches in a list need to have the same shape, got {found}")
    return [(len(batches) * shape[0], *shape[1:]) for shape in found[0]]
