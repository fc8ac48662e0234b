"""Every workload, eager and hybridized, for pytest-benchmark: ``pytest benchmarks``.

Results are checked against float64 NumPy first; ``--benchmark-disable`` only checks.
"""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.workloads import WORKLOADS


@pytest.mark.parametrize("mode", ["eager", "hybridized"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_workload(benchmark: Any, name: str, mode: str) -> None:
    workload = WORKLOADS[name]
    program = workload.build(hybridized=mode == "hybridized")
    workload.check(program)
    benchmark.group = name
    benchmark(program.call)
