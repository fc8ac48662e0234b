"""The pass pipeline: the passes, in order, from the traced graph to the planned program."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.math import Math
from xdsl.passes import ModulePass

from hybridc.dialects.mlir.arith import Arith
from hybridc.dialects.mlir.hybrid import dialects
from hybridc.dialects.mlir.hybrid_rt import HybridRt
from hybridc.dialects.mlir.tensor import Tensor
from hybridc.errors import AttributeValueError, VerifyError
from hybridc.ground import compiler_output
from hybridc.ground.events import recorded
from hybridc.ground.whole_files import write_whole
from hybridc.ir.facts import Facts, needs_of
from hybridc.options import OPTIONS
from hybridc.subgraph.partition_graph import PartitionGraph
from hybridc.transforms.code.choose_code import ChooseCode
from hybridc.transforms.code.kernel_cache import KernelCache
from hybridc.transforms.graph.canonicalize import Canonicalize
from hybridc.transforms.graph.choose_residuals import ChooseResiduals
from hybridc.transforms.graph.constant_fold import ConstantFold
from hybridc.transforms.graph.cse import CommonSubexpressionElimination
from hybridc.transforms.graph.dce import DeadCodeElimination
from hybridc.transforms.graph.decompose import Decompose
from hybridc.transforms.graph.differentiate import Differentiate
from hybridc.transforms.graph.mark_kernels import MarkKernels
from hybridc.transforms.kernels.join_epilogues import JoinEpilogues
from hybridc.transforms.kernels.merge_contractions import MergeContractions
from hybridc.transforms.kernels.prepack_operands import PrepackOperands
from hybridc.transforms.kernels.split_contractions import SplitContractions
from hybridc.transforms.memory.hoist_preparation import HoistPreparation
from hybridc.transforms.memory.plan_memory import PlanMemory
from hybridc.transforms.memory.verify_plan import VerifyPlan
from hybridc.transforms.structured.fold_scales import FoldScales
from hybridc.transforms.structured.fuse_attention import FuseAttention
from hybridc.transforms.structured.fuse_kernels import FuseKernels
from hybridc.transforms.structured.hybrid_to_linalg import HybridToLinalg
from hybridc.transforms.structured.widen_contractions import WidenContractions
from hybridc.transforms.structured.winograd import Winograd
from hybridc.transforms.views.fold_views import FoldViews
from hybridc.transforms.views.fuse_indexed_reads import FuseIndexedReads
from hybridc.transforms.views.hoist_slices import HoistSlices

if TYPE_CHECKING:
    from hybridc.ir.spec import Verifier
    from hybridc.transforms.code.array_code import ArrayCodes
    from hybridc.transforms.code.blocks.block_kernel_cache import BlockKernelCache
    from hybridc.transforms.schedules.loop_machine import LoopMachine

CLEANUP: tuple[ModulePass, ...] = (
    Canonicalize(),
    ConstantFold(),
    CommonSubexpressionElimination(),
    DeadCodeElimination(),
)


def graph_passes(backends: Sequence[PartitionGraph] = ()) -> tuple[ModulePass, ...]:
    """Graph passes: simplify, partition for backends, differentiate, decompose into primitive operators."""
    return (
        *CLEANUP,
        *backends,
        Differentiate(),
        Decompose(),
        *CLEANUP,
        ChooseResiduals(),
        CommonSubexpressionElimination(),
        DeadCodeElimination(),
    )


GRAPH: tuple[ModulePass, ...] = graph_passes()


def structured_passes(target: str = "") -> tuple[ModulePass, ...]:
    """From the graph to ``linalg`` on tensors, with calls of a target's handwritten kernels."""
    return (MarkKernels(target), HybridToLinalg(), CommonSubexpressionElimination(), DeadCodeElimination())


LOOPS: tuple[ModulePass, ...] = (
    FuseIndexedReads(),
    HoistSlices(),
    FoldViews(),
    CommonSubexpressionElimination(),
    DeadCodeElimination(),
)


def fusion(attention: FuseAttention, *rewrites: ModulePass, prepares: bool = False) -> tuple[ModulePass, ...]:
    """Fusion: from linalg on tensors to kernels, the same for every target but for what a backward is given.

    A target's ``rewrites`` of operations come first. It may keep what it ``prepares``.
    """
    return (*LOOPS, *rewrites, attention, FuseKernels(prepares))


# A processor holds rows of any length in its caches. It reads weights that were saved faster than it computes them
# again: bare attention trains 6 to 16 % faster by that, so it is done unless they take a gigabyte.
_ATTENTION = FuseAttention(row=2**40, saved=2**30)
KERNELS: tuple[ModulePass, ...] = fusion(_ATTENTION)

# numpy target: from the graph to kernels.
NUMPY_KERNELS: tuple[ModulePass, ...] = (*structured_passes("numpy"), *KERNELS)


def numpy_threads() -> int:
    """The threads that share a kernel of the numpy target; more than two would wait for Python's lock."""
    return min(2, OPTIONS.num_threads)


def numpy_plan(codes: ArrayCodes | None = None) -> tuple[ModulePass, ...]:
    """numpy target: from kernels to a memory plan; ``codes`` keeps their code for the emitter."""
    from hybridc.transforms.code.tile_kernels import TileKernels

    return (TileKernels(numpy_threads(), codes), PlanMemory(), VerifyPlan())


def numpy() -> tuple[ModulePass, ...]:
    """numpy target: from the graph to kernels and a memory plan."""
    return (*NUMPY_KERNELS, *numpy_plan())


def llvm_kernels(machine: LoopMachine) -> tuple[ModulePass, ...]:
    """llvm target, and others whose kernels are loops: from the graph to kernels for a machine."""
    vectors = (0, 0) if machine.vectors is None else (machine.vectors.bytes, machine.vectors.count)
    winograd = Winograd(*vectors) if OPTIONS.winograd else Winograd(registers=0)
    kernels = fusion(_ATTENTION, FoldScales(), winograd, prepares=True)
    contractions = (SplitContractions(), MergeContractions(), PrepackOperands(*vectors), JoinEpilogues(*vectors))
    return (*structured_passes("llvm"), WidenContractions(), *kernels, *contractions, HoistPreparation())


def llvm_plan(kernel_cache: KernelCache) -> tuple[ModulePass, ...]:
    """llvm target: from kernels to a memory plan; ``kernel_cache`` has their code, for the emitter, too."""
    return (ChooseCode(kernel_cache), PlanMemory({}), VerifyPlan())


def llvm() -> tuple[ModulePass, ...]:
    """llvm target: from the graph to kernels and a memory plan."""
    from hybridc.lower.llvm.native_target import native_target

    target = native_target(OPTIONS.num_threads)
    return (*llvm_kernels(target.machine), *llvm_plan(KernelCache(target)))


def triton_kernels() -> tuple[ModulePass, ...]:
    """triton target: from the graph to kernels; contractions keep their epilogues, attention is one kernel."""
    return (*structured_passes("triton"), *fusion(FuseAttention()))


def triton_plan(kernel_cache: BlockKernelCache) -> tuple[ModulePass, ...]:
    """triton target: from kernels to a memory plan; ``kernel_cache`` has their code, for the emitter, too."""
    return (ChooseCode(kernel_cache), PlanMemory(), VerifyPlan())


def alone() -> tuple[type[ModulePass], ...]:
    """All passes that hybridc-opt can run, for any target."""
    from hybridc.transforms.code.tile_kernels import TileKernels

    return (
        Canonicalize,
        ChooseResiduals,
        ConstantFold,
        Decompose,
        Differentiate,
        FoldScales,
        FoldViews,
        FuseAttention,
        FuseIndexedReads,
        FuseKernels,
        HoistPreparation,
        HoistSlices,
        HybridToLinalg,
        MarkKernels,
        MergeContractions,
        PartitionGraph,
        PlanMemory,
        SplitContractions,
        TileKernels,
        VerifyPlan,
        WidenContractions,
        Winograd,
    )


def context() -> Context:
    """An IR context with all dialects."""
    ir_context = Context()
    for dialect in (Builtin, Func, HybridRt, Arith, Linalg, Math, Tensor, *dialects().values()):
        ir_context.load_dialect(dialect)
    return ir_context


def run(
    passes: Sequence[ModulePass],
    module: ModuleOp,
    name: str = "graph",
    after: Sequence[ModulePass] = (),
    is_symbolic: bool = False,
) -> None:
    """Run passes on a module, those that its facts suit; verify, dump or print after each as the options say.

    ``after`` are the passes that were run before it on the same level. A module with symbolic sizes is verified once
    these are put in place: xDSL's verifiers want integers.
    """
    _require_passes(OPTIONS.print_after)
    ctx = Context()
    verifier = _verifier(module, after) if OPTIONS.verify and not is_symbolic else None
    seconds: list[tuple[str, float]] = []
    facts = Facts(module)
    for position, module_pass in enumerate(passes, len(after)):
        if isinstance(module_pass, VerifyPlan) and not (OPTIONS.verify or OPTIONS.verify_plan):
            continue
        if facts.suit(needs_of(module_pass)):
            start = time.perf_counter()
            with recorded("compile", module_pass.name, module=name):
                module_pass.apply(ctx, module)
            seconds.append((module_pass.name, time.perf_counter() - start))
            facts.follow(module_pass)
        elif OPTIONS.verify:
            _require_unchanged(module_pass, ctx, module)
        if verifier is not None:
            verifier.verify(module_pass.name)
        if OPTIONS.dump:
            dump(f"{name}.{position:02}-{module_pass.name}.mlir", str(module))
        if module_pass.name in OPTIONS.print_after or "all" in OPTIONS.print_after:
            compiler_output.show(f"{name}.{position:02}-{module_pass.name}", str(module))
    if OPTIONS.time:
        compiler_output.show_times(f"{name}, time of each {'further ' * bool(after)}pass", seconds)


def _require_unchanged(module_pass: ModulePass, ctx: Context, module: ModuleOp) -> None:
    """Raise unless a pass that would have been skipped changes nothing."""
    before = module.clone()
    module_pass.apply(ctx, module)
    if not module.is_structurally_equivalent(before):
        missing = ", ".join(sorted(fact.value for fact in needs_of(module_pass)))
        raise VerifyError(f"{module_pass.name} changes a module of which the facts say that it lacks {missing}")


def _verifier(module: ModuleOp, passes: Sequence[ModulePass]) -> Verifier:
    """The verifier of a module after some passes; lazy, as it imports what only verification needs."""
    from hybridc.ir.spec import Verifier

    return Verifier(module, passes)


def _require_passes(names: Sequence[str]) -> None:
    """Raise if ``HYBRIDC_PRINT`` names an unknown pass."""
    if not names:
        return
    known = sorted({module_pass.name for module_pass in (*alone(), *CLEANUP, *llvm())})
    unknown = [name for name in names if name not in known and name != "all"]
    if unknown:
        raise AttributeValueError(f"HYBRIDC_PRINT: there is no pass {unknown[0]!r}; it takes all, {', '.join(known)}")


def is_watched() -> bool:
    """Whether the options ask to dump, print or verify the IR."""
    return bool(OPTIONS.dump or OPTIONS.print_after or OPTIONS.print_source or OPTIONS.time)


def source(name: str, text: str) -> None:
    """Dump or print a target's generated code, if the options ask for it."""
    dump(name, text)
    if OPTIONS.print_source:
        compiler_output.show(name, text)


def dump(name: str, text: str) -> None:
    """Write the IR or code of a stage into the folder ``HYBRIDC_DUMP``, if that is set."""
    if OPTIONS.dump:
        folder = Path(OPTIONS.dump)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / re.sub(r"[^\w.-]", "_", name), text.encode("utf-8", "backslashreplace"))
