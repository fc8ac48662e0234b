"""The description of the machine that programs are compiled for: ``python -m hybridc.tools.machine [--json]``.

Prints what is known of the computer, what its operations cost and how each cost was got, the thresholds that follow,
and the GPUs: the nominal one that code is made for, and those that are there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hybridc.ground.machine import GPU, NOMINAL, SQUARE, Gpu, Machine, figures, machine
from hybridc.ir import costs
from hybridc.lower.llvm.codegen import processor
from hybridc.runtime.devices.nvidia.driver import READ, Driver, NoDriver, driver


def thresholds(computer: Machine) -> dict[str, int]:
    """The sizes from which the cost model decides otherwise: by measured costs, then by nominal ones."""
    cost = computer.costs
    return {
        "elements of float32 that threads share, one operation each": _from(computer, cost.operation + 4 * cost.byte),
        "elements of float32 that threads share, one function each": _from(computer, cost.function + 4 * cost.byte),
        "flops of a matmul that threads share": _from(computer, cost.flop),
        "bytes of a copy that threads share": _from(computer, 2 * cost.byte),
        "elements of a piece, one function each": math.ceil(computer.grain / (cost.function + 4 * cost.byte)),
        "nanoseconds from which Python's lock is released": math.ceil(computer.released),
        "operations computed twice instead of kept (nominal)": costs.RECOMPUTED,
        "operations that a backward computes instead of the forward's being kept (nominal)": costs.REMATERIALIZED,
        "elements along both axes of a tile that crosses memory (nominal)": SQUARE,
        "elements that are walked as one tile (nominal)": costs.ONE_TILE,
        "elements that are computed again inside their reader (nominal)": costs.SMALL,
        "bytes of partial results, or between contractions of one kernel (nominal)": costs.OF_CORE,
        "bytes between rows that conflict in the first cache (nominal)": costs.SAME_SET,
    }


def _from(computer: Machine, each: float) -> int:
    """Number of elements whose computation takes as long as sharing work among threads does."""
    return math.ceil(computer.shared / each)


def description() -> dict[str, Any]:
    """All of it, as JSON has it."""
    computer = machine()
    return {
        "machine": {name: value for name, value in asdict(computer).items() if name != "costs"},
        "level": processor.name(),
        "vector_bits": processor.vector_bits(),
        "costs": {f.name: {k: v for k, v in asdict(f).items() if k != "name"} for f in figures(computer)},
        "thresholds": thresholds(computer),
        "gpu": asdict(GPU),
        "gpus": [asdict(gpu) for gpu in gpus()],
    }


def gpus() -> list[Gpu]:
    """The GPUs of this computer, by what their driver says."""
    found = driver()
    numbers = () if isinstance(found, NoDriver) else range(found.count())
    return [found.describe(found.pointer("cuDeviceGet", n)) for n in numbers if isinstance(found, Driver)]


def text() -> str:
    """All of it, for people."""
    computer = machine()
    lines = [
        f"{computer.processor} ({processor.name()}), {computer.threads} threads, {processor.vector_bits()}-bit vectors",
        f"caches, read: {_caches(computer)}",
        f"caches, nominal, by which all is decided that may change a digit: {_caches(NOMINAL)}",
        "",
        "costs in nanoseconds, nominal ones in brackets, and how they were measured",
    ]
    for cost in figures(computer):
        source = f"; {cost.source}" if cost.source else "; nominal"
        lines.append(f"  {cost.name:10} {cost.nanoseconds:9.4g} ({cost.nominal:g})  {cost.meaning}{source}")
    lines += ["", "thresholds", *(f"  {size:9}  {meaning}" for meaning, size in thresholds(computer).items())]
    lines += [
        "",
        "GPU, nominal: what code is made for",
        *(f"  {name:15} {value}" for name, value in asdict(GPU).items()),
    ]
    for gpu in gpus():
        lines += ["", f"GPU, read: {gpu.name}", *(f"  {name:15} {getattr(gpu, name)}" for name in READ)]
    return "\n".join(lines)


def _caches(computer: Machine) -> str:
    sizes = ", ".join(f"{size >> 10} KiB" for size in (computer.first, computer.second, computer.third))
    return f"{sizes}; lines of {computer.line} bytes"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print it."""
    parser = argparse.ArgumentParser("hybridc.tools.machine", description="Print what decisions know of this machine.")
    parser.add_argument("--json", action="store_true", help="as JSON")
    asked = parser.parse_args(arguments)
    try:
        print(json.dumps(description(), indent=2) if asked.json else text(), flush=True)
    except BrokenPipeError:  # the reader, as head, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
