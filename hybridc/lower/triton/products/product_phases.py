"""Products and what follows them as Triton functions: matrix products of any axes and strides, with their epilogue.

If there are few programs and many terms, programs share the terms: one function leaves partial sums in memory, a second
adds them up in their order. So results do not depend on chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hybridc.dtypes import STORED
from hybridc.ir.kernel import Kernel
from hybridc.ir.product_shape import Strides
from hybridc.lower.triton.products.library_products import library_way
from hybridc.lower.triton.products.product_configs import ProductTile, choose, choose_sum, choose_vector
from hybridc.lower.triton.products.product_loops import FusedProduct, fused_product
from hybridc.lower.triton.products.product_padding import is_narrow, padded
from hybridc.lower.triton.products.product_source import ProductWriter
from hybridc.lower.triton.triton_function import Config, TritonPhase, TritonPhases
from hybridc.options import OPTIONS

# Elements for each thread that functions take in single precision without spilling.
WIDE = 64


def phases_of_product(
    kernel: Kernel, strides: Mapping[int, Strides], tiles: Sequence[ProductTile] = (), parts: int = 0
) -> TritonPhases | None:
    """The phases of a kernel that is a product of floating-point numbers with its epilogue; None if it is not.

    ``strides``, in elements, are those of arguments, then results, that may be no plain arrays. ``tiles`` and ``parts``
    are, if given, how programs share the work, instead of what is expected to be fastest.
    """
    product = fused_product(kernel, strides)
    if product is None or product.outputs == 0:
        return None
    library = library_way(product, strides, OPTIONS.tf32)
    product, phases, locals_ = padded(product)
    chosen, cut = _choice(product)
    tiles, parts = tiles or chosen, parts or cut
    writer = ProductWriter(product, tiles, parts)
    function = writer.whole() if parts == 1 else writer.part()
    configs = tuple(_config(product, t, function.constants, parts) for t in tiles)
    phases.append(TritonPhase(function, writer.buffers, (), configs))
    if parts > 1:
        tile = choose_sum(product.m, product.n)
        writer = ProductWriter(product, (tile,), parts)
        function = writer.sum_of_parts()
        phases.append(TritonPhase(function, writer.buffers, (), (_config(product, tile, function.constants, 1),)))
        locals_.append(parts * product.outputs * product.wide.itemsize)
    return TritonPhases(phases, locals_, library)


def _choice(product: FusedProduct) -> tuple[list[ProductTile], int]:
    """How programs share the work, and into how many parts the terms are cut."""
    if product.m == 1:
        along = not product.terms or abs(product.right.loops[-1]) == 1
        return choose_vector(product.n, product.k, product.batches, along)
    few = any(is_narrow(product, operand) for operand in (product.left, product.right))
    tiles, parts = choose(product.m, product.n, product.k, product.batches, product.dtype, OPTIONS.tf32, few)
    if _has_wide_functions(product):
        tiles.sort(key=lambda tile: tile.m * tile.n > WIDE * 32 * tile.warps)
    return tiles, parts


def _has_wide_functions(product: FusedProduct) -> bool:
    """Whether functions follow a product of floats in which nothing is computed: each of its numbers has a register."""
    stages = [s for nest in product.kernel.nests for s in nest.stages if s is not product.stage]
    return product.dtype in STORED and any(op.name.startswith("math.") for s in stages for op in s.steps)


def _config(product: FusedProduct, tile: ProductTile, constants: Sequence[str], parts: int) -> Config:
    programs = math.ceil(product.m / tile.m) * math.ceil(product.n / tile.n) * product.batches
    values = {"bm": tile.m, "bn": tile.n, "bk": tile.k, "group": tile.group}
    shared = 0 if product.m == 1 else tile.shared(product.dtype.itemsize)
    return Config(tuple((c, values[c]) for c in constants), (programs, parts, 1), tile.warps, tile.stages, shared)
