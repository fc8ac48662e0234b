"""``mx.npx``: the switches of NumPy's semantics, and devices; of its functions, ``mx.nd`` has those that there are."""

from __future__ import annotations

from typing import Any

from hybridc import nd
from hybridc.context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from hybridc.ground.absent import absent as _absent
from hybridc.util import get_cuda_compute_capability, is_np_array, is_np_shape, reset_np, set_np

__all__ = [
    "Context",
    "cpu",
    "cpu_pinned",
    "current_context",
    "get_cuda_compute_capability",
    "gpu",
    "gpu_memory_info",
    "is_np_array",
    "is_np_shape",
    "num_gpus",
    "reset_np",
    "set_np",
    "waitall",
]

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []

waitall = nd.waitall


def __getattr__(name: str) -> Any:
    instead = f"mx.nd.{name}" if not name.startswith("_") and hasattr(nd, name) else "mx.nd"
    raise _absent("mx.npx", name, "attribute", __all__, ("the mx.np interface", f"; use {instead}"))
