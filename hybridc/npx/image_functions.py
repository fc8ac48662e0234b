"""``mx.npx.image``: what ``mx.image`` has, and the operators of ``mx.nd.image``, whose results are of ``mx.np``."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

import functools
from typing import Any

from hybridc import nd
from hybridc.array.numpy_array import as_numpy
from hybridc.ground.absent import absent as _absent
from hybridc.ground.hooks import HOOKS


def __getattr__(name: str) -> Any:
    if name.startswith("_") or name in ("np", "nd"):
        raise _absent("mx.npx.image", name, "function", __dir__())
    if name in dir(HOOKS.images()):
        return getattr(HOOKS.images(), name)
    if name not in dir(nd.image):
        raise _absent("mx.npx.image", name, "operator", __dir__())
    apply = getattr(nd.image, name)

    @functools.wraps(apply)
    def call(*args: Any, **kwargs: Any) -> Any:
        return as_numpy(apply(*args, **kwargs))

    globals()[name] = call
    return call


def __dir__() -> list[str]:
    return sorted({*dir(HOOKS.images()), *dir(nd.image)})
