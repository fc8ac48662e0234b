"""What a planned program computes: its arena is an array of bytes, its kernels are run by their meaning.

Independent of the planner, of the verifier and of the emitted Python. Memory holds NaN before it is written.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.dialects.linalg import ops as linalg

from hybridc.dialects.mlir.hybrid import hybrid_element_dtype
from hybridc.dialects.mlir.hybrid_rt import (
    AliasOp,
    AllocOp,
    ArenaOp,
    ConstantOp,
    CopyOp,
    DonatedOp,
    KeptOp,
    LaunchOp,
    StateOp,
    ViewOp,
)
from hybridc.dialects.movement import NUMPY_MOVES
from hybridc.ir.structured import is_host, kernels
from tests.lower.evaluate import Evaluator


def declare_inplace(module):
    """What a target's tiling would declare: a lone elementwise operation may write over an operand that it reads so."""
    for kernel in kernels(module).values():
        if is_host(kernel):
            continue
        pairs = []
        loops = [op for op in kernel.body.block.ops if isinstance(op, linalg.GenericOp)]
        if len(loops) == 1 and all(k.data.value == "parallel" for k in loops[0].iterator_types):
            maps = [m.data for m in loops[0].indexing_maps]
            for value, each in zip(loops[0].inputs, maps, strict=False):
                if each == maps[-1] and value.type == loops[0].results[0].type:
                    pairs += [value.index, 0]
        kernel.attributes["hybrid.inplace"] = DenseArrayBase.from_list(i64, pairs)
    return module


class PlanRunner:
    """Runs the planned functions of a module."""

    def __init__(self, module):
        self.kernels = Evaluator(module)
        self.functions = {f.sym_name.data: f for f in module.ops}

    def call(self, name, *arrays):
        """The results; donated arguments are written."""
        block = self.functions[name].body.block
        values = dict(zip(block.args, arrays, strict=True))
        for op in block.ops:
            match op:
                case ArenaOp() | KeptOp():
                    values[op.memory] = np.full(op.size, 255, np.uint8)
                case ViewOp():
                    shape, dtype = content(op.array)
                    offset = op.offset.value.data
                    part = values[op.memory][offset : offset + int(np.prod(shape)) * dtype.itemsize]
                    values[op.array] = part.view(dtype).reshape(shape)
                case AllocOp() | StateOp():
                    shape, dtype = content(op.array)
                    values[op.array] = np.full(shape, {"f": np.nan, "O": None}.get(dtype.kind, 1), dtype)
                case DonatedOp():
                    values[op.array] = values[op.argument]
                case ConstantOp():
                    shape, dtype = content(op.array)
                    values[op.array] = np.array(list(op.value.get_values())).astype(dtype).reshape(shape)
                case AliasOp():
                    values[op.result] = self.alias(op, values[op.array])
                case CopyOp():
                    np.copyto(values[op.target], values[op.source])
                case LaunchOp():
                    self.launch(op, values)
                case func.ReturnOp():
                    return [values[v] for v in op.arguments]
        raise AssertionError(f"@{name} does not return")

    @staticmethod
    def alias(op, array):
        shape, _ = content(op.result)
        given = {k: tuple(v.get_values()) for k, v in op.attributes.items()}
        given |= {"shape": shape} if op.view.data != "transpose" else {}
        seen = getattr(NUMPY_MOVES, op.view.data)(array, **given)
        assert np.shares_memory(seen, array) or not seen.size, f"{op} moves elements"
        assert seen.shape == shape
        return seen

    def launch(self, op, values):
        if op.scratch is not None:
            values[op.scratch][...] = -1
        results = self.kernels.call(op.kernel.string_value(), *[values[v].copy() for v in op.ins])
        for value, result in zip(op.outs, results, strict=True):
            unsigned = values[value].dtype.kind == "u"
            np.copyto(values[value], result.view(values[value].dtype) if unsigned else result)
        if op.scratch is not None:
            values[op.scratch][...] = -1


def content(value):
    """Shape and dtype of a buffer."""
    return tuple(value.type.get_shape()), hybrid_element_dtype(value.type.element_type)
