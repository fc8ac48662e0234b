"""The command that prints predicted steps for numbers of ranks, bandwidths, and ways to update; and the formulas."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from hybridc.communication.gradient_buckets import BYTES, FIRST_BYTES
from hybridc.errors import AttributeValueError
from hybridc.ground.records import dataclass
from hybridc.tools.scaling.cluster import ALGORITHMS, Cluster, Network
from hybridc.tools.scaling.model_layers import NETWORKS, LayerSize, layers_of
from hybridc.tools.scaling.predicted_step import BACKWARD, Prediction, RankWork, largest, predict

# Payload in an Ethernet frame with TCP, of the bytes that the frame takes on the wire.
PAYLOAD = 1448 / 1538
_GBIT = 1e9 / 8  # bytes per second
_MIB = 1 << 20
# Bytes of memory read and written to update an element by Adam: weight, gradient and two moments in, three of them out.
_UPDATE = 28

_DESCRIPTION = """Predict the time of a training step on many ranks, data parallel, by a model: --explain prints it.
Defaults are a server's CPU and its Ethernet; give your own figures, measured on one rank and on two."""

_FORMULAS = """
n bytes, p ranks, a message of n bytes takes a + n / B, adding n bytes takes n / S; k = floor(log2 p), q = 2^k

all-reduce      ring      2 (p-1) a + 2 (p-1)/p n/B + (p-1)/p n/S
                halving   2 k a     + 2 (q-1)/q n/B + (q-1)/q n/S         recursive halving and doubling
                doubling  k (a + n/B + n/S)
                halving and doubling take 2 (a + n/B) + n/S longer if p > q
                of more than 4 MiB max(1, log2(p) / 2), equal pieces one after the other
reduce-scatter  ring      (p-1) a + (p-1)/p n/B + (p-1)/p n/S
                halving   k a     + (q-1)/q n/B + (q-1)/q n/S             a + n/B + n/S + a + n/(p B) more if p > q
all-gather      ring      (p-1) a + (p-1)/p n/B
                halving   k a     + (q-1)/q n/B                           a + n/(p B) + a + n/B more if p > q
m ranks per machine: reduce-scatter of n in the machine, the collective of n/m on p/m machines with B/m each, and
all-gather of n in the machine. Of the algorithms the cheapest is taken.

compute         T (1 + spread E_p), E_p the expected largest of p standard normal numbers
forward         1 / (1 + {backward:g}) of it; the backward of a layer takes {backward:g} times its forward
bucket          filled from the last layer to the first, ready when the backward of its last member is done
collectives     start_i = max(ready_i, end_(i-1)), end_i = start_i + cost_i
step            max(compute, end of the last) + update
step, sharded   all reduce-scatters as above; then for each bucket update / p, and its all-gather beside the next update
exposed         step - compute - update (or update / p)
hidden          1 - exposed / sum of the collectives' costs
efficiency      (T + update) / step
""".strip()


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    network: str
    gigabits: float
    sharded: bool
    prediction: Prediction


_TITLES = ("ranks", "step ms", "compute", "collectives", "exposed", "hidden", "efficiency", "largest bucket by")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables that are asked for."""
    parser = _parser()
    asked = parser.parse_args(arguments)
    try:
        names: list[str] = asked.network or [*NETWORKS]
        networks = {name: layers_of(name) for name in names}
        rows = [row for name, layers in networks.items() for row in _rows(name, layers, asked)]
    except (AttributeValueError, OSError) as error:
        parser.error(str(error))
    if asked.json:
        print(json.dumps([_as_json(row) for row in rows], indent=2))
        return
    if asked.explain:
        print(_FORMULAS.format(backward=BACKWARD))
    for name, layers in networks.items():
        print("\n" + _heading(name, layers, asked))
        if asked.explain:
            print(_explained(layers, asked))
        _print([row for row in rows if row.network == name])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("hybridc.tools.scaling", description=_DESCRIPTION)
    add = parser.add_argument
    add(
        "--network",
        action="append",
        help=f"{', '.join(NETWORKS)}, a name of the model zoo, or a file with a line parameters,operations per example "
        "for each layer in the order of the forward; several if given several times",
    )
    add("--ranks", type=_counts, default=_counts("8,16,32,64,128,256,512,1024"), metavar="N,N,...")
    add("--per-machine", type=_count, default=1, help="ranks of a machine, which share its link (1)")
    add("--gigabits", type=_floats, default=[10.0, 100.0], metavar="G,G,...", help="of a machine's link per second")
    add("--latency", type=_positive, default=20.0, help="microseconds of an empty message between machines (20)")
    add("--payload", type=_positive, default=PAYLOAD, help=f"share of the link's bits that is payload ({PAYLOAD:.2f})")
    add("--local-gigabytes", type=_positive, default=10.0, help="per second between ranks of a machine (10)")
    add("--local-latency", type=_positive, default=1.0, help="microseconds of a message inside a machine (1)")
    add("--summing", type=_positive, default=10.0, help="gigabytes that a rank adds to others per second (10)")
    add("--algorithm", action="append", choices=ALGORITHMS, help="of collectives; by default the cheapest of all")
    add("--batch", type=_positive, default=32.0, help="examples of a rank in a step (32)")
    add("--teraflops", type=_positive, default=2.0, help="operations of a rank per second, in training (2)")
    add("--compute", type=_positive, help="milliseconds of forward and backward, instead of --batch and --teraflops")
    add("--update", type=_positive, help="milliseconds of updating all parameters; by default by --memory")
    add("--memory", type=_positive, default=100.0, help="gigabytes of memory per second, for Adam's update (100)")
    add("--spread", type=float, default=0.02, help="standard deviation of compute times by their mean (0.02)")
    add("--first-bucket", type=_positive, default=FIRST_BYTES / _MIB, help="MiB of the first bucket (1)")
    add("--bucket", type=_positive, default=BYTES / _MIB, help="MiB of the other buckets (25)")
    add("--bytes", type=_count, default=4, help="of an element of a gradient (4)")
    add("--explain", action="store_true", help="print the formulas, and the buckets")
    add("--json", action="store_true", help="print the rows as JSON, times in seconds")
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be positive, got {text}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return value


def _counts(text: str) -> list[int]:
    return [_count(each) for each in text.split(",")]


def _floats(text: str) -> list[float]:
    return [_positive(each) for each in text.split(",")]


def work_of(layers: Sequence[LayerSize], asked: argparse.Namespace, sharded: bool = False) -> RankWork:
    """What a rank does, by the options."""
    flops = asked.batch * (1 + BACKWARD) * sum(layer.flops for layer in layers)
    parameters = sum(sum(layer.parameters) for layer in layers)
    compute = asked.compute / 1e3 if asked.compute else flops / (asked.teraflops * 1e12)
    update = asked.update / 1e3 if asked.update else parameters * _UPDATE / (asked.memory * 1e9)
    first, other = round(asked.first_bucket * _MIB), round(asked.bucket * _MIB)
    return RankWork(layers, compute, update, asked.spread, sharded, first, other, asked.bytes)


def cluster_of(asked: argparse.Namespace, gigabits: float, ranks: int = 1) -> Cluster:
    """The cluster, by the options."""
    network = Network(gigabits * _GBIT * asked.payload, asked.latency * 1e-6)
    local = Network(asked.local_gigabytes * 1e9, asked.local_latency * 1e-6)
    algorithms = tuple(asked.algorithm or ALGORITHMS)
    return Cluster(ranks, network, local, asked.summing * 1e9, asked.per_machine, algorithms)


def _rows(name: str, layers: Sequence[LayerSize], asked: argparse.Namespace) -> Iterator[Row]:
    for gigabits in asked.gigabits:
        for sharded in (False, True):
            work = work_of(layers, asked, sharded)
            for ranks in asked.ranks:
                yield Row(name, gigabits, sharded, predict(work, cluster_of(asked, gigabits, ranks)))


def _as_json(row: Row) -> dict[str, object]:
    found = row.prediction
    head = {"network": row.network, "gigabits": row.gigabits, "sharded": row.sharded}
    return {**head, **asdict(found), "hidden": found.hidden, "efficiency": found.efficiency}


def _heading(name: str, layers: Sequence[LayerSize], asked: argparse.Namespace) -> str:
    work = work_of(layers, asked)
    parameters = sum(sum(layer.parameters) for layer in layers)
    flops = sum(layer.flops for layer in layers)
    return (
        f"{name}: {parameters:,} parameters, {flops / 1e9:.2f} GFLOP forward per example; one rank computes for "
        f"{work.compute * 1e3:.1f} ms and updates for {work.update * 1e3:.1f} ms"
    )


def _explained(layers: Sequence[LayerSize], asked: argparse.Namespace) -> str:
    """The buckets, and what they cost on the first of the numbers of ranks and bandwidths."""
    work, ranks = work_of(layers, asked), asked.ranks[0]
    cluster = cluster_of(asked, asked.gigabits[0], ranks)
    compute = work.compute * (1 + work.spread * largest(ranks))
    lines = [
        f"buckets on {ranks} ranks, {asked.gigabits[0]:g} Gbit/s; E_{ranks} = {largest(ranks):.3f}",
        f"{'MiB':>9} {'ready ms':>9} {'cost ms':>9} {'start ms':>9} {'end ms':>9}",
    ]
    end = 0.0
    for share, size in work.ready:
        cost, name = cluster.all_reduce(size)
        start = max(end, share * compute)
        end = start + cost
        figures = (size / _MIB, share * compute * 1e3, cost * 1e3, start * 1e3, end * 1e3)
        lines.append(" ".join(f"{each:9.2f}" for each in figures) + f"  {name}")
    return "\n".join(lines)


def _print(rows: Sequence[Row]) -> None:
    for number, row in enumerate(rows):
        before = rows[number - 1] if number else None
        if before is None or (before.gigabits, before.sharded) != (row.gigabits, row.sharded):
            print(f"\n{row.gigabits:g} Gbit/s, {'sharded optimizer' if row.sharded else 'all-reduce'}")
            print(f"{_TITLES[0]:>6} " + " ".join(f"{title:>11}" for title in _TITLES[1:-1]) + f"  {_TITLES[-1]}")
        found = row.prediction
        times = [found.step, found.compute, found.communication, found.exposed]
        cells = [*(f"{each * 1e3:11.1f}" for each in times), f"{found.hidden:11.0%}", f"{found.efficiency:11.0%}"]
        print(f"{found.ranks:6} {' '.join(cells)}  {found.algorithm}")
