"""``mx.npx``: operators of neural networks on arrays of ``mx.np``, the switches of NumPy's semantics, and devices.

``npx.softmax`` is the operator of ``mx.nd``, whose results are of ``mx.np``; every operator of ``mx.nd`` can be called
so.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from hybridc import nd
from hybridc.array.functions import function
from hybridc.array.numpy_array import as_numpy
from hybridc.context import Context, cpu, cpu_pinned, current_context, gpu, gpu_memory_info, num_gpus
from hybridc.dialects import operator_registry
from hybridc.ground.absent import absent as _absent
from hybridc.npx import image_functions as image
from hybridc.npx import random as random
from hybridc.npx.random import seed
from hybridc.npx.special_shapes import constraint_check, nonzero, reshape
from hybridc.util import (
    get_cuda_compute_capability,
    is_np_array,
    is_np_shape,
    np_array,
    np_shape,
    reset_np,
    set_np,
    use_np,
    use_np_array,
    use_np_shape,
)

__all__ = [
    "Context",
    "constraint_check",
    "cpu",
    "cpu_pinned",
    "current_context",
    "get_cuda_compute_capability",
    "gpu",
    "gpu_memory_info",
    "image",
    "is_np_array",
    "is_np_shape",
    "load",
    "nonzero",
    "np_array",
    "np_shape",
    "num_gpus",
    "random",
    "reset_np",
    "reshape",
    "save",
    "seed",
    "set_np",
    "use_np",
    "use_np_array",
    "use_np_shape",
    "waitall",
]

# MXNet's names of operators that have others in mx.nd.
_NAMES = {
    "batch_flatten": "flatten",
    "multibox_detection": "multi_box_detection",
    "multibox_prior": "multi_box_prior",
    "multibox_target": "multi_box_target",
}

waitall = nd.waitall


def save(file: str, arr: Any) -> None:
    """Write an array, a list or a dict of them, ``arr``, into the file ``file``, as ``nd.save`` does."""
    nd.save(file, arr)


def load(file: str) -> Any:
    """Read the arrays of the file ``file``, as ``nd.load`` does: a list, or a dict if they have names."""
    found = nd.load(file)
    return {name: as_numpy(x) for name, x in found.items()} if isinstance(found, dict) else as_numpy(found)


def _of_operator(name: str) -> Callable[..., Any]:
    apply = function(name)

    @functools.wraps(apply)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_numpy(apply(*args, **kwargs))

    return call


def operator_name(name: str) -> str | None:
    """The operator of ``mx.nd`` that is called ``name`` here, or None."""
    operator = _NAMES.get(name, name)
    return operator if not name.startswith("_") and operator_registry.has_function(operator) else None


def __getattr__(name: str) -> Any:
    operator = operator_name(name)
    if operator is not None:
        made = globals()[name] = _of_operator(operator)
        return made
    raise _absent("mx.npx", name, "operator", __dir__())


def __dir__() -> list[str]:
    return sorted({*__all__, *_NAMES, *(n for n in operator_registry.functions() if n.isidentifier() and n[0] != "_")})
