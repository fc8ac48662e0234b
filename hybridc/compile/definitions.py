"""Definitions of users' operators: the results of their methods, as data for cache keys.

A method of an operator may read other modules, files or the environment. So a definition has nothing of its source, but
the results of the methods for the inputs at hand: the steps of a scalar body, a movement or a decomposition, the graph
of the gradient, shapes and dtypes. Code that a program calls at run time is no part of it. What the compiler asks for
and is not recorded here is :class:`~hybridc.ground.serialize.NotWritable`.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from hybridc.dialects import operator_registry
from hybridc.dialects.gradient import vjp
from hybridc.dialects.movement import Indexed
from hybridc.dialects.operator import Contraction, Elementwise, Movement, Operator, Reduction
from hybridc.dialects.operator_registry import Attached, Revision, role_of
from hybridc.dialects.scalar import Recorder, Scalar, record
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list
from hybridc.ground.serialize import NotWritable, dtype_name, without_integers, written
from hybridc.ground.sizes import value_of
from hybridc.ir.planned import operator_written
from hybridc.trace.traced import TracedSymbol
from hybridc.trace.tracer import Trace

# Class fields that do not affect the compiler, or that the trace records.
_APART = frozenset({"ALIASES", "ATTRIBUTES", "INPUT_DOCS", "NAME", "NUMPY"})

Array = tuple[tuple[int, ...], Any]


class _Latest:
    """The changed operators, cached, and the state of the registry for which they were computed."""

    state: tuple[Any, ...] = ()
    changed: tuple[Any, ...] = ()


_LATEST = _Latest()


# --- hybridc's own operators and users' -------------------------------------------------------------------------


def is_own(cls: type) -> bool:
    """Whether a module of hybridc defines the class."""
    return _is_ours(cls.__module__) and getattr(sys.modules.get(cls.__module__), cls.__qualname__, None) is cls


def _is_ours(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] == "hybridc"


def changed_operators() -> tuple[Any, ...]:
    """Monkey patches of hybridc's own operators: methods, attached attributes, replaced classes.

    Operators decompose into others, so that a change of one may show in the graph of any.
    """
    state = Revision.number, Attached.changes, operator_registry.OPERATORS, operator_registry.FUNCTIONS
    if _LATEST.state != state:
        _LATEST.state = (*state[:2], dict(state[2]), dict(state[3]))
        _LATEST.changed = _look_for_changes()
    return _LATEST.changed


def _look_for_changes() -> tuple[Any, ...]:
    changes: list[Any] = []
    for name, cls in operator_registry.OPERATORS.items():
        if not is_own(cls):
            if name.startswith("hybrid."):
                changes.append((name, cls))
            continue
        changes += [(name, v) for v in _changes(cls)]
        for function in (name.partition(".")[2], *cls.ALIASES):
            if operator_registry.FUNCTIONS.get(function) is not cls:
                changes.append((function, operator_registry.FUNCTIONS.get(function)))
    return tuple(changes)


def _changes(cls: type) -> list[Any]:
    """The methods that were replaced in one of hybridc's own classes, and how many attributes were attached to it."""
    attached: Any = cls.__dict__.get(Attached.FIELD, {})
    methods = [v for v in vars(cls).values() if type(v) is types.FunctionType and not _is_ours(v.__module__)]
    return [*methods, *[(key, id(value)) for key, value in attached.items()]]


# --- definitions ------------------------------------------------------------------------------------------------


class Definitions:
    """The definitions of the users' operators of one graph, each for inputs of given shapes and dtypes."""

    def __init__(self) -> None:
        self.entries: list[Any] = []
        self.classes: dict[type, None] = {}
        self._numbers: dict[Any, int] = {}

    def number(self, op: Operator, inputs: Sequence[TracedSymbol], training: bool, needed: Sequence[bool] = ()) -> int:
        """The index of an operator's definition for such inputs; the ``needed`` ones get gradients.

        -1 for an operator of hybridc's own.
        """
        cls = type(op)
        if is_own(cls):
            return -1
        arrays = [(_array(x), repr(x.constant)) for x in inputs]
        kind, integers = without_integers([operator_written(op), training, list(needed), arrays])
        key = cls, kind, tuple(map(value_of, integers))  # one definition wherever plain sizes have one
        index = self._numbers.get(key)
        if index is None:
            self.classes[cls] = None
            index = self._numbers[key] = len(self.entries)
            self.entries.append(None)  # its own gradient may use the operator
            try:
                self.entries[index] = self._definition(op, inputs, training, needed)
            except NotWritable:
                raise
            except Exception as error:  # the compiler raises it with its location if it needs it
                raise NotWritable(f"{op.NAME}, which raises {type(error).__name__}") from error
        return index

    def _definition(self, op: Operator, inputs: Sequence[TracedSymbol], training: bool, needed: Sequence[bool]) -> Any:
        _require_recorded(op)
        shapes, dtypes = [x.shape for x in inputs], [x._dtype for x in inputs]
        results = list(zip(op.infer_shape(shapes)[1], op.infer_type(dtypes)[1], strict=True))
        _require_not_computed(op, inputs, results)
        said: list[Any] = [
            [base.__qualname__ for base in type(op).__mro__ if is_own(base)],
            _fields(type(op)),
            [op.input_names(), op.arity, op.mutated, op.results, op.num_visible_outputs(), op.num_samples()],
            [(tuple(shape), dtype_name(np.dtype(dtype))) for shape, dtype in results],
            op.decomposes(),
        ]
        if isinstance(op, Elementwise):
            said.append(_steps(*record(op, len(inputs))[1:]))
        if isinstance(op, Contraction):
            said.append(op.loops(len(inputs[0].shape)))
        if isinstance(op, Movement):
            said.append(op.is_view())
        if op.decomposes():
            said.append(self._graph(training, inputs, (), op.expanded))
        elif not isinstance(op, Elementwise | Reduction | Contraction):
            said.append(_movement(op, inputs))
        if any(needed):
            visible, count = op.num_visible_outputs(), len(inputs)

            def gradient(F: Any, *values: TracedSymbol) -> Any:
                ins, outs = values[:count], values[count : count + len(results)]
                return vjp(op, F, values[count + len(results) :], ins, outs, needed)

            said.append(self._graph(training, inputs, [*results, *results[:visible]], gradient))
        return said

    def _graph(
        self, training: bool, inputs: Sequence[TracedSymbol], more: Sequence[Array], build: Callable[..., Any]
    ) -> Any:
        """The trace of ``build(F, *values)`` on values like the inputs and ``more``."""
        trace = Trace(training)
        trace.track_locations = False
        trace.sources = sources = _Numbers()
        symbols = [trace.leaf("x", x.shape, x._dtype, "value", x.constant) for x in inputs]
        symbols += [trace.leaf("x", tuple(shape), dtype, "value") for shape, dtype in more]
        with trace.active():
            outputs = as_list(build(HOOKS.symbols(), *symbols))
        if sources.asked:
            raise NotWritable("an operator that asks whether an input is a number")
        if "capture" in trace.roles:
            raise NotWritable("an operator with an array inside")
        numbers = {id(s): i for i, s in enumerate(trace.leaves)}
        nodes = self.nodes(trace, numbers)
        results = [numbers[id(y)] if isinstance(y, TracedSymbol) else [written(y)] for y in outputs]
        return trace.roles, [_array(s) for s in trace.leaves], nodes, results

    def nodes(self, trace: Trace, numbers: dict[int, int], active: set[int] | None = None) -> list[Any]:
        """The nodes of a trace, with values as indices, which are entered into ``numbers`` by symbol identity.

        ``active`` are the identities of the values that depend on a differentiated input; at first, of those inputs.
        """
        operators: dict[int, list[Any]] = {}  # equal operators are mostly one object
        nodes: list[Any] = []
        for node in trace.nodes:
            operator = operators.get(id(node.op))
            if operator is None:
                operator = operators[id(node.op)] = operator_written(node.op)
            needed = [id(s) in active for s in node.inputs] if active else ()
            if active and any(needed):
                active.update(id(s) for s in node.outputs)
            definition = self.number(node.op, node.inputs, trace.training, needed if any(needed) else ())
            results = [_array(s) for s in node.outputs]
            nodes.append((operator, [numbers[id(s)] for s in node.inputs], results, *[definition] * (definition >= 0)))
            for symbol in node.outputs:
                numbers[id(symbol)] = len(numbers)
        return nodes


class _Numbers(list[Any]):
    """The known constant values of a graph's inputs; notes whether one was asked for that is not known yet."""

    asked = False

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        self.asked |= value is None
        return value


def _array(symbol: TracedSymbol) -> Array:
    return symbol.shape, dtype_name(symbol._dtype)


def _require_recorded(op: Operator) -> None:
    """Raise if a user overrides a method whose results the compiler uses and no definition records."""
    mro = type(op).__mro__
    for base in filter(is_own, mro):
        for name, value in vars(base).items():
            method = callable(value) or isinstance(value, property | staticmethod | classmethod)
            if not method or name.startswith("__") or role_of(base, name) in ("recorded", "called later"):
                continue
            if not is_own(next(cls for cls in mro if name in vars(cls))):
                raise NotWritable(f"{op.NAME}, which overrides {name}")


def _require_not_computed(op: Operator, inputs: Sequence[Any], results: Sequence[Array]) -> None:
    """Raise if constant folding may run the user's ``eager``."""
    if op.PURE and (not inputs or (len(results) == 1 and results[0][0] == ())):
        for name in ("eager", "evaluate"):
            if not is_own(next(cls for cls in type(op).__mro__ if name in vars(cls))):
                raise NotWritable(f"{op.NAME}, whose {name} may be computed while compiling")


def _plain(field: Any) -> Any:
    """A class field; of a table of dtypes their names."""
    if not isinstance(field, Mapping):
        return field
    table = cast("Mapping[Any, Any]", field)
    return sorted((str(dtype), str(other)) for dtype, other in table.items())


def _fields(cls: type) -> list[Any]:
    """Class fields that the interfaces define: flags, in-place pairs, names of functions; not those for files."""
    names = {name for base in cls.__mro__ if is_own(base) for name in vars(base) if name.isupper()}
    values = [
        (name, _plain(getattr(cls, name))) for name in sorted(names - _APART) if not name.startswith(("_", "NNVM"))
    ]
    return [(name, written(value)) for name, value in values if not callable(value)]


# --- scalar bodies and movements --------------------------------------------------------------------------------


def _steps(steps: Sequence[Scalar], result: Any) -> Any:
    """The steps of a scalar body, and its result."""
    return [(s.step, [_operand(s.step, x) for x in s.operands]) for s in steps], _operand(None, result)


def _operand(step: str | None, value: Any) -> Any:
    if isinstance(value, Scalar):
        return "argument" if value.step is None else "step", value.index
    if isinstance(value, _Moved):
        return "array", value.index
    if step == "cast":
        return dtype_name(np.dtype(value))
    return written(value)


class _Moved(Indexed):
    """A symbolic array in a recorded movement."""

    def __init__(self, index: int, shape: Sequence[int], dtype: Any) -> None:
        self.index = index
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)


class _Elements(Recorder):
    """Records the expression of an element of its indices."""

    def load(self, x: Any, *index: Any) -> Scalar:
        """The element of an array at indices."""
        return self.step("load", x, *index)


class _Moves:
    """A builder of movements (see :mod:`hybridc.dialects.movement`) that records them."""

    def __init__(self) -> None:
        self.steps: list[Any] = []

    def _made(self, name: str, shape: Sequence[int], dtype: Any, *operands: Any) -> _Moved:
        moved = _Moved(len(self.steps), shape, dtype)
        self.steps.append((name, moved.shape, dtype_name(moved.dtype), operands))
        return moved

    def array(self, x: TracedSymbol) -> _Moved:
        """An input."""
        return self._made("input", x.shape, x._dtype)

    def reshape(self, x: Any, shape: Any) -> _Moved:
        return self._made("reshape", shape, x.dtype, x.index)

    def transpose(self, x: Any, order: Any) -> _Moved:
        return self._made("transpose", [x.shape[a] for a in order], x.dtype, x.index, tuple(order))

    def slice(self, x: Any, begin: Any, step: Any, shape: Any) -> _Moved:
        return self._made("slice", shape, x.dtype, x.index, tuple(begin), tuple(step))

    def broadcast(self, x: Any, shape: Any) -> _Moved:
        return self._made("broadcast", shape, x.dtype, x.index)

    def full(self, shape: Any, dtype: Any, value: Any) -> _Moved:
        return self._made("full", shape, dtype, written(value))

    def insert(self, x: Any, into: Any, begin: Any, step: Any) -> _Moved:
        return self._made("insert", into.shape, into.dtype, x.index, into.index, tuple(begin), tuple(step))

    def concat(self, xs: Any, axis: int) -> _Moved:
        shape = [*xs[0].shape]
        shape[axis] = sum(x.shape[axis] for x in xs)
        return self._made("concat", shape, xs[0].dtype, [x.index for x in xs], axis)

    def combine(self, name: str, x: Any, axis: int) -> _Moved:
        shape = [*x.shape]
        shape[axis] = 1
        return self._made(f"combine {name}", shape, x.dtype, x.index, axis)

    def generate(self, shape: Any, dtype: Any, element: Callable[..., Any]) -> _Moved:
        b = _Elements()
        result = element(b, *b.arguments(len(shape)))
        return self._made("generate", shape, dtype, _steps(b.steps, result))


def _movement(op: Operator, inputs: Sequence[TracedSymbol]) -> Any:
    """The operations that an operator's ``move`` records; None for a host call."""
    m = _Moves()
    arrays: Any = op.move(m, *map(m.array, inputs))
    return None if arrays is None else (m.steps, [cast(_Moved, y).index for y in as_list(arrays)])
