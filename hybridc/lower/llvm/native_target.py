"""The native target of tile programs: this processor, and the functions that LLVM compiles of them."""

from __future__ import annotations

import hashlib

from hybridc.ground import __version__
from hybridc.ir.tiles.tile_program import TileProgram
from hybridc.lower.llvm.codegen.native_function import NativeFunction, compile_functions_ahead
from hybridc.lower.llvm.gemm import native_blas
from hybridc.lower.llvm.gemm.gemm_blas import print_blas
from hybridc.lower.llvm.gemm.tiles_to_lanes import LaneWriter
from hybridc.lower.llvm.gemm.tiles_to_matmul import MatmulWriter
from hybridc.lower.llvm.gemm.vector_registers import registers
from hybridc.lower.llvm.loops.tiles_to_loops import LoopWriter
from hybridc.transforms.code.loop_target import LoopTarget
from hybridc.transforms.schedules.loop_machine import LoopMachine
from hybridc.transforms.schedules.schedule_blas import BlasCall


def print_program(program: TileProgram | BlasCall) -> NativeFunction:
    """The native function of a tile program, or of calls of BLAS, as LLVM IR."""
    if isinstance(program, BlasCall):
        return print_blas(program)
    in_lanes = any(tile.lanes > 1 for tile in program.tiles)
    writer = LaneWriter if in_lanes else MatmulWriter if program.tiles else LoopWriter
    return NativeFunction(program_key(program), lambda module, symbol: writer(program, module).write(symbol), program)


def program_key(program: TileProgram) -> str:
    """The key of a tile program's code: its text."""
    return hashlib.sha256(repr((__version__, "tile program", str(program))).encode()).hexdigest()


def native_machine() -> LoopMachine:
    """The processor that code is made for."""
    return LoopMachine(registers(), native_blas.is_there)


def native_target(threads: int) -> LoopTarget:
    """Native code for this processor, by LLVM."""
    return LoopTarget(threads, native_machine(), print_program, compile_functions_ahead)
