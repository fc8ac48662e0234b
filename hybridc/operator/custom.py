"""Python custom operators as operations of the dialect: host calls that the compiler does not look into.

``mx.operator`` is what users see, :mod:`hybridc.operator.custom_call` what runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.array.dispatch import invoke
from hybridc.array.fluent import Fluent
from hybridc.array.ndarray import NDArray
from hybridc.context import Context, current_context
from hybridc.dialects.error_context import user_code
from hybridc.dialects.operator import attribute, bind_anew, register
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.dialects.stateful import Stateful
from hybridc.errors import MXNetError
from hybridc.ground.state import STATE
from hybridc.operator.custom_call import CustomCall, CustomState, entries
from hybridc.sparse_storage import stype_of

# The Props that users registered, by their names.
_PROPS: dict[str, Any] = {}


@register("hybrid.custom", "Custom")
class CustomOperator(Stateful):
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
        return Custom

    bind_values = bind_anew

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
        params = dict(attrs)
        op_type = params.pop("op_type", "")
        return cls.bind(op_type=op_type, call=make_call(op_type, params, current_context))

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

    def infer_storage_type(self, inputs: Sequence[Any]) -> Sequence[str] | None:
        """As the Prop says; of the cell and of the auxiliary states, dense."""
        found = self.used.storage_types([stype_of(x) for x in inputs])
        return None if found is None else (*found, "default", *["default"] * len(self.mutated))

    def eager_sparse(self, *arrays: Any) -> Any:
        """The user's forward, with a new state."""
        cell = np.empty(1, object)
        results = self._run(cell, arrays, None)
        visible = self.num_visible_outputs()
        return (*results[:visible], cell, *results[visible:])

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


def Custom(
    *data: Any,
    op_type: str | None = None,
    name: str | None = None,  # noqa: ARG001
    out: Any = None,
    **kwargs: Any,
) -> Any:
    """Apply a custom operator that was registered in Python.

    Parameters
    ----------
    data : NDArray or Symbol
        The inputs in the order of the Prop's ``list_arguments``, then the auxiliary states.
    op_type : str
        The name given to ``mx.operator.register``.
    name:
        Accepted as all operators do; arrays have no names, a symbol's is that of its node.
    out:
        An array, or a list of them, into which the results are written; None makes new ones.
    **kwargs:
        Inputs by name, and the parameters of the Prop, which gets them as strings.

    Examples
    --------
    >>> class Square(mx.operator.CustomOp):
    ...     def forward(self, is_train, req, in_data, out_data, aux):
    ...         self.assign(out_data[0], req[0], in_data[0] ** 2)
    ...     def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
    ...         self.assign(in_grad[0], req[0], 2 * in_data[0] * out_grad[0])
    >>> @mx.operator.register("example_square")
    ... class SquareProp(mx.operator.CustomOpProp):
    ...     def create_operator(self, ctx, shapes, dtypes):
    ...         return Square()
    >>> x = mx.nd.array([1, 2, 3])
    >>> x.attach_grad()
    >>> with autograd.record():
    ...     y = mx.nd.Custom(x, op_type="example_square")
    >>> y.backward()
    >>> y.tolist(), x.grad.tolist()
    ([1.0, 4.0, 9.0], [2.0, 4.0, 6.0])
    """
    arrays: dict[str, Any] = {k: v for k, v in kwargs.items() if isinstance(v, Fluent | np.ndarray)}
    params = {k: _text(v) for k, v in kwargs.items() if k not in arrays}
    first: Any = data[0] if len(data) == 1 else None
    given = entries(first) or list(data)
    found = (x.context for x in [*given, *arrays.values()] if isinstance(x, NDArray))
    call = make_call(op_type, params, lambda: next(found, current_context()))
    inputs = _inputs(call, given, arrays)
    return invoke(CustomOperator.bind(op_type=op_type, call=call), inputs, out)


def make_call(op_type: str | None, params: dict[str, str], ctx: Callable[[], Context]) -> CustomCall:
    """One use of a custom operator: its Prop with these parameters."""
    if not op_type:
        raise MXNetError("Custom: op_type is missing; give the name under which the operator is registered")
    if op_type not in _PROPS:
        known = ", ".join(map(repr, sorted(_PROPS))) or "none so far"
        raise MXNetError(
            f"Custom: no operator is registered as {op_type!r} (registered: {known}); decorate its "
            f"CustomOpProp with @mx.operator.register({op_type!r})"
        )
    prop_cls: Any = _PROPS[op_type]
    with user_code(f"custom operator {op_type!r}: {prop_cls.__name__}.__init__ with {params}"):
        prop = prop_cls(**params)
    return CustomCall(op_type, prop, params, ctx())


def _inputs(call: CustomCall, data: Sequence[Any], arrays: dict[str, Any]) -> list[Any]:
    """All inputs in order, from those given by position and by name."""
    names = [*call.arguments, *call.auxiliary]
    takes = f"it takes ({', '.join(names)})"
    if len(data) > len(names):
        raise MXNetError(f"custom operator {call.op_type!r}: got {len(data)} inputs, but {takes}")
    found = dict(zip(names, data, strict=False))
    for key, array in arrays.items():
        if key not in names:
            raise MXNetError(f"custom operator {call.op_type!r}: no input is called {key!r}; {takes}")
        if key in found:
            raise MXNetError(f"custom operator {call.op_type!r}: input {key!r} is given twice; {takes}")
        found[key] = array
    missing = [n for n in names if found.get(n) is None]
    if missing and not (STATE.trace is not None and STATE.trace.creates_inputs):
        raise MXNetError(f"custom operator {call.op_type!r}: input {missing[0]!r} is missing; {takes}")
    return [found.get(n) for n in names]


def _text(value: Any) -> str:
    """A parameter as the string that the Prop gets; NumPy's numbers as plain ones."""
    values = entries(value)
    if values is None:
        return str(value)
    plain: list[Any] = [v.item() if isinstance(v, np.generic) else v for v in values]
    return str(tuple(plain) if type(value) is tuple else plain)
