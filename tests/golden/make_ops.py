"""Evaluate every case with MXNet 1.9.1 and write `ops.npz`.

Run with MXNet's interpreter (see README.md in this folder for how to make it):

    path/to/mxnet-venv/bin/python tests/golden/make_ops.py

Each case runs in a process of its own, since some corrupt MXNet's memory or kill it.
Prints each case whose outcome is not what it claims: an error where none is expected, or none where one is.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import warnings
from pathlib import Path

os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"  # an error is raised where it happens
os.environ["MXNET_SAFE_ACCUMULATION"] = "0"
warnings.simplefilter("ignore")
here = Path(__file__).resolve().parent
sys.path.insert(0, str(here.parents[1]))

import mxnet as mx  # noqa: E402, TID251
import numpy as np  # noqa: E402

from tests.golden.op_cases import all_cases, outputs_of  # noqa: E402
from tests.golden.store import Reader, Writer  # noqa: E402


def main(only=""):
    writer, odd = Writer(), 0
    for name, case in all_cases().items():
        if only not in name:
            continue
        record = isolated(case, writer)
        record["inputs"] = {key: writer.put(value) for key, value in case.inputs.items()}
        writer.index[name] = record
        complaint = unexpected(case, record)
        if complaint:
            odd += 1
            print(f"{name}\n    {complaint}")
    if not only:
        writer.save(here / "ops.npz")
    print(f"{len(writer.index)} cases, {odd} not as they claim, {(here / 'ops.npz').stat().st_size // 1024} KiB")


def unexpected(case, record):
    """What the record says that the case does not."""
    error = record.get("error") or record.get("grad_error")
    if error and not case.raises and not case.compat:
        return json.dumps(error)
    if case.raises and not error and not case.compat:
        return "raises nothing"
    return ""


def isolated(case, writer):
    """The record of one case; `crash` where the process dies, or hangs thrice (a forked MXNet may)."""
    for _ in range(3):
        record = in_child(case, writer)
        if record.get("error") != ["crash", f"signal {signal.SIGALRM.value}"]:
            break
    return record


def in_child(case, writer):
    """The record of one case, evaluated in a child process."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(10)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        own, sent = Writer(), io.BytesIO()
        own.index["record"] = evaluate(case, own)
        own.save(sent)
        with os.fdopen(write, "wb") as pipe:
            pipe.write(sent.getvalue())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    if status or not sent:
        return {"error": ["crash", f"signal {os.WTERMSIG(status)}"]}
    found = Reader(io.BytesIO(sent))
    record = found.index["record"]
    if "outs" in record:
        record["outs"] = [writer.put(found.get(out)) for out in record["outs"]]
    if "grads" in record:
        record["grads"] = {key: writer.put(found.get(grad)) for key, grad in record["grads"].items()}
    return record


def evaluate(case, writer):
    """The record of one case: results and gradients, or the error."""
    arrays = {key: mx.nd.array(value, dtype=value.dtype) for key, value in case.inputs.items()}
    try:
        outs = outputs_of(case.fn(mx, *arrays.values()))
    except Exception as error:
        return {"error": [type(error).__name__, last_line(error)]}
    record = {"outs": [writer.put(out) for out in outs]}
    if case.no_grad or not case.differentiated():
        return record
    try:
        record["grads"] = {key: writer.put(grad) for key, grad in gradients(case).items()}
    except Exception as error:
        record["grad_error"] = [type(error).__name__, last_line(error)]
    return record


def gradients(case):
    """Gradient of sum(result * fixed weights) for each differentiated input."""
    arrays = {key: mx.nd.array(value, dtype=value.dtype) for key, value in case.inputs.items()}
    wanted = case.differentiated()
    for key in wanted:
        arrays[key].attach_grad()
    with mx.autograd.record(train_mode=False):
        outs = case.fn(mx, *arrays.values())
    outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
    heads = [mx.nd.array(case.weights(k, out.shape, out.dtype), dtype=out.dtype) for k, out in enumerate(outs)]
    mx.autograd.backward(outs, heads, train_mode=False)
    return {key: arrays[key].grad.asnumpy() for key in wanted}


def last_line(error):
    """The part of MXNet's message that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("MXNetError", "Error in operator"))]
    return (named or lines or [""])[-1][:160]


if __name__ == "__main__":
    np.seterr(all="ignore")
    main(*sys.argv[1:])
