"""``mx.gluon.block``: blocks, and what code in the wild takes from MXNet's module of this name."""

# pyright: reportUnusedFunction=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from hybridc.array.ndarray import NDArray
from hybridc.errors import AttributeValueError
from hybridc.gluon.hybrid_block import ATTRIBUTE_EPOCH, Block, HybridBlock
from hybridc.gluon.naming import BlockScope as _BlockScope
from hybridc.gluon.parameter import DeferredInitializationError, Parameter, ParameterDict
from hybridc.gluon.symbol_block import SymbolBlock
from hybridc.gluon.utils import HookHandle
from hybridc.gluon.utils import brief as _brief_print_list
from hybridc.gluon.utils import indent as _indent
from hybridc.symbol.composed import ComposedSymbol
from hybridc.trace.traced import Symbol

__all__ = [
    "ATTRIBUTE_EPOCH",
    "Block",
    "DeferredInitializationError",
    "HookHandle",
    "HybridBlock",
    "NDArray",
    "Parameter",
    "ParameterDict",
    "Symbol",
    "SymbolBlock",
    "_BlockScope",
    "_brief_print_list",
    "_indent",
]


def _flatten(args: Any, inout_str: str) -> tuple[list[Any], Any]:
    """All arrays in nested lists, and their nesting: 0 for an array, -1 for None, n for n outputs."""
    if isinstance(args, ComposedSymbol):
        return [args], args.num_outputs if args.num_outputs > 1 else 0
    if isinstance(args, NDArray | Symbol):
        return [args], 0
    if args is None:
        return [None], -1
    if not isinstance(args, list | tuple):
        raise AttributeValueError(
            f"When hybridized, the input of HybridBlock {inout_str} must be (nested) list of Symbol or NDArray, but "
            f"got {args} of type {type(args)}"
        )
    flat: list[Any] = []
    nesting: list[Any] = []
    for part in cast("Sequence[Any]", args):
        found, inner = _flatten(part, inout_str)
        flat += found
        nesting.append(inner)
    return flat, nesting


def _regroup(args: Sequence[Any], fmt: Any) -> Any:
    """The nested lists that :func:`_flatten` took apart."""
    return _merged(list(args), fmt)[0]


def _merged(args: list[Any], fmt: Any) -> tuple[Any, list[Any]]:
    """The nested lists of the first arrays, and the arrays that are left over."""
    if isinstance(fmt, int):
        if fmt == -1 and args[0] is not None:
            raise AttributeValueError(
                "We do not support passing types that are not None when the initial HybridBlock has received NoneType "
                f"and has been hybridized. Received arg = {args[0]}, fmt = {fmt}."
            )
        return (args[0], args[1:]) if fmt <= 0 else (args[:fmt], args[fmt:])
    nested: list[Any] = []
    for inner in fmt:
        found, args = _merged(args, inner)
        nested.append(found)
    return nested, args
