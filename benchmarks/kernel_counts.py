"""Kernel launches and saved bytes beside torch.compile and XLA: ``python benchmarks/kernel_counts.py``, see ``--help``.

Each network of ``counted_networks.py`` makes a training step: a forward that is recorded, and a backward from given
gradients of the result to those of all parameters and inputs; and a call without gradients. What is counted:

* hybridc: the launches of the compiled plan, copies included; in brackets without those that pack operands of matmuls,
  which the others' libraries do inside;
* torch.compile: the calls in Inductor's code, of its own functions and of libraries. On a CPU it puts loops that it did
  not fuse one after the other into one function; in brackets are its kernels after fusion, as many as a GPU would run;
* XLA: the instructions of the entry computation, those of a loop's body once, for ``jax.jit`` of a forward with what
  ``jax.vjp`` needs as results, and of the backward. Inputs among them are not passed through.

Saved bytes are of arrays that the forward makes for the backward: neither inputs, parameters nor the result. Each
compiles for one thread, with which Inductor's kernels are fewest. Results and gradients are first compared with
PyTorch's eager ones in float64. ``peers/run.py --setup`` makes the peers' environments; a peer that is not there is
left out.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from typing import IO

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.counted_networks import COUNTED
from benchmarks.peers import environments
from benchmarks.peers.client import Client, PeerError, counts_of
from benchmarks.peers.environments import COLUMNS
from benchmarks.peers.peer import Arrays, Counts, Task

PEERS = {"hybridc": "hybridc", "torch-compile": "torch.compile", "jax": "XLA"}
EXACT, TOLERANCE = "torch-compile", 1e-4  # whose results others are compared with; of the largest magnitude
MORE_BYTES = 1.1  # of the smaller bytes of the peers; hybridc's alignment and scalars are beside the point
PATIENCE = 1200.0  # seconds for one network: XLA compiles 80 unrolled steps for minutes


def listing(name: str) -> None:
    """Print hybridc's launches of a network."""
    from benchmarks import workloads
    from benchmarks.peers.hybridc_counts import counted, explained

    task = Task(
        name, COUNTED[name].arrays(), workloads.EPSILON, workloads.HEADS, workloads.LEARNING_RATE, workloads.MOMENTUM
    )
    counts, graphs = counted(task)
    print(f"{name}, {COUNTED[name].about}: {counts.saved} bytes saved for the backward {counts.note}")
    for line in explained(graphs):
        print(line)


def wrong(found: Arrays, wanted: Arrays) -> str:
    """Which result is too far from the exact one; empty if none is."""
    if found.keys() != wanted.keys():
        return f"results are {', '.join(found)}, expected {', '.join(wanted)}"
    for name, exact in wanted.items():
        if found[name].shape != exact.shape:
            return f"{name} is {found[name].shape}, expected {exact.shape}"
        error = float(np.abs(found[name] - exact).max() / max(np.abs(exact).max(), 1e-30))
        if not error <= TOLERANCE:
            return f"{name} is off by {error:.1e}"
    return ""


class Counting:
    """The running peers."""

    def __init__(self, folder: Path, scratch: Path, log: IO[str], columns: list[str]) -> None:
        self.scratch, self.problems = scratch, list[str]()
        self.clients = {name: Client(COLUMNS[name], folder, scratch, 1, False, log, PATIENCE) for name in columns}

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    def counts(self, network: str) -> dict[str, Counts]:
        """What each peer counts; those that fail or are wrong are left out."""
        found: dict[str, Counts] = {}
        for name, client in self.clients.items():
            try:
                client.started()
                found[name] = counts_of(client, network, COUNTED[network].arrays, self.scratch)
            except PeerError as error:
                self.failed(network, name, str(error))
        exact = found.get(EXACT)
        if exact is None:
            return found
        errors = {name: wrong(counts.outputs, exact.outputs) for name, counts in found.items()}
        for name, error in errors.items():
            if error:
                self.failed(network, name, error)
        return {name: counts for name, counts in found.items() if not errors[name]}

    def failed(self, network: str, name: str, error: str) -> None:
        self.problems.append(f"{network}, {PEERS[name]}: {error}")
        print(self.problems[-1], file=sys.stderr, flush=True)


def marks(found: dict[str, Counts]) -> str:
    """Why hybridc's figures are not the best of the row; empty if they are."""
    ours, torch = found.get("hybridc"), found.get("torch-compile")
    if ours is None:
        return "failed"
    peers = [counts for name, counts in found.items() if name != "hybridc"]
    more: list[str] = []
    if torch is not None and ours.forward + ours.backward > torch.forward + torch.backward:
        unpacked = sum(map(int, ours.otherwise.split("+")))
        more.append("launches" if unpacked > torch.forward + torch.backward else "packing")
    if peers and ours.saved > MORE_BYTES * min(counts.saved for counts in peers):
        more.append("bytes")
    return ", ".join([*more, *([ours.note] if ours.note else [])])


def row(network: str, columns: list[str], found: dict[str, Counts]) -> str:
    """A line of the table."""
    launches, inference, saved = list[str](), list[str](), list[str]()
    for name in columns:
        counts = found.get(name)
        if counts is None:
            cells = ("-", "-", "-")
        else:
            other = f" [{counts.otherwise}]" if counts.otherwise else ""
            cells = f"{counts.forward}+{counts.backward}{other}", str(counts.inference), f"{counts.saved / 1024:.1f}"
        for cells_of, cell in zip((launches, inference, saved), cells, strict=True):
            cells_of.append(cell)
    return "| " + " | ".join([network, COUNTED[network].about, *launches, *inference, *saved, marks(found)]) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description="kernel launches and saved bytes, as a Markdown table")
    parser.add_argument("--only", help=f"networks of {', '.join(COUNTED)}, separated by commas", default="")
    parser.add_argument("--peers", help="columns, separated by commas; hybridc: without peers", default=",".join(PEERS))
    parser.add_argument("--kernels", metavar="NAME", help="print hybridc's launches of a network, and end")
    parser.add_argument("--env", type=Path, help="folder of the environments", default=environments.FOLDER)
    options = parser.parse_args()
    names, peers = options.only.split(",") if options.only else [*COUNTED], options.peers.split(",")
    for given, known in ((names, COUNTED), (peers, PEERS), ([options.kernels or names[0]], COUNTED)):
        unknown = [x for x in given if x not in known]
        if unknown:
            parser.error(f"{unknown[0]!r} is not one of {', '.join(known)}")
    if options.kernels:
        listing(options.kernels)
        return 0
    absent = [p for p in peers if not environments.installed(options.env, COLUMNS[p])]
    if absent:
        print(f"not installed, see peers/run.py --setup: {', '.join(absent)}", file=sys.stderr)
    columns = [p for p in PEERS if p in peers and p not in absent]
    if EXACT not in columns:
        print("without torch, results are not compared", file=sys.stderr)
    titles = [PEERS[name] for name in columns]
    head = ["network", "", *titles, *(f"{t}, inference" for t in titles), *(f"{t}, saved KiB" for t in titles), "more"]
    options.env.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        log = stack.enter_context((options.env / "counts_log.txt").open("w"))
        counting = Counting(options.env, scratch, log, columns)
        stack.callback(counting.close)
        print("| " + " | ".join(head) + " |\n|" + "---|" * len(head), flush=True)
        for name in names:
            print(row(name, columns, counting.counts(name)), flush=True)
    return int(bool(counting.problems))


if __name__ == "__main__":
    raise SystemExit(main())
