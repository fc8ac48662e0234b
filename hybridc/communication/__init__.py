"""Communication among the processes of one program: ranks, collectives on NumPy arrays, failures that end all of them.

The processes are started by ``python -m hybridc launch``, by ``mpirun`` or by Slurm; MPI (mpi4py) moves the data. A
process that nothing of these started is alone: it has rank 0 of 1, and every collective is at once done.
"""

from hybridc.communication.communicator import Alone, Communicator, Pending
from hybridc.communication.world import communicator, is_launched

__all__ = ["Alone", "Communicator", "Pending", "communicator", "is_launched"]
