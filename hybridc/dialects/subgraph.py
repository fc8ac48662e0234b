"""A part of a graph that a backend runs: one operation, with the part in its region.

:mod:`hybridc.subgraph` is what users see; :mod:`hybridc.transforms.partition_graph` makes the operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from hybridc.dialects.attribute import DType, Shape, attribute
from hybridc.dialects.body import Body
from hybridc.dialects.operator import Operator, register
from hybridc.dialects.stateful import Stateful
from hybridc.errors import MXNetError
from hybridc.trace.structure import as_list


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
    """Raises: only a partition makes subgraphs."""
    raise MXNetError("hybrid.subgraph cannot be made directly; use optimize_for(…) or hybridize(backend=…)")


@register("hybrid.subgraph")
class Subgraph(Stateful):
    """The operators of ``body``, run by the backend that asked for them."""

    INPUTS = ("data",)
    VARIADIC = True

    body: Body = attribute(doc="the graph inside")
    name: str = attribute("subgraph", "its name, unique in the graph")
    backend: str = attribute("", "the name of the backend")
    partitioner: str = attribute("", "which of the backend's partitioners took it")
    arguments: object = attribute((), "the names of its inputs")
    options: object = attribute((), "the backend's options: pairs of a name and a value")
    properties: object = attribute((), "what the review attached: pairs of a name and a value")
    updates: Shape = attribute((), "the inputs that it updates; the last results of the body are their new values")
    training: bool = attribute(False, "whether it is part of a graph for training")

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd.subgraph`` says what to use instead."""
        return _refuse

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """Bound anew: remembering every use would keep its graph alive."""
        return cls._parse(values)

    def __repr__(self) -> str:
        inside = ", ".join(step.op.title() for step in self.body.operators())
        return f"{self.NAME} {self.name} ({inside})"

    def check(self) -> None:
        """Only a partition makes it."""
        given: Any = self.body
        if not isinstance(given, Body):
            _refuse()

    def described(self) -> str:
        return f"subgraph {self.name} of backend {self.backend!r}"

    def input_names(self) -> tuple[str, ...]:
        """As the graph named them when it was partitioned."""
        return tuple(as_list(self.arguments))

    def mutates(self) -> tuple[int, ...]:
        """What the operators inside update."""
        return self.updates

    def num_visible_outputs(self) -> int:
        """The results of the body without new values of inputs."""
        return len(self.body.results) - len(self.updates)

    def result_shapes(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As the operators inside say."""
        ins, outs = self.body.infer_shape(shapes)
        return ins, outs[: self.num_visible_outputs()]

    def result_types(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As the operators inside say."""
        ins, outs = self.body.infer_type(dtypes)
        return ins, outs[: self.num_visible_outputs()]

    # --- running -------------------------------------------------------------------------------------------

    @functools.cached_property
    def runner(self) -> Any:
        """The backend's partitioner, which runs this part."""
        from hybridc.subgraph import partitioner

        return partitioner(self.backend, self.partitioner, dict(as_list(self.options)))

    def create_state(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> Any:
        """The part as the user sees it, with what the partitioner made for it."""
        from hybridc.subgraph import Part

        return Part(self, shapes, dtypes).prepare(self.runner)

    def forward(self, state: Any, *arrays: Any) -> Any:
        """The partitioner's ``run``."""
        return state.forward(arrays)

    def backward(
        self, state: Any, needed: Sequence[bool], ograds: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """The partitioner's ``backward``."""
        return state.backward(needed, ograds, inputs, outputs)

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """The partitioner's ``backward`` if it has one, else by the rules of the operators inside."""
        if self.runner.backward is not None:
            return super().gradient_of(needed, F, *values)
        visible = self.num_visible_outputs()
        return self.body.gradients(F, values[:visible], values[visible : visible + len(needed)], needed)
