"""Trainer: one optimizer step on all parameters of a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hybridc import autograd
from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray
from hybridc.errors import CheckError, UnsupportedError
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.ground.events import RECORDER, now

__all__ = ["Trainer"]


class Trainer:
    """``Trainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})``; then ``step(batch_size)``.

    ``kvstore`` and ``compression_params`` are accepted; with one process there is nothing to communicate.
    """

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: Any,
        optimizer_params: Mapping[str, Any] | None = None,
        kvstore: Any = "device",
        compression_params: Mapping[str, Any] | None = None,
        update_on_kvstore: bool | None = None,
    ) -> None:
        if isinstance(kvstore, str) and kvstore.startswith("dist"):
            raise UnsupportedError(f"kvstore={kvstore!r}: training on several machines is not supported; use 'device'")
        self._params = _as_list(params)
        self._names = {param.name: i for i, param in enumerate(self._params)}
        for param in self._params:
            param.list_ctx()  # raises if it is not initialized
            param.set_trainer(self)
        self._optimizer = self._make_optimizer(optimizer, dict(optimizer_params or {}))
        self._updaters: list[Any] = [opt.get_updater(self._optimizer)]  # one for each device
        self._checked = False
        self._scale: float = self._optimizer.rescale_grad

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
    def optimizer(self) -> Any:
        """The optimizer."""
        return self._optimizer

    @property
    def updater(self) -> opt.Updater:
        """The optimizer with the states of the parameters, by their number."""
        return self._updaters[0]

    @property
    def parameters(self) -> list[Parameter]:
        """The parameters; the optimizer knows them by their indices."""
        return self._params

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
        parameter is left as it is.
        """
        begin = now() if RECORDER.calls else 0
        self.update(batch_size, ignore_stale_grad)
        if begin:
            RECORDER.add("api", "Trainer.step", begin)

    def allreduce_grads(self) -> None:
        """Sum the gradients of all devices: with one device they are that already."""
        self._check_initialized()

    def update(self, batch_size: float, ignore_stale_grad: bool = False) -> None:
        """The part of :meth:`step` after :meth:`allreduce_grads`."""
        self.rescale(batch_size)
        indices: list[int] = []
        grads: list[NDArray] = []
        weights: list[NDArray] = []
        for i, param in enumerate(self._params):
            if param.grad_req == "null":
                continue
            weight = param.data()
            if not autograd.has_fresh_grad(weight):
                if ignore_stale_grad:
                    continue
                raise_stale(param)
            indices.append(i)
            grads.append(param.grad())
            weights.append(weight)
        if indices:
            self._updaters[0](indices, grads, weights)
        for weight in weights:
            autograd.mark_used(weight)

    def rescale(self, batch_size: float) -> None:
        """Let the next update divide gradients by ``batch_size``; raises if a parameter waits for its shape."""
        self._check_initialized()
        self._optimizer.rescale_grad = self._scale / batch_size

    def explain(self) -> str:
        """The kernels and the memory of the compiled updates of the parameters."""
        return self._optimizer.explain()

    def _check_initialized(self) -> None:
        """Raise, at the first step, if a parameter still waits for its shape."""
        if self._checked:
            return
        for param in self._params:
            param.data()
        self._checked = True

    # --- files ---------------------------------------------------------------------------------------------

    def save_states(self, fname: str) -> None:
        """Save the optimizer's states and settings; multipliers stay with the parameters."""
        Path(fname).write_bytes(self._updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname: str) -> None:
        """Load what :meth:`save_states` wrote."""
        self._updaters[0].set_states(Path(fname).read_bytes())
        self._optimizer = self._updaters[0].optimizer
        self._optimizer.param_dict = dict(enumerate(self._params))


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


def raise_stale(param: Parameter) -> None:
    """Raise: the parameter is to be updated, but has no gradient of this step."""
    raise UserWarning(
        f"Gradient of Parameter `{param.name}` on context {param.list_ctx()[0]} has not been updated by "
        "backward since the last step: the network may have used only some of its parameters this time. If "
        "that is meant, step(batch_size, ignore_stale_grad=True) leaves the others as they are"
    )
