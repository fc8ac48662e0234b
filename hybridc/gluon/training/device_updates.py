"""Updates without a store: gradients are summed over the devices of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from hybridc import autograd, nd
from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray
from hybridc.communication import Alone, Communicator
from hybridc.communication.compression import Rounding
from hybridc.context import Context
from hybridc.gluon.parameter import Parameter
from hybridc.gluon.training.fresh_gradients import fresh_gradients
from hybridc.ground.whole_files import write_whole


class DeviceSums(NamedTuple):
    """What programs read of MXNet's store of several devices, where hybridc sums gradients without one."""

    type: str
    #: The optimizer with its states, if the store updates parameters in MXNet.
    updater: opt.Updater | None
    rank: int = 0
    num_workers: int = 1

    _updater = property(lambda self: self.updater)


class DeviceUpdates:
    """How a trainer without a store sums gradients and updates parameters; the base of those with a store.

    ``kvstore`` is what the user gave: a name, a store, or None, with which nothing is summed. With ``on_store`` each
    parameter is updated once, as MXNet's store does it; otherwise on each device.
    """

    #: Whether the ranks of a program train together.
    is_over_ranks: ClassVar[bool] = False

    def __init__(
        self, params: Sequence[Parameter], contexts: Sequence[Context], optimizer: Any, kvstore: Any, on_store: bool
    ) -> None:
        self.params = params
        self.contexts = contexts
        self.device_updaters: list[Any] = [opt.get_updater(optimizer) for _ in contexts]
        self.on_store = on_store
        self._given_kvstore = kvstore
        #: Whether the store, if there is one, has what it needs for a step.
        self.is_ready = self.store is None
        self._sums_devices = len(contexts) > 1 and kvstore is not None
        self._is_begun = False

    @property
    def kvstore(self) -> Any:
        """The store, or from the first step on what programs read of MXNet's."""
        if self.store is not None or not (self._sums_devices and self._is_begun):
            return self.store
        return DeviceSums(str(self._given_kvstore), self.device_updaters[0] if self.on_store else None)

    # --- before the first step -----------------------------------------------------------------------------

    def begin(self) -> None:
        """At the first step, raise if a parameter still waits for its shape, and copy the first device's arrays.

        Each device has the values of the first one from then on, running means too, as where a store broadcasts them.
        """
        if self._is_begun:
            return
        for param in self.params:
            first, *others = param.arrays()
            for array in others if self._sums_devices else ():
                first.copyto(array)
        self._is_begun = True

    def prepare(self) -> None:
        """Give a store what it needs for a step."""

    def renew(self, param: Parameter, is_new: bool) -> None:
        """Let a store know that a parameter was set, or initialized if ``is_new``."""

    # --- steps ---------------------------------------------------------------------------------------------

    def step(self, sum_gradients: Callable[[], None], ignore_stale_grad: bool, scaler: Any) -> None:
        """Sum gradients, by ``sum_gradients`` where that is apart, and update parameters."""
        if self.on_store:
            self.update_once(ignore_stale_grad)
        else:
            sum_gradients()
            self.update(ignore_stale_grad, scaler)

    def sum_gradients(self) -> None:
        """Write the sum of the gradients of all devices into each of them."""
        if not self._sums_devices:
            return
        for number in self.trained():
            grads = self.params[number].gradients()
            total = _sum(grads)
            for grad in grads:
                total.copyto(grad)

    def update(self, ignore_stale_grad: bool, scaler: Any) -> None:
        """Update the arrays on all devices; nothing, if the ``scaler`` of mixed precision finds an overflow."""
        if scaler is not None and scaler.has_overflow(self.params):
            return
        fresh = fresh_gradients(self.params, ignore_stale_grad)
        for place in range(len(self.contexts)):
            self.update_numbers(place, [i for i, on_devices in fresh.items() if on_devices[place]])

    def update_numbers(self, place: int, numbers: Collection[int]) -> None:
        """Update the arrays of some parameters on one of the devices."""
        if not numbers:
            return
        updater = self.device_updaters[place]
        grads = [self.params[i].gradients()[place] for i in numbers]
        weights = [self.params[i].arrays()[place] for i in numbers]
        if len(self.contexts) > 1:  # each device counts its updates
            updater.optimizer._set_current_context(place)
        updater(list(numbers), grads, weights)
        for weight in weights:
            autograd.mark_used(weight)

    def update_once(self, ignore_stale_grad: bool) -> None:
        """Update the arrays on the first device with the sums of gradients, and copy them to the others."""
        # COMPAT(mxnet): a gradient that was used already is stale here too; there the second step uses it again.
        fresh = self.fresh(ignore_stale_grad)
        if not fresh:
            return
        sums = [_sum(self.params[i].gradients()) for i in fresh]
        self.device_updaters[0](fresh, sums, [self.params[i].arrays()[0] for i in fresh])
        for i in fresh:
            first, *others = self.params[i].arrays()
            for weight in others:
                first.copyto(weight)
        self.mark_used(fresh)

    def mark_used(self, numbers: Sequence[int]) -> None:
        """The gradients of these parameters served their purpose, on all devices."""
        for number in numbers:
            for weight in self.params[number].arrays():
                autograd.mark_used(weight)

    def fresh(self, ignore_stale_grad: bool) -> list[int]:
        """The numbers of the parameters to update: those with a fresh gradient on any device."""
        return list(fresh_gradients(self.params, ignore_stale_grad))

    def trained(self) -> list[int]:
        """The numbers of the parameters that have gradients."""
        return [i for i, param in enumerate(self.params) if param.grad_req != "null"]

    # --- ranks ---------------------------------------------------------------------------------------------

    @property
    def store(self) -> Any:
        """The store, or None."""
        return None

    @property
    def communicator(self) -> Communicator:
        """The ranks that train together."""
        return Alone()

    @property
    def compression(self) -> Rounding | None:
        """How gradients are rounded on their way to other ranks."""
        return None

    def total_batch_size(self, batch_size: int) -> int:
        """The sum of the sizes of the batches of all ranks, which all ask for it."""
        return batch_size

    # --- states --------------------------------------------------------------------------------------------

    @property
    def updaters(self) -> list[Any]:
        """Those that have the states of the optimizer."""
        return self.device_updaters

    def adopt_optimizer(self) -> Any:
        """Update by the optimizer that has the settings which were loaded, and return it; None if a store hides it."""
        optimizer = self.device_updaters[0].optimizer
        for updater in self.device_updaters:
            updater.optimizer = optimizer
        return optimizer

    def save_states(self, fname: str) -> None:
        """Save the optimizer's states and settings."""
        write_whole(fname, self.device_updaters[0].get_states(dump_optimizer=True))

    def load_states(self, fname: str) -> None:
        """Load what :meth:`save_states` wrote."""
        for updater in self.device_updaters:
            updater.set_states(Path(fname).read_bytes())

    def state(self) -> Any:
        """What sums depend on beside gradients, as plain data."""
        return None

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this."""


def _sum(grads: Sequence[NDArray]) -> NDArray:
    """The sum of the gradients of several devices, a new array."""
    if grads[0].stype != "default":
        return nd.add_n(*grads)
    first, *others = [grad._data for grad in grads]
    total = first.copy()
    for other in others:
        np.add(total, other, out=total)
    return NDArray(total)
