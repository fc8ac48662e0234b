"""Inference of shapes and dtypes in a composed graph from those of some inputs, forwards and backwards.

It uses the operators' rules (``complete_shapes``, ``infer_shape``, ``complete_types``, ``infer_type``), forward and
backward along the graph, to a fixed point. An unknown shape is None, an unknown size -1.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from hybridc.dialects.array.shape_rules import is_known
from hybridc.dialects.body import Body
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.ground.state import STATE
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.node_attributes import declared_dtype, declared_shape
from hybridc.symbol.subgraph_nodes import body_to_nodes
from hybridc.trace.shape_inference import InferenceStep, ShapeInference

T = TypeVar("T")
_KEY_DTYPE = np.dtype(np.uint64)
_FLOAT32 = np.dtype(np.float32)
# Two dtypes that every operator on numbers takes, substituted for unknown ones.
_PROBED_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
_PROBED_INTEGER = np.dtype(np.int32)  # which some take, too: a cast of mixed precision leaves integers as they are


class _Inference:
    """What inference was given, for its errors."""

    def __init__(self, what: str, given: Mapping[str, Any]) -> None:
        self.what = what
        self.given = given

    def explained(self, node: SymbolNode, error: MXNetError) -> MXNetError:
        """The operator's error, with the node, the user's line and what inference was given."""
        where = f"{node.location}: " if node.location is not None else ""
        given = ", ".join(f"{k}: {v}" for k, v in self.given.items()) or "nothing"
        return error.restated(f"{where}operator {node.name}: {error} ({self.what} was given {given})")


def ready(op: Operator) -> Operator:
    """The operator for inference: in training mode, if it has modes."""
    return op.bind(**{**op.attrs, "train": True}) if op.TRAIN_MODE and op.attrs["train"] is None else op


# --- shapes --------------------------------------------------------------------------------------------------


class _NodeResult:
    """The shape of one result of a node."""

    __slots__ = ("entry", "inferred_shape")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.inferred_shape: Shape | None = None

    @property
    def name(self) -> str:
        """The result's name."""
        node, index = self.entry
        names = node.output_names()
        return names[index] if index < len(names) else node.name


class Shapes(_Inference):
    """Shapes of all values that follow from the given shapes of variables, by name.

    Users give 0 for an unknown size and () for an unknown shape; ``exact`` shapes are those of arrays. Shapes of
    ``results`` may be known, too.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        given: Mapping[str, Shape | None],
        what: str = "infer_shape",
        exact: bool = False,
        results: Sequence[Shape | None] = (),
    ) -> None:
        super().__init__(what, {k: v for k, v in given.items() if v is not None})
        self.nodes = graph.topological(entries)
        self._values: dict[tuple[int, int], _NodeResult] = {}
        inference = ShapeInference(self._explain)
        opened = [node for node in self.nodes if is_open(node)]
        for node in self.nodes:
            op = None if node.op is None else ready(node.op)
            values = [self._value((node, i)) for i in range(1 if op is None else op.results)]
            if node.number is not None:
                values[0].inferred_shape = ()
            elif op is None:
                shape = self.given.get(node.name)
                shape = shape if exact else _unknown_as_none(shape)
                values[0].inferred_shape = declared_shape(node) if shape is None else tuple(shape)
            elif is_open(node):
                values[0].inferred_shape = _unknown_as_none(made_shape(node))
            else:
                inputs = [self._value(entry) for entry in node.inputs]
                numbers = [entry[0].number is not None for entry in node.inputs]
                inference.add(InferenceStep(op, inputs, values, numbers, node))
        for entry, shape in zip(entries, results, strict=False):
            if entry[0].number is None:
                inference.put(self._value(entry), shape)
        inference.finish()
        if not all(is_known(self.get((node, 0))) for node in opened):
            inference.finish(equal=True)
        for node in opened:
            if not is_known(self.get((node, 0))):  # nothing says more: there are no elements
                inference.put(self._value((node, 0)), _zero_as_unknown(self.get((node, 0))))
                inference.finish()

    def get(self, entry: Entry) -> Shape | None:
        """The shape of a value, or None."""
        value = self._values.get((id(entry[0]), entry[1]))
        return None if value is None else value.inferred_shape

    def _value(self, entry: Entry) -> _NodeResult:
        known = id(entry[0]), entry[1]
        if known not in self._values:
            self._values[known] = _NodeResult(entry)
        return self._values[known]

    def _explain(self, step: InferenceStep, error: Exception) -> NoReturn:
        if not isinstance(error, MXNetError):
            raise error
        explained = self.explained(step.origin, error)
        raise explained from explained.__cause__


def _zero_as_unknown(shape: Shape | None) -> Shape | None:
    """A shape with 0 for sizes that are unknown."""
    return None if shape is None else tuple(0 if n == -1 else n for n in shape)


def _unknown_as_none(shape: Sequence[int] | None) -> Shape | None:
    """A shape as users give it: 0 is an unknown size, () an unknown shape, unless :func:`hybridc.util.is_np_shape`."""
    if STATE.np_shape:
        return None if shape is None else tuple(int(n) for n in shape)
    return tuple(-1 if n in (0, -1) else int(n) for n in shape) if shape else None


def is_open(node: SymbolNode) -> bool:
    """Whether a node makes an array of which some sizes are 0, which means that they follow: ``sym.zeros((0, 3))``."""
    return 0 in made_shape(node) and not STATE.np_shape


def made_shape(node: SymbolNode) -> Shape:
    """The shape that a node without inputs was given, or ()."""
    return () if node.op is None or node.inputs else node.op.attrs.get("shape") or ()


def listed_shapes(entries: Sequence[Entry], args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool) -> Any:
    """The result of ``Symbol.infer_shape``."""
    given = by_name(entries, args, kwargs, "infer_shape")
    for name, shape in given.items():
        if shape is not None and not isinstance(shape, tuple | list):
            raise TypeError(f"infer_shape: the shape of {name} must be a tuple of integers, got {shape!r}")
    found = Shapes(entries, given)
    groups = [[found.get(e) for e in group] for group in _groups(entries)]
    if not partial and not all(is_known(s) for group in groups for s in group):
        names = [(n.name, found.get((n, 0))) for n in graph.arguments(entries)]
        _warn_undecided(
            "shape",
            [f"{n}: {_shown(s)}" for n, s in names if not is_known(s)],
            f" ({-1 if STATE.np_shape else 0}s in shape means unknown dimensions)",
        )
        return None, None, None
    return tuple([_shown(s) for s in group] for group in groups)


def _shown(shape: Shape | None) -> Shape | None:
    """A shape as users get it."""
    if STATE.np_shape:
        return shape
    return () if shape is None else tuple(0 if n == -1 else n for n in shape)


def graph_shapes(
    body: Body, arguments: Sequence[Shape | None], results: Sequence[Shape | None]
) -> tuple[list[Shape | None], list[Shape | None]]:
    """Shapes of the arguments and the results of a nested graph that follow from those known of them."""
    variables = [SymbolNode(None, f"argument{i}") for i in range(body.arguments)]
    entries = body_to_nodes(body, variables, len(results))
    given = {node.name: shape for node, shape in zip(variables, arguments, strict=True)}
    found = Shapes(entries, given, "a graph inside", exact=True, results=results)
    used = {id(node) for node in found.nodes}
    inside = [found.get((v, 0)) if id(v) in used else shape for v, shape in zip(variables, arguments, strict=True)]
    return inside, [found.get(entry) for entry in entries]


# --- dtypes --------------------------------------------------------------------------------------------------


class Types(_Inference):
    """Dtypes of all values that follow from the given dtypes of variables; ``default`` for what remains unknown."""

    def __init__(
        self,
        entries: Sequence[Entry],
        given: Mapping[str, Any],
        default: DType | None = None,
        what: str = "infer_type",
    ) -> None:
        super().__init__(what, {k: np.dtype(v) for k, v in given.items() if v is not None})
        self.nodes = graph.topological(entries)
        self.values: dict[tuple[int, int], DType] = {}
        self.changed = False
        self._asked: dict[int, list[DType | None]] = {}  # for what inputs an operator has said all, by identity
        variables = [n for n in self.nodes if n.is_variable]
        for node in self.nodes:
            if node.op is not None and node.number is not None:  # alone; beside an array it takes the array's dtype
                self.put((node, 0), node.op.infer_type([])[1][0])
        for node in variables:
            given_type = self.given.get(node.name)  # a dtype is false, so `or` will not do
            self.put((node, 0), declared_dtype(node) if given_type is None else given_type)
        self._spread()
        for node in variables if default is not None else ():
            if self.get((node, 0)) is None:
                self.put((node, 0), default)
                self._spread()

    def get(self, entry: Entry) -> Any:
        """The known dtype of a value, or None."""
        return self.values.get((id(entry[0]), entry[1]))

    def put(self, entry: Entry, value: Any) -> None:
        """Note the known dtype of a value."""
        known = self.get(entry)
        if value is not None and (known is None or value != known):  # NumPy takes None for float64
            self.values[id(entry[0]), entry[1]] = value
            self.changed = True

    def _spread(self) -> None:
        """Ask every operator, along the graph and back, until nothing changes."""
        operators = [n for n in self.nodes if n.op is not None and n.number is None]
        self.changed = True
        while self.changed:
            self.changed = False
            for node in (*operators, *reversed(operators)):
                self._ask(node)

    def _ask(self, node: SymbolNode) -> None:
        try:
            self._step(node)
        except MXNetError as error:
            explained = self.explained(node, error)
            raise explained from explained.__cause__

    def _step(self, node: SymbolNode) -> None:
        assert node.op is not None
        known = [self.get(entry) for entry in node.inputs]
        if self._asked.get(id(node)) == known:
            return
        op = ready(node.op)
        numbers = [e[0].number is not None for e in node.inputs]  # which take the dtype of the arrays beside them
        ins = op.complete_types([None if n else d for n, d in zip(numbers, known, strict=True)])
        for n, entry, dtype in zip(numbers, node.inputs, ins, strict=True):
            if not n and self.get(entry) is None:
                self.put(entry, dtype)
        first = next((d for n, d in zip(numbers, ins, strict=True) if not n), _FLOAT32)
        dtypes = [first if n else d for n, d in zip(numbers, ins, strict=True)]
        if any(d is None for d in dtypes):
            self._probe(node, op, dtypes)
            return
        _, outs = op.infer_type([*[d for d in dtypes if d is not None], *[_KEY_DTYPE] * op.DRAWS])
        for i, dtype in enumerate(outs):
            self.put((node, i), dtype)
        if None not in known:
            self._asked[id(node)] = known

    def _probe(self, node: SymbolNode, op: Operator, dtypes: Sequence[DType | None]) -> None:
        """Substitute two dtypes for the unknown ones of the inputs.

        A result that has the same dtype for both has it always; of a result that takes the dtype of the unknown inputs,
        they take the dtype.
        """

        def results(probe: DType) -> list[DType]:
            return op.infer_type([probe if d is None else d for d in dtypes] + [_KEY_DTYPE] * op.DRAWS)[1]

        try:
            first, second = map(results, _PROBED_DTYPES)
        except MXNetError:  # no such dtypes, or not both beside what is known
            return
        try:
            third = results(_PROBED_INTEGER)
        except MXNetError:  # it takes floating-point numbers only
            third = first
        for i, found in enumerate(zip(first, second, strict=True)):
            known = self.get((node, i))
            if found[0] == found[1] and found[0] == third[i]:
                self.put((node, i), found[0])
            elif found == _PROBED_DTYPES and known is not None:
                for entry, dtype in zip(node.inputs, dtypes, strict=True):
                    if dtype is None:
                        self.put(entry, known)
                return


def listed_types(entries: Sequence[Entry], args: Sequence[Any], kwargs: Mapping[str, Any], partial: bool) -> Any:
    """The result of ``Symbol.infer_type``."""
    found = Types(entries, by_name(entries, args, kwargs, "infer_type"))
    groups = [[found.get(e) for e in group] for group in _groups(entries)]
    if not partial and any(d is None for group in groups for d in group):
        _warn_undecided("type", [f"{n.name}: None" for n in graph.arguments(entries) if found.get((n, 0)) is None])
        return None, None, None
    return tuple([None if d is None else d.type for d in group] for group in groups)


# --- both ----------------------------------------------------------------------------------------------------


def _groups(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Arguments, outputs, auxiliary states: the order of the results of inference."""
    arguments, states = graph.inputs(entries)
    return [[(n, 0) for n in arguments], list(entries), [(n, 0) for n in states]]


def _warn_undecided(kind: str, names: Sequence[str], note: str = "") -> None:
    warnings.warn(
        f"Cannot decide {kind} for the following arguments{note}. Consider providing them as input:\n\t"
        + "\n\t".join(names),
        stacklevel=4,
    )


def by_name(entries: Sequence[Entry], args: Sequence[T], kwargs: Mapping[str, T], what: str) -> dict[str, T]:
    """Values given in the order of the arguments, or by name; checked for names that do not exist."""
    if args and kwargs:
        raise ValueError(f"{what}: give known values either in the order of the arguments or by name, not both")
    variables, states = graph.inputs(entries)
    arguments = [n.name for n in variables]
    if len(args) > len(arguments):
        raise MXNetError(f"{what}: {len(args)} values for {len(arguments)} arguments: {', '.join(arguments)}")
    names = {*arguments, *(n.name for n in states)}
    for name in kwargs:
        if name not in names:
            raise MXNetError(
                f"{what}: Keyword argument name {name} not found.\nCandidate arguments:\n"
                + "\n".join(f"\t[{i}]{n}" for i, n in enumerate(arguments))
            )
    return dict(kwargs) if kwargs else dict(zip(arguments, args, strict=False))
