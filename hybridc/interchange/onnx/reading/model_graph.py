"""An ONNX model as data: graphs of nodes whose attributes are Python values and NumPy arrays, without protobuf."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from hybridc.ground.records import dataclass

Array = npt.NDArray[Any]
#: The sizes of a tensor: numbers, names of sizes that calls choose, or None.
Sizes = tuple[int | str | None, ...]


@dataclass(frozen=True)
class TensorInfo:
    """What a file declares of an input or output: its name, its dtype, and its sizes.

    ``kind`` is "tensor", "sequence", "optional" or "map"; of others than tensors dtype and sizes are unknown, as they
    may be of tensors. ``element`` is ONNX's number of the dtype.
    """

    name: str
    kind: str = "tensor"
    dtype: np.dtype[Any] | None = None
    element: int = 0
    sizes: Sizes | None = None


@dataclass(frozen=True)
class AttributeReference:
    """The value of an attribute in a function's body that the call of the function decides."""

    name: str


@dataclass(frozen=True, eq=False)
class ModelNode:
    """An operator applied to values, which have names; an empty name is a missing input or an unused output.

    ``version`` is that of the domain's operator set, which decides what the operator means.
    """

    op: str
    domain: str
    version: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    overload: str = ""

    @property
    def title(self) -> str:
        """The operator, with its domain unless that is ONNX's own."""
        return f"{self.domain}.{self.op}" if self.domain else self.op

    def __str__(self) -> str:
        return f"the node {self.name!r}, {self.title}" if self.name else f"the node {self.title} of {self.outputs!r}"


@dataclass(frozen=True, eq=False)
class ModelGraph:
    """Nodes in an order in which they can be computed, what enters them, and what they give.

    ``proto`` is the message of a graph inside a node, which bodies of the standard may contain.
    """

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: tuple[ModelNode, ...]
    initializers: Mapping[str, Array] = field(default_factory=dict[str, Array])
    proto: bytes = b""


@dataclass(frozen=True, eq=False)
class ModelFunction:
    """A function of a model, or the body that the standard gives for an operator; ``defaults`` are of attributes."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    defaults: Mapping[str, Any]
    nodes: tuple[ModelNode, ...]


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A whole file: its graph, and its functions by domain, name and overload."""

    graph: ModelGraph
    functions: Mapping[tuple[str, str, str], ModelFunction]
    opsets: Mapping[str, int]

    @property
    def parameters(self) -> Mapping[str, Array]:
        """The initializers of the graph."""
        return self.graph.initializers

    def free_inputs(self) -> tuple[TensorInfo, ...]:
        """The inputs that a call must have: those without an initializer."""
        return tuple(x for x in self.graph.inputs if x.name not in self.graph.initializers)

    def without(self, names: Iterable[str]) -> OnnxModel:
        """The model whose graph lacks these initializers."""
        dropped = set(names)
        kept = {name: value for name, value in self.parameters.items() if name not in dropped}
        return replace(self, graph=replace(self.graph, initializers=kept))
