"""The tracer: runs a forward function once on Symbols and records a trace, light Python objects.

It does not import the compiler; :mod:`hybridc.trace.trace_to_graph` makes IR of a trace.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from hybridc import random
from hybridc.array.dispatch import as_scalar
from hybridc.array.ndarray import NDArray
from hybridc.context import CPU, Context
from hybridc.dialects import operator_registry
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.error_context import located, pair, raise_in_context, raise_located
from hybridc.dialects.operator import Operator
from hybridc.dtypes import is_float
from hybridc.errors import ArgumentTypeError, MXNetError, OpenShapeError, ParameterShapeError, ShapeError, TraceError
from hybridc.ground.location import Location, is_users, user_location
from hybridc.ground.nesting import as_list, flatten
from hybridc.ground.state import STATE
from hybridc.trace.traced import Shape, TracedSymbol
from hybridc.trace.varying import Varying, VaryingInput

_NUMBER = itertools.count()


class TraceNode:
    """One recorded operator."""

    __slots__ = ("inputs", "location", "op", "outputs")

    def __init__(self, op: Operator, inputs: list[TracedSymbol], location: Location | None) -> None:
        self.op = op
        self.inputs = inputs
        self.location = location
        self.outputs: list[TracedSymbol] = []


class Trace:
    """The recorded nodes of one run of a forward function, in order, and its inputs.

    Inputs have a role: ``data`` (an argument), ``parameter``, ``capture`` (an NDArray of the function's closure,
    read at every call), ``number`` (a float attribute that varies), ``key`` (the random key, one a call), ``value`` (a
    value of another graph).
    """

    takes_numbers = False  # whether float attributes may become inputs
    creates_inputs = False  # whether a missing input becomes a variable, as in composed symbols

    def __init__(self, training: bool = False) -> None:
        self.training = training
        self.name = "graph"
        self.context = CPU  # the device of its arrays
        self.nodes: list[TraceNode] = []
        self.leaves: list[TracedSymbol] = []
        self.roles: list[str] = []
        self.sources: list[Any] = []
        self.outputs: list[TracedSymbol] = []
        self.updates: list[int] = []  # the mutated inputs, whose new values are the last outputs
        self.structure: Any = None
        self.draws = 0
        self.is_symbolic = False  # whether sizes of shapes are symbolic
        self.casts = False  # whether mixed precision casts: what a user calls is recorded
        self.track_locations = True
        self.refuses_open_shapes = False  # whether making an array with a size 0 is an OpenShapeError
        self.rolled = ""  # what was rolled up, in words
        self._known: dict[int, TracedSymbol] = {}
        self._latest: dict[int, TracedSymbol] = {}  # by identity of a mutated value: its new value
        self.constants: dict[tuple[str, Any], TracedSymbol] = {}
        self._varying: dict[tuple[int, str], tuple[Varying, TracedSymbol]] = {}
        self._blocks: list[str] = []

    def meet(self, context: Context) -> None:
        """Check that an argument is on the device of the first one; CPU devices share memory and may be mixed."""
        if not any(role == "data" for role in self.roles):
            self.context = context
        if context != self.context and "gpu" in (context.device_type, self.context.device_type):
            raise MXNetError(
                f"the arguments are on {self.context} and {context}; copy them to one device with x.as_in_context(…)"
            )

    # --- inputs --------------------------------------------------------------------------------------------

    def leaf(self, name: str, shape: Shape, dtype: Any, role: str, source: Any = None) -> TracedSymbol:
        """A new input of the graph."""
        symbol = TracedSymbol(self, shape, dtype, None, len(self.leaves), name)
        self.leaves.append(symbol)
        self.roles.append(role)
        self.sources.append(source)
        return symbol

    def parameter(self, parameter: Any) -> TracedSymbol:
        """The input of a gluon Parameter; unknown sizes are -1 until inferred, an unknown shape is None."""
        if id(parameter) not in self._known:
            shape: Any = tuple(-1 if n in (0, -1) else n for n in parameter.shape or ()) or None
            self._known[id(parameter)] = self.leaf(parameter.name, shape, parameter.dtype, "parameter", parameter)
        return self._known[id(parameter)]

    def capture(self, array: NDArray) -> TracedSymbol:
        """The input of an array from outside the function."""
        if id(array) not in self._known:
            name = f"captured{len(self.leaves)}"
            self._known[id(array)] = self.leaf(name, array.shape, array.dtype, "capture", array)
        return self._known[id(array)]

    def key(self) -> TracedSymbol:
        """The input of the random key of a call."""
        if 0 not in self._known:
            self._known[0] = self.leaf("key", (2,), np.uint64, "key")
        return self._known[0]

    def random_key(self) -> NDArray:
        """A random key for one call of the graph, for all of its counters."""
        return NDArray(random.next_key(self.draws, self.training))

    def constant(self, value: Any, dtype: Any) -> TracedSymbol:
        """A constant of the graph."""
        dtype = np.dtype(dtype)
        number = as_scalar(value, dtype).item()
        known = (dtype.str, repr(number))
        if known not in self.constants:
            op = operator_registry.operator("hybrid.constant").bind(value=number, dtype=dtype)
            self.constants[known] = self.emit(op, [], None)[0]
        return self.constants[known]

    def number(self, varying: Varying, dtype: Any) -> TracedSymbol:
        """A float attribute as a value of the graph: an input, or else a constant."""
        dtype = np.dtype(dtype)
        if not self.takes_numbers or not is_float(dtype):
            varying.fix()
            return self.constant(varying.value, dtype)
        known = id(varying), dtype.str
        if known not in self._varying:
            leaf = self.leaf(f"number{len(self.leaves)}", (), dtype, "number", VaryingInput(varying, dtype))
            self._varying[known] = varying, leaf
        return self._varying[known][1]

    # --- recording -----------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, block: Any) -> Generator[None]:
        """Operators and errors within this block of code belong to a gluon block."""
        self._blocks.append(block.name)
        if STATE.reading is not None:
            STATE.reading.meet(block)  # it may be no child of the block being traced
        try:
            yield
        except MXNetError as error:
            raise_located(error, self._line(error))
        except Exception as error:
            if not getattr(error, "__notes__", None):
                error.add_note(f"raised while tracing {self._line(error)}")
            raise
        finally:
            self._blocks.pop()

    def _line(self, error: Exception) -> Location:
        """The user's line of an error."""
        found = _statement(error)
        return user_location(self.path()) if found is None else Location(*found, self.path())

    def blocks(self) -> Sequence[str]:
        """The names of the blocks being traced, the innermost last."""
        return self._blocks

    def update(self, symbol: TracedSymbol, new: TracedSymbol) -> None:
        """Note the new value of a mutated one."""
        self._latest[id(symbol)] = new

    def path(self) -> str:
        """The name of the block being traced."""
        return self._blocks[-1] if self._blocks else ""

    def invoke(self, op: Operator, inputs: Sequence[Any], out: Any = None, location: Location | None = None) -> Any:
        """``nd.<op>`` while tracing: record a node, and return its results as Symbols."""
        if location is None and self.track_locations:
            location = user_location(self.path())
        if out is not None:
            raise TraceError(f"{location}: out= cannot be used while tracing; use the returned value")
        if self.refuses_open_shapes and not inputs and 0 in (op.attrs.get("shape") or ()):
            raise OpenShapeError(f"{op.title()}: the shape {op.attrs['shape']} has sizes that follow from its use")
        dtype = next((x.dtype for x in inputs if hasattr(x, "dtype")), np.float32)
        symbols = [self._symbol(op, x, dtype, location) for x in inputs]
        if op.TRAIN_MODE and op.attrs["train"] is None:
            # COMPAT(mxnet): a scope such as autograd.train_mode() inside a hybridized block holds, as it does eagerly;
            # there the mode of the call holds throughout.
            training = STATE.training if STATE.trace is self else self.training
            op = op.bind(**{**op.attrs, "train": training})
        if op.DRAWS:
            op = op.bind(**{**op.attrs, "draw": self.draws})
            self.draws += op.num_samples()
            symbols.append(self.key())
        given, symbols = symbols, [self.latest(s) for s in symbols]
        outputs = self.emit(op, symbols, location)
        for i, new in zip(op.mutated, outputs[len(outputs) - len(op.mutated) :], strict=True):
            self._latest[id(given[i])] = new
        visible = op.num_visible_outputs()
        return outputs[0] if visible == 1 else outputs[:visible]

    def latest(self, symbol: TracedSymbol) -> TracedSymbol:
        """The current value of a Symbol: the new one if an operator mutated it."""
        return self._latest.get(id(symbol), symbol)

    def forget_updates(self) -> None:
        """From now on record the old values of mutated inputs."""
        self._latest.clear()

    def finish(self, outputs: Sequence[TracedSymbol | NDArray]) -> None:
        """Set the results; the new values of mutated inputs follow them."""
        self.outputs = [self.latest(self.capture(o) if isinstance(o, NDArray) else o) for o in outputs]
        self.updates = [i for i, leaf in enumerate(self.leaves) if self.latest(leaf) is not leaf]
        self.outputs += [self.latest(self.leaves[i]) for i in self.updates]

    def body(self, arguments: Sequence[TracedSymbol], results: Sequence[TracedSymbol]) -> Body:
        """What was recorded as a graph inside an operator."""
        numbers = {id(s): i for i, s in enumerate(arguments)}
        steps: list[BodyStep] = []
        for node in self.nodes:
            steps.append(BodyStep(node.op, [numbers[id(s)] for s in node.inputs], len(numbers), node.location))
            for symbol in node.outputs:
                numbers[id(symbol)] = len(numbers)
        return Body(len(arguments), steps, [numbers[id(s)] for s in results])

    def _foreign(self, x: TracedSymbol) -> TracedSymbol | None:
        """What a value of another trace is here; None if it cannot be used."""
        return None

    def _symbol(self, op: Operator, x: Any, dtype: Any, location: Location | None) -> TracedSymbol:
        if isinstance(x, TracedSymbol):
            if x.trace is not self:
                inside = self._foreign(x)
                if inside is not None:
                    return inside
                raise TraceError(
                    f"{location}: {op.title()} got a value of another trace; return it from its block instead"
                )
            return x
        if isinstance(x, NDArray):
            return self.capture(x)
        if type(x) is Varying:
            return self.number(x, dtype)
        if isinstance(x, bool | int | float | np.generic):
            return self.constant(x, dtype)
        if isinstance(x, np.ndarray):
            return self.capture(NDArray(x))  # pyright: ignore[reportUnknownArgumentType]
        raise ArgumentTypeError(f"{location}: {op.title()}: inputs must be arrays or numbers, got {type(x).__name__}")

    def emit(self, op: Operator, inputs: list[TracedSymbol], location: Location | None) -> list[TracedSymbol]:
        """Record a node; all of its outputs, hidden ones included."""
        node = TraceNode(op, inputs, location)
        shapes, dtypes = self._infer(node)
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            node.outputs.append(
                TracedSymbol(self, shape, dtype, node, i, f"{op.NAME.rpartition('.')[2]}{len(self.nodes)}")
            )
        self.nodes.append(node)
        return node.outputs

    def _infer(self, node: TraceNode) -> tuple[list[Shape], list[Any]]:
        try:
            op, count = node.op, len(node.inputs)
            in_shapes, out_shapes = pair(op, "infer_shape", op.infer_shape(self._shapes(node)), count)
            _, out_types = pair(op, "infer_type", op.infer_type([s._dtype for s in node.inputs]), count)
        except MXNetError as error:
            if node.location is None:
                raise
            if isinstance(error, ShapeError) and not all(_is_closed(s.shape) for s in node.inputs):
                shown = located(error, node.location)
                raise ParameterShapeError(str(shown)) from shown.__cause__
            raise_located(error, node.location)
        except Exception as error:
            raise_in_context(node.op, "infer_shape", error)
            raise
        for symbol, shape in zip(node.inputs, in_shapes, strict=True):
            if symbol.node is None and not known(symbol.shape) and shape != symbol.shape:
                symbol.shape = tuple(shape)
        return out_shapes, out_types

    def _shapes(self, node: TraceNode) -> list[Shape]:
        """The shapes of a node's inputs; an unknown one is inferred from the others."""
        shapes: list[Shape | None] = [s.shape for s in node.inputs]
        if None not in shapes:
            return [s for s in shapes if s is not None]
        numbers = [s.constant is not None for s in node.inputs]  # constants do not constrain shapes
        shapes = [None if n else s for s, n in zip(shapes, numbers, strict=True)]
        shapes = node.op.complete_shapes(shapes, [None] * node.op.num_outputs())
        shapes = [() if n else s for s, n in zip(shapes, numbers, strict=True)]
        found = [s for s in shapes if s is not None]
        if len(found) < len(shapes):
            raise ParameterShapeError(
                f"{node.op.title()}: the shape of {node.inputs[shapes.index(None)].name} is unknown, and does not "
                "follow from the other inputs; give it where the parameter is made"
            )
        return found

    def infer(self) -> None:
        """Infer shapes that were unknown when first used, to a fixed point."""
        while any(-1 in s.shape for n in self.nodes for s in n.outputs):
            before = [s.shape for n in self.nodes for s in n.outputs]
            for node in self.nodes:
                for symbol, shape in zip(node.outputs, self._infer(node)[0], strict=True):
                    symbol.shape = shape
            if before == [s.shape for n in self.nodes for s in n.outputs]:
                break
        unknown = [
            s.name
            for s, role in zip(self.leaves, self.roles, strict=True)
            if not known(s.shape) and role == "parameter"
        ]
        if unknown:
            raise ParameterShapeError(
                f"the shape of {', '.join(unknown)} cannot be inferred from the inputs; give it where the parameter is "
                "made (in_units=…, shape=…), or use it in an operator that infers it, such as F.FullyConnected"
            )

    @contextlib.contextmanager
    def active(self) -> Generator[Trace]:
        """Record on this thread within the ``with`` block; autograd's tape is off."""
        previous = STATE.trace, STATE.recording, STATE.training
        STATE.trace, STATE.recording, STATE.training = self, False, self.training
        try:
            yield self
        finally:
            STATE.trace, STATE.recording, STATE.training = previous


def known(shape: Shape | None) -> bool:
    """Whether a shape is known completely."""
    return shape is not None and -1 not in shape


def _stand_in(trace: Trace, value: Any) -> Any:
    """Replace the arrays in an argument by Symbols."""
    if isinstance(value, NDArray):
        trace.meet(value.context)
        return trace.leaf(f"data{len(trace.leaves)}", value.shape, value.dtype, "data")
    if isinstance(value, list | tuple):
        parts = [_stand_in(trace, v) for v in as_list(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


def trace_call(block: Any, args: Sequence[Any], training: bool, refuses_open_shapes: bool = False) -> Trace:
    """The trace of ``block(*args)``; only shapes and dtypes of the arguments matter."""
    trace = Trace(training)
    trace.refuses_open_shapes = refuses_open_shapes
    trace.name = f"{block.name}-{next(_NUMBER)}"
    trace.takes_numbers = trace.casts = True

    with trace.active():
        result = block(*[_stand_in(trace, a) for a in args])
    outputs, trace.structure = flatten(result, (TracedSymbol, NDArray), f"the result of {block.name}")
    trace.finish(outputs)
    if any(o.trace is not trace for o in trace.outputs):
        raise TraceError(
            f"the result of {block.name} contains a value of another trace; keep no traced values between calls"
        )
    trace.infer()
    return trace


def live_nodes(nodes: Sequence[TraceNode], results: Sequence[TracedSymbol]) -> list[TraceNode]:
    """The nodes on which the results depend, in order."""
    needed = {id(s) for s in results}
    kept: list[TraceNode] = []
    for node in reversed(nodes):
        if any(id(s) in needed for s in node.outputs):
            kept.append(node)
            needed |= {id(s) for s in node.inputs}
    return kept[::-1]


def _is_closed(shape: Any) -> bool:
    """Whether all sizes are known; sizes computed from unknown ones may be any negative number, as -2 twice -1."""
    return known(shape) and min(shape, default=0) >= 0


def _statement(error: BaseException) -> tuple[str, int] | None:
    """The user's file and line that called the failing operator; None if the error was not raised in user code."""
    found: tuple[str, int] | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if isinstance(frame.f_locals.get("self"), Operator):
            break
        file = frame.f_code.co_filename
        if is_users(file) and not file.startswith("<"):
            found = file, line
    return found
