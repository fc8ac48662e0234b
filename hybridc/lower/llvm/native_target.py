"""The native target of tile programs: this processor, and the functions that LLVM compiles of them."""

from __future__ import annotations

import functools
import hashlib

from hybridc.ground import __version__
from hybridc.ir.tiles.tile_program import TileProgram
from hybridc.lower.llvm.codegen.native_function import NativeFunction, compile_functions_ahead
from hybridc.lower.llvm.gemm import native_blas
from hybridc.lower.llvm.gemm.gemm_blas import print_blas
from hybridc.lower.llvm.gemm.gemm_region import registers
from hybridc.lower.llvm.gemm.tiles_to_lanes import lanes_region
from hybridc.lower.llvm.gemm.tiles_to_matmul import matmul_region
from hybridc.lower.llvm.loops.tiles_to_loops import write_loops
from hybridc.transforms.code.loop_target import LoopTarget
from hybridc.transforms.schedules.loop_machine import LoopMachine
from hybridc.transforms.schedules.schedule_blas import BlasCall


def print_program(program: TileProgram | BlasCall) -> NativeFunction:
    """The native function of a tile program, or of calls of BLAS, as LLVM IR."""
    if isinstance(program, BlasCall):
        return print_blas(program)
    if not program.tiles:
        build = functools.partial(write_loops, program)
    elif any(tile.lanes > 1 for tile in program.tiles):
        build = lanes_region(program)
    else:
        build = matmul_region(program)
    return NativeFunction(program_key(program), build, program)


def program_key(program: TileProgram) -> str:
    """The key of a tile program's code: its text."""
    return hashlib.sha256(repr((__version__, "tile program", str(program))).encode()).hexdigest()


def native_machine() -> LoopMachine:
    """The processor that code is made for."""
    return LoopMachine(registers(), native_blas.is_there)


def native_target(threads: int) -> LoopTarget:
    """Native code for this processor, by LLVM."""
    return LoopTarget(threads, native_machine(), print_program, compile_functions_ahead)
