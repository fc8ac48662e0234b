"""Fused kernels, which mostly are the same at other sizes, before a target chooses what may well depend on sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from hybridc.collector import collector_at_rest
from hybridc.compile import pipeline
from hybridc.compile.lowering_stages import Formed
from hybridc.compile.targets import Target, target_named
from hybridc.transforms.structured.fuse_kernels import FuseKernels

if TYPE_CHECKING:
    from hybridc.compile.stages import Traced


@dataclass(frozen=True)
class Fused:
    """Kernels and the calls of them, with which not all passes are done."""

    traced: Traced
    module: ModuleOp
    target: Target

    def form(self) -> Formed:
        """Form the target's kernels in this very module."""
        passes = self.target.kernels()
        fused = _until_fused(passes)
        with collector_at_rest():
            pipeline.run(passes[fused:], self.module, after=passes[:fused])
        return Formed(self.traced.trace, self.traced.grads, self.module, self.target)


def fuse(traced: Traced) -> Fused:
    """The fused kernels of a trace for ``HYBRIDC_TARGET``."""
    target = target_named(None)
    passes = target.kernels()
    with collector_at_rest():
        module = traced.optimize().module
        pipeline.run(passes[: _until_fused(passes)], module)
    return Fused(traced, module, target)


def _until_fused(passes: Sequence[ModulePass]) -> int:
    """How many of a target's passes fuse kernels; what further ones do with these may well depend on sizes."""
    return 1 + max(i for i, each in enumerate(passes) if isinstance(each, FuseKernels))
