"""The structured form, compiled by IREE: another compiler accepts what we print and computes what we compute.

``python benchmarks/compare_iree.py --iree FOLDER`` takes a virtual environment that has IREE
(``iree-base-compiler``, ``iree-base-runtime``), prints a table of the benchmark networks, forward and backward, and one
line for all samples of all operators whose structured form calls no host. It ends with 1 if IREE rejects anything or a
result differs.

IREE is no dependency of hybridc: its environment runs ``iree-compile`` and, as ``--run``, this file.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=host",
    "--iree-input-demote-f64-to-f32=false",
)
TOLERANCE = 2e-4  # of the largest magnitude: IREE's exp, tanh, erf of float32 are polynomials
HALF_TOLERANCE = 4e-3
# What IREE 3.13 says to valid MLIR that it cannot compile: functions that it neither lowers nor links (most of float64,
# in which integers are computed), and a failure of its vectorizer.
LIMITS = re.compile(
    r"undefined symbol: \w+|failed to legalize operation 'math\.\w+'|'vector.contract' op invalid accumulator.*"
)
BATCH = 40  # samples in one call of iree-compile


@dataclass
class Job:
    """A function to be run by IREE: its name in the text, its inputs, what it must give."""

    label: str
    name: str
    text: str  # of the module that has it
    inputs: list[np.ndarray]
    expected: list[np.ndarray | None]
    results: list[np.ndarray] = field(default_factory=list)
    problem: str = ""

    def tolerance(self) -> float:
        """The largest error that passes."""
        return HALF_TOLERANCE if any(x.dtype == np.float16 for x in self.inputs) else TOLERANCE

    def error(self) -> float:
        """The largest error, relative to the magnitude of the output."""
        worst = 0.0
        for got, want in zip(self.results, self.expected, strict=True):
            if want is None or not want.size:
                continue
            got, want = got.astype(np.float64), want.astype(np.float64)
            same = (got == want) | (np.isnan(got) & np.isnan(want))
            finite = np.isfinite(want)
            scale = max(float(np.abs(want[finite]).max(initial=0)), 1e-30) if finite.any() else 1.0
            with np.errstate(invalid="ignore"):
                difference = np.where(same, 0.0, np.abs(got - want))
            worst = max(worst, float(np.nan_to_num(difference, nan=np.inf).max()) / scale)
        return worst


# --- in IREE's environment -----------------------------------------------------------------------------------


def run_here(folder: Path) -> None:
    """Run every function that ``jobs.json`` lists, and write its results beside its inputs."""
    import iree.runtime as rt  # pyright: ignore[reportMissingImports]

    config = rt.Config("local-task")
    modules: dict[str, Any] = {}
    for job in json.loads((folder / "jobs.json").read_text()):
        if job["binary"] not in modules:
            binary = (folder / job["binary"]).read_bytes()
            context = rt.SystemContext(config=config)
            context.add_vm_module(rt.VmModule.copy_buffer(config.vm_instance, binary))
            modules[job["binary"]] = context.modules.module
        with np.load(folder / f"{job['number']}.in.npz") as given:
            inputs = [given[f"arr_{i}"] for i in range(len(given.files))]
        results = modules[job["binary"]][job["name"]](*inputs)
        results = results if isinstance(results, list | tuple) else (results,)
        np.savez(folder / f"{job['number']}.out.npz", *[np.asarray(r) for r in results])


# --- in ours ----------------------------------------------------------------------------------------------


def compile_text(iree: Path, text: str, folder: Path, name: str) -> tuple[float, str]:
    """Compile a module; the seconds it took, and what IREE says if it rejects it."""
    source = folder / f"{name}.mlir"
    source.write_text(text)
    start = time.perf_counter()
    command = [str(iree / "bin" / "iree-compile"), *FLAGS, str(source), "-o", str(folder / f"{name}.vmfb")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "error" in line]
    return time.perf_counter() - start, (said[0] if said else done.stderr[:300]) if done.returncode else ""


def run_jobs(iree: Path, jobs: Sequence[Job], folder: Path, binaries: dict[str, str]) -> None:
    """Run jobs whose text is compiled, in IREE's environment."""
    listed = []
    for number, job in enumerate(jobs):
        np.savez(folder / f"{number}.in.npz", *job.inputs)
        listed.append({"number": number, "name": job.name, "binary": binaries[job.text]})
    (folder / "jobs.json").write_text(json.dumps(listed))
    command = [str(iree / "bin" / "python"), str(Path(__file__).resolve()), "--run", str(folder)]
    subprocess.run(command, check=True)
    for number, job in enumerate(jobs):
        with np.load(folder / f"{number}.out.npz") as found:
            job.results = [found[f"arr_{i}"] for i in range(len(found.files))]


def structured(trace: Any, grads: tuple[int, ...]) -> Any:
    """The structured stage of a trace, with its backward if gradients are wanted."""
    from hybridc.compile.stages import Traced

    return Traced(trace, grads).optimize().structure()


def jobs_of(
    label: str, stage: Any, inputs: list[np.ndarray], outputs: list[np.ndarray], heads: list[np.ndarray],
    gradients: list[np.ndarray | None],
) -> Iterator[Job]:  # fmt: skip
    """The forward of a stage and then, when that has run, its backward on what the forward gave."""
    text = str(stage)
    functions = {f.sym_name.data: f for f in stage.module.ops}
    extra = len(functions["forward"].function_type.outputs) - len(outputs)
    first = Job(f"{label} forward", "forward", text, inputs, [*outputs, *[None] * extra])
    yield first
    if "backward" in functions and first.results:
        saved = functions["backward"].attributes["hybrid.saved"].get_values()
        known = [*inputs, *first.results]
        yield Job(f"{label} backward", "backward", text, [*[known[i] for i in saved], *heads], gradients)


# --- networks ---------------------------------------------------------------------------------------------


def gradients_of(
    block: Any, args: Sequence[Any], trace: Any
) -> tuple[list[Any], list[np.ndarray], list[np.ndarray], list[int], list[np.ndarray | None]]:
    """A block run eagerly: its leaves, outputs, the gradients put in, the leaves to differentiate, the gradients."""
    import hybridc as mx

    given = iter(args)
    leaves = [next(given) if r == "data" else s.data() for r, s in zip(trace.roles, trace.sources, strict=True)]
    wanted = [i for i, x in enumerate(leaves) if np.dtype(x.dtype).kind == "f"]
    for i in wanted:
        if trace.roles[i] == "data":
            leaves[i].attach_grad()
    with mx.autograd.record():
        result = block(*args)
    outputs = list(result) if isinstance(result, list | tuple) else [result]
    rng = np.random.default_rng(1)
    heads = [rng.standard_normal(y.shape).astype("float32") for y in outputs]
    mx.autograd.backward(outputs, [mx.nd.array(h) for h in heads])
    grads = [leaves[i].grad if trace.roles[i] == "data" else trace.sources[i].grad() for i in wanted]
    return leaves, [y.asnumpy() for y in outputs], heads, wanted, [g.asnumpy() for g in grads]


def network_jobs(name: str) -> Iterator[Job]:
    """The networks of a workload: forward and backward of each of its blocks."""
    from benchmarks.workloads import WORKLOADS
    from hybridc.trace.tracer import trace_call

    program = WORKLOADS[name].build(hybridized=False)
    for number, (block, args) in enumerate(zip(program.blocks, program.feeds(), strict=True)):
        label = name if len(program.blocks) == 1 else f"{name} {('network', 'loss')[number]}"
        trace = trace_call(block, args, training=True)
        leaves, outputs, heads, wanted, gradients = gradients_of(block, args, trace)
        stage = structured(trace, tuple(wanted))
        yield from jobs_of(label, stage, [x.asnumpy() for x in leaves], outputs, heads, gradients)


def compare_networks(iree: Path, names: Sequence[str]) -> bool:
    """Print the table; whether all is well."""
    print("| network | operations | IREE compiles, s | largest error |\n|---|---|---|---|")
    well = True
    for name in names:
        seconds: dict[str, float] = {}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            for job in network_jobs(name):
                if job.text not in seconds:
                    seconds[job.text], job.problem = compile_text(iree, job.text, folder, "module")
                if not job.problem:
                    run_jobs(iree, [job], folder, {job.text: "module.vmfb"})
                count = job.text.partition(f"@{job.name}(")[2].partition("func.func")[0].count("linalg.")
                well &= not job.problem and job.error() <= TOLERANCE
                shown = job.problem or f"{job.error():.1e}"
                print(f"| {job.label} | {count} | {seconds[job.text]:.1f} | {shown} |", flush=True)
    return well


# --- operators --------------------------------------------------------------------------------------------


def sample_jobs(operators: Sequence[str]) -> Iterator[Iterator[Job]]:
    """Every sample of every operator (or of these) that calls no host: its forward, then its backward.

    Operators on any numbers come once more in half precision and in integers, forward only.
    """
    from hybridc.dialects.operator_registry import operators
    from hybridc.tools.check_op.case import each_sample
    from hybridc.tools.check_op.check_compiled import each_other_dtype

    for name, cls in sorted(operators().items()):
        if name.removeprefix("hybrid.") not in operators if operators else not name.startswith("hybrid."):
            continue
        for call, case in each_sample(cls):
            arrays = case.arrays("float32" if case.dtype.startswith("float") else None)
            grads = [i for i, x in enumerate(arrays) if x.dtype == np.float32 and case.differentiable(i)]
            yield from sample_job(call, case.unbound(), arrays, grads if case.sample.grad else [])
        for call, case in each_other_dtype(cls):
            rng = np.random.default_rng(1)
            arrays = [rng.integers(1, 4, x.shape).astype(case.dtype) for x in case.arrays()]
            yield from sample_job(call, case.unbound(), arrays, [])


def sample_job(call: str, op: Any, arrays: list[np.ndarray], grads: list[int]) -> Iterator[Iterator[Job]]:
    """The jobs of one operator on these inputs, if it calls no host."""
    from hybridc.tools.check_op.case import gradients, ndarrays, run, weights_of
    from hybridc.tools.check_op.check_compiled import OperatorNet
    from hybridc.trace.tracer import trace_call

    extra = np.zeros(1, np.float32)
    trace = trace_call(OperatorNet(op), [*ndarrays([extra]), *ndarrays(arrays)], training=False)
    stage = structured(trace, tuple(i + 1 for i in grads))
    if "func.call" in str(stage) or "key" in trace.roles:
        return
    outputs = run(op, ndarrays(arrays))
    weights = weights_of(outputs)
    slopes = gradients(op, arrays, weights) if grads else []
    inputs = [signless(x) for x in (extra, *arrays)]
    results = [signless(y.asnumpy()) for y in outputs]
    yield jobs_of(call, stage, inputs, results, weights, [slopes[i] for i in grads])


def signless(x: np.ndarray) -> np.ndarray:
    """An array as upstream has it: unsigned integers are read as signed ones."""
    return x.view(f"int{x.dtype.itemsize * 8}") if x.dtype.kind == "u" else x


def renamed(job: Job, number: int) -> str:
    """The functions of a job's module without the module, under names of their own."""
    body = job.text.strip().removeprefix("builtin.module {").removesuffix("}")
    return body.replace("func.func @", f"func.func @s{number}_")


def compare_samples(iree: Path, operators: Sequence[str]) -> bool:
    """Print one line for all samples, and one for each that fails; whether all is well."""
    pairs = [(pair, next(pair)) for pair in sample_jobs(operators)]
    forward = [job for _, job in pairs]
    texts = [renamed(job, number) for number, job in enumerate(forward)]
    jobs: list[Job] = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        binaries: dict[str, str] = {}

        def build(numbers: Sequence[int], name: str) -> None:
            """Compile samples together; where IREE rejects one, each alone."""
            text = "".join(texts[n] for n in numbers)
            _, problem = compile_text(iree, text, folder, name)
            for n in numbers if problem and len(numbers) > 1 else ():
                build([n], f"{name}_{n}")
            if problem and len(numbers) > 1:
                return
            for n in numbers:
                forward[n].problem, forward[n].name = problem, f"s{n}_forward"
                forward[n].text = text
                binaries[text] = f"{name}.vmfb"

        for start in range(0, len(forward), BATCH):
            build(range(start, min(start + BATCH, len(forward))), f"m{start}")
        run_jobs(iree, [j for j in forward if not j.problem], folder, binaries)
        for number, (pair, first) in enumerate(pairs):
            jobs.append(first)
            for job in () if first.problem else pair:
                job.name, job.text = f"s{number}_backward", first.text
                jobs.append(job)
        run_jobs(iree, [j for j in jobs if not j.results and not j.problem], folder, binaries)
    wrong = [j for j in jobs if j.problem or not j.error() <= j.tolerance()]
    limits: dict[str, list[str]] = {}
    bad: list[Job] = []
    for job in wrong:
        known = LIMITS.search(job.problem)
        if known:
            limits.setdefault(known[0], []).append(job.label.removesuffix(" forward"))
        else:
            bad.append(job)
    worst = max(j.error() for j in jobs if not j.problem and j.tolerance() == TOLERANCE)
    beyond = sum(map(len, limits.values()))
    said = f"{len(jobs)} functions, {len(bad)} failed, {beyond} beyond IREE, largest error {worst:.1e}"
    print(f"\nsamples of operators: {said}")
    for job in bad:
        print(f"* {job.label}: {job.problem or f'off by {job.error():.1e}'}")
    for why, labels in sorted(limits.items()):
        print(f"* beyond IREE: {why}: {', '.join(labels)}")
    return not bad


def main() -> int:
    parser = argparse.ArgumentParser(description="the structured form, compiled and run by IREE")
    parser.add_argument("--iree", type=Path, help="a virtual environment that has IREE")
    parser.add_argument("--networks", help="only these, separated by commas", default=None)
    parser.add_argument("--operators", help="only these, separated by commas", default=None)
    parser.add_argument("--run", type=Path, help="run the jobs in this folder (used by the script itself)")
    options = parser.parse_args()
    if options.run:
        run_here(options.run)
        return 0
    if options.iree is None or not (options.iree / "bin" / "iree-compile").exists():
        parser.error("--iree must name a virtual environment with bin/iree-compile")
    from benchmarks.workloads import WORKLOADS

    well = True
    if options.networks or not options.operators:
        well &= compare_networks(options.iree, options.networks.split(",") if options.networks else list(WORKLOADS))
    if options.operators or not options.networks:
        well &= compare_samples(options.iree, options.operators.split(",") if options.operators else [])
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
