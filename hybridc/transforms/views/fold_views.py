"""Fold reshapes, transposes and slices into the loops around them, by splitting loops and changing indexing maps.

Each operand is traced through reshapes, transposes and slices to its root, as a list of strided pieces of the root's
memory. So

* an operation reads the root by an indexing map, whatever transposes lie between them;
* loops are split as finely as the reshapes around them need, so that a reshape between two operations
  becomes a no-op;
* a result that is needed in another order is written in that order;
* reshapes and transposes that undo each other leave nothing, a slice of a transposed array is a transposed slice, and
  one in a part of a concatenation is a slice of that part;
* a fill is a constant in the bodies that read it, and what is broadcast is read by contractions before it is;
* what a forward with convolutions saves for its backward is passed on in the order of memory.

The views that stay show arguments, results of calls and of loops, or slices of them. A copy is left where contiguous
elements are needed and are not: by a call that reshapes, a return, a contraction over a collapsed axis.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import field
from typing import Any, ClassVar, cast

from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import FunctionType, IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import OPERATOR, SAVED, UPDATES
from hybridc.dialects.mlir.integer_array import integers_of
from hybridc.dialects.mlir.new_op import new_op
from hybridc.dialects.mlir.tensor import ExpandShapeOp
from hybridc.dialects.operator_attribute import Shape
from hybridc.dtypes import DType
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Place, are_same, is_same
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.structured import (
    dtype_of,
    give_type,
    groups_of,
    is_scaffold,
    is_view_op,
    note_dtype,
    places_of,
    shape_of,
)
from hybridc.ir.structured_builder import (
    dense_integers,
    groups,
    iterators,
    maps,
    reassociation,
    segments,
    slice_properties,
)
from hybridc.ir.values import functions, result_count
from hybridc.transforms.views.result_orders import (
    OperandLoops,
    Order,
    Piece,
    Pieces,
    by_axis,
    convolves,
    in_memory,
    merged,
    operand_loops,
    result_orders,
    row_major,
    split_pieces,
    unrequested,
)


@dataclass(frozen=True)
class FoldViews(ModulePass):
    """See the module's docstring."""

    name = "fold-views"
    needs: ClassVar[Needs] = frozenset((Fact.ORDER,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        named = {f.sym_name.data: f for f in functions(op) if f.body.blocks}
        saved = _Saved.of(named.get("forward"), named.get("backward"))
        for function in named.values():
            _slice_parts(function.body.block)
            _read_before_broadcasts(function.body.block)
            folding = _Folding(function.body.block, saved.results if function is saved.forward else ())
            folding.run()
            if function is saved.forward:
                saved.pass_on(folding.reordered)


@dataclass(frozen=True)
class _Saved:
    """The results of a forward that only its backward reads: by their numbers, the backward's arguments."""

    forward: func.FuncOp | None
    backward: func.FuncOp | None
    results: Mapping[int, Sequence[BlockArgument]] = field(default_factory=dict[int, Sequence[BlockArgument]])

    @classmethod
    def of(cls, forward: func.FuncOp | None, backward: func.FuncOp | None) -> _Saved:
        """Those of two functions."""
        if forward is None or backward is None or not SAVED.of(backward) or not convolves(forward.body.block):
            return cls(None, None)
        first = result_count(forward) + len(UPDATES.of(forward))
        arguments: dict[int, list[BlockArgument]] = {}
        for index, argument in zip(SAVED.of(backward), backward.body.block.args, strict=False):
            result = index - len(forward.body.block.args)
            if result >= first:
                arguments.setdefault(result, []).append(argument)
        return cls(forward, backward, arguments)

    def pass_on(self, orders: Mapping[int, tuple[int, ...]]) -> None:
        """Give the backward what the forward returns in another order of axes, transposed back."""
        if not orders or self.forward is None or self.backward is None:
            return
        end = self.forward.body.block.last_op
        assert isinstance(end, func.ReturnOp)
        block = self.backward.body.block
        for result, order in orders.items():
            kind = cast("TensorType[Any]", end.arguments[result].type)
            for argument in self.results[result]:
                uses, old = list(argument.uses), cast("TensorType[Any]", argument.type)
                give_type(argument, kind)
                empty = tensor.EmptyOp.create(result_types=[old])
                back: dict[str, Attribute] = {
                    "permutation": dense_integers(tuple(order.index(i) for i in range(len(order))))
                }
                transpose = linalg.TransposeOp.create(
                    operands=[argument, empty.results[0]], result_types=[old], properties=back, regions=[_identity(old)]
                )
                empty.location = transpose.location = end.location
                OPERATOR.put(transpose, "transpose")
                block.insert_ops_before([empty, transpose], cast(Operation, block.first_op))
                for use in uses:
                    use.operation.operands[use.index] = transpose.results[0]
        for function in (self.forward, self.backward):
            last = function.body.block.last_op
            assert isinstance(last, func.ReturnOp)
            function.function_type = FunctionType.from_lists(
                [a.type for a in function.body.block.args], [v.type for v in last.arguments]
            )


def _slice_parts(block: Block) -> None:
    """Turn a slice that lies in one part of a concatenation into a slice of that part."""
    for op in list(block.ops):
        while isinstance(op, tensor.ExtractSliceOp) and isinstance(whole := op.source.owner, tensor.ConcatOp):
            dim = whole.dim.value.data
            offsets, shape = list(integers_of(op.static_offsets)), shape_of(op.results[0])
            last = offsets[dim] + integers_of(op.static_strides)[dim] * (shape[dim] - 1)
            begin, inside = 0, None
            for part in whole.inputs:
                end = begin + shape_of(part)[dim]
                if begin <= offsets[dim] and last < end and 0 not in shape:
                    inside = part
                    break
                begin = end
            if inside is None:
                break
            offsets[dim] -= begin
            op.operands[0] = inside
            op.properties["static_offsets"] = dense_integers(tuple(offsets))
            if shape_of(inside) == shape:
                op.results[0].replace_all_uses_with(inside)
                erase_op(op)
                break


def _read_before_broadcasts(block: Block) -> None:
    """Let contractions read what is broadcast to their operands: with a stride of 0 along loops that are not summed."""
    for op in [generic for generic in block.ops if isinstance(generic, linalg.GenericOp)]:
        loops = None if op.parent is None else operand_loops(op)
        if loops is None or not loops.contraction or loops.affine:
            continue
        places = list(loops.places)
        for i, value in enumerate(op.inputs):
            broadcast = _broadcast(value.owner)
            if broadcast is None:
                continue
            source, result = places_of(broadcast)
            along = dict(zip(result, places[i], strict=True))
            read = tuple([along[loop] for loop in source])
            others = {loop for place in (*places[:i], *places[i + 1 : -1]) for loop in place}
            if set(loops.summed) <= {*read} and {*places[i]} - {*read} <= others:
                op.operands[i], places[i] = broadcast.inputs[0], read
                if broadcast.results[0].first_use is None:
                    erase_op(broadcast)
        op.properties["indexing_maps"] = maps(len(loops.sizes), tuple(places))


def _broadcast(op: Operation | Block) -> linalg.GenericOp | None:
    """The operation, if it copies its input along more axes."""
    loops = operand_loops(op) if isinstance(op, linalg.GenericOp) else None
    if not isinstance(op, linalg.GenericOp) or loops is None or loops.affine or loops.summed or len(op.inputs) != 1:
        return None
    body = op.body.block
    copies = len(body.ops) == 1 and body.last_op is not None and body.last_op.operands[0] is body.args[0]
    return op if copies and len(loops.places[0]) < len(loops.places[-1]) else None


@dataclass(eq=False)
class _View:
    """A value as strided pieces of its root, or as a constant."""

    root: SSAValue
    pieces: Pieces
    shape: Shape
    like: Operation | None = None  # whose location and operator it takes
    whole: bool = True  # covers all of a contiguous root
    constant: SSAValue | None = None


class _Folding:
    """The rewrite of one function, from the first operation to the last."""

    def __init__(self, block: Block, saved: Container[int] = ()) -> None:
        self.block = block
        self.saved = saved  # the results that may be returned in any order
        self.reordered: dict[int, tuple[int, ...]] = {}  # those that are, and the original axis of each
        self.loops = {op: loops for op in block.ops if (loops := operand_loops(op)) is not None}
        cutting = Cutting(block, self.loops)
        self.factors = {op: cutting.factors(op) for op in self.loops}
        convolved = convolves(block)
        self.orders = result_orders(self.loops, self.factors, saved, convolved)
        # Where there are convolutions: contractions, and elementwise operations that write in the order of theirs.
        self.leading = {op for op, walk in self.loops.items() if convolved and (walk.contraction or op in self.orders)}
        self.following = set[Operation]()  # elementwise ones that may: no use requests another order
        if convolved:
            self.following = unrequested(self.loops, self.factors, self.orders, saved)
        self.views: dict[SSAValue, _View] = {}  # of rewritten values
        self.roots: dict[SSAValue, _View] = {}  # of values that are their own roots
        self.reshaped: dict[tuple[SSAValue, Shape], SSAValue] = {}
        self.empties: dict[Attribute, SSAValue] = {}
        self.fills: dict[tuple[SSAValue, Attribute, Any], SSAValue] = {}
        self.before: Operation = next(iter(block.ops))  # the insertion point

    def run(self) -> None:
        """Rewrite all operations, then remove views without uses."""
        for op in list(self.block.ops):
            self.before = op
            if op in self.loops:
                self._loops(op)
            elif is_view_op(op) and 0 not in shape_of(op.results[0]):
                self.views[op.results[0]] = self._view(op)
            elif isinstance(op, linalg.FillOp):
                self.views[op.results[0]] = _View(
                    op.results[0], (), shape_of(op.results[0]), op, constant=op.operands[0]
                )
            else:
                self._others(op)
        for op in reversed(list(self.block.ops)):
            if (is_view_op(op) or is_scaffold(op)) and op.results[0].first_use is None:
                erase_op(op)

    def _others(self, op: Operation) -> None:
        """Calls, returns, loops that cannot be changed: they need whole values."""
        returns = isinstance(op, func.ReturnOp)
        for inner in op.walk():
            for i, value in enumerate(inner.operands):
                if value not in self.views:
                    continue
                transposed = self._turned(self.views[value]) if returns and i in self.saved else None
                if transposed is not None:
                    inner.operands[i], self.reordered[i] = transposed
                else:
                    inner.operands[i] = self._value(self.views[value], returns)

    def _turned(self, view: _View) -> tuple[SSAValue, tuple[int, ...]] | None:
        """A view of a whole root with other axes in the order of memory, and the axis of each; None if it is not."""
        if view.constant is not None or not view.whole or len(view.pieces) < 2 or 0 in view.shape:
            return None
        axes = by_axis(view.pieces, view.shape)
        if axes is None or any(len(axis) != 1 for axis in axes):
            return None
        pieces = [axis[0] for axis in axes]
        order = in_memory(pieces)
        if order == sorted(order):
            return None
        seen, _ = self._seen(view, pieces, self.before)
        return seen, tuple(order)

    def view_of(self, value: SSAValue) -> _View:
        """A value as pieces of its root; most are their own roots."""
        if value in self.views:
            return self.views[value]
        if value not in self.roots:
            shape = shape_of(value)
            like = value.owner if value.owner in self.loops else None
            self.roots[value] = _View(value, merged(row_major(shape)), shape, cast("Operation | None", like))
        return self.roots[value]

    # --- views ---------------------------------------------------------------------------------------------

    def _view(self, op: Operation) -> _View:
        source, shape = self.view_of(op.operands[0]), shape_of(op.results[0])
        if source.constant is not None:
            return _View(source.root, (), shape, op, constant=source.constant)
        match op:
            case linalg.TransposeOp():
                axes = self._axes(source)
                pieces = merged(piece for i in integers_of(op.permutation) for piece in axes[i])
                return _View(source.root, pieces, shape, op, source.whole)
            case tensor.ExtractSliceOp():
                return self._slice(op, source)
            case _:
                return _View(source.root, source.pieces, shape, op, source.whole)

    def _axes(self, view: _View) -> list[list[Piece]]:
        """The pieces of each axis; of a copy, if axes end inside pieces."""
        axes = by_axis(view.pieces, view.shape)
        if axes is None:
            self._copy(view)
            axes = by_axis(view.pieces, view.shape)
        assert axes is not None
        return axes

    def _slice(self, op: tensor.ExtractSliceOp, source: _View) -> _View:
        shape = shape_of(op.results[0])
        offsets, steps = integers_of(op.static_offsets), integers_of(op.static_strides)
        boxes = list(zip(offsets, shape, steps, source.shape, strict=True))
        if any(self._outer(axis, box) is None for axis, box in zip(self._axes(source), boxes, strict=True)):
            self._copy(source)
        pieces: list[Piece] = []
        cut: list[tuple[int, int, int]] = []
        outermost: list[int] = []  # the indices of the pieces that may be cut
        for axis, box in zip(self._axes(source), boxes, strict=True):
            outermost += [] if is_same(box[1], box[3]) else [len(pieces)]
            pieces += axis
            outer = self._outer(axis, box)
            assert outer is not None
            cut += [outer, *[(0, n, 1) for n, _ in axis[1:]]][: len(axis)]
        seen, order = self._seen(source, pieces, op)
        begin, sizes, step = zip(*[cut[i] for i in order], strict=True) if order else ((), (), ())
        properties = slice_properties(1, begin, sizes, step)
        part = self._insert(tensor.ExtractSliceOp, [seen], _typed(seen, sizes), op, properties)
        left = merged([(n, stride * s) for (_, stride), (_, n, s) in zip(pieces, cut, strict=True)], outermost)
        return _View(part, left, shape, op, whole=False)

    @staticmethod
    def _outer(axis: list[Piece], box: tuple[int, int, int, int]) -> tuple[int, int, int] | None:
        """A slice along an axis as one of its outermost piece; None if it ends inside an inner one."""
        offset, size, step, whole = box
        if not axis:
            return 0, 1, 1
        inner = whole // axis[0][0]
        if inner == 1:
            return offset, size, step
        if size == whole:
            return 0, axis[0][0], 1
        fits = step == 1 and offset % inner == 0 and size % inner == 0
        return (offset // inner, size // inner, 1) if fits else None

    def _seen(self, view: _View, pieces: Sequence[Piece], like: Operation) -> tuple[SSAValue, list[int]]:
        """The root reshaped to one axis for each piece, and the piece of each axis."""
        order = in_memory(pieces)
        sizes = tuple(pieces[i][0] for i in order)
        return self._reshape(view.root, sizes, view.like or like), order

    def _value(self, view: _View, in_a_row: bool = False) -> SSAValue:
        """The value of a view in its original shape; on request contiguous."""
        if view.constant is not None:
            same = shape_of(view.root) == view.shape
            return view.root if same else self._fill(view.root, view.constant, view.shape, view.like or self.before)
        if 0 in view.shape:
            return view.root
        axes = by_axis(view.pieces, view.shape)
        scattered = axes is None or any(len(axis) > 1 for axis in axes)
        if scattered or (in_a_row and (len(view.pieces) > 1 or not view.whole)):
            self._copy(view)
            return self._reshape(view.root, view.shape, view.like or self.before)
        assert axes is not None
        pieces = [piece for axis in axes for piece in axis]
        order = in_memory(pieces)
        if order == sorted(order):
            return self._reshape(view.root, view.shape, view.like or self.before)
        seen, _ = self._seen(view, pieces, self.before)
        like = view.like or self.before
        permutation = tuple(order.index(i) for i in range(len(order)))
        kind = _typed(seen, [pieces[i][0] for i in range(len(order))])
        properties: dict[str, Attribute] = {"permutation": dense_integers(permutation)}
        operands = [seen, self._empty(kind)]
        value = self._insert(linalg.TransposeOp, operands, kind, like, properties, [_identity(kind)])
        return self._reshape(value, view.shape, like)

    def _copy(self, view: _View) -> None:
        """Make a contiguous copy of a view."""
        pieces = list(view.pieces)
        seen, order = self._seen(view, pieces, self.before)
        kind = _typed(seen, [n for n, _ in pieces])
        rank = len(pieces)
        properties: dict[str, Attribute] = {
            "indexing_maps": maps(rank, (tuple(order), tuple(range(rank)))),
            "iterator_types": iterators(rank, ()),
            "operandSegmentSizes": segments(1, 1),
        }
        like, dtype = view.like or self.before, dtype_of(view.root)
        operands = [seen, self._empty(kind)]
        copy = self._insert(linalg.GenericOp, operands, kind, like, properties, [_identity(kind)], dtype)
        view.root, view.pieces, view.whole = copy, merged(row_major([n for n, _ in pieces])), True

    # --- loops ---------------------------------------------------------------------------------------------

    def _loops(self, op: Operation) -> None:
        loops, factors = self.loops[op], self.factors[op]
        if loops.knows_places:
            self._captured(op)
        if op not in self.orders and not any(v in self.views for v in op.operands[:-1]) and _as_it_is(loops, factors):
            return
        own = [(loop, i) for loop in loops.places[-1] for i in range(len(factors[loop]))]
        if op in self.following and (order := self._order_of_operands(op, own)) is not None:
            self.orders[op] = order
            self.leading.add(op)
        written = [own[i] for i in self.orders[op]] if op in self.orders else own
        summed = [(loop, i) for loop in loops.summed for i in range(len(factors[loop]))]
        position = {atom: i for i, atom in enumerate([*written, *summed])}
        sizes = [factors[loop][i] for loop, i in written]

        def atoms(places: tuple[int, ...]) -> list[int]:
            return [position[loop, i] for loop in places for i in range(len(factors[loop]))]

        operands: list[SSAValue] = []
        places: list[tuple[Place, ...]] = []
        for i, value in reversed(list(enumerate(op.operands[:-1]))):
            view = self.view_of(value)
            if i in loops.affine:
                seen, order = self._read_axes(view, op)
                operands.insert(0, seen)
                index = [affine.renamed(lambda loop: position[loop, 0]) for affine in loops.affine[i]]
                places.insert(0, tuple(index[axis] for axis in order))
                continue
            if view.constant is not None and self._as_number(op, i, view.constant):
                continue
            seen, order = self._read(view, [n for loop in loops.places[i] for n in factors[loop]], op)
            along = atoms(loops.places[i])
            operands.insert(0, seen)
            places.insert(0, tuple(along[k] for k in order))
        places.append(tuple(range(len(sizes))))
        kind = _typed(op.results[0], sizes)
        operands.append(self._begin(op.operands[-1], kind))
        same = tuple(loops.affine.get(i, place) for i, place in enumerate(loops.places))
        renumbered = {loop: position[loop, 0] for loop in range(len(loops.sizes))} if loops.knows_places else {}
        stays = all(old == new for old, new in renumbered.items())
        if not stays or operands != list(op.operands) or tuple(places) != same or len(position) != len(loops.sizes):
            op = self._rewritten(op, operands, places, len(position), kind, renumbered)
        strides = dict(zip(written, row_major(sizes), strict=True))
        shape = tuple(loops.sizes[loop] for loop in loops.places[-1])
        self.views[op.results[0]] = _View(op.results[0], merged(strides[atom] for atom in own), shape, op)

    def _captured(self, op: Operation) -> None:
        """Let a body read the arrays that views show."""
        arrays: dict[SSAValue, SSAValue] = {}
        for inner in op.regions[0].block.ops:
            for i, value in enumerate(inner.operands):
                if value in self.views and value not in arrays:
                    arrays[value] = self._value(self.views[value])
                if value in arrays:
                    inner.operands[i] = arrays[value]

    def _order_of_operands(self, op: Operation, own: list[tuple[int, int]]) -> Order | None:
        """The order in memory of (a part of) an operand that a convolution or what follows one wrote."""
        loops, factors = self.loops[op], self.factors[op]
        for value, places in zip(op.operands[:-1], loops.places, strict=False):
            view = self.views.get(value)
            atoms = [(loop, i) for loop in places for i in range(len(factors[loop]))]
            if view is None or _whole_of(view.root).owner not in self.leading or sorted(atoms) != sorted(own):
                continue
            pieces = split_pieces(view.pieces, [factors[loop][i] for loop, i in atoms])
            if pieces is not None:
                return tuple(own.index(atoms[i]) for i in in_memory(pieces))
        return None

    def _read(self, view: _View, sizes: Sequence[int], op: Operation) -> tuple[SSAValue, list[int]]:
        """An input reshaped to one axis for each loop, and the loop of each axis."""
        if view.constant is not None:
            return self._fill(view.root, view.constant, sizes, view.like or op), list(range(len(sizes)))
        pieces = split_pieces(view.pieces, sizes)
        if pieces is None:
            self._copy(view)
            pieces = split_pieces(view.pieces, sizes)
        assert pieces is not None
        return self._seen(view, pieces, op)

    def _read_axes(self, view: _View, op: Operation) -> tuple[SSAValue, list[int]]:
        """An input that is read at affine indices, with its axes in the order of memory, and the axis of each."""
        if view.constant is not None:
            filled = self._fill(view.root, view.constant, view.shape, view.like or op)
            return filled, list(range(len(view.shape)))
        axes = by_axis(view.pieces, view.shape)
        if axes is None or any(len(axis) != 1 for axis in axes):
            self._copy(view)
            axes = by_axis(view.pieces, view.shape)
        assert axes is not None
        return self._seen(view, [piece for axis in axes for piece in axis], op)

    def _as_number(self, op: Operation, index: int, scalar: SSAValue) -> bool:
        """Replace an input by a constant in the body, unless it alone determines some loop's size."""
        loops = self.loops[op]
        constant = scalar.owner
        others = {loop for i, place in enumerate(loops.places) if i != index for loop in place}
        if not isinstance(constant, arith.ConstantOp) or loops.contraction or set(loops.places[index]) - others:
            return False
        body = op.regions[0].block
        literal = constant.clone()
        literal.location = op.location
        first = body.first_op
        assert first is not None
        body.insert_op_before(literal, first)
        body.args[index].replace_all_uses_with(literal.results[0])
        body.erase_arg(body.args[index])
        return True

    def _rewritten(
        self, op: Operation, operands: list[SSAValue], places: list[tuple[Place, ...]], loops: int,
        kind: TensorType[Any], renumbered: Mapping[int, int],
    ) -> Operation:  # fmt: skip
        """The operation with new operands; a named one becomes generic if its loops change.

        ``renumbered`` has the new loops, if its body has indices.
        """
        stays = all(old == new for old, new in renumbered.items())
        same_type = are_same(kind.get_shape(), shape_of(op.results[0]))
        if stays and tuple(places) == self.loops[op].places and same_type:
            op.operands = operands
            return op
        outside = tuple(range(len(places[-1]), loops))
        properties: dict[str, Attribute] = {
            "indexing_maps": maps(loops, tuple(places)),
            "iterator_types": iterators(loops, outside),
            "operandSegmentSizes": segments(len(operands) - 1, 1),
        }
        if isinstance(op, linalg.GenericOp):
            op.operands = operands
            op.properties |= properties
            for inner in op.body.block.ops:
                if isinstance(inner, linalg.IndexOp):
                    inner.properties["dim"] = IntegerAttr(renumbered[inner.dim.value.data], i64)
            if not same_type:
                Rewriter.replace_value_with_new_type(op.results[0], kind)
            return op
        region = op.detach_region(0)
        generic = linalg.GenericOp.create(
            operands=operands, result_types=[kind], properties=properties, attributes=op.attributes, regions=[region]
        )
        generic.location = op.location
        self.block.insert_op_before(generic, op)
        op.results[0].replace_all_uses_with(generic.results[0])
        erase_op(op)
        return generic

    # --- initial values ------------------------------------------------------------------------------------

    def _begin(self, init: SSAValue, kind: TensorType[Any]) -> SSAValue:
        """The empty or filled tensor of this type for a result."""
        owner = init.owner
        assert isinstance(owner, Operation)
        if are_same(shape_of(init), kind.get_shape()):
            return init
        return self._fill(init, owner.operands[0], kind.get_shape(), owner) if owner.operands else self._empty(kind)

    def _empty(self, kind: Attribute) -> SSAValue:
        if kind not in self.empties:
            empty = tensor.EmptyOp.create(result_types=[kind])
            empty.location = self.before.location
            self.block.insert_op_before(empty, self.before)
            self.empties[kind] = empty.results[0]
        return self.empties[kind]

    def _fill(self, filled: SSAValue, constant: SSAValue, shape: Sequence[int], like: Operation) -> SSAValue:
        """A fill in the dtype of another one."""
        kind, dtype = _typed(filled, shape), dtype_of(filled)
        key = (constant, kind, dtype)
        if key not in self.fills:
            properties: dict[str, Attribute] = {"operandSegmentSizes": segments(1, 1)}
            operands = [constant, self._empty(kind)]
            fill = self._insert(linalg.FillOp, operands, kind, like, properties, [_identity(kind)], dtype)
            self.fills[key] = fill
        return self.fills[key]

    # --- operations ----------------------------------------------------------------------------------------

    def _reshape(self, value: SSAValue, shape: Shape, like: Operation) -> SSAValue:
        """``tensor.collapse_shape`` and ``tensor.expand_shape`` to a shape."""
        old = shape_of(value)
        if old == shape:
            return value
        key = (value, shape)
        if key in self.reshaped:
            return self.reshaped[key]
        pairs = groups(old, shape)
        middle = tuple(math.prod(old[i] for i in axes) for axes, _ in pairs)
        reshaped = value
        if len(middle) < len(old):
            properties: dict[str, Attribute] = {"reassociation": reassociation(tuple(axes for axes, _ in pairs))}
            reshaped = self._insert(tensor.CollapseShapeOp, [reshaped], _typed(value, middle), like, properties)
        if middle != shape:
            properties = {
                "reassociation": reassociation(tuple(axes for _, axes in pairs)),
                "static_output_shape": dense_integers(shape),
            }
            reshaped = self._insert(ExpandShapeOp, [reshaped], _typed(value, shape), like, properties)
        self.reshaped[key] = reshaped
        return reshaped

    def _insert(
        self, cls: type[Operation], operands: Sequence[SSAValue], kind: Attribute, like: Operation,
        properties: dict[str, Attribute], regions: Sequence[Region] = (), dtype: DType | None = None,
    ) -> SSAValue:  # fmt: skip
        """Insert an operation with another's location and operator, and its dtype unless it is a view."""
        op = new_op(cls, operands, [kind], properties, regions=regions)
        for inner in op.walk():
            inner.location = like.location
        OPERATOR.copy(like, op)
        if dtype is not None:
            note_dtype(op, dtype)
        self.block.insert_op_before(op, self.before)
        return op.results[0]


def _as_it_is(loops: OperandLoops, factors: Sequence[Shape]) -> bool:
    """Whether no loop is split, and reduction loops come last."""
    return max(map(len, factors), default=1) == 1 and loops.places[-1] == tuple(range(len(loops.places[-1])))


def _whole_of(value: SSAValue) -> SSAValue:
    """The value under a value's reshapes and slices."""
    while is_view_op(owner := value.owner) and not isinstance(owner, linalg.TransposeOp):
        value = owner.operands[0]
    return value


def _typed(value: SSAValue, shape: Sequence[int]) -> TensorType[Any]:
    """The tensor type of a shape with another tensor's elements."""
    kind: Any = value.type
    known = kind.get_shape()
    same = len(known) == len(shape) and all(map(is_same, known, shape))
    return kind if same else TensorType(kind.get_element_type(), shape)


def _identity(kind: TensorType[Any]) -> Region:
    """A body that yields its first argument."""
    element: Any = kind.get_element_type()
    block = Block(arg_types=[element, element])
    block.add_op(linalg.YieldOp.create(operands=[block.args[0]]))
    return Region(block)


# --- how finely loops are split, so that reshapes need no copies ------------------------------------------------------
#
# An axis of 1024 that one operation indexes as 8 x 128 has a cut at 128. Axes that several operations share have the
# same cuts: a loop and the axes of what it reads and writes, an axis before and after a transpose. A reshape ties the
# axis to the axes it collapses to. Contiguous memory (an argument, a call's result) can be reshaped at will, so
# it ties nothing but operations that read the same view; and the reduction loops of contractions are never split.


class Cuts:
    """Axes, constraints between them, and their cuts: the sizes of their inner parts.

    First add all axes and constraints, then ``settle``, then read ``factors``.
    """

    def __init__(self) -> None:
        self._parents: list[int] = []
        self._sizes: list[int] = []
        self._cuts: list[set[int]] = []
        self._ties: list[list[tuple[int, list[int]]]] = []  # of each class of equal axes
        self._tied: list[tuple[int, list[int]]] = []
        self._slices: list[tuple[int, int, int]] = []
        self._work: dict[int, None] = {}  # the worklist of axes whose cuts are to be propagated

    def axis(self, size: int) -> int:
        """A new axis."""
        self._parents.append(len(self._parents))
        self._sizes.append(size)
        self._cuts.append(set())
        self._ties.append([])
        return len(self._parents) - 1

    def size(self, axis: int) -> int:
        """The number of elements along an axis."""
        return self._sizes[axis]

    def _find(self, axis: int) -> int:
        while self._parents[axis] != axis:
            self._parents[axis] = axis = self._parents[self._parents[axis]]
        return axis

    def same(self, a: int, b: int) -> None:
        """Constrain two axes to share their cuts (union-find)."""
        a, b = self._find(a), self._find(b)
        if a == b:
            return
        if len(self._ties[a]) < len(self._ties[b]):
            a, b = b, a
        self._parents[b] = a
        self._ties[a] += self._ties[b]

    def stands_for(self, axis: int, parts: list[int]) -> None:
        """Constrain an axis to have a cut between neighbours of its parts, and their cuts."""
        if len(parts) == 1:
            self.same(axis, parts[0])
            return
        tie = (axis, parts)
        for root in {self._find(i) for i in (axis, *parts)}:
            self._ties[root].append(tie)
        self._tied.append(tie)

    def part_of(self, part: int, axis: int, begin: int) -> None:
        """Constrain an axis that is a slice of another: it has the cuts where it begins and ends."""
        self._slices.append((part, axis, begin))

    def _cut(self, axis: int, cut: int) -> None:
        """Cut an axis, unless that conflicts with its other cuts; then the reshape stays."""
        axis = self._find(axis)
        cuts, size = self._cuts[axis], self._sizes[axis]
        # Compared one by one: symbolic sizes that turn out to be equal may have been hashed while they were not.
        if not 1 < cut < size or any(cut == c for c in cuts):
            return
        if size % cut == 0 and all(cut % c == 0 or c % cut == 0 for c in cuts):
            cuts.add(cut)
            self._work[axis] = None

    def settle(self) -> None:
        """Propagate the cuts along all constraints, to a fixed point."""
        for tie in self._tied:
            self._pass_on(*tie)
        self._slice()
        while self._work:
            while self._work:
                axis = next(iter(self._work))
                del self._work[axis]
                for tie in self._ties[axis]:
                    self._pass_on(*tie)
            self._slice()

    def _slice(self) -> None:
        for part, axis, begin in self._slices:
            for cut in tuple(self._cuts[self._find(axis)]):
                if begin % cut == 0 and self._sizes[part] % cut == 0:
                    self._cut(part, cut)

    def _pass_on(self, axis: int, parts: list[int]) -> None:
        inner = math.prod(self._sizes[p] for p in parts)
        known = tuple(self._cuts[self._find(axis)])
        for part in parts:
            size = self._sizes[part]
            inner //= size
            self._cut(axis, inner)
            for cut in tuple(self._cuts[self._find(part)]):
                self._cut(axis, cut * inner)
            for cut in known:
                if inner < cut < inner * size and cut % inner == 0:
                    self._cut(part, cut // inner)

    def factors(self, axis: int) -> Shape:
        """The sizes into which an axis is split."""
        ends = [self._sizes[axis], *sorted(self._cuts[self._find(axis)], reverse=True), 1]
        return tuple(a // b for a, b in itertools.pairwise(ends))


class Cutting:
    """The cuts of all loops of a block."""

    def __init__(self, block: Block, loops: dict[Operation, OperandLoops]) -> None:
        self.loops = loops
        self.cuts = Cuts()
        self.axes: dict[SSAValue, Sequence[int]] = {}  # of values that need not be contiguous
        self.of_loops: dict[Operation, list[int]] = {}
        self.read = self._read(block)
        for op in block.ops:
            self._tie(op)
        self.cuts.settle()

    def factors(self, op: Operation) -> list[Shape]:
        """The sizes into which each loop of an operation is split."""
        loops = self.loops[op]
        if loops.knows_places:
            return [(n,) for n in loops.sizes]
        nodes = self.of_loops[op]
        return [self.cuts.factors(nodes[i]) if loops.cuttable(i) else (n,) for i, n in enumerate(loops.sizes)]

    def _read(self, block: Block) -> set[SSAValue]:
        """Values that loops read, directly or through views."""
        read: set[SSAValue] = set()
        for op in reversed(list(block.ops)):
            if op in self.loops:
                read.update(op.operands)
            elif is_view_op(op) and op.results[0] in read:
                read.add(op.operands[0])
        return read

    def _new(self, value: SSAValue) -> list[int]:
        return [self.cuts.axis(n) for n in shape_of(value)]

    def _tie(self, op: Operation) -> None:
        if op in self.loops and not self.loops[op].knows_places:
            self._loops(op, self.loops[op])
            return
        if not is_view_op(op):
            return
        source, result = op.operands[0], op.results[0]
        axes = self.axes.get(source)
        match op:
            case linalg.TransposeOp():
                order = integers_of(op.permutation)
                self.axes[result] = self._new(result) if axes is None else [axes[i] for i in order]
            case tensor.ExtractSliceOp():
                self._slice(op, source, result)
            case tensor.CollapseShapeOp() | tensor.ExpandShapeOp() if axes is not None:
                self.axes[result] = new = self._new(result)
                collapse = isinstance(op, tensor.CollapseShapeOp)
                if collapse or result in self.read:
                    self._reshape(groups_of(op), *((new, axes) if collapse else (axes, new)))
            case _ if sum(use.operation in self.loops for use in result.uses) > 1:  # they may become one kernel
                self.axes[result] = self._new(result)
            case _:  # a reshape of contiguous memory
                pass

    def _loops(self, op: Operation, loops: OperandLoops) -> None:
        nodes = [self.cuts.axis(n) for n in loops.sizes]
        self.of_loops[op] = nodes
        for value, places in zip(op.operands, loops.places[:-1], strict=False):
            axes = self.axes.get(value)
            for axis, loop in zip(axes or (), places, strict=False):
                if loops.cuttable(loop):
                    self.cuts.same(axis, nodes[loop])
        self.axes[op.results[0]] = [nodes[loop] for loop in loops.places[-1]]

    def _slice(self, op: tensor.ExtractSliceOp, source: SSAValue, result: SSAValue) -> None:
        old, new = shape_of(source), shape_of(result)
        axes = self.axes.get(source)
        rows = are_same(old[1:], new[1:]) and integers_of(op.static_strides)[:1] == (1,)
        if axes is None and rows:  # some rows of a contiguous array are contiguous
            return
        fresh = self._new(result)
        offsets, steps = integers_of(op.static_offsets), integers_of(op.static_strides)
        for i, axis in enumerate(axes or ()):
            if is_same(old[i], new[i]):
                fresh[i] = axis
            elif steps[i] == 1:
                self.cuts.part_of(fresh[i], axis, offsets[i])
        self.axes[result] = fresh

    def _reshape(self, groups: list[list[int]], whole: Sequence[int], parts: Sequence[int]) -> None:
        for axis, group in zip(whole, groups, strict=True):
            wide = [parts[i] for i in group if self.cuts.size(parts[i]) != 1]
            if wide:
                self.cuts.stands_for(axis, wide)
