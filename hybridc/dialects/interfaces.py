"""Interfaces of operators that targets query: hand-written GPU kernels, uniform random numbers, scatter-add of rows.

A hand-written kernel is a Triton function, launched as it is. For the others each target emits loops of its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridc.dialects.attribute import DType, Shape
from hybridc.dtypes import is_half


@dataclass(frozen=True)
class ArraySpec:
    """An array as a kernel is given it: plain, in C order."""

    shape: Shape
    dtype: DType

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class GPUKernel:
    """One launch of a Triton function.

    ``function`` takes a pointer to each input, then to each output, then the ``numbers``, then the ``constants`` by
    their names, as ``tl.constexpr``. It is a function of a file's, decorated with ``triton.jit`` or not at all; of its
    module it sees ``triton``, ``tl`` and the functions ``helpers``. ``grid`` counts programs along up to three axes;
    each is run by ``warps``, and ``stages`` of its loops overlap.
    """

    function: Callable[..., Any]
    grid: Sequence[int]
    numbers: Sequence[int] = ()
    constants: Mapping[str, int] = field(default_factory=lambda: dict[str, int]())
    warps: int = 4
    stages: int = 2
    helpers: Sequence[Callable[..., Any]] = ()


class HasGPUKernel(ABC):
    """An operator that computes itself on GPUs by a kernel of its author's; elsewhere it is what its kind says."""

    @abstractmethod
    def gpu(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> GPUKernel:
        """The kernel for arrays of these shapes and dtypes."""


# --- random numbers ---------------------------------------------------------------------------------------------------


class DrawsUniform:
    """An operator of one input, a key of two words, whose result is uniform numbers in [0, 1) of one draw.

    They are those of :func:`hybridc.random.generator`: Philox with the key's first word as key, and its second plus
    the number of the draw as the counter's highest word; 24 bits for single and half precision, 53 for double.
    """

    def draw_number(self) -> int:
        """The number of this draw among those of one key."""
        raise NotImplementedError


# --- rows added at indices --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowSums:
    """``out[o, place(indices[k])] += data[o, k]``, from zeros and in the order of k, for blocks of ``inner`` elements.

    ``out`` has ``outer`` times ``rows`` of them; ``mode``, clip or wrap, says what indices out of range mean.
    """

    outer: int
    rows: int
    inner: int
    mode: str


class AddsRows:
    """An operator of two inputs, data and indices, that may be such a sum."""

    def row_sums(self) -> RowSums | None:
        """The sum that it is; None if it does more."""
        return None


def in_single(F: Any, x: Any, adding: Callable[[Any], Any]) -> Any:
    """``adding(x)``, accumulated in float32 if ``x`` has half precision: many elements may be added to one."""
    return F.cast(adding(F.cast(x, "float32")), x.dtype) if is_half(x.dtype) else adding(x)
