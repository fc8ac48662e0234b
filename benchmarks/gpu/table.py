"""What was measured: numbers to compare, and lines of a Markdown table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

COLUMNS = (
    "workload",
    "dtype",
    "hybridc, µs",
    "torch eager, µs",
    "torch.compile, µs",
    "eager ÷ hybridc",
    "compile ÷ hybridc",
    "of the copy",
    "of the product",
    "remark",
)
OURS, EAGER, COMPILED = "hybridc", "torch eager", "torch.compile"


@dataclass(frozen=True)
class Machine:
    """What the GPU can do, measured in the same run: ``copy`` in bytes a second, ``products`` in FLOP/s by dtype."""

    name: str
    copy: float
    products: Mapping[str, float]

    def __str__(self) -> str:
        rates = [f"products {v / 1e12:.0f} TFLOP/s in {dtype}" for dtype, v in self.products.items() if v > 0]
        return ", ".join([f"{self.name}: copies {self.copy / 1e9:.0f} GB/s", *rates])


@dataclass(frozen=True)
class Row:
    """One workload: unavoidable bytes ``moved`` and ``flops`` (0: not its bound), and the seconds of each system.

    ``wrong`` says what is wrong with hybridc's results, if something is.
    """

    name: str
    dtype: str
    moved: float = 0
    flops: float = 0
    seconds: Mapping[str, float] = field(default_factory=lambda: dict[str, float]())
    remarks: Sequence[str] = ()
    wrong: str = ""

    def speedup(self, peer: str) -> float | None:
        """How many times as fast as a peer, if both were measured."""
        if peer not in self.seconds or OURS not in self.seconds:
            return None
        return self.seconds[peer] / self.seconds[OURS]

    def of_copy(self, machine: Machine) -> float | None:
        """The share of the bandwidth of a copy."""
        return _share(self.moved, machine.copy, self.seconds)

    def of_product(self, machine: Machine) -> float | None:
        """The share of the rate of a large product of the same element type."""
        return _share(self.flops, machine.products.get(self.dtype, 0), self.seconds)


def _share(work: float, rate: float, seconds: Mapping[str, float]) -> float | None:
    if not work or not rate or OURS not in seconds:
        return None
    return work / seconds[OURS] / rate


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are there; None of none."""
    logs = [math.log(v) for v in values if v is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def cells(row: Row, machine: Machine) -> list[str]:
    """A row in words; what was not measured is a dash."""
    times = [f"{row.seconds[s] * 1e6:.1f}" if s in row.seconds else "-" for s in (OURS, EAGER, COMPILED)]
    speedups = [_text(row.speedup(peer), "{:.2f}") for peer in (EAGER, COMPILED)]
    shares = [_text(v, "{:.0%}") for v in (row.of_copy(machine), row.of_product(machine))]
    remarks = [*([f"WRONG: {row.wrong}"] if row.wrong else []), *row.remarks]
    remark = "; ".join(remarks).replace("|", "/").replace("\n", " ")
    return [row.name, row.dtype, *times, *speedups, *shares, remark]


def line(texts: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(texts)} |"


def header() -> list[str]:
    """The first two lines."""
    return [line(COLUMNS), "|" + "---|" * len(COLUMNS)]


def means(rows: Sequence[Row]) -> str:
    """What the rows say together."""
    lines: list[str] = []
    for peer in (EAGER, COMPILED):
        measured = [s for s in (row.speedup(peer) for row in rows) if s is not None]
        mean = _text(geometric_mean(measured), "{:.2f}")
        lines.append(f"Geometric mean of the time of {peer} ÷ hybridc's over {len(measured)} workloads: {mean}.")
    return "\n".join(lines)


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)
