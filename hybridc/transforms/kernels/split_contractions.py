"""Outline the contraction of a kernel: it becomes a kernel of its own, whose result the rest reads.

A library or a micro-kernel computes the one; loops compute the other.
"""

from __future__ import annotations

from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from hybridc.dialects.mlir.erase import erase_op
from hybridc.ground.records import dataclass
from hybridc.ir.facts import Fact, Needs
from hybridc.ir.kernels.kernel import Kernel, assembled
from hybridc.ir.kernels.kernel_module import KernelModule


@dataclass(frozen=True)
class SplitContractions(ModulePass):
    """See the module's docstring."""

    name = "split-contractions"
    needs: ClassVar[Needs] = frozenset((Fact.CONTRACTION,))

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        splitter = _Splitter(KernelModule(op))
        wholes = [kernel for kernel in splitter.module.kernels if _must_split(kernel)]
        split = {kernel.name: splitter.split(kernel) for kernel in wholes}
        for function in splitter.module.callers:
            for call, kernel in splitter.module.calls(function):
                if kernel.name in split:
                    splitter.replace(call, split[kernel.name])
        for kernel in wholes:
            splitter.module.remove(kernel)


def _must_split(kernel: Kernel) -> bool:
    return not kernel.grid and len(kernel.ops) > 1 and any(nest.contraction is not None for nest in kernel.nests)


@dataclass(frozen=True)
class _SplitKernel:
    """A kernel split in two: the contraction, and the rest; with the arguments of each.

    ``own`` is the index of the kernel's result that is the contraction itself, if there is one.
    """

    contraction: Kernel
    reads: tuple[int, ...]
    rest: Kernel
    left: tuple[int, ...]
    own: int | None


class _Splitter:
    """Splits kernels; equal contractions are shared."""

    def __init__(self, module: KernelModule) -> None:
        self.module = module
        self.contractions: dict[Any, Kernel] = {}
        for kernel in module.kernels:
            if len(kernel.ops) == 1 and kernel.nests[0].contraction is not None:
                self.contractions.setdefault(kernel.ops[0].key, kernel)

    def split(self, kernel: Kernel) -> _SplitKernel:
        """The contraction of a kernel, and the rest, as kernels of the module."""
        (nest,) = kernel.nests
        kernel_op = nest.contraction
        assert kernel_op is not None, "only kernels with a contraction are split"
        arguments, results, domain = kernel.arguments, kernel.results, nest.domain
        read = list(dict.fromkeys(r.value for r in kernel_op.reads))
        others = [other for other in nest.ops if other is not kernel_op]
        used = {v for other in others for v in (*(r.value for r in other.reads), *other.tables)}
        left = tuple([i for i, v in enumerate(arguments) if v in used])
        own = results.index(kernel_op.result) if kernel_op.result in results else None
        short = kernel_op.operator.rpartition(".")[2]
        if kernel_op.key not in self.contractions:
            contraction = assembled(f"k_{short}", [(domain, [kernel_op])], read, [kernel_op.result])
            self.contractions[kernel_op.key] = self.module.add(contraction)
        name, kept = kernel.name.replace(f"_{short}", "", 1), [v for i, v in enumerate(results) if i != own]
        rest = assembled(name, [(domain, others)], [kernel_op.result, *(arguments[i] for i in left)], kept)
        reads = tuple([arguments.index(v) for v in read])
        return _SplitKernel(self.contractions[kernel_op.key], reads, self.module.add(rest, before=kernel), left, own)

    def replace(self, old: func.CallOp, split: _SplitKernel) -> None:
        """Replace a call of the kernel by calls of both."""
        first = self.module.call(split.contraction, [old.arguments[i] for i in split.reads], old.location)
        arguments = [first.results[0], *(old.arguments[i] for i in split.left)]
        second = self.module.call(split.rest, arguments, old.location)
        Rewriter.insert_op([first, second], InsertPoint.before(old))
        results = list(second.results)
        if split.own is not None:
            results.insert(split.own, first.results[0])
        for before, after in zip(old.results, results, strict=True):
            after.name_hint = before.name_hint
            before.replace_all_uses_with(after)
        erase_op(old)
