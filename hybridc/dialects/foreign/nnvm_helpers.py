"""Ready attributes for simple operators, by MXNet's names: equal shapes and types, gradients by other operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hybridc.dialects.foreign.nnvm import Node, NodeAttrs, get
from hybridc.dialects.foreign.nnvm_operator import NNVMOperator, NNVMStateful
from hybridc.errors import DTypeError, MXNetError, ShapeError
from hybridc.hooks import HOOKS
from hybridc.nesting import as_list

Infer = Callable[[NodeAttrs, list[Any], list[Any]], bool]
Gradient = Callable[[Node, Sequence[Any]], list[Any]]


def ElemwiseShape(n_in: int, n_out: int) -> Infer:
    """FInferShape of operators whose inputs and outputs have one shape: what is known of any holds for all."""

    def infer(attrs: NodeAttrs, in_attrs: list[Any], out_attrs: list[Any]) -> bool:
        _require_counts(attrs, "ElemwiseShape", n_in, n_out, in_attrs, out_attrs)
        merged: Any = None
        for shape in (*in_attrs, *out_attrs):
            merged = _merged(attrs, merged, shape, in_attrs)
        in_attrs[:], out_attrs[:] = [merged] * n_in, [merged] * n_out
        return merged is not None and -1 not in merged

    return infer


def _merged(attrs: NodeAttrs, a: Any, b: Any, shapes: list[Any]) -> Any:
    """What two partly known shapes of one thing tell together."""
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(m != n and -1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise ShapeError(f"{attrs.name}: all shapes must be equal, got {', '.join(map(str, shapes))}")
    return tuple(n if m == -1 else m for m, n in zip(a, b, strict=True))


def ElemwiseType(n_in: int, n_out: int) -> Infer:
    """FInferType of operators whose inputs and outputs have one dtype."""

    def infer(attrs: NodeAttrs, in_attrs: list[Any], out_attrs: list[Any]) -> bool:
        _require_counts(attrs, "ElemwiseType", n_in, n_out, in_attrs, out_attrs)
        known = {np.dtype(d) for d in (*in_attrs, *out_attrs) if d is not None}
        if len(known) > 1:
            got = ", ".join(str(d) for d in in_attrs)
            raise DTypeError(f"{attrs.name}: all inputs must have one dtype, got {got}; use .astype(…)")
        common = known.pop() if known else None
        in_attrs[:], out_attrs[:] = [common] * n_in, [common] * n_out
        return common is not None

    return infer


def _require_counts(attrs: NodeAttrs, helper: str, n_in: int, n_out: int, ins: list[Any], outs: list[Any]) -> None:
    if (len(ins), len(outs)) != (n_in, n_out):
        raise MXNetError(
            f"{attrs.name}: {helper}({n_in}, {n_out}), but the operator has {len(ins)} inputs and {len(outs)} outputs"
        )


def MakeGradNode(op_name: str, node: Node, heads: Sequence[Any], dict: Mapping[str, Any] | None = None) -> list[Any]:
    """Apply an operator inside a gradient rule: the results, one gradient for each input of ``node``.

    An operator with TIsBackward takes its shapes and dtypes from the inputs of ``node``.
    """
    cls = get(op_name)
    given: Any = dict or {}
    if issubclass(cls, NNVMOperator | NNVMStateful):
        given = {
            **{k: v for k, v in given.items() if k in cls.ATTRIBUTES},
            "forward_shapes": tuple(tuple(x.shape) for x in node.inputs),
            "forward_types": tuple(np.dtype(x.dtype).name for x in node.inputs),
            "forward_attrs": tuple((k, str(v)) for k, v in given.items() if k not in cls.ATTRIBUTES),
        }
    return as_list(HOOKS.invoke(cls.bind(**given), list(heads)))


def _shared(op_name: str, node: Node) -> Any:
    """The attributes of a node as far as another operator takes them."""
    cls = get(op_name)
    takes_all = issubclass(cls, NNVMOperator | NNVMStateful)
    return {k: v for k, v in node.attrs.dict.items() if takes_all or k in cls.ATTRIBUTES}


def ElemwiseGradUseIn(op_name: str) -> Gradient:
    """FGradient by an operator that takes the outputs' gradients and the inputs."""
    return lambda node, ograds: MakeGradNode(op_name, node, [*ograds, *node.inputs], _shared(op_name, node))


def ElemwiseGradUseOut(op_name: str) -> Gradient:
    """FGradient by an operator that takes the outputs' gradients and the outputs."""
    return lambda node, ograds: MakeGradNode(op_name, node, [*ograds, *node.outputs], _shared(op_name, node))


def ElemwiseGradUseNone(op_name: str) -> Gradient:
    """FGradient by an operator that takes the outputs' gradients only."""
    return lambda node, ograds: MakeGradNode(op_name, node, ograds, _shared(op_name, node))
