"""The tracer: runs a forward function once on Symbols and records a trace, light Python objects.

It does not import the compiler; :mod:`hybridc.trace.trace_to_graph` makes IR of a trace.
"""

from __future__ import annotations

import contextlib
import itertools
import traceback
from collections.abc import Generator, Sequence
from typing import Any, NoReturn

import numpy as np

from hybridc import random
from hybridc.array.dispatch import as_scalar
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import is_numpy, ndarray
from hybridc.context import CPU, Context
from hybridc.dialects import operator_registry
from hybridc.dialects.array.shape_rules import is_known
from hybridc.dialects.body import Body, BodyStep
from hybridc.dialects.error_context import located, pair, raise_in_context, raise_located
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import is_float
from hybridc.errors import ArgumentTypeError, MXNetError, OpenShapeError, ParameterShapeError, ShapeError, TraceError
from hybridc.ground.location import Location, is_users, user_location
from hybridc.ground.nesting import as_list, flatten
from hybridc.ground.sizes import Size, is_size
from hybridc.ground.state import STATE
from hybridc.trace.shape_inference import InferenceStep, ShapeInference
from hybridc.trace.traced import NumpyTracedSymbol, TracedSymbol
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

    Inputs have a role: ``"data"`` (an argument), ``"parameter"``, ``"capture"`` (an NDArray of the function's closure,
    read at every call), ``"number"`` (a float attribute that varies), ``"key"`` (the random key, one a call),
    ``"value"`` (a value of another graph).
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
        self.opens = False  # whether a size 0 of an array that is made follows from its use
        self.is_open = False  # whether there is such an array: unknown sizes must not be read
        self.rolled: list[str] = []  # the loops of equal steps, in words
        self.inference: ShapeInference | None = None  # of shapes, where some are unknown at first
        self._known: dict[int, TracedSymbol] = {}
        self._latest: dict[int, TracedSymbol] = {}  # by identity of a mutated value: its new value
        self.constants: dict[tuple[str, str | Size], TracedSymbol] = {}
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

    def leaf(
        self, name: str, shape: Shape | None, dtype: Any, role: str, source: Any = None, numpy: bool = False
    ) -> TracedSymbol:
        """A new input of the graph; unknown sizes of its shape are -1, an unknown shape is None.

        ``numpy`` says that it stands for an array of ``mx.np``.
        """
        kind = NumpyTracedSymbol if numpy else TracedSymbol
        symbol = kind(self, shape, dtype, None, len(self.leaves), name)
        if self.inference is None and not is_known(shape):
            self.inference = ShapeInference(_explain)
        self.leaves.append(symbol)
        self.roles.append(role)
        self.sources.append(source)
        return symbol

    def parameter(self, parameter: Any) -> TracedSymbol:
        """The input of a gluon Parameter."""
        if id(parameter) not in self._known:
            shape: Shape | None = tuple(n or -1 for n in parameter.shape or ())
            if not shape and (parameter.shape is None or not STATE.np_shape):  # () is a shape in NumPy's semantics
                shape = None
            self._known[id(parameter)] = self.leaf(
                parameter.name, shape, parameter.dtype, "parameter", parameter, STATE.np_array
            )
        return self._known[id(parameter)]

    def capture(self, array: NDArray) -> TracedSymbol:
        """The input of an array from outside the function."""
        if id(array) not in self._known:
            name = f"captured{len(self.leaves)}"
            self._known[id(array)] = self.leaf(
                name, array.shape, array.dtype, "capture", array, isinstance(array, ndarray)
            )
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
        scalar = value if is_size(value) else as_scalar(value, dtype).item()
        known = (dtype.str, scalar if is_size(scalar) else repr(scalar))
        if known not in self.constants:
            op = operator_registry.operator("hybrid.constant").bind(value=scalar, dtype=dtype)
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
        statement = _statement(error)
        return user_location(self.path()) if statement is None else Location(*statement, self.path())

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
        if isinstance(out, int):  # an argument too many
            raise ArgumentTypeError(
                f"{location}: {op.title()}: out= is an array for the result, got {out}; several sizes or axes are one "
                "argument, a tuple"
            )
        if out is not None:
            raise TraceError(f"{location}: out= cannot be used while tracing; use the returned value")
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
        passed, symbols = symbols, [self.latest(s) for s in symbols]
        outputs = self.emit(op, symbols, location)
        for i, new in zip(op.mutated, outputs[len(outputs) - len(op.mutated) :], strict=True):
            self._latest[id(passed[i])] = new
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

    def release(self) -> None:
        """Forget all that was recorded: the memory of a trace that nobody reads any more is free at once.

        Its symbols refer to it, and nodes and symbols to each other: Python's collector would have to find them.
        """
        for node in self.nodes:
            node.outputs = []
        self.nodes, self.leaves, self.outputs = [], [], []
        self.constants, self._known, self._latest, self._varying = {}, {}, {}, {}
        self.inference = None

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
        if self.opens and _makes_open(node):
            self._open(node)
        elif self.inference is None or all(is_known(s.inferred_shape) for s in inputs):
            self._results(node, *self._infer(node))
        else:
            self._infer_later(node, self.inference)
        self.nodes.append(node)
        return node.outputs

    def _results(self, node: TraceNode, shapes: Sequence[Shape | None], dtypes: Sequence[Any]) -> None:
        kind = NumpyTracedSymbol if any(is_numpy(s) for s in node.inputs) else TracedSymbol
        for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            label = f"{node.op.NAME.rpartition('.')[2]}{len(self.nodes)}"
            node.outputs.append(kind(self, shape, dtype, node, i, label))

    def _infer(self, node: TraceNode) -> tuple[list[Shape], list[Any]]:
        """The shapes and dtypes of the results where all shapes of the inputs are known."""
        try:
            op, count = node.op, len(node.inputs)
            _, out_shapes = pair(op, "infer_shape", op.infer_shape([s.shape for s in node.inputs]), count)
            _, out_types = pair(op, "infer_type", op.infer_type([s._dtype for s in node.inputs]), count)
        except Exception as error:
            _explain_node(node, "infer_shape", error)
        return out_shapes, out_types

    # --- shapes that are unknown at first ------------------------------------------------------------------

    def _infer_later(self, node: TraceNode, inference: ShapeInference) -> None:
        """Infer what follows now; later operators may say more."""
        try:
            op = node.op
            _, dtypes = pair(op, "infer_type", op.infer_type([s._dtype for s in node.inputs]), len(node.inputs))
        except Exception as error:
            _explain_node(node, "infer_type", error)
        self._results(node, [None] * len(dtypes), dtypes)
        step = InferenceStep(node.op, node.inputs, node.outputs, [s.constant is not None for s in node.inputs], node)
        inference.add(step)
        inference.settle()
        if step.waits() and inference.guess(step):  # what follows in the forward may read the shape
            inference.settle()

    def _open(self, node: TraceNode) -> None:
        """Leave sizes 0 of an array that is made open: they follow from its use."""
        if self.inference is None:
            self.inference = ShapeInference(_explain)
        shapes, dtypes = self._infer(node)
        self._results(node, [tuple(n or -1 for n in s) for s in shapes], dtypes)
        self.is_open = True

    def refuse_unknown(self, symbol: TracedSymbol) -> NoReturn:
        """Raise, as an unknown shape was read."""
        if self.is_open:
            raise OpenShapeError(f"the shape of {symbol.name} follows from its use, and cannot be read before")
        raise self._not_inferred("", symbol)

    def _not_inferred(self, where: str, symbol: TracedSymbol) -> ParameterShapeError:
        return ParameterShapeError(
            f"{where}the shape of {symbol.name} is unknown, and does not follow from the other inputs; give it where "
            "the parameter is made"
        )

    def infer(self) -> None:
        """Infer shapes that were unknown when first used; an error if some of parameters do not follow."""
        inference, self.opens = self.inference, False
        if inference is None:
            return
        inference.finish()
        inference.finish(equal=True)
        for node in filter(_makes_open, self.nodes if self.is_open else ()):
            symbol = node.outputs[0]
            shape: Any = symbol.inferred_shape
            inference.put(symbol, tuple(0 if n == -1 else n for n in shape))  # nothing says more: no elements
            inference.finish()
            node.op = node.op.bind(**{**node.op.attrs, "shape": symbol.inferred_shape})
        self.inference, self.is_open = None, False
        leaves = zip(self.leaves, self.roles, strict=True)
        unknown = [s for s, role in leaves if not is_known(s.inferred_shape) and role == "parameter"]
        for node in self.nodes:
            first = next((s for s in node.inputs if s.inferred_shape is None and s.node is None), None)
            if first is not None:
                raise located(self._not_inferred(f"{node.op.title()}: ", first), node.location)
        if unknown:
            names = ", ".join(s.name for s in unknown)
            raise ParameterShapeError(
                f"the shape of {names} cannot be inferred from the inputs; give it where the parameter is made "
                "(in_units=…, shape=…), or use it in an operator that infers it, such as F.FullyConnected"
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


def _stand_in(trace: Trace, value: Any) -> Any:
    """Replace the arrays in an argument by Symbols."""
    if isinstance(value, NDArray):
        trace.meet(value.context)
        return trace.leaf(
            f"data{len(trace.leaves)}", value.shape, value.dtype, "data", numpy=isinstance(value, ndarray)
        )
    if isinstance(value, list | tuple):
        parts = [_stand_in(trace, v) for v in as_list(value)]
        return tuple(parts) if isinstance(value, tuple) else parts
    return value


def trace_call(block: Any, args: Sequence[Any], training: bool) -> Trace:
    """The trace of ``block(*args)``; only shapes and dtypes of the arguments matter.

    Sizes 0 of arrays that it makes, as ``F.zeros(shape=(0, n))`` of MXNet's recurrent programs, follow from their use,
    unless the forward reads them.
    """
    try:
        return _traced(block, args, training, opens=not STATE.np_shape)
    except OpenShapeError:
        return _traced(block, args, training, opens=False)


def _traced(block: Any, args: Sequence[Any], training: bool, opens: bool) -> Trace:
    trace = Trace(training)
    trace.opens = opens
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


def _explain(step: InferenceStep, error: Exception) -> NoReturn:
    _explain_node(step.origin, "infer_shape", error)


def _explain_node(node: TraceNode, method: str, error: Exception) -> NoReturn:
    """Raise an error of an operator's inference with its context."""
    if not isinstance(error, MXNetError):
        raise_in_context(node.op, method, error)
        raise error
    if node.location is None:
        raise error
    if isinstance(error, ShapeError) and not all(_is_closed(s.inferred_shape) for s in node.inputs):
        explained = located(error, node.location)
        raise ParameterShapeError(str(explained)) from error
    raise_located(error, node.location)


def _is_closed(shape: Any) -> bool:
    """Whether all sizes are known; sizes computed from unknown ones may be any negative number, as -2 twice -1."""
    return is_known(shape) and min(shape, default=0) >= 0


def _makes_open(node: TraceNode) -> bool:
    """Whether a node makes an array some of whose sizes are 0."""
    return len(node.inputs) == node.op.DRAWS and 0 in (node.op.attrs.get("shape") or ())


def _statement(error: BaseException) -> tuple[str, int] | None:
    """The user's file and line that called the failing operator; None if the error was not raised in user code."""
    place: tuple[str, int] | None = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        if isinstance(frame.f_locals.get("self"), Operator):
            break
        file = frame.f_code.co_filename
        if is_users(file) and not file.startswith("<"):
            place = file, line
    return place
