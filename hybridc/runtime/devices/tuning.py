"""Which configuration of a function is the fastest on a card: each is timed once, the choice is kept on the disk.

So is whether a library computes a product in less time.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Sequence

from hybridc.errors import MXNetError
from hybridc.ground.store import keep, kept
from hybridc.lower.triton.launches import LibraryProduct
from hybridc.lower.triton.triton_function import Config, TritonFunction
from hybridc.runtime.devices.device import Device
from hybridc.runtime.devices.nvidia.compiled import code_key

# How often each configuration is run: some for its caches and clocks, then timed.
WARM, TIMED = 3, 7


def fastest(
    device: Device,
    function: TritonFunction,
    configs: Sequence[Config],
    pointers: Sequence[int],
    numbers: Sequence[int],
) -> Config:
    """The configuration to run a function in, by what is known of this card, or by running it on these buffers.

    What it writes, it writes several times: it must not read that, too. Configurations that the card cannot run, for
    want of memory that programs share, are left out; numbers of about the same size are one case.
    """
    chosen = known(device, function, configs, numbers)
    if chosen is not None:
        return chosen
    times = [_time(device, function, config, pointers, numbers) for config in configs]
    best = min(range(len(configs)), key=lambda i: times[i])
    keep(_key(device, function, configs, numbers), best)
    return configs[best]


def known(device: Device, function: TritonFunction, configs: Sequence[Config], numbers: Sequence[int]) -> Config | None:
    """The configuration that was chosen before; None if none was."""
    if len(configs) == 1:
        return configs[0]
    number = kept(_key(device, function, configs, numbers), int)
    return None if number is None or number >= len(configs) else configs[number]


def library_wins(
    device: Device,
    product: LibraryProduct,
    after: Sequence[TritonFunction],
    own: Callable[[], None],
    library: Callable[[], None],
) -> bool:
    """Whether a library computes a product in less time than its own launches, by what is known or by running both.

    ``after`` it are functions for what follows, which its own launches do at once.
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
    """Milliseconds of a run; infinite if there is none."""

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
