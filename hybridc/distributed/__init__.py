"""Training on several machines: ``mx.distributed``."""

from __future__ import annotations

from hybridc.communication import communicator
from hybridc.communication.communicator import labelled
from hybridc.distributed.training_checkpoint import Checkpoint, CheckpointWarning

__all__ = ["Checkpoint", "CheckpointWarning", "barrier", "communicator", "num_workers", "rank"]


def rank() -> int:
    """The number of this process among those that train together; 0 if it is alone."""
    return communicator().rank


def num_workers() -> int:
    """How many processes train together; 1 if this one is alone."""
    return communicator().size


def barrier() -> None:
    """Wait until all ranks are here."""
    with labelled("hybridc.distributed.barrier"):
        communicator().barrier()
