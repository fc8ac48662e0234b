"""Application of operators to arrays of ``mx.np``: dtypes are promoted by the rule of the operator's class.

The operator is the one of ``mx.nd``, so gradients, fusion and kernels are the same; what differs are the casts around
it.
"""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.
# pyright: reportPrivateUsage=false
# An array's buffer belongs to all classes of arrays.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as onp

from hybridc.array.dispatch import explain, invoke, is_symbol
from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_numpy, ndarray
from hybridc.dialects.numpy_rules import BOOL, INT32, INT64, NumpyRule
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import of_function
from hybridc.dtypes import FLOAT16, FLOAT32, FLOAT64
from hybridc.errors import ArgumentTypeError
from hybridc.ground.events import RECORDER
from hybridc.ground.state import STATE

NUMBERS = (bool, int, float, onp.generic)
#: What NumPy's ufuncs compute as hybridc does, where both operands have the dtype.
_FLOATS = frozenset([FLOAT16, FLOAT32, FLOAT64])
_EXACT = _FLOATS | {onp.dtype(onp.int8), onp.dtype(onp.uint8), INT32, INT64}


def is_number(x: Any) -> bool:
    """Whether this is a number of Python or a scalar of NumPy, which take the dtype of an array beside them."""
    return isinstance(x, NUMBERS)


def operand(x: Any) -> Any:
    """An input of a function: arrays of ``mx.nd`` and NumPy, and lists, as arrays of ``mx.np``; numbers as they are."""
    if isinstance(x, NUMBERS) or is_symbol(x):
        return x
    if isinstance(x, NDArray):
        return as_numpy(x)
    if isinstance(x, onp.ndarray):
        return ndarray(x)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(x, list | tuple):
        return ndarray(onp.asarray(x, FLOAT32))  # pyright: ignore[reportUnknownArgumentType]
    raise ArgumentTypeError(f"inputs of mx.np must be arrays or numbers, got {type(x).__name__}; use mx.np.array(…)")


def dtype_of(x: Any) -> Any:
    """The dtype of an array or symbol."""
    return onp.dtype(x.dtype)


def cast(x: Any, dtype: Any) -> Any:
    """The values in a dtype; the array itself if it has it."""
    return x if dtype_of(x) == onp.dtype(dtype) else function("cast")(x, dtype=dtype)


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """The elements in another shape of as many."""
    return x if x.shape == shape else function("reshape_to")(x, shape=shape)


def into(result: Any, out: Any) -> Any:
    """A result, or written into the caller's ``out=``."""
    return result if out is None else function("identity")(result, out=out)


def applied(op: Operator, inputs: Sequence[Any], out: Any = None, rule: NumpyRule | None = None) -> Any:
    """An operator on arrays, promoted to a common dtype, and numbers."""
    rule = rule or op.NUMPY
    inputs = [operand(x) for x in inputs]
    numbers = [x for x in inputs if is_number(x)]
    dtype = rule.computed([dtype_of(x) for x in inputs if not is_number(x)], numbers)
    result = invoke(op, [x if is_number(x) else cast(x, dtype) for x in inputs])
    return into(result if rule.result is None else cast(result, rule.result), out)


def call(name: str, *inputs: Any, out: Any = None, **attrs: Any) -> Any:
    """The operator that is called ``name``, with its attributes, by :func:`applied`."""
    return applied(of_function(name).bind(**attrs), inputs, out)


def _native(cls: type[Operator], ufunc: Any) -> tuple[Any, frozenset[Any]]:
    """What computes an operator on NumPy arrays of one dtype, and of which dtypes."""
    rule = cls.NUMPY
    eager = ufunc if rule.result is not None and ufunc is not None else cls.bind().eager
    if rule.result is not None and ufunc is None:
        return eager, frozenset()
    return eager, _FLOATS if rule.inexact else _EXACT | {BOOL} if rule.result is not None else _EXACT


def unary(name: str, operator: str, ufunc: Any, doc: str) -> Callable[..., Any]:
    """The function ``mx.np.<name>`` of one array, which is an operator; of a number it is NumPy's ``ufunc``."""
    op = of_function(operator).bind()
    eager, dtypes = _native(type(op), ufunc)

    def apply(x: Any, out: Any = None, **kwargs: Any) -> Any:
        if type(x) is ndarray and out is None and not kwargs and not STATE.recording and STATE.trace is None:
            data = x._data
            if data.dtype in dtypes and not RECORDER.operators:
                try:
                    return ndarray(onp.asarray(eager(data)))
                except Exception as error:
                    explain(op, [data], error)
                    raise
        if kwargs:
            check_ufunc(name, kwargs)
        if isinstance(x, NUMBERS):
            return ufunc(x).item() if ufunc is not None else applied(op, [ndarray(onp.asarray(x))], out).item()
        return applied(op, [x], out)

    return _named(apply, name, doc)


def binary(name: str, operator: str, ufunc: Any, doc: str) -> Callable[..., Any]:
    """The function ``mx.np.<name>`` of two arrays that broadcast; of two numbers it is NumPy's ``ufunc``."""
    op = of_function(operator).bind()
    eager, dtypes = _native(type(op), ufunc)
    numbers = dtypes & _FLOATS

    def apply(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None and not kwargs and not STATE.recording and STATE.trace is None:
            arrays = None
            if type(x1) is ndarray:
                first = x1._data
                if type(x2) is ndarray:
                    second = x2._data
                    if first.dtype is second.dtype and first.dtype in dtypes:
                        arrays = first, second
                elif (type(x2) is float or type(x2) is int) and first.dtype in numbers:
                    arrays = first, first.dtype.type(x2)
            elif type(x2) is ndarray and (type(x1) is float or type(x1) is int) and x2._data.dtype in numbers:
                arrays = x2._data.dtype.type(x1), x2._data
            if arrays is not None and not RECORDER.operators:
                try:
                    return ndarray(onp.asarray(eager(*arrays)))
                except Exception as error:
                    explain(op, [onp.asarray(a) for a in arrays], error)
                    raise
        if kwargs:
            check_ufunc(name, kwargs)
        if isinstance(x1, NUMBERS) and isinstance(x2, NUMBERS):
            return ufunc(x1, x2).item()
        return applied(op, [x1, x2], out)

    return _named(apply, name, doc)


def _named(apply: Any, name: str, doc: str) -> Callable[..., Any]:
    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = "hybridc.np"
    apply.__doc__ = doc
    return apply


# The keywords of NumPy's ufuncs that are accepted with these values only, and the values that others may have.
UFUNC_DEFAULTS = {"where": True, "casting": "same_kind", "order": "K", "dtype": None, "subok": True}
CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")
DTYPES = (onp.int8, onp.uint8, onp.int32, onp.int64, onp.float16, onp.float32, onp.float64)


def np_ufunc_legal_option(key: str, value: Any) -> bool:
    """Whether NumPy's ufuncs take such a keyword with such a value."""
    match key:
        case "where":
            return True
        case "casting":
            return value in CASTINGS
        case "order":
            return isinstance(value, str)
        case "dtype":
            return value in DTYPES or value in [d.__name__ for d in DTYPES]
        case "subok":
            return isinstance(value, bool)
        case _:
            return False


def check_ufunc(name: str, kwargs: dict[str, Any]) -> None:
    """Raise unless the keywords of a ufunc have their defaults."""
    for key, value in kwargs.items():
        if key not in UFUNC_DEFAULTS:
            raise TypeError(f"{key} is an invalid keyword to function '{name}'")
        if value is not UFUNC_DEFAULTS[key] and value != UFUNC_DEFAULTS[key]:
            if np_ufunc_legal_option(key, value):
                raise NotImplementedError(f"{key}={value} is not implemented yet for operator {name}")
            raise TypeError(f"{key}={value} not understood for operator {name}")
