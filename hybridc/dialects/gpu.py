"""Operators with a GPU kernel of their author's: a Triton function, launched as it is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridc.dialects.attribute import DType, Shape


@dataclass(frozen=True)
class ArraySpec:
    """An array as a kernel is given it: plain, in C order."""

    shape: Shape
    dtype: DType

    @property
    def size(self) -> int:
        """How many elements it has."""
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
