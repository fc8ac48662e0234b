"""Stages of a compilation as a prompt and a notebook show them: what they hold, in a line; ``print`` shows it all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, cast

from hybridc.ground.display.arguments_text import counted, typed

_SCAFFOLD = ("func.return", "hybrid.constant", "arith.constant", "builtin.unrealized_conversion_cast")


def stage_text(self: Any) -> str:
    """``<Lowered mlp0-1: forward of 3 kernels for llvm; float32[2, 3] -> float32[2, 4]; print() shows the code>``."""
    return f"<{_title(self)}; print() shows the {_shown(self)}>"


def stage_html(self: Any) -> str:
    """The same line, over the program, which unfolds."""
    from hybridc.ground.display.html import folded, preformatted

    return folded(_title(self), preformatted(str(self)))


def _title(stage: Any) -> str:
    trace = stage.trace
    return f"{type(stage).__name__} {trace.name}: {_contents(stage)}; {_inputs(trace)} -> {_outputs(trace)}"


def _shown(stage: Any) -> str:
    return "code" if hasattr(stage, "programs") or hasattr(stage, "forward") else "program"


def _contents(stage: Any) -> str:
    """How much there is: operators of a graph, kernels of what was fused."""
    if hasattr(stage, "forward"):  # a compiled graph
        executables = [e for e in (stage.forward, stage.backward) if e is not None]
        return _parts([(e.program.name, len(e.program.launches), "kernel") for e in executables])
    if hasattr(stage, "programs"):
        parts = [(name, len(program.launches), "kernel") for name, program in stage.programs.items()]
        return f"{_parts(parts)} for {stage.target.name}"
    module = cast("dict[str, Any]", vars(stage)).get("module")
    if module is None:
        return counted(len(stage.trace.nodes), "operator")
    public = [op for op in module.ops if op.name == "func.func" and op.sym_visibility is None]
    if hasattr(stage, "target"):
        parts = [(f.sym_name.data, sum(op.name == "func.call" for op in f.body.ops), "kernel") for f in public]
        return f"{_parts(parts)} for {stage.target.name}"
    parts = [(f.sym_name.data, sum(op.name not in _SCAFFOLD for op in f.body.ops), "operation") for f in public]
    return _parts(parts)


def _parts(parts: Sequence[tuple[str, int, str]]) -> str:
    return ", ".join(f"{name} of {counted(size, what)}" for name, size, what in parts)


def _inputs(trace: Any) -> str:
    """The data by dtype and shape, other inputs by number."""
    leaves = list(zip(trace.leaves, trace.roles, strict=True))
    data = [typed(leaf._dtype, leaf.inferred_shape) for leaf, role in leaves if role == "data"]
    others = Counter(role for _, role in leaves if role != "data")
    return ", ".join([*_bounded(data), *(counted(size, role) for role, size in others.items())]) or "no inputs"


def _outputs(trace: Any) -> str:
    results = trace.outputs[: len(trace.outputs) - len(trace.updates)]
    texts = _bounded([typed(y._dtype, y.inferred_shape) for y in results])
    return ", ".join([*texts, *([counted(len(trace.updates), "update")] if trace.updates else [])])


def _bounded(texts: list[str]) -> list[str]:
    return texts if len(texts) <= 8 else [*texts[:8], f"… {len(texts)} in all"]
