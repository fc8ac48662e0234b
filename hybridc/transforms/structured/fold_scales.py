"""Fold scales that follow from parameters alone into the weights of contractions.

In predict mode a normalisation of a contraction's results is a scale and a shift for each column, as a bias is:

    ((x W - m) s) g + b  =  x (W s g) + (b - m s g)

Scale and shift are then part of the preparation, as the weight is (:mod:`hybridc.transforms.memory.hoist_preparation`):
computed once, and again when a parameter changes. One addition is left of each chain of operations that has a scale.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import ClassVar

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.dialects.mlir.hybrid import fused_location
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import FLOAT32
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured import affine_operands, dtype_of, loop_sizes, number_of, places_of, root, shape_of
from hybridc.ir.structured_builder import Builder, Element, ScalarBuilder, Tensor
from hybridc.ir.values import functions
from hybridc.transforms.memory.hoist_preparation import prepared_values


@dataclass(frozen=True)
class FoldScales(ModulePass):
    """See the module's docstring; views are folded already."""

    name = "fold-scales"
    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in functions(op):
            prepared = prepared_values(function) if function.sym_visibility is None and function.body.blocks else None
            if prepared:
                for candidate in list(function.body.block.ops):
                    loops = isinstance(candidate, linalg.GenericOp | linalg.MatmulOp)
                    chain = _chain(candidate, prepared) if loops else None
                    if chain is not None:
                        _fold(chain)


@dataclass(frozen=True)
class _Link:
    """An elementwise operation on a value and an array with one element a column; ``kind`` is that of its body.

    ``place`` is the index of the value among its inputs.
    """

    op: linalg.GenericOp
    kind: type[Operation]
    place: int

    @property
    def operand(self) -> SSAValue:
        """The array that has one element for each column."""
        return self.op.operands[1 - self.place]


@dataclass(frozen=True)
class _Chain:
    """A contraction and the links after it.

    ``weight`` is the index of the contraction's input that follows from parameters, ``dims`` are its dimensions of
    columns, which may be split by groups. ``places`` are the dimensions of the last link's result that those of the
    contraction's result became, ``columns`` are those of columns.
    """

    contraction: linalg.GenericOp | linalg.MatmulOp
    weight: int
    dims: tuple[int, ...]
    links: tuple[_Link, ...]
    places: tuple[int, ...]
    columns: tuple[int, ...]


def _chain(op: linalg.GenericOp | linalg.MatmulOp, prepared: Container[SSAValue]) -> _Chain | None:
    """The chain after a contraction; None if there is no scale in it. ``prepared`` follows from parameters."""
    (*_, result) = places = places_of(op)
    weights = [i for i, v in enumerate(op.inputs) if root(v) in prepared]
    if len(weights) != 1 or len(result) == len(loop_sizes(op, places)) or not _multiplies(op):
        return None
    (weight,) = weights
    if weight in affine_operands(op) or number_of(op.operands[-1]) != 0:
        return None
    links: list[_Link] = []
    loops, columns = result, ()  # the contraction's loop of each dimension of the value, and those of columns
    for link in _links(op.results[0]):
        of_value, of_given = places_of(link.op)[link.place], places_of(link.op)[1 - link.place]
        of_loop = dict(zip(of_value, loops, strict=True))
        own = tuple([of_loop[loop] for loop in of_given])
        if not own or not {*own} <= {*places[weight]} or columns not in ((), own) or root(link.operand) not in prepared:
            break
        columns = own
        loops = tuple([of_loop[loop] for loop in places_of(link.op)[-1]])
        links.append(link)
    kinds = [link.kind for link in links]
    if arith.MulfOp not in kinds or {*kinds} == {arith.MulfOp}:
        return None
    own = tuple([loops.index(loop) for loop in result])
    dims = tuple([places[weight].index(loop) for loop in columns])
    return _Chain(op, weight, dims, tuple(links), own, tuple([loops.index(loop) for loop in columns]))


def _multiplies(op: linalg.GenericOp | linalg.MatmulOp) -> bool:
    """Whether two arrays are multiplied and added up, all in single or double precision."""
    steps = [type(step) for step in op.regions[0].block.ops]
    return _is_of_one_dtype(op) and len(op.inputs) == 2 and steps == [arith.MulfOp, arith.AddfOp, linalg.YieldOp]


def _is_of_one_dtype(op: linalg.GenericOp | linalg.MatmulOp) -> bool:
    dtypes = {dtype_of(v) for v in (*op.inputs, op.results[0])}
    return len(dtypes) == 1 and dtypes <= {FLOAT32, np.dtype(np.float64)}


def _links(value: SSAValue) -> Iterator[_Link]:
    """The operations after a value, each the only one that reads the one before."""
    while isinstance(op := value.get_user_of_unique_use(), linalg.GenericOp):
        first, last = op.body.block.first_op, op.body.block.last_op
        place = list(op.operands).index(value)
        if len(op.inputs) != 2 or place > 1 or first is None or first.next_op is not last:
            return
        args: list[SSAValue] = list(op.body.block.args)
        positions = [args.index(v) if v in args else -1 for v in first.operands]
        possible = ([0, 1], [1, 0]) if isinstance(first, arith.AddfOp | arith.MulfOp) else ([place, 1 - place],)
        if not isinstance(first, arith.AddfOp | arith.MulfOp | arith.SubfOp) or positions not in possible:
            return
        whole = sorted(places_of(op)[place]) == list(range(len(shape_of(op.results[0]))))
        if not whole or affine_operands(op) or not _is_of_one_dtype(op):
            return
        yield _Link(op, type(first), place)
        value = op.results[0]


def _fold(chain: _Chain) -> None:
    """Scale the weight, add the shift, and erase the links."""
    contraction, last = chain.contraction, chain.links[-1].op
    builder = Builder(Block())
    builder.location = fused_location([link.op for link in chain.links])
    name = OPERATOR.of(last)
    builder.operator = "scale" if name is None else name
    weight, dtype = contraction.operands[chain.weight], dtype_of(last.results[0])
    columns = tuple([shape_of(weight)[dim] for dim in chain.dims])

    def mapped(step: str, shape: Shape, *operands: tuple[SSAValue, tuple[int, ...]]) -> SSAValue:
        """The results of a step of scalars, element by element."""
        inputs = [(value, places, dtype) for value, places in operands]

        def body(b: ScalarBuilder, *xs: Element) -> Element:
            return getattr(b, step)(*xs[:-1])

        return builder.generic(inputs, Tensor(shape, dtype, builder), body).value

    def of_columns(step: str, *operands: SSAValue) -> SSAValue:
        return mapped(step, columns, *((value, tuple(range(len(columns)))) for value in operands))

    scale: SSAValue | None = None
    shift: SSAValue | None = None
    for link in chain.links:
        if link.kind is arith.MulfOp:
            scale = link.operand if scale is None else of_columns("mul", scale, link.operand)
            shift = None if shift is None else of_columns("mul", shift, link.operand)
        elif shift is None:
            shift = link.operand if link.kind is arith.AddfOp else of_columns("neg", link.operand)
        else:
            shift = of_columns("add" if link.kind is arith.AddfOp else "sub", shift, link.operand)
    assert scale is not None, "a chain has a scale"
    assert shift is not None, "a chain has a shift"
    whole = tuple(range(len(shape_of(weight))))
    scaled = mapped("mul", shape_of(weight), (weight, whole), (scale, chain.dims))
    shifted = mapped("add", shape_of(last.results[0]), (contraction.results[0], chain.places), (shift, chain.columns))
    contraction.detach()
    ops = list(builder.block.ops)
    for op in ops:
        op.detach()
    scales = next(i for i, op in enumerate(ops) if scaled in op.results) + 1
    Rewriter.insert_op([*ops[:scales], contraction, *ops[scales:]], InsertPoint.before(last))
    contraction.operands[chain.weight] = scaled
    last.results[0].replace_all_uses_with(shifted)
    for link in reversed(chain.links):
        erase_op(link.op)
