"""Handwritten kernels: the results of an operator's ``kernel`` for a target.

For ``"triton"`` a :class:`TritonKernel`, for ``"llvm"`` a :class:`LoopKernel`, for ``"numpy"`` a function that writes
into ``out=``, such as a ufunc. These are descriptions, independent of the targets' code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from hybridc.dialects.operator_attribute import DType, Shape
from hybridc.errors import AttributeValueError
from hybridc.ground.records import dataclass
from hybridc.ground.sizes import Size


@dataclass(frozen=True)
class ArraySpec:
    """Shape and dtype of a kernel's argument: an array in C order."""

    shape: Shape
    dtype: DType

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class TritonKernel:
    """One launch of a Triton function.

    ``function`` takes a pointer to each input, then to each output, then the integers ``numbers``, then the
    ``constants`` by name, as ``tl.constexpr``. It is a function in a file, decorated with ``triton.jit`` or not; of its
    module it sees ``triton``, ``tl`` and the functions ``helpers``. ``grid`` is the number of programs along up to
    three axes; each has ``warps`` warps, and its loops are pipelined in ``stages`` stages.
    """

    function: Callable[..., Any]
    grid: Sequence[int]
    numbers: Sequence[int] = ()
    constants: Mapping[str, int] = field(default_factory=lambda: dict[str, int]())
    warps: int = 4
    stages: int = 2
    helpers: Sequence[Callable[..., Any]] = ()

    def __post_init__(self) -> None:
        _require_function("TritonKernel", self.function)
        _require_integers("TritonKernel", "grid", self.grid)
        _require_integers("TritonKernel", "numbers", self.numbers)
        if not 1 <= len(self.grid) <= 3:
            raise AttributeValueError(f"TritonKernel: grid has one to three axes, got {tuple(self.grid)}")


@dataclass(frozen=True)
class LoopKernel:
    """A native loop, written with a builder.

    ``body(b, low, high, *inputs, *outputs, *numbers)`` emits, with the builder ``b``, the iterations from ``low`` to
    ``high`` of [0, ``extent``). Threads share these, so iterations must be independent. Elements and indices are
    computed as in scalar bodies, by Python's operators and by the functions of ``b``, which has, too,

    * ``x[i, j]`` and ``y[i, j] = value``, or ``b.load(x, i, j)`` and ``b.store(value, y, i, j)``: an element by its
      indices, or by one index in C order;
    * ``b.loop(low, high, body, *starts)``: ``body(i, *carried)`` returns the next carried values; the loop the last;
    * ``b.constant(number, dtype)``, ``b.xor(x, y)``, ``b.shift_right(x, count)``, ``b.wide_product(x, y)``.

    Arrays have a shape and a dtype. Python's sizes are constants of the code; the ``numbers``, 64-bit integers,
    are arguments, so that kernels which differ in them share code. With ``flat``, arrays have one axis, of dynamic
    size. Equal bodies emit equal code for arrays of equal shapes and dtypes, which is cached. ``work``
    estimates the time of all iterations in nanoseconds, on one thread, ``setup`` that of each range, however
    short.
    """

    body: Callable[..., None]
    extent: int
    numbers: Sequence[int] = ()
    flat: bool = False
    work: float | None = None
    setup: float = 0.0

    def __post_init__(self) -> None:
        _require_function("LoopKernel", self.body)
        _require_integers("LoopKernel", "extent", [self.extent])
        _require_integers("LoopKernel", "numbers", self.numbers)


def _require_function(title: str, given: Any) -> None:
    if not callable(given):
        raise AttributeValueError(f"{title}: the kernel must be a function, got {given!r}")


def _require_integers(title: str, name: str, given: Any) -> None:
    if not isinstance(given, list | tuple) or not all(type(n) in (int, Size) for n in cast(Sequence[Any], given)):
        raise AttributeValueError(f"{title}: {name} takes Python integers, got {given!r}")


Kernel = TritonKernel | LoopKernel | Callable[..., Any]

# What an operator's kernel returns for each target, for error texts.
RETURNED: dict[str, tuple[type | None, str]] = {
    "numpy": (None, "a function that takes the inputs and out="),
    "llvm": (LoopKernel, "an mx.op.LoopKernel"),
    "triton": (TritonKernel, "an mx.op.TritonKernel"),
}
