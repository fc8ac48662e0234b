"""Prepack the right operand of matmuls in panels: once, for all matmuls that share it.

A panel is as many columns as a register tile has, row after row. Matmuls then read it directly, and threads may
share the rows of the left matrix (:mod:`hybridc.transforms.schedules.schedule_register_tiles`); a weight that is used
in every time step is packed once. The panels are a kernel's result like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.ground.records import dataclass
from hybridc.ir.concatenated import part_of
from hybridc.ir.costs import HIDE_PACKING
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.kernels.body_builder import BodyBuilder, copying_body
from hybridc.ir.kernels.kernel import Kernel, KernelOp, KernelValue, Read, ScalarBody, affine_read, assembled
from hybridc.ir.kernels.kernel_module import KernelModule, insert_before
from hybridc.ir.structured import dtype_of, root, shape_of
from hybridc.ir.structured_builder import Builder, Tensor
from hybridc.transforms.code.choose_matmul import Panels, prepacked_of
from hybridc.transforms.memory.hoist_preparation import prepared_values
from hybridc.transforms.schedules.loop_machine import Registers

# The most elements of a matrix that there is memory for twice: 16 MiB in single precision; and 64 MiB of one whose
# columns are contiguous and rows are far apart, of which each panel in place takes a page of memory for each term.
LARGEST, LARGEST_OF_ROWS = 2**22, 2**24


@dataclass(frozen=True)
class PrepackOperands(ModulePass):
    """See the module's docstring; contractions are kernels of their own already.

    ``registers`` hold vectors of so many ``bytes``; without any it does nothing.
    """

    name = "prepack-operands"
    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

    bytes: int = 32
    registers: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.registers:
            return
        packer = _Packer(KernelModule(op), Registers(self.bytes, self.registers))
        for function in packer.module.callers:
            packer.pack(function)
        packer.drop_unused()


@dataclass(frozen=True)
class _PrepackedMatmul:
    """A kernel that is a matmul whose right operand can be prepacked."""

    kernel: Kernel
    panels: Panels

    @property
    def operator(self) -> str:
        """The user's name of it."""
        return self.kernel.operators[0]


class _Packer:
    """Replaces calls of matmuls, and makes the kernels that they call then."""

    def __init__(self, module: KernelModule, vectors: Registers) -> None:
        self.module = module
        self.vectors = vectors
        self.contractions: dict[str, _PrepackedMatmul] = {}
        for kernel in module.kernels:
            panels = prepacked_of(kernel, vectors)
            if panels is not None:
                self.contractions[kernel.name] = _PrepackedMatmul(kernel, panels)
        self.products: dict[str, Kernel] = {}  # prepacked matmuls, by the matmuls that they replace
        # Packing kernels, by the first matmul that needs each. Two whose matrices happen to have equal shapes
        # have one each, so that the number of kernels is the same at every batch size.
        self.packers: dict[str, Kernel] = {}

    def pack(self, function: func.FuncOp) -> None:
        """Prepack the operands of a function's matmuls, where that pays."""
        prepared = prepared_values(function)
        users: dict[tuple[Any, ...], list[tuple[func.CallOp, _PrepackedMatmul]]] = {}
        for op, kernel in self.module.calls(function):
            contraction = self.contractions.get(kernel.name)
            if contraction is not None and part_of(op.results[0]) is None:
                panels = contraction.panels
                order = tuple(panels.read.axes.index(a) for a in panels.terms)
                key = (op.arguments[panels.argument], panels.column, order, panels.shape)
                users.setdefault(key, []).append((op, contraction))
        for calls in users.values():
            first, contraction = calls[0]
            matrix = first.arguments[contraction.panels.argument]  # now, as its own producer may have been replaced
            free = root(matrix) in prepared
            if not free and not self._enough(calls):  # most have too few rows: the cheap test first
                continue
            fitting = [pair for pair in calls if self._fits(pair[1], free)]
            if (free and fitting) or (
                _pays(fitting, self.vectors) and (len(fitting) == len(calls) or self._enough(fitting))
            ):
                panels = self._panels(matrix, *fitting[0])
                for call, contraction in fitting:
                    is_prepared = call.results[0] in prepared
                    product = self._multiply(call, contraction, panels)
                    if is_prepared:
                        prepared.add(product)

    def drop_unused(self) -> None:
        """Remove matmuls without calls."""
        self.module.remove_uncalled([self.contractions[name].kernel for name in self.products])

    # --- calls ---------------------------------------------------------------------------------------------

    def _enough(self, calls: Sequence[tuple[func.CallOp, _PrepackedMatmul]]) -> bool:
        """Whether the matmuls with a matrix have enough rows together, or need panels."""
        return (
            any(contraction.panels.in_place for _, contraction in calls)
            or sum(contraction.panels.rows for _, contraction in calls) >= HIDE_PACKING
        )

    def _fits(self, contraction: _PrepackedMatmul, prepared: bool) -> bool:
        """Whether a matmul supports a prepacked operand, and this is not too large."""
        panels = contraction.panels
        most = LARGEST_OF_ROWS if prepared and panels.column == len(panels.read.value.shape) - 1 else LARGEST
        return panels.pay(prepared) and math.prod(panels.shape) <= most

    def _panels(self, matrix: SSAValue, call: func.CallOp, contraction: _PrepackedMatmul) -> SSAValue:
        """The panels of a matrix, packed before its first matmul."""
        panels, block = contraction.panels, Block()
        builder = _builder(block, call, contraction)
        tensor = builder.tensor(matrix, shape_of(matrix), dtype_of(matrix))
        parted = builder.reshape(tensor, panels.parted)
        packed = self.module.call(self._packer(contraction, parted), [parted.value], call.location)
        block.add_op(packed)
        insert_before(block, call)
        return packed.results[0]

    def _multiply(self, call: func.CallOp, contraction: _PrepackedMatmul, panels: SSAValue) -> SSAValue:
        """Call the prepacked matmul instead; the columns of its result are split by panels, and reshaped back."""
        name = call.callee.string_value()
        if name not in self.products:
            self.products[name] = self.module.add(_product(contraction, shape_of(panels)))
        block = Block()
        builder = _builder(block, call, contraction)
        arguments = list(call.arguments)
        arguments[contraction.panels.argument] = panels
        multiplied = self.module.call(self.products[name], arguments, call.location)
        block.add_op(multiplied)
        result = multiplied.results[0]
        product = builder.tensor(result, shape_of(result), dtype_of(call.results[0]))
        shape, layout = shape_of(call.results[0]), contraction.panels
        if layout.is_whole:
            whole = builder.reshape(product, shape)
        else:
            more = builder.reshape(product, (*shape[:-1], layout.shape[0] * layout.shape[-1]))
            whole = builder.slice(more, [0] * len(shape), [1] * len(shape), shape)
        insert_before(block, call)
        whole.value.name_hint = call.results[0].name_hint
        call.results[0].replace_all_uses_with(whole.value)
        erase_op(call)
        return result

    # --- kernels -------------------------------------------------------------------------------------------

    def _packer(self, contraction: _PrepackedMatmul, parted: Tensor) -> Kernel:
        """The kernel that packs a matrix whose columns are split by panels."""
        own = contraction.kernel.name
        if own not in self.packers:
            self.packers[own] = self.module.add(_packing_kernel(contraction, parted.shape))
        return self.packers[own]


def _packing_kernel(contraction: _PrepackedMatmul, parted: Shape) -> Kernel:
    """The kernel that packs a matrix of this shape, whose columns are split by panels."""
    panels, (kernel_op,) = contraction.panels, contraction.kernel.ops
    places, rank, dtype = panels.places, len(panels.shape), panels.read.value.dtype
    matrix, packed = KernelValue(0, dtype, parted), KernelValue(1, dtype, panels.shape)
    # The loops run in the order of the operand's memory, but the innermost is the panels': of rows of the
    # matrix those of one panel are far apart, and of columns neighbouring terms share a line of the cache.
    if panels.is_whole and panels.is_parted:
        places.insert(panels.column, 0)
    outer = [p for p in places if p != rank - 1]
    if panels.is_parted and not panels.is_whole:
        outer.insert(0, 0)
    order = [*outer, rank - 1]
    axes = tuple([order.index(i) for i in range(rank)])
    reads = (Read(matrix, tuple([axes[p] for p in places])),) if panels.is_whole else ()
    body = copying_body(dtype) if panels.is_whole else _filling_body(panels, dtype)
    tables = () if panels.is_whole else (matrix,)
    packs = KernelOp(
        "elementwise", body, reads, packed, axes, axes,
        tables=tables, operator=contraction.operator, location=kernel_op.location,
    )  # fmt: skip
    return assembled("k_panels", [(tuple([panels.shape[i] for i in order]), [packs])], [matrix], [packed])


def _filling_body(panels: Panels, dtype: DType) -> ScalarBody:
    """An element of the panels: of the operand, or zero beyond its last column."""
    b, places, width = BodyBuilder([dtype]), panels.places, panels.shape[-1]
    index = [b.index_of(loop) for loop in range(len(panels.shape))]
    column = index[0] * width + index[-1]
    at = [b.min(column, panels.columns - 1) if i == panels.column else index[p] for i, p in enumerate(places)]
    return b.body(b.select(column < panels.columns, b.gather(0, dtype, at), 0.0))


def _product(contraction: _PrepackedMatmul, panels: Shape) -> Kernel:
    """The prepacked matmul."""
    (kernel_op,), layout, result = contraction.kernel.ops, contraction.panels, contraction.kernel.results[0]
    count, *_, width = layout.shape
    *rows, columns = result.shape
    shape, rank = (*rows, count, width) if layout.is_parted else (*rows, columns), len(rows)
    terms = tuple(range(len(shape), len(shape) + len(layout.terms)))
    axis_of = {axis: i for i, axis in enumerate(kernel_op.axes[:-1] if layout.is_parted else kernel_op.axes)}
    axis_of |= dict(zip(layout.terms, terms, strict=True))
    packed = layout.read.value.of_shape(panels)
    reads: list[Read] = []
    for read in kernel_op.reads:
        if read is layout.read:
            reads.append(Read(packed, (rank, *terms, rank + 1) if layout.is_parted else (*terms, rank)))
        elif read.index:
            index = tuple([place.renamed(axis_of.__getitem__) for place in read.index])
            reads.append(affine_read(read.value, index))
        else:
            reads.append(Read(read.value, tuple([axis_of[a] for a in read.axes])))
    kept = tuple(range(len(shape)))
    multiplies = replace(
        kernel_op, reads=tuple(reads), result=result.of_shape(shape), loops=(*kept, *terms), axes=kept, reduced=terms
    )
    arguments = [packed if v == packed else v for v in contraction.kernel.arguments]
    name = f"{contraction.kernel.name}_of_panels"
    return assembled(name, [(shape, [multiplies])], arguments, [multiplies.result], of_panels=layout.is_parted)


def _pays(fitting: Sequence[tuple[func.CallOp, _PrepackedMatmul]], vectors: Registers) -> bool:
    """Whether prepacking pays for the matmuls with a matrix."""
    return len(fitting) > 1 or (len(fitting) == 1 and fitting[0][1].panels.pay_alone(vectors))


def _builder(block: Block, call: func.CallOp, contraction: _PrepackedMatmul) -> Builder:
    """A builder with the location and operator of a call."""
    builder = Builder(block)
    builder.location, builder.operator = call.location, contraction.operator
    return builder
