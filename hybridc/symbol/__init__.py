"""``mx.sym``: graphs composed of variables and operators, and the operators on values of a traced block.

``mx.sym.<op>`` is the function of ``mx.nd``: what it is given decides whether it runs, is recorded in the trace of a
block, or makes a node of a graph; here it also takes ``name=`` and ``attr=``.
"""

from __future__ import annotations

import types
from typing import Any

from hybridc import nd as _nd
from hybridc.absent import absent as _absent
from hybridc.trace.traced import Symbol

__all__ = ["Symbol"]

# Names of other modules, imported when first asked for: this package is on the way of the compiler.
_ELSEWHERE = {
    "ComposedSymbol": "composed",
    "Group": "variables",
    "Variable": "variables",
    "var": "variables",
    "load": "json",
    "load_json": "json",
}
# What mx.nd has for arrays only.
_ARRAYS_ONLY = {"NDArray", "empty", "from_dlpack", "from_numpy", "load_frombuffer"}
_ARRAYS_ONLY.update(("onehot_encode", "save", "to_dlpack_for_read", "to_dlpack_for_write", "waitall"))


def _import(name: str) -> Any:
    import importlib

    return getattr(importlib.import_module(f"hybridc.symbol.{_ELSEWHERE[name]}"), name)


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        return _import(name)
    found = None if name in _ARRAYS_ONLY else getattr(_nd, name, None)
    if found is None or name.startswith("__"):
        raise _absent("mx.sym", name, "operator", __dir__())
    from hybridc.symbol.symbol_namespace import Namespace, function

    made = globals()[name] = Namespace(found, name) if isinstance(found, types.ModuleType) else function(name, found)
    return made


def __dir__() -> list[str]:
    return sorted({*globals(), *_ELSEWHERE, *dir(_nd)} - _ARRAYS_ONLY)
