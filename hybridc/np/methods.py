"""The methods of ``mx.np`` arrays and symbols, which are its functions, and Python's operators."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnnecessaryIsInstance=false
# Arguments are whatever NumPy takes: numbers, lists, arrays, symbols.

from __future__ import annotations

from typing import Any

import numpy as onp

from hybridc.array.functions import function
from hybridc.array.ndarray import NDArray, assign
from hybridc.array.numpy_array import NumpyMethods, ndarray
from hybridc.dialects.numpy_rules import BOOL
from hybridc.errors import MXNetError
from hybridc.np import by_element, reducing, selection, shaping, sums_of_products
from hybridc.np.apply import cast

# Python's operators; ``x + y`` costs one call of the function.
_OPERATORS = {
    "add": by_element.add,
    "sub": by_element.subtract,
    "mul": by_element.multiply,
    "truediv": by_element.true_divide,
    "mod": by_element.mod,
    "pow": by_element.power,
    "floordiv": by_element.floor_divide,
    "divmod": by_element.divmod,
    "and": by_element.bitwise_and,
    "or": by_element.bitwise_or,
    "xor": by_element.bitwise_xor,
    "lshift": by_element.left_shift,
    "rshift": by_element.right_shift,
    "matmul": sums_of_products.matmul,
}
_COMPARISONS = {
    "lt": by_element.less,
    "le": by_element.less_equal,
    "gt": by_element.greater,
    "ge": by_element.greater_equal,
}
# Methods that are functions with the array as the first argument.
_METHODS = {
    **{name: getattr(reducing, name) for name in (
        "all", "any", "argmax", "argmin", "cumsum", "max", "mean", "min", "prod", "ptp", "std", "sum", "var",
    )},
    **{name: getattr(shaping, name) for name in ("ravel", "repeat", "split", "squeeze", "swapaxes", "tile")},
    **{name: getattr(selection, name) for name in ("argsort", "clip", "diagonal", "nonzero", "sort", "take")},
    "dot": sums_of_products.dot,
    "expand_dims": shaping.expand_dims,
    "abs": by_element.absolute,
}  # fmt: skip


def _reflected(apply: Any) -> Any:
    def method(self: Any, other: Any) -> Any:
        return apply(other, self)

    return method


def _reshape(self: Any, *shape: Any, order: str = "C", **kwargs: Any) -> Any:
    """The same elements in another shape, in which one -1 is what is left."""
    if not shape:
        shape = (kwargs.pop("shape", kwargs.pop("newshape", None)),)
    return shaping.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)


def _transpose(self: Any, *axes: Any) -> Any:
    """The axes in another order; in reverse by default."""
    return shaping.transpose(self, (axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes) or None)


def _astype(
    self: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    """The same values in another dtype; a copy, unless ``copy=False`` and the dtype is the same."""
    if order not in ("K", "C", "A") or casting != "unsafe" or not subok:
        raise NotImplementedError("astype: order, casting and subok have their defaults")
    dtype = onp.dtype("float32" if dtype is None else dtype)
    if onp.dtype(self.dtype) == dtype:
        return function("identity")(self) if copy else self
    if dtype == BOOL:
        return by_element.not_equal(self, 0)
    return cast(self, dtype)


def _flatten(self: Any, order: str = "C") -> Any:
    """A copy of all elements in one dimension."""
    return function("identity")(shaping.ravel(self, order))


def _round(self: Any, decimals: int = 0, out: Any = None) -> Any:
    """The elements rounded to so many decimals."""
    return by_element.around(self, decimals, out=out)


def _equal(self: Any, other: Any) -> Any:
    return False if other is None else by_element.equal(self, other)


def _not_equal(self: Any, other: Any) -> Any:
    return True if other is None else by_element.not_equal(self, other)


_UPDATES = {
    "add": by_element.add,
    "subtract": by_element.subtract,
    "multiply": by_element.multiply,
    "divide": by_element.true_divide,
    "modulo": by_element.mod,
    "bitwise_and": by_element.bitwise_and,
    "bitwise_or": by_element.bitwise_or,
    "bitwise_xor": by_element.bitwise_xor,
}
# Python's operators that write into the array and that arrays of ``mx.nd`` lack.
_INPLACE = {"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"}


def updated(self: Any, name: str, other: Any) -> Any:
    """``x = name(x, other)``, written into the array in its dtype."""
    result = _UPDATES[name](self, other)
    if not isinstance(result, NDArray):
        raise MXNetError(
            "inplace operations (+=, -=, ...) change an array from outside the traced block; write x = x + y"
        )
    if result.shape != self.shape:
        raise ValueError(f"non-broadcastable output operand with shape {self.shape} doesn't match {result.shape}")
    assign(result, self)
    return self


def _inplace(name: str) -> Any:
    def method(self: Any, other: Any) -> Any:
        return self._inplace(name, None, other)

    return method


def install() -> None:
    """Give :class:`NumpyMethods` the functions as methods."""
    methods: dict[str, Any] = dict(_METHODS)
    for symbol, apply in _OPERATORS.items():
        methods[f"__{symbol}__"], methods[f"__r{symbol}__"] = apply, _reflected(apply)
    methods |= {f"__{symbol}__": apply for symbol, apply in _COMPARISONS.items()}
    methods |= {
        "__neg__": by_element.negative,
        "__pos__": by_element.positive,
        "__invert__": by_element.bitwise_not,
        "__abs__": by_element.absolute,
        "__eq__": _equal,
        "__ne__": _not_equal,
        "reshape": _reshape,
        "reshape_view": _reshape,
        "transpose": _transpose,
        "astype": _astype,
        "flatten": _flatten,
        "round": _round,
        "_update": updated,
    }
    for name, method in methods.items():
        setattr(NumpyMethods, name, method)
    for symbol, name in _INPLACE.items():
        setattr(ndarray, f"__i{symbol}__", _inplace(name))
    NumpyMethods.__hash__ = object.__hash__
