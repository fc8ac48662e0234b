"""OnnxBlock: an ONNX model as a layer, which is traced, compiled and trained like any other."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hybridc.array.dispatch import is_symbol
from hybridc.array.ndarray import NDArray
from hybridc.array.numpy_array import ndarray
from hybridc.dtypes import TYPES, is_float
from hybridc.errors import OnnxFileError, OnnxUnsupportedError
from hybridc.gluon.hybrid_block import HybridBlock
from hybridc.gluon.hybridize.call_samples import samples
from hybridc.gluon.hybridize.report import Report
from hybridc.gluon.parameter import Parameter, ParameterDict
from hybridc.ground.nesting import as_list
from hybridc.ground.records import dataclass
from hybridc.ground.state import STATE
from hybridc.interchange.onnx.reading import operators as operators
from hybridc.interchange.onnx.reading.input_roles import InputRoles
from hybridc.interchange.onnx.reading.model_graph import ModelGraph, ModelNode, OnnxModel, TensorInfo
from hybridc.interchange.onnx.reading.model_parts import body_of, names_from_outside, part_of
from hybridc.interchange.onnx.reading.onnx_rules import rule_of
from hybridc.interchange.onnx.reading.walk import Walk
from hybridc.interchange.onnx.reading.walk_values import WIDER, as_np, at_once, has_dtype, lifted, lowered, widened
from hybridc.trace.traced import TracedSymbol
from hybridc.util import np_array, np_shape

#: Elements of an input whose values are part of a graph: sizes, axes, indices of slices.
MOST_VALUES = 1024

#: Shapes of inputs for which a loop's body is compiled: one that meets more meets another at each step.
MOST_SHAPES = 8

# Initializers of these dtypes train.
_FLOATS = frozenset(dtype for dtype in TYPES if is_float(dtype) and dtype.itemsize > 1)


class OnnxBlock(HybridBlock):
    """The outputs of an ONNX model as a function of its inputs, in the order of ``input_names``.

    Float initializers are parameters with gradients; those that sizes follow from, and integers, are constants. Inputs
    from which sizes follow are part of a compiled graph: each new value is compiled. A node whose result has a size
    that follows from values, as NonZero, is no part of one: then what is before it and what is after it are compiled.

    Parameters
    ----------
    model:
        The model, as it was read; :func:`load` makes blocks of files.
    ctx:
        The device of the parameters, or a list of devices; None is the current one.
    params:
        The parameters of a block of which this is a part; None makes them of the model's.
    """

    def __init__(self, model: OnnxModel, ctx: Any = None, params: ParameterDict | None = None) -> None:
        super().__init__()
        self._params = ParameterDict("", params)  # whose names are the file's
        stored: dict[str, Any] = {}
        if params is None:
            model, stored = with_stored_weights(model)
        roles = InputRoles(model)
        self._inputs = model.free_inputs()
        self._values_of = tuple(
            i for i, x in enumerate(self._inputs) if _is_flag(x) or (x.name in roles.known and _is_short(x))
        )
        self._fixed: tuple[Any, ...] = (None,) * len(self._inputs)
        self._options: tuple[Sequence[Any], Mapping[str, Any]] = (), {}  # of hybridize()
        self._parts: list[BlockPart] = []  # once there is more than one
        self._failed = 0  # the node at which the last trace stopped
        self._bodies: dict[int, GraphBody] = {}  # of graphs inside nodes that run at once
        if params is not None:
            self._reg_params = {name: self._params.get(name) for name in names_from_outside(model.graph)}
            self._model = model
            return
        trained = {n: x for n, x in model.parameters.items() if n in roles.trained and x.dtype in _FLOATS and x.size}
        for name, value in trained.items():
            self._reg_params[name] = self._parameter(name, value, name in roles.states or name in stored, ctx)
        self._model = model.without(trained)  # whose values the parameters have now

    def _parameter(self, name: str, value: Any, is_state: bool, ctx: Any) -> Parameter:
        made = self._params.get(
            name, shape=value.shape, dtype=value.dtype.type, grad_req="null" if is_state else "write"
        )
        with np_shape():
            made.load_init(ndarray(np.asarray(value)), ctx)
        return made

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs, in the order of a call."""
        return [x.name for x in self._inputs]

    @property
    def declared_inputs(self) -> tuple[TensorInfo, ...]:
        """What the file says of the inputs."""
        return self._inputs

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs, in the order of the result."""
        return [x.name for x in self._model.graph.outputs]

    def __repr__(self) -> str:
        names = f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}"
        return f"{type(self).__name__}({names}; {len(self._model.graph.nodes)} nodes)"

    def __call__(self, *args: Any, **named: Any) -> Any:
        """The outputs for inputs in their order, or by their names: one, or a list.

        Inputs are arrays of ``mx.np`` or NumPy, and so are the results of ``mx.np``; of ``mx.nd`` arrays they are of
        ``mx.nd``.
        """
        values = self._ordered(args, named)
        if STATE.trace is not None or any(is_symbol(x) for x in values):
            return super().__call__(*values)
        legacy = any(type(x) is NDArray for x in values)
        values = [_array(x) for x in values]
        with np_shape(), np_array():
            results = self._called(values)
        return _as_legacy(results) if legacy else results

    def compile(self, *args: Any, dtype: Any = "float32", training: bool = False) -> None:
        """As :meth:`HybridBlock.compile`; a shape is that of an array of ``mx.np``.

        Parameters
        ----------
        dtype:
            The dtype of inputs that are given as shapes.
        training:
            Whether it is for calls under ``autograd.record()``, forward and backward.
        """
        super().compile(*map(_array, samples(args, dtype, self._home())), training=training)

    def _ordered(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        names = self.input_names
        unknown = [name for name in named if name not in names[len(args) :]]
        missing = [x.name for x in self._inputs[len(args) :] if x.name not in named and x.kind != "optional"]
        if len(args) > len(names) or unknown or missing:
            wrong = f"no input {unknown[0]!r}" if unknown else f"the input {missing[0]!r} is missing" if missing else ""
            raise OnnxFileError(
                f"the model takes {len(names)} inputs ({', '.join(names)}), got {len(args) + len(named)}"
                + (f": {wrong}" if wrong else "")
            )
        return [*args, *(named.get(name) for name in names[len(args) :])]

    def hybridize(self, active: bool = True, *args: Any, **kwargs: Any) -> None:
        """Compile this block at its next call, see :meth:`HybridBlock.hybridize`.

        Parameters
        ----------
        active:
            Whether to compile from now on.
        """
        super().hybridize(active, *args, **kwargs)
        self._options, self._parts, self._bodies = (args, kwargs), [], {}

    def explain(self) -> Report:
        """What was compiled, as :meth:`HybridBlock.explain` tells it, part by part if there are several."""
        if not self._parts:
            return super().explain()
        texts: list[str] = []
        for part in self._parts:
            nodes = f"nodes {part.start} to {part.stop - 1}" if part.block else str(self._model.graph.nodes[part.start])
            texts.append(
                f"{nodes}: {part.block.explain() if part.block else 'runs at once, as sizes follow from values'}"
            )
        return Report("\n\n".join(texts))

    def _called(self, values: list[Any]) -> Any:
        """The results for arrays."""
        if not self.is_active:
            return super().__call__(*values)
        if not self._parts:
            try:
                return self._compiled(values)
            except OnnxUnsupportedError:
                self._parts = self._divided(BlockPart(0, len(self._model.graph.nodes), self))
        return self._by_parts(values)

    def _divided(self, part: BlockPart) -> list[BlockPart]:
        """A part that cannot be compiled, as one of what is before a node, the node, and one of what is after it."""
        assert part.block is not None
        at = part.start + part.block._failed
        around = ((part.start, at), (at, at + 1), (at + 1, part.stop))
        spans = [(a, b, part_of(self._model, a, b, self._reg_params)) for a, b in around if a < b]
        return [BlockPart(a, b, None if a == at else self._within(model)) for a, b, model in spans]

    def _within(self, model: OnnxModel) -> OnnxBlock:
        """A block of a part of the model, with this one's parameters, hybridized as this one."""
        made = OnnxBlock(model, params=self._params)
        made.hybridize(True, *self._options[0], **self._options[1])
        return made

    def _by_parts(self, values: list[Any]) -> Any:
        """The results, where parts are compiled and the nodes between them run at once."""
        known = {name: parameter.data() for name, parameter in self._reg_params.items()}
        known |= {x.name: as_np(v) for x, v in zip(self._inputs, values, strict=True)}
        walk = Walk(self._model, {**self._model.parameters, **known}, compiled=self._graph_results)
        waiting, done = self._parts, list[BlockPart]()
        while waiting:
            part, *waiting = waiting
            if part.block is None:
                walk.run(self._model.graph.nodes[part.start : part.stop])
            else:
                names = part.block.output_names
                try:
                    results = part.block._compiled([_array(walk.value(name)) for name in part.block.input_names])
                except OnnxUnsupportedError:
                    waiting = [*self._divided(part), *waiting]
                    self._parts = [*done, *waiting]
                    continue
                walk.values |= zip(names, [results] if len(names) == 1 else results, strict=True)
            done.append(part)
        results = [lifted(walk.value(name)) for name in self.output_names]
        return results[0] if len(results) == 1 else results

    def _graph_results(self, graph: ModelGraph, inputs: list[Any], walk: Walk) -> list[Any] | None:
        """The results of a graph inside a node that runs at once, compiled; None if its inputs are always others."""
        body = self._bodies.get(id(graph))
        if body is None:
            block = self._within(body_of(self._model, graph, self._reg_params))
            body = self._bodies.setdefault(id(graph), GraphBody(block, set()))
        captured = body.block.input_names[len(graph.inputs) :]
        values = [_array(x) for x in (*inputs, *map(walk.value, captured))]
        if not all(isinstance(x, NDArray) for x in values):
            return None
        body.shapes.add(tuple(x.shape for x in values))
        if len(body.shapes) > MOST_SHAPES:
            return None
        return as_list(body.block._called(values))

    def _compiled(self, values: list[Any]) -> Any:
        """The results of a graph for these arrays; values that sizes follow from are fields, with guards."""
        fixed = [self._is_fixed(i, x) for i, x in enumerate(values)]
        packed = tuple(_packed(x) if is_fixed else None for x, is_fixed in zip(values, fixed))
        if packed != self._fixed:
            self._fixed = packed
        arrays = [None if is_fixed or x is None else _widened(x) for x, is_fixed in zip(values, fixed)]
        results = self.forward(*arrays) if all(fixed) else super().__call__(*arrays)
        declared = self._model.graph.outputs
        if len(declared) == 1:
            return _narrowed(results, declared[0])
        return [_narrowed(y, x) for y, x in zip(results, declared, strict=True)]

    def _is_fixed(self, index: int, value: Any) -> bool:
        if value is None:
            return False
        if isinstance(value, np.ndarray) and not has_dtype(value):
            return True
        return index in self._values_of and hasattr(value, "size") and value.size <= MOST_VALUES

    def forward(self, *args: Any, **_: Any) -> Any:
        """The outputs: one, or a list."""
        inputs = [x if f is None or x is not None else _unpacked(f) for x, f in zip(args, self._fixed, strict=True)]
        legacy = any(is_legacy(x) for x in inputs)
        values: dict[str, Any] = dict(self._model.parameters)
        with np_shape(), np_array():
            values |= {name: parameter.data() for name, parameter in self._reg_params.items()}
            values |= {x.name: as_np(v) for x, v in zip(self._inputs, inputs, strict=True)}
            walk = Walk(self._model, values)
            try:
                walk.run(self._model.graph.nodes)
            except OnnxUnsupportedError:
                self._failed = walk.position
                raise
            results = [lifted(walk.value(x.name)) for x in self._model.graph.outputs]
        results = _as_legacy(results) if legacy else results
        return results[0] if len(results) == 1 else results


@dataclass(frozen=True, eq=False)
class GraphBody:
    """A graph inside a node as a block, and the shapes of its inputs up to now."""

    block: OnnxBlock
    shapes: set[tuple[tuple[int, ...], ...]]


@dataclass(frozen=True, eq=False)
class BlockPart:
    """Nodes of a model from ``start`` up to ``stop``: a block that compiles them, or None for one that runs at once."""

    start: int
    stop: int
    block: OnnxBlock | None


def with_stored_weights(model: OnnxModel) -> tuple[OnnxModel, dict[str, Any]]:
    """The model with arrays in the place of nodes that compute them of its constants alone, and these arrays by name.

    They are those of rules with ``constants``: weights that are stored as integers.
    """
    roles = InputRoles(model)
    values = {n: x for n, x in model.parameters.items() if n not in roles.trained or x.dtype not in _FLOATS}
    walk = Walk(model, dict(values))
    kept: list[ModelNode] = []
    with np_shape(), np_array(), at_once():
        for node in model.graph.nodes:
            rule = rule_of(node)
            if rule is not None and rule.constants and all(not x or x in walk.values for x in node.inputs):
                walk.run((node,))
            else:
                kept.append(node)
    made = {name: lowered(x) for name, x in walk.values.items() if name not in values}
    graph = replace(model.graph, nodes=tuple(kept), initializers={**model.parameters, **made})
    return replace(model, graph=graph), made


# --- values of calls --------------------------------------------------------------------------------------------------


def _array(value: Any) -> Any:
    """An argument of a call as an array of ``mx.np``, where hybridc has its dtype."""
    if isinstance(value, list | tuple):
        return [_array(x) for x in value]
    return value.as_np_ndarray() if type(value) is NDArray else lifted(value)


def _is_flag(x: TensorInfo) -> bool:
    """Whether an input is a condition."""
    return x.kind == "tensor" and x.dtype == np.bool_ and x.sizes in ((), (1,))


def _widened(value: Any) -> Any:
    """An argument of a compiled graph: integers of dtypes that are not compiled are in wider ones."""
    return [_widened(x) for x in value] if isinstance(value, list) else widened(value)


def _narrowed(value: Any, declared: TensorInfo) -> Any:
    """A result of a compiled graph in the dtype that the file declares, where that is not compiled."""
    return value.astype(declared.dtype) if declared.dtype in WIDER and isinstance(value, NDArray) else value


def _is_short(x: TensorInfo) -> bool:
    """Whether an input can be sizes or indices: it has at most one axis, as far as the file says."""
    return x.kind == "tensor" and (x.sizes is None or len(x.sizes) <= 1)


def _packed(value: Any) -> Any:
    """A value as a field of the block, which compares by its elements."""
    array = np.asarray(lowered(value))
    return str(array.dtype), array.shape, tuple(array.ravel().tolist())


def _unpacked(field: Any) -> Any:
    dtype, shape, elements = field
    return np.array(elements, dtype).reshape(shape)


def is_legacy(value: Any) -> bool:
    """Whether a value is an array of ``mx.nd``, or a symbol that stands for one."""
    return type(value) is NDArray or type(value) is TracedSymbol


def _as_legacy(results: Any) -> Any:
    if isinstance(results, list | tuple):
        return [_as_legacy(x) for x in results]
    return results.as_nd_ndarray() if hasattr(results, "as_nd_ndarray") else results
