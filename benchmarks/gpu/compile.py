"""What becomes of the benchmark workloads' GPU kernels, without a GPU: each is compiled for the cards that are named.

::

    python benchmarks/gpu/compile.py                     # every workload, for an H100
    python benchmarks/gpu/compile.py softmax encoder --targets sm_80,sm_90,gfx942
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.workloads import WORKLOADS
from hybridc.lower.triton.program import Launch, TritonProgram
from hybridc.runtime import warm_start
from hybridc.runtime.compiled_graph import CompiledGraph
from hybridc.stages import Traced
from hybridc.tools.triton_report import TARGETS, Compiled, Work, fitting, report


def traces_of(workload: str) -> list[Traced]:
    """The traces that one step of a workload compiles."""
    found: list[Traced] = []
    original = warm_start.graph

    def graph(traced: Traced, compiled: Callable[[], CompiledGraph]) -> CompiledGraph:
        found.append(traced)
        return original(traced, compiled)

    warm_start.graph = graph
    try:
        program = WORKLOADS[workload].build(hybridized=True)
        program.fetch(program.call())
    finally:
        warm_start.graph = original
    return found


def functions_of(traces: Iterable[Traced], target: str) -> list[Work]:
    """The Triton functions that traces become, each once, in the configuration expected to be the fastest there."""
    found: dict[str, Work] = {}
    for traced in traces:
        for program in traced.optimize().lower("triton").programs.values():
            assert isinstance(program, TritonProgram)
            for step in program.steps:
                if isinstance(step, Launch):
                    found.setdefault(step.function.key, (step.function, fitting(step.configs, target), step.numbers))
    return list(found.values())


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
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--targets", default="sm_90", help=f"of {', '.join(TARGETS)}")
    given = parser.parse_args()
    rows: list[tuple[str, Compiled]] = []
    for workload in given.workloads:
        traces = traces_of(workload)
        for target in given.targets.split(","):
            rows += [(workload, made) for made in report(functions_of(traces, target), [target])]
    print(table(rows))


if __name__ == "__main__":
    main()
