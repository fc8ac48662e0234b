"""Decide, for the numpy target, how each kernel is tiled, what scratch it needs, what it may do in place."""

from __future__ import annotations

from dataclasses import field
from typing import cast

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.graph_notes import DONATED, UPDATES
from hybridc.ground.records import dataclass
from hybridc.ir.concatenated import strided_arrays
from hybridc.ir.kernels.kernel_module import kernel_functions
from hybridc.ir.kernels.kernel_notes import INPLACE, SCRATCH, STRIDED, THREADS
from hybridc.ir.structured import root
from hybridc.ir.values import functions
from hybridc.transforms.code.array_code import ArrayCodes


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
    codes: ArrayCodes | None = field(default=None, compare=False)  # shared with the emitter

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        codes = ArrayCodes(self.threads) if self.codes is None else self.codes
        strided, updates = strided_arrays(op), updating_results(op)
        for name, kernel in kernel_functions(op).items():
            if name in updates:
                UPDATES.put(kernel, sorted(updates[name]))
            views = {i for call in strided.get(name, ()) for i in call}
            code = codes.of(kernel.kernel, sorted(views), sorted(updates.get(name, ())))
            SCRATCH.put(kernel, code.bytes)
            THREADS.put(kernel, code.threads)
            INPLACE.put(kernel, code.inplace_pairs())
            if views:
                STRIDED.put(kernel, sorted(views))


def updating_results(module: ModuleOp) -> dict[str, set[int]]:
    """For each function the results that, in some call, an argument of this call is donated for."""
    updating: dict[str, set[int]] = {}
    for function in functions(module):
        if function.sym_visibility is not None:
            continue
        block = function.body.block
        for argument, out in DONATED.of(function):
            result = root(cast(Operation, block.last_op).operands[out])
            call = result.owner
            if isinstance(call, func.CallOp) and block.args[argument] in map(root, call.arguments):
                updating.setdefault(call.callee.string_value(), set()).add(call.results.index(result))
    return updating
