"""What a value of a kernel is a product of: the numbers that are multiplied for it, through loops and casts.

Two such are the same if they are the same operations of the same values, though different kernels compute them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable

from xdsl.dialects import arith
from xdsl.dialects.linalg import ops as linalg
from xdsl.ir import Block, SSAValue

from hybridc.ir.kernel import Nest, Sources, number_of

Factors = Counter[Hashable]
_CASTS = (arith.ExtFOp, arith.TruncFOp)


class Products:
    """The factors of values of a nest. ``given`` says those of what the kernel is given."""

    def __init__(self, nest: Nest, given: Callable[[SSAValue], Factors]) -> None:
        self.sources, self.given = Sources(nest), given
        self.known: dict[SSAValue, Factors] = {}

    def of(self, value: SSAValue) -> Factors:
        """What is multiplied for a value, each as often as it is."""
        value = self.sources.source(value)
        if value not in self.known:
            self.known[value] = self._of(value)
        return self.known[value]

    def _of(self, value: SSAValue) -> Factors:
        number, op = number_of(value), value.owner
        if number is not None:
            return Counter([("number", number)])
        if isinstance(op, Block):
            return self.given(value)
        if isinstance(op, _CASTS):
            return self.of(op.operands[0])
        if isinstance(op, arith.MulfOp):
            return self.of(op.operands[0]) + self.of(op.operands[1])
        if isinstance(op, linalg.GenericOp | linalg.IndexOp):  # a reduction, or what loops say
            return Counter([value])
        operands = tuple(frozenset(self.of(v).items()) for v in op.operands)
        properties = tuple(sorted((name, str(p)) for name, p in op.properties.items() if name != "fastmath"))
        return Counter([(op.name, properties, str(value.type), operands)])
