"""Convolve with kernels of three elements by Winograd's algorithm (Lavin and Gray 2015, arXiv 1509.09308).

Along an axis, F(m, 3) makes m results of m + 2 elements with m + 2 multiplications instead of 3 m:

    y = A^T ((G w) * (B^T x))

and along two axes with (m + 2)^2 instead of 9 m^2: 2.25 times fewer with m = 2, 4 times fewer with m = 4. Transforms
are linear maps, each a kernel; between them is a contraction over the channels, for each
of the (m + 2)^2 points. A contraction is rewritten where the cost model expects less time.

Rounding errors are some units in the last place of the largest result: twice as many as without with m = 2, and about
ten times with m = 4. Where an element is NaN or infinite, all results of tiles that read it may be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import arith, func, tensor
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.dialects.mlir.graph_notes import OPERATOR
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.machine import NOMINAL
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, Place, are_same, is_size, keep_loop
from hybridc.ir.concatenated import unshaped
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.kernels.grid_kernel import is_worth_tiling
from hybridc.ir.structured import affine_operands, dtype_of, loop_sizes, number_of, places_of, root, shape_of
from hybridc.ir.structured_builder import Builder, Tensor, first
from hybridc.ir.values import functions
from hybridc.transforms.memory.hoist_preparation import prepared_values
from hybridc.transforms.schedules.loop_machine import Registers
from hybridc.transforms.schedules.schedule_register_tiles import RegisterTile
from hybridc.transforms.structured.axis_labels import AxisLabels
from hybridc.transforms.structured.fuse_kernels import KernelOutliner
from hybridc.transforms.structured.outlined_kernel import OutlinedKernel

Matrix = np.ndarray[Any, Any]
# Elements of a kernel along an axis, the most axes that are transformed, and the least results along one.
TAPS, MOST_AXES, LEAST = 3, 2, 8
# Costs in picoseconds: whole numbers, as sizes may be free.
_FLOP, _BYTE, _FAR_BYTE = (round(1000 * n) for n in (NOMINAL.costs.flop, NOMINAL.costs.byte, NOMINAL.costs.far_byte))


@dataclass(frozen=True, eq=False)
class Transforms:
    """F(m, 3): the matrices of data, weights and results, for ``results`` elements at a time."""

    results: int
    data: Matrix
    weights: Matrix
    back: Matrix

    @property
    def points(self) -> int:
        """Multiplications along an axis."""
        return self.results + TAPS - 1


def transforms(points: Sequence[float]) -> Transforms:
    """The transforms by products of polynomials at these points and at infinity (Toom and Cook)."""
    count = len(points) + 1
    results = count - TAPS + 1
    data, weights, back = np.zeros((count, count)), np.zeros((count, TAPS)), np.zeros((results, count))
    for row, point in enumerate(points):
        # Pairs first: so the factors of opposite points are equal to the bit, but for their signs.
        others = sorted((p for i, p in enumerate(points) if i != row), key=lambda p: -p == point or -p not in points)
        data[row, : count - 1] = np.poly(others)[::-1]
        weights[row] = point ** np.arange(TAPS) / math.prod(point - p for p in others)
        back[:, row] = point ** np.arange(results)
    data[-1] = np.poly(points)[::-1]
    weights[-1, -1] = back[-1, -1] = 1
    return Transforms(results, data, weights, back)


# Factors near 1 round least: of four points beside 0, those of 1 and 2 lose four times as much.
F2, F4 = transforms((0, 1, -1)), transforms((0, math.sqrt(0.5), -math.sqrt(0.5), math.sqrt(2), -math.sqrt(2)))
CHOICES = (F2, F4)


@dataclass(frozen=True)
class Winograd(ModulePass):
    """See the module's docstring; ``registers`` hold vectors of so many ``bytes``; without any it does nothing."""

    name = "winograd"
    needs: ClassVar[Needs] = frozenset((Fact.WINDOWS,))

    bytes: int = 32
    registers: int = 16

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not self.registers:
            return
        vectors = Registers(self.bytes, self.registers)
        outliner = KernelOutliner(op)
        for function in functions(op):
            if function.sym_visibility is not None or not function.body.blocks:
                continue
            prepared = prepared_values(function)
            for candidate in list(function.body.block.ops):
                convolution = _convolution(candidate) if isinstance(candidate, linalg.GenericOp) else None
                if convolution is None:
                    continue
                chosen = convolution.chosen(vectors, root(convolution.weights) in prepared)
                if chosen is not None:
                    _Rewriter(convolution, chosen, RegisterTile(convolution.dtype, vectors), outliner, function).run()


# --- what can be rewritten --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pair:
    """An axis of data, which is read at the sum of a loop of the result and one over a kernel's three elements.

    ``dim`` and ``place`` are the dimensions of data and result. The weight's elements may be ``backwards``.
    """

    dim: int
    place: int
    tap: int
    backwards: bool


@dataclass(frozen=True)
class _Convolution:
    """A contraction of an affine read of ``data`` with a ``weight``.

    ``pairs`` are the axes that can be transformed, ``channel`` and ``column`` the dimensions of the weight whose loops
    are summed and the result's last.
    """

    op: linalg.GenericOp
    data: int
    index: tuple[AffineIndex, ...]
    weight: int
    weight_index: tuple[AffineIndex, ...]
    result: tuple[int, ...]
    sizes: Shape
    pairs: tuple[_Pair, ...]
    channel: int
    column: int

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of all arrays."""
        return dtype_of(self.op.results[0])

    @property
    def weights(self) -> SSAValue:
        """The weight's array."""
        return self.op.operands[self.weight]

    def chosen(self, registers: Registers, prepared: bool) -> Transforms | None:
        """The fastest transforms, or None where multiplying as it is takes no longer.

        If they are ``prepared``, weights are not transformed in each call.
        """
        tile = RegisterTile(self.dtype, registers)
        columns, channels = (shape_of(self.weights)[d] for d in (self.column, self.channel))
        if columns % tile.fitting(columns).width or channels % tile.lanes:
            return None
        times = {choice: self._time(choice, prepared) for choice in CHOICES}
        best = min(times, key=times.__getitem__)
        return best if times[best] < 2 * math.prod(self.sizes) * _FLOP else None

    def _time(self, choice: Transforms, prepared: bool) -> int:
        """Picoseconds with these transforms, in vector registers."""
        itemsize = self.dtype.itemsize
        columns, channels = (shape_of(self.weights)[d] for d in (self.column, self.channel))
        tiles, others = 1, 1
        places = {pair.place for pair in self.pairs}
        for place, loop in enumerate(self.result[:-1]):
            tiles *= -(-self.sizes[loop] // choice.results) if place in places else self.sizes[loop]
        taps = {loop for pair in self.pairs for loop, _ in self.weight_index[pair.tap].terms}
        others = math.prod(n for loop, n in enumerate(self.sizes) if loop not in {*self.result, *taps}) // channels
        points = choice.points ** len(self.pairs)
        products = 2 * points * tiles * columns * channels * others * _FLOP
        # Arrays between kernels are written and read; prepared ones come from far away.
        between = 2 * points * tiles * (columns + channels) * itemsize * _BYTE
        weights = points * columns * channels * others * itemsize
        return products + between + weights * (_FAR_BYTE if prepared else 2 * _BYTE)


def _convolution(op: linalg.GenericOp) -> _Convolution | None:
    """A contraction that can be rewritten: of affine reads and plain ones, into a result whose last axis is columns."""
    affine, places = affine_operands(op), places_of(op)
    if len(op.inputs) != 2 or not affine or not _multiplies(op) or number_of(op.operands[-1]) != 0:
        return None
    index = [affine.get(i) or tuple(AffineIndex(((a, 1),)) for a in places[i]) for i in range(2)]
    data = next((i for i in range(2) if any(len(axis.terms) == 2 for axis in index[i])), None)
    result, sizes = places[-1], loop_sizes(op, places)
    if data is None or len(result) < 2:
        return None
    read, weight_index = index[data], index[1 - data]
    taps = {axis.terms[0][0]: dim for dim, axis in enumerate(weight_index) if len(axis.terms) == 1}
    pairs = _pairs(read, weight_index, taps, result, sizes)
    last = read[-1].terms[0][0]
    channel, column = taps.get(last), taps.get(result[-1])
    if not pairs or channel is None or column is None or len(taps) < len(weight_index) or len(read[-1].terms) > 1:
        return None
    # The weight has the result's columns and no other of its loops; the data has its other ones, and not these.
    rows = {loop for axis in read for loop, _ in axis.terms}
    if {*taps} & {*result} != {result[-1]} or result[-1] in rows or last in result:
        return None
    transformed = {pair.tap for pair in pairs}
    rest = [axis for axis in read if len(axis.terms) == 1]
    rest += [axis for dim, axis in enumerate(weight_index) if dim not in transformed]
    if any(axis.terms[0][1] != 1 or axis.offset for axis in rest):
        return None
    return _Convolution(op, data, read, 1 - data, weight_index, result, sizes, tuple(pairs), channel, column)


def _pairs(
    read: Sequence[AffineIndex],
    weight_index: Sequence[AffineIndex],
    taps: Mapping[int, int],
    result: tuple[int, ...],
    sizes: Shape,
) -> list[_Pair]:
    """The axes that can be transformed, if all are read in a way that can be left; ``taps`` are the weight's loops."""
    pairs: list[_Pair] = []
    for dim, axis in enumerate(read):
        if len(axis.terms) == 1:
            continue
        if len(axis.terms) != 2 or axis.offset:
            return []
        (row, one), (tap, other) = sorted(axis.terms, key=lambda term: term[0] not in result)
        if row not in result or tap in result or tap not in taps:
            return []
        factor = weight_index[taps[tap]].terms[0][1]
        if sizes[tap] == TAPS and one == other == abs(factor) == 1 and sizes[row] >= LEAST:
            pairs.append(_Pair(dim, result.index(row), taps[tap], factor < 0))
    return pairs[-MOST_AXES:]


def _multiplies(op: linalg.GenericOp) -> bool:
    """Whether the body is a multiply-add in single or double precision."""
    dtypes = {dtype_of(v) for v in (*op.inputs, op.results[0])}
    steps = [type(step) for step in op.body.block.ops]
    return steps == [arith.MulfOp, arith.AddfOp, linalg.YieldOp] and dtypes in (
        {np.dtype(np.float32)},
        {np.dtype(np.float64)},
    )


# --- the rewrite ------------------------------------------------------------------------------------------------------


class _Rewriter:
    """Rewrites one contraction."""

    def __init__(
        self,
        convolution: _Convolution,
        transforms: Transforms,
        tile: RegisterTile,
        outliner: KernelOutliner,
        function: func.FuncOp,
    ) -> None:
        self.convolution, self.by, self.outliner, self.function = convolution, transforms, outliner, function
        self.block = Block()
        self.builder = builder = Builder(self.block)
        builder.location = convolution.op.location
        name = OPERATOR.of(convolution.op)
        self.operator = "convolution" if name is None else name
        self.matrices: list[SSAValue] = []
        self.axes = len(convolution.pairs)
        loops = {pair.place: convolution.result[pair.place] for pair in convolution.pairs}
        self.tiles = {place: -(-convolution.sizes[loop] // transforms.results) for place, loop in loops.items()}
        self.ends = self._ends()
        weight = convolution.weights
        self.width = tile.fitting(shape_of(weight)[convolution.column]).width

    def run(self) -> None:
        """Replace the operation."""
        op = self.convolution.op
        data, weights = self._data(), self._weights()
        products = self._products(data, weights)
        mapped = self._results(products)
        reshaped = self._in_shape(mapped)
        ops = list(self.block.ops)
        for new_op in ops:
            new_op.detach()
        Rewriter.insert_op(ops, InsertPoint.before(op))
        value = reshaped.value
        value.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(value)
        erase_op(op)
        into, forward, back = (cast(Operation, x.value.owner) for x in (weights, data, mapped))
        self._outline("weights_of", [into])
        if not self._outline("winograd", [forward, cast(Operation, products.value.owner), back]):
            self._outline("data_of", [forward])
            self._outline("results_of", [back])

    def _ends(self) -> dict[int, int]:
        """Where the tiles of each transformed axis of the result end.

        If one kernel makes all of it, that takes an epilogue where they end with the result, so it is asked whether
        they do. Nothing else is made in another way there: sizes that tiles exceed have the same kernels as others.
        """
        convolution, most = self.convolution, self.by.results
        rows = [(place, convolution.sizes[loop]) for place, loop in enumerate(convolution.result[:-1])]
        asks = is_worth_tiling(math.prod(self.tiles.get(place, size) for place, size in rows))
        ends = {place: (size, self.tiles[place] * most) for place, size in rows if place in self.tiles}
        return {place: size if asks and size == end else end for place, (size, end) in ends.items()}

    def _tensor(self, value: SSAValue) -> Tensor:
        return self.builder.tensor(value, shape_of(value), self.convolution.dtype)

    # --- transforms ----------------------------------------------------------------------------------------

    def _map(
        self, title: str, x: Tensor, index: tuple[Place, ...], shape: Shape, matrices: list[tuple[Matrix, int]]
    ) -> Tensor:
        """A linear map: of ``matrices``, each with the loop of the result that its rows follow.

        Loops after those of the result are summed: those of the matrices' columns, in order.
        """
        builder, dtype = self.builder, self.convolution.dtype
        builder.operator = f"{self.operator}_{title}"
        inputs: list[tuple[SSAValue, tuple[Place, ...], Any]] = [(x.value, index, dtype)]
        for position, (matrix, row) in enumerate(matrices):
            inputs.append((self._matrix(matrix), (row, len(shape) + position), dtype))

        def body(_: Any, element: Any, *rest: Any) -> Any:
            *factors, sofar = rest
            for factor in factors:
                element = element * factor
            return sofar + element

        out, loops = Tensor(shape, dtype, builder), len(shape) + len(matrices)
        return builder.generic(inputs, out, body, loops, tuple(range(len(shape))), builder.start(shape, dtype, 0.0))

    def _matrix(self, numbers: Matrix) -> SSAValue:
        self.matrices.append(self.builder.matrix(numbers, self.convolution.dtype))
        return self.matrices[-1]

    def _outline(self, name: str, ops: Sequence[Operation]) -> bool:
        """Make a kernel of operations, each a loop nest, which has their matrices inside; whether that is possible."""
        of: dict[SSAValue, SSAValue] = {}
        copies: list[Operation] = []
        for op in ops:
            copies.append(op.clone(of))
            copies[-1].location = op.location
            of[op.results[0]] = copies[-1].results[0]
        for copy in copies:
            Rewriter.insert_op(copy, InsertPoint.before(ops[-1]))
        last, nests = ops[-1].results[0], [([copy], copy) for copy in copies]
        kernel = OutlinedKernel.of(
            f"{name}_{self.operator}", AxisLabels(copies), nests, [of[last]], [last], {*ops}, self.matrices
        )
        if kernel is None or (len(ops) > 1 and not is_worth_tiling(kernel.kernel.grid_size)):
            for copy in reversed(copies):
                if copy.parent is self.function.body.block:
                    erase_op(copy)
            return False
        kernel.call(self.outliner, self.function)
        for op in reversed(ops):
            erase_op(op)
        return True

    def _data(self) -> Tensor:
        """The data's transform: (the data's axes, of which pairs are tiles, points…, channels)."""
        convolution, by = self.convolution, self.by
        x = self._tensor(convolution.op.operands[convolution.data])
        wanted = list(x.shape)
        for pair in convolution.pairs:
            wanted[pair.dim] = self.ends[pair.place] + TAPS - 1
        x = self._filled_up(x, tuple(wanted))
        pairs = {pair.dim: position for position, pair in enumerate(convolution.pairs)}
        rows, channels = x.shape[:-1], x.shape[-1]
        shape = (
            *(self.tiles[convolution.pairs[pairs[dim]].place] if dim in pairs else n for dim, n in enumerate(rows)),
            *[by.points] * self.axes,
            channels,
        )
        index: list[Place] = [*range(len(rows)), len(shape) - 1]
        for dim, position in pairs.items():
            index[dim] = AffineIndex(((dim, by.results), (len(shape) + position, 1)))
        return self._map("data", x, tuple(index), shape, [(by.data, len(rows) + a) for a in range(self.axes)])

    def _filled_up(self, x: Tensor, wanted: Shape) -> Tensor:
        """The data with zeros beyond the end, so that all tiles are whole.

        A concatenation, as of a border and what is in it, has one more of a free number, so that there are always some.
        """
        self.builder.operator = "pad"
        joined = isinstance(unshaped(x.value).owner, tensor.ConcatOp)
        for axis, size in enumerate(wanted):
            missing = size - x.shape[axis]
            if joined and is_size(missing):
                missing = keep_loop(missing + 1)
            elif missing <= 0:
                continue
            shape = (*x.shape[:axis], missing, *x.shape[axis + 1 :])
            x = self.builder.concat([x, self.builder.fill(shape, x.dtype, 0.0)], axis)
        return self.builder.slice(x, [0] * len(wanted), [1] * len(wanted), wanted)

    def _weights(self) -> Tensor:
        """The weight's transform: (points…, panels, other taps…, channels, a panel's columns)."""
        convolution, by, builder = self.convolution, self.by, self.builder
        w = self._tensor(convolution.weights)
        builder.operator = f"{self.operator}_weights"
        rank = len(w.shape)
        order = [d for d in range(rank) if d != convolution.column] + [convolution.column]
        moved = w
        if convolution.column == 0 and order != list(range(rank)):
            flat = builder.reshape(w, (w.shape[0], math.prod(w.shape[1:])))
            moved = builder.reshape(builder.transpose(flat, (1, 0)), tuple(w.shape[d] for d in order))
        elif order != list(range(rank)):
            moved = builder.transpose(w, order)
        columns = w.shape[convolution.column]
        moved = builder.reshape(moved, (*moved.shape[:-1], columns // self.width, self.width))
        taps = [pair.tap for pair in convolution.pairs]
        others = [d for d in range(rank) if d not in (convolution.column, convolution.channel, *taps)]
        # The loops of the result: points, panels, other taps, channels, columns.
        shape = (
            *[by.points] * self.axes,
            columns // self.width,
            *(w.shape[d] for d in (*others, convolution.channel)),
            self.width,
        )
        loop: dict[int, int] = {d: self.axes + 1 + i for i, d in enumerate((*others, convolution.channel))}
        loop |= {d: len(shape) + i for i, d in enumerate(taps)}
        index: tuple[Place, ...] = (*(loop[d] for d in order[:-1]), self.axes, len(shape) - 1)
        matrices = [by.weights[:, ::-1] if pair.backwards else by.weights for pair in convolution.pairs]
        return self._map("weights", moved, index, shape, [(matrix, a) for a, matrix in enumerate(matrices)])

    # --- between them --------------------------------------------------------------------------------------

    def _products(self, data: Tensor, weights: Tensor) -> Tensor:
        """The contraction over channels: (the result's axes, of which pairs are tiles, points…, panels, columns)."""
        convolution, builder = self.convolution, self.builder
        builder.operator = self.operator
        rows = convolution.result[:-1]
        points = tuple(range(len(rows), len(rows) + self.axes))
        loop = {r: i for i, r in enumerate(rows)}
        panel = len(rows) + self.axes
        kept = panel + 2
        shape = (
            *(self.tiles.get(i, convolution.sizes[r]) for i, r in enumerate(rows)),
            *[self.by.points] * self.axes,
            weights.shape[self.axes],
            self.width,
        )
        taps = {loop for pair in convolution.pairs for loop, _ in convolution.weight_index[pair.tap].terms}
        summed = [a for a in range(len(convolution.sizes)) if a not in convolution.result and a not in taps]
        loop |= {a: kept + i for i, a in enumerate(summed)}
        pairs = {pair.dim: pair for pair in convolution.pairs}
        read: list[Place] = []
        for dim, axis in enumerate(convolution.index):
            if dim in pairs:
                read.append(loop[rows[pairs[dim].place]])
            elif len(axis.terms) == 1:
                read.append(loop[axis.terms[0][0]])
            else:
                read.append(axis.renamed(loop.__getitem__))
        apart = (convolution.channel, convolution.column)
        own = [axis for dim, axis in enumerate(convolution.weight_index) if dim not in apart]
        others = [a for axis in own for a, _ in axis.terms if a not in taps]
        (channel,) = (a for a, _ in convolution.weight_index[convolution.channel].terms)
        inputs: list[tuple[SSAValue, tuple[Place, ...], Any]] = [
            (data.value, (*read[:-1], *points, read[-1]), convolution.dtype),
            (weights.value, (*points, panel, *(loop[a] for a in others), loop[channel], panel + 1), convolution.dtype),
        ]

        def body(_: Any, x: Any, y: Any, sofar: Any) -> Any:
            return sofar + x * y

        out = Tensor(shape, convolution.dtype, builder)
        start = builder.start(shape, convolution.dtype, 0.0)
        return builder.generic(inputs, out, body, kept + len(summed), tuple(range(kept)), start)

    def _results(self, products: Tensor) -> Tensor:
        """The result of the products' transform."""
        convolution, by = self.convolution, self.by
        pairs = {pair.place: position for position, pair in enumerate(convolution.pairs)}
        tiles, (panels, width) = products.shape[: -2 - self.axes], products.shape[-2:]
        shape: list[int] = []
        index: list[Place] = []
        rows: list[tuple[Matrix, int]] = []
        for place, size in enumerate(tiles):
            index.append(len(shape))
            shape.append(size)
            if place in pairs:
                rows.append((by.back, len(shape)))
                shape.append(by.results)
        shape += [panels, width]
        index += [*range(len(shape), len(shape) + self.axes), len(shape) - 2, len(shape) - 1]
        return self._map("results", products, tuple(index), tuple(shape), rows)

    def _in_shape(self, mapped: Tensor) -> Tensor:
        """The result without what is beyond its end."""
        convolution, builder = self.convolution, self.builder
        builder.operator = self.operator
        wanted = shape_of(convolution.op.results[0])
        whole = tuple([self.ends.get(place, size) for place, size in enumerate(wanted)])
        reshaped = builder.reshape(mapped, whole)
        if are_same(whole, wanted):
            return reshaped
        part = builder.slice(reshaped, [0] * len(wanted), [1] * len(wanted), wanted)
        # What reads a part may be a view, for which it has to be contiguous; elementwise readers take it in.
        return builder.map([part], Tensor(wanted, convolution.dtype, builder), first)
