"""Trainer: one optimizer step on all parameters of a network."""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybridc import autograd
from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray
from hybridc.communication import Alone, Communicator
from hybridc.communication.communicator import Agreed, labelled
from hybridc.communication.compression import CompressedSum, Residuals, Rounding
from hybridc.context import Context, cpu
from hybridc.errors import CheckError, UnsupportedError
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.ground.events import RECORDER, now
from hybridc.ground.whole_files import write_whole
from hybridc.kvstore import KVStore, KVStoreBase, create, sharing
from hybridc.kvstore.base import is_over_ranks
from hybridc.kvstore.rank_gradients import RankGradients, raise_stale
from hybridc.optimizer.plain_settings import ScalarsReader, scalars_of

if TYPE_CHECKING:
    from hybridc.dialects.control.collectives import RankSum
    from hybridc.gluon.hybridize.optimizer_shards import OptimizerShards

__all__ = ["Trainer"]


class DeviceSums(NamedTuple):
    """What programs read of MXNet's store of several devices, where hybridc sums gradients without one."""

    type: str
    #: The optimizer with its states, if the store updates parameters in MXNet.
    updater: opt.Updater | None
    rank: int = 0
    num_workers: int = 1

    _updater = property(lambda self: self.updater)


# What ranks compare of each parameter at an update.
_COMPARED = ("grad_req", "lr_mult", "wd_mult")
_OF_PARAMETER = operator.attrgetter(*_COMPARED)


class _Compared(NamedTuple):
    """What ranks compared: what the caller brought, what of the optimizer, and both together."""

    brought: tuple[Any, ...]
    reader: ScalarsReader
    facts: dict[str, Any]
    lists: dict[str, list[Any]]
    text: str


class Trainer:
    """``Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})``; then ``step(batch_size)``.

    Parameters on several devices have an array on each. A step sums their gradients over the devices. By default it
    then updates the first array and copies it to the others, and gradients stay what each device computed; with
    ``update_on_kvstore=False`` the sums are written into all gradients, and each device updates its own array;
    ``kvstore=None`` sums nothing. With one device a name of a kvstore and ``compression_params`` have nothing to do.
    A kvstore that is given as an object does the sums, and where it can the updates, in the place of all this.

    With ``kvstore="dist_sync"`` and the like all ranks of the program train together: the parameters of rank 0 go to
    all, now or when they get their shapes, and again at the first step; a step sums gradients over devices and ranks,
    and divides by ``batch_size``, which is that of all ranks together. Each rank makes the same update.
    """

    # MXNet's internal names, which Sockeye reads before it saves states.
    _params_to_init: Sequence[Parameter] = ()
    _kv_initialized = property(lambda self: self._store is None or self._store_ready)

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: Any,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: Mapping[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        self._params = _as_list(params)
        self._names = {param.name: i for i, param in enumerate(self._params)}
        self._contexts = _contexts(self._params)
        for param in self._params:
            param.set_trainer(self)
        is_several = len(self._contexts) > 1
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        self._store = self._given_store(kvstore, compression_params)
        self._store_ready = False
        self._sums = is_several and kvstore is not None
        self._update_on_kvstore = self._sums and update_on_kvstore is not False
        if self._store is not None:
            capable = self._store.is_capable(KVStoreBase.OPTIMIZER)
            if update_on_kvstore and not capable:
                raise ValueError(f"Please set update_on_kvstore=False when training with {type(self._store).__name__}")
            # COMPAT(mxnet): without servers each rank makes the same update, so allreduce_grads is possible by default.
            default = capable and not hasattr(self._store, "rank_sums")
            self._update_on_kvstore = default if update_on_kvstore is None else update_on_kvstore
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params or {}))
        self._updaters: list[Any] = [opt.get_updater(self._optimizer) for _ in self._contexts]
        self._over_ranks = None
        if hasattr(self._store, "rank_sums"):
            self._over_ranks = RankGradients(self._params, self._store, self._update_on_kvstore)
        self._checked = False
        self._shards: tuple[OptimizerShards, list[int]] | None = None
        self._scale: float = self._optimizer.rescale_grad
        self._compared: _Compared | None = None  # by ranks, at the last step
        # Compiled steps, and states that were loaded for those that do not exist yet.
        self._attending: list[Callable[[], Any]] = []
        self._awaited: list[Mapping[str, Any]] = []
        # Of mixed precision, which mx.contrib.amp sets: the scaler of the losses, and what _scale was before.
        self._amp_loss_scaler: Any = None
        self._amp_original_scale = self._scale

    def _given_store(self, kvstore: Any, compression_params: Mapping[str, Any] | None) -> Any:
        """The store that the user gave, as an object or by the name of a class of his, or that compresses gradients."""
        store = kvstore
        if isinstance(kvstore, str):
            own = kvstore.lower() in KVStoreBase.kv_registry or bool(compression_params)
            store = create(kvstore) if is_over_ranks(kvstore) or (own and len(self._contexts) > 1) else None
        elif kvstore is not None and not isinstance(kvstore, KVStoreBase):
            raise TypeError(f"kvstore must be KVStore, str or None, got {kvstore!r}")
        if store is not None and compression_params:
            store.set_gradient_compression(compression_params)
        return store

    def _make_optimizer(self, optimizer: Any, options: dict[str, Any]) -> Any:
        # The optimizer reads lr_mult and wd_mult from the parameters at every step.
        param_dict = dict(enumerate(self._params))
        if not isinstance(optimizer, opt.Optimizer):
            return opt.create(optimizer, param_dict=param_dict, **options)
        if options:
            raise CheckError("optimizer_params must be None if optimizer is an instance of Optimizer instead of str")
        optimizer.param_dict = param_dict
        return optimizer

    @property
    def _kvstore(self) -> Any:
        """The store; where devices need none, what MXNet's would say from the first step on."""
        if self._store is not None or not (self._sums and self._checked):
            return self._store
        return DeviceSums(str(self._kvstore_params["kvstore"]), self.updater if self._update_on_kvstore else None)

    @property
    def optimizer(self) -> Any:
        """The optimizer."""
        return self._optimizer

    @property
    def updater(self) -> opt.Updater:
        """The optimizer with the states of the parameters, by their number."""
        return self._updaters[0]

    @property
    def updaters(self) -> list[opt.Updater]:
        """Those that have the states of the optimizer: the kvstore's if that updates, else one for each device."""
        if self._store is None or not self._update_on_kvstore:
            return self._updaters
        if not self._store_ready and any(param.is_deferred for param in self._params):
            return self._updaters  # without states: there was no step yet
        self._prepare_store()
        updater: Any = getattr(self._store, "_updater", None)
        if not isinstance(updater, opt.Updater):
            raise UnsupportedError(
                f"{type(self._store).__name__} updates the parameters, and does not show the states of its optimizer; "
                "make the Trainer with update_on_kvstore=False"
            )
        return [updater]

    def adopt_optimizer(self) -> None:
        """Train with the optimizer of the first updater, whose settings and whole states may have been loaded."""
        updaters = self.updaters
        if self._shards is not None:
            states, (shards, indices) = updaters[0].states, self._shards
            states.update({index: shards.cut(n, states[index]) for n, index in enumerate(indices) if index in states})
        for updater in updaters:
            updater.optimizer = updaters[0].optimizer
        self._optimizer = updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters; the optimizer knows them by their indices."""
        return self._params

    @property
    def store(self) -> Any:
        """The kvstore that sums gradients or updates parameters in the place of the trainer, or None."""
        return self._store

    @property
    def updates_on_store(self) -> bool:
        """Whether the kvstore updates parameters in the place of the trainer."""
        return self._update_on_kvstore

    @property
    def contexts(self) -> list[Context]:
        """The devices of the parameters."""
        return self._contexts

    @property
    def communicator(self) -> Communicator:
        """The ranks over which a TrainStep sums gradients."""
        return Alone() if self._over_ranks is None else self._store.rank_sums.ranks

    def sum_of(self, name: str, size: int, dtype: np.dtype[Any], residuals: Residuals) -> RankSum | None:
        """The custom sum over ranks of a TrainStep's bucket of ``size`` elements; None for a plain all-reduce.

        ``residuals`` keeps the rounding errors of compressed gradients, under ``name``.
        """
        compression: Rounding | None = None if self._over_ranks is None else self._store.rank_sums.compression
        if compression is None or not compression.takes(dtype):
            return None
        return residuals.add(name, CompressedSum(size, dtype, compression, self.communicator))

    @property
    def averages(self) -> bool:
        """Whether a step divides by the number of ranks beside the batch size, which is that of one rank then."""
        return False

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        """Set the learning rate; not possible while a scheduler rules it."""
        self._optimizer.set_learning_rate(lr)

    # --- steps ---------------------------------------------------------------------------------------------

    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update all parameters with their gradients, divided by ``batch_size``.

        A gradient that ``backward`` did not write since the last step raises; with ``ignore_stale_grad`` the
        parameter is left as it is. If mixed precision finds an overflow, all are left as they are.
        """
        begin = now() if RECORDER.calls else 0
        self._rescale_alike("Trainer.step", batch_size, ignore_stale_grad)
        if self._update_on_kvstore:
            (self._update_once if self._store is None else self._update_by_store)(ignore_stale_grad)
        elif self._over_ranks is not None:
            self._step_over_ranks(self._over_ranks, ignore_stale_grad)
        else:
            self._sum_gradients()
            self._update_all(ignore_stale_grad)
        if begin:
            RECORDER.add("api", "Trainer.step", begin)

    def allreduce_grads(self) -> None:
        """Write the sum of the gradients of all devices into each of them; with one device they are that already."""
        self._check_apart("allreduce_grads")
        self._check_initialized()
        self._sum_gradients()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """The part of :meth:`step` after :meth:`allreduce_grads`; nothing, if mixed precision finds an overflow."""
        self._check_apart("update")
        self._rescale_alike("Trainer.update", batch_size, ignore_stale_grad)
        self._update_all(ignore_stale_grad)

    def _update_all(self, ignore_stale_grad: bool) -> None:
        """Update the arrays on all devices; nothing, if mixed precision finds an overflow."""
        if self._amp_loss_scaler is not None and self._amp_loss_scaler.has_overflow(self._params):
            return
        if self._over_ranks is not None:
            self._update_all_devices(self._over_ranks, self._over_ranks.fresh(ignore_stale_grad))
            return
        for place in range(len(self._contexts)):
            self._update_on(place, ignore_stale_grad)

    def _step_over_ranks(self, ranks: RankGradients, ignore_stale_grad: bool) -> None:
        """Sum gradients over ranks, and update the parameters of each bucket while the next ones are summed."""
        with labelled("Trainer.step"):
            self._prepare_store()
            self._update_in_buckets(ranks, ignore_stale_grad)

    def _update_in_buckets(self, ranks: RankGradients, ignore_stale_grad: bool) -> None:
        fresh = ranks.fresh(ignore_stale_grad)
        buckets = ranks.sums(absent_if_stale=ignore_stale_grad)
        if self._amp_loss_scaler is not None:
            buckets = [[number for numbers in buckets for number in numbers]]  # all are there before one is updated
            if self._amp_loss_scaler.has_overflow(self._params):
                return
        for numbers in buckets:
            self._update_all_devices(ranks, [number for number in numbers if number in fresh])

    def _update_all_devices(self, ranks: RankGradients, numbers: Sequence[int]) -> None:
        """Update some parameters on all devices, whether their gradients are fresh or not."""
        step = self._optimizer.num_update
        for place in range(len(self._contexts)):
            with ranks.same_random(self._optimizer, step, numbers):
                self._update_numbers(place, numbers)

    def _check_apart(self, name: str) -> None:
        if self._update_on_kvstore:
            raise CheckError(
                f"{name}() when parameters are updated on kvstore is not supported. Try setting `update_on_kvstore` to "
                "False when creating trainer."
            )

    def _update_on(self, place: int, ignore_stale_grad: bool) -> None:
        """Update the arrays on one of the devices."""
        indices: list[int] = []
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            if not autograd.has_fresh_grad(param.list_data()[place]):
                if ignore_stale_grad:
                    continue
                raise_stale(param, self._contexts[place])
            indices.append(i)
        self._update_numbers(place, indices)

    def _update_numbers(self, place: int, numbers: Collection[int]) -> None:
        """Update the arrays of some parameters on one of the devices."""
        if not numbers:
            return
        grads = [self._params[i].list_grad()[place] for i in numbers]
        weights = [self._params[i].list_data()[place] for i in numbers]
        if len(self._contexts) > 1:  # each device counts its updates
            self._optimizer._set_current_context(place)
        self._updaters[place](list(numbers), grads, weights)
        for weight in weights:
            autograd.mark_used(weight)

    def _update_once(self, ignore_stale_grad: bool) -> None:
        """Update the arrays on the first device with the sums of gradients, and copy them to the others."""
        # COMPAT(mxnet): a gradient that was used already is stale here too; there the second step uses it again.
        indices: list[int] = []
        grads: list[NDArray] = []
        params: list[Parameter] = []
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            stale = [not autograd.has_fresh_grad(weight) for weight in param.list_data()]
            if any(stale) and not ignore_stale_grad:
                raise_stale(param, self._contexts[stale.index(True)])
            if not all(stale):
                indices.append(i)
                grads.append(NDArray(_sum(param.list_grad())))
                params.append(param)
        if indices:
            self._updaters[0](indices, grads, [param.list_data()[0] for param in params])
        for param in params:
            first, *others = param.list_data()
            for weight in others:
                first.copyto(weight)
            for weight in (first, *others):
                autograd.mark_used(weight)

    def _update_by_store(self, ignore_stale_grad: bool) -> None:
        """Give the store all gradients, and take the arrays that it updated."""
        self._prepare_store()
        rows: list[tuple[int, list[NDArray], list[NDArray] | None]] = []
        weights: list[NDArray] = []
        if self._over_ranks is not None:
            fresh = self._over_ranks.fresh(ignore_stale_grad)
            rows = [(i, self._over_ranks.present(i), self._params[i].list_data()) for i in fresh]
            sharing.pushpull_all(self._store, rows)
            for i in fresh:
                for weight in self._params[i].list_data():
                    autograd.mark_used(weight)
            return
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            arrays = param.list_data()
            stale = [not autograd.has_fresh_grad(weight) for weight in arrays]
            if any(stale) and not ignore_stale_grad:
                raise_stale(param, self._contexts[stale.index(True)])
            if not all(stale):
                rows.append((i, param.list_grad(), arrays))
                weights += arrays
        sharing.pushpull_all(self._store, rows)
        for weight in weights:
            autograd.mark_used(weight)

    def _prepare_store(self) -> None:
        """Before the first step: the store gets the optimizer, if it updates, and the parameters."""
        if self._store_ready or self._store is None:
            return
        self._store_ready = True
        if self._over_ranks is not None:
            self._over_ranks.prepare(self._optimizer)
            if not self._update_on_kvstore:
                return
        if self._update_on_kvstore:
            self._store.set_optimizer(self._optimizer)
        for i, param in enumerate(self._params):
            arrays = param.list_data()
            self._store.broadcast(i, arrays[0], arrays)

    _init_kvstore = _prepare_store

    def renew(self, param: Parameter, is_new: bool = False) -> None:
        """Give a store that updates parameters the values that one was set to, or was initialized with.

        A parameter of several ranks gets the values that it was initialized with on rank 0.
        """
        if is_new and self._over_ranks is not None:
            self._over_ranks.broadcast([param])
        if not self._store_ready or not self._update_on_kvstore:
            return
        number, arrays = self._names[param.name], param.list_data()
        if isinstance(self._store, KVStore):
            self._store.replace(number, arrays[0])
        else:
            self._store.broadcast(number, arrays[0], arrays)

    def _sum_gradients(self) -> None:
        trained = [(i, param) for i, param in enumerate(self._params) if param.grad_req != "null"]
        if self._over_ranks is not None:
            self._prepare_store()
            with labelled("Trainer.allreduce_grads"):
                for _ in self._over_ranks.sums():
                    pass
        elif self._store is not None:
            self._prepare_store()
            sharing.pushpull_all(self._store, [(i, param.list_grad(), None) for i, param in trained])
        elif self._sums:
            for _, param in trained:
                grads = param.list_grad()
                total = NDArray(_sum(grads))
                for grad in grads:
                    total.copyto(grad)

    def total_batch_size(self, batch_size: int) -> int:
        """The sum of the sizes of the batches of all ranks, which all ask for it; without ranks the size itself."""
        return batch_size if self._over_ranks is None else self._over_ranks.total(batch_size)

    def _rescale_alike(self, call: str, batch_size: float, ignore_stale_grad: bool) -> None:
        """:meth:`rescale`, after all ranks compared what an update depends on beside the gradients.

        Where each rank gives its own batch size, as gradients are averaged, all divide by the mean: the sum of
        gradients over the number of all examples.
        """
        # COMPAT(mxnet): Horovod divides by each rank's own batch size: where they differ, the weights drift apart.
        ranks = self.communicator
        if ranks.size == 1:
            self.rescale(batch_size)
            return
        self._check_initialized()
        fresh: dict[str, list[Any]] = {}
        if not ignore_stale_grad or self._over_ranks is None:  # a sum over ranks counts gradients as 0 that are absent
            written = [all(map(autograd.has_fresh_grad, param.list_data())) for param in self._params]
            fresh["whether backward wrote its gradient"] = written
        settings = {"ignore_stale_grad": ignore_stale_grad, "update_on_kvstore": self._update_on_kvstore}
        size = float(batch_size)
        agreed = self.agree(call, None if self.averages else size, size, settings, fresh)
        self.rescale(agreed.total / ranks.size if self.averages else batch_size)

    def agree(
        self,
        call: str,
        batch_size: float | None,
        share: float,
        settings: Mapping[str, Any],
        of_parameters: Mapping[str, list[Any]],
        asks: bool = False,
    ) -> Agreed:
        """What all ranks bring to an update; raises on all of them unless what the update depends on is equal.

        That is the optimizer, ``settings`` and ``of_parameters``, which has a value for each parameter.
        ``batch_size`` is the one that all give, or None if each gives its ``share``.
        """
        # At most steps nothing but the count is new.
        brought = batch_size, self._scale, settings, of_parameters, [*map(_OF_PARAMETER, self._params)]
        compared, optimizer = self._compared, self._optimizer
        if compared is None or brought != compared.brought or not compared.reader.finds_as_before(optimizer):
            compared = self._compared = self._facts(brought)

        def details() -> dict[str, Any]:
            is_named = self._over_ranks is not None  # then all ranks have the same names
            names = [param.name if is_named else f"parameter {i}" for i, param in enumerate(self._params)]
            return {
                "num_update": optimizer.num_update,
                **compared.facts,
                **{name: dict(zip(names, values, strict=True)) for name, values in compared.lists.items()},
            }

        return self.communicator.agree(call, compared.text, share, asks, details, optimizer.num_update)

    def _facts(self, brought: tuple[Any, ...]) -> _Compared:
        """What ranks compare; ``brought`` is what is not of the optimizer."""
        batch_size, scale, settings, of_parameters, multipliers = brought
        scalars = scalars_of(self._optimizer)
        scalars["rescale_grad"] = scale  # what the optimizer has is of the step before
        del scalars["num_update"]
        lists = {name: [each[at] for each in multipliers] for at, name in enumerate(_COMPARED)}
        facts, lists = {"batch_size": batch_size, **settings, **scalars}, {**lists, **of_parameters}
        reader = ScalarsReader(self._optimizer, ("rescale_grad", "num_update"))
        return _Compared(brought, reader, facts, lists, repr((facts, lists)))

    def rescale(self, batch_size: float) -> None:
        """Let the next update divide gradients by ``batch_size``; raises if a parameter waits for its shape."""
        self._check_initialized()
        self._optimizer.rescale_grad = self._scale / batch_size

    def explain(self) -> str:
        """The kernels and the memory of the compiled updates of the parameters."""
        return self._optimizer.explain()

    def _check_initialized(self) -> None:
        """At the first step, raise if a parameter still waits for its shape, and copy the first device's arrays.

        Each device has the values of the first one from then on, running means too, as where a store broadcasts them.
        """
        if self._checked:
            return
        for param in self._params:
            first, *others = param.list_data()
            for array in others if self._sums else ():
                first.copyto(array)
        self._checked = True

    # --- files ---------------------------------------------------------------------------------------------

    def pieces(self) -> dict[int, tuple[int, int, tuple[int, ...]]]:
        """Of each parameter whose states are sharded: begin and end of this rank's elements, and the whole shape."""
        if self._shards is None:
            return {}
        shards, indices = self._shards
        return {
            index: (*range_, shape) for index, range_, shape in zip(indices, shards.pieces, shards.shapes, strict=True)
        }

    def attend(self, step: Any) -> None:
        """Note a compiled step that updates the parameters: its ``state()`` is part of this trainer's."""
        self._attending = [reference for reference in self._attending if reference() is not None]
        self._attending.append(weakref.ref(step))
        if self._awaited:
            step.load_state(self._awaited.pop(0))

    @property
    def _steps(self) -> list[Any]:
        return [step for reference in self._attending if (step := reference()) is not None]

    @property
    def is_accumulating(self) -> bool:
        """Whether gradients are needed at the next step, as some of a compiled step that accumulates them."""
        return any(step.is_accumulating for step in self._steps)

    def state(self) -> dict[str, Any]:
        """What steps depend on beside parameters and the optimizer, as plain data: a checkpoint saves it."""
        scaler, sums = self._amp_loss_scaler, getattr(self._store, "rank_sums", self._store)
        return {
            "scaler": None if scaler is None else {**vars(scaler)},
            "store": sums.state() if hasattr(sums, "load_state") else None,
            "steps": [step.state() for step in self._steps] + self._awaited,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this; compiled steps are those that were made in the same order."""
        if self._amp_loss_scaler is not None and state["scaler"] is not None:
            self._amp_loss_scaler.__dict__ |= state["scaler"]
        sums = getattr(self._store, "rank_sums", self._store)
        if hasattr(sums, "load_state") and state["store"] is not None:
            sums.load_state(state["store"])
        self._awaited = list(state["steps"])
        for step in self._steps[: len(self._awaited)]:
            step.load_state(self._awaited.pop(0))

    def share_states(self, shards: OptimizerShards, indices: Sequence[int]) -> None:
        """From now on each rank has its part of the states of these parameters; files have the whole ones."""
        self._shards = shards, list(indices)

    @contextlib.contextmanager
    def whole_states(self) -> Generator[None]:
        """Within the ``with`` block the updater has the whole states, which all ranks put together."""
        if self._shards is None:
            yield
            return
        updater, (shards, indices) = self._updaters[0], self._shards
        parts = updater.states
        updater.states = shards.gathered(parts, indices)
        try:
            yield
        finally:
            updater.states = parts

    def save_states(self, fname: str) -> None:
        """Save the optimizer's states and settings; multipliers stay with the parameters."""
        if self._store is not None and self._update_on_kvstore:
            self._prepare_store()
            self._store.save_optimizer_states(fname, dump_optimizer=True)
            return
        with self.whole_states():
            write_whole(fname, self._updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname: str) -> None:
        """Load what :meth:`save_states` wrote."""
        if self._store is not None and self._update_on_kvstore:
            self._prepare_store()
            self._store.load_optimizer_states(fname)
            updater: Any = getattr(self._store, "_updater", None)
            self._optimizer = self._optimizer if updater is None else updater.optimizer
            self._optimizer.param_dict = dict(enumerate(self._params))
            return
        for updater in self._updaters:
            updater.set_states(Path(fname).read_bytes())
        self.adopt_optimizer()


def _as_list(params: Any) -> list[Parameter]:
    """The parameters in the order of their names if they come in a dict."""
    named = params
    if isinstance(params, dict | ParameterDict):
        params = [named[name] for name in sorted(named.keys())]
    if not isinstance(params, list | tuple):
        raise ValueError(f"First argument must be a list or dict of Parameters, got {type(params)}.")
    found: list[Parameter] = []
    for param in params:  # pyright: ignore[reportUnknownVariableType]
        if not isinstance(param, Parameter):
            raise ValueError(
                f"First argument must be a list or dict of Parameters, got list of {type(param)}."  # pyright: ignore[reportUnknownArgumentType]
            )
        found.append(param)
    return found


def _contexts(params: Sequence[Parameter]) -> list[Context]:
    """The devices of all parameters, which must be the same ones; raises if one is not initialized."""
    found: list[Context] | None = None
    for param in params:
        devices = param.list_ctx()
        if found is not None and devices != found:
            raise CheckError(
                f"All Parameters must be initialized on the same set of contexts, but Parameter {param.name} is "
                f"initialized on {devices} while previous Parameters are initialized on {found}."
            )
        found = devices
    return [cpu()] if found is None else found


def _sum(grads: Sequence[NDArray]) -> Any:
    """The sum of the gradients of several devices, a new array."""
    first, *others = [grad._data for grad in grads]
    total = first.copy()
    for each in others:
        np.add(total, each, out=total)
    return total
