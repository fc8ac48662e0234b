"""The epilogue of a matmul as statements about its sums, which are in registers: element by element, in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from xdsl.ir import SSAValue

from hybridc.ir.contraction_shape import accesses_after
from hybridc.ir.kernel import Axes, Kernel, Read
from hybridc.ir.loop_nest_plan import LoopNestPlan
from hybridc.ir.tile_program import Address, Factor, Statement, TileLoad, TileStore
from hybridc.transforms.kernels.schedule_kernels import BodyStatements, kind_of

# The name of the sums in an epilogue's statements.
TOTAL = "total"


@dataclass(frozen=True)
class Epilogue:
    """Statements about ``TOTAL``, the last of which store results.

    Array ``i`` of those that they access, which are of these ``kinds``, is called ``e`` and its number; where its
    elements are is said by :meth:`at`.
    """

    statements: tuple[Statement, ...]
    kinds: tuple[str, ...]

    def at(self, addresses: Sequence[Address]) -> list[Statement]:
        """The statements with the address of an element of each array."""
        of = {f"e{i}": address for i, address in enumerate(addresses)}
        return [
            replace(s, address=of[s.address.buffer]) if isinstance(s, TileLoad | TileStore) else s
            for s in self.statements
        ]


def epilogue_of(kernel: Kernel) -> Epilogue | None:
    """The epilogue of a kernel of one contraction; None if it has none."""
    (nest,) = kernel.nests
    if len(nest.ops) == 1:
        return None
    assert nest.contraction is not None, "a kernel of a contraction"
    arrays = accesses_after(kernel)
    body = _EpilogueBody(
        LoopNestPlan(nest, (), {}, (), (), False, frozenset()),
        known={nest.contraction.result: TOTAL},
        varying={TOTAL},
        prefix="e",
        numbers={(read.value, read.axes): i for i, read in enumerate(arrays)},
    )
    for op in nest.ops:
        if op is not nest.contraction:
            body.known[op.result] = body.body(op)
    stores = [TileStore(body.known[v], Address(f"e{i}", ())) for i, v in enumerate(kernel.results)]
    return Epilogue((*body.before, *body.statements, *stores), tuple([kind_of(r.value) for r in arrays]))


@dataclass(eq=False)
class _EpilogueBody(BodyStatements):
    """The statements of one element; arrays, by value and axes, have numbers in place of addresses."""

    numbers: dict[tuple[SSAValue, Axes], int] = field(default_factory=dict[tuple[SSAValue, Axes], int])

    def address(self, read: Read) -> Address:
        return Address(f"e{self.numbers[read.value, read.axes]}", ())

    def buffer(self, value: SSAValue) -> str:
        raise LookupError(f"an epilogue reads {value} at computed indices")

    def strides(self, value: SSAValue) -> tuple[Factor, ...]:
        raise LookupError(f"an epilogue reads {value} at computed indices")
