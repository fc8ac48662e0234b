"""The layouts of images in a planned function: how many arrays keep channels last, and which kernels transpose.

Windows slide along the axes of an image and not over its channels: what is read at sums of axes tells them apart. Where
the elements next to each other in memory differ in another axis than these, channels come last. Operations that visit
two arrays along the same axes pass this on: arrays whose neighbours differ in the same axis have one layout; a kernel
between others transposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from xdsl.dialects import func
from xdsl.ir import SSAValue

from hybridc.dialects.mlir.graph_notes import PREPARATION
from hybridc.dialects.mlir.hybrid_rt import AliasOp, LaunchOp, aliased
from hybridc.dialects.operator_attribute import Shape
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import AffineIndex, Place, row_major
from hybridc.ir.kernels.kernel import Kernel, KernelValue
from hybridc.ir.kernels.kernel_module import KernelFunction
from hybridc.ir.structured import shape_of

LISTED = 3  # so many transposing kernels are named


def described_layouts(function: func.FuncOp, called: Mapping[str, func.FuncOp]) -> str:
    """A line on the layouts of a planned function's images; "" if no windows slide over any."""
    return str(layouts_of(function, called) or "")


@dataclass(frozen=True)
class Layouts:
    """How many arrays of images there are, in how many channels come last, and the launches that transpose one."""

    arrays: int
    channels_last: int
    transposing: tuple[str, ...]

    def __str__(self) -> str:
        names = dict.fromkeys(self.transposing)
        listed = ", ".join([*names][:LISTED]) + ", …" * (len(names) > LISTED)
        count = len(self.transposing)
        return (
            f"channels last: {self.channels_last} of {self.arrays} arrays of images; "
            f"{count} kernel{'s transpose' if count != 1 else ' transposes'}" + f" ({listed})" * bool(count)
        )


_Array = (
    SSAValue | tuple[int, KernelValue]
)  # an array of the plan, or one that a launch's loop nests make for each other


class _Visit(NamedTuple):
    """An array that a loop nest visits: the axes along which its neighbours in memory lie, and all its axes."""

    array: _Array
    neighbours: frozenset[int]
    axes: frozenset[int]


def layouts_of(function: func.FuncOp, called: Mapping[str, func.FuncOp]) -> Layouts | None:
    """The layouts of a planned function's images after its preparation; None if no windows slide over any."""
    launches = [op for op in function.body.block.ops if isinstance(op, LaunchOp) and not PREPARATION.of(op)]
    names = dict.fromkeys(op.kernel.string_value() for op in launches)
    kernels = {name: f.kernel for name in names if isinstance(f := called[name], KernelFunction)}
    if not any(map(_has_windows, kernels.values())):
        return None
    layouts = _Layouts(function.sym_name.data == "forward")
    strides: dict[SSAValue, Shape] = {}
    for position, op in enumerate(function.body.block.ops):
        if isinstance(op, AliasOp):
            shape = shape_of(op.array)
            seen = op.strides(shape, strides.get(op.array, row_major(shape)))
            strides[op.result] = row_major(shape_of(op.result)) if seen is None else seen
        if not isinstance(op, LaunchOp) or PREPARATION.of(op) or op.kernel.string_value() not in kernels:
            continue  # it is not run at every call, or on the host
        kernel = kernels[op.kernel.string_value()]
        arrays = dict(zip((*kernel.arguments, *kernel.results), (*op.ins, *op.outs), strict=True))
        layouts.visit(position, kernel, arrays, strides)
    return layouts.settled()


def _has_windows(kernel: Kernel) -> bool:
    """Whether a kernel reads an operand through sliding windows."""
    return any(_sliding(place) for nest in kernel.nests for op in nest.ops for r in op.reads for place in r.index)


@dataclass
class _Layouts:
    """What is known of arrays: whether channels are last, and which have the same layout, or another one."""

    forward: bool
    known: dict[_Array, bool] = field(default_factory=lambda: dict[_Array, bool]())
    same: list[tuple[_Visit, _Visit]] = field(default_factory=lambda: list[tuple[_Visit, _Visit]]())
    transposed: list[tuple[_Visit, _Visit, int, str]] = field(
        default_factory=lambda: list[tuple[_Visit, _Visit, int, str]]()
    )

    def visit(
        self, position: int, kernel: Kernel, arrays: Mapping[KernelValue, SSAValue], strides: Mapping[SSAValue, Shape]
    ) -> None:
        """Note what the loop nests of a launch tell. What stays inside a nest has no layout."""
        makers = {op.result: nest.position for nest in kernel.nests for op in nest.ops}
        reading = [(n.position, r.value) for n in kernel.nests for op in n.ops for r in op.reads]
        elsewhere = [{v for n, v in reading if n != nest.position} for nest in kernel.nests]

        def visited(value: KernelValue, places: Sequence[Place | None]) -> _Visit:
            array, shape = arrays.get(value), value.shape
            steps = row_major(shape) if array is None else strides.get(array, row_major(shape))
            dims = [(_axes_in(p), s) for p, s, n in zip(places, steps, shape, strict=True) if n > 1]
            near, _ = min(dims, key=lambda dim: dim[1], default=(frozenset[int](), 0))
            wide = frozenset[int]().union(*[axes for axes, _ in dims])
            return _Visit((position, value) if array is None else aliased(array), near, wide)

        for nest in kernel.nests:
            read: list[_Visit] = []
            written: list[_Visit] = []
            sliding = {a for op in nest.ops for r in op.reads for place in r.index for a in _sliding(place)}
            for op in nest.ops:
                reads: list[tuple[KernelValue, Sequence[Place | None]]] = [(r.value, r.places) for r in op.reads]
                reads += op.extracts
                outer = [r for r in reads if r[0] in arrays or makers.get(r[0], nest.position) != nest.position]
                read += [visited(value, places) for value, places in outer]
                if op.result in arrays or op.result in elsewhere[nest.position]:
                    written.append(visited(op.result, op.axes))
                for visit in (visited(r.value, r.index) for r in op.reads if any(map(_sliding, r.index))):
                    if visit.axes - sliding:
                        self.known[visit.array] = not visit.neighbours & sliding
            for visit in written if self.forward and sliding else ():  # in a forward windows are summed, never written
                if visit.axes & sliding and visit.axes - sliding:
                    self.known[visit.array] = not visit.neighbours & sliding
            self._note(position, kernel.name, read, written)

    def _note(self, position: int, name: str, read: list[_Visit], written: list[_Visit]) -> None:
        for one in read:
            for two in written:
                if one.axes == two.axes and len(one.axes) > 1 and len(one.neighbours) == len(two.neighbours) == 1:
                    if one.neighbours == two.neighbours:
                        self.same.append((one, two))
                    else:
                        self.transposed.append((one, two, position, name))

    def settled(self) -> Layouts | None:
        """All that follows."""
        if not self.known:
            return None
        before = -1
        while before < len(self.known):
            before = len(self.known)
            for one, two in self.same:
                for a, b in ((one.array, two.array), (two.array, one.array)):
                    if a in self.known:
                        self.known.setdefault(b, self.known[a])
            for one, two, _, _ in self.transposed:
                for a, b in ((one.array, two.array), (two.array, one.array)):
                    if self.known.get(a):
                        self.known.setdefault(b, False)
        launches = {position: name for one, two, position, name in self.transposed if self._differ(one, two)}
        arrays = [last for array, last in self.known.items() if isinstance(array, SSAValue)]
        return Layouts(len(arrays), sum(arrays), tuple(launches.values()))

    def _differ(self, one: _Visit, two: _Visit) -> bool:
        return one.array in self.known and two.array in self.known and self.known[one.array] != self.known[two.array]


def _axes_in(place: Place | None) -> frozenset[int]:
    """The axes in an index."""
    if place is None:
        return frozenset()
    return frozenset((place,)) if isinstance(place, int) else frozenset(a for a, _ in place.terms)


def _sliding(place: AffineIndex) -> tuple[int, ...]:
    """The axes of an index that is not one axis alone: windows slide along them, or they are those of windows."""
    axes = tuple([a for a, _ in place.terms])
    return axes if len(axes) > 1 or any(factor != 1 for _, factor in place.terms) else ()
