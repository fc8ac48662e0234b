"""Updates with a store that the user gave: it sums gradients, and where it can it updates parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hybridc import optimizer as opt
from hybridc.array.ndarray import NDArray
from hybridc.errors import UnsupportedError
from hybridc.gluon.parameter import Parameter
from hybridc.gluon.training.device_updates import DeviceUpdates
from hybridc.kvstore import KVStore, sharing


class StoreUpdates(DeviceUpdates):
    """How a trainer with a store sums gradients and updates parameters; with ``on_store`` the store updates."""

    @property
    def store(self) -> Any:
        """The store."""
        return self._given_kvstore

    # --- before the first step -----------------------------------------------------------------------------

    def prepare(self) -> None:
        """Before the first step: give the store what it needs."""
        if not self.is_ready:
            self.is_ready = True
            self.fill_store()

    def fill_store(self) -> None:
        """Give the store the optimizer, if it updates, and the parameters."""
        if self.on_store:
            self.store.set_optimizer(self.device_updaters[0].optimizer)
        for number, param in enumerate(self.params):
            arrays = param.arrays()
            self.store.broadcast(number, arrays[0], arrays)

    def renew(self, param: Parameter, is_new: bool) -> None:
        """Give a store that updates parameters the values that one was set to, or was initialized with."""
        if not (self.on_store and self.is_ready):
            return
        number, arrays = self.params.index(param), param.arrays()
        if isinstance(self.store, KVStore):
            self.store.replace(number, arrays[0])
        else:
            self.store.broadcast(number, arrays[0], arrays)

    # --- steps ---------------------------------------------------------------------------------------------

    def sum_gradients(self) -> None:
        """Let the store write the sum of the gradients of all devices into each of them."""
        self.prepare()
        sharing.pushpull_all(self.store, [(i, self.params[i].gradients(), None) for i in self.trained()])

    def update_once(self, ignore_stale_grad: bool) -> None:
        """Give the store all gradients, and take the arrays that it updated."""
        self.prepare()
        fresh = self.fresh(ignore_stale_grad)
        sharing.pushpull_all(self.store, [(i, self.gradients(i), self.params[i].arrays()) for i in fresh])
        self.mark_used(fresh)

    def gradients(self, number: int) -> list[NDArray]:
        """The gradients of a parameter on all devices, as the store gets them."""
        return self.params[number].gradients()

    # --- states --------------------------------------------------------------------------------------------

    @property
    def updaters(self) -> list[Any]:
        """That of the store, if it updates, else those of the devices."""
        if not self.on_store or (not self.is_ready and any(param.is_deferred for param in self.params)):
            return self.device_updaters  # the store's has no states yet: there was no step
        self.prepare()
        updater: Any = getattr(self.store, "_updater", None)
        if not isinstance(updater, opt.Updater):
            raise UnsupportedError(
                f"{type(self.store).__name__} updates the parameters, and does not show the states of its optimizer; "
                "make the Trainer with update_on_kvstore=False"
            )
        return [updater]

    def adopt_optimizer(self) -> Any:
        """The optimizer of the store, if it updates, else that of the devices; None if the store hides it."""
        if not (self.on_store and self.is_ready):
            return super().adopt_optimizer()
        updater: Any = getattr(self.store, "_updater", None)
        return None if updater is None else updater.optimizer

    def save_states(self, fname: str) -> None:
        """Save the optimizer's states and settings."""
        if not self.on_store:
            super().save_states(fname)
            return
        self.prepare()
        self.store.save_optimizer_states(fname, dump_optimizer=True)

    def load_states(self, fname: str) -> None:
        """Load what :meth:`save_states` wrote."""
        if not self.on_store:
            super().load_states(fname)
            return
        self.prepare()
        self.store.load_optimizer_states(fname)

    def state(self) -> Any:
        """What the store's sums depend on beside gradients, if it says that."""
        return self.store.state() if hasattr(self.store, "load_state") else None

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this."""
        if hasattr(self.store, "load_state"):
            self.store.load_state(state)
