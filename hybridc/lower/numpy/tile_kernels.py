"""Decide, for the numpy target, how each kernel is tiled, what scratch it needs, what it may do in place."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, ModuleOp, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from hybridc.ir.host import pairs_of
from hybridc.ir.joined import part_of, strides_in_whole
from hybridc.ir.strides import row_major
from hybridc.ir.structured import VIEWS, Shape, groups_of, is_host, kernels, root, shape_of
from hybridc.lower.numpy.emit_kernel import KernelEmitter


@dataclass(frozen=True)
class TileKernels(ModulePass):
    """Sets tiles, threads, scratch and in-place pairs of kernels for the numpy target.

    ``hybrid.scratch`` (bytes), ``hybrid.threads``, ``hybrid.inplace`` (pairs of argument and result). If some calls
    give views whose axes do not follow each other in memory, or make parts of greater arrays, ``hybrid.strided``: the
    arguments, then the results, that these may be. If
    some calls are given memory for a result together with what it holds so far, ``hybrid.updates``: these results.
    """

    name = "tile-kernels"

    threads: int = 2

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        strided, updates = strided_arguments(op), updating_results(op)
        for name, kernel in kernels(op).items():
            if is_host(kernel):
                continue
            if name in updates:
                kernel.attributes["hybrid.updates"] = DenseArrayBase.from_list(i64, sorted(updates[name]))
            views = strided.get(name, set())
            emitter = KernelEmitter(kernel, self.threads, frozenset(views))
            pairs = [n for pair in emitter.inplace_pairs() for n in pair]
            kernel.attributes["hybrid.scratch"] = IntegerAttr(emitter.bytes, i64)
            kernel.attributes["hybrid.threads"] = IntegerAttr(emitter.threads, i64)
            kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, pairs)
            if views:
                kernel.attributes["hybrid.strided"] = DenseArrayBase.from_list(i64, sorted(views))


def strided_arguments(module: ModuleOp) -> dict[str, set[int]]:
    """For each function the arguments, then the results, that are, in some call, no plain arrays."""
    found: dict[str, set[int]] = {}
    for function in module.ops:
        if not isinstance(function, func.FuncOp) or is_host(function):
            continue
        for name, number, value in views_given(function):
            if is_strided(value):
                found.setdefault(name, set()).add(number)
        for name, number, value in parts_made(function):
            if strides_in_whole(value) != row_major(shape_of(value)):
                call = value.owner
                assert isinstance(call, func.CallOp)
                found.setdefault(name, set()).add(len(call.arguments) + number)
    return found


def parts_made(function: func.FuncOp) -> list[tuple[str, int, SSAValue]]:
    """The results of calls that are parts of greater arrays: the function called, the result's number, its value."""
    calls = [op for op in function.body.block.ops if isinstance(op, func.CallOp)]
    made = [(op.callee.string_value(), i, v) for op in calls for i, v in enumerate(op.results)]
    return [each for each in made if part_of(each[2]) is not None]


def views_given(function: func.FuncOp) -> list[tuple[str, int, SSAValue]]:
    """The arguments in calls that may be no plain arrays: the function called, the argument's number, its value."""
    calls = [op for op in function.body.block.ops if isinstance(op, func.CallOp)]
    given = [(op.callee.string_value(), i, v) for op in calls for i, v in enumerate(op.arguments)]
    return [each for each in given if _is_moved(each[2])]


def _is_moved(value: SSAValue) -> bool:
    """Whether a value is a view other than the whole array in its order."""
    while isinstance(value.owner, VIEWS):
        if not isinstance(value.owner, tensor.CollapseShapeOp | tensor.ExpandShapeOp):
            return True
        value = value.owner.operands[0]
    return False


def is_strided(value: SSAValue) -> bool:
    """Whether a value is no plain array."""
    return _strides(value) != row_major(shape_of(value))


def updating_results(module: ModuleOp) -> dict[str, set[int]]:
    """For each function the results that, in some call, an argument of this call is donated for."""
    found: dict[str, set[int]] = {}
    for function in module.ops:
        if not isinstance(function, func.FuncOp) or is_host(function):
            continue
        block = function.body.block
        for argument, out in pairs_of(function, "hybrid.donated"):
            result = root(cast(Operation, block.last_op).operands[out])
            call = result.owner
            if isinstance(call, func.CallOp) and block.args[argument] in map(root, call.arguments):
                found.setdefault(call.callee.string_value(), set()).add(call.results.index(result))
    return found


def _strides(value: SSAValue) -> Shape:
    """The strides of a value, in elements: of a view, what its operations make of those of the array behind it."""
    op = value.owner
    if not isinstance(op, VIEWS):
        return row_major(shape_of(value))
    inner = _strides(op.operands[0])
    match op:
        case linalg.TransposeOp():
            return tuple(inner[i] for i in op.permutation.get_values())
        case tensor.ExtractSliceOp():
            return tuple(s * step for s, step in zip(inner, op.static_strides.get_values(), strict=True))
        case tensor.CollapseShapeOp():
            sizes = shape_of(op.operands[0])
            return tuple(inner[max((i for i in group if sizes[i] != 1), default=group[-1])] for group in groups_of(op))
        case tensor.ExpandShapeOp():
            shape = shape_of(value)
            return tuple(
                s * math.prod(shape[i + 1 : group[-1] + 1])
                for s, group in zip(inner, groups_of(op), strict=True)
                for i in group
            )
