"""On the path of a program's ranks: rank 1 fails where it imports mpi4py, as ``START_FAULT`` says."""

import os
import signal
import sys
import time

# Open MPI and MPICH say the rank.
RANK = os.environ.get("PMI_RANK") or os.environ.get("OMPI_COMM_WORLD_RANK")


class Fault:
    def find_spec(self, name, path=None, target=None):
        if name != "mpi4py":
            return
        match os.environ["START_FAULT"]:
            case "raise":
                raise ImportError("libmpi.so: cannot open shared object file")
            case "hang":
                time.sleep(100)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "exit":
                os._exit(0)


if RANK == "1":
    sys.meta_path.insert(0, Fault())
