"""``hybridc-opt``: run the compiler's passes on a text file, as ``mlir-opt`` does.

hybridc-opt graph.mlir -p canonicalize-graph,decompose,fuse-kernels
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import Builtin
from xdsl.dialects.func import Func
from xdsl.passes import ModulePass
from xdsl.transforms.common_subexpression_elimination import CommonSubexpressionElimination
from xdsl.transforms.dead_code_elimination import DeadCodeElimination
from xdsl.xdsl_opt_main import xDSLOptMain

from hybridc import nd, pipeline
from hybridc.dialects.hybrid import dialects
from hybridc.dialects.hybrid_rt import HybridRt


__all__ = ["HybridcOpt", "main", "nd"]  # nd registers the operators


class HybridcOpt(xDSLOptMain):
    """xDSL's driver with our dialects and passes."""

    def register_all_dialects(self) -> None:
        """Ours, and the upstream ones that they are embedded in."""
        for dialect in (Builtin, Func, HybridRt, *dialects().values()):
            self.ctx.load_dialect(dialect)

    def register_all_passes(self) -> None:
        """Every pass of the pipeline."""
        passes: tuple[type[ModulePass], ...] = (
            *pipeline.PASSES,
            CommonSubexpressionElimination,
            DeadCodeElimination,
        )
        for each in passes:
            self.register_pass(each.name, _factory(each))


def _factory(each: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    return lambda: each


def main() -> None:
    """The console script."""
    HybridcOpt(description="hybridc's optimizer driver").run()


if __name__ == "__main__":
    main()
