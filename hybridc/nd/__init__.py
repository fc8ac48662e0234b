"""``mx.nd``: arrays and all operators as functions; each is made from its operator class when first used."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from hybridc.array import fluent
from hybridc.array import indexing as indexing
from hybridc.array.functions import function as _function
from hybridc.array.ndarray import NDArray
from hybridc.dialects import library as library  # importing it registers the operators
from hybridc.dialects import operator_registry as _registry
from hybridc.ground.absent import absent as _absent
from hybridc.ground.hooks import HOOKS as _HOOKS
from hybridc.nd import _internal as _internal
from hybridc.nd import contrib, image, linalg, op, random, sparse
from hybridc.nd import storage as _storage
from hybridc.nd.creation import (
    arange,
    array,
    concatenate,
    empty,
    eye,
    from_dlpack,
    from_numpy,
    full,
    histogram,
    linspace,
    moveaxis,
    onehot_encode,
    ones,
    power,
    split_v2,
    to_dlpack_for_read,
    to_dlpack_for_write,
    waitall,
    zeros,
)
from hybridc.nd.library_operator import CustomOp
from hybridc.nd.storage import load, load_frombuffer, load_metadata, save
from hybridc.operator import custom as custom  # importing these registers operators, too
from hybridc.subgraph import subgraph_operator as subgraph_operator

__all__ = [
    "CustomOp",
    "NDArray",
    "arange",
    "array",
    "concatenate",
    "contrib",
    "empty",
    "eye",
    "from_dlpack",
    "from_numpy",
    "full",
    "histogram",
    "image",
    "linalg",
    "linspace",
    "load",
    "load_frombuffer",
    "load_metadata",
    "moveaxis",
    "onehot_encode",
    "ones",
    "op",
    "power",
    "random",
    "save",
    "sparse",
    "split_v2",
    "to_dlpack_for_read",
    "to_dlpack_for_write",
    "waitall",
    "zeros",
]

fluent.install()
ndarray = utils = sys.modules[__name__]  # MXNet's files of what is here
_DTYPE_NP_TO_MX, _DTYPE_MX_TO_NP = _storage.DTYPE_NP_TO_MX, _storage.DTYPE_MX_TO_NP
_STORAGE_TYPE_STR_TO_ID, _STORAGE_TYPE_ID_TO_STR = _storage.STORAGE_TYPE_STR_TO_ID, _storage.STORAGE_TYPE_ID_TO_STR
_GRAD_REQ_MAP = _storage.GRAD_REQ_MAP


def _forget(name: str) -> None:
    """The name is bound to another operator: forget the cached function, unless the function is one of this module."""
    if name not in __all__:
        globals().pop(name, None)


_registry.LISTENERS.append(_forget)


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if _registry.has_function(name):
            made = globals()[name] = _function(name)
            return made
        if name in ("np", "numpy"):  # a block's F.np
            return _HOOKS.np()
        if name in ("npx", "numpy_extension"):
            return _HOOKS.npx()
        if name == "CachedOp":  # of symbols, which are imported when they are first used
            return _HOOKS.symbols().CachedOp
        raise _absent("mx.nd", name, "operator", __dir__())


def __dir__() -> list[str]:
    return sorted({*globals(), *(n for n in _registry.functions() if "." not in n)})
