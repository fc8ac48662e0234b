"""Operators with a GPU kernel of their author's: a Triton function, launched as it is."""

from __future__ import annotations

import inspect
import math
import re
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hybridc.dialects.attribute import DType, Shape
from hybridc.errors import MXNetError
from hybridc.lower.triton.functions import Config, TritonFunction, TritonPhase

_JIT = re.compile(r"\A(@[^\n]*\n)+")
_FEWER = 2**31  # numbers below are given as 32 bits


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

    def phase(self, dtypes: Sequence[DType]) -> TritonPhase:
        """The launch on buffers of these dtypes, the inputs' and then the outputs'."""
        name = _plain(self.function).__name__
        head = f'"""{name}, written by hand."""\n\nimport triton\nimport triton.language as tl\n'
        source = "\n\n".join([head, *(_source(f) for f in (*self.helpers, self.function))])
        kinds = tuple("i32" if abs(n) < _FEWER else "i64" for n in self.numbers)
        made = TritonFunction(name, source, tuple(dtypes), kinds, tuple(self.constants))
        x, y, z = (*self.grid, 1, 1)[:3]
        config = Config(tuple(self.constants.items()), (x, y, z), self.warps, self.stages)
        return TritonPhase(made, tuple(range(len(dtypes))), tuple(self.numbers), (config,))


class HasGPUKernel(ABC):
    """An operator that computes itself on GPUs by a kernel of its author's; elsewhere it is what its kind says."""

    @abstractmethod
    def gpu(self, inputs: Sequence[ArraySpec], outputs: Sequence[ArraySpec]) -> GPUKernel:
        """The kernel for arrays of these shapes and dtypes."""


def _plain(function: Any) -> Any:
    """The Python function behind what ``triton.jit`` made of it."""
    return getattr(function, "fn", function)


def _source(function: Any) -> str:
    """The text of a function, with the decorator that makes it a kernel."""
    plain = _plain(function)
    try:
        text = textwrap.dedent(inspect.getsource(plain))
    except (OSError, TypeError) as error:
        raise MXNetError(
            f"the source of the GPU kernel {plain!r} cannot be read; define it with def, in a file ({error})"
        ) from error
    return "@triton.jit\n" + _JIT.sub("", text)
