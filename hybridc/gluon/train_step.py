"""TrainStep: forward, loss, backward and the update of all parameters as one compiled program."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from hybridc import autograd
from hybridc.array.ndarray import NDArray, wrap
from hybridc.communication import communicator
from hybridc.communication.communicator import labelled
from hybridc.errors import MXNetError, TraceError, UnsupportedError
from hybridc.gluon.hybrid_block import Block, HybridBlock
from hybridc.gluon.hybridize.call_samples import samples
from hybridc.gluon.hybridize.optimizer_shards import OptimizerShards
from hybridc.gluon.hybridize.parameter_average import average
from hybridc.gluon.hybridize.report import Report
from hybridc.gluon.hybridize.step_graph import REMEDY, Bound, StepEntry, StepGraphs, StepPart, StepSettings
from hybridc.gluon.trainer import Trainer
from hybridc.ground.display.arguments_text import value_text
from hybridc.ground.display.tracebacks import hides_frames
from hybridc.ground.events import RECORDER
from hybridc.ground.locks import ForkLock
from hybridc.ground.nesting import as_list, flatten, regroup
from hybridc.ground.state import STATE
from hybridc.kvstore import sharing
from hybridc.optimizer import Optimizer
from hybridc.optimizer.binding import advance, following, kind_of
from hybridc.optimizer.compiled_update import is_elementwise
from hybridc.optimizer.formula import Values

__all__ = ["TrainStep"]


class TrainStep:
    """Forward, loss, backward and update as one program: ``step(data, label)`` trains with a batch, and gives its loss.

    The same as the loop ``with record(): out = loss(net(data), label)``, ``out.backward()``,
    ``trainer.step(batch_size)``, but compiled whole: weights, optimizer states and running statistics are written in
    place, and gradients exist only inside.

    If the trainer has a distributed kvstore, gradients are summed over ranks while the backward goes on.

    Where a gradient is row_sparse, forward and backward are one program, and the trainer updates the parameters: the
    rows that the batch took. Of the settings it takes ``keep_grads`` and ``ignore_stale_grad``.

    Parameters
    ----------
    net:
        The network, a HybridBlock that is initialized; it need not be hybridized.
    loss:
        A HybridBlock, or a function of the network's result and the label that uses ``F``-style operators. It gives an
        array, whose sum is minimised, or a tuple that begins with it; a step returns the same.
    trainer:
        The Trainer of the parameters, which has the optimizer.
    keep_grads:
        Whether gradients are put into the parameters' ``grad()``.
    ignore_stale_grad:
        Whether parameters on which the loss does not depend are left as they are; else they are a UserWarning.
    clip_global_norm:
        Gradients are scaled down where the norm of all of them together, as the optimizer gets them, is above this
        number; None: they are not.
    accumulate:
        The number of calls whose gradients are added up for one update.
    shard_optimizer:
        Whether each rank has, and updates, its part of the optimizer's states alone; not with ``keep_grads``, nor with
        ``sync_every``.
    sync_every:
        Above 1 the ranks train alone, and average their parameters after so many updates (local SGD).

    Examples
    --------
    >>> net = nn.Dense(1, in_units=2, use_bias=False)
    >>> net.initialize(mx.init.One())
    >>> trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1})
    >>> step = gluon.TrainStep(net, gluon.loss.L2Loss(), trainer)
    >>> step(mx.nd.array([[1, 2]]), mx.nd.array([[5]])).asnumpy()  # (1 + 2 - 5)**2 / 2
    array([2.], dtype=float32)
    >>> net.weight.data().asnumpy()  # 1 - 0.1 * (3 - 5) * [1, 2]
    array([[1.2, 1.4]], dtype=float32)
    """

    def __init__(
        self,
        net: HybridBlock,
        loss: Any,
        trainer: Trainer,
        keep_grads: bool = False,
        ignore_stale_grad: bool = False,
        clip_global_norm: float | None = None,
        accumulate: int = 1,
        shard_optimizer: bool = False,
        sync_every: int = 1,
    ) -> None:
        if clip_global_norm is not None and not clip_global_norm > 0:
            raise MXNetError(f"TrainStep: clip_global_norm={clip_global_norm}; expected a positive number")
        for name, count in (("accumulate", accumulate), ("sync_every", sync_every)):
            if count < 1:
                raise MXNetError(f"TrainStep: {name}={count}; expected a number of steps, at least 1")
        if shard_optimizer and (keep_grads or sync_every > 1):
            other = "keep_grads" if keep_grads else "sync_every"
            raise MXNetError(f"TrainStep: shard_optimizer=True, where no rank has whole gradients, excludes {other}")
        settings = StepSettings(keep_grads, ignore_stale_grad, clip_global_norm, accumulate, sync_every)
        self._block = _Step(net, loss, trainer, settings, shard_optimizer)
        sparse = [p.name for p in trainer.parameters if not p.stype == p.grad_stype == "default"]
        self._updates_rows = bool(sparse)
        if sparse:
            self._check_rows(sparse[0])
            self._block.hybridize(static_alloc=net._is_static)
        self._calls = 0
        self._examples = 0  # of the calls whose gradients are added up
        self._sharded: list[int] = []  # the parameters whose states are sharded
        self._lock = ForkLock()
        trainer.attend(self)

    def __repr__(self) -> str:
        block = self._block
        return f"TrainStep({type(block.net).__name__}, {value_text(block.loss)}, {block.trainer!r})"

    @hides_frames
    def __call__(self, data: Any, label: Any = None, batch_size: float | None = None) -> Any:
        """Train with one batch, and return what the loss gives.

        Parameters
        ----------
        data:
            The input of the network, or a tuple of inputs.
        label:
            What the loss takes beside the network's result, or a tuple of it; None: nothing.
        batch_size:
            What gradients are divided by: the number of examples of all ranks that sum gradients, and of all calls that
            accumulate them. None: the length of the data, or the sum of these lengths, which may differ.
        """
        if STATE.trace is not None:
            raise TraceError("a TrainStep cannot be called while a block is traced; call it in the training loop")
        if self._updates_rows or (RECORDER.detector is not None and not self._asked()):
            return self._step_apart(data, label, batch_size)
        settings = self._block.settings
        with self._lock.current:
            with autograd.train_mode():
                entry, arrays = self._block.graphs(data, label).find(data, label)
            done = self._calls % settings.accumulate
            part = StepPart(adds=done > 0, updates=done + 1 == settings.accumulate)
            examples = self._examples + (_length(arrays) if batch_size is None else 0)
            if part.updates and settings.shared:
                self._rescale_alike(entry, part, examples, batch_size)
            elif part.updates:
                self._block.trainer.rescale(examples if batch_size is None else batch_size)
            with labelled("TrainStep", is_agreed=part.updates and settings.shared):
                results = self._run(entry, arrays, (data, label), part)
            self._calls += 1
            self._examples = 0 if part.updates else examples
            if settings.sync_every > 1 and self._calls % (settings.accumulate * settings.sync_every) == 0:
                self._average()
            return results

    @hides_frames
    def compile(self, data: Any, label: Any = None, dtype: Any = "float32") -> None:
        """Compile for batches of such data and labels, without training: the next such call compiles nothing.

        Parameters
        ----------
        data:
            The input of the network, or a tuple of inputs; each an array, or its shape, see
            :meth:`HybridBlock.compile`.
        label:
            What the loss takes beside, likewise; None: nothing.
        dtype:
            The dtype of arrays that are given by their shapes.
        """
        data, label = samples((data, label), dtype, self._block.trainer.contexts[0])
        if self._updates_rows:
            self._block.compile(data, label, training=True)
            return
        optimizer, count = self._block.trainer.optimizer, self._block.settings.accumulate
        with self._lock.current:
            with autograd.train_mode():
                entry, _ = self._block.graphs(data, label).find(data, label)
            for done in range(count):
                part = StepPart(adds=done > 0, updates=done + 1 == count)
                if part not in entry.bound:
                    numbers = following(optimizer, entry.indices) if part.updates else []
                    self._bind(entry, (data, label), numbers, part)

    def _check_rows(self, name: str) -> None:
        """Raise if the step is asked for what sparse gradients, as that of the parameter ``name``, do not take."""
        asked = self._asked()
        if asked:
            raise UnsupportedError(
                f"TrainStep: {name} or its gradient is sparse, so the trainer updates the parameters, and "
                f"{asked[0]} is for steps of dense gradients; leave it out, or leave sparse_grad=True out"
            )

    def _asked(self) -> list[str]:
        """The settings that a forward, a backward and the trainer's step do not have."""
        usual = {"accumulate": 1, "sync_every": 1, "clip_global_norm": None, "shard_optimizer": False}
        return [key for key, value in self._settings().items() if value != usual[key]]

    def _step_apart(self, data: Any, label: Any, batch_size: float | None) -> Any:
        """Train with one batch by a forward, a backward and the trainer's step: gradients may be rows."""
        trainer = self._block.trainer
        if trainer._amp_loss_scaler is not None:
            raise UnsupportedError(f"TrainStep does not scale losses, for which amp.init_trainer asks. {REMEDY}")
        with autograd.record():
            results = self._block(data, label)
        autograd.backward(as_list(results)[0])
        if batch_size is None:
            own = _length([x for x in as_list(data) if isinstance(x, NDArray)])
            batch_size = own if trainer.averages else trainer.total_batch_size(own)
        trainer.step(batch_size, self._block.settings.ignore_stale_grad)
        arrays, structure = flatten(results, NDArray, "the loss")
        return regroup([x.detach() for x in arrays], structure)

    def _rescale_alike(self, entry: StepEntry, part: StepPart, examples: int, batch_size: float | None) -> None:
        """Divide gradients by the examples of all ranks, after these compared what the update depends on.

        Those of this rank are ``examples``, unless ``batch_size`` is given.
        """
        trainer, settings = self._block.trainer, self._block.settings
        share = examples if batch_size is None else float(batch_size)
        is_of_all = batch_size is not None and not trainer.averages
        facts = {"batch_size as an argument": batch_size is not None, **self._settings()}
        trained = {"whether the loss depends on it": entry.is_trained}
        is_new = part not in entry.agreed
        agreed = trainer.agree("TrainStep", share if is_of_all else None, share, facts, trained, asks=is_new)
        if agreed.is_asked:
            entry.require_agreement(settings.communicator)
            entry.agreed.add(part)
        trainer.rescale(share if is_of_all else agreed.total / (settings.ranks if trainer.averages else 1))

    def _settings(self) -> dict[str, Any]:
        """What all ranks must have been given."""
        settings = self._block.settings
        return {
            "accumulate": settings.accumulate,
            "sync_every": settings.sync_every,
            "clip_global_norm": settings.clip,
            "shard_optimizer": self._block.shards_optimizer,
        }

    def _average(self) -> None:
        """Average the parameters over ranks, which trained alone since the last time."""
        if self._block.settings.ranks == 1:
            return
        facts = {"number of calls": self._calls, **self._settings()}
        self._block.trainer.agree("average of the parameters of TrainStep", None, 0, facts, {})
        average(self._block.collect_params().values())

    @property
    def is_accumulating(self) -> bool:
        """Whether the next call adds to the gradients of calls before."""
        return self._calls % self._block.settings.accumulate > 0

    def state(self) -> dict[str, Any]:
        """What the next call depends on beside parameters, gradients and optimizer: a checkpoint saves it."""
        return {"calls": self._calls, "examples": self._examples, "residuals": self._block.settings.residuals.state()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this.

        Parameters
        ----------
        state:
            What it gave.
        """
        self._calls = state["calls"]
        self._examples = state.get("examples", 0)
        self._block.settings.residuals.load_state(state["residuals"])

    def explain(self) -> Report:
        """A report of what was compiled and why: signatures, kernels, host calls; ``.html()`` shows all levels."""
        graphs: Any = self._block.compiled
        if graphs is None:
            return Report(f"{self._block.name}: nothing is compiled yet: call it")
        return graphs.report()

    def _run(self, entry: StepEntry, arrays: Sequence[NDArray], args: tuple[Any, ...], part: StepPart) -> Any:
        trainer = self._block.trainer
        if trainer._amp_loss_scaler is not None:
            raise UnsupportedError(f"TrainStep does not scale losses, for which amp.init_trainer asks. {REMEDY}")
        optimizer, bound = trainer.optimizer, entry.bound.get(part)
        if bound is not None and not bound.holds(optimizer, trainer.updater.states):
            bound = None
        numbers = advance(optimizer, entry.indices) if part.updates else []
        if bound is None or not bound.accepts(numbers):
            bound = self._bind(entry, args, numbers, part)
        results = bound.run([x._data for x in arrays], numbers)
        return regroup([wrap(r) for r in results], entry.trace.structure)

    def _bind(self, entry: StepEntry, args: tuple[Any, ...], numbers: Sequence[Values], part: StepPart) -> Bound:
        trainer, indices = self._block.trainer, entry.indices
        if not part.updates:
            return entry.bind(args, trainer.optimizer, [], {}, [], part)
        weights = [w.parameter.array() for w in entry.weights]
        grads = [w.parameter.gradient() for w in entry.weights]
        if self._block.shards_optimizer and self._block.settings.ranks > 1:
            weights = self._pieces(indices, weights, grads, numbers)
        states = trainer.updater.states_of(indices, weights)
        rows = [trainer.optimizer.row(*row) for row in zip(indices, weights, grads, states, strict=True)]
        return entry.bind(args, trainer.optimizer, rows, dict(zip(indices, states, strict=True)), numbers, part)

    def _pieces(
        self, indices: Sequence[int], weights: list[NDArray], grads: list[NDArray], numbers: Sequence[Values]
    ) -> list[NDArray]:
        """This rank's parts of the weights; states that are whole are cut."""
        trainer = self._block.trainer
        states, shards = trainer.updater.states, self._block.settings.shards
        if shards is None:
            optimizer = trainer.optimizer
            sample = optimizer.create_state_multi_precision(indices[0], weights[0])
            kind = kind_of(optimizer.row(indices[0], weights[0], grads[0], sample), numbers[0])
            elementwise = is_elementwise(optimizer.formula, kind, type(optimizer).__name__)
            self._sharded = list(indices)
            shards = OptimizerShards(weights, communicator(), elementwise)
            trainer.share_states(shards, indices)
            self._block.settings.shards = shards
            for number, index in enumerate(indices):
                if index in states:
                    states[index] = shards.cut(number, states[index])
        if self._sharded != list(indices):
            raise MXNetError(
                "TrainStep: with shard_optimizer the same parameters are trained at every step, but now others are; "
                "freeze them before the first step, or make a new TrainStep and Trainer"
            )
        return [shards.piece(number, weight) for number, weight in enumerate(weights)]


class _Step(HybridBlock):
    """Network and loss as one block; its compiled graphs are dropped when one of them changes."""

    def __init__(self, net: Any, loss: Any, trainer: Trainer, settings: StepSettings, shards_optimizer: bool) -> None:
        if not isinstance(net, HybridBlock):
            raise UnsupportedError(
                f"TrainStep: the network is a {type(net).__name__}, which cannot be compiled; make it a HybridBlock, "
                f"as nn.HybridSequential. {REMEDY}"
            )
        if isinstance(loss, Block) and not isinstance(loss, HybridBlock):
            raise UnsupportedError(
                f"TrainStep: the loss is a {type(loss).__name__}, which cannot be compiled; make it a HybridBlock, or "
                f"a function. {REMEDY}"
            )
        super().__init__(prefix=f"{net.name}_step_")
        self.net = net
        self.loss = loss
        self.trainer = trainer
        self.settings = settings
        self.shards_optimizer = shards_optimizer

    def forward(self, *args: Any) -> Any:
        """The loss of one batch, of its data and label."""
        data, label = args
        out = self.net(*as_list(data))
        return self.loss(out, *([] if label is None else as_list(label)))

    @property
    def compiled(self) -> StepGraphs | None:
        """The compiled step, or None before the first call."""
        return self.__dict__.get("_cached_graph")

    def graphs(self, *args: Any) -> StepGraphs:
        """The compiled step, made at the first call."""
        made = self.compiled
        if made is not None:
            return made
        _check_optimizer(self.trainer.optimizer)
        trainer, settings = self.trainer, self.settings
        if trainer.store is not None and (trainer.updates_on_store or not sharing.sums_over_ranks(trainer.store)):
            raise UnsupportedError(f"TrainStep: a kvstore takes part in the step; make the trainer without. {REMEDY}")
        settings.communicator = trainer.communicator
        settings.sum_of = functools.partial(trainer.sum_of, residuals=settings.residuals)
        settings.on_gpu = trainer.contexts[0].device_type == "gpu"
        if settings.ranks > 1 and settings.sync_every > 1 and trainer.averages:
            raise UnsupportedError(
                f"TrainStep: sync_every lets ranks train alone, but {type(trainer).__name__} averages their "
                f"gradients; make a gluon.Trainer with a distributed kvstore"
            )
        if settings.ranks > 1 and self.shards_optimizer and settings.communicator is not communicator():
            raise UnsupportedError("TrainStep: shard_optimizer is for all ranks, not for some; leave process_set")
        if len(self.trainer.contexts) > 1:
            raise UnsupportedError(
                f"TrainStep: the parameters are on {len(self.trainer.contexts)} devices; initialize them on one, which "
                f"uses all cores. {REMEDY}"
            )
        backends = [name for block in (self.net, self.loss) for name, _ in getattr(block, "_backends", ())]
        if backends:
            raise UnsupportedError(
                f"TrainStep: {self.net.name} is hybridized for the backend {backends[0]!r}, which takes parts of a "
                f"forward only; call hybridize() without backend. {REMEDY}"
            )
        params = self.collect_params()
        if any(p.is_deferred for p in params.values()):
            try:
                self._finish_deferred(params, args)
            except TraceError as error:
                raise TraceError(f"{error}\n{REMEDY}") from error.__cause__
        if settings.ranks > 1:
            self.trainer._init_kvstore()
        return self._keep_graph(StepGraphs(self, is_static=self.net._is_static))


def _check_optimizer(optimizer: Optimizer) -> None:
    """Raise if the optimizer has no formula that could be compiled."""
    kind = type(optimizer)
    own = kind.update is not Optimizer.update or kind.update_multi_precision is not Optimizer.update_multi_precision
    if own:
        raise UnsupportedError(
            f"TrainStep: {kind.__name__} has an update() of its own, which runs as Python code; define numbers() and "
            f"formula() instead. {REMEDY}"
        )


def _length(arrays: Sequence[NDArray]) -> int:
    """The length of the first array, which is that of the batch."""
    if not arrays or not arrays[0].shape:
        raise MXNetError("TrainStep: the data has no axis of the batch; give batch_size")
    return arrays[0].shape[0]
