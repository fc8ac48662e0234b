"""Unrolled networks: CPU seconds of first calls, and milliseconds of later ones: ``python benchmarks/unrolled.py``.

    python benchmarks/unrolled.py [--only module,buckets] [--warm]

Two LSTM layers that ``mx.rnn`` unrolls to 5, 20 and 60 steps, each a Module with forward, backward and update; the same
as the buckets of a BucketingModule; a gluon cell of 20 steps, predicted and recorded; and 900 ``tanh`` in a chain. Each
row is a process of its own with an empty cache folder (``--warm``: with a full one). The CPU time is that of the whole
process, threads of the compiler too. Bounds on an otherwise idle machine: all Modules together 1.2 s, a further bucket
0.1 s, an operator of the chain 1 ms. ``HYBRIDC_ROLL=0`` shows the same without loops of equal steps.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __package__ is None:
    sys.path[0] = str(ROOT)

BATCH, WORDS, EMBEDDED, HIDDEN = 16, 200, 32, 64
LENGTHS = (5, 20, 60)
BUCKETS = (10, 20, 30, 40, 60)
STEPS, CHAIN = 20, 900
LATER = 30  # calls, of which the fastest counts

Call = Callable[[], Any]


def language_model(steps: int) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """MXNet's example of buckets: words, two LSTM layers, and the next word at each step."""
    import hybridc as mx

    stack = mx.rnn.SequentialRNNCell()
    for layer in range(2):
        stack.add(mx.rnn.LSTMCell(num_hidden=HIDDEN, prefix=f"lstm_l{layer}_"))
    data, label = mx.sym.var("data"), mx.sym.var("softmax_label")
    words = mx.sym.Embedding(data=data, input_dim=WORDS, output_dim=EMBEDDED, name="embed")
    rows, _ = stack.unroll(steps, inputs=words, merge_outputs=True)
    found = mx.sym.FullyConnected(data=mx.sym.reshape(rows, shape=(-1, HIDDEN)), num_hidden=WORDS, name="pred")
    loss = mx.sym.SoftmaxOutput(data=found, label=mx.sym.reshape(label, shape=(-1,)), name="softmax")
    return loss, ("data",), ("softmax_label",)


def batch(steps: int) -> Any:
    """A batch of words and the next words."""
    import numpy as np

    import hybridc as mx

    words = mx.nd.array(np.random.default_rng(steps).integers(0, WORDS, (BATCH, steps)))
    described = [mx.io.DataDesc(name, (BATCH, steps)) for name in ("data", "softmax_label")]
    return mx.io.DataBatch([words], [words], 0, bucket_key=steps, provide_data=described[:1],
                           provide_label=described[1:])  # fmt: skip


def trained(module: Any, given: Any) -> Call:
    """A step of training on a batch."""

    def step() -> None:
        module.forward(given, is_train=True)
        module.backward()
        module.update()
        module.get_outputs()[0].asnumpy()

    return step


def modules() -> list[tuple[str, Call]]:
    """A Module for each length."""
    import hybridc as mx

    calls: list[tuple[str, Call]] = []
    for steps in LENGTHS:
        given = batch(steps)
        module = mx.mod.Module(*language_model(steps))
        bound(module, given)
        calls.append((f"Module, {steps} steps", trained(module, given)))
    return calls


def buckets() -> list[tuple[str, Call]]:
    """One BucketingModule, and a batch for each bucket."""
    import hybridc as mx

    module = mx.mod.BucketingModule(language_model, default_bucket_key=max(BUCKETS))
    bound(module, batch(max(BUCKETS)))
    return [(f"bucket, {steps} steps", trained(module, batch(steps))) for steps in reversed(BUCKETS)]


def bound(module: Any, given: Any) -> None:
    """Bind a module to the shapes of a batch, with parameters and an optimizer."""
    import hybridc as mx

    module.bind(data_shapes=given.provide_data, label_shapes=given.provide_label)
    module.init_params(mx.init.Uniform(0.1))
    module.init_optimizer(optimizer="sgd", optimizer_params={"learning_rate": 0.01})


def cells() -> list[tuple[str, Call]]:
    """A cell that a forward unrolls."""
    import hybridc as mx

    class Net(mx.gluon.HybridBlock):
        """A cell that is unrolled."""

        def __init__(self) -> None:
            super().__init__()
            self.cell = mx.gluon.rnn.LSTMCell(HIDDEN, input_size=EMBEDDED)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            return self.cell.unroll(STEPS, x, layout="NTC", merge_outputs=True)[0]

    net = Net()
    net.initialize()
    net.hybridize()
    x = mx.nd.ones((BATCH, STEPS, EMBEDDED))

    def recorded() -> None:
        with mx.autograd.record():
            y = net(x)
        y.backward()
        mx.nd.waitall()

    return [("cell, predicted", lambda: net(x).asnumpy()), ("cell, recorded", recorded)]


def chain() -> list[tuple[str, Call]]:
    """Many operators, one after the other."""
    import hybridc as mx

    y = mx.sym.var("x")
    for _ in range(CHAIN):
        y = mx.sym.tanh(y)
    executor = y.simple_bind(mx.cpu(), x=(4, 8))

    def both() -> None:
        executor.forward(is_train=True)
        executor.backward(mx.nd.ones((4, 8)))
        executor.grad_arrays[0].asnumpy()

    predicted: Call = lambda: executor.forward()[0].asnumpy()  # noqa: E731
    return [(f"{CHAIN} tanh, predicted", predicted), (f"{CHAIN} tanh, with gradients", both)]


ROWS: dict[str, Callable[[], list[tuple[str, Call]]]] = {
    "module": modules, "buckets": buckets, "cell": cells, "chain": chain,
}  # fmt: skip


def measured(name: str) -> list[tuple[str, float, float]]:
    """In this process, for each call: its name, CPU seconds of the first, milliseconds of the fastest later one."""
    import hybridc as mx

    once = mx.sym.var("x") + 1  # imports, and the first graph of the process
    once.simple_bind(mx.cpu(), x=(2, 2)).forward()[0].asnumpy()
    begin = time.process_time()
    calls = ROWS[name]()
    firsts: list[float] = []
    for _, call in calls:
        call()
        firsts.append(time.process_time() - begin)
        begin = time.process_time()
    return [(title, first, fastest(call)) for first, (title, call) in zip(firsts, calls, strict=True)]


def fastest(call: Call) -> float:
    """Milliseconds of the fastest of several calls."""
    times: list[float] = []
    for _ in range(LATER):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1000 * min(times)


def in_process(name: str, folder: str) -> list[tuple[str, float, float]]:
    """The same in a process of its own."""
    environment = {**os.environ, "HYBRIDC_CACHE_DIR": folder, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, __file__, "--one", name], check=True, stdout=subprocess.PIPE, text=True, env=environment
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(ROWS))
    parser.add_argument("--warm", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one)))
        return
    print("| what | first call, CPU s | a later one, ms |\n|---|---|---|")
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            if options.warm:
                in_process(name, folder)
            for title, first, later in in_process(name, folder):
                print(f"| {title} | {first:.3f} | {later:.3f} |", flush=True)


if __name__ == "__main__":
    main()
