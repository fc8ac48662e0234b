"""``mx.sym``: graphs composed of variables and operators, and the operators on values of a traced block.

``mx.sym.<op>`` is the function of ``mx.nd``: what it is given decides whether it runs, is recorded in the trace of a
block, or makes a node of a graph; here it also takes ``name=`` and ``attr=``.
"""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

from hybridc import nd as _nd
from hybridc.ground.absent import absent as _absent
from hybridc.symbol import sparse
from hybridc.symbol.composed import ComposedSymbol, load, load_json
from hybridc.symbol.np_calls.np_call_symbols import NpxNamespace as _NpxNamespace
from hybridc.symbol.np_calls.np_call_symbols import NumpyComposedSymbol as NumpyComposedSymbol
from hybridc.symbol.np_calls.np_call_symbols import NumpyNamespace as _NumpyNamespace
from hybridc.symbol.running.cached_op import CachedOp as CachedOp
from hybridc.symbol.symbol_namespace import Namespace as _Namespace
from hybridc.symbol.symbol_namespace import function as _function
from hybridc.symbol.variables import Group, Variable, var
from hybridc.trace.traced import Symbol

__all__ = ["ComposedSymbol", "Group", "Symbol", "Variable", "load", "load_json", "sparse", "var"]

symbol = sys.modules[__name__]  # MXNet's file of what is here

# What mx.nd has for arrays only.
_ARRAYS_ONLY = {"ndarray", "utils", "NDArray", "empty", "from_dlpack", "from_numpy", "load_frombuffer", "load_metadata"}
_ARRAYS_ONLY.update(("onehot_encode", "save", "to_dlpack_for_read", "to_dlpack_for_write", "waitall"))


if not TYPE_CHECKING:  # what there is not is an error of the type checker

    def __getattr__(name: str) -> Any:
        if name in ("numpy", "numpy_extension"):
            return __getattr__("np" if name == "numpy" else "npx")
        if name in ("np", "npx"):  # a block's F.np
            made = globals()[name] = _NpxNamespace() if name == "npx" else _NumpyNamespace(_nd.np)
            return made
        found = None if name in _ARRAYS_ONLY else getattr(_nd, name, None)
        if found is None or name.startswith("__"):
            raise _absent("mx.sym", name, "operator", __dir__())
        made = globals()[name] = (
            _Namespace(found, name) if isinstance(found, types.ModuleType) else _function(name, found)
        )
        return made


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(_nd)} - _ARRAYS_ONLY)
