"""Products read eight bits themselves: the kernel that widens an operand for them goes.

A cast to a wider dtype loses nothing, so a product may make it in registers, of what is half as large in memory; and of
two operands of eight bits tensor cores multiply the bits as they are. What more than products read is widened once for
all. Attention, which is made before, reads what is widened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, func
from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr, TensorType, f32
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dtypes import FLOAT8
from hybridc.ir.kernel import Kernel, analyse
from hybridc.ir.product_shape import multiplied
from hybridc.ir.structured import (
    VIEWS,
    dtype_of,
    element_dtype,
    function_called,
    give_type,
    is_host,
    kernels,
    note_dtypes,
    shape_of,
)
from hybridc.ir.values import functions, new_name


@dataclass(frozen=True)
class FoldCasts(ModulePass):
    """See the module's docstring."""

    name = "fold-casts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        made = {name: analyse(f) for name, f in kernels(op).items() if not is_host(f)}
        casts = {name for name, kernel in made.items() if _widens(kernel)}
        if not casts:
            return
        folder = _Folder(op, {name: k for name, k in made.items() if _multiplies(k)}, casts)
        for function in functions(op):
            if function.sym_visibility is None:
                folder.fold(function)
        folder.clean()


def _widens(kernel: Kernel) -> bool:
    """Whether all that a kernel does is to make wider numbers of eight bits."""
    if len(kernel.stages) != 1 or kernel.stages[0].kind != "map" or len(kernel.arguments) != 1:
        return False
    (stage,) = kernel.stages
    if stage.anywhere or [r.axes for r in stage.reads] != [stage.axes]:
        return False
    steps, last = stage.steps, stage.op.regions[0].block.last_op
    given = dtype_of(kernel.arguments[0]) in FLOAT8 and element_dtype(stage.result.type) not in FLOAT8
    chain = all(isinstance(s, arith.ExtFOp | arith.TruncFOp) for s in steps)
    return given and chain and last is not None and last.operands[0] is steps[-1].results[0]


def _multiplies(kernel: Kernel) -> bool:
    """Whether a kernel is a product with maps behind it, which is summed in single precision."""
    if len(kernel.nests) != 1 or (stage := kernel.nests[0].product) is None:
        return False
    found = multiplied(stage)
    return found is not None and element_dtype(stage.op.operands[2].type) == element_dtype(f32)


class _Folder:
    """Lets calls of products take what casts are given; equal products are one."""

    def __init__(self, module: ModuleOp, products: Mapping[str, Kernel], casts: set[str]) -> None:
        self.module, self.products, self.casts = module, products, casts
        self.taken = {f.sym_name.data for f in functions(module)}
        self.made: dict[tuple[str, tuple[tuple[int, Attribute], ...]], func.FuncOp] = {}
        self.dropped: set[str] = set()

    def fold(self, function: func.FuncOp) -> None:
        """Fold the casts of a function whose results only products multiply."""
        calls = [op for op in function.body.block.ops if isinstance(op, func.CallOp)]
        casts = [c for c in calls if c.callee.string_value() in self.casts]
        folded = [c for c in casts if all(self._is_factor(op, i) for op, i in _users(c.results[0]))]
        for op in folded:
            self.dropped.add(op.callee.string_value())
            _give(op.results[0], op.arguments[0])
            Rewriter.erase_op(op)
        for call in [c for c in calls if folded and c.callee.string_value() in self.products]:
            self._call(call)

    def _is_factor(self, op: Operation, index: int) -> bool:
        """Whether an operation calls a product that multiplies this operand, and does no more with it."""
        if not isinstance(op, func.CallOp):
            return False
        kernel = self.products.get(op.callee.string_value())
        if kernel is None:
            return False
        argument = kernel.arguments[index]
        (stage,) = [s for s in kernel.stages if s.kind == "product"]
        return all(use.operation is stage.op for use in argument.uses) and argument is not stage.op.operands[2]

    def _call(self, call: func.CallOp) -> None:
        """Let a call name the product that takes what it is given."""
        name, callee = call.callee.string_value(), function_called(call)
        kinds = zip(call.arguments, callee.function_type.inputs.data, strict=True)
        found = tuple((i, given.type) for i, (given, wanted) in enumerate(kinds) if given.type != wanted)
        if not found:
            return
        self.dropped.add(name)
        key = (name, found)
        if key not in self.made:
            self.made[key] = self._product(callee, dict(found))
        call.callee = type(call.callee)(self.made[key].sym_name.data)

    def _product(self, function: func.FuncOp, kinds: Mapping[int, Attribute]) -> func.FuncOp:
        """The kernel of a product with arguments of other types."""
        made = function.clone()
        made.sym_name = StringAttr(new_name(f"{function.sym_name.data}_float8", self.taken))
        block = made.body.block
        for op in [op for op in block.ops if isinstance(op, linalg.MatmulOp)]:
            _as_generic(op)
        dtypes = [dtype_of(v) for v in (*block.args, *_returned(block))]
        for i, kind in kinds.items():
            give_type(block.args[i], kind)
            dtypes[i] = dtype_of(block.args[i])
            for use in list(block.args[i].uses):
                _widen(use.operation.regions[0].block, use.index, _element(block.args[i]))
        made.function_type = FunctionType.from_lists([a.type for a in block.args], function.function_type.outputs.data)
        made.attributes.pop("hybrid.dtypes", None)
        note_dtypes(made, dtypes)
        self.module.body.block.add_op(made)
        return made

    def clean(self) -> None:
        """Remove the kernels that nothing calls any more."""
        ops = [op for f in functions(self.module) if not is_host(f) for op in f.body.block.ops]
        called = {op.callee.string_value() for op in ops if isinstance(op, func.CallOp)}
        for name, function in kernels(self.module).items():
            if name in self.dropped - called:
                Rewriter.erase_op(function)


def _give(value: SSAValue, eight: SSAValue) -> None:
    """Let the views and calls that use a value use another one, of eight bits."""
    for use in list(value.uses):
        op = use.operation
        if isinstance(op, func.CallOp):
            op.operands[use.index] = eight
            continue
        view = op.clone({value: eight})
        give_type(view.results[0], _with_element(view.results[0], eight))
        view.location = op.location
        Rewriter.insert_op(view, InsertPoint.before(op))
        _give(op.results[0], view.results[0])
        Rewriter.erase_op(op)


def _users(value: SSAValue) -> list[tuple[Operation, int]]:
    """Who uses a value or a view of it, and as which operand."""
    found: list[tuple[Operation, int]] = []
    for use in value.uses:
        if isinstance(use.operation, VIEWS):
            found += _users(use.operation.results[0])
        else:
            found.append((use.operation, use.index))
    return found


def _returned(block: Block) -> list[SSAValue]:
    end = block.last_op
    return list(end.operands) if end is not None else []


def _as_generic(op: linalg.MatmulOp) -> None:
    """Say of a matrix product what it does: named, it multiplies numbers of one type."""
    region, results = op.detach_region(op.regions[0]), [r.type for r in op.results]
    kinds = op.get_iterator_types()
    made = linalg.GenericOp(op.inputs, op.outputs, region, op.get_indexing_maps(), kinds, results)
    made.attributes.update(op.attributes)
    made.location = op.location
    Rewriter.replace_op(op, made)


def _element(value: SSAValue) -> Attribute:
    return cast("TensorType[Attribute]", value.type).get_element_type()


def _with_element(value: SSAValue, like: SSAValue) -> Attribute:
    """The type of a tensor with the elements of another's."""
    return TensorType(_element(like), shape_of(value))


def _widen(body: Block, index: int, kind: Attribute) -> None:
    """Let the body of a product read an element of eight bits, and make single precision of it first."""
    argument = body.args[index]
    uses = list(argument.uses)
    give_type(argument, kind)
    if any(isinstance(use.operation, arith.ExtFOp) for use in uses):
        return  # as it did with half precision
    made = arith.ExtFOp.create(operands=[argument], result_types=[f32])
    Rewriter.insert_op(made, InsertPoint.at_start(body))
    for use in uses:
        use.operation.operands[use.index] = made.result
