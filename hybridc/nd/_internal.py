"""``mx.nd._internal``: operators by the names that MXNet registers them under, ``_plus_scalar`` say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hybridc.array.functions import function
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.ground.absent import absent as _absent


def __getattr__(name: str) -> Any:
    found = _function(name) if name.startswith("_") and not name.startswith("__") else None
    if found is None:
        raise _absent("mx.nd._internal", name, "operator", ())
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    names = {n for n in operator_registry.FUNCTIONS if n.startswith("_")}
    names.update(n for cls in operator_registry.OPERATORS.values() if (n := cls.nnvm_name()).startswith("_"))
    return sorted({*names, *_scalar_operators()})


def _function(name: str) -> Callable[..., Any] | None:
    cls = operator_registry.of_mxnet(name)
    if cls is not None:
        return function(_registered(cls))
    found = _scalar_operators().get(name)
    return None if found is None else _of_scalar(name, _registered(found[0]), is_reflected=found[1])


def _registered(cls: type[Operator]) -> str:
    return next(name for name, known in operator_registry.FUNCTIONS.items() if known is cls)


def _scalar_operators() -> dict[str, tuple[type[Operator], bool]]:
    """MXNet's operators of an array and a number: the operator of two arrays, and whether the number is first."""
    reflected: dict[str, tuple[type[Operator], bool]] = {}
    plain: dict[str, tuple[type[Operator], bool]] = {}
    for cls in operator_registry.OPERATORS.values():
        names: tuple[str, ...] = vars(cls).get("NNVM_SCALAR", ())
        if names:
            plain[names[0]], reflected[names[1]] = (cls, False), (cls, True)
    return reflected | plain


def _of_scalar(name: str, binary: str, is_reflected: bool) -> Callable[..., Any]:
    """The operator of an array and a number, by the function of two arrays."""

    def call(data: Any, scalar: float = 1.0, **kwargs: Any) -> Any:
        operands = (scalar, data) if is_reflected else (data, scalar)
        return function(binary)(*operands, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``{binary}`` of {'a number and an array' if is_reflected else 'an array and a number'}."
    return call
