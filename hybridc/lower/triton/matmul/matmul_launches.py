"""Products and what follows them as Triton functions: matrix products of any axes and strides, with their epilogue.

If there are few programs and many terms, programs share the terms: one function leaves partial sums in memory, a second
adds them up in their order. So results do not depend on chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hybridc.dtypes import STORED
from hybridc.ir.contraction_shape import Strides
from hybridc.ir.kernel import Kernel
from hybridc.lower.triton.matmul.library_matmul import library_config
from hybridc.lower.triton.matmul.matmul_configs import MatmulTile, choose, choose_sum, choose_vector
from hybridc.lower.triton.matmul.matmul_loops import FusedMatmul, fused_matmul
from hybridc.lower.triton.matmul.matmul_padding import is_narrow, padded
from hybridc.lower.triton.matmul.matmul_source import MatmulWriter
from hybridc.lower.triton.triton_function import Config, TritonLaunch, TritonLaunches
from hybridc.options import OPTIONS

# Elements for each thread that functions take in single precision without spilling.
WIDE = 64


def launches_of_matmul(
    kernel: Kernel, strides: Mapping[int, Strides], tiles: Sequence[MatmulTile] = (), parts: int = 0
) -> TritonLaunches | None:
    """The phases of a kernel that is a product of floating-point numbers with its epilogue; None if it is not.

    ``strides``, in elements, are those of arguments, then results, that may be no plain arrays. ``tiles`` and ``parts``
    are, if given, how programs share the work, instead of what is expected to be fastest.
    """
    contraction = fused_matmul(kernel, strides)
    if contraction is None or contraction.outputs == 0:
        return None
    library = library_config(contraction, strides, OPTIONS.tf32)
    contraction, kernel_launches, locals_ = padded(contraction)
    chosen, cut = _choice(contraction)
    tiles, parts = tiles or chosen, parts or cut
    writer = MatmulWriter(contraction, tiles, parts)
    function = writer.whole() if parts == 1 else writer.part()
    configs = tuple(_config(contraction, t, function.constants, parts) for t in tiles)
    kernel_launches.append(TritonLaunch(function, writer.buffers, (), configs))
    if parts > 1:
        tile = choose_sum(contraction.m, contraction.n)
        writer = MatmulWriter(contraction, (tile,), parts)
        function = writer.sum_of_parts()
        kernel_launches.append(
            TritonLaunch(function, writer.buffers, (), (_config(contraction, tile, function.constants, 1),))
        )
        locals_.append(parts * contraction.outputs * contraction.wide.itemsize)
    return TritonLaunches(kernel_launches, locals_, library)


def _choice(contraction: FusedMatmul) -> tuple[list[MatmulTile], int]:
    """How programs share the work, and into how many parts the terms are cut."""
    if contraction.m == 1:
        along = not contraction.terms or abs(contraction.right.loops[-1]) == 1
        return choose_vector(contraction.n, contraction.k, contraction.batches, along)
    few = any(is_narrow(contraction, operand) for operand in (contraction.left, contraction.right))
    tiles, parts = choose(
        contraction.m, contraction.n, contraction.k, contraction.batches, contraction.dtype, OPTIONS.tf32, few
    )
    if _has_wide_functions(contraction):
        tiles.sort(key=lambda tile: tile.m * tile.n > WIDE * 32 * tile.warps)
    return tiles, parts


def _has_wide_functions(contraction: FusedMatmul) -> bool:
    """Whether functions follow a product of floats in which nothing is computed: each of its numbers has a register."""
    kernel_ops = [s for nest in contraction.kernel.nests for s in nest.ops if s is not contraction.kernel_op]
    return contraction.dtype in STORED and any(op.name.startswith("math.") for s in kernel_ops for op in s.steps)


def _config(contraction: FusedMatmul, tile: MatmulTile, constants: Sequence[str], parts: int) -> Config:
    programs = math.ceil(contraction.m / tile.m) * math.ceil(contraction.n / tile.n) * contraction.batches
    values = {"bm": tile.m, "bn": tile.n, "bk": tile.k, "group": tile.group}
    shared = 0 if contraction.m == 1 else tile.shared(contraction.dtype.itemsize)
    return Config(tuple((c, values[c]) for c in constants), (programs, parts, 1), tile.warps, tile.stages, shared)
