"""Kernels as functions of linalg ops, which other MLIR tools accept: how they are read and written.

``hybrid.domains`` of a function lists for each loop nest the sizes of its iteration space; an op's ``hybrid.loop_nest``
is the index of its loop nest (default 0), its ``hybrid.axes`` the axis of each loop, -1 for the reduction loops of a
contraction. ``hybrid.varying`` lists, for each loop nest, the axes whose sizes are known to vary from one call of the
network to the next. ``hybrid.grid`` lists, for each loop nest, the axes that are the grid of all: the same points in
the same order, where a loop nest reads what others make (:mod:`hybridc.ir.kernels.grid_kernel`). ``hybrid.attention``
lists the axes that are rows, and those that are keys (:mod:`hybridc.ir.attention`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, IntegerAttr, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.dialects.linalg.attrs import IteratorType
from xdsl.ir import Attribute, Block, Operation, OpResult, Region, SSAValue

from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.dialects.mlir.new_op import new_op
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.errors import VerifyError
from hybridc.ground.cached import by_identity
from hybridc.ir.kernels.kernel import (
    CONSTANT,
    EXTRACT,
    INDEX,
    Axes,
    BodyArgument,
    BodyOp,
    BodyValue,
    Kernel,
    KernelOp,
    KernelValue,
    Matrix,
    Read,
    ScalarBody,
    affine_read,
    loop_nests,
)
from hybridc.ir.kernels.kernel_notes import ATTENTION, AXES, DOMAINS, GRID, LOOP_NEST, PANELS, VARYING
from hybridc.ir.scalars import Number
from hybridc.ir.structured import (
    affine_operands,
    body_fault,
    dtype_of,
    is_scaffold,
    number_of,
    numbers_in,
    places_of,
    scalar_of,
    shape_of,
)
from hybridc.ir.structured_builder import (
    ELEMENT_TYPES,
    Builder,
    Tensor,
    kind_dtype,
    number_attribute,
    operation_class,
    operation_name,
    operation_properties,
    structured_type,
)


def read_kernel(function: func.FuncOp) -> Kernel:
    """The kernel that a function is."""
    reader = _OpReader()
    arguments = [reader.value(v) for v in function.body.block.args]
    domains = DOMAINS.of(function)
    kernel_ops: list[list[KernelOp]] = [[] for _ in domains]
    for op in function.body.block.ops:
        if not is_scaffold(op) and not isinstance(op, func.ReturnOp):
            if (why := body_fault(op)) is not None:
                raise VerifyError(f"kernel @{function.sym_name.data}: {why}")
            at = LOOP_NEST.of(op)
            kernel_ops[at].append(reader.kernel_op(op, AXES.of(op), domains[at]))
    nests = loop_nests([*zip(domains, kernel_ops, strict=True)], VARYING.of(function))
    end = function.body.block.last_op
    assert isinstance(end, func.ReturnOp)
    results = [reader.value(v) for v in end.arguments]
    noted = GRID.of(function), ATTENTION.of(function), PANELS.of(function)
    return Kernel(function.sym_name.data, arguments, results, nests, *noted)


def kernel_of_ops(
    name: str,
    nests: Sequence[tuple[Shape, Mapping[Operation, Axes]]],
    inputs: Sequence[SSAValue],
    outputs: Sequence[SSAValue],
) -> Kernel:
    """The kernel of linalg ops, wherever these are: for each loop nest its domain, and its ops with their axes.

    What is no input is made by an op, or constant.
    """
    reader = _OpReader()
    arguments = [reader.value(v) for v in inputs]
    parts = loop_nests([(d, [reader.kernel_op(op, a, d) for op, a in axes.items()]) for d, axes in nests])
    return Kernel(name, arguments, [reader.value(v) for v in outputs], parts)


class _OpReader:
    """Reads linalg ops; ``known`` are the values that they are about."""

    def __init__(self) -> None:
        self.known: dict[SSAValue, KernelValue] = {}

    def value(self, value: SSAValue) -> KernelValue:
        """The value of a kernel that a value of a function is."""
        known = self.known.get(value)
        if known is None:
            elements = number_of(value), matrix_of(value)
            position, hint = len(self.known), value.name_hint if isinstance(value, OpResult) else None
            known = self.known[value] = KernelValue(position, dtype_of(value), shape_of(value), *elements, hint)
        return known

    def kernel_op(self, op: Operation, axes: Axes, domain: Shape) -> KernelOp:
        """The op of a kernel that a linalg op is, with its loops as these axes of a domain."""
        assert isinstance(op, linalg.GenericOp | linalg.MatmulOp), f"{op.name} in a kernel"
        loops = _numbered(axes, len(domain))
        *read, kept = [tuple([loops[place] for place in places]) for places in places_of(op)]
        affine = affine_operands(op)
        values = [self.value(v) for v in op.inputs]
        operands = enumerate(zip(values, read, strict=True))
        reads = tuple([_affine(v, affine[i], loops) if i in affine else Read(v, p) for i, (v, p) in operands])
        table_numbers: dict[SSAValue, int] = {}
        body = _body(op.regions[0].block, table_numbers)
        tables = tuple([self.value(v) for v in table_numbers])
        reduced = tuple(sorted(set(loops) - set(kept)))
        kind: Literal["elementwise", "row", "column", "contraction"]
        if any(a >= len(domain) for a in reduced):
            kind = "contraction"
        elif not any(iterator.data is IteratorType.REDUCTION for iterator in op.get_iterator_types()):
            kind, reduced = "elementwise", ()
        else:
            kind = "column" if 0 in reduced else "row"
        combine = None if kind == "elementwise" else cast(BodyOp, body.result)
        operator = OPERATOR.of(op) or op.name
        start = number_of(op.operands[-1])
        result = self.value(op.results[0])
        return KernelOp(
            kind, body, reads, result, loops, kept, reduced, combine, start, tables, operator, op.location
        )  # fmt: skip


def matrix_of(value: SSAValue) -> Matrix | None:
    """The elements of a constant matrix."""
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or len(shape_of(value)) != 2:
        return None
    return numbers_in(cast(DenseIntOrFPElementsAttr, owner.value), shape_of(value), dtype_of(value))


def _affine(value: KernelValue, index: Any, loops: Axes) -> Read:
    """A read at sums of axes, of which the function knows the loops."""
    return affine_read(value, tuple([affine.renamed(loops.__getitem__) for affine in index]))


def _numbered(axes: Axes, rank: int) -> Axes:
    """The axes of the loops; loops without an axis are numbered from ``rank`` on."""
    numbered: list[int] = []
    for axis in axes:
        numbered.append(axis if axis >= 0 else rank)
        rank += axis < 0
    return tuple(numbered)


# --- bodies -----------------------------------------------------------------------------------------------------------


def _body(block: Block, tables: dict[SSAValue, int]) -> ScalarBody:
    """A body; ``tables`` get the numbers of the values that it reads at computed indices."""
    arguments = [BodyArgument(i, _kind(a), a.first_use is None) for i, a in enumerate(block.args)]
    known: dict[SSAValue, BodyValue] = dict(zip(block.args, arguments, strict=True))

    def value(operand: SSAValue) -> BodyValue:
        if operand not in known:  # a constant outside of the body
            known[operand] = _constant(operand)
        return known[operand]

    steps: list[BodyOp] = []
    for op in block.ops:
        match op:
            case linalg.YieldOp():
                return ScalarBody(tuple(arguments), tuple(steps), value(op.operands[0]))
            case arith.ConstantOp():
                step = _constant(op.result)
            case linalg.IndexOp():
                step = BodyOp(INDEX, (), "index", loop=op.dim.value.data)
            case tensor.ExtractOp():
                table = tables.setdefault(op.tensor, len(tables))
                step = BodyOp(EXTRACT, tuple([value(i) for i in op.indices]), _kind(op.results[0]), table=table)
            case _:
                name = operation_name(type(op), op.properties)
                step = BodyOp(name, tuple([value(v) for v in op.operands]), _kind(op.results[0]))
        known[op.results[0]] = step
        steps.append(step)
    raise ValueError("a body ends with linalg.yield")


def _constant(value: SSAValue) -> BodyOp:
    assert isinstance(value.owner, arith.ConstantOp), f"{value} is no constant number"
    return BodyOp(CONSTANT, (), _kind(value), scalar_of(value.owner.value))


def _kind(value: SSAValue) -> str:
    return _type_name(value.type)


@by_identity
def _type_name(kind: Attribute) -> str:
    return str(kind)


# --- writing ----------------------------------------------------------------------------------------------------------


def write_region(kernel: Kernel) -> Region:
    """The body of the function that a kernel prints as."""
    block = Block(arg_types=[structured_type(v.shape, v.dtype) for v in kernel.arguments])
    writer = _KernelWriter(Builder(block), dict(zip(kernel.arguments, block.args, strict=True)))
    for nest in kernel.nests:
        for kernel_op in nest.ops:
            op = writer.op(kernel_op, len(nest.domain))
            if nest.position:
                LOOP_NEST.put(op, nest.position)
    block.add_op(func.ReturnOp(*[writer.value(v) for v in kernel.results]))
    return Region(block)


class _KernelWriter:
    """Writes the ops of a kernel; ``values`` are those of the function, ``initials`` what results begin with."""

    def __init__(self, builder: Builder, values: dict[KernelValue, SSAValue]) -> None:
        self.builder, self.values = builder, values
        self.initials: dict[Any, SSAValue] = {}

    def value(self, value: KernelValue) -> SSAValue:
        """A value; a constant is written where it is first read."""
        if value not in self.values:
            self.values[value] = self._constant(value)
        return self.values[value]

    def _constant(self, value: KernelValue) -> SSAValue:
        if value.matrix is not None:
            return self.builder.matrix(value.matrix, value.dtype)
        assert value.constant is not None, "what is read was made before"
        if not value.shape:
            return self.builder.number(value.constant, value.dtype)
        return self._initial(value.shape, value.dtype, value.constant)

    def _initial(self, shape: Shape, dtype: DType, start: Number | None) -> SSAValue:
        """What a result begins with, one for all that begin alike."""
        key = (shape, dtype, repr(start))
        if key not in self.initials:
            if start is None:
                self.initials[key] = self.builder.empty(shape, dtype)
            else:
                self.initials[key] = self.builder.start(shape, dtype, start)
        return self.initials[key]

    def op(self, kernel_op: KernelOp, rank: int) -> Operation:
        """An op over a domain of this rank."""
        builder, result = self.builder, kernel_op.result
        builder.location, builder.operator = kernel_op.location, kernel_op.operator
        loop_of = {axis: loop for loop, axis in enumerate(kernel_op.loops)}
        inputs = [self.value(r.value) for r in kernel_op.reads]
        initial = self._initial(result.shape, result.dtype, kernel_op.start)
        places = [
            tuple([p.renamed(loop_of.__getitem__) for p in r.index] if r.index else [loop_of[a] for a in r.axes])
            for r in kernel_op.reads
        ]
        kept = tuple([loop_of[a] for a in kernel_op.axes])
        body = _write_body(kernel_op, [self.values[v] for v in kernel_op.tables])
        out = Tensor(result.shape, result.dtype, builder)
        op = builder.loops(inputs, initial, (*places, kept), len(kernel_op.loops), body, out)
        builder.mark(op, out)
        AXES.put(op, [axis if axis < rank else -1 for axis in kernel_op.loops])
        self.values[result] = op.results[0]
        op.results[0].name_hint = result.hint
        return op


def _write_body(kernel_op: KernelOp, tables: Sequence[SSAValue]) -> Block:
    """The body of an op as a block."""
    body = kernel_op.body
    block = Block(arg_types=[ELEMENT_TYPES[a.kind] for a in body.arguments])
    known: dict[BodyValue, SSAValue] = dict(zip(body.arguments, block.args, strict=True))

    def add(cls: Any, operands: Sequence[SSAValue], kind: str, properties: dict[str, Attribute]) -> SSAValue:
        op = new_op(cls, operands, [ELEMENT_TYPES[kind]], properties)
        op.location = kernel_op.location
        block.add_op(op)
        return op.results[0]

    def write(value: BodyValue) -> SSAValue:
        if value in known:
            return known[value]
        assert isinstance(value, BodyOp)
        operands = [write(v) for v in value.operands]
        match value.op:
            case "arith.constant":
                known[value] = add(arith.ConstantOp, (), value.kind, {"value": _constant_attribute(value)})
            case "linalg.index":
                known[value] = add(linalg.IndexOp, (), value.kind, {"dim": IntegerAttr(value.loop, i64)})
            case "tensor.extract":
                known[value] = add(tensor.ExtractOp, [tables[value.table], *operands], value.kind, {})
            case op:
                known[value] = add(operation_class(op), operands, value.kind, operation_properties(op))
        return known[value]

    for step in body.steps:
        write(step)
    end = new_op(linalg.YieldOp, [write(body.result)])
    end.location = kernel_op.location
    block.add_op(end)
    return block


def _constant_attribute(step: BodyOp) -> Attribute:
    if step.kind == "index":
        return IntegerAttr(int(step.constant), IndexType())
    return number_attribute(step.constant, kind_dtype(step.kind))
