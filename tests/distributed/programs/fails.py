"""Ranks that train: one of them fails at a step, in a way that the first argument names."""

import ctypes
import os
import signal
import sys
import threading
import time

import numpy as np

from hybridc.communication import communicator

how, who, steps = sys.argv[1], int(sys.argv[2]), 5
comm = communicator()
print("process", os.getpid(), flush=True)
gradient = np.ones(8, np.float32)


def fails():
    match how:
        case "raise":
            raise ValueError("the data of step 2 are bad")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "exit":
            sys.exit(3)
        case "exit-0":
            sys.exit()
        case "exit-text":
            sys.exit("no data are left")
        case "_exit":
            os._exit(0)
        case "crash":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "hang":
            while True:
                pass
        case "hang-locked":  # in C code that holds the lock of the interpreter
            ctypes.PyDLL(None).pause()
        case "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        case "communication":

            def wrong():
                comm.allreduce(gradient[::2])

            comm.start(wrong).wait()
        case "thread":
            thread = threading.Thread(target=lambda: 1 / 0)
            thread.start()
            thread.join()
            raise SystemExit(5)
        case "hook":
            sys.excepthook = lambda *_: print("a hook of the program", flush=True)
            raise ValueError("the data of step 2 are bad")
        case "worker":  # a forked process has what the rank has
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        case "compute":  # the others compute for a while after this rank ended
            pass


for step in range(steps):
    if step == 2 and comm.rank == who:
        fails()
    comm.allreduce(gradient)
    comm.start(lambda: comm.allreduce(gradient)).wait()
    time.sleep(0.05)
if how == "compute" and comm.rank != who:
    time.sleep(4)
print("done", flush=True)
