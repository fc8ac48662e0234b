"""NDArray: an n-dimensional array on a device, with MXNet's legacy semantics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from hybridc.context import Context, check_device, cpu
from hybridc.errors import MXNetError
from hybridc.nd.fluent import Fluent
from hybridc.runtime.state import STATE

if TYPE_CHECKING:
    from hybridc.autograd import Leaf, TapeNode

_CPU = cpu()


class NDArray(Fluent):
    """An array on the CPU: one NumPy buffer, or a view of one.

    Operators run at once; under ``autograd.record()`` they are also put on the tape.
    """

    __slots__ = ("__weakref__", "_data", "_entry", "_leaf")
    __array_priority__ = 1000.0

    def __init__(self, data: npt.NDArray[Any]) -> None:
        self._data = data
        self._entry: tuple[TapeNode | Leaf, int] | None = None
        self._leaf: Leaf | None = None

    # --- what it is -------------------------------------------------------------------------------------------------

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
        return _CPU

    ctx = context
    device = context

    @property
    def stype(self) -> str:
        """The storage type: always ``'default'`` (dense)."""
        return "default"

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose."""
        return self.transpose()

    @property
    def grad(self) -> NDArray | None:
        """The gradient buffer that ``attach_grad`` made, or None."""
        return None if self._leaf is None else self._leaf.grad

    def __len__(self) -> int:
        return self._data.shape[0]

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"\n{self._data!s}\n<NDArray {shape} @{self.context}>"

    # --- values -----------------------------------------------------------------------------------------------------

    def asnumpy(self) -> npt.NDArray[Any]:
        """A NumPy copy of the values."""
        return self._data.copy()

    def asscalar(self) -> Any:
        """The value of an array of one element."""
        if self._data.size != 1:
            raise ValueError(f"asscalar needs an array of one element, this one has shape {self.shape}")
        return self._data.reshape(-1)[0]

    item = asscalar

    def tolist(self) -> list[Any]:
        """The values as nested lists."""
        return self._data.tolist()

    def __bool__(self) -> bool:
        if self._data.size != 1:
            raise ValueError(
                f"the truth value of an array of shape {self.shape} is ambiguous; reduce it to one element first"
            )
        return bool(self.asscalar())

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __index__(self) -> int:
        if self._data.dtype.kind not in "iu":
            raise TypeError("only integer arrays of one element can be an index")
        return int(self.asscalar())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if dtype is not None and np.dtype(dtype) != self._data.dtype:
            return self._data.astype(dtype)
        return self._data.copy() if copy else self._data

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._data.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._data.__dlpack_device__()

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule that shares memory."""
        return self._data.__dlpack__()

    to_dlpack_for_write = to_dlpack_for_read

    def wait_to_read(self) -> None:
        """Return when the values are there; on the CPU they always are."""

    wait_to_write = wait_to_read

    # --- copies -----------------------------------------------------------------------------------------------------

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copy the values into another array, or to a device."""
        if isinstance(other, Context):
            check_device(other)
            return NDArray(self._data.copy())
        if other is self:
            return other
        if other.shape != self.shape:
            raise MXNetError(f"copyto: cannot copy shape {self.shape} into shape {other.shape}")
        np.copyto(other._data, self._data, casting="unsafe")
        return other

    def as_in_context(self, context: Context) -> NDArray:
        """This array if it is on that device, else a copy there."""
        check_device(context)
        return self

    as_in_ctx = as_in_context
    to_device = as_in_context

    def asnative(self) -> npt.NDArray[Any]:
        """The NumPy buffer itself, not a copy."""
        return self._data

    def tostype(self, stype: str) -> NDArray:
        """This array; only ``'default'`` storage exists."""
        if stype != "default":
            raise MXNetError(f"storage type {stype!r} is not supported; only 'default' (dense) arrays exist")
        return self

    # --- autograd ---------------------------------------------------------------------------------------------------

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Allocate a gradient buffer, so that ``backward`` computes this array's gradient."""
        from hybridc import autograd

        autograd.mark_variables([self], [NDArray(np.zeros_like(self._data))], grad_req)

    def drop_grad(self) -> None:
        """Free the gradient buffer."""
        self._leaf = None
        self._entry = None

    def detach(self) -> NDArray:
        """The same values, unknown to autograd."""
        return NDArray(self._data)

    def backward(
        self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True
    ) -> None:
        """Compute the gradients of this array with respect to the marked variables."""
        from hybridc import autograd

        autograd.backward([self], None if out_grad is None else [out_grad], retain_graph, train_mode)

    # --- indexing ---------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        from hybridc.nd import indexing

        return indexing.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from hybridc.nd import indexing

        indexing.setitem(self, key, value)

    def __iter__(self) -> Any:
        for i in range(len(self)):
            yield self[i]

    # --- in place ---------------------------------------------------------------------------------------------------

    def _inplace(self, ufunc: Any, other: Any) -> NDArray:
        if STATE.recording and self._entry is not None:
            raise MXNetError(
                "in-place operators (+=, -=, *=, /=, x[:] =) are not supported on an array that autograd is recording; "
                "write x = x + y"
            )
        value = other._data if isinstance(other, NDArray) else other
        ufunc(self._data, value, out=self._data, casting="unsafe")
        return self

    def __iadd__(self, other: Any) -> NDArray:
        return self._inplace(np.add, other)

    def __isub__(self, other: Any) -> NDArray:
        return self._inplace(np.subtract, other)

    def __imul__(self, other: Any) -> NDArray:
        return self._inplace(np.multiply, other)

    def __itruediv__(self, other: Any) -> NDArray:
        return self._inplace(np.divide, other)

    def __imod__(self, other: Any) -> NDArray:
        return self._inplace(np.mod, other)

    def __hash__(self) -> int:
        return id(self) >> 4

    def __reduce__(self) -> tuple[Any, ...]:
        return NDArray, (self._data.copy(),)

    def __copy__(self) -> NDArray:
        return NDArray(self._data.copy())

    def __deepcopy__(self, memo: Any) -> NDArray:
        return NDArray(self._data.copy())
