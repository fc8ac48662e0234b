"""``b``, the builder of scalar bodies of kernels as data."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute

from hybridc.dtypes import DType, element_kind
from hybridc.ir.kernels.kernel import CONSTANT, EXTRACT, INDEX, BodyArgument, BodyOp, BodyValue, ScalarBody
from hybridc.ir.structured import scalar_of
from hybridc.ir.structured_builder import INT64, Element, ScalarSteps


class BodyBuilder(ScalarSteps[BodyValue]):
    """Appends steps to a body; ``dtypes`` are those of its arguments: the elements read, then the result."""

    def __init__(self, dtypes: Sequence[DType]) -> None:
        super().__init__()
        self.kinds = [element_kind(dtype) for dtype in dtypes]
        self.steps: list[BodyOp] = []

    def named(self, op: str, operands: Sequence[BodyValue], kind: Attribute) -> BodyValue:
        return self._add(BodyOp(op, tuple(operands), str(kind)))

    def number(self, attribute: Attribute, kind: Attribute) -> BodyValue:
        return self._add(BodyOp(CONSTANT, (), str(kind), scalar_of(attribute)))

    def _add(self, step: BodyOp) -> BodyOp:
        self.steps.append(step)
        return step

    def index_of(self, loop: int) -> Element[BodyValue]:
        """The index of a loop."""
        index = self._add(BodyOp(INDEX, (), "index", loop=loop))
        return Element(self, self._add(BodyOp("arith.index_cast", (index,), "i64")), INT64, index)

    def gather(self, table: int, dtype: DType, index: Sequence[Element[BodyValue]]) -> Element[BodyValue]:
        """The element of a table of the op at indices in range."""
        step = BodyOp(EXTRACT, tuple([self._place(i) for i in index]), element_kind(dtype), table=table)
        return Element(self, self._add(step), dtype)

    def body(self, result: Element[BodyValue]) -> ScalarBody:
        """The body that reads nothing but tables, and yields this."""
        arguments = tuple([BodyArgument(i, kind, unused=True) for i, kind in enumerate(self.kinds)])
        return ScalarBody(arguments, tuple(self.steps), result.value)


def copying_body(dtype: DType) -> ScalarBody:
    """The body that yields the element read."""
    kind = element_kind(dtype)
    element, initial = BodyArgument(0, kind), BodyArgument(1, kind, unused=True)
    return ScalarBody((element, initial), (), element)
