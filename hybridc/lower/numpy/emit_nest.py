"""One loop nest of a kernel as lines of NumPy: a contraction on whole arrays, then its steps on tiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hybridc.dialects.math.reduction import LONG_COLUMN
from hybridc.dialects.operator_attribute import Shape
from hybridc.ir.kernels.kernel import Axes
from hybridc.ir.tiles.tile_program import TileProgram
from hybridc.lower.numpy.array_steps import Given, KernelSteps, NestSteps, StepOperand, StepValue, UfuncStep
from hybridc.lower.numpy.ufuncs import python_literal, ufunc_neutral


@dataclass(frozen=True)
class TileLoops:
    """The loops of a program over ``dims``, its axes.

    ``loop`` outer axes are iterated one by one, axis ``loop`` in blocks of ``block``, the rest is one tile; if
    ``flat``, everything is.
    """

    flat: bool
    dims: Shape
    loop: int = 0
    block: int = 1

    @classmethod
    def of(cls, program: TileProgram) -> TileLoops:
        """Those of a program."""
        sizes = program.known_sizes
        grid = next((t for t in program.tiles if t.walk == "grid"), None)
        if grid is None:
            return cls(True, sizes)
        assert isinstance(grid.block, int)
        return cls(False, sizes, grid.axes[0], grid.block)

    def tile(self, axes: Axes) -> Shape:
        """The shape of a scratch tile of a value that follows these axes: 1 along all others."""
        sizes = [n if a in axes else 1 for a, n in enumerate(self.dims)]
        return tuple(sizes) if self.flat else (self.block if self.loop in axes else 1, *sizes[self.loop + 1 :])

    @property
    def pieces(self) -> int:
        """How many pieces axis 0 is cut into."""
        return -(-self.dims[0] // self.block) if self.loop == 0 else self.dims[0]

    @property
    def even(self) -> bool:
        """Whether the blocks divide their axis, so that no tile is partial."""
        return self.dims[self.loop] % self.block == 0


class NestEmitter:
    """Writes one loop nest.

    ``whole`` are the kernel's arrays for whole values that it uses, ``gathered`` the arrays in which its reductions
    across tiles gather what each piece of axis 0 gives: one part a piece, whoever computes it, so that results do not
    depend on how threads share the work. ``workers`` are the threads that need slots.
    """

    def __init__(self, kernel: KernelSteps, part: NestSteps) -> None:
        self.kernel = kernel
        self.part = part
        rest = part.nest.rest
        self.loops = loops = TileLoops(True, ()) if rest is None else TileLoops.of(rest)
        self.threads = part.nest.threads
        self.views: dict[tuple[StepValue, Axes], str] = {}
        self.setup: list[str] = []
        steps = [*part.before, *part.steps]
        used = [o.value for s in steps for o in (*s.reads(), s.result)]
        self.whole = sorted({v.name for v in used if v.kind == "w"}, key=lambda name: int(name[1:]))
        self.workers = range(self.threads)
        self.gathered: dict[str, tuple[np.dtype[Any], Shape]] = {}
        for step in part.steps:
            if step.into in kernel.memory.pieces:
                kept = [loops.dims[a] for a in sorted(step.result.axes)]
                self.gathered[step.into] = (step.result.dtype, (loops.pieces, *kept))
        # Results of reductions that are read again keep the axes that they reduce, with size 1.
        self.reread = {o.value for s in part.steps for o in s.reads()}
        self.reduced = {o for s in part.steps if s.reduces for o in s.reads()}

    def title(self) -> str:
        """The iteration space, in words."""
        t = self.loops
        contraction = "A contraction" if self.part.before else ""
        domain = _times(self.part.nest.domain)
        if contraction and not self.part.steps:
            return f"{contraction} over {domain}"
        over = f"{contraction}, then over" if contraction else "Over"
        if t.flat:
            return f"{over} {domain}"
        block = _times(t.tile(tuple(range(len(t.dims)))))
        shared = f", shared by {self.threads} threads" if self.threads > 1 else ""
        return f"{over} {domain} in tiles of {block}{shared}"

    def unpacked(self, scratch: str) -> list[str]:
        """The line that names what is in its scratch."""
        names = [*self.whole, *self.gathered]
        if self.part.slots:
            names += ["sets"] if len(self.workers) > 1 else self._slots()
        return [f"({', '.join(names)},) = {scratch}"]

    def lines(self) -> list[str]:
        """All its lines."""
        before = [line for step in self.part.before for line in self._before(step)]
        if not self.part.steps:
            return before
        inside = self._flat() if self.loops.flat else self._tiled()
        return [*before, *self.setup, *inside]

    # --- on whole arrays -----------------------------------------------------------------------------------

    def _before(self, step: UfuncStep) -> list[str]:
        target = step.result.value.name
        if step.function != "matmul":
            (operand,) = step.operands
            source = operand.value.name if isinstance(operand, StepOperand) else python_literal(operand)
            return [f'np.copyto({target}, {source}, casting="unsafe")']
        lhs, rhs = [(o.value.name, o) for o in step.reads()]
        return [matmul(lhs, rhs, (target, step.result))]

    def _flat(self) -> list[str]:
        return [line for step in self.part.steps for line in self._step(step)]

    # --- loops ---------------------------------------------------------------------------------------------

    def _tiled(self) -> list[str]:
        t = self.loops
        steps = [line for step in self.part.steps for line in self._step(step)]
        body = self._inner(steps)
        start: list[str] = []
        end: list[str] = []
        for step in self.part.steps:
            if not step.into:
                continue
            if step.accumulates:
                start.append(f"{step.into}.fill({python_literal(ufunc_neutral(step.combine, step.result.dtype))})")
            if step.into in self.gathered:
                end.append(f"{step.combine}.reduce({step.into}, axis=0, out={self._kept(step.result)})")
        if self.threads == 1:
            return [*start, *self._range(f"0, {t.dims[0]}", body), *end]
        names = self._slots()
        inner = [f"({', '.join(names)},) = scratch"] if names else []
        inner += self._range("lo, hi", body)
        grain = t.block if t.loop == 0 else 1
        sets = "sets" if names else repr(((),) * self.threads)
        head = "def tiles(lo, hi, scratch):"
        call = f"parallel(tiles, {t.dims[0]}, {grain}, {self.part.nest.chunks}, {sets})"
        return [*start, head, *("    " + line for line in inner), call, *end]

    def _cut(self, slot: int) -> bool:
        """Whether partial tiles see a part of a slot only."""
        _, axes = self.part.slots[slot]
        return not self.loops.flat and not self.loops.even and self.loops.loop in axes

    def _slots(self) -> list[str]:
        """The names of the slots as they are unpacked."""
        return [f"s{i}" if self._cut(i) else f"t{i}" for i in range(len(self.part.slots))]

    def _range(self, outer: str, body: list[str]) -> list[str]:
        """The outermost loop, over axis 0, and what is inside."""
        t = self.loops
        step = f", {t.block}" if t.loop == 0 else ""
        variable = "i" if t.loop == 0 else "i0"
        return [f"for {variable} in range({outer}{step}):", *("    " + line for line in body)]

    def _inner(self, steps: list[str]) -> list[str]:
        """The loops inside the outermost one."""
        t = self.loops
        size = t.dims[t.loop]
        if t.even:
            bound = [f"j = i + {t.block}"]
        else:
            limit = "hi" if t.loop == 0 and self.threads > 1 else str(size)
            cut = [f"t{n} = s{n}[: j - i]" for n in range(len(self.part.slots)) if self._cut(n)]
            bound = [f"j = min(i + {t.block}, {limit})", *cut]
        inner = [*bound, *steps]
        if t.loop > 0:
            inner = [f"for i in range(0, {size}, {t.block}):", *("    " + line for line in inner)]
        for axis in range(t.loop - 1, 0, -1):
            inner = [f"for i{axis} in range({t.dims[axis]}):", *("    " + line for line in inner)]
        return inner

    # --- values --------------------------------------------------------------------------------------------

    def _name(self, operand: Given, tile: bool = True) -> str:
        """An operand as source: what one tile sees of it."""
        if not isinstance(operand, StepOperand):
            return python_literal(operand)
        value = operand.value
        name = f"t{value.slot}" if value.slot is not None else self._view(operand)
        if tile and value.outside and not self.loops.flat and not self._broadcasts(operand):
            name = self._index(name, operand.axes)
        return name if operand.dtype == value.dtype else f"{name}.view({operand.dtype.name!r})"

    def _index(self, name: str, merged: Axes) -> str:
        """The part of an array, over all merged axes, that one tile sees."""
        t = self.loops
        parts = [f"i{a}" if a in merged else "0" for a in range(t.loop)]
        parts.append("i:j" if t.loop in merged else ":")
        return name if parts == [":"] else f"{name}[{', '.join(parts)}]"

    def _view(self, operand: StepOperand) -> str:
        """An array over all merged axes, in their order, with size 1 along those that it lacks."""
        key = (operand.value, operand.axes)
        if key not in self.views:
            source = self._arranged(operand)
            base = operand.value.name
            known = sum(1 for v, _ in self.views if v is operand.value)
            self.views[key] = base if source == base else f"{base}_{known + 1}"
            if source != base:
                self.setup.append(f"{self.views[key]} = {source}")
        return self.views[key]

    def _arranged(self, operand: StepOperand) -> str:
        t = self.loops
        source, merged = operand.value.name, operand.axes
        full = tuple(n if a in merged else 1 for a, n in enumerate(t.dims))
        kept = self._kept(operand)
        if operand.value.shape == full and kept == source:
            return source
        if list(merged) != sorted(merged):
            return (
                kept
                if len(merged) == len(full)
                else f"{kept}[{', '.join(':' if a in merged else 'None' for a in range(len(full)))}]"
            )
        if self._broadcasts(operand):
            return kept
        return f"{source}.reshape({full})"

    def _broadcasts(self, operand: StepOperand) -> bool:
        """Whether NumPy by itself repeats an argument along the axes in front of its own, in all tiles alike."""
        t, merged = self.loops, operand.axes
        last = tuple(range(len(t.dims) - len(merged), len(t.dims)))
        apart = t.flat or t.loop not in merged
        return apart and merged == last and operand.value.kind == "x" and operand not in self.reduced

    def _kept(self, operand: StepOperand) -> str:
        """An array over the merged axes that it has, in their order."""
        t = self.loops
        source, merged = operand.value.name, operand.axes
        shape = tuple(t.dims[a] for a in merged)
        if shape != operand.value.shape:
            source += f".reshape({shape})"
        order = [merged.index(a) for a in sorted(merged)]
        if order == sorted(order):
            return source
        return source + (".T" if order == [1, 0] else f".transpose({tuple(order)})")

    # --- steps ---------------------------------------------------------------------------------------------

    def _step(self, step: UfuncStep) -> list[str]:
        if step.reduces:
            return self._reduction(step)
        out = self._name(step.result)
        if step.table is not None:
            rows = self._whole_rows(step, step.table)
            first = f"[..., {', '.join('0' * rows)}]" if rows else ""
            indices = [self._name(o) + first for o in step.operands[: len(step.operands) - rows]]
            return [f"np.copyto({out}, {step.table.name}[{', '.join(indices)}])"]
        operands = [self._name(o) for o in step.operands]
        if step.function == "select":
            condition, a, b = operands
            chosen = f"np.copyto({out}, {a}, where={condition})"
            return [chosen] if b == out else [f"np.copyto({out}, {b})", chosen]
        if step.function == "copy":
            (operand,) = step.operands
            safe = not isinstance(operand, StepOperand) or operand.dtype == step.result.dtype
            casting = "" if safe else ', casting="unsafe"'
            return [f"np.copyto({out}, {operands[0]}{casting})"]
        return [f"{step.function}({', '.join(operands)}, out={out})"]

    def _whole_rows(self, step: UfuncStep, table: StepValue) -> int:
        """Along how many of the last axes a gather takes all elements in their order: NumPy takes these as rows."""
        t, count = self.loops, 0
        for position in range(len(step.operands) - 1, 0, -1):
            axis, operand = len(t.dims) - 1 - count, step.operands[position]
            others = [o for o in step.operands[:position] if isinstance(o, StepOperand)]
            if len(others) < position or any(axis in o.axes for o in others) or not (t.flat or axis > t.loop):
                break
            view = operand.value.name if isinstance(operand, StepOperand) and operand.axes == (axis,) else ""
            if self.kernel.views.get(view) != f"np.arange({table.shape[position]})":
                break
            count += 1
        return count

    def _reduction(self, step: UfuncStep) -> list[str]:
        t = self.loops
        if any(t.dims[a] == 0 for a in step.reduced):
            start = python_literal(ufunc_neutral(step.combine, step.result.dtype))
            return [f"np.copyto({self._name(step.result)}, {start})"]
        inputs = [self._name(o) for o in step.operands]
        if step.into:
            return self._part(step, inputs)
        inside = tuple(a - t.loop for a in sorted(step.reduced) if a >= t.loop)
        axis = inside[0] if len(inside) == 1 else inside
        full = all(len(o.axes) == len(t.dims) for o in step.reads())
        alone = full and step.result.value.outside and step.result.value not in self.reread
        if len(inputs) > 1 or (full and self._is_short(step, inside)):
            out = (
                self._without(step.result) if alone else self._name(step.result) + _along(inside, len(t.dims) - t.loop)
            )
            return [f"np.einsum({self._subscripts(inside, len(inputs))}, {', '.join(inputs)}, out={out})"]
        if full and self._is_narrow(step, inside):
            out, size = self._name(step.result), t.dims[-1]
            one = f"{step.combine}({out}, {inputs[0]}[..., c : c + 1], out={out})"
            return [f"np.copyto({out}, {inputs[0]}[..., :1])", f"for c in range(1, {size}):", f"    {one}"]
        if alone:
            return [f"{step.combine}.reduce({inputs[0]}, axis={axis}, out={self._without(step.result)})"]
        return [f"{step.combine}.reduce({inputs[0]}, axis={axis}, keepdims=True, out={self._name(step.result)})"]

    def _is_short(self, step: UfuncStep, inside: Axes) -> bool:
        """Whether a sum over one axis of a tile is better done by ``np.einsum``, as ``sums`` says."""
        t = self.loops
        (operand,) = step.reads()
        plain = operand.dtype == step.result.dtype and operand.dtype.kind == "f" and operand.dtype.itemsize > 2
        if step.combine != "np.add" or not plain or len(inside) != 1 or operand.axes != tuple(sorted(operand.axes)):
            return False
        dims = t.dims[t.loop :]
        if inside[0] == len(dims) - 1 and len(dims) > 1:
            return dims[-1] <= SHORT_ROW
        return inside[0] == 0 and len(dims) > 1 and math.prod(dims[1:]) <= SHORT_COLUMN

    def _is_narrow(self, step: UfuncStep, inside: Axes) -> bool:
        """Whether rows are so short, and so many, that they are better reduced column by column, as ``sums`` says."""
        dims = self.loops.tile(tuple(range(len(self.loops.dims))))
        rows = math.prod(dims[:-1])
        same = all(o.dtype == step.result.dtype for o in step.reads())
        return same and inside == (len(dims) - 1,) and rows >= MANY_ROWS and 1 < dims[-1] <= NARROW

    def _subscripts(self, inside: Axes, count: int) -> str:
        """The subscripts of ``np.einsum``, for arrays that all have the axes of a tile."""
        letters = "ijklmnopqrst"[: len(self.loops.dims) - self.loops.loop]
        kept = "".join(c for a, c in enumerate(letters) if a not in inside)
        return f'"{",".join([letters] * count)}->{kept}"'

    def _without(self, operand: StepOperand) -> str:
        """The part of a result that one tile sees, without the axes that were reduced."""
        t = self.loops
        source, name = self._kept(operand), operand.value.name
        if source != name:
            name += "_rows"
            self.setup.append(f"{name} = {source}")
        index = [f"i{a}" if a < t.loop else "i:j" if a == t.loop else ":" for a in sorted(operand.axes)]
        while index and index[-1] == ":":
            index.pop()
        name = f"{name}[{', '.join(index)}]" if index and not t.flat else name
        return name if operand.dtype == operand.value.dtype else f"{name}.view({operand.dtype.name!r})"

    def _part(self, step: UfuncStep, inputs: list[str]) -> list[str]:
        """The partial result of one tile, for a reduction across tiles; axes that no operand has have size 1."""
        t = self.loops
        kept = sorted(step.result.axes)
        inside = tuple(a - t.loop for a in range(t.loop, len(t.dims)) if a not in kept)
        index = [f"i{a}" if a < t.loop else "i:j" if a == t.loop else ":" for a in kept]
        if step.into not in self.gathered:
            place = self._kept(step.result)
        else:
            place = step.into
            index.insert(0, f"i // {t.block}" if t.loop == 0 else "i0")
        while index and index[-1] == ":":
            index.pop()
        place = f"{place}[{', '.join(index)}]" if index else place
        scalar = all(a < t.loop for a in kept) and bool(index)
        short = len(inputs) > 1 or (len(inside) < len(t.dims) - t.loop and self._is_short(step, inside))
        adds = step.accumulates
        if not inside and len(inputs) == 1:
            part = inputs[0]
            if not adds and not scalar:
                return [f'np.copyto({place}, {part}, casting="unsafe")']
        else:
            axis = inside[0] if len(inside) == 1 else inside
            wide = f", axis={axis}" + (f", dtype={step.result.dtype.name!r}" if adds or scalar else "")
            subscripts = self._subscripts(inside, len(inputs))
            call = f"np.einsum({subscripts}, " if short else f"{step.combine}.reduce("
            call += ", ".join(inputs) + ("" if short else wide)
            if not adds and not scalar:
                return [f"{call}, out={place})"]
            part = f"{call})"
        if scalar:
            return [f"{place} = {f'{step.combine}({place}, {part})' if adds else part}"]
        return [f"{step.combine}({place}, {part}, out={place})"]


def _along(zero: Axes, rank: int) -> str:
    """The index of a view without these axes, of which there is one element."""
    index = ["0" if a in zero else ":" for a in range(rank)]
    return f"[{', '.join(index if ':' in index else [*index, '...'])}]"


def _times(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "scalar"


# --- sums by ``np.einsum`` --------------------------------------------------------------------------------------------

# ``np.add.reduce`` spends some twenty nanoseconds on each row, or each row's share of a sum of columns; ``np.einsum``
# needs a fraction of that (a third for rows of 1024 elements, less for shorter ones), and it sums products without an
# array for them. But it adds with fewer partial sums: longer rows would be less exact.
SHORT_ROW, SHORT_COLUMN = LONG_COLUMN, 512
# ``np.maximum.reduce`` and its like spend fifty to a hundred nanoseconds on each row. For up to so many columns, and
# from so many rows on, a call for each column takes a tenth to a third of the time.
NARROW, MANY_ROWS = 32, 512


def form_contractions(kernel: KernelSteps) -> None:
    """Let a multiplication and the sum of its result be one step, a contraction, over the whole iteration space.

    It sums along rows, or along the first axes.
    """
    for part in kernel.nests:
        _form_contractions(part)


def _form_contractions(part: NestSteps) -> None:
    axes = tuple(range(len(part.sizes)))
    readers: dict[StepValue, int] = {}
    for step in part.steps:
        for operand in step.reads():
            readers[operand.value] = readers.get(operand.value, 0) + 1
    for step in [s for s in part.steps if s.function == "reduce:np.add" and _is_short(s, part)]:
        (summed,) = step.reads()
        at = next((i for i, s in enumerate(part.steps) if s.result.value is summed.value), None)
        if at is None or summed.value.outside or readers[summed.value] > 1:
            continue
        contraction = part.steps[at]
        factors = list(contraction.reads())
        plain = all(o.axes == axes and o.dtype == step.result.dtype for o in factors)
        written = {s.result.value for s in part.steps[at + 1 : part.steps.index(step)]}
        if (
            contraction.function == "np.multiply"
            and len(factors) == 2
            and plain
            and written.isdisjoint(o.value for o in factors)
        ):
            part.steps.remove(contraction)
            step.operands = list(factors)


def _is_short(step: UfuncStep, part: NestSteps) -> bool:
    """Whether so few elements are summed at once that a few partial sums are exact enough."""
    rank = len(part.sizes)
    if step.result.dtype.kind != "f" or step.result.dtype.itemsize < 4:
        return False
    if 0 in step.reduced:
        return step.reduced == tuple(range(len(step.reduced))) and len(step.reduced) < rank
    trailing = step.reduced == tuple(range(rank - len(step.reduced), rank))
    return trailing and math.prod(part.sizes[a] for a in step.reduced) <= SHORT_ROW


# --- where values live between tiles ----------------------------------------------------------------------------------
#
# The memory of a result is written anyway: used as a slot before, it takes no more of the caches.

Kind = tuple[np.dtype[Any], Axes]


def assign_slots(kernel: KernelSteps) -> None:
    """Number the steps, and give every value inside a tile a slot; slots are reused after the last read."""
    _number_steps(kernel)
    for part in kernel.nests:
        _Assignment(part).run()


def _number_steps(kernel: KernelSteps) -> None:
    """Give each step its index in the order of all, and each value that of its last read."""
    steps = [step for part in kernel.nests for step in (*part.before, *part.steps)]
    for index, step in enumerate(steps):
        step.index = index
        for operand in step.reads():
            operand.value.last_use = index
    for _, source in kernel.memory.copies:
        kernel.arrays[source].last_use = len(steps)


@dataclass
class _Result:
    """A result of the kernel as a slot for other values, while it does not hold its own."""

    value: StepValue
    kind: Kind
    reads: dict[int, UfuncStep] = field(default_factory=lambda: dict[int, UfuncStep]())
    writes: dict[int, UfuncStep] = field(default_factory=lambda: dict[int, UfuncStep]())
    busy: bool = False

    def is_idle(self, value: StepValue, step: UfuncStep, last: UfuncStep | None) -> bool:
        """Whether nobody cares for its content from a step that makes a value to the last that reads it."""
        end = max(value.last_use, step.index)
        if any(step.index < n <= end for n in self.reads) or any(step.index <= n < end for n in self.writes):
            return False
        later = [n for n in self.writes if n >= end and n > step.index]
        if not later or any(end < n <= min(later) for n in self.reads):
            return False
        reader = self.reads.get(step.index)
        if reader is not None and not all(reader.may_overwrite(o) for o in reader.reads() if o.value is self.value):
            return False
        if end not in self.writes:
            return True
        return last is not None and all(last.may_overwrite(o) for o in last.reads() if o.value is value)


class _Assignment:
    def __init__(self, part: NestSteps) -> None:
        self.part = part
        self.steps = {s.index: s for s in part.steps}
        self.free: list[int] = []
        self.moved: dict[StepValue, _Result] = {}
        written = dict.fromkeys(s.result.value for s in part.steps if s.result.value.kind == "y")
        self.results = [r for v in written if (r := self._result(v)) is not None]
        self.args = {o.value for s in part.steps for o in s.reads() if o.value.kind == "x"}

    def _result(self, value: StepValue) -> _Result | None:
        """A result, if it is written on tiles: one that each tile has a part of, in the order of memory."""
        rank = len(self.part.sizes)
        for step in self.part.steps:
            axes = step.result.axes
            if step.result.value is value and not step.reduces and axes == tuple(range(rank)):
                result = _Result(value, (value.dtype, axes))
                for other in (*self.part.before, *self.part.steps):
                    if other.result.value is value:
                        result.writes[other.index] = other
                    if any(o.value is value for o in other.reads()):
                        result.reads[other.index] = other
                return result
        return None

    def run(self) -> None:
        for step in self.part.steps:
            dying = {o.value: o for o in step.reads() if not o.value.outside and o.value.last_use == step.index}
            early = [o.value for o in dying.values() if step.may_overwrite(o)]
            for value in early:
                self._release(value)
            value = step.result.value
            if not value.outside and value.slot is None and value not in self.moved:
                self._place(value, step, [self.moved[v] for v in early if v in self.moved])
            for value in dying:
                if value not in early:
                    self._release(value)
        for step in self.part.steps:
            step.operands = [self._moved(o) if isinstance(o, StepOperand) else o for o in step.operands]
            step.result = self._moved(step.result)

    def _moved(self, operand: StepOperand) -> StepOperand:
        moved = self.moved.get(operand.value)
        return operand if moved is None else replace(operand, value=moved.value)

    def _release(self, value: StepValue) -> None:
        moved = self.moved.get(value)
        if moved is not None:
            moved.busy = False
        elif value.slot is not None:
            self.free.append(value.slot)

    def _place(self, value: StepValue, step: UfuncStep, just: list[_Result]) -> None:
        """Where an operand was until now, else in a free slot, which is in the caches, else in a result."""
        kind = (value.dtype, step.result.axes)
        slots = self.part.slots
        slot = next((s for s in reversed(self.free) if slots[s] == kind), None)
        for result in just if slot is not None else self.results:
            if result.kind == kind and not result.busy and self._may_use(result, value, step):
                result.busy = True
                self.moved[value] = result
                return
        if slot is None:
            slot = len(slots)
            slots.append(kind)
        else:
            self.free.remove(slot)
        value.slot = slot

    def _may_use(self, result: _Result, value: StepValue, step: UfuncStep) -> bool:
        """Whether a value may be where a result will be, and the result still where it may be now."""
        if not result.is_idle(value, step, self.steps.get(value.last_use)):
            return False
        first = min(result.writes)
        for arg in self.args:
            if (arg.shape, arg.dtype) != (result.value.shape, result.value.dtype) or arg.last_use > first:
                continue
            reads = [o for o in step.reads() if o.value is arg]
            over = all(o.axes == step.result.axes and step.may_overwrite(o) for o in reads)
            if arg.last_use > step.index or not over:
                return False
        return True


# --- contractions by ``np.matmul`` ------------------------------------------------------------------------------------
#
# A contraction as one call of ``np.matmul``: which loops are its rows, columns and batches, and how arrays are read.
#
# Loops of both operands and the result are batches; of the left and the result, rows; of the right and the result,
# columns; of both operands alone, summed. Neighbouring loops that are neighbours wherever they occur are one: so
# ``(b, t, k) x (n, k)`` is a product of two matrices. What cannot be merged is left to ``np.matmul`` as batches along
# which one operand is repeated; only summed loops that cannot be merged cost a copy.

Group = Axes  # neighbouring loops, taken as one


def matmul(lhs: tuple[str, StepOperand], rhs: tuple[str, StepOperand], out: tuple[str, StepOperand]) -> str:
    """The call, for three arrays and their names."""
    a, b, c = lhs[1].axes, rhs[1].axes, out[1].axes
    sizes = {axis: n for _, x in (lhs, rhs, out) for axis, n in zip(x.axes, x.value.shape, strict=True)}
    rows = _runs([i for i in c if i in a and i not in b], a, c)
    columns = _runs([i for i in c if i in b and i not in a], b, c)
    summed = _runs([i for i in a if i in b and i not in c], a, b)
    row, column = _largest(rows, sizes), _largest(columns, sizes)
    batches = [(i,) for i in c if i in a and i in b]
    outer = sorted([*batches, *(g for g in (*rows, *columns) if g not in (row, column))], key=lambda g: c.index(g[0]))
    left = _view(lhs, [*[[g] for g in outer], [row], summed], sizes)
    right = _view(rhs, [*[[g] for g in outer], summed, [column]], sizes)
    result = _view(out, [*[[g] for g in outer], [row], [column]], sizes)
    return f"np.matmul({left}, {right}, out={result})"


def _runs(loops: Sequence[int], first: Axes, second: Axes) -> list[Group]:
    """Loops in groups of those that follow each other in both arrays."""
    groups: list[Group] = []
    for loop in loops:
        if groups and all(x.index(loop) == x.index(groups[-1][-1]) + 1 for x in (first, second)):
            groups[-1] = (*groups[-1], loop)
        else:
            groups.append((loop,))
    return groups


def _largest(groups: list[Group], sizes: dict[int, int]) -> Group:
    """The group with the most iterations; () if there is none."""
    return max(groups, key=lambda g: math.prod(sizes[i] for i in g), default=())


def _view(array: tuple[str, StepOperand], wanted: list[list[Group]], sizes: dict[int, int]) -> str:
    """An array with its loops in the wanted order: each entry is an axis, of groups in one; absent ones have size 1."""
    text, operand = array
    present = [[g for g in groups if g and g[0] in operand.axes] for groups in wanted]
    own = sorted((g for groups in present for g in groups), key=lambda g: operand.axes.index(g[0]))
    if len(own) < len(operand.axes):
        text += f".reshape({_sizes(own, sizes)})"
    order = [own.index(g) for groups in present for g in groups]
    if order != sorted(order):
        text += ".T" if order == [1, 0] else f".transpose({tuple(order)})"
    if any(len(groups) > 1 for groups in present):
        text += f".reshape({tuple(math.prod(_sizes(groups, sizes)) for groups in present if groups)})"
    while present and len(present) > 2 and not present[0]:
        present.pop(0)  # np.matmul repeats along these by itself
    if all(present):
        return text
    return f"{text}[{', '.join(':' if groups else 'None' for groups in present)}]"


def _sizes(groups: Sequence[Group], sizes: dict[int, int]) -> Shape:
    return tuple(math.prod(sizes[i] for i in g) for g in groups)
