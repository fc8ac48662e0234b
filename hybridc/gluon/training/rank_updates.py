"""Updates on several ranks: parameters equal at the start, their gradients summed in buckets at each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from hybridc.array.ndarray import NDArray, assign
from hybridc.communication import Communicator
from hybridc.communication.agreement import require_equal
from hybridc.communication.communicator import labelled
from hybridc.communication.compression import Rounding
from hybridc.context import Context
from hybridc.gluon.parameter import Parameter
from hybridc.gluon.training.fresh_gradients import freshness
from hybridc.gluon.training.store_updates import StoreUpdates
from hybridc.kvstore.distributed import broadcast_arrays
from hybridc.kvstore.rank_sums import RankSums
from hybridc.optimizer.plain_settings import settings_of


class RankUpdates(StoreUpdates):
    """How a trainer sums gradients over the ranks of a program; each rank makes the same updates."""

    is_over_ranks: ClassVar[bool] = True

    def __init__(
        self, params: Sequence[Parameter], contexts: Sequence[Context], optimizer: Any, kvstore: Any, on_store: bool
    ) -> None:
        super().__init__(params, contexts, optimizer, kvstore, on_store)
        self._sums: RankSums = kvstore.rank_sums
        self.broadcast([param for param in params if not param.is_deferred])

    # --- before the first step -----------------------------------------------------------------------------

    def broadcast(self, params: Sequence[Parameter]) -> None:
        """Give parameters the values that they have on rank 0, on all devices."""
        require_equal("the parameters of the trainer", _described(params), self.communicator)
        for param in params:
            first, *others = param.arrays()
            broadcast_arrays([first], self._sums)
            for other in others:
                assign(first, other)

    def fill_store(self) -> None:
        """Check that all ranks have the same optimizer and settings, and give them the same parameters."""
        require_equal("the optimizer", settings_of(self.device_updaters[0].optimizer), self.communicator)
        settings = {"kvstore": self.store.type, "update_on_kvstore": self.on_store}
        require_equal("the trainer", settings, self.communicator)
        self.broadcast(self.params)
        if self.on_store:
            super().fill_store()

    def renew(self, param: Parameter, is_new: bool) -> None:
        """As for any store; the values that a parameter was initialized with are those of rank 0."""
        if is_new:
            self.broadcast([param])
        super().renew(param, is_new)

    # --- steps ---------------------------------------------------------------------------------------------

    def step(self, sum_gradients: Callable[[], None], ignore_stale_grad: bool, scaler: Any) -> None:
        """Sum gradients over ranks, and update the parameters of each bucket while the next ones are summed."""
        if self.on_store:
            self.update_once(ignore_stale_grad)
            return
        with labelled("Trainer.step"):
            self.prepare()
            self._update_in_buckets(ignore_stale_grad, scaler)

    def _update_in_buckets(self, ignore_stale_grad: bool, scaler: Any) -> None:
        fresh = self.fresh(ignore_stale_grad)
        buckets = self._summed(absent_if_stale=ignore_stale_grad)
        if scaler is not None:
            buckets = [[number for numbers in buckets for number in numbers]]  # all are there before one is updated
            if scaler.has_overflow(self.params):
                return
        for numbers in buckets:
            self._update_on_all_devices([number for number in numbers if number in fresh])

    def sum_gradients(self) -> None:
        """Write the sums of gradients over devices and ranks into each of them."""
        self.prepare()
        with labelled("Trainer.allreduce_grads"):
            for _ in self._summed():
                pass

    def update(self, ignore_stale_grad: bool, scaler: Any) -> None:
        """Update the arrays on all devices; nothing, if the ``scaler`` of mixed precision finds an overflow."""
        if scaler is None or not scaler.has_overflow(self.params):
            self._update_on_all_devices(self.fresh(ignore_stale_grad))

    def _update_on_all_devices(self, numbers: Sequence[int]) -> None:
        """Update some parameters on all devices, whether their gradients are fresh or not."""
        if not numbers:
            return
        optimizer = self.device_updaters[0].optimizer
        step = optimizer.num_update
        for place in range(len(self.contexts)):
            with self._sums.same_random(optimizer, step, numbers[0]):  # all ranks draw the same random numbers
                self.update_numbers(place, numbers)

    def fresh(self, ignore_stale_grad: bool) -> list[int]:
        """The numbers of the parameters to update: all, or with ``ignore_stale_grad`` those that any rank used."""
        fresh = super().fresh(ignore_stale_grad)
        if not ignore_stale_grad:
            return fresh
        own = set(fresh)
        trained = self.trained()
        flags = self._sums.any_of([i in own for i in trained])
        return [i for i, flag in zip(trained, flags, strict=True) if flag]

    def gradients(self, number: int) -> list[NDArray]:
        """The gradients of a parameter on all devices; zeros for stale ones."""
        param = self.params[number]
        pairs = zip(freshness(param), param.gradients(), strict=True)
        return [grad if is_fresh else grad._zeros(grad.stype) for is_fresh, grad in pairs]

    def _summed(self, absent_if_stale: bool = False) -> Iterator[list[int]]:
        """Sum all gradients over devices and ranks; the numbers of the parameters, bucket after bucket.

        With ``absent_if_stale`` a stale gradient counts as 0.
        """
        numbers = self.trained()
        groups = [self.params[i].gradients() for i in numbers]
        absent: set[tuple[int, int]] = set()
        if absent_if_stale:
            on_devices = [freshness(self.params[i]) for i in numbers]
            absent = {(k, d) for k, row in enumerate(on_devices) for d, is_fresh in enumerate(row) if not is_fresh}
        for indices in self._sums.reduce([self.params[i].name for i in numbers], groups, absent):
            yield [numbers[k] for k in indices]

    # --- ranks ---------------------------------------------------------------------------------------------

    @property
    def communicator(self) -> Communicator:
        """The ranks that train together."""
        return self._sums.ranks

    @property
    def compression(self) -> Rounding | None:
        """How gradients are rounded on their way to other ranks."""
        return self._sums.compression

    def total_batch_size(self, batch_size: int) -> int:
        """The sum of the sizes of the batches of all ranks, which all ask for it."""
        return int(self.communicator.agree("Trainer.total_batch_size", share=batch_size).total)

    def state(self) -> Any:
        """What rounding left out of sums so far, and the seed of updates that draw random numbers."""
        return self._sums.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on as where :meth:`state` gave this."""
        self._sums.load_state(state)


def _described(params: Sequence[Parameter]) -> dict[str, str]:
    kinds = {p.name: (p.shape, np.dtype(p.dtype), p.stype, p.grad_req, p.grad_stype) for p in params}
    return {name: " ".join(map(str, kind)).replace(" default", "") for name, kind in kinds.items()}
