"""A compiled graph: the forward and backward programs of one signature, their workspaces, and autograd."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hybridc import autograd
from hybridc.array.dispatch import execute
from hybridc.array.ndarray import NDArray, at, wrap
from hybridc.autograd import record_operator
from hybridc.compile.explanation.launch_groups import MOST, Naming, likeness, program_lines
from hybridc.dialects.error_context import raise_located
from hybridc.errors import MXNetError
from hybridc.ground.cached import cached_property
from hybridc.ground.compiler_output import compiling
from hybridc.ground.display.stage_views import stage_html, stage_text
from hybridc.ground.events import RECORDER
from hybridc.ground.hooks import HOOKS
from hybridc.ground.locks import UPDATES
from hybridc.ground.nesting import flatten, grouping, regroup
from hybridc.ground.state import STATE
from hybridc.ground.watches import written
from hybridc.runtime.executable import Executable
from hybridc.sparse_storage import RowSparseStorage
from hybridc.trace.gradients import ancestors
from hybridc.trace.tracer import Trace

if TYPE_CHECKING:
    from hybridc.autograd import TapeNode
    from hybridc.compile.stages import Traced
    from hybridc.ir.planned import Program


# What a node of a trace takes in memory, with its guards and locations.
_NODE_BYTES = 4096


class Compilation(NamedTuple):
    """A trace and the programs that it became, each with the title of its graph."""

    traced: Traced
    programs: Sequence[tuple[str, Program]]


class SignatureReport(NamedTuple):
    """What there is to tell of a signature: its title and its compilations.

    ``sizes`` are the signatures that differ from it in sizes alone, and have kernels of the same kinds.
    """

    title: str
    compilations: Sequence[Compilation]
    sizes: Sequence[tuple[str, Sequence[Compilation]]] = ()


class CompiledGraph:
    """The compiled forward program of one signature and, if gradients are wanted, its backward program.

    ``saved``: the backward's first arguments, as indices into the forward's inputs and then its results. ``grads``:
    indices of the inputs that it differentiates. ``saved_bytes``: size of saved values in the workspace. ``rows``: the
    inputs whose gradients are row_sparse: of each the backward gives rows and their numbers.
    ``origin``: a sentence on where the graph is from, if it was not compiled for this trace.
    """

    def __init__(
        self,
        trace: Trace,
        forward: Executable,
        backward: Executable | None,
        saved: Sequence[int],
        grads: Sequence[int],
        saved_bytes: int = 0,
        heads: tuple[int, ...] | None = None,
        rows: Sequence[int] = (),
    ) -> None:
        self.trace = trace
        self._context = trace.context
        self.forward = forward
        self.backward = backward
        for executable in (forward, backward):
            if executable is not None:
                executable.entitle(f"{trace.name}: {executable.program.name}")
        self.saved = saved
        self.grads = grads
        self.saved_bytes = saved_bytes
        self.rows = frozenset(rows)
        self.origin = ""
        self.updates = trace.updates
        self.visible = len(trace.outputs) - len(self.updates)
        self.single = type(trace.structure) is int
        #: Indices of the results whose gradients the backward takes.
        self.heads = tuple(range(self.visible)) if heads is None else heads
        #: The stage that it was compiled from; needed to compile a backward from fewer results.
        self.traced: Traced | None = None
        self._of_heads: dict[tuple[int, ...], CompiledGraph] = {}
        self._is_repeated = False
        self._inputs_of: dict[int, frozenset[int]] = {}
        self._inputs_of_heads: dict[tuple[int, ...], frozenset[int]] = {}

    __repr__, _repr_html_ = stage_text, stage_html

    @cached_property
    def at_once(self) -> Callable[..., Any] | None:
        """:meth:`run` without gradients as one native call ``call(*NDArrays)``; None if there is none.

        It returns None, without effect, if an array's type, dtype, shape or layout is not what the program expects.
        """
        call = None if self.updates or not self.visible else self.forward.wrapped(NDArray)
        if call is None or self.single:
            return call
        several, group = self.visible > 1, grouping(self.trace.structure, self.visible)
        if several and group is tuple:
            return call

        def grouped(*inputs: NDArray) -> Any:
            results = call(*inputs)
            if results is None:
                return None
            return group(results if several else (results,))

        return grouped

    def __str__(self) -> str:
        parts = [self.forward.program.source]
        if self.backward is not None:
            parts.append(self.backward.program.source)
        return "\n\n".join(parts)

    def compilations(self) -> list[Compilation]:
        """The traces that this graph was compiled from: its own, and those of backwards from some results only."""
        graphs = (self, *self._of_heads.values())
        parts = [(g.traced, [e for e in (g.forward, g.backward) if e is not None]) for g in graphs]
        return [Compilation(t, [(e.title, e.program) for e in own]) for t, own in parts if t is not None]

    @property
    def likeness(self) -> tuple[object, ...]:
        """Equal for graphs that differ in sizes alone."""
        graphs = (self, *self._of_heads.values())
        return tuple([likeness(e.program) for g in graphs for e in (g.forward, g.backward) if e is not None])

    @property
    def plan_bytes(self) -> int | None:
        """About the memory that it has for itself beside graphs at other sizes; None if that may be much."""
        graphs = (self, *self._of_heads.values())
        sizes = [e.plan_bytes for g in graphs for e in (g.forward, g.backward) if e is not None]
        plans = [size for size in sizes if size is not None]
        return _NODE_BYTES * len(self.trace.nodes) + sum(plans) if len(plans) == len(sizes) else None

    def summary(self, naming: Naming | None = None, most: int = MOST) -> list[str]:
        """Lines for ``net.explain()``: origin, kernels (``most`` groups of a program), memory and host calls."""
        naming = naming or Naming()
        lines = [line for line in (self.origin, *self.trace.rolled) if line]
        kept = "" if self.backward is None else f", {self.saved_bytes} of them for the backward"
        lines += _described(self.forward, "forward", naming, most, kept)
        if self.backward is not None:
            lines += _described(self.backward, "backward", naming, most)
        lines += [f"gradient of {self.trace.leaves[i].name}: the rows that were taken" for i in sorted(self.rows)]
        for heads, graph in self._of_heads.items():
            assert graph.backward is not None
            suffix = "" if graph.forward is self.forward else ", after a forward of its own"
            lines += _described(graph.backward, f"backward from {_some(heads)}{suffix}", naming, most)
        return lines

    def inputs_of(self, output: int) -> frozenset[int]:
        """Indices of the inputs on which a result depends."""
        inputs = self._inputs_of.get(output)
        if inputs is None:
            reached = ancestors(self.trace.nodes, self.trace.outputs[output])
            inputs = frozenset(i for i, leaf in enumerate(self.trace.leaves) if id(leaf) in reached)
            self._inputs_of[output] = inputs
        return inputs

    def inputs_of_heads(self, heads: tuple[int, ...]) -> frozenset[int]:
        """Indices of the inputs on which any of some results depends."""
        inputs = self._inputs_of_heads.get(heads)
        if inputs is None:
            inputs = self._inputs_of_heads[heads] = frozenset[int]().union(*map(self.inputs_of, heads))
        return inputs

    def of_heads(self, heads: tuple[int, ...]) -> CompiledGraph:
        """The graph whose backward starts from the results of these indices only, compiled on first use."""
        if heads == self.heads:
            return self
        graph = self._of_heads.get(heads)
        if graph is None:
            assert self.traced is not None, "a graph with a backward is made of a trace"
            compiling(self.trace.name.rpartition("-")[0], f"gradients start from {_some(heads)} of {self.visible}")
            graph = replace(self.traced, heads=heads).graph()
            if graph.forward.program.is_like(self.forward.program):  # saves the same values
                graph.forward = self.forward
            if self._is_repeated:
                graph.repeat()
            self._of_heads[heads] = graph
        return graph

    def repeat(self) -> None:
        """Record and replay the launches of repeated calls, where the target can (``static_alloc``)."""
        self._is_repeated = True
        for executable in (self.forward, self.backward):
            if executable is not None:
                executable.repeat()

    def __call__(self, *args: NDArray) -> Any:
        """Run on NDArrays for the inputs of role ``data``; parameters, captured arrays and the key are fetched."""
        inputs = list(args)
        for role, source in zip(self.trace.roles, self.trace.sources, strict=True):
            if role == "key":
                inputs.append(self.trace.random_key())
            elif role != "data":
                inputs.append(source.array() if role == "parameter" else source)
        return self.run(inputs)

    def run(self, inputs: Sequence[NDArray]) -> Any:
        """Run on NDArrays for all inputs, and put the call on the tape if autograd records and there is a backward."""
        arrays = [x._data for x in inputs]
        if self.updates:
            with UPDATES.held([arrays[i] for i in self.updates]):
                return self._run(inputs, arrays)
        return self._run(inputs, arrays)

    def _run(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        if RECORDER.detector is not None:
            return self._looked_at(inputs, arrays)
        return self._computed(inputs, arrays)

    def _looked_at(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        """As :meth:`_computed`; if there is a NaN or an infinity, the operator that made it is sought."""
        before = [wrap(a.copy() if i in self.updates else a) for i, a in enumerate(arrays)]
        result = self._computed(inputs, arrays)
        results = [result] if self.single else flatten(result, NDArray, "the results")[0]
        with autograd.pause(STATE.training):
            RECORDER.detector.graph(arrays, results, lambda: replay(self.trace, before), self.trace.name)
        return result

    def _computed(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        if self.backward is not None and STATE.recording:
            return self._recorded(inputs, arrays)
        forward = self.forward
        workspace = forward.acquire()
        try:
            values = forward.prepared
            if values is not None and not values.hold(arrays):
                values.prepare(workspace, arrays)
            results = forward.run_in(workspace, arrays)
            put_back(arrays, self.updates, results[self.visible :])
        finally:
            forward.release(workspace)
        if self.single:
            return at(self._context, wrap(results[0]))
        outputs = at(self._context, [wrap(r) for r in results[: self.visible]])
        return regroup(outputs, self.trace.structure)

    def _recorded(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        workspace = self.forward.acquire()
        try:
            results = self.forward.run_in(workspace, arrays)
        except Exception:
            self.forward.release(workspace)
            raise
        outputs = at(self._context, [wrap(r) for r in results[: self.visible]])
        if self.updates:
            before = [a.copy() if i in self.updates else a for i, a in enumerate(arrays)]  # before the forward
            put_back(arrays, self.updates, results[self.visible :])
            arrays = before
        call = RecordedCall(self, workspace, arrays, results)
        record_operator(call, inputs, arrays, outputs)
        return outputs[0] if self.single else regroup(outputs, self.trace.structure)


def put_back(arrays: Sequence[Any], updates: Sequence[int], values: Sequence[Any]) -> None:
    """Copy the new values of mutated inputs, whose indices are ``updates``, back into their arrays."""
    for i, value in zip(updates, values, strict=False):
        np.copyto(arrays[i], value)
        written(arrays[i])


def _some(heads: Sequence[int]) -> str:
    return f"result{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"


def _described(executable: Executable, name: str, naming: Naming, most: int, kept: str = "") -> list[str]:
    """Lines on the kernels, memory and host calls of a program."""
    head, *lines = program_lines(executable.program, executable.title, naming, kept, most)
    return [f"{name}: {head}", *lines, *[f"  {note}" for note in executable.notes()]]


# --- recorded calls ---------------------------------------------------------------------------------------------------


class RecordedCall:
    """The tape's node for one call of a graph: computes its gradients. Owns the call's workspace until released."""

    def __init__(self, graph: CompiledGraph, workspace: Any, arrays: list[Any], results: Sequence[Any]) -> None:
        self.graph = graph
        self.workspace = workspace
        self.values = [*arrays, *results]

    def inputs_of(self, output: int) -> Collection[int]:
        """Indices of the inputs on which a result depends."""
        return self.graph.inputs_of(output)

    def vjp(self, ograds: Sequence[Any], node: TapeNode, into: Mapping[int, Any]) -> Sequence[Any]:
        """Gradients of the inputs: by the compiled backward, or by replaying the trace for higher derivatives."""
        # COMPAT(mxnet): there outputs of a hybridized block without a head gradient contribute; here they do not.
        heads = tuple([i for i, g in enumerate(ograds) if g is not None])
        if STATE.recording:
            return self.replayed(ograds, node.inputs(), heads)
        graph = self.graph.of_heads(heads)
        assert graph.backward is not None
        workspace, values = None, self.values
        if graph.forward is not self.graph.forward:  # saves other values: run it on the same inputs
            workspace, arrays = graph.forward.acquire(), values[: len(node.entries)]
            values = [*arrays, *graph.forward.run_in(workspace, arrays)]
        arguments = [*[values[i] for i in graph.saved], *[ograds[i]._data for i in heads]]
        wanted = self.graph.inputs_of_heads(heads)
        places: Sequence[Any] = (None,) * len(graph.grads)
        if into:
            places = [_place(into.get(i), values[i], arguments) if i in wanted else None for i in graph.grads]
        if graph.rows:
            places = [place for i, place in zip(graph.grads, places, strict=True) for _ in range(1 + (i in graph.rows))]
        results = iter(graph.backward(places, *arguments))
        if workspace is not None:
            graph.forward.release(workspace)
        grads: list[Any] = [None] * len(node.entries)
        for i in graph.grads:
            if i in graph.rows:
                grads[i] = HOOKS.wrap_sparse(RowSparseStorage.of_sum(values[i].shape, next(results), next(results)))
            elif i in wanted:
                grads[i] = wrap(next(results))
            else:
                next(results)
        return grads

    def replayed(self, ograds: Sequence[Any], inputs: Sequence[Any], chosen: tuple[int, ...]) -> Sequence[Any]:
        """The gradients, by running the trace eagerly on the tape and differentiating that: for higher derivatives."""
        graph = self.graph
        fresh = [wrap(x._data) for x in inputs]
        for x, original in zip(fresh, inputs, strict=True):
            x._entry = original._entry
        start = autograd.tape_position()
        outputs = replay(graph.trace, fresh)[: graph.visible]
        wanted = graph.inputs_of_heads(chosen)
        numbers = [i for i in graph.grads if i in wanted]
        heads = [(outputs[i], ograds[i]) for i in chosen if outputs[i]._entry is not None]
        input_grads = autograd.gradients_since(
            start, [y for y, _ in heads], [fresh[i] for i in numbers], [g for _, g in heads]
        )
        grads: list[Any] = [None] * len(inputs)
        for i, g in zip(numbers, input_grads, strict=True):
            grads[i] = g
        return grads

    def release(self) -> None:
        """Free the workspace: the tape dropped this call."""
        if self.workspace is not None:
            self.graph.forward.release(self.workspace)
            self.workspace = None
            self.values = []


def _place(buffer: Any, like: Any, arguments: Sequence[Any]) -> Any:
    """A gradient buffer, if the backward can use it as an output buffer (destination passing); else None."""
    if buffer is None or not buffer.flags.c_contiguous:
        return None
    if buffer.shape != like.shape or buffer.dtype != like.dtype:
        return None
    foreign = buffer.base is not None  # two arrays that own their memory share none
    shares = any((foreign or a.base is not None) and np.may_share_memory(buffer, a) for a in arguments)
    return None if shares else buffer


def replay(trace: Trace, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Run a trace eagerly, operator by operator, on NDArrays for all its inputs; an error names the user's line."""
    values: dict[int, Any] = {id(s): x for s, x in zip(trace.leaves, inputs, strict=True)}
    last = _last_uses(trace)
    for index, node in enumerate(trace.nodes):
        operands = [values[id(s)] for s in node.inputs]
        if RECORDER.detector is not None:
            RECORDER.detector.at(node.location)
        try:
            results = execute(node.op, operands)
        except MXNetError as error:
            raise_located(error, node.location)
        for symbol, result in zip(node.outputs, results, strict=True):
            values[id(symbol)] = result
        for symbol in (*node.inputs, *node.outputs):
            if last.get(id(symbol), index) <= index:
                values.pop(id(symbol), None)
    return [values[id(s)] for s in trace.outputs]


def _last_uses(trace: Trace) -> dict[int, int]:
    """For each value of a trace that an operator reads, or that is a result, the index of the last reader."""
    last = {id(s): index for index, node in enumerate(trace.nodes) for s in node.inputs}
    return last | dict.fromkeys(map(id, trace.outputs), len(trace.nodes))
