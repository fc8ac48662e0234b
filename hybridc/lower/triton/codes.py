"""The Triton functions of any kernel: of products, of attention, or of the loops of its nests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdsl.dialects.func import FuncOp

from hybridc.ground.location import Location
from hybridc.ir.kernel import Kernel, Nest, Stage, analyse
from hybridc.ir.nest_plan import NestPlan, inplace_pairs, nests_of, pairs_in
from hybridc.ir.strides import row_major
from hybridc.ir.structured import shape_of
from hybridc.lower.triton.attention.attention_source import phases_of_attention, phases_of_attention_backward
from hybridc.lower.triton.products.product_loops import fused_product
from hybridc.lower.triton.products.product_phases import phases_of_product
from hybridc.lower.triton.tiles_to_triton import phases_of
from hybridc.lower.triton.triton_function import TritonPhases

Strides = tuple[int, ...]


class TritonCodes:
    """The kernels of a module: each is analysed once, and has its phases made once for equal calls."""

    threads = 1

    def __init__(self) -> None:
        self._kernels: dict[FuncOp, Kernel] = {}
        self._made: dict[Any, TritonPhases] = {}

    def resized(self) -> None:
        """Kernels may have other sizes from now on."""
        self._kernels.clear()
        self._made.clear()

    def kernel(self, function: FuncOp) -> Kernel:
        """The facts about a kernel."""
        if function not in self._kernels:
            self._kernels[function] = analyse(function)
        return self._kernels[function]

    def lines(self, kernel: Kernel) -> list[Location]:
        """The user's lines that a kernel comes from."""
        return kernel.locations

    def of(
        self,
        kernel: Kernel,
        strides: Mapping[int, Strides],
        inplace: Sequence[tuple[int, int]] = (),
    ) -> TritonPhases:
        """The phases of a kernel; ``strides``, in elements, are of arguments and results that are no plain arrays."""
        key = (kernel, tuple(sorted(strides.items())))
        if key not in self._made:
            made = None
            if any(nest.product is not None for nest in kernel.nests):
                made = (
                    phases_of_product(kernel, strides)
                    or phases_of_attention(kernel, strides)
                    or phases_of_attention_backward(kernel, strides)
                )
            self._made[key] = made if made is not None else phases_of(_without_products(kernel), strides)
        return self._made[key]

    def inplace(self, kernel: Kernel, strided: Sequence[int]) -> list[tuple[int, int]]:
        """Pairs in nests without reductions, and in what follows a product.

        Programs run in any order, those of several nests perhaps in one launch. So no element of the argument is read
        but by the program that writes over it; and there it is read once, before anything is written. Of threads that
        hold the same element, Triton lets one store it.
        """
        values = [*kernel.arguments, *kernel.results]
        views = frozenset(values[i] for i in strided)
        if any(nest.product is not None for nest in kernel.nests):
            product = fused_product(kernel, {i: row_major(shape_of(values[i])) for i in strided})
            if product is None:
                return []
            order = {stage: i for i, stage in enumerate(product.plan.nest.stages)}
            return pairs_in(kernel, product.plan.nest, order, order.__getitem__, views)
        pairs = inplace_pairs(kernel, views, _order)
        readers = Counter(v for nest in nests_of(kernel) for v in {r.value for s in nest.stages for r in s.reads})
        return [(i, j) for i, j in pairs if readers[kernel.arguments[i]] == 1]

    def memory(self, kernel: Kernel, strided: Sequence[int]) -> tuple[int, list[int]]:
        """No scratch, and the bytes of the buffers that functions share."""
        values = [*kernel.arguments, *kernel.results]
        return 0, self.of(kernel, {i: row_major(shape_of(values[i])) for i in strided}).locals


def _order(plan: NestPlan) -> list[Stage]:
    """The stages of a nest in the order of its function; none if values are reduced."""
    stages = list(plan.stage_of.values())
    return stages if len(plan.sweeps) == 1 and all(stage.combine is None for stage in stages) else []


def _without_products(kernel: Kernel) -> Kernel:
    """The same kernel where a contraction is a sum like others, over axes that the domain has at its end."""
    nests = tuple(_as_sum(nest) for nest in kernel.nests)
    return replace(kernel, nests=nests)


def _as_sum(nest: Nest) -> Nest:
    product = nest.product
    if product is None:
        return nest
    sizes = {a: n for r in product.reads for a, n in zip(r.axes, shape_of(r.value), strict=True)}
    domain = (*nest.domain, *(sizes[a] for a in product.reduced))
    stages = tuple(replace(s, kind="row") if s is product else s for s in nest.stages)
    return replace(nest, domain=domain, stages=stages)
