"""Operators on graphs: a csr matrix has a value, the number of an edge, for each edge from a row to a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, ClassVar, cast

import numpy as np

from hybridc import random
from hybridc.dialects.array.gather import as_index
from hybridc.dialects.operator import Bad, Opaque, Sample, attribute, no_gradient, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import AttributeValueError, ShapeError
from hybridc.ground.hooks import HOOKS
from hybridc.sparse_storage import INT64, CsrStorage, as_csr

FLOAT32 = np.dtype("float32")


class GraphOperator(Opaque):
    """An operator of graphs and arrays of vertices, whose results depend on their number, ``num_args``."""

    INPUTS = ("data",)
    INPUT_DOCS: ClassVar = {
        "data": "the graph, a square csr matrix of the numbers of edges, then an array of vertices for each result",
    }
    VARIADIC = True
    SAME_DTYPE = False
    SHAPES_ARE_KNOWN = True
    gradient = no_gradient
    STORAGE: tuple[str, ...] = ()  # of the groups of results

    num_args: int = attribute(1, "the number of inputs; counted, so it need not be given", low=1)

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """It counts its inputs."""

        def call(*data: Any, num_args: int | None = None, out: Any = None, name: str | None = None, **more: Any) -> Any:  # noqa: ARG001
            given: Sequence[Any] = (
                cast("Any", data[0]) if len(data) == 1 and isinstance(data[0], list | tuple) else data
            )
            return HOOKS.invoke(cls.bind(num_args=len(given), **more), given, out)

        call.__name__ = call.__qualname__ = cls.title()
        shown = [Parameter(name, Parameter.KEYWORD_ONLY, default=a.default) for name, a in cls.ATTRIBUTES.items()]
        first = Parameter("data", Parameter.VAR_POSITIONAL)
        last = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in ("out", "name")]
        vars(call)["__signature__"] = Signature([first, *[p for p in shown if p.name != "draw"], *last])
        call.__module__, call.__doc__ = "hybridc.nd", cls.__doc__
        return call

    def groups(self) -> int:
        """The number of results of each kind."""
        return self.num_args - 1

    def num_outputs(self) -> int:
        return self.groups() * len(self.STORAGE)

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return [stype for stype in self.STORAGE for _ in range(self.groups())]

    def eager(self, *arrays: Any) -> Any:
        return self.eager_sparse(*arrays)


def vertices_of(x: Any) -> Any:
    """The numbers of vertices in an input."""
    return np.asarray(x).astype(np.int64).ravel()


def require_graph(title: str, shape: Shape) -> None:
    """Raise unless a shape is that of a graph's matrix."""
    if len(shape) != 2 or shape[0] != shape[1]:
        raise ShapeError(f"{title}: a graph is a square csr matrix, got shape {shape}")


@register("hybrid.edge_id", "contrib.edge_id", "_contrib_edge_id")
class EdgeId(Opaque):
    """The number of the edge from each vertex of u to the one of v, -1 where there is none"""

    NNVM = "_contrib_edge_id"
    INPUTS = ("data", "u", "v")
    INPUT_DOCS: ClassVar = {
        "data": "the graph, a csr matrix of the numbers of edges",
        "u": "the vertices where edges begin, a vector",
        "v": "the vertices where they end, as many",
    }
    SAME_DTYPE = False
    gradient = no_gradient

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        data, u, v = shapes
        if len(data) != 2 or u != v or len(u) != 1:
            raise ShapeError(f"edge_id: a csr matrix and two vectors of one length are needed, got {data}, {u}, {v}")
        return shapes, [u]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]]

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("default",)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        return self.eager_sparse(*arrays)

    def eager_sparse(self, *arrays: Any) -> Any:
        graph = as_csr(arrays[0])
        rows, columns = (as_index(vertices_of(x), n, "raise") for x, n in zip(arrays[1:], graph.shape, strict=True))
        found = np.full(len(rows), -1, graph.dtype)
        for i, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
            edges = slice(int(graph.indptr[row]), int(graph.indptr[row + 1]))
            places = np.flatnonzero(graph.indices[edges] == column)
            if len(places):
                found[i] = graph.data[edges][places[0]]
        return found

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        graph = np.array([[1.0, 0, 2], [3, 0, 4], [0, 5, 0]], np.float32)
        u, v = np.array([0, 0, 1, 2]), np.array([0, 1, 2, 1])
        return [Sample([graph, u, v], lambda _g, _u, _v: np.array([1.0, -1, 4, 5]), grad=False)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        text = "edge_id: a csr matrix and two vectors of one length are needed, got (2, 2), (2,), (3,)"
        return [(((2, 2), (2,), (3,)), {}, text)]


@register("hybrid.dgl_adjacency", "contrib.dgl_adjacency", "_contrib_dgl_adjacency")
class Adjacency(Opaque):
    """The graph with 1, in float32, for each edge"""

    NNVM = "_contrib_dgl_adjacency"
    gradient = no_gradient

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        if len(shapes[0]) != 2:
            raise ShapeError(f"dgl_adjacency: a graph is a csr matrix, got shape {shapes[0]}")
        return shapes, shapes

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [FLOAT32]

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        return ("csr",)

    def eager(self, *arrays: Any) -> Any:
        self.infer_shape([x.shape for x in arrays])
        return (arrays[0] != 0).astype(np.float32)

    def eager_sparse(self, *arrays: Any) -> Any:
        graph = as_csr(arrays[0])
        return graph.with_data(np.ones(len(graph.data), np.float32))

    @classmethod
    def samples(cls) -> Sequence[Sample]:
        return [Sample([np.array([[1.0, 0], [3, 2]])], lambda x: x != 0, grad=False)]

    @classmethod
    def bad_samples(cls) -> Sequence[Bad]:
        return [(((2,),), {}, "dgl_adjacency: a graph is a csr matrix, got shape (2,)")]


class GraphParts(GraphOperator):
    """Graphs that are made of others, whose edges have new numbers; with a mapping, too, those with the old ones."""

    return_mapping: bool = attribute(False, "whether there are results with the old numbers of edges")

    @property
    def STORAGE(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the parts, and of those with the old numbers."""
        return ("csr", "csr") if self.return_mapping else ("csr",)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [dtypes[0]] * self.num_outputs()

    def renumbered(self, graphs: list[CsrStorage]) -> Any:
        """The results, of graphs with the old numbers of edges."""
        results = [x.with_data(np.arange(len(x.data), dtype=x.dtype)) for x in graphs]
        results += graphs if self.return_mapping else []
        return tuple(results) if len(results) > 1 else results[0]


@register("hybrid.dgl_subgraph", "contrib.dgl_subgraph", "_contrib_dgl_subgraph")
class InducedSubgraph(GraphParts):
    """The part of a graph with some of its vertices and the edges between them, for each of several arrays of them

    Edges have new numbers, from 0 on. With ``return_mapping`` further results are the same parts with the old ones.

    Examples
    --------
    >>> graph = mx.nd.sparse.csr_matrix(mx.nd.array([[0, 1, 2], [3, 0, 4], [0, 5, 0]]))
    >>> part, numbers = mx.nd.contrib.dgl_subgraph(graph, mx.nd.array([0, 2]), return_mapping=True)
    >>> part.indices.tolist(), part.data.tolist(), numbers.data.tolist()
    ([1], [0.0], [2.0])
    """

    NNVM = "_contrib_dgl_subgraph"

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        graph, *vertices = shapes
        require_graph(self.title(), graph)
        return shapes, [(n[0], n[0]) for n in vertices] * len(self.STORAGE)

    def eager_sparse(self, *arrays: Any) -> Any:
        graph = as_csr(arrays[0])
        old = [_induced(graph, vertices_of(v)) for v in arrays[1:]]
        return self.renumbered(old)


def _induced(graph: CsrStorage, vertices: Any) -> CsrStorage:
    """The part of a graph with these vertices, which are numbered by their places."""
    place = np.full(graph.shape[1], -1, np.int64)
    place[vertices] = np.arange(len(vertices))
    rows = graph.take_rows(vertices)
    columns = place[rows.indices]
    return rows.with_columns(len(vertices), columns, columns >= 0).sorted()


class NeighborSample(GraphOperator):
    """A sample of the edges that lead away from some vertices."""

    DRAWS = True
    PURE = True
    num_hops: int = attribute(1, "how far to go", low=1)
    num_neighbor: int = attribute(2, "the most edges of a vertex that are chosen", low=1)
    max_num_vertices: int = attribute(100, "the most vertices of a sample", low=1)
    draw: int = attribute(0, "internal: which use of random numbers in a graph this is")

    FIRST = 1  # the inputs before the vertices

    def groups(self) -> int:
        return self.num_args - self.FIRST

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        require_graph(self.title(), shapes[0])
        most = self.max_num_vertices
        sizes = {"vertices": (most + 1,), "edges": (most, shapes[0][1])}
        kinds = ("vertices", "edges", *["layer"] * (len(self.STORAGE) - 2))
        return shapes, [sizes.get(kind, (most,)) for kind in kinds for _ in range(self.groups())]

    def sampled(self, graph: CsrStorage, seeds: Any, chances: Any, rng: Any) -> tuple[Any, CsrStorage, Any, Any]:
        """Vertices and, last, their number; edges; the chance and the distance of each vertex."""
        most = self.max_num_vertices
        layer: dict[int, int] = {}
        for seed in seeds.tolist()[:most]:
            layer.setdefault(seed, 0)
        chosen: dict[int, Any] = {}
        waiting = list(layer)
        for vertex in waiting:  # it grows
            if layer[vertex] >= self.num_hops or len(layer) == most:
                break
            edges = np.arange(int(graph.indptr[vertex]), int(graph.indptr[vertex + 1]))
            if len(edges) > self.num_neighbor:
                weights = None if chances is None else chances[graph.indices[edges]].astype(np.float64)
                if weights is not None:
                    weights = weights / weights.sum()
                edges = np.sort(rng.choice(edges, self.num_neighbor, replace=False, p=weights))
            for neighbor in graph.indices[edges].tolist():
                if neighbor not in layer and len(layer) < most:
                    layer[neighbor] = layer[vertex] + 1
                    waiting.append(neighbor)
            chosen[vertex] = edges
        vertices = np.array(sorted(layer), np.int64)
        kept = [_within(graph, chosen.get(v), layer) for v in vertices.tolist()]
        counts = np.zeros(most, np.int64)
        counts[: len(kept)] = [len(edges) for edges in kept]
        edges = np.concatenate([np.zeros(0, np.int64), *kept])
        ends = np.concatenate([[0], np.cumsum(counts)])
        part = CsrStorage((most, graph.shape[1]), graph.data[edges], graph.indices[edges], ends)
        distance = _padded([layer[v] for v in vertices.tolist()], most)
        of_vertices = None if chances is None else _padded(chances[vertices], most)
        return np.append(_padded(vertices, most), len(vertices)), part, of_vertices, distance


def _within(graph: CsrStorage, edges: Any, layer: dict[int, int]) -> Any:
    """Those of some edges that lead to a vertex of a sample."""
    if edges is None:
        return np.zeros(0, np.int64)
    return edges[[n in layer for n in graph.indices[edges].tolist()]]


def _padded(values: Any, size: int) -> Any:
    values = np.asarray(values)
    made = np.zeros(size, values.dtype if len(values) else np.int64)
    made[: len(values)] = values
    return made


@register(
    "hybrid.dgl_csr_neighbor_uniform_sample",
    "contrib.dgl_csr_neighbor_uniform_sample",
    "_contrib_dgl_csr_neighbor_uniform_sample",
)
class UniformNeighbors(NeighborSample):
    """Samples of a graph around vertices: ``num_neighbor`` edges of each, and so on for ``num_hops``

    For each array of vertices there are the sampled vertices, sorted, and, last, their number; then a csr matrix with
    the chosen edges of each; then how far each is away. What is left of ``max_num_vertices`` is 0.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> graph = mx.nd.sparse.csr_matrix(mx.nd.array([[0, 1, 2], [3, 0, 4], [0, 5, 0]]))
    >>> vertices, edges, distances = mx.nd.contrib.dgl_csr_neighbor_uniform_sample(
    ...     graph, mx.nd.array([0]), num_hops=1, num_neighbor=1, max_num_vertices=3
    ... )
    >>> vertices.tolist(), distances.tolist()
    ([0, 1, 0, 2], [0, 1, 0])
    >>> print(edges.asnumpy())
    [[0. 1. 0.]
     [0. 0. 0.]
     [0. 0. 0.]]
    """

    NNVM = "_contrib_dgl_csr_neighbor_uniform_sample"
    STORAGE = ("default", "csr", "default")

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [d for d in (INT64, dtypes[0], INT64) for _ in range(self.groups())]

    def eager_sparse(self, *arrays: Any) -> Any:
        graph, *seeds, key = arrays
        graph, rng = as_csr(graph), random.generator(key, self.draw)
        found = [self.sampled(graph, vertices_of(x), None, rng) for x in seeds]
        return tuple(x[i] for i in (0, 1, 3) for x in found)


@register(
    "hybrid.dgl_csr_neighbor_non_uniform_sample",
    "contrib.dgl_csr_neighbor_non_uniform_sample",
    "_contrib_dgl_csr_neighbor_non_uniform_sample",
)
class NonUniformNeighbors(NeighborSample):
    """As ``dgl_csr_neighbor_uniform_sample``, with a chance of each vertex, the second input, to be chosen

    Before the distances there are the chances of the sampled vertices.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> graph = mx.nd.sparse.csr_matrix(mx.nd.array([[0, 1, 2], [3, 0, 4], [0, 5, 0]]))
    >>> chances = mx.nd.array([0, 1, 0])
    >>> vertices, edges, of_vertices, distances = mx.nd.contrib.dgl_csr_neighbor_non_uniform_sample(
    ...     graph, chances, mx.nd.array([0]), num_hops=1, num_neighbor=1, max_num_vertices=3
    ... )
    >>> vertices.tolist(), of_vertices.tolist(), distances.tolist()
    ([0, 1, 0, 2], [0.0, 1.0, 0.0], [0, 1, 0])
    >>> print(edges.asnumpy())
    [[0. 1. 0.]
     [0. 0. 0.]
     [0. 0. 0.]]
    """

    NNVM = "_contrib_dgl_csr_neighbor_non_uniform_sample"
    INPUT_DOCS: ClassVar = {
        "data": "the graph, a square csr matrix of the numbers of edges; the chance of each vertex; then an array of "
        "vertices for each result",
    }
    STORAGE = ("default", "csr", "default", "default")
    FIRST = 2

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        return dtypes, [d for d in (INT64, dtypes[0], dtypes[1], INT64) for _ in range(self.groups())]

    def eager_sparse(self, *arrays: Any) -> Any:
        graph, chances, *seeds, key = arrays
        graph, rng = as_csr(graph), random.generator(key, self.draw)
        found = [self.sampled(graph, vertices_of(x), chances, rng) for x in seeds]
        return tuple(x[i] for i in (0, 1, 2, 3) for x in found)


@register("hybrid.dgl_graph_compact", "contrib.dgl_graph_compact", "_contrib_dgl_graph_compact")
class GraphCompact(GraphParts):
    """Sampled graphs without what is left of their rows and columns: inputs are graphs, then the vertices of each

    Edges have new numbers, from 0 on. With ``return_mapping`` further results are the same graphs with the old ones.

    Examples
    --------
    >>> mx.random.seed(0)
    >>> graph = mx.nd.sparse.csr_matrix(mx.nd.array([[0, 1, 2], [3, 0, 4], [0, 5, 0]]))
    >>> vertices, edges, _ = mx.nd.contrib.dgl_csr_neighbor_uniform_sample(
    ...     graph, mx.nd.array([0]), num_hops=1, num_neighbor=1, max_num_vertices=3
    ... )
    >>> size = int(vertices[-1].asscalar())
    >>> small = mx.nd.contrib.dgl_graph_compact(edges, vertices, graph_sizes=size)
    >>> size, small.shape, small.indices.tolist()
    (2, (2, 2), [1])
    """

    NNVM = "_contrib_dgl_graph_compact"
    INPUT_DOCS: ClassVar = {"data": "the graphs, csr matrices, then for each the array of its vertices"}
    graph_sizes: Shape = attribute((), "the number of vertices of each graph")

    def check(self) -> None:
        if len(self.graph_sizes) != self.groups() or self.num_args % 2:
            raise AttributeValueError(
                f"dgl_graph_compact: graph_sizes={self.graph_sizes} must have a size for each graph, and each graph an "
                f"array of vertices; there are {self.num_args} inputs"
            )

    def groups(self) -> int:
        return self.num_args // 2

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        return shapes, [(n, n) for n in self.graph_sizes] * len(self.STORAGE)

    def eager_sparse(self, *arrays: Any) -> Any:
        graphs, vertices = arrays[: self.groups()], arrays[self.groups() :]
        old: list[CsrStorage] = []
        for graph, of_graph, size in zip(map(as_csr, graphs), vertices, self.graph_sizes, strict=True):
            kept = vertices_of(of_graph)[:size]
            place = np.zeros(max(graph.shape[1], 1), np.int64)
            place[kept] = np.arange(size)
            rows = graph.slice_rows(0, size)
            # COMPAT(mxnet): with return_mapping the old numbers; there they are 0.
            old.append(CsrStorage((size, size), rows.data, place[rows.indices], rows.indptr).sorted())
        return self.renumbered(old)
