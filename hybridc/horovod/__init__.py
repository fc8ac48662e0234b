"""Horovod's interface for MXNet, ``import horovod.mxnet as hvd``: here ``from hybridc import horovod as hvd``.

The names, parameters and results are those of Horovod 0.28. The ranks are those of :mod:`hybridc.communication`, so
these programs run by ``python -m hybridc launch``, ``mpirun`` and Slurm; a process that is alone has rank 0 of 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hybridc.ground.absent import absent as _absent
from hybridc.horovod.compressors import Compression, Compressor, FP16Compressor, NoneCompressor
from hybridc.horovod.distributed_optimizer import DistributedOptimizer
from hybridc.horovod.distributed_trainer import DistributedTrainer
from hybridc.horovod.exchanges import allgather, alltoall, broadcast, broadcast_, grouped_allgather
from hybridc.horovod.rank_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    init,
    is_initialized,
    process_set_by_id,
    process_sets,
    remove_process_set,
    shutdown,
)
from hybridc.horovod.ranks import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    size,
    start_timeline,
    stop_timeline,
)
from hybridc.horovod.reductions import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allreduce,
    allreduce_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_reducescatter,
    reducescatter,
)
from hybridc.horovod.shared_values import allgather_object, broadcast_object, broadcast_parameters

__all__ = [
    "Adasum", "Average", "Compression", "Compressor", "DistributedOptimizer", "DistributedTrainer", "FP16Compressor",
    "Max", "Min", "NoneCompressor", "ProcessSet", "Product", "Sum", "add_process_set", "allgather", "allgather_object",
    "allreduce", "allreduce_", "alltoall", "broadcast", "broadcast_", "broadcast_object", "broadcast_parameters",
    "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built", "global_process_set", "gloo_built",
    "gloo_enabled", "grouped_allgather", "grouped_allreduce", "grouped_allreduce_", "grouped_reducescatter", "init",
    "is_homogeneous", "is_initialized", "local_rank", "local_size", "mpi_built", "mpi_enabled",
    "mpi_threads_supported", "nccl_built", "process_set_by_id", "process_sets", "rank", "reducescatter",
    "remove_process_set", "rocm_built", "shutdown", "size", "start_timeline", "stop_timeline",
]  # fmt: skip


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        raise _absent("hybridc.horovod", name, "attribute", __all__)
