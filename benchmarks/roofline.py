"""How near each kernel of the native target comes to what the machine can do: ``python benchmarks/roofline.py``.

A workload is run once, and every native program that it calls is taken apart: each launch becomes a program of its own.
Then the launches run in their order, again and again, so that each finds its data where it would in the network; the
preparation of weights, which is not part of a call, ran once before. From
the median time of a launch the time of a program without steps is taken off.

A launch must read its arguments and write its results once, and do its multiply-adds. The limit is the longer of two
times: for the bytes, at the speed of a copy that moves as many bytes here (a small one stays in the caches); for the
multiply-adds, at the speed of those in registers, which no program with loads reaches. Both are measured in the same
run, with as many threads (``HYBRIDC_NUM_THREADS``). ``exp`` and its like are free in it, which they are not. *Sizes*
are those of the result and of the axes that the multiply-adds sum over.

``--layers`` is another table: each convolution of ResNet-18, alone with its normalization and activation. Its time is
that of the launches with multiply-adds, transforms of data and results included; its share of the measured peak is that
of direct multiplication in this time (effective: by Winograd's algorithm it may be above 100 %).
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import json
import math
import os
import statistics
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ["HYBRIDC_TARGET"] = "llvm"  # read when hybridc is imported

import numpy as np
from xdsl.dialects.builtin import ModuleOp

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks import limits
from benchmarks.image_networks import RESNET18_CONVOLUTIONS, Conv
from benchmarks.images import EVERY, GROUPS
from hybridc.compile import warm_start
from hybridc.compile.targets import LLVM, TARGETS, Planning
from hybridc.ir.kernels.kernel import Kernel, KernelOp
from hybridc.ir.kernels.kernel_module import kernel_functions
from hybridc.ir.planned import Host, NativePlan, NativeRegion, PlainArray, Position, Program
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.lower.llvm.native_target import print_program
from hybridc.options import OPTIONS
from hybridc.runtime.native.native_program import NativeProgram
from hybridc.runtime.native_executable import NativeExecutable
from hybridc.transforms.code.parallel_regions import move_region
from hybridc.transforms.schedules.schedule_moves import copy_of, schedule_copy

GOOD, SHORT = 0.75, 5e-6  # what is below this part of the limit deserves an explanation, unless it is so short
SECONDS, REPEATS = 1.0, 30  # how long each workload is measured, and how often at least
COLUMNS = ("workload", "kernel", "sizes", "launches", "µs", "MiB", "MFLOP", "GB/s", "GFLOP/s", "of the limit")
LAYER_COLUMNS = ("layer", "image, kernel, channels", "direct MFLOP", "µs", "of the peak", "algorithm", "note")


# --- the machine ----------------------------------------------------------------------------------------------


def times_of(call: Callable[[], Any], repeats: int) -> list[float]:
    """The seconds of some calls, after one more."""
    call()
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def best_time(call: Callable[[], Any], repeats: int) -> float:
    """The seconds of the fastest call: what the machine can do."""
    return min(times_of(call, repeats))


def median_time(call: Callable[[], Any], repeats: int) -> float:
    """The median seconds of a call: what happens."""
    return statistics.median(times_of(call, repeats))


@functools.cache
def copy_speed(size: int, threads: int) -> float:
    """Bytes a second of a copy that reads and writes so many bytes together.

    The fastest of three: one thread of NumPy, several of them, a loop on the threads of the native runtime. What it
    takes to call a copy of nothing is taken off.
    """
    source, target = np.ones(size // 8, np.float32), np.empty(size // 8, np.float32)
    repeats = max(15, min(2000, (1 << 28) // size))

    def copy(part: slice) -> None:
        np.copyto(target[part], source[part])

    length = len(source)
    parts = [slice(length * t // threads, length * (t + 1) // threads) for t in range(threads)]
    alone = best_time(lambda: copy(slice(None)), repeats) - best_time(lambda: copy(slice(0)), repeats)
    with ThreadPoolExecutor(threads) as pool:
        together = best_time(lambda: list(pool.map(copy, parts)), repeats)
    native = best_time(native_copy(source, target, threads), repeats)
    return size / max(min(alone, together, native), 1e-9)


def native_copy(source: np.ndarray, target: np.ndarray, threads: int) -> Callable[[], Any]:
    """A loop that copies, as a native program."""
    region = move_region(schedule_copy(copy_of(source.dtype, source.shape, (1,)), None), (0, 1), print_program)
    (code,) = codegen.load_functions([region.function])
    numbers = struct.pack(f"<{len(region.numbers)}q", *region.numbers)
    step = NativeRegion(code, (Position(1), Position(2)), numbers, region.extent, region.grain)
    array = PlainArray(source.shape, source.dtype)
    native = NativeProgram(NativePlan([array], [array], [step], threads=threads))
    workspace, into = native.workspace(), (target,)
    return lambda: native.entry(workspace, into, source)


@functools.cache
def multiply_adds() -> float:
    """Floating-point operations a second of multiply-adds in registers."""
    return limits.multiply_adds(OPTIONS.num_threads)


# --- what is run ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cost:
    """What a launch cannot avoid: bytes, and the operations of its contractions, whose sizes are told."""

    bytes: int = 0
    flops: int = 0
    sizes: str = ""

    def limit(self) -> float:
        """Seconds that this takes at best."""
        if not self.bytes:
            return 0.0
        size = max(1 << 12, 1 << (self.bytes - 1).bit_length())
        return max(self.bytes / copy_speed(size, OPTIONS.num_threads), self.flops / multiply_adds())


def cost_of(kernel: Kernel) -> Cost:
    """What a launch of a kernel costs."""
    contractions = [op for op in kernel.ops if op.kind == "contraction"]
    sizes = [f"{shown(op, op.axes)} of {shown(op, op.reduced)}" for op in contractions]
    return Cost(kernel.bytes, sum(op.flops for op in contractions), ", ".join(sizes))


def shown(op: KernelOp, axes: Iterable[int]) -> str:
    """The sizes of some axes of a linalg op, without those of 1."""
    return "x".join(str(op.extents[a]) for a in axes if op.extents[a] > 1) or "1"


@dataclass
class Call:
    """A native program with the arrays that it was called with."""

    program: NativeSource
    native: NativeProgram
    arrays: Sequence[Any]

    def launches(self) -> list[tuple[str, list[NativeRegion | Host]]]:
        """The steps after the preparation by launch, in order, each with the kernel's name."""
        count = {n: self.program.launches.count(n) for n in set(self.program.launches)}
        found: list[tuple[str, list[NativeRegion | Host]]] = []
        at = 0
        for name, group in itertools.groupby(self.plan.steps, key=lambda step: step.name):
            steps = list(group)
            total = sum(step.name == name for step in self.plan.steps)
            each = total // count.get(name, total)  # a kernel may have several regions
            for i in range(0, len(steps), each):
                if at + i >= self.native.plan.preparation:
                    found.append((name, steps[i : i + each]))
            at += len(steps)
        return found

    def entry(self, steps: Sequence[NativeRegion | Host]) -> Callable[[], Any]:
        """A program of these steps only, on the same memory; the results go where they always go."""
        run = NativeProgram(dataclasses.replace(self.plan, steps=steps, work=0.0)).entry
        workspace, into, arrays = self.workspace, self._results, self._plain()
        return lambda: run(workspace, into, *arrays)

    @functools.cached_property
    def plan(self) -> NativePlan:
        """The plan with what is prepared in the arena."""
        return self.native.plan.unprepared()

    @functools.cached_property
    def workspace(self) -> Any:
        """The memory after a call of all steps."""
        whole = NativeProgram(self.plan)
        workspace = whole.workspace()
        whole.entry(workspace, self._results, *self._plain())
        return workspace

    @functools.cached_property
    def _results(self) -> tuple[Any, ...]:
        return tuple([np.zeros(a.shape, a.dtype) for a in self.native.plan.results])

    def _plain(self) -> list[Any]:
        given = self.arrays[1:] if self.program.takes_into else self.arrays
        return [_conform(x, a) for x, a in zip(given, self.native.plan.inputs, strict=True)]


def _conform(x: Any, wanted: PlainArray) -> Any:
    return np.require(x, wanted.dtype, ["C", "A", "W"])


@dataclass
class Recorder(LLVM):
    """The native target, which remembers kernels, what they cost, and what programs are called with."""

    analysed: dict[int, dict[str, Kernel]] = field(default_factory=dict[int, dict[str, Kernel]])
    costs: dict[int, dict[str, Cost]] = field(default_factory=dict[int, dict[str, Cost]])
    calls: list[Call] = field(default_factory=list[Call])
    programs: list[NativeSource] = field(default_factory=list[NativeSource])  # keeps the keys of costs unique

    def plan(self, ahead: bool = False) -> Planning:
        planning = super().plan(ahead)
        return Planning(planning.passes, lambda module, name: self._noted(module, planning.emit(module, name)))

    def _noted(self, module: ModuleOp, program: Program) -> NativeSource:
        assert isinstance(program, NativeSource)
        self.programs.append(program)
        known = {n: f.kernel for n, f in kernel_functions(module).items()}
        self.analysed[id(program)] = known
        self.costs[id(program)] = {n: cost_of(k) for n, k in known.items()}
        return program

    def load(self, program: Any, context: Any) -> NativeExecutable:
        made = NativeExecutable(program)
        ran = made.run

        def run(workspace: Any, *arrays: Any) -> Any:
            self.calls.append(Call(program, made.native, arrays))
            return ran(workspace, *arrays)

        made.run = run
        return made

    def cost(self, program: NativeSource, kernel: str) -> Cost:
        """What a launch of a kernel costs; nothing is known of the host."""
        return self.costs[id(program)].get(kernel, Cost())


def measured(calls: Sequence[Call]) -> list[tuple[Call, str, float]]:
    """Seconds of each launch, in order: the median of runs through all of them."""
    units = [(call, name, call.entry(steps)) for call in calls for name, steps in call.launches()]
    empty = {id(call): median_time(call.entry([]), 1000) for call in calls}
    times: list[list[float]] = [[] for _ in units]
    clock, end = time.perf_counter, time.perf_counter() + SECONDS
    while clock() < end or len(times[0]) < REPEATS:
        for (_, _, run), found in zip(units, times, strict=True):
            start = clock()
            run()
            found.append(clock() - start)
    medians = [statistics.median(found) for found in times]
    return [(c, n, max(t - empty[id(c)], 1e-9)) for (c, n, _), t in zip(units, medians, strict=True)]


# --- the table ------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """All launches of a kernel in one step of a workload."""

    workload: str
    kernel: str
    sizes: str
    launches: int = 0
    seconds: float = 0.0
    bytes: int = 0
    flops: int = 0
    limit: float = 0.0

    def add(self, seconds: float, cost: Cost) -> None:
        """One more launch."""
        self.launches += 1
        self.seconds += seconds
        self.bytes += cost.bytes
        self.flops += cost.flops
        self.limit += cost.limit()

    @property
    def share(self) -> float | None:
        """The limit over the time; None where no limit is known."""
        return self.limit / self.seconds if self.limit else None

    def __str__(self) -> str:
        numbers = (self.seconds * 1e6, self.bytes / (1 << 20), self.flops / 1e6)
        rates = (self.bytes / self.seconds / 1e9, self.flops / self.seconds / 1e9)
        shown = [f"{x:.3g}" if x else "-" for x in (*numbers, *rates)]
        share = "-" if self.share is None else f"{self.share:.0%}"
        return "| " + " | ".join([self.workload, self.kernel, self.sizes, str(self.launches), *shown, share]) + " |"


def recorded(workload: str) -> tuple[Recorder, list[Call], Callable[[], Any]]:
    """The target that compiled a workload, the calls of native programs in one step, and that step."""
    recorder = Recorder()
    TARGETS["llvm"] = recorder
    warm_start._enabled = lambda *_: False  # a plan that another process left on the disk is not lowered here
    program = EVERY[workload].build(hybridized=True)
    result = program.call()  # later calls may enter native code without passing by the recorder
    calls = list(recorder.calls)
    EVERY[workload].error(program.fetch(result))
    if not calls:
        raise RuntimeError(f"{workload} calls no native program")
    return recorder, calls, program.call


def rows_of(workload: str) -> list[Row]:
    """The rows of a workload; the last is the whole step, whose limit is the workload's own."""
    recorder, calls, step = recorded(workload)
    whole = median_time(step, REPEATS)
    rows: dict[tuple[int, str], Row] = {}
    for call, kernel, seconds in measured(calls):
        title = kernel if len(calls) == 1 else f"{call.program.name}: {kernel}"
        cost = recorder.cost(call.program, kernel)
        rows.setdefault((id(call), kernel), Row(workload, title, cost.sizes)).add(seconds, cost)
    return [*rows.values(), _whole(workload, rows.values(), whole)]


def _whole(workload: str, rows: Any, seconds: float) -> Row:
    known = EVERY[workload]
    cost = Cost(int(known.moved), int(known.flops) if any(r.flops for r in rows) else 0)
    launches = sum(r.launches for r in rows)
    return Row(workload, "**a whole call**", "", launches, seconds, cost.bytes, cost.flops, cost.limit())


# --- the layers of ResNet-18 ----------------------------------------------------------------------------------


@dataclass
class LayerRow:
    """A convolution: the time of its launches beside that of direct multiplication at the peak."""

    layer: str
    shape: str
    flops: int
    seconds: float
    share: float
    algorithm: str
    note: str

    def __str__(self) -> str:
        numbers = f"{self.flops / 1e6:.0f}", f"{self.seconds * 1e6:.0f}", f"{self.share:.0%}"
        return "| " + " | ".join([self.layer, self.shape, *numbers, self.algorithm, self.note]) + " |"


def layer_row(workload: str) -> LayerRow:
    """The row of a layer."""
    conv, size = RESNET18_CONVOLUTIONS[workload]
    recorder, calls, _ = recorded(workload)
    (program,) = {id(call.program): call.program for call in calls}.values()
    known = recorder.analysed[id(program)]
    seconds, ops, costs = 0.0, list[KernelOp](), list[Cost]()
    for call, kernel, each in measured(calls):
        cost = recorder.cost(call.program, kernel)
        if cost.flops:
            seconds += each
            costs.append(cost)
            ops += [op for op in known[kernel].ops if op.kind == "contraction"]
    flops, (out, _) = int(EVERY[workload].flops), conv.sizes((size, size))
    share = flops / seconds / multiply_adds()
    tile = _tile(conv, ops)
    algorithm = f"Winograd F({tile}, 3)" if tile else "pointwise" if math.prod(conv.kernel) == 1 else "direct"
    step = f", every {conv.stride}nd" if conv.stride > 1 else ""
    shape = f"{size}², {conv.kernel[0]}x{conv.kernel[1]}{step}, {conv.channels} → {conv.filters}"
    note = "" if share >= GOOD else "; ".join(_reasons(conv, out, tile, seconds, costs))
    return LayerRow(workload.removeprefix("resnet18_"), shape, flops, seconds, share, algorithm, note)


def _tile(conv: Conv, ops: Sequence[KernelOp]) -> int:
    """The side of the tiles of results of Winograd's algorithm; 0 if the multiplication is direct."""
    if len(ops) < 2 or conv.kernel != (3, 3):
        return 0
    product = max(ops, key=lambda op: op.flops)
    sides = list(product.result.shape)
    return next((side - 2 for side in (6, 4) if sides.count(side) >= 2), 0)


def _reasons(conv: Conv, out: int, tile: int, seconds: float, costs: Sequence[Cost]) -> list[str]:
    """What keeps a layer from the peak, as far as numbers say it."""
    found: list[str] = []
    moved = sum(cost.bytes for cost in costs)
    floor = sum(Cost(cost.bytes).limit() for cost in costs)
    if floor > seconds / 3:
        weights = 4 * conv.channels * conv.filters * ((tile + 2) ** 2 if tile else math.prod(conv.kernel))
        part = f", {weights / (1 << 20):.1f} of them weights" if weights > moved / 3 else ""
        found.append(f"bytes: {moved / (1 << 20):.1f} MiB{part}, take {floor * 1e6:.0f} µs at the speed of a copy")
    done = sum(cost.flops for cost in costs) / multiply_adds()
    if tile and done > seconds / 3:
        tiles = -(-out // tile) * tile
        edge = f", of tiles that cover {tiles}² of {out}²" if tiles > out else ""
        found.append(f"multiply-adds of products and transforms take {done * 1e6:.0f} µs at the peak{edge}")
    if conv.channels < 8:
        found.append(f"{conv.channels} channels: sums of {conv.channels} x {conv.kernel[1]} elements side by side")
    if out * out < 64 and not tile:
        found.append(f"{out}² pixels: each weight that is loaded serves {out * out} of them")
    return found or ["not explained by bytes or sizes"]


def print_layers(names: Sequence[str], path: Path | None) -> None:
    """Print the table of layers."""
    print("| " + " | ".join(LAYER_COLUMNS) + " |\n|" + "---|" * len(LAYER_COLUMNS), flush=True)
    rows: list[LayerRow] = []
    for name in names:
        rows.append(layer_row(name))
        print(rows[-1], flush=True)
    low = [row.layer for row in rows if row.share < GOOD]
    print(f"\nBelow {GOOD:.0%} of the peak: {', '.join(low) or 'none'}.")
    if path:
        path.write_text(json.dumps([dataclasses.asdict(r) for r in rows], indent=1))


def main() -> int:
    parser = argparse.ArgumentParser(description="each kernel's speed beside the machine's, as a Markdown table")
    parser.add_argument("--only", help="workloads, separated by commas", default=",".join(GROUPS["dense"]))
    parser.add_argument("--contractions", action="store_true", help="show only kernels with multiply-adds")
    parser.add_argument("--layers", action="store_true", help="the convolutions of ResNet-18, by layer")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    names = options.only.split(",")
    unknown = [n for n in names if n not in EVERY]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}; there are {', '.join(EVERY)}")
    copied = copy_speed(1 << 25, OPTIONS.num_threads)
    print(f"{OPTIONS.num_threads} threads; copy of 16 MiB {copied / 1e9:.1f} GB/s; ", end="")
    print(f"multiply-adds {multiply_adds() / 1e9:.0f} GFLOP/s\n")
    if options.layers:
        print_layers([n for n in names if n in RESNET18_CONVOLUTIONS] or GROUPS["resnet18_layers"], options.json)
        return 0
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    rows: list[Row] = []
    for name in names:
        found = rows_of(name)
        found = [row for row in found if row.flops or not options.contractions]
        rows += found
        print("\n".join(map(str, found)), flush=True)
    judged = [(r, r.share) for r in rows if r.share is not None and r.seconds > SHORT * r.launches]
    low = [f"{r.workload} {r.kernel} ({share:.0%})" for r, share in judged if share < GOOD]
    print(f"\nBelow {GOOD:.0%} of the limit, of launches longer than {SHORT * 1e6:.0f} µs: {', '.join(low) or 'none'}.")
    if options.json:
        options.json.write_text(json.dumps([dataclasses.asdict(r) for r in rows], indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
