"""Which operators can be written as ONNX: ``python -m hybridc.tools.onnx_operators [NAME …]`` prints a table.

Each sample of an operator is written as a model, which must pass ONNX's checker with strict shape inference, and is
run by ONNX Runtime and OpenVINO: their results must be those of hybridc, within 1e-5 of the largest magnitude.
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import numpy as np

from hybridc.dialects import operator_registry
from hybridc.dialects.operator import Operator
from hybridc.errors import MXNetError
from hybridc.ground.records import dataclass
from hybridc.interchange.onnx.writing.model_file import OPSET, ModelOptions, model_of
from hybridc.tools.check_op.case import Case, each_sample, eager
from hybridc.trace.tracer import Trace

TOLERANCE = 1e-5  # of the largest magnitude: a few roundings of single precision in a row
Engine = Callable[[Any, dict[str, Any]], list[Any]]


@dataclass(frozen=True)
class Exported:
    """What became of an operator: which engines agreed on all samples, and what was wrong elsewhere."""

    name: str
    samples: int
    engines: tuple[str, ...]
    reason: str

    @property
    def is_written(self) -> bool:
        """Whether all samples became valid models."""
        return self.samples > 0 and "checker" in self.engines


def onnx_runtime(model: Any, feeds: dict[str, Any]) -> list[Any]:
    """The results of ONNX Runtime."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def openvino(model: Any, feeds: dict[str, Any]) -> list[Any]:
    """The results of OpenVINO, computed in single precision where it can."""
    engine = importlib.import_module("openvino")
    core = engine.Core()
    # With its kernels for small integers, sums saturate on processors without instructions for them.
    settings = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1, "LP_TRANSFORMS_MODE": "NO"}
    compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU", settings)
    known = {name for port in compiled.inputs for name in port.names}
    found = compiled({name: x for name, x in feeds.items() if name in known})
    return [found[i] for i in range(len(compiled.outputs))]


ENGINES: dict[str, Engine] = {"ONNX Runtime": onnx_runtime, "OpenVINO": openvino}


def operator_model(op: Operator, arrays: Sequence[Any], opset: int = OPSET) -> tuple[Any, dict[str, Any]]:
    """The model of one operator on arrays like these, and its inputs by name."""
    trace = Trace()
    trace.track_locations = False
    names = [f"input{i}" for i in range(len(arrays))]
    leaves = [trace.leaf(n, x.shape, x.dtype, "data") for n, x in zip(names, arrays, strict=True)]
    inputs = [*leaves, trace.key()] if op.DRAWS else leaves
    with trace.active():
        outputs = trace.emit(op, inputs, None)
    trace.outputs = outputs[: op.num_visible_outputs()]
    names_of_results = [f"result{i}" for i in range(len(trace.outputs))]
    model = model_of(trace, {}, names_of_results, ModelOptions(opset))
    return model, dict(zip(names, arrays, strict=True))


def checked(model: Any) -> None:
    """Raise unless ONNX's checker accepts the model, with strict shape inference."""
    onnx = importlib.import_module("onnx")
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)


def difference(got: Sequence[Any], wanted: Sequence[Any], tolerance: float = TOLERANCE) -> str:
    """What is wrong with results; "" if nothing is. The tolerance is relative to the largest magnitude."""
    for i, (y, w) in enumerate(zip(got, wanted, strict=True)):
        y = np.asarray(y)
        if y.shape != w.shape or y.dtype != w.dtype:
            return f"result {i} is {y.dtype}{list(y.shape)}, not {w.dtype}{list(w.shape)}"
        y, w = y.astype(np.float64), w.astype(np.float64)
        finite = np.isfinite(w)
        if not np.array_equal(y[~finite], w[~finite], equal_nan=True):
            return f"result {i} has other infinities or nans"
        scale = np.abs(w[finite]).max(initial=0.0)
        error = np.abs(y[finite] - w[finite]).max(initial=0.0)
        if not error <= tolerance * max(scale, 1e-30):
            return f"result {i} is off by {error:.2g} where the largest is {scale:.2g}"
    return ""


def _in_short(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300] + (f" … {lines[-1]}"[:160] if lines[1:] else "")


def _sample_problems(case: Case, opset: int) -> dict[str, str]:
    """By engine, what is wrong with a sample."""
    op, arrays = case.operator(), case.arrays()
    model, feeds = operator_model(op, arrays, opset)
    problems: dict[str, str] = {}
    try:
        checked(model)
    except Exception as error:
        problems["checker"] = _in_short(error)
    wanted = [np.asarray(y) for y in eager(op, arrays)[: op.num_visible_outputs()]]
    for name, engine in ENGINES.items():
        try:
            found = difference(engine(model, feeds), wanted)
        except Exception as error:
            found = _in_short(error)
        if found:
            problems[name] = found
    return problems


def exported(cls: type[Operator], opset: int = OPSET) -> Exported:
    """What becomes of an operator's samples."""
    name = cls.NAME.removeprefix("hybrid.")
    cases = list(each_sample(cls))
    agreeing = ["checker", *ENGINES]
    reasons: list[str] = []
    for label, case in cases:
        try:
            problems = _sample_problems(case, opset)
        except MXNetError as error:
            return Exported(name, len(cases), (), str(error))
        except Exception as error:
            return Exported(name, len(cases), (), f"{label}: {_in_short(error)}")
        agreeing = [e for e in agreeing if e not in problems]
        reasons += [f"{label}, {engine}: {text}" for engine, text in problems.items()]
    return Exported(name, len(cases), tuple(agreeing), " | ".join(reasons))


def _exported_by_name(name: str, opset: int) -> Exported:
    warnings.simplefilter("ignore")
    return exported(operator_registry.operator(name), opset)


class _Worker:
    """A process that runs engines, which may crash: then the next operator gets a new one."""

    def __init__(self) -> None:
        self._pool: Any = None

    def __call__(self, name: str, opset: int) -> Exported:
        """What becomes of an operator."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("fork"))
        try:
            return self._pool.submit(_exported_by_name, name, opset).result()
        except BrokenProcessPool:
            self._pool = None
            return Exported(name.removeprefix("hybrid."), 1, (), "the engine crashed")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, and the counts."""
    parser = argparse.ArgumentParser(prog="python -m hybridc.tools.onnx_operators", description=__doc__)
    parser.add_argument("operators", nargs="*", help="names of operators; all by default")
    parser.add_argument("--opset", type=int, default=OPSET)
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    worker = _Worker()
    for name in sorted(operator_registry.operators()):
        short = name.removeprefix("hybrid.")
        if chosen.operators and short not in chosen.operators:
            continue
        found = worker(name, chosen.opset)
        counts["all"] += 1
        counts.update(found.engines if found.samples else ["without samples"])
        state = "ok" if len(found.engines) == 1 + len(ENGINES) else ", ".join(found.engines) or "-"
        print(f"{short:40} {found.samples:3} {state if found.samples else 'no samples'}  {found.reason}", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
