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

from hybridc.array.autocast import AUTOCAST
from hybridc.array.dispatch import as_scalar, explain, invoke, is_symbol
from hybridc.array.functions import function, step_ufunc
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import as_numpy, ndarray
from hybridc.autograd import record_operator
from hybridc.dialects.numpy_rules import BOOL, INT32, INT64, NumpyRule
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import of_function
from hybridc.dtypes import FLOAT16, FLOAT32, FLOAT64
from hybridc.errors import ArgumentTypeError, DTypeError
from hybridc.ground.display.tracebacks import boundary, hide_frames
from hybridc.ground.events import RECORDER
from hybridc.ground.state import STATE

NUMBERS = (bool, int, float, onp.generic)
INT8, UINT8 = onp.dtype(onp.int8), onp.dtype(onp.uint8)
_FLOATS = frozenset([FLOAT16, FLOAT32, FLOAT64])


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


# Dtypes of NumPy that operators take; functions of a number alone choose among them.
_CANDIDATES = (FLOAT32, FLOAT64, FLOAT16, INT32, INT64, INT8, UINT8, BOOL)


def _native(op: Operator, ufunc: Any) -> tuple[Any, frozenset[Any], Any]:
    """What computes an operator on NumPy arrays of one dtype, of which dtypes, and which of these is the commonest."""
    rule = op.NUMPY
    if rule.result is not None:
        dtypes = frozenset(_CANDIDATES if ufunc is not None else ())
        return ufunc or op.eager, dtypes, FLOAT32
    step = step_ufunc(op)
    chosen = _FLOATS if rule.inexact else _CANDIDATES
    dtypes = frozenset(d for d in chosen if _computes(op, step, d))
    if FLOAT32 in dtypes:  # beside it booleans are numbers, which a rule may count
        dtypes -= {BOOL}
    return step or op.eager, dtypes, FLOAT32 if FLOAT32 in dtypes else INT32


def _computes(op: Operator, ufunc: Any, dtype: Any) -> bool:
    """Whether an operator takes arrays of a dtype, and its ufunc computes in that."""
    count = len(op.INPUTS)
    try:
        op.infer_type([dtype] * count)
        return ufunc is None or ufunc.resolve_dtypes((*[dtype] * count, None))[-1] == dtype
    except (DTypeError, TypeError):
        return False


def recorded(op: Operator, inputs: Sequence[Any], arrays: Sequence[Any], result: Any) -> Any:
    """What an operator has just computed, as an array that is on the tape."""
    y = ndarray(onp.asarray(result))
    operands = [x if isinstance(x, NDArray) else ndarray(onp.asarray(a)) for x, a in zip(inputs, arrays, strict=True)]
    record_operator(op, operands, [x._data for x in operands], [y])
    return y


def unary(name: str, operator: str, ufunc: Any, doc: str) -> Callable[..., Any]:
    """The function ``mx.np.<name>`` of one array, which is an operator; of a number it is NumPy's ``ufunc``."""
    op = of_function(operator).bind()
    eager, dtypes, common_dtype = _native(op, ufunc)

    @boundary
    def apply(x: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            if type(x) is ndarray and out is None and not kwargs and STATE.trace is None:
                data = x._data
                dtype = data.dtype
                if (dtype is common_dtype or dtype in dtypes) and not (RECORDER.operators or AUTOCAST.rules):
                    try:
                        result = eager(data)
                    except Exception as error:
                        explain(op, [data], error)
                        raise
                    if STATE.recording:
                        return recorded(op, (x,), (data,), result)
                    return ndarray(result if type(result) is onp.ndarray else onp.asarray(result))
            if kwargs:
                check_ufunc(name, kwargs)
            if isinstance(x, NUMBERS):
                return ufunc(x).item() if ufunc is not None else applied(op, [ndarray(onp.asarray(x))], out).item()
            return applied(op, [x], out)
        except Exception as error:
            hide_frames(error)
            raise

    return _named(apply, name, doc)


def binary(name: str, operator: str, ufunc: Any, doc: str) -> Callable[..., Any]:
    """The function ``mx.np.<name>`` of two arrays that broadcast; of two numbers it is NumPy's ``ufunc``."""
    op = of_function(operator).bind()
    eager, dtypes, common_dtype = _native(op, ufunc)
    compares = op.NUMPY.result is not None  # NumPy compares numbers beside arrays as they are

    def converted(x: Any, dtype: Any) -> Any:
        """A number beside an array, as the operator takes it; None if another dtype is computed in."""
        if dtype is not FLOAT32 and dtype not in dtypes:
            return None
        if compares:
            return x if dtype is not BOOL else None
        if type(x) is int:
            return None if dtype is BOOL else as_scalar(x, dtype)
        return dtype.type(x) if dtype in _FLOATS else None

    @boundary
    def apply(x1: Any, x2: Any, out: Any = None, **kwargs: Any) -> Any:
        try:
            if out is None and not kwargs and STATE.trace is None:
                first = second = None
                if type(x1) is ndarray:
                    first = x1._data
                    if type(x2) is ndarray:
                        second = x2._data
                        dtype = first.dtype
                        if dtype is not second.dtype or (dtype is not common_dtype and dtype not in dtypes):
                            first = None
                    elif type(x2) is float or type(x2) is int:
                        second = converted(x2, first.dtype)
                elif type(x2) is ndarray and (type(x1) is float or type(x1) is int):
                    second = x2._data
                    first = converted(x1, second.dtype)
                if first is not None and second is not None and not (RECORDER.operators or AUTOCAST.rules):
                    try:
                        result = eager(first, second)
                    except Exception as error:
                        explain(op, [onp.asarray(a) for a in (first, second)], error)
                        raise
                    if STATE.recording:
                        return recorded(op, (x1, x2), (first, second), result)
                    return ndarray(result if type(result) is onp.ndarray else onp.asarray(result))
            if kwargs:
                check_ufunc(name, kwargs)
            if isinstance(x1, NUMBERS) and isinstance(x2, NUMBERS):
                return ufunc(x1, x2).item()
            return applied(op, [x1, x2], out)
        except Exception as error:
            hide_frames(error)
            raise

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
    """Whether NumPy's ufuncs take such a keyword with such a value.

    Parameters
    ----------
    key:
        The name of the keyword: ``where``, ``casting``, ``order``, ``dtype`` or ``subok``; others are not taken.
    value:
        The value.
    """
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
        if value is not UFUNC_DEFAULTS[key] and (hasattr(value, "shape") or value != UFUNC_DEFAULTS[key]):
            if np_ufunc_legal_option(key, value):
                raise NotImplementedError(f"{key}={value} is not implemented yet for operator {name}")
            raise TypeError(f"{key}={value} not understood for operator {name}")
