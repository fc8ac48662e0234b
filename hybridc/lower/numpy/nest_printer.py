"""One loop nest of a kernel as lines of NumPy: a contraction on whole arrays, then its steps on tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping

from hybridc.dialects.operator_attribute import Shape
from hybridc.ir.kernels.kernel import Axes
from hybridc.ir.scalars import Number
from hybridc.lower.numpy.matmul_call import matmul
from hybridc.transforms.code.array_code import NestCode
from hybridc.transforms.schedules.arrays.array_steps import SHORT_ROW, Given, StepOperand, StepValue, UfuncStep


class NestPrinter:
    """Writes one loop nest; ``sources`` are those of the kernel's views, by their names."""

    def __init__(self, nest: NestCode, sources: Mapping[str, str]) -> None:
        self.nest = nest
        self.sources = sources
        self.part = part = nest.part
        self.loops = nest.loops
        self.threads = part.nest.threads
        self.views: dict[tuple[StepValue, Axes], str] = {}
        self.setup: list[str] = []
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
        names = [*self.nest.whole, *self.nest.gathered]
        if self.part.slots:
            names += ["sets"] if self.threads > 1 else self._slots()
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
                start.append(f"{step.into}.fill({python_literal(step.neutral)})")
            if step.into in self.nest.gathered:
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
            if self.sources.get(view) != f"np.arange({table.shape[position]})":
                break
            count += 1
        return count

    def _reduction(self, step: UfuncStep) -> list[str]:
        t = self.loops
        if any(t.dims[a] == 0 for a in step.reduced):
            start = python_literal(step.neutral)
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
        if step.into not in self.nest.gathered:
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
SHORT_COLUMN = 512
# ``np.maximum.reduce`` and its like spend fifty to a hundred nanoseconds on each row. For up to so many columns, and
# from so many rows on, a call for each column takes a tenth to a third of the time.
NARROW, MANY_ROWS = 32, 512


def python_literal(value: Number) -> str:
    """A Python scalar as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)
