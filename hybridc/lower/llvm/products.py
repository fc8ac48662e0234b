"""How a kernel that is one product is computed: the choice among BLAS, tiles of our own, and plain loops."""

from __future__ import annotations

from collections.abc import Sequence

from hybridc.lower.kernel import Kernel
from hybridc.lower.llvm.gemm_blas import blas_phase
from hybridc.lower.llvm.gemm_phase import ProductPhase
from hybridc.lower.llvm.gemm_plain import plain_phase
from hybridc.lower.llvm.gemm_shape import Strides, matrices_of, product_of
from hybridc.lower.structured import dtype_of


def is_product(kernel: Kernel) -> bool:
    """Whether a kernel is a product and nothing else."""
    return len(kernel.nests) == 1 and len(kernel.stages) == 1 and kernel.nests[0].product is not None


def phases_of_product(kernel: Kernel, threads: int, strides: Sequence[Strides] | None = None) -> list[ProductPhase]:
    """The phases that compute a product, one after the other; none if there is nothing to compute.

    ``strides``, in elements, are those of the kernel's arguments and then its results; else all are plain arrays.
    """
    product = product_of(kernel, strides)
    if product.outputs == 0:
        return []
    values = [*kernel.arguments, *kernel.results]
    left, right = [values.index(r.value) for r in product.stage.reads]
    result = values.index(product.stage.result)
    dtypes = {dtype_of(values[i]) for i in (left, right, result)}
    matrices = matrices_of(product)
    if len(dtypes) == 1 and matrices is not None:
        buffers = (right, left, result) if matrices.swapped else (left, right, result)
        made = blas_phase(matrices, dtypes.pop(), buffers, threads)
        if made is not None:
            return [made]
    return [plain_phase(product, (left, right, result))]
