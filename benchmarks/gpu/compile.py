"""What becomes of the benchmarks' GPU kernels, without a GPU: each is compiled for the GPUs that are named.

The workloads are those of ``benchmarks/gpu/check.py --part bench`` at their full sizes, forward, backward and updates
of parameters, and those of ``benchmarks/workloads.py``.

::

    python benchmarks/gpu/compile.py                     # every workload, for an H100
    python benchmarks/gpu/compile.py softmax encoder --targets sm_80,sm_90,gfx942
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import hybridc as mx
from benchmarks.gpu import bench_networks, bench_workloads
from benchmarks.gpu.bench import Workload, measured_in
from benchmarks.workloads import WORKLOADS, WithParameters
from hybridc.compile import warm_start
from hybridc.compile.compiled_graph import CompiledGraph
from hybridc.compile.stages import Traced
from hybridc.gluon import nn
from hybridc.lower.triton.launches import Launch, TritonProgram
from hybridc.lower.triton.triton_function import TritonFunction
from hybridc.tools.triton_report import TARGETS, Compiled, Work, fitting, report


class _Found(Exception):
    """What would have been compiled is known."""


def traces() -> dict[str, Callable[[], list[Traced]]]:
    """By the names of workloads what gives the traces that one step of each compiles."""
    found: dict[str, Callable[[], list[Traced]]] = {}
    for workload in bench_workloads.workloads(False):
        found[workload.label] = functools.partial(_traced, workload)
    for dtype in bench_networks.DTYPES:
        found[f"encoder layer, training step, {dtype}"] = functools.partial(_training_step, dtype)
    found["Adam, float32"] = functools.partial(_update, "adam", [(bench_networks.ADAM_SIZE,)] * 2, "float32")
    for name in WORKLOADS:
        found[f"{name} (CPU's)"] = functools.partial(_step_of, name)
    return found


def functions_of(traces: Iterable[Traced], target: str) -> list[Work]:
    """The Triton functions that traces become, each once, in the configuration expected to be the fastest there."""
    found: dict[str, Work] = {}
    for function, configs, numbers in launches_of(traces):
        found.setdefault(function.key, (function, fitting(configs, target), numbers))
    return list(found.values())


def launches_of(traces: Iterable[Traced]) -> Iterable[tuple[TritonFunction, Sequence[Any], tuple[int, ...]]]:
    """The functions that traces launch, with their configurations and numbers."""
    for traced in traces:
        for program in traced.optimize().lower("triton").programs.values():
            assert isinstance(program, TritonProgram)
            yield from [(s.function, s.configs, s.numbers) for s in program.steps if isinstance(s, Launch)]


# --- traces ---------------------------------------------------------------------------------------------------


def _traced(workload: Workload) -> list[Traced]:
    """A function of arrays, with its backward if that is measured, too."""
    arrays = workload.arrays()
    kinds = [measured_in(a, workload.dtype) for a in arrays.values()]
    given = [mx.nd.zeros(a.shape, dtype=kind) for a, kind in zip(arrays.values(), kinds, strict=True)]

    def function(F: Any, *xs: Any) -> Any:
        return workload.ours(F, **dict(zip(arrays, xs, strict=True)))

    traced = nn.HybridLambda(function).trace(*given)
    grads = tuple(i for i, a in enumerate(arrays.values()) if a.dtype.kind == "f") if workload.train else ()
    return [Traced(traced.trace, grads)]


def _training_step(dtype: str) -> list[Traced]:
    """An encoder layer, its backward, and the update of its parameters."""
    layer = bench_networks.LAYER
    parameters = layer.parameters()

    class Net(WithParameters):
        def hybrid_forward(self, F: Any, x: Any, **p: Any) -> Any:
            return layer.ours(F, x, p)

    net = Net({name: mx.nd.zeros(value.shape) for name, value in parameters.items()})
    net.cast(dtype)
    traced = net.trace(mx.nd.zeros(layer.x().shape, dtype=dtype))
    grads = tuple(i for i, role in enumerate(traced.trace.roles) if role == "parameter")
    update = _update("sgd", [value.shape for value in parameters.values()], dtype, momentum=bench_networks.MOMENTUM)
    return [Traced(traced.trace, grads), *update]


def _update(name: str, shapes: Sequence[tuple[int, ...]], dtype: str, **settings: Any) -> list[Traced]:
    """An optimizer's step for weights of these shapes."""
    update: Any = mx.optimizer.get_updater(mx.optimizer.create(name, **settings))
    weights, grads = ([mx.nd.zeros(shape, dtype=dtype) for shape in shapes] for _ in range(2))
    return _compiled_by(lambda: update(list(range(len(shapes))), grads, weights), first=True)


def _step_of(name: str) -> list[Traced]:
    """A step of a workload of the CPU's benchmarks."""
    program: Any = WORKLOADS[name].build(hybridized=True)
    return _compiled_by(lambda: program.fetch(program.call()))


def _compiled_by(step: Callable[[], Any], first: bool = False) -> list[Traced]:
    """What a step compiles: all of it, which is run, or the ``first`` trace, with which it ends."""
    found: list[Traced] = []
    original = warm_start.stored_graph

    def graph(traced: Traced, compiled: Callable[[], CompiledGraph]) -> CompiledGraph:
        found.append(traced)
        if first:
            raise _Found
        return original(traced, compiled)

    warm_start.stored_graph = graph
    try:
        step()
    except _Found:
        pass
    finally:
        warm_start.stored_graph = original
    return found


# --- the table ------------------------------------------------------------------------------------------------


def table(rows: Sequence[tuple[str, Compiled]]) -> str:
    """Markdown."""
    head = ("workload", "kernel", "configuration", "target", "registers", "spilled", "shared", "16-byte accesses")
    lines = ["| " + " | ".join((*head, "others", "tensor instructions")) + " |", "|---" * (len(head) + 2) + "|"]
    for workload, c in rows:
        numbers = (c.registers, c.spilled, c.shared, c.wide, c.narrow, c.tensor)
        lines.append(f"| {workload} | {c.function} | {c.config} | {c.target} | {' | '.join(map(str, numbers))} |")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=[""], help="parts of names; all if there is none")
    parser.add_argument("--targets", default="sm_90", help=f"of {', '.join(TARGETS)}")
    given = parser.parse_args()
    rows: list[tuple[str, Compiled]] = []
    for workload, made in traces().items():
        if any(part in workload for part in given.workloads):
            found = made()
            for target in given.targets.split(","):
                rows += [(workload, each) for each in report(functions_of(found, target), [target])]
    print(table(rows))


if __name__ == "__main__":
    main()
