"""Many cases of an operator in one block, which is compiled once; each is compared by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hybridc.array.dispatch import invoke
from hybridc.dialects.stateful import Stateful
from hybridc.gluon.block import HybridBlock
from hybridc.ground.nesting import as_list
from hybridc.tools.check_op.case import SPECIAL, Case, each_dtype, each_elementwise, each_gradient, ndarrays
from hybridc.tools.check_op.check_compiled import each_other_dtype
from tests.slices import alone_if_wrong


@dataclass(frozen=True)
class Part:
    """One call of an operator: a case, its label, the inputs, and how many tolerances its results may be off."""

    label: str
    case: Case
    arrays: list[np.ndarray] = field(compare=False)
    factor: float = 4

    @property
    def dtype(self) -> str:
        """The dtype whose tolerance counts."""
        return self.case.dtype

    def differentiated(self) -> list[int]:
        """The inputs whose gradients are compared."""
        return [i for i, x in enumerate(self.arrays) if x.dtype == np.float64 and self.case.differentiable(i)]


def forward_parts(cls: Any) -> list[Part]:
    """Every sample in each of its dtypes; special values; small whole numbers in the other dtypes."""
    parts = [Part(label, case, case.arrays()) for label, case in each_dtype(cls)]
    for label, case in each_elementwise(cls):
        # Long enough for the vectorised part of a loop.
        grids = np.meshgrid(*[np.repeat(SPECIAL, 3)] * len(case.sample.inputs))
        made = Case(cls, case.call, case.sample, "float32")
        parts.append(Part(f"{label}-special", made, [g.astype("float32") for g in grids]))
    for label, case in each_other_dtype(cls):
        rng = np.random.default_rng(1)
        parts.append(Part(label, case, [rng.integers(1, 4, x.shape).astype(case.dtype) for x in case.arrays()], 2))
    return parts


def backward_parts(cls: Any) -> list[Part]:
    """Every sample that has a gradient, in float64."""
    return [Part(label, case, case.arrays("float64"), 100) for label, case in each_gradient(cls)]


# The other dtypes of an operator, of the next, and of the one after that.
_TURNS = (("float16", "int64"), ("bfloat16", "int8"), ("int32", "uint8"))


def of_each_dtype(number: int, part: Part) -> bool:
    """Each sample of an operator in its first dtype, the first one in all; two of the other dtypes."""
    dtypes = part.case.sample.dtypes
    if part.dtype not in dtypes:
        return part.dtype in _TURNS[number % len(_TURNS)]
    return part.case.call.endswith("-0") or part.dtype == dtypes[0]


def of_every_third(number: int, part: Part) -> bool:
    """The first sample, and of the others every third."""
    place = int(part.case.call.rpartition("-")[2])
    return place == 0 or (place + number) % 3 == 0


def groups(parts: Sequence[Part]) -> list[list[Part]]:
    """Those that go into one block: all, but what draws numbers or keeps a state is alone."""
    alone = [p for p in parts if p.case.cls.DRAWS or issubclass(p.case.cls, Stateful)]
    rest = [p for p in parts if p not in alone]
    return [group for group in (rest, *[[p] for p in alone]) if group]


class Together(HybridBlock):
    """A block of the calls; it takes one more input, so that operators without inputs can be compiled."""

    def __init__(self, parts: Sequence[Part]) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, *args: Any) -> list[Any]:
        """The results of all calls, one after the other."""
        given = iter(args[1:])
        outputs: list[Any] = []
        for part in self.parts:
            outputs += as_list(invoke(part.case.unbound(), [next(given) for _ in part.arrays]))
        return outputs


def inputs_of(parts: Sequence[Part]) -> list[list[Any]]:
    """Fresh NDArrays for each part."""
    return [ndarrays(part.arrays) for part in parts]


def by_part(parts: Sequence[Part], values: Iterable[Any], counts: Sequence[int] | None = None) -> list[list[Any]]:
    """Values for all parts, such as results, divided among them."""
    given = iter(values)
    if counts is None:
        counts = [part.case.unbound().num_visible_outputs() for part in parts]
    found = [[next(given) for _ in range(count)] for count in counts]
    assert not list(given)
    return found


def each_group(parts: Sequence[Part], check: Callable[[Sequence[Part]], None]) -> None:
    """The check on each group; an error names the part."""
    for group in groups(parts):
        alone_if_wrong(group, check, lambda part: part.label)
