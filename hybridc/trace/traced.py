"""Symbols: values of graphs, without data.

There are two kinds: values of a trace (:class:`TracedSymbol`, whose shape is known), and what ``mx.sym``
composes (:class:`hybridc.symbol.composed.ComposedSymbol`, whose shape is unknown until it is bound).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Self

import numpy as np

from hybridc.array.fluent import Fluent
from hybridc.array.numpy_array import NumpyMethods
from hybridc.context import current_context
from hybridc.dialects.operator_attribute import Shape
from hybridc.errors import TraceError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.location import user_location

if TYPE_CHECKING:
    from hybridc.context import Context
    from hybridc.trace.tracer import Trace, TraceNode


class Symbol(Fluent):
    """A value of a graph; operators on it are recorded in the graph.

    A hybridized block's forward gets such values while it is traced. ``mx.sym.var`` and operators on variables give
    composed symbols, which also have a graph's methods: those that infer shapes, bind arrays and write files.
    """

    __slots__ = ()
    __array_priority__ = 1000.0  # Symbol's operators win over those of NumPy scalars and arrays

    def __new__(cls, *_: Any, **__: Any) -> Self:
        """A symbol of the class; ``Symbol(None)``, with which a pickle of MXNet begins, is a composed one."""
        return object.__new__(HOOKS.symbols().ComposedSymbol if cls is Symbol else cls)

    @property
    def stype(self) -> str:
        """The storage type: always ``'default'`` (dense)."""
        return "default"

    @property
    def T(self) -> Any:
        """The transpose."""
        return self.transpose()

    def __hash__(self) -> int:
        return id(self) >> 4

    def as_in_context(self, context: Any) -> Self:
        """This symbol: a graph runs on one device, which is chosen when it is called or bound.

        Parameters
        ----------
        context:
            The device, which is ignored.
        """
        return self

    as_in_ctx = as_in_context
    to_device = as_in_context

    def detach(self) -> Any:
        """The same value, without gradient."""
        return HOOKS.function("BlockGrad")(self)

    def _no_value(self, what: str, remedy: str = "Use F.where instead of Python control flow on values") -> NoReturn:
        del remedy  # what a trace has instead of values
        raise TraceError(f"{user_location()}: {what} needs values, which a Symbol does not have")

    def __bool__(self) -> bool:
        self._no_value("the truth value (if, while, and, or, not)")

    def __float__(self) -> float:
        self._no_value("float()")

    def __int__(self) -> int:
        self._no_value("int()")

    def __index__(self) -> int:
        self._no_value("use as an index")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._no_value(
            "conversion to a NumPy array",
            "Use the function of F in place of NumPy's, as F.tanh(x) for np.tanh(x)",
        )

    def asnumpy(self) -> Any:
        """Raises: a Symbol has no values."""
        self._no_value("asnumpy()")

    def asscalar(self) -> Any:
        """Raises: a Symbol has no values."""
        self._no_value("asscalar()")

    def item(self) -> Any:
        """Raises: a Symbol has no values."""
        self._no_value("item()")

    def tolist(self) -> Any:
        """Raises: a Symbol has no values."""
        self._no_value("tolist()")

    def wait_to_read(self) -> None:
        """A no-op."""


class TracedSymbol(Symbol):
    """A value of a trace: an input of the graph (``node`` is None) or an output of a node.

    ``inferred_shape`` is its shape as far as it is known yet: None, or with sizes -1 (see ``ShapeInference``).
    """

    __slots__ = ("_dtype", "index", "inferred_shape", "name", "node", "trace")

    def __init__(
        self, trace: Trace, shape: Shape | None, dtype: Any, node: TraceNode | None, index: int, name: str
    ) -> None:
        self.trace = trace
        self.inferred_shape = shape
        self._dtype = np.dtype(dtype)
        self.node = node
        self.index = index
        self.name = name

    @property
    def shape(self) -> Shape:
        """The shape; sizes of a parameter that are not inferred yet are -1."""
        shape = self.inferred_shape
        if shape is None or (self.trace.is_open and -1 in shape):
            self.trace.refuse_unknown(self)
        return shape

    @property
    def dtype(self) -> Any:
        """The element type, as a NumPy scalar type."""
        return self._dtype.type

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def context(self) -> Context:
        """The device of the graph."""
        return current_context()

    ctx = context

    def as_np_ndarray(self) -> Any:
        """The same value, which stands for an array of ``mx.np``."""
        return _standing_for(NumpyTracedSymbol, self)

    @property
    def constant(self) -> Any:
        """The constant that this value is known to be, or None."""
        if self.inferred_shape:
            return None
        if self.node is None:
            return self.trace.sources[self.index] if self.trace.roles[self.index] == "value" else None
        return self.node.op.as_number()

    def __repr__(self) -> str:
        shape = "[?]" if self.inferred_shape is None else list(self.inferred_shape)
        return f"<Symbol {self.name} {self._dtype}{shape}>"

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        for i in range(self.shape[0]):
            yield self[i]

    def __getitem__(self, key: Any) -> Any:
        return HOOKS.getitem(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError(
            f"{user_location()}: a traced array cannot be assigned to; use F.where, F.concat or F.slice_assign"
        )

    def _no_value(self, what: str, remedy: str = "Use F.where instead of Python control flow on values") -> NoReturn:
        where = user_location(self.trace.path())
        raise TraceError(
            f"{where}: {what} needs the values of an array of shape {self.shape}, but while a hybridized block is "
            f"traced only shapes and dtypes are known. {remedy}, or leave this block unhybridized."
        )


class NumpyTracedSymbol(NumpyMethods, TracedSymbol):  # pyright: ignore[reportIncompatibleMethodOverride]
    """A value of a trace that stands for an array of ``mx.np``."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """The dtype, as NumPy's arrays have it."""
        return self._dtype

    def as_nd_ndarray(self) -> Any:
        """The same value, which stands for an array of ``mx.nd``."""
        return _standing_for(TracedSymbol, self)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return HOOKS.np().called_by_numpy(func, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return HOOKS.np().called_as_ufunc(ufunc, method, inputs, kwargs)


def _standing_for(kind: type[TracedSymbol], symbol: TracedSymbol) -> Any:
    """A copy of a value, of a class of symbols."""
    HOOKS.np()  # which gives the class its methods
    copied = HOOKS.function("identity")(symbol)
    copied.__class__ = kind
    return copied
