"""``hybridc-opt``: run the compiler's passes on a text file, as ``mlir-opt`` does.

hybridc-opt graph.mlir -p canonicalize-graph,decompose --print-between-passes
hybridc-opt graph.mlir -p decompose,hybrid-to-linalg,fold-views,fuse-kernels,plan-memory -t numpy
hybridc-opt graph.mlir -p decompose,hybrid-to-linalg,fold-views,fuse-kernels -t tile-programs
hybridc-opt graph.mlir --load my_backend.py -p partition-graph{backend=my_backend}
hybridc-opt graph.mlir --load my_pass.py -p my-pass  (a class MyPass(ModulePass) with name = "my-pass")

What is wrong is a line on stderr, and the exit status 1; ``--traceback`` shows where it was noticed.
"""

from __future__ import annotations

import difflib
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.linalg import Linalg
from xdsl.dialects.math import Math
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.dialects.vector import Vector
from xdsl.passes import ModulePass, PassPipeline
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, ParseError, VerifyException
from xdsl.utils.target import Target
from xdsl.xdsl_opt_main import xDSLOptMain

from hybridc import library, nd
from hybridc.compile import pipeline
from hybridc.dialects.mlir.arith import Arith
from hybridc.dialects.mlir.graph_notes import UPDATES
from hybridc.dialects.mlir.hybrid import dialects
from hybridc.dialects.mlir.hybrid_rt import HybridRt
from hybridc.dialects.mlir.tensor import Tensor
from hybridc.errors import AttributeValueError, MXNetError
from hybridc.ground.records import dataclass
from hybridc.ir.kernels.kernel_module import kernel_functions, recognise_kernels
from hybridc.ir.kernels.kernel_notes import STRIDED
from hybridc.ir.values import functions
from hybridc.lower.llvm.codegen.function_text import ModuleText
from hybridc.lower.numpy.emit_module import emit_python_program
from hybridc.tools.loop_form import loop_form
from hybridc.transforms.code.array_code import ArrayCodes
from hybridc.transforms.schedules.arrays.schedule_arrays import schedule_arrays


@dataclass(frozen=True)
class NumPySource(Target):
    """The Python source of every planned function."""

    name = "numpy"

    threads: int = 2

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        codes = ArrayCodes(self.threads)
        planned = [f.sym_name.data for f in functions(module) if f.sym_visibility is None]
        output.write("\n\n".join(emit_python_program(module, name, codes).source for name in planned))


@dataclass(frozen=True)
class TileProgramText(Target):
    """The tile programs that the numpy target prints, each after the name of its kernel."""

    name = "tile-programs"

    threads: int = 2

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        for name, function in kernel_functions(module).items():
            strided = frozenset(STRIDED.of(function))
            nests, _ = schedule_arrays(function.kernel, self.threads, strided, UPDATES.of(function))
            for program in (p for nest in nests for p in nest.programs):
                output.write(f"// {name}\n{program}\n")


@dataclass(frozen=True)
class LLVMText(Target):
    """The LLVM IR of a parallel region in loop form, for vectors of so many bits."""

    name = "llvm-ir"

    bits: int = 256

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        text = ModuleText(self.bits)
        loop_form(lambda: module)(text, "region")
        output.write(str(text))


__all__ = ["HybridcOpt", "main", "nd"]  # nd registers the operators

_LOOPS = (Scf, MemRef, Vector)  # of loops over memory


class HybridcOpt(xDSLOptMain):
    """xDSL's driver with our dialects and passes."""

    def register_all_dialects(self) -> None:
        """Ours, and the upstream ones that they are embedded in."""
        for dialect in (Builtin, Func, HybridRt, Arith, Linalg, Math, Tensor, *_LOOPS, *dialects().values()):
            self.ctx.load_dialect(dialect)

    def register_all_passes(self) -> None:
        """Every pass of the pipeline, under its name."""
        listed = (*pipeline.GRAPH, *pipeline.numpy(), *pipeline.llvm(), *pipeline.triton_kernels())
        for each in {*pipeline.alone(), *(type(each) for each in listed)}:
            self.register_pass(each.name, _factory(each))

    def register_all_arguments(self, arg_parser: ArgumentParser) -> None:
        """Those of xDSL, and ours."""
        super().register_all_arguments(arg_parser)
        arg_parser.add_argument(
            "--load",
            type=self._load,
            metavar="FILE",
            help="a Python file or a library with operators, partitioners or passes; it can be given several times",
        )
        arg_parser.add_argument(
            "--traceback", action="store_true", help="show where in the compiler an error was noticed"
        )

    def _load(self, path: str) -> None:
        before = set(_pass_classes(ModulePass))
        library.load(path, verbose=False)
        for each in _pass_classes(ModulePass):
            if each not in before and isinstance(getattr(each, "name", None), str):
                self.available_passes[each.name] = _factory(each)
        for dialect in dialects().values():
            if dialect.name not in self.ctx.registered_dialect_names:
                self.ctx.load_dialect(dialect)

    def parse_chunk(self, chunk: IO[bytes], file_extension: str, start_offset: int = 0) -> ModuleOp | None:
        """Parse a part of a file; what is a kernel in it is one as data."""
        module = super().parse_chunk(chunk, file_extension, start_offset)
        if module is not None:
            recognise_kernels(module)
        return module

    def register_all_targets(self) -> None:
        """Those of xDSL, and ours."""
        super().register_all_targets()
        self.available_targets["numpy"] = lambda: NumPySource
        self.available_targets["tile-programs"] = lambda: TileProgramText
        self.available_targets["llvm-ir"] = lambda: LLVMText

    def setup_pipeline(self) -> None:
        """The passes that the arguments name; an AttributeValueError for one that is unknown, or has wrong options."""
        self.running: ModulePass | None = None
        try:
            for spec in parse_pipeline(self.args.passes):
                if spec.name not in self.available_passes:
                    raise AttributeValueError(_unknown(spec.name, self.available_passes))
                self.available_passes[spec.name]().from_pass_spec(spec)
            super().setup_pipeline()
        except (ArgSpecParseError, ValueError) as error:
            raise AttributeValueError(f"-p {self.args.passes}: {error}") from error
        verify = self.pipeline.callback

        def between(before: ModulePass | None, module: ModuleOp, after: ModulePass | None) -> None:
            if verify is not None:
                verify(before, module, after)
            self.running = after

        self.pipeline = PassPipeline(self.pipeline.passes, between)

    def apply_passes(self, prog: ModuleOp) -> None:
        """Apply passes in order; what one of them refuses is a diagnostic, which names it."""
        try:
            super().apply_passes(prog)
        except DiagnosticException:
            raise
        except MXNetError as error:
            raise VerifyException(str(error)) from error
        except Exception as error:  # a pass that meets another form than its own may fail in any way
            name = self.running.name if self.running is not None else "verify"
            raise VerifyException(
                f"pass {name}: {type(error).__name__}: {error}; it may take another form of module than that which "
                "comes to it: docs/architecture.md has the passes in their order"
            ) from error


def _pass_classes(cls: type[ModulePass]) -> Iterator[type[ModulePass]]:
    """All classes of passes that derive from one."""
    for each in cls.__subclasses__():
        yield each
        yield from _pass_classes(each)


def _factory(each: type[ModulePass]) -> Callable[[], type[ModulePass]]:
    return lambda: each


def _unknown(name: str, known: Iterable[str]) -> str:
    """That there is no such pass, and which there are."""
    near = difflib.get_close_matches(name, known, n=1)
    meant = f", did you mean {near[0]}?" if near else ""
    return (
        f"there is no pass {name!r}{meant}; the passes are {', '.join(sorted(known))}, and those that --load FILE "
        "brings: its subclasses of xdsl.passes.ModulePass, by their names"
    )


def main() -> None:
    """The console script."""
    try:
        HybridcOpt(description="hybridc's optimizer driver").run()
    except Exception as error:
        if "--traceback" in sys.argv:
            raise
        is_plain = isinstance(error, DiagnosticException | ParseError | MXNetError | OSError)
        sys.exit(f"hybridc-opt: {error}" if is_plain else f"hybridc-opt: {type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
