"""Kernels written by hand: what an operator's ``kernel`` returns for a target.

For ``"triton"`` a :class:`TritonKernel`, for ``"llvm"`` a :class:`LoopKernel`, for ``"numpy"`` a function that writes
into ``out=``, such as a ufunc. Nothing here knows a target: these are descriptions, which each target runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from hybridc.dialects.attribute import DType, Shape
from hybridc.errors import AttributeValueError


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
class TritonKernel:
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

    def __post_init__(self) -> None:
        _require_function("TritonKernel", self.function)
        _require_integers("TritonKernel", "grid", self.grid)
        _require_integers("TritonKernel", "numbers", self.numbers)
        if not 1 <= len(self.grid) <= 3:
            raise AttributeValueError(f"TritonKernel: grid has one to three axes, got {tuple(self.grid)}")


@dataclass(frozen=True)
class LoopKernel:
    """Native loops, written with a builder.

    ``body(b, low, high, *inputs, *outputs, *numbers)`` writes, with the builder ``b``, the iterations from ``low`` to
    ``high`` of [0, ``extent``). Threads share these, so no iteration may read or write what another one writes. ``b``
    has the steps of scalar bodies, of which an element and an index are both values, and beside them

    * ``b.load(x, i, j)`` and ``b.store(value, y, i, j)``: an element by its indices, or by one index in C order;
    * ``b.loop(low, high, body, *starts)``: ``body(i, *carried)`` gives what is carried on; the loop gives the last;
    * ``b.constant(number, dtype)``, ``b.xor(x, y)``, ``b.shift_right(x, count)``, ``b.wide_product(x, y)``.

    Arrays have ``shape`` and ``dtype``. Sizes that are Python's are part of the code; the ``numbers``, 64-bit integers,
    are not, so that kernels which differ in them share it. With ``flat`` arrays have one axis, of a size that the code
    does not know. Equal bodies write equal code for arrays of equal shapes and dtypes: they are asked once. ``work``
    estimates the time of all iterations in nanoseconds, on one thread, and ``setup`` what each range takes however
    short it is.
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
        raise AttributeValueError(f"{title}: the kernel is a function, got {given!r}")


def _require_integers(title: str, name: str, given: Any) -> None:
    if not isinstance(given, list | tuple) or not all(type(n) is int for n in cast(Sequence[Any], given)):
        raise AttributeValueError(f"{title}: {name} takes whole numbers of Python's, got {given!r}")


Kernel = TritonKernel | LoopKernel | Callable[..., Any]

# What an operator's kernel returns for each target, in words.
RETURNED: dict[str, tuple[type | None, str]] = {
    "numpy": (None, "a function that takes the inputs and out="),
    "llvm": (LoopKernel, "an mx.op.LoopKernel"),
    "triton": (TritonKernel, "an mx.op.TritonKernel"),
}
