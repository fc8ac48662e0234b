"""Python custom operators as operations of the dialect: host calls that the compiler does not look into.

``mx.operator`` is what users see, :mod:`hybridc.runtime.custom_call` what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.attribute import DType, Shape
from hybridc.dialects.operator import Opaque, Operator, attribute, register
from hybridc.errors import MXNetError
from hybridc.runtime.custom_call import CustomCall, entries


class _Use(Opaque):
    """A host call that belongs to one use of a custom operator."""

    INPUTS = ("data",)
    VARIADIC = True
    PURE = False
    SAME_DTYPE = False

    op_type: str = attribute("", "the name under which the operator is registered")
    call: object = attribute(None, "internal: the CustomCall")

    @classmethod
    def function(cls) -> Callable[..., Any]:
        """``nd.Custom`` takes the operator's own keywords, so it is written by hand."""
        from hybridc import operator

        return operator.Custom

    @classmethod
    def bind_values(cls, values: tuple[Any, ...]) -> Operator:
        """Bound anew: remembering every use would keep its CustomOps and all that they hold alive."""
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


@register("hybrid.custom", "Custom")
class Custom(_Use):
    """A custom operator, registered in Python with ``mx.operator.register``, by its name ``op_type``."""

    TRAIN_MODE = True

    train: bool | None = attribute(None, "internal: whether this is for training")

    def input_names(self) -> tuple[str, ...]:
        """The arguments, then the auxiliary states."""
        return (*self.used.arguments, *self.used.auxiliary)

    def num_outputs(self) -> int:
        """The operator's outputs and the number of the CustomOp that made them."""
        return len(self.used.outputs) + 1

    def num_visible_outputs(self) -> int:
        """The operator's own outputs."""
        return len(self.used.outputs)

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """As the Prop says."""
        ins, outs = self.used.infer_shape(shapes)
        return ins, [*outs, (1,)]

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """As the Prop says."""
        ins, outs = self.used.infer_type(dtypes)
        return ins, [*outs, np.dtype(np.int64)]

    def eager(self, *arrays: Any) -> Any:
        """The user's forward."""
        return self.used.forward(bool(self.train), arrays)

    def gradient_of(self, needed: Sequence[bool], F: Any, *values: Any) -> Any:
        """The user's backward, as one more host call, for the needed inputs only."""
        from hybridc.dispatch import invoke

        call = self.used
        outs, ins, aux = len(call.outputs), len(call.arguments), len(call.auxiliary)
        wanted = tuple(bool(n) for n in needed[:ins])
        if not any(wanted):
            return [None] * (ins + aux)
        auxiliary = values[outs + ins : outs + ins + aux]
        visible = [*values[: outs + ins], *values[outs + ins + aux : -1]]
        read = tuple(call.dependencies())
        op = CustomBackward.bind(op_type=self.op_type, call=call, needed=wanted, read=read)
        found = invoke(op, [*[visible[i] for i in read], *auxiliary, values[-1]])
        grads = iter(entries(found) or [found])
        return [next(grads) if n else None for n in wanted] + [None] * aux

    def gradient(self, F: Any, *values: Any) -> Any:
        """As :meth:`gradient_of`, for all inputs."""
        return self.gradient_of([True] * len(self.input_names()), F, *values)


@register("hybrid.custom_backward")
class CustomBackward(_Use):
    """The backward of a custom operator."""

    needed: object = attribute((), "internal: for each argument, whether its gradient is wanted")
    read: object = attribute((), "internal: which arrays the backward reads, see CustomCall.dependencies")

    def _wanted(self, values: Sequence[Any]) -> list[Any]:
        needed: Any = self.needed
        return [v for v, n in zip(values, needed, strict=False) if n]

    def num_outputs(self) -> int:
        """One gradient for each needed argument."""
        return len(self._wanted(self.used.arguments))

    def infer_shape(self, shapes: list[Shape]) -> tuple[list[Shape], list[Shape]]:
        """Gradients have the shapes of their arguments."""
        return shapes, self._wanted(self.used.in_shapes)

    def infer_type(self, dtypes: list[DType]) -> tuple[list[DType], list[DType]]:
        """Gradients have the dtypes of their arguments."""
        return dtypes, self._wanted(self.used.in_types)

    def eager(self, *arrays: Any) -> Any:
        """The user's backward."""
        needed: Any = self.needed
        read: Any = self.read
        grads = self.used.backward(needed, read, arrays)
        return grads[0] if len(grads) == 1 else tuple(grads)

    def gradient(self, F: Any, *values: Any) -> Any:
        """Raises: a Python backward has no gradient rule of its own."""
        raise MXNetError(
            f"custom operator {self.op_type!r} cannot be differentiated twice: its backward is Python code, "
            "which has no gradient. Write the operation with F's operators, or leave out create_graph=True"
        )
