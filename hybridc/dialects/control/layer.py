"""One of several equal layers of a network, which are compiled once and called for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from hybridc.dialects.body import Body
from hybridc.dialects.operator import Opaque, bind_anew, register
from hybridc.dialects.operator_attribute import DType, Shape, attribute
from hybridc.errors import MXNetError


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
    """Raises: only the compiler makes layers."""
    raise MXNetError("hybrid._equal_layer cannot be made directly; call a block several times")


@register("hybrid._equal_layer")
class EqualLayer(Opaque):
    """The results of the graph ``body``

    The compiler makes it of operators that repeat, and puts their kernels in its place again.
    """

    VARIADIC = True
    SAME_DTYPE = False

    body: object = attribute(doc="the graph of a layer")  # not in a region, which would be made for each
    fixed: Shape = attribute((), "the inputs that are parameters")

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd._equal_layer`` says what to use instead."""
        return _refuse

    bind_values = bind_anew

    @property
    def graph(self) -> Body:
        """The graph of a layer."""
        assert isinstance(self.body, Body)
        return self.body

    def check(self) -> None:
        """Only the compiler makes this operator."""
        if not isinstance(self.body, Body):
            _refuse()

    def __repr__(self) -> str:
        return f"{self.NAME}({', '.join(step.op.title() for step in self.graph.operators())})"

    def input_names(self) -> tuple[str, ...]:
        """Numbers: the inputs have names in the network only."""
        return tuple(f"input{i}" for i in range(self.graph.arguments))

    def num_outputs(self) -> int:
        return len(self.graph.results)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """By inference of the graph."""
        return self.graph.infer_shape(shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """By inference of the graph."""
        return self.graph.infer_type(dtypes)

    def eager(self, *arrays: Any) -> Any:
        values = self.graph.values(arrays)
        results = tuple([values[i] for i in self.graph.results])
        return results if len(results) != 1 else results[0]
