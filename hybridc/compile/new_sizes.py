"""Graphs at new sizes: a network that was compiled once is only planned at other sizes.

Traces that differ in integers only are of one *kind*. The first of a kind is compiled with symbolic sizes
(:mod:`hybridc.ground.sizes`): how every integer follows from the sizes of the arguments is recorded where the compiler
computes it, and so is, as a guard, whatever it decides by them. That makes a *family*: all traces of the kind whose
integers are those of its trace, for which all guards hold. The compiler would form the same kernels for each, and the
same calls of them, with other sizes. So only memory and threads are planned for it
(:class:`~hybridc.compile.lowering_stages.Formed`). A trace that is of no family makes a new one.
"""

from __future__ import annotations

import dataclasses
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence, Set
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from hybridc.compile.lowering_stages import Formed, Lowered
from hybridc.compile.trace_key import without_sizes
from hybridc.errors import CustomOpError, VerifyError
from hybridc.ground.locks import ForkLock
from hybridc.ground.records import dataclass
from hybridc.ground.serialize import NotWritable
from hybridc.ground.sizes import NotSymbolic, Sizes, is_size
from hybridc.lower.llvm.native_source import NativeSource
from hybridc.options import OPTIONS
from hybridc.runtime.native_executable import NativeExecutable
from hybridc.trace.sized_trace import is_one_image, sizes_of_arguments, with_free_sizes, with_known_sizes
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.compile.compiled_graph import CompiledGraph
    from hybridc.compile.stages import Traced
    from hybridc.compile.targets import Planning, Target
    from hybridc.ir.planned import HostCall
    from hybridc.ir.sized_module import SizedModule

# How many kinds of traces are remembered, and how many families of each.
KINDS, FAMILIES = 32, 16


def planned_graph(traced: Traced, form: Callable[[Traced], Formed]) -> CompiledGraph:
    """The graph of a trace: planned from the kernels of a family, or else from those that are formed of it now.

    ``form`` applies all passes to a trace.
    """
    key, numbers = _key_of(traced)
    if not key:
        return form(traced).lower().compile()
    kind = _kind(key)
    return kind.planned(traced, numbers, form) or kind.compiled(traced, numbers, form)


def lowered_again(traced: Traced, form: Callable[[Traced], Formed]) -> Lowered:
    """Lower a trace as :func:`planned_graph` does where it belongs to no known family."""
    key, numbers = _key_of(traced)
    family = _family(traced, form) if key else None
    values = None if family is None else family.values(numbers)
    if family is None or values is None:
        return form(traced).lower()
    family.kernels.put(values)
    return Formed(traced.trace, traced.grads, family.kernels.module, family.target).lower(family.planning)


def _key_of(traced: Traced) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """The key of the traces that differ in integers only, and these; no key, if each is compiled."""
    try:
        return without_sizes(traced) if _enabled() else ((), ())
    except NotWritable:
        return (), ()


def _enabled() -> bool:
    """Whether graphs are native, and nobody wants to see how they are made."""
    from hybridc.compile import pipeline
    from hybridc.compile.targets import LLVM, target_named

    return isinstance(target_named(None), LLVM) and not pipeline.is_watched()


# --- families ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Family:
    """Kernels, and calls of them, for all sizes for which the compiler would form the same.

    ``numbers`` are the integers of the trace, some of them symbolic; ``places`` are the indices of the free ones.
    ``varying`` are those with which the code of the kernels varies: the sizes of arguments, and what has varied so
    far; code for other sizes is other code, but gives the same results to the bit. ``where`` are the users' lines of
    the nodes. The ``planning`` knows of the kernels what is the same at all sizes.
    """

    sizes: Sizes
    numbers: tuple[int, ...]
    places: dict[int, int]
    varying: set[int]
    kernels: SizedModule
    target: Target
    where: list[str]
    planning: Planning
    free: list[int]
    lock: ForkLock = field(default_factory=ForkLock)

    def values(self, numbers: Sequence[int]) -> list[int] | None:
        """The values of all sizes for a trace with these integers; None if it is not one of the family."""
        values = self.sizes.at([numbers[place] for place in self.places.values()])
        if values is None or not self.sizes.hold(values):
            return None
        expected = (n.at(values) if is_size(n) else n for n in self.numbers)
        return values if all(a == b for a, b in zip(expected, numbers, strict=True)) else None

    def graph(self, traced: Traced, values: Sequence[int]) -> CompiledGraph | None:
        """The graph of a trace for which the sizes have these values; None if its lines are not as they were."""
        lines = _moved(self.where, _lines(traced.trace))
        if lines is None:
            return None
        with self.lock.current:
            now = [values[atom] for atom in self.places]
            self.vary({atom for atom, a, b in zip(self.places, self.free, now, strict=True) if a != b})
            self.kernels.put(values)
            with self.kernels.borrowed() as module:
                lowered = Formed(traced.trace, traced.grads, module, self.target).lower(self.planning)
                for program in lowered.programs.values():
                    if isinstance(program, NativeSource):
                        program.rename_lines(lines)
                graph = lowered.compile()
        for executable in (graph.forward, graph.backward):
            if isinstance(executable, NativeExecutable):
                executable.program.forget_builders()
        return graph

    def vary(self, atoms: Set[int]) -> None:
        """Let the code of the kernels vary with more sizes."""
        if not atoms <= self.varying:
            self.varying |= atoms
            self.kernels.vary(self.varying)
            self.planning = self.target.plan(ahead=True)


def _family(traced: Traced, form: Callable[[Traced], Formed]) -> _Family | None:
    """The family of a trace, whose kernels are formed now; None if they cannot be with symbolic sizes.

    One image is a batch, of any number, unless an operator or a pass does something else to an axis of one. What else
    is raised is what a compilation with plain sizes would raise, or a defect.
    """
    for batches in (True, False) if is_one_image(traced.trace) else (False,):
        try:
            family = _formed(traced, form, batches)
        except (NotSymbolic, NotWritable, CustomOpError):  # users' operators are written for plain integers
            family = None
        except Exception:
            if not batches:
                raise
            family = None
        if family is not None:
            return family
    return None


def _formed(traced: Traced, form: Callable[[Traced], Formed], batches: bool) -> _Family | None:
    """The family of a trace, formed with free sizes, ``batches`` of one among them; None if its key depends on that."""
    from hybridc.ir.sized_module import SizedModule

    sizes = Sizes()
    key, plain = without_sizes(traced)
    trace = with_free_sizes(traced.trace, sizes, batches)
    symbolic_key, integers = without_sizes(dataclasses.replace(traced, trace=trace))
    if symbolic_key != key:  # a rule of a user's operator tells symbolic sizes from plain ones
        return None
    known = with_known_sizes(trace, sizes)
    formed = form(dataclasses.replace(traced, trace=known))
    places: dict[int, int] = {}
    for place, n in enumerate(integers):
        if is_size(n) and (atom := sizes.free_atom(n)) is not None:
            places.setdefault(atom, place)
    places = {atom: places[atom] for atom in sorted(places)}
    varying = sizes_of_arguments(trace)
    kernels = SizedModule(formed.module, sizes, varying)
    free = [plain[place] for place in places.values()]
    where, target = _lines(trace), formed.target
    for read in (trace, known):
        read.release()
    return _Family(sizes, integers, places, varying, kernels, target, where, target.plan(ahead=True), free)


def _lines(trace: Trace) -> list[str]:
    """The user's line of each node of a trace."""
    return [str(node.location) for node in trace.nodes]


def _moved(before: Sequence[str], now: Sequence[str]) -> dict[str, str] | None:
    """The new location of each line that moved; None if nodes that were in one line are in several."""
    moved: dict[str, str] = {}
    for was, is_ in zip(before, now, strict=True):
        if moved.setdefault(was, is_) != is_:
            return None
    return {was: is_ for was, is_ in moved.items() if was != is_}


# --- kinds ------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Kind:
    """The families of traces that differ in integers only."""

    families: deque[_Family] = field(default_factory=lambda: deque[_Family](maxlen=FAMILIES))

    def planned(
        self, traced: Traced, numbers: tuple[int, ...], form: Callable[[Traced], Formed]
    ) -> CompiledGraph | None:
        """The graph from the kernels of a family, if it is of one; what ``form`` gives is for the check."""
        for family in tuple(self.families):
            values = family.values(numbers)
            graph = None if values is None else family.graph(traced, values)
            if values is None or graph is None:
                continue
            if OPTIONS.verify:
                _verify(graph, traced, values, family, _family(traced, form))
            graph.origin = "planned with the kernels that were formed for other sizes"
            return graph
        return None

    def compiled(self, traced: Traced, numbers: tuple[int, ...], form: Callable[[Traced], Formed]) -> CompiledGraph:
        """The graph from kernels that are formed now, which are remembered."""
        family = _family(traced, form)
        values = None if family is None else family.values(numbers)
        graph = None if family is None or values is None else family.graph(traced, values)
        if family is None or values is None or graph is None:
            return form(traced).lower().compile()
        self.families.append(family)
        return graph


_LOCK = ForkLock()
_KINDS: OrderedDict[tuple[Any, ...], _Kind] = OrderedDict()


def _kind(key: tuple[Any, ...]) -> _Kind:
    """The kind of the traces with a key, now the last used."""
    with _LOCK.current:
        kind = _KINDS.setdefault(key, _Kind())
        _KINDS.move_to_end(key)
        while len(_KINDS) > KINDS:
            _KINDS.popitem(last=False)
    return kind


# In a child, kernels may have been borrowed by a thread of its parent.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_KINDS.clear)


# --- the check ----------------------------------------------------------------------------------------------------


def _verify(
    planned: CompiledGraph, traced: Traced, values: Sequence[int], family: _Family, fresh: _Family | None
) -> None:
    """Raise unless a graph that was only planned for its sizes is the one of kernels that are formed for it now."""
    if fresh is None:
        raise VerifyError("there are no kernels with symbolic sizes now, though there were for other sizes")
    with family.lock.current:  # where sizes are equal now, ``fresh`` takes them for one, and cannot tell which varied
        fresh.kernels.vary_as(family.kernels)
    own = fresh.values(without_sizes(traced)[1])
    compiled = None if own is None else fresh.graph(traced, own)
    assert compiled is not None, "kernels have the sizes and the lines of the trace of which they were formed"
    with family.lock.current:
        family.kernels.put(values)
        same = family.kernels.module.is_structurally_equivalent(fresh.kernels.module)
    if not same:
        raise VerifyError("the kernels that were formed for other sizes are not those that are formed for these")
    _compare(planned, compiled)


def _compare(planned: CompiledGraph, compiled: CompiledGraph) -> None:
    """Raise unless two graphs are the same."""
    pairs = [(planned.forward, compiled.forward)]
    if planned.backward is not None and compiled.backward is not None:
        pairs.append((planned.backward, compiled.backward))
    told: list[list[Any]] = [[g.saved, g.grads, g.saved_bytes] for g in (planned, compiled)]
    for ours, theirs in pairs:
        for facts, program in zip(told, cast("tuple[NativeSource, ...]", (ours.program, theirs.program)), strict=True):
            facts += (program.inputs, program.fresh, program.into, program.takes_into, program.donated)
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
