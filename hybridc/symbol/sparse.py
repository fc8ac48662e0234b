"""``mx.sym.sparse``: the operators that compute on sparse arrays, as functions of symbols."""

from __future__ import annotations

from typing import Any

from hybridc import nd as _nd
from hybridc.ground.absent import absent as _absent
from hybridc.nd.sparse import OPERATORS as _OPERATORS
from hybridc.nd.sparse import RENAMED as _RENAMED
from hybridc.symbol.symbol_namespace import function as _function

# ``from … import name`` asks for names as it asks a package, so that what there is not is told in our words.
__path__: list[str] = []

_ARRAYS = frozenset(("add", "divide", "multiply", "subtract"))  # functions of arrays alone


def __getattr__(name: str) -> Any:
    if (name in _OPERATORS and name not in _ARRAYS) or name in _RENAMED:
        own = _RENAMED.get(name, name)
        return _function(own, getattr(_nd, own))
    raise _absent("mx.sym.sparse", name, "attribute", [*_OPERATORS, *_RENAMED])
