"""The base of operators with graphs in their regions, which are compiled at the first run, and differentiated."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from hybridc.dialects.body import Body
from hybridc.dialects.control.loop_steps import advanced
from hybridc.dialects.operator import Opaque, bind_anew
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.ground.hooks import HOOKS

_KEPT = 256  # results of inference: those of one graph are far fewer, those of all shapes may be many


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
    """Raises: only traced control flow makes these operators."""
    raise MXNetError(
        "an operator with graphs inside cannot be made directly; use contrib.foreach, while_loop or cond in a "
        "hybridized block"
    )


class InnerGraphs(Opaque):
    """A host call that runs graphs: its attributes that are bodies, whose arguments are its inputs, or rows of them.

    ``counters``, an attribute, says how many numbers of a random key are taken at a time; if some are, the key is the
    last input, and the last argument of each body. ``draw`` is the first of these numbers.

    In a composed symbol the bodies have neither a train mode nor numbers of their draws yet, and ``call`` says what
    the operator does on values: it becomes the same operator of closed bodies where these are traced.
    """

    INPUTS = ("data",)
    VARIADIC = True
    SAME_DTYPE = False

    counters: int
    draw: int

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd.loop`` says what to use instead."""
        return _refuse

    bind_values = bind_anew

    def bodies(self) -> list[Body]:
        """The graphs inside."""
        return [value for value in self.key[1:] if isinstance(value, Body)]

    def check(self) -> None:
        """Only tracing makes these operators."""
        if len(self.bodies()) != sum(a.kind == "Body" for a in self.ATTRIBUTES.values()):
            _refuse()
        self.graphs: dict[Any, Any] = {}  # compiled, by body, shapes and dtypes
        self.trained: dict[int, Body] = {}  # bodies that have no train mode yet, with one
        self.known_shapes: dict[Any, Any] = {}  # what inference of a body gave: of nested loops it is asked often
        if self.counters:  # of these attributes, not of the class
            vars(self)["DRAWS"] = True

    def __repr__(self) -> str:
        inside = (", ".join(step.op.title() for step in body.operators()) for body in self.bodies())
        return f"{self.NAME}({'; '.join(inside)})"

    def input_names(self) -> tuple[str, ...]:
        """Numbers: the inputs have names in the traces of the bodies only."""
        keyed = bool(self.counters)
        return (*(f"input{i}" for i in range(self.bodies()[0].arguments - keyed)), *["key"] * keyed)

    # --- inference -----------------------------------------------------------------------------------------

    def inferring(self, body: Body) -> Body:
        """A body for inference: in training mode, if it has no mode yet."""
        if not body.undecided:
            return body
        return self.trained.setdefault(id(body), body.bound(True, None))

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """By inference of the graphs, forward and backward."""
        keys: list[Shape | None] = [(2,)] * (self.bodies()[0].arguments - len(shapes))
        return self.complete_arguments([*shapes, *keys], outputs)[: len(shapes)]

    @abstractmethod
    def complete_arguments(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """As :meth:`complete_shapes`, with the key."""

    def body_shapes(
        self, body: Body, arguments: Sequence[Shape | None], results: Sequence[Shape | None]
    ) -> tuple[list[Shape | None], list[Shape | None]]:
        """Shapes of a body's arguments and results that follow from those known."""
        given = id(body), tuple(arguments), tuple(results)
        if len(self.known_shapes) > _KEPT:
            self.known_shapes.clear()
        if given not in self.known_shapes:
            self.known_shapes[given] = HOOKS.graph_shapes(body, arguments, results)
        inside, after = self.known_shapes[given]
        return list(inside), list(after)

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """By inference of the graphs."""
        keys: list[DType | None] = [np.dtype(np.uint64)] * (self.bodies()[0].arguments - len(dtypes))
        known = [*dtypes, *keys]
        for body in self.bodies():
            known = self.inferring(body).complete_types(known)
        return known[: len(dtypes)]

    # --- in composed symbols -------------------------------------------------------------------------------

    @abstractmethod
    def call(self, F: Any, graphs: Sequence[Callable[..., list[Any]]], *inputs: Any) -> list[Any]:
        """The results for inputs without a key, by the functions of ``F``; ``graphs`` are the bodies as functions."""

    def nnvm_outputs(self) -> int:
        """The number of results that an MXNet graph lists: the visible ones."""
        return self.num_visible_outputs()

    def eager(self, *arrays: Any) -> Any:
        """The results in new arrays."""
        shapes = self.infer_shape([x.shape for x in arrays])[1]
        dtypes = self.infer_type([x.dtype for x in arrays])[1]
        outs = [np.empty(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
        self.eager_out(outs, *arrays)
        return tuple(outs) if len(outs) != 1 else outs[0]

    def compiled(
        self, body: Body, shapes: Sequence[Shape], dtypes: Sequence[DType], fixed: Collection[int] = ()
    ) -> Any:
        """The executable of a body, for arrays of these shapes and dtypes; see :meth:`Body.trace`."""
        return self.compiled_graph(body, shapes, dtypes, fixed).forward

    def compiled_graph(
        self, body: Body, shapes: Sequence[Shape], dtypes: Sequence[DType], fixed: Collection[int] = ()
    ) -> Any:
        """As :meth:`compiled`, with all that is known of it."""
        kinds = id(body), *shapes, *dtypes
        if kinds not in self.graphs:
            self.graphs[kinds] = HOOKS.compile(body.trace(self.input_names(), shapes, dtypes, False, fixed))
        return self.graphs[kinds]

    def first_key(self, key: Any) -> Any:
        """The random key of the first step, given that of the call."""
        return advanced(key, self.draw)


def split_key(op: InnerGraphs, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The inputs of an operator without its random key; and that, if there is one."""
    end = len(values) - bool(op.counters)
    return list(values[:end]), list(values[end:])


def recorded_gradients(
    trace: Any,
    body: Body,
    ograds: Sequence[Any],
    arguments: Sequence[Any],
    needed: Sequence[bool],
    saved: Mapping[int, Any] = MappingProxyType({}),
) -> list[Any]:
    """The gradients of the needed arguments of a body, recorded in a trace; None for the others.

    ``ograds`` are those of the results, None where no gradient starts; ``saved`` are values of the body, by index.
    """
    F = HOOKS.symbols()
    with trace.active():
        grads = body.gradients(F, ograds, arguments, needed, saved)
        return [
            F.zeros(shape=x.shape, dtype=x.dtype) if n and g is None else g
            for g, x, n in zip(grads, arguments, needed, strict=True)
        ]


def new_trace() -> Any:
    """The trace of a body."""
    trace = HOOKS.new_trace(False)
    trace.track_locations = False
    return trace
