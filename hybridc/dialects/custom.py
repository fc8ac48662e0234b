"""Python custom operators as operations of the dialect: host calls that the compiler does not look into.

``mx.operator`` is what users see, :mod:`hybridc.runtime.custom_call` what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hybridc.context import current_context
from hybridc.dialects.attribute import DType, Shape
from hybridc.dialects.operator import Operator, attribute, register
from hybridc.dialects.stateful import Stateful
from hybridc.errors import MXNetError
from hybridc.runtime.custom_call import CustomCall, CustomState


@register("hybrid.custom", "Custom")
class Custom(Stateful):
    """A custom operator, registered in Python with ``mx.operator.register``, by its name ``op_type``.

    Its state is a CustomOp: one for each forward, so that a backward meets what its forward left in ``self``.
    """

    INPUTS = ("data",)
    VARIADIC = True
    TRAIN_MODE = True
    FRESH = True

    op_type: str = attribute("", "the name under which the operator is registered")
    call: object = attribute(None, "internal: the CustomCall")
    train: bool | None = attribute(None, "internal: whether this is for training")

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd.Custom`` takes the operator's own keywords, so it is written by hand."""
        from hybridc import operator

        return operator.Custom

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """Bound anew: remembering every use would keep its Prop and all that it holds alive."""
        return cls._parse(values)

    def __repr__(self) -> str:
        return f"{self.NAME} {self.call!r}"

    @property
    def used(self) -> CustomCall:
        """The use of the operator that this is."""
        assert isinstance(self.call, CustomCall)
        return self.call

    def check(self) -> None:
        """Only ``nd.Custom`` makes the call."""
        if not isinstance(self.call, CustomCall):
            raise MXNetError(f"{self.NAME} cannot be made directly; use mx.nd.Custom(…, op_type=…)")

    def to_nnvm(self) -> dict[str, Any]:
        """The name, and the parameters of the Prop."""
        return {"op_type": self.op_type, **self.used.params}

    @classmethod
    def from_nnvm(cls, attrs: Mapping[str, str]) -> Any:
        """A use of its own of the operator that is registered now."""
        from hybridc import operator

        params = dict(attrs)
        op_type = params.pop("op_type", "")
        return cls.bind(op_type=op_type, call=operator.make_call(op_type, params, current_context))

    def described(self) -> str:
        return f"custom operator {self.op_type!r}"

    def input_names(self) -> tuple[str, ...]:
        """The arguments, then the auxiliary states."""
        return (*self.used.arguments, *self.used.auxiliary)

    def mutates(self) -> tuple[int, ...]:
        """The auxiliary states."""
        count = len(self.used.arguments)
        return tuple(range(count, count + len(self.used.auxiliary)))

    def num_visible_outputs(self) -> int:
        """As the Prop says."""
        return len(self.used.outputs)

    def output_names(self) -> tuple[str, ...]:
        """As the Prop says."""
        return tuple(self.used.outputs)

    def complete_shapes(self, shapes: list[Shape | None], outputs: list[Shape | None]) -> list[Shape | None]:
        """As the Prop says, which gets () for what is unknown."""
        return self.used.complete_shapes(shapes)

    def complete_types(self, dtypes: list[DType | None]) -> list[DType | None]:
        """As the Prop says, which gets the first dtype for what is unknown."""
        return self.used.complete_types(dtypes)

    def result_shapes(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As the Prop says."""
        return self.used.infer_shape(shapes)

    def result_types(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As the Prop says."""
        return self.used.infer_type(dtypes)

    def reads(self) -> Sequence[int]:
        """As the Prop says; its numbers leave out the auxiliary states."""
        call = self.used
        before = len(call.outputs) + len(call.arguments)
        return [i if i < before else i + len(call.auxiliary) for i in call.dependencies()]

    def create_state(self, shapes: Sequence[Shape], dtypes: Sequence[DType]) -> CustomState:
        """The CustomOp that the Prop creates."""
        return self.used.create(shapes, dtypes)

    def forward(self, state: Any, *arrays: Any) -> Any:
        """The user's forward."""
        return self.used.forward(state, bool(self.train), arrays)

    def backward(
        self, state: Any, needed: Sequence[bool], ograds: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> Sequence[Any]:
        """The user's backward."""
        return self.used.backward(state, needed, ograds, inputs, outputs)
