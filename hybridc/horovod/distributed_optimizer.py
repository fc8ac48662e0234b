"""DistributedOptimizer: an optimizer, with gradients averaged over ranks: for Module, and for loops without Trainer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from hybridc.communication.communicator import labelled
from hybridc.errors import UnsupportedError
from hybridc.horovod.gradient_groups import positive, split_list, takes_part
from hybridc.horovod.rank_sets import ProcessSet, global_process_set
from hybridc.horovod.reductions import grouped_allreduce_
from hybridc.optimizer import Optimizer
from hybridc.optimizer.plain_settings import scalars_of


class DistributedOptimizer(Optimizer):
    """``DistributedOptimizer(mx.optimizer.SGD(learning_rate=0.1))`` averages gradients over ranks before each update.

    It has the attributes of the optimizer, the same ones: setting one sets it there.

    Parameters
    ----------
    optimizer:
        The optimizer.
    gradient_predivide_factor:
        Gradients are divided by it before they are summed, and multiplied by it over the number of ranks after
        that.
    num_groups:
        In how many collectives the gradients of a list go; 0 is 1.
    process_set:
        The ranks that average; others only update, with the gradients that they have.
    """

    __slots__ = ("_num_groups", "_optimizer", "_predivide", "_process_set")

    TAKES_LISTS = True

    def __init__(
        self,
        optimizer: Optimizer,
        gradient_predivide_factor: float = 1.0,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        self._predivide = positive(gradient_predivide_factor)
        self._wrap(optimizer, num_groups, process_set)
        self.rescale_grad *= self._factor()

    def _wrap(self, optimizer: Optimizer, num_groups: int, process_set: ProcessSet) -> None:
        self.__dict__ = optimizer.__dict__
        self._optimizer, self._num_groups, self._process_set = optimizer, num_groups, process_set

    def _factor(self) -> float:
        """By what the sums of gradients are multiplied to be means."""
        return self._predivide / self._process_set.size() if takes_part(self._process_set) else 1.0

    def unwrapped(self) -> Optimizer:
        """The optimizer without the averaging."""
        return self._optimizer

    def unwrap(self) -> Optimizer:
        """Take the averaging away: the optimizer, with the ``rescale_grad`` that it had."""
        self.rescale_grad /= self._factor()
        return self._optimizer

    def __getattr__(self, name: str) -> Any:
        # What subclasses of Optimizer add.
        if name in DistributedOptimizer.__slots__:
            raise AttributeError(name)
        return getattr(self._optimizer, name)

    # --- updates -------------------------------------------------------------------------------------------

    def update(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._average(grad)
        self._optimizer.update(index, weight, grad, state)

    def update_multi_precision(self, index: Any, weight: Any, grad: Any, state: Any) -> None:
        self._average(grad)
        inner = self._optimizer
        own = type(inner).update_multi_precision is not Optimizer.update_multi_precision
        if not isinstance(index, list | tuple) or not own:
            inner.update_multi_precision(index, weight, grad, state)
            return
        for row in zip(cast("list[Any]", index), weight, grad, state, strict=True):
            inner.update_multi_precision(*row)

    def _average(self, grad: Any) -> None:
        """Sum gradients over the ranks, divided by the predivide factor."""
        if not takes_part(self._process_set):
            return
        grads: Sequence[Any] = cast("list[Any]", grad) if isinstance(grad, list | tuple) else [grad]
        for group in split_list(grads, self._num_groups or 1):
            with labelled(f"DistributedOptimizer.update with {scalars_of(self._optimizer)}"):
                factor = 1 / self._predivide
                grouped_allreduce_(group, average=False, prescale_factor=factor, process_set=self._process_set)

    # --- the optimizer's own -------------------------------------------------------------------------------

    def create_state(self, index: Any, weight: Any) -> Any:
        return self._optimizer.create_state(index, weight)

    def create_state_multi_precision(self, index: Any, weight: Any) -> Any:
        return self._optimizer.create_state_multi_precision(index, weight)

    def state_count(self) -> int:
        return self._optimizer.state_count()

    def numbers(self, index: Any) -> dict[str, float | None]:
        return self._optimizer.numbers(index)

    def formula(self, F: Any, w: Any, g: Any, state: tuple[Any, ...], h: Any) -> tuple[Any, ...]:
        return self._optimizer.formula(F, w, g, state, h)

    def explain(self) -> str:
        return self._optimizer.explain()

    @property
    def learning_rate(self) -> float:
        """The rate of the next update, before the parameters' multipliers."""
        return self._optimizer.learning_rate

    def set_learning_rate(self, lr: float) -> None:
        self._optimizer.set_learning_rate(lr)

    def set_lr_mult(self, args_lr_mult: Mapping[Any, float]) -> None:
        self._optimizer.set_lr_mult(args_lr_mult)

    def set_wd_mult(self, args_wd_mult: Mapping[Any, float]) -> None:
        self._optimizer.set_wd_mult(args_wd_mult)

    def __reduce__(self) -> Any:
        if self._process_set is not global_process_set:
            raise UnsupportedError("a DistributedOptimizer of a process set cannot be pickled; pickle its unwrapped()")
        return _rewrapped, (self._optimizer, self._predivide, self._num_groups)


def _rewrapped(optimizer: Optimizer, predivide: float, num_groups: int) -> DistributedOptimizer:
    """What was pickled: the optimizer's ``rescale_grad`` has the factor already."""
    made = DistributedOptimizer.__new__(DistributedOptimizer)
    made._predivide = predivide
    made._wrap(optimizer, num_groups, global_process_set)
    return made
