"""How operators compose symbols: what stands in the place of a trace while no shape is known.

``mx.sym.<op>`` are the functions of ``mx.nd``, wrapped: they say under which name, and with which attributes, the next
node is made. :data:`COMPOSER` makes the node.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc import attribute, name
from hybridc.array.ndarray import NDArray
from hybridc.dialects import registry
from hybridc.dialects.operator import Operator
from hybridc.errors import ArgumentTypeError, MXNetError, TraceError
from hybridc.location import Location, user_location
from hybridc.state import STATE
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.node_attributes import HIDDEN, checked, inherited, is_hidden
from hybridc.trace.traced import Symbol


class Composer(threading.local):
    """Makes nodes; one state for each thread: the name of the next node and the blocks being called."""

    creates_inputs = True

    def __init__(self) -> None:
        self._next: tuple[str | None, str, dict[str, str]] | None = None
        self._blocks: list[str] = []
        self.stands_for_arrays = False

    # --- what a trace offers -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def active(self) -> Generator[Composer]:
        """Inside the ``with`` block all operators compose; autograd's tape rests meanwhile."""
        previous = STATE.trace, STATE.recording
        STATE.trace, STATE.recording = self, False  # pyright: ignore[reportAttributeAccessIssue]
        try:
            yield self
        finally:
            STATE.trace, STATE.recording = previous

    @contextlib.contextmanager
    def as_arrays(self) -> Generator[None]:
        """Inside the ``with`` block a symbol of one result stands for an array: ``x[0]`` would be its first row."""
        previous, self.stands_for_arrays = self.stands_for_arrays, True
        try:
            yield
        finally:
            self.stands_for_arrays = previous

    @contextlib.contextmanager
    def scope(self, block: Any) -> Generator[None]:
        """Nodes made inside have names that begin with the block's prefix."""
        self._blocks.append(block.name)
        try:
            with block.name_scope():
                yield
        finally:
            self._blocks.pop()

    def path(self) -> str:
        """The name of the block being called."""
        return self._blocks[-1] if self._blocks else ""

    def parameter(self, parameter: Any) -> Any:
        """The variable that stands for a gluon Parameter."""
        return parameter.var()

    # --- nodes ---------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def naming(self, given: str | None, hint: str, attrs: Mapping[str, str]) -> Generator[None]:
        """The first node made inside is called ``given``, or else the hint with a number."""
        previous, self._next = self._next, (given, hint, dict(attrs))
        try:
            yield
        finally:
            self._next = previous

    def invoke(self, op: Operator, inputs: Sequence[Any], out: Any = None) -> Any:
        """Make a node of an operator; missing inputs (None) become variables named after it."""
        from hybridc.symbol.composed import ComposedSymbol

        location = user_location(self.path())
        if out is not None:
            raise TraceError(f"{location}: out= cannot be used with symbols; use the returned value")
        given, hint, attrs = self._next or (None, op.title().lower(), {})
        self._next = None
        label = name.current().get(given, hint)
        attrs = attribute.current().get(attrs)
        names = [n for n in op.input_names() if not (op.DRAWS and n == "key")]
        if op.VARIADIC and len(names) != len(inputs):
            names = [f"arg{i}" for i in range(len(inputs))]
        values = [*inputs, *[None] * (len(names) - len(inputs))]
        entries: list[Entry] = []
        for key, value in zip(names, values, strict=True):
            if value is None:  # it shares the attributes that users add, such as ctx_group
                entries.append((SymbolNode(None, f"{label}_{key}", (), inherited(attrs), location), 0))
            else:
                entries.append(self._entry(op, key, value, location))
        node = SymbolNode(op, label, entries, checked(attrs), location)
        return ComposedSymbol([(node, i) for i in range(node.num_outputs())])

    def _entry(self, op: Operator, key: str, value: Any, location: Location) -> Entry:
        from hybridc.symbol.composed import ComposedSymbol

        if isinstance(value, ComposedSymbol):
            if len(value.entries) == 1:
                return value.entries[0]
            raise MXNetError(
                f"{location}: {op.title()}: input {key!r} must be one value, but {value!r} has {len(value.entries)}: "
                f"{', '.join(value.list_outputs())}; take one of them with [i], or pass all with *"
            )
        if isinstance(value, bool | int | float | np.generic):
            number: Any = np.asarray(value).item()
            return SymbolNode(registry.operator("hybrid.constant").bind(value=number), str(number), (), {}, location), 0
        if isinstance(value, NDArray | np.ndarray):
            raise ArgumentTypeError(
                f"{location}: {op.title()}: input {key!r} is an array, but symbols take symbols and numbers only; "
                "make it a variable, mx.sym.var(name), and give the array when the symbol is bound"
            )
        if isinstance(value, Symbol):
            raise TraceError(
                f"{location}: {op.title()}: input {key!r} is a value of a block being traced; a graph of mx.sym.var "
                "cannot use it. Pass the variable through the block's arguments instead"
            )
        raise ArgumentTypeError(
            f"{location}: {op.title()}: input {key!r} must be a Symbol or a number, got {type(value).__name__}"
        )


COMPOSER = Composer()


def composing() -> bool:
    """Whether operators compose symbols now: no block is being traced."""
    return STATE.trace is None or isinstance(STATE.trace, Composer)


def _locate(error: MXNetError) -> None:
    """Let an error say which line of the user it comes from."""
    where, said = str(user_location(COMPOSER.path())), str(error)
    if where not in said:
        error.args = (f"{where}: {said}",)


def symbolic(owner: Any, function: str, hint: str, scalar_hint: str = "", reflected_hint: str = "") -> Any:
    """A function of ``owner`` (``mx.nd``, or a namespace there) as a function of ``mx.sym``.

    While a block is traced it is the same function. Otherwise it composes symbols, and takes ``name=`` and ``attr=``.
    The hints name nodes: of symbols, of a symbol and a number, of a number and a symbol.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        meaning = getattr(owner, function)  # looked up at each call: operators may be overridden
        if not composing():
            return meaning(*args, **kwargs)
        chosen = hint
        if scalar_hint and len(args) > 1:
            numbers = [isinstance(a, int | float | np.number) for a in args[:2]]
            chosen = scalar_hint if numbers[1] else reflected_hint if numbers[0] else hint
        given, attrs = kwargs.pop("name", None), dict(kwargs.pop("attr", None) or {})
        for key in [k for k in kwargs if k in HIDDEN or is_hidden(k)]:
            attrs[key] = str(kwargs.pop(key))
        with COMPOSER.active(), COMPOSER.naming(given, chosen, attrs):
            try:
                return meaning(*args, **kwargs)
            except MXNetError as error:
                _locate(error)
                raise

    return functools.update_wrapper(call, getattr(owner, function, call))
