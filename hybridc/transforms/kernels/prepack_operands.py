"""Prepack the right operand of matmuls in panels: once, for all matmuls that share it.

A panel is as many columns as a register tile has, row after row. Matmuls then read it directly, and threads may
share the rows of the left matrix (:mod:`hybridc.transforms.schedules.schedule_register_tiles`); a weight that is used
in every time step is packed once. The panels are a kernel's result like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, SymbolRefAttr
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.sizes import Place
from hybridc.ir.concatenated import part_of
from hybridc.ir.costs import HIDE_PACKING
from hybridc.ir.kernel import Kernel, analyse, number_of
from hybridc.ir.kernel_notes import AXES, DOMAINS, PANELS
from hybridc.ir.structured import dtype_of, is_host, kernels, note_dtypes, root, shape_of
from hybridc.ir.structured_builder import (
    Builder,
    Element,
    ScalarBuilder,
    Tensor,
    first,
    iterators,
    maps,
    segments,
    structured_type,
)
from hybridc.ir.values import functions, new_name
from hybridc.transforms.code.choose_matmul import Panels, prepacked_of
from hybridc.transforms.memory.hoist_preparation import prepared_values
from hybridc.transforms.schedules.loop_machine import Registers

# The most elements of a matrix that there is memory for twice: 16 MiB in single precision.
LARGEST = 2**22


@dataclass(frozen=True)
class PrepackOperands(ModulePass):
    """See the module's docstring; contractions are kernels of their own already.

    ``registers`` hold vectors of so many ``bytes``; without any it does nothing.
    """

    name = "prepack-operands"

    bytes: int = 32
    registers: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.registers:
            return
        packer = _Packer(op, Registers(self.bytes, self.registers))
        for function in functions(op):
            if function.sym_visibility is None:
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

    def __init__(self, module: ModuleOp, vectors: Registers) -> None:
        self.module = module
        self.vectors = vectors
        self.symbols = {f.sym_name.data for f in functions(module)}
        self.contractions: dict[str, _PrepackedMatmul] = {}
        for name, function in kernels(module).items():
            kernel = None if is_host(function) else analyse(function)
            panels = None if kernel is None else prepacked_of(kernel, vectors)
            if kernel is not None and panels is not None:
                self.contractions[name] = _PrepackedMatmul(kernel, panels)
        self.products: dict[str, func.FuncOp] = {}  # prepacked matmuls, by the matmuls that they replace
        # Packing kernels, by the first matmul that needs each. Two whose matrices happen to have equal shapes
        # have one each, so that the number of kernels is the same at every batch size.
        self.packers: dict[func.FuncOp, func.FuncOp] = {}

    def pack(self, function: func.FuncOp) -> None:
        """Prepack the operands of a function's matmuls, where that pays."""
        prepared = prepared_values(function)
        users: dict[tuple[Any, ...], list[tuple[func.CallOp, _PrepackedMatmul]]] = {}
        for op in function.body.block.ops:
            contraction = self.contractions.get(op.callee.string_value()) if isinstance(op, func.CallOp) else None
            if isinstance(op, func.CallOp) and contraction is not None and part_of(op.results[0]) is None:
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
        ops = [op for f in functions(self.module) if f.body.blocks for op in f.body.block.ops]
        called = {op.callee.string_value() for op in ops if isinstance(op, func.CallOp)}
        for name in self.products.keys() - called:
            Rewriter.erase_op(self.contractions[name].kernel.function)

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
        return panels.pay(prepared) and math.prod(panels.shape) <= LARGEST

    def _panels(self, matrix: SSAValue, call: func.CallOp, contraction: _PrepackedMatmul) -> SSAValue:
        """The panels of a matrix, packed before its first matmul."""
        panels, block = contraction.panels, Block()
        builder = _builder(block, call, contraction)
        tensor = builder.tensor(matrix, shape_of(matrix), dtype_of(matrix))
        parted = builder.reshape(tensor, panels.parted)
        packer = self._packer(contraction, parted)
        packed = builder.add(
            func.CallOp, [parted.value], packer.function_type.outputs.data, {"callee": _symbol(packer)}
        )
        insert_before(block, call)
        return packed.results[0]

    def _multiply(self, call: func.CallOp, contraction: _PrepackedMatmul, panels: SSAValue) -> SSAValue:
        """Call the prepacked matmul instead; the columns of its result are split by panels, and reshaped back."""
        name = call.callee.string_value()
        if name not in self.products:
            self.products[name] = self._product(contraction, panels)
        function, block = self.products[name], Block()
        builder = _builder(block, call, contraction)
        arguments = list(call.arguments)
        arguments[contraction.panels.argument] = panels
        result = builder.add(
            func.CallOp, arguments, function.function_type.outputs.data, {"callee": _symbol(function)}
        ).results[0]
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
        Rewriter.erase_op(call)
        return result

    # --- kernels -------------------------------------------------------------------------------------------

    def _packer(self, contraction: _PrepackedMatmul, parted: Tensor) -> func.FuncOp:
        """The kernel that packs a matrix whose columns are split by panels."""
        own = contraction.kernel.function
        if own not in self.packers:
            block = Block(arg_types=[parted.value.type])
            builder = Builder(block)
            builder.location, builder.operator = contraction.kernel.function.location, contraction.operator
            panels, places, out = contraction.panels, contraction.panels.places, contraction.panels.shape
            rank, empty = len(out), Tensor(out, parted.dtype, builder)
            if panels.is_whole:
                if panels.is_parted:
                    places.insert(panels.column, 0)
                packed = builder.generic([(block.args[0], tuple(places), parted.dtype)], empty, first)
            else:
                operand = builder.tensor(block.args[0], parted.shape, parted.dtype)
                packed = _filled_up(builder, operand, panels)
            # The loops run in the order of the operand's memory, but the innermost is the panels': of rows of the
            # matrix those of one panel are far apart, and of columns neighbouring terms share a line of the cache.
            outer = [p for p in places if p != rank - 1]
            if panels.is_parted and not panels.is_whole:
                outer.insert(0, 0)
            order = [*outer, rank - 1]
            axes = [order.index(i) for i in range(rank)]
            self.packers[own] = self._kernel("k_panels", block, packed.value, tuple(out[i] for i in order), axes)
        return self.packers[own]

    def _product(self, contraction: _PrepackedMatmul, panels: SSAValue) -> func.FuncOp:
        """The prepacked matmul."""
        (kernel_op,), argument = contraction.kernel.ops, contraction.panels.argument
        types = [v.type for v in contraction.kernel.arguments]
        types[argument] = panels.type
        block = Block(arg_types=types)
        builder = Builder(block)
        builder.location, builder.operator = contraction.kernel.function.location, contraction.operator
        *rows, columns = shape_of(kernel_op.result)
        count, *_, width = contraction.panels.shape
        parted = contraction.panels.is_parted
        shape, rank = (*rows, count, width) if parted else (*rows, columns), len(rows)
        terms = tuple(range(len(shape), len(shape) + len(contraction.panels.terms)))
        loops = {axis: i for i, axis in enumerate(kernel_op.axes if not parted else kernel_op.axes[:-1])}
        loops |= dict(zip(contraction.panels.terms, terms, strict=True))
        (left,) = (r for r in kernel_op.reads if r is not contraction.panels.read)
        walked: tuple[Place, ...] = tuple(loops[a] for a in left.axes)
        if left.index:
            walked = tuple(place.renamed(loops.__getitem__) for place in left.index)
        places = [walked]
        places.insert(argument, (rank, *terms, rank + 1) if parted else (*terms, rank))
        dtype = dtype_of(kernel_op.result)
        start = builder.start(shape, dtype, number_of(kernel_op.op.operands[-1]))
        properties: dict[str, Attribute] = {
            "indexing_maps": maps(len(shape) + len(terms), (*places, tuple(range(len(shape))))),
            "iterator_types": iterators(len(shape) + len(terms), terms),
            "operandSegmentSizes": segments(2, 1),
        }
        op = builder.add(
            linalg.GenericOp,
            [*block.args, start],
            [structured_type(shape, dtype)],
            properties,
            [kernel_op.op.regions[0].clone()],
        )
        op.attributes["hybrid.operator"] = kernel_op.op.attributes["hybrid.operator"]
        axes = (*range(len(shape)), *[-1] * len(terms))
        function = self._kernel(f"{contraction.kernel.name}_of_panels", block, op.results[0], shape, axes)
        if parted:
            PANELS.put(function, True)
        return function

    def _kernel(self, wanted: str, block: Block, result: SSAValue, domain: Shape, axes: Sequence[int]) -> func.FuncOp:
        """A function of one operation, at the end of the module."""
        assert isinstance(result.owner, Operation)
        AXES.put(result.owner, axes)
        block.add_op(func.ReturnOp(result))
        kind = FunctionType.from_lists([a.type for a in block.args], [result.type])
        function = func.FuncOp(new_name(wanted, self.symbols), kind, Region(block), visibility="private")
        DOMAINS.put(function, [domain])
        note_dtypes(function, [dtype_of(v) for v in (*block.args, result)])
        function.location = result.owner.location
        self.module.body.block.add_op(function)
        return function


def _pays(fitting: Sequence[tuple[func.CallOp, _PrepackedMatmul]], vectors: Registers) -> bool:
    """Whether prepacking pays for the matmuls with a matrix."""
    return len(fitting) > 1 or (len(fitting) == 1 and fitting[0][1].panels.pay_alone(vectors))


def _filled_up(builder: Builder, operand: Tensor, panels: Panels) -> Tensor:
    """The panels of an operand, with zeros beyond its last column."""
    places, width = panels.places, panels.shape[-1]

    def element(b: ScalarBuilder, *index: Element) -> Element:
        column = index[0] * width + index[-1]
        at = [b.min(column, panels.columns - 1) if i == panels.column else index[p] for i, p in enumerate(places)]
        return b.select(column < panels.columns, b.load(operand, *at), 0.0)

    return builder.generate(panels.shape, operand.dtype, element)


def _builder(block: Block, call: func.CallOp, contraction: _PrepackedMatmul) -> Builder:
    """A builder with the location and operator of a call."""
    builder = Builder(block)
    builder.location, builder.operator = call.location, contraction.operator
    return builder


def _symbol(function: func.FuncOp) -> SymbolRefAttr:
    return SymbolRefAttr(function.sym_name.data)


def insert_before(block: Block, before: Operation) -> None:
    """Insert the operations of a block before another operation."""
    ops = list(block.ops)
    for op in ops:
        op.detach()
    Rewriter.insert_op(ops, InsertPoint.before(before))
