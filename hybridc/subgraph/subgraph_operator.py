"""A part of a graph that a backend runs: one operation, with the part in its region.

:mod:`hybridc.subgraph` is what users see; :mod:`hybridc.subgraph.partition_graph` makes the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from hybridc.dialects.body import Body
from hybridc.dialects.interchange import NestedGraph
from hybridc.dialects.operator import bind_anew, register
from hybridc.dialects.operator_attribute import DType, Shape, attribute
from hybridc.dialects.stateful import Stateful
from hybridc.errors import MXNetError
from hybridc.ground.cached import cached_property
from hybridc.ground.nesting import as_list
from hybridc.subgraph import Part, operator_of, partitioner


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
    """Raises: only the partitioner makes subgraphs."""
    raise MXNetError("hybrid.subgraph cannot be made directly; use optimize_for(…) or hybridize(backend=…)")


@register("hybrid.subgraph")
class Subgraph(Stateful):
    """The operators of ``body``, run by the backend that requested them."""

    INPUTS = ("data",)
    VARIADIC = True
    TRAIN_MODE = True

    body: Body = attribute(doc="the graph inside")
    name: str = attribute("subgraph", "its name, unique in the graph")
    backend: str = attribute("", "the name of the backend")
    partitioner: str = attribute("", "which of the backend's partitioners took it")
    arguments: object = attribute((), "the names of its inputs")
    options: object = attribute((), "the backend's options: pairs of a name and a value")
    properties: object = attribute((), "what the review attached: pairs of a name and a value")
    updates: Shape = attribute((), "the inputs that it updates; the last results of the body are their new values")
    keyed: bool = attribute(False, "whether the last argument of the body is a random key that comes with each call")
    draw: int = attribute(0, "internal: the first of the numbers that tell its uses of the key apart")
    train: bool | None = attribute(None, "internal: whether this is for training")

    running: Body  # the body in this train mode
    live: tuple[int, ...]  # the inputs that it mutates in this train mode

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd.subgraph`` says what to use instead."""
        return _refuse

    bind_values = bind_anew

    def __repr__(self) -> str:
        inside = ", ".join(step.op.title() for step in self.body.operators())
        return f"{self.NAME} {self.name} ({inside})"

    def check(self) -> None:
        """Only the partitioner makes this operator."""
        given: Any = self.body
        if not isinstance(given, Body):
            _refuse()
        self.running = self.body.bound(self.train is not False, self.draw if self.keyed else None)
        visible = len(self.body.results) - len(self.updates)
        news = self.running.results[visible:]
        self.live = tuple(i for i, new in zip(self.updates, news, strict=True) if new >= self.running.arguments)
        if self.live != self.updates:
            kept = [*self.running.results[:visible], *[n for n in news if n >= self.running.arguments]]
            self.running = Body(self.running.arguments, self.running.steps, kept)
        if self.keyed:  # of these attributes, not of the class
            vars(self)["DRAWS"] = True

    def described(self) -> str:
        return f"subgraph {self.name} of backend {self.backend!r}"

    def input_names(self) -> tuple[str, ...]:
        """The names in the graph that was partitioned."""
        return (*as_list(self.arguments), *["key"] * self.keyed)

    def mutates(self) -> tuple[int, ...]:
        """The inputs that operators inside mutate."""
        return self.live

    def auxiliary(self) -> tuple[int, ...]:
        """The inputs that operators inside mutate in training."""
        return self.updates

    def num_samples(self) -> int:
        return sum(step.op.num_samples() for step in self.running.steps) if self.keyed else 0

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        return self.running.complete_shapes([*shapes, *[(2,)] * self.keyed], outputs)[: len(shapes)]

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        return self.running.complete_types([*dtypes, *[np.dtype(np.uint64)] * self.keyed])[: len(dtypes)]

    def num_visible_outputs(self) -> int:
        """The results of the body without new values of inputs."""
        return len(self.body.results) - len(self.updates)

    def result_shapes(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """By inference of the body."""
        ins, outs = self.running.infer_shape(shapes)
        return ins, outs[: self.num_visible_outputs()]

    def result_types(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """By inference of the body."""
        ins, outs = self.running.infer_type(dtypes)
        return ins, outs[: self.num_visible_outputs()]

    # --- files ---------------------------------------------------------------------------------------------

    def nnvm_title(self) -> str:
        return operator_of(self.backend, self.partitioner) or "subgraph"

    def to_nnvm(self) -> dict[str, Any]:
        """Its attributes in a file, besides the nested graph."""
        if operator_of(self.backend, self.partitioner):
            return {k: v for k, v in as_list(self.properties) if k != "subgraph_sym_json"}
        pairs = {name: repr(dict(getattr(self, name))) for name in ("options", "properties") if getattr(self, name)}
        return {"backend": self.backend, "partitioner": self.partitioner, **pairs}

    def nnvm_graphs(self, inputs: Sequence[str]) -> list[NestedGraph]:
        return [NestedGraph(self.body, as_list(self.arguments), self.num_visible_outputs())]

    def nnvm_outputs(self) -> int:
        """The results; files do not have the state."""
        return self.num_visible_outputs()

    # --- running -------------------------------------------------------------------------------------------

    @cached_property
    def runner(self) -> Any:
        """The backend's partitioner, which runs this part."""
        return partitioner(self.backend, self.partitioner, dict(as_list(self.options)))

    def create_state(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> Any:
        """The part for the user's methods, with the partitioner's state for it."""
        return Part(self, shapes, dtypes).prepare(self.runner)

    def forward(self, state: Any, *arrays: Any) -> Any:
        """The partitioner's ``run``."""
        return state.forward(self, arrays)

    def backward(
        self, state: Any, needed: Sequence[bool], ograds: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """The partitioner's ``backward``."""
        return state.backward(self, needed, ograds, inputs, outputs)

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """The partitioner's ``backward`` if it has one, else by the rules of the operators inside."""
        # COMPAT(mxnet): there a subgraph whose operator has no backward cannot be differentiated.
        if self.runner.backward is not None:
            return super().gradient_of(needed, F, *values)[: len(needed) - self.DRAWS]
        visible = self.num_visible_outputs()
        inputs = values[visible : visible + len(needed)]
        return self.running.gradients(F, values[:visible], inputs, needed)[: len(needed) - self.DRAWS]
