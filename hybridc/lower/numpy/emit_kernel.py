"""One fused kernel as Python: tile loops of ufuncs with ``out=``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import func

from hybridc.dialects.scalar import NUMPY, SPECIAL
from hybridc.lower.numpy.schedule import Schedule, Step, Value, lines_of, schedule
from hybridc.lower.numpy.tiling import Tiling, merged_shape, tiling

Constant = Callable[[Any], str]


def ufunc(step: str) -> str:
    """The NumPy (or special) function of a scalar step, as source."""
    if step in SPECIAL:
        return f"special.{SPECIAL[step]}"
    return f"np.{getattr(NUMPY, step).__name__}"


def literal(value: Any) -> str:
    """A Python number as source."""
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def _combine(step: Step) -> str:
    """The ufunc that a reduction combines elements with, as source."""
    return ufunc(step.function.partition(":")[2])


def _identity(step: Step) -> str:
    """The neutral element of a reduction, as source."""
    dtype, combine = step.result.dtype, step.function.partition(":")[2]
    if combine in ("add", "mul"):
        return "0" if combine == "add" else "1"
    if dtype.kind == "f":
        return "-np.inf" if combine == "max" else "np.inf"
    if dtype.kind == "b":
        return repr(combine == "min")
    return repr(np.iinfo(dtype).min if combine == "max" else np.iinfo(dtype).max)


class KernelEmitter:
    """Writes one kernel; ``source()`` is a function of its arguments, its results and its scratch."""

    def __init__(self, kernel: func.FuncOp, threads: int, bind: Constant) -> None:
        self.name = kernel.sym_name.data
        self.plan: Schedule = schedule(kernel)
        self.loops: Tiling = tiling(self.plan, threads)
        self.bind = bind
        self.inputs = [f"x{i}" for i in range(len(self.plan.args))]
        self.outputs = [f"y{i}" for i in range(len(self.plan.outs))]

    def scratch_shapes(self) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
        """Dtype and shape of the scratch arrays that each thread needs."""
        flat = self.loops.flat
        return [(d, self._flat_shape(row) if flat else self.loops.tile(row)) for d, row in self.plan.slots]

    def _flat_shape(self, row: bool) -> tuple[int, ...]:
        domain = self.plan.domain
        if not row or self.plan.rows is None:
            return domain
        return domain[: self.plan.rows] + (1,) * (len(domain) - self.plan.rows)

    def source(self) -> str:
        """The Python function."""
        parameters = [*self.inputs, *self.outputs]
        if self.plan.slots or self.loops.threads > 1:
            parameters.append("scratch")
        head = [f"def {self.name}({', '.join(parameters)}):", f'    """{self._title()}"""']
        body = self._flat() if self.loops.flat else self._tiled()
        return "\n".join([*head, *("    " + line for line in body)]) + "\n"

    def _title(self) -> str:
        lines = lines_of(self.plan)
        where = f"; {', '.join(lines)}" if lines else ""
        domain = "x".join(map(str, self.plan.domain)) or "scalar"
        if self.loops.flat:
            return f"Over {domain}{where}."
        block = "x".join(map(str, self.loops.tile(False)))
        shared = f", shared by {self.loops.threads} threads" if self.loops.threads > 1 else ""
        return f"Over {domain} in tiles of {block}{shared}{where}."

    # --- one tile ------------------------------------------------------------------------------------------

    def _flat(self) -> list[str]:
        names = {id(v): n for v, n in zip(self.plan.args, self.inputs, strict=True)}
        names |= {id(v): n for v, n in zip(self.plan.outs, self.outputs, strict=True)}
        lines: list[str] = []
        if self.plan.slots:
            lines.append(f"({', '.join(f't{i}' for i in range(len(self.plan.slots)))},) = scratch")
        rank = len(self.plan.domain)
        axes = tuple(range(self.plan.rows or 0, rank))
        return lines + [line for step in self.plan.steps for line in self._step(step, names, axes)]

    # --- loops ---------------------------------------------------------------------------------------------

    def _tiled(self) -> list[str]:
        t = self.loops
        lines: list[str] = []
        shapes: dict[str, tuple[int, ...]] = {}
        pairs = list(zip([*self.plan.args, *self.plan.outs], [*self.inputs, *self.outputs], strict=True))
        for value, name in pairs:
            shapes[name] = merged_shape(value, self.plan, t)
            if shapes[name] != value.shape:
                lines.append(f"{name} = {name}.reshape({shapes[name]})")
        slots = [f"t{i}" for i in range(len(self.plan.slots))]
        names = {id(v): self._index(n, shapes[n]) for v, n in pairs}
        axes = tuple(a - t.loop for a in range(t.rows, len(t.dims)))
        steps = [line for step in self.plan.steps for line in self._step(step, names, axes)]
        body = self._loops(slots, steps)
        parts = {self._parts(s): s for s in self.plan.steps if s.whole}
        pieces = -(-t.dims[0] // t.block) if t.loop == 0 else t.dims[0]
        for name, step in parts.items():
            lines.append(f"{name} = np.full({pieces}, {_identity(step)}, {step.result.dtype.name!r})")
        end = [f"{self.outputs[s.result.out or 0]}[...] = {_combine(s)}.reduce({name})" for name, s in parts.items()]
        if t.threads == 1:
            if slots:
                lines.append(f"({', '.join(self._slot_names(slots))},) = scratch")
            return [*lines, *self._range(f"0, {t.dims[0]}", body), *end]
        head = "def tiles(lo, hi, scratch):"
        inner = [f"({', '.join(self._slot_names(slots))},) = scratch"] if slots else []
        inner += self._range("lo, hi", body)
        grain = t.block if t.loop == 0 else 1
        lines += [head, *("    " + line for line in inner)]
        return [*lines, f"parallel(tiles, {t.dims[0]}, {grain}, scratch)", *end]

    def _parts(self, step: Step) -> str:
        """The array in which a reduction over everything gathers what each piece of axis 0 gives.

        One number a piece, whoever computes it: the result does not depend on how threads share the work.
        """
        return f"p{step.result.out}"

    def _slot_names(self, slots: list[str]) -> list[str]:
        return slots if self.loops.even else [s.replace("t", "s") for s in slots]

    def _range(self, outer: str, body: list[str]) -> list[str]:
        """The outermost loop, over axis 0, and what is inside."""
        t = self.loops
        step = f", {t.block}" if t.loop == 0 else ""
        variable = "i" if t.loop == 0 else "i0"
        return [f"for {variable} in range({outer}{step}):", *("    " + line for line in body)]

    def _loops(self, slots: list[str], steps: list[str]) -> list[str]:
        """The loops inside the outermost one."""
        t = self.loops
        size = t.dims[t.loop]
        if t.even:
            bound = [f"j = i + {t.block}"]
        else:
            limit = "hi" if t.loop == 0 and t.threads > 1 else str(size)
            cut = [f"{s} = {s.replace('t', 's')}[: j - i]" for s in slots]
            bound = [f"j = min(i + {t.block}, {limit})", *cut]
        inner = [*bound, *steps]
        if t.loop > 0:
            inner = [f"for i in range(0, {size}, {t.block}):", *("    " + line for line in inner)]
        for axis in range(t.loop - 1, 0, -1):
            inner = [f"for i{axis} in range({t.dims[axis]}):", *("    " + line for line in inner)]
        return inner

    def _index(self, name: str, shape: tuple[int, ...]) -> str:
        """The part of an array that one tile sees."""
        t = self.loops
        parts = [f"i{a}" if shape[a] == t.dims[a] else "0" for a in range(t.loop)]
        parts.append("i:j" if shape[t.loop] == t.dims[t.loop] else ":")
        if parts == [":"]:
            return name
        return f"{name}[{', '.join(parts)}]"

    # --- steps ---------------------------------------------------------------------------------------------

    def _name(self, value: Any, names: dict[int, str]) -> str:
        if not isinstance(value, Value):
            return literal(value)
        if id(value) not in names:
            names[id(value)] = f"t{value.slot}"
        return names[id(value)]

    def _step(self, step: Step, names: dict[int, str], axes: tuple[int, ...]) -> list[str]:
        out = self._name(step.result, names)
        operands = [self._name(v, names) for v in step.operands]
        if step.function.startswith("reduce:"):
            function = _combine(step)
            if step.whole and not self.loops.flat:
                piece = f"{self._parts(step)}[{f'i // {self.loops.block}' if self.loops.loop == 0 else 'i0'}]"
                part = f"{function}.reduce({operands[0]}, axis=None, dtype={step.result.dtype.name!r})"
                return [f"{piece} = {function}({piece}, {part})"]
            axis = axes[0] if len(axes) == 1 else axes
            return [f"{function}.reduce({operands[0]}, axis={axis}, keepdims=True, out={out})"]
        if step.function == "select":
            condition, a, b = operands
            if isinstance(step.operands[0], Value) and step.operands[0].dtype != np.dtype(bool):
                condition = f"{condition}.astype(bool)"
            return [f"np.copyto({out}, {b})", f"np.copyto({out}, {a}, where={condition})"]
        if step.function in ("copy", "cast"):
            return [f'np.copyto({out}, {operands[0]}, casting="unsafe")']
        if step.function == "eager":
            eager = self.bind(step.op.operator)
            given = [
                o if isinstance(v, Value) else f"np.asarray({o}, {step.result.dtype.name!r})"
                for o, v in zip(operands, step.operands, strict=True)
            ]
            return [f'np.copyto({out}, {eager}.eager({", ".join(given)}), casting="unsafe")']
        return [f"{ufunc(step.function)}({', '.join(operands)}, out={out})"]
