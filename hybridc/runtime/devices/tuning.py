"""Autotuning: time the configurations of a function on a GPU once, and cache the choice on the disk.

So for the choice between a library's matmul and a generated one.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence

from hybridc.errors import MXNetError
from hybridc.ground.store import keep, kept
from hybridc.ir.library_matmul import LibraryMatmul
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.nvidia.compiled import code_key

# Warm-up runs for caches and clocks, and timed runs.
WARM, TIMED = 3, 7


def fastest(
    device: Device,
    function: TritonFunction,
    configs: Sequence[Config],
    pointers: Sequence[int],
    numbers: Sequence[int],
) -> Config:
    """The fastest configuration of a function, from the cache or by timing it on these buffers.

    It runs several times: it must not read what it writes. Configurations that fail for want of
    shared memory are left out; scalars of about the same size are one case.
    """
    chosen = known(device, function, configs, numbers)
    if chosen is not None:
        return chosen
    times = [_time(device, function, config, pointers, numbers) for config in configs]
    best = min(range(len(configs)), key=lambda i: times[i])
    keep(_key(device, function, configs, numbers), best)
    return configs[best]


def known(device: Device, function: TritonFunction, configs: Sequence[Config], numbers: Sequence[int]) -> Config | None:
    """The cached choice of configuration; None if there is none."""
    if len(configs) == 1:
        return configs[0]
    index = kept(_key(device, function, configs, numbers), int)
    return None if index is None or index >= len(configs) else configs[index]


def library_wins(
    device: Device,
    product: LibraryMatmul,
    after: Sequence[TritonFunction],
    own: Callable[[], None],
    library: Callable[[], None],
) -> bool:
    """Whether a library's matmul is faster than the generated kernels, from the cache or by timing both.

    ``after`` are the epilogue's functions, which the generated kernels include.
    """
    what = [device.name, device.capability, *product[:5], [dtype.name for dtype in product.dtypes], product.tf32]
    what.append([code_key(function) for function in after])
    key = "library " + hashlib.sha256(json.dumps(what).encode()).hexdigest()
    wins = kept(key, bool)
    if wins is None:
        wins = _median(device, library) < _median(device, own)
        keep(key, wins)
    return wins


def _key(device: Device, function: TritonFunction, configs: Sequence[Config], numbers: Sequence[int]) -> str:
    sizes = [n.bit_length() for n in numbers]
    what = [device.name, device.capability, code_key(function), [str(c) for c in configs], sizes]
    return "tuned " + hashlib.sha256(json.dumps(what).encode()).hexdigest()


def _time(
    device: Device, function: TritonFunction, config: Config, pointers: Sequence[int], numbers: Sequence[int]
) -> float:
    """The milliseconds of a run; infinite if it fails."""

    try:
        run = device.prepare(function, config)
    except MXNetError:
        return float("inf")
    return _median(device, lambda: run(pointers, numbers))


def _median(device: Device, run: Callable[[], None]) -> float:
    try:
        run()
        device.synchronise()
    except MXNetError:
        return float("inf")
    for _ in range(WARM):
        run()
    times: list[float] = []
    for _ in range(TIMED):
        begin, end = device.event(), device.event()
        begin.record()
        run()
        end.record()
        times.append(end.since(begin))
    return statistics.median(times)
