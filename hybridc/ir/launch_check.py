"""Check a launch against what the kernel's code really needs: scratch bytes, and which results may be in place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from xdsl.ir import SSAValue

from hybridc.dialects.mlir.hybrid_rt import DonatedOp, ViewOp, aliased
from hybridc.errors import VerifyError
from hybridc.ir.structured import shape_of
from hybridc.ir.values import volume

Pairs = Collection[tuple[int, int]]


def check_launch(name: str, given: int, needed: int, over: Pairs, allowed: Callable[[], Pairs]) -> None:
    """Raise VerifyError unless the launch fits the code.

    ``given`` and ``needed`` are bytes of scratch; ``over`` are the pairs of an argument and the result that overwrites
    it,
    ``allowed()`` the pairs where the code has read the argument by then.
    """
    if given < needed:
        raise VerifyError(f"memory plan: @{name} is given {given} bytes of scratch, and its code needs {needed}")
    if not over:
        return
    wrong = sorted(set(over) - set(allowed()))
    if wrong:
        argument, result = wrong[0]
        raise VerifyError(
            f"memory plan: @{name} is to write result {result} over argument {argument}, which its code reads later"
        )


def written_over(ins: Sequence[SSAValue], outs: Sequence[SSAValue]) -> list[tuple[int, int]]:
    """Pairs of an argument and a result with the same address."""
    places = [_place(value) for value in ins]
    return [
        (i, j)
        for j, value in enumerate(outs)
        for i, place in enumerate(places)
        if place == _place(value) and volume(shape_of(value))
    ]


def _place(value: SSAValue) -> object:
    array = aliased(value)
    match array.owner:
        case ViewOp():
            return array.owner.offset.value.data
        case DonatedOp():
            return array.owner.argument
        case _:
            return array
