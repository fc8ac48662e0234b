"""A compiled graph: programs that run on raw arrays, their workspaces, and the link to the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.nd.ndarray import NDArray
from hybridc.runtime.executable import Executable
from hybridc.runtime.locks import UPDATES
from hybridc.runtime.state import STATE
from hybridc.trace.structure import regroup
from hybridc.trace.tracer import Trace

# Bytes of a gradient from which writing it in place saves more than finding out that it is safe.
_WORTH_WRITING = 1 << 14


class CompiledGraph:
    """A network for one signature: a forward program and, where gradients are wanted, a backward one.

    ``saved`` says what the backward's first arguments are (inputs, then results of the forward, by number), ``grads``
    which inputs it differentiates, ``kept`` how many bytes a forward leaves in its workspace for its backward.
    """

    def __init__(
        self,
        trace: Trace,
        forward: Executable,
        backward: Executable | None,
        saved: Sequence[int],
        grads: Sequence[int],
        kept: int = 0,
    ) -> None:
        self.trace = trace
        self.forward = forward
        self.backward = backward
        self.saved = saved
        self.grads = grads
        self.kept = kept
        self.updates = trace.updates
        self.visible = len(trace.outputs) - len(self.updates)
        self.single = type(trace.structure) is int

    @property
    def is_simple(self) -> bool:
        """Whether a call without gradients is its program and one result, nothing else."""
        return self.single and not self.updates

    def __str__(self) -> str:
        parts = [self.forward.program.source]
        if self.backward is not None:
            parts.append(self.backward.program.source)
        return "\n\n".join(parts)

    def summary(self) -> list[str]:
        """Kernels, memory and host calls in words."""
        lines: list[str] = []
        for executable in (self.forward, self.backward):
            if executable is None:
                continue
            program = executable.program
            kernels, calls = len(program.launches), len(program.host_calls)
            kept = f", {self.kept} of them for the backward" if self._keeps(executable) else ""
            lines.append(
                f"{program.name}: {kernels} kernel{'s' * (kernels != 1)}, {calls} of them host calls; "
                f"arena {program.arena} bytes ({program.live} at once){kept}"
            )
            lines += [f"  kernel {name}" for name in program.launches]
            lines += [f"  host call {call}" for call in program.host_calls]
        return lines

    def _keeps(self, executable: Executable) -> bool:
        return executable is self.forward and self.backward is not None

    def __call__(self, *args: NDArray) -> Any:
        """Run on NDArrays for the inputs of role ``data``; parameters, captured arrays and the key are fetched."""
        inputs = list(args)
        for role, source in zip(self.trace.roles, self.trace.sources, strict=True):
            if role == "key":
                inputs.append(self.trace.draw_key())
            elif role != "data":
                inputs.append(source.data() if role == "parameter" else source)
        return self.run(inputs)

    def run(self, inputs: Sequence[NDArray]) -> Any:
        """Run on NDArrays for all inputs, and put the call on the tape if autograd records and there is a backward."""
        arrays = [x._data for x in inputs]
        if self.updates:
            with UPDATES.held([arrays[i] for i in self.updates]):
                return self._run(inputs, arrays)
        return self._run(inputs, arrays)

    def _run(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        if self.backward is not None and STATE.recording:
            return self._recorded(inputs, arrays)
        forward = self.forward
        workspace = forward.acquire()
        try:
            results = forward.run_in(workspace, arrays)
            self._write_back(arrays, results)
        finally:
            forward.release(workspace)
        if self.single:
            return NDArray(results[0])
        return regroup([NDArray(r) for r in results[: self.visible]], self.trace.structure)

    def _recorded(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        from hybridc import autograd

        workspace = self.forward.acquire()
        try:
            results = self.forward.run_in(workspace, arrays)
        except Exception:
            self.forward.release(workspace)
            raise
        outputs = [NDArray(r) for r in results[: self.visible]]
        if self.updates:
            before = [a.copy() if i in self.updates else a for i, a in enumerate(arrays)]  # what the forward saw
            self._write_back(arrays, results)
            arrays = before
        rule = _GraphRule(self, workspace, arrays, results)
        autograd.record_operator(rule, inputs, arrays, outputs)
        return outputs[0] if self.single else regroup(outputs, self.trace.structure)

    def _write_back(self, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Put the new values of inputs that operators mutate into their arrays."""
        for i, value in zip(self.updates, results[self.visible :], strict=False):
            np.copyto(arrays[i], value)


class _GraphRule:
    """One recorded call of a graph: what the tape asks for gradients. It owns the call's workspace until freed."""

    def __init__(self, graph: CompiledGraph, workspace: Any, arrays: list[Any], results: Sequence[Any]) -> None:
        self.graph = graph
        self.workspace = workspace
        self.values = [*arrays, *results]

    def vjp(
        self,
        F: Any,
        ograds: Sequence[Any],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        into: Sequence[Any],
    ) -> Sequence[Any]:
        """Gradients of the inputs, by the compiled backward; by replaying the trace if differentiated again."""
        if STATE.recording:
            return self._replayed(ograds, inputs)
        graph = self.graph
        assert graph.backward is not None
        given = [*[self.values[i] for i in graph.saved], *[g._data for g in ograds]]
        places = [_place(into[i], inputs[i]._data, given) for i in graph.grads]
        results = graph.backward(places, *given)
        grads: list[Any] = [None] * len(inputs)
        for i, result in zip(graph.grads, results, strict=True):
            grads[i] = NDArray(result)
        return grads

    def _replayed(self, ograds: Sequence[Any], inputs: Sequence[Any]) -> Sequence[Any]:
        """Gradients of gradients: run the trace eagerly on the tape and differentiate that."""
        from hybridc import autograd

        graph = self.graph
        fresh = [NDArray(x._data) for x in inputs]
        for x, original in zip(fresh, inputs, strict=True):
            x._entry = original._entry
        start = autograd.tape_position()
        outputs = replay(graph.trace, fresh)[: graph.visible]
        wanted = [fresh[i] for i in graph.grads]
        found = autograd.gradients_since(start, outputs, wanted, ograds)
        grads: list[Any] = [None] * len(inputs)
        for i, g in zip(graph.grads, found, strict=True):
            grads[i] = g
        return grads

    def release(self) -> None:
        """The tape needs this call no more."""
        if self.workspace is not None:
            self.graph.forward.release(self.workspace)
            self.workspace = None
            self.values = []


def _place(buffer: Any, like: Any, given: Sequence[Any]) -> Any:
    """A gradient buffer, if the backward can write its result straight into it; small ones are as soon copied."""
    if buffer is None or buffer.nbytes < _WORTH_WRITING or not buffer.flags.c_contiguous:
        return None
    fits = buffer.shape == like.shape and buffer.dtype == like.dtype
    return buffer if fits and not any(np.may_share_memory(buffer, a) for a in given) else None


def replay(trace: Trace, inputs: Sequence[NDArray]) -> list[NDArray]:
    """Run a trace eagerly, operator by operator, on NDArrays for all its inputs."""
    from hybridc.dispatch import execute

    values: dict[int, Any] = {id(s): x for s, x in zip(trace.leaves, inputs, strict=True)}
    for node in trace.nodes:
        given = [values[id(s)] for s in node.inputs]
        results = execute(node.op, given, [x._data for x in given])
        for symbol, result in zip(node.outputs, results, strict=True):
            values[id(symbol)] = result
    return [values[id(s)] for s in trace.outputs]
