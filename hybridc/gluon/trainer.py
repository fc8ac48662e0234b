"""Trainer: one optimizer step on all parameters of a network."""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybridc import optimizer as opt
from hybridc.communication import Communicator
from hybridc.communication.communicator import Agreed
from hybridc.communication.compression import CompressedSum, Residuals
from hybridc.context import Context, cpu
from hybridc.errors import ArgumentTypeError, AttributeValueError, CheckError
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.gluon.training.device_updates import DeviceUpdates
from hybridc.gluon.training.fresh_gradients import freshness
from hybridc.gluon.training.rank_updates import RankUpdates
from hybridc.gluon.training.store_updates import StoreUpdates
from hybridc.ground.display.arguments_text import elements_text
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.events import RECORDER, now
from hybridc.kvstore import KVStoreBase, create, sharing
from hybridc.kvstore.base import is_over_ranks
from hybridc.optimizer.plain_settings import ScalarsReader, scalars_of

if TYPE_CHECKING:
    from hybridc.dialects.control.collectives import RankSum
    from hybridc.gluon.hybridize.optimizer_shards import OptimizerShards

__all__ = ["Trainer"]

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
    """Updates the parameters of a network with an optimizer: :meth:`step` after each backward.

    Parameters on several devices have an array on each. A step sums their gradients over the devices. By default it
    then updates the first array and copies it to the others, and gradients stay what each device computed; with
    ``update_on_kvstore=False`` the sums are written into all gradients, and each device updates its own array;
    ``kvstore=None`` sums nothing. With one device a name of a kvstore and ``compression_params`` have nothing to do.
    A kvstore that is given as an object does the sums, and where it can the updates, in the place of all this.

    With ``kvstore="dist_sync"`` and the like all ranks of the program train together: the parameters of rank 0 go to
    all, now or when they get their shapes, and again at the first step; a step sums gradients over devices and ranks,
    and divides by ``batch_size``, which is that of all ranks together. Each rank makes the same update.

    Parameters
    ----------
    params:
        The parameters, as ``net.collect_params()`` gives them, or a list. They must be initialized, but may wait for
        their shapes.
    optimizer:
        The optimizer, or its registered name, as "adam".
    optimizer_params:
        A dict of the arguments of an optimizer that is named, as ``{"learning_rate": 0.1}``.
    kvstore:
        What sums gradients over devices or ranks: a name, or an object of ``mx.kv.create``; None: nothing does.
    compression_params:
        The compression of gradients that a kvstore sends, as ``{"type": "2bit", "threshold": 0.5}``; None: none.
    update_on_kvstore:
        Whether parameters are updated once, by the kvstore, rather than on each device; None: where that can be.

    Examples
    --------
    >>> net = nn.Dense(1, in_units=2, use_bias=False)
    >>> net.initialize(mx.init.One())
    >>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> x, label = mx.nd.array([[1, 2], [1, 0]]), mx.nd.array([[5], [1]])
    >>> with autograd.record():
    ...     loss = (net(x) - label) ** 2
    >>> loss.backward()  # 2 * (3 - 5) * [1, 2] + 0
    >>> trainer.step(batch_size=2)
    >>> net.weight.data().asnumpy()  # 1 - 0.1 * [-4, -8] / 2
    array([[1.2, 1.4]], dtype=float32)
    """

    # MXNet's internal names, which programs use.
    _params_to_init: Sequence[Parameter] = ()
    _kv_initialized = property(lambda self: self._updates.is_ready)
    _kvstore = property(lambda self: self._updates.kvstore)
    _updaters = property(lambda self: self._updates.device_updaters)

    @hides_frames
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
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params or {}))
        self._contexts = _contexts(self._params)
        for param in self._params:
            param.set_trainer(self)
        self._kvstore_params = {"kvstore": kvstore, "update_on_kvstore": update_on_kvstore}
        store = self._store_of(kvstore, compression_params)
        on_store = self._updates_on(store)
        strategy = DeviceUpdates
        if store is not None:
            strategy = RankUpdates if sharing.sums_over_ranks(store) else StoreUpdates
        kvstore = kvstore if store is None else store
        self._updates = strategy(self._params, self._contexts, self._optimizer, kvstore, on_store)
        self._shards: tuple[OptimizerShards, list[int]] | None = None
        self._scale: float = self._optimizer.rescale_grad
        self._compared: _Compared | None = None  # by ranks, at the last step
        # Compiled steps, and states that were loaded for those that do not exist yet.
        self._attending: list[Callable[[], Any]] = []
        self._awaited: list[Mapping[str, Any]] = []
        # Of mixed precision, which mx.contrib.amp sets: the scaler of the losses, and what _scale was before.
        self._amp_loss_scaler: Any = None
        self._amp_original_scale = self._scale

    def __repr__(self) -> str:
        return f"Trainer({self._optimizer!r}, {self._described()})"

    def _repr_html_(self) -> str:
        from hybridc.ground.display.html import line

        shown = getattr(self._optimizer, "_repr_html_", lambda: line(repr(self._optimizer)))
        return line(f"Trainer of {self._described()}") + shown()

    def _described(self) -> str:
        """How much it trains, and how sums over devices and ranks are made."""
        kvstore = self._kvstore_params["kvstore"]
        store = kvstore if isinstance(kvstore, str | None) else type(kvstore).__name__
        where = f", on {', '.join(map(str, self._contexts))}" if len(self._contexts) > 1 else ""
        return f"{elements_text(self._params)}, kvstore={store!r}{where}"

    def _store_of(self, kvstore: Any, compression_params: Mapping[str, Any] | None) -> Any:
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

    def _updates_on(self, store: Any) -> bool:
        """Whether parameters are updated once, by the store or as MXNet's store of several devices does it."""
        kvstore, asked = self._kvstore_params["kvstore"], self._kvstore_params["update_on_kvstore"]
        if store is None:
            return len(self._contexts) > 1 and kvstore is not None and asked is not False
        capable = store.is_capable(KVStoreBase.OPTIMIZER)
        if asked and not capable:
            raise ValueError(f"Please set update_on_kvstore=False when training with {type(store).__name__}")
        # COMPAT(mxnet): without servers each rank makes the same update, so allreduce_grads is possible by default.
        return capable and not sharing.sums_over_ranks(store) if asked is None else asked

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
    def _update_on_kvstore(self) -> bool:
        return self._updates.on_store

    @_update_on_kvstore.setter
    def _update_on_kvstore(self, on_store: bool) -> None:
        self._updates.on_store = on_store

    @property
    def optimizer(self) -> Any:
        """The optimizer."""
        return self._optimizer

    @property
    def updater(self) -> opt.Updater:
        """The optimizer with the states of the parameters, by their number."""
        return self._updates.device_updaters[0]

    @property
    def updaters(self) -> list[opt.Updater]:
        """Those that have the states of the optimizer: the kvstore's if that updates, else one for each device."""
        return self._updates.updaters

    def adopt_optimizer(self) -> None:
        """Train with the optimizer of the first updater, whose settings and whole states may have been loaded."""
        if self._shards is not None:
            states, (shards, indices) = self.updater.states, self._shards
            states.update({index: shards.cut(n, states[index]) for n, index in enumerate(indices) if index in states})
        optimizer = self._updates.adopt_optimizer()
        self._optimizer = self._optimizer if optimizer is None else optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters; the optimizer knows them by their indices."""
        return self._params

    @property
    def store(self) -> Any:
        """The kvstore that sums gradients or updates parameters in the place of the trainer, or None."""
        return self._updates.store

    @property
    def updates_on_store(self) -> bool:
        """Whether the kvstore updates parameters in the place of the trainer."""
        return self._updates.on_store

    @property
    def contexts(self) -> list[Context]:
        """The devices of the parameters."""
        return self._contexts

    @property
    def communicator(self) -> Communicator:
        """The ranks over which a TrainStep sums gradients."""
        return self._updates.communicator

    def sum_of(self, name: str, size: int, dtype: np.dtype[Any], residuals: Residuals) -> RankSum | None:
        """The custom sum over ranks of gradients that a TrainStep sends together; None for a plain all-reduce.

        Parameters
        ----------
        name:
            The name under which ``residuals`` has the rounding errors of these gradients.
        size:
            The number of elements.
        dtype:
            Their dtype.
        residuals:
            What keeps the rounding errors of compressed gradients.
        """
        compression = self._updates.compression
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
        """Set the learning rate of the optimizer. With a scheduler it raises a UserWarning.

        Parameters
        ----------
        lr:
            The learning rate of the steps from now on.

        Examples
        --------
        >>> net = nn.Dense(1)
        >>> net.initialize()
        >>> trainer = gluon.Trainer(net.collect_params(), "adam")
        >>> trainer.set_learning_rate(trainer.learning_rate / 10)
        >>> trainer.learning_rate
        0.0001
        """
        self._optimizer.set_learning_rate(lr)

    # --- steps ---------------------------------------------------------------------------------------------

    @hides_frames
    def step(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """Update all parameters with their gradients. If mixed precision finds an overflow, all are left as they are.

        Parameters
        ----------
        batch_size:
            What gradients are divided by: the number of examples whose losses were summed, of all ranks together. It is
            1 where the loss is a mean already. What is no positive number raises.
        ignore_stale_grad:
            Whether a parameter whose gradient ``backward`` did not write since the last step is left as it is; else
            that is a UserWarning.
        """
        begin = now() if RECORDER.calls else 0
        self._rescale_alike("Trainer.step", batch_size, ignore_stale_grad)
        self._updates.step(self._allreduce_grads, ignore_stale_grad, self._amp_loss_scaler)
        if begin:
            RECORDER.add("api", "Trainer.step", begin)

    @hides_frames
    def allreduce_grads(self) -> None:
        """Write the sum of the gradients of all devices into each of them; with one device they are that already.

        With :meth:`update` it is :meth:`step` in two parts, between which gradients can be changed. Where the kvstore
        updates parameters it is a CheckError: make the trainer with ``update_on_kvstore=False``.
        """
        self._check_apart("allreduce_grads")
        self._updates.begin()
        self._allreduce_grads()

    def _allreduce_grads(self) -> None:
        """The part of :meth:`step` that MXNet lets a subclass replace."""
        self._updates.sum_gradients()

    @hides_frames
    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """The part of :meth:`step` after :meth:`allreduce_grads`, with which gradients can be changed in between.

        Parameters
        ----------
        batch_size:
            What gradients are divided by.
        ignore_stale_grad:
            Whether a parameter whose gradient ``backward`` did not write since the last step is left as it is; else
            that is a UserWarning.
        """
        self._check_apart("update")
        self._rescale_alike("Trainer.update", batch_size, ignore_stale_grad)
        self._updates.update(ignore_stale_grad, self._amp_loss_scaler)

    def _check_apart(self, name: str) -> None:
        if self._update_on_kvstore:
            raise CheckError(
                f"{name}() when parameters are updated on kvstore is not supported. Try setting `update_on_kvstore` to "
                "False when creating trainer."
            )

    def _init_kvstore(self) -> None:
        """Before the first step: the store gets the optimizer, if it updates, and the parameters."""
        self._updates.prepare()

    def renew(self, param: Parameter, is_new: bool = False) -> None:
        """Give a store that updates parameters the values that one was set to, or was initialized with.

        A parameter of several ranks gets the values that it was initialized with on rank 0.

        Parameters
        ----------
        param:
            The parameter, which calls this.
        is_new:
            Whether it was initialized, rather than set.
        """
        self._updates.renew(param, is_new)

    def total_batch_size(self, batch_size: int) -> int:
        """The sum of the sizes of the batches of all ranks, which all ask for it; without ranks the size itself.

        Parameters
        ----------
        batch_size:
            The size of this rank's batch.
        """
        return self._updates.total_batch_size(batch_size)

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
        self._updates.begin()
        fresh: dict[str, list[Any]] = {}
        if not ignore_stale_grad or not self._updates.is_over_ranks:  # a sum over ranks counts stale gradients as 0
            fresh["whether backward wrote its gradient"] = [all(freshness(param)) for param in self._params]
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

        That is the optimizer, ``settings`` and ``of_parameters``.

        Parameters
        ----------
        call:
            What the ranks call, for error texts.
        batch_size:
            The number that all ranks must give; None: each has its own.
        share:
            What this rank adds to the total of all ranks.
        settings:
            Plain values by name, which must be equal on all ranks.
        of_parameters:
            Lists by name, with a value for each parameter, which must be equal on all ranks.
        asks:
            Whether this rank asks for a further exchange, to which all come if one asks.
        """
        # At most steps nothing but the count is new.
        brought = batch_size, self._scale, settings, of_parameters, [*map(_OF_PARAMETER, self._params)]
        compared, optimizer = self._compared, self._optimizer
        if compared is None or brought != compared.brought or not compared.reader.finds_as_before(optimizer):
            compared = self._compared = self._facts(brought)

        def details() -> dict[str, Any]:
            is_named = self._updates.is_over_ranks  # then all ranks have the same names
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
        """Let the next update divide gradients by a number; raises if a parameter waits for its shape.

        Parameters
        ----------
        batch_size:
            The number, which must be positive.
        """
        # COMPAT(mxnet): there a negative number turns the direction of the step around, and NaN is taken, too.
        kind = ArgumentTypeError if isinstance(batch_size, str) else AttributeValueError
        if kind is ArgumentTypeError or not batch_size > 0:
            raise kind(f"Trainer: batch_size must be a positive number, got {batch_size!r}")
        self._updates.begin()
        self._optimizer.rescale_grad = self._scale / batch_size

    def explain(self) -> str:
        """The kernels and the memory of the compiled updates of the parameters."""
        return self._optimizer.explain()

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
        """Note a compiled step that updates the parameters: its ``state()`` is part of this trainer's.

        Parameters
        ----------
        step:
            The TrainStep, which calls this.
        """
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
        scaler = self._amp_loss_scaler
        return {
            "scaler": None if scaler is None else {**vars(scaler)},
            "store": self._updates.state(),
            "steps": [step.state() for step in self._steps] + self._awaited,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this; compiled steps are those that were made in the same order.

        Parameters
        ----------
        state:
            What it gave.
        """
        if self._amp_loss_scaler is not None and state["scaler"] is not None:
            self._amp_loss_scaler.__dict__ |= state["scaler"]
        if state["store"] is not None:
            self._updates.load_state(state["store"])
        self._awaited = list(state["steps"])
        for step in self._steps[: len(self._awaited)]:
            step.load_state(self._awaited.pop(0))

    def share_states(self, shards: OptimizerShards, indices: Sequence[int]) -> None:
        """From now on each rank has its part of the states of some parameters; files have the whole ones.

        Parameters
        ----------
        shards:
            Which part each rank has.
        indices:
            The indices of the parameters.
        """
        self._shards = shards, list(indices)

    @contextlib.contextmanager
    def whole_states(self) -> Generator[None]:
        """Within the ``with`` block the updater has the whole states, which all ranks put together."""
        if self._shards is None:
            yield
            return
        updater, (shards, indices) = self.updater, self._shards
        parts = updater.states
        updater.states = shards.gathered(parts, indices)
        try:
            yield
        finally:
            updater.states = parts

    def save_states(self, fname: str) -> None:
        """Save the optimizer's states and settings; multipliers stay with the parameters.

        Parameters
        ----------
        fname:
            The file.

        Examples
        --------
        >>> net = nn.Dense(1)
        >>> net.initialize()
        >>> trainer = gluon.Trainer(net.collect_params(), "adam", {"beta1": 0.8})
        >>> trainer.save_states("trainer.states")
        >>> other = gluon.Trainer(net.collect_params(), "adam")
        >>> other.load_states("trainer.states")
        >>> other.optimizer.beta1
        0.8
        """
        with self.whole_states():
            self._updates.save_states(fname)

    def load_states(self, fname: str) -> None:
        """Load what :meth:`save_states` wrote.

        Parameters
        ----------
        fname:
            The file.
        """
        self._updates.load_states(fname)
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
