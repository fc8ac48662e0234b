"""NNVM's interfaces (``FInferShape``, …) as methods of operator classes, in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.foreign.nnvm_nodes import (
    Interface,
    Node,
    NodeAttrs,
    OpContext,
    kAddTo,
    kNullOp,
    kWriteInplace,
    kWriteTo,
)
from hybridc.dialects.gradient import vjp
from hybridc.dialects.operator import Operator
from hybridc.dialects.operator_registry import Attached
from hybridc.dialects.stateful import Stateful
from hybridc.errors import DTypeError, MXNetError, ShapeError
from hybridc.ground.hooks import HOOKS
from hybridc.ground.nesting import as_list


def _results(op: Operator) -> int:
    """The number of outputs that NNVM counts: without new values of mutated inputs, and without a state's cell."""
    if isinstance(op, Stateful):
        return op.num_visible_outputs()
    return op.num_outputs() - len(op.mutates())


# --- FInferShape, FInferType ----------------------------------------------------------------------------------


def _install_infer_shape(cls: type[Operator], value: Callable[..., Any]) -> None:
    def infer_shape(self: Any, shapes: Any) -> Any:
        ins, outs = _infer(self, "FInferShape", value, shapes, [None] * _results(self))
        missing = [i for i, s in enumerate(outs) if s is None]
        if missing:
            raise ShapeError(f"{self.title()}: FInferShape leaves output {missing[0]} unknown for inputs {ins}")
        return _complete(self, [tuple(s) for s in ins], [tuple(s) for s in outs])

    def complete_shapes(self: Any, shapes: Any, outputs: Any) -> Any:
        outs = [*outputs, *[None] * (_results(self) - len(outputs))]
        return [s if s is None else tuple(s) for s in _infer(self, "FInferShape", value, shapes, outs)[0]]

    _put(cls, "result_shapes" if issubclass(cls, Stateful) else "infer_shape", infer_shape)
    _put(cls, "complete_shapes", complete_shapes)


def _install_infer_type(cls: type[Operator], value: Callable[..., Any]) -> None:
    def infer_type(self: Any, dtypes: Any) -> Any:
        ins, outs = _infer(self, "FInferType", value, dtypes, [None] * _results(self))
        missing = [i for i, d in enumerate(outs) if d is None]
        if missing:
            raise DTypeError(f"{self.title()}: FInferType leaves output {missing[0]} unknown for inputs {ins}")
        return _complete(self, [np.dtype(d) for d in ins], [np.dtype(d) for d in outs])

    def complete_types(self: Any, dtypes: Any) -> Any:
        ins, _ = _infer(self, "FInferType", value, dtypes, [None] * _results(self))
        return [None if d is None else np.dtype(d) for d in ins]

    _put(cls, "result_types" if issubclass(cls, Stateful) else "infer_type", infer_type)
    _put(cls, "complete_types", complete_types)


def _infer(op: Operator, key: str, value: Callable[..., Any], ins: Any, outs: Any) -> tuple[list[Any], list[Any]]:
    """Call a user's function, which fills two lists in place."""
    filled, results = list(ins), list(outs)
    done = value(NodeAttrs.of(op), filled, results)
    if not isinstance(done, bool | np.bool_):
        raise MXNetError(
            f"{op.title()}: {key} returned {done!r}; it fills its lists in place and returns whether all is known"
        )
    if len(filled) != len(ins) or len(results) != len(outs):
        raise MXNetError(
            f"{op.title()}: {key} left {len(filled)} inputs and {len(results)} outputs, expected {len(ins)} and "
            f"{len(outs)}; assign to the elements of its lists"
        )
    return filled, results


def _complete(op: Operator, ins: list[Any], outs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Append the new values of mutated inputs, which have the shapes and dtypes of the inputs."""
    if isinstance(op, Stateful):
        return ins, outs
    return ins, [*outs, *[ins[i] for i in op.mutates()]]


def infer_shape_of(attrs: NodeAttrs, in_attrs: list[Any], out_attrs: list[Any]) -> bool:
    """FInferShape of an operator class."""
    op = attrs.bound
    in_attrs[:] = op.complete_shapes(list(in_attrs), list(out_attrs))
    if None in in_attrs:
        return False
    ins, outs = op.infer_shape(list(in_attrs))
    in_attrs[:], out_attrs[:] = ins, outs[: _results(op)]
    return not any(-1 in s for s in (*in_attrs, *out_attrs))


def infer_type_of(attrs: NodeAttrs, in_attrs: list[Any], out_attrs: list[Any]) -> bool:
    """FInferType of an operator class."""
    op = attrs.bound
    in_attrs[:] = op.complete_types(list(in_attrs))
    if None in in_attrs:
        return False
    ins, outs = op.infer_type(list(in_attrs))
    in_attrs[:], out_attrs[:] = ins, outs[: _results(op)]
    return True


# --- FGradient ------------------------------------------------------------------------------------------------


def _install_gradient(cls: type[Operator], value: Callable[..., Any]) -> None:
    def gradient(self: Any, _: Any, *values: Any) -> Any:
        visible, outputs = self.num_visible_outputs(), self.num_outputs()
        ins = values[visible : len(values) - outputs]
        node = Node(NodeAttrs.of(self), ins, values[len(values) - outputs :][: _results(self)])
        grads = value(node, list(values[:visible]))
        return None if grads is None else tuple(as_list(grads))

    _put(cls, "gradient", gradient)
    _put(cls, "gradient_of", Operator.gradient_of)  # calls "gradient", whatever the class had here


def gradient_of(node: Node, ograds: Sequence[Any]) -> list[Any]:
    """FGradient of an operator class."""
    return vjp(node.attrs.bound, HOOKS.arrays(), ograds, node.inputs, node.outputs, [True] * len(node.inputs))


# --- FCompute -------------------------------------------------------------------------------------------------


def _install_compute(cls: type[Operator], value: Callable[..., Any]) -> None:
    def eager_out(self: Any, outs: Any, *arrays: Any) -> None:
        updates = outs[len(outs) - len(self.mutated) :] if self.mutated else ()
        inputs = list(arrays)
        for i, new in zip(self.mutated, updates, strict=True):  # updated in place: the copy is the new value
            np.copyto(new, arrays[i])
            inputs[i] = new
        results = outs[: len(outs) - len(updates)]
        places = {x.__array_interface__["data"][0] for x in inputs}
        req = [kWriteInplace if y.__array_interface__["data"][0] in places else kWriteTo for y in results]
        value(NodeAttrs.of(self), OpContext(bool(self.attrs.get("train"))), inputs, req, list(results))

    def eager(self: Any, *arrays: Any) -> Any:
        shapes = self.infer_shape([a.shape for a in arrays])[1]
        dtypes = self.infer_type([a.dtype for a in arrays])[1]
        outs = [np.empty(s, d) for s, d in zip(shapes, dtypes, strict=True)]
        eager_out(self, outs, *arrays)
        return outs[0] if len(outs) == 1 else tuple(outs)

    _put(cls, "eager", eager)
    _put(cls, "eager_out", eager_out)


def compute_of(attrs: NodeAttrs, ctx: OpContext, inputs: Any, req: Sequence[str], outputs: Any) -> None:
    """FCompute<cpu> of an operator class."""
    op = attrs.bound
    if op.TRAIN_MODE:
        op = op.bind(**{**op.attrs, "train": ctx.is_train})
    results = as_list(op.evaluate(*inputs))
    for how, out, result in zip(req, outputs, results, strict=False):
        if how == kAddTo:
            out += result
        elif how != kNullOp:
            np.copyto(out, result, casting="unsafe")
    for i, new in zip(op.mutated, results[len(results) - len(op.mutated) :], strict=True):
        np.copyto(inputs[i], new)


# --- state ----------------------------------------------------------------------------------------------------


def _install_state(cls: type[Operator], value: Callable[..., Any]) -> None:
    if not issubclass(cls, Stateful):
        raise MXNetError(f"operator {cls.NAME!r} owns no state: its class must be derived from mx.op.Stateful")

    def create_state(self: Any, shapes: Any, dtypes: Any) -> Any:
        context = OpContext(bool(self.attrs.get("train")))
        return value(NodeAttrs.of(self), context, list(shapes), list(dtypes))

    _put(cls, "create_state", create_state)


def create_state_of(attrs: NodeAttrs, _: OpContext, in_shapes: Any, in_types: Any) -> Any:
    """FCreateOpState of an operator class."""
    op: Any = attrs.bound
    return op.create_state(in_shapes, in_types)


def _install_stateful_compute(cls: type[Operator], value: Callable[..., Any]) -> None:
    def forward(self: Any, state: Any, *arrays: Any) -> Any:
        shapes, dtypes = [a.shape for a in arrays], [a.dtype for a in arrays]
        alike = zip(self.result_shapes(shapes)[1], self.result_types(dtypes)[1], strict=True)
        outs = [np.empty(s, d) for s, d in alike]
        inputs = [a.copy() if i in self.mutated else a for i, a in enumerate(arrays)]
        context = OpContext(bool(self.attrs.get("train")))
        value(state, context, inputs, [kWriteTo] * len(outs), list(outs))
        return (*outs, *[inputs[i] for i in self.mutated])

    _put(cls, "forward", forward)


# --- functions of the attributes alone ------------------------------------------------------------------------


def _put(cls: type[Operator], method: str, function: Any) -> None:
    setattr(cls, method, function)


def _of_attrs(method: str, convert: Callable[[Any], Any], *fields: str, property_: bool = False) -> Interface:
    """The interface of a method without arguments, or of a property, or of class ``fields``."""

    def install(cls: type[Operator], value: Callable[..., Any]) -> None:
        def asked(self: Any) -> Any:
            return convert(value(NodeAttrs.of(self)))

        _put(cls, method, property(asked) if property_ else asked)

    def answer(attrs: NodeAttrs) -> Any:
        found = getattr(attrs.bound, method)
        found = found if property_ else found()
        return as_list(found) if isinstance(found, tuple) else found

    return Interface((method, *fields), answer, install)


def _keep(*_: Any) -> None:
    """Installs nothing: the attribute is only stored."""


INTERFACES: dict[str, Interface] = {
    "FInferShape": Interface(("infer_shape", "result_shapes", "complete_shapes"), infer_shape_of, _install_infer_shape),
    "FInferType": Interface(("infer_type", "result_types", "complete_types"), infer_type_of, _install_infer_type),
    "FInplaceOption": _of_attrs("INPLACE", lambda pairs: tuple(tuple(pair) for pair in pairs), property_=True),
    "FGradient": Interface(("gradient",), gradient_of, _install_gradient),
    "FCompute<cpu>": Interface(("eager", "eager_out"), compute_of, _install_compute),
    "FCompute<gpu>": Interface((), None, _keep),
    "FListInputNames": _of_attrs("input_names", tuple, "INPUTS"),
    "FListOutputNames": _of_attrs("output_names", tuple),
    "FNumVisibleOutputs": _of_attrs("num_visible_outputs", int),
    "FMutateInputs": _of_attrs("mutates", tuple, "MUTATES"),
    "FCreateOpState": Interface(("create_state",), create_state_of, _install_state),
    "FStatefulCompute<cpu>": Interface((), None, _install_stateful_compute),
    "TIsBackward": Interface((), None, _keep),
}
Attached.METHODS.update({key: interface.methods for key, interface in INTERFACES.items()})
