"""The code of a kernel as launches of Triton functions."""

from __future__ import annotations

from collections.abc import Mapping

from hybridc.ground.sizes import row_major
from hybridc.ir.kernels.kernel import Kernel
from hybridc.ir.tiles.block_code import BlockCode, BlockCopy, BlockFill, BlockLaunch, JoinedLaunches, PaddedCopy
from hybridc.ir.tiles.tile_program import TileLaunch
from hybridc.lower.triton.expressions.ops import triton_literal
from hybridc.lower.triton.horizontal_fusion import joined_launch
from hybridc.lower.triton.texts import copy_launch, fill_launch, padded_copy_launch
from hybridc.lower.triton.triton_function import LibraryConfig, TritonLaunch, TritonLaunches
from hybridc.lower.triton.triton_function_text import TritonFunctionText


def print_block_code(code: BlockCode) -> TritonLaunches:
    """The launches of a kernel, and those that follow a library's matmul."""
    numbers = {name: i for i, name in enumerate(code.buffers)}
    library = None
    if code.library is not None:
        after = code.library.after
        library = LibraryConfig(code.library.matmul, tuple(print_block_code(after).kernel_launches) if after else ())
    return TritonLaunches([_launch(code.kernel, launch, numbers) for launch in code.launches], code.locals, library)


def _launch(kernel: Kernel, launch: BlockLaunch, numbers: Mapping[str, int]) -> TritonLaunch:
    """A launch; ``numbers`` are the indices of the kernel's buffers."""
    match launch:
        case TileLaunch():
            return TritonFunctionText(kernel, launch).kernel_launch(numbers)
        case JoinedLaunches():
            return joined_launch(kernel, launch.members, numbers)
        case BlockFill():
            scalar = triton_literal(launch.value, launch.dtype)
            return fill_launch(launch.dtype, launch.size, scalar, numbers[launch.target])
        case BlockCopy(dtype=dtype, shape=shape):
            return copy_launch(dtype, shape, row_major(shape), numbers[launch.source], numbers[launch.target])
        case PaddedCopy():
            return padded_copy_launch(f"{kernel.name}_filled", launch, numbers)
