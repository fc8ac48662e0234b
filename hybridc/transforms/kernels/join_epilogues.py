"""Join contractions with the elementwise work on their results, which is done where these are made.

A contraction and the only kernel that reads its result become one: of a matmul of prepacked panels and of a contraction
group by group the sums are in registers still, of a kernel over a grid the results of a tile are in a cache. Where axes
of the one are split, by panels, groups or tiles, those of the other are split, too. What follows may read more arrays
(a bias, scales, a residual), and have several results.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.operator_attribute import Shape
from hybridc.dialects.scalar.table import OPERATIONS
from hybridc.dtypes import STORED
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import is_same
from hybridc.ir.concatenated import RESHAPES
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.kernels.kernel import Axes, Kernel, KernelOp, assembled
from hybridc.ir.kernels.kernel_module import KernelModule, insert_before
from hybridc.ir.structured import VIEWS, dtype_of, shape_of
from hybridc.ir.structured_builder import Builder
from hybridc.transforms.code.choose_matmul import is_contraction_kernel, takes_epilogue
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.schedule_lanes import keeps_sums_in_registers


@dataclass(frozen=True)
class JoinEpilogues(ModulePass):
    """See the module's docstring; operands are prepacked already.

    ``registers`` hold vectors of so many ``bytes``; without any, only tiles of a grid take epilogues.
    """

    name = "join-epilogues"
    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

    bytes: int = 32
    registers: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        joiner = _Joiner(KernelModule(op), Registers(self.bytes, self.registers) if self.registers else None)
        for function in joiner.module.callers:
            for call, kernel in joiner.module.calls(function):
                joiner.join(call, kernel)
        joiner.drop_unused()


class _Joiner:
    """Replaces pairs of calls; pairs of the same kernels share what they call then."""

    def __init__(self, module: KernelModule, vectors: Registers | None) -> None:
        self.module = module
        self.vectors = vectors
        self.kernels = {k.name: k for k in module.kernels}
        self.takes: dict[str, bool] = {}  # what is known of kernels: asked, as a choice by sizes, where it matters
        self.joined: dict[tuple[str, str, int], Kernel] = {}
        self.replaced: list[Kernel] = []

    def join(self, rest: func.CallOp, kernel: Kernel) -> None:
        """Join a call with the last contraction whose result only this call reads."""
        if len(kernel.nests) != 1 or kernel.grid or kernel.fills or kernel.nests[0].contraction is not None:
            return
        contractions = [(call, i) for i, v in enumerate(rest.arguments) if (call := self._contraction(v)) is not None]
        contractions = [pair for pair in contractions if self._follows(kernel, pair[1], pair[0])]
        if contractions and not any(_skips(v) for v in rest.arguments):
            block = rest.parent
            assert block is not None
            self._replace(*max(contractions, key=lambda pair: block.get_operation_index(pair[0])), rest, kernel)

    def drop_unused(self) -> None:
        """Remove kernels without calls."""
        self.module.remove_uncalled(self.replaced)

    def _contraction(self, value: SSAValue) -> func.CallOp | None:
        """The call of a contraction whose result a value is, perhaps reshaped, if nothing else reads it."""
        while isinstance(value.owner, RESHAPES) and value.has_one_use():
            value = value.owner.operands[0]
        call = value.owner
        if not isinstance(call, func.CallOp) or not value.has_one_use():
            return None
        return call if self._takes_epilogue(call.callee.string_value()) else None

    def _takes_epilogue(self, name: str) -> bool:
        """Whether a function is a kernel that takes an epilogue."""
        if name not in self.takes:
            self.takes[name] = name in self.kernels and _takes_epilogue(self.kernels[name], self.vectors)
        return self.takes[name]

    def _follows(self, kernel: Kernel, argument: int, call: func.CallOp) -> bool:
        """Whether all that a kernel of one loop nest does is elementwise work on an argument's elements, in place."""
        (nest,) = kernel.nests
        whole = tuple(range(len(nest.domain)))
        op_of = {op.result: op for op in nest.ops}
        if _parts(nest.domain, shape_of(call.results[0])) is None or len({*kernel.results}) < len(kernel.results):
            return False
        in_registers = not self.kernels[call.callee.string_value()].grid
        if any(op.kind != "elementwise" or op.indirect or (in_registers and _is_of_scalars(op)) for op in nest.ops):
            return False
        axes = {kernel.arguments[argument]: whole, **{v: op.axes for v, op in op_of.items()}}
        for read in (read for op in nest.ops for read in op.reads):
            if read.index or (read.value not in op_of and read.value not in kernel.arguments):
                return False
            if read.axes != axes.setdefault(read.value, tuple(sorted({*read.axes}))):
                return False
        return all(v in op_of and op_of[v].axes == whole for v in kernel.results)

    def _replace(self, matmul: func.CallOp, argument: int, rest: func.CallOp, kernel: Kernel) -> None:
        contraction = self.kernels[matmul.callee.string_value()]
        key = (contraction.name, kernel.name, argument)
        if key not in self.joined:
            self.joined[key] = self.module.add(_joined(contraction, kernel, argument))
            self.replaced += [contraction, kernel]
        joined, block = self.joined[key], Block()
        builder = Builder(block)
        builder.location, builder.operator = fused_location([matmul, rest]), kernel.operators[0]
        others = [v for i, v in enumerate(rest.arguments) if i != argument]
        wanted = [v.shape for v in joined.arguments[len(matmul.arguments) :]]
        split = [
            builder.reshape(builder.tensor(v, shape_of(v), dtype_of(v)), s) for v, s in zip(others, wanted, strict=True)
        ]
        arguments = [*matmul.arguments, *(v.value for v in split)]
        call = self.module.call(joined, arguments, builder.location)
        block.add_op(call)
        for old, new in zip(rest.results, call.results, strict=True):
            whole = builder.reshape(builder.tensor(new, shape_of(new), dtype_of(old)), shape_of(old))
            value = whole.value
            value.name_hint = old.name_hint
            old.replace_all_uses_with(value)
        insert_before(block, rest)
        between = rest.arguments[argument]
        erase_op(rest)
        while isinstance(between.owner, RESHAPES):
            view = between.owner
            between = view.operands[0]
            erase_op(view)
        erase_op(matmul)


def _joined(first: Kernel, rest: Kernel, argument: int) -> Kernel:
    """The kernel of a contraction and what follows it, whose axes are split as the contraction's are."""
    (nest,), contraction = rest.nests, first.ops[-1]
    sizes = contraction.result.shape
    parts = _parts(nest.domain, sizes)
    assert parts is not None, "what follows is about other elements"

    def split(axes: Axes) -> Axes:
        return tuple([contraction.axes[dim] for a in axes for dim in parts[a]])

    axes_of = {r.value: r.axes for op in nest.ops for r in op.reads} | {op.result: op.axes for op in nest.ops}
    size_of = dict(zip(contraction.axes, sizes, strict=True))
    after = 1 + max(v.position for v in first.values)
    of = {v: v.moved(after + v.position, tuple([size_of[a] for a in split(axes_of.get(v, ()))])) for v in rest.values}
    of[rest.arguments[argument]] = contraction.result
    ops = [
        replace(
            op.with_values(of, [replace(r, axes=split(r.axes)) for r in op.reads]),
            loops=split(op.loops),
            axes=split(op.axes),
        )
        for op in nest.ops
    ]
    others = [of[v] for i, v in enumerate(rest.arguments) if i != argument]
    name = f"{first.name.removesuffix('_of_panels')}_{rest.name.removeprefix('fused_')}"
    *before, last = [(n.domain, n.ops) for n in first.nests]
    nests = [*before, (last[0], (*last[1], *ops))]
    results = [of[v] for v in rest.results]
    return assembled(name, nests, [*first.arguments, *others], results, first.grid, first.of_panels)


def _takes_epilogue(kernel: Kernel, vectors: Registers | None) -> bool:
    """Whether what follows a kernel can be done where its result is made: in registers, or tile by tile of a grid."""
    if kernel.grid:
        last = kernel.nests[-1]
        return not kernel.attention and last.contraction is not None and kernel.results == [last.ops[-1].result]
    if not is_contraction_kernel(kernel) or len(kernel.ops) > 1 or len(kernel.arguments) != 2:
        return False
    if vectors is None:
        return False
    return kernel.of_panels or keeps_sums_in_registers(kernel, vectors) or takes_epilogue(kernel, vectors)


def _parts(domain: Shape, shape: Shape) -> list[tuple[int, ...]] | None:
    """For each axis of a domain the dimensions of a shape that it is split into; None if it is not."""
    parts: list[tuple[int, ...]] = []
    first = 0
    for size in domain:
        last = first + 1
        while last < len(shape) and not is_same(math.prod(shape[first:last]), size):
            last += 1
        if not is_same(math.prod(shape[first:last]), size):
            return None
        parts.append(tuple(range(first, last)))
        first = last
    return parts if first == len(shape) else None


def _is_of_scalars(op: KernelOp) -> bool:
    """Whether elements are computed by what there is for scalars alone: functions, and formats without instructions."""
    kinds = {v.dtype for v in (*(r.value for r in op.reads), op.result)}
    halves = any(s.op == "arith.truncf" and (s.operands[0].kind, s.kind) == ("f64", "f16") for s in op.steps)
    functions = any(s.op in OPERATIONS and OPERATIONS[s.op].formula for s in op.steps)
    return bool(kinds & {*STORED, np.dtype(bool)}) or halves or functions


def _skips(value: SSAValue) -> bool:
    """Whether a value is a view whose elements are not next to each other where the root's are."""
    while isinstance(op := value.owner, VIEWS):
        if not isinstance(op, RESHAPES) and (
            not isinstance(op, tensor.ExtractSliceOp) or any(s != 1 for s in integers_of(op.static_strides))
        ):
            return True
        value = op.operands[0]
    return False
