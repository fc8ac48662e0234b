"""The parameters of a trainer on several ranks: equal at the start, their gradients summed in buckets at each step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from hybridc import autograd
from hybridc.array.ndarray import NDArray, assign
from hybridc.communication.agreement import require_equal
from hybridc.context import Context
from hybridc.kvstore.distributed import broadcast_arrays
from hybridc.kvstore.rank_sums import RankSums
from hybridc.optimizer.plain_settings import settings_of


class RankGradients:
    """What a trainer does with its parameters, as gluon has them, that is of all ranks; ``store`` has the sums."""

    def __init__(self, params: Sequence[Any], store: Any, update_on_kvstore: bool) -> None:
        self._params = params
        self._store = store
        self._update_on_kvstore = update_on_kvstore
        self._sums: RankSums = store.rank_sums
        self.broadcast([param for param in params if not param.is_deferred])

    @property
    def _trained(self) -> list[int]:
        return [i for i, param in enumerate(self._params) if param.grad_req != "null"]

    def broadcast(self, params: Sequence[Any]) -> None:
        """Give parameters the values that they have on rank 0, on all devices."""
        require_equal("the parameters of the trainer", _described(params), self._sums.ranks)
        for param in params:
            first, *others = param.list_data()
            broadcast_arrays([first], self._sums)
            for other in others:
                assign(first, other)

    def prepare(self, optimizer: Any) -> None:
        """Before the first step: all ranks must have the same optimizer and settings, and get the same parameters."""
        ranks = self._sums.ranks
        require_equal("the optimizer", settings_of(optimizer), ranks)
        settings = {"kvstore": self._store.type, "update_on_kvstore": self._update_on_kvstore}
        require_equal("the trainer", settings, ranks)
        self.broadcast(self._params)

    def same_random(self, optimizer: Any, step: int, numbers: Sequence[int]) -> AbstractContextManager[None]:
        """Within the ``with`` block all ranks draw the same random numbers for an update of these parameters."""
        return self._sums.same_random(optimizer, step, numbers[0]) if numbers else nullcontext()

    def total(self, count: int) -> int:
        """The sum of the counts of all ranks."""
        return int(self._sums.ranks.agree("Trainer.total_batch_size", share=count).total)

    def fresh(self, ignore_stale_grad: bool) -> list[int]:
        """The numbers of the parameters to update: all, or with ``ignore_stale_grad`` those that any rank used.

        Raises without ``ignore_stale_grad`` if backward did not write a gradient since the last step.
        """
        numbers = self._trained
        if ignore_stale_grad:
            flags = self._sums.any_of([not self._stale(self._params[i]) for i in numbers])
            return [i for i, flag in zip(numbers, flags, strict=True) if flag]
        for i in numbers:
            for ctx, weight in zip(self._params[i].list_ctx(), self._params[i].list_data(), strict=True):
                if not autograd.has_fresh_grad(weight):
                    raise_stale(self._params[i], ctx)
        return numbers

    def present(self, number: int) -> list[NDArray]:
        """The gradients of a parameter on all devices; zeros for those not written since the last step."""
        param = self._params[number]
        pairs = zip(param.list_data(), param.list_grad(), strict=True)
        return [g if autograd.has_fresh_grad(w) else g._like(np.zeros_like(g._data)) for w, g in pairs]

    @staticmethod
    def _stale(param: Any) -> bool:
        return not any(autograd.has_fresh_grad(weight) for weight in param.list_data())

    def sums(self, absent_if_stale: bool = False) -> Iterator[list[int]]:
        """Sum all gradients over devices and ranks; the numbers of the parameters, bucket after bucket.

        With ``absent_if_stale`` a gradient that backward did not write since the last step counts as 0.
        """
        numbers = self._trained
        groups = [self._params[i].list_grad() for i in numbers]
        absent: set[tuple[int, int]] = set()
        if absent_if_stale:
            arrays = [self._params[i].list_data() for i in numbers]
            absent = {(k, d) for k, on in enumerate(arrays) for d, x in enumerate(on) if not autograd.has_fresh_grad(x)}
        for indices in self._sums.reduce([self._params[i].name for i in numbers], groups, absent):
            yield [numbers[k] for k in indices]


def _described(params: Sequence[Any]) -> dict[str, str]:
    return {param.name: f"{param.shape} {np.dtype(param.dtype)} {param.grad_req}" for param in params}


def raise_stale(param: Any, ctx: Context) -> None:
    """Raise: the parameter is to be updated, but has no gradient of this step."""
    raise UserWarning(
        f"Gradient of Parameter `{param.name}` on context {ctx} has not been updated by "
        "backward since the last step: the network may have used only some of its parameters this time. If "
        "that is meant, step(batch_size, ignore_stale_grad=True) leaves the others as they are"
    )
