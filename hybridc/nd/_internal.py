"""``mx.nd._internal``: operators by the names that MXNet registers them under, ``_plus_scalar`` say.

Their parameters are those that are registered there: ``_full(shape, ctx, dtype, value)``, ``_split_v2(data, indices)``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from hybridc.array.dispatch import invoke, placed
from hybridc.array.functions import function, require_hidden
from hybridc.array.ndarray import NDArray
from hybridc.context import Context
from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.errors import AbsentError, ArgumentTypeError, MXNetError
from hybridc.ground import NULL
from hybridc.ground.absent import absent as _absent
from hybridc.ground.absent import why_lacking
from hybridc.ground.hooks import HOOKS
from hybridc.nd.creation import onehot_encode


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        return _CLASSES[name]()
    found = _function(name) if name.startswith("_") and not name.startswith("__") else None
    if found is None:
        raise _missing(name)
    globals()[name] = found
    return found


# What to call instead of an operator of MXNet that hybridc lacks, by the kind of operators it is of.
_REMEDIES = {
    "mkldnn": "call the operator that MXNet replaced by it",
    "arrays": "mx.image has functions that decode, read, resize and pad images",
    "running": "autograd and the operators of the forward take its place",
}


def _missing(name: str) -> AttributeError:
    """The error for a name that is no operator here."""
    error, why = _absent("mx.nd._internal", name, "operator", ()), why_lacking(name)
    return error if why is None else AbsentError(f"{error}: MXNet's {why[1]}; {_REMEDIES[why[0]]}")


def __dir__() -> list[str]:
    names = {n for n in operator_registry.functions() if n.startswith("_")}
    names.update(n for cls in operator_registry.operators().values() if (n := cls.nnvm_name()).startswith("_"))
    return sorted({*names, *operator_registry.of_scalar(), *_OF_ARRAYS, *_CLASSES})


def _function(name: str) -> Callable[..., Any] | None:
    if name in _OF_ARRAYS:
        return _OF_ARRAYS[name]
    scalar = operator_registry.of_scalar().get(operator_registry.snake_of_scalar(name))
    if scalar is not None:
        return _of_scalar(name, _registered(scalar[0]), is_reflected=scalar[1])
    cls = operator_registry.of_mxnet(name)
    if cls is None:
        return None
    theirs = cls.nnvm_parameters()
    return function(_registered(cls)) if theirs is None else _of_parameters(name, cls, theirs)


def _registered(cls: type[Operator]) -> str:
    return next(name for name, known in operator_registry.FUNCTIONS.items() if known is cls)


def _of_scalar(name: str, binary: str, is_reflected: bool) -> Callable[..., Any]:
    """The operator of an array and a number, by the function of two arrays."""

    def call(data: Any, scalar: Any = 1.0, is_int: Any = True, **kwargs: Any) -> Any:  # noqa: ARG001
        try:
            number = float(scalar) if isinstance(scalar, str) else scalar
        except ValueError:
            raise ArgumentTypeError(f"{name}: scalar takes a number, got {scalar!r}") from None
        return function(binary)(*((number, data) if is_reflected else (data, number)), **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``{binary}`` of {'a number and an array' if is_reflected else 'an array and a number'}."
    return call


def _of_parameters(name: str, cls: type[Operator], theirs: tuple[str, ...]) -> Callable[..., Any]:
    """The operator with MXNet's attributes, under their names there and in their order."""
    inputs = tuple(n for n in cls.INPUTS if not (cls.DRAWS and n == "key"))
    places = (*inputs, *theirs)

    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if len(args) > len(places):
            raise ArgumentTypeError(f"{name}() takes {len(places)} arguments, {', '.join(places)}; got {len(args)}")
        given = {**dict(zip(places, args, strict=False)), **kwargs}
        given.pop("name", None)
        require_hidden(name, {k: v for k, v in given.items() if k not in places}, places, cls.NNVM_ONLY)
        arrays = [given.pop(n, None) for n in inputs]
        device = _device(name, given.pop("ctx", None))
        known = {k: v for k, v in given.items() if k in theirs and v is not NULL}
        made = invoke(cls.from_nnvm(known), arrays, out)
        return made if inputs or out is not None else placed(made, device)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = cls.__doc__
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    others = inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD)
    parameters = [inspect.Parameter(n, kind, default=None) for n in (*places, "out", "name")]
    vars(call)["__signature__"] = inspect.Signature([*parameters, others])
    return call


def _device(name: str, ctx: Any) -> Any:
    """A device that is a Context, or its text, ``cpu(0)``."""
    if not isinstance(ctx, str):
        return ctx
    written = re.fullmatch(r"(\w+)\((\d+)\)", ctx)
    if written is None:
        raise ArgumentTypeError(f"{name}: ctx takes a Context or its text, cpu(0), got {ctx!r}")
    return Context(written[1], int(written[2]))


def _set_value(src: Any = None, out: Any = None, name: str | None = None) -> NDArray:  # noqa: ARG001
    """Set all elements of ``out`` to a number."""
    if not isinstance(out, NDArray):
        raise MXNetError(f"_set_value: out must be the NDArray to write into, got {type(out).__name__}")
    try:
        out[:] = float(src)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"_set_value: src takes a number, got {src!r}") from None
    return out


def _onehot_encode(lhs: NDArray, rhs: NDArray, out: Any = None, name: str | None = None) -> NDArray:  # noqa: ARG001
    """The one-hot rows of the indices ``lhs`` in the shape of ``rhs``."""
    return onehot_encode(lhs, function("zeros_like")(rhs) if out is None else out)


# Functions of arrays that are no operators of graphs, and MXNet's classes in this module.
_OF_ARRAYS: dict[str, Callable[..., Any]] = {"_set_value": _set_value, "_onehot_encode": _onehot_encode}
_CLASSES: dict[str, Callable[[], Any]] = {
    "CachedOp": lambda: HOOKS.symbols().CachedOp,
    "NDArrayBase": lambda: NDArray,
    "_Null": lambda: NULL,
}
