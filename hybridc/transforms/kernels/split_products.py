"""Outline the contraction of a kernel: it becomes a kernel of its own, whose result the rest reads.

A library or a micro-kernel computes the one; loops compute the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.integer_array import integer_array
from hybridc.ir.kernel import Kernel, Stage, analyse, number_of
from hybridc.ir.product_shape import body_key
from hybridc.ir.structured import dtype_of, is_host, is_scaffold, kernels, note_dtypes
from hybridc.ir.values import functions, new_name


@dataclass(frozen=True)
class SplitProducts(ModulePass):
    """See the module's docstring."""

    name = "split-products"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        splitter = _Splitter(op)
        split = {name: splitter.split(kernel) for name, kernel in splitter.kernels.items() if _must_split(kernel)}
        for function in functions(op):
            if function.sym_visibility is None:
                for call in [c for c in function.body.block.ops if isinstance(c, func.CallOp)]:
                    if (made := split.get(call.callee.string_value())) is not None:
                        made.call(call)


def _must_split(kernel: Kernel) -> bool:
    return not kernel.grid and len(kernel.stages) > 1 and any(nest.product is not None for nest in kernel.nests)


@dataclass(frozen=True)
class _SplitKernel:
    """A kernel split in two: the contraction, and the rest; with the arguments of each.

    ``own`` is the index of the kernel's result that is the contraction itself, if there is one.
    """

    product: func.FuncOp
    reads: tuple[int, ...]
    rest: func.FuncOp
    left: tuple[int, ...]
    own: int | None

    def call(self, old: func.CallOp) -> None:
        """Replace a call of the kernel by calls of both."""
        first = func.CallOp(
            self.product.sym_name.data, [old.arguments[i] for i in self.reads], self.product.function_type.outputs.data
        )
        given = [first.results[0], *(old.arguments[i] for i in self.left)]
        second = func.CallOp(self.rest.sym_name.data, given, self.rest.function_type.outputs.data)
        first.location = second.location = old.location
        Rewriter.insert_op([first, second], InsertPoint.before(old))
        made = list(second.results)
        if self.own is not None:
            made.insert(self.own, first.results[0])
        for before, after in zip(old.results, made, strict=True):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        Rewriter.erase_op(old)


class _Splitter:
    """Splits kernels; equal contractions are shared."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.taken = {f.sym_name.data for f in functions(module)}
        self.kernels = {name: analyse(f) for name, f in kernels(module).items() if not is_host(f)}
        self.products: dict[Any, func.FuncOp] = {}
        for kernel in self.kernels.values():
            if len(kernel.stages) == 1 and kernel.nests[0].product is not None:
                self.products.setdefault(_key(kernel.stages[0]), kernel.function)

    def split(self, kernel: Kernel) -> _SplitKernel:
        """Outline the contraction of a kernel, which becomes the rest."""
        (nest,) = kernel.nests
        stage = nest.product
        assert stage is not None, "only kernels with a product are split"
        arguments, results = kernel.arguments, kernel.results
        reads = list(dict.fromkeys(r.value for r in stage.reads))
        rest = [other for other in nest.stages if other is not stage]
        used = {v for other in rest for v in (*other.op.operands, *other.anywhere)}
        left = tuple(i for i, v in enumerate(arguments) if v in used)
        own = results.index(stage.result) if stage.result in results else None
        operator = kernel.operators[nest.stages.index(stage)]
        product = self._product(stage, reads, nest.domain, operator)
        self._make_rest(kernel, stage, operator, left, own)
        return _SplitKernel(product, tuple(arguments.index(v) for v in reads), kernel.function, left, own)

    def _product(self, stage: Stage, reads: Sequence[SSAValue], domain: Sequence[int], operator: str) -> func.FuncOp:
        """A kernel of the contraction alone."""
        key = _key(stage)
        if key in self.products:
            return self.products[key]
        block = Block(arg_types=[v.type for v in reads])
        values: dict[SSAValue, SSAValue] = dict(zip(reads, block.args, strict=True))
        copy = _copy(stage.op, values, block)
        block.add_op(func.ReturnOp(*copy.results))
        kind = FunctionType.from_lists([v.type for v in reads], [stage.result.type])
        made = func.FuncOp(
            new_name(f"k_{operator.rpartition('.')[2]}", self.taken), kind, Region(block), visibility="private"
        )
        made.attributes["hybrid.domains"] = ArrayAttr([integer_array(domain)])
        note_dtypes(made, [dtype_of(v) for v in (*reads, stage.result)])
        made.location = stage.op.location
        self.module.body.block.add_op(made)
        self.products[key] = made
        return made

    def _make_rest(self, kernel: Kernel, stage: Stage, operator: str, left: Sequence[int], own: int | None) -> None:
        """Turn a kernel into the rest: the contraction is its first argument, and ``own`` no more a result."""
        function, block = kernel.function, kernel.function.body.block
        arguments, results = kernel.arguments, [v for i, v in enumerate(kernel.results) if i != own]
        dtypes = [dtype_of(v) for v in (stage.result, *(arguments[i] for i in left), *results)]
        end = block.last_op
        assert end is not None
        end.operands = results
        stage.result.replace_all_uses_with(block.insert_arg(stage.result.type, 0))
        Rewriter.erase_op(stage.op)
        for op in reversed(list(block.ops)):
            if is_scaffold(op) and not op.results[0].uses:
                Rewriter.erase_op(op)
        for argument in [v for v in block.args[1:] if arguments.index(v) not in left]:
            block.erase_arg(argument)
        function.function_type = FunctionType.from_lists([v.type for v in block.args], [v.type for v in results])
        function.attributes.pop("hybrid.dtypes", None)
        note_dtypes(function, dtypes)
        short = operator.rpartition(".")[2]
        function.sym_name = StringAttr(new_name(kernel.name.replace(f"_{short}", "", 1), self.taken))


def _copy(op: Operation, values: dict[SSAValue, SSAValue], block: Block) -> Operation:
    """A copy of the operation, and of its initial value, at the end of a block."""
    for value in op.operands:
        if value not in values:
            assert isinstance(value.owner, Operation)
            values[value] = _copy(value.owner, values, block).results[0]
    copy = op.clone(values)
    copy.attributes.pop("hybrid.nest", None)
    block.add_op(copy)
    return copy


def _key(stage: Stage) -> Any:
    """What equal contractions share: types, loops, body and initial value."""
    op = stage.op
    first = [stage.reads[0].value is stage.reads[1].value]
    types = tuple(v.type for v in op.operands)
    said = tuple(sorted((name, a) for name, a in op.attributes.items() if name != "hybrid.nest"))
    given = tuple((name, op.properties[name]) for name in sorted(op.properties))
    dtypes = tuple(dtype_of(r.value) for r in stage.reads)
    return (op.name, *first, types, said, given, dtypes, body_key(op.regions[0].block), number_of(op.operands[-1]))
