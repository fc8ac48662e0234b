"""Every operation with loops in a kernel of its own: what fusion leaves if it joins nothing."""

from __future__ import annotations

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, DenseArrayBase, FunctionType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.ir import Block, Operation, Region
from xdsl.ir.affine import AffineMap
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.ir.kernels.kernel_module import recognise_kernels
from hybridc.ir.structured import (
    VIEWS,
    dtype_of,
    function_called,
    indirect_operands,
    is_host,
    loop_sizes,
    note_dtypes,
    places_of,
    shape_of,
)
from hybridc.transforms.structured.fuse_kernels import own_parts


def outline(module):
    """Replace each operation with loops by the call of a private function that holds it; returns the module."""
    taken = {f.sym_name.data for f in module.ops}
    for function in [f for f in module.ops if isinstance(f, func.FuncOp) and not is_host(f)]:
        own_parts(function)
        for op in list(function.body.block.ops):
            if isinstance(op, tensor.CollapseShapeOp) and _is_strided(op.operands[0]):
                copy = identity(op.operands[0])
                Rewriter.insert_op(copy, InsertPoint.before(op))
                op.operands[0] = copy[-1].results[0]
                _outline(module, copy[-1], taken)
        for op in list(function.body.block.ops):
            if _is_kernel(op):
                _outline(module, op, taken)
        _copy_returned(module, function, taken)
        for op in reversed(list(function.body.block.ops)):
            if op.results and not any(r.uses for r in op.results) and not isinstance(op, func.CallOp):
                op.detach()
                op.erase()
    recognise_kernels(module)
    return module


def _is_kernel(op):
    if isinstance(op, linalg.GenericOp | linalg.MatmulOp):
        return True
    return isinstance(op, linalg.FillOp) and any(not _is_init(use) for use in op.results[0].uses)


def _is_init(use):
    op = use.operation
    return isinstance(op, linalg.GenericOp | linalg.MatmulOp) and use.index >= len(op.inputs)


def _outline(module, op, taken):
    inputs = list(dict.fromkeys([*op.inputs, *indirect_operands(op)])) if not isinstance(op, linalg.FillOp) else []
    name = op.attributes.get("hybrid.operator")
    base = "fused_" + (name.data if name is not None else op.name.rpartition(".")[2]).replace(".", "_")
    kernel, block = _kernel(inputs, [op.results[0]], base, taken)
    known = dict(zip(inputs, block.args, strict=True))
    new = _clone(op, block, known)
    if not isinstance(op, linalg.FillOp):
        axes, domain = _axes(op)
        new.attributes["hybrid.axes"] = DenseArrayBase.from_list(i64, axes)
        kernel.attributes["hybrid.domains"] = ArrayAttr([DenseArrayBase.from_list(i64, domain)])
    else:
        kernel.attributes["hybrid.domains"] = ArrayAttr([DenseArrayBase.from_list(i64, shape_of(op.results[0]))])
    block.add_op(func.ReturnOp(new.results[0]))
    _call(module, kernel, inputs, op)


def _kernel(inputs, results, base, taken):
    block = Block(arg_types=[v.type for v in inputs])
    kind = FunctionType.from_lists([v.type for v in inputs], [r.type for r in results])
    name, number = base, 0
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    taken.add(name)
    kernel = func.FuncOp(name, kind, Region(block), "private")
    note_dtypes(kernel, [dtype_of(v) for v in (*inputs, *results)])
    return kernel, block


def _call(module, kernel, inputs, op):
    call = func.CallOp(kernel.sym_name.data, inputs, [r.type for r in op.results])
    call.location = op.location
    kernel.location = op.location
    module.body.block.add_op(kernel)
    call.results[0].name_hint = op.results[0].name_hint
    Rewriter.replace_op(op, call)


def _clone(op, block, known):
    """The operation in the kernel, after the scaffolds that it begins from and the scalars in its body."""
    free = [v for inner in op.walk() if inner is not op for v in inner.operands]
    for value in (*op.operands, *free):
        owner = value.owner
        if value in known or not isinstance(owner, Operation) or owner.parent_op() is op:
            continue
        assert isinstance(owner, arith.ConstantOp | tensor.EmptyOp | linalg.FillOp), owner.name
        known[value] = _clone(owner, block, known).results[0]
    new = op.clone(value_mapper=dict(known))
    new.location = op.location
    block.add_op(new)
    return new


def _axes(op):
    """For each loop the axis of the domain, whose order is that of an operand which has them all; then the domain."""
    maps = [list(places) for places in places_of(op)]
    kinds = [k.data for k in op.get_iterator_types()]
    sizes = loop_sizes(op, maps)
    contraction = len(op.inputs) == 2 and IteratorType.REDUCTION in kinds
    order = maps[-1] if contraction else next((m for m in maps if len(m) == len(kinds)), list(range(len(kinds))))
    axes = [order.index(loop) if loop in order else -1 for loop in range(len(kinds))]
    return axes, [sizes[loop] for loop in order]


def _copy_returned(module, function, taken):
    """What is returned is the result of a call, each once, and no view of an argument: else it is copied."""
    end = function.body.block.last_op
    seen = set()
    for index, value in enumerate(list(end.operands)):
        source = value
        while isinstance(source.owner, VIEWS):
            source = source.owner.operands[0]
        visible = function.attributes.get("hybrid.outputs")
        if visible is not None and index >= visible.get_values()[0]:
            continue
        host_view = source is not value and isinstance(source.owner, func.CallOp)
        if isinstance(source.owner, func.CallOp) and source not in seen and not (host_view and _is_strided(value)):
            seen.add(source)
            continue
        copy = identity(value)
        Rewriter.insert_op(copy, InsertPoint.before(end))
        end.operands[index] = copy[-1].results[0]
        _outline(module, copy[-1], taken)
        seen.add(end.operands[index])


def _is_strided(value):
    while isinstance(value.owner, VIEWS):
        if isinstance(value.owner, tensor.ExtractSliceOp | linalg.TransposeOp):
            return True
        value = value.owner.operands[0]
    return False


def identity(value):
    """The operations that copy a value."""
    rank = len(shape_of(value))
    empty = tensor.EmptyOp([], value.type)
    body = Block(arg_types=[value.type.get_element_type()] * 2)
    body.add_op(linalg.YieldOp(body.args[0]))
    maps = [AffineMap.identity(rank)] * 2
    copy = linalg.GenericOp(
        [value],
        empty.results,
        Region(body),
        [AffineMapAttr(m) for m in maps],
        [IteratorTypeAttr.parallel()] * rank,
        [value.type],
    )
    return [empty, copy]


def host_calls(function):
    """The calls of the host in a function."""
    return [op for op in function.body.block.ops if isinstance(op, func.CallOp) and is_host(function_called(op))]
