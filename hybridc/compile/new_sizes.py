"""Graphs at new sizes: a network of which two sizes were compiled is only planned at others.

Traces that differ in integers only are of one *kind*. Of each graph of a kind that is compiled, an outline is kept. Two
that differ in what follows from one size (:mod:`hybridc.ir.outline`) are a *family*: it keeps the kernels and the
calls of them, and gives them any other size, of which the trace shows that all its integers follow as they should. Only
memory and threads are planned then: see :class:`~hybridc.compile.lowering_stages.Formed`.

What the compiler decides by sizes about products, it records (:class:`~hybridc.ir.outline.SizeDecisions`): where it
would decide otherwise, it is asked. What is fused, and what is made again for the backward, hardly depends on sizes:
far from those that were compiled it is asked again, and the family then reaches as far.
"""

from __future__ import annotations

import os
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hybridc.compile.lowering_stages import Formed
from hybridc.compile.trace_key import without_sizes
from hybridc.errors import VerifyError
from hybridc.ground.locks import ForkLock
from hybridc.ground.serialize import NotWritable
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.options import OPTIONS
from hybridc.runtime.native_executable import NativeExecutable
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.compile.compiled_graph import CompiledGraph
    from hybridc.compile.stages import Traced
    from hybridc.compile.targets import Planning, Target
    from hybridc.ir.outline import Line, Outline, OutlinedAttribute, Resizable
    from hybridc.ir.planned import HostCall

# How many kinds of traces are remembered, and how many compilations and families of each.
KINDS, SAMPLES, FAMILIES = 32, 4, 4
# A family reaches from the smallest size that was compiled divided by this to the largest times this.
REACH = 8
# An axis of one element is walked by no loop, and nothing is one of its own: such sizes are compiled.
SMALLEST = 2


def graph(traced: Traced, form: Callable[[], Formed]) -> CompiledGraph:
    """The graph of a trace: planned from the kernels of a family, or else from those that are formed of it now.

    ``form()`` forms them by all passes, whatever is known.
    """
    try:
        key, numbers = without_sizes(traced) if _enabled() else ((), ())
    except NotWritable:
        key, numbers = (), ()
    if not key:
        return form().lower().compile()
    kind = _kind(key)
    return kind.planned(traced, numbers, form) or kind.compiled(traced, numbers, form())


def _enabled() -> bool:
    """Whether graphs are native, and nobody wants to see how they are made."""
    from hybridc.compile import pipeline
    from hybridc.compile.targets import LLVM, target_named

    return isinstance(target_named(None), LLVM) and not pipeline.is_watched()


# --- families ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Family:
    """Kernels, and calls of them, that follow from one size.

    ``numbers`` are the integers of the trace at one size; ``lines`` say which depend on the size, and how. The size is
    number ``base`` of them. Sizes from ``low`` to ``high`` were compiled; ``where`` are the users' lines of its nodes.
    The ``planning`` knows of the kernels what is the same at all sizes.
    """

    numbers: tuple[int, ...]
    lines: dict[int, Line]
    base: int
    kernels: Resizable
    target: Target
    where: list[str]
    low: int
    high: int
    planning: Planning
    lock: ForkLock = field(default_factory=ForkLock)

    def size(self, numbers: Sequence[int]) -> int | None:
        """The size of a trace with these integers, if it is one of the family."""
        from hybridc.ir.outline import moved

        n = numbers[self.base]
        return n if n >= SMALLEST and moved(self.numbers, self.lines, n) == list(numbers) else None

    def graph(self, traced: Traced, n: int) -> CompiledGraph | None:
        """The graph at a size; None if the kernels cannot have it, or it is too far from those that were compiled."""
        if not (self.low <= n * REACH and n <= self.high * REACH):
            return None
        lines = _moved(self.where, _lines(traced.trace))
        with self.lock.current:
            if lines is None or not self.kernels.resize(n):
                return None
            with self.kernels.lent() as module:
                lowered = Formed(traced.trace, traced.grads, module, self.target).lower(self.planning)
                for program in lowered.programs.values():
                    if isinstance(program, NativeSource):
                        program.rename_lines(lines)
                made = lowered.compile()
        for executable in (made.forward, made.backward):
            if isinstance(executable, NativeExecutable):
                executable.program.forget_builders()
        return made

    def takes_in(self, numbers: Sequence[int], outline: Outline) -> bool:
        """Whether another compilation belongs to the family, which then reaches as far."""
        n = self.size(numbers)
        if n is None or not self.kernels.gives(n, outline):
            return False
        self.low, self.high = min(self.low, n), max(self.high, n)
        self.kernels.compiled_at(n)
        return True


def _family(before: _Sample, now: _Sample, places: list[OutlinedAttribute], formed: Formed) -> _Family | None:
    """The family of two compilations, if they differ in what follows from one size."""
    from hybridc.ir.outline import Resizable, lines_through

    varying = [i for i, (a, b) in enumerate(zip(before.numbers, now.numbers, strict=True)) if a != b]
    if not varying or before.outline.words != now.outline.words:
        return None
    base = min(varying, key=lambda i: abs(now.numbers[i] - before.numbers[i]))
    first, second = before.numbers[base], now.numbers[base]
    if min(first, second) < SMALLEST:
        return None
    lines = lines_through((first, before.numbers), (second, now.numbers))
    inner = lines_through((first, before.outline.numbers), (second, now.outline.numbers))
    if lines is None or inner is None:
        return None
    kernels = Resizable(formed.module, second, first, now.outline, places, inner)
    low, high = min(first, second), max(first, second)
    where, target = _lines(formed.trace), formed.target
    return _Family(now.numbers, lines, base, kernels, target, where, low, high, target.plan())


def _lines(trace: Trace) -> list[str]:
    """The user's line of each node of a trace."""
    return [str(node.location) for node in trace.nodes]


def _moved(before: Sequence[str], now: Sequence[str]) -> dict[str, str] | None:
    """What lines are called now; None if nodes that were in one line are in several."""
    moved: dict[str, str] = {}
    for was, is_ in zip(before, now, strict=True):
        if moved.setdefault(was, is_) != is_:
            return None
    return {was: is_ for was, is_ in moved.items() if was != is_}


# --- kinds ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Sample:
    """A graph that was compiled: the integers of its trace, and the outline of its kernels."""

    numbers: tuple[int, ...]
    outline: Outline


@dataclass(eq=False)
class _TraceFamily:
    """What is known of traces that differ in integers only."""

    samples: deque[_Sample] = field(default_factory=lambda: deque[_Sample](maxlen=SAMPLES))
    families: deque[_Family] = field(default_factory=lambda: deque[_Family](maxlen=FAMILIES))

    def planned(self, traced: Traced, numbers: tuple[int, ...], form: Callable[[], Formed]) -> CompiledGraph | None:
        """The graph from the kernels of a family, if one has this size; what ``form()`` gives is for the check."""
        for family in tuple(self.families):
            n = family.size(numbers)
            made = None if n is None else family.graph(traced, n)
            if n is None or made is None:
                continue
            if OPTIONS.verify:
                _verify(made, n, family.kernels, form())
            made.origin = "planned with the kernels that were formed for other sizes"
            return made
        return None

    def compiled(self, traced: Traced, numbers: tuple[int, ...], formed: Formed) -> CompiledGraph:
        """The graph from kernels that were formed now, which are remembered."""
        family = self._remember(numbers, formed)
        if family is None:
            return formed.lower().compile()
        family.kernels.note(formed.module)
        found = family.graph(traced, family.kernels.n)
        assert found is not None, "kernels have the size for which they were formed"
        self.families.append(family)
        return found

    def _remember(self, numbers: tuple[int, ...], formed: Formed) -> _Family | None:
        """Remember what was compiled; if that makes a family, this has the module from now on, at its size."""
        from hybridc.ir.outline import outline

        made, places = outline(formed.module)
        sample = _Sample(numbers, made)
        with _LOCK.current:
            if any(family.takes_in(numbers, made) for family in self.families):
                found = None
            else:
                made_now = (_family(before, sample, places, formed) for before in reversed(self.samples))
                found = next((family for family in made_now if family is not None), None)
            self.samples.append(sample)
        return found


_LOCK = ForkLock()
_KINDS: OrderedDict[tuple[Any, ...], _TraceFamily] = OrderedDict()


def _kind(key: tuple[Any, ...]) -> _TraceFamily:
    """What is known of the traces with a key."""
    with _LOCK.current:
        kind = _KINDS.setdefault(key, _TraceFamily())
        _KINDS.move_to_end(key)
        while len(_KINDS) > KINDS:
            _KINDS.popitem(last=False)
    return kind


# In a child, kernels may have been lent to a thread of its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_KINDS.clear)


# --- the check ----------------------------------------------------------------------------------------------------


def _verify(planned: CompiledGraph, n: int, kernels: Resizable, formed: Formed) -> None:
    """Raise unless a graph that was only planned for a size is the one that is compiled from kernels formed for it.

    Other kernels mean that the compiler decides otherwise at this size: then both are right, as other checks have to
    show, but their arguments and results must be the same.
    """
    from hybridc.ir.outline import outline

    fresh, _ = outline(formed.module)
    same = kernels.is_like(fresh)
    if same and not kernels.gives(n, fresh):
        raise VerifyError(f"kernels that are given the size {n} are not those that are formed for it")
    if same:
        kernels.note(formed.module)
    _compare(planned, formed.lower().compile(), same)


def _compare(planned: CompiledGraph, compiled: CompiledGraph, same: bool) -> None:
    """Raise unless two graphs have the same arguments and results, and, if they have the ``same`` kernels, all else."""
    pairs = [(planned.forward, compiled.forward)]
    if planned.backward is not None and compiled.backward is not None:
        pairs.append((planned.backward, compiled.backward))
    told: list[list[Any]] = [[g.saved, g.grads, g.kept] for g in (planned, compiled)]
    for ours, theirs in pairs:
        for facts, program in zip(told, cast("tuple[NativeSource, ...]", (ours.program, theirs.program)), strict=True):
            facts += (program.inputs, program.fresh, program.into, program.takes_into, program.donated)
            if same:
                facts += (program.outputs, program.arena, program.live, program.threads)
                facts += ([f.key for f in program.functions_called()], _steps(program))
    for got, expected in zip(*told, strict=True):
        if got != expected:
            raise VerifyError(f"a graph that is planned for a new size has {got}; compiled it has {expected}")


def _steps(program: NativeSource) -> list[Any]:
    """The steps of a program as values that can be compared."""
    calls = iter(program.host_calls_made())
    return [step[1] if isinstance(step, tuple) else _arguments(next(calls)) for step in program.steps]


def _arguments(call: HostCall) -> Any:
    return call.ins, call.outs
