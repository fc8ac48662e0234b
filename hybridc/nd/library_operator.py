"""``nd.CustomOp``: an operator of a loaded library by its name, as the first design of extension libraries wrote it."""

from __future__ import annotations

from typing import Any

from hybridc.array.functions import function
from hybridc.dialects import operator_registry
from hybridc.errors import MXNetError

_DIALECT = "extension."


def CustomOp(*data: Any, op_type: str | None = None, **attributes: Any) -> Any:
    """``nd.CustomOp(a, op_type="sam", my_param=2)`` is ``nd.sam(a, my_param=2)``, for operators of libraries.

    Parameters
    ----------
    data : NDArray or Symbol
        The inputs.
    op_type : str
        The operator's name in the library that ``mx.library.load`` loaded.
    attributes :
        The operator's attributes, which its library gets as strings.
    """
    if not op_type:
        raise MXNetError("CustomOp: op_type is missing; give the name of an operator of a loaded library")
    if f"{_DIALECT}{op_type}" not in operator_registry.OPERATORS:
        known = [n.removeprefix(_DIALECT) for n in operator_registry.OPERATORS if n.startswith(_DIALECT)]
        names = ", ".join(sorted(repr(n) for n in known if not n.startswith("_backward_"))) or "none so far"
        raise MXNetError(
            f"CustomOp: no loaded library has an operator {op_type!r} (there are: {names}); load the library with "
            "mx.library.load(path). Operators written in Python are called by mx.nd.Custom"
        )
    return function(op_type)(*data, **attributes)
