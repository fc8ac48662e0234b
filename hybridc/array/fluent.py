"""Methods that NDArray and Symbol share: each is the operator of that name, applied to ``self``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast

import numpy as np

from hybridc.dialects.operator_registry import FUNCTIONS, LISTENERS
from hybridc.ground.display.tracebacks import boundary, hide_frames, hides_frames
from hybridc.ground.hooks import HOOKS

if TYPE_CHECKING:
    from hybridc.array.operator_methods import OperatorMethods
else:
    OperatorMethods = object

# Every operator that MXNet also offers as a method of its arrays.
METHODS = """
    abs arccos arccosh arcsin arcsinh arctan arctanh argmax argmax_channel argmin argsort batch_dot
    broadcast_axes broadcast_to cbrt ceil clip cos cosh degrees depth_to_space diag dot erf
    erfinv exp expm1 fix flip floor gamma gammaln log log10 log1p log2 log_sigmoid
    log_softmax max mean mish min nanprod nansum norm one_hot ones_like pad pick prod radians rcbrt
    reciprocal relu repeat reshape_like rint round rsqrt shape_array sigmoid sign sin sinh size_array
    slice slice_assign slice_assign_scalar slice_axis slice_like softmax softmin sort space_to_depth split
    split_v2 sqrt square sum swapaxes take tan tanh tile topk trunc zeros_like
"""
# Python's operators, by the name of the function of that meaning.
OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "mod": "modulo",
    "pow": "power",
}
COMPARISONS = {"lt": "lesser", "le": "lesser_equal", "gt": "greater", "ge": "greater_equal"}
_SYMBOLS = {**OPERATORS, **COMPARISONS, "neg": "negative"}


def _call(name: str, *args: Any, **kwargs: Any) -> Any:
    return HOOKS.function(name)(*args, **kwargs)


def _reflected_of(name: str) -> Any:
    call = HOOKS.function(name)

    @boundary
    def method(self: Any, other: Any) -> Any:
        try:
            return call(other, self)
        except Exception as error:
            hide_frames(error)
            raise

    return method


def _make_method(name: str) -> Any:
    @boundary
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return _call(name, self, *args, **kwargs)
        except Exception as error:
            hide_frames(error)
            raise

    method.__name__ = name
    method.__doc__ = f"``F.{name}`` of this array."
    return method


class Fluent(OperatorMethods):
    """Arithmetic, comparison and the operators as methods."""

    __slots__ = ()

    if TYPE_CHECKING:

        def __add__(self, other: Any) -> Self: ...
        def __radd__(self, other: Any) -> Self: ...
        def __sub__(self, other: Any) -> Self: ...
        def __rsub__(self, other: Any) -> Self: ...
        def __mul__(self, other: Any) -> Self: ...
        def __rmul__(self, other: Any) -> Self: ...
        def __truediv__(self, other: Any) -> Self: ...
        def __rtruediv__(self, other: Any) -> Self: ...
        def __mod__(self, other: Any) -> Self: ...
        def __rmod__(self, other: Any) -> Self: ...
        def __pow__(self, other: Any) -> Self: ...
        def __rpow__(self, other: Any) -> Self: ...
        def __lt__(self, other: Any) -> Self: ...
        def __le__(self, other: Any) -> Self: ...
        def __gt__(self, other: Any) -> Self: ...
        def __ge__(self, other: Any) -> Self: ...
        def __neg__(self) -> Self: ...

    @hides_frames
    def __matmul__(self, other: Any) -> Self:
        return _call("dot", self, other)

    def __abs__(self) -> Self:
        return _call("abs", self)

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast("Any", False) if other is None else _call("equal", self, other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return cast("Any", True) if other is None else _call("not_equal", self, other)

    __hash__: Any = None

    def reshape(self, *shape: Any, **kwargs: Any) -> Self:
        """``F.reshape``; the shape as one tuple or as several numbers."""
        if len(shape) == 1 and not isinstance(shape[0], int):
            shape = tuple(shape[0])
        if not shape:
            shape = kwargs.pop("shape")
        return _call("reshape", self, shape, **kwargs)

    @hides_frames
    def transpose(self, *axes: Any, **kwargs: Any) -> Self:
        """``F.transpose``: the axes in another order.

        Parameters
        ----------
        *axes:
            The axes, as numbers or as one tuple; none for the reverse order.
        **kwargs:
            ``axes``, a tuple instead.

        Examples
        --------
        >>> x = mx.nd.zeros((2, 3, 4))
        >>> x.transpose(2, 0, 1).shape, x.transpose().shape
        ((4, 2, 3), (4, 3, 2))
        """
        if not axes:
            axes = (kwargs.pop("axes", ()),)
        if len(axes) == 1 and not isinstance(axes[0], int):
            axes = () if axes[0] is None else tuple(axes[0])
        return _call("transpose", self, axes, **kwargs)

    @hides_frames
    def broadcast_like(self, other: Any = None, *args: Any, **kwargs: Any) -> Self:
        """``F.broadcast_like``: this array, repeated to the shape of another.

        Parameters
        ----------
        other:
            The other array, which functions call ``rhs``.
        *args, **kwargs:
            Those of the function.

        Examples
        --------
        >>> mx.nd.array([[1, 2]]).broadcast_like(mx.nd.zeros((2, 2))).tolist()
        [[1.0, 2.0], [1.0, 2.0]]
        """
        return _call("broadcast_like", self, kwargs.pop("rhs", other), *args, **kwargs)

    @hides_frames
    def expand_dims(self, axis: int, inplace: bool = False, **kwargs: Any) -> Self:
        """``F.expand_dims``: a new axis of size 1.

        Parameters
        ----------
        axis:
            Where it is in the result; negative ones count from the end.
        inplace:
            Make the result a view of this array, which shares its memory.
        **kwargs:
            Those of the function.

        Examples
        --------
        >>> mx.nd.zeros((2, 3)).expand_dims(1).shape
        (2, 1, 3)
        """
        return self._view_if(inplace, _call("expand_dims", self, axis, **kwargs))

    def flatten(self, inplace: bool = False, **kwargs: Any) -> Self:
        """``F.flatten``: all axes but the first become one.

        Parameters
        ----------
        inplace:
            Make the result a view of this array, which shares its memory.
        **kwargs:
            Those of the function.

        Examples
        --------
        >>> mx.nd.zeros((2, 3, 4)).flatten().shape
        (2, 12)
        """
        return self._view_if(inplace, _call("flatten", self, **kwargs))

    def squeeze(self, axis: Any = None, inplace: bool = False, **kwargs: Any) -> Self:
        """``F.squeeze``: without axes of size 1.

        Parameters
        ----------
        axis:
            The axis, or a tuple of them, which must have size 1; None for all such.
        inplace:
            Make the result a view of this array, which shares its memory.
        **kwargs:
            Those of the function.

        Examples
        --------
        >>> mx.nd.zeros((1, 2, 1)).squeeze().shape, mx.nd.zeros((1, 2, 1)).squeeze(axis=0).shape
        ((2,), (2, 1))
        """
        return self._view_if(inplace, _call("squeeze", self, axis, **kwargs))

    def _view_if(self, inplace: bool, result: Any) -> Any:
        # In a shape given to reshape, 0 means "as before"; an empty array shares nothing anyway.
        return self.reshape(result.shape) if inplace and 0 not in result.shape else result

    @hides_frames
    def astype(self, dtype: Any, copy: bool = True) -> Self:
        """The same values in another dtype.

        Parameters
        ----------
        dtype:
            The element type, as NumPy's or by its name, or an array that has it; None for float32.
        copy:
            If False, the array itself where it has the dtype.

        Examples
        --------
        >>> mx.nd.array([1.7, -2.5]).astype("int32").tolist()
        [1, -2]
        """
        if dtype is None:
            dtype = np.float32
        elif isinstance(dtype, Fluent):
            dtype = cast("Any", dtype).dtype
        if not copy and np.dtype(cast("Any", self).dtype) == np.dtype(dtype):
            return self
        return _call("cast", self, dtype)

    def copy(self) -> Self:
        """A copy: what is written to one is not seen in the other.

        Examples
        --------
        >>> x = mx.nd.ones(2)
        >>> y = x.copy()
        >>> y[:] = 5
        >>> x.tolist()
        [1.0, 1.0]
        """
        return _call("identity", self)

    def as_nd_ndarray(self) -> Self:
        """Return the array itself, which is of ``mx.nd``."""
        return self

    @property
    def handle(self) -> NoReturn:
        """Raises: there is no library of C functions to which it could be given."""
        raise AttributeError(
            f"{type(self).__name__} has no handle: hybridc has no C library; use DLPack or asnumpy() to pass values on"
        )


class LateMethod:
    """A method of a class before its first use, which makes it: to make all at once takes a while."""

    __slots__ = ("attribute", "cls", "make")

    def __init__(self, cls: type, attribute: str, make: Callable[[], Any]) -> None:
        self.cls = cls
        self.attribute = attribute
        self.make = make

    def __get__(self, instance: Any, owner: type) -> Any:
        made = self.make()
        setattr(self.cls, self.attribute, made)
        return made.__get__(instance, owner)


def install() -> None:
    """Give :class:`Fluent` the functions of the registered operators as its methods.

    The functions are the methods: ``x + y`` costs one call of ``nd.add``.
    """
    of = HOOKS.function
    for name in METHODS.split():
        setattr(Fluent, name, LateMethod(Fluent, name, partial(of, name)) if name in FUNCTIONS else _make_method(name))
    methods = {f"__{symbol}__": partial(of, name) for symbol, name in _SYMBOLS.items()}
    methods |= {f"__r{symbol}__": partial(_reflected_of, name) for symbol, name in OPERATORS.items()}
    for attribute, make in methods.items():
        setattr(Fluent, attribute, LateMethod(Fluent, attribute, make))
    LISTENERS.append(_replace)


def _replace(name: str) -> None:
    """The operator of a method was replaced by another of its name."""
    function = HOOKS.function
    if name in METHODS.split():
        setattr(Fluent, name, function(name))
    for symbol in [s for s, called in _SYMBOLS.items() if called == name]:
        setattr(Fluent, f"__{symbol}__", function(name))
        if symbol in OPERATORS:
            setattr(Fluent, f"__r{symbol}__", _reflected_of(name))
