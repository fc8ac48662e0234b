"""Nodes of an ONNX graph, written one after the other: names, constants, sizes, and graphs inside nodes."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import COMPUTED
from hybridc.errors import OnnxExportError
from hybridc.ground.sizes import FloorDivision, Sizes, Terms, is_size
from hybridc.interchange.onnx.package import onnx_package
from hybridc.interchange.onnx.writing.onnx_value import INT64, OnnxValue

# Equal constants of so many bytes are one initializer.
_SHARED_BYTES = 256
# Operators that compute nothing, or are made for small integers: they take elements of any type as they are.
MOVES = frozenset(
    {
        *("Cast", "Concat", "Constant", "Expand", "Gather", "GatherElements", "GatherND", "Identity", "Reshape"),
        *("ScatterElements", "ScatterND", "Shape", "Size", "Slice", "Split", "Squeeze", "Tile", "Transpose"),
        *("Unsqueeze", "Where", "If", "Loop", "NonZero", "QuantizeLinear", "DequantizeLinear"),
    }
)
# Dtypes in which engines compute nothing, and those in which their numbers are computed: with the same results.
COMPUTED_IN = {**COMPUTED, **{np.dtype(name): np.dtype(np.int32) for name in ("int8", "uint8", "int16", "uint16")}}


class GraphWriter:
    """The nodes of a graph and of those inside its nodes; ``builder`` and ``moves`` write scalar steps and movements.

    ``scope`` names nodes: the operator that is written.
    """

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.onnx = onnx_package()
        self.helper = onnx_package("onnx.helper")
        self.nodes: list[Any] = []  # of the graph that is written now
        self.prologue: list[Any] = []  # computes sizes: it comes first in the outermost graph
        self.initializers: dict[str, Any] = {}
        self.domains: dict[str, int] = {}
        self.scope = ""
        self.builder: Any = None  # of scalar steps: that of all values
        self.moves: Any = None  # the builder of movements
        self.axis_names: dict[tuple[str, int], str] = {}  # those that were given, by input and axis
        self.sizes: Sizes | None = None
        self.free_sizes: list[tuple[OnnxValue, int]] = []  # the input and the axis that each is read from
        self._names: dict[str, int] = {}
        self._shared: dict[Any, OnnxValue] = {}
        self._polynomials: dict[Terms, OnnxValue] = {}

    # --- names and constants -------------------------------------------------------------------------------

    def unique(self, stem: str) -> str:
        """A name that no value or node has."""
        count = self._names.get(stem)
        self._names[stem] = 0 if count is None else count + 1
        if count is None:
            return stem
        return self.unique(f"{stem}_{count + 1}")

    def value(self, name: str, shape: Shape, dtype: Any) -> OnnxValue:
        """A value that has been, or will be, written elsewhere."""
        return OnnxValue(self.builder, name, shape, np.dtype(dtype))

    def constant(self, array: Any, dtype: Any = None) -> OnnxValue:
        """A known array; it becomes an initializer when a node reads it."""
        known = np.asarray(array, dtype)
        return OnnxValue(self.builder, "", known.shape, known.dtype, known)

    def initializer(self, name: str, array: Any) -> OnnxValue:
        """An array of the file under a name of its own."""
        self.initializers[name] = array
        return self.value(name, array.shape, array.dtype)

    def name_of(self, value: OnnxValue | None) -> str:
        """The name of a node's input; "" for one that is left out."""
        if value is None:
            return ""
        if not value.name:
            value.name = self._stored(value.known).name
        return value.name

    def _stored(self, array: Any) -> OnnxValue:
        if array.nbytes > _SHARED_BYTES:
            return self.initializer(self.unique(f"{self.scope or 'graph'}/constant"), array)
        key = array.dtype.name, array.shape, array.tobytes()
        if key not in self._shared:
            self._shared[key] = self.initializer(self.unique(f"{self.scope or 'graph'}/constant"), array)
        return self._shared[key]

    # --- nodes ---------------------------------------------------------------------------------------------

    def node(
        self, operator: str, inputs: Sequence[OnnxValue | None], shape: Shape, dtype: Any, **attributes: Any
    ) -> OnnxValue:
        """A node with one result, of this shape and dtype."""
        return self.results(operator, inputs, [(shape, dtype)], **attributes)[0]

    def results(
        self,
        operator: str,
        inputs: Sequence[OnnxValue | None],
        outputs: Sequence[tuple[Shape, Any]],
        domain: str = "",
        **attributes: Any,
    ) -> list[OnnxValue]:
        """A node with several results, of these shapes and dtypes; attributes that are None are left out."""
        inputs = list(inputs)
        casts = [np.dtype(dtype) for _, dtype in outputs]
        if operator not in MOVES and not domain:
            inputs = [self.computable(x) for x in inputs]
            casts = [COMPUTED_IN.get(d, d) for d in casts]
        stem = f"{self.scope}/{operator}" if self.scope else operator
        label = self.unique(stem)
        names = [label if i == 0 else self.unique(f"{label}/{i}") for i in range(len(outputs))]
        given = {k: v for k, v in attributes.items() if v is not None}
        while inputs and inputs[-1] is None:
            inputs.pop()
        made = self.helper.make_node(
            operator, [self.name_of(x) for x in inputs], names, name=label, domain=domain, **given
        )
        self.nodes.append(made)
        values = [self.value(n, s, d) for n, (s, _), d in zip(names, outputs, casts, strict=True)]
        return [self.cast(v, dtype) for v, (_, dtype) in zip(values, outputs, strict=True)]

    def computable(self, x: OnnxValue | None) -> OnnxValue | None:
        """An input in a dtype in which engines compute."""
        return None if x is None else self.cast(x, COMPUTED_IN.get(x.dtype, x.dtype))

    def cast(self, x: OnnxValue, dtype: Any) -> OnnxValue:
        """The value in another dtype; itself, if it has it."""
        dtype = np.dtype(dtype)
        if x.dtype == dtype:
            return x
        if x.known is not None:
            return self.constant(x.known.astype(dtype))
        return self.node("Cast", [x], x.shape, dtype, to=self.code(dtype))

    def code(self, dtype: Any) -> int:
        """The number of a dtype in ONNX."""
        return int(self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    # --- sizes ---------------------------------------------------------------------------------------------

    def integers(self, numbers: Sequence[int]) -> OnnxValue:
        """Whole numbers as an array of one axis: symbolic sizes among them are computed in the file."""
        if not any(map(is_size, numbers)):
            return self.constant(np.array(list(numbers), np.int64).reshape(-1))
        parts = [self.integer(n) for n in numbers]
        if len(parts) == 1:
            return parts[0]
        return self.node("Concat", parts, (len(parts),), INT64, axis=0)

    def integer(self, number: Any) -> OnnxValue:
        """A whole number as an array of one element."""
        number = self.known_size(number)
        if not is_size(number):
            return self.constant(np.array([number], np.int64))
        with self._in_prologue():
            return self._polynomial(number.terms)

    def integer_scalar(self, number: Any) -> OnnxValue:
        """A whole number as a value without axes."""
        value = self.integer(number)
        if value.known is not None:
            return self.constant(value.known.reshape(()))
        with self._in_prologue():
            return self.node("Squeeze", [value], (), INT64)

    @staticmethod
    def known_size(size: Any) -> Any:
        """A size, as a plain number if it can have no other value."""
        known: Any = size
        return size.sizes.known(known) if is_size(size) else size

    def _polynomial(self, terms: Terms) -> OnnxValue:
        if terms in self._polynomials:
            return self._polynomials[terms]
        total: OnnxValue | None = None
        for monomial, factor in terms:
            product = self._integer_node("Mul", [self._atom(a) for a in monomial], factor, 1)
            total = product if total is None else self._integer_node("Add", [total, product], 0, 0)
        assert total is not None
        self._polynomials[terms] = total
        return total

    def _integer_node(self, operator: str, parts: Sequence[OnnxValue], number: int, neutral: int) -> OnnxValue:
        values = [*parts, self.constant(np.array([number], np.int64))] if number != neutral or not parts else [*parts]
        found = values[0]
        for value in values[1:]:
            if found.known is not None and value.known is not None:
                found = self.constant(found.known * value.known if operator == "Mul" else found.known + value.known)
            else:
                found = self.node(operator, [found, value], (1,), INT64)
        return found

    def _atom(self, number: int) -> OnnxValue:
        assert self.sizes is not None
        atom = self.sizes.atoms[number]
        if isinstance(atom, FloorDivision):
            return self.node("Div", [self._polynomial(part) for part in atom], (1,), INT64)
        value, axis = self.free_sizes[atom]
        shape = self.node("Shape", [value], (value.ndim,), INT64)
        return self.node("Gather", [shape, self.constant([axis], INT64)], (1,), INT64, axis=0)

    @contextlib.contextmanager
    def _in_prologue(self) -> Generator[None]:
        nodes, scope, self.nodes, self.scope = self.nodes, self.scope, self.prologue, "sizes"
        try:
            yield
        finally:
            self.nodes, self.scope = nodes, scope

    # --- graphs inside nodes -------------------------------------------------------------------------------

    @contextlib.contextmanager
    def inner_graph(self, name: str) -> Generator[InnerGraph]:
        """A graph inside a node, which reads the values of those around it."""
        graph = InnerGraph(self, name)
        nodes, self.nodes = self.nodes, graph.nodes
        try:
            yield graph
        finally:
            self.nodes = nodes

    def described(self, value: OnnxValue, name: str | None = None) -> Any:
        """The name, dtype and shape of an input or result of a graph."""
        return self.helper.make_tensor_value_info(
            value.name if name is None else name, self.code(value.dtype), [self.dimension(n) for n in value.shape]
        )

    def dimension(self, size: int) -> Any:
        """A size of an array: a number, the name of a free one, or None."""
        size = self.known_size(size)
        if not is_size(size):
            return int(size)
        atom = size.sizes.free_atom(size)
        return None if atom is None else self.axis_name(atom)

    def axis_name(self, atom: int) -> str:
        """The name of a free size."""
        value, axis = self.free_sizes[atom]
        return self.axis_names.get((value.name, axis), f"{value.name}_{axis}")


class InnerGraph:
    """A graph inside a node: its inputs, nodes and results."""

    def __init__(self, writer: GraphWriter, name: str) -> None:
        self.writer = writer
        self.name = writer.unique(name)
        self.nodes: list[Any] = []
        self.inputs: list[OnnxValue] = []

    def input(self, name: str, shape: Shape, dtype: Any) -> OnnxValue:
        """The next input."""
        self.inputs.append(self.writer.value(self.writer.unique(f"{self.name}/{name}"), shape, dtype))
        return self.inputs[-1]

    def proto(self, results: Sequence[OnnxValue]) -> Any:
        """The graph; each result is a value of its own, computed in it."""
        helper = self.writer.helper
        outputs: list[Any] = []
        for result in results:
            name = self.writer.unique(f"{self.name}/result")
            self.nodes.append(helper.make_node("Identity", [self.writer.name_of(result)], [name], name=name))
            outputs.append(self.writer.described(result, name))
        return helper.make_graph(self.nodes, self.name, [self.writer.described(x) for x in self.inputs], outputs)


def refuse(operator: str, why: str) -> OnnxExportError:
    """The error of an operator that ONNX cannot say."""
    return OnnxExportError(f"{operator} cannot be written as ONNX: {why}")
