"""Outline the contraction of a kernel: it becomes a kernel of its own, whose result the rest reads.

A library or a micro-kernel computes the one; loops compute the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.ir.contraction_shape import body_key
from hybridc.ir.kernel import Kernel, KernelOp, analyse, number_of
from hybridc.ir.kernel_notes import DOMAINS, LOOP_NEST
from hybridc.ir.structured import dtype_of, is_host, is_scaffold, kernels, note_dtypes
from hybridc.ir.values import functions, new_name


@dataclass(frozen=True)
class SplitContractions(ModulePass):
    """See the module's docstring."""

    name = "split-contractions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        splitter = _Splitter(op)
        split = {name: splitter.split(kernel) for name, kernel in splitter.kernels.items() if _must_split(kernel)}
        for function in functions(op):
            if function.sym_visibility is None:
                for call in [c for c in function.body.block.ops if isinstance(c, func.CallOp)]:
                    if (parts := split.get(call.callee.string_value())) is not None:
                        parts.call(call)


def _must_split(kernel: Kernel) -> bool:
    return not kernel.grid and len(kernel.ops) > 1 and any(nest.contraction is not None for nest in kernel.nests)


@dataclass(frozen=True)
class _SplitKernel:
    """A kernel split in two: the contraction, and the rest; with the arguments of each.

    ``own`` is the index of the kernel's result that is the contraction itself, if there is one.
    """

    contraction: func.FuncOp
    reads: tuple[int, ...]
    rest: func.FuncOp
    left: tuple[int, ...]
    own: int | None

    def call(self, old: func.CallOp) -> None:
        """Replace a call of the kernel by calls of both."""
        first = func.CallOp(
            self.contraction.sym_name.data,
            [old.arguments[i] for i in self.reads],
            self.contraction.function_type.outputs.data,
        )
        arguments = [first.results[0], *(old.arguments[i] for i in self.left)]
        second = func.CallOp(self.rest.sym_name.data, arguments, self.rest.function_type.outputs.data)
        first.location = second.location = old.location
        Rewriter.insert_op([first, second], InsertPoint.before(old))
        results = list(second.results)
        if self.own is not None:
            results.insert(self.own, first.results[0])
        for before, after in zip(old.results, results, strict=True):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        Rewriter.erase_op(old)


class _Splitter:
    """Splits kernels; equal contractions are shared."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.symbols = {f.sym_name.data for f in functions(module)}
        self.kernels = {name: analyse(f) for name, f in kernels(module).items() if not is_host(f)}
        self.contractions: dict[Any, func.FuncOp] = {}
        for kernel in self.kernels.values():
            if len(kernel.ops) == 1 and kernel.nests[0].contraction is not None:
                self.contractions.setdefault(_key(kernel.ops[0]), kernel.function)

    def split(self, kernel: Kernel) -> _SplitKernel:
        """Outline the contraction of a kernel, which becomes the rest."""
        (nest,) = kernel.nests
        kernel_op = nest.contraction
        assert kernel_op is not None, "only kernels with a contraction are split"
        arguments, results = kernel.arguments, kernel.results
        reads = list(dict.fromkeys(r.value for r in kernel_op.reads))
        rest = [other for other in nest.ops if other is not kernel_op]
        used = {v for other in rest for v in (*other.op.operands, *other.indirect)}
        left = tuple(i for i, v in enumerate(arguments) if v in used)
        own = results.index(kernel_op.result) if kernel_op.result in results else None
        operator = kernel.operators[nest.ops.index(kernel_op)]
        contraction = self._product(kernel_op, reads, nest.domain, operator)
        self._make_rest(kernel, kernel_op, operator, left, own)
        return _SplitKernel(contraction, tuple(arguments.index(v) for v in reads), kernel.function, left, own)

    def _product(
        self, kernel_op: KernelOp, reads: Sequence[SSAValue], domain: Sequence[int], operator: str
    ) -> func.FuncOp:
        """A kernel of the contraction alone."""
        key = _key(kernel_op)
        if key in self.contractions:
            return self.contractions[key]
        block = Block(arg_types=[v.type for v in reads])
        values: dict[SSAValue, SSAValue] = dict(zip(reads, block.args, strict=True))
        copy = _copy(kernel_op.op, values, block)
        block.add_op(func.ReturnOp(*copy.results))
        kind = FunctionType.from_lists([v.type for v in reads], [kernel_op.result.type])
        function = func.FuncOp(
            new_name(f"k_{operator.rpartition('.')[2]}", self.symbols), kind, Region(block), visibility="private"
        )
        DOMAINS.put(function, [domain])
        note_dtypes(function, [dtype_of(v) for v in (*reads, kernel_op.result)])
        function.location = kernel_op.op.location
        self.module.body.block.add_op(function)
        self.contractions[key] = function
        return function

    def _make_rest(
        self, kernel: Kernel, kernel_op: KernelOp, operator: str, left: Sequence[int], own: int | None
    ) -> None:
        """Turn a kernel into the rest: the contraction is its first argument, and ``own`` no more a result."""
        function, block = kernel.function, kernel.function.body.block
        arguments, results = kernel.arguments, [v for i, v in enumerate(kernel.results) if i != own]
        dtypes = [dtype_of(v) for v in (kernel_op.result, *(arguments[i] for i in left), *results)]
        end = block.last_op
        assert end is not None
        end.operands = results
        kernel_op.result.replace_all_uses_with(block.insert_arg(kernel_op.result.type, 0))
        Rewriter.erase_op(kernel_op.op)
        for op in reversed(list(block.ops)):
            if is_scaffold(op) and not op.results[0].uses:
                Rewriter.erase_op(op)
        for argument in [v for v in block.args[1:] if arguments.index(v) not in left]:
            block.erase_arg(argument)
        function.function_type = FunctionType.from_lists([v.type for v in block.args], [v.type for v in results])
        function.attributes.pop("hybrid.dtypes", None)
        note_dtypes(function, dtypes)
        short = operator.rpartition(".")[2]
        function.sym_name = StringAttr(new_name(kernel.name.replace(f"_{short}", "", 1), self.symbols))


def _copy(op: Operation, values: dict[SSAValue, SSAValue], block: Block) -> Operation:
    """A copy of the operation, and of its initial value, at the end of a block."""
    for value in op.operands:
        if value not in values:
            assert isinstance(value.owner, Operation)
            values[value] = _copy(value.owner, values, block).results[0]
    copy = op.clone(values)
    LOOP_NEST.drop(copy)
    block.add_op(copy)
    return copy


def _key(kernel_op: KernelOp) -> Any:
    """The key of a contraction, which equal ones share: types, loops, body and initial value."""
    op = kernel_op.op
    first = [kernel_op.reads[0].value is kernel_op.reads[1].value]
    types = tuple(v.type for v in op.operands)
    said = tuple(sorted((name, a) for name, a in op.attributes.items() if name != LOOP_NEST.name))
    properties = tuple((name, op.properties[name]) for name in sorted(op.properties))
    dtypes = tuple(dtype_of(r.value) for r in kernel_op.reads)
    return (op.name, *first, types, said, properties, dtypes, body_key(op.regions[0].block), number_of(op.operands[-1]))
