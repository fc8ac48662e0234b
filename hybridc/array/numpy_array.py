"""Arrays of ``mx.np``: another class over the buffer and the tape of an NDArray, with NumPy's semantics.

Which class the results of an operator have follows from its inputs: one of ``mx.np`` among them decides. The methods
and operators of :class:`NumpyMethods`, which symbols have too, are the functions of ``mx.np``; that package puts them
there.
"""

# pyright: reportPrivateUsage=false, reportIncompatibleMethodOverride=false
# An array's buffer and its tape entry belong to all classes of arrays; methods have NumPy's arguments for MXNet's.

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy.typing as npt

from hybridc.array.ndarray import NDArray, NumberedNDArray
from hybridc.context import Context
from hybridc.ground.hooks import HOOKS
from hybridc.ground.state import STATE

if TYPE_CHECKING:
    from hybridc.array.numpy_methods import NumpyFunctionMethods
else:
    NumpyFunctionMethods = object


class NumpyMethods(NumpyFunctionMethods):
    """What arrays and symbols of ``mx.np`` have: NumPy's methods. They are made of the functions of ``mx.np``."""

    __slots__ = ()

    def as_np_ndarray(self) -> Self:
        """The array itself."""
        return self

    @property
    def T(self) -> Self:
        """The transpose."""
        return HOOKS.np().transpose(self)

    def __getitem__(self, key: Any) -> Self:
        return HOOKS.getitem(self, key)


class ndarray(NumpyMethods, NDArray):
    """An array with NumPy's semantics: ``mx.np.array(…)`` makes one, ``x.as_np_ndarray()`` one of an NDArray's memory.

    Arithmetic promotes dtypes, comparisons give booleans, ``x.sum()`` has the shape ``()``.
    """

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The dtype, as NumPy's arrays have it (``dtype('float32')``)."""
        return self._data.dtype

    @property
    def grad(self) -> Self:
        """The gradient buffer that ``attach_grad`` made, or None."""
        return None if self._leaf is None else as_numpy(self._leaf.grad)  # pyright: ignore[reportReturnType]

    def as_nd_ndarray(self) -> NDArray:
        """An array of ``mx.nd`` on the same memory, which autograd knows as the same."""
        return legacy(self)

    def copyto(self, other: NDArray | Context) -> Any:
        """Copy the values into another array, or to a device."""
        copied = super().copyto(other)
        return as_numpy(copied) if isinstance(other, Context) else copied

    def __repr__(self) -> str:
        text = repr(self.asnumpy())
        cut = text.rfind("dtype=")
        if cut >= 0:
            text = text[: text.rindex(",", 0, cut)] + ")"
        if self._data.dtype.name not in ("float32", "bool"):  # the dtypes of numbers and comparisons
            text = f"{text[:-1]}, dtype={self._data.dtype})"
        return text if self.context.device_type != "gpu" else f"{text[:-1]}, ctx={self.context})"

    def __str__(self) -> str:
        return str(self.asnumpy())

    def __format__(self, spec: str) -> str:
        return format(self.asnumpy(), spec) if self._data.ndim else format(self.item(), spec)

    def __len__(self) -> int:
        if not self._data.ndim:
            raise TypeError("len() of unsized object")
        return len(self._data)

    def __reduce__(self) -> tuple[Any, ...]:
        return numpy_array, (self.asnumpy(),)

    def item(self, *args: Any) -> Any:
        """An element as a Python number: the only one, or that at an index."""
        return self._numbers().item(*args)

    def __iter__(self) -> Iterator[Self]:
        if not self._data.ndim:
            raise TypeError("iteration over a 0-d array")  # at once: NumPy asks so whether x has elements
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        """Whether an element equals the value."""
        # COMPAT(mxnet): MXNet compares rows, which only those of one element are equal or not.
        return bool((self == value).any())

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        """``mx.np``, for libraries that take arrays of any kind."""
        return HOOKS.np()

    def __complex__(self) -> complex:
        return complex(self.item())

    def __round__(self, ndigits: int | None = None) -> Self:
        return HOOKS.np().round(self, ndigits or 0)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return HOOKS.np().called_by_numpy(func, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return HOOKS.np().called_as_ufunc(ufunc, method, inputs, kwargs)


class NumberedNumpyArray(ndarray, NumberedNDArray):
    """An array of ``mx.np`` on a CPU device with a number or a name."""

    __slots__ = ()

    def copy(self) -> Any:
        """A copy."""
        return as_numpy(super().copy())

    def _like(self, data: Any) -> NDArray:
        made = NumberedNumpyArray.__new__(NumberedNumpyArray)
        NumberedNDArray.__init__(made, data, self.context)
        return made


#: The class of ``mx.np`` for each class of arrays of ``mx.nd``; :mod:`hybridc.nd.on_device` adds that of GPUs.
NUMPY_CLASSES: dict[type[NDArray], type[NDArray]] = {NDArray: ndarray, NumberedNDArray: NumberedNumpyArray}
_LEGACY_CLASSES: dict[type[NDArray], type[NDArray]] = {}


def numpy_array(data: npt.NDArray[Any]) -> ndarray:
    """The array of ``mx.np`` on a NumPy array."""
    return ndarray(data)


def is_numpy(x: Any) -> bool:
    """Whether this is an array or a symbol of ``mx.np``."""
    return isinstance(x, NumpyMethods)


def _seen_as(x: NDArray, cls: type[NDArray]) -> Any:
    """An array as one of another class, on the same memory and the same entry of the tape."""
    y = cls.__new__(cls)
    y._data, y._tape, y._leaf = x._data, x._tape, x._leaf
    if isinstance(x, NumberedNDArray):
        y._context = x._context  # pyright: ignore[reportAttributeAccessIssue]
    return y


def as_numpy(x: Any) -> Any:
    """Arrays, also those in lists and tuples, as arrays of ``mx.np``; symbols as such symbols."""
    if x.__class__ in (list, tuple):
        return type(x)([as_numpy(part) for part in x])
    if isinstance(x, NumpyMethods):
        return x
    if isinstance(x, NDArray):
        return _seen_as(x, NUMPY_CLASSES[type(x)])
    return x.as_np_ndarray() if hasattr(x, "as_np_ndarray") else x


def as_default(x: Any) -> Any:
    """An array that is made without inputs, or a list of them, in the class that is the default of this thread."""
    return as_numpy(x) if STATE.np_array else x


@contextlib.contextmanager
def default_class(numpy: bool) -> Generator[None]:
    """Within the ``with`` block, arrays that are made without inputs are of ``mx.np``, or are not."""
    before, STATE.np_array = STATE.np_array, numpy
    if numpy:
        HOOKS.np()  # which gives these arrays their methods
    try:
        yield
    finally:
        STATE.np_array = before


def in_class_of(source: Any, x: Any) -> Any:
    """A new array of ``mx.nd`` in the class of the array it was made of, or in the default class if that was none."""
    return as_numpy(x) if is_numpy(source) or (STATE.np_array and not isinstance(source, NDArray)) else x


def legacy(x: Any) -> Any:
    """An array of ``mx.np`` as one of ``mx.nd``; anything else as it is."""
    if not isinstance(x, ndarray):
        return x
    if not _LEGACY_CLASSES.keys() >= set(NUMPY_CLASSES.values()):
        _LEGACY_CLASSES.update({theirs: ours for ours, theirs in NUMPY_CLASSES.items()})
    return _seen_as(x, _LEGACY_CLASSES[type(x)])
