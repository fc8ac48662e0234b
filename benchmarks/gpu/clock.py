"""How GPU benchmarks measure: events around a call, after the caches were flushed, in turns; medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.gpu.table import Machine

Calls = Mapping[str, Callable[[], Any]]

_FLUSHED = 256 << 20  # bytes written between two calls: more than any cache holds
_COPIED = 1 << 30  # bytes of the copy that shows the bandwidth
_SIDE = 8192  # of the matrices whose product shows the peak
_LEAST, _MOST = 5, 100  # measurements


class Clock:
    """PyTorch's events on a GPU; on the CPU, where only the programs are tried, the time of day."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.on_card = bool(torch.cuda.is_available())
        self.device = "cuda" if self.on_card else "cpu"
        self._flush = torch.empty(_FLUSHED if self.on_card else 1, dtype=torch.uint8, device=self.device)

    def wait(self) -> None:
        """Return when the GPU is done."""
        if self.on_card:
            self.torch.cuda.synchronize()

    def once(self, call: Callable[[], Any], latency: bool = False) -> float:
        """The seconds that the GPU worked on a call; for a ``latency``, until its result was there."""
        if latency or not self.on_card:
            self.wait()
            start = time.perf_counter()
            call()
            self.wait()
            return time.perf_counter() - start
        first, last = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flush.zero_()
        first.record()
        call()
        last.record()
        self.wait()
        return first.elapsed_time(last) / 1e3

    def medians(self, calls: Calls, seconds: float, latency: bool = False) -> dict[str, float]:
        """The median of each call, measured in turns for so long together, after a warm-up."""
        for call in calls.values():
            for _ in range(3):
                self.once(call, latency)
        found: dict[str, list[float]] = {name: [] for name in calls}
        start = time.perf_counter()
        for number in range(_MOST):
            if number >= _LEAST and time.perf_counter() - start > seconds:
                break
            for name, call in calls.items():
                found[name].append(self.once(call, latency))
        return {name: statistics.median(times) for name, times in found.items()}

    def machine(self, small: bool) -> Machine:
        """What a copy and products reach here, each the median of several."""
        torch = self.torch
        source = torch.ones(_COPIED >> (10 if small else 0), dtype=torch.uint8, device=self.device)
        target = torch.empty_like(source)
        calls: dict[str, Callable[[], Any]] = {"copy": lambda: target.copy_(source)}
        side = 64 if small else _SIDE
        for dtype in ("float16", "bfloat16", "float32"):
            a, b = (torch.randn(side, side, device=self.device).to(getattr(torch, dtype)) for _ in range(2))
            calls[dtype] = lambda a=a, b=b: a @ b
        seconds = self.medians(calls, 2.0)
        copy = 2 * source.nbytes / seconds.pop("copy")
        name = torch.cuda.get_device_name() if self.on_card else "the CPU, for a trial"
        return Machine(name, copy, {dtype: 2 * side**3 / s for dtype, s in seconds.items()})
