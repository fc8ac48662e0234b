"""A forked child runs networks, whatever the other threads of its parent were doing."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
    import faulthandler
    import os
    import threading

    import numpy as np

    import hybridc as mx
    from hybridc import gluon, nd


    class Net(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            return F.tanh(x * 2) + F.exp(x)


    def fresh():
        net = Net()
        net.hybridize()
        return net


    def work():
        while not stop.is_set():
            net = fresh()
            for _ in range(5):
                net(x)
            mx.random.next_key()


    x = nd.array(np.random.default_rng(0).random((512, 512)))
    net = fresh()
    want = net(x).asnumpy()
    stop = threading.Event()
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(12):
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            same = [np.array_equal(n(x).asnumpy(), want) for n in (net, fresh())]
            os._exit(0 if all(same) else 3)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    stop.set()
    for thread in threads:
        thread.join()
    print("children ended with", set(codes))
"""


# Nothing is compiled or imported before: forks fall into imports, into LLVM, and between them.
FIRST = """
    import faulthandler
    import os
    import threading
    import time

    import hybridc as mx
    from hybridc.gluon import nn


    def fresh(width):
        net = nn.Dense(width, activation="relu", in_units=32)
        net.initialize()
        net.hybridize()
        net(mx.nd.ones((3, 32)))


    threading.Thread(target=fresh, args=(64,), daemon=True).start()
    children = []
    for _ in range(3):
        time.sleep(0.05 * len(children))
        pid = os.fork()
        if pid == 0:
            faulthandler.dump_traceback_later(60, exit=True)
            fresh(9)
            import json.tool  # Python's own lock is as it was
            os._exit(0)
        children.append(pid)
    print("children ended with", {os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children}, flush=True)
    fresh(7)
    os._exit(0)
"""


def run(program):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HYBRIDC_NUM_THREADS": "2", "HYBRIDC_VERIFY": "0"}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("program", [PROGRAM, FIRST], ids=["compiling again", "compiling first"])
def test_fork_while_other_threads_compile_and_run(program):
    done = run(program)
    assert done.stdout == "children ended with {0}\n", done.stderr
