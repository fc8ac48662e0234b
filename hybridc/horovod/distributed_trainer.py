"""DistributedTrainer: gluon's Trainer, with gradients averaged over ranks."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hybridc.array.ndarray import NDArray
from hybridc.communication import Alone, Communicator
from hybridc.communication.communicator import Array, labelled
from hybridc.errors import CheckError
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.gluon.trainer import Trainer
from hybridc.horovod.compressors import Compression, Compressor
from hybridc.horovod.distributed_optimizer import DistributedOptimizer
from hybridc.horovod.gradient_groups import positive, split_list, takes_part
from hybridc.horovod.rank_sets import ProcessSet, global_process_set
from hybridc.horovod.reductions import grouped_allreduce_
from hybridc.kvstore.rank_sums import RankSums

if TYPE_CHECKING:
    from hybridc.communication.compression import Residuals
    from hybridc.dialects.control.collectives import RankSum


class DistributedTrainer(Trainer):
    """``DistributedTrainer(net.collect_params(), 'sgd', {'learning_rate': 0.1})``; ``step(batch_size)`` of each rank.

    Gradients are averaged over the ranks and divided by ``batch_size``, the examples of one rank; where these differ
    between ranks, by their mean.

    Parameters
    ----------
    compression:
        How gradients go from rank to rank: ``Compression.none`` or ``Compression.fp16``.
    gradient_predivide_factor:
        Gradients are divided by it before they are summed, and multiplied by it over the number of ranks after that,
        which avoids overflow in half precision.
    prefix:
        Distinguishes several trainers in errors.
    num_groups:
        In how many collectives gradients go; 0 for as many as their size asks for.
    process_set:
        The ranks that average; others only update, with the gradients that they have.
    """

    def __init__(
        self,
        params: ParameterDict | Mapping[str, Parameter] | Sequence[Parameter],
        optimizer: Any,
        optimizer_params: Mapping[str, Any] | None = None,
        compression: type[Compressor] = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
    ) -> None:
        if isinstance(optimizer, DistributedOptimizer):
            # COMPAT(mxnet): Horovod leaves what the wrapper did to rescale_grad, and divides by the ranks twice.
            optimizer = optimizer.unwrap()
            warnings.warn(
                "DistributedTrainer does not take DistributedOptimizer as its optimizer. We have unwrapped it for you.",
                stacklevel=2,
            )
        self._compression = compression
        self._process_set = process_set
        self._num_groups = num_groups
        self._prefix = prefix or ""
        self._predivide = positive(gradient_predivide_factor)
        # COMPAT(mxnet): a rank that does not communicate uses its gradients as they are; Horovod scales them.
        self._takes_part = takes_part(process_set)
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        if len(self.contexts) > 1:
            raise CheckError(
                f"DistributedTrainer: the parameters are on {len(self.contexts)} devices; initialize them on one, and "
                f"start a rank for each device"
            )
        if self._takes_part:
            self._scale *= self._predivide / process_set.size()
        # Sums in the buckets of a kvstore, without copies, where gradients go as they are.
        self._rank_sums: RankSums | None = None
        if self._takes_part and compression is Compression.none and self._predivide == 1 and not num_groups:
            self._rank_sums = RankSums(process_set.communicator())

    def _allreduce_grads(self) -> None:
        """Sum the gradients over the ranks, divided by the predivide factor."""
        if not self._takes_part:
            return
        with labelled(type(self).__name__):
            self._allreduce_among_ranks()

    def _allreduce_among_ranks(self) -> None:
        grads = [param.gradients()[0] for param in self._params if param.grad_req != "null"]
        names = [f"{self._prefix}{i}" for i, param in enumerate(self._params) if param.grad_req != "null"]
        if self._rank_sums is not None:
            for _ in self._rank_sums.reduce(names, [[grad] for grad in grads]):
                pass
            return
        self.sum_together(grads)

    def sum_together(self, grads: Sequence[NDArray]) -> None:
        """Replace the arrays ``grads`` by their sums over the ranks, divided by the predivide factor."""
        sent: list[tuple[NDArray, Any]] = [self._compression.compress(grad) for grad in grads]
        for number, group in enumerate(split_list([array for array, _ in sent], self._num_groups or 1)):
            grouped_allreduce_(
                group,
                average=False,
                name=f"{self._prefix}{number}",
                prescale_factor=1 / self._predivide,
                process_set=self._process_set,
            )
        for grad, (array, ctx) in zip(grads, sent, strict=True):
            if array is not grad:
                grad[:] = self._compression.decompress(array, ctx)

    @property
    def communicator(self) -> Communicator:
        return self._process_set.communicator() if self._takes_part else Alone()

    def sum_of(self, name: str, size: int, dtype: np.dtype[Any], residuals: Residuals) -> RankSum | None:
        plain = self._predivide == 1 and self._compression is Compression.none
        return None if plain and self._process_set is global_process_set else _StepSum(self)

    @property
    def averages(self) -> bool:
        """True: gradients are divided by the number of ranks beside the batch size, which is that of one rank."""
        return True


class _StepSum:
    """The sum of a bucket of a TrainStep, as a trainer sums gradients."""

    def __init__(self, trainer: DistributedTrainer) -> None:
        self._trainer = trainer

    def allreduce(self, array: Array) -> None:
        """Replace the elements by their sums."""
        self._trainer.sum_together([NDArray(array)])
