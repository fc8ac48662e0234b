"""Inference of shapes and dtypes in a composed graph from those of some inputs, forwards and backwards.

It uses the operators' rules (``complete_shapes``, ``infer_shape``, ``complete_types``, ``infer_type``), forward and
backward along the graph, to a fixed point. An unknown shape is None, an unknown size -1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from hybridc.dialects.body import Body
from hybridc.dialects.operator import Elementwise, Operator
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError, ShapeError
from hybridc.ground.state import STATE
from hybridc.symbol import graph
from hybridc.symbol.graph import Entry, SymbolNode
from hybridc.symbol.node_attributes import declared_dtype, declared_shape
from hybridc.symbol.subgraph_nodes import body_to_nodes

T = TypeVar("T")
_KEY_SHAPE: Shape = (2,)  # of a key of the random generator
_KEY_DTYPE = np.dtype(np.uint64)
_FLOAT32 = np.dtype(np.float32)
# Two sizes with many divisors, substituted for unknown ones: what is equal for both does not depend on them.
_PROBES = (5040, 10080)
# Two dtypes that every operator on numbers takes, substituted for unknown ones.
_PROBED_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


class _Inferred:
    """The known shapes, or dtypes, of the values of a graph."""

    def __init__(self, entries: Sequence[Entry], what: str, given: Mapping[str, Any]) -> None:
        self.nodes = graph.topological(entries)
        self.what = what
        self.given = given
        self.values: dict[tuple[int, int], Any] = {}
        self.changed = False

    def get(self, entry: Entry) -> Any:
        """The known shape or dtype of a value, or None."""
        return self.values.get((id(entry[0]), entry[1]))

    def put(self, entry: Entry, value: Any) -> None:
        """Note the known shape or dtype of a value."""
        known = self.get(entry)
        if value is not None and (known is None or value != known):  # NumPy takes None for float64
            self.values[id(entry[0]), entry[1]] = value
            self.changed = True

    def spread(self, step: Callable[[SymbolNode], None]) -> None:
        """Ask every operator, along the graph and back, until nothing changes."""
        operators = [n for n in self.nodes if n.op is not None and n.number is None]
        self.changed = True
        while self.changed:
            self.changed = False
            for node in (*operators, *reversed(operators)):
                self.spread_one(node, step)

    def spread_one(self, node: SymbolNode, step: Callable[[SymbolNode], None]) -> None:
        """Ask one operator."""
        try:
            step(node)
        except MXNetError as error:
            explained = self.explained(node, error)
            raise explained from explained.__cause__

    def explained(self, node: SymbolNode, error: MXNetError) -> MXNetError:
        """The operator's error, with the node, the user's line and what inference was given."""
        where = f"{node.location}: " if node.location is not None else ""
        given = ", ".join(f"{k}: {v}" for k, v in self.given.items()) or "nothing"
        return error.restated(f"{where}operator {node.name}: {error} ({self.what} was given {given})")


def ready(op: Operator) -> Operator:
    """The operator for inference: in training mode, if it has modes."""
    return op.bind(**{**op.attrs, "train": True}) if op.TRAIN_MODE and op.attrs["train"] is None else op


# --- shapes --------------------------------------------------------------------------------------------------


class Shapes(_Inferred):
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
        super().__init__(entries, what, {k: v for k, v in given.items() if v is not None})
        for node in self.nodes:
            if node.number is not None:
                self.put((node, 0), ())
            if node.is_variable:
                shape = self.given.get(node.name)
                shape = shape if exact else _unknown_as_none(shape)
                self.put((node, 0), declared_shape(node) if shape is None else shape)
            if is_open(node):
                self.put((node, 0), _unknown_as_none(made_shape(node)))
        for entry, shape in zip(entries, results, strict=False):
            if entry[0].number is None:
                self._merge(entry, shape)
        self._spread_all()
        for node in self.nodes:
            if is_open(node) and not is_known(self.get((node, 0))):  # nothing says more: there are no elements
                self.values[id(node), 0] = made_shape(node)
                self._spread_all()

    def _spread_all(self) -> None:
        self.spread(self._step)
        while any(self._guess(node) for node in self.nodes):
            self.spread(self._step)

    def _guess(self, node: SymbolNode) -> bool:
        """Whether more is known if an unknown input of an operator that broadcasts is taken to have the full shape."""
        self.changed = False
        if node.op is not None and self._broadcasts(node):
            self.spread_one(node, lambda node: self._step(node, guess=True))
        return self.changed

    def _broadcasts(self, node: SymbolNode) -> bool:
        """Whether inputs of unknown shape may have another shape than the others, in an operator on several arrays."""
        arrays = [self.get(e) for e in node.inputs if e[0].number is None]
        return isinstance(node.op, Elementwise) and len(arrays) > 1 and None in arrays

    def _step(self, node: SymbolNode, guess: bool = False) -> None:
        assert node.op is not None
        if is_open(node) or (self._broadcasts(node) and not guess):
            return
        op = ready(node.op)
        numbers = [entry[0].number is not None for entry in node.inputs]
        outputs = [self.get((node, i)) for i in range(node.num_outputs())]
        ins = [None if n else self.get(e) for e, n in zip(node.inputs, numbers, strict=True)]
        ins = [() if n else s for s, n in zip(op.complete_shapes(ins, outputs), numbers, strict=True)]
        self._put_inputs(node, ins)
        shapes = [s for s in ins if s is not None]
        if len(shapes) < len(ins):
            return
        found_ins, found_outs = _ask(op, shapes)
        self._put_inputs(node, found_ins)
        for i, shape in enumerate(found_outs):
            self._merge((node, i), shape)

    def _put_inputs(self, node: SymbolNode, shapes: Sequence[Shape | None]) -> None:
        for entry, shape in zip(node.inputs, shapes, strict=False):
            if entry[0].number is None:
                self._merge(entry, shape)

    def _merge(self, entry: Entry, shape: Shape | None) -> None:
        """Add what an operator says of a shape to what is known of it."""
        known = self.get(entry)
        if shape is None or known is None:
            self.put(entry, shape)
            return
        if len(known) != len(shape) or any(-1 not in (k, s) and k != s for k, s in zip(known, shape, strict=True)):
            names = entry[0].output_names()
            name = names[entry[1]] if entry[1] < len(names) else entry[0].name
            raise ShapeError(f"Shape inconsistent, Provided = {known}, inferred shape={shape} of {name}")
        self.put(entry, tuple(s if k == -1 else k for k, s in zip(known, shape, strict=True)))


def _ask(op: Operator, shapes: list[Shape]) -> tuple[list[Shape | None], list[Shape | None]]:
    """The result of ``infer_shape`` for inputs and outputs; sizes that depend on unknown ones are -1."""
    if op.DRAWS:
        shapes = [*shapes, _KEY_SHAPE]
    if op.INFERS_PARTLY or not any(-1 in s for s in shapes):
        ins, outs = op.infer_shape(shapes)
        return [*ins], [*outs]
    try:
        filled, _ = op.infer_shape(list(shapes))
    except MXNetError:  # it takes no unknown sizes: nothing to fill in
        filled = shapes
    try:
        first, second = (op.infer_shape(_probed(shapes, filled, p)) for p in _PROBES)
    except MXNetError:  # it needs to know more
        return [*shapes], []
    return _alike(first[0], second[0]), _alike(first[1], second[1])


def _probed(shapes: Sequence[Shape], filled: Sequence[Shape], size: int) -> list[Shape]:
    """The shapes with a size substituted for unknown ones that the operator does not fill in."""
    return [
        tuple(size if n == -1 and f < 0 else n for n, f in zip(s, fs, strict=True))
        for s, fs in zip(shapes, filled, strict=True)
    ]


def _alike(first: Sequence[Shape], second: Sequence[Shape]) -> list[Shape | None]:
    return [
        tuple(n if n == m else -1 for n, m in zip(s, t, strict=True)) if len(s) == len(t) else None
        for s, t in zip(first, second, strict=True)
    ]


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


def is_known(shape: Shape | None) -> bool:
    """Whether all sizes are known."""
    return shape is not None and -1 not in shape


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


class Types(_Inferred):
    """Dtypes of all values that follow from the given dtypes of variables; ``default`` for what remains unknown."""

    def __init__(
        self,
        entries: Sequence[Entry],
        given: Mapping[str, Any],
        default: DType | None = None,
        what: str = "infer_type",
    ) -> None:
        super().__init__(entries, what, {k: np.dtype(v) for k, v in given.items() if v is not None})
        variables = [n for n in self.nodes if n.is_variable]
        for node in self.nodes:
            if node.op is not None and node.number is not None:  # alone; beside an array it takes the array's dtype
                self.put((node, 0), node.op.infer_type([])[1][0])
        for node in variables:
            given_type = self.given.get(node.name)  # a dtype is false, so `or` will not do
            self.put((node, 0), declared_dtype(node) if given_type is None else given_type)
        self.spread(self._step)
        for node in variables if default is not None else ():
            if self.get((node, 0)) is None:
                self.put((node, 0), default)
                self.spread(self._step)

    def _step(self, node: SymbolNode) -> None:
        assert node.op is not None
        op = ready(node.op)
        numbers = [e[0].number is not None for e in node.inputs]  # which take the dtype of the arrays beside them
        ins = op.complete_types([None if n else self.get(e) for n, e in zip(numbers, node.inputs, strict=True)])
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

    def _probe(self, node: SymbolNode, op: Operator, dtypes: Sequence[DType | None]) -> None:
        """Substitute two dtypes for the unknown ones of the inputs.

        A result that has the same dtype for both has it always; of a result that takes the dtype of the unknown inputs,
        they take the dtype.
        """
        asked = [[p if d is None else d for d in dtypes] + [_KEY_DTYPE] * op.DRAWS for p in _PROBED_DTYPES]
        try:
            first, second = (op.infer_type(each)[1] for each in asked)
        except MXNetError:  # no such dtypes, or not both beside what is known
            return
        for i, found in enumerate(zip(first, second, strict=True)):
            known = self.get((node, i))
            if found[0] == found[1]:
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
    return [[(n, 0) for n in graph.arguments(entries)], list(entries), [(n, 0) for n in graph.auxiliary(entries)]]


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
    arguments = [n.name for n in graph.arguments(entries)]
    if len(args) > len(arguments):
        raise MXNetError(f"{what}: {len(args)} values for {len(arguments)} arguments: {', '.join(arguments)}")
    names = {n.name for n in graph.variables(entries)}
    for name in kwargs:
        if name not in names:
            raise MXNetError(
                f"{what}: Keyword argument name {name} not found.\nCandidate arguments:\n"
                + "\n".join(f"\t[{i}]{n}" for i, n in enumerate(arguments))
            )
    return dict(kwargs) if kwargs else dict(zip(arguments, args, strict=False))
