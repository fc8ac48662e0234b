"""Compile what the benchmarks measure before they do, by several processes at once: one after the other takes too long.

What Triton makes of hybridc's functions, in all ways that will be tried, and what PyTorch's compiler makes is kept in
folders where the process that measures finds it. What fails here fails there, and is told then.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.gpu import bench
from benchmarks.gpu.compile import launches_of, traces
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.choose import device
from hybridc.runtime.devices.nvidia.compiled import binary, code_key, divisible_by

# The parts that hybridc's functions are shared out in: more than there are processes, as some take longer.
SHARES = 48

Job = tuple[TritonFunction, Config, int]


def checks(names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """What compiles the workloads of these names: hybridc's functions, then what PyTorch makes of each."""
    found: dict[str, Callable[[], Any]] = {}
    for share in range(SHARES):
        found[f"hybridc's functions, {share + 1} of {SHARES}"] = functools.partial(compile_share, names, share)
    made = bench.comparisons(False)
    return found | {f"torch.compile, {n}": lambda n=n: made[n]().compile_theirs() for n in names if n in made}


def compile_share(names: Sequence[str], share: int) -> None:
    """One part of hybridc's functions."""
    capability = device(0).capability
    for function, config, divisible in jobs(tuple(names))[share::SHARES]:
        with contextlib.suppress(Exception):
            binary(function, config, capability, divisible)


@functools.cache
def jobs(names: tuple[str, ...]) -> list[Job]:
    """What is compiled for workloads, each once."""
    known = traces()
    found: dict[Any, Job] = {}
    for name in names:
        make = known.get(name.replace(" on 100 M parameters", ""))
        for function, configs, numbers in launches_of(make()) if make is not None else ():
            divisible = divisible_by((*[0] * len(function.pointers), *numbers))  # memory begins at multiples of 256
            for config in configs:
                key = (code_key(function), config.constants, config.warps, config.stages, divisible)
                found.setdefault(key, (function, config, divisible))
    return list(found.values())
