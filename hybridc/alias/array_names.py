"""What NumPy's arrays no longer do, for programs of MXNet's time: ``float()`` of an array of one element, and methods.

NumPy 2.4 raises for ``float(x)``, ``int(x)``, ``math.sqrt(x)`` and ``"%f" % x`` of ``x = np.ones(1)``, as ``asnumpy()``
of a loss is. ``np.ndarray`` is a type of C, whose attributes Python does not set, so they are entered into its
dictionary, and the two slots for numbers are filled as CPython fills them for a class of Python with these methods.
"""

from __future__ import annotations

import ctypes
import gc
import warnings
from typing import Any

import numpy as np

# Numbers of slots for PyType_GetSlot (typeslots.h), and their words in PyNumberMethods (cpython/object.h).
_SLOTS = {"__float__": (11, 18), "__int__": (26, 16)}
_WORD = ctypes.sizeof(ctypes.c_void_p)
# Words of a type between its object header with ob_size and tp_as_number (cpython/object.h).
_WORDS_BEFORE_NUMBERS = 9


def add() -> None:
    """Give arrays what they lack; what they have stays."""
    methods: dict[str, Any] = gc.get_referents(vars(np.ndarray))[0]
    for function in (_itemset, _newbyteorder, _ptp, _tostring):
        methods.setdefault(function.__name__[1:], function)
    if not _is_scalar(np.ones(1)):
        _fill_slots(methods)
    _modified(np.ndarray)


def _is_scalar(x: Any) -> bool:
    """Whether an array of one element in one dimension is a number without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            float(x)
        except (TypeError, DeprecationWarning):
            return False
    return True


class _Number:
    """A class of Python whose slots call its methods: CPython's own functions, which look the methods up."""

    def __float__(self) -> float:
        return 0.0

    def __int__(self) -> int:
        return 0


def _fill_slots(methods: dict[str, Any]) -> None:
    """Let ``np.ndarray`` find ``__float__`` and ``__int__`` in its dictionary, if types lie in memory as expected."""
    address = id(np.ndarray) + object.__basicsize__ + _WORD + _WORDS_BEFORE_NUMBERS * _WORD
    numbers = ctypes.c_void_p.from_address(address).value
    slot = ctypes.pythonapi.PyType_GetSlot
    slot.restype, slot.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    if not numbers:
        return
    words = {name: ctypes.c_void_p.from_address(numbers + _WORD * word) for name, (_, word) in _SLOTS.items()}
    if any(words[name].value != slot(np.ndarray, number) for name, (number, _) in _SLOTS.items()):
        return
    methods.update(__float__=_as_float, __int__=_as_int, __complex__=_as_complex)
    for name, (number, _) in _SLOTS.items():
        words[name].value = slot(_Number, number)


def _modified(changed: type) -> None:
    """Forget what was looked up in a type."""
    forget = ctypes.pythonapi.PyType_Modified
    forget.argtypes = [ctypes.py_object]
    forget(changed)


def _item(array: np.ndarray) -> Any:
    if array.size != 1:
        raise TypeError("only size-1 arrays can be converted to Python scalars")
    return array.item()


def _as_float(self: np.ndarray) -> float:
    return float(_item(self))


def _as_int(self: np.ndarray) -> int:
    return int(_item(self))


def _as_complex(self: np.ndarray) -> complex:
    return complex(_item(self))


def _tostring(self: np.ndarray, order: Any = "C") -> bytes:
    return self.tobytes(order)


def _ptp(self: np.ndarray, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    return np.ptp(self, axis, out, keepdims)


def _itemset(self: np.ndarray, *args: Any) -> None:
    *where, value = args
    if not where and self.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    index = where[0] if len(where) == 1 else tuple(where) if where else 0
    if isinstance(index, tuple):
        self[index] = value
    else:
        self.flat[index] = value


def _newbyteorder(self: np.ndarray, new_order: Any = "S") -> np.ndarray:
    return self.view(self.dtype.newbyteorder(new_order))
