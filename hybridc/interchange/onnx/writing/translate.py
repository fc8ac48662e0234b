"""How an operator is written as ONNX nodes.

:func:`translation` registers the function of an operator class. Operators without one are written by what they are:
their decomposition, their scalar body, or their movement.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from hybridc.dialects.body import Body
from hybridc.dialects.derived import decomposition_graph
from hybridc.dialects.error_context import located
from hybridc.dialects.operator import Composite, Elementwise, Operator
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.scalar import record, replay
from hybridc.errors import OnnxExportError
from hybridc.ground.location import Location
from hybridc.ground.nesting import as_list
from hybridc.ground.sizes import are_same, is_size
from hybridc.interchange.onnx.writing.graph_writer import GraphWriter, refuse
from hybridc.interchange.onnx.writing.onnx_value import OnnxValue

Write = Callable[["Translator", Any, Sequence[OnnxValue]], Any]
TRANSLATIONS: dict[type[Operator], Write] = {}
# Operators that ONNX cannot say, and why.
REASONS: dict[type[Operator], str] = {}


def can_write(cls: type[Operator]) -> bool:
    """Whether operators of a class have a translation, or are written by what they are."""
    by_itself = issubclass(cls, Elementwise | Composite) or cls.move is not Operator.move
    return cls not in REASONS and (cls in TRANSLATIONS or by_itself)


class Result(NamedTuple):
    """What an operator gives: the shape and the dtype of one result."""

    shape: Shape
    dtype: DType


def has_no_elements(shape: Shape) -> bool:
    """Whether an array of this shape is empty."""
    return any(not is_size(n) and n == 0 for n in shape)


def translation(*classes: type[Operator]) -> Callable[[Write], Write]:
    """Decorator: ``write(t, op, inputs)`` gives the results of an operator of exactly these classes.

    It gives None for attributes that ONNX's operator does not have: then the operator is written as one without a
    translation.
    """

    def enter(write: Write) -> Write:
        TRANSLATIONS.update(dict.fromkeys(classes, write))
        return write

    return enter


class Translator:
    """Writes operators into a graph; ``steps`` and ``moves`` build scalar bodies and movements there."""

    def __init__(self, writer: GraphWriter, own_domain: bool = False) -> None:
        self.writer = writer
        self.steps = writer.builder
        self.moves = writer.moves
        self.own_domain = own_domain
        self.opset = writer.opset

    # --- for translations ----------------------------------------------------------------------------------

    def node(self, operator: str, inputs: Sequence[OnnxValue | None], result: Any, **attributes: Any) -> OnnxValue:
        """A node with one result, which has the shape and the dtype of ``result``."""
        return self.writer.node(operator, inputs, result.shape, result.dtype, **attributes)

    def constant(self, array: Any, dtype: Any = None) -> OnnxValue:
        """A known array."""
        return self.writer.constant(array, dtype)

    def results_of(self, op: Operator, inputs: Sequence[OnnxValue]) -> list[Result]:
        """The shapes and dtypes of an operator's results, by its inference."""
        shapes = op.infer_shape([x.shape for x in inputs])[1]
        dtypes = op.infer_type([x.dtype for x in inputs])[1]
        return [Result(tuple(s), np.dtype(d)) for s, d in zip(shapes, dtypes, strict=True)]

    # --- operators -----------------------------------------------------------------------------------------

    def write(self, op: Operator, inputs: Sequence[OnnxValue], location: Location | None = None) -> list[OnnxValue]:
        """The results of an operator, in the dtypes of its inference; of hidden ones, those that its way gives."""
        with self._explained(op, location):
            wanted = self.results_of(op, inputs)
            if all(has_no_elements(r.shape) for r in wanted):
                return [self.moves.full(r.shape, r.dtype, 0) for r in wanted]
            found = as_list(self._written(op, inputs))
            return [self.writer.cast(self._shaped(y, r.shape), r.dtype) for y, r in zip(found, wanted, strict=False)]

    def _shaped(self, y: Any, shape: Shape) -> OnnxValue:
        value = y if isinstance(y, OnnxValue) else self.constant(y)
        if are_same(value.shape, shape):
            return value
        return self.moves.broadcast(value, shape) if value.ndim <= len(shape) else self.moves.reshape(value, shape)

    @contextlib.contextmanager
    def _explained(self, op: Operator, location: Location | None) -> Generator[None]:
        try:
            yield
        except OnnxExportError as error:
            if location is None or getattr(error, "is_located", False):
                raise
            explained = located(error, location)
            vars(explained)["is_located"] = True
            raise explained from error

    def _written(self, op: Operator, inputs: Sequence[OnnxValue]) -> Any:
        own = TRANSLATIONS.get(type(op))
        found = None if own is None else own(self, op, inputs)
        if found is not None:
            return found
        if op.decomposes():
            return self.decomposed(op, inputs)
        if isinstance(op, Elementwise):
            return self._elementwise(op, inputs)
        moved = self._moved(op, inputs)
        return self._unknown(op, inputs) if moved is None else moved

    def decomposed(self, op: Any, inputs: Sequence[OnnxValue]) -> list[OnnxValue]:
        """The results by the operators that an operator is made of."""
        trace, leaves, outputs = decomposition_graph(op, inputs)
        values = {id(leaf): x for leaf, x in zip(leaves, inputs, strict=True)}
        for leaf, role in zip(trace.leaves, trace.roles, strict=True):
            if role == "key":
                values.setdefault(id(leaf), self.random_key())
        self.write_nodes(trace.nodes, values)
        return [values[id(y)] if hasattr(y, "trace") else y for y in outputs]

    def random_key(self) -> OnnxValue:
        """What stands for the key of random samples: nodes draw their own."""
        return self.writer.value("", (2,), np.uint64)

    def write_nodes(self, nodes: Sequence[Any], values: dict[int, OnnxValue]) -> None:
        """The nodes of a trace; ``values`` maps identities of its symbols to values, and gets the results."""
        for node in nodes:
            results = self.write(node.op, [values[id(x)] for x in node.inputs], node.location)
            values.update((id(symbol), y) for symbol, y in zip(node.outputs, results, strict=False))

    def write_body(self, body: Body, inputs: Sequence[OnnxValue]) -> list[OnnxValue]:
        """The results of a graph inside an operator."""
        values: dict[int, OnnxValue] = dict(enumerate(inputs))
        for step in body.typed([x.dtype for x in inputs]).steps:
            results = self.write(step.op, [values[i] for i in step.inputs], step.location)
            values.update(enumerate(results, step.first))
        return [values[i] for i in body.results]

    def _elementwise(self, op: Elementwise, inputs: Sequence[OnnxValue]) -> OnnxValue:
        _, steps, result = record(op, len(inputs))
        given = [self.steps.as_value(x, op.COMPUTES_IN.get(x.dtype, x.dtype)) for x in inputs]
        found = replay(steps, result, given, self.steps.step)
        return found if isinstance(found, OnnxValue) else self.steps.as_value(found, inputs[0].dtype)

    def _moved(self, op: Operator, inputs: Sequence[OnnxValue]) -> Any:
        try:
            return op.move(self.moves, *inputs)
        except AttributeError as error:
            raise refuse(op.title(), f"its movement uses {error}") from error

    def _unknown(self, op: Operator, inputs: Sequence[OnnxValue]) -> Any:
        reason = REASONS.get(type(op))
        if reason is not None:
            raise refuse(op.title(), reason)
        if self.own_domain:
            return self._own_node(op, inputs)
        raise refuse(
            op.title(),
            "its code is opaque, and ONNX has no operator of its meaning; give it a decomposition, or ask for a node "
            "of its own with own_domain=True",
        )

    def _own_node(self, op: Operator, inputs: Sequence[OnnxValue]) -> list[OnnxValue]:
        """A node in the domain that the operator's name begins with, which an engine's user must bring."""
        domain, _, name = op.NAME.partition(".")
        self.writer.domains[domain] = 1
        texts = {k: str(v) for k, v in op.attrs.items()}
        outputs = [(r.shape, r.dtype) for r in self.results_of(op, inputs)]
        given = [x for x in inputs if x.name or x.known is not None]
        return self.writer.results(name, given, outputs, domain=domain, **texts)
