"""Symbol: a value of a graph, which stands for arrays still to come.

There are two kinds: what a block is traced with (:class:`hybridc.trace.traced.TracedSymbol`, which knows its shape),
and what ``mx.sym`` composes (:class:`hybridc.symbol.composed.ComposedSymbol`, which does not, until it is bound).
"""

from __future__ import annotations

from typing import Any, NoReturn

from hybridc.array.fluent import Fluent
from hybridc.errors import TraceError
from hybridc.hooks import HOOKS
from hybridc.location import user_location


class Symbol(Fluent):
    """A value of a graph; operators applied to it record themselves in the graph."""

    __slots__ = ()
    __array_priority__ = 1000.0  # a NumPy number or array times a Symbol is the Symbol's affair

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

    def detach(self) -> Any:
        """The same value, through which no gradient flows."""
        return HOOKS.function("BlockGrad")(self)

    def _no_value(self, what: str) -> NoReturn:
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
        self._no_value("conversion to a NumPy array")

    def asnumpy(self) -> Any:
        """Raises: there are no values yet."""
        self._no_value("asnumpy()")

    def asscalar(self) -> Any:
        """Raises: there are no values yet."""
        self._no_value("asscalar()")

    def item(self) -> Any:
        """Raises: there are no values yet."""
        self._no_value("item()")

    def tolist(self) -> Any:
        """Raises: there are no values yet."""
        self._no_value("tolist()")

    def wait_to_read(self) -> None:
        """Nothing to wait for."""
