"""What LLVM takes for the kernels of some networks: ``python benchmarks/llvm_passes.py``, seconds of the processor.

Both libraries compile the same texts, a release build with the passes of ``default<O2>`` and with our list. The least
of some rounds by turns; the last column is the size of all objects.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

if __package__ is None:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from benchmarks.first_call_parts import NETWORKS, program
from hybridc.lower.llvm.codegen import llvm
from hybridc.lower.llvm.codegen import native_function as codegen
from hybridc.lower.llvm.codegen.llvm_c import Llvmlite
from hybridc.lower.llvm.codegen.llvm_library import LLVMLibrary
from hybridc.lower.llvm.codegen.llvm_release import ReleaseLLVM

ROUNDS = 3


def texts(name: str) -> list[str]:
    """The LLVM IR of a network's kernels, in a process whose cache is empty."""
    made: list[str] = []
    compile_text = codegen.object_of

    def note(ir: str, cpu: str | None = None) -> codegen.ObjectCode:
        made.append(ir)
        return compile_text(ir, cpu)

    codegen.object_of = note
    program(name)()
    codegen.object_of = compile_text
    return made


def compiled(library: LLVMLibrary, irs: list[str]) -> tuple[float, float, int]:
    """The seconds of passes and of code generation, and the bytes of all objects."""
    llvm.library = lambda triple="": library
    passes = emission = size = 0
    for ir in irs:
        module, machine = llvm.LLVMModule(ir), codegen.machine()
        start = time.thread_time()
        machine.optimise(module)
        optimised = time.thread_time()
        size += len(machine.object(module))
        passes, emission = passes + optimised - start, emission + time.thread_time() - optimised
    return passes, emission, size


def main() -> None:
    """Print the table."""
    libraries: dict[str, LLVMLibrary] = {"llvmlite, O2": Llvmlite()}
    for path in llvm.release_paths()[:1]:
        libraries |= {"release, O2": ReleaseLLVM(path, "default<O2>"), "release, list": ReleaseLLVM(path)}
    print("| kernels of | library | passes s | code generation s | bytes |\n|---|---|---|---|---|")
    for name in NETWORKS:
        irs = texts(name)
        runs = [{label: compiled(library, irs) for label, library in libraries.items()} for _ in range(ROUNDS)]
        for label in libraries:
            passes, emission, size = (min(run[label][i] for run in runs) for i in range(3))
            print(f"| {name} | {label} | {passes:.3f} | {emission:.3f} | {size} |", flush=True)


if __name__ == "__main__":
    main()
