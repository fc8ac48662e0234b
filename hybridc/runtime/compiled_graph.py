"""A compiled graph: programs that run on raw arrays, their workspaces, and the link to the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hybridc.nd.ndarray import NDArray, wrap
from hybridc.runtime.executable import Executable
from hybridc.runtime.locks import UPDATES
from hybridc.runtime.recorded_call import RecordedCall
from hybridc.runtime.state import STATE
from hybridc.trace.structure import regroup
from hybridc.trace.tracer import Trace


class CompiledGraph:
    """A network for one signature: a forward program and, where gradients are wanted, a backward one.

    ``saved`` says what the backward's first arguments are (inputs, then results of the forward, by number), ``grads``
    which inputs it differentiates, ``kept`` how many bytes a forward leaves in its workspace for its backward.
    ``origin`` says in words where it is from, if it was not compiled for this trace.
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
        self.origin = ""
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
        """Where it is from, kernels, memory and host calls in words."""
        lines = [self.origin] if self.origin else []
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
            lines += [f"  {note}" for note in executable.notes()]
        return lines

    def repeat(self) -> None:
        """Expect many calls that are alike (``static_alloc``)."""
        for executable in (self.forward, self.backward):
            if executable is not None:
                executable.repeat()

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
            return wrap(results[0])
        return regroup([wrap(r) for r in results[: self.visible]], self.trace.structure)

    def _recorded(self, inputs: Sequence[NDArray], arrays: list[Any]) -> Any:
        from hybridc import autograd

        workspace = self.forward.acquire()
        try:
            results = self.forward.run_in(workspace, arrays)
        except Exception:
            self.forward.release(workspace)
            raise
        outputs = [wrap(r) for r in results[: self.visible]]
        if self.updates:
            before = [a.copy() if i in self.updates else a for i, a in enumerate(arrays)]  # what the forward saw
            self._write_back(arrays, results)
            arrays = before
        call = RecordedCall(self, workspace, arrays, results)
        autograd.record_operator(call, inputs, arrays, outputs)
        return outputs[0] if self.single else regroup(outputs, self.trace.structure)

    def _write_back(self, arrays: Sequence[Any], results: Sequence[Any]) -> None:
        """Put the new values of inputs that operators mutate into their arrays."""
        for i, value in zip(self.updates, results[self.visible :], strict=False):
            np.copyto(arrays[i], value)
