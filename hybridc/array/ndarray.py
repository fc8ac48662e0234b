"""NDArray: an n-dimensional array on a device, with MXNet's legacy semantics."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import numpy.typing as npt

from hybridc.array.fluent import Fluent
from hybridc.context import CPU, Context, check_device, working_device
from hybridc.dialects.array.shape import resolve_shape
from hybridc.dtypes import STORED
from hybridc.errors import ArgumentTypeError, AttributeValueError, CheckError, MXNetError, OneElementError
from hybridc.ground.absent import explain_habits, without_habits
from hybridc.ground.display.arguments_text import typed
from hybridc.ground.display.tracebacks import boundary, hide_frames, hides_frames
from hybridc.ground.events import RECORDER
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import is_users, user_depth
from hybridc.ground.state import STATE
from hybridc.ground.watches import shared, written
from hybridc.sparse_storage import zeros

if TYPE_CHECKING:
    from hybridc.array.numpy_array import ndarray
    from hybridc.array.sparse import CSRNDArray, RowSparseNDArray


def _updating(name: str, ufunc: Any) -> Callable[[NDArray, Any], NDArray]:
    """The method of ``+=`` or its like: ``ufunc``, or the operator ``name``, into the array's buffer."""

    @boundary
    def method(self: NDArray, other: Any) -> NDArray:
        try:
            return self._inplace(name, ufunc, other)
        except Exception as error:
            hide_frames(error)
            raise

    return method


class NDArray(Fluent):
    """An array on the CPU: one NumPy buffer, or a view of one.

    Operators run at once; under ``autograd.record()`` they are also put on the tape. NumPy's functions take
    NDArrays and give NumPy arrays; Python's operators with an NDArray on either side give NDArrays. Basic
    indexing and ``x.reshape(...)`` give views, every other operator a new array. Most operators are methods, too:
    ``x.sum(axis=1)`` is ``mx.nd.sum(x, axis=1)``.

    ``mx.nd.array`` makes one of a list, a number or a NumPy array.

    Parameters
    ----------
    data:
        The NumPy array whose memory the array has; ``mx.nd.from_numpy`` makes an NDArray of it, too.
    writable:
        Whether the values can be assigned.

    Examples
    --------
    >>> x = mx.nd.array([[1, 2, 3], [4, 5, 6]])
    >>> (2 * x - 1).tolist()
    [[1.0, 3.0, 5.0], [7.0, 9.0, 11.0]]
    >>> x.sum(axis=1).tolist(), x.T.shape, float(x[0, 1].asscalar())
    ([6.0, 15.0], (3, 2), 2.0)
    >>> x[0] = 0
    >>> x.tolist()
    [[0.0, 0.0, 0.0], [4.0, 5.0, 6.0]]
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad.tolist()
    [[0.0, 0.0, 0.0], [8.0, 10.0, 12.0]]
    """

    __slots__ = ("__weakref__", "_data", "_leaf", "_tape")
    __array_priority__: float = 1000.0

    def __dir__(self) -> list[str]:
        return without_habits("NDArray", super().__dir__(), type(self))

    def __init__(self, data: npt.NDArray[Any], writable: bool = True) -> None:
        self._data = data if writable else _readonly(data)
        # Its tape entry; or, for a constant, a weak reference to the last node of the tape that reads it.
        self._tape: Any = None
        self._leaf: Any = None  # its gradient buffer, if it has one

    # --- what it is ----------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of all dimensions."""
        return self._data.shape

    @property
    def dtype(self) -> Any:
        """The element type, as a NumPy scalar type (``numpy.float32``)."""
        return self._data.dtype.type

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self._data.ndim

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._data.size

    @property
    def context(self) -> Context:
        """The device that holds the array."""
        return CPU

    ctx = context
    device = context

    @property
    def stype(self) -> str:
        """The storage type: ``'default'`` (dense), ``'csr'`` or ``'row_sparse'``."""
        return "default"

    @property
    def T(self) -> Self:
        """The transpose."""
        return self.transpose()

    @property
    def grad(self) -> Self:
        """The gradient buffer that ``attach_grad`` made, or None."""
        leaf = self._leaf
        if leaf is not None:
            return leaf.grad  # pyright: ignore[reportReturnType]
        if self._tape.__class__ is tuple:
            warnings.warn(
                "this array was computed under autograd.record() and keeps no gradient: grad is None. Variables have "
                "one, by attach_grad() before record(); of others autograd.grad(head, [x], retain_graph=True) gives it",
                stacklevel=user_depth(),
            )
        # The type says that there is one: who reads a gradient has attached it.
        return None  # pyright: ignore[reportReturnType]

    @property
    def writable(self) -> bool:
        """Whether the values can be assigned."""
        return self._data.flags.writeable

    def __len__(self) -> int:
        return len(self._data)

    @boundary
    def reshape(self, *shape: Any, **kwargs: Any) -> Self:
        """The same elements in another shape, sharing memory; see ``nd.reshape`` for 0, -1, -2, -3 and -4.

        Parameters
        ----------
        *shape:
            The sizes, as numbers or as one tuple: -1 is what is left, 0 what it was.
        **kwargs:
            ``shape``, a tuple instead; ``reverse``, whether special sizes are matched from the last axis.

        Examples
        --------
        >>> x = mx.nd.arange(6)
        >>> y = x.reshape((2, -1))
        >>> y.shape
        (2, 3)
        >>> y[0, 0] = 9
        >>> x.tolist()
        [9.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        >>> y.reshape(0, 1, -1).shape
        (2, 1, 3)
        """
        try:
            if STATE.trace is not None or (STATE.recording and self._entry is not None):
                return self._recorded_reshape(shape, kwargs)
            if len(shape) == 1 and not isinstance(shape[0], int):
                shape = tuple(shape[0])
            elif not shape:
                shape = _as_shape(kwargs.get("shape"))
            return self._like(
                self._data.reshape(resolve_shape(self._data.shape, shape, bool(kwargs.get("reverse", False))))
            )
        except Exception as error:
            hide_frames(error)
            raise

    def _like(self, data: Any) -> Self:
        """An array of this buffer on the device of this one."""
        return type(self)(data)

    def _recorded_reshape(self, shape: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        y: Any = super().reshape(*shape, **kwargs)
        if isinstance(y, NDArray):
            y._data = self._data.reshape(y.shape)  # shares memory, as outside of record()
        return y

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n{self.asnumpy()!s}\n<NDArray {shape} @{self.context}>"

    def _repr_html_(self) -> str:
        """The first rows and columns, and nothing computed beyond them."""
        from hybridc.ground.display.html import array_html

        title = f"{type(self).__name__} {typed(self.dtype, self.shape)} @{self.context}"
        return array_html(title, self.shape, lambda key: values_of(self.detach()[key]))

    # --- values --------------------------------------------------------------------------------------------

    def asnumpy(self) -> npt.NDArray[Any]:
        """A NumPy copy of the values.

        Examples
        --------
        >>> mx.nd.ones(2).asnumpy()
        array([1., 1.], dtype=float32)
        """
        return self._numbers().copy()

    def _numbers(self) -> npt.NDArray[Any]:
        """The buffer, of which values become Python's: what a trace would then contain is noted."""
        if STATE.trace is not None and STATE.reading is not None:
            STATE.reading.numbers(self)
        return self._data

    def asscalar(self) -> Any:
        """The value of an array of one element, as a NumPy scalar; other arrays are a OneElementError.

        Examples
        --------
        >>> float(mx.nd.array([2.5]).asscalar())
        2.5
        """
        if self._data.size != 1:
            raise OneElementError(
                f"The current array is not a scalar: asscalar needs one element, its shape is {self.shape}"
            )
        return self._numbers().reshape(-1)[0]

    item = asscalar

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self._data.size != 1:
            raise OneElementError(
                f"the format {spec!r} is that of a number, and the array has the shape {self.shape}; print the array, "
                "or numpy.array2string(x.asnumpy(), …)"
            )
        return format(self.asscalar(), spec)

    def tolist(self) -> list[Any]:
        """The values as nested lists.

        Examples
        --------
        >>> mx.nd.array([[1], [2]]).tolist()
        [[1.0], [2.0]]
        """
        return self._numbers().tolist()

    def __bool__(self) -> bool:
        if self._data.size > 1:
            raise ValueError(
                "The truth value of an NDArray with multiple elements is ambiguous: "
                f"its shape is {self.shape}; reduce it to one element first"
            )
        return bool(self._numbers().any())

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu":
            raise TypeError("only integer arrays of one element can be an index")
        return int(self.asscalar())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if STATE.recording and self._entry is not None:
            _warn_of_numpy()
        if dtype is not None and np.dtype(dtype) != self._data.dtype:
            if copy is False:
                raise ValueError(f"an array of dtype {self._data.dtype} cannot become {dtype} without a copy")
            return self._numbers().astype(dtype)
        return self._numbers().copy() if copy else self._given_away()

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self._data.dtype in STORED:
            raise MXNetError(
                f"an array of {self._data.dtype} on the CPU cannot be shared by DLPack, which NumPy does without it; "
                "share x.astype('float32')"
            )
        return self._given_away().__dlpack__(**kwargs)

    def _given_away(self) -> npt.NDArray[Any]:
        """The buffer, for code that may write into it unnoticed."""
        shared(self._data)
        return self._numbers()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule that shares memory."""
        return self.__dlpack__()

    to_dlpack_for_write = to_dlpack_for_read

    def wait_to_read(self) -> None:
        """Return when the values are there; on the CPU they always are."""

    wait_to_write = wait_to_read

    # --- copies --------------------------------------------------------------------------------------------

    def copyto(self, other: NDArray | Context) -> Any:
        """Copy the values into another array, or to a device.

        Parameters
        ----------
        other:
            An array of the same shape, on any device, whose dtype the values get; or a device, such as ``mx.gpu(0)``.

        Returns
        -------
        The other array, or a new one on the device.

        Examples
        --------
        >>> x, y = mx.nd.ones(2), mx.nd.zeros(2)
        >>> x.copyto(y) is y
        True
        >>> y.tolist()
        [1.0, 1.0]
        """
        if isinstance(other, Context):
            return recorded_copy(self, _copied(self, check_device(other)))
        if other is self:
            return other
        if not isinstance(other, NDArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ArgumentTypeError(f"copyto: expected an NDArray or a Context such as mx.cpu(), got {other!r}")
        if other.shape != self.shape:
            raise MXNetError(f"copyto: cannot copy shape {self.shape} into shape {other.shape}")
        check_unrecorded(other)
        assign(self, other)
        return recorded_copy(self, other)

    def as_in_context(self, context: Context) -> Self:
        """This array if it is on that device, else a copy there.

        Parameters
        ----------
        context:
            The device: ``mx.cpu()``, ``mx.gpu(0)``. An MXNetError is raised if it does not exist.

        Examples
        --------
        >>> x = mx.nd.ones(2)
        >>> x.as_in_context(mx.cpu()) is x
        True
        """
        return self if check_device(context) == self.context else self.copyto(context)

    as_in_ctx = as_in_context
    to_device = as_in_context

    def asnative(self) -> npt.NDArray[Any]:
        """The NumPy buffer itself, not a copy."""
        shared(self._data)
        return self._data

    def as_np_ndarray(self) -> ndarray:
        """An array of ``mx.np`` on the same memory, which autograd knows as the same."""
        return HOOKS.np().as_numpy(self)

    @overload
    def tostype(self, stype: Literal["csr"]) -> CSRNDArray: ...

    @overload
    def tostype(self, stype: Literal["row_sparse"]) -> RowSparseNDArray: ...

    @overload
    def tostype(self, stype: str) -> NDArray: ...

    def tostype(self, stype: str) -> NDArray:
        """The array in another storage type.

        Parameters
        ----------
        stype:
            ``'csr'``, of matrices, ``'row_sparse'``, or ``'default'``, dense: the array itself if it is.

        Examples
        --------
        >>> x = mx.nd.array([[0, 0], [1, 2]]).tostype("row_sparse")
        >>> x.indices.tolist(), x.data.tolist()
        ([1], [[1.0, 2.0]])
        """
        return self if stype == self.stype == "default" else HOOKS.cast_storage(self, stype)

    # --- autograd ------------------------------------------------------------------------------------------

    @property
    def _entry(self) -> tuple[Any, int] | None:
        """A node of the tape and which of its outputs this is; None for a constant, as all are of a freed graph."""
        tape = self._tape
        return tape if tape.__class__ is tuple and tape[0].is_alive else None

    @_entry.setter
    def _entry(self, entry: tuple[Any, int] | None) -> None:
        self._tape = entry

    @property
    def _fresh_grad(self) -> bool:
        """Whether ``backward`` wrote the gradient since this was last set to False, as trainers do."""
        return self._leaf is not None and self._leaf.fresh

    @_fresh_grad.setter
    def _fresh_grad(self, state: bool) -> None:
        if self._leaf is None:
            raise MXNetError("_fresh_grad: the array is no variable and has no gradient; call attach_grad() first")
        self._leaf.fresh = bool(state)

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Allocate a gradient buffer, so that ``backward`` computes this array's gradient.

        Parameters
        ----------
        grad_req:
            ``'write'``: each ``backward`` overwrites the gradient; ``'add'``: it adds to it; ``'null'``: none.
        stype:
            The storage type of the gradient; None for that of the array.

        Examples
        --------
        >>> x = mx.nd.array([1, 2])
        >>> x.attach_grad()
        >>> with autograd.record():
        ...     y = x * x
        >>> y.backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        stype = self.stype if stype is None else stype
        if stype not in ("default", "csr", "row_sparse"):
            raise AttributeValueError(
                f"attach_grad: unknown storage type {stype!r}; there are 'default', 'csr' and 'row_sparse'"
            )
        HOOKS.autograd().mark_variables([self], [self._zeros(stype)], grad_req)

    def _zeros(self, stype: str) -> NDArray:
        """Zeros in the shape of this array, on its device, of a storage type."""
        if stype == "default":
            return self._like(np.zeros_like(self._data))
        return HOOKS.wrap_sparse(zeros(stype, self.shape, self._data.dtype))

    def drop_grad(self) -> None:
        """Free the gradient buffer."""
        self._leaf = None
        self._entry = None

    def detach(self) -> Self:
        """The same values, sharing memory, unknown to autograd: no gradient flows through the result.

        Examples
        --------
        >>> x = mx.nd.array([3])
        >>> x.attach_grad()
        >>> with autograd.record():
        ...     y = x * x.detach()
        >>> y.backward()
        >>> x.grad.tolist()
        [3.0]
        """
        return self._like(self._data)

    @hides_frames
    def backward(self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True) -> None:
        """Compute the gradients of this array with respect to the marked variables.

        They are those of ``sum(self * out_grad)``, and lie in the variables' ``grad``.

        Parameters
        ----------
        out_grad:
            The gradient of this array, of its shape; None for ones.
        retain_graph:
            Keep what was recorded, so that ``backward`` can be called again.
        train_mode:
            Whether the operators' gradients are those of training, as opposed to prediction.

        Examples
        --------
        >>> x = mx.nd.array([1, 2])
        >>> x.attach_grad()
        >>> with autograd.record():
        ...     y = x**3
        >>> y.backward(mx.nd.array([1, 10]))
        >>> x.grad.tolist()
        [3.0, 120.0]
        """
        HOOKS.autograd().backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)

    # --- indexing ------------------------------------------------------------------------------------------

    if TYPE_CHECKING:  # by operators, which need this class: hybridc.array.indexing puts them here

        def __getitem__(self, key: Any) -> Self: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...
        def _update(self, name: str, other: Any) -> Self: ...

    @staticmethod
    def _basic_indexing_slice_is_contiguous(slc_key: tuple[slice, ...], shape: tuple[int, ...]) -> bool:
        """Whether the elements of a basic key follow each other in an array of a shape."""
        return np.empty(shape, bool)[slc_key].flags.c_contiguous

    def __iter__(self) -> Iterator[Self]:
        for i in range(len(self)):
            yield self[i]

    # --- in place -------------------------------------------------------------------------------------------

    def slice_assign(  # pyright: ignore[reportIncompatibleMethodOverride]  (as in MXNet, of an array only)
        self, rhs: Any, begin: Any, end: Any, step: Any = ()
    ) -> Self:
        """Write ``rhs`` into the slice ``[begin:end:step]`` of this array; returns the array.

        Examples
        --------
        >>> mx.nd.zeros(4).slice_assign(mx.nd.ones(2), begin=1, end=3).tolist()
        [0.0, 1.0, 1.0, 0.0]
        """
        return HOOKS.function("slice_assign")(self, rhs, begin, end, step, out=self)

    def slice_assign_scalar(  # pyright: ignore[reportIncompatibleMethodOverride]  (as in MXNet, of an array only)
        self, value: float, begin: Any, end: Any, step: Any = ()
    ) -> Self:
        """Write the number ``value`` into the slice ``[begin:end:step]`` of this array; returns the array.

        Examples
        --------
        >>> mx.nd.zeros(4).slice_assign_scalar(7, begin=1, end=3).tolist()
        [0.0, 7.0, 7.0, 0.0]
        """
        return HOOKS.function("slice_assign_scalar")(self, value, begin, end, step, out=self)

    def _inplace(self, name: str, ufunc: Any, other: Any) -> Self:
        """``ufunc`` into this buffer; where dtypes or shapes need care, the operator ``name`` into it."""
        if STATE.recording:
            check_unrecorded(self)
            if isinstance(other, NDArray) and other._entry is not None:
                raise recorded_inplace()
        data = self._data
        if STATE.trace is None and data.dtype.kind == "f" and ufunc is not None and not RECORDER.operators:
            if (
                isinstance(other, NDArray)
                and other._data.__class__ is np.ndarray
                and other._data.dtype is data.dtype
                and other._data.shape == data.shape
            ):
                ufunc(data, other._data, out=data)
                written(data)
                return self
            if type(other) is float or type(other) is int:
                ufunc(data, data.dtype.type(other), out=data)
                written(data)
                return self
        return self._update(name, other)

    if TYPE_CHECKING:

        def __iadd__(self, other: Any) -> Self: ...
        def __isub__(self, other: Any) -> Self: ...
        def __imul__(self, other: Any) -> Self: ...
        def __itruediv__(self, other: Any) -> Self: ...
        def __imod__(self, other: Any) -> Self: ...

    else:
        __iadd__ = _updating("add", np.add)
        __isub__ = _updating("subtract", np.subtract)
        __imul__ = _updating("multiply", np.multiply)
        __itruediv__ = _updating("divide", np.divide)
        __imod__ = _updating("modulo", None)

    def __hash__(self) -> int:
        return id(self) >> 4

    def __reduce__(self) -> tuple[Any, ...]:
        return NDArray, (self._data.copy(),)

    def __setstate__(self, state: Any) -> None:
        """The state of a pickle that MXNet made: ``handle``, the bytes of an array in a file."""
        NDArray.__init__(self, HOOKS.array_of_bytes(state["handle"] or b""))

    def __copy__(self) -> Self:
        return self._like(self._data.copy())

    def __deepcopy__(self, memo: Any) -> Self:
        return self._like(self._data.copy())


explain_habits("NDArray", NDArray)


class NumberedNDArray(NDArray):
    """An array on a CPU device with a number or a name, such as ``cpu(1)`` and ``cpu_pinned(0)``.

    All CPU devices are the host's memory and its threads: operators compute as on ``cpu(0)``, and their results are on
    the device of the first input, or on ``cpu(0)`` if that is pinned memory. Copies stay where the array is.
    """

    __slots__ = ("_context",)

    def __init__(self, data: npt.NDArray[Any], context: Context) -> None:
        super().__init__(data)
        self._context = context

    @property
    def context(self) -> Context:
        """The device that holds the array."""
        return self._context

    ctx = context
    device = context

    def _like(self, data: Any) -> NDArray:
        return NumberedNDArray(data, self._context)

    def copy(self) -> NDArray:
        """A copy."""
        return at(self._context, super().copy())

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """The same values in another dtype; a copy, unless ``copy=False`` and the dtype is the same."""
        y = super().astype(dtype, copy)
        return y if y is self else at(self._context, y)

    def __getitem__(self, key: Any) -> Any:
        if STATE.trace is not None:
            return super().__getitem__(key)
        y = plain(self)[key]
        return at(self._context if np.may_share_memory(y._data, self._data) else working_device(self._context), y)


def at(context: Context, x: Any) -> Any:
    """An array on ``cpu(0)``, or a list of them, as one on this CPU device, sharing memory and gradients."""
    if x.__class__ is list:
        return [at(context, part) for part in x]
    if context is CPU or context == CPU or context.device_type == "gpu":
        return x
    y = NumberedNDArray(x._data, context)
    y._tape, y._leaf = x._tape, x._leaf
    return y


def plain(x: Any) -> Any:
    """An array of any CPU device as one on ``cpu(0)``, sharing memory and gradients; anything else as it is."""
    if type(x) is not NumberedNDArray:
        return x
    y = NDArray(x._data)
    y._tape, y._leaf = x._tape, x._leaf
    return y


def wrap(data: Any) -> NDArray:
    """The NDArray of a raw array, on the device where that is."""
    if type(data) is np.ndarray or not hasattr(data, "pointer"):
        return HOOKS.wrap_sparse(data) if hasattr(data, "stype") else NDArray(data)
    return HOOKS.on_device().DeviceNDArray(data)


def assign(source: NDArray, target: NDArray) -> None:
    """Write the values of an array into another of its shape, on any device, unknown to autograd."""
    if source.stype != "default" or target.stype != "default":
        HOOKS.assign_sparse(source._data, target)
        return
    np.copyto(target._data, source._data, casting="unsafe")
    written(target._data)


def constant_values(x: Any, what: str) -> npt.NDArray[Any]:
    """As :func:`values_of`, of a NumPy array too, for what computes by NumPy; an error where autograd would miss it."""
    if not isinstance(x, NDArray):
        return np.asarray(x)
    # COMPAT(mxnet): there crops, flips and rotations of mx.image and batches of a DataLoader have gradients.
    if STATE.recording and x._entry is not None:
        raise MXNetError(
            f"{what}: its input depends on a variable with a gradient, and it cannot be differentiated; give it "
            "x.detach(), or call it outside of autograd.record()"
        )
    return values_of(x)


def values_of(x: NDArray) -> npt.NDArray[Any]:
    """The values for who only reads them: the buffer itself if it is on the CPU, else a copy."""
    return x._data if type(x._data) is np.ndarray else x.asnumpy()


def buffer_of(x: NDArray) -> Any:
    """The buffer of an array: a NumPy array, which a device array copies to the CPU, or a sparse storage."""
    return x.asnative() if x.stype == "default" else x._data


def _warn_of_numpy() -> None:
    """Warn, where NumPy is given an array of the tape in a block's forward: what it computes has no gradient.

    Elsewhere, as in a loop that looks at results, that is what is wanted. Of hybridc's own code nothing is said.
    """
    frame, depth = sys._getframe(2), 2
    while frame is not None and f"{os.sep}numpy{os.sep}" in frame.f_code.co_filename:
        frame, depth = frame.f_back, depth + 1
    if frame is None or not is_users(frame.f_code.co_filename):
        return
    outer = frame
    while outer is not None:
        if outer.f_code.co_name in ("forward", "hybrid_forward") and hasattr(outer.f_locals.get("self"), "_reg_params"):
            warnings.warn(
                "a function of NumPy reads an array under autograd.record(), and its result has no gradient; use the "
                "function of F or mx.nd, as F.tanh(x) for np.tanh(x), or x.asnumpy() where values alone are meant",
                stacklevel=depth + 1,
            )
            return
        outer = outer.f_back


def _readonly(data: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A view that cannot be written."""
    view = data.view()
    view.flags.writeable = False
    return view


def check_unrecorded(*arrays: Any) -> None:
    """Raise while autograd records, if one of these is an array of its graph: an operation in place would be lost.

    Of the graph are variables, what depends on them, and the constants whose values the backward may read.
    """
    # COMPAT(mxnet): there an array of NumPy can be assigned, x[:] = a, and the gradients are of values that changed.
    if not STATE.recording:
        return
    for x in arrays:
        if not isinstance(x, NDArray) or x._tape is None:
            continue
        tape: Any = x._tape
        node: Any = tape[0] if tape.__class__ is tuple else tape()
        if node is not None and node.is_alive:
            raise recorded_inplace()


def recorded_inplace() -> MXNetError:
    """The error of an operation in place on an array of the graph that autograd is recording."""
    return MXNetError(
        "inplace operations (+=, -=, x[:] = y, relu(x, out=x), ...) are not supported on arrays of a graph that "
        "autograd is recording; write y = ..., or do it outside of the record section"
    )


def recorded_copy(x: NDArray, copy: NDArray) -> NDArray:
    """The copy of an array on any device and in any dtype, on the tape if autograd records."""
    if STATE.recording and x._entry is not None:
        HOOKS.autograd().record_copy(x, copy)
    return copy


def _copied(x: NDArray, context: Context) -> NDArray:
    """A copy on a device."""
    if context.device_type != "gpu":
        return at(context, NDArray(x.asnumpy()))
    return HOOKS.on_device().to_device(x.asnumpy(), context.device_id)


def _as_shape(shape: Any) -> tuple[int, ...]:
    if shape is None:
        raise CheckError("reshape: the new shape is missing; write x.reshape((2, 3)) or x.reshape(2, 3)")
    return (shape,) if isinstance(shape, int) else tuple(shape)


HOOKS.register(wrap=wrap)
