"""The sentence encoder of examples/sentences.py beside PyTorch, ONNX Runtime and OpenVINO: ``benchmarks/sentences.py``.

First, with the published weights, the vectors of real sentences: each peer's are compared with float64 NumPy's and with
PyTorch's. Then the time of a call for a text of 16 tokens, one of 128, and 32 texts of up to 32, with random weights,
which ``benchmarks/peers/run.py --only sentences`` measures, too. Peers run in the environments that
``benchmarks/peers/run.py --setup`` makes; the extra ``sentences`` and the weights are those of ``make sentences``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from benchmarks.peers import environments, run
from benchmarks.peers.client import outputs_of
from benchmarks.peers.environments import COLUMNS
from benchmarks.peers.peer import SENTENCES
from benchmarks.sentence_workloads import names, reference
from benchmarks.workloads import Arrays
from examples import sentences as example

PEERS = "hybridc,torch,torch-compile,onnx,openvino"
TOLERANCE = 1e-4  # of vectors of length 1
TEXTS = 32


def real(searcher: example.Searcher) -> Arrays:
    """The example's questions and passages of many lengths, padded together, and the published weights."""
    passages = [*example.passages()]
    texts = [*example.QUESTIONS, *passages[:: len(passages) // TEXTS]][:TEXTS]
    sequences = searcher.tokens(texts)
    tokens, lengths = example.padded(sequences, len(sequences), max(map(len, sequences)))
    weights = {
        short: searcher.weights[example.name_in_file(name)] for short, name in names(example.Size().layers).items()
    }
    return {"x": tokens.astype("int64"), "lengths": lengths.astype("int64"), **weights}


def vectors(measurement: run.Measurement, arrays: Arrays, threads: int) -> dict[str, np.ndarray]:
    """What each peer makes of the texts."""
    found: dict[str, np.ndarray] = {}
    for name in measurement.columns:
        client = measurement.open(name, threads)
        try:
            client.started()
            made = outputs_of(client, next(iter(SENTENCES)), lambda: arrays, measurement.scratch)
            assert made is not None
            (found[name],) = made[1].values()
        finally:
            client.close()
    return found


def equal(found: dict[str, np.ndarray], exact: np.ndarray) -> bool:
    """Print the largest differences of vectors; whether all are small enough."""
    print(f"\n{len(exact)} texts, largest difference of a vector of length 1 from\n")
    print(f"{'':14} {'float64':>8} {'PyTorch':>8}")
    worst = 0.0
    for name, made in found.items():
        errors = [float(abs(made - other).max()) for other in (exact, found["torch"])]
        worst = max(worst, *errors)
        print(f"{COLUMNS[name].title:14} {errors[0]:8.1e} {errors[1]:8.1e}", flush=True)
    return worst <= TOLERANCE


def main(arguments: Sequence[str] | None = None) -> int:
    """Print both; the exit status says whether all vectors are equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--peers", help="columns, separated by commas; torch is among them", default=PEERS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--least", action="store_true", help="the least time of all calls: on a busy machine")
    options = parser.parse_args(arguments)
    columns = {n: c for n, c in COLUMNS.items() if n in options.peers.split(",")}
    absent = [n for n, c in columns.items() if not environments.installed(environments.FOLDER, c)]
    if absent or "torch" not in columns:
        raise SystemExit(f"needed: python benchmarks/peers/run.py --setup --peers {','.join(absent) or 'torch'}")
    print(run.machine(), flush=True)
    arrays = real(example.Searcher())
    wide = {k: v.astype(np.float64) if v.dtype == np.float32 else v for k, v in arrays.items()}
    environments.FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, (environments.FOLDER / "log.txt").open("w") as log:
        scratch, own = Path(folder, "real"), Path(folder, "random")
        for each in (scratch, own):
            each.mkdir()
        compared = run.Measurement(environments.FOLDER, scratch, log, columns, reuse=False, quick=options.quick)
        same = equal(vectors(compared, arrays, options.threads), reference(wide)[0])
        timed = run.Measurement(
            environments.FOLDER, own, log, columns, reuse=False, quick=options.quick, least=options.least
        )
        run.tables(timed, [*SENTENCES], [options.threads], ["steady"])
    return int(not same or bool(timed.problems))


if __name__ == "__main__":
    sys.exit(main())
